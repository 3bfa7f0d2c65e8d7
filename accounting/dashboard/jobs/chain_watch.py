"""The chain's verification: again and again in the background, and on demand, never two at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from .work import WorkerProcess

__all__ = ["ChainState", "ChainWatch", "Fault"]

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
