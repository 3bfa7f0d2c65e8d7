"""Completed copies: as many records as there were, every published row among them, and a tree that draws as it says."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from crowdblend.analysis import rubin
from crowdblend.analysis.completed_copies import COPY, completed_codes
from crowdblend.analysis.label_tree import LabelTree, counts_above_zero
from crowdblend.analysis.loaded_release import LoadedRelease
from crowdblend.analysis.published_tables import PublishedTables, RowGroups, RowReading, RowTable, labels_to, pair_cells
from crowdblend.mechanisms.generalization_map import MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from scipy import stats

COLUMNS = (
    MappedColumn(name="age", hierarchy=IntervalHierarchy(lower=0, upper=12, widths=(3, 6)), level=0),
    MappedColumn(name="town", hierarchy=ValueHierarchy.from_values(["x", "y", "z"]), level=0),
    MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["f", "m"]), level=0),
)
ERROR = 6.0


def published(*, number: int = 3_000, seed: int = 1) -> PublishedTables:
    """Rows by coarse ages of three in four records, margins, and the pair of age and town, with noise."""
    coins = np.random.default_rng(seed)
    ages = coins.integers(0, 12, number)
    towns = np.where(coins.random(number) < 0.2, coins.integers(0, 3, number), ages // 4)
    codes = [ages + 2, towns + 1, coins.integers(1, 3, number)]
    shown = coins.random(number) < 0.75
    coarse = [labels_to(COLUMNS[0], 1)[codes[0]], codes[1], codes[2]]
    groups, counts = np.unique(np.array(coarse)[:, shown], axis=1, return_counts=True)
    stage = RowGroups(
        levels=(1, 0, 0), codes=tuple(groups), counts=counts.astype(float), mass=counts * number / counts.sum()
    )
    margins = tuple(
        np.bincount(own, minlength=column.size) + coins.normal(0, ERROR, column.size)
        for own, column in zip(codes, COLUMNS, strict=True)
    )
    cells = np.zeros((COLUMNS[0].size, COLUMNS[1].size))
    np.add.at(cells, (codes[0], codes[1]), 1.0)
    pair = pair_cells(COLUMNS[:2], (0, 1), (0, 0), cells + coins.normal(0, ERROR, cells.shape), ERROR)
    return PublishedTables(
        columns=COLUMNS,
        rows=(RowTable(columns=(0, 1, 2), stages=(stage,)),),
        reading=RowReading(form="microdata", k=1),
        margins=margins,
        margin_deviation=ERROR,
        pairs=(pair,),
    )


def test_a_copy_has_every_published_row_and_as_many_records_as_there_were() -> None:
    release = LoadedRelease(published())
    count = release.count()
    [stage] = release.published.rows[0].stages
    for frame in release.complete(3):
        assert count.lower - 60 < len(frame) < count.upper + 60
        assert frame["age"].dropna().between(0, 11).all()
        ages = (frame["age"] // 3 + 2).fillna(0).astype(int)
        towns = frame["town"].map({"x": 1, "y": 2, "z": 3}).fillna(0).astype(int)
        sexes = frame["sex"].map({"f": 1, "m": 2}).fillna(0).astype(int)
        found = pd.Series(1, index=range(len(frame))).groupby([ages, towns, sexes]).sum()
        for age, town, sex, rows in zip(*stage.codes, stage.counts, strict=True):
            assert found.get((age, town, sex), 0) >= rows


def test_a_text_beside_numbers_stays_what_it_is() -> None:
    """As N, for not applicable, beside the codes of a survey."""
    whole = published()
    coded = replace(COLUMNS[1], hierarchy=ValueHierarchy.from_values(["1", "2", "N"]))
    mixed = next(iter(LoadedRelease(replace(whole, columns=(COLUMNS[0], coded, COLUMNS[2]))).complete(1)))
    assert {*mixed["town"].dropna()} == {"1", "2", "N"}
    numbers = replace(COLUMNS[1], hierarchy=ValueHierarchy.from_values(["1", "2", "3"]))
    alone = next(iter(LoadedRelease(replace(whole, columns=(COLUMNS[0], numbers, COLUMNS[2]))).complete(1)))
    assert {*alone["town"].dropna()} == {1.0, 2.0, 3.0}
    assert (mixed["town"] == "N").sum() == (alone["town"] == 3.0).sum()


def test_counts_of_copies_are_spread_as_the_noise_is() -> None:
    release = LoadedRelease(published())
    figure = release.count({"town": "x"})
    copies = [int((frame["town"] == "x").sum()) for frame in release.complete(30)]
    combined = rubin(copies)
    assert combined.estimate == pytest.approx(figure.estimate, abs=12)
    half = (figure.upper - figure.lower) / 2
    assert 0.6 * half < (combined.upper - combined.lower) / 2 < 1.7 * half


def test_groups_that_are_absent_are_in_the_copies_by_the_margins() -> None:
    """Nobody of z is published, and a third of the records are of it."""
    whole = published()
    [stage] = whole.rows[0].stages
    kept = stage.codes[1] != 3
    fewer = replace(
        stage, codes=tuple(own[kept] for own in stage.codes), counts=stage.counts[kept], mass=stage.mass[kept]
    )
    release = LoadedRelease(replace(whole, rows=(RowTable(columns=(0, 1, 2), stages=(fewer,)),)))
    figure = release.count({"town": "z"})
    copies = [int((frame["town"] == "z").sum()) for frame in release.complete(4)]
    assert np.mean(copies) == pytest.approx(figure.estimate, rel=0.1)
    none = replace(fewer, codes=tuple(own[:0] for own in stage.codes), counts=stage.counts[:0], mass=stage.mass[:0])
    release = LoadedRelease(replace(whole, rows=(RowTable(columns=(0, 1, 2), stages=(none,)),)))
    [frame] = release.complete(1)
    assert len(frame) == pytest.approx(figure.estimate * 3, rel=0.2)


def test_the_same_seed_draws_the_same_copies_and_each_copy_is_another() -> None:
    release = LoadedRelease(published())
    first, again, other = release.complete(2), release.complete(2), release.complete(2, seed=2)
    one, two = first
    pd.testing.assert_frame_equal(one, next(iter(again)))
    assert not one.drop(columns=COPY).equals(two.drop(columns=COPY))
    assert not one.equals(next(iter(other)))
    assert (one[COPY] == 1).all()
    assert (two[COPY] == 2).all()


@pytest.mark.parametrize("form", ["parquet", "csv", "sav", "dta"])
def test_copies_are_written_and_named_as_what_they_are(tmp_path: Path, form) -> None:
    import pyreadstat

    copies = LoadedRelease(published(number=400)).complete(2)
    written = copies.write(tmp_path, format=form)
    assert [path.name for path in written] == [f"completed-01.{form}", f"completed-02.{form}"]
    read = {
        "parquet": pd.read_parquet,
        "csv": pd.read_csv,
        "sav": lambda path: pyreadstat.read_sav(path)[0],
        "dta": lambda path: pyreadstat.read_dta(path)[0],
    }[form]
    frame = read(written[1])
    assert (frame[COPY] == 2).all()
    assert frame["town"].isin(["x", "y", "z", "", None, np.nan]).all()
    with pytest.raises(InputRefused, match="exists already"):
        copies.write(tmp_path, format=form)
    with pytest.raises(
        InputRefused, match=r"the folder can't be looked at \(File name too long\)\. Nothing was written"
    ):
        copies.write(tmp_path / ("y" * 300))
    (tmp_path / "certificate.json").touch()
    with pytest.raises(InputRefused, match="isn't a release's"):
        copies.write(tmp_path, format=form)


def test_copies_need_margins() -> None:
    with pytest.raises(InputRefused, match="margins"):
        LoadedRelease(replace(published(), margins=(), pairs=())).complete()


def test_rubins_rules_are_those_of_the_book() -> None:
    """Rubin 1987, (3.1.2) to (3.1.6), by hand for three copies."""
    figure = rubin([1.0, 2.0, 3.0], [0.5, 0.5, 0.8])
    whole = 0.6 + (1 + 1 / 3) * 1.0
    freedom = 2 * (1 + 0.6 / (4 / 3)) ** 2
    assert freedom == pytest.approx(4.205)
    assert figure.estimate == 2.0
    assert (figure.upper - 2.0) / math.sqrt(whole) == pytest.approx(stats.t.ppf(0.975, freedom))


SIZES = (3, 4, 2, 3)


def tree() -> tuple[LabelTree, np.ndarray]:
    """A tree 1 → 0, 1 → 2 and a root 3; and the chance of each combination, by enumeration."""
    coins = np.random.default_rng(5)
    given = {place: coins.dirichlet(np.ones(SIZES[place]), size=SIZES[1]) for place in (0, 2)}
    root = {place: coins.dirichlet(np.ones(SIZES[place])) for place in (1, 3)}
    one = LabelTree(order=((1, None), (0, 1), (2, 1), (3, None)), shares=given | root)
    cells = itertools.product(*map(range, SIZES))
    law = [root[1][b] * given[0][b, a] * given[2][b, c] * root[3][d] for a, b, c, d in cells]
    return one, np.array(law).reshape(SIZES)


def test_the_trees_chances_are_those_of_all_combinations() -> None:
    one, law = tree()
    coins = np.random.default_rng(6)
    masks = {place: coins.random((8, size)) < 0.6 for place, size in enumerate(SIZES)}
    expected = [law[np.ix_(*(masks[place][group] for place in range(4)))].sum() for group in range(8)]
    assert one.chances(masks) == pytest.approx(expected)
    del masks[2]
    every = np.ones(SIZES[2], dtype=bool)
    expected = [law[np.ix_(masks[0][g], masks[1][g], every, masks[3][g])].sum() for g in range(8)]
    assert one.chances(masks) == pytest.approx(expected)


def test_the_tree_draws_with_these_chances() -> None:
    """20,000 draws within a set; a frequency is off by five standard errors once in a million."""
    one, law = tree()
    number = 20_000
    sets = ([True, True, False], [True, False, True, True], [True, True], [False, True, True])
    masks = {place: np.tile(np.array(own), (number, 1)) for place, own in enumerate(sets)}
    drawn = one.drawn(masks, np.random.default_rng(7).random)
    found = np.zeros(SIZES)
    np.add.at(found, tuple(drawn[place] for place in range(4)), 1.0 / number)
    expected = np.zeros(SIZES)
    inside = np.ix_(*(np.flatnonzero(own) for own in sets))
    expected[inside] = law[inside] / law[inside].sum()
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected / number)).all()


def test_counts_above_zero_keep_those_of_coarser_labels() -> None:
    """Labels that nobody has, with noise around 0, take nothing from labels of other intervals."""
    column = COLUMNS[0]
    counts = np.array([0.0, 0.0, 100, 90, 110, 3, -4, 2, 50, 60, 55, 5, -6, 4, 0])
    counts = counts[: column.size]
    total = float(counts.sum())
    fitted = counts_above_zero(counts, column, records=total)
    assert fitted.min() >= 0
    assert fitted.sum() == pytest.approx(total)
    coarse = labels_to(column, 1)
    sums = [np.bincount(coarse, own, minlength=column.hierarchy.size(1)) for own in (counts, fitted)]
    assert sums[1] == pytest.approx(np.maximum(sums[0], 0), abs=1e-6)


def test_a_copy_of_blocks_has_the_columns_of_all_tables() -> None:
    whole = published()
    [table] = whole.rows
    stage = table.stages[0]
    part = RowTable(columns=(0, 1), stages=(replace(stage, levels=stage.levels[:2], codes=stage.codes[:2]),))
    coins = np.random.default_rng(8)
    codes = completed_codes(replace(whole, rows=(part,)), coins.random, coins.standard_normal)
    assert sorted(codes) == [0, 1, 2]
