"""The privacy profile of a strongly-safe release where the size of the person's group lies in a range."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...kernel.prices.arithmetic import ULP, log_binomial_pmf
from ...kernel.prices.privacy_profile import (
    LARGEST_GROUP,
    MARGIN,
    groups_of_adding,
    groups_of_removing,
    log_weighted_sum,
)

Array = NDArray[np.float64]


def log_adding_within(*, k: int, sampling_rate: float, epsilons: Array, first: Array, last: Array) -> Array:
    """Return `log_adding` with the supremum over the sizes first ≤ n ≤ last of a group alone, for many such ranges.

    The divergence rises up to the n that is decisive without the range, and from there is at most that without
    suppression, which falls (docs/proofs/exact-profile.md, Lemma 3). So that n, or the end of the range next to it, is
    evaluated. `epsilons` have the shape (e,), `first` (whole numbers from 1) and `last` (or infinity) the shape (r,),
    and the result (r, e); it is −∞ where the divergence is 0.
    """
    gamma = (sampling_rate * np.exp(-epsilons) - np.expm1(-epsilons)) * (1.0 - MARGIN)
    decisive, _ = groups_of_adding(k, gamma)
    sizes = np.clip(decisive, first[:, None], last[:, None])
    product = gamma * sizes
    # INVARIANT: a count that may exceed γn is not left out; one that doesn't counts as if it did by a rounding.
    least = np.maximum(np.floor(product * (1.0 - MARGIN)) + 1.0, float(k))
    theta = np.maximum(least - product, 0.0) + MARGIN * sizes
    result = np.full(sizes.shape, -np.inf)
    some = least <= sizes
    n, j = sizes[some], least[some]
    log_weight = log_weighted_sum(
        theta=theta[some], top=n - j, bottom=j + 1.0, odds=sampling_rate / (1.0 - sampling_rate)
    )
    log_first, error = log_binomial_pmf(j, n, sampling_rate)
    kept = np.broadcast_to(1.0 - gamma, sizes.shape)[some]
    result[some] = log_first + error + log_weight - np.log(n * kept) + MARGIN
    return result


def log_removing_within(*, k: int, sampling_rate: float, epsilons: Array, first: Array, last: Array) -> Array:
    """Return `log_removing` with the supremum over ranges of sizes, as `log_adding_within` does (Lemma 4).

    Beyond a range that ends before the decisive n, Pr[Bin(n−1, β) < k] − e^ε·Pr[Bin(n, β) < k] is the difference of
    two sums, with an absolute error.
    """
    with np.errstate(over="ignore"):
        growth = np.expm1(epsilons) * (1.0 - sampling_rate)
    eta = sampling_rate - growth + MARGIN * sampling_rate
    result = np.full((first.size, epsilons.size), -np.inf)
    positive = np.flatnonzero(eta > 0.0)
    eta = np.maximum(eta[positive], (k - 1.0) / LARGEST_GROUP)
    decisive, _ = groups_of_removing(k, eta)
    sizes = np.clip(decisive, first[:, None], last[:, None])
    bounds = np.full(sizes.shape, -np.inf)
    whole = sizes >= decisive
    product = eta * sizes
    most = np.floor(product * (1.0 + MARGIN))
    theta = np.maximum(product - most, 0.0) + MARGIN * sizes
    n, j = sizes[whole], most[whole]
    log_weight = log_weighted_sum(
        theta=theta[whole], top=j, bottom=n - j + 1.0, odds=(1.0 - sampling_rate) / sampling_rate
    )
    log_first, error = log_binomial_pmf(j, n, sampling_rate)
    bounds[whole] = log_first + error + log_weight - np.log(n) - math.log1p(-sampling_rate) + MARGIN
    for row in np.flatnonzero(~whole.all(axis=1)):
        bounds[row] = np.where(whole[row], bounds[row], _log_unlikelier(k, sampling_rate, eta, float(last[row])))
    result[:, positive] = bounds
    return result


def _log_unlikelier(k: int, sampling_rate: float, eta: Array, n: float) -> Array:
    """Return upper bounds on ln max(0, Pr[Bin(n−1, β) < k] − e^ε·Pr[Bin(n, β) < k]), by η; −∞ where it is 0."""
    counts = np.arange(min(k - 1.0, n) + 1.0)
    logs, errors = log_binomial_pmf(counts, np.full_like(counts, n), sampling_rate)
    masses = np.exp(logs)
    error = float(errors.max()) + (counts.size + 16.0) * ULP
    reached = eta * n * float(masses.sum()) * (1.0 + error) - float(masses @ counts) * (1.0 - error)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(reached, 0.0)) - math.log(n) - math.log1p(-sampling_rate) + MARGIN
