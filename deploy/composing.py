"""Releases from Python: in a notebook, in a script, or as a part of somebody's own Prefect flow."""

from __future__ import annotations

import getpass
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.table import Table

from ..accounting.ledger.queries import DatasetState
from ..accounting.ledger.reader import open_reader
from ..accounting.theory.planning import Plan
from ..accounting.theory.planning import plan as plan_of
from ..flows.settings import house
from ..flows.spec import read_spec
from ..flows.spec_tables import parse_spec
from ..mechanisms.refusal import InputRefused
from ..tasks.opening import is_url
from .explanation import explanation
from .facts import FactTable
from .private_report.making import MadeReport, made_private_report
from .published import PublishedRelease, open_release

__all__ = ["Explained", "LedgerView", "explain", "ledger", "plan", "private_report", "release"]

Number = Decimal | int | str
"""An exact number: a text such as "0.1" is taken as it is written; a binary fraction is not taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """What a specification would do and cost; all of it is public.

    Args:
        facts: what `crowdblend explain --json` prints.
    """

    facts: dict[str, Any]

    @property
    def table(self) -> FactTable:
        """The columns with their levels: how many labels each has and what share of the information it keeps."""
        rows = tuple(
            (
                str(column["column"]),
                str(level["level"]),
                str(level["labels"]),
                f"{level['information_kept']:.0%}",
                ", ".join(level["examples"]),
            )
            for column in self.facts["columns"]
            for level in column["levels"]
            if level["possible"]
        )
        price = f"ε = {self.facts['epsilon']:.6g}, δ = {self.facts['delta']:.3g}"
        headers = ("column", "level", "labels", "kept", "for example")
        return FactTable(title=f"What this would release, for {price}", headers=headers, rows=rows)

    def __rich__(self) -> Table:
        """The table for a terminal."""
        return self.table.__rich__()

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        return self.table._repr_html_()


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerView:
    """The data sets of a ledger when it was asked.

    Args:
        datasets: each with its account.
        findings: what `crowdblend ledger verify` found, one sentence each; empty where all holds.
    """

    datasets: tuple[DatasetState, ...]
    findings: tuple[str, ...]

    @property
    def table(self) -> FactTable:
        """What is spent of each budget."""
        rows = tuple(
            (
                state.name,
                *(f"{float(spent):.6g} of {float(budget):.6g}" for spent, budget in (
                    (state.account.epsilon_spent, state.account.epsilon_budget),
                    (state.account.delta_spent, state.account.delta_budget),
                )),
            )
            for state in self.datasets
        )  # fmt: skip
        state = "it holds" if not self.findings else f"{len(self.findings)} findings: it does not hold"
        return FactTable(title=f"Ledger ({state})", headers=("data set", "ε spent", "δ spent"), rows=rows)

    def __rich__(self) -> Table:
        """The table for a terminal."""
        return self.table.__rich__()

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        return self.table._repr_html_()


def plan(
    *,
    k: int | None = None,
    sampling_rate: Number | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    releases: int | None = 1,
) -> Plan:
    """Fill in the one parameter that is None, and price the point; nothing is read or charged.

    Args:
        k: suppression threshold, in records.
        sampling_rate: β, between 0 and 1.
        epsilon: ε over all releases, in nats.
        delta: δ over all releases, between 0 and 1.
        releases: how many, each with a fresh sample; None for the most that fit.

    Returns:
        The point with its prices, by the exact profile and by the paper's bound; `plan_table` shows it.

    Raises:
        InputRefused: more than one is missing, a value is out of range or no exact number, or nothing meets the
            target.

    Example:
        >>> print(f"{plan(k=20, sampling_rate='0.1', delta='1e-6').epsilon:.4f}")
        0.1830
    """
    exact = {name: _exact(name, value) for name, value in (
        ("sampling_rate", sampling_rate), ("epsilon", epsilon), ("delta", delta),
    )}  # fmt: skip
    return plan_of(k=k, releases=releases, **exact)


def explain(spec: Path | str, *, releases: int = 1) -> Explained:
    """What a specification means and costs, before anything is spent or read.

    Args:
        spec: the specification's file.
        releases: price a series of so many releases.

    Raises:
        InputRefused: the specification or a hierarchy is wrong.
    """
    path = Path(spec)
    return Explained(facts=explanation(read_spec(path, output=path.parent, releases=releases)))


def ledger(*, ledger_url: str | None = None) -> LedgerView:
    """Look at a ledger and verify it: chain, prices, single use of samples, accounts.

    Args:
        ledger_url: its SQLAlchemy URL; None takes CROWDBLEND_LEDGER, or the default.

    Raises:
        InputRefused: there is no ledger, or it can't be read.
    """
    with open_reader(house(ledger_url=ledger_url).ledger_url) as reader:
        return LedgerView(
            datasets=tuple(reader.datasets()), findings=tuple(str(finding) for finding in reader.verify())
        )


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
    from .running import run_release

    path = Path(spec)
    place = str(output or parse_spec(path).release.output or "")
    if is_url(place):
        raise InputRefused(
            "a release in an object store can't be opened here.",
            where=place,
            remedy="Name a folder, or run it by `crowdblend run`.",
        )
    settled = house(ledger_url=ledger_url, home=home)
    with _surrounding_prefect():
        result = run_release(
            path,
            house=settled,
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
    return made_private_report(
        Path(spec),
        release=release.folder,
        output=output,
        target=target,
        house=house(ledger_url=ledger_url, home=home),
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


def _exact(name: str, value: Number | None) -> Decimal | None:
    if value is None or isinstance(value, Decimal):
        return value
    if isinstance(value, float):
        raise InputRefused(f"{name} is a binary fraction; write it as a text, such as '{value}'.", where=name)
    try:
        return Decimal(value)
    except ArithmeticError:
        raise InputRefused(f"{name} is no number.", where=name) from None
