"""Registering a series: what is handed to the ledger, and how it is paid for whole."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from ...mechanisms.event import Mechanism
from ..theory.price import Price, mechanism_record
from .append import append_entry
from .canonical import sorted_fields
from .charge import charged_price
from .derive import rows_of
from .permission import objection_to_registration
from .queries import account_of
from .refusals import malformed, record_objection
from .release_entries import SeriesRegistered
from .repricing import price_faults
from .store import Store

__all__ = ["SeriesRegistration", "register_series"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRegistration:
    """Several releases of one mechanism, to be paid for now and whole.

    Composed prices are proved for parameters that are fixed beforehand, so everything that decides the mechanism
    is fixed here, and no release of the series can change it.

    Args:
        series: its name, unique in the ledger.
        dataset: whose budget pays.
        mechanism: what each release runs.
        price: what all of them cost together, as `price` of the theory gives it.
        epsilon_paper: price by the published bound, None where it gives no guarantee.
        spec_digest: SHA-256 (hex) of all that its releases' specifications must have in common.
        map_digest: SHA-256 (hex) of the generalization map.
        day: of the registration.
    """

    series: str
    dataset: str
    mechanism: Mechanism
    price: Price
    epsilon_paper: Decimal | None
    spec_digest: str
    map_digest: str
    day: date

    @property
    def entry(self) -> SeriesRegistered:
        """The entry that records this registration.

        Raises:
            ValueError: a field has no form that the ledger can hold.
        """
        return SeriesRegistered(
            series=self.series,
            dataset=self.dataset,
            mechanism=sorted_fields(mechanism_record(self.mechanism)),
            price=charged_price(self.price),
            epsilon_paper=self.epsilon_paper,
            spec_digest=self.spec_digest,
            map_digest=self.map_digest,
            day=self.day,
        )


def register_series(store: Store, registration: SeriesRegistration) -> None:
    """Reserve a series' whole cost, in one entry; a refusal is recorded too.

    Raises:
        InputRefused: unknown data set, a series of this name, or a value that the ledger can't hold.
        AccountantRefused: the accountant objects.
    """
    try:
        entry = registration.entry
    except ValueError as error:
        raise malformed(error) from None
    rows_per_person = registration.price.rows_per_person
    faults = price_faults(
        mechanism=entry.mechanism,
        price=entry.price,
        epsilon_paper=entry.epsilon_paper,
        rows_per_person=rows_per_person,
    )  # before the transaction: computing a price takes time
    with store.writing() as connection:
        objection = objection_to_registration(connection, entry, rows_per_person=rows_per_person, price_faults=faults)
        if objection is None:
            before = account_of(connection, entry.dataset)
            append_entry(connection, entry, rows=rows_of(entry, before=before, charge=None, survey=False))
        else:
            record_objection(connection, objection, release_id=None, dataset=entry.dataset, day=entry.day)
    if objection is not None:
        raise objection.refusal
