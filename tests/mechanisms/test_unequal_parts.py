"""Parts that don't belong together are refused: what is left over would else be dropped in silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import count_keys
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE
from crowdblend.mechanisms.kernel.recoding import coarsened
from crowdblend.mechanisms.kinds.answers import MeanAnswer, Tally, answered
from crowdblend.mechanisms.kinds.biased_sampling import thinned_counts
from crowdblend.mechanisms.map_selection import rollup
from crowdblend.mechanisms.map_selection.choice import Lattice, LatticeColumn, MapWeights
from crowdblend.mechanisms.map_selection.rollup import prefix_keys, scorer
from crowdblend.mechanisms.measures.classification import fitted_model
from crowdblend.mechanisms.recoding import GeneralizationMap
from crowdblend.mechanisms.record_weights import coarser_margins, rake_weights

ONE = Decimal(1)
TREE = ValueHierarchy.from_rows([("a", "x", "*"), ("b", "x", "*"), ("c", "y", "*")])
LATTICE = Lattice(
    columns=tuple(
        LatticeColumn(name=name, hierarchy=TREE, min_level=0, max_level=2, weight=ONE) for name in ("one", "two")
    )
)
CHAINS = replace(LATTICE, candidates=((0, 1, 1, 1),), stages=2)
FINE, COARSE = LATTICE.map_of((0, 0)), LATTICE.map_of((1, 1))
SHORT = GeneralizationMap(columns=COARSE.columns[:1])
CODES = [np.array([1, 2]), np.array([2, 3])]
KEYS = FINE.keys(CODES)
COUNTS = count_keys(KEYS, cells=FINE.cells)
BASE = prefix_keys(COUNTS, lattice=LATTICE)
CELLS = [np.arange(4), np.arange(4)]
MEAN = MeanAnswer(epsilon=ONE, relation=ADD_REMOVE, groups=2, sampling_rate=None, lower=0, upper=1, least_records=1)


def raked(noisy: list[np.ndarray]) -> object:
    ones = np.ones(2)
    return rake_weights(ones, ones.astype(int), CODES, layout=FINE, margins=((0,), (1,)), noisy=noisy)


def modelled(codes: list[np.ndarray], sizes: tuple[int, ...]) -> object:
    return fitted_model(codes, sizes=sizes, classes=np.array([0, 1]), class_number=2, counts=np.array([1, 1]))


CASES: dict[str, Callable[[], object]] = {
    "a map of too few levels": lambda: LATTICE.map_of((1,)),
    "a map of too many": lambda: LATTICE.map_of((1, 2, 0)),
    "the weight of too few levels": lambda: MapWeights(lattice=LATTICE).of((1,)),
    "the weight of too many": lambda: MapWeights(lattice=LATTICE).of((1, 2, 0)),
    "names of a chain that is cut off": lambda: CHAINS.named((0, 1, 1)),
    "coarser keys of too few levels": lambda: BASE.coarsened((1,)),
    "coarser keys of too many": lambda: BASE.coarsened((1, 2, 0)),
    "live bits of too few levels": lambda: BASE.layout.live((1,)),
    "bits of other words": lambda: rollup._keeps_order((1, 2), (1,)),
    "qualities of other columns": lambda: scorer(COUNTS, lattice=LATTICE, threshold=1)([(0, 0), (1,)]),
    "keys of too few columns": lambda: FINE.keys(CODES[:1]),
    "keys of too many": lambda: FINE.keys([*CODES, CODES[0]]),
    "keys of other words": lambda: FINE.holds(np.concatenate([KEYS, KEYS])),
    "groups of fewer columns": lambda: coarsened(KEYS, finer=FINE, coarser=SHORT, tables=FINE.tables_to(SHORT)),
    "records without a rate": lambda: thinned_counts(
        np.array([1, 1]), [Decimal("0.1")], highest=Decimal("0.1"), randomness=bytes
    ),
    "margins of fewer columns": lambda: coarser_margins(CELLS, finer=FINE, coarser=SHORT, margins=((0,), (0,))),
    "margins without cells": lambda: coarser_margins(CELLS[:1], finer=FINE, coarser=COARSE, margins=((0,), (1,))),
    "raking to fewer margins": lambda: raked(CELLS[:1]),
    "a group without a sum": lambda: answered(MEAN, Tally(records=np.ones(2, dtype=int), sums=np.ones(1, dtype=int))),
    "levels without codes": lambda: replace(TREE, level_codes=TREE.level_codes[:2]).rows(),
    "features without a size": lambda: modelled(CODES, (4,)),
    "sizes without a feature": lambda: modelled(CODES[:1], (4, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_belong_together_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"argument .* is (shorter|longer) than"):
        CASES[name]()
