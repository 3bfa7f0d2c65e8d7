"""Rényi divergences of a step over all data sets, after the tail of its losses is cut off."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kinds.microdata import StronglySafeRelease
from ...kernel.prices.arithmetic import ULP, float_up, multiply_up
from .amplification import Concentrated, Guarantee
from .bounded_range import BoundedRange, range_divergence
from .composed import FilterPart, curves_of_release, deltas_up, mirrored
from .finite_losses import FiniteLosses, LossesBySize, LossesInDoubles
from .profile_of_sizes import log_adding_within, log_removing_within
from .series_game import blocks_of_sizes

_POINTS_PER_DEVIATION = 10.0
_GROWTH = 0.02
_LARGEST_K = 10_000
_NEGLIGIBLE, _LEAST = 1e-3, 1e-280
_MOST_SLACK = 1e-4
_MOST_SIZES = 20_000
_BETWEEN = 16
Array = NDArray[np.float64]


class _Cover(NamedTuple):
    """Measures whose curves lie above those of a step, one of them above each data set's; all on the same losses.

    Attributes:
        losses: finite, rising; shape (n,).
        masses: shape (m, n).
        infinite: shape (m,).
    """

    losses: Array
    masses: Array
    infinite: Array


@lru_cache(maxsize=4096)
def step_divergence(part: FilterPart, order: float, tail: float) -> float | None:
    """Return an upper bound on D_α of one step after a mass of τ is cut off; None where an infinite loss remains."""
    if isinstance(part, LossesBySize):
        return _of_sizes(part, order, tail)
    if isinstance(part, BoundedRange):
        return float_up(range_divergence(part, order=order))
    if isinstance(part, Concentrated):
        return float_up(multiply_up(Decimal(order), part.rho))
    # Rounded to a power of 16, so that charges of nearly equal tails share the measures of `_covers`.
    negligible = math.ldexp(_NEGLIGIBLE, math.frexp(tail)[1] // 4 * 4)
    divergences = [_after_cut(cover, order, tail) for cover in _covers(part, negligible)]
    return max(divergences) if all(map(math.isfinite, divergences)) else None


def _of_sizes(part: LossesBySize, order: float, tail: float) -> float | None:
    """Return the same of a step whose losses are known for each size: until no later size can have more.

    Raises:
        ValueError: the search is too long.
    """
    best = 0.0
    for size, (losses, covering) in enumerate(part.sizes(part.mechanism)):
        if size == _MOST_SIZES:
            raise ValueError("the search over the sizes of a group is too long")
        if covering is not None and size % _BETWEEN == 0:
            later = max(_after_cut(_of_atoms(side), order, tail) for side in covering)
            if later <= best:
                return best
        best = max(best, *(_after_cut(_of_atoms(side), order, tail) for side in losses))
        if math.isinf(best):
            return None
    return best


@lru_cache(maxsize=64)
def _covers(part: StronglySafeRelease | Guarantee | FiniteLosses, negligible: float) -> tuple[_Cover, ...]:
    """Return measures of adding and of removing the person, at every size of its group.

    A probability that is `negligible` may be counted in full as an infinite loss.
    """
    match part:
        case StronglySafeRelease():
            return _of_sampled(part, negligible)
        case Guarantee():
            return (_of_guarantee(part),)
        case FiniteLosses():
            return tuple(_of_atoms(atoms) for atoms in part.in_doubles)
    assert_never(part)


def _of_sampled(release: StronglySafeRelease, negligible: float) -> tuple[_Cover, _Cover]:
    """Return measures of both directions for all sizes of a group, from 1, in blocks."""
    curves = curves_of_release(release, negligible=max(negligible, _LEAST))
    k, rate = release.k, float_up(release.sampling_rate)
    # One block is quick and somewhat dearer: the supremum of each ε by itself.
    first, last = blocks_of_sizes(k, rate) if k <= _LARGEST_K else (np.ones(1), np.array([math.inf]))
    grids = [
        _grid_to(end, curves.deviation / _POINTS_PER_DEVIATION) for end in (curves.adding_end, curves.removing_end)
    ]
    adding, removing = (
        deltas_up(curve(k=k, sampling_rate=rate, epsilons=grid, first=first, last=last))
        for curve, grid in zip((log_adding_within, log_removing_within), grids, strict=True)
    )
    return _of_curves(grids[0], adding, grids[1], removing), _of_curves(grids[1], removing, grids[0], adding)


def _grid_to(end: float, finest: float) -> Array:
    """Return losses from 0 to just beyond an end, at first evenly spaced, and later by a share of themselves."""
    even = math.ceil(min(1.0 / _GROWTH, end / finest)) + 1
    further = max(math.ceil(math.log(end / (finest * (even - 1))) / math.log1p(_GROWTH)), 0) + 1
    return np.concatenate(
        [np.arange(even) * finest, (even - 1) * finest * (1.0 + _GROWTH) ** np.arange(1, further + 1)]
    )


def _of_curves(ahead_grid: Array, ahead: Array, behind_grid: Array, behind: Array) -> _Cover:
    """Return the least measures whose curves lie above upper bounds on δ, one a row; not trusted, but summed up again.

    As `from_curve`, on losses that aren't evenly spaced (docs/proofs/composition.md, 1, Lemma 1 and 4). The grids have
    the shapes (n,) and (m,), the bounds of this direction and of the other (r, n) and (r, m).

    Raises:
        ValueError: the curves are too noisy for these losses.
    """
    below = -behind_grid[:0:-1]
    losses = np.concatenate([below, ahead_grid])
    deltas = np.minimum(np.concatenate([mirrored(below, behind[:, :0:-1]), ahead], axis=1), 1.0)
    deltas = np.maximum.accumulate(deltas[:, ::-1], axis=1)[:, ::-1]
    places, widths = np.exp(losses), np.exp(losses[:-1]) * np.expm1(np.diff(losses))
    slopes = np.diff(deltas, axis=1) / widths
    before, after = (deltas[:, :1] - 1.0) / places[0], np.zeros((deltas.shape[0], 1))
    weights = np.maximum(np.diff(np.concatenate([before, slopes, after], axis=1), axis=1), 0.0)
    infinite = deltas[:, -1] + _LEAST
    rises = np.cumsum(weights[:, :0:-1], axis=1)[:, ::-1] * widths
    curve = np.concatenate([np.cumsum(rises[:, ::-1], axis=1)[:, ::-1], after], axis=1)
    masses = weights * places
    total = masses.sum(axis=1, keepdims=True)
    certain = 1.0 - (2.0 * losses.size + 64.0) * ULP
    reached = (np.concatenate([curve, total], axis=1) + infinite[:, None]) * certain
    wanted = np.concatenate([deltas, np.ones_like(after)], axis=1)
    slack = np.maximum((wanted / reached).max(axis=1), 1.0) * (1.0 + 8.0 * ULP)
    if not slack.max() <= 1.0 + _MOST_SLACK:
        raise ValueError("its loss is too small for double precision")
    return _Cover(losses=losses, masses=masses * slack[:, None], infinite=infinite * slack)


def _of_guarantee(guarantee: Guarantee) -> _Cover:
    """Return the worst (ε, δ)-private pair: Kairouz, Oh, Viswanath, arXiv:1311.0776v4, Theorem 3.1 and its proof."""
    epsilon, delta = float_up(guarantee.epsilon), float_up(guarantee.delta)
    likely = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    masses = np.array([[likely * math.exp(-epsilon), likely]]) * (1.0 + 16.0 * ULP)
    return _Cover(losses=np.array([-epsilon, epsilon]), masses=masses, infinite=np.array([delta]))


def _of_atoms(atoms: LossesInDoubles) -> _Cover:
    order = np.argsort(atoms.losses)
    return _Cover(
        losses=atoms.losses[order],
        masses=atoms.masses[order][None, :] * (1.0 + 4.0 * ULP),
        infinite=np.array([atoms.infinite]),
    )


def _after_cut(cover: _Cover, order: float, tail: float) -> float:
    """Return the largest D_α of the measures after a mass τ is cut off each; infinite where τ doesn't hold that."""
    # Cut off is the part of P above λ·Q, with λ such that it weighs τ: of all ways to cut this leaves the least D_α.
    losses, masses, infinite = cover
    rounding = 1.0 + (2.0 * losses.size + 64.0) * ULP
    if np.any(infinite * rounding > tail):
        return math.inf
    # Q's mass above each loss, over e^{loss}, and from it the curve at each loss, as sums of positive terms.
    weights = masses * np.exp(-losses)
    above = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
    rises = above[:, 1:] * (np.exp(losses[:-1]) * np.expm1(np.diff(losses)))
    curve = np.zeros_like(masses)
    curve[:, :-1] = np.cumsum(rises[:, ::-1], axis=1)[:, ::-1]
    curve = (curve + infinite[:, None]) * rounding
    rows = np.arange(masses.shape[0])  # the loss at which the curve falls to τ is where λ lies, measure by measure
    place = np.argmax(curve <= tail, axis=1)
    behind = above[rows, place] * rounding
    # Below that loss the curve rises by Q's mass above it.
    left = (tail - curve[rows, place]) * (1.0 - 8.0 * ULP)
    with np.errstate(divide="ignore"):
        share = np.where(behind > 0.0, left / (behind * np.exp(losses[place])), 0.0)
        cap = losses[place] + np.log1p(-np.minimum(share, 1.0))
    cap = np.minimum(cap + 8.0 * ULP * (1.0 + np.abs(losses[place])), losses[place])
    some = np.isfinite(cap)
    place, cap, behind, masses = place[some], cap[some], behind[some], masses[some]
    scale = order - 1.0
    # Losses above the cap count as the cap; its factor stands outside of the sum, so that no power overflows.
    powers = np.where(np.arange(losses.size) < place[:, None], scale * (losses - cap[:, None]), -np.inf)
    moments = (masses * np.exp(powers)).sum(axis=1) + np.exp(cap) * behind
    farthest = float(np.abs(losses).max())
    slack = (2.0 * losses.size + 64.0 + 32.0 * scale * (farthest + 1.0)) * ULP
    logs = scale * cap + np.log(moments) + slack
    return float(logs.max(initial=0.0)) / scale * (1.0 + 8.0 * ULP)
