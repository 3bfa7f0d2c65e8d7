"""Arithmetic of exact decimals to 60 digits with a stated direction, whatever the caller's decimal context is."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["add_down", "add_up", "divide_down", "divide_up", "exp_up", "log_up", "multiply_down", "multiply_up"]

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
