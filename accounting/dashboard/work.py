"""Long computations outside the server's process: what pages ask for, and the chain's verification again and again.

They are bounded in time and in number; what a page asks for is computed once.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from typing import Any, Literal

MOST_WAITING = 64
MOST_REMEMBERED = 2_000
SECONDS_A_JOB = 6.0
SECONDS_OF = {"forecast": 20.0}  # jobs that compute many prices have more time
SECONDS_TO_START = 120.0
SECONDS_TOO_LONG_IS_REMEMBERED = 60.0


class Worker:
    """A process of its own that does one job at a time, and is killed where one takes too long."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def run(self, job: str, of: Mapping[str, Any], *, seconds: float) -> dict[str, Any] | None:
        """Return the job's answer; None where it took longer, or the process broke or could not be started.

        Its time begins when the process is ready for it.
        """
        try:
            if not any(process.is_alive() for process in self._processes()):
                self.close()
                # A job's matrices are small: on a busy machine threads wait for each other longer than one computes.
                os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
                fresh = multiprocessing.get_context("spawn")  # a fork would have locks that other threads hold
                self._pool = ProcessPoolExecutor(1, mp_context=fresh, initializer=_alone)
                self._pool.submit(_ready).result(SECONDS_TO_START)
            return None if self._pool is None else self._pool.submit(_answer, job, of).result(seconds)
        except Exception:  # noqa: BLE001 - whatever broke it, there is no answer
            self.close()
            return None

    def close(self) -> None:
        """End the process, whatever it does."""
        processes, pool, self._pool = self._processes(), self._pool, None
        for process in processes:
            process.kill()
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _processes(self) -> list[BaseProcess]:
        known = None if self._pool is None else self._pool._processes
        return [] if known is None else list(known.values())


def _alone() -> None:
    """Leave interruptions to the server, tell nothing, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
    os._exit(1)


def _ready() -> None:
    from . import computations  # noqa: F401 - so that the first job's time isn't spent on it


def _answer(job: str, of: Mapping[str, Any]) -> dict[str, Any]:
    from .computations import compute

    return compute(job, of)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What became of a computation.

    Args:
        found: its result, None where there is none.
        why_not: why there is none, for people; None where there is one, or it isn't known yet.
    """

    found: Mapping[str, Any] | None = None
    why_not: str | None = None

    @property
    def pending(self) -> bool:
        """Whether it is still being computed."""
        return self.found is None and self.why_not is None


PENDING = Answer()
TOO_LONG = Answer(why_not="This takes too long for a page. The command line has no such limit: crowdblend plan.")
TOO_MANY = Answer(why_not="Too many computations are waiting. Try again in a minute.")


class JobQueue:
    """Takes jobs, has one worker do them in their order, and remembers their answers."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Future[Answer]] = OrderedDict()
        self._again: dict[str, float] = {}
        self._lock = threading.Lock()
        self._worker = Worker()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="computations")

    def ask(self, job: str, of: Mapping[str, Any], *, wait: float) -> Answer:
        """Return the answer, as far as it is known after some seconds of waiting."""
        key = repr((job, sorted(of.items())))
        with self._lock:
            if self._again.get(key, math.inf) < time.monotonic():  # the machine may have been busy
                del self._again[key]
                self._answers.pop(key, None)
            if key not in self._answers:
                # Whoever asks for many computations is refused a further one, instead of making everybody else wait
                # behind them.
                if sum(not known.done() for known in self._answers.values()) > MOST_WAITING:
                    return TOO_MANY
                self._answers[key] = self._thread.submit(self._work, key, job, of)
            self._answers.move_to_end(key)
            known = self._answers[key]
            while len(self._answers) > MOST_REMEMBERED:
                self._again.pop(self._answers.popitem(last=False)[0], None)
        try:
            return known.result(timeout=wait)
        except (TimeoutError, CancelledError):
            return PENDING

    def close(self) -> None:
        """End the worker."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._worker.close()
        self._thread.shutdown()
        self._worker.close()  # it may have begun one more meanwhile

    def _work(self, key: str, job: str, of: Mapping[str, Any]) -> Answer:
        found = self._worker.run(job, of, seconds=SECONDS_OF.get(job, SECONDS_A_JOB))
        if found is None:
            with self._lock:
                self._again[key] = time.monotonic() + SECONDS_TOO_LONG_IS_REMEMBERED
            return TOO_LONG
        return Answer(why_not=str(found["refused"])) if "refused" in found else Answer(found=found)


LONGEST = 3_600.0
SECONDS_BETWEEN = 300.0
LEAST_BETWEEN = 10.0
SHARE_OF_TIME = 4.0
MOST_FINDINGS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One finding of a verification."""

    position: int | None  # the entry that it concerns, None where it concerns no single one
    what: str  # the fault in one sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainState:
    """What the last verification found."""

    # "sound", "broken", "unknown" before the first has ended, or "failed" where it could not be done
    verdict: Literal["sound", "broken", "unknown", "failed"] = "unknown"
    verified_to: int | None = None  # the last entry that it saw, None where there is none
    head_hash: str | None = None  # that entry's hash, None where there is none
    findings: tuple[Fault, ...] = ()  # what does not hold: the first ones, in the order of the chain
    findings_in_all: int = 0  # how many there are
    unchecked: tuple[str, ...] = ()  # what it could not show, one sentence each
    ended: str | None = None  # when it ended, in UTC to the second; None where none has
    seconds: float | None = None  # how long it took, None where none has ended
    running: bool = True  # whether one is under way


WITHOUT_ANCHOR = (
    "Truncation, an older copy put back, and a chain written anew as a whole: that takes an anchor (--anchor FILE)."
)


class ChainWatch:
    """Verifies at its start, then where the chain has grown, where somebody asks, and from time to time.

    Between two verifications lie at least ten seconds and four times the last one's duration, whoever asks. After each,
    `ended` is called outside any lock.
    """

    def __init__(self, job: dict[str, Any], *, ended: Callable[[ChainState], None]) -> None:
        self._job, self._ended = job, ended
        self._state = ChainState()
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self._process = Worker()
        self._thread = threading.Thread(target=self._work, name="verification", daemon=True)

    def start(self) -> None:
        """Begin the first verification."""
        self._thread.start()

    @property
    def state(self) -> ChainState:
        """What is known now."""
        return self._state

    def ask(self) -> None:
        """Ask for a verification as soon as one may begin."""
        self._wanted.set()

    def close(self) -> None:
        """End, with a verification that is under way."""
        self._closing.set()
        self._wanted.set()
        self._process.close()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        while not self._closing.is_set():
            self._wanted.clear()
            # What the last verification found stays visible while the next one runs.
            self._state = replace(self._state, running=True)
            begun = time.monotonic()
            answer = self._process.run("verify", self._job, seconds=LONGEST)
            self._process.close()  # gives the memory back
            seconds = time.monotonic() - begun
            if self._closing.is_set():
                return
            self._state = _state_of(answer, seconds)
            self._ended(self._state)
            # A share of the time, not a fixed pause: on a large ledger a verification takes minutes, and must leave the
            # processor to others most of the time.
            if self._closing.wait(max(LEAST_BETWEEN, SHARE_OF_TIME * seconds)):
                return
            self._wanted.wait(SECONDS_BETWEEN)


def _state_of(answer: dict[str, Any] | None, seconds: float) -> ChainState:
    ended = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if answer is None or "refused" in answer:
        why = "The verification broke off." if answer is None else str(answer["refused"])
        faults = (Fault(position=None, what=why),)
        return ChainState(
            verdict="failed", findings=faults, findings_in_all=1, ended=ended, seconds=seconds, running=False
        )
    findings = tuple(Fault(**one) for one in answer["findings"])
    return ChainState(
        verdict="broken" if findings else "sound",
        verified_to=answer["position"],
        head_hash=answer["hash"],
        findings=findings[:MOST_FINDINGS],
        findings_in_all=len(findings),
        unchecked=tuple(answer["unchecked"]) or (WITHOUT_ANCHOR,),
        ended=ended,
        seconds=round(seconds, 1),
        running=False,
    )
