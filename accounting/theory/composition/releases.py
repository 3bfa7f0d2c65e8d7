"""The price of many releases together, and a quick estimate to start searches close to their end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import partial, reduce

import numpy as np

from .finite_losses import FiniteLosses
from .loss_distribution import (
    LossCurves,
    LossDistribution,
    Part,
    compose,
    curves_of,
    delta_at,
    epsilon_at,
    grid_spacing,
    measures_of,
    power,
)

__all__ = ["COMPOSED_FLOOR", "delta_composed", "epsilon_composed", "estimated_log_delta"]

COMPOSED_FLOOR = Decimal("1e-200")

_CUT_SHARE = 1e-4


def epsilon_composed(parts: Mapping[Part, int], *, delta: float) -> float | None:
    """The least ε found for the composition of fresh-sample releases and bare guarantees, rounded outward.

    The parameters are fixed beforehand; the outputs may be used adaptively otherwise. Both directions are
    composed, each with itself, since a person is present in all the releases or absent from all.

    Args:
        parts: mechanism → how many of it, each at least 1.
        delta: δ over all of them together, at least `COMPOSED_FLOOR`.

    Returns:
        ε, at least the true one; None where no finite ε is found.

    Raises:
        ValueError: a count, δ or a mechanism's parameters are out of range.
    """
    results = [epsilon_at(measure, delta) for measure in _compose_all(parts, delta)]
    finite = [result for result in results if result is not None]
    return max(finite) if len(finite) == len(results) else None


def delta_composed(parts: Mapping[Part, int], *, epsilon: float, resolution: float = 1e-15) -> float:
    """An upper bound on δ at ε for the composition of `parts`; masses below about `resolution` count in full.

    Raises:
        ValueError: as `epsilon_composed`, or ε below 0.
    """
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0, not {epsilon}")
    return max(delta_at(measure, epsilon) for measure in _compose_all(parts, resolution))


def _compose_all(parts: Mapping[Part, int], delta: float) -> tuple[LossDistribution, LossDistribution]:
    if not float(COMPOSED_FLOOR) <= delta < 1.0:
        raise ValueError(f"a composed price needs delta from {COMPOSED_FLOOR} to 1, not {delta}")
    if not parts or min(parts.values()) < 1:
        raise ValueError("a composition needs at least one mechanism, each at least once")
    # INVARIANT: the order of composition is a function of the mechanisms, so that the price is the same in any order.
    ordered = sorted(parts.items(), key=lambda item: repr(item[0]))
    negligible = delta * _CUT_SHARE / sum(parts.values())
    curves: dict[LossCurves | FiniteLosses, int] = {
        curves_of(part, negligible=negligible): times for part, times in ordered
    }
    spacing = grid_spacing(curves, negligible=negligible)
    cut = delta * _CUT_SHARE / (2.0 * len(curves))
    every = [
        [power(measure, times, cut=cut) for measure in measures_of(part, spacing)] for part, times in curves.items()
    ]
    adding, removing = (reduce(partial(compose, cut=cut), measures) for measures in zip(*every, strict=True))
    return adding, removing


_POINTS_PER_DEVIATION = 8.0
_BISECTIONS = 50


def estimated_log_delta(parts: Mapping[Part, int], *, epsilon: float, negligible: float) -> float:
    """About ln δ at ε of the composed mechanisms when the record is added; mostly right within a few per cent.

    Source: the method of steepest descent of Alghamdi et al., The Saddle-Point Method in Differential Privacy,
    arXiv:2208.09595v2: δ ≈ e^{F(z)}/sqrt(2πF″(z)), F(z) = K(z) − εz − ln z − ln(1+z), F′(z) = 0, where K is the
    cumulant function of the composed loss.

    Args:
        parts: mechanism → how many of it.
        epsilon: ε above 0.
        negligible: a δ so small that it does not matter in one mechanism.

    Raises:
        ValueError: a mechanism's parameters are out of range for double precision.
    """
    from scipy.special import logsumexp  # SciPy loads slowly, and most prices do without it

    measures = []
    infinite = 0.0
    for part, times in parts.items():
        curves = curves_of(part, negligible=negligible)
        measure, _ = measures_of(curves, curves.deviation / _POINTS_PER_DEVIATION)
        weighty = measure.masses > 1e-290
        measures.append((measure.losses()[weighty], measure.masses[weighty], times))
        infinite += times * measure.infinite

    def slope(z: float) -> tuple[float, float, float]:
        value = first = second = 0.0
        for losses, masses, times in measures:
            log_total = float(logsumexp(z * losses, b=masses))
            tilted = masses * np.exp(z * losses - log_total)
            mean = float(tilted @ losses)
            value += times * log_total
            first += times * mean
            second += times * float(tilted @ (losses - mean) ** 2)
        return (
            value - epsilon * z - math.log(z) - math.log1p(z),
            first - epsilon - 1.0 / z - 1.0 / (1.0 + z),
            second + 1.0 / z**2 + 1.0 / (1.0 + z) ** 2,
        )

    low, high = -60.0, 60.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(math.exp(middle))[1] < 0.0 else (low, middle)
    value, _, curvature = slope(math.exp(high))
    descent = value - 0.5 * math.log(2.0 * math.pi * curvature)
    return min(float(logsumexp([descent, math.log(max(infinite, 1e-300))])), 0.0)
