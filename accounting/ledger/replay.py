"""The ledger's rules applied again, entry by entry, to see whether each could have been written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import assert_never

from ..theory.shuffling import holds_alone
from .budget import Account
from .derive import AccountAt, Row, account_of_row, counts_of, rows_of
from .entry import BudgetRaised, DatasetAdded, Entry, LedgerCreated, PrivateLook
from .release_entries import (
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesPlace,
    SeriesRegistered,
)
from .repricing import price_faults
from .rules import sample_faults, survey_fault
from .schema import account, release_stage
from .series_rules import unpaid_parts
from .signed_state import Count
from .token_entries import TokenAdded, TokenRevoked

__all__ = ["Replay"]


@dataclass(kw_only=True, slots=True)
class Replay:
    """What is known after the entries seen so far; grows with each call of `apply`.

    Args:
        datasets: name → its registration.
        accounts: data set → its account now.
        charges: release id → its charge.
        alone: data set → its releases whose price holds only where nothing else is published.
        samples: sample's id → the release that it serves.
        stages: release id → stages and outcomes passed.
        series: name → its registration.
        places: series and number → the releases that took this place, in their order.
        tokens: token's id → whether it was revoked.
        rows: the derived rows that follow from the last entry.
        counts: how the last entry changes the counts of the ledger's state.
        lost: whether an entry before the next one is missing.
        groundless: whether the last entry builds on one that is missing: then nothing follows from it for sure.
    """

    datasets: dict[str, DatasetAdded] = field(default_factory=dict)
    accounts: dict[str, AccountAt] = field(default_factory=dict)
    charges: dict[str, ReleaseCharged] = field(default_factory=dict)
    alone: dict[str, list[str]] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    stages: dict[str, set[str]] = field(default_factory=dict)
    series: dict[str, SeriesRegistered] = field(default_factory=dict)
    places: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    tokens: dict[str, bool] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    counts: Mapping[tuple[Count, str], int] = field(default_factory=dict)
    lost: bool = False
    groundless: bool = False

    def apply(self, entry: Entry, *, position: int) -> tuple[str, ...]:
        """Take the next entry.

        Returns:
            Each rule that it breaks, in a sentence.
        """
        self.groundless = False
        faults = tuple(self._faults(entry, position))
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
                self.stages.setdefault(str(row.values["release_id"]), set()).add(str(row.values["outcome"]))
        self.believe(rows)

    def _lacking(self, what: str) -> Iterator[str]:
        """A fault for want of an earlier entry: its own where the chain is whole, else of the one that is missing."""
        if self.lost:
            self.groundless = True
        else:
            yield what

    def believe(self, rows: tuple[Row, ...]) -> None:
        """Go on from the accounts that are stored for an entry whose content was changed, where they can be read."""
        for row in rows:
            if row.table is account:
                with suppress(TypeError, ValueError):
                    self.accounts[str(row.values["dataset"])] = account_of_row(row.values)
        self.skip()

    def _faults(self, entry: Entry, position: int) -> Iterator[str]:
        match entry:
            case DatasetAdded() | PrivateLook():
                yield from self._faults_of_dataset(entry)
            case BudgetRaised():
                yield from self._faults_of_raise(entry)
            case SeriesRegistered():
                yield from self._faults_of_series(entry)
            case ReleaseCharged():
                yield from self._faults_of_charge(entry)
            case ReleaseReading() | ReleasePublished() | ReleaseAbandoned():
                yield from self._faults_of_stage(entry)
            case TokenAdded() | TokenRevoked():
                yield from self._faults_of_token(entry)
            case LedgerCreated() | ReleaseRefused():
                pass
            case _:
                assert_never(entry)
        if position != 0 and isinstance(entry, LedgerCreated):
            yield "a ledger is created once, by its first entry"
        if position == 0 and not isinstance(entry, LedgerCreated):
            yield "the first entry does not create the ledger"

    def _faults_of_dataset(self, entry: DatasetAdded | PrivateLook) -> Iterator[str]:
        known = entry.dataset in self.datasets
        if isinstance(entry, DatasetAdded) and known:
            yield f"dataset '{entry.dataset}' is added a second time"
        if isinstance(entry, PrivateLook) and not known:
            yield from self._lacking(f"dataset '{entry.dataset}' is not in the ledger")

    def _faults_of_raise(self, entry: BudgetRaised) -> Iterator[str]:
        before = self._account(entry.dataset)
        if before is None:
            yield from self._lacking(f"dataset '{entry.dataset}' is not in the ledger")
        elif entry.epsilon < before.epsilon_budget or entry.delta < before.delta_budget:
            yield "a budget is lowered"

    def _faults_of_series(self, entry: SeriesRegistered) -> Iterator[str]:
        if entry.series in self.series:
            yield f"series '{entry.series}' is registered a second time"
        yield from self._price_faults(entry)
        yield from self._faults_of_payment(entry)

    def _faults_of_charge(self, entry: ReleaseCharged) -> Iterator[str]:
        if entry.release_id in self.charges:
            yield f"release id '{entry.release_id}' is charged a second time"
        for _, taken in entry.samples:
            if taken in self.samples:
                yield f"its sample was used by release '{self.samples[taken]}'"
        yield from sample_faults(entry)
        yield from self._price_faults(entry)
        if entry.series is not None:
            yield from self._faults_of_place(entry, entry.series)
            return
        yield from self._faults_of_payment(entry)

    def _faults_of_place(self, entry: ReleaseCharged, place: SeriesPlace) -> Iterator[str]:
        series = self.series.get(place.name)
        if series is None:
            yield from self._lacking(f"series '{place.name}' has not paid for this release: nothing of that name")
        elif parts := unpaid_parts(entry, series):
            yield f"series '{place.name}' has not paid for this release: {', '.join(parts)}"
        if series is not None and place.number > series.price.releases:
            yield f"series '{place.name}' has paid for {series.price.releases} releases, and this is one more"
        for holder in self.places.get((place.name, place.number), ()):
            if "refunded" not in self.stages[holder]:
                yield f"release '{holder}' has this place in series '{place.name}'"

    def _faults_of_payment(self, entry: SeriesRegistered | ReleaseCharged) -> Iterator[str]:
        registered, before = self.datasets.get(entry.dataset), self._account(entry.dataset)
        if registered is None or before is None:
            yield from self._lacking(f"dataset '{entry.dataset}' is not in the ledger")
            return
        if (fault := survey_fault(entry.mechanism, registered.survey_rate)) is not None:
            yield fault
        if entry.price.relation != registered.relation:
            yield "the price and the budget hold for different neighbouring relations"
        if not before.charged(epsilon=entry.price.epsilon, delta=entry.price.delta).within_budget:
            yield f"the budget of dataset '{entry.dataset}' is exceeded"
        if registered.survey_rate is not None and entry.price.releases > 1:
            yield f"dataset '{entry.dataset}' is itself a sample and has a series"
        if registered.survey_rate is not None:
            others = [charge.release_id for charge in self.charges.values() if charge.dataset == entry.dataset]
            if any("refunded" not in self.stages[other] for other in others):
                yield f"dataset '{entry.dataset}' is itself a sample and is released a second time"
        beside = self.alone.get(entry.dataset, [])
        if holds_alone(entry.price.rule):
            beside = [charge.release_id for charge in self.charges.values() if charge.dataset == entry.dataset]
        if any("refunded" not in self.stages[other] for other in beside):
            yield f"a price of dataset '{entry.dataset}' holds for outcome counts alone, and something else is released"

    def _faults_of_stage(self, entry: ReleaseReading | ReleasePublished | ReleaseAbandoned) -> Iterator[str]:
        stages, charge = self.stages.get(entry.release_id), self.charges.get(entry.release_id)
        if stages is None or (self.lost and charge is None):
            yield from self._lacking(f"release '{entry.release_id}' was never charged")
        if stages is None:
            return
        if charge is not None and charge.dataset not in self.datasets:
            yield from self._lacking(f"dataset '{charge.dataset}' is not in the ledger")
        if stages & {"published", "abandoned", "refunded"}:
            yield f"release '{entry.release_id}' was closed before"
        reading = "reading" in stages
        match entry:
            case ReleaseReading() if reading:
                yield f"release '{entry.release_id}' begins to read a second time"
            case ReleasePublished() if not reading:
                yield from self._lacking(f"release '{entry.release_id}' is published without reading")
            case ReleaseAbandoned(refunded=refunded) if refunded == reading:
                yield "a cost is given back exactly where nothing was read, and here it is not so"
            case _:
                pass

    def _faults_of_token(self, entry: TokenAdded | TokenRevoked) -> Iterator[str]:
        revoked = self.tokens.get(entry.token_id)
        match entry:
            case TokenAdded():
                if revoked is not None:
                    yield f"token {entry.token_id} is added a second time"
            case TokenRevoked():
                if revoked is None:
                    yield from self._lacking(f"token {entry.token_id} was never added")
                elif revoked:
                    yield f"token {entry.token_id} is revoked a second time"
            case _:
                assert_never(entry)

    def _follow(self, entry: Entry) -> None:
        """Take over what the entry changes, whether or not it may."""
        charge = None
        name = getattr(entry, "dataset", None)
        match entry:
            case ReleaseReading() | ReleasePublished() | ReleaseAbandoned():
                charge = self.charges.get(entry.release_id)
                name = None if charge is None else charge.dataset
            case _:
                pass
        registered = None if name is None else self.datasets.get(name)
        once = registered is not None and registered.survey_rate is not None
        once = once or (charge is not None and holds_alone(charge.price.rule))
        before = None if name is None else self.accounts.get(name)
        holders: list[str] = []
        if isinstance(entry, ReleaseCharged) and entry.series is not None:
            holders = self.places.setdefault((entry.series.name, entry.series.number), [])
        self.rows = rows_of(entry, before=before, charge=charge, survey=once, turn=len(holders))
        self.counts = counts_of(entry, rows=self.rows, charge=charge)
        for row in self.rows:
            if row.table is account:
                self.accounts[str(row.values["dataset"])] = account_of_row(row.values)
        match entry:
            case DatasetAdded():
                self.datasets[entry.dataset] = entry
            case TokenAdded() | TokenRevoked():
                self.tokens[entry.token_id] = isinstance(entry, TokenRevoked)
            case SeriesRegistered():
                self.series[entry.series] = entry
            case ReleaseCharged():
                holders.append(entry.release_id)
                self._follow_charge(entry)
            case ReleaseReading() | ReleasePublished():
                passed = "reading" if isinstance(entry, ReleaseReading) else "published"
                self.stages.setdefault(entry.release_id, set()).add(passed)
            case ReleaseAbandoned():
                outcome = "refunded" if entry.refunded else "abandoned"
                self.stages.setdefault(entry.release_id, set()).add(outcome)
            case _:
                pass

    def _follow_charge(self, entry: ReleaseCharged) -> None:
        self.charges[entry.release_id] = entry
        if holds_alone(entry.price.rule):
            self.alone.setdefault(entry.dataset, []).append(entry.release_id)
        self.samples.update((taken, entry.release_id) for _, taken in entry.samples)
        self.stages[entry.release_id] = {"charged"}

    def _account(self, name: str) -> Account | None:
        known = self.accounts.get(name)
        return None if known is None else known.account

    def _price_faults(self, entry: SeriesRegistered | ReleaseCharged) -> tuple[str, ...]:
        registered = self.datasets.get(entry.dataset)
        return price_faults(
            mechanism=entry.mechanism,
            price=entry.price,
            epsilon_paper=entry.epsilon_paper,
            rows_per_person=1 if registered is None else registered.rows_per_person,
        )
