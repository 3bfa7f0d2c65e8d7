"""Word what people read beside refusals: amounts that are left, shares, numbers as they are typed, and hints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from difflib import get_close_matches

from .kernel.amounts import DIGITS, amount_exact, shortest_decimal
from .kernel.errors import InputRefused, Refusal


def amount_left(amount: Decimal | float) -> str:
    """Return what remains of a budget, rounded down to six significant digits: it is never overstated."""
    return amount_exact(Context(prec=DIGITS, rounding=ROUND_FLOOR).plus(shortest_decimal(amount)))


def double_left(amount: Decimal) -> float:
    """Return what remains of a budget as a double whose shortest decimal is not above it."""
    double = float(amount)
    return double if shortest_decimal(double) <= amount else math.nextafter(double, -math.inf)


def share_shown(share: Decimal | float) -> str:
    """Return a share that is spent, in percent and rounded up to three significant digits: 0.0833333 → 8.34 %."""
    return f"{amount_exact(Context(prec=3, rounding=ROUND_CEILING).multiply(100, shortest_decimal(share)))} %"


def share_left_shown(share: Decimal | float) -> str:
    """Return a share that is left, in percent and rounded down to three significant digits."""
    return f"{amount_exact(Context(prec=3, rounding=ROUND_FLOOR).multiply(100, shortest_decimal(share)))} %"


def times_in(left: Decimal, each: Decimal, *, most: int) -> int:
    """Return how many times an amount fits into what is left; `most` where it is 0, or fits more often."""
    if each <= 0:
        return most
    exact = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
    return max(int(min(exact.divide(left, each), Decimal(most))), 0)


def grouped(number: float) -> str:
    """Return a rounded number with thin spaces between its thousands, which nobody reads as a decimal point."""
    return f"{number:,.0f}".replace(",", "\u202f")


Number = Decimal | int | float | str
"""A number that is taken as it is written: 0.1, "0.1" and Decimal("0.1") are all exactly a tenth."""


def exact_number(name: str, value: Number) -> Decimal:
    """Return a number as it is written: a float is the decimal that Python shows for it, so that 0.1 is a tenth.

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


FILL_IN = "FILL IN"
"""Marks what is yet to be written, in a file that was begun by a command."""


def refused_together(faults: Sequence[Refusal], *, where: str) -> InputRefused:
    """Return one refusal for all that is wrong with one thing; of a single fault its own.

    Args:
        faults: what is wrong, at least one.
        where: the thing, such as a specification's file, with which each fault's own place begins.
    """
    if len(faults) == 1 and isinstance(faults[0], InputRefused):
        return faults[0]
    listed = [
        " ".join(part for part in (f"{fault.where.removeprefix(f'{where}: ')}: {fault.what}", fault.remedy) if part)
        for fault in faults
    ]
    return InputRefused(
        f"{len(faults)} things are missing or wrong.", where=where, remedy="\n  ".join(["They are:", *listed])
    )


def did_you_mean(wrong: Sequence[str], known: Iterable[str]) -> str:
    """Ask whether similar names were meant, as a sentence; empty where there are none.

    Args:
        wrong: names that there are not.
        known: names that there are, all of them free to be shown.
    """
    by_lower_case = {name.lower(): name for name in known}
    meant = {name: get_close_matches(name.lower(), by_lower_case, n=1) for name in wrong}
    asked = [
        f"'{by_lower_case[close[0]]}'" + ("" if len(wrong) == 1 else f" by '{name}'")
        for name, close in meant.items()
        if close
    ]
    return f"Did you mean {', '.join(asked)}?" if asked else ""
