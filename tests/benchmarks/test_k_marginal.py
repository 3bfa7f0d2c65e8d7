"""NIST's score of pairs of columns: what it gives for the records themselves, and by extra what the releases score."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.utility import k_marginal
from benchmarks.utility.k_marginal import COLUMNS, VALUES, Records, ages, codes


def test_the_records_themselves_score_all_and_disjoint_ones_nothing():
    coins = np.random.default_rng(1)
    true = [np.eye(size)[coins.integers(0, size - 1, 500)] for size in (3, 4, 5)]
    assert k_marginal.k_marginal(true, true, weights=np.ones(500)) == pytest.approx(1000)
    assert k_marginal.k_marginal(true, true, weights=np.full(500, 7.0)) == pytest.approx(1000)
    others = [np.eye(size)[np.full(9, size - 1)] for size in (3, 4, 5)]
    assert k_marginal.k_marginal(true, others, weights=np.ones(9)) == pytest.approx(0)


def test_every_map_merges_each_value_once_and_the_coarse_one_coarsens_the_fine_one(tmp_path):
    for one in k_marginal.MAPS.values():
        assert set(one) == set(COLUMNS) == set(VALUES)
        for name, groups in one.items():
            if groups:
                assert sorted(value for group in groups for value in group) == sorted(VALUES[name])
    for name in COLUMNS:
        fine, coarse = k_marginal.FINE[name], k_marginal.COARSE[name]
        if coarse:
            assert all(any(set(group) <= set(above) for above in coarse) for group in fine)
    assert ages(15)[0] == tuple(map(str, range(15)))
    assert codes("1 2", "N") == [("1", "2"), ("N",)]
    records = Records(file=tmp_path / "none.csv", work=tmp_path)
    lines = records._hierarchy("DVET", [k_marginal.USUAL["DVET"], k_marginal.ALL]).read_text().splitlines()
    assert lines[:3] == ["N;N;*;*", "1;1 to 6;*;*", "2;1 to 6;*;*"]


@pytest.mark.extra
def test_a_calibrated_release_of_nists_excerpt_scores_860_and_more(tmp_path):
    records = Records(file=Path(os.environ["CROWDBLEND_NIST"]) / "ma2019.csv", work=tmp_path)
    records.add()
    true = k_marginal.ones(records.codes)
    found = k_marginal.deletion(records, true, margins=True, maps=("fine", "coarse"))
    assert found.score >= 860
    assert int(re.sub(",", "", found.kept.split()[0])) > 3_000
