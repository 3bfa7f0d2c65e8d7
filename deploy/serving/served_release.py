"""The process of one release of `serve`: runs a flow run of Prefect's, tells its parent what happens, ends with it.

Each release has a fresh process, so that software which was changed on disk meanwhile is never run in parts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ...accounting.ledger.opening import LEDGER_AWAY
from ...mechanisms.kernel.errors import Refusal
from ..terminal.stages import Stages

TRIED_AGAIN = ("source-missing", "source-unchanged", "scheduler-unreachable", "anchor-missing", *LEDGER_AWAY, "failed")
"""Causes that time may mend; every attempt is the same release, and a second one costs nothing."""
HELD_SECONDS = 30.0
"""How long the process of an earlier attempt, just killed, may take to be gone."""
TRIED_EVERY_SECONDS = 60.0


class _ReportsToParent(Stages):
    """Stages of which a log has no lines; what the work waits for is reported."""

    def __init__(self, tell: Callable[..., None]) -> None:
        super().__init__()
        self._note = tell

    @contextmanager
    def shown(self, name: str) -> Iterator[None]:
        """Show nothing."""
        del name
        yield

    def begin(self, release_id: str) -> None:
        """The parent knows it."""
        self.release_id = release_id

    def tell(self, text: str) -> None:
        """Tell the parent."""
        self._note(event="note", message=text)


def _attempts(
    attempt: Callable[[], Mapping[str, Any]], *, retry_seconds: float, tell: Callable[..., None]
) -> Mapping[str, Any]:
    """Try a release until it is published, or until time can't mend what is wrong or the window has ended."""
    begun, reported = time.monotonic(), ""
    while True:
        try:
            return attempt()
        except Refusal as refusal:
            # A repeated attempt has the same release id: the charge is made once, and the same bytes come of it. So
            # trying again costs no privacy, whatever the cause was.
            window = HELD_SECONDS if refusal.cause == "held" else retry_seconds * (refusal.cause in TRIED_AGAIN)
            left = begun + window - time.monotonic()
            if left <= 0:
                raise
            if refusal.message != reported:
                reported = refusal.message
                until = datetime.fromtimestamp(time.time() + left, UTC)
                tell(event="waiting", message=reported, until=f"{until:%Y-%m-%dT%H:%M:%SZ}")
        time.sleep(min(TRIED_EVERY_SECONDS, max(window / 20, 1.0), left))


def _main(flow_run_id: str, retry_seconds: float) -> int:
    # The parent reads lines of JSON from the first standard output. Everything that a library prints goes to standard
    # error instead, or it could break a line.
    reported = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # Until a release begins an interrupt has nothing to tell, and would show where the imports were.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def tell(**what: Any) -> None:  # noqa: ANN401 - JSON
        reported.write(json.dumps(what, ensure_ascii=False) + "\n")
        reported.flush()

    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import State
    from prefect.flow_engine import run_flow

    from ..prefect.scheduled import ScheduledPlace, released, scheduled_release

    @flow(name=scheduled_release.name, persist_result=False, log_prints=False, retries=0, validate_parameters=False)
    def served_release(
        spec: str,
        series: str,
        output: str,
        release_id: str | None = None,
        timezone: str = "UTC",
        allow_unchanged: bool = False,
    ) -> State[Any]:
        """One release of `serve`; Prefect has it as a run of `scheduled_release`."""
        return released(
            ScheduledPlace.of_run(spec=spec, series=series, output=output, release_id=release_id),
            timezone=timezone,
            allow_unchanged=allow_unchanged,
            stages=_ReportsToParent(tell),
            tell=tell,
            attempts=lambda attempt: _attempts(attempt, retry_seconds=retry_seconds, tell=tell),
        )

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with get_client(sync_client=True) as client:
            flow_run = client.read_flow_run(UUID(flow_run_id))
        scheduled_release.validate_parameters(flow_run.parameters)
        run_flow(served_release, flow_run=flow_run, return_type="state")
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        tell(event="interrupted")
        return 1
    except Exception as fault:  # noqa: BLE001 - an end that isn't reported would seem a kill
        # PRIVACY: only the kind of the fault is reported; its text could hold a value of the records.
        tell(event="failed", exit_code=1, cause="internal", message=f"Internal fault ({type(fault).__name__}).")
        return 1
    return 0


def _end_with_the_parent() -> None:
    """Die where the parent does: its end of the pipe is closed. A release bears that at any step."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], float(sys.argv[2])))
