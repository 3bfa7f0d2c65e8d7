"""The two hockey-stick divergences of the sampled, suppressed count at their peaks over the group size."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .binomial import ULP, log_binomial_pmf

__all__ = ["LARGEST_GROUP", "log_adding", "log_removing"]

LARGEST_GROUP = 2.0**50

_LARGEST_EPSILON = 600.0

_SPLITTER = 134217729.0
_BLOCK = 1 << 20
_DECAY = 40.0

Array = NDArray[np.float64]


def log_adding(*, k: int, sampling_rate: float, epsilons: Array) -> Array:
    """Upper bounds on ln sup_n Σ_{j≥k} max(0, f(j;n,β) − e^ε·f(j;n−1,β)), one for each ε ≥ 0.

    The supremum is attained at the first n ≥ k with γn ≥ k − 1, where γ = 1 − (1−β)e^{−ε}
    (docs/proofs/exact-profile.md, Lemma 3), so that one n is evaluated, as a sum of positive terms.

    Args:
        k: suppression threshold, at least 1.
        sampling_rate: β, with (k−1)/β below `LARGEST_GROUP`.
        epsilons: ε of at least 0, any shape (n,).

    Returns:
        Shape (n,); each at least the true logarithm, above it by rounding only (about 1e-12).
    """
    # δ falls with ε, so that a cap on ε is outward; it keeps e^{−ε} a normal double.
    epsilons = np.minimum(epsilons, _LARGEST_EPSILON)
    shrink = np.exp(-epsilons)
    # INVARIANT: κ is rounded up and γ = 1 − κ down; the supremum grows with κ.
    kappa = np.minimum((1.0 - sampling_rate) * shrink * (1.0 + 16.0 * ULP), 1.0)
    gamma = (-np.expm1(-epsilons) + sampling_rate * shrink) * (1.0 - 16.0 * ULP)
    use_kappa = kappa < 0.5
    kappa = np.where(use_kappa, kappa, 1.0 - gamma)
    gamma = np.where(use_kappa, 1.0 - kappa, gamma)
    n = np.maximum(np.ceil((k - 1.0) / gamma), float(k))
    # Below 2**50 the quotient is wrong by less than one.
    theta = _residual_adding(k, n, kappa, gamma, use_kappa)
    n = n + np.where(theta > 1.0, 1.0, np.where((theta <= kappa) & (n > k), -1.0, 0.0))
    theta = _residual_adding(k, n, kappa, gamma, use_kappa)
    odds = sampling_rate / (1.0 - sampling_rate)
    log_weight = _log_weighted_sum(theta=theta, top=n - k, bottom=np.full_like(n, k + 1.0), odds=odds)
    log_first, error = log_binomial_pmf(np.full_like(n, float(k)), n, sampling_rate)
    value = log_first + error + log_weight - np.log(n * kappa) + 16.0 * ULP
    return np.asarray(value, dtype=np.float64)


def log_removing(*, k: int, sampling_rate: float, epsilons: Array) -> Array:
    """Upper bounds on ln sup_n of the divergence of removing the record, one for each ε ≥ 0.

    The divergence is max over m ≥ k of Pr[Bin(n−1,β) < m] − e^ε·Pr[Bin(n,β) < m]. With η = 1 − e^ε(1−β) it is 0
    where η ≤ 0; else its supremum is attained at the first n ≥ 1 with ηn ≥ k − 1
    (docs/proofs/exact-profile.md, Lemma 4).

    Args and returns as in `log_adding`; −∞ where the divergence is 0.
    """
    growth = np.expm1(np.minimum(epsilons, _LARGEST_EPSILON)) * (1.0 - sampling_rate)
    # INVARIANT: η is rounded up (the supremum grows with η), also where its group would be beyond counting.
    eta = sampling_rate - growth + 32.0 * ULP * sampling_rate
    positive = eta > 0.0
    result = np.full(epsilons.shape, -np.inf)
    if not positive.any():
        return result
    eta = np.clip(eta[positive], (k - 1.0) / LARGEST_GROUP, 1.0 - ULP)
    # Rounded to the nearest, the quotient is never past a whole number that it isn't past, and short by less than one.
    n = np.maximum(np.ceil((k - 1.0) / eta), 1.0)
    n = n + (_residual(n, eta, k - 1.0) < 0.0)
    theta = _residual(n, eta, k - 1.0)
    odds = (1.0 - sampling_rate) / sampling_rate
    log_weight = _log_weighted_sum(theta=theta, top=np.full_like(n, k - 1.0), bottom=n - k + 2.0, odds=odds)
    log_first, error = log_binomial_pmf(np.full_like(n, k - 1.0), n, sampling_rate)
    result[positive] = log_first + error + log_weight - np.log(n) - math.log1p(-sampling_rate) + 16.0 * ULP
    return result


def _residual(n: Array, factor: Array, subtrahend: Array | float) -> Array:
    """The value n·factor − subtrahend with relative error of one rounding: the product is split exactly (Dekker)."""
    product = n * factor
    n_big, f_big = _SPLITTER * n, _SPLITTER * factor
    n_high, f_high = n_big - (n_big - n), f_big - (f_big - factor)
    n_low, f_low = n - n_high, factor - f_high
    lost = n_low * f_low - (((product - n_high * f_high) - n_low * f_high) - n_high * f_low)
    return (product - subtrahend) + lost


def _residual_adding(k: int, n: Array, kappa: Array, gamma: Array, use_kappa: NDArray[np.bool_]) -> Array:
    """The distance θ = k − γn = nκ − (n − k), from whichever of γ and κ is the exact one."""
    return np.where(use_kappa, _residual(n, kappa, n - k), -_residual(n, gamma, float(k)))


def _log_weighted_sum(*, theta: Array, top: Array, bottom: Array, odds: float) -> Array:
    """Upper bounds on ln Σ_{i≥0} (θ + i)·Π_{l<i} r_l with r_l = odds·(top − l)/(bottom + l), 0 beyond l = top.

    The ratios fall with l and r_0 < 1; what is cut off after the m-th term is replaced by its geometric bound.
    """
    result = np.empty_like(theta)
    first_ratio = np.maximum(odds * top / bottom, 1e-300)
    drop = -np.log(np.minimum(first_ratio, 1.0))
    curvature = 1.0 / bottom + 1.0 / np.maximum(top, 1.0)
    needed = np.minimum(2.0 * _DECAY / (drop + np.sqrt(drop * drop + _DECAY * curvature)) + 8.0, top + 1.0)
    needed = np.ceil(needed)
    order = np.argsort(needed)
    start = 0
    while start < order.size:
        stop = start + 1
        while stop < order.size and (stop + 1 - start) * needed[order[stop]] <= _BLOCK:
            stop += 1
        rows = order[start:stop]
        result[rows] = _block_of_sums(theta[rows], top[rows], bottom[rows], odds, int(needed[rows[-1]]))
        start = stop
    return result


def _block_of_sums(theta: Array, top: Array, bottom: Array, odds: float, terms: int) -> Array:
    steps = np.arange(terms, dtype=np.float64)
    ratios = np.maximum(top[:, None] - steps, 0.0)
    ratios /= bottom[:, None] + steps
    ratios *= odds
    products = np.cumprod(ratios, axis=1)
    end = products[:, -1]
    last = np.minimum(odds * np.maximum(top - terms, 0.0) / (bottom + terms), 1.0 - ULP)
    gap = 1.0 - last
    plain = 1.0 + products[:, :-1].sum(axis=1) + end / gap
    graded = products[:, :-1] @ steps[1:] + end * (terms / gap + last / (gap * gap))
    slack = (8.0 * terms + 32.0) * ULP
    return np.asarray(np.log(theta * plain + graded) + slack, dtype=np.float64)
