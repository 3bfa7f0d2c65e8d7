"""The price of a series as a game: at each release an adversary picks the size of the group by the losses so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ....mechanisms.kinds.microdata import StronglySafeRelease
from ...kernel.prices.arithmetic import ULP, float_up
from .bounded_range import BoundedRange, range_log_delta
from .composed import (
    LossCurves,
    curves_of_range,
    curves_of_release,
    deltas_up,
    few_bits,
    grid_to,
    measure_of,
    measures_of,
)
from .loss_distribution import LossDistribution, delta_at, power
from .profile_of_sizes import log_adding_within, log_removing_within

MOST_RELEASES = 400
"""More take too long, and so does a k above 10,000: then the price is the composed one."""

_LARGEST_K = 10_000
_POINTS_PER_DEVIATION, _FEWER_POINTS, _MANY_RELEASES = 12.0, 8.0, 100
_MOST_POINTS, _FEWER_IN_ALL = 1024.0, 512.0
_CUT_SHARE = 1e-3
_FINE, _COARSE = 0.05, 0.3
_NEAREST, _FARTHEST = (-1.2, 2.4), (-4.0, 6.0)
_BEYOND, _SURE = 1.2, 0.4
_TIE = 1.0 - 1e-12
_TOGETHER = 8
_BLOCKS_OF_DRAW, _WIDER = 24, 1e-12

Moves = list[LossDistribution]
"""What the adversary may do at a step: a measure for each block of what he may pick there."""

Array = NDArray[np.float64]


def epsilon_of_game(release: StronglySafeRelease, *, releases: int, delta: float, composed: float) -> float | None:
    """Return the least ε found for a series in which an adversary picks each release's group by all outputs before it.

    The supremum over the sizes of a group is taken in each state of the game and not at each ε by itself, as the
    composed price does (docs/proofs/composition.md, "The game"). Sizes are taken together in blocks; the measure of
    a block covers each of its sizes. The composed ε, above 0, decides how far the grid reaches, and nothing else.

    Returns:
        ε, at least the true one; None where none is found on the grid, or the game would take too long.

    Raises:
        ValueError: parameters beyond what doubles hold.
    """
    if releases > MOST_RELEASES or release.k > _LARGEST_K:
        return None
    curves, spacing = _grid(release, releases, delta)
    adding, removing = moves_of(release, curves, spacing)
    of_adding = _epsilon([adding], releases, delta, composed)
    if of_adding is None:
        return None
    # Removing is mostly cheaper even composed, or in a game of few, wide blocks; the whole game is played only where
    # neither settles it.
    whole = power(measures_of(curves, spacing)[1], releases, cut=delta * _CUT_SHARE)
    if delta_at(whole, of_adding) <= delta:
        return of_adding
    wide = moves_of(release, curves, spacing, together=_TOGETHER)[1]
    if of_adding > 0.0 and _delta([wide], releases, of_adding) <= delta:
        return of_adding
    of_removing = _epsilon([removing], releases, delta, composed)
    return None if of_removing is None else max(of_adding, of_removing)


def epsilon_of_drawn_game(
    release: StronglySafeRelease, draw: BoundedRange, *, draws: int, releases: int, delta: float, composed: float
) -> float | None:
    """Return the same where each release comes after draws of a bounded range, whose pair the adversary picks as well.

    As many draws as `draws`, at least 1, come before each of the T releases, one after the other.
    """
    directions = [
        _epsilon(steps, releases, delta, composed) for steps in _drawn_steps(release, draw, draws, releases, delta)
    ]
    finite = [epsilon for epsilon in directions if epsilon is not None]
    return max(finite) if finite and len(finite) == len(directions) else None


def curve_of_drawn_game(
    release: StronglySafeRelease, draw: BoundedRange, *, draws: int, reach: float, resolution: float
) -> Callable[[float], float] | None:
    """Return an upper bound on δ of one such round, as a function of ε from 0 to `reach`; None where it takes too long.

    Masses below about a thousandth of `resolution` count in full.

    Raises:
        ValueError: parameters beyond what doubles hold.
    """
    tables = [_table(steps, 1, reach) for steps in _drawn_steps(release, draw, draws, 1, resolution)]
    return (lambda epsilon: max(_delta_there(*table, epsilon) for table in tables)) if tables else None


def _drawn_steps(
    release: StronglySafeRelease, draw: BoundedRange, draws: int, releases: int, delta: float
) -> list[list[Moves]]:
    """Return the steps of one round, of adding and of removing, all on one grid; none where it would take too long."""
    if releases * (draws + 1) > MOST_RELEASES or release.k > _LARGEST_K:
        return []
    curves, _ = _grid(release, releases, delta)
    range_curves = curves_of_range(draw)
    finest = min(curves.deviation, range_curves.deviation) / _POINTS_PER_DEVIATION
    reach = max(curves.adding_end + curves.removing_end, 2.0 * range_curves.adding_end)
    spacing = few_bits(max(finest, reach / _MOST_POINTS))
    before = moves_of_draw(draw, spacing)
    return [[*[before] * draws, moves] for moves in moves_of(release, curves, spacing)]


def moves_of_draw(draw: BoundedRange, spacing: float) -> Moves:
    """Return the measures of a draw for all its pairs, in blocks by their largest loss.

    They are those of adding and of removing alike: the pair whose largest loss is t, taken the other way round, is that
    of ε − t, and for each block the block of these is there.

    Args:
        draw: the range.
        spacing: of the grid.
    """
    end = float_up(draw.epsilon)
    edges = end * (np.arange(_BLOCKS_OF_DRAW + 1) / _BLOCKS_OF_DRAW)
    # The edges seen from the other direction are ε less these, and neither is exact.
    low = np.maximum(edges[:-1, None] - _WIDER * end, 0.0)
    high = np.minimum(edges[1:, None] + _WIDER * end, end)
    grid = grid_to(end, spacing)
    ahead = deltas_up(range_log_delta(end, grid, low=low, high=high))
    return [measure_of(one, other, spacing) for one, other in zip(ahead, ahead[::-1], strict=True)]


def delta_of_game(release: StronglySafeRelease, *, releases: int, epsilon: float, resolution: float) -> float | None:
    """Return an upper bound on δ at ε in the same game; masses below about a thousandth of `resolution` count in full.

    Args:
        release: the mechanism of all releases.
        releases: T of at least 1.
        epsilon: ε over all of them together, above 0.
        resolution: about the δ that is expected; it decides how fine the grid is, and nothing else.

    Returns:
        δ, at least the true one; None where the game would take too long.

    Raises:
        ValueError: parameters beyond what doubles hold.
    """
    if releases > MOST_RELEASES or release.k > _LARGEST_K:
        return None
    curves, spacing = _grid(release, releases, resolution)
    adding, removing = moves_of(release, curves, spacing)
    found = _delta([adding], releases, epsilon)
    whole = power(measures_of(curves, spacing)[1], releases, cut=resolution * _CUT_SHARE)
    return found if delta_at(whole, epsilon) <= found else max(found, _delta([removing], releases, epsilon))


def _grid(release: StronglySafeRelease, releases: int, delta: float) -> tuple[LossCurves, float]:
    """Return a release's curves, and a grid fine against its deviation, of as many points at most as can be played."""
    curves = curves_of_release(release, negligible=delta * _CUT_SHARE / releases)
    few = releases > _MANY_RELEASES
    finest = curves.deviation / (_FEWER_POINTS if few else _POINTS_PER_DEVIATION)
    reach = curves.adding_end + curves.removing_end
    return curves, few_bits(max(finest, reach / (_FEWER_IN_ALL if few else _MOST_POINTS)))


def blocks_of_sizes(k: int, rate: float) -> tuple[Array, Array]:
    """Return all sizes of a group, from 1, in blocks: the first of each, and the last, which is infinite in the end.

    Blocks are fine where the worst sizes are, and coarse elsewhere; which they are decides how far a price is above
    the least one, and nothing else.
    """
    (low, high), (near, far) = _FARTHEST, _NEAREST
    steps = np.concatenate([np.arange(low, near, _COARSE), np.arange(near, far, _FINE), np.arange(far, high, _COARSE)])
    ends = np.unique(np.maximum(np.floor((k - steps * math.sqrt(k)) / rate), k))
    return np.append(1.0, ends + 1.0), np.append(ends, math.inf)


def moves_of(
    release: StronglySafeRelease, curves: LossCurves, spacing: float, *, together: int = 1
) -> tuple[list[LossDistribution], list[LossDistribution]]:
    """Return the measures of adding and of removing for all sizes of a group, from 1, in blocks.

    So many blocks as `together` says are made one; a measure of it covers each size in all of them.
    """
    k, rate = release.k, float_up(release.sampling_rate)
    first = blocks_of_sizes(k, rate)[0][::together]
    last = np.append(first[1:] - 1.0, math.inf)
    adding, removing = (
        deltas_up(curve(k=k, sampling_rate=rate, epsilons=grid_to(end, spacing), first=first, last=last))
        for curve, end in ((log_adding_within, curves.adding_end), (log_removing_within, curves.removing_end))
    )
    both = [
        (measure_of(add, remove, spacing), measure_of(remove, add, spacing))
        for add, remove in zip(adding, removing, strict=True)
    ]
    return [added for added, _ in both], [removed for _, removed in both]


def _epsilon(steps: Sequence[Moves], releases: int, delta: float, composed: float) -> float | None:
    """Return the least ε found of one direction, by one table for all ε."""
    return _read_off(*_table(steps, releases, composed), delta)


def _delta(steps: Sequence[Moves], releases: int, epsilon: float) -> float:
    """Return the δ of one direction at ε above 0."""
    return _delta_there(*_table(steps, releases, epsilon), epsilon)


def _delta_there(states: Array, values: Array, epsilon: float) -> float:
    """Return the δ at ε of a table that reaches it."""
    there = int(np.searchsorted(states, -epsilon, side="right"))
    return _chord(states, values, there - 1, -epsilon)


def _chord(states: Array, values: Array, here: int, state: float) -> float:
    """Return V between two states, by the chord of e^u·V over e^u, which is convex."""
    x, y, place = math.exp(states[here]), math.exp(states[here + 1]), math.exp(state)
    share = min(max((place - x) / (y - x), 0.0), 1.0)
    value = ((1.0 - share) * x * values[here] + share * y * values[here + 1]) / place
    return min(float(value) * (2.0 - _TIE), 1.0)


def _table(steps: Sequence[Moves], releases: int, reach: float) -> tuple[Array, Array]:
    """Return V before the first release at all states: a state is the loss so far, less ε, for all ε at once.

    With V_T(u) = max(0, 1 − e^{−u}) and V_t(u) = max over moves of Σ_d m_d·V_{t+1}(u + d) + m_∞, δ(ε) is V_0(−ε).
    `reach`, about the largest ε that is asked for, decides how far the states go, and nothing else.
    """
    spacing = steps[0][0].spacing
    each = {id(moves): _Step(moves, spacing) for moves in steps}
    below = math.ceil(_BEYOND * reach / spacing) + 2
    above = math.ceil(_SURE * reach / spacing) + max(step.size for step in each.values())
    states = spacing * np.arange(-below, above + 1, dtype=np.float64)
    values = np.maximum(-np.expm1(-states), 0.0) * (1.0 + 4.0 * ULP)
    for _ in range(releases):
        for moves in reversed(steps):
            values = each[id(moves)].before(values)
    return states, values


class _Step:
    """The moves of one step, on one grid."""

    def __init__(self, moves: Moves, spacing: float) -> None:
        first = moves[0]
        self.lowest, self.size = first.lowest, first.masses.size
        if any((move.spacing, move.lowest, move.masses.size) != (spacing, self.lowest, self.size) for move in moves):
            raise ValueError("the moves of a game need one grid")
        self._masses = np.array([move.masses * (1.0 + move.slack) for move in moves]).T.copy()
        self._infinite = np.array([move.infinite * (1.0 + move.slack) for move in moves])

    def before(self, values: Array) -> Array:
        """Return V before the step, from V after it."""
        rounding = 1.0 + (self.size + 16.0) * ULP
        # V rises with the state and is at most 1: below the grid its lowest value stands for it, above the grid 1.
        padded = np.concatenate([np.full(-self.lowest, values[0]), values, np.ones(self.lowest + self.size - 1)])
        windows = np.ascontiguousarray(sliding_window_view(padded, self.size))
        return np.asarray(np.minimum((windows @ self._masses + self._infinite).max(axis=1) * rounding, 1.0))


def _read_off(states: Array, values: Array, delta: float) -> float | None:
    """Return the ε at which the chord of e^u·V over e^u, which is convex, meets δ; at most one grid point's ε."""
    met = np.flatnonzero(values <= delta)
    if met.size == 0 or met[-1] + 1 == states.size:
        return None
    here, there = int(met[-1]), int(met[-1]) + 1
    if states[there] > 0.0:
        return max(-float(states[here]), 0.0)
    x, y = math.exp(states[here]), math.exp(states[there])
    slope = (y * values[there] - x * values[here]) / (y - x)
    reached = x * (slope - values[here]) / (slope - delta) * _TIE
    return min(-math.log(reached) + 1e-15, -float(states[here]))
