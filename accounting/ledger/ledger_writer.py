"""How a steward writes to a ledger: each call is one transaction that is durable when it returns.

What the ledger's rules refuse is reported in words, and a charge that they refuse is kept as evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal

from ...mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..kernel.ledger.entries import (
    BudgetRaised,
    DataAccess,
    DatasetAdded,
    DatasetUnit,
    Entry,
    FilterAccounting,
    FilterDatasetAdded,
    FilterUnitDatasetAdded,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleaseRefused,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
    UnitDatasetAdded,
)
from ..kernel.ledger.ledger_state import Place
from ..kernel.ledger.rules import RuleBroken, unknown
from ..kernel.ledger.transactions import Write
from ..kernel.ledger.writer import ReleaseWriter
from ..kernel.prices.mechanism_kind import no_price_for_surveyed_group
from ..keys.anchor import Anchoring
from .charge_request import SeriesRegistration
from .lookup import RecordedLook
from .opening import open_store
from .refusals import refusal_of, worded
from .tokens import secret_digest, token_text


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


class LedgerWriter(ReleaseWriter):
    """A ledger open for writing."""

    @contextmanager
    def _worded(self) -> Iterator[Write]:
        """Open a transaction; a rule that is broken in it is reported in words."""
        with worded(), self._writing() as ledger:
            yield ledger

    def add_dataset(self, added: DatasetAdded) -> None:
        """Register a data set and its budget, by the entry that `dataset_entry` makes.

        Raises:
            InputRefused: the name exists, or the terms of a filter budget are wrong.
        """
        self._record(added)

    def raise_budget(self, *, name: str, epsilon: Decimal, delta: Decimal, reason: str, by: str, day: date) -> None:
        """Replace a data set's budget by a larger one, which is given and not the difference.

        Raises:
            InputRefused: unknown data set, a value outside its range, or a budget that is not larger.
        """
        with well_formed():
            raised = BudgetRaised(dataset=name, epsilon=epsilon, delta=delta, reason=reason, by=by, day=day)
        self._record(raised)

    def record_look(self, *, dataset: str, what: str, by: str, day: date) -> RecordedLook:
        """Record that somebody looked at a data set's records outside any release; `what` never has a value of them.

        Returns:
            The look with its place in the chain: the proof that it is recorded, for whoever reads records by it.

        Raises:
            InputRefused: unknown data set, or a value that the ledger can't hold.
        """
        with well_formed():
            look = DataAccess(dataset=dataset, what=what, by=by, day=day)
        return RecordedLook(position=self._record(look).position, look=look)

    def register_series(self, registration: SeriesRegistration) -> None:
        """Reserve the cost of several releases with fixed parameters, in one entry; a refusal is recorded too.

        Raises:
            InputRefused: unknown data set, a series of this name, or a value that the ledger can't hold.
            AccountantRefused: a price that is not the mechanism's, another neighbouring relation, a survey, or a
                budget that it would pass.
        """
        with well_formed():
            entry = registration.entry
        with self.refusal_kept(entry):
            rows = registration.price.rows_per_person
            self.pay_for_series(entry, rows_per_person=rows, unit=registration.unit)

    @contextmanager
    def refusal_kept(self, entry: ReleaseCharged | SeriesRegistered) -> Iterator[None]:
        """Record the accountant's refusal of a charge as evidence, once its transaction has ended, and raise it.

        Args:
            entry: of the charge that is made inside.
        """
        try:
            yield
        # In a transaction of its own, after the charge's was rolled back: the refusal is evidence and must not be lost
        # with it.
        except RuleBroken as broken:
            refusal = refusal_of(broken.violation)
            if isinstance(refusal, AccountantRefused):
                release_id = entry.release_id if isinstance(entry, ReleaseCharged) else None
                cause, reason = broken.violation.cause, refusal.message
                self._record(ReleaseRefused.of(entry, release_id=release_id, cause=cause, reason=reason))
            raise refusal from None

    def abandon(self, *, release_id: str, reason: str, by: str, day: date) -> bool:
        """Give a release up; its id and its sample stay used.

        Returns:
            Whether the cost was given back: only where `reading` was never recorded.

        Raises:
            InputRefused: no such release, or a reason that the ledger can't hold.
            AccountantRefused: the release was published, or abandoned before.
        """
        with self._worded() as ledger:
            if (known := ledger.state.releases.get(release_id)) is None:
                raise RuleBroken(unknown("release", release_id))
            # A cost is given back only where no record was read; else one could look at outputs and draw again until
            # one pleases.
            refunded = known.refunded or known.stage == "charged"
            with well_formed():
                entry = ReleaseAbandoned(release_id=release_id, reason=reason, refunded=refunded, by=by, day=day)
            ledger.append(entry)
            return refunded

    def add_token(self, *, name: str, expires: date, by: str, day: date, randomness: Callable[[int], bytes]) -> str:
        """Let somebody look at the auditors' pages until a day; the ledger keeps the token's digest alone.

        Returns:
            The token's text, which can't be had again.

        Raises:
            InputRefused: a token of this name opens the pages already, or a value is outside its range.
        """
        token_id, secret = randomness(8).hex(), randomness(32)
        with well_formed():
            digest = secret_digest(token_id, secret)
            added = TokenAdded(token_id=token_id, name=name, secret_digest=digest, expires=expires, by=by, day=day)
        with self._worded() as ledger:
            if any(token.added.name == name and token.opens(day) for token in ledger.state.tokens.values()):
                raise InputRefused(
                    "a token of this name is in use.",
                    where=f"token '{name}'",
                    remedy="Revoke it first with `crowdblend token revoke`, or choose another name.",
                )
            ledger.append(added)
        return token_text(token_id, secret)

    def revoke_token(self, *, name: str, by: str, day: date) -> str:
        """Revoke the token of a name or id, which opens nothing from the next request on; gives its id.

        Raises:
            InputRefused: there is none that was not revoked, or a value that the ledger can't hold.
        """
        with self._worded() as ledger:
            known = [token.added for token in ledger.state.tokens.values() if token.revoked is None]
            found = [added.token_id for added in known if name in (added.name, added.token_id)]
            if not found:
                raise RuleBroken(unknown("token", name))
            with well_formed():
                revoked = TokenRevoked(token_id=found[-1], by=by, day=day)
            ledger.append(revoked)
        return found[-1]

    def record_refusal(self, *, release_id: str | None, dataset: str, cause: str, reason: str, day: date) -> None:
        """Record a refusal that was made outside the ledger, such as a release id with another specification.

        PRIVACY: the reason is public text; it never holds a value of the records.

        Raises:
            InputRefused: a value that the ledger can't hold.
        """
        with well_formed():
            refused = ReleaseRefused(release_id=release_id, dataset=dataset, cause=cause, reason=reason, day=day)
        self._record(refused)

    def _record(self, entry: Entry) -> Place:
        """Write one entry, in a transaction of its own."""
        with self._worded() as ledger:
            return ledger.append(entry)


def dataset_entry(
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
) -> DatasetAdded:
    """Make the entry of a data set and its budget, `DatasetAdded`; no ledger is needed for it.

    Args:
        accounting: how its budget is accounted if it is a filter's; None for one that adds prices up.
        unit: whose presence all its releases hide; None fixes none, as earlier versions did.

    Raises:
        InputRefused: a value is outside its range, or it is a sample of people with several records, which nothing is
            priced for, or one with a filter budget.
    """
    if survey_rate is not None and rows_per_person > 1:
        raise no_price_for_surveyed_group(rows_per_person, where=f"dataset '{name}'")
    with well_formed():
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
    return added


@contextmanager
def well_formed() -> Iterator[None]:
    """Refuse, as the caller's mistake, a value that the ledger can't hold."""
    try:
        yield
    except ValueError as error:
        raise InputRefused(f"{error}.", where="ledger") from None
