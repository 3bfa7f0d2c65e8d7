"""Privacy-loss distributions on a grid: built from hockey-stick curves, composed, read off; always pessimistic.

And the price of many releases together, by composition of theirs; with a quick estimate to start searches close to
their end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kinds.microdata import StronglySafeRelease
from .amplification import Concentrated, Guarantee
from .arithmetic import ULP, convolution_slack, convolve_direct, float_up
from .bounded_range import BoundedRange, range_log_delta
from .finite_losses import FiniteLosses, LossesBySize, LossesInDoubles
from .privacy_profile import check_parameters, farthest_epsilon, least_log_delta, log_adding, log_removing

__all__ = [
    "COMPOSED_FLOOR",
    "FilterPart",
    "LossCurves",
    "LossDistribution",
    "Part",
    "compose",
    "curves_of",
    "curves_of_range",
    "curves_of_release",
    "delta_at",
    "delta_composed",
    "deltas_up",
    "epsilon_at",
    "epsilon_composed",
    "estimated_log_delta",
    "few_bits",
    "from_atoms",
    "from_curve",
    "grid_spacing",
    "grid_to",
    "measure_of",
    "measures_of",
    "mirrored",
    "power",
]

_UNDERFLOW = 1e-280
_TOLERATED_DEFICIT = 1e-4
_COARSEST = 300.0  # a step beyond which exp(spacing) and its products are no longer safe in double precision


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LossDistribution:
    """A measure on the multiples of a spacing and +∞ whose hockey-stick curve lies above a mechanism's.

    INVARIANT: for every real ε, (1 + slack)·(infinite + Σ_i masses_i·max(0, 1 − e^{ε−ε_i})) is at least the δ of the
    mechanism at ε, in the one direction (adding or removing a record) that this object stands for. The total mass
    may exceed 1; nothing below needs it to be 1 (docs/proofs/composition.md).

    Args:
        spacing: grid step, a double of at most 20 significant bits, so that its multiples are exact.
        lowest: index of the first loss, ε_i = (lowest + i)·spacing.
        masses: non-negative, shape (n,).
        infinite: mass at +∞.
        slack: relative rounding error accumulated so far.
    """

    spacing: float
    lowest: int
    masses: NDArray[np.float64]
    infinite: float
    slack: float

    def losses(self) -> NDArray[np.float64]:
        """The grid points, shape (n,)."""
        return (self.lowest + np.arange(self.masses.size, dtype=np.float64)) * self.spacing


def from_curve(*, spacing: float, lowest: int, deltas: NDArray[np.float64]) -> LossDistribution:
    """The least measure on a grid whose curve lies above given upper bounds on δ at the grid points.

    Source: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, Connect the Dots, arXiv:2207.04380v2, Algorithm 1. The
    result is not trusted: its own curve is summed up again and, where it falls short by rounding, scaled up.

    Args:
        spacing: as in `LossDistribution`; all grid points lie within ±300.
        lowest: index of the first grid point.
        deltas: upper bounds on δ at the grid points, shape (n,), n ≥ 2, in [0, 1].

    Raises:
        ValueError: the curve can't be represented (too noisy for this spacing, or the spacing too coarse).
    """
    if not 0.0 < spacing < _COARSEST:
        raise ValueError(f"a grid of spacing {spacing:g} shows nothing of a curve")
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]
    steps = np.diff(deltas)
    grow = math.expm1(spacing)
    masses = np.empty_like(deltas)
    masses[0] = 1.0 - deltas[0] + steps[0] / grow
    masses[1:-1] = (steps[1:] - math.exp(spacing) * steps[:-1]) / grow
    masses[-1] = steps[-1] / math.expm1(-spacing)
    masses = np.maximum(masses, 0.0)
    infinite = float(deltas[-1]) + _UNDERFLOW
    deficit = _deficit(spacing, lowest, masses, infinite, deltas)
    if not deficit <= _TOLERATED_DEFICIT:
        raise ValueError(f"the curve is too noisy for a grid of spacing {spacing:g}")
    return LossDistribution(spacing=spacing, lowest=lowest, masses=masses, infinite=infinite, slack=deficit)


def _deficit(
    spacing: float, lowest: int, masses: NDArray[np.float64], infinite: float, deltas: NDArray[np.float64]
) -> float:
    """The least s such that (1 + s) times the measure's curve reaches every δ, and its total mass 1."""
    size = masses.size
    losses = (lowest + np.arange(size)) * spacing
    weights = masses[1:] * np.exp(-losses[1:])
    lower = np.cumsum(weights[::-1])[::-1]
    rises = lower * np.exp(losses[:-1]) * math.expm1(spacing)
    curve = np.append(infinite + np.cumsum(rises[::-1])[::-1], infinite)
    certain = 1.0 - (2.0 * size + 64.0) * ULP
    wanted = np.append(deltas, 1.0)
    reached = np.append(curve, infinite + float(masses.sum())) * certain
    short = ~(wanted <= reached)  # the last δ of any size at least, and what is no number
    with np.errstate(divide="ignore"):
        return float(np.max(wanted[short] / reached[short])) - 1.0 + 4.0 * ULP


def from_atoms(spacing: float, atoms: LossesInDoubles) -> LossDistribution:
    """A measure on a grid whose curve lies above that of finitely many losses.

    The mass of a loss goes to the two grid points around it, in shares that keep the mean of e^{−loss}: the curve is a
    mean of functions that are convex in it, so that it only rises (docs/proofs/composition.md, Lemma 1a). Nothing is
    subtracted, so that small masses keep their relative precision.

    Args:
        spacing: as in `LossDistribution`.
        atoms: at least one finite loss.

    Raises:
        ValueError: the spacing is too coarse, or there is no finite loss.
    """
    if not 0.0 < spacing < _COARSEST:
        raise ValueError(f"a grid of spacing {spacing:g} shows nothing of a curve")
    if atoms.losses.size == 0:
        raise ValueError("there is no finite loss to put on a grid")
    places = np.floor(atoms.losses / spacing)
    shares = np.expm1(places * spacing - atoms.losses) / math.expm1(-spacing) * (1.0 + 8.0 * ULP)
    shares = np.clip(shares, 0.0, 1.0)
    lowest = int(places.min())
    indices = places.astype(np.int64) - lowest
    masses = np.zeros(int(indices.max()) + 2)
    np.add.at(masses, indices, atoms.masses * (1.0 - shares))
    np.add.at(masses, indices + 1, atoms.masses * shares)
    slack = (atoms.losses.size + 16.0) * ULP
    return LossDistribution(spacing=spacing, lowest=lowest, masses=masses, infinite=atoms.infinite, slack=slack)


def compose(first: LossDistribution, second: LossDistribution, *, cut: float) -> LossDistribution:
    """The measure of both mechanisms together, the second chosen adaptively among those that `second` bounds.

    Source: docs/proofs/composition.md, Lemma 2.

    Args:
        first: one measure.
        second: the other, same spacing.
        cut: mass that may be moved from the upper end to +∞, and as much from the lower end to the first loss kept.

    Raises:
        ValueError: the spacings differ.
    """
    if first.spacing != second.spacing:
        raise ValueError(f"spacings differ: {first.spacing} and {second.spacing}")
    masses = convolve_direct(first.masses, second.masses)
    rounding = convolution_slack(first.masses.size, second.masses.size) + 4.0 * second.masses.size * ULP
    infinite = second.infinite + float(second.masses.sum()) * first.infinite + _UNDERFLOW
    slack = (1.0 + first.slack) * (1.0 + second.slack) * (1.0 + rounding) - 1.0 + 2.0 * ULP
    return _cut_ends(
        LossDistribution(
            spacing=first.spacing,
            lowest=first.lowest + second.lowest,
            masses=masses,
            infinite=infinite,
            slack=slack,
        ),
        cut,
    )


def power(base: LossDistribution, times: int, *, cut: float) -> LossDistribution:
    """The measure of `times` ≥ 1 mechanisms that `base` bounds, by repeated squaring.

    Args:
        base: the measure of one.
        times: how many, at least 1.
        cut: mass that may be moved at each end in all, counted as often as it is multiplied.
    """
    share = cut / (2.0 * times * times.bit_length())
    result: LossDistribution | None = None
    result_times, square, square_times = 0, base, 1
    remaining = times
    while True:
        if remaining & 1:
            result_times += square_times
            result = square if result is None else compose(result, square, cut=share * result_times)
        remaining >>= 1
        if remaining == 0 and result is not None:
            return result
        square_times *= 2
        square = compose(square, square, cut=share * square_times)


def _cut_ends(whole: LossDistribution, cut: float) -> LossDistribution:
    masses = whole.masses
    from_below = np.cumsum(masses)
    from_above = np.cumsum(masses[::-1])
    first = min(int(np.searchsorted(from_below, cut, side="right")), masses.size - 1)
    stop = masses.size - int(np.searchsorted(from_above, cut, side="right"))
    stop = max(stop, first + 1)
    kept = masses[first:stop].copy()
    kept[0] += masses[:first].sum()
    return LossDistribution(
        spacing=whole.spacing,
        lowest=whole.lowest + first,
        masses=kept,
        infinite=whole.infinite + float(masses[stop:].sum()),
        slack=whole.slack + 4.0 * masses.size * ULP,
    )


def delta_at(measure: LossDistribution, epsilon: float) -> float:
    """An upper bound on δ at ε ≥ 0."""
    gaps = epsilon - measure.losses()
    above = gaps < 0.0
    value = measure.infinite + float(measure.masses[above] @ -np.expm1(gaps[above]))
    # The gap to the nearest loss is a difference of rounded numbers: its error is absolute, ε·ULP for each mass.
    blur = epsilon * ULP * float(measure.masses[gaps < measure.spacing].sum())
    value = (value + blur) * (1.0 + measure.slack) * (1.0 + (measure.masses.size + 16.0) * ULP)
    return min(1.0, value)


def epsilon_at(measure: LossDistribution, delta: float) -> float | None:
    """The least ε ≥ 0 found whose `delta_at` is at most δ; None where no finite one has it."""
    if delta_at(measure, 0.0) <= delta:
        return 0.0
    low, high = 0.0, float(max(measure.lowest + measure.masses.size, 1)) * measure.spacing
    if delta_at(measure, high) > delta:
        return None
    while high - low > 1e-13 * high and low < (middle := 0.5 * (low + high)) < high:
        if delta_at(measure, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


Part = StronglySafeRelease | Guarantee | BoundedRange | FiniteLosses
FilterPart = Part | LossesBySize | Concentrated
"""A step of what has a place in a filter budget."""
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
    """The curves of a release or of a bare guarantee; the losses themselves where these are finitely many.

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
    """The worst (ε, δ)-private pair: Kairouz, Oh, Viswanath, arXiv:1311.0776v4, Theorem 3.1 and its proof."""
    end, delta = float_up(guarantee.epsilon), float_up(guarantee.delta)

    def curve(epsilons: Array) -> Array:
        gain = np.maximum(-np.expm1(epsilons - end), 0.0) / (1.0 + math.exp(-end))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(delta + (1.0 - delta) * gain) + 1e-14, dtype=np.float64)

    return LossCurves(adding=curve, removing=curve, adding_end=end, removing_end=end, deviation=max(end, 1e-12))


def curves_of_range(part: BoundedRange) -> LossCurves:
    """The suprema at each ε over all draws of one range, which are alike in both directions."""
    end = float_up(part.epsilon)

    def curve(epsilons: Array) -> Array:
        return range_log_delta(end, epsilons, low=np.zeros_like(epsilons), high=np.full_like(epsilons, end))

    return LossCurves(adding=curve, removing=curve, adding_end=end, removing_end=end, deviation=max(0.5 * end, 1e-12))


def curves_of_release(release: StronglySafeRelease, *, negligible: float) -> LossCurves:
    """The curves of a sampled release; arguments and errors as of `curves_of`."""
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


def grid_spacing(parts: Mapping[LossCurves | FiniteLosses, int], *, negligible: float) -> float:
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
    return few_bits(max(support / _LARGEST_SUPPORT, reach / _MOST_POINTS, finest))


def few_bits(value: float) -> float:
    """A number of 20 significant bits next to another, so that its multiples below 2**32 are exact."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2**20) / 2**20, exponent)


def measures_of(curves: LossCurves | FiniteLosses, spacing: float) -> tuple[LossDistribution, LossDistribution]:
    """The measures of adding and of removing the record.

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
    """The grid points from 0 to just beyond an end."""
    return np.arange(math.ceil(end / spacing) + 2, dtype=np.float64) * spacing


def deltas_up(log_deltas: Array) -> Array:
    """δ from upper bounds on its logarithm, rounded up."""
    return np.asarray(np.minimum(np.exp(log_deltas) * (1.0 + 1e-14), 1.0), dtype=np.float64)


def mirrored(losses: Array, behind: Array) -> Array:
    """δ of one direction at losses below 0, rounded up: 1 − e^ε + e^ε·(the δ of the other direction at −ε).

    Args:
        losses: shape (n,).
        behind: δ of the other direction at the losses' opposites, shape (…, n).
    """
    return np.asarray((-np.expm1(losses) + np.exp(losses) * behind) * (1.0 + 1e-14), dtype=np.float64)


def measure_of(ahead: Array, behind: Array, spacing: float) -> LossDistribution:
    """The measure of one direction, from upper bounds on δ at the grid points from 0, and those of the other.

    Args:
        ahead: δ of this direction, shape (n,).
        behind: δ of the other, shape (m,).
        spacing: of the grid.

    Raises:
        ValueError: the spacing is too fine for the curves' precision.
    """
    below = -spacing * np.arange(behind.size - 1, 0, -1, dtype=np.float64)
    deltas = np.minimum(np.concatenate([mirrored(below, behind[:0:-1]), ahead]), 1.0)
    return from_curve(spacing=spacing, lowest=1 - behind.size, deltas=deltas)


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


_POINTS_OF_ESTIMATE = 8.0
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
        measure, _ = measures_of(curves, curves.deviation / _POINTS_OF_ESTIMATE)
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
