"""The frontier of a target: for every sampling rate the least k, exactly and by the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from ...mechanisms.refusal import InputRefused
from .inversion import Target, least_k
from .smallest_delta import least_k_of_paper

__all__ = ["FrontierPoint", "frontier"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierPoint:
    """One sampling rate with the least thresholds that meet a target; None where none does.

    Args:
        sampling_rate: β.
        k_exact: least k by the charged price.
        k_paper: least k by the paper (LQS, arXiv:1101.2604v2, Theorem 3.9).
    """

    sampling_rate: Decimal
    k_exact: int | None
    k_paper: int | None


def frontier(target: Target, *, sampling_rates: Sequence[Decimal]) -> tuple[FrontierPoint, ...]:
    """The least k at each of the rates; the least exact k rises with the rate."""
    points = []
    for rate in sampling_rates:
        try:
            exact: int | None = least_k(rate, target)
        except InputRefused:
            exact = None
        points.append(FrontierPoint(sampling_rate=rate, k_exact=exact, k_paper=least_k_of_paper(rate, target)))
    return tuple(points)
