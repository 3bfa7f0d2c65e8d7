"""Audits of the ε-safe release: the map drawn privately, then a release on a fresh sample with it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache

import numpy as np
from crowdblend.accounting.kinds.selected_microdata_prices import price_selected
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn, Levels, draw_map, group_threshold, walk
from crowdblend.mechanisms.map_selection.rollup import scores
from numpy.typing import NDArray

from .cases import Case, Draw, Pair
from .cases_of_counts import published

__all__ = ["LATTICE", "RELEASE", "choice_cases", "qualities", "records_by_leaf", "tied_pair"]

LEAVES_OF_G, LEAVES = 20, 100
TREE = ValueHierarchy.from_rows([[f"v{leaf:02d}", "G" if leaf < LEAVES_OF_G else "H", "*"] for leaf in range(LEAVES)])
LATTICE = Lattice(columns=(LatticeColumn(name="value", hierarchy=TREE, min_level=0, max_level=1, weight=Decimal(1)),))
RELEASE = StronglySafeRelease(k=20, sampling_rate=Decimal("0.2"))
SELECTION_EPSILON = Decimal(1)
SELECTION_RATE = Decimal("0.5")
DELTA = Decimal("1e-3")
DRAWN = "OpenDP's own for the map, the audit's (NumPy) for the sample"
_MOST = 1_000

Counts = NDArray[np.int64]


def records_by_leaf(*, main: int, others: int, own: int) -> Counts:
    """Records of each leaf: `main` of one leaf of G, `others` spread over H, `own` of another leaf of G."""
    counts = np.zeros(LEAVES, dtype=np.int64)
    counts[0], counts[1] = main, own
    spread = LEAVES - LEAVES_OF_G
    counts[LEAVES_OF_G:] = others // spread
    counts[LEAVES_OF_G : LEAVES_OF_G + others % spread] += 1
    return counts


def qualities(counts: Counts, threshold: int) -> Counts:
    """The quality of each of the two maps, exactly."""
    present = np.flatnonzero(counts)
    return scores(GroupCounts((present + 1).reshape(1, -1), counts[present]), lattice=LATTICE, threshold=threshold)


@cache
def tied_pair(threshold: int) -> tuple[Counts, Counts]:
    """Neighbours between which the better of the two maps changes: found by trying numbers of records in H."""
    low, high = 1, 7_900
    # Below 8,000 records of H the finer map gains nothing by them, so that the change is found by halving.
    while low < high:
        middle = (low + high) // 2
        found = qualities(records_by_leaf(main=threshold + 9, others=middle, own=1), threshold)
        low, high = (low, middle) if found[1] > found[0] else (middle + 1, high)
    with_t, without = (records_by_leaf(main=threshold + 9, others=low, own=own) for own in (1, 0))
    return with_t, without


def _neighbours(kind: str) -> tuple[Counts, Counts]:
    threshold = group_threshold(RELEASE.k, RELEASE.sampling_rate, None)
    designs = {
        "390 records, and one that the finer map hides": ((200, 190, 1), (200, 190, 0)),
        "the main group one below its threshold, or at it": ((threshold, 50, 0), (threshold - 1, 50, 0)),
        "the group of the release's worst size": ((65, 0, 0), (64, 0, 0)),
        "one record against empty data": ((1, 0, 0), (0, 0, 0)),
    }
    if kind not in designs:
        return tied_pair(threshold)
    one, other = (records_by_leaf(main=main, others=others, own=own) for main, others, own in designs[kind])
    return one, other


KINDS = (
    "390 records, and one that the finer map hides",
    "the main group one below its threshold, or at it",
    "the group of the release's worst size",
    "one record against empty data",
    "the better map changes with t",
)


def choice_cases(scale: float) -> list[Case]:
    """Every case of this module."""
    draws, scouts = max(2_000, round(100_000 * scale)), max(1_000, round(10_000 * scale))
    cases = []
    for name, words, fresh in (
        ("permute-and-flip", "map drawn by permute-and-flip", False),
        ("exponential", "map drawn by the exponential mechanism", False),
        ("walk", "map drawn by a walk of 3 steps", False),
        ("fresh-sample", "map drawn on a fresh sample", True),
    ):
        charged = price_selected(
            RELEASE,
            selection_epsilon=SELECTION_EPSILON,
            selection_rate=SELECTION_RATE if fresh else None,
            delta=DELTA,
        )
        cases.append(
            Case(
                name=f"epsilon-safe-{name}",
                mechanism=f"ε-safe release, {words}, ε₁ = {SELECTION_EPSILON}, k = 20, β = 0.2",
                claim=float(charged.epsilon),
                delta=float(DELTA),
                rule=charged.rule,
                exact=None,
                pairs=tuple(Pair(name=kind, draw=_draw(name, kind)) for kind in KINDS),
                draws=draws // 2 if name in ("walk", "fresh-sample") else draws,
                scouts=scouts,
                block=2_000,
                coins=DRAWN,
            )
        )
    return cases


def _draw(name: str, kind: str) -> Draw:
    def outcomes(side: int, count: int, rng: np.random.Generator) -> Counts:
        counts = _neighbours(kind)[side]
        levels = np.array([_level(name, counts, rng) for _ in range(count)])
        sampled = rng.binomial(counts, 0.2, (count, LEAVES))
        fine = published(sampled[:, 0], RELEASE.k)
        coarse = published(sampled[:, :LEAVES_OF_G].sum(axis=1), RELEASE.k)
        return levels * _MOST + np.minimum(np.where(levels == 0, fine, coarse), _MOST - 1)

    return outcomes


@cache
def _whole_scores(counts: tuple[int, ...]) -> Counts:
    return qualities(np.array(counts, dtype=np.int64), group_threshold(RELEASE.k, RELEASE.sampling_rate, None))


def _level(name: str, counts: Counts, rng: np.random.Generator) -> int:
    if name == "fresh-sample":
        sampled = rng.binomial(counts, float(SELECTION_RATE))
        found = qualities(sampled, group_threshold(RELEASE.k, RELEASE.sampling_rate, SELECTION_RATE))
        return draw_map(found, epsilon=SELECTION_EPSILON, rule="permute-and-flip")
    found = _whole_scores(tuple(counts.tolist()))
    if name != "walk":
        return draw_map(found, epsilon=SELECTION_EPSILON, rule=name)

    def score_of(maps: Sequence[Levels]) -> Counts:
        return np.array([found[LATTICE.index_of(levels)] for levels in maps])

    return walk(score_of, lattice=LATTICE, epsilon=SELECTION_EPSILON, steps=3)[0]
