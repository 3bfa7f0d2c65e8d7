"""A release to be charged, as tests describe it, and how it is charged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from crowdblend.accounting.kernel.ledger.entries import (
    DatasetUnit,
    ReleaseCharged,
    ReleaseChargedTwoSamples,
    SeriesPlace,
    sorted_fields,
)
from crowdblend.accounting.kernel.ledger.ledger_state import Receipt
from crowdblend.accounting.kernel.ledger.writer import ReleaseWriter
from crowdblend.accounting.kernel.prices.mechanism_kind import Price
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.accounting.ledger.charge_request import RECORDS, charged_price
from crowdblend.accounting.ledger.ledger_writer import LedgerWriter, open_writer, well_formed
from crowdblend.mechanisms.kernel.mechanism import Mechanism


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseCharge:
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

    release_id: str
    label: str
    dataset: str
    sample_id: str
    epsilon_paper: Decimal | None
    spec_digest: str
    map_digest: str
    code_version: str
    sampler_layout: str
    day: date
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

    def paid(self, writer: LedgerWriter) -> Receipt:
        """Charge it as a release does: a refusal by the accountant is told in words and recorded."""
        with well_formed():
            entry = self.entry_at(None if self.series is None else 1)
        with writer.refusal_kept(entry):
            rows = self.price.rows_per_person
            return ReleaseWriter.charge(writer, entry, rows_per_person=rows, unit=self.unit, part=self.part)


def charging_writer(url: str, *, anchoring: Any) -> LedgerWriter:
    """A ledger open for writing whose `charge` takes what tests describe."""
    writer = open_writer(url, anchoring=anchoring)
    writer.charge = lambda asked: asked.paid(writer)
    return writer
