"""Exact decimals with a stated direction, and conversions to doubles that round against the one who spends.

Conversions between exact decimals and doubles that always round against the one who spends.

Arithmetic of exact decimals to 60 digits with a stated direction, whatever the caller's decimal context is.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = [
    "PRICE_DIGITS",
    "add_down",
    "add_up",
    "decimal_up",
    "divide_down",
    "divide_up",
    "exp_up",
    "float_down",
    "float_up",
    "log_down",
    "log_up",
    "multiply_down",
    "multiply_up",
]

PRICE_DIGITS = 12

_DOUBLE_UP = Context(prec=PRICE_DIGITS, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_LOG = Context(prec=30, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def decimal_up(amount: float | Decimal) -> Decimal:
    """The least decimal of at most 12 significant digits that is not below a finite, non-negative amount.

    Raises:
        ValueError: the amount is negative, infinite or not a number.
    """
    exact = Decimal(amount)
    if not exact.is_finite() or exact < 0:
        raise ValueError(f"an amount must be finite and at least 0, not {amount}")
    return _DOUBLE_UP.plus(exact)


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


_UP = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)


def exp_up(exponent: Decimal) -> Decimal:
    """An upper bound on e^x, above it by less than 1e-58 relative; exact at 0.

    Decimal's `exp` and `ln` are correctly rounded to nearest whatever the context says, hence the step up.
    """
    return Decimal(1) if exponent == 0 else _UP.next_plus(_UP.exp(exponent))


def log_up(value: Decimal) -> Decimal:
    """An upper bound on ln x for x ≥ 1, above it by less than 1e-58 relative; exact at 1."""
    return Decimal(0) if value == 1 else _UP.next_plus(_UP.ln(value))


def multiply_up(first: Decimal, second: Decimal | int) -> Decimal:
    """The product, rounded up where it has more than 60 digits."""
    return _UP.multiply(first, second)


def divide_up(dividend: Decimal, divisor: Decimal | int) -> Decimal:
    """The quotient, rounded up where it has more than 60 digits."""
    return _UP.divide(dividend, divisor)


def divide_down(dividend: Decimal, divisor: Decimal | int) -> Decimal:
    """The quotient, rounded down where it has more than 60 digits."""
    return _DOWN.divide(dividend, divisor)


def add_up(first: Decimal | int, second: Decimal) -> Decimal:
    """The sum, rounded up where it has more than 60 digits."""
    return _UP.add(first, second)


def add_down(first: Decimal | int, second: Decimal) -> Decimal:
    """The sum, rounded down where it has more than 60 digits."""
    return _DOWN.add(first, second)


def multiply_down(first: Decimal, second: Decimal) -> Decimal:
    """The product, rounded down where it has more than 60 digits."""
    return _DOWN.multiply(first, second)
