"""Noisy COUNT, SUM and MEAN, over the whole data set or by group, with their sensitivities and their accuracy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, assert_never

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts
from ..kernel.mechanism import REPLACEMENT, Mechanism, Randomness, Relation
from ..kernel.noise import TwoSidedGeometricNoise, add_two_sided_geometric
from ..kernel.protection import Numbers
from ..kernel.recoding import BUCKET_CODE, KeyLayout

MEAN_STEPS = 1 << 20
"""A mean is published on a grid of its sensitivity divided by this number."""

_LARGEST_BOUND = 1 << 53
_FIRST_CODE = 2  # after that of no number and that of smaller ones
_COINS_AT_ONCE = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer(Mechanism):
    """What every answer has.

    Args:
        epsilon: ε of the answer (of all groups together), above 0.
        relation: the neighbours for which that ε is meant.
        groups: cells of the declared domain, 1 where the answer is about all records; empty cells are answered too.
        sampling_rate: rate of the answer's own fresh sample; None where all records are asked.

    Raises:
        ValueError: a field outside its range, or a sample under replacement, for which no price is proved here.
    """

    kind = "answers"

    epsilon: Decimal
    relation: Relation
    groups: int
    sampling_rate: Decimal | None

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError(f"epsilon must be positive and finite, not {self.epsilon}")
        if self.groups < 1:
            raise ValueError(f"there is at least one group, not {self.groups}")
        if self.sampling_rate is not None:
            if not 0 < self.sampling_rate < 1:
                raise ValueError(f"the sampling rate must lie strictly between 0 and 1, not {self.sampling_rate}")
            if self.relation == REPLACEMENT:
                raise ValueError("an answer on a fresh sample has an add/remove price only")


@dataclass(frozen=True, kw_only=True, slots=True)
class CountAnswer(_Answer):
    """How many records, in all or in each group, with two-sided geometric noise. Source: Notes-DP, Example 1.

    Raises:
        ValueError: as all answers; or one group under replacement, where the number of records is public.
    """

    def __post_init__(self) -> None:
        _Answer.__post_init__(self)
        if self.relation == REPLACEMENT and self.groups == 1:
            raise ValueError("under replacement the number of records is public: there is nothing to answer")


@dataclass(frozen=True, kw_only=True, slots=True)
class SumAnswer(_Answer):
    """The sum of a whole-numbered column clamped to [lower, upper], with two-sided geometric noise.

    Args:
        lower: least value counted; smaller ones count as it.
        upper: greatest value counted, above `lower`.
    """

    lower: int
    upper: int

    def __post_init__(self) -> None:
        _Answer.__post_init__(self)
        _require_bounds(self.lower, self.upper)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanAnswer(_Answer):
    """The clamped sum divided by max(n, N), with Laplace noise on a fine grid. Source: Notes-DP, Example 2.

    It is the mean where the group has at least N records, and nearer to 0 where it has fewer.

    Args:
        lower: least value counted; smaller ones count as it.
        upper: greatest value counted, above `lower`.
        least_records: N, a public number of at least 1; on a fresh sample, of sampled records.
    """

    lower: int
    upper: int
    least_records: int

    def __post_init__(self) -> None:
        _Answer.__post_init__(self)
        _require_bounds(self.lower, self.upper)
        if self.least_records < 1:
            raise ValueError(f"the least number of records must be at least 1, not {self.least_records}")


Answer = CountAnswer | SumAnswer | MeanAnswer


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tally:
    """Records and clamped sums by group; the exact part of an answer, never published.

    Args:
        records: int64, shape (groups,).
        sums: int64, shape (groups,); zeros for a count.
    """

    records: NDArray[np.int64]
    sums: NDArray[np.int64]


def sensitivity(answer: Answer) -> Fraction:
    """Return the most by which the exact answers of neighbours differ, over all groups (docs/proofs/answers.md)."""
    moved = _groups_moved(answer)
    within_one = answer.relation == REPLACEMENT and moved == 1
    match answer:
        case CountAnswer():
            return Fraction(moved)
        case SumAnswer(lower=lower, upper=upper):
            return Fraction(upper - lower if within_one else max(abs(lower), abs(upper)) * moved)
        case MeanAnswer(lower=lower, upper=upper, least_records=least):
            width = upper - lower
            if within_one:
                return Fraction(width, least)
            return max(Fraction(max(abs(lower), abs(upper)), least), Fraction(width, least + 1)) * moved
        case _:
            assert_never(answer)


def _groups_moved(answer: Answer) -> int:
    """Return how many groups a neighbour's records differ in: two where one is replaced by one of another group."""
    return 2 if answer.relation == REPLACEMENT and answer.groups > 1 else 1


def step(answer: Answer) -> Fraction:
    """Return the distance of the answer's possible values: 1, or the grid of a mean."""
    match answer:
        case CountAnswer() | SumAnswer():
            return Fraction(1)
        case MeanAnswer():
            return sensitivity(answer) / (_groups_moved(answer) * MEAN_STEPS)
        case _:
            assert_never(answer)


def noise_of(answer: Answer) -> TwoSidedGeometricNoise:
    """Return the noise of each group's answer, in steps; one draw for each group."""
    steps = sensitivity(answer) / step(answer)
    # INVARIANT: whole; rounding to the grid moves two values that differ by m steps to m steps at most.
    return TwoSidedGeometricNoise(epsilon=answer.epsilon, sensitivity=int(steps))


def tallied(
    answer: Answer,
    *,
    groups: NDArray[np.int64],
    values: NDArray[np.int64] | None,
    times: NDArray[np.int64] | None = None,
) -> Tally:
    """Count and add up some records.

    Args:
        answer: what is asked.
        groups: each record's group, 0 … groups − 1; shape (n,).
        values: each record's value, shape (n,); None for a count.
        times: how many such records there are, shape (n,); None for one of each.

    Raises:
        ValueError: values are missing or superfluous.
    """
    each = np.ones(groups.size, dtype=np.int64) if times is None else times
    records = np.zeros(answer.groups, dtype=np.int64)
    np.add.at(records, groups, each)
    match answer:
        case CountAnswer():
            if values is not None:
                raise ValueError("a count takes no values")
            return Tally(records=records, sums=np.zeros(answer.groups, dtype=np.int64))
        case SumAnswer(lower=lower, upper=upper) | MeanAnswer(lower=lower, upper=upper):
            if values is None:
                raise ValueError("a sum or a mean needs values")
            sums = np.zeros(answer.groups, dtype=np.int64)
            _require_room(lower, upper, int(each.sum()))
            # Clamping bounds what one record can change; the sensitivity leans on it.
            np.add.at(sums, groups, np.clip(values, lower, upper) * each)
            return Tally(records=records, sums=sums)
        case _:
            assert_never(answer)


def answered(answer: Answer, tally: Tally) -> list[int]:
    """Return the noisy answer of each group, in steps; times `step(answer)` it is what is published.

    PRIVACY: OpenDP draws the noise by itself: store the result before anything depends on it; a second call
    is a second draw and a second price.
    """
    match answer:
        case CountAnswer():
            exact = tally.records.tolist()
        case SumAnswer():
            exact = tally.sums.tolist()
        case MeanAnswer(least_records=least):
            grid = step(answer)
            # Exact fractions are rounded to the grid before the noise, so that the noise is on whole steps alone.
            exact = [
                math.floor(Fraction(total, max(records, least)) / grid + Fraction(1, 2))
                for total, records in zip(tally.sums.tolist(), tally.records.tolist(), strict=True)
            ]
        case _:
            assert_never(answer)
    return add_two_sided_geometric(exact, noise_of(answer))


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerProtection:
    """The noisy answer of each group, in steps.

    Args:
        mechanism: what is asked.
        layout: of the groups' columns, then the one that is added up, or one whose codes decide nothing.
        groups: layout of the groups' columns alone; None where the answer is about all records.
        missing: what code 0 of the column that is added up, of what is no number, counts as; each later code counts as
            a number one higher, the third as the lower bound, and none as more or less than the bounds.

    Raises:
        ValueError: groups that aren't those that are priced or that come first.
    """

    mechanism: Answer
    layout: KeyLayout
    groups: KeyLayout | None
    missing: int
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        cells, sizes = (1, ()) if self.groups is None else (self.groups.cells, self.groups.sizes)
        if cells != self.mechanism.groups or sizes != self.layout.sizes[: len(sizes)]:
            raise ValueError(f"{self.mechanism.groups} groups are priced, and they are those of the first columns")

    def tally(self, exact: GroupCounts, *, randomness: Randomness) -> Tally:
        """Return the records and clamped sums of each group."""
        del randomness
        codes, answer = self.layout.decode(exact.keys), self.mechanism
        groups = np.zeros(exact.counts.size, dtype=np.int64)
        if self.groups is not None:
            groups = self.groups.keys(codes[: len(self.groups.sizes)])[0]
        values = None
        if not isinstance(answer, CountAnswer):
            values = np.clip(codes[-1] - _FIRST_CODE + answer.lower, answer.lower, answer.upper)
            values[codes[-1] == BUCKET_CODE] = self.missing
        return tallied(answer, groups=groups, values=values, times=exact.counts)

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> list[int]:
        """Return the noisy answers, in steps; OpenDP draws the noise by itself."""
        return answered(self.mechanism, self.tally(exact, randomness=randomness))

    def fits(self, numbers: Numbers) -> bool:
        """Return whether there is a number for every group."""
        return len(numbers) == self.mechanism.groups


@dataclass(frozen=True, kw_only=True, slots=True)
class RehearsalProtection(AnswerProtection):
    """The noisy numbers of records with a label and with `*`, of each column; each record counts for one of them.

    Args:
        groups: None; the groups are those of columns.

    Raises:
        ValueError: anything but a count in two groups a column is priced.
    """

    def __post_init__(self) -> None:
        count = isinstance(self.mechanism, CountAnswer) and self.groups is None
        if not count or self.mechanism.groups != 2 * len(self.layout.sizes):
            raise ValueError("a rehearsal is a count in two groups a column")

    def tally(self, exact: GroupCounts, *, randomness: Randomness) -> Tally:
        """Count each record for one column, as declared or as `*` there: groups 2i and 2i + 1 of the column number i.

        PRIVACY: which column a record is counted for depends on its own coin alone, so one record more is one more in
        one group, whatever the coins of the others are (docs/proofs/answers.md). The coins are kept nowhere.
        """
        columns = len(self.layout.sizes)
        starred = np.stack([codes == BUCKET_CODE for codes in self.layout.decode(exact.keys)])
        patterns, of = np.unique(starred, axis=1, return_inverse=True)
        records = np.zeros(patterns.shape[1], dtype=np.int64)
        np.add.at(records, of.reshape(-1), exact.counts)
        groups = np.zeros(2 * columns, dtype=np.int64)
        for pattern, many in zip(patterns.T, records.tolist(), strict=True):
            for first in range(0, many, _COINS_AT_ONCE):
                coins = np.frombuffer(randomness(8 * min(_COINS_AT_ONCE, many - first)), dtype="<u8")
                chosen = (coins % np.uint64(columns)).astype(np.int64)
                groups += np.bincount(2 * chosen + pattern[chosen], minlength=2 * columns)
        return Tally(records=groups, sums=np.zeros(2 * columns, dtype=np.int64))


def _require_bounds(lower: int, upper: int) -> None:
    if not -_LARGEST_BOUND <= lower < upper <= _LARGEST_BOUND:
        raise ValueError(f"bounds must satisfy -2**53 ≤ lower < upper ≤ 2**53, not {lower} and {upper}")


def _require_room(lower: int, upper: int, records: int) -> None:
    if max(abs(lower), abs(upper)) * records >= 1 << 62:
        raise ValueError(f"sums of {records} values within [{lower}, {upper}] do not fit 64 bits")
