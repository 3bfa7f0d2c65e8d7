"""Estimate prices: what surely costs more than some ε, and what Gaussian noise costs, without composing losses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from decimal import Context, Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ....mechanisms.kinds.deletion_noise import LARGEST_DELETION, GaussianDeletion
from ...kernel.prices.arithmetic import decimal_up, divide_down, multiply_down
from ...kernel.prices.registry import kind_of
from ...kinds.composition.bounded_range import BoundedRange
from ...kinds.composition.composed import curves_of, grid_spacing, measures_of
from ...kinds.composition.finite_losses import FiniteLosses
from ...kinds.composition.loss_distribution import LossDistribution

FOUR_DIGITS = Context(prec=4)
"""Of σ, as plans have it."""

_LARGEST_SHIFT = 1e3
_LEAST_DELTA = 1e-9
_MARGIN = 1.002
_POINTS = 1 << 17
_NEGLIGIBLE = 1e-4
_SURELY = 1.0 - 1e-9
_Steps = Mapping[FiniteLosses | BoundedRange, int]


def surely_dearer(
    mechanism: Mechanism, *, epsilon: Decimal, delta: Decimal, releases: int = 1, rows_per_person: int = 1
) -> bool:
    """Return True only where the price of composed steps, and their sum, are above ε at δ; False where it isn't clear.

    A search for the least noise asks this first, and prices what is left exactly, so that it finds the same noise. The
    composed price rounds each loss up to a grid, cuts the ends to an infinite loss, and composes entry by entry. Here
    the same losses on the same grid are composed by Fourier transforms, without a cut. These err by far less than what
    δ has to be exceeded by: a fifth of a percent.

    Args:
        mechanism: of finitely many losses a step, and of draws of bounded range.
        epsilon: ε that a price is compared with.
        delta: δ over all releases.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1.
    """
    steps = _steps_of(mechanism, releases, rows_per_person)
    # Below, the error of a transform is no longer small against δ. One step isn't composed at all.
    if steps is None or sum(steps.values()) < 2 or float(delta) < _LEAST_DELTA:
        return False
    try:
        return _sum_is_above(steps, epsilon, delta) and _composed_delta(steps, float(epsilon), float(delta)) > (
            _MARGIN * float(delta)
        )
    except ValueError:  # of losses that can't be put on a grid
        return False


def log_without_ends(mechanism: Mechanism, *, releases: int, rows_per_person: int) -> float:
    """Return the logarithm of the probability that no draw shows a number that tells of a record for certain."""
    steps = _steps_of(mechanism, releases, rows_per_person) or {}
    ends = ((float(part.infinite), times) for part, times in steps.items() if isinstance(part, FiniteLosses))
    return sum(times * math.log1p(-min(infinite, _SURELY)) for infinite, times in ends)


def _steps_of(mechanism: Mechanism, releases: int, records: int) -> _Steps | None:
    steps: Counter[FiniteLosses | BoundedRange] = Counter()
    try:
        parts = kind_of(mechanism).filter_parts(mechanism, records)
    except InputRefused:
        return None
    for part in parts:
        match part:
            case FiniteLosses(times=times):
                steps[part if times == 1 else replace(part, times=1)] += times * releases
            case BoundedRange():
                steps[part] += releases
            case _:
                return None
    return steps


def _sum_is_above(steps: _Steps, epsilon: Decimal, delta: Decimal) -> bool:
    """Return whether the prices of all steps at even shares of δ add up to more than ε."""
    share, total = divide_down(delta, sum(steps.values())), Decimal(0)
    # Draws need no search, and the rows' noise, which stands first, is the only one that a search varies.
    draws: list[FiniteLosses | BoundedRange] = [part for part in steps if isinstance(part, BoundedRange)]
    noises = [part for part in steps if isinstance(part, FiniteLosses)]
    for part in (*draws, *noises[::-1]):
        each = part.epsilon if isinstance(part, BoundedRange) else _epsilon_of_step(part, share)
        if each is None:
            return True
        total += multiply_down(each, Decimal(steps[part]))
        if total > epsilon:
            return True
    return False


@lru_cache(maxsize=8)
def _epsilon_of_step(part: FiniteLosses, delta: Decimal) -> Decimal | None:
    found = part.epsilon_of_step(delta)
    return None if found is None else decimal_up(found)


def _composed_delta(steps: _Steps, epsilon: float, delta: float) -> float:
    """Return about δ at ε of all steps on the grid of their price; 0 where they don't fit into the transform.

    Raises:
        ValueError: as `grid_spacing` and `measures_of`.
    """
    negligible = delta * _NEGLIGIBLE / sum(steps.values())
    curves = {curves_of(part, negligible=negligible): times for part, times in steps.items()}
    spacing = grid_spacing(curves, negligible=negligible)
    measures = [(measures_of(part, spacing), times) for part, times in curves.items()]
    adding, removing = ([(both[side], times) for both, times in measures] for side in (0, 1))
    return max(_delta_of(side, spacing, epsilon, delta) for side in (adding, removing))


def _delta_of(measures: list[tuple[LossDistribution, int]], spacing: float, epsilon: float, delta: float) -> float:
    transform: NDArray[np.complex128] = np.ones(_POINTS // 2 + 1, dtype=np.complex128)
    finite, mean = 1.0, 0.0
    for measure, times in measures:
        if measure.masses.size > _POINTS // 2:
            return 0.0
        mass = float(measure.masses.sum())
        mean += times * float(measure.masses @ measure.losses()) / mass
        finite *= (1.0 - measure.infinite) ** times
        # The lowest loss becomes the first point; where the sum of the lowest ones lies is made good below.
        transform *= np.fft.rfft(measure.masses, _POINTS) ** times
    composed = np.fft.irfft(transform, _POINTS)
    lowest = sum(measure.lowest * times for measure, times in measures)
    # The transform is of a circle: all losses are read as those within half of it of the mean.
    first = round(mean / spacing) - _POINTS // 2
    composed = np.roll(composed, (lowest - first) % _POINTS)
    edge = _POINTS // 16
    if float(np.abs(composed[:edge]).sum() + np.abs(composed[-edge:]).sum()) > _NEGLIGIBLE * delta + 1e-12:
        return 0.0
    gaps = epsilon - (first + np.arange(_POINTS)) * spacing
    above = gaps < 0.0
    return (1.0 - finite) + float(composed[above] @ -np.expm1(gaps[above]))


def gaussian_delta(shift: float, *, epsilon: float) -> float:
    """Return the δ at ε of a Gaussian of deviation 1 that is shifted.

    Source: Balle, Wang, arXiv:1805.06530v2, Theorem 8.
    """
    upper = 0.5 * math.erfc((epsilon / shift - shift / 2.0) / math.sqrt(2.0))
    lower = 0.5 * math.erfc((epsilon / shift + shift / 2.0) / math.sqrt(2.0))
    return upper - math.exp(epsilon) * lower


def gaussian_shift(epsilon: float, delta: float) -> float:
    """Return μ, the shift of a Gaussian of deviation 1 that has this δ at ε, to nearest.

    Raises:
        ValueError: there is none within bounds.
    """
    if gaussian_delta(_LARGEST_SHIFT, epsilon=epsilon) < delta:
        raise ValueError("epsilon is too large")
    low, high = 1e-9, _LARGEST_SHIFT
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if gaussian_delta(middle, epsilon=epsilon) < delta else (low, middle)
    return low


def gaussian_of_width(*, scale: float, steps: int, records: int, ends: float) -> GaussianDeletion:
    """Return the truncated Gaussian of a σ and about the least width whose ends in so many steps weigh at most `ends`.

    Raises:
        ValueError: there is no such noise within bounds.
    """
    width = least_width(scale, ends, steps=steps, records=records)
    return GaussianDeletion(scale=FOUR_DIGITS.create_decimal(scale), width=width)


def end_delta(scale: float, width: int, *, steps: int, records: int) -> float:
    """Estimate the probability that a truncated Gaussian shows one of its ends at any of some steps.

    Args:
        scale: σ of the noise.
        width: m of the noise.
        steps: how many draws there are.
        records: how many records of a person meet each.
    """
    ends = (math.exp(-(((width - z) / scale) ** 2) / 2.0) for z in range(records))
    # What is cut off a noise that is narrow for its σ comes back in all that is left, its ends as well.
    kept = math.erf(width / scale / math.sqrt(2.0)) if width < 2.0 * scale else 1.0
    return steps * sum(ends) / (kept * scale * math.sqrt(2.0 * math.pi))


def least_width(scale: float, rest: float, *, steps: int, records: int) -> int:
    """Estimate the least width whose ends weigh at most `rest`; the others are those of `end_delta`."""
    high = 1
    while end_delta(scale, high, steps=steps, records=records) > rest and high < LARGEST_DELETION:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        fits = end_delta(scale, middle, steps=steps, records=records) <= rest
        low, high = (low, middle) if fits else (middle, high)
    return high
