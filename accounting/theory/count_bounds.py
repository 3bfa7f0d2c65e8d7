"""What there is at least and at most of people, by what a table shows of them, whatever it lacks.

What is counted is a set of whole combinations of labels, such as all that have one label in common. Both bounds hold
together in at least 19 of 20 releases. Why they do: docs/decisions/0020-intervals-that-hold.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.record_weights import QUANTILE
from ..descriptions.kind_description import DeletedRecords

HALF = 0.5
ERROR = 0.05
LONG_TAILS = 0.2
"""Variance of one noise that is added once: its tails are longer than a normal law's."""

Amounts = NDArray[np.float64] | np.float64


class CountBounds(Protocol):
    """Two bounds of a number of people."""

    def at_least(self, counted: Amounts, groups: Amounts) -> Amounts:
        """Return lower bounds.

        Args:
            counted: the sums of weights, or numbers of records without weights.
            groups: how many of the combinations are in the table.
        """
        ...

    def at_most(self, counted: Amounts, groups: Amounts) -> Amounts:
        """Return upper bounds; infinite where `combinations` isn't known."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class NormalBounds:
    """Bounds by the normal law, of counts without a sample: sums of weights of a deletion release, and noisy counts.

    Args:
        deviation: of the noise that each combination has of its own.
        once: variance that is added once.
        absent: what a combination that isn't in the table adds at the most, but for that noise.
        combinations: how many there are; None where that isn't known.
    """

    deviation: float
    once: float
    absent: float
    combinations: int | None

    def at_least(self, counted: Amounts, groups: Amounts) -> Amounts:
        """Return lower bounds."""
        return counted - self._width(groups)

    def at_most(self, counted: Amounts, groups: Amounts) -> Amounts:
        """Return upper bounds."""
        if self.combinations is None:
            return np.full_like(counted, np.inf)
        absent = self.absent * (self.combinations - groups)
        return counted + absent + self._width(np.float64(self.combinations))

    def _width(self, groups: Amounts) -> Amounts:
        """Return the normal law's width and half a record, since counts are whole."""
        return QUANTILE * np.sqrt(self.deviation**2 * groups + self.once) + HALF


@dataclass(frozen=True, kw_only=True, slots=True)
class BinomialBounds:
    """Bounds of the number of people whose records were drawn with one rate.

    Without noise they are the exact limits of the binomial law: the least n with Pr[Bin(n, β) ≥ c] > 1/40, and the
    largest with Pr[Bin(n, β) ≤ m] > 1/40. The number of people at whom the c-th is drawn is negative binomial, and
    these are its quantiles. With noise they are wider and of closed form.

    Args:
        rate: β, of the sample.
        absent: the most sampled records of a combination that isn't in the table.
        deviation: of the noise that each combination has of its own; 0 where there is none.
        combinations: how many there are; None where that isn't known.
    """

    rate: float
    absent: float
    deviation: float
    combinations: int | None

    @classmethod
    def of(cls, rate: float, *, k: int | None, noise: float | None, combinations: int | None) -> BinomialBounds:
        """Return the bounds of a sampled release.

        Args:
            rate: of the sample.
            k: the threshold; a combination that is absent has at most k − 1 sampled records.
            noise: ε of the noise on counts, all of which are then in the table; None where there is none.
            combinations: how many were declared in what is counted.
        """
        return cls(
            rate=rate,
            absent=0.0 if noise is not None or k is None else float(k - 1),
            deviation=0.0 if noise is None else geometric_deviation(noise),
            combinations=combinations,
        )

    def at_least(self, counted: Amounts, groups: Amounts) -> Amounts:
        """Return lower bounds."""
        if self.deviation:
            return self._closed_lower(counted, groups)
        from scipy.stats import nbinom  # SciPy's statistics load slowly

        # A negative binomial of the failures before the c-th success: with the successes it is the number of people at
        # which the c-th is drawn. At c = 0 it isn't defined, and the lower bound is 0.
        return np.where(counted > 0, nbinom.ppf(ERROR / 2, np.maximum(counted, 1), self.rate) + counted, 0.0)

    def at_most(self, counted: Amounts, groups: Amounts) -> Amounts:
        """Return upper bounds."""
        if self.combinations is None:
            return np.full_like(counted, np.inf)
        # Taken in the worst case, since nothing that is published shows how many of an absent combination were sampled.
        most = counted + self.absent * (self.combinations - groups)
        if self.deviation:
            return self._closed_upper(most, np.float64(self.combinations))
        from scipy.stats import nbinom  # SciPy's statistics load slowly

        beyond: Amounts = nbinom.ppf(1 - ERROR / 2, most + 1, self.rate)
        return beyond + most

    def _closed_lower(self, counted: Amounts, groups: Amounts) -> Amounts:
        least = counted - 1
        width = QUANTILE * np.sqrt(np.maximum(least, 0) * (1 - self.rate) + self._noise(groups))
        return np.maximum(least - width, 0) / self.rate

    def _closed_upper(self, most: Amounts, groups: Amounts) -> Amounts:
        root = np.maximum(most + 1, 0) * (1 - self.rate) + QUANTILE**2 / 4 + self._noise(groups)
        return np.maximum(most + 1 + QUANTILE**2 / 2 + QUANTILE * np.sqrt(root), 0) / self.rate

    def _noise(self, groups: Amounts) -> Amounts:
        return self.deviation**2 * (groups + LONG_TAILS)


def deletion_bounds(deleted: DeletedRecords, *, combinations: int | None) -> NormalBounds:
    """Return the bounds of sums of weights, before raking, over combinations of labels of the last stage.

    Args:
        deleted: what the release deletes.
        combinations: how many were declared in what is counted.
    """
    deviation = math.sqrt(deleted.variance)
    return NormalBounds(
        deviation=deviation,
        once=LONG_TAILS * deviation**2,
        absent=float(deleted.expected) + deleted.k - 1,
        combinations=combinations,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CountInterval:
    """How many people one combination has of which records are in the table.

    Args:
        published: its records there.
        people: how many people they stand for.
        low: the least that it may have.
        high: the most; both hold in 19 of 20 draws in which the combination is published, whatever its size.
    """

    published: int
    people: float
    low: int
    high: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Chance:
    """What becomes of a combination that has so many people.

    Args:
        people: its size in the population.
        published: probability that it is in the table at all.
        estimate: the estimate to be expected where it is.
    """

    people: int
    published: float
    estimate: float


def published_intervals(counts: Sequence[int], *, k: int, rate: float) -> list[CountInterval]:
    """Return exact limits by the binomial law given that it is at least k, which is what is seen.

    Args:
        counts: published records of a combination, each at least k, ascending.
        k: the threshold.
        rate: of the sample.
    """
    from scipy.stats import binom  # SciPy's statistics load slowly

    def reaches(count: int, people: int) -> float:
        """Return Pr[X ≥ count | X ≥ k], which grows with the people; 1 where a double holds neither."""
        shown = binom.logsf(k - 1, people, rate)
        # In logarithms: both probabilities may be far below the smallest double though their ratio isn't.
        return 1.0 if shown == -math.inf else math.exp(binom.logsf(count - 1, people, rate) - shown)

    def interval(count: int) -> CountInterval:
        # The limits without the condition are wider, and so bound the search.
        far = BinomialBounds.of(rate, k=k, noise=None, combinations=1).at_most(np.float64(count), np.float64(1))
        sizes = range(count, int(far) + 2)
        low = bisect_left(sizes, True, key=lambda people: reaches(count, people) > ERROR / 2)
        beyond = bisect_left(sizes, True, key=lambda people: reaches(count + 1, people) >= 1 - ERROR / 2)
        return CountInterval(published=count, people=count / rate, low=sizes[low], high=sizes[beyond] - 1)

    return [interval(count) for count in counts]


def geometric_deviation(epsilon: float) -> float:
    """Return the deviation of two-sided geometric noise: √(2α)/(1 − α), α = e^−ε."""
    alpha = math.exp(-epsilon)
    return math.sqrt(2.0 * alpha) / (1.0 - alpha)
