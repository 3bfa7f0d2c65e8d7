"""Long computations hold nothing up: they are bounded in time and in number, and none is taken for another."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from crowdblend.accounting.dashboard import work
from crowdblend.accounting.dashboard.work import (
    MOST_WAITING,
    SECONDS_A_JOB,
    SECONDS_OF,
    ChainWatch,
    JobQueue,
    Worker,
)

NO_SUCH_JOB = "there is no such job."
PLAN = {"k": 20, "sampling_rate": "0.1", "epsilon": "", "delta": "1e-6", "releases": 1}


def process_of(worker: Worker):
    """The one process that a worker has."""
    [process] = worker._pool._processes.values()
    return process


@pytest.fixture
def begun() -> Callable[[], list[int]]:
    """Process ids of the workers started since the test began: another test's pages may still have theirs."""
    before = {process.pid for process in multiprocessing.active_children()}
    return lambda: [one.pid for one in multiprocessing.active_children() if one.pid not in before]


@pytest.fixture
def worker():
    made = Worker()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True])
def test_its_process_ends_whatever_it_does(worker, busy) -> None:
    assert worker.run("none", {}, seconds=60) == {"refused": NO_SUCH_JOB}
    process = process_of(worker)
    if busy:
        os.kill(process.pid, signal.SIGSTOP)  # as one that computes without end
        assert worker.run("plan", PLAN, seconds=0.3) is None
    else:
        worker.close()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_after_a_job_that_took_too_long_the_next_gets_its_own_answer(worker) -> None:
    planned = worker.run("plan", PLAN, seconds=60)
    assert planned is not None
    assert float(planned["epsilon_exact"]) > 0
    assert worker.run("plan", PLAN | {"k": 9_999, "releases": 9_999}, seconds=0.001) is None
    assert worker.run("plan", PLAN, seconds=60) == planned


@pytest.mark.slow
def test_a_process_that_died_is_started_again(worker) -> None:
    assert worker.run("none", {}, seconds=60) == {"refused": NO_SUCH_JOB}
    process = process_of(worker)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    while process.exitcode is None:  # the pool waits for it too, and may have heard of its end without having noted it
        time.sleep(0.01)
    assert worker.run("none", {}, seconds=60) == {"refused": NO_SUCH_JOB}


@pytest.mark.slow
def test_a_process_ends_with_the_one_that_began_it() -> None:
    script = (
        "import os, signal; from crowdblend.accounting.dashboard.work import Worker\n"
        "worker = Worker(); worker.run('none', {}, seconds=60)\n"
        "print([one.pid for one in worker._pool._processes.values()][0], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, check=False, timeout=300
    )
    assert ended.returncode == -signal.SIGKILL
    for _ in range(600):
        if not is_running(int(ended.stdout)):
            return
        time.sleep(0.1)
    pytest.fail("the process goes on alone")


def is_running(pid: int) -> bool:
    """Whether a process is there, and not merely not waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_parameters_that_cant_be_computed_with_are_refused_without_their_values(worker) -> None:
    fault = worker.run("plan", PLAN | {"sampling_rate": "secret"}, seconds=60)
    assert fault == {"refused": "These parameters can't be computed with (InvalidOperation)."}
    curve = {"mechanism": {"kind": "suppressed-histogram/1", "k": 20, "sampling_rate": "0.1"}, "delta": "1e-6"}
    assert "no curve for this mechanism" in str(worker.run("curve", curve, seconds=60))


def test_a_process_that_cant_be_started_answers_nothing_and_is_tried_again(worker, monkeypatch) -> None:
    def no_memory(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as patched:
        patched.setattr(multiprocessing.get_context("spawn").Process, "start", no_memory)
        assert worker.run("none", {}, seconds=60) is None
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONHOME", "/nowhere")  # it ends before it is ready
        assert worker.run("none", {}, seconds=60) is None
    assert worker.run("none", {}, seconds=60) == {"refused": NO_SUCH_JOB}


def test_a_verification_that_breaks_off_is_not_taken_for_a_sound_ledger(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    ended: list[object] = []
    watch = ChainWatch({"url": f"sqlite:///{tmp_path / 'none.db'}", "anchor": None, "keys": []}, ended=ended.append)
    watch.start()
    try:
        for _ in range(600):
            if ended:
                break
            time.sleep(0.1)
        state = watch.state
        assert ended == [state]
        assert (state.verdict, state.verified_to, state.running) == ("failed", None, False)
        assert [one.what for one in state.findings] == ["The verification broke off."]
    finally:
        watch.close()


@pytest.mark.slow
def test_a_computation_that_takes_too_long_is_given_up_told_and_tried_again_later(monkeypatch, begun) -> None:
    desk, clock = JobQueue(), time.monotonic
    try:
        assert desk.ask("none", {"number": 0}, wait=120).why_not == NO_SUCH_JOB
        (pid,) = begun()
        os.kill(pid, signal.SIGSTOP)
        assert desk.ask("none", {"number": 1}, wait=0.5).pending
        assert all(desk.ask("none", {"number": 2 + more}, wait=0).pending for more in range(MOST_WAITING))
        refused = desk.ask("none", {"number": 2 + MOST_WAITING}, wait=60)
        assert "Too many computations are waiting" in str(refused.why_not)
        assert desk.ask("none", {"number": 0}, wait=0).why_not == NO_SUCH_JOB, "what is known is told meanwhile"
        given_up = desk.ask("none", {"number": 1}, wait=SECONDS_A_JOB + 60)
        assert "takes too long for a page" in str(given_up.why_not)
        assert desk.ask("none", {"number": 1 + MOST_WAITING}, wait=120).why_not == NO_SUCH_JOB
        assert desk.ask("none", {"number": 1}, wait=0) == given_up
        monkeypatch.setattr(time, "monotonic", lambda: clock() + 61)
        assert desk.ask("none", {"number": 1}, wait=120).why_not == NO_SUCH_JOB
    finally:
        desk.close()
    assert begun() == []


def test_a_forecast_that_takes_longer_than_its_own_time_ends_with_its_process(monkeypatch, begun) -> None:
    """A visitor asks for the longest one: it has one process, which is killed when its time is over."""
    monkeypatch.setitem(SECONDS_OF, "forecast", 0.05)
    desk = JobQueue()
    try:
        calendars = [f"1/day of k={k},rate=0.9" for k in (10_000, 9_999, 9_998, 9_997, 9_996)]
        left = {"epsilon": "3", "delta": "1e-15"}
        asked = {"left": left, "calendars": calendars, "k": 20, "sampling_rate": "0.1"}
        given_up = desk.ask("forecast", asked, wait=120)
        assert "takes too long for a page" in str(given_up.why_not)
        assert begun() == []
    finally:
        desk.close()


def test_answers_are_remembered_within_bounds(monkeypatch) -> None:
    monkeypatch.setattr(work, "MOST_REMEMBERED", 50)
    desk = JobQueue()
    try:
        for number in range(53):
            assert desk.ask("none", {"number": number}, wait=120).why_not == NO_SUCH_JOB
        assert len(desk._answers) == 50
        assert desk.ask("none", {"number": 50}, wait=0).why_not == NO_SUCH_JOB
        assert desk.ask("none", {"number": 0}, wait=120).why_not == NO_SUCH_JOB, "computed again"
    finally:
        desk.close()


def test_closing_drops_what_waits(begun) -> None:
    desk = JobQueue()
    assert desk.ask("none", {}, wait=120).why_not == NO_SUCH_JOB
    for number in range(MOST_WAITING):
        desk.ask("none", {"number": number}, wait=0)
    desk.close()
    assert begun() == []
