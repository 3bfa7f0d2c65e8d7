"""What one locally randomized report costs the person who sends it."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.count_sketch import CountMeanSketch
from ...mechanisms.krandomization import KRandomization
from ...mechanisms.neighbours import REPLACEMENT
from .cost import Price
from .exact_decimals import add_up, divide_up, log_up, multiply_up
from .rounding import decimal_up

__all__ = ["LOCAL_RULE", "local_epsilon", "price_of_report"]

LOCAL_RULE = "local/1"


def local_epsilon(mechanism: KRandomization | CountMeanSketch) -> Decimal:
    """ε of one report: L·ln((1−q)/q) of K-randomization (KR); ε of a count mean sketch (Apple 2017), rounded up.

    A count mean sketch's bits of two values differ in at most two places, each with a loss of ln((1−q)/q) ≤ ε/2.
    """
    if isinstance(mechanism, CountMeanSketch):
        return decimal_up(mechanism.epsilon)
    q = mechanism.flip_probability
    return decimal_up(multiply_up(log_up(divide_up(add_up(1, -q), q)), mechanism.bits))


def price_of_report(mechanism: KRandomization | CountMeanSketch) -> Price:
    """The price of one report, whoever sees it: a replacement price, since that somebody reports is not hidden."""
    return Price(epsilon=local_epsilon(mechanism), delta=Decimal(0), relation=REPLACEMENT, rule=LOCAL_RULE, releases=1)
