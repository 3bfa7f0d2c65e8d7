"""The exact price of publishing how many of n people reported a one, after each bit was flipped with probability q."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.refusal import InputRefused
from .binomial import ULP, log_binomial_pmf

__all__ = ["EXACT_PEOPLE", "OnesProfile"]

EXACT_PEOPLE = 1024
"""Beyond this many people the profile of this many is used, which covers it."""

_SLACK = 4e-11

Array = NDArray[np.float64]


class OnesProfile:
    """δ(ε) of the published number of ones under replacement, n public: the least for n ≤ `EXACT_PEOPLE`.

    [Ours] With T the ones among the n − 1 others, δ is the largest over their m of
    Σ_s max(0, (p − e^ε q)·Pr[T = s−1] − (e^ε p − q)·Pr[T = s]); the other direction is its mirror image, and δ does
    not rise with n (docs/proofs/outcome-counts.md).

    Args:
        people: n, or a public lower bound on it; at least 1.
        flip_probability: q, 0 < q < ½; a lower bound on it is a valid one.

    Raises:
        InputRefused: an argument out of range.
    """

    def __init__(self, *, people: int, flip_probability: float) -> None:
        if people < 1 or not 0.0 < flip_probability < 0.5:
            raise InputRefused(
                f"at least one person and a flip probability between 0 and ½ are needed, not {people} and "
                f"{flip_probability}."
            )
        self._q = flip_probability
        others = min(people, EXACT_PEOPLE) - 1
        ones = [_binomial(count, 1.0 - self._q) for count in range(others + 1)]
        zeros = [_binomial(count, self._q) for count in range(others + 1)]
        self._others = np.array([np.convolve(ones[m], zeros[others - m]) for m in range(others + 1)])

    def delta(self, epsilon: float) -> float:
        """The least δ at ε ≥ 0, rounded outward; 0 from the local ε on."""
        q = self._q
        p = 1.0 - q
        growth = float(np.exp(epsilon)) * (1.0 - 8.0 * ULP)
        gain = (p - growth * q) * (1.0 + 8.0 * ULP) + 8.0 * ULP * p
        loss = (growth * p - q) * (1.0 - 16.0 * ULP)
        if p < growth * q * (1.0 - 16.0 * ULP):
            return 0.0
        edge = np.zeros((self._others.shape[0], 1))
        shifted = np.hstack([edge, self._others])
        unshifted = np.hstack([self._others, edge])
        terms = gain * shifted * (1.0 + _SLACK) - loss * unshifted * (1.0 - _SLACK)
        total = np.maximum(terms, 0.0).sum(axis=1) * (1.0 + (terms.shape[1] + 8.0) * ULP)
        return min(1.0, float(total.max()) + 1e-290)


def _binomial(trials: int, p: float) -> Array:
    if trials == 0:
        return np.array([1.0])
    counts = np.arange(trials + 1, dtype=np.float64)
    logs, _ = log_binomial_pmf(counts, np.full_like(counts, float(trials)), p)
    return np.exp(logs)
