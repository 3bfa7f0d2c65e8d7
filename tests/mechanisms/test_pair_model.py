"""The model of published figures: fitted, shrunken and chained tables, and levels chosen on records drawn from it."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import count_keys
from crowdblend.mechanisms.kernel.recoding import coarsened
from crowdblend.mechanisms.map_selection.chains import chain_quality
from crowdblend.mechanisms.map_selection.choice import LatticeColumn, MapWeights
from crowdblend.mechanisms.pair_model.chosen_levels import (
    LEAST_OF_FIRST_STAGE,
    MIXING,
    ChainScorer,
    LevelChoice,
    model_records,
    numbered,
)
from crowdblend.mechanisms.pair_model.model import PairModel, merged_table, records_in
from crowdblend.mechanisms.pair_model.paired_plan import pair_candidates
from crowdblend.mechanisms.pair_model.row_estimates import RowStage, pair_by_rows
from crowdblend.mechanisms.pair_model.shrinkage import (
    column_sums,
    fitted,
    on_simplex,
    quotient,
    row_sums,
    shrunken,
    total,
)
from crowdblend.mechanisms.pair_model.shrinkage import (
    product as matrix_product,
)

SIZES = (3, 4, 2, 5)


def chain_of_columns(records: int = 40_000) -> np.ndarray:
    """Codes of records whose columns follow one from the other; shape (columns, records)."""
    coins = np.random.default_rng(11)
    codes = [coins.integers(0, SIZES[0], records)]
    for size in SIZES[1:]:
        follows = coins.random(records) < 0.7
        codes.append(np.where(follows, codes[-1] % size, coins.integers(0, size, records)))
    return np.array(codes)


CODES = chain_of_columns()
LABELS = [np.arange(size) for size in SIZES]


def counts(pair: tuple[int, int], codes: np.ndarray = CODES) -> np.ndarray:
    table = np.zeros((SIZES[pair[0]], SIZES[pair[1]]))
    np.add.at(table, (codes[pair[0]], codes[pair[1]]), 1.0)
    return table


def exact_model(pairs: list[tuple[int, int]]) -> PairModel:
    """Of exact counts: nothing is shrunken."""
    model = PairModel.of_margins([np.bincount(own, minlength=size) for own, size in zip(CODES, SIZES, strict=True)])
    for pair in pairs:
        model = model.with_counts(pair, counts(pair), labels=(LABELS[pair[0]], LABELS[pair[1]]), deviation=0.0)
    return model


def far(model: PairModel, pair: tuple[int, int]) -> float:
    """How far an estimate is from the records, as a share of them."""
    return float(np.abs(model.estimate(pair) - counts(pair)).sum()) / CODES.shape[1]


def test_sums_are_those_of_numpy() -> None:
    table = np.random.default_rng(1).random((4, 6))
    assert total(table) == pytest.approx(table.sum())
    assert row_sums(table) == pytest.approx(table.sum(axis=1))
    assert column_sums(table) == pytest.approx(table.sum(axis=0))
    assert matrix_product(table, table.T) == pytest.approx(table @ table.T)
    assert quotient(table, np.zeros(6)).tolist() == np.zeros((4, 6)).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_no_amounts_that_add_up_are_nearer_than_those_on_the_simplex(seed: int) -> None:
    coins = np.random.default_rng(seed)
    noisy = coins.normal(3, 10, 8)
    nearest = on_simplex(noisy, records=20.0)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(20)
    for _ in range(200):
        other = coins.dirichlet(np.ones(8)) * 20
        assert ((noisy - nearest) ** 2).sum() <= ((noisy - other) ** 2).sum() + 1e-9


def test_a_good_estimate_takes_the_noise_away_and_a_bad_one_is_left() -> None:
    coins = np.random.default_rng(2)
    true = coins.uniform(0, 300, (20, 15))
    noisy = true + coins.normal(0, 40, true.shape)
    errors = {
        name: np.abs(shrunken(noisy, estimate, deviation=40.0) - true).mean()
        for name, estimate in {"true": true, "near": true * 1.05, "far": np.full(true.shape, true.mean())}.items()
    }
    plain = np.abs(np.maximum(noisy, 0) - true).mean()
    assert errors["true"] < 0.4 * plain
    assert errors["near"] < 0.5 * plain
    assert errors["far"] < 1.02 * plain
    assert shrunken(noisy, true, deviation=0.0) == pytest.approx(np.maximum(noisy, 0))


def test_a_fitted_table_has_the_margins() -> None:
    coins = np.random.default_rng(3)
    rows, columns = coins.dirichlet(np.ones(5)) * 90, coins.dirichlet(np.ones(7)) * 90
    found = fitted(coins.random((5, 7)), rows, columns)
    assert row_sums(found) == pytest.approx(rows, rel=1e-3)
    assert column_sums(found) == pytest.approx(columns, rel=1e-3)


def test_columns_are_independent_until_a_pair_is_counted_and_follow_along_counted_ones() -> None:
    none, chain = exact_model([]), exact_model([(0, 1), (1, 2), (2, 3)])
    assert none.records == CODES.shape[1]
    assert none.estimate((0, 3)) == pytest.approx(np.outer(none.margins[0], none.margins[3]) / none.records)
    for pair in combinations(range(4), 2):
        assert far(chain, pair) < 0.02, pair
    assert far(none, (0, 1)) > 0.3
    # Without the pair in the middle there is no path, and the ends are independent.
    apart = exact_model([(0, 1), (2, 3)])
    assert apart.estimate((0, 3)) == pytest.approx(np.outer(apart.margins[0], apart.margins[3]) / apart.records)


def test_the_forest_is_of_the_pairs_that_differ_most_from_independence() -> None:
    model = exact_model(list(combinations(range(4), 2)))
    assert sum(map(len, model.neighbours)) == 2 * 3
    assert set(model.neighbours[1]) >= {0, 2}


def test_a_pair_by_coarser_labels_tells_the_finer_ones_as_the_estimate_has_them() -> None:
    halves = np.array([0, 0, 1, 1])
    model = exact_model([])
    coarse = merged_table(counts((0, 1)), (LABELS[0], halves), shape=(3, 2))
    told = model.with_counts((0, 1), coarse, labels=(LABELS[0], halves), deviation=0.0)
    assert merged_table(told.estimate((0, 1)), (LABELS[0], halves), shape=(3, 2)) == pytest.approx(coarse, abs=60)
    assert far(told, (0, 1)) < far(model, (0, 1))


def test_about_how_many_records_there_are_is_told_by_the_margins_of_few_cells_most() -> None:
    assert records_in([np.array([5, 5]), np.full(1000, 1)]) == pytest.approx(
        (10 / 2 + 1000 / 1000) / (1 / 2 + 1 / 1000)
    )
    assert records_in([np.array([-5, 2])]) == 1.0


def test_drawn_records_have_the_model_and_are_always_the_same() -> None:
    model = exact_model([(0, 1), (1, 2), (2, 3)])
    drawn = model_records(model, number=30_000)
    again = model_records(exact_model([(0, 1), (1, 2), (2, 3)]), number=30_000)
    assert all(np.array_equal(one, other) for one, other in zip(drawn, again, strict=True))
    for pair in combinations(range(4), 2):
        shares = counts(pair, np.array(drawn)) / 30_000
        assert np.abs(shares - counts(pair) / CODES.shape[1]).sum() < 0.05, pair


def test_rows_of_known_labels_are_the_counts_and_others_are_spread_as_the_estimate_has_them() -> None:
    model = exact_model([(0, 1)])
    values = RowStage(
        codes=[np.repeat(LABELS[0], 4), np.tile(LABELS[1], 3)],
        mass=counts((0, 1)).reshape(-1) * 0.5,
        labels=LABELS[:2],
        sizes=SIZES[:2],
    )
    stars = RowStage(
        codes=[np.zeros(1, np.int64)] * 2,
        mass=np.array([CODES.shape[1] * 0.5]),
        labels=[np.zeros(3, np.int64), np.zeros(4, np.int64)],
        sizes=(1, 1),
    )
    independent = np.outer(model.margins[0], model.margins[1]) / model.records
    by_values = pair_by_rows((0, 1), independent, stages=[values, stars], margins=model.margins)
    assert np.abs(by_values - counts((0, 1))).sum() < 0.9 * np.abs(independent - counts((0, 1))).sum()
    by_stars = pair_by_rows((0, 1), independent, stages=[stars], margins=model.margins)
    assert by_stars == pytest.approx(independent, rel=1e-3)
    nothing = RowStage(codes=values.codes, mass=np.zeros(12), labels=LABELS[:2], sizes=SIZES[:2])
    assert pair_by_rows((0, 1), independent, stages=[nothing], margins=model.margins) is independent


# --- levels ---------------------------------------------------------------------------------------------------------


def hierarchy(size: int) -> ValueHierarchy:
    """Values, pairs of values, `*`; the code of a value is one more than its number."""
    return ValueHierarchy.from_rows([[f"v{value}", f"g{value // 2}", "*"] for value in range(size)])


COLUMNS = tuple(
    LatticeColumn(name=f"c{place}", hierarchy=hierarchy(size), min_level=0, max_level=2, weight=Decimal(1))
    for place, size in enumerate(SIZES)
)


def model_of_codes(records: int) -> PairModel:
    """The exact model of so many of the records, whose code 0 nobody has."""
    own = [codes[:records] + 1 for codes in CODES]
    model = PairModel.of_margins([np.bincount(one, minlength=size + 1) for one, size in zip(own, SIZES, strict=True)])
    for first, second in ((0, 1), (1, 2), (2, 3)):
        table = np.zeros((SIZES[first] + 1, SIZES[second] + 1))
        np.add.at(table, (own[first], own[second]), 1.0)
        labels = np.arange(SIZES[first] + 1), np.arange(SIZES[second] + 1)
        model = model.with_counts((first, second), table, labels=labels, deviation=0.0)
    return model


def test_the_chosen_map_is_near_the_best_of_all() -> None:
    choice = LevelChoice(columns=COLUMNS, stages=1, threshold=60)
    model = model_of_codes(8_000)
    [found] = choice.chain(model)
    scorer = choice.scorer(model)
    scores = {levels: scorer.quality((levels,)) for levels in product(range(3), repeat=4) if max(levels) < 2}
    assert scorer.quality((found,)) >= 0.98 * max(scores.values())


def test_chains_get_coarser_are_finer_for_more_records_and_have_no_star_at_first() -> None:
    choice = LevelChoice(columns=COLUMNS, stages=3, threshold=60)
    kept = []
    for records in (150, 4_000, 40_000):
        chain = choice.chain(model_of_codes(records))
        assert all(a <= b for before, after in pairwise(chain) for a, b in zip(before, after, strict=True))
        assert max(chain[0]) < 2
        kept.append(sum(map(sum, chain)))
    assert kept[0] > kept[-1]
    bounded = tuple(
        LatticeColumn(name=one.name, hierarchy=one.hierarchy, min_level=1, max_level=1, weight=one.weight)
        for one in COLUMNS
    )
    assert LevelChoice(columns=bounded, stages=2, threshold=60).chain(model_of_codes(500)) == ((1,) * 4,) * 2


def test_of_too_many_columns_no_more_are_given_up_than_must_be() -> None:
    """Of twelve independent columns, told by two labels each, some 4,000 people fill seven or so."""
    columns = tuple(
        LatticeColumn(name=f"c{place}", hierarchy=hierarchy(4), min_level=0, max_level=2, weight=Decimal(1))
        for place in range(12)
    )
    model = PairModel.of_margins([np.array([0, *[1_000] * 4])] * 12)
    choice = LevelChoice(columns=columns, stages=2, threshold=20)
    first, _ = choice.chain(model)
    scorer = choice.scorer(model)
    assert scorer.share_published(first) >= LEAST_OF_FIRST_STAGE
    told = [place for place, level in enumerate(first) if level < 2]
    assert 5 <= len(told) < 12
    for place in set(range(12)) - set(told):
        with_it = tuple(1 if one in (*told, place) else 2 for one in range(12))
        assert scorer.share_published(with_it) < LEAST_OF_FIRST_STAGE + 0.1


def test_candidates_are_pairs_at_each_detail_that_tells_something_new() -> None:
    fine, coarse, star = (
        GeneralizationMap(
            columns=tuple(MappedColumn(name=one.name, hierarchy=one.hierarchy, level=level) for one in COLUMNS)
        )
        for level in range(3)
    )
    found = pair_candidates((fine, coarse, star), most_cells=100)
    assert len(found) == 12, "stars tell nothing"
    assert len(pair_candidates((fine, fine), most_cells=100)) == 6
    assert {one.detail for one in pair_candidates((fine, coarse), most_cells=12)} == {0, 1}


def by_lattice(scorer: ChainScorer, chain: tuple[tuple[int, ...], ...]) -> int:
    """A chain's quality by the groups of its maps, counted from scratch."""
    choice = scorer.choice
    maps = [choice.lattice.map_of(levels) for levels in chain]
    codes = [
        own if table is None else table[own]
        for own, table in zip(scorer.codes, choice.counted.tables_to(maps[0]), strict=True)
    ]
    groups = count_keys(maps[0].keys(codes), cells=maps[0].cells)
    keys, parents = groups.keys, []
    for finer, coarser in pairwise(maps):
        keys, above = coarsened(keys, finer=finer, coarser=coarser, tables=finer.tables_to(coarser))
        parents.append(above)
    weights = MapWeights(lattice=choice.lattice)
    return chain_quality(
        groups.counts,
        parents=parents,
        thresholds=[round((choice.threshold - 1) * scorer.scale)] * len(maps),
        weights=[weights.of(levels) for levels in chain],
    )


@pytest.mark.parametrize("columns", [4, 40])
def test_a_chain_has_the_quality_of_groups_that_are_counted_from_scratch(columns: int) -> None:
    """Chain after chain, as a climb asks for them, with keys of one word and of several."""
    coins = np.random.default_rng(columns)
    sizes = coins.choice([1, 2, 5, 9], columns).tolist()
    choice = LevelChoice(
        columns=tuple(
            LatticeColumn(name=f"c{place}", hierarchy=hierarchy(size), min_level=0, max_level=2, weight=Decimal(place))
            for place, size in enumerate(sizes)
        ),
        stages=3,
        threshold=4,
    )
    codes = [np.minimum(coins.geometric(0.7, 500), size).astype(np.int64) for size in sizes]
    scorer = ChainScorer(choice=choice, codes=codes, scale=1.0)
    chain = np.sort(coins.integers(0, 3, (3, columns)), axis=0)
    seen = set()
    for _ in range(60):
        one = tuple(map(tuple, chain.tolist()))
        seen.add(scorer.quality(one))
        assert scorer.quality(one) == by_lattice(scorer, one)
        column = coins.integers(columns)
        chain[:, column] = np.sort(coins.integers(0, 3, 3)) if coins.random() < 0.3 else chain[[0, 0, 2], column]
        chain[:, column] = np.maximum.accumulate(chain[:, column])
    assert len(seen) > 10


def test_equal_keys_have_one_number_and_others_another_even_where_their_mixed_numbers_are_the_same() -> None:
    coins = np.random.default_rng(4)
    keys = coins.integers(0, 3, (3, 400))
    twins = np.array([[1, 0, 1, 0, 0, 1], [7, 7 + MIXING, 7, 7 + MIXING, 7, 7 + MIXING]])
    for some in (keys[:1], keys, twins):
        wanted = np.unique(some, axis=1, return_inverse=True)[1].reshape(-1)
        found = numbered(some)
        assert len(set(zip(wanted.tolist(), found.tolist(), strict=True))) == wanted.max() + 1 == found.max() + 1
