"""What attackers get out of a release of groups: figures about this release and these records, never a guarantee.

An attack that fails proves nothing; another one may succeed. What holds against all of them is the price, ε and δ.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ..deletion import DeletionNoise, deletion_weights

__all__ = ["deletion_losses", "sampling_losses"]

Counts = NDArray[np.int64]
Amounts = NDArray[np.float64]


def sampling_losses(published: Counts, records: Counts, *, rate: float, k: int) -> Amounts:
    """ln Pr[J | n] − ln Pr[J | n − 1] of a sampled release: what J tells of one person to whoever knows all others.

    J is what is published of a group of n records, she among them: Binomial(n, rate), or 0 where that is below k. The
    difference is the statistic that the best test of "she is in" against "she isn't" is made by (Neyman and Pearson).

    Args:
        published: J of each group, 0 or from k to n; shape (groups,).
        records: n of each group, at least 1; shape (groups,).
        rate: the sampling rate, 0 < rate < 1.
        k: the suppression threshold, at least 1.

    Returns:
        Shape (groups,), in nats; infinite where one of the two can't have been.
    """
    from scipy.stats import binom  # SciPy's statistics load slowly

    with np.errstate(divide="ignore"):
        shown = np.log(records) - np.log(records - published) + math.log1p(-rate)
        hidden = binom.logcdf(k - 1, records, rate) - binom.logcdf(k - 1, records - 1, rate)
    return np.asarray(np.where(published > 0, shown, hidden), dtype=np.float64)


def deletion_losses(published: Counts, records: Counts, *, noise: DeletionNoise, k: int) -> Amounts:
    """The same of a stage of a deletion release: J = n − Z, or 0 where that is below k.

    Of several stages it is the sum over them: what the first publishes of her group tells what is left of it, with and
    without her.

    Args:
        published: J of each group at the stage, 0 or from k to n; shape (groups,).
        records: n of each group, what the stages before left of it, she among them; at least 1; shape (groups,).
        noise: the law of Z.
        k: the smallest number that is published, at least 1.

    Returns:
        Shape (groups,), in nats; infinite where one of the two can't have been.
    """
    chances, tails = _logarithms(noise)
    with np.errstate(invalid="ignore"):
        shown = _at(chances, records - published) - _at(chances, records - published - 1)
        hidden = _at(tails, np.maximum(records - k + 1, 0)) - _at(tails, np.maximum(records - k, 0))
    return np.where(published > 0, shown, hidden)


@lru_cache(maxsize=16)
def _logarithms(noise: DeletionNoise) -> tuple[Amounts, Amounts]:
    """ln Pr[Z = z] and ln Pr[Z ≥ z] for z from 0 to the largest."""
    weights = deletion_weights(noise)
    total = math.log(sum(weights))
    tails = list(accumulate(reversed(weights)))[::-1]
    chances, above = (np.array([math.log(one) - total for one in some]) for some in (weights, tails))
    return chances, above


def _at(logarithms: Amounts, places: Counts) -> Amounts:
    """Those of some values of Z; −∞ of those that it never has."""
    inside = (places >= 0) & (places < logarithms.size)
    return np.where(inside, logarithms[np.where(inside, places, 0)], -math.inf)
