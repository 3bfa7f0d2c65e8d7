"""The ledger's state made from its entries alone, and its rules applied again: could each have been written?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field

from ..chain.signed_state import Count
from ..database.projections import Row, counts_of, is_exclusive, rows_of
from ..database.schema import account, release_stage, sample, series_release
from ..entries.kinds import (
    DatasetAdded,
    Entry,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)
from .ledger_state import AccountAt, account_of_row
from .violations import violations

__all__ = ["Replay"]


@dataclass(kw_only=True, slots=True)
class Replay:
    """What is known after the entries seen so far; grows with each call of `apply`. Its look-ups are a `LedgerState`.

    Args:
        position: place of the entry that is looked at, or of the next one.
        datasets: name → its registration.
        accounts: data set → its account now.
        registered: series → its registration.
        charges: release id → its charge.
        unrefunded: data set, and whether their price holds for them alone → its releases whose cost was not given back.
        samples: sample's id → the release that it serves.
        stages: release id → stages and outcomes passed.
        places: series and number → the releases that took this place, in their order.
        tokens: token's id → whether it was revoked.
        rows: the derived rows that follow from the last entry.
        counts: how the last entry changes the counts of the ledger's state.
        lost: whether an entry before the next one is missing.
        groundless: whether the last entry builds on one that is missing: then nothing follows from it for sure.
    """

    position: int = 0
    datasets: dict[str, DatasetAdded] = field(default_factory=dict)
    accounts: dict[str, AccountAt] = field(default_factory=dict)
    registered: dict[str, SeriesRegistered] = field(default_factory=dict)
    charges: dict[str, ReleaseCharged] = field(default_factory=dict)
    unrefunded: dict[tuple[str, bool], dict[str, None]] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    stages: dict[str, set[str]] = field(default_factory=dict)
    places: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    tokens: dict[str, bool] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    counts: Mapping[tuple[Count, str], int] = field(default_factory=dict)
    lost: bool = False
    groundless: bool = False

    def dataset(self, name: str) -> DatasetAdded | None:
        """A data set's registration."""
        return self.datasets.get(name)

    def account(self, name: str) -> AccountAt | None:
        """A data set's account."""
        return self.accounts.get(name)

    def series(self, name: str) -> SeriesRegistered | None:
        """A series' registration."""
        return self.registered.get(name)

    def holder(self, series: str, number: int) -> str | None:
        """The first release that took a place and didn't give it back."""
        holders = self.places.get((series, number), ())
        return next((holder for holder in holders if "refunded" not in self.outcomes(holder)), None)

    def turn(self, series: str, number: int) -> int:
        """How many releases have taken a place."""
        return len(self.places.get((series, number), ()))

    def charge(self, release_id: str) -> ReleaseCharged | None:
        """What was charged for a release."""
        return self.charges.get(release_id)

    def outcomes(self, release_id: str) -> Set[str]:
        """What a release has passed."""
        return self.stages.get(release_id, frozenset())

    def release_of_sample(self, sample_id: str) -> str | None:
        """The release that a sample serves."""
        return self.samples.get(sample_id)

    def standing(self, dataset: str, *, exclusive: bool) -> str | None:
        """The earliest release whose cost was not given back."""
        return next(iter(self.unrefunded.get((dataset, exclusive), ())), None)

    def revoked(self, token_id: str) -> bool | None:
        """Whether a token was revoked."""
        return self.tokens.get(token_id)

    def apply(self, entry: Entry, *, position: int) -> tuple[str, ...]:
        """Take the next entry.

        Returns:
            Each rule that it breaks, in a sentence.
        """
        self.position, self.groundless = position, False
        faults = tuple(self._faults(entry))
        self.skip()
        try:
            self._follow(entry)
        except ValueError as error:
            faults = (*faults, *self._lacking(f"{error}"))
        return faults

    def skip(self) -> None:
        """Pass over an entry that can't be read: nothing follows from it."""
        self.rows, self.counts = (), {}

    def lose(self, rows: tuple[Row, ...]) -> None:
        """Go on after missing entries from the rows that they left, if they did."""
        self.lost = True
        for row in rows:
            if row.table is release_stage:
                self._take(row)
        self.believe(rows)

    def believe(self, rows: tuple[Row, ...]) -> None:
        """Go on from the accounts that are stored for an entry whose content was changed, where they can be read."""
        for row in rows:
            if row.table is account:
                with suppress(TypeError, ValueError):
                    self._take(row)
        self.skip()

    def _faults(self, entry: Entry) -> Iterator[str]:
        for violation in violations(entry, self):
            if violation.lacking:
                yield from self._lacking(violation.fault)
            else:
                yield violation.fault
        if isinstance(entry, ReleaseReading | ReleasePublished | ReleaseAbandoned) and self.lost:
            self.groundless |= entry.release_id not in self.charges

    def _lacking(self, fault: str) -> Iterator[str]:
        """A fault for want of an earlier entry: its own where the chain is whole, else of the one that is missing."""
        if self.lost:
            self.groundless = True
        else:
            yield fault

    def _follow(self, entry: Entry) -> None:
        """Take over what the entry changes, whether or not it may."""
        rows = rows_of(entry, self)
        self.counts = counts_of(entry, rows=rows, state=self)
        self.rows = rows
        for row in rows:
            self._take(row)
        match entry:
            case DatasetAdded():
                self.datasets[entry.dataset] = entry
            case SeriesRegistered():
                self.registered[entry.series] = entry
            case TokenAdded() | TokenRevoked():
                self.tokens[entry.token_id] = isinstance(entry, TokenRevoked)
            case ReleaseCharged():
                self.charges[entry.release_id] = entry
                for exclusive in {False, is_exclusive(entry.mechanism)}:
                    self.unrefunded.setdefault((entry.dataset, exclusive), {})[entry.release_id] = None
            case ReleaseAbandoned(refunded=True):
                for exclusive in (False, True):
                    charge = self.charges[entry.release_id]
                    self.unrefunded.get((charge.dataset, exclusive), {}).pop(entry.release_id, None)
            case _:
                pass

    def _take(self, row: Row) -> None:
        """Take over what a derived row says."""
        values = row.values
        if row.table is account:
            self.accounts[str(values["dataset"])] = account_of_row(values)
        elif row.table is release_stage:
            self.stages.setdefault(str(values["release_id"]), set()).add(str(values["outcome"]))
        elif row.table is sample:
            self.samples[str(values["sample_id"])] = str(values["release_id"])
        elif row.table is series_release:
            place = (str(values["series"]), int(values["number"]))
            self.places.setdefault(place, []).append(str(values["release_id"]))
