"""Noisy sums of squares and products of declared columns: all that least squares asks of the records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import REPLACEMENT, Mechanism, Randomness, Relation
from ..kernel.noise import TwoSidedGeometricNoise, add_two_sided_geometric
from ..kernel.protection import Numbers
from ..kernel.recoding import BUCKET_CODE, KeyLayout

MOST_COLUMNS = 50
MOST_CELLS = 1 << 20
LARGEST_PRODUCT = 10**12
"""Of two columns' greatest amounts: sums of 4.6 million such products fit 62 bits, and of more of smaller ones."""

_COLUMN = re.compile(r"(?P<lower>-?[0-9]+) to (?P<upper>-?[0-9]+)|(?P<labels>[0-9]+) labels")
_LARGEST_SUM = 1 << 62
_FIRST_CODE = 2  # after that of no number and that of smaller ones
_CODES_BESIDE = 3  # of no number, of smaller and of greater ones


class Factor(NamedTuple):
    """What a record has of a column: an amount in one cell, and nothing in the column's other cells.

    Attributes:
        cells: 1 of a number, and of the constant; of labels one each.
        lower: least number counted; smaller ones count as it.
        upper: greatest number counted; of labels, and of the constant, 1 as their lower.
        centre: what is taken from each number; 0 of labels and of the constant.
    """

    cells: int
    lower: int = 1
    upper: int = 1
    centre: int = 0

    @property
    def most(self) -> int:
        """Return the greatest absolute value of an amount."""
        return max(self.upper - self.centre, self.centre - self.lower)

    @property
    def is_number(self) -> bool:
        """Return whether it is a column of numbers."""
        return self.lower < self.upper

    @property
    def codes(self) -> int:
        """Return how many codes the column has."""
        return self.upper - self.lower + 1 + _CODES_BESIDE if self.is_number else self.cells + 1


class Block(NamedTuple):
    """The sums of the products of two factors, by their places; a record adds to one cell.

    Attributes:
        first: place of a factor, 0 of the constant.
        second: place of a factor, not below the first.
        cells: how many sums there are, the cells of the first factor the most significant.
        most: the greatest absolute value of what a record adds.
    """

    first: int
    second: int
    cells: int
    most: int


def columns_text(columns: Sequence[tuple[int, int] | int]) -> str:
    """Return columns as a mechanism has them: of numbers the least and the greatest, of labels how many there are."""
    return "; ".join(f"{one} labels" if isinstance(one, int) else f"{one[0]} to {one[1]}" for one in columns)


@dataclass(frozen=True, kw_only=True, slots=True)
class MomentsAnswer(Mechanism):
    """The sums over all records of the products of each two columns, of their squares, of the columns, and of 1.

    A number counts less the middle of its bounds, a label as 1 in its own cell. A record without a declared number or
    label in one of the columns counts nowhere. (docs/proofs/answers.md)

    Args:
        epsilon: ε of all sums together, above 0.
        relation: the neighbours for which that ε is meant.
        columns: such as "18 to 90; 4 labels", at least one and at most `MOST_COLUMNS`.

    Raises:
        ValueError: a field outside its range, products beyond `LARGEST_PRODUCT`, or more sums than `MOST_CELLS`.
    """

    kind = "moments"

    epsilon: Decimal
    relation: Relation
    columns: str

    def __post_init__(self) -> None:
        TwoSidedGeometricNoise(epsilon=self.epsilon)
        columns = _read_columns(self.columns)
        # One text for one set of columns, so that a record can't be written in two ways.
        if columns_text(columns) != self.columns or not 1 <= len(columns) <= MOST_COLUMNS:
            raise ValueError(f"there are 1 to {MOST_COLUMNS} columns, written as '18 to 90; 4 labels'")
        if any(one < 1 if isinstance(one, int) else one[0] >= one[1] for one in columns):
            raise ValueError("a column has at least one label, or a least number below its greatest")
        if max(block.most for block in self.blocks) > LARGEST_PRODUCT:
            raise ValueError(
                f"two columns' bounds lie so far apart that products of their numbers exceed {LARGEST_PRODUCT:,}"
            )
        if self.cells > MOST_CELLS:
            raise ValueError(f"these columns have {self.cells:,} sums, more than {MOST_CELLS:,}")

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Return the constant, then what each column is counted as."""
        return _factors(self.columns)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Return which products are added up: each but that of labels with themselves, which is their own count."""
        return _blocks(self.columns)

    @property
    def cells(self) -> int:
        """Return how many sums there are."""
        return sum(block.cells for block in self.blocks)

    def noise(self, block: Block) -> TwoSidedGeometricNoise:
        """Return the noise of each sum of a block; one draw for each.

        The blocks have equal shares of ε. The share isn't divided out: a sensitivity as many times larger gives the
        same scale, rounded once.
        """
        moved = 2 if self.relation == REPLACEMENT else 1
        return TwoSidedGeometricNoise(epsilon=self.epsilon, sensitivity=block.most * moved * len(self.blocks))


_LONGEST = 60
"""Characters of a column's text, more than any that passes; Python limits how long a number it reads."""


def _read_columns(text: str) -> list[tuple[int, int] | int]:
    columns: list[tuple[int, int] | int] = []
    for one in text.split("; "):
        found = _COLUMN.fullmatch(one) if len(one) <= _LONGEST else None
        if found is None:
            raise ValueError("a column is written as '18 to 90' or '4 labels'")
        columns.append(int(found["labels"]) if found["labels"] else (int(found["lower"]), int(found["upper"])))
    return columns


@lru_cache(maxsize=64)
def _factors(columns: str) -> tuple[Factor, ...]:
    read = _read_columns(columns)
    return (
        Factor(1),
        *(Factor(one) if isinstance(one, int) else Factor(1, *one, centre=sum(one) // 2) for one in read),
    )


@lru_cache(maxsize=64)
def _blocks(columns: str) -> tuple[Block, ...]:
    factors = _factors(columns)
    return tuple(
        Block(one, other, factors[one].cells * factors[other].cells, factors[one].most * factors[other].most)
        for one, other in combinations_with_replacement(range(len(factors)), 2)
        if one < other or one == 0 or factors[one].is_number
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class MomentsProtection:
    """The noisy sums, block by block.

    Args:
        mechanism: what is asked.
        layout: of the columns. Code 0 is what is no number or has no declared label. Of numbers each later code is a
            number one higher, the third the lower bound.

    Raises:
        ValueError: columns with other codes than are priced.
    """

    mechanism: MomentsAnswer
    layout: KeyLayout
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.layout.sizes != tuple(factor.codes for factor in self.mechanism.factors[1:]):
            raise ValueError("the columns have other codes than are priced")

    def sums(self, exact: GroupCounts) -> list[list[int]]:
        """Return the exact sums of each block.

        PRIVACY: a sum beyond 62 bits counts as the nearest within, which moves it by no more than a record adds. A
        refusal would tell how many records there are.
        """
        factors, codes = self.mechanism.factors, self.layout.decode(exact.keys)
        complete = np.logical_and.reduce([own != BUCKET_CODE for own in codes])
        times = exact.counts[complete]
        zeros, ones = np.zeros_like(times), np.ones_like(times)
        counted = [(zeros, ones)]
        for factor, own in zip(factors[1:], codes, strict=True):
            counted.append(_counted(factor, own[complete], zeros=zeros, ones=ones))
        found = []
        for block in self.mechanism.blocks:
            (row, amounts), (column, others) = counted[block.first], counted[block.second]
            products = amounts * others
            if block.most * int(times.sum()) >= _LARGEST_SUM:
                products = products.astype(object)  # Python's whole numbers, which don't overflow
            terms = products * times
            sums = np.zeros(block.cells, dtype=terms.dtype)
            np.add.at(sums, row * factors[block.second].cells + column, terms)
            found.append([min(max(int(one), -_LARGEST_SUM), _LARGEST_SUM) for one in sums.tolist()])
        return found

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> list[int]:
        """Return the noisy sums; OpenDP draws the noise by itself."""
        del randomness
        blocks = zip(self.mechanism.blocks, self.sums(exact), strict=True)
        return [noisy for block, sums in blocks for noisy in add_two_sided_geometric(sums, self.mechanism.noise(block))]

    def fits(self, numbers: Numbers) -> bool:
        """Return whether there is a number for every sum."""
        return len(numbers) == self.mechanism.cells


def _counted(
    factor: Factor, codes: NDArray[np.int64], *, zeros: NDArray[np.int64], ones: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the cell of each record, and its amount there."""
    if not factor.is_number:
        return codes - 1, ones
    # Clamping bounds what one record can add; the sensitivity leans on it.
    return zeros, np.clip(codes - _FIRST_CODE + factor.lower, factor.lower, factor.upper) - factor.centre
