"""Conversions between exact decimals and doubles that always round against the one who spends."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["PRICE_DIGITS", "decimal_up", "float_down", "float_up", "log_down"]

PRICE_DIGITS = 12

_UP = Context(prec=PRICE_DIGITS, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_LOG = Context(prec=30, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def decimal_up(amount: float | Decimal) -> Decimal:
    """The least decimal of at most 12 significant digits that is not below a finite, non-negative amount.

    Raises:
        ValueError: the amount is negative, infinite or not a number.
    """
    exact = Decimal(amount)
    if not exact.is_finite() or exact < 0:
        raise ValueError(f"an amount must be finite and at least 0, not {amount}")
    return _UP.plus(exact)


def float_up(amount: Decimal) -> float:
    """The least double that is not below a decimal (the decimal itself where it is a double)."""
    nearest = float(amount)
    return nearest if Decimal(nearest) >= amount else math.nextafter(nearest, math.inf)


def float_down(amount: Decimal) -> float:
    """The greatest double that is not above a decimal (the decimal itself where it is a double)."""
    nearest = float(amount)
    return nearest if Decimal(nearest) <= amount else math.nextafter(nearest, -math.inf)


def log_down(amount: Decimal) -> float:
    """A double that is not above ln(amount), also where the amount itself is below the smallest double.

    Raises:
        ValueError: the amount is not positive and finite.
    """
    if not amount.is_finite() or amount <= 0:
        raise ValueError(f"the logarithm needs a positive finite amount, not {amount}")
    return float_down(_LOG.ln(amount).next_minus(_LOG))
