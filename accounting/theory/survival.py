"""How many sampled records a release publishes in expectation, by the public sizes of groups."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.microdata import StronglySafeRelease


def survival_share(mechanism: StronglySafeRelease, *, group_sizes: Mapping[int, int]) -> float:
    """Return the expected share of sampled records whose group reaches k in the sample.

    A record sampled from a group of n survives with probability Pr[Bin(n − 1, β) ≥ k − 1].

    PRIVACY: the sizes must be public (an earlier release, a census, a synthetic population), never counts of the
    data that are to be released: parameters may not be chosen by private looks.

    Args:
        mechanism: k and the rate.
        group_sizes: size of a group in the whole data → how many groups of that size; sizes and numbers at least 1.

    Raises:
        InputRefused: no groups, or a size or number below 1.
    """
    if not group_sizes or min(group_sizes) < 1 or min(group_sizes.values()) < 1:
        raise InputRefused("group sizes and their numbers must be whole numbers of at least 1, and at least one.")
    sizes = np.array(list(group_sizes), dtype=np.float64)
    records = sizes * np.array(list(group_sizes.values()), dtype=np.float64)
    reached = record_survival(sizes, k=mechanism.k, rate=float(mechanism.sampling_rate))
    return float(records @ reached / records.sum())


def record_survival(sizes: NDArray[np.float64], *, k: int, rate: float) -> NDArray[np.float64]:
    """For a sampled record of a group of each size, the probability that its group is published.

    Pr[Bin(n − 1, β) ≥ k − 1], by the regularized incomplete beta function; it extends the probability to sizes that
    are no whole numbers, as estimates are.

    PRIVACY: as `survival_share`.

    Args:
        sizes: records of the groups in the whole data, at least 0; any shape.
        k: suppression threshold, at least 1.
        rate: β, strictly between 0 and 1.

    Returns:
        Probabilities, in the shape of `sizes`.
    """
    from scipy.special import betainc  # SciPy loads slowly, and most commands do without it

    if k == 1:
        return np.ones_like(sizes)
    others = np.maximum(sizes - 1.0, 0.0)
    needed = float(k - 1)
    reached: NDArray[np.float64] = betainc(needed, np.maximum(others - needed + 1.0, 1.0), rate)
    return np.where(others >= needed, reached, 0.0)
