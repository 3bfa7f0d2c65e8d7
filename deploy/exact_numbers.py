"""Numbers from Python, taken as they are written."""

from __future__ import annotations

from decimal import Decimal

from ..mechanisms.refusal import InputRefused

__all__ = ["Number", "exact_number"]

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
