"""Every way to look into a ledger; nothing here can change it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from sqlalchemy import Connection, select

from ...mechanisms.kernel.errors import Refusal, ReleaseFailed
from ...mechanisms.kernel.mechanism import Mechanism
from ..kernel.field_forms import Fields
from ..kernel.keys.signing import PublicKey
from ..kernel.ledger.database import STREAMED, Store
from ..kernel.ledger.database import entry as entry_table
from ..kernel.ledger.entries import (
    BudgetRaised,
    ChargedPrice,
    DatasetUnit,
    Entry,
    FilterDatasetAdded,
    FreeSeriesRegistered,
    entry_of_bytes,
    sorted_fields,
)
from ..kernel.ledger.ledger_state import Dataset, LedgerState, Place, Receipt, Token
from ..kernel.ledger.rules import (
    Violation,
    account_violations,
    all_releases_taken,
    known_by_name,
    lone_violations,
    rows_violations,
    series_changed,
    survey_violations,
    taken_of_filter,
    uncovered,
    unit_violations,
    unknown,
)
from ..kernel.ledger.snapshot import require_own_signer
from ..kernel.ledger.transactions import (
    Look,
    OpenedLedger,
    last_place,
    require_sound_entries,
    stored_state,
    stored_statement,
)
from ..kernel.prices.mechanism_kind import Price
from ..kernel.prices.registry import mechanism_record
from ..keys.anchor import Anchoring
from .anchor_check import AnchorCheck, check_anchor, looking_anchored
from .budget_overview import Overview, overview_of
from .charge_request import charged_price
from .database_schema import typed
from .lookup import DatasetContext, DatasetState, RecordedLook, ReleaseState, SeriesState, release_states
from .opening import ledger_id_of, open_store
from .refusals import refusal_of, worded

if TYPE_CHECKING:
    from .checkpoint import Policy
    from .verification import Finding
    from .witnessed import WitnessCheck

Known = TypeVar("Known")


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


@worded()
def _known_by_name(of: Literal["dataset", "series"], name: str, known: Mapping[str, Known]) -> Known:
    """Return what the ledger has under a name; where it has nothing that is refused, as the caller's mistake."""
    return known_by_name(of, name, known)


def open_reader(url: str, *, anchoring: Anchoring | None = None) -> LedgerReader:
    """Open a ledger for looking; `InputRefused` where there is none, or one of another schema revision.

    Args:
        url: its address.
        anchoring: the private store of who looks; None for a stranger's, who knows no key.
    """
    return LedgerReader(open_store(url, read_only=True), anchoring)


class LedgerReader(OpenedLedger):
    """A ledger open for looking; what is asked by a name that the ledger doesn't have is refused (InputRefused).

    A state that others signed is refused (AccountantRefused) where the private store has an anchor of the ledger.
    """

    def __init__(self, store: Store, anchoring: Anchoring | None) -> None:
        super().__init__(store)
        self._anchoring = anchoring

    @contextmanager
    def _looking(self) -> Iterator[Look]:
        with self._store.reading() as connection:
            state, signer = stored_state(connection)
            self._require_own(connection, signer)
            yield Look(connection=connection, state=state)

    def _require_own(self, connection: Connection, signer: PublicKey) -> None:
        if self._anchoring is None:
            return
        ledger_id, last = ledger_id_of(connection), None
        # Where the anchor is another's or can't be read, nothing is known of whose the ledger is: `require_anchored`
        # refuses that, and a look without a private store of the ledger goes on.
        with suppress(Refusal):
            last = self._anchoring.last_of(ledger_id)
        if last is not None:
            require_own_signer(last_place(connection).position, signer, self._anchoring, last)

    def _state(self) -> LedgerState:
        with self._looking() as ledger:
            return ledger.state

    @property
    def ledger_id(self) -> str:
        """The ledger's id, 64 hexadecimal digits, by its first entry alone; `ReleaseFailed` where that is damaged."""
        with self._store.reading() as connection:
            return ledger_id_of(connection)

    @property
    def shown(self) -> str:
        """The ledger's address without password."""
        return self._store.shown

    def dataset(self, name: str) -> DatasetState:
        """Return a data set with its account."""
        return DatasetState.of(_known_by_name("dataset", name, self._state().datasets))

    def datasets(self) -> tuple[DatasetState, ...]:
        """Return all data sets with their accounts, by name."""
        return tuple(DatasetState.of(known) for _, known in sorted(self._state().datasets.items()))

    def check_charge(self, *, dataset: str, mechanism: Mechanism, price: Price, unit: DatasetUnit) -> Refusal | None:
        """Return what speaks against charging a price now, None where nothing does; nothing is reserved or recorded.

        Args:
            dataset: whose budget would pay.
            mechanism: what would be run.
            price: of it.
            unit: whose presence would be hidden.
        """
        state = self._state()
        known = _known_by_name("dataset", dataset, state.datasets)
        record = sorted_fields(mechanism_record(mechanism))
        broken = chain(
            unit_violations(dataset, unit, state),
            survey_violations(record, known.added),
            rows_violations(known, price.rows_per_person),
            price_violations(charged_price(price), mechanism=record, known=known),
        )
        # The first violation decides, in the order in which the writer checks them, so that looking and charging give
        # the same refusal.
        return next(map(refusal_of, broken), None)

    def dataset_context(self, receipt: Receipt) -> DatasetContext:
        """Return what the ledger said of a release's data set when it was charged, whatever was recorded since."""
        with self._looking() as ledger:
            state = ledger.state
            charged, known = state.releases.get(receipt.release_id), state.datasets.get(receipt.dataset)
            if charged is None or known is None:
                raise refusal_of(unknown("dataset", receipt.dataset))
            series = None if charged.series is None else state.series[charged.series].registered
            payer = series or release_states(ledger, [charged])[0].charge
        # Only looks before the charge: a certificate that is written again after a crash must have the same bytes,
        # whatever was recorded meanwhile.
        looks = (look for position, look in state.looks if position < receipt.position)
        return DatasetContext(
            rows_per_person=known.added.rows_per_person,
            look_days=tuple(look.day for look in looks if look.dataset == receipt.dataset),
            registered=series.mechanism if isinstance(series, FreeSeriesRegistered) else None,
            filter_budget=known.added if isinstance(known.added, FilterDatasetAdded) else None,
            filter_charge=payer.of_filter,
            unit=known.added.fixed_unit,
        )

    def private_looks(self) -> tuple[RecordedLook, ...]:
        """Return all private looks that were recorded, in their order."""
        return RecordedLook.all_of(self._state())

    def budget_raises(self) -> tuple[tuple[int, BudgetRaised], ...]:
        """Return every raise of a budget with its place, in their order."""
        return tuple(self._state().raises)

    def series(self, name: str) -> SeriesState:
        """Return a series as the ledger knows it."""
        return SeriesState.of(_known_by_name("series", name, self._state().series))

    def all_series(self) -> tuple[SeriesState, ...]:
        """Return all series, in the order of their registration."""
        return tuple(map(SeriesState.of, self._state().series.values()))

    def last_published_of_series(self, name: str) -> str | None:
        """Return the id of the release of a series that was charged last of those published; None where none is."""
        releases = reversed(self._state().releases.values())
        return next((one.release_id for one in releases if (one.series, one.stage) == (name, "published")), None)

    def look_at_series(
        self,
        *,
        name: str,
        dataset: str,
        spec_digest: str,
        mechanism: Mechanism,
        unit: DatasetUnit,
        part: int | None = None,
    ) -> Refusal | None:
        """Return what speaks against one more release that a series pays for; nothing is reserved or recorded.

        Args:
            name: of the series.
            dataset: the data set that would be released.
            spec_digest: SHA-256 (hex) of what the specifications of a series must have in common.
            mechanism: what would be run. A series without free columns has it in its digest.
            unit: whose presence would be hidden.
            part: that it would be of, where the series' mechanisms differ.
        """
        state = self._state()
        known = _known_by_name("series", name, state.series)
        registered, number = known.registered, known.places(part)[0]
        if dataset == registered.dataset:
            for violation in unit_violations(dataset, unit, state):
                return refusal_of(violation)
        parts, reason = ("specification",), None
        if (dataset, spec_digest) == (registered.dataset, registered.spec_digest):
            fields = sorted_fields(mechanism_record(mechanism))
            parts, reason = ("mechanism",), uncovered(fields, registered, number)
            if reason is None:
                if known.free_number(part) is None:
                    return refusal_of(all_releases_taken(registered, number=number))
                return next(map(refusal_of, lone_violations(fields, state.datasets[dataset])), None)
        fault = f"series '{registered.series}' has not paid for this release"
        return refusal_of(series_changed(registered, fault=fault, parts=parts, reason=reason, number=number))

    def release(self, release_id: str) -> ReleaseState | None:
        """Return a release as the ledger knows it, None where it has none of this id."""
        with self._looking() as ledger:
            known = ledger.state.releases.get(release_id)
            # Its entries are read and compared with the hashes in the signed state: what is returned was signed,
            # whatever the table holds now.
            return None if known is None else release_states(ledger, [known])[0]

    def releases(self) -> tuple[ReleaseState, ...]:
        """Return all releases, in the order of their charges."""
        with self._looking() as ledger:
            return release_states(ledger, ledger.state.releases.values())

    def open_releases(self, *, dataset: str | None = None, series: str | None = None) -> tuple[ReleaseState, ...]:
        """Return releases that are neither published nor abandoned, in the order of their charges.

        Args:
            dataset: only those that are charged to it.
            series: only those that it pays for; then in the order of their numbers.
        """
        with self._looking() as ledger:
            known = [
                one
                for one in ledger.state.releases.values()
                if one.open and dataset in (None, one.dataset) and series in (None, one.series)
            ]
            return release_states(ledger, known if series is None else sorted(known, key=lambda one: one.number or 0))

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens of the auditors' pages, in the order of their addition."""
        return tuple(self._state().tokens.values())

    def overview(self, *, latest: int | None) -> Overview:
        """Return the whole ledger at a glance, in one state.

        Args:
            latest: how many series and releases to list; None for all, and for estimates that take their time.
        """
        # Python's collector rests meanwhile: with a large state it would walk all of it, again and again.
        collecting = gc.isenabled()
        gc.disable()
        try:
            with self._store.reading() as connection:
                self._require_own(connection, stored_statement(connection).key)
                return overview_of(connection, latest=latest)
        finally:
            if collecting:
                gc.enable()

    def head(self) -> Place:
        """Return the last entry's place as it is stored."""
        with self._store.reading() as connection:
            return last_place(connection)

    def require_anchored(self, anchoring: Anchoring) -> None:
        """Refuse a ledger that is behind its anchor, or that others wrote, before anything depends on what it says.

        Raises:
            AccountantRefused: its head isn't signed by a key of the private store, or it is behind, or another chain,
                or its anchor is missing or damaged; or it has entries of kinds that this version doesn't know.
            InputRefused: the anchor can't be read.
        """
        with looking_anchored(self._store, anchoring):
            pass

    def entries(self) -> Iterator[RecordedEntry]:
        """Give all entries in the order of the chain, once all are known to be those that were signed.

        Raises:
            AccountantRefused: one was changed, removed or inserted, or another key signed the last one.
            ReleaseFailed: one can't be read, or is of a later version.
        """
        with self._looking() as ledger:
            connection = ledger.connection
            require_sound_entries(connection, ledger.state)
            columns = [typed(entry_table.c[name]) for name in ("position", "previous", "hash", "body")]
            chain = select(*columns).order_by(entry_table.c.position)
            # Streamed, since a ledger of a million entries would not fit into memory with all bodies.
            with connection.execute(chain, execution_options=STREAMED) as rows:
                for row in rows:
                    try:
                        read = entry_of_bytes(row.body.encode("ascii"))
                    except ValueError:
                        raise ReleaseFailed(
                            f"entry {row.position} can't be read.",
                            where=self.shown,
                            not_done="It is damaged, or was written by a later version.",
                            remedy="Run `crowdblend ledger verify`.",
                        ) from None
                    yield RecordedEntry(position=row.position, previous=row.previous, hash=row.hash, entry=read)

    def verify(self) -> tuple[Finding, ...]:
        """Return everything that does not hold: chain, prices, single use, accounts, snapshot, schema.

        What was cut off at the end together with all that followed from it can't be seen from inside, nor can a
        chain that was written anew as a whole: that takes `verify_anchor`.
        """
        from .verification import verify_ledger  # with it come all prices' modules, which a look does without

        with self._store.reading() as connection:
            return verify_ledger(connection)

    def verify_anchor(self, path: Path, *, trusted: tuple[PublicKey, ...]) -> AnchorCheck:
        """Hold the chain against an anchor's file, as `check_anchor`: truncation and rollback are found."""
        return check_anchor(path, connect=self._store.reading, trusted=trusted)

    def verify_witnessed(self, path: Path, *, policy: Policy, trusted: tuple[PublicKey, ...]) -> WitnessCheck:
        """Hold the chain against what witnesses have seen, as `check_witnessed`."""
        from .witnessed import check_witnessed  # most looks at a ledger do without the tree

        return check_witnessed(path, connect=self._store.reading, policy=policy, trusted=trusted)


def price_violations(price: ChargedPrice, *, mechanism: Fields, known: Dataset) -> Iterator[Violation]:
    """Give what speaks against charging a mechanism's price to a data set, as far as it is known before the charge."""
    taken = taken_of_filter(mechanism, price, known.added) if isinstance(known.added, FilterDatasetAdded) else None
    if isinstance(taken, Violation):
        yield taken
    else:
        yield from account_violations(price, taken, mechanism, known)
