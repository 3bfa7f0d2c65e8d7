"""The public side of a paired release: estimates that are kept from draw to draw are those made from scratch."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kinds.deletion_noise import GeometricDeletion
from crowdblend.mechanisms.kinds.paired_deletion import CountedPair, PairedDeletion
from crowdblend.mechanisms.pair_model.model import PairModel
from crowdblend.mechanisms.pair_model.paired_plan import PairedPlan, pair_candidates
from crowdblend.mechanisms.pair_model.shrinkage import product, quotient, row_sums

RELEASE = PairedDeletion(
    stages=1,
    k=1,
    noise=GeometricDeletion(epsilon=Decimal(1), width=1),
    margins=7,
    margin_scale=Decimal(1),
    margin_width=1,
    pairs=12,
    pair_scale=Decimal(1),
    pair_width=1,
    pair_epsilon=Decimal("0.7"),
)
COLUMNS = tuple(
    MappedColumn(
        name=f"c{place}",
        hierarchy=ValueHierarchy.from_rows([[f"v{value}", f"g{value // 2}", "*"] for value in range(size)]),
        level=0,
    )
    for place, size in enumerate((2, 3, 5, 4, 3, 2, 6))
)
FINE = GeneralizationMap(columns=COLUMNS)
COARSE = GeneralizationMap(columns=tuple(replace(column, level=1) for column in COLUMNS))
DETAILS = (FINE, COARSE)


def plan() -> PairedPlan:
    candidates = pair_candidates(DETAILS, most_cells=1_000)
    return PairedPlan(mechanism=RELEASE, details=DETAILS, candidates=candidates, stages=(FINE,))


def noisy(coins: np.random.Generator, cells: int) -> np.ndarray:
    return coins.integers(-20, 400, cells)


def by_all_paths(model: PairModel, pair: tuple[int, int]) -> np.ndarray:
    """Walk every path of the forest from scratch."""
    if pair in model.tables:
        return model.tables[pair]
    reached, last = {pair[0]: np.diag(model.margins[pair[0]])}, [pair[0]]
    while last:
        here = last.pop()
        for column in set(model.neighbours[here]) - set(reached):
            table = model.table(here, column)
            reached[column] = product(reached[here], quotient(table, row_sums(table)[:, None]))
            last.append(column)
    independent = model.margins[pair[0]][:, None] * model.margins[pair[1]][None, :] / model.records
    return reached.get(pair[1], independent)


@pytest.mark.parametrize("seed", range(4))
def test_estimates_that_are_kept_are_those_made_from_scratch(seed: int) -> None:
    """Draw after draw, of one release and of another by the same plan, with pairs that are counted by two details."""
    coins = np.random.default_rng(seed)
    kept = plan()
    for draws in (2, RELEASE.pairs):
        margins = [noisy(coins, size) for size in FINE.sizes]
        pairs: list[CountedPair] = []
        before: list[Any] = []
        stayed = 0
        for number in coins.permutation(len(kept.candidates))[:draws].tolist():
            found, scratch = kept.estimates(margins, pairs), plan().estimates(margins, pairs)
            model = kept.model(margins, pairs)
            for one, cells, other in zip(kept.candidates, found, scratch, strict=True):
                assert np.array_equal(cells, other)
                walked = kept.cells_by_labels(by_all_paths(model, (one.first, one.second)), one)
                assert np.array_equal(cells, np.rint(walked * 4096).astype(np.int64))
            stayed += sum(own is former for own, former in zip(found, before, strict=False))
            before = found
            pairs.append(CountedPair(number, noisy(coins, kept.protection().cells_of(number))))
        assert stayed > draws, "those that nothing has changed are the same arrays"


def test_only_pairs_move_that_follow_from_another_table() -> None:
    """One more count of a pair moves the estimates that it has a part in; all others stay, digit by digit."""
    coins = np.random.default_rng(6)
    own = plan()
    margins = [noisy(coins, size) for size in FINE.sizes]
    pairs: list[CountedPair] = []
    every = list(combinations(range(7), 2))
    sizes = []
    for number in (0, 6, 11, 15, 18, 0 + 21, *range(1, 6), 6 + 21):
        before = own.model(margins, pairs)
        pairs.append(CountedPair(number, noisy(coins, own.protection().cells_of(number))))
        after = own.model(margins, pairs)
        moved = after.moved(before)
        differ = {pair for pair in every if not np.array_equal(before.estimate(pair), after.estimate(pair))}
        assert differ <= moved
        assert differ <= before.moved(after)
        sizes.append(len(moved))
    assert min(sizes) == 1, "a pair that is in no path moves nothing but itself"
    assert max(sizes) < len(every)
    with pytest.raises(ValueError, match="other margins"):
        own.model(margins, ()).moved(plan().model(margins, ()))


def test_a_thousand_pairs_are_read_at_once_as_they_are_draw_by_draw() -> None:
    columns = tuple(replace(COLUMNS[0], name=f"c{place}") for place in range(46))
    counted = GeneralizationMap(columns=columns)
    candidates = pair_candidates((counted,), most_cells=1_000)
    release = replace(RELEASE, margins=len(columns), pairs=1_000)
    margins = [np.full(column.size, 100) for column in columns]
    pairs = tuple(CountedPair(number, np.full(columns[0].size ** 2, 30 + number % 7)) for number in range(1_000))
    made = PairedPlan(mechanism=release, details=(counted,), candidates=candidates, stages=(counted,))
    few, every = made.model(margins, pairs[:2]), made.model(margins, pairs)
    assert len(every.tables) == 1_000
    assert made.model(margins, pairs[:1]).tables.keys() < few.tables.keys()
    np.testing.assert_array_equal(few.tables[0, 1], every.tables[0, 1])
