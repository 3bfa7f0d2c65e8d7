"""Whether a release's group counts are those of a Bernoulli sample of the known records, small groups dropped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2, norm

__all__ = ["faults"]

LIMIT = 6.0
"""Standard deviations; beyond it three normal statistics lie with probability below 6e-9 in a right release."""

_SURELY = 1e-12


def faults(released: NDArray[np.int64], *, exact: NDArray[np.int64], rate: float, k: int) -> list[str]:
    """What is wrong with a release, in words; nothing where it is right.

    With c a group's released count and N its exact one, c = X where X >= k, else 0, for X of Bin(N, rate). Two sums
    over all groups are compared with their mean and standard deviation: of c, and of whether c > 0. Over groups that
    are surely released, which may be few, X is turned into the number of a normal law that has its place in the
    binomial one; the sum of the squares is compared with its chi-squared law.

    Args:
        released: count of each cell, 0 where it was dropped; shape (cells,).
        exact: records of each cell; shape (cells,).
        rate: sampling rate.
        k: suppression threshold.
    """
    found = []
    if np.any((released > 0) & (released < k)):
        found.append("a group below the threshold was released")
    if np.any(released > exact):
        found.append("a group has more sampled records than records")
    live = exact > 0
    records, counts = exact[live].astype(np.float64), released[live].astype(np.float64)
    # E[X; X >= k] = N rate Pr[Bin(N-1, rate) >= k-1], and likewise for X (X - 1).
    kept = binom.sf(k - 1, records, rate)
    mean = records * rate * binom.sf(k - 2, records - 1, rate)
    pairs = records * (records - 1) * rate**2 * binom.sf(k - 3, np.maximum(records - 2, 0), rate)
    found += _far("sampled records", counts.sum(), mean.sum(), float((pairs + mean - mean**2).sum()))
    found += _far("released groups", float((counts > 0).sum()), kept.sum(), float((kept * (1 - kept)).sum()))
    sure = binom.cdf(k - 1, records, rate) < _SURELY
    if sure.any():
        drawn, of = counts[sure], records[sure]
        half = binom.pmf(drawn, of, rate) / 2
        tail = np.minimum(binom.cdf(drawn - 1, of, rate), binom.sf(drawn, of, rate)) + half
        squares = float((norm.ppf(tail) ** 2).sum())
        low, high = chi2.cdf(squares, drawn.size), chi2.sf(squares, drawn.size)
        score = float(norm.isf(high) if high < low else norm.ppf(low))
        found += _far("deviations of groups", score, 0.0, 1.0)
    return found


def _far(what: str, value: float, mean: float, variance: float) -> list[str]:
    score = (value - mean) / max(variance, 1e-9) ** 0.5
    return [f"{what}: {score:+.1f} standard deviations from what a right release has"] if abs(score) > LIMIT else []
