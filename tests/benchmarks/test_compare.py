"""The comparison of ways of publishing: it runs, goes on where it stopped, and measures what it says."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from benchmarks.utility import compare
from benchmarks.utility.compare import Cell, Results
from benchmarks.utility.measures import Truth, auc
from benchmarks.utility.tables import Table, census
from benchmarks.utility.ways import WAYS

PAGE = Path(__file__).parents[2] / "docs" / "utility.md"


@pytest.mark.slow
def test_a_quick_run_tells_of_every_way(capsys):
    compare.main(["--quick"])
    told = capsys.readouterr().out
    scores = {way: [line for line in told.splitlines() if line.startswith(f"| {way} |")] for way in WAYS}
    assert all(len(lines) == 2 for lines in scores.values())
    kept = {way: float(lines[1].split("|")[10].strip(" %")) for way, lines in scores.items()}
    assert kept["deletion, three stages"] > kept["deletion"] > kept["sampled"] > 0
    assert kept["noisy histogram"] == 0


@pytest.mark.parametrize(
    ("prices", "drawn"),
    [(["0.5", "1"], ["utility-counts.svg", "utility-k-marginal.svg"]), (["1"], ["utility-rows.svg"])],
)
def test_a_page_draws_the_pictures_that_it_shows_and_no_other_page_s(tmp_path, prices, drawn):
    page = tmp_path / "page.md"
    page.write_text(f"<!-- begin of {compare.BY} -->\n<!-- end of {compare.BY} -->\n")
    words = ["--no-run", "--no-peers", "--numbers", "7000", "--epsilons", *prices, "--ways", "sampled", "deletion"]
    compare.main([*words, *(str(word) for word in ("--work", tmp_path, "--write", page, "--pictures", tmp_path))])
    assert sorted(file.name for file in tmp_path.glob("*.svg")) == drawn
    assert f"Not run: *sampled*, *deletion* at ε = {', '.join(prices)} for Census 7,000." in page.read_text()


def scores(table: str, number: str) -> dict[str, float]:
    """Way → its median k-marginal at ε = 1, as the page has it."""
    part = PAGE.read_text(encoding="utf-8").partition(f"### {table}")[2].partition("###")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if f"| {number} |" in line]
    return {row[0]: float(row[4].split()[0]) for row in rows if row[4] != "–"}


def test_records_that_are_published_as_they_are_have_no_error():
    table = census()
    truth = Truth(table=table, records=table.resized(2_000))
    found = truth.measured(truth.whole)
    assert found["k-marginal"] == pytest.approx(1000)
    assert found["counts"] == pytest.approx(0, abs=1e-9)
    assert found["means"] == pytest.approx(0, abs=1e-9)
    assert (found["records kept"], found["small groups kept"], found["invented"]) == (1, 1, 0)


def test_counts_of_columns_that_the_published_rows_do_not_tell_apart_are_those_of_each():
    others = np.arange(1, 101)
    alike, apart = np.zeros((3, 2_000), dtype=int), np.stack([others * 0, others * 0 + 1, others]).repeat(5, axis=1)
    table = Table(
        name="made",
        title="made",
        short="made",
        labels={
            "one": [("a", "ab"), ("b", "ab")],
            "other": [("c", "cd"), ("d", "cd")],
            "many": [(str(value), "any") for value in range(101)],
        },
        records=np.hstack([alike, apart]),
        amounts=("many", np.arange(101.0)),
        target=("other", 1),
    )
    released = WAYS["sampled, calibrated"](table, table.records, Decimal(100), np.random.default_rng(1))
    assert released.rows.size == 1
    found = Truth(table=table, records=table.records).measured(released)
    assert found["coverage, one column"] == 1
    assert "coverage, two columns" not in found


def test_a_yes_above_every_no_is_told_apart_and_ties_count_half():
    assert auc(np.array([1.0, 0.0]), np.array([True, False]), np.array([3.0, 5.0])) == 1
    assert auc(np.array([1.0, 1.0]), np.array([True, False]), np.array([3.0, 5.0])) == 0.5
    assert auc(np.array([2.0, 0.0, 1.0]), np.array([True, True, False]), np.array([1.0, 3.0, 1.0])) == 0.25


def test_a_draw_is_kept_once_it_is_made_and_half_a_line_is_none(tmp_path):
    cell = Cell(table="census", number=7, epsilon=Decimal("0.5"), way="sampled")
    file = tmp_path / "results.jsonl"
    Results(file=file).add(cell, {"counts": 0.25, "means": float("nan")})
    with file.open("a") as more:
        more.write('{"cell": "census/7/0.5/sam')
    again = Results(file=file)
    assert again.of(cell) == [{"counts": 0.25}]
    again.add(cell, {"counts": 0.5})
    assert Results(file=file).of(cell) == [{"counts": 0.25}, {"counts": 0.5}]
