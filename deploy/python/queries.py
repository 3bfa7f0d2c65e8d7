"""Questions from Python that cost nothing: what would it cost, what does a specification mean, what is spent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ...accounting.ledger.queries import DatasetState
from ...accounting.ledger.reader import open_reader
from ...accounting.theory.planning.planner import Plan
from ...accounting.theory.planning.planner import plan as plan_of
from ...flows.dry_run import DryRun
from ...flows.dry_run import dry_run as dry_run_of
from ...flows.paths import resolve_paths
from ...flows.spec import read_spec
from ...mechanisms.amounts import Number, amount_shown, counted, exact_number, share_shown
from ...tasks.request import output_at
from ..terminal.explanation import explanation
from ..terminal.tables import FactTable

__all__ = ["Explained", "LedgerView", "dry_run", "explain", "ledger", "plan"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """What a specification would do and cost; all of it is public.

    Args:
        facts: what `crowdblend explain --json` prints.
    """

    facts: dict[str, Any]

    def __repr__(self) -> str:
        """The price and how many columns."""
        price = f"epsilon={amount_shown(self.facts['epsilon'])}, delta={amount_shown(self.facts['delta'])}"
        return f"Explained({price}, columns={len(self.facts['columns'])})"

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
        price = f"ε = {amount_shown(self.facts['epsilon'])}, δ = {amount_shown(self.facts['delta'])}"
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

    def __repr__(self) -> str:
        """How many data sets, and whether the ledger holds."""
        return f"LedgerView(datasets={len(self.datasets)}, findings={len(self.findings)})"

    @property
    def table(self) -> FactTable:
        """What is spent of each budget."""
        rows = tuple((state.name, *_spent(state)) for state in self.datasets)
        state = "it holds" if not self.findings else f"{counted(len(self.findings), 'finding')}: it does not hold"
        return FactTable(title=f"Ledger ({state})", headers=("data set", "ε spent", "δ spent"), rows=rows)

    def __rich__(self) -> Table:
        """The table for a terminal."""
        return self.table.__rich__()

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        return self.table._repr_html_()


def _spent(state: DatasetState) -> tuple[str, str]:
    """What is spent of the budget's ε and δ; a filter's is spent by one share."""
    account, registered = state.account, state.filter_budget
    if registered is not None:
        share = share_shown(account.spent_share)
        return (
            f"{share} of a filter's {amount_shown(registered.epsilon)}",
            f"{share} of {amount_shown(registered.delta)}",
        )
    return (
        f"{amount_shown(account.epsilon_spent)} of {amount_shown(account.epsilon_budget)}",
        f"{amount_shown(account.delta_spent)} of {amount_shown(account.delta_budget)}",
    )


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
        InputRefused: more than one is missing, a value is out of range or no number, or nothing meets the
            target.

    Example:
        >>> print(f"{plan(k=20, sampling_rate=0.1, delta=1e-6).epsilon:.4f}")
        0.1830
    """
    exact = {name: None if value is None else exact_number(name, value) for name, value in (
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
        ledger_url: its SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.

    Raises:
        InputRefused: there is no ledger, or it can't be read.
    """
    with open_reader(resolve_paths(ledger_url=ledger_url).ledger_url) as reader:
        return LedgerView(
            datasets=tuple(reader.datasets()), findings=tuple(str(finding) for finding in reader.verify())
        )


def dry_run(
    spec: Path | str,
    *,
    output: Path | str | None = None,
    release_id: str | None = None,
    series: str | None = None,
    ledger_url: str | None = None,
    home: Path | None = None,
) -> DryRun:
    """Do all that comes before a release's charge, and nothing else; as `crowdblend run --dry-run`.

    Args:
        spec: the specification's file.
        output: the release's folder or URL, from the working folder; None takes the specification's.
        release_id: id to run, resume or look up; None for a new release.
        series: the series that has paid for it; None for a release that is charged for itself.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the default.

    Raises:
        InputRefused: the specification, the source's metadata or the output is wrong.
        AccountantRefused: the accountant would refuse; that is not recorded.
    """
    place = None if output is None else output_at(str(output), base=Path.cwd())
    places = resolve_paths(ledger_url=ledger_url, home=home)
    return dry_run_of(Path(spec), state_paths=places, output=place, release_id=release_id, series=series)
