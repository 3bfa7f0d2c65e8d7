"""The exact privacy ratio of how many of n people reported a one, after each bit was flipped with probability q."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["ones_distribution", "privacy_ratios"]

Array = NDArray[np.float64]


def ones_distribution(*, people: int, ones: int, flip_probability: float) -> Array:
    """Pr[A(m) = s] for s = 0 … n: the number of ones that n people report when m of them have one.

    By conditioning on one person: f_n(s; m) = p·f_{n−1}(s−1; m−1) + q·f_{n−1}(s; m−1) on one who has a one, and
    f_n(s; m) = q·f_{n−1}(s−1; m) + p·f_{n−1}(s; m) on one who has not. Source: KR, recursions 3.2 and 3.3.

    Args:
        people: n, at least 0.
        ones: m, 0 ≤ m ≤ n.
        flip_probability: q, 0 < q < ½.

    Returns:
        Shape (n + 1,).

    Raises:
        ValueError: an argument out of range.
    """
    if not 0 <= ones <= people or not 0.0 < flip_probability < 0.5:
        raise ValueError(f"0 ≤ m ≤ n and 0 < q < ½ are needed, not {ones}, {people}, {flip_probability}")
    q = flip_probability
    masses = np.array([1.0])
    for person in range(people):
        reported = 1.0 - q if person < ones else q
        longer = np.zeros(masses.size + 1)
        longer[1:] = reported * masses
        longer[:-1] += (1.0 - reported) * masses
        masses = longer
    return masses


def privacy_ratios(*, people: int, flip_probability: float) -> Array:
    """π(s; m) = Pr[A(m) = s] / Pr[A(m+1) = s], the exact privacy ratio of neighbours under replacement.

    Source: KR, for L = 1.

    Returns:
        Shape (n, n + 1): rows m = 0 … n − 1, columns s = 0 … n.

    Raises:
        ValueError: an argument out of range.
    """
    if people < 1:
        raise ValueError(f"at least one person is needed, not {people}")
    rows = [ones_distribution(people=people, ones=m, flip_probability=flip_probability) for m in range(people + 1)]
    return np.array([before / after for before, after in pairwise(rows)])
