"""Amounts and counts as people write and read them, the same in tables, refusals, documents and pages."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from .errors import InputRefused

DIGITS = 6
SMALLEST_PLAIN = Decimal("0.0001")
"""Smaller amounts are written with an exponent: 1e-6."""


def amount_exact(amount: Decimal) -> str:
    """Return every digit of an amount, without trailing zeros: 0.1, 1e-6."""
    if amount != 0 and abs(amount) < SMALLEST_PLAIN:
        digits = "".join(map(str, amount.as_tuple().digits)).rstrip("0")
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{'-' if amount < 0 else ''}{mantissa}e{amount.adjusted()}"
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount_shown(amount: Decimal | float) -> str:
    """Return an ε or a δ, rounded up to six significant digits: a cost is never understated."""
    return amount_exact(Context(prec=DIGITS, rounding=ROUND_CEILING).plus(_decimal(amount)))


def amount_left(amount: Decimal | float) -> str:
    """What remains of a budget, rounded down to six significant digits: it is never overstated."""
    return amount_exact(Context(prec=DIGITS, rounding=ROUND_FLOOR).plus(_decimal(amount)))


def double_left(amount: Decimal) -> float:
    """What remains of a budget as a double whose shortest decimal is not above it."""
    double = float(amount)
    return double if _decimal(double) <= amount else math.nextafter(double, -math.inf)


def amount_of_log10(logarithm: float) -> str:
    """Return about 10^x, rounded up to two significant digits, for any x that a double holds: 0.1, 3.2e-9, 1e-4000."""
    exponent = math.floor(logarithm)
    mantissa = Decimal(repr(10.0 ** (logarithm - exponent) * (1.0 - 1e-12)))
    rounded = Context(prec=2, rounding=ROUND_CEILING).plus(mantissa)
    return amount_exact(Decimal(f"{rounded}e{exponent}"))


def share_shown(share: Decimal | float) -> str:
    """A share that is spent, in percent and rounded up to three significant digits: 0.0833333 → 8.34 %."""
    return f"{amount_exact(Context(prec=3, rounding=ROUND_CEILING).multiply(100, _decimal(share)))} %"


def share_left_shown(share: Decimal | float) -> str:
    """A share that is left, in percent and rounded down to three significant digits."""
    return f"{amount_exact(Context(prec=3, rounding=ROUND_FLOOR).multiply(100, _decimal(share)))} %"


def times_in(left: Decimal, each: Decimal, *, most: int) -> int:
    """How many times an amount fits into what is left; `most` where it is 0, or fits more often."""
    if each <= 0:
        return most
    exact = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return max(int(min(exact.divide(left, each), Decimal(most))), 0)


def grouped(number: float) -> str:
    """Return a rounded number with thin spaces between its thousands, which nobody reads as a decimal point."""
    return f"{number:,.0f}".replace(",", "\u202f")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, or its plural, by default with an s: 1 release, 2 releases, 1,200 records."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _decimal(amount: Decimal | float) -> Decimal:
    """Return a double as the shortest decimal that reads back as it."""
    return amount if isinstance(amount, Decimal) else Decimal(repr(amount))


Number = Decimal | int | float | str
"""A number that is taken as it is written: 0.1, "0.1" and Decimal("0.1") are all exactly a tenth."""


def exact_number(name: str, value: Number) -> Decimal:
    """A number as it is written: a float is the decimal that Python shows for it, so that 0.1 is a tenth.

    Args:
        name: of the argument, for the message.
        value: the number.

    Raises:
        InputRefused: it is no finite number.
    """
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    try:
        number = Decimal(text)
    except ArithmeticError:
        number = Decimal("NaN")
    if isinstance(value, bool) or not number.is_finite():
        raise InputRefused(f"{name} is no number.", where=name)
    return number
