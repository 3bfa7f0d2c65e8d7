"""The codebook is what was declared, whoever is in the records; a table with other labels does not verify."""

from __future__ import annotations

import html
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate.write_certificate import sha256_of_file
from crowdblend.deploy.documents.document_registry import verified_release
from crowdblend.deploy.documents.rendering import cell
from crowdblend.deploy.documents.sheet.facts import sheet_facts
from crowdblend.deploy.python.releases import verify
from crowdblend.deploy.release_check import verify_release
from crowdblend.mechanisms.hierarchies.build import DateHierarchy
from crowdblend.mechanisms.hierarchies.codebook import MOST_LABELS, MOST_VALUES, codebook
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals, NumberSteps
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from support.signed_again import sign_again

DECLARED = {"East": ("Metz",), "North": ("Lille", "Nantes", "Paris"), "South": ("Lyon", "Nice")}
PLANTED = "Zanzibar7"


def written(office, release: Path, place: Path) -> tuple[str, str]:
    place.mkdir(parents=True)
    answer = json.loads(office("sheet", str(release), "--output", str(place), "--json"))
    return Path(answer["html"]).read_text(), Path(answer["markdown"]).read_text()


@pytest.mark.slow
def test_it_has_every_declared_value_also_those_that_nobody_has(office, rows, tmp_path) -> None:
    records = (office.folder / "people.csv").read_text()
    table = pq.read_table(rows / "data.parquet")
    assert "Nantes" not in records
    assert "Metz" not in records
    assert "East" not in table.column("the town").to_pylist(), "the control: the table doesn't have this label"
    town, age = sheet_facts(verified_release(rows)).codebook
    assert {one.label: one.values for one in town.labels} == DECLARED
    assert (town.more, [one.more for one in town.labels]) == (0, [0, 0, 0])
    assert age.rule.startswith(
        "Intervals of width 10 from 0 to below 100: [a, b) has the whole numbers from a to below b;"
    )
    for page, shown in zip(written(office, rows, tmp_path / "sheet"), (html.escape, cell), strict=True):
        assert PLANTED in records
        assert PLANTED not in page
        for label, values in DECLARED.items():
            assert label in page
            assert ", ".join(values) in page
        assert shown(age.rule) in page


@pytest.mark.slow
def test_it_is_that_of_the_level_that_was_published(noisy) -> None:
    town, _ = sheet_facts(verified_release(noisy)).codebook
    assert town.labels == ()
    assert town.rule == (
        "Each declared value is its own label: Lille, Lyon, Metz, Nantes, Nice, Paris; what was not declared is *."
    )


def of(hierarchy: Hierarchy | None, *, level: int) -> Any:
    column = {"column": "c", "level": level, "hierarchy_sha256": "a" * 64}
    if hierarchy is not None:
        column["hierarchy"] = json.loads(json.dumps(hierarchy.description()))
    return codebook({"map": {"columns": [column]}}, names=["c"])[0]


def test_a_long_one_is_cut_and_says_what_is_missing() -> None:
    many = [(f"v{value:04}", f"l{value % 100:03}", "*" if value % 100 == 0 else "all") for value in range(4_000)]
    found = of(ValueHierarchy.from_rows(many), level=1)
    assert (len(found.labels), found.more) == (MOST_LABELS, 100 - MOST_LABELS)
    assert (found.labels[1].values[:2], len(found.labels[1].values)) == (("v0001", "v0101"), MOST_VALUES)
    assert found.labels[1].more == 40 - MOST_VALUES
    above = of(ValueHierarchy.from_rows(many), level=2)
    assert [(one.label, len(one.values) + one.more) for one in above.labels] == [("*", 40), ("all", 3_960)]
    same = of(ValueHierarchy.from_rows(many), level=0)
    assert same.labels == ()
    assert "and 3\u202f976 more" in same.rule


DAYS = DateHierarchy.of(first="1999-12-30", last="2009-12-31", merged=["quarter"])
TENTHS = DecimalIntervals.of(lower=Decimal("-0.5"), upper=Decimal(2), widths=[Decimal("0.5")])


@pytest.mark.parametrize(
    ("hierarchy", "level", "rule"),
    [
        (ValueHierarchy.from_values(["a"]), 1, "Every value is *."),
        (ValueHierarchy.from_values(["a"]).folded(), 0, "Upper and lower case are read alike."),
        (IntervalHierarchy(lower=-3, upper=9, widths=()), 0, "Each whole number from -3 to 8 is its own label"),
        (IntervalHierarchy(lower=-3, upper=9, widths=()), 1, "Every value is *."),
        (DAYS, 0, "The day of each day from 1999-12-30 to 2009-12-31; all else is *."),
        (DAYS, 1, "The quarter of each day from 1999-12-30 to 2009-12-31; all else is *."),
        (DAYS, 2, "Every value is *."),
        (NumberSteps(cuts=(0.5,)), 0, "between declared cuts"),
        (TENTHS, 0, "Intervals of width 0.1 from -0.5 to below 2.0: [a, b) has the numbers from a to below b; smaller"),
        (TENTHS, 1, "Intervals of width 0.5 from -0.5 to below 2.0: "),
        (TENTHS, 1, " smaller numbers are < -0.5, larger ones >= 2.0; what is no number is *."),
        (TENTHS, 2, "Every value is *."),
        (None, 0, "doesn't carry this hierarchy"),
    ],
)
def test_each_kind_is_told_in_words(hierarchy, level, rule) -> None:
    found = of(hierarchy, level=level)
    assert rule in found.rule
    assert found.labels == ()


def test_a_column_is_told_at_each_level_that_a_stage_publishes_it_at() -> None:
    towns = ValueHierarchy.from_rows([(value, label, "*") for label, own in DECLARED.items() for value in own])
    column = {"column": "town", "level": 0, "hierarchy_sha256": "a" * 64, "hierarchy": towns.description()}
    stages = [{"levels": {"town": level}} for level in (0, 2, 1, 2)]
    fine, middle, coarse = codebook({"map": {"columns": [column]}, "published": {"stages": stages}}, names=["town"])
    assert [(one.level, one.stages) for one in (fine, middle, coarse)] == [(0, (1,)), (1, (3,)), (2, (2, 4))]
    assert fine.rule.startswith("Each declared value is its own label: Lille, ")
    assert {one.label: one.values for one in middle.labels} == DECLARED
    assert (coarse.rule, coarse.labels) == ("Every value is *.", ())
    for single in ({}, {"stages": stages[:1]}):
        [only] = codebook({"map": {"columns": [column]}, "published": single}, names=["town"])
        assert (only.level, only.stages) == (0, ())


def signed_again(folder: Path) -> None:
    """By a key of its own, with the digest of the table as it is now."""
    path = folder / "certificate.json"
    document = json.loads(path.read_bytes())
    document["files"] = {name: sha256_of_file(folder / name) for name in document["files"]}
    sign_again(path, document)


@pytest.mark.parametrize("name", ["rows", "noisy"])
@pytest.mark.parametrize(
    ("column", "label"), [("the town", "Zanzibar"), ("the town", ""), ("age", "[0, 11)"), ("the town", "East")]
)
def test_a_table_with_other_labels_is_found(request, tmp_path, name, column, label) -> None:
    """The control: a label that is declared at the level, though no record has it."""
    folder = tmp_path / name
    shutil.copytree(request.getfixturevalue(name), folder)
    signed_again(folder)
    assert verify(folder).findings == ()
    parquet = folder / "data.parquet"
    table = pq.read_table(parquet) if name == "rows" else pa.csv.read_csv(folder / "data.csv")
    place = table.column_names.index(column)
    values = [label, *table.column(column).to_pylist()[1:]]
    table = table.set_column(place, column, pa.array(values, pa.string()))
    pq.write_table(table, parquet) if name == "rows" else pa.csv.write_csv(table, folder / "data.csv")
    signed_again(folder)
    level = 1 if column == "age" or name == "rows" else 0
    file = "data.parquet" if name == "rows" else "data.csv"
    sound = label == "East" and name == "rows"
    said = f"column {column!r} of {file} has labels that its hierarchy doesn't have at level {level}"
    assert verify_release(folder / "certificate.json", trusted=None).findings == (() if sound else (said,))


def test_the_command_finds_it_too_and_names_no_label(office, rows, tmp_path) -> None:
    folder = tmp_path / "release"
    shutil.copytree(rows, folder)
    table = pq.read_table(folder / "data.parquet")
    labels = pa.array(["Zanzibar8"] * table.num_rows)
    pq.write_table(table.set_column(0, "the town", labels), folder / "data.parquet")
    signed_again(folder)
    with pytest.raises(AssertionError):
        office("verify", str(folder))
    done = office.processes.run("verify", str(folder), folder=office.folder, environment=office.environment)
    assert done.returncode == 1
    assert "has labels that its hierarchy doesn't have at level 1" in done.stdout
    assert "Zanzibar8" not in done.stdout + done.stderr
