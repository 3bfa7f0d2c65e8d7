"""Histograms as releases: every declared cell, noise of the formula, paid for, and refused where there is no price."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

SPEC = """
[release]
name = "cells"
output = "out"
[data]
dataset = "people"
source = "people.csv"
separator = ";"
{sampling}
[histogram]
{histogram}
[privacy]
delta = 1e-6
[columns.colour]
values = ["blue", "green", "red"]
level = 0
[columns.age]
interval = {{ lower = 0, upper = {upper}, widths = [10] }}
level = {level}
"""
RATE = "[sampling]\nrate = 0.1"
SUPPRESSED = 'kind = "suppressed"\nk = 20'
NOISY = 'kind = "noisy"\nk = 20\nepsilon = 0.5'
OUTLIER = 'kind = "outlier-private"\nepsilon = 0.5\nhorizon = 120\nmargin = 100'


def spec_of(desk, histogram: str, *, sampling: str = "", upper: int = 100, level: int = 1) -> Path:
    path = desk.folder / "spec.toml"
    path.write_text(SPEC.format(histogram=histogram, sampling=sampling, upper=upper, level=level))
    return path


def published(result: dict) -> np.ndarray:
    return pq.read_table(Path(result["output"]) / "data.parquet").column("count").to_numpy()


def ran(desk, spec: Path, *words: str) -> dict:
    answer = desk.succeed("run", spec, "--json", *words)
    return answer.json


@pytest.mark.slow
def test_sampled_counts_have_the_distribution_of_the_formula(desk) -> None:
    """600 cells of 200 records at rate 0.1, k = 20: χ² of what is published, at a false-alarm rate of 1e-6.

    Half of the cells are below k. Counts of a sample whose rate is 10% off in either direction must fail it.
    """
    cells, records, k, loss = 600, 200, 20, 0.5
    lines = [f"red;{cell}" for cell in range(cells)] * records
    (desk.folder / "people.csv").write_text("colour;age\n" + "\n".join(lines) + "\n")
    desk.add_dataset()
    spec = spec_of(desk, NOISY, sampling=RATE, upper=cells, level=0)
    spec.write_text(spec.read_text().replace('[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n', ""))
    result = ran(desk, spec)
    table = pq.read_table(Path(result["output"]) / "data.parquet").to_pylist()
    found = np.array([row["count"] for row in table if row["age"].isdigit()])
    assert found.size == cells

    def p_value(rate: float) -> float:
        outcomes = np.arange(-40, records + 41)
        sampled = stats.binom.pmf(np.arange(records + 1), records, rate)
        masses = np.zeros(outcomes.size)
        masses[40 + k : 40 + records + 1] = sampled[k:]
        decay = np.exp(-loss)
        for count in range(k):
            spread = (1 - decay) / (1 + decay) * decay ** np.abs(outcomes - count)
            masses += sampled[count] * (spread)
        expected = masses * cells
        groups = np.minimum(np.cumsum(expected) // 12, np.floor(expected.sum() / 12) - 1).astype(int)
        observed = np.bincount(groups[found + 40], minlength=groups.max() + 1)
        pooled = np.bincount(groups, weights=expected)
        keep = pooled > 0
        return float(stats.chisquare(observed[keep], pooled[keep] * cells / pooled.sum()).pvalue)

    assert p_value(0.1) > 1e-6
    assert p_value(0.11) < 1e-6
    assert p_value(0.1 / 1.1) < 1e-6


def test_a_suppressed_histogram_shows_every_cell_and_nothing_below_k(desk) -> None:
    desk.add_dataset()
    result = ran(desk, spec_of(desk, SUPPRESSED, sampling=RATE))
    counts = published(result)
    assert counts.size == result["published_groups"] == 4 * 13
    assert all(count == 0 or count >= 20 for count in counts)
    assert result["published_records"] == counts.sum() > 100
    ledger = desk("ledger", "show", "--json").json
    assert ledger["releases"][0]["sample_id"] == result["sample_id"]


@pytest.mark.slow
def test_an_outlier_private_histogram_counts_every_record(desk) -> None:
    desk.add_dataset()
    counts = published(ran(desk, spec_of(desk, OUTLIER)))
    large = counts[counts > 200]
    assert large.size == 6
    assert np.abs(large - 400).max() < 60  # P(|noise| ≥ 60) = 2e-13 at ε = 0.5
    assert (counts[counts < 200] != 0).any()
