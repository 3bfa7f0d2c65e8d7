"""What is handed to the ledger for a series, and a price as it is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from ...mechanisms.kernel.mechanism import Mechanism
from ..kernel.ledger.entries import (
    RECORD,
    ChargedPrice,
    DatasetUnit,
    FreeSeriesRegistered,
    SeriesRegistered,
    sorted_fields,
)
from ..kernel.prices.mechanism_kind import Price
from ..kernel.prices.registry import mechanism_record

RECORDS = DatasetUnit(name=RECORD, column=None)
"""The unit of what no column limits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRegistration:
    """Several releases of one mechanism, to be paid for now and whole.

    Composed prices are proved for parameters that are fixed beforehand, so everything that decides the mechanism
    is fixed here, and no release of the series can change it.

    Args:
        series: its name, unique in the ledger.
        dataset: whose budget pays.
        epsilon_paper: price by the published bound, None where it gives no guarantee.
        spec_digest: SHA-256 (hex) of all that the specifications of its releases must have in common.
        map_digest: SHA-256 (hex) of the generalization map, or of the lattice that it is drawn from.
        day: of the charge.
        mechanism: what each release runs.
        price: what all of them cost together, as `price` of the theory gives it.
        free_columns: whether each release has columns, hierarchies and levels of its own, and may have a higher k or a
            lower sampling rate.
        unit: whose presence its releases hide; None for parts in a data set without one.
    """

    series: str
    dataset: str
    epsilon_paper: Decimal | None
    spec_digest: str
    map_digest: str
    day: date
    mechanism: Mechanism
    price: Price
    free_columns: bool = False
    unit: DatasetUnit | None = RECORDS

    @property
    def entry(self) -> SeriesRegistered:
        """The entry that records this registration; ValueError where a field can't be recorded."""
        kind = FreeSeriesRegistered if self.free_columns else SeriesRegistered
        record = sorted_fields(mechanism_record(self.mechanism))
        return kind.of(self, mechanism=record, price=charged_price(self.price))


def charged_price(price: Price) -> ChargedPrice:
    """Return a price as the ledger records it; ValueError for an amount that can't be recorded exactly."""
    return ChargedPrice.of(price)
