"""Releases from Python, in a notebook, a script or somebody's own Prefect flow.

Planned, explained, run, opened, verified, reported on.
"""

from __future__ import annotations

import getpass
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.table import Table

from ...accounting.certificate.verify import CertificateCheck, certified_mechanism, read_certificate
from ...accounting.keys.signing_upkeep import read_public_keys
from ...accounting.theory.planning.planner import Plan
from ...accounting.theory.planning.planner import plan as plan_of
from ...flows.paths import resolve_paths
from ...flows.prepare import PreparedRelease, prepare
from ...flows.releases.release_kind import kind_of_mechanism
from ...flows.spec import parse_spec, read_spec
from ...mechanisms.kernel.amounts import amount_shown
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.wording import Number, exact_number
from ...tasks.counting.released_groups import read_released_table
from ...tasks.destinations import output_at
from ...tasks.readers.source_files import is_url
from ..documents.private_report import MadeReport, run_private_report
from ..release_check import verify_release
from ..release_paths import CERTIFICATE, release_certificate
from ..terminal.explanation import explanation
from ..terminal.tables import FactTable

__all__ = [
    "Explained",
    "PublishedRelease",
    "dry_run",
    "explain",
    "open_release",
    "plan",
    "private_report",
    "release",
    "verify",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """What a specification would do and cost; all of it is public.

    Args:
        facts: what `crowdblend explain --json` prints.
    """

    facts: dict[str, Any]

    def __repr__(self) -> str:
        """Return the price and how many columns."""
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
        """Return the table for a terminal."""
        return self.table.__rich__()

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
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


def explain(spec: Path | str, *, releases: int = 1, records: int | None = None) -> Explained:
    """Return what a specification means and costs, before anything is spent or read.

    Args:
        spec: the specification's file.
        releases: price a series of so many releases.
        records: about how many there are, a number that is public; None where nobody says.

    Raises:
        InputRefused: the specification or a hierarchy is wrong.
    """
    path = Path(spec)
    return Explained(facts=explanation(read_spec(path, output=path.parent, releases=releases), records=records))


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRelease:
    """A release in a folder of this machine; everything that this object knows is public.

    Args:
        folder: holds the table and the certificate.
        certificate: the certificate's fields as they are written; nothing is checked yet, see `findings`.
    """

    folder: Path
    certificate: Mapping[str, Any]

    def __repr__(self) -> str:
        """Return the release's id and its folder's name."""
        return f"PublishedRelease(release_id={self.release_id!r}, folder={self.folder.name!r})"

    @property
    def release_id(self) -> str:
        """The release's id."""
        return str(self.certificate["release_id"])

    @property
    def dataset(self) -> str:
        """The data set that it was charged to."""
        return str(self.certificate["dataset"])

    @property
    def epsilon(self) -> Decimal:
        """ε of the guarantee; of a series, for all its releases together."""
        return Decimal(self.certificate["guarantee"]["epsilon"])

    @property
    def delta(self) -> Decimal:
        """δ of the guarantee, between 0 and 1; of a series, for all its releases together."""
        return Decimal(self.certificate["guarantee"]["delta"])

    @property
    def sampling_rate(self) -> Decimal | None:
        """β, between 0 and 1: divide a count by it to estimate how many there are; None where nothing was sampled."""
        rate = self.certificate["mechanism"].get("sampling_rate")
        return None if rate in (None, "whole") else Decimal(str(rate))

    @property
    def levels(self) -> dict[str, int]:
        """The level of each released column, 0 being the value itself; of a chain of maps that of the finest."""
        return {column["column"]: column["level"] for column in self.certificate["map"]["columns"]}

    def groups(self) -> pa.Table:
        """Return the groups of a microdata release: one row each, with its labels and its number of records in `count`.

        Those of a deletion release also have the `stage` that published them, where there are several, and the
        `weight` of each of their records, both as numbers.

        Raises:
            InputRefused: there is no table of groups, or it can't be read.
        """
        kind = kind_of_mechanism(certified_mechanism(self.certificate))
        return read_released_table(self.folder, figures=kind.figures or ())

    def findings(self, *, public_key: Path | None = None) -> tuple[str, ...]:
        """Return what does not hold of the certificate and the files, one sentence each; empty where all is well.

        Args:
            public_key: PEM file of the publisher's key, had from the publisher; without one whose key signed isn't
                checked.

        Raises:
            InputRefused: the certificate or the key can't be read.
        """
        trusted = None if public_key is None else read_public_keys(public_key)
        return verify_release(self.folder / CERTIFICATE, trusted=trusted).findings

    @property
    def facts(self) -> FactTable:
        """The release in a few lines."""
        stated, mechanism = self.certificate, self.certificate["mechanism"]
        published = stated["published"]
        rows = [
            ("data set", self.dataset),
            ("day", str(stated["day"])),
            ("mechanism", str(mechanism["kind"])),
            ("ε", amount_shown(self.epsilon)),
            ("δ", amount_shown(self.delta)),
            *((name, str(mechanism[name])) for name in ("k", "sampling_rate") if name in mechanism),
            ("levels", ", ".join(f"{name} {level}" for name, level in self.levels.items())),
            *((name, str(value)) for name, value in published.items() if not isinstance(value, list)),
            ("folder", str(self.folder)),
        ]
        return FactTable(title=f"Release {self.release_id}", headers=("", "value"), rows=tuple(rows))

    def __rich__(self) -> Table:
        """Return the facts for a terminal."""
        return self.facts.__rich__()

    def _repr_html_(self) -> str:
        """Return the facts for a notebook."""
        return self.facts._repr_html_()


def open_release(folder: Path | str) -> PublishedRelease:
    """Open a release by its folder; nothing is checked but that it has a certificate.

    Args:
        folder: holds the table and `certificate.json`.

    Raises:
        InputRefused: there is no certificate, or it can't be read.
    """
    place = Path(folder).absolute()
    return PublishedRelease(folder=place, certificate=read_certificate(place / CERTIFICATE))


def verify(place: Path | str, *, public_key: Path | str | None = None) -> CertificateCheck:
    """Check a release's certificate and its files, without ledger or private store; as `crowdblend verify`.

    Args:
        place: the release's folder, or its certificate.
        public_key: PEM file of the publisher's key, had from the publisher; without one whose key signed isn't checked.

    Returns:
        What doesn't hold, whose signature does, and what was not shown.

    Raises:
        InputRefused: the certificate or the key can't be read.
    """
    path = Path(place)
    trusted = None if public_key is None else read_public_keys(Path(public_key))
    return verify_release(release_certificate(path), trusted=trusted)


def dry_run(
    spec: Path | str,
    *,
    output: Path | str | None = None,
    release_id: str | None = None,
    series: str | None = None,
    new: bool = False,
    ledger_url: str | None = None,
    home: Path | None = None,
) -> PreparedRelease:
    """Do all that comes before a release's charge, and nothing else; as `crowdblend run --dry-run`.

    Args:
        spec: the specification's file.
        output: the release's folder or URL, from the working folder; None takes the specification's.
        release_id: id to run, resume or look up; None for a new release.
        series: the series that has paid for it; None for a release that is charged for itself.
        new: begin another release though one of the same specification was cut off; without an id that is refused.
        ledger_url: the ledger's SQLAlchemy URL; None takes CROWDBLEND_LEDGER, crowdblend.toml or the default.
        home: the private store; None takes CROWDBLEND_HOME, crowdblend.toml or the default.

    Raises:
        InputRefused: the specification, the source's metadata or the output is wrong.
        AccountantRefused: the accountant would refuse; that is not recorded.
    """
    place = None if output is None else output_at(str(output), base=Path.cwd())
    places = resolve_paths(ledger_url=ledger_url, home=home)
    with prepare(
        Path(spec),
        state_paths=places,
        output=place,
        release_id=release_id,
        series=series,
        new=new or release_id is not None,
        dry=True,
    ) as prepared:
        return prepared


def release(
    spec: Path | str,
    *,
    output: Path | str | None = None,
    release_id: str | None = None,
    series: str | None = None,
    new: bool = False,
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
        release_id: id to run, resume or look up; None for a new release.
        series: the series that has paid for it; None for a release that is charged for itself.
        new: begin another release though one of the same specification was cut off; without an id that is refused.
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
            new=new or release_id is not None,
            randomness=secrets.token_bytes,
        )
    try:
        return open_release(Path(result["output"]))
    except InputRefused as refusal:
        raise ReleaseFailed(refusal.what, where=refusal.where, not_done="The release is published.") from None


def private_report(
    spec: Path | str,
    release: PublishedRelease,
    *,
    output: Path | None = None,
    target: str | None = None,
    attacks: bool = False,
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
        attacks: whether attacks on the release are tried.
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
        attacks=attacks,
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
    """Return the address of the server that the running flow is recorded by; None outside of a flow."""
    from prefect.context import FlowRunContext, TaskRunContext
    from prefect.settings import PREFECT_API_URL

    if configured := PREFECT_API_URL.value():
        return str(configured)
    context = FlowRunContext.get() or TaskRunContext.get()
    return None if context is None else str(context.client.api_url)
