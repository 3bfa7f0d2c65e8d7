"""Every way to look into a ledger; nothing here can change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select

from ...mechanisms.errors import ReleaseFailed
from ...mechanisms.mechanism import Mechanism
from ..theory.kinds.kind import Price
from ..theory.kinds.registry import mechanism_record
from .chain.anchor import Anchoring
from .chain.check import AnchorCheck, KeptVerification, Reached, check_anchor, verify_resumable
from .chain.hashing import Finding, Head
from .chain.signed_state import Place, head_of
from .charge import DatasetContext, Receipt, charged_price
from .database.schema import STREAMED
from .database.schema import dataset as dataset_table
from .database.schema import entry as entry_table
from .database.schema import series as series_table
from .database.store import OpenedLedger, open_store, present_head, require_known_kinds
from .entries.codec import entry_of_bytes, sorted_fields
from .entries.kinds import BudgetRaised, DatasetUnit, Entry, FilterDatasetAdded, FreeSeriesRegistered
from .overview import Overview, overview_of
from .private_store.signing import PublicKey
from .queries import (
    DatasetState,
    RecordedLook,
    ReleaseState,
    SeriesState,
    all_series,
    dataset_of,
    datasets_of,
    entries_of,
    free_number,
    last_published_of_series,
    ledger_id_of,
    names_of,
    open_releases_of_dataset,
    open_releases_of_series,
    places_of,
    private_looks,
    registration_of,
    release_of,
    releases_of,
    series_of,
)
from .rules.rule import StoredState, Violation, unknown
from .rules.series import all_releases_taken, other_specification
from .rules.violations import budget_violations, unit_violations
from .tokens import TokenState, tokens_of

if TYPE_CHECKING:
    from .chain.checkpoint import Policy
    from .witnessed import WitnessCheck

__all__ = ["DatasetState", "LedgerReader", "RecordedEntry", "ReleaseState", "SeriesState", "open_reader"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedEntry:
    """An entry and its place in the chain.

    Args:
        position: from 0.
        previous: hash of the entry before it, 64 hexadecimal digits.
        hash: its own hash.
        entry: what it records.
    """

    position: int
    previous: str
    hash: str
    entry: Entry


def open_reader(url: str) -> LedgerReader:
    """Open a ledger for looking; it is never created or changed here.

    Raises:
        InputRefused: there is none, or one of another schema revision.
    """
    return LedgerReader(open_store(url, anchoring=None))


class LedgerReader(OpenedLedger):
    """A ledger open for looking."""

    @property
    def ledger_id(self) -> str:
        """The ledger's id, 64 hexadecimal digits.

        Raises:
            ReleaseFailed: the first entry is damaged.
        """
        with self._store.reading() as connection:
            return ledger_id_of(connection)

    @property
    def shown(self) -> str:
        """The ledger's address without password."""
        return self._store.shown

    def dataset(self, name: str) -> DatasetState:
        """A data set with its account.

        Raises:
            InputRefused: the ledger has none of this name.
        """
        with self._store.looking() as connection:
            state = dataset_of(connection, name)
            known = () if state is not None else names_of(connection, dataset_table)
        if state is None:
            raise unknown("dataset", name, known=known).refusal
        return state

    def check_charge(self, *, dataset: str, mechanism: Mechanism, price: Price, unit: DatasetUnit) -> Violation | None:
        """What speaks against charging a price now, None where nothing does; nothing is reserved or recorded.

        Args:
            dataset: whose budget would pay.
            mechanism: what would be run.
            price: of it.
            unit: whose presence would be hidden.

        Raises:
            InputRefused: unknown data set.
        """
        record = sorted_fields(mechanism_record(mechanism))
        with self._store.looking() as connection:
            state = StoredState(connection)
            rules = budget_violations(
                charged_price(price),
                mechanism=record,
                rows_per_person=price.rows_per_person,
                dataset=dataset,
                state=state,
            )
            broken = next(chain(unit_violations(dataset, unit, state), rules), None)
            if broken is not None and broken.lacking:
                broken = unknown("dataset", dataset, known=names_of(connection, dataset_table))
        if broken is not None and broken.mistake:
            raise broken.refusal
        return broken

    def dataset_context(self, receipt: Receipt) -> DatasetContext:
        """What the ledger said of a release's data set when it was charged, whatever was recorded since.

        Raises:
            InputRefused: the receipt is not of this ledger.
        """
        with self._store.looking() as connection:
            looks, dataset = private_looks(connection), registration_of(connection, receipt.dataset)
            charged = release_of(connection, receipt.release_id)
            place = None if charged is None else charged.charge.series
            series = None if place is None else series_of(connection, place.name)
        if dataset is None:
            raise unknown("dataset", receipt.dataset).refusal
        payer = series.registered if series is not None else None if charged is None else charged.charge
        days = (
            known.look.day
            for known in looks
            if known.position < receipt.position and known.look.dataset == receipt.dataset
        )
        free = series is not None and isinstance(series.registered, FreeSeriesRegistered)
        return DatasetContext(
            rows_per_person=dataset.rows_per_person,
            look_days=tuple(days),
            registered=series.registered.mechanism if series is not None and free else None,
            filter_budget=dataset if isinstance(dataset, FilterDatasetAdded) else None,
            filter_charge=None if payer is None else payer.of_filter,
            unit=dataset.fixed_unit,
        )

    def private_looks(self) -> tuple[RecordedLook, ...]:
        """All private looks that were recorded, in their order."""
        with self._store.looking() as connection:
            return private_looks(connection)

    def budget_raises(self) -> tuple[tuple[int, BudgetRaised], ...]:
        """Every raise of a budget with its place, in their order."""
        with self._store.looking() as connection:
            return entries_of(connection, BudgetRaised)

    def series(self, name: str) -> SeriesState:
        """A series as the ledger knows it.

        Raises:
            InputRefused: the ledger has none of this name.
        """
        with self._store.looking() as connection:
            state = series_of(connection, name)
            known = () if state is not None else names_of(connection, series_table)
        if state is None:
            raise unknown("series", name, known=known).refusal
        return state

    def all_series(self) -> tuple[SeriesState, ...]:
        """All series, in the order of their registration."""
        with self._store.looking() as connection:
            return all_series(connection)

    def open_releases_of_series(self, name: str) -> tuple[ReleaseState, ...]:
        """Releases of a series that are charged and neither published nor abandoned, by their numbers."""
        with self._store.looking() as connection:
            return open_releases_of_series(connection, name)

    def last_published_of_series(self, name: str) -> str | None:
        """Id of the release of a series that was published last; None where none is."""
        with self._store.looking() as connection:
            return last_published_of_series(connection, name)

    def open_releases_of_dataset(self, name: str) -> tuple[ReleaseState, ...]:
        """Releases of a data set that are charged and neither published nor abandoned, in the order of their charges.

        The time grows with the data set's releases, which its budget bounds.
        """
        with self._store.looking() as connection:
            return open_releases_of_dataset(connection, name)

    def look_at_series(
        self,
        *,
        name: str,
        dataset: str,
        spec_digest: str,
        mechanism: Mechanism,
        unit: DatasetUnit,
        part: int | None = None,
    ) -> Violation | None:
        """Look whether a series would pay for one more release now; nothing is reserved or recorded.

        Args:
            name: of the series.
            dataset: the data set that would be released.
            spec_digest: SHA-256 (hex) of what the specifications of a series must have in common.
            mechanism: what would be run.
            unit: whose presence would be hidden.
            part: that it would be of, where the series' mechanisms differ.

        Raises:
            InputRefused: the ledger has no series of this name.
        """
        record = sorted_fields(mechanism_record(mechanism))
        with self._store.looking() as connection:
            state = series_of(connection, name)
            if state is None:
                raise unknown("series", name).refusal
            full = free_number(connection, state, part=part) is None
            units = unit_violations(dataset, unit, StoredState(connection))
            other_unit = next(units, None) if dataset == state.registered.dataset else None
        number = places_of(state.registered, part)[0]
        other = other_specification(
            state.registered, dataset=dataset, spec_digest=spec_digest, mechanism=record, number=number
        )
        return other_unit or other or (all_releases_taken(state.registered, number=number) if full else None)

    def release(self, release_id: str) -> ReleaseState | None:
        """A release as the ledger knows it, None where it has none of this id."""
        with self._store.looking() as connection:
            return release_of(connection, release_id)

    def releases(self) -> tuple[ReleaseState, ...]:
        """All releases, in the order of their charges."""
        with self._store.looking() as connection:
            return releases_of(connection)

    def tokens(self) -> tuple[TokenState, ...]:
        """All tokens of the auditors' pages, in the order of their addition."""
        with self._store.looking() as connection:
            return tokens_of(connection)

    def overview(self, *, latest: int | None) -> Overview:
        """The whole ledger at a glance, in one state.

        Args:
            latest: how many series and releases to list; None for all, and for estimates that take their time.
        """
        with self._store.looking() as connection:
            return overview_of(connection, latest=latest)

    def head(self) -> Place:
        """The last entry's place in the chain."""
        with self._store.reading() as connection:
            return head_of(connection)

    def require_anchored(self, anchoring: Anchoring) -> None:
        """Refuse a ledger that is behind its anchor, or that others wrote, before anything depends on what it says.

        Raises:
            AccountantRefused: its head isn't signed by a key of the private store, or it is behind, or another chain,
                or its anchor is missing or damaged; or it has entries of kinds that this version doesn't know.
            InputRefused: the anchor can't be read.
        """
        ledger_id = self.ledger_id
        last = anchoring.last_of(ledger_id)
        with self._store.reading() as connection:
            anchoring.require_continued(connection, ledger_id=ledger_id, last=last)
            anchoring.require_signed(connection, present_head(connection))
            require_known_kinds(connection, self.shown)

    def datasets(self) -> tuple[DatasetState, ...]:
        """All data sets with their accounts, by name."""
        with self._store.looking() as connection:
            return datasets_of(connection)

    def entries(self) -> Iterator[RecordedEntry]:
        """All entries in the order of the chain, read as they are asked for.

        Raises:
            ReleaseFailed: an entry of a kind that this version does not know, or a damaged one.
        """
        with self._store.reading() as connection:
            rows = connection.execute(select(entry_table).order_by(entry_table.c.position), execution_options=STREAMED)
            for row in rows:
                read = self._entry(row.position, row.body)
                yield RecordedEntry(position=row.position, previous=row.previous, hash=row.hash, entry=read)

    def _entry(self, position: int, body: object) -> Entry:
        """An entry as it is stored; SQLite may hold something else than text."""
        try:
            return entry_of_bytes(str(body).encode("ascii"))
        except ValueError:
            raise ReleaseFailed(
                f"entry {position} can't be read.",
                where=self._store.shown,
                not_done="It is damaged, or was written by a later version.",
                remedy="Run `crowdblend ledger verify`.",
            ) from None

    def verify(self) -> tuple[Finding, ...]:
        """Everything that does not hold: chain, prices, single use, accounts, derived tables, guards.

        What was cut off at the end together with all that followed from it can't be seen from inside, nor can a
        chain that was written anew as a whole: that takes `verify_anchor`.
        """
        from .rules.audit import (
            verify_ledger,  # with it come all prices' modules, which a look at the ledger does without
        )

        with self._store.reading() as connection:
            return verify_ledger(connection)

    def verify_resumed(self, kept: KeptVerification | None) -> tuple[tuple[Finding, ...], Reached | None]:
        """The same, going on from an earlier verification; what was reached is told where all holds.

        Args:
            kept: of an earlier verification; None to begin with the first entry.

        Raises:
            InputRefused: it is of another ledger.
        """
        return verify_resumable(kept, connect=self._store.reading)

    def verify_anchor(self, path: Path, *, trusted: tuple[PublicKey, ...], asked: Head | None = None) -> AnchorCheck:
        """Hold the chain against an anchor: truncation, rollback and a chain written anew are found.

        Args:
            path: the anchor's file, or a copy of it.
            trusted: public keys that may have signed it; where there are none, it isn't checked whose they are.
            asked: a head whose line in the anchor is wanted.

        Raises:
            InputRefused: the anchor can't be read.
        """
        return check_anchor(path, connect=self._store.reading, trusted=trusted, asked=asked)

    def verify_witnessed(self, path: Path, *, policy: Policy, trusted: tuple[PublicKey, ...]) -> WitnessCheck:
        """Hold the chain against what witnesses have seen: one that was written anew with its private store is found.

        Args:
            path: the checkpoint that was witnessed last.
            policy: which witnesses count, and how many of them are needed.
            trusted: public keys that may have signed it, where the policy names none.
        """
        from .witnessed import check_witnessed  # most looks at a ledger do without the tree

        return check_witnessed(path, connect=self._store.reading, policy=policy, trusted=trusted)
