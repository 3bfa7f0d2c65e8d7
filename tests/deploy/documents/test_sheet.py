"""The researcher's sheet: what it says is so, what it shows is published, and its code runs."""

from __future__ import annotations

import csv
import dataclasses
import html
import json
import math
import os
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.theory.count_bounds import NormalBounds
from crowdblend.deploy.documents.document_registry import verified_release
from crowdblend.deploy.documents.rendering import cell, digits_up, plain_text
from crowdblend.deploy.documents.sheet.facts import SheetFacts, sheet_facts
from crowdblend.deploy.documents.sheet.render_sheet import snippets
from crowdblend.mechanisms.hierarchies.codebook import stage_labels
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from scipy import stats

PLANTED = "Zanzibar7"


def written(office, release: Path, *words: str) -> tuple[str, str]:
    """The sheet's HTML and Markdown, from a fresh folder."""
    place = office.folder / f"sheets-{os.urandom(4).hex()}"
    place.mkdir()
    answer = json.loads(office("sheet", str(release), "--output", str(place), "--json", *words))
    return Path(answer["html"]).read_text(), Path(answer["markdown"]).read_text()


def code_of(markdown: str, *, part: str = "How to load it") -> dict[str, str]:
    """The snippets as a researcher copies them, by the heading above each."""
    text = markdown.split(f"\n## {part}\n")[1].split("\n## ", maxsplit=1)[0]
    return dict(re.findall(r"^### (\w+)\n\n```\w+\n(.*?)```", text, re.DOTALL | re.MULTILINE))


def laid_out(office, release: Path, place: Path) -> str:
    """Copies of a release's files and of its documents in one folder, as a researcher has them; the sheet."""
    shutil.copytree(release, place)
    answer = json.loads(office("sheet", str(release), "--output", str(place.with_name("documents")), "--json"))
    shutil.copy(answer["labels"], place)
    return Path(answer["markdown"]).read_text()


COMBINATIONS = 13
"""Ten intervals of ten years, the two outside, and `*`: what is declared beside a town."""


def expected(release: Path) -> dict[str, tuple[float, float, float]]:
    """People by the first column, at least and at most, from the table itself, by hand."""
    if (release / "data.parquet").exists():
        rows = [(row["the town"], row["age"], 1) for row in pq.read_table(release / "data.parquet").to_pylist()]
    else:
        with (release / "data.csv").open(newline="") as file:
            rows = [(row["the town"], row["age"], int(row["count"])) for row in csv.DictReader(file)]
    found = {}
    for town in {town for town, _, _ in rows}:
        counted = sum(count for one, _, count in rows if one == town)
        groups = len({age for one, age, _ in rows if one == town})
        if release.name == "noisy":
            alpha = math.exp(-0.5)
            noise = (COMBINATIONS + 0.2) * 2 * alpha / (1 - alpha) ** 2
            assert groups == COMBINATIONS, "every cell is in the table"
            low = counted - 1 - 1.959964 * math.sqrt(max(counted - 1, 0) * 0.8 + noise)
            root = max(counted + 1, 0) * 0.8 + 1.959964**2 / 4 + noise
            high = counted + 1 + 1.959964**2 / 2 + 1.959964 * math.sqrt(root)
            found[town] = (counted / 0.2, max(low, 0) / 0.2, max(high, 0) / 0.2)
        else:
            most = counted + 19 * (COMBINATIONS - groups)
            sizes = np.arange(10 * most + 200)
            low = sizes[stats.binom.sf(counted - 1, sizes, 0.2) > 1 / 40][0]
            high = sizes[stats.binom.cdf(most, sizes, 0.2) > 1 / 40][-1]
            found[town] = (counted / 0.2, float(low), float(high))
    return found


@pytest.fixture(params=["rows", "noisy"])
def release(request) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.slow
def test_each_snippet_runs_and_gives_the_same_estimates(office, release, monkeypatch) -> None:
    code = code_of(written(office, release)[1])
    assert set(code) == {"crowdblend", "pandas", "Polars", "DuckDB", "R"}
    monkeypatch.chdir(release)
    people = expected(release)
    kit: dict = {}
    exec(code["crowdblend"], kit)  # noqa: S102 - what a researcher would run
    told = {row["the town"]: row for row in kit["shown"].to_dict("records")}
    assert people.keys() <= told.keys()
    if release.name == "rows":
        for label, (number, low, high) in people.items():
            assert (told[label]["estimate"], told[label]["lower"], told[label]["upper"]) == (
                pytest.approx(number), low, high,
            )  # fmt: skip
    assert len(people) >= 2
    assert all(low <= max(number, 0) <= high and (low < high or number < 0) for number, low, high in people.values())
    found = run(code, by="the town")
    if release.name == "rows":
        for label, (number, low, high) in found.pop("DuckDB").items():
            exact = people[label]
            assert number == pytest.approx(exact[0])
            assert exact[1] - 15 <= low < exact[1] < exact[2] < high <= exact[2] + 15
    for one in found.values():
        assert one == {label: pytest.approx(three) for label, three in people.items()}


def run(code: dict[str, str], *, by: str) -> dict[str, dict[str, tuple[float, float, float]]]:
    """What each tool says of each label, R's only where it is asked for."""
    spaces: list[dict] = [{}, {}]
    exec(code["pandas"], spaces[0])  # noqa: S102 - what a researcher would run
    exec(code["Polars"], spaces[1])  # noqa: S102
    frames = pd.DataFrame({name: spaces[0][name] for name in ("people", "at_least", "at_most")})
    return {
        "pandas": {str(row[0]): row[1:] for row in frames.itertuples()},
        "Polars": {row[by]: (row["people"], row["at_least"], row["at_most"]) for row in spaces[1]["counts"].to_dicts()},
        "DuckDB": {row[0]: row[1:] for row in duckdb.sql(code["DuckDB"]).fetchall()},
    }


def run_r(code: str, folder: Path) -> dict[str, tuple[float, ...]]:
    """What R prints of each label; labels without spaces."""
    done = subprocess.run(["Rscript", "-e", code], cwd=folder, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    return {label: tuple(map(float, numbers)) for label, *numbers in lines}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noisy", "table"])
def test_the_snippet_for_r_runs(needs, office, request, name) -> None:
    needs(shutil.which("Rscript") is not None, "R", "CROWDBLEND_TEST_R")
    release = request.getfixturevalue(name)
    code = code_of(written(office, release)[1])["R"]
    assert run_r(code, release) == {label: pytest.approx(three, rel=1e-4) for label, three in expected(release).items()}


def test_chances_and_intervals_are_those_of_the_binomial(rows) -> None:
    facts = sheet_facts(verified_release(rows))
    assert facts.weight == pytest.approx(5)
    for row in facts.chances:
        assert row.published == pytest.approx(stats.binom.sf(19, row.people, 0.2))
        sizes = np.arange(20, row.people + 1)
        mean = (sizes * stats.binom.pmf(sizes, row.people, 0.2)).sum() / stats.binom.sf(19, row.people, 0.2)
        assert row.estimate == pytest.approx(mean / 0.2)
        assert row.published != pytest.approx(stats.binom.sf(20, row.people, 0.2)), "the control: another threshold"
    for row in facts.intervals:
        assert row.people == pytest.approx(5 * row.published)
        sizes = np.arange(row.published, 8 * row.published + 100)
        shown = stats.binom.sf(19, sizes, 0.2)
        possible = (stats.binom.sf(row.published - 1, sizes, 0.2) > shown / 40) & (
            stats.binom.cdf(row.published, sizes, 0.2) - stats.binom.cdf(19, sizes, 0.2) > shown / 40
        )
        assert (row.low, row.high) == (sizes[possible][0], sizes[possible][-1])
    assert [row.published for row in facts.intervals] == [20, 40, 100, 200, 2_000, 20_000, 200_000]
    assert facts.most_absent == max(n for n in range(1_000) if stats.binom.cdf(19, n, 0.2) > 1 / 40)


def test_what_can_be_found_is_the_best_of_all_tests_between_a_dominating_pair(rows) -> None:
    """Neyman and Pearson on the pair of four outcomes that attains both inequalities of (ε, δ) everywhere."""
    facts = sheet_facts(verified_release(rows))
    epsilon, delta = (float(facts.certificate["guarantee"][name]) for name in ("epsilon", "delta"))
    share = (1 - delta) / (1 + math.exp(epsilon))
    present, absent = [delta, math.exp(epsilon) * share, share, 0.0], [0.0, share, math.exp(epsilon) * share, delta]
    for attempt in facts.attempts:
        left, found = attempt.false_alarms, 0.0
        for there, not_there in zip(present, absent, strict=True):  # in order of their ratios
            part = 1.0 if not_there <= left else left / not_there
            found, left = found + part * there, left - part * not_there
        assert attempt.found == pytest.approx(found, rel=1e-9)
        assert attempt.found > attempt.false_alarms


@pytest.mark.slow
def test_every_label_on_the_sheet_is_published_and_no_mark_is_on_it(office, release) -> None:
    pages = written(office, release)
    facts = sheet_facts(verified_release(release))
    labels = set(expected(release)) | {"*"}
    assert set(facts.columns[0].examples) <= labels
    private = (office.folder / "people.csv").read_text()
    assert private.count(PLANTED) > 6_000, "the control: the mark is in the records"
    for page, shown in zip(pages, (html.escape, cell), strict=True):
        assert PLANTED not in page
        for column in facts.columns:
            assert all(shown(example) in page for example in column.examples)


def test_it_is_a_function_of_the_release_alone(rows, tmp_path, office) -> None:
    """Without ledger, private store and records, byte for byte the same."""
    lone = tmp_path / "lone" / "rows"
    shutil.copytree(rows, lone)
    environment = {"PATH": os.environ["PATH"], "CROWDBLEND_HOME": str(tmp_path / "none"), "HOME": str(tmp_path)}
    words = [sys.executable, "-m", "crowdblend.deploy", "sheet", "rows", "--output", str(tmp_path), "--publisher", "O"]
    subprocess.run(words, cwd=lone.parent, env=environment, check=True, capture_output=True)
    here = written(office, rows, "--publisher", "O")
    found = sorted(tmp_path.glob("*-sheet.*"))
    assert [path.read_text() for path in found] == list(here)
    [labels] = tmp_path.glob("*-labels.csv")
    names = ["lone", labels.name, *(path.name for path in found)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_changed_release_has_no_sheet(office, rows, tmp_path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(rows, changed)
    text = (changed / "certificate.json").read_text()
    (changed / "certificate.json").write_text(text.replace('"k": 20', '"k": 50'))
    with pytest.raises(AssertionError, match="does not verify"):
        office("sheet", str(changed), "--output", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["changed"]


def test_it_can_be_cited(office, rows) -> None:
    _, markdown = written(office, rows, "--publisher", "Bureau & Sons {x}")
    certificate = json.loads((rows / "certificate.json").read_text())
    for fact in (certificate["release_id"], certificate["files"]["data.parquet"], certificate["guarantee"]["epsilon"]):
        assert markdown.count(fact) >= 2
    assert r"author = {{Bureau \& Sons \{x\}}}" in markdown


@pytest.mark.parametrize("file", ["data.parquet", "data.csv"])
@pytest.mark.parametrize("shape", ["microdata", "counts"])
@pytest.mark.parametrize("column", ["town", 'a"b', "a'b", "a b", "ünï"])
def test_snippets_load_every_shape_and_name(tmp_path, monkeypatch, rows, file: str, shape: str, column: str) -> None:
    """On tables of those shapes; the labels look like numbers and nulls, and stay texts."""
    facts = sheet_facts(verified_release(rows))
    own = dataclasses.replace(facts.columns[0], name=column)
    labels = ["01", "01", "NA", "7", "*"]
    frame = pd.DataFrame({column: labels})
    if shape == "counts":
        frame = pd.DataFrame({column: ["01", "NA", "7", "*"], "count": [2, 1, 1, 1]})
    frame.to_parquet(tmp_path / file) if file.endswith("parquet") else frame.to_csv(tmp_path / file, index=False)
    monkeypatch.chdir(tmp_path)
    made = {one.tool: one.code for one in snippets(dataclasses.replace(facts, columns=(own,), file=file, shape=shape))}
    space: dict = {}
    exec(made["pandas"], space)  # noqa: S102
    assert space["people"].to_dict() == {"01": 10, "NA": 5, "7": 5, "*": 5}
    assert space["groups"].to_dict() == {"01": 1, "NA": 1, "7": 1, "*": 1}
    if '"' not in column or file.endswith("parquet"):  # Polars leaves doubled quotes in a CSV header as they are
        exec(made["Polars"], space)  # noqa: S102
        assert isinstance(space["counts"], pl.DataFrame)
        assert dict(space["counts"].select(column, "people").rows()) == {"01": 10, "NA": 5, "7": 5, "*": 5}
    assert {row[0]: row[1] for row in duckdb.sql(made["DuckDB"]).fetchall()} == {"01": 10, "NA": 5, "7": 5, "*": 5}


def test_what_is_shown_of_a_price_is_never_less_than_it_is() -> None:
    for exact in (0.18298860992, 0.1, 1e-6, 2.29843, 12.0, 0.99996):
        assert exact <= float(digits_up(exact)) <= exact * 1.001
    assert digits_up(0.18291) == "0.183"
    assert f"{0.18291:.3g}" == "0.183"
    assert float(f"{0.18294:.4g}") < 0.18294, "the control: plain rounding shows less"


@pytest.mark.long
def test_sheets_of_counts_and_answers(office) -> None:
    counts = office.release("counts", file_format="csv", form="counts")
    assert "number of sampled people" in written(office, counts)[1]
    spec = office.spec(
        "answers", file_format="csv", form="", mechanism='[answer]\nkind = "count"\nepsilon = 0.5\nby = ["the town"]\n'
    )
    text = spec.read_text()
    text = text.replace("[privacy]\ndelta = 1e-5\n", "").replace("[columns.age]", "[unused]")
    spec.write_text(text[: text.index("[unused]")])
    answers = Path(json.loads(office("run", str(spec), "--json"))["output"])
    page = written(office, answers)[1]
    assert "Don't weight them" in page
    assert "## Small groups" not in page


REGIONS = {"Lyon": "South", "Nice": "South", "Lille": "North", "Nantes": "North", "Paris": "North", "Metz": "East"}
"""The towns of the records, by hand."""


def deleted_by_hand(release: Path) -> dict[str, tuple[float, int]]:
    """Of each region the sum of the weights, and how many of its groups the last stage published."""
    if (release / "data.parquet").exists():
        rows = pq.read_table(release / "data.parquet").to_pylist()
    else:
        with (release / "data.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    found: dict[str, tuple[float, set]] = {}
    last = max(int(row.get("stage", 1)) for row in rows)
    for row in rows:
        stage, town, weight = int(row.get("stage", 1)), row["the town"], float(row["weight"])
        region = REGIONS.get(town, town) if stage == 1 and last > 1 else town
        people, groups = found.setdefault(region, (0.0, set()))
        if stage == last:
            groups.add((town, row["age"]))
        found[region] = (people + weight * int(row.get("count", 1)), groups)
    return {region: (people, len(groups)) for region, (people, groups) in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kept", "chain"])
def test_the_code_for_a_deletion_release_adds_weights_up_with_their_error(
    needs, office, request, name, monkeypatch, tmp_path
) -> None:
    release = request.getfixturevalue(name)
    code = code_of(laid_out(office, release, tmp_path / "release"))
    facts = sheet_facts(verified_release(release)).deletion
    by_hand = deleted_by_hand(release)
    assert {"North", "South"} <= by_hand.keys()
    assert "Lyon" not in by_hand
    declared = {"kept": COMBINATIONS, "chain": 5}[name]  # ages in tens; below and above 50, outside, and `*`
    expected = {
        region: (
            people,
            people - 1.959964 * facts.deviation * math.sqrt(groups + 0.2) - 0.5,
            people
            + facts.expected * (declared - groups)
            + 1.959964 * facts.deviation * math.sqrt(declared + 0.2)
            + 0.5,
        )
        for region, (people, groups) in by_hand.items()
    }
    assert any(groups < declared for _, groups in by_hand.values())
    monkeypatch.chdir(tmp_path / "release")
    found = run(code, by="the town")
    needs(shutil.which("Rscript") is not None, "R", "CROWDBLEND_TEST_R")
    if name == "kept":  # without R's arrow
        found["R"] = run_r(code["R"], release)
    for one in found.values():
        assert one == {label: pytest.approx(three, rel=1e-4) for label, three in expected.items()}


def test_what_is_told_of_small_groups_and_weights_is_of_the_very_noise(kept, chain) -> None:
    """At (1, 10⁻⁶) E[Z] is 13.0675, sd(Z) 1.3799, Z at most 27; five people who happen to be there give 14.6."""
    facts = sheet_facts(verified_release(kept)).deletion
    assert (facts.expected, facts.deviation) == (pytest.approx(13.0675, abs=1e-4), pytest.approx(1.3799, abs=1e-4))
    assert (facts.largest, facts.unbiased_from) == (27, 28)
    five = facts.small[0]
    assert (five.people, round(five.estimate, 1)) == (5, 14.6)
    assert facts.small[-1].people == 28
    assert (facts.small[-1].published, facts.small[-1].estimate) == (1.0, pytest.approx(28))
    # The noise once more, by the recursion in floating point: π(i + 1) = min(e π(i) + δ, 1 − (1 − π(i) − δ)/e, 1).
    below = [0.0]
    while below[-1] < 1:
        below.append(min(math.e * below[-1] + 1e-6, 1 - (1 - below[-1] - 1e-6) / math.e, 1.0))
    weights = np.diff(below)
    for group in facts.small:
        there = weights[: group.people]
        kept_people = group.people - np.arange(there.size)
        assert group.published == pytest.approx(there.sum(), rel=1e-6)
        assert group.estimate == pytest.approx((kept_people * there).sum() / there.sum() + 13.0675, abs=1e-3)
    for row in facts.bounds:
        assert row.weight * row.published == pytest.approx(row.people)
        assert row.people == pytest.approx(row.published + 13.0675, abs=1e-4)
        assert below[row.high - row.published] < 0.975 <= below[row.high - row.published + 1]
    assert (facts.bounds[0].low, facts.bounds[-1].low) == (1, 1_010), "one record may be all; from many 10 are gone"
    # Given that a group of any size is published, its interval holds it in 95 % at least.
    interval = {row.published: row for row in facts.bounds}
    for people in range(1, 60):
        there = weights[: min(people, weights.size)]
        told = [(people - z, chance) for z, chance in enumerate(there) if people - z in interval]
        missed = sum(chance for left, chance in told if not interval[left].low <= people <= interval[left].high)
        assert missed <= 0.05 * there.sum()


def test_the_sheet_of_a_chain_tells_its_stages_and_the_codebook_of_each_level(office, chain) -> None:
    markdown = written(office, chain)[1]
    facts = sheet_facts(verified_release(chain))
    certificate = json.loads((chain / "certificate.json").read_text())
    told = re.findall(r"^\| (\d) \| ([\d\u202f]+) \| ([\d\u202f]+) \|$", markdown, re.MULTILINE)
    published = certificate["published"]["stages"]
    assert [row[0] for row in told] == ["1", "2", "3"]
    for row, stage in zip(told, published, strict=True):
        numbers = [int(number.replace("\u202f", "")) for number in row[1:]]
        assert numbers == [stage["published_groups"], stage["published_records"]]
    assert "| column | level at stage 1 to 3 |" in markdown
    assert "| the town | 0, 1, 1 |" in markdown
    assert "| age | 0, 1, 2 |" in markdown
    assert markdown.count("| column | level | labels and what they stand for |") == 1
    assert [(one.name, one.level, one.stages) for one in facts.codebook] == [
        ("the town", 0, (1,)), ("the town", 1, (2, 3)), ("age", 0, (1,)), ("age", 1, (2,)), ("age", 2, (3,)),
    ]  # fmt: skip
    assert PLANTED not in markdown


def calibrated(facts: SheetFacts, file: str) -> SheetFacts:
    """The same release as if it had margins, with a standard error of 4."""
    own = dataclasses.replace(facts.deletion, calibrated=True)
    bounds = NormalBounds(deviation=4.0, once=0.0, absent=0.0, combinations=1)
    return dataclasses.replace(facts, deletion=own, margins=file, bounds=bounds)


def test_weights_that_were_raked_are_told_as_such(kept) -> None:
    facts = sheet_facts(verified_release(kept))
    assert not facts.deletion.calibrated
    pages = []
    for own in (facts, calibrated(facts, "margins.csv")):
        context = {"certificate": own.certificate, "snippets": snippets(own), "citation": "", "bibtex": ""}
        context |= {"cross": (), "of_pair": ()}
        pages.append(plain_text("sheet.md", facts=own, **context))
    assert "raking" not in pages[0]
    assert "It is (J + E[Z])/J for a combination" in pages[0]
    assert "hold together in at least 19 of 20 releases" in pages[0]
    assert "all weights were raked to the noisy counts" in pages[1]
    assert "It is (J + E[Z])/J for a combination" not in pages[1]
    assert "Count by a single column in margins.csv" in pages[1]
    assert "hold together" not in pages[1]


@pytest.mark.parametrize("file", ["margins.parquet", "margins.csv"])
def test_a_calibrated_release_is_counted_by_its_margins(needs, kept, tmp_path, monkeypatch, file: str) -> None:
    made = {one.tool: one.code for one in snippets(calibrated(sheet_facts(verified_release(kept)), file))}
    cells = [("the town", "South", "", "", 70), ("the town", "*", "", "", -2), ("age", "South", "", "", 5)]
    cells.append(("the town", "South", "age", "[0, 10)", 9))
    frame = pd.DataFrame(cells, columns=["column", "label", "second_column", "second_label", "count"])
    # Where pairs are chosen, Parquet has null and not an empty text.
    frame.replace("", None).to_parquet(tmp_path / file) if file.endswith("parquet") else frame.to_csv(
        tmp_path / file, index=False
    )
    monkeypatch.chdir(tmp_path)
    half = 1.959964 * 4 + 0.5
    expected = {label: pytest.approx((n, n - half, n + half), rel=1e-4) for label, n in (("South", 70), ("*", -2))}
    found = run(made, by="label")
    needs(shutil.which("Rscript") is not None, "R", "CROWDBLEND_TEST_R")
    if file.endswith("csv"):  # without R's arrow
        found["R"] = run_r(made["R"], tmp_path)
    for one in found.values():
        assert one == expected


@pytest.mark.slow
def test_a_counted_pair_is_read_off_the_margins_with_its_own_error(
    needs, office, paired, monkeypatch, tmp_path
) -> None:
    folder = tmp_path / "release"
    markdown = laid_out(office, paired, folder)
    certificate = json.loads((folder / "certificate.json").read_text())
    file = next(name for name in certificate["files"] if name.startswith("margins"))
    path = folder / file
    cells = pd.read_parquet(path) if file.endswith("parquet") else pd.read_csv(path, keep_default_na=False)
    number = int(re.search(r"off the margins, pair (\d+)", markdown)[1])
    [first, second] = certificate["published"]["pairs"][number - 1]["columns"]
    own = cells[(cells["column"] == first) & (cells["second_column"] == second) & (cells["pair"] == number)]
    error = certificate["published"]["pairs"][number - 1]["standard_error"]
    assert error != certificate["published"]["margins"]["standard_error"]
    half = 1.959964 * error + 0.5
    expected = {
        (label, other): pytest.approx((count, count - half, count + half), rel=1e-6)
        for label, other, count in own[["label", "second_label", "count"]].itertuples(index=False, name=None)
    }
    monkeypatch.chdir(folder)
    made = code_of(markdown, part="A pair that was counted")
    spaces: list[dict] = [{}, {}]
    exec(made["pandas"], spaces[0])  # noqa: S102 - what a researcher would run
    exec(made["Polars"], spaces[1])  # noqa: S102
    names = ("people", "at_least", "at_most")
    frames = pd.DataFrame({name: spaces[0][name] for name in names})
    assert {row[0]: row[1:] for row in frames.itertuples(name=None)} == expected
    rows = spaces[1]["counts"].to_dicts()
    assert {(row["label"], row["second_label"]): tuple(row[name] for name in names) for row in rows} == expected
    assert {row[:2]: row[2:] for row in duckdb.sql(made["DuckDB"]).fetchall()} == expected
    needs(shutil.which("Rscript") is not None, "R", "CROWDBLEND_TEST_R")
    if file.endswith("csv"):
        done = subprocess.run(["Rscript", "-e", made["R"]], cwd=folder, capture_output=True, text=True, check=True)
        assert len(done.stdout.splitlines()) == 1 + len(expected)


def test_pairs_are_told_with_their_levels_and_errors_and_drawn(office, paired) -> None:
    page, markdown = written(office, paired)
    facts = sheet_facts(verified_release(paired))
    assert len(facts.pairs) == 2
    for pair, stated in zip(facts.pairs, facts.certificate["published"]["pairs"], strict=True):
        assert (list(pair.columns), list(pair.levels)) == (stated["columns"], stated["levels"])
        row = f"| {pair.number} | {', '.join(pair.columns)} | {pair.levels[0]}, {pair.levels[1]} | {pair.cells} |"
        assert row in markdown
        assert 0 <= pair.distance <= 1
    assert f"{facts.pairs[0].deviation:.4g}·√g" in markdown
    assert f"{float(facts.bounds.deviation):.4g}·√g" in markdown
    [picture] = re.findall(r'<svg class="picture".*?</svg>', page, re.DOTALL)
    drawn = {pair.columns for pair in facts.pairs}
    assert picture.count("<g ") == len(drawn)
    assert picture.count('class="no-cell"') == 3 - len(drawn)
    assert f"with the standard error {facts.pairs[0].deviation:.4g}" in picture


def decade_or_half(age: str) -> str:
    """The age's label at the last stage, by hand: below and above 50."""
    if age == "*" or age in ("< 0", ">= 100"):
        return age
    first = int(age.strip("[)").split(",")[0])
    return "[0, 50)" if first < 50 else "[50, 100)"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain", "calibrated_chain", "kept", "table"])
def test_the_code_for_a_cross_table_counts_all_stages_by_labels_that_are_alike(
    needs, office, request, name, monkeypatch, tmp_path
) -> None:
    """Of rows and of counts, with several stages and with one, calibrated, and of a sample."""
    release = request.getfixturevalue(name)
    markdown = laid_out(office, release, tmp_path / "release")
    code = code_of(markdown, part="A cross table")
    assert set(code) == {"crowdblend", "pandas", "R"}
    if (release / "data.parquet").exists():
        rows = pq.read_table(release / "data.parquet").to_pylist()
    else:
        with (release / "data.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    by_hand: dict[tuple[str, str], float] = {}
    for row in rows:
        pair = (row["the town"], row["age"])
        if "chain" in name:
            pair = (REGIONS.get(row["the town"], row["the town"]), decade_or_half(row["age"]))
        added = float(row.get("weight", 5)) * int(row.get("count", 1))
        by_hand[pair] = by_hand.get(pair, 0.0) + added
    assert len(by_hand) > 2
    assert name == "table" or "chain" not in name or len({row["stage"] for row in rows}) > 1
    monkeypatch.chdir(tmp_path / "release")
    space: dict = {}
    exec(code["pandas"], space)  # noqa: S102 - what a researcher would run
    assert {pair: row["people"] for pair, row in space["shown"].iterrows()} == {
        pair: pytest.approx(people) for pair, people in by_hand.items()
    }
    bounds = [] if name == "calibrated_chain" else ["at_least", "at_most"]
    assert list(space["shown"].columns) == ["people", *bounds]
    if bounds:
        assert (space["shown"]["at_least"] <= space["shown"]["people"]).all()
        assert (space["shown"]["at_most"] >= space["shown"]["people"]).all()
    needs(shutil.which("Rscript") is not None, "R", "CROWDBLEND_TEST_R")
    if name != "chain":  # without R's arrow
        write = code["R"] + 'write.csv(shown, "shown.csv", row.names = FALSE)\n'
        subprocess.run(["Rscript", "-e", write], check=True, capture_output=True)
        by_r = pd.read_csv("shown.csv", keep_default_na=False).set_index(["the town", "age"])
        pd.testing.assert_frame_equal(by_r.sort_index(), space["shown"].sort_index(), check_dtype=False, rtol=1e-6)


@pytest.mark.slow
def test_the_lookup_file_has_every_declared_label_with_its_coarser_one_and_its_bounds(office, chain, tmp_path) -> None:
    laid_out(office, chain, tmp_path / "release")
    [path] = (tmp_path / "release").glob("*-labels.csv")
    assert not list(chain.glob("*-labels.csv")), "the release's folder has its table and its certificate alone"
    labels = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert list(labels) == ["column", "stage", "label", "coarser", "lower", "upper"]
    towns = labels[labels["column"] == "the town"]
    first = towns[towns["stage"] == "1"].set_index("label")["coarser"].to_dict()
    assert first == REGIONS | {"*": "*"}, "Nantes and Metz too, where nobody lives"
    assert set(towns[towns["stage"] == "3"]["label"]) == {"North", "South", "East", "*"}
    ages = labels[labels["column"] == "age"].set_index(["stage", "label"])
    assert ages.loc[("1", "42")].tolist()[1:] == ["[0, 50)", "42", "43"]
    assert ages.loc[("2", "[40, 50)")].tolist()[1:] == ["[0, 50)", "40", "50"]
    assert ages.loc[("3", "< 0")].tolist()[1:] == ["< 0", "", "0"]
    assert ages.loc[("3", ">= 100")].tolist()[1:] == [">= 100", "100", ""]
    assert ages.loc[("3", "*")].tolist()[1:] == ["*", "", ""]


def test_labels_of_a_level_with_very_many_are_those_that_the_table_has() -> None:
    for hierarchy, shown, expected in (
        (
            IntervalHierarchy(lower=-10, upper=10**9, widths=(500_000_000,)),
            ["7", "< -10", "*", ">= 1000000000"],
            {"7": ("[-10, 499999990)", "7", "8"), "< -10": ("< -10", "", "-10")},
        ),
        (
            DecimalIntervals.of(lower=Decimal("0.0"), upper=Decimal(10_000), widths=[Decimal(5_000)]),
            ["[7.2, 7.3)", "*"],
            {"[7.2, 7.3)": ("[0.0, 5000.0)", "7.2", "7.3"), "*": ("*", "", "")},
        ),
    ):
        stated = {"column": "c", "level": 0, "hierarchy": hierarchy.description(), "hierarchy_sha256": "a" * 64}
        stages = [{"levels": {"c": 0}}, {"levels": {"c": 1}}]
        certificate = {"map": {"columns": [stated]}, "published": {"stages": stages}}
        labels = list(stage_labels(certificate, published={("c", 1): shown, ("c", 2): []}))
        first = {one.label: (one.coarser, one.lower, one.upper) for one in labels if one.stage == 1}
        assert set(first) == set(shown)
        assert {label: first[label] for label in expected} == expected


@pytest.mark.slow
def test_no_number_can_be_read_as_a_decimal(office, rows, chain, tmp_path) -> None:
    separator = re.compile(r"(?<![\d.,\[(])\d{1,3}[,.]\d{3}(?![\d,.])")
    for release in (rows, chain):
        table = json.loads((release / "certificate.json").read_text())["published"]
        assert table["records"] > 1_000
        for page in written(office, release):
            words = page.split("How to load it")[0]
            assert f"{table['records']:,}".replace(",", "\u202f") in words
            assert f"{table['records']:,}" not in page
            found = {text for text in separator.findall(words) if text.replace(",", "").isdecimal()}
            assert not found
