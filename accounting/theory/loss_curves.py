"""Both hockey-stick curves of one mechanism on a common grid, and the two privacy-loss measures made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.strongly_safe import StronglySafeRelease
from .guarantee import Guarantee
from .hockey_stick import log_adding, log_removing
from .loss_distribution import LossDistribution, from_curve
from .profile import check_parameters, farthest_epsilon, least_log_delta
from .rounding import float_up

__all__ = ["LossCurves", "Part", "curves_of", "grid_spacing", "measures_of"]

Part = StronglySafeRelease | Guarantee
Array = NDArray[np.float64]
_LogCurve = Callable[[Array], Array]

_LARGEST_SUPPORT = 1 << 15
_POINTS_PER_DEVIATION = 24.0
_MOST_POINTS = 8192.0
_FARTHEST_LOSS = 290.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LossCurves:
    """Upper bounds on ln δ(ε), ε ≥ 0, when the record is added and when it is removed.

    Args:
        adding: ln δ when the record is added, falling in ε.
        removing: ln δ when it is removed, falling in ε.
        adding_end: an ε beyond which `adding` is negligible, or constant.
        removing_end: the same of `removing`.
        deviation: about the standard deviation of the privacy loss; it decides how fine the grid is, nothing else.
    """

    adding: _LogCurve
    removing: _LogCurve
    adding_end: float
    removing_end: float
    deviation: float


def curves_of(part: Part, *, negligible: float) -> LossCurves:
    """The curves of a release or of a bare guarantee.

    Args:
        part: the mechanism.
        negligible: a δ that may be counted in full as an infinite loss.

    Raises:
        ValueError: the mechanism's parameters are out of range for double precision.
    """
    match part:
        case StronglySafeRelease():
            return _curves_of_release(part, negligible)
        case Guarantee():
            return _curves_of_guarantee(part)
    assert_never(part)


def _curves_of_guarantee(guarantee: Guarantee) -> LossCurves:
    """The worst (ε, δ)-private pair: Kairouz, Oh, Viswanath, arXiv:1311.0776v4, Theorem 3.1 and its proof."""
    end, delta = float_up(guarantee.epsilon), float_up(guarantee.delta)

    def curve(epsilons: Array) -> Array:
        gain = np.maximum(-np.expm1(epsilons - end), 0.0) / (1.0 + math.exp(-end))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(delta + (1.0 - delta) * gain) + 1e-14, dtype=np.float64)

    return LossCurves(adding=curve, removing=curve, adding_end=end, removing_end=end, deviation=max(end, 1e-12))


def _curves_of_release(release: StronglySafeRelease, negligible: float) -> LossCurves:
    k, rate = release.k, float_up(release.sampling_rate)
    check_parameters(k, rate)

    def adding(epsilons: Array) -> Array:
        return log_adding(k=k, sampling_rate=rate, epsilons=epsilons)

    def removing(epsilons: Array) -> Array:
        return log_removing(k=k, sampling_rate=rate, epsilons=epsilons)

    # Counts near k among k/β records have a loss of about β·z/sqrt(k(1−β)) at z standard deviations.
    deviation = rate / math.sqrt(k * (1.0 - rate))
    floor = math.log(negligible)
    plateau = least_log_delta(k=k, sampling_rate=rate) + 1e-9
    farthest = farthest_epsilon(k=k, sampling_rate=rate)
    return LossCurves(
        adding=adding,
        removing=removing,
        adding_end=_end(adding, max(floor, plateau), deviation, farthest),
        removing_end=_end(removing, floor, deviation, -math.log1p(-rate) * (1.0 + 1e-9)),
        deviation=deviation,
    )


def _end(curve: _LogCurve, level: float, deviation: float, farthest: float) -> float:
    """An ε, at most a tenth too large, from which a falling curve is at most a level; at most `farthest`."""
    points = np.minimum(deviation * np.concatenate([[0.5], np.exp2(np.arange(64.0))]), farthest)
    points = points[: int(np.searchsorted(points, farthest)) + 1]
    for _ in range(2):
        below = np.flatnonzero(curve(points) <= level)
        if below.size == 0:
            return farthest
        high = float(points[below[0]])
        points = np.linspace(float(points[max(below[0] - 1, 0)]), high, 11)
    return high


def grid_spacing(parts: Mapping[LossCurves, int], *, negligible: float) -> float:
    """A grid step fine against every mechanism's deviation, and coarse enough for the composed support.

    Args:
        parts: curves → how many such mechanisms.
        negligible: as in `curves_of`.

    Returns:
        A step of at most 20 significant bits, so that its multiples by whole numbers below 2**32 are exact.

    Raises:
        ValueError: a privacy loss is beyond what the grid can hold.
    """
    reach = max(part.adding_end + part.removing_end for part in parts)
    if reach > _FARTHEST_LOSS:
        raise ValueError(f"a privacy loss of {reach:g} is beyond the grid")
    variance = math.fsum(times * part.deviation**2 for part, times in parts.items())
    support = min(
        2.0 * math.sqrt(2.0 * math.log(1.0 / negligible) * variance) + reach,
        math.fsum(times * (part.adding_end + part.removing_end) for part, times in parts.items()),
    )
    finest = min(part.deviation for part in parts) / _POINTS_PER_DEVIATION
    return _few_bits(max(support / _LARGEST_SUPPORT, reach / _MOST_POINTS, finest))


def _few_bits(value: float) -> float:
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**20) / 2**20, exponent)


def measures_of(curves: LossCurves, spacing: float) -> tuple[LossDistribution, LossDistribution]:
    """The measures of adding and of removing the record.

    Below ε = 0 a direction's curve is 1 − e^ε + e^ε·(the other direction at −ε), so that each curve is evaluated once.

    Raises:
        ValueError: the spacing is too fine for the curves' precision.
    """
    adding = _deltas(curves.adding, curves.adding_end, spacing)
    removing = _deltas(curves.removing, curves.removing_end, spacing)
    return _measure(adding, removing, spacing), _measure(removing, adding, spacing)


def _deltas(curve: _LogCurve, end: float, spacing: float) -> Array:
    points = np.arange(math.ceil(end / spacing) + 2, dtype=np.float64) * spacing
    return np.asarray(np.minimum(np.exp(curve(points)) * (1.0 + 1e-14), 1.0), dtype=np.float64)


def _measure(ahead: Array, behind: Array, spacing: float) -> LossDistribution:
    below = -spacing * np.arange(behind.size - 1, 0, -1)
    mirrored = (-np.expm1(below) + np.exp(below) * behind[:0:-1]) * (1.0 + 1e-14)
    deltas = np.minimum(np.concatenate([mirrored, ahead]), 1.0)
    return from_curve(spacing=spacing, lowest=1 - behind.size, deltas=deltas)
