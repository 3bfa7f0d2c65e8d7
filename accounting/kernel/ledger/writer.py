"""Every way to write to a ledger: each call is one transaction that is durable when it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from decimal import Decimal
from itertools import chain

from ....mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal, ReleaseFailed
from ...ledger.tokens import secret_digest, token_text
from ..keys.anchor import Anchoring
from ..prices.mechanism_kind import no_price_for_surveyed_group
from .charge import Receipt, ReleaseCharge, SeriesRegistration, price_faults
from .database import Store, open_store
from .entry_types import (
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
from .ledger_state import Dataset, Place, Release
from .lookup import RecordedLook
from .rules import rows_violations, unit_violations, violations
from .transactions import Look, OpenedLedger, Write, looking, writing
from .violation import known_by_name, unknown

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
        return LedgerWriter(open_store(url, read_only=False), anchoring)
    except ReleaseFailed as failure:
        raise InputRefused(
            failure.what,
            where=failure.where,
            remedy="Check the permissions, and run `crowdblend ledger verify`.",
            cause="ledger-unreachable",
        ) from None


class LedgerWriter(OpenedLedger):
    """A ledger open for writing."""

    def __init__(self, store: Store, anchoring: Anchoring) -> None:
        super().__init__(store)
        self._anchoring = anchoring
        with self._writing() as ledger:
            self.ledger_id = ledger.state.ledger_id

    def _writing(self) -> AbstractContextManager[Write]:
        return writing(self._store, self._anchoring)

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
        """Register a data set and its budget, as the entry `DatasetAdded` has them.

        Args:
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
            if accounting is not None and unit is not None:
                added = FilterUnitDatasetAdded.of(added, accounting=accounting, unit=unit)
            elif accounting is not None:
                added = FilterDatasetAdded.of(added, accounting=accounting)
            elif unit is not None:
                added = UnitDatasetAdded.of(added, unit=unit)
        self._record(added)

    def raise_budget(self, *, name: str, epsilon: Decimal, delta: Decimal, reason: str, by: str, day: date) -> None:
        """Replace a data set's budget by a larger one, which is given and not the difference.

        Raises:
            InputRefused: unknown data set, a value outside its range, or a budget that is not larger.
        """
        with _well_formed():
            raised = BudgetRaised(dataset=name, epsilon=epsilon, delta=delta, reason=reason, by=by, day=day)
        self._record(raised)

    def record_look(self, *, dataset: str, what: str, by: str, day: date) -> RecordedLook:
        """Record that somebody looked at a data set's records outside any release; `what` never has a value of them.

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
        _price_beforehand(entry, registration, mechanism=entry.mechanism)
        with self._writing() as ledger:
            refusal = _pay(ledger, entry, registration)
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
        priced: ReleaseCharged | SeriesRegistered = entry
        if charge.series is not None:
            with looking(self._store) as ledger:
                registered = known_by_name("series", charge.series, ledger.state.series).registered
            priced = registered if isinstance(registered, FreeSeriesRegistered) else entry
        _price_beforehand(entry, charge, mechanism=priced.mechanism)
        with self._writing() as ledger:
            if charge.series is not None:
                series = known_by_name("series", charge.series, ledger.state.series)
                # Where no place is free it is the first, and the rules refuse that.
                entry = charge.entry_at(series.free_number(charge.part) or series.places(charge.part)[0])
            refusal = _pay(ledger, entry, charge)
        if refusal is not None:
            raise refusal
        return ledger.state.releases[entry.release_id].receipt(self.ledger_id)

    def charged(self, receipt: Receipt) -> ReleaseCharged:
        """The charge that a receipt is for, as the ledger has it; refused where it is not of this ledger."""
        with looking(self._store) as ledger:
            return ledger.releases([_paid_release(ledger, receipt)])[0].charge

    def has_release(self, release_id: str) -> bool:
        """Return whether a release of this id was charged, alone among writers and by what continues the anchor."""
        with self._writing() as ledger:
            return release_id in ledger.state.releases

    def mark_reading(self, receipt: Receipt) -> None:
        """Record that records are about to be read: from here on the cost is spent for ever.

        A second call for the same release changes nothing, so that a resumed release may make it again.

        Raises:
            AccountantRefused: the receipt is not of this ledger, or the release was published or abandoned.
        """
        with self._writing() as ledger:
            if _paid_release(ledger, receipt).stage != "reading":
                _append(ledger, ReleaseReading(release_id=receipt.release_id))

    def mark_published(self, receipt: Receipt, output_hashes: OutputHashes) -> None:
        """Close a release whose files are in view.

        A second call with the same files changes nothing, so that a resumed release may make it again.

        Raises:
            AccountantRefused: the receipt is not of this ledger, or the release is not being read.
            ValueError: a name or digest has another form.
        """
        entry = ReleasePublished(release_id=receipt.release_id, output_hashes=tuple(sorted(output_hashes)))
        with self._writing() as ledger:
            known = ledger.releases([_paid_release(ledger, receipt)])[0]
            if known.stage != "published" or known.output_hashes != entry.output_hashes:
                _append(ledger, entry)

    def abandon(self, *, release_id: str, reason: str, by: str, day: date) -> bool:
        """Give a release up; its id and its sample stay used.

        Returns:
            Whether the cost was given back: only where `reading` was never recorded.

        Raises:
            InputRefused: no such release, or a reason that the ledger can't hold.
            AccountantRefused: the release was published, or abandoned before.
        """
        with self._writing() as ledger:
            known = ledger.state.releases.get(release_id)
            if known is None:
                raise unknown("release", release_id).refusal
            refunded = known.refunded or known.stage == "charged"
            with _well_formed():
                entry = ReleaseAbandoned(release_id=release_id, reason=reason, refunded=refunded, by=by, day=day)
            _append(ledger, entry)
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
        with self._writing() as ledger:
            if any(token.added.name == name and token.opens(day) for token in ledger.state.tokens.values()):
                raise InputRefused(
                    "a token of this name is in use.",
                    where=f"token '{name}'",
                    remedy="Revoke it first with `crowdblend token revoke`, or choose another name.",
                )
            _append(ledger, added)
        return token_text(token_id, secret)

    def revoke_token(self, *, name: str, by: str, day: date) -> str:
        """Revoke the token of a name or id, which opens nothing from the next request on; gives its id.

        Raises:
            InputRefused: there is none that was not revoked, or a value that the ledger can't hold.
        """
        with self._writing() as ledger:
            known = [token.added for token in ledger.state.tokens.values() if token.revoked is None]
            found = [added.token_id for added in known if name in (added.name, added.token_id)]
            if not found:
                raise unknown("token", name).refusal
            with _well_formed():
                revoked = TokenRevoked(token_id=found[-1], by=by, day=day)
            _append(ledger, revoked)
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

    def _record(self, entry: Entry) -> Place:
        """Write one entry, in a transaction of its own."""
        with self._writing() as ledger:
            return _append(ledger, entry)


@contextmanager
def _well_formed() -> Iterator[None]:
    """Refuse, as the caller's mistake, a value that the ledger can't hold."""
    try:
        yield
    except ValueError as error:
        raise InputRefused(f"{error}.", where="ledger") from None


def _append(ledger: Write, entry: Entry) -> Place:
    """Append an entry that breaks no rule, or refuse it."""
    for violation in violations(entry, ledger.state):
        raise violation.refusal
    return ledger.append(entry)


def _pay(
    ledger: Write, entry: ReleaseCharged | SeriesRegistered, asked: ReleaseCharge | SeriesRegistration
) -> Refusal | None:
    """Append a charge, or a record of its refusal by the accountant, which is kept as evidence and given back."""
    state, rows_per_person = ledger.state, asked.price.rows_per_person
    known = state.datasets.get(entry.dataset)
    entry = _accounted(entry, known, rows_per_person=rows_per_person)
    of_unit = () if asked.unit is None else unit_violations(entry.dataset, asked.unit, state)
    of_rows = () if known is None else rows_violations(known, rows_per_person)
    violation = next(chain(of_unit, of_rows, violations(entry, state)), None)
    if violation is None:
        ledger.append(entry)
        return None
    refusal = violation.refusal
    if violation.mistake:
        raise refusal
    release_id = entry.release_id if isinstance(entry, ReleaseCharged) else None
    ledger.append(ReleaseRefused.of(entry, release_id=release_id, cause=violation.cause, reason=refusal.message))
    return refusal


def _accounted(
    entry: ReleaseCharged | SeriesRegistered, dataset: Dataset | None, *, rows_per_person: int
) -> ReleaseCharged | SeriesRegistered:
    """A charge with what it takes of a filter budget, where its data set has one and no series has paid."""
    paid = isinstance(entry, ReleaseCharged) and entry.series is not None
    added = None if dataset is None else dataset.added
    if paid or not isinstance(added, FilterDatasetAdded) or isinstance(entry, FreeSeriesRegistered):
        return entry
    from .filter_budget import FilterBudget, charged_to  # numerics that an additive data set does without

    return charged_to(FilterBudget.of(added), entry, rows_per_person=rows_per_person)


def _price_beforehand(
    entry: ReleaseCharged | SeriesRegistered, asked: ReleaseCharge | SeriesRegistration, *, mechanism: Fields
) -> None:
    """Compute a price before the transaction, since it takes time; the rules find it computed."""
    rows, paper = asked.price.rows_per_person, entry.epsilon_paper
    price_faults(mechanism=mechanism, price=entry.price, epsilon_paper=paper, rows_per_person=rows)


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
