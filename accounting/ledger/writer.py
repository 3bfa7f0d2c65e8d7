"""Every way to write to a ledger: each call is one transaction that is durable when it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import date
from decimal import Decimal
from itertools import chain

from sqlalchemy import Connection

from ...mechanisms.errors import AccountantRefused, InputRefused, Refusal, ReleaseFailed
from ..theory.composition.group_privacy import no_price_for_surveyed_group
from .chain.anchor import Anchoring
from .chain.append import append_entry
from .chain.signed_state import Place
from .charge import Receipt, ReleaseCharge, SeriesRegistration, price_faults
from .database.store import OpenedLedger, Store, open_store
from .entries.kinds import (
    BudgetRaised,
    DataAccess,
    DatasetAdded,
    DatasetUnit,
    Entry,
    Fields,
    FilterAccounting,
    FilterDatasetAdded,
    FilterUnitDatasetAdded,
    FreeSeriesRegistered,
    OutputHashes,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
    UnitDatasetAdded,
)
from .queries import RecordedLook, ReleaseState, free_number, ledger_id_of, places_of, series_of
from .rules.rule import StoredState, unknown
from .rules.violations import unit_violations, violations
from .tokens import secret_digest, token_text, tokens_of

__all__ = ["LedgerWriter", "Receipt", "ReleaseCharge", "open_writer"]


def open_writer(url: str, *, anchoring: Anchoring) -> LedgerWriter:
    """Open a ledger for writing; it is never created here.

    Args:
        url: its address.
        anchoring: who signs the chain's heads, and where they are copied to.

    Raises:
        InputRefused: there is none, one of another schema revision, or one that can't be written; or there is no
            signing key.
        AccountantRefused: the ledger is behind its anchor.
    """
    try:
        return LedgerWriter(open_store(url, anchoring=anchoring))
    except ReleaseFailed as failure:
        raise InputRefused(
            failure.what,
            where=failure.where,
            remedy="Check the permissions, and run `crowdblend ledger verify`.",
            cause="ledger-unreachable",
        ) from None


class LedgerWriter(OpenedLedger):
    """A ledger open for writing."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        with store.writing() as connection:
            self.ledger_id = ledger_id_of(connection)

    def add_dataset(
        self,
        *,
        name: str,
        epsilon: Decimal,
        delta: Decimal,
        relation: str,
        survey_rate: Decimal | None,
        rows_per_person: int,
        by: str,
        day: date,
        accounting: FilterAccounting | None = None,
        unit: DatasetUnit | None = None,
    ) -> None:
        """Register a data set and its budget.

        Args:
            name: unique in the ledger.
            epsilon: budget of ε, more than 0.
            delta: budget of δ, below 1.
            relation: the one neighbouring relation that its prices must hold for.
            survey_rate: rate of the data set's own sampling where that is part of the price, else None.
            rows_per_person: the most records that one person has in a delivery.
            by: who adds it.
            day: today.
            accounting: how its budget is accounted if it is a filter's; None for one that adds prices up.
            unit: whose presence all its releases hide; None fixes none, as earlier versions did.

        Raises:
            InputRefused: the name exists, a value is outside its range, or it is a sample of people with several
                records, which nothing is priced for, or one with a filter budget.
        """
        if survey_rate is not None and rows_per_person > 1:
            raise no_price_for_surveyed_group(rows_per_person, where=f"dataset '{name}'")
        with _well_formed():
            added = DatasetAdded(
                dataset=name,
                epsilon=epsilon,
                delta=delta,
                relation=relation,
                survey_rate=survey_rate,
                rows_per_person=rows_per_person,
                by=by,
                day=day,
            )
            values = {field.name: getattr(added, field.name) for field in fields(added)}
            if accounting is not None and unit is not None:
                added = FilterUnitDatasetAdded(**values, accounting=accounting, unit=unit)
            elif accounting is not None:
                added = FilterDatasetAdded(**values, accounting=accounting)
            elif unit is not None:
                added = UnitDatasetAdded(**values, unit=unit)
        self._record(added)

    def raise_budget(self, *, name: str, epsilon: Decimal, delta: Decimal, reason: str, by: str, day: date) -> None:
        """Replace a data set's budget by a larger one.

        Args:
            name: of the data set.
            epsilon: the new budget of ε, not the difference.
            delta: the new budget of δ.
            reason: why, in one line.
            by: who raises it.
            day: today.

        Raises:
            InputRefused: unknown data set, a value outside its range, or a budget that is not larger.
        """
        with _well_formed():
            raised = BudgetRaised(dataset=name, epsilon=epsilon, delta=delta, reason=reason, by=by, day=day)
        self._record(raised)

    def record_look(self, *, dataset: str, what: str, by: str, day: date) -> RecordedLook:
        """Record that somebody looked at a data set's records outside any release.

        Args:
            dataset: whose records were looked at.
            what: what was looked at, in one line; never a value of the records.
            by: who looked.
            day: today.

        Returns:
            The look with its place in the chain: the proof that it is recorded, for whoever reads records by it.

        Raises:
            InputRefused: unknown data set, or a value that the ledger can't hold.
        """
        with _well_formed():
            look = DataAccess(dataset=dataset, what=what, by=by, day=day)
        return RecordedLook(position=self._record(look).position, look=look)

    def register_series(self, registration: SeriesRegistration) -> None:
        """Reserve the cost of several releases with fixed parameters, in one entry; a refusal is recorded too.

        Raises:
            InputRefused: unknown data set, a series of this name, or a value that the ledger can't hold.
            AccountantRefused: a price that is not the mechanism's, another neighbouring relation, a survey, or a
                budget that it would pass.
        """
        with _well_formed():
            entry = registration.entry
        _price_beforehand(entry, registration.price.rows_per_person, mechanism=entry.mechanism)
        with self._store.writing() as connection:
            rows = registration.price.rows_per_person
            _, refusal = _pay(connection, entry, rows_per_person=rows, unit=registration.unit)
        if refusal is not None:
            raise refusal

    def charge(self, charge: ReleaseCharge) -> Receipt:
        """Reserve a release's cost and its sample, in one entry; a refusal is recorded too.

        A release of a series takes the series' next free place in that entry, and costs nothing more.

        Raises:
            InputRefused: unknown data set or series, or a value that the ledger can't hold.
            AccountantRefused: a known release id, a used sample, a price that is not the mechanism's, another
                neighbouring relation, a survey that was released before, a budget that it would pass, or a series
                with other parameters or without a free place.
        """
        with _well_formed():
            entry = charge.entry_at(None if charge.series is None else 1)
        registered = None if charge.series is None else self._registered(charge.series)
        paid = registered if isinstance(registered, FreeSeriesRegistered) else entry
        _price_beforehand(entry, charge.price.rows_per_person, mechanism=paid.mechanism)
        with self._store.writing() as connection:
            if charge.series is not None:
                entry = charge.entry_at(_next_number(connection, charge.series, part=charge.part))
            rows = charge.price.rows_per_person
            place, refusal = _pay(connection, entry, rows_per_person=rows, unit=charge.unit)
        if refusal is not None:
            raise refusal
        return Receipt.of(entry, ledger_id=self.ledger_id, position=place.position, link=place.hash)

    def charged(self, receipt: Receipt) -> ReleaseCharged:
        """The charge that a receipt is for, as the ledger has it.

        Raises:
            AccountantRefused: the receipt is not of this ledger.
        """
        with self._store.looking() as connection:
            return _paid_release(StoredState(connection), receipt).charge

    def has_release(self, release_id: str) -> bool:
        """Return whether a release of this id was charged."""
        with self._store.looking() as connection:
            return StoredState(connection).release(release_id) is not None

    def mark_reading(self, receipt: Receipt) -> None:
        """Record that records are about to be read: from here on the cost is spent for ever.

        A second call for the same release changes nothing, so that a resumed release may make it again.

        Raises:
            AccountantRefused: the receipt is not of this ledger, or the release was published or abandoned.
        """
        with self._store.writing() as connection:
            state = StoredState(connection)
            if _paid_release(state, receipt).stage != "reading":
                _append(connection, ReleaseReading(release_id=receipt.release_id), state)

    def mark_published(self, receipt: Receipt, output_hashes: OutputHashes) -> None:
        """Close a release whose files are in view.

        A second call with the same files changes nothing, so that a resumed release may make it again.

        Args:
            receipt: of the release.
            output_hashes: name and SHA-256 (hex) of each published file.

        Raises:
            AccountantRefused: the receipt is not of this ledger, or the release is not being read.
            ValueError: a name or digest has another form.
        """
        entry = ReleasePublished(release_id=receipt.release_id, output_hashes=tuple(sorted(output_hashes)))
        with self._store.writing() as connection:
            state = StoredState(connection)
            known = _paid_release(state, receipt)
            if known.stage != "published" or known.output_hashes != entry.output_hashes:
                _append(connection, entry, state)

    def abandon(self, *, release_id: str, reason: str, by: str, day: date) -> bool:
        """Give a release up; its id and its sample stay used.

        Args:
            release_id: the release.
            reason: why, in one line.
            by: who abandons it.
            day: today.

        Returns:
            Whether the cost was given back: only where `reading` was never recorded.

        Raises:
            InputRefused: no such release, or a reason that the ledger can't hold.
            AccountantRefused: the release was published, or abandoned before.
        """
        with self._store.writing() as connection:
            state = StoredState(connection)
            outcomes = state.outcomes(release_id)
            if not outcomes:
                raise unknown("release", release_id).refusal
            refunded = "reading" not in outcomes
            with _well_formed():
                entry = ReleaseAbandoned(release_id=release_id, reason=reason, refunded=refunded, by=by, day=day)
            _append(connection, entry, state)
            return refunded

    def add_token(self, *, name: str, expires: date, by: str, day: date, randomness: Callable[[int], bytes]) -> str:
        """Let somebody look at the auditors' pages until a day; the ledger keeps the token's digest alone.

        Returns:
            The token's text, which can't be had again.

        Raises:
            InputRefused: a token of this name opens the pages already, or a value is outside its range.
        """
        token_id, secret = randomness(8).hex(), randomness(32)
        with _well_formed():
            digest = secret_digest(token_id, secret)
            added = TokenAdded(token_id=token_id, name=name, secret_digest=digest, expires=expires, by=by, day=day)
        with self._store.writing() as connection:
            if any(state.added.name == name and state.opens(day) for state in tokens_of(connection)):
                raise InputRefused(
                    "a token of this name is in use.",
                    where=f"token '{name}'",
                    remedy="Revoke it first with `crowdblend token revoke`, or choose another name.",
                )
            _append(connection, added, StoredState(connection))
        return token_text(token_id, secret)

    def revoke_token(self, *, name: str, by: str, day: date) -> str:
        """Revoke the token of a name or id, which opens nothing from the next request on; gives its id.

        Raises:
            InputRefused: there is none that was not revoked, or a value that the ledger can't hold.
        """
        with self._store.writing() as connection:
            known = [state.added for state in tokens_of(connection) if state.revoked is None]
            found = [added.token_id for added in known if name in (added.name, added.token_id)]
            if not found:
                raise unknown("token", name).refusal
            with _well_formed():
                revoked = TokenRevoked(token_id=found[-1], by=by, day=day)
            _append(connection, revoked, StoredState(connection))
        return found[-1]

    def record_refusal(self, *, release_id: str | None, dataset: str, cause: str, reason: str, day: date) -> None:
        """Record a refusal that was made outside the ledger, such as a release id with another specification.

        PRIVACY: the reason is public text; it never holds a value of the records.

        Raises:
            InputRefused: a value that the ledger can't hold.
        """
        with _well_formed():
            refused = ReleaseRefused(release_id=release_id, dataset=dataset, cause=cause, reason=reason, day=day)
        self._record(refused)

    def _registered(self, name: str) -> SeriesRegistered:
        """A series as it was registered, whose price its releases bear."""
        with self._store.looking() as connection:
            known = series_of(connection, name)
        if known is None:
            raise unknown("series", name).refusal
        return known.registered

    def _record(self, entry: Entry) -> Place:
        """Write one entry, in a transaction of its own."""
        with self._store.writing() as connection:
            return _append(connection, entry, StoredState(connection))


@contextmanager
def _well_formed() -> Iterator[None]:
    """Refuse, as the caller's mistake, a value that the ledger can't hold."""
    try:
        yield
    except ValueError as error:
        raise InputRefused(f"{error}.", where="ledger") from None


def _append(connection: Connection, entry: Entry, state: StoredState) -> Place:
    """Append an entry that breaks no rule, or refuse it."""
    for violation in violations(entry, state):
        raise violation.refusal
    return append_entry(connection, entry, state)


def _pay(
    connection: Connection, entry: ReleaseCharged | SeriesRegistered, *, rows_per_person: int, unit: DatasetUnit | None
) -> tuple[Place, Refusal | None]:
    """Append a charge, or a record of its refusal by the accountant, which is kept as evidence and given back."""
    state = StoredState(connection)
    entry = _accounted(entry, state.dataset(entry.dataset), rows_per_person=rows_per_person)
    of_unit = () if unit is None else unit_violations(entry.dataset, unit, state)
    violation = next(chain(of_unit, violations(entry, state, rows_per_person=rows_per_person)), None)
    if violation is None:
        return append_entry(connection, entry, state), None
    refusal = violation.refusal
    if violation.mistake:
        raise refusal
    refused = ReleaseRefused(
        release_id=entry.release_id if isinstance(entry, ReleaseCharged) else None,
        dataset=entry.dataset,
        cause=violation.cause,
        reason=refusal.message,
        day=entry.day,
    )
    return append_entry(connection, refused, state), refusal


def _accounted(
    entry: ReleaseCharged | SeriesRegistered, dataset: DatasetAdded | None, *, rows_per_person: int
) -> ReleaseCharged | SeriesRegistered:
    """A charge with what it takes of a filter budget, where its data set has one and no series has paid."""
    paid = isinstance(entry, ReleaseCharged) and entry.series is not None
    if paid or not isinstance(dataset, FilterDatasetAdded) or isinstance(entry, FreeSeriesRegistered):
        return entry
    from .filter_budget import FilterBudget, charged_to  # numerics that an additive data set does without

    return charged_to(FilterBudget.of(dataset), entry, rows_per_person=rows_per_person)


def _price_beforehand(entry: ReleaseCharged | SeriesRegistered, rows_per_person: int, *, mechanism: Fields) -> None:
    """Compute a price before the transaction, since it takes time; the rules find it computed."""
    price_faults(
        mechanism=mechanism, price=entry.price, epsilon_paper=entry.epsilon_paper, rows_per_person=rows_per_person
    )


def _next_number(connection: Connection, series: str, *, part: int | None) -> int:
    """The place of a series' next release, or of a part's.

    Where none is left it is the first, and where there is no such series 1: the rules refuse both.
    """
    known = series_of(connection, series)
    return 1 if known is None else free_number(connection, known, part=part) or places_of(known.registered, part)[0]


def _paid_release(state: StoredState, receipt: Receipt) -> ReleaseState:
    """The release that a receipt pays for.

    Raises:
        AccountantRefused: the receipt was not given by this ledger.
    """
    known = state.release(receipt.release_id)
    if known is None or known.receipt != receipt:
        raise AccountantRefused(
            "this receipt is not of this ledger.",
            where=f"release '{receipt.release_id}'",
            remedy="Charge the release to this ledger first.",
        )
    return known
