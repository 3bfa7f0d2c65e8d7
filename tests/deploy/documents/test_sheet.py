"""The researcher's sheet: what it says is so, what it shows is published, and its code runs."""

from __future__ import annotations

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

import numpy as np
import pandas as pd
import pytest
from crowdblend.deploy.documents.document_registry import verified_release
from crowdblend.deploy.documents.rendering import cell, digits_up
from crowdblend.deploy.documents.sheet.facts import sheet_facts
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


def laid_out(office, release: Path, place: Path) -> str:
    """Copies of a release's files and of its documents in one folder, as a researcher has them; the sheet."""
    shutil.copytree(release, place)
    answer = json.loads(office("sheet", str(release), "--output", str(place.with_name("documents")), "--json"))
    shutil.copy(answer["labels"], place)
    return Path(answer["markdown"]).read_text()


REGIONS = {"Lyon": "South", "Nice": "South", "Lille": "North", "Nantes": "North", "Paris": "North", "Metz": "East"}
"""The towns of the records, by hand."""


@pytest.fixture(params=["rows", "noisy"])
def release(request) -> Path:
    return request.getfixturevalue(request.param)


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
    assert [row.published for row in facts.intervals] == [20, 40, 100, 200]
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
    rows = pd.read_parquet(release / "data.parquet") if release.name == "rows" else pd.read_csv(release / "data.csv")
    labels = set(rows["the town"]) | {"*"}
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
        assert row.people == pytest.approx(row.published + 13.0675, abs=1e-4)
        assert below[row.high - row.published] < 0.975 <= below[row.high - row.published + 1]
    assert (facts.bounds[0].low, facts.bounds[-1].low) == (1, 60), "one record may be all; from many 10 are gone"
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


def test_pairs_are_told_with_their_levels_and_errors_and_drawn(office, paired) -> None:
    page, markdown = written(office, paired)
    facts = sheet_facts(verified_release(paired))
    assert len(facts.pairs) == 2
    for pair, stated in zip(facts.pairs, facts.certificate["published"]["pairs"], strict=True):
        assert (list(pair.columns), list(pair.levels)) == (stated["columns"], stated["levels"])
        row = f"| {pair.number} | {', '.join(pair.columns)} | {pair.levels[0]}, {pair.levels[1]} | {pair.cells} |"
        assert row in markdown
        assert 0 <= pair.distance <= 1
    assert f"standard_error: {facts.margin_error:.4g} by a column, {facts.shown_pair.deviation:.4g} by pair" in markdown
    [picture] = re.findall(r'<svg class="picture".*?</svg>', page, re.DOTALL)
    drawn = {pair.columns for pair in facts.pairs}
    assert picture.count("<g ") == len(drawn)
    assert picture.count('class="no-cell"') == 3 - len(drawn)
    assert f"with the standard error {facts.pairs[0].deviation:.4g}" in picture


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
            words = page.split("How to check it")[0]
            assert f"{table['records']:,}".replace(",", "\u202f") in words
            assert f"{table['records']:,}" not in page
            found = {text for text in separator.findall(words) if text.replace(",", "").isdecimal()}
            assert not found
