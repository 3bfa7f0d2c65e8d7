"""Releases that a steward expects of a filter budget, as they are written: `12 x k=20,rate=0.1`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from ...mechanisms.answers import CountAnswer
from ...mechanisms.errors import InputRefused
from ...mechanisms.mechanism import ADD_REMOVE, Mechanism
from ...mechanisms.microdata import StronglySafeRelease

__all__ = ["expected_releases"]

COUNT = re.compile(r"\s*([0-9]+)\s*x\s+(.*)", re.DOTALL)
EXAMPLE = "Write for example: 12 x k=20,rate=0.1, 24 x epsilon=0.05."
MOST = 1_000_000
FORMS = ({"k", "rate"}, {"epsilon"})


def expected_releases(texts: Sequence[str], *, where: str = "--expect") -> tuple[tuple[Mechanism, int], ...]:
    """Mechanisms and how many releases of each are expected.

    A release is `k=K,rate=B`, microdata of a fixed map, or `epsilon=E`, anything whose price has no δ. Where several
    stand in one text, commas separate them as they do a release's keys: each begins with its number.

    Args:
        texts: each one or more of `NUMBER x KEY=VALUE,…`.
        where: what they are called in a refusal.

    Raises:
        InputRefused: a text of another form, an unknown or missing key, or a value out of range; it says which.
    """
    return tuple(_release(part, f"{where}, release {number}") for number, part in enumerate(_parts(texts, where), 1))


def _parts(texts: Sequence[str], where: str) -> Iterator[str]:
    """Each expected release with its keys."""
    parts: list[str] = []
    for text in texts:
        for number, piece in enumerate(text.split(",")):
            if number and not COUNT.fullmatch(piece):
                parts[-1] += f",{piece}"
            else:
                parts.append(piece)
    if len(parts) > MOST:
        raise InputRefused(f"at most {MOST} releases can be expected.", where=where)
    return iter(parts)


def _release(text: str, where: str) -> tuple[Mechanism, int]:
    found = COUNT.fullmatch(text)
    if found is None:
        raise InputRefused(f"this is not NUMBER x KEY=VALUE,…: {text.strip()[:40]!r}.", where=where, remedy=EXAMPLE)
    times = int(found[1][:9])
    if not 1 <= times <= MOST:
        raise InputRefused(f"the number of releases must be 1 to {MOST}, not {found[1][:9]}.", where=where)
    values: dict[str, Decimal] = {}
    for place, pair in enumerate(found[2].split(","), 1):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or name not in {"k", "rate", "epsilon"}:
            told = "the keys are k and rate, or epsilon"
            raise InputRefused(f"{told}, not {name[:40]!r}.", where=f"{where}, key {place}", remedy=EXAMPLE)
        if name in values:
            raise InputRefused("this key stands twice.", where=f"{where}, {name}", remedy=EXAMPLE)
        values[name] = _number(value, f"{where}, {name}")
    if set(values) not in FORMS:
        missing = "rate" if "k" in values else "k"
        told = f"{missing} is missing" if "epsilon" not in values else "epsilon stands alone, without k and rate"
        raise InputRefused(f"{told}.", where=where, remedy=EXAMPLE)
    return _mechanism(values, where), times


def _number(text: str, where: str) -> Decimal:
    try:
        number = Decimal(text)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InputRefused(f"this is no number: {text[:40]!r}.", where=where)
    return number


def _mechanism(values: dict[str, Decimal], where: str) -> Mechanism:
    try:
        if "epsilon" in values:
            return CountAnswer(epsilon=values["epsilon"], relation=ADD_REMOVE, groups=1, sampling_rate=None)
        if values["k"] != values["k"].to_integral_value():
            raise InputRefused("k must be a whole number.", where=f"{where}, k")
        return StronglySafeRelease(k=int(values["k"]), sampling_rate=values["rate"])
    except ValueError as error:
        raise InputRefused(f"{error}.", where=where) from None
