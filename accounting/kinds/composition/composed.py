"""The price of many releases together, by composition of their privacy-loss distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ...kernel.prices.arithmetic import float_up
from ...kernel.prices.mechanism_kind import Price
from ...kernel.prices.privacy_profile import (
    check_parameters,
    farthest_epsilon,
    least_log_delta,
    log_adding,
    log_removing,
)
from .amplification import Concentrated, Guarantee
from .bounded_range import BoundedRange, range_log_delta
from .finite_losses import FiniteLosses, LossesBySize
from .loss_distribution import LossDistribution, compose, delta_at, epsilon_at, from_atoms, from_curve, power

Part = StronglySafeRelease | Guarantee | BoundedRange | FiniteLosses
FilterPart = Part | LossesBySize | Concentrated
"""A step of what has a place in a filter budget."""


M = TypeVar("M", bound=Mechanism)
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


def curves_of(part: Part, *, negligible: float) -> LossCurves | FiniteLosses:
    """Return the curves of a release or of a bare guarantee; the losses themselves where these are finitely many.

    Args:
        part: the mechanism.
        negligible: a δ that may be counted in full as an infinite loss.

    Raises:
        ValueError: the mechanism's parameters are out of range for double precision.
    """
    match part:
        case StronglySafeRelease():
            return curves_of_release(part, negligible=negligible)
        case Guarantee():
            return _curves_of_guarantee(part)
        case BoundedRange():
            return curves_of_range(part)
        case FiniteLosses():
            return part
    assert_never(part)


def _curves_of_guarantee(guarantee: Guarantee) -> LossCurves:
    """Return the curves of the worst (ε, δ)-private pair: Kairouz, Oh, Viswanath, arXiv:1311.0776v4, Theorem 3.1."""
    end, delta = float_up(guarantee.epsilon), float_up(guarantee.delta)

    def curve(epsilons: Array) -> Array:
        gain = np.maximum(-np.expm1(epsilons - end), 0.0) / (1.0 + math.exp(-end))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(delta + (1.0 - delta) * gain) + 1e-14, dtype=np.float64)

    return LossCurves(adding=curve, removing=curve, adding_end=end, removing_end=end, deviation=max(end, 1e-12))


def curves_of_range(part: BoundedRange) -> LossCurves:
    """Return the suprema at each ε over all draws of one range, which are alike in both directions."""
    end = float_up(part.epsilon)

    def curve(epsilons: Array) -> Array:
        return range_log_delta(end, epsilons, low=np.zeros_like(epsilons), high=np.full_like(epsilons, end))

    return LossCurves(adding=curve, removing=curve, adding_end=end, removing_end=end, deviation=max(0.5 * end, 1e-12))


def curves_of_release(release: StronglySafeRelease, *, negligible: float) -> LossCurves:
    """Return the curves of a sampled release; as `curves_of`."""
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
    """Return an ε, at most a tenth too large, from which a falling curve is at most a level; at most `farthest`."""
    points = np.minimum(deviation * np.concatenate([[0.5], np.exp2(np.arange(64.0))]), farthest)
    points = points[: int(np.searchsorted(points, farthest)) + 1]
    for _ in range(2):
        below = np.flatnonzero(curve(points) <= level)
        if below.size == 0:
            return farthest
        high = float(points[below[0]])
        points = np.linspace(float(points[max(below[0] - 1, 0)]), high, 11)
    return high


def grid_spacing(parts: Mapping[LossCurves | FiniteLosses, int], *, negligible: float) -> float:
    """Return a grid step fine against every mechanism's deviation, and coarse enough for the composed support.

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
    # The grid decides how far a price is above the least one, never whether it is valid: rounding goes up on any grid.
    finest = min(part.deviation for part in parts) / _POINTS_PER_DEVIATION
    return few_bits(max(support / _LARGEST_SUPPORT, reach / _MOST_POINTS, finest))


def few_bits(value: float) -> float:
    """Return a number of 20 significant bits next to another, so that its multiples below 2**32 are exact."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**20) / 2**20, exponent)


def measures_of(curves: LossCurves | FiniteLosses, spacing: float) -> tuple[LossDistribution, LossDistribution]:
    """Return the measures of adding and of removing the record.

    Below ε = 0 a direction's curve follows from the other's (`mirrored`), so that each curve is evaluated once.

    Raises:
        ValueError: the spacing is too fine for the curves' precision.
    """
    if isinstance(curves, FiniteLosses):
        added, removed = (power(from_atoms(spacing, side), curves.times, cut=0.0) for side in curves.in_doubles)
        return added, removed
    adding = _deltas(curves.adding, curves.adding_end, spacing)
    removing = _deltas(curves.removing, curves.removing_end, spacing)
    return measure_of(adding, removing, spacing), measure_of(removing, adding, spacing)


def _deltas(curve: _LogCurve, end: float, spacing: float) -> Array:
    return deltas_up(curve(grid_to(end, spacing)))


def grid_to(end: float, spacing: float) -> Array:
    """Return the grid points from 0 to just beyond an end."""
    return np.arange(math.ceil(end / spacing) + 2, dtype=np.float64) * spacing


def deltas_up(log_deltas: Array) -> Array:
    """Return δ from upper bounds on its logarithm, rounded up."""
    return np.asarray(np.minimum(np.exp(log_deltas) * (1.0 + 1e-14), 1.0), dtype=np.float64)


def mirrored(losses: Array, behind: Array) -> Array:
    """Return δ of one direction at losses below 0, rounded up: 1 − e^ε + e^ε·(the δ of the other direction at −ε).

    Args:
        losses: shape (n,).
        behind: δ of the other direction at the losses' opposites, shape (…, n).
    """
    return np.asarray((-np.expm1(losses) + np.exp(losses) * behind) * (1.0 + 1e-14), dtype=np.float64)


def measure_of(ahead: Array, behind: Array, spacing: float) -> LossDistribution:
    """Return the measure of one direction, from upper bounds on its δ at the grid points from 0, and on the other's.

    Raises:
        ValueError: the spacing is too fine for the curves' precision.
    """
    below = -spacing * np.arange(behind.size - 1, 0, -1, dtype=np.float64)
    deltas = np.minimum(np.concatenate([mirrored(below, behind[:0:-1]), ahead]), 1.0)
    return from_curve(spacing=spacing, lowest=1 - behind.size, deltas=deltas)


COMPOSED_FLOOR = Decimal("1e-200")
_CUT_SHARE = 1e-4


def epsilon_composed(parts: Mapping[Part, int], *, delta: float) -> float | None:
    """Return the least ε found for the composition of fresh-sample releases and bare guarantees, rounded outward.

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
    """Return an upper bound on δ at ε ≥ 0 for the composition of `parts`; masses below `resolution` count in full.

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
    # What is cut off is added to δ in full, so a ten-thousandth of δ for all cuts together costs next to nothing.
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


def not_composed(_mechanism: Mechanism) -> tuple[Part, ...]:
    """Refuse: the `losses` of a kind for which none are composed."""
    raise InputRefused("this mechanism's losses are not composed.")


def filter_parts_of_one(losses: Callable[[M], tuple[FilterPart, ...]]) -> Callable[[M, int], tuple[FilterPart, ...]]:
    """Return the `filter_parts` of a kind that is in a filter budget what its `losses` are, for one record."""

    def parts(mechanism: M, records: int) -> tuple[FilterPart, ...]:
        if records > 1:
            raise no_place(f"its divergence is proved for one record of a person, not for up to {records}")
        try:
            return losses(mechanism)
        except InputRefused as fault:
            raise no_place(fault.what.removesuffix(".")) from fault

    return parts


def no_place(reason: str) -> InputRefused:
    """Return the refusal of what can't be charged to a filter budget, for a reason in words."""
    return InputRefused(
        f"this mechanism has no place in a filter budget: {reason}.",
        remedy="Charge it to a budget that adds prices up.",
    )


def no_filter_parts(reason: str) -> Callable[[Mechanism, int], tuple[FilterPart, ...]]:
    """Return the `filter_parts` of a kind that has no place in a filter budget, for a reason in words."""

    def refused(_mechanism: Mechanism, _records: int) -> tuple[FilterPart, ...]:
        raise no_place(reason)

    return refused


def pure_filter_parts(
    price_of_group: Callable[[M, Decimal, int, int], Price],
) -> Callable[[M, int], tuple[FilterPart, ...]]:
    """Return the `filter_parts` of a kind whose price has no δ: a bare guarantee by its ε."""

    def parts(mechanism: M, records: int) -> tuple[FilterPart, ...]:
        price = price_of_group(mechanism, Decimal(0), 1, records)
        return (Guarantee(epsilon=price.epsilon, delta=Decimal(0)),)

    return parts
