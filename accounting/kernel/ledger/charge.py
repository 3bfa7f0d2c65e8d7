"""What is handed to the ledger for a series, whether a price is right, and the receipt of a release's charge."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ..prices.mechanism_kind import Price
from ..prices.registry import mechanism_of_record, mechanism_record, paper_price, recorded_price
from .entry_codec import sorted_fields
from .entry_types import (
    RECORD,
    ChargedPrice,
    ChargeHeader,
    DatasetUnit,
    Fields,
    FreeSeriesRegistered,
    SeriesRegistered,
)
from .entry_values import differ

__all__ = [
    "RECORDS",
    "Receipt",
    "SeriesRegistration",
    "charged_price",
    "enforced_unit",
    "price_faults",
]

RECORDS = DatasetUnit(name=RECORD, column=None)
"""The unit of what no column limits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """Proof of payment: a release is charged, and its sample is its own; counting needs one.

    Args:
        ledger_id: which ledger, 64 hexadecimal digits.
        position: place of the charge in the chain.
        hash: hash of the charge's link, 64 hexadecimal digits.
        release_id: the release that is paid for.
        dataset: whose budget paid.
        sample_id: the one sample that may be read for it.
        selection_sample_id: the one sample that its map may be chosen on; None where there is none.
    """

    ledger_id: str
    position: int
    hash: str
    release_id: str
    dataset: str
    sample_id: str
    selection_sample_id: str | None = None


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


def enforced_unit(sampler_layout: object) -> str | None:
    """Whose records were limited by a column, "person" or "household", by a sampler's layout; None for nobody's."""
    if "contributions" not in str(sampler_layout):
        return None
    from ....mechanisms.kernel.contributions import LAYOUTS  # of releases with such a column alone

    named = str(sampler_layout).partition(" ")[0]
    return next((unit for unit, layout in LAYOUTS.items() if layout == named), None)


def price_faults(
    *, mechanism: Fields, price: ChargedPrice, epsilon_paper: Decimal | None, rows_per_person: int
) -> tuple[str, ...]:
    """What is wrong with a recorded price, in sentences; nothing where it is its mechanism's.

    Its δ and its number of releases are taken as recorded, and its rule where earlier versions charged by it.
    """
    try:
        exact, paper = _prices(mechanism, price.rule, price.delta, price.releases, rows_per_person)
    except InputRefused as error:
        return (f"the mechanism can't be priced: {error.what}",)
    except (ArithmeticError, ValueError):
        return ("the mechanism can't be priced: its numbers are too large or too small to compute with",)
    texts = ("rule", price.rule, exact.rule), ("neighbouring relation", price.relation, exact.relation)
    faults = [
        f"the {name} is recorded as '{found}', but its mechanism's is '{expected}'"
        for name, found, expected in texts
        if found != expected
    ]
    if differ(price.epsilon, exact.epsilon):
        faults.append(f"ε is recorded as {price.epsilon}, but its mechanism's is {exact.epsilon}")
    if differ(epsilon_paper, None if paper is None else paper.epsilon):
        shown = "none" if paper is None else str(paper.epsilon)
        faults.append(f"the paper's ε is recorded as {epsilon_paper}, but its mechanism's is {shown}")
    return tuple(faults)


@lru_cache(maxsize=1024)
def _prices(
    record: Fields, rule: str, delta: Decimal, releases: int, rows_per_person: int
) -> tuple[Price, Price | None]:
    mechanism = mechanism_of_record(dict(record))
    return (
        recorded_price(mechanism, rule=rule, delta=delta, releases=releases, rows_per_person=rows_per_person),
        paper_price(mechanism, delta=delta, releases=releases, rows_per_person=rows_per_person),
    )
