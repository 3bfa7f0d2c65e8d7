"""What a rule is asked of, the ledger before the next entry, and what it answers with: that an entry breaks it.

A stored ledger's state comes from the tables and is held against the signed state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Literal, Protocol

from sqlalchemy import Connection, select

from ....mechanisms.errors import AccountantRefused, InputRefused, Refusal, did_you_mean
from ..chain.signed_state import ForgedState, SignedState, vouched
from ..charge import enforced_unit
from ..database.schema import release, sample
from ..entries.kinds import RECORD, ChargedPrice, DatasetAdded, Fields, FilterCharge, ReleaseCharged, SeriesRegistered
from ..entries.values import AccountAt
from ..queries import (
    ReleaseState,
    account_of,
    holders_of,
    registration_of,
    release_of,
    series_of,
    standing_of,
    was_refunded,
)
from ..tokens import tokens_of

__all__ = [
    "LedgerState",
    "Payment",
    "StoredState",
    "Violation",
    "unknown",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A rule that an entry breaks.

    Args:
        what: what the writer says who refuses it: one sentence, with its numbers.
        where: what it concerns.
        remedy: what the reader can do next, or how to compute that where it takes time.
        cause: short name of the rule, for the record of a refusal; empty where none is recorded.
        fault: what a verification says of a recorded entry; empty for a rule about what no entry has.
        mistake: whether it is the caller's mistake, which isn't recorded, and not a refusal by the accountant.
        lacking: whether it is broken for want of an earlier entry.
    """

    what: str
    where: str
    remedy: str | Callable[[], str]
    cause: str = ""
    fault: str = ""
    mistake: bool = False
    lacking: bool = False

    @property
    def refusal(self) -> Refusal:
        """The violation as an exception."""
        refused = InputRefused if self.mistake else AccountantRefused
        remedy = self.remedy if isinstance(self.remedy, str) else self.remedy()
        return refused(self.what, where=self.where, remedy=remedy, cause=self.cause)


UNKNOWN = {
    "dataset": (
        "dataset '{}' is not in the ledger",
        "the ledger has no data set of this name.",
        "Register it and its budget with `crowdblend dataset add`; with --unit where [data] has person or household.",
    ),
    "series": (
        "series '{}' has not paid for this release: nothing of that name",
        "the ledger has no series of this name.",
        "Register it with `crowdblend series add`.",
    ),
    "release": (
        "release '{}' was never charged",
        "the ledger has no such release.",
        "`crowdblend ledger show` lists them.",
    ),
    "token": (
        "token {} was never added",
        "there is no such token, or it was revoked before.",
        "`crowdblend token list` shows them.",
    ),
}


def unknown(of: Literal["dataset", "series", "release", "token"], name: str, *, known: Iterable[str] = ()) -> Violation:
    """Something that the ledger does not have.

    Args:
        of: what it would be.
        name: its name or id.
        known: names that there are; a similar one is named before anything new is proposed, since a second name of a
            data set would be a second budget for the same people.
    """
    fault, what, remedy = UNKNOWN[of]
    if similar := did_you_mean([name], known):
        remedy = f"{similar} If it is another one: {remedy[0].lower()}{remedy[1:]}"
    where = f"{of} '{name}'"
    return Violation(fault=fault.format(name), what=what, where=where, remedy=remedy, mistake=True, lacking=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Payment:
    """What later entries of a release ask of its charge; alike for many releases.

    Args:
        dataset: whose budget paid.
        mechanism: the mechanism's versioned record.
        price: what was charged.
        of_filter: what it took of a filter budget, None where it took nothing.
        series: the series that paid, None for a release that paid for itself.
    """

    dataset: str
    mechanism: Fields
    price: ChargedPrice
    of_filter: FilterCharge | None
    series: str | None

    @classmethod
    def by(cls, charge: ReleaseCharged) -> Payment:
        """The payment by a charge."""
        return cls(
            dataset=charge.dataset,
            mechanism=charge.mechanism,
            price=charge.price,
            of_filter=charge.of_filter,
            series=None if charge.series is None else charge.series.name,
        )


class LedgerState(Protocol):
    """A ledger up to some entry, from its tables (`StoredState`) or from its entries alone (`Replay`).

    INVARIANT: both answer alike for the same entries, so a rule that is asked of both is one rule.
    """

    @property
    def position(self) -> int:
        """Place of the next entry, from 0."""

    def dataset(self, name: str) -> DatasetAdded | None:
        """A data set's registration, None where there is none of this name."""

    def account(self, name: str) -> AccountAt | None:
        """A data set's account now, None where there is none of this name."""

    def series(self, name: str) -> SeriesRegistered | None:
        """A series' registration, None where there is none of this name."""

    def holder(self, series: str, number: int) -> str | None:
        """The release that has a place in a series now, None where the place is free."""

    def turn(self, series: str, number: int) -> int:
        """How many releases have taken a place in a series, with those that gave it back."""

    def payment(self, release_id: str) -> Payment | None:
        """How a release was paid for, None where nothing was charged."""

    def outcomes(self, release_id: str) -> Set[str]:
        """What a release has passed of "charged", "reading", "published", "abandoned" and "refunded"."""

    def release_of_sample(self, sample_id: str) -> str | None:
        """The release that a sample serves, None for a sample that serves none."""

    def standing(self, dataset: str, *, exclusive: bool) -> str | None:
        """Some release of a data set whose cost was not given back, None where there is none.

        Args:
            dataset: its name.
            exclusive: whether a release counts only if its price holds for it alone; a data set with one has no other.
        """

    def revoked(self, token_id: str) -> bool | None:
        """Whether a token was revoked, None where it was never added."""


class StoredState:
    """A ledger's state in one transaction, until something is written in it; the methods are those of `LedgerState`.

    What is looked up twice is read once. A look-up raises `ForgedState` for what doesn't follow from the signed chain.

    Args:
        connection: a connection in a transaction whose signed state is checked.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._datasets: dict[str, DatasetAdded | None] = {}
        self._releases: dict[str, ReleaseState | None] = {}

    @property
    def position(self) -> int:
        """Place of the next entry."""
        return vouched(self._connection).position + 1

    def dataset(self, name: str) -> DatasetAdded | None:
        """A data set's registration."""
        if name not in self._datasets:
            self._datasets[name] = registration_of(self._connection, name)
        return self._datasets[name]

    def account(self, name: str) -> AccountAt | None:
        """A data set's account."""
        return None if self.dataset(name) is None else account_of(self._connection, name)

    def series(self, name: str) -> SeriesRegistered | None:
        """A series' registration."""
        known = series_of(self._connection, name)
        return None if known is None else known.registered

    def holder(self, series: str, number: int) -> str | None:
        """The release that has a place: the last that took it, unless it gave the place back."""
        holders = holders_of(self._connection, series, number)
        return holders[-1] if holders and "refunded" not in self.outcomes(holders[-1]) else None

    def turn(self, series: str, number: int) -> int:
        """How many releases have taken a place."""
        return len(holders_of(self._connection, series, number))

    def release(self, release_id: str) -> ReleaseState | None:
        """A release with all that is known of it."""
        if release_id not in self._releases:
            self._releases[release_id] = release_of(self._connection, release_id)
        return self._releases[release_id]

    def payment(self, release_id: str) -> Payment | None:
        """How a release was paid for."""
        known = self.release(release_id)
        return None if known is None else Payment.by(known.charge)

    def outcomes(self, release_id: str) -> Set[str]:
        """What a release has passed."""
        known = self.release(release_id)
        return frozenset() if known is None else known.outcomes

    def release_of_sample(self, sample_id: str) -> str | None:
        """The release that a sample serves."""
        row = SignedState(self._connection).row(sample, sample_id, what="a sample")
        return None if row is None else str(row["release_id"])

    def standing(self, dataset: str, *, exclusive: bool) -> str | None:
        """Some release whose cost was not given back; none is looked for where the signed state counts none."""
        if SignedState(self._connection).count("alone" if exclusive else "released", dataset) == 0:
            return None
        found = select(release.c.release_id).where(release.c.dataset == dataset, ~was_refunded(release)).limit(1)
        release_id: str | None = self._connection.execute(found).scalar()
        if release_id is None:
            raise ForgedState(f"a release of data set '{dataset}' is missing, and the signed chain has it")
        return release_id

    def units_released(self, dataset: str) -> Set[str]:
        """Of which units a data set's releases are whose cost was not given back; the verification doesn't ask this."""
        return {
            enforced_unit(state.charge.sampler_layout) or RECORD for state in standing_of(self._connection, dataset)
        }

    def revoked(self, token_id: str) -> bool | None:
        """Whether a token was revoked."""
        known = [token for token in tokens_of(self._connection) if token.added.token_id == token_id]
        return known[0].revoked is not None if known else None
