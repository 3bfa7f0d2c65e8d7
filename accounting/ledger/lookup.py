"""Show callers a ledger's data sets, series and releases, as views of its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from ..kernel.field_forms import Fields
from ..kernel.ledger.entries import (
    DataAccess,
    DatasetUnit,
    Entry,
    FilterCharge,
    FilterDatasetAdded,
    ReleaseCharged,
    ReleasePublished,
    SeriesRegistered,
)
from ..kernel.ledger.ledger_state import Account, Dataset, LedgerState, Receipt, Release, Series, Stage
from ..kernel.ledger.snapshot import ForgedState
from ..kernel.ledger.transactions import Look


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetContext:
    """What the ledger said of a release's data set when the release was charged.

    INVARIANT: it follows from entries up to the charge, so that a resumed release has the same certificate.

    Args:
        rows_per_person: the most records of one person in a delivery.
        look_days: the day of each private look that was recorded before the charge, in their order.
        registered: record of the mechanism that the series with free columns was registered with that paid for the
            release, and whose price it bears; None elsewhere.
        filter_budget: the data set's registration where its budget is a filter's, else None.
        filter_charge: what the release, or the series that paid for it, took of that; None with an additive budget.
        unit: whose presence all releases of the data set hide; None where nothing fixes it.
    """

    rows_per_person: int
    look_days: tuple[date, ...]
    registered: Fields | None = None
    filter_budget: FilterDatasetAdded | None = None
    filter_charge: FilterCharge | None = None
    unit: DatasetUnit | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetState:
    """A data set as registered, and its account now.

    Args:
        name: its name.
        relation: the one neighbouring relation of its prices.
        survey_rate: rate of its own sampling where it is itself a sample, so that it can be released once; else None.
        rows_per_person: the most records that one person has in a delivery.
        unit: whose presence all its releases hide; None where an earlier version added it, which fixed none.
        account: what is spent and what may be.
        filter_budget: its registration where its budget is a filter's: then the account has divergences and tails.
    """

    name: str
    relation: str
    survey_rate: Decimal | None
    rows_per_person: int
    unit: DatasetUnit | None
    account: Account
    filter_budget: FilterDatasetAdded | None = None

    def __repr__(self) -> str:
        """Return the name and what is spent of the budget."""
        what, spent, budget = "epsilon_spent", self.account.epsilon_spent, self.account.epsilon_budget
        if self.filter_budget is not None:
            what, spent, budget = "spent_share", self.account.spent_share, self.filter_budget.epsilon
        return f"DatasetState(name={self.name!r}, {what}={float(spent):.6g}, epsilon_budget={float(budget):.6g})"

    @property
    def survey(self) -> bool:
        """Whether it is itself a sample, so that it can be released once."""
        return self.survey_rate is not None

    @classmethod
    def of(cls, known: Dataset) -> DatasetState:
        """Return what is shown of a data set."""
        added = known.added
        return cls(
            name=added.dataset,
            relation=added.relation,
            survey_rate=added.survey_rate,
            rows_per_person=added.rows_per_person,
            unit=added.fixed_unit,
            account=known.account,
            filter_budget=added if isinstance(added, FilterDatasetAdded) else None,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseState:
    """A release as the ledger knows it.

    Args:
        release_id: its id.
        stage: "charged" (paid, nothing read), "reading", "published" or "abandoned".
        refunded: whether its cost was given back.
        charge: what was charged, for which mechanism.
        receipt: proof of the payment, as it was given when the release was charged.
        output_hashes: name and SHA-256 (hex) of the published files; empty before publication.
    """

    release_id: str
    stage: Stage
    refunded: bool
    charge: ReleaseCharged
    receipt: Receipt
    output_hashes: tuple[tuple[str, str], ...]


def release_states(ledger: Look, releases: Iterable[Release]) -> tuple[ReleaseState, ...]:
    """Return releases with what their entries say; each entry is held against the state's hash of it.

    Raises:
        ForgedState: an entry is missing or changed.
    """
    known = tuple(releases)
    published = {one.closed or 0: one.closing or "" for one in known if one.stage == "published"}
    entries = ledger.entries({one.position: one.link for one in known} | published)
    return tuple(_release_state(one, entries, ledger_id=ledger.state.ledger_id) for one in known)


def _release_state(known: Release, entries: dict[int, Entry], *, ledger_id: str) -> ReleaseState:
    charge, end = entries.get(known.position), entries.get(known.closed or 0)
    if not isinstance(charge, ReleaseCharged) or (known.stage == "published") is not isinstance(end, ReleasePublished):
        raise ForgedState(f"the entries of release '{known.release_id}' are not what the snapshot says")
    return ReleaseState(
        release_id=known.release_id,
        stage=known.stage,
        refunded=known.refunded,
        charge=charge,
        receipt=known.receipt(ledger_id),
        output_hashes=end.output_hashes if isinstance(end, ReleasePublished) else (),
    )


def needs_no_secrets(release: ReleaseState | None) -> bool:
    """Return whether a release's keys and copies of records serve nothing: it is closed, or was never charged."""
    return release is None or release.stage in ("published", "abandoned")


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesState:
    """A series and how much of it is left.

    Args:
        registered: the series as registered: its mechanism, its price, and how many releases that covers.
        position: place of its registration in the chain.
        taken: releases that hold a place in it; one given up unread holds none.
        taken_of_parts: the same of each part; empty for a series of one mechanism.
    """

    registered: SeriesRegistered
    position: int
    taken: int
    taken_of_parts: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Return the name and how many releases are taken."""
        registered = self.registered
        return f"SeriesState(series={registered.series!r}, taken={self.taken}, releases={registered.price.releases})"

    @property
    def remaining(self) -> int:
        """How many releases are left."""
        return self.registered.price.releases - self.taken

    @classmethod
    def of(cls, known: Series) -> SeriesState:
        """Return what is shown of a series."""
        taken, *of_parts = known.taken
        return cls(registered=known.registered, position=known.position, taken=taken, taken_of_parts=tuple(of_parts))


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedLook:
    """A private look and its place in the chain.

    Args:
        position: from 0.
        look: what was recorded.
    """

    position: int
    look: DataAccess

    @classmethod
    def all_of(cls, state: LedgerState) -> tuple[RecordedLook, ...]:
        """Return all private looks of a ledger, in their order."""
        return tuple(cls(position=position, look=look) for position, look in state.looks)
