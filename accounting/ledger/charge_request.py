"""What is handed to the ledger for a charge or a series."""

from __future__ import annotations

from dataclasses import dataclass

from ...mechanisms.kernel.mechanism import Mechanism
from ..kernel.ledger.entry_codec import sorted_fields
from ..kernel.ledger.entry_types import (
    RECORD,
    ChargedPrice,
    ChargeHeader,
    DatasetUnit,
    FreeSeriesRegistered,
    ReleaseCharged,
    ReleaseChargedTwoSamples,
    ReleaseHeader,
    SeriesPlace,
    SeriesRegistered,
)
from ..kernel.prices.mechanism_kind import Price
from ..kernel.prices.registry import mechanism_record

__all__ = ["RECORDS", "ReleaseCharge", "SeriesRegistration", "charged_price"]

RECORDS = DatasetUnit(name=RECORD, column=None)
"""The unit of what no column limits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseCharge(ReleaseHeader):
    """A release to be charged.

    Args:
        mechanism: what will be run.
        price: what it costs, as `price` of the theory gives it.
        series: the series that has paid for it, None for a release that pays for itself.
        series_digest: SHA-256 (hex) of all that the specifications of a series must have in common.
        selection_sample_id: commitment to the key of the sample that the map is chosen on; None where there is none.
        part: its part of a series of different mechanisms, from 1; None elsewhere.
        unit: whose presence it hides.
    """

    mechanism: Mechanism
    price: Price
    series: str | None = None
    series_digest: str = ""
    selection_sample_id: str | None = None
    part: int | None = None
    unit: DatasetUnit = RECORDS

    @property
    def entry(self) -> ReleaseCharged:
        """The entry that records this charge of a release that pays for itself; ValueError as of `entry_at`."""
        return self.entry_at(None)

    def entry_at(self, number: int | None) -> ReleaseCharged:
        """The entry that records this charge at its place in a series; ValueError where a field can't be recorded."""
        if (number is None) is not (self.series is None):
            raise ValueError("a release has a number exactly where it has a series")
        place = None
        if self.series is not None and number is not None:
            place = SeriesPlace(name=self.series, number=number, spec_digest=self.series_digest)
        kind = ReleaseCharged if self.selection_sample_id is None else ReleaseChargedTwoSamples
        record = sorted_fields(mechanism_record(self.mechanism))
        return kind.of(self, mechanism=record, price=charged_price(self.price), series=place)


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesRegistration(ChargeHeader):
    """Several releases of one mechanism, to be paid for now and whole.

    Composed prices are proved for parameters that are fixed beforehand, so everything that decides the mechanism
    is fixed here, and no release of the series can change it.

    Args:
        series: its name, unique in the ledger.
        mechanism: what each release runs.
        price: what all of them cost together, as `price` of the theory gives it.
        free_columns: whether each release has columns, hierarchies and levels of its own, and may have a higher k or a
            lower sampling rate.
        unit: whose presence its releases hide; None for parts in a data set without one.
    """

    series: str
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
    """A price as the ledger records it; ValueError for an amount that can't be recorded exactly."""
    return ChargedPrice.of(price)
