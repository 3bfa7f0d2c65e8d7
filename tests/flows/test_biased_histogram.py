"""Unequal inclusion rates as releases: drawn with fresh coins, or those of a survey, which is released once, ever."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

SPEC = """
[release]
name = "unequal"
output = "out"
[data]
dataset = "people"
source = "rated.parquet"
{sampling}
[histogram]
kind = "{kind}"
{parameters}
[privacy]
delta = {delta}
[columns.cell]
interval = {{ lower = 0, upper = 400, widths = [] }}
level = 0
"""
DRAWN = '[sampling]\ncolumn = "rate"\nrates = [0.1, 0.2]'
DESIGN = "[sampling.design]\nlowest = 0.1\nhighest = 0.2\nexceptions = 1"


def spec_of(desk, sampling: str, *, kind: str = "suppressed", parameters: str = "k = 12", delta: str = "1e-3") -> Path:
    path = desk.folder / "unequal.toml"
    path.write_text(SPEC.format(sampling=sampling, kind=kind, parameters=parameters, delta=delta))
    return path


def write_rated(desk, cells: Iterable[int], rates: Iterable[float | str]) -> None:
    table = pa.table({"cell": pa.array(cells, type=pa.int64()), "rate": pa.array(rates)})
    pq.write_table(table, desk.folder / "rated.parquet")


def counts_of(result: dict) -> dict[str, int]:
    table = pq.read_table(Path(result["output"]) / "data.parquet")
    return dict(zip(table["cell"].to_pylist(), table["count"].to_pylist(), strict=True))


def test_every_record_is_drawn_with_its_own_rate(desk) -> None:
    """200 cells of 400 records at either rate: binomial sums, at a false-alarm rate of 1e-6, and 10% off must fail."""
    cells = np.repeat(np.arange(400), 400)
    write_rated(desk, cells, np.where(cells < 200, 0.1, 0.25))  # 0.25 is drawn as the highest declared rate, 0.2
    desk.add_dataset(delta="0.1")
    done = desk.succeed("run", spec_of(desk, DRAWN), "--json")
    counts = counts_of(done.json)
    found = np.array([counts[str(cell)] for cell in range(400)])
    assert found.min() > 12, "none is suppressed, so that the counts are the sample's"
    assert counts["< 0"] == counts[">= 400"] == counts["*"] == 0
    for half, rate in ((found[:200], 0.1), (found[200:], 0.2)):
        drawn, records = int(half.sum()), 200 * 400
        assert stats.binomtest(drawn, records, rate).pvalue > 1e-6
        assert stats.binomtest(drawn, records, rate * 1.1).pvalue < 1e-6
        assert stats.binomtest(drawn, records, rate / 1.1).pvalue < 1e-6
        spread = 400 * rate * (1 - rate)
        assert abs(half.var() / spread - 1) < 6 * math.sqrt(2 / 200)
    assert done.json["mechanism"] == {
        "kind": "unequal-rates-histogram/1", "k": 12, "sampling_rate": "0.2", "lowest_rate": "0.1",
    }  # fmt: skip
    assert "each at the rate that it names itself" in Path(done.json["certificate"]).read_text()
    assert "rate" not in pq.read_schema(Path(done.json["output"]) / "data.parquet").names


def test_a_survey_of_people_with_several_records_is_refused_wherever_it_is_declared(desk) -> None:
    several = ("--rows-per-person", "5")
    added = desk("dataset", "add", "people", "--survey-rate", "0.2", *several, "--epsilon", "9", "--delta", "0.1")
    assert added.code == 2, added
    assert "draws all of them with one coin" in added.err
    assert not (desk.folder / "ledger.db").exists()
    spec = spec_of(desk, DESIGN)
    spec.write_text(spec.read_text().replace("[sampling.design]", "rows_per_person = 5\n[sampling.design]"))
    for command in ("explain", "run"):
        desk.refuse(command, spec, said="[data].rows_per_person: no price is proved")


@pytest.fixture
def survey(desk):
    """A desk with a file that is a sample, and its registration as one."""
    write_rated(desk, [1] * 60 + [2] * 11 + [3] * 30, ["0.1"] * 71 + ["0.2", "0.3", ""] * 10)
    desk.succeed("dataset", "add", "people", "--survey-rate", "0.2", "--epsilon", "9", "--delta", "0.1")
    return desk


def test_a_survey_is_counted_as_it_is_and_released_once_ever(survey) -> None:
    done = survey("run", spec_of(survey, DESIGN), "--json")
    assert done.code == 0, done.err
    counts = counts_of(done.json)
    assert (counts["1"], counts["2"], counts["3"]) == (60, 0, 30)
    assert done.json["mechanism"] == {
        "kind": "biased-sample-counts/1", "k": 12, "lowest_rate": "0.1", "highest_rate": "0.2", "largest_rate": "0.2",
        "exceptions": 1,
    }  # fmt: skip
    words = json.loads(Path(done.json["certificate"]).read_text())["guarantee"]
    assert "absent from the population that was sampled" in words["in_words"]
    assert "iRS(0.1, 0.2, 1)" in words["in_words"]
    assert "Theorem 2" in words["theorem"]
    assert survey("verify", done.json["certificate"]).code == 0
    assert survey("ledger", "verify").code == 0
    for again in (spec_of(survey, DESIGN), spec_of(survey, "[sampling]\nrate = 0.1")):
        survey.refuse("run", again, "--output", "again", code=3, said="released once")
    answer = spec_of(survey, DESIGN).read_text().split("[sampling.design]")[0] + '[answer]\nkind = "count"\n'
    (survey.folder / "answer.toml").write_text(answer + 'column = "cell"\nepsilon = 0.1\n')
    assert survey("run", survey.folder / "answer.toml", "--output", "again").code == 3
    assert not (survey.folder / "again").exists()


@pytest.mark.slow
def test_surveyed_records_beyond_the_bounds_are_left_out_and_nobody_is_told(survey) -> None:
    done = survey("run", spec_of(survey, DESIGN + '\ncolumn = "rate"'), "--json")
    assert done.code == 0, done.err
    counts = counts_of(done.json)
    assert (counts["1"], counts["2"], counts["3"]) == (60, 0, 0), "of the 30 only 10 have a rate within the bounds"


@pytest.mark.slow
def test_a_survey_that_was_released_in_another_way_has_no_biased_price_left(survey) -> None:
    assert survey("run", spec_of(survey, "[sampling]\nrate = 0.1")).code == 0
    survey.refuse("run", spec_of(survey, DESIGN), "--output", "again", code=3, said="released once")


def test_a_design_needs_a_data_set_that_is_registered_as_a_sample(desk) -> None:
    write_rated(desk, [1] * 60, ["0.1"] * 60)
    desk.add_dataset(delta="0.1")
    desk.refuse("run", spec_of(desk, DESIGN), code=3, said=("not registered as a sample", "--survey-rate"))
    added = desk("dataset", "add", "denser", "--survey-rate", "0.3", "--epsilon", "9", "--delta", "0.1")
    assert added.code == 0
    spec = spec_of(desk, DESIGN)
    spec.write_text(spec.read_text().replace('"people"', '"denser"'))
    desk.refuse("run", spec, code=3, said="registered as sampled at 0.3")
    shown = desk("ledger", "show", "--json").json
    assert shown["releases"] == []
    assert {dataset["epsilon_spent"] for dataset in shown["datasets"]} == {0.0}
