"""The process of an ad-hoc job: runs one release, tells its submitter how far it is and how it ended."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ...flows.paths import resolve_paths
from ...mechanisms.errors import Refusal
from ..terminal.stages import Stages, process_begun
from .submit import Job, job_of

__all__: list[str] = []

TOLD_EVERY_SECONDS = 0.2
CANCELLED = {"exit_code": 1, "where": "", "message": "The job was cancelled.", "cancelled": True}


class _ReportedStages(Stages):
    """Stages that are reported to a job's submitter, instead of a terminal."""

    def __init__(self, job: Job) -> None:
        super().__init__(begun=process_begun())
        self._job = job
        self._name = ""
        self._note = ""
        self._last = 0.0

    @contextmanager
    def shown(self, name: str) -> Iterator[None]:
        """Tell which stage runs."""
        self._name, self._note = name, ""
        self._job.write_progress(name, 0, 0)
        yield

    def on_progress(self, done: int, total: int) -> None:
        """Tell how much of it is done, now and then."""
        if time.monotonic() - self._last >= TOLD_EVERY_SECONDS:
            self._last = time.monotonic()
            self._job.write_progress(self._name, done, total, self._note)

    def tell(self, text: str) -> None:
        """Tell what it waits for."""
        self._note = text
        self._job.write_progress(self._name, 0, 0, text)


class _Interruption:
    """The one interruption of a job: it breaks off what runs, and is remembered whatever that makes of it."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.came = True
        raise KeyboardInterrupt


def _main(release_id: str) -> int:
    places = resolve_paths()
    job = job_of(release_id, state_paths=places)
    held = job.hold()
    end = _end_of(job)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    job.write_end(end)
    os.close(held)
    return int(end["exit_code"])


def _end_of(job: Job) -> dict[str, Any]:
    """Run the release; every end is reported, and none with a traceback or a value of the records."""
    asked = job.arguments()
    interruption = _Interruption()
    try:
        signal.signal(signal.SIGINT, interruption)
        from ..run import run_release

        result = run_release(
            Path(asked.spec),
            state_paths=resolve_paths(),
            output=asked.output,
            scheduler=asked.scheduler,
            release_id=job.release_id,
            series=asked.series,
            randomness=secrets.token_bytes,
            stages=_ReportedStages(job),
        )
    except KeyboardInterrupt:
        return CANCELLED
    except Refusal as refusal:
        # A stage that was broken off may say so as a failure of its own.
        if interruption.came:
            return CANCELLED
        return {"exit_code": refusal.exit_code, "where": refusal.where, "message": refusal.message}
    except BaseException as fault:  # noqa: BLE001 - Prefect's signals too: an end that isn't reported would seem a kill
        if interruption.came:
            return CANCELLED
        # PRIVACY: only the kind of the fault is reported; its text could hold a value of the records.
        return {"exit_code": 1, "where": "", "message": f"Internal fault ({type(fault).__name__})."}
    return {"exit_code": 0, "result": result}


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1]))
