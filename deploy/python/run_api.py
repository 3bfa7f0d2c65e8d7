"""Releases from Python: in a notebook, in a script, or as a part of somebody's own Prefect flow."""

from __future__ import annotations

import getpass
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ...flows.paths import resolve_paths
from ...flows.spec import parse_spec
from ...mechanisms.errors import InputRefused
from ...tasks.inputs.files import is_url
from ..documents.utility_report.write import MadeReport, run_private_report
from .published import PublishedRelease, open_release

__all__ = ["private_report", "release"]


def release(
    spec: Path | str,
    *,
    output: Path | str | None = None,
    release_id: str | None = None,
    series: str | None = None,
    scheduler: str | None = None,
    ledger_url: str | None = None,
    home: Path | None = None,
) -> PublishedRelease:
    """Run one release: charge it, sample, count, publish; as `crowdblend run` does.

    In somebody's own Prefect flow or task it is a subflow of it, on the same Prefect server. Give it a release id
    there, so that a retry is the same release: the same sample, no new charge. It returns public facts only, so its
    result may be persisted.

    Args:
        spec: the specification's file.
        output: the release's folder, from the working folder; None takes the specification's.
        release_id: id to run, resume or look up; None for a new release each time.
        series: the series that has paid for it; None for a release that is charged for itself.
        scheduler: address of a Dask scheduler; None for the specification's cluster, or this machine's threads.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, or the default.
        home: the private store; None takes CROWDBLEND_HOME, or the default.

    Raises:
        InputRefused: the specification, the source's metadata or the output is wrong; nothing was charged.
        AccountantRefused: the accountant refuses; nothing was read.
        ReleaseFailed: the work failed after the charge; run again with the same release id.
    """
    from ..run import run_release

    path = Path(spec)
    place = str(output or parse_spec(path).release.output or "")
    if is_url(place):
        raise InputRefused(
            "a release in an object store can't be opened here.",
            where=place,
            remedy="Name a folder, or run it by `crowdblend run`.",
        )
    state_paths = resolve_paths(ledger_url=ledger_url, home=home)
    with _surrounding_prefect():
        result = run_release(
            path,
            state_paths=state_paths,
            output=None if output is None else str(output),
            scheduler=scheduler,
            release_id=release_id,
            series=series,
            randomness=secrets.token_bytes,
        )
    return open_release(Path(result["output"]))


def private_report(
    spec: Path | str,
    release: PublishedRelease,
    *,
    output: Path | None = None,
    target: str | None = None,
    by: str | None = None,
    ledger_url: str | None = None,
    home: Path | None = None,
) -> MadeReport:
    """Measure a release against its private records, as `crowdblend report private` does. Not for publication.

    PRIVACY: a private look, recorded in the ledger before a record is read. What comes back has exact figures of the
    private records: don't return it from a flow or task, whose results Prefect may keep.

    Args:
        spec: the release's specification.
        release: the release.
        output: the report's file (.html); None keeps it in the private store.
        target: column that classifiers tell; None chooses one by the release alone.
        by: who looks; None is the account that runs this.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, or the default.
        home: the private store; None takes CROWDBLEND_HOME, or the default.

    Raises:
        InputRefused: the specification, the release or the place of the report is wrong.
        AccountantRefused: the ledger is behind its anchor.
        ReleaseFailed: the records can't be read, or the report can't be written; the look stays recorded.
    """
    return run_private_report(
        Path(spec),
        release=release.folder,
        output=output,
        target=target,
        state_paths=resolve_paths(ledger_url=ledger_url, home=home),
        by=by or getpass.getuser(),
        today=datetime.now(UTC).date(),
    )


@contextmanager
def _surrounding_prefect() -> Iterator[None]:
    """Hold a release inside somebody's flow to that flow's Prefect server, also where that is an ephemeral one."""
    api = _api_of_flow() if "prefect" in sys.modules and "PREFECT_API_URL" not in os.environ else None
    if api is None:
        yield
        return
    os.environ["PREFECT_API_URL"] = api
    try:
        yield
    finally:
        del os.environ["PREFECT_API_URL"]


def _api_of_flow() -> str | None:
    """The address of the server that the running flow is recorded by; None outside of a flow."""
    from prefect.context import FlowRunContext, TaskRunContext
    from prefect.settings import PREFECT_API_URL

    if configured := PREFECT_API_URL.value():
        return str(configured)
    context = FlowRunContext.get() or TaskRunContext.get()
    return None if context is None else str(context.client.api_url)
