"""How a release is paid for, read and published: each step is one transaction that is durable when it returns."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain

from ....mechanisms.kernel.errors import AccountantRefused
from ..field_forms import Fields, OutputHashes
from .database import Store
from .entries import (
    DatasetUnit,
    FilterDatasetAdded,
    FreeSeriesRegistered,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    SeriesRegistered,
)
from .filter_budget import FilterBudget, charged_to
from .ledger_state import Receipt, Release
from .rules import RuleBroken, known_by_name, price_faults, rows_violations, unit_violations
from .snapshot import Anchor
from .transactions import Look, OpenedLedger, Write, looking, writing


class ReleaseWriter(OpenedLedger):
    """A ledger open for charges and for what follows on them; an entry that would break a rule raises `RuleBroken`.

    What can't be used, and what others than this software changed, is refused as `writing` says.
    """

    def __init__(self, store: Store, anchor: Anchor) -> None:
        super().__init__(store)
        self._anchor = anchor
        with self._writing() as ledger:
            self.ledger_id = ledger.state.ledger_id

    @classmethod
    def over(cls, ledger: ReleaseWriter) -> ReleaseWriter:
        """Return a writer of this class itself over the database that another one has open."""
        own = object.__new__(cls)
        own._store, own._anchor, own.ledger_id = ledger._store, ledger._anchor, ledger.ledger_id
        return own

    def _writing(self) -> AbstractContextManager[Write]:
        return writing(self._store, self._anchor)

    def pay_for_series(self, entry: SeriesRegistered, *, rows_per_person: int, unit: DatasetUnit | None) -> None:
        """Reserve the cost of several releases, in one entry; as `charge`. `unit` is None in a data set without one."""
        _price_beforehand(entry, mechanism=entry.mechanism, rows_per_person=rows_per_person)
        with self._writing() as ledger:
            _pay(ledger, entry, rows_per_person=rows_per_person, unit=unit)

    def charge(
        self, entry: ReleaseCharged, *, rows_per_person: int, unit: DatasetUnit, part: int | None = None
    ) -> Receipt:
        """Reserve a release's cost and its sample, in one entry.

        A release of a series takes the series' next free place in that entry, and costs nothing more: what number the
        entry has is chosen here.

        Args:
            entry: the charge.
            rows_per_person: for how many records of a person its price is.
            unit: whose presence it hides.
            part: its part of a series of different mechanisms, from 1; None elsewhere.
        """
        # Pricing may take seconds, in which nobody else could write: so it comes before the writers' lock.
        priced: ReleaseCharged | SeriesRegistered = entry
        if (place := entry.series) is not None:
            with looking(self._store) as ledger:
                registered = known_by_name("series", place.name, ledger.state.series).registered
            priced = registered if isinstance(registered, FreeSeriesRegistered) else entry
        _price_beforehand(entry, mechanism=priced.mechanism, rows_per_person=rows_per_person)
        with self._writing() as ledger:
            if place is not None:
                series = known_by_name("series", place.name, ledger.state.series)
                # Where no place is free it is the first, and the rules refuse that.
                number = series.free_number(part) or series.places(part)[0]
                entry = replace(entry, series=replace(place, number=number))
            _pay(ledger, entry, rows_per_person=rows_per_person, unit=unit)
        return ledger.state.releases[entry.release_id].receipt(self.ledger_id)

    def charged(self, receipt: Receipt) -> ReleaseCharged:
        """Return the charge that a receipt is for, as the ledger has it; one that is not of this ledger is refused."""
        with looking(self._store) as ledger:
            return ledger.charge_of(_paid_release(ledger, receipt))

    def has_release(self, release_id: str) -> bool:
        """Return whether a release of this id was charged, alone among writers and by what continues the anchor."""
        with self._writing() as ledger:  # the lock waits for a charge whose connection was lost within its commit
            return release_id in ledger.state.releases

    def charged_before(self, release_id: str) -> tuple[Receipt, ReleaseCharged]:
        """Return receipt and charge of a release that goes on; one that can't, or was never charged, is refused."""
        with self._writing() as ledger:
            known = ledger.state.releases.get(release_id)
            if known is None or known.stage == "abandoned":
                raise AccountantRefused("this release can't go on.", where=f"release '{release_id}'")
            return known.receipt(self.ledger_id), ledger.charge_of(known)

    def mark_reading(self, receipt: Receipt) -> None:
        """Record that records are about to be read: from here on the cost is spent for ever.

        A second call for the same release changes nothing, so that a resumed release may make it again. A receipt that
        is not of this ledger is refused with `AccountantRefused`.
        """
        with self._writing() as ledger:
            if _paid_release(ledger, receipt).stage != "reading":
                ledger.append(ReleaseReading(release_id=receipt.release_id))

    def mark_published(self, receipt: Receipt, output_hashes: OutputHashes) -> None:
        """Close a release whose files are in view; ValueError for a name or digest of another form.

        A second call with the same files changes nothing, so that a resumed release may make it again. A receipt that
        is not of this ledger is refused with `AccountantRefused`.
        """
        entry = ReleasePublished(release_id=receipt.release_id, output_hashes=tuple(sorted(output_hashes)))
        with self._writing() as ledger:
            end = _paid_release(ledger, receipt)
            closing = {} if end.closed is None else {end.closed: end.closing or ""}
            if entry not in ledger.entries(closing).values():
                ledger.append(entry)


def _pay(
    ledger: Write, entry: ReleaseCharged | SeriesRegistered, *, rows_per_person: int, unit: DatasetUnit | None
) -> None:
    """Append a charge with what it takes of a filter budget, where no rule speaks against what is asked for."""
    state = ledger.state
    known = state.datasets.get(entry.dataset)
    of_unit = () if unit is None else unit_violations(entry.dataset, unit, state)
    of_rows = () if known is None else rows_violations(known, rows_per_person)
    for violation in chain(of_unit, of_rows):
        raise RuleBroken(violation)
    paid = isinstance(entry, ReleaseCharged) and entry.series is not None
    added = None if known is None else known.added
    if isinstance(added, FilterDatasetAdded) and not paid and not isinstance(entry, FreeSeriesRegistered):
        entry = charged_to(FilterBudget.of(added), entry, rows_per_person=rows_per_person)
    ledger.append(entry)


def _price_beforehand(entry: ReleaseCharged | SeriesRegistered, *, mechanism: Fields, rows_per_person: int) -> None:
    """Compute a price before the transaction, since it takes time; the rules find it computed."""
    paper = entry.epsilon_paper
    price_faults(mechanism=mechanism, price=entry.price, epsilon_paper=paper, rows_per_person=rows_per_person)


def _paid_release(ledger: Look, receipt: Receipt) -> Release:
    """Return the release that a receipt pays for; refuse a receipt that this ledger did not give."""
    known = ledger.state.releases.get(receipt.release_id)
    if known is None or known.receipt(ledger.state.ledger_id) != receipt:
        raise AccountantRefused(
            "this receipt is not of this ledger.",
            where=f"release '{receipt.release_id}'",
            remedy="Charge the release to this ledger first.",
        )
    return known
