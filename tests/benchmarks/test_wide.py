"""The comparison of wide files: its measures on tables whose scores are known, and its labels."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.utility.tables import Table
from benchmarks.wide.wide_comparison import FOUND, ONE, SUBJECTS, measured, released
from benchmarks.wide.wide_measures import Partition, Weighted, WideTruth, evenly_drawn, fitted_to, fitted_triple
from benchmarks.wide.wide_tables import WideTable, adult_columns, nist_columns

PEOPLE = 3_000


def small() -> WideTable:
    """Five columns of four values with two labels; the second copies the first, the fifth tells whether two agree."""
    coins = np.random.default_rng(1)
    first, third, fourth = coins.integers(0, 4, size=(3, PEOPLE))
    records = np.array([first, first, third, fourth, 2 * (third // 2 == fourth // 2) + coins.integers(0, 2, PEOPLE)])
    labels = {name: [(f"u{value // 2}", f"c{value // 2}") for value in range(4)] for name in "abcde"}
    table = Table(
        name="small",
        title="small",
        short="small",
        labels=labels,
        records=records,
        amounts=("a", np.arange(4.0)),
        target=("a", 2),
    )
    return WideTable(table=table, blocks={"one": ("a", "b", "c"), "two": ("c", "d", "e")})


def truth_of(wide: WideTable) -> WideTruth:
    return WideTruth(wide=wide, records=wide.table.records)


@pytest.mark.parametrize("columns", [nist_columns(), adult_columns()], ids=["nist", "adult"])
def test_every_value_has_one_usual_and_one_coarse_label(columns) -> None:
    for name, own in columns.items():
        assert len(set(own.values)) == len(own.values) > 1, name
        for groups in (own.usual, own.coarse):
            placed = [value for group in groups for value in group]
            assert len(set(placed)) == len(placed), name
        coarse_of = dict(own.labels())
        assert all(coarse_of[usual] == coarse for usual, coarse in own.labels()), name


def test_records_as_they_are_score_a_thousand_and_a_lack_of_them_less() -> None:
    truth = truth_of(small())
    whole = truth.pairs_of(truth.whole)
    assert truth.pair_score(whole) == pytest.approx(1000)
    assert truth.triple_score(lambda triple: truth.triples_of(truth.whole, triple)[triple]) == pytest.approx(1000)
    undeclared = Weighted(
        columns=truth.whole.columns, codes=np.full_like(truth.records, -1), weights=truth.whole.weights
    )
    assert truth.pair_score(truth.pairs_of(undeclared)) == pytest.approx(500)  # all of one distribution is missing


def test_three_exact_pairs_do_not_tell_a_triple_that_rows_tell() -> None:
    truth = truth_of(small())
    pairs = {pair: shares * PEOPLE for pair, shares in truth.pairs_of(truth.whole).items()}
    alone = truth.triple_score(truth.triples_by_rows([], pairs))
    by_rows = truth.triple_score(truth.triples_by_rows([truth.whole], pairs))
    assert alone < 800 < by_rows == pytest.approx(1000)


def test_a_fitted_triple_has_its_pairs() -> None:
    coins = np.random.default_rng(2)
    true = coins.random((3, 4, 2))
    pairs = [true.sum(axis=axis) for axis in (2, 1, 0)]
    found = fitted_triple(coins.random((3, 4, 2)), pairs)
    for axis, pair in zip((2, 1, 0), pairs, strict=True):
        assert found.sum(axis=axis) == pytest.approx(pair / pair.sum(), abs=1e-3)


def test_records_fitted_to_partitions_have_their_counts_and_the_rest_keeps_its_weight() -> None:
    first, _, third, *_ = small().table.records
    whole, known = np.arange(1.0, 17.0), np.array([5.0, 7.0])
    parts = np.where(third < 2, third, -1)
    fitted = fitted_to(np.ones(PEOPLE), [Partition(first * 4 + third, whole)])
    assert np.bincount(first * 4 + third, weights=fitted) == pytest.approx(whole)
    some = fitted_to(np.ones(PEOPLE), [Partition(parts, known)])
    assert np.bincount(third, weights=some)[:2] == pytest.approx(known)
    assert some[third >= 2] == pytest.approx(1.0)


def test_records_are_drawn_in_proportion_to_their_weights() -> None:
    drawn = evenly_drawn(np.array([1.0, 0.0, 3.0]), number=400, coins=np.random.default_rng(1))
    assert np.bincount(drawn, minlength=3).tolist() == [100, 0, 300]


@pytest.mark.parametrize("way", [SUBJECTS, FOUND, ONE])
def test_releases_of_each_way_are_measured(way: str) -> None:
    wide = small()
    coins = np.random.default_rng(3)
    found = measured(released(wide, wide.table.records, way, coins), truth_of(wide), coins)
    assert 800 < found["pairs"] < 1000
    assert found["triples by pairs alone"] < 850
    assert 0 < found["least kept"] <= found["records kept"] <= 1
    assert 0 < found["columns told"] <= 1
    if way == SUBJECTS:  # d, e and c stand together
        assert found["triples"] > found["triples by pairs alone"] + 50
