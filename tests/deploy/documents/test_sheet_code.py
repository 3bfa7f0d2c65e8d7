"""The code on a researcher's sheet: each snippet runs as it stands, and the kit's counts are those of the bounds."""

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
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from crowdblend.analysis import load
from crowdblend.deploy.documents.document_registry import verified_release
from crowdblend.deploy.documents.sheet.facts import sheet_facts
from crowdblend.deploy.documents.sheet.kit_calls import KitCalls
from crowdblend.deploy.documents.sheet.render_sheet import row_snippets, sheet_texts
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.stages.synthesize import SYNTHESIZER
from scipy import stats
from support import stand_in_synthesizer

PACKAGE = Path(__file__).resolve().parents[3] / "r" / "crowdblend"
QUICK = ("rows", "kept", "blocked", "blocks")
SLOW = ("table", "noisy", "chain", "calibrated_chain", "wide", "suppressed", "synthetic", "named_pairs", "total")


def code_of(text: str, *, part: str) -> dict[str, str]:
    """The snippets as a researcher copies them, by the heading above each."""
    text = text.split(f"\n## {part}\n")[1].split("\n## ", maxsplit=1)[0]
    return dict(re.findall(r"^### (\w+)\n\n```\w+\n(.*?)```", text, re.DOTALL | re.MULTILINE))


@pytest.fixture(scope="session")
def suppressed(office) -> Path:
    """A histogram without noise, as CSV."""
    return office.release(
        "suppressed", file_format="csv", form="", mechanism='[histogram]\nkind = "suppressed"\nk = 20\n'
    )


@pytest.fixture(scope="session")
def synthetic(office) -> Path:
    """Synthetic rows, as Parquet."""
    spec = office.deletion("synthetic", form="microdata", file_format="parquet")
    method = '[synthetic]\nmethod = "mst"\n'
    spec.write_text(spec.read_text().replace("[deletion]", method).replace('form = "microdata"\n', ""))
    interpreter = {SYNTHESIZER: str(stand_in_synthesizer.written(office.folder))}
    return Path(json.loads(office("run", str(spec), "--json", **interpreter))["output"])


@pytest.fixture(scope="session")
def named_pairs(office) -> Path:
    """Rows of a deletion release with a named pair, as Parquet."""
    spec = office.deletion("named", form="microdata", file_format="parquet")
    spec.write_text(spec.read_text().replace("[deletion]", '[deletion]\n\n[margins]\npairs = [["the town", "age"]]'))
    return office.run(spec)


@pytest.fixture(scope="session")
def total(office) -> Path:
    """A sample with a noisy number of all people, as Parquet."""
    spec = office.deletion("total", form="microdata", file_format="parquet")
    sampled = "[sampling]\nrate = 0.2\n\n[margins]\ncolumns = false"
    spec.write_text(spec.read_text().replace("[deletion]", sampled))
    return office.run(spec)


def release_of(request, name: str) -> Path:
    """A release that was made for these tests, or one that the R package has, in CSV."""
    bundled = PACKAGE / "inst" / "extdata" / name
    return bundled if bundled.is_dir() else request.getfixturevalue(name)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_each_snippet_in_python_and_sql_runs_as_it_stands(request, name, monkeypatch, capsys) -> None:
    asked = require_running(release_of(request, name), monkeypatch, capsys)
    assert asked.intervals == (name != "synthetic")


def test_each_snippet_of_a_release_that_chose_pairs_runs_as_it_stands(paired, monkeypatch, capsys) -> None:
    asked = require_running(paired, monkeypatch, capsys)
    assert asked.counted is not None
    assert asked.copied is not None


def require_running(release: Path, monkeypatch, capsys) -> KitCalls:
    """Run the snippets of a release's sheet in its folder, and return what they ask."""
    texts = sheet_texts(verified_release(release))
    kit = code_of(texts["-sheet.md"], part="How to work with it")
    assert set(kit) == {"Python", "R"}
    assert html.escape(kit["Python"], quote=False).replace('"', "&#34;") in texts["-sheet.html"]
    monkeypatch.chdir(release)
    space: dict[str, Any] = {}
    exec(kit["Python"], space)  # noqa: S102 - what a researcher would run
    printed = capsys.readouterr().out
    assert printed.count("Figure(") >= 2
    # The first row, since pandas leaves out columns where a frame is wider than the screen.
    assert ("release.regression" in kit["Python"]) == ("(constant)" in printed)
    counted = bool(space["release"].published.margins) and space["release"].published.reading.are_records
    assert ("source='copies'" in printed) == counted
    rows = code_of(texts["-sheet.md"], part="The rows")
    exec(rows["pandas"], space)  # noqa: S102
    assert len(space["rows"]) == len(duckdb.sql(rows["DuckDB"]).fetchall()) > 0
    asked = sheet_facts(verified_release(release)).kit
    assert asked is not None
    assert (space["release"].count(dict(asked.where)).upper is not None) == asked.intervals
    return asked


def test_a_release_that_the_kit_refuses_has_no_call_of_it(office, tmp_path) -> None:
    spec = office.spec("answered", file_format="csv", form="", mechanism="")
    text = spec.read_text().replace(
        "[suppression]\nk = 20\n", '[answer]\nkind = "count"\nepsilon = 0.5\nby = ["the town"]\n'
    )
    spec.write_text(text.replace("[privacy]\ndelta = 1e-5\n", "").split("[columns.age]")[0])
    release = office.run(spec)
    with pytest.raises(InputRefused):
        load(release)
    sheet = sheet_texts(verified_release(release))["-sheet.md"]
    assert "crowdblend.analysis" not in sheet
    assert set(code_of(sheet, part="The rows")) == {"pandas", "DuckDB", "R"}


def test_without_a_hierarchy_that_the_kit_needs_there_are_the_rows_alone(kept, calibrated_chain) -> None:
    """Without margins the kit answers by the other columns; with margins it must be given the hierarchy."""
    asked = {}
    for release in (kept, calibrated_chain):
        whole = verified_release(release)
        certificate = json.loads(json.dumps(whole.certificate))
        certificate["map"]["columns"][0]["hierarchy"] = None
        lacking = dataclasses.replace(whole, certificate=certificate)
        asked[release.name] = sheet_facts(lacking).kit
        sheet = sheet_texts(lacking)["-sheet.md"]
        assert "## The rows" in sheet
        assert "load(" in sheet.split("## The rows")[0]
        assert ("### Python" in sheet) == (asked[release.name] is not None)
    assert asked["kept"].by == "age"
    assert asked["kept"].apart is None
    assert asked["calibrated"] is None


def rows_of(release: Path) -> list[dict[str, str]]:
    if (release / "data.parquet").exists():
        return pq.read_table(release / "data.parquet").to_pylist()
    with (release / "data.csv").open(newline="") as file:
        return list(csv.DictReader(file))


COMBINATIONS = 13
"""Ten intervals of ten years, the two outside, and `*`: what is declared beside a town."""


def bounds_of_sample(release: Path) -> dict[str, tuple[float, float, float]]:
    """People by the first column, at least and at most, from the table itself, by hand."""
    rows = [(row["the town"], row["age"], int(row.get("count", 1))) for row in rows_of(release)]
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


REGIONS = {"Lyon": "South", "Nice": "South", "Lille": "North", "Paris": "North"}


def bounds_of_deletion(release: Path) -> dict[str, tuple[float, float, float]]:
    """Likewise of a deletion release, by the region that each town is in."""
    facts = sheet_facts(verified_release(release)).deletion
    declared = {"kept": COMBINATIONS, "chain": 5}[release.name]  # below and above 50, outside, and `*`
    rows = rows_of(release)
    last = max(int(row.get("stage", 1)) for row in rows)
    people: dict[str, float] = {}
    groups: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        town = row["the town"]
        region = REGIONS.get(town, town)
        people[region] = people.get(region, 0.0) + float(row["weight"]) * int(row.get("count", 1))
        groups.setdefault(region, set())
        if int(row.get("stage", 1)) == last:
            groups[region].add((town, row["age"]))
    assert any(len(own) < declared for own in groups.values())
    width = 1.959964 * facts.deviation
    return {
        region: (
            own,
            own - width * math.sqrt(len(groups[region]) + 0.2) - 0.5,
            own + facts.expected * (declared - len(groups[region])) + width * math.sqrt(declared + 0.2) + 0.5,
        )
        for region, own in people.items()
    }


@pytest.mark.parametrize(
    "name", ["rows", "kept", *(pytest.param(one, marks=pytest.mark.slow) for one in ("noisy", "chain"))]
)
def test_the_kits_table_has_the_bounds_that_the_sheet_tells_of(request, name) -> None:
    release = request.getfixturevalue(name)
    by_hand = bounds_of_sample(release) if name in ("rows", "noisy") else bounds_of_deletion(release)
    found = {row["the town"]: row for row in load(release).table("the town").to_dict("records")}
    assert len(by_hand) >= 2
    assert by_hand.keys() <= found.keys()
    for label, (people, low, high) in by_hand.items():
        row = found[label]
        assert row["estimate"] == pytest.approx(people, rel=1e-6)
        assert (row["lower"], row["upper"]) == (math.ceil(max(low, 0) - 1e-6), math.floor(high + 1e-6))


@pytest.mark.parametrize("name", ["rows", "kept"])
def test_the_interval_of_a_combination_that_is_there_begins_no_higher_than_the_kits(request, name) -> None:
    """It is for those who look at what is there; from some size on both say the same."""
    release = request.getfixturevalue(name)
    facts, loaded = sheet_facts(verified_release(release)), load(release)
    published: dict[tuple[str, str], int] = {}
    for row in rows_of(release):
        key = (row["the town"], row["age"])
        published[key] = published.get(key, 0) + int(row.get("count", 1))
    own = facts.intervals or facts.deletion.bounds
    for (town, age), records in published.items():
        figure = loaded.count({"the town": town, "age": age})
        for shown in own:
            if shown.published <= records:
                assert shown.low <= figure.upper
            if shown.published >= records:
                assert shown.high >= figure.lower
    least = min(own, key=lambda one: one.published)
    assert least.low == least.published, "one that is just there may have no others"


@pytest.mark.parametrize("file", ["data.parquet", "data.csv"])
@pytest.mark.parametrize("shape", ["microdata", "counts"])
@pytest.mark.parametrize("column", ["town", 'a"b', "a'b", "a b", "ünï"])
def test_rows_are_read_of_every_shape_and_name(tmp_path, monkeypatch, rows, file: str, shape: str, column: str) -> None:
    """The labels look like numbers and nulls, and stay texts."""
    facts = sheet_facts(verified_release(rows))
    own = dataclasses.replace(facts.columns[0], name=column)
    labels = ["01", "NA", "7", "*"]
    frame = pd.DataFrame({column: labels} | ({"count": [2, 1, 1, 1]} if shape == "counts" else {}))
    frame.to_parquet(tmp_path / file) if file.endswith("parquet") else frame.to_csv(tmp_path / file, index=False)
    monkeypatch.chdir(tmp_path)
    made = {
        one.tool: one.code for one in row_snippets(dataclasses.replace(facts, columns=(own,), file=file, shape=shape))
    }
    space: dict[str, Any] = {}
    exec(made["pandas"], space)  # noqa: S102
    assert space["rows"][column].tolist() == labels
    assert [row[0] for row in duckdb.sql(made["DuckDB"]).fetchall()] == labels


@pytest.fixture(scope="module")
def r_library(needs, tmp_path_factory) -> Path:
    """A library of R with the package of the repository."""
    needs(shutil.which("Rscript") is not None, "R", "CROWDBLEND_TEST_R")
    folder = tmp_path_factory.mktemp("library")
    install = ["R", "CMD", "INSTALL", "--no-docs", "--no-test-load", f"--library={folder}", PACKAGE]
    subprocess.run(install, check=True, capture_output=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table", "noisy", "kept", "wide", "chosen-pairs", "blocks"])
def test_each_snippet_in_r_runs_as_it_stands(r_library, request, name) -> None:
    """On releases in CSV: R's packages that read Parquet need not be there."""
    release = release_of(request, name)
    texts = sheet_texts(verified_release(release))
    code, rows = (code_of(texts["-sheet.md"], part=part)["R"] for part in ("How to work with it", "The rows"))
    told = 'cat("rows:", nrow(rows), class(rows[[1]]), "\\n")'
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "R_LIBS": str(r_library)}
    words = ["Rscript", "-e", f"{code}{rows}{told}"]
    done = subprocess.run(words, cwd=release, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.count("estimate") == len(re.findall(r"^cb_", code, re.MULTILINE))
    file = next(iter(sorted(release.glob("data*.csv")))) if name != "blocks" else release / "data-work.csv"
    with file.open(newline="", encoding="utf-8") as own:
        assert f"rows: {len(list(csv.DictReader(own)))} character" in done.stdout


def test_weights_that_were_raked_are_told_as_such(kept, paired) -> None:
    alone, raked = (sheet_texts(verified_release(release))["-sheet.md"] for release in (kept, paired))
    assert "raking" not in alone
    assert "It is (J + E[Z])/J for a combination" in alone
    assert "hold together in at least 19 of 20 releases" in alone
    assert "all weights were raked to the noisy counts" in raked
    assert "It is (J + E[Z])/J for a combination" not in raked
    file = next(name for name in json.loads((paired / "certificate.json").read_text())["files"] if "margins" in name)
    assert f"{file} has noisy counts of all records" in raked
    assert "hold together" not in raked
