"""Every way to write to a ledger: each call is one transaction that is durable when it returns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal

from ...mechanisms.refusal import InputRefused, ReleaseFailed
from ..theory.group_privacy import no_price_for_surveyed_group
from .alone import released_once
from .anchoring import Anchoring
from .append import append_entry
from .budget_changes import add_dataset, raise_budget
from .charge import Receipt, ReleaseCharge
from .derive import rows_of
from .entry import BudgetRaised, DatasetAdded
from .opened import OpenedLedger
from .permission import (
    closed_refusal,
    known_dataset,
    known_series,
    objection_to_charge,
    paid_release,
)
from .private_looks import RecordedLook, record_look
from .queries import account_of, ledger_id_of, release_of
from .refusals import malformed, record_objection, record_refusal
from .registration import SeriesRegistration, register_series
from .release_entries import (
    OutputHashes,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
)
from .repricing import price_faults
from .store import Store, open_store
from .tokens import add_token, revoke_token

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
    ) -> None:
        """Register a data set and its budget.

        Raises:
            InputRefused: the name exists, a value is outside its range, or it is a sample of people with several
                records, which nothing is priced for.
        """
        if survey_rate is not None and rows_per_person > 1:
            raise no_price_for_surveyed_group(rows_per_person, where=f"dataset '{name}'")
        try:
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
        except ValueError as error:
            raise malformed(error) from None
        add_dataset(self._store, added)

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
        try:
            raised = BudgetRaised(dataset=name, epsilon=epsilon, delta=delta, reason=reason, by=by, day=day)
        except ValueError as error:
            raise malformed(error) from None
        raise_budget(self._store, raised)

    def record_look(self, *, dataset: str, what: str, by: str, day: date) -> RecordedLook:
        """Record that somebody looked at a data set's records outside any release.

        Returns:
            The look with its place in the chain.

        Raises:
            InputRefused: unknown data set, or a value that the ledger can't hold.
        """
        return record_look(self._store, dataset=dataset, what=what, by=by, day=day)

    def register_series(self, registration: SeriesRegistration) -> None:
        """Reserve the cost of several releases with fixed parameters, in one entry; a refusal is recorded too.

        Raises:
            InputRefused: unknown data set, a series of this name, or a value that the ledger can't hold.
            AccountantRefused: a price that is not the mechanism's, another neighbouring relation, a survey, or a
                budget that it would pass.
        """
        register_series(self._store, registration)

    def charge(self, charge: ReleaseCharge) -> Receipt:
        """Reserve a release's cost and its sample, in one entry; a refusal is recorded too.

        A release of a series takes the series' next free place in that entry, and costs nothing more.

        Raises:
            InputRefused: unknown data set or series, or a value that the ledger can't hold.
            AccountantRefused: a known release id, a used sample, a price that is not the mechanism's, another
                neighbouring relation, a survey that was released before, a budget that it would pass, or a series
                with other parameters or without a free place.
        """
        try:
            entry = charge.entry_at(None if charge.series is None else 1)
        except ValueError as error:
            raise malformed(error) from None
        rows_per_person = charge.price.rows_per_person
        faults = price_faults(
            mechanism=entry.mechanism,
            price=entry.price,
            epsilon_paper=entry.epsilon_paper,
            rows_per_person=rows_per_person,
        )  # before the transaction: computing a price takes time
        with self._store.writing() as connection:
            series = None if charge.series is None else known_series(connection, charge.series)
            objection = objection_to_charge(
                connection, entry, rows_per_person=rows_per_person, price_faults=faults, series=series
            )
            if objection is None:
                free = None if series is None else series[1]
                entry = charge.entry_at(None if free is None else free.number)
                before, turn = account_of(connection, entry.dataset), 0 if free is None else free.turn
                rows = rows_of(entry, before=before, charge=None, survey=False, turn=turn)
                place = append_entry(connection, entry, rows=rows)
            else:
                record_objection(
                    connection, objection, release_id=entry.release_id, dataset=entry.dataset, day=entry.day
                )
        if objection is not None:
            raise objection.refusal
        return Receipt.of(entry, ledger_id=self.ledger_id, position=place.position, link=place.hash)

    def charged(self, receipt: Receipt) -> ReleaseCharged:
        """The charge that a receipt is for, as the ledger has it.

        Raises:
            AccountantRefused: the receipt is not of this ledger.
        """
        with self._store.looking() as connection:
            return paid_release(connection, receipt).charge

    def mark_reading(self, receipt: Receipt) -> None:
        """Record that records are about to be read: from here on the cost is spent for ever.

        A second call for the same release changes nothing, so that a resumed release may make it again.

        Raises:
            AccountantRefused: the receipt is not of this ledger, or the release was published or abandoned.
        """
        with self._store.writing() as connection:
            state = paid_release(connection, receipt)
            if state.stage == "reading":
                return
            if state.stage != "charged":
                raise closed_refusal(state)
            once = released_once(known_dataset(connection, receipt.dataset), state.charge.price)
            entry = ReleaseReading(release_id=receipt.release_id)
            rows = rows_of(entry, before=None, charge=state.charge, survey=once)
            append_entry(connection, entry, rows=rows)

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
            state = paid_release(connection, receipt)
            if state.stage == "published" and state.output_hashes == entry.output_hashes:
                return
            if state.stage != "reading":
                raise closed_refusal(state)
            rows = rows_of(entry, before=None, charge=state.charge, survey=False)
            append_entry(connection, entry, rows=rows)

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
            state = release_of(connection, release_id)
            if state is None:
                raise InputRefused(
                    "the ledger has no such release.",
                    where=f"release '{release_id}'",
                    remedy="`crowdblend ledger show` lists them.",
                )
            if state.stage not in ("charged", "reading"):
                raise closed_refusal(state)
            try:
                entry = ReleaseAbandoned(
                    release_id=release_id, reason=reason, refunded=state.stage == "charged", by=by, day=day
                )
            except ValueError as error:
                raise malformed(error) from None
            before = account_of(connection, state.charge.dataset)
            rows = rows_of(entry, before=before, charge=state.charge, survey=False)
            append_entry(connection, entry, rows=rows, charge=state.charge)
            return entry.refunded

    def add_token(self, *, name: str, expires: date, by: str, day: date, randomness: Callable[[int], bytes]) -> str:
        """Let somebody look at the auditors' pages until a day; gives the token's text, which can't be had again.

        Raises:
            InputRefused: a token of this name is in use, or a value is outside its range.
        """
        return add_token(self._store, name=name, expires=expires, by=by, day=day, randomness=randomness)

    def revoke_token(self, *, name: str, by: str, day: date) -> str:
        """Revoke a token by its name or id; gives its id.

        Raises:
            InputRefused: there is no such token, or it was revoked before.
        """
        return revoke_token(self._store, name=name, by=by, day=day)

    def record_refusal(self, *, release_id: str | None, dataset: str, cause: str, reason: str, day: date) -> None:
        """Record a refusal that was made outside the ledger, such as a release id with another specification.

        PRIVACY: the reason is public text; it never holds a value of the records.

        Raises:
            InputRefused: a value that the ledger can't hold.
        """
        record_refusal(self._store, release_id=release_id, dataset=dataset, cause=cause, reason=reason, day=day)
