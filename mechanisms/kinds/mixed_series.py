"""A series of different mechanisms: how many releases of each, fixed beforehand, and which numbers they have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import NamedTuple

from ..kernel.amounts import amount_exact
from ..kernel.errors import InputRefused
from ..kernel.mechanism import Mechanism
from .microdata import StronglySafeRelease

MOST_PARTS, MOST_OF_A_PART, LARGEST_EPSILON = 20, 10_000, 100
EXAMPLE = 'Write for example --part "12 x k=20,rate=0.1" --part "24 x epsilon=0.05".'
_NUMBER = r"[0-9]{0,6}\.?[0-9]{1,20}(?:[eE]-?[0-9]{1,2})?"
_TEXT = re.compile(
    rf"\s*(?P<releases>[0-9]{{1,6}})\s*x\s*"
    rf"(?:k\s*=\s*(?P<k>[0-9]{{1,9}})\s*,\s*rate\s*=\s*(?P<rate>{_NUMBER})|epsilon\s*=\s*(?P<epsilon>{_NUMBER}))\s*"
)


class SeriesPart(NamedTuple):
    """A part of a series.

    Attributes:
        releases: how many releases it has.
        measure: what each of them is at most: a sampled release of microdata, or, as a number, the ε of a pure answer.
    """

    releases: int
    measure: StronglySafeRelease | Decimal

    def __str__(self) -> str:
        """Return the part as it is written in commands and in the ledger, in one form."""
        if isinstance(self.measure, Decimal):
            return f"{self.releases} x epsilon={amount_exact(self.measure)}"
        return f"{self.releases} x k={self.measure.k},rate={amount_exact(self.measure.sampling_rate)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MixedSeries(Mechanism):
    """Several releases of different mechanisms. Its releases are numbered from 1, those of the first part first.

    Args:
        parts: each part as `SeriesPart` is written, in their order, with "; " between them.

    Raises:
        ValueError: a part of another form or out of range, the same one twice, or more than 20.
    """

    kind = "mixed_series"

    parts: str

    def __post_init__(self) -> None:
        each = self.each
        if "; ".join(map(str, each)) != self.parts:
            raise ValueError("the parts of a series are not in their one form")
        if len({part.measure for part in each}) < len(each):
            raise ValueError("two parts of a series are alike: make them one")
        if len(each) > MOST_PARTS:
            raise ValueError(f"a series has at most {MOST_PARTS} parts, not {len(each)}")

    @property
    def each(self) -> tuple[SeriesPart, ...]:
        """The parts."""
        return tuple(series_part(text) for text in self.parts.split(";"))

    @property
    def releases(self) -> int:
        """How many releases all parts have together."""
        return sum(part.releases for part in self.each)

    def numbers(self, part: int) -> range:
        """Return the numbers that the releases of a part, from 1, have."""
        return list(self._ranges())[part - 1]

    def part_of(self, number: int) -> int:
        """Return the part, from 1, that a release with a number is of.

        Raises:
            ValueError: no part has this number.
        """
        for part, numbers in enumerate(self._ranges(), start=1):
            if number in numbers:
                return part
        raise ValueError(f"no part of the series has the number {number}")

    def _ranges(self) -> Iterator[range]:
        last = accumulate(part.releases for part in self.each)
        for part, end in zip(self.each, last, strict=True):
            yield range(end - part.releases + 1, end + 1)


def series_of_parts(texts: Sequence[str]) -> MixedSeries:
    """Return the series whose parts are written as `12 x k=20,rate=0.1` or `24 x epsilon=0.05`.

    Raises:
        InputRefused: a text of another form, or a value out of range.
    """
    try:
        return MixedSeries(parts="; ".join(str(series_part(text)) for text in texts))
    except ValueError as error:
        raise InputRefused(f"{error}.", where="--part", remedy=EXAMPLE) from None


def series_part(text: str) -> SeriesPart:
    """Return a part as it is written: `12 x k=20,rate=0.1` or `24 x epsilon=0.05`.

    Raises:
        ValueError: another form, or a value out of range.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"this is not NUMBER x k=K,rate=RATE or NUMBER x epsilon=E: {text.strip()[:40]!r}")
    releases = int(found["releases"])
    if not 1 <= releases <= MOST_OF_A_PART:
        raise ValueError(f"a part has 1 to {MOST_OF_A_PART} releases, not {releases}")
    if found["epsilon"] is None:
        measure = StronglySafeRelease(k=int(found["k"]), sampling_rate=Decimal(found["rate"]))
        return SeriesPart(releases=releases, measure=measure)
    epsilon = Decimal(found["epsilon"])
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise ValueError(f"the epsilon of an answer must be above 0 and at most {LARGEST_EPSILON}, not {epsilon}")
    return SeriesPart(releases=releases, measure=epsilon)
