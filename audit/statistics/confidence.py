"""Lower confidence bounds on ε from hit counts (Clopper and Pearson), and the choice of the event that is counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

__all__ = ["ALARM", "Event", "chosen_event", "epsilon_lower", "lower_limit", "upper_limit"]

ALARM = 1e-3
"""The chance that a bench without any fault accuses one claim or more, over all comparisons of a run."""

_SCOUT_ALARM = 1e-3

Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Outcomes that are to be counted as a hit, fixed before the draws that are counted.

    Args:
        outcomes: numbers of the outcomes, ascending.
        likelier: the neighbour under which the event is the likelier one, 0 or 1.
        promise: the bound on ε that the scouting draws alone would give; for choosing among pairs of neighbours.
    """

    outcomes: tuple[int, ...]
    likelier: int
    promise: float

    def hits(self, counts: Counts) -> int:
        """How many of these draws are hits."""
        inside = [outcome for outcome in self.outcomes if outcome < counts.size]
        return int(counts[inside].sum())


def lower_limit(hits: Counts, draws: float, alarm: float) -> NDArray[np.float64]:
    """Clopper and Pearson's lower limits, each wrong with a probability of at most `alarm`."""
    found = beta.ppf(alarm, np.maximum(hits, 1), draws - hits + 1)
    return np.where(hits > 0, found, 0.0)


def upper_limit(hits: Counts, draws: float, alarm: float) -> NDArray[np.float64]:
    """Clopper and Pearson's upper limits, each wrong with a probability of at most `alarm`."""
    found = beta.ppf(1.0 - alarm, hits + 1, np.maximum(draws - hits, 1))
    return np.where(hits < draws, found, 1.0)


def epsilon_lower(
    likelier: int, likelier_draws: int, other: int, other_draws: int, *, delta: float, alarm: float
) -> float:
    """The largest ε that hits contradict: any (ε, δ)-private mechanism has P ≤ e^ε·Q + δ; 0 where none is.

    Args:
        likelier: hits under the neighbour where the event is likelier.
        likelier_draws: draws of it.
        other: hits under the other.
        other_draws: draws of it.
        delta: δ of the claim.
        alarm: the chance that a true claim is contradicted; half of it for each of the two limits.
    """
    p = float(lower_limit(np.array([likelier]), likelier_draws, alarm / 2)[0])
    q = float(upper_limit(np.array([other]), other_draws, alarm / 2)[0])
    return max(0.0, math.log((p - delta) / q)) if p > delta else 0.0


def chosen_event(counts: tuple[Counts, Counts], *, delta: float) -> Event:
    """The event that scouting draws promise most of: a tail of the outcomes, or their most telling ones.

    It is chosen on draws of its own, so that the draws which are counted afterwards know nothing of the choice. Half of
    them say how telling each outcome is, the other half what an event promises: otherwise the many outcomes that few
    draws have shown would promise most, by chance.
    """
    size = max(part.size for part in counts)
    halves = [_halved(np.pad(part, (0, size - part.size))) for part in counts]
    draws = [[max(int(half.sum()), 1) for half in pair] for pair in halves]
    best = Event(outcomes=(0,), likelier=0, promise=-1.0)
    for likelier in (0, 1):
        here, there = halves[likelier], halves[1 - likelier]
        telling = np.log((here[0] + 0.5) / draws[likelier][0]) - np.log((there[0] + 0.5) / draws[1 - likelier][0])
        seen = np.flatnonzero(here[0] + there[0])
        orders = [seen, seen[::-1], seen[np.argsort(-telling[seen], kind="stable")]]
        for order in orders:
            p = lower_limit(np.cumsum(here[1][order]), draws[likelier][1], _SCOUT_ALARM)
            q = upper_limit(np.cumsum(there[1][order]), draws[1 - likelier][1], _SCOUT_ALARM)
            promise = np.log(np.maximum(p - delta, 1e-300) / q)
            place = int(np.argmax(promise))
            if promise[place] > best.promise:
                outcomes = tuple(sorted(order[: place + 1].tolist()))
                best = Event(outcomes=outcomes, likelier=likelier, promise=float(promise[place]))
    return best


def _halved(counts: Counts) -> tuple[Counts, Counts]:
    """Draws, which are counted here, dealt out at random to two halves; the same way each time."""
    first = np.random.default_rng(1).multivariate_hypergeometric(counts, int(counts.sum()) // 2, method="marginals")
    return first, counts - first
