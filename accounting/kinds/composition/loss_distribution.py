"""Represent privacy-loss distributions on a grid: built from hockey-stick curves, composed, read off; pessimistic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...kernel.prices.arithmetic import ULP, bisected
from .finite_losses import LossesInDoubles

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
        """Return the grid points, shape (n,)."""
        return (self.lowest + np.arange(self.masses.size, dtype=np.float64)) * self.spacing


def from_curve(*, spacing: float, lowest: int, deltas: NDArray[np.float64]) -> LossDistribution:
    """Return the least measure on a grid whose curve lies above upper bounds on δ at n ≥ 2 grid points within ±300.

    Source: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, Connect the Dots, arXiv:2207.04380v2, Algorithm 1. The
    result is not trusted: its own curve is summed up again and, where it falls short by rounding, scaled up.

    Raises:
        ValueError: the curve can't be represented (too noisy for this spacing, or the spacing too coarse).
    """
    if not 0.0 < spacing < _COARSEST:
        raise ValueError(f"a grid of spacing {spacing:g} shows nothing of a curve")
    deltas = np.maximum.accumulate(deltas[::-1])[::-1]  # rounding may have made a point higher than one before it
    steps = np.diff(deltas)
    grow = math.expm1(spacing)
    masses = np.empty_like(deltas)
    masses[0] = 1.0 - deltas[0] + steps[0] / grow
    masses[1:-1] = (steps[1:] - math.exp(spacing) * steps[:-1]) / grow
    masses[-1] = steps[-1] / math.expm1(-spacing)
    masses = np.maximum(masses, 0.0)  # second differences of a convex curve, which rounding can make negative
    infinite = float(deltas[-1]) + _UNDERFLOW
    deficit = _deficit(spacing, lowest, masses, infinite, deltas)
    if not deficit <= _TOLERATED_DEFICIT:
        raise ValueError(f"the curve is too noisy for a grid of spacing {spacing:g}")
    return LossDistribution(spacing=spacing, lowest=lowest, masses=masses, infinite=infinite, slack=deficit)


def _deficit(
    spacing: float, lowest: int, masses: NDArray[np.float64], infinite: float, deltas: NDArray[np.float64]
) -> float:
    """Return the least s such that (1 + s) times the measure's curve reaches every δ, and its total mass 1."""
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
    """Return a measure on a grid whose curve lies above that of finitely many losses.

    Raises:
        ValueError: the spacing is too coarse, or there is no finite loss.
    """
    if not 0.0 < spacing < _COARSEST:
        raise ValueError(f"a grid of spacing {spacing:g} shows nothing of a curve")
    if atoms.losses.size == 0:
        raise ValueError("there is no finite loss to put on a grid")
    # A loss's mass goes to the two grid points around it, in shares that keep the mean of e^{−loss}. The curve is a
    # mean of functions that are convex in it, so it only rises (docs/proofs/composition.md, Lemma 1a). Nothing is
    # subtracted, so that small masses keep their relative precision.
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
    """Return the measure of both mechanisms together, the second chosen adaptively among those that `second` bounds.

    Source: docs/proofs/composition.md, Lemma 2. A mass of at most `cut` may be moved from the upper end to +∞, and as
    much from the lower end to the first loss kept.

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
    """Return the measure of `times` ≥ 1 mechanisms that `base` bounds, by repeated squaring.

    `cut` is the mass that may be moved at each end in all, counted as often as it is multiplied.
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
    # Losses only grow: the lowest masses move up to the first loss that is kept, the highest to an infinite one.
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
    """Return an upper bound on δ at ε ≥ 0."""
    gaps = epsilon - measure.losses()
    above = gaps < 0.0
    value = measure.infinite + float(measure.masses[above] @ -np.expm1(gaps[above]))
    # The gap to the nearest loss is a difference of rounded numbers: its error is absolute, ε·ULP for each mass.
    blur = epsilon * ULP * float(measure.masses[gaps < measure.spacing].sum())
    value = (value + blur) * (1.0 + measure.slack) * (1.0 + (measure.masses.size + 16.0) * ULP)
    return min(1.0, value)


def epsilon_at(measure: LossDistribution, delta: float) -> float | None:
    """Return the least ε ≥ 0 found whose `delta_at` is at most δ; None where no finite one has it."""

    def holds(epsilon: float) -> bool:
        return delta_at(measure, epsilon) <= delta

    if holds(0.0):
        return 0.0
    high = float(max(measure.lowest + measure.masses.size, 1)) * measure.spacing
    return bisected(holds, 0.0, high, width=1e-13) if holds(high) else None


Array = NDArray[np.float64]
_BLOCK = 128
_SMALL = 2048


def convolution_slack(first: int, second: int) -> float:
    """Return the relative error of every entry of a direct convolution of arrays of these lengths.

    A sum of m products of non-negative doubles, in any order, errs by at most m + 1 rounding errors.
    """
    return (min(first, second) + 2.0) * ULP


def convolve_direct(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the full convolution of non-negative arrays.

    The relative error of every entry is at most `convolution_slack`, but for products below the smallest normal double.
    """
    # Not by Fourier transforms: their error is relative to the largest entry, and tails would be lost in it.
    short, long = sorted((first, second), key=len)
    if short.size * long.size <= _SMALL * _SMALL:
        return np.convolve(short, long)
    # One matrix product convolves all blocks of the shorter array with the longer one.
    blocks = -(-short.size // _BLOCK)
    padded = np.zeros(blocks * _BLOCK)
    padded[: short.size] = short
    edge = np.zeros(_BLOCK - 1)
    windows = sliding_window_view(np.concatenate([edge, long, edge]), _BLOCK)
    rows = padded.reshape(blocks, _BLOCK)[:, ::-1] @ np.ascontiguousarray(windows).T
    result = np.zeros(blocks * _BLOCK + long.size - 1)
    for block in range(blocks):
        start = block * _BLOCK
        result[start : start + rows.shape[1]] += rows[block]
    return result[: short.size + long.size - 1]
