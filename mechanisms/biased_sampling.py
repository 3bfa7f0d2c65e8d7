"""Data that are a sample already, drawn with rates that are only known within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

__all__ = ["BiasedSampleCounts"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BiasedSampleCounts:
    """Counts of at least k, of records that were included with unequal rates. The setting of CBP, Theorem 2.

    The data set's own sampling is the protection, so it can be released once, ever. Rates must be functions of
    the record alone.

    Args:
        k: suppression threshold, at least 1.
        lowest_rate: p, the least rate but for the exceptions, above 0.
        highest_rate: p′, the greatest but for the exceptions, at least p.
        largest_rate: p_max, which no record exceeds, p′ ≤ p_max < 1.
        exceptions: ℓ, how many other records of a group may have rates outside [p, p′].

    Raises:
        ValueError: a field outside its range.
    """

    k: int
    lowest_rate: Decimal
    highest_rate: Decimal
    largest_rate: Decimal
    exceptions: int

    def __post_init__(self) -> None:
        if self.k < 1 or self.exceptions < 0:
            raise ValueError(f"k must be at least 1 and the exceptions at least 0, not {self.k}, {self.exceptions}")
        if not 0 < self.lowest_rate <= self.highest_rate <= self.largest_rate < 1:
            raise ValueError(
                "rates must satisfy 0 < lowest ≤ highest ≤ largest < 1, not "
                f"{self.lowest_rate}, {self.highest_rate}, {self.largest_rate}"
            )
