"""Amounts and counts as people write and read them, the same in tables, refusals, documents and pages."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

DIGITS = 6
SMALLEST_PLAIN = Decimal("0.0001")
"""Smaller amounts are written with an exponent: 1e-6."""


def amount_exact(amount: Decimal) -> str:
    """Return every digit of an amount, without trailing zeros: 0.1, 1e-6."""
    if amount != 0 and abs(amount) < SMALLEST_PLAIN:
        digits = "".join(map(str, amount.as_tuple().digits)).rstrip("0")
        mantissa = digits[0] + ("." + digits[1:] if digits[1:] else "")
        return f"{'-' if amount < 0 else ''}{mantissa}e{amount.adjusted()}"
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount_shown(amount: Decimal | float) -> str:
    """Return an ε or a δ, rounded up to six significant digits: a cost is never understated."""
    return amount_exact(Context(prec=DIGITS, rounding=ROUND_CEILING).plus(shortest_decimal(amount)))


def amount_of_log10(logarithm: float) -> str:
    """Return about 10^x, rounded up to two significant digits, for any x that a double holds: 0.1, 3.2e-9, 1e-4000."""
    exponent = math.floor(logarithm)
    mantissa = Decimal(repr(10.0 ** (logarithm - exponent) * (1.0 - 1e-12)))
    rounded = Context(prec=2, rounding=ROUND_CEILING).plus(mantissa)
    return amount_exact(Decimal(f"{rounded}e{exponent}"))


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, or its plural, by default with an s: 1 release, 2 releases, 1,200 records."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shortest_decimal(amount: Decimal | float) -> Decimal:
    """Return a double as the shortest decimal that reads back as it."""
    return amount if isinstance(amount, Decimal) else Decimal(repr(amount))
