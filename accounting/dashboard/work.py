"""Long computations outside the server's process: what pages ask for, and the chain's verification again and again.

They are bounded in time and in number; what a page asks for is computed once. A worker process runs this module as its
program and answers jobs, one JSON object a line.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from queue import Empty, Full, Queue
from typing import IO, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.errors import InputRefused, Refusal
from ..ledger.entries.values import Account
from ..ledger.overview import composed_estimate
from ..ledger.private_store.signing import PublicKey
from ..ledger.reader import open_reader
from ..theory.kinds.registry import kind_of, mechanism_of_record
from ..theory.planning.forecast import BudgetLeft, FilterLeft, forecast, forecast_facts, read_calendar
from ..theory.planning.planner import plan
from ..theory.privacy_profile import exp_up

__all__ = ["Answer", "ChainState", "ChainWatch", "Fault", "JobQueue", "WorkerProcess", "main"]

MOST_WAITING = 64
MOST_REMEMBERED = 2_000
SECONDS_A_JOB = 6.0
SECONDS_OF = {"forecast": 20.0}
"""Jobs that compute many prices have more time."""
SECONDS_TO_START = 120.0
SECONDS_TO_END = 5.0
SECONDS_TOO_LONG_IS_REMEMBERED = 60.0
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""A job's matrices are small: on a busy machine several threads wait for each other longer than one computes."""
PROGRAM = [sys.executable, "-P", "-W", "ignore", "-m", "crowdblend.accounting.dashboard.work"]


class WorkerProcess:
    """A process that answers jobs one by one, and is ended where one takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._idle = True

    def run(self, job: str, of: Mapping[str, Any], *, seconds: float) -> dict[str, Any] | None:
        """The job's answer; None where it took longer, or the process broke or could not be started.

        Its time begins when the process is ready for it.
        """
        self._idle = False
        try:
            sink, source = self._pipes()
            sink.write(json.dumps({"job": job, "of": of}).encode() + b"\n")
            sink.flush()
            line = _line(source.fileno(), until=time.monotonic() + seconds)
        except OSError:
            line = b""
        self._idle = line.endswith(b"\n")
        if not self._idle:
            self.close()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process: an idle one ends by itself with its input, a busy one is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        if self._idle:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=SECONDS_TO_END)
        process.kill()
        process.communicate()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """To and from the process, which is ready for a job; it is started where there is none."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(  # noqa: S603 - this program's own interpreter and module
                PROGRAM,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=ONE_THREAD | os.environ,
            )
            source = cast("IO[bytes]", self._process.stdout)
            # INVARIANT: the line that says so is read before any job: an answer is never taken for another job's.
            if not _line(source.fileno(), until=time.monotonic() + SECONDS_TO_START).endswith(b"\n"):
                raise TimeoutError("the process did not start in time")
        return cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)


def _line(source: int, *, until: float) -> bytes:
    """Bytes up to the end of a line, or up to a moment."""
    read = b""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while not read.endswith(b"\n") and (left := until - time.monotonic()) > 0:
            if not selector.select(left):
                break
            chunk = os.read(source, 1 << 16)
            if not chunk:
                break
            read += chunk
    return read


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What became of a computation.

    Args:
        found: its result, None where there is none.
        why_not: why there is none, for people; None where there is one, or it isn't known yet.
    """

    found: Mapping[str, Any] | None
    why_not: str | None

    @property
    def pending(self) -> bool:
        """Whether it is still being computed."""
        return self.found is None and self.why_not is None


PENDING = Answer(found=None, why_not=None)
TOO_LONG = Answer(
    found=None, why_not="This takes too long for a page. On the command line there is no such limit: crowdblend plan."
)
TOO_MANY = Answer(found=None, why_not="Too many computations are waiting. Try again in a minute.")


class JobQueue:
    """Takes jobs, has one worker do them in their order, and remembers their answers."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._too_long: OrderedDict[str, float] = OrderedDict()
        self._changed = threading.Condition()
        self._queue: Queue[tuple[str, str, Mapping[str, Any]] | None] = Queue(maxsize=MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="computations", daemon=True)
        self._thread.start()

    def ask(self, job: str, of: Mapping[str, Any], *, wait: float) -> Answer:
        """The answer, as far as it is known after some seconds of waiting."""
        key = json.dumps([job, of], sort_keys=True)
        with self._changed:
            if self._too_long.get(key, math.inf) < time.monotonic():
                del self._too_long[key]  # the machine may have been busy
                self._answers.pop(key, None)
            if key not in self._answers:
                try:
                    self._queue.put_nowait((key, job, of))
                except Full:
                    return TOO_MANY
                self._remember(key, PENDING)
            self._answers.move_to_end(key)
            self._changed.wait_for(lambda: not self._answers.get(key, TOO_LONG).pending, timeout=wait)
            return self._answers.get(key, PENDING)

    def close(self) -> None:
        """End the worker."""
        with suppress(Empty):  # the thread may take the last one meanwhile
            while True:
                self._queue.get_nowait()
        self._queue.put(None)
        self._thread.join(timeout=max(SECONDS_A_JOB, *SECONDS_OF.values()) + SECONDS_TO_END)

    def _work(self) -> None:
        process = WorkerProcess()
        try:
            while (taken := self._queue.get()) is not None:
                key, job, of = taken
                found = process.run(job, of, seconds=SECONDS_OF.get(job, SECONDS_A_JOB))
                if found is None:
                    answer = TOO_LONG
                elif "refused" in found:
                    answer = Answer(found=None, why_not=str(found["refused"]))
                else:
                    answer = Answer(found=found, why_not=None)
                with self._changed:
                    self._remember(key, answer)
                    if answer is TOO_LONG:
                        self._too_long[key] = time.monotonic() + SECONDS_TOO_LONG_IS_REMEMBERED
                    self._changed.notify_all()
        finally:
            process.close()

    def _remember(self, key: str, answer: Answer) -> None:
        self._answers[key] = answer
        while len(self._answers) > MOST_REMEMBERED:
            self._too_long.pop(self._answers.popitem(last=False)[0], None)


LONGEST = 3_600.0
SECONDS_BETWEEN = 300.0
LEAST_BETWEEN = 10.0
SHARE_OF_TIME = 4.0
MOST_FINDINGS = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One finding of a verification.

    Args:
        position: the entry that it concerns, None where it concerns no single one.
        what: the fault in one sentence.
    """

    position: int | None
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChainState:
    """What the last verification found.

    Args:
        verdict: "sound", "broken", "unknown" before the first has ended, or "failed" where it could not be done.
        verified_to: the last entry that it saw, None where there is none.
        head_hash: that entry's hash, None where there is none.
        findings: what does not hold: the first ones, in the order of the chain.
        findings_in_all: how many there are.
        unchecked: what it could not show, one sentence each.
        ended: when it ended, in UTC to the second; None where none has.
        seconds: how long it took, None where none has ended.
        running: whether one is under way.
    """

    verdict: Literal["sound", "broken", "unknown", "failed"]
    verified_to: int | None
    head_hash: str | None
    findings: tuple[Fault, ...]
    findings_in_all: int
    unchecked: tuple[str, ...]
    ended: str | None
    seconds: float | None
    running: bool


UNKNOWN = ChainState(
    verdict="unknown",
    verified_to=None,
    head_hash=None,
    findings=(),
    findings_in_all=0,
    unchecked=(),
    ended=None,
    seconds=None,
    running=True,
)
WITHOUT_ANCHOR = (
    "Truncation, an older copy put back, and a chain written anew as a whole: that takes an anchor (--anchor FILE)."
)


class ChainWatch:
    """Verifies at its start, then where the chain has grown, where somebody asks, and from time to time.

    Between two verifications lie at least ten seconds and four times the last one's duration, whoever asks.

    Args:
        job: the worker's arguments.
        ended: called after each verification, outside any lock.
    """

    def __init__(self, job: dict[str, Any], *, ended: Callable[[ChainState], None]) -> None:
        self._job, self._ended = job, ended
        self._state = UNKNOWN
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self._process = WorkerProcess()
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
            self._state = replace(self._state, running=True)
            begun = time.monotonic()
            answer = self._process.run("verify", self._job, seconds=LONGEST)
            self._process.close()  # gives the memory back
            seconds = time.monotonic() - begun
            if self._closing.is_set():
                return
            self._state = _state_of(answer, seconds)
            self._ended(self._state)
            if self._closing.wait(max(LEAST_BETWEEN, SHARE_OF_TIME * seconds)):
                return
            self._wanted.wait(SECONDS_BETWEEN)


def _state_of(answer: dict[str, Any] | None, seconds: float) -> ChainState:
    ended = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if answer is None or "refused" in answer:
        why = "The verification broke off." if answer is None else str(answer["refused"])
        fault = Fault(position=None, what=why)
        return replace(
            UNKNOWN, verdict="failed", findings=(fault,), findings_in_all=1, ended=ended, seconds=seconds, running=False
        )
    findings = tuple(Fault(position=one["position"], what=str(one["what"])) for one in answer["findings"])
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


POINTS = 121
LEAST_DELTA = 1e-30


def main() -> None:
    """Say that it is ready; then answer each line of standard input with one of output, until the input ends."""
    sys.stdout.write('"ready"\n')
    sys.stdout.flush()
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = JOBS[job["job"]](**job["of"])
        except Refusal as refusal:
            answer = {"refused": " ".join(part for part in (refusal.what, refusal.remedy) if part)}
        except (ArithmeticError, MemoryError, ValueError) as fault:
            answer = {"refused": f"These parameters can't be computed with ({type(fault).__name__})."}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _verify(url: str, anchor: str | None, keys: list[str]) -> dict[str, Any]:
    """Verify a whole ledger; says where and what."""
    with open_reader(url) as reader:
        head = reader.head()
        findings = [{"position": finding.position, "what": finding.what} for finding in reader.verify()]
        unchecked: list[str] = []
        if anchor is not None:
            trusted = tuple(PublicKey(raw=bytes.fromhex(key)) for key in keys)
            check = reader.verify_anchor(Path(anchor), trusted=trusted)
            findings += [{"position": None, "what": what} for what in check.findings]
            unchecked += check.unchecked
    return {"position": head.position, "hash": head.hash, "findings": findings, "unchecked": unchecked}


def _plan(**asked: str | int | None) -> dict[str, Any]:
    """A priced point; amounts as texts."""
    exact = {name: Decimal(value) if isinstance(value, str) else value for name, value in asked.items() if value != ""}
    found = plan(**exact)  # type: ignore[arg-type]
    return {name: str(value) if isinstance(value, Decimal) else value for name, value in asdict(found).items()}


def _forecast(left: dict[str, Any], calendars: list[str], k: int, sampling_rate: str) -> dict[str, Any]:
    """How long what is left of a budget lasts; amounts as texts."""
    exact = {name: Decimal(value) for name, value in left.items() if name != "terms"}
    if "terms" in left:
        from ..theory.composition.renyi import FilterTerms

        terms = FilterTerms(**{name: Decimal(value) for name, value in left["terms"].items()})
        budget = BudgetLeft.of_filter(FilterLeft(terms=terms, **exact))
    else:
        budget = BudgetLeft(epsilon=exact["epsilon"], delta=exact["delta"])
    read = [read_calendar(text, k=k, sampling_rate=Decimal(sampling_rate)) for text in calendars]
    found: dict[str, Any] = json.loads(json.dumps(forecast_facts(forecast(budget, read)), default=str))
    return found


def _estimate(charged: list[list[Any]], account: dict[str, str], rows_per_person: int) -> dict[str, Any]:
    """The composed estimate of what was charged."""
    counted = Counter({tuple((name, value) for name, value in fields): times for fields, times in charged})
    amounts = {name: Decimal(value) for name, value in account.items()}
    found = composed_estimate(counted, account=Account(**amounts), rows_per_person=rows_per_person)
    return {"epsilon": None if found is None else str(found)}


def _curve(mechanism: dict[str, str | int], delta: str) -> dict[str, Any]:
    """The ε–δ curve of one release, by the exact profile and by the paper.

    Both are upper bounds for one record; a point of the paper's is null where it proves nothing.
    """
    release = mechanism_of_record(mechanism)
    curves = kind_of(release).curves
    if curves is None:
        raise InputRefused("There is no curve for this mechanism: its price is one point.")
    curve = curves.of(release)
    farthest = _where_small(curve.log_delta, min(float(Decimal(delta)) * 1e-3, 1e-9), beyond=curve.farthest)
    epsilons = np.linspace(0.0, farthest, POINTS)
    exact = [exp_up(float(value)) for value in curve.log_delta(epsilons)]
    paper = [curve.delta_paper(float(one)) for one in epsilons]
    return {"epsilons": [float(one) for one in epsilons], "exact": exact, "paper": paper}


def _where_small(
    log_delta: Callable[[NDArray[np.float64]], NDArray[np.float64]], delta: float, *, beyond: float
) -> float:
    """Some ε at which the exact δ is small, to end the picture at; at most `beyond`."""
    low, high = 0.0, beyond
    for _ in range(30):
        middle = 0.5 * (low + high)
        value = float(log_delta(np.array([middle], dtype=np.float64))[0])
        low, high = (low, middle) if value <= math.log(max(delta, LEAST_DELTA)) else (middle, high)
    return high


def _refuse(**_: object) -> dict[str, Any]:
    raise InputRefused("there is no such job.")


JOBS: dict[str, Callable[..., dict[str, Any]]] = {
    "verify": _verify,
    "plan": _plan,
    "estimate": _estimate,
    "forecast": _forecast,
    "curve": _curve,
    "none": _refuse,
}

if __name__ == "__main__":
    main()
