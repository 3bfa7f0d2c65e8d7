"""COUNT, SUM and MEAN as releases: near the truth, with their intervals, under the relation of the budget."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

SPEC = """
[release]
name = "asked"
output = "out"
[data]
dataset = "people"
source = "amounts.csv"
[answer]
{answer}
"""
TOWN = '\n[columns.town]\nvalues = ["East", "North", "South"]\nlevel = 0\n'
COUNT = 'kind = "count"\nepsilon = 1\ncolumn = "town"'
SUM = 'kind = "sum"\nepsilon = 1\ncolumn = "amount"\nlower = -10\nupper = 100'
MEAN = 'kind = "mean"\nepsilon = 5\ncolumn = "amount"\nlower = 0\nupper = 100\nleast_records = 100'
# North has 400 records of 7, one that is missing, one far beyond the bounds and one that is no whole number.
AMOUNTS = ["North,7"] * 400 + ["North,", "North,999999", "North,1.5"] + ["South,-3"] * 200


@pytest.fixture
def asked(desk):
    """A desk with amounts and a budget, which asks and gives result and rows."""
    (desk.folder / "amounts.csv").write_text("town,amount\n" + "\n".join(AMOUNTS) + "\n")
    desk.add_dataset()

    def ask(answer: str, *words: str, columns: str = "") -> tuple[dict, list[dict]]:
        spec = desk.folder / "asked.toml"
        spec.write_text(SPEC.format(answer=answer) + columns)
        done = desk.succeed("run", spec, "--json", *words)
        return done.json, pq.read_table(Path(done.json["output"]) / "data.parquet").to_pylist()

    return ask


def test_a_count_of_all_records_is_near_the_truth(asked) -> None:
    """Pr[|noise| > 30] < 2e-13 at ε = 1."""
    result, [row] = asked(COUNT)
    assert abs(row["answer"] - len(AMOUNTS)) <= 30
    assert row["interval_low"] < row["answer"] < row["interval_high"]
    assert (result["epsilon"], result["delta"], result["published_records"]) == (1.0, 0.0, None)


@pytest.mark.slow
def test_a_sum_clamps_what_is_beyond_and_counts_what_is_missing_as_declared(asked) -> None:
    """400·7 + 50 (missing) + 100 (beyond) + 50 (no whole number) − 600; Pr[|noise| > 3000] < 2e-13 at Δ/ε = 100."""
    _, [row] = asked(SUM + "\nmissing = 50")
    assert abs(row["answer"] - 2_400) <= 3_000
    result, [exact] = asked(SUM.replace("epsilon = 1", "epsilon = 9") + "\nmissing = 50", "--output", "other")
    assert abs(exact["answer"] - 2_400) <= 400
    certificate = json.loads(Path(result["certificate"]).read_text())
    assert certificate["published"] == {
        "form": "answer", "groups": 1, "records": None, "missing": 50, "confidence": "0.95",
    }  # fmt: skip


@pytest.mark.slow
def test_a_mean_by_group_answers_empty_groups_too(asked, desk) -> None:
    _, rows = asked(MEAN + '\nby = ["town"]', columns=TOWN)
    assert [row["town"] for row in rows] == ["*", "East", "North", "South"]
    means = {row["town"]: row["answer"] for row in rows}
    # Noise of scale 1/5 on each; Pr[any of 4 beyond 7] < 1e-14.
    assert abs(means["North"] - (2_800 + 100) / 403) < 7
    assert abs(means["South"]) < 7
    assert abs(means["East"]) < 7


@pytest.mark.slow
def test_an_answer_on_a_sample_is_amplified_and_scaled_up(asked) -> None:
    result, [row] = asked(COUNT, columns="[sampling]\nrate = 0.5\n")
    assert 0.62 < result["epsilon"] < 0.6202  # ln(1 + (e − 1)/2)
    assert abs(row["answer"] - len(AMOUNTS)) <= 200  # eight standard deviations of the sample
    assert row["answer"] % 2 == 0


def test_a_sampled_sum_whose_error_nobody_can_tell_is_refused_before_its_charge(asked, desk) -> None:
    """It was charged, and its draw stored, before its standard error was found to be unknown."""
    spec, sampled = desk.folder / "sampled.toml", "[sampling]\nrate = 0.5\n"
    spec.write_text(SPEC.format(answer=SUM) + sampled)
    for words in ((), ("--dry-run",)):
        refused = desk.refuse("run", spec, *words, said="bounds of one sign")
        assert "[answer].lower" in refused.err
    assert desk("ledger", "show", "--json").json["releases"] == []
    _, [row] = asked(SUM.replace("lower = -10", "lower = 0"), columns=sampled)
    assert row["standard_error"] > 0


@pytest.mark.slow
def test_a_replacement_price_never_enters_an_add_remove_budget(asked, desk) -> None:
    spec = desk.folder / "replaced.toml"
    spec.write_text(SPEC.format(answer=SUM + '\nrelation = "replacement"'))
    desk.refuse("run", spec, code=3, said="relation replacement")
    added = desk("dataset", "add", "public-number", "--epsilon", "3", "--delta", "0.1", "--relation", "replacement")
    assert added.code == 0
    spec.write_text(spec.read_text().replace('"people"', '"public-number"'))
    done = desk.succeed("run", spec, "--json")
    words = json.loads(Path(done.json["certificate"]).read_text())["guarantee"]["in_words"]
    assert "had any other values, the number of people being public" in words
    # And the other way round.
    spec.write_text(spec.read_text().replace('relation = "replacement"', ""))
    assert desk("run", spec, "--output", "again").code == 3
    desk.succeed("ledger", "verify")


MOMENTS = 'kind = "moments"\nepsilon = 10'
AMOUNT = "\n[columns.amount]\nbounds = { lower = -10, upper = 100 }\n"


def test_sums_of_products_are_near_the_truth_and_leave_out_what_has_no_number(asked, desk) -> None:
    """Of 601 complete records, by the centre 45; within 30 scales of their noise, 2e-13 each."""
    result, rows = asked(MOMENTS, columns=AMOUNT + TOWN)
    told = {(row["column"], row["label"], row["second_column"], row["second_label"]): row for row in rows}
    towns = [("town", town, None, None) for town in ("East", "North", "South")]
    exact = {
        (None, None, None, None): (601, 1),
        ("amount", None, None, None): (400 * -38 + 55 + 200 * -48, 55),
        ("amount", None, "amount", None): (400 * 38**2 + 55**2 + 200 * 48**2, 55**2),
        **dict(zip(towns, [(0, 1), (401, 1), (200, 1)], strict=True)),
        ("amount", None, "town", "East"): (0, 55),
        ("amount", None, "town", "North"): (400 * -38 + 55, 55),
        ("amount", None, "town", "South"): (200 * -48, 55),
    }
    assert told.keys() == exact.keys()
    for place, (true, most) in exact.items():
        assert abs(told[place]["answer"] - true) <= 30 * most * 5 / 10
        assert told[place]["interval_low"] < told[place]["answer"] < told[place]["interval_high"]
    assert (result["epsilon"], result["delta"]) == (10.0, 0.0)
    assert result["mechanism"]["columns"] == "-10 to 100; 3 labels"
    published = json.loads(Path(result["certificate"]).read_text())["published"]
    assert published["moments"] == [
        {"column": "amount", "lower": -10, "upper": 100, "centre": 45},
        {"column": "town", "labels": 3},
    ]
    desk.succeed("verify", result["output"])
    desk.succeed("ledger", "verify")
