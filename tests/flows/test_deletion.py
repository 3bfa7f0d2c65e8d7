"""Deletion releases: all records but a secret random number of each group, published once at most, never redrawn."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.certificate.verify import read_certificate
from crowdblend.deploy import release_check
from crowdblend.flows.releases.release_kind import release_kind
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kinds.deletion_noise import expected_deletion
from crowdblend.tasks.counting import memory
from crowdblend.tasks.kernel.draws import stored_numbers

SPEC = """
[release]
name = "kept"
form = "{form}"
format = "{file_format}"
output = "{output}"
[data]
dataset = "people"
source = "people.csv"
separator = ";"
[deletion]
{deletion}
[privacy]
epsilon = 1
delta = 1e-6
[suppression]
k = 2
[columns.colour]
values = ["blue", "green", "red"]
{colour}
[columns.age]
interval = {{ lower = 0, upper = 100, widths = [10, 50] }}
{age}
[columns.town]
hierarchy = "towns.csv"
{town}
"""
ONE = {"colour": "level = 0", "age": "level = 1", "town": "level = 1"}
CHAIN = {"colour": "levels = [0, 0, 1]", "age": "levels = [0, 1, 3]", "town": "levels = [0, 1, 1]"}
NAMES = ("colour", "age", "town")
SEMICOLONS = pa.csv.ParseOptions(delimiter=";")


def spec_of(desk, *, edit=lambda text: text, file: str = "kept.toml", **changes: str) -> Path:
    path = desk.folder / file
    given = {"form": "microdata", "file_format": "parquet", "output": "out", "deletion": ""} | CHAIN | changes
    path.write_text(edit(SPEC.format(**given)), encoding="utf-8")
    return path


@pytest.fixture
def people(desk) -> list[tuple[str, ...]]:
    """20,000 records in groups of very different sizes, some with values that are unseen or missing."""
    coins = np.random.default_rng(22)
    colours, towns = ("blue", "green", "red", "mauve", ""), ("Lyon", "Lille", "Paris", "Rome")
    ages = np.minimum(coins.geometric(0.03, 20_000), 130)
    chosen = zip(
        coins.choice(colours, 20_000, p=(0.6, 0.25, 0.1, 0.03, 0.02)),
        ages.astype(str),
        coins.choice(towns, 20_000, p=(0.5, 0.3, 0.15, 0.05)),
        strict=True,
    )
    records = [tuple(str(value) for value in record) for record in chosen]
    lines = [";".join(record) for record in [NAMES, *records]]
    (desk.folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    desk.add_dataset()
    return records


def labels_of(spec: Path, records: list[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
    """The labels of each record at each stage, by the hierarchies and not by what is folded for the release."""
    found = []
    for one in read_spec(spec, output=None).maps:
        columns = []
        for place, column in enumerate(one.columns):
            texts = [record[place].encode() for record in records]
            codes = column.hierarchy.codes_of_texts([text or None for text in texts], column.level)
            columns.append(column.hierarchy.labels(codes, column.level))
        found.append(list(zip(*columns, strict=True)))
    return found


def published(folder: Path) -> list[dict]:
    if (folder / "data.csv").exists():
        with (folder / "data.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))
    return pq.read_table(folder / "data.parquet").to_pylist()


def ran(desk, spec: Path, *words: str) -> dict:
    return desk.succeed("run", spec, "--json", *words).json


@pytest.mark.slow
def test_one_stage_publishes_all_but_z_of_each_group_with_its_weight(desk, people) -> None:
    spec = spec_of(desk, form="counts", **ONE)
    result = ran(desk, spec)
    assert result["sample_id"] is None
    assert result["mechanism"]["kind"] == "deletion-release/1"
    [stage] = result["stages"]
    assert stage["levels"] == result["levels"] == {"colour": 0, "age": 1, "town": 1}
    assert stage["largest_deletion"] == 27
    table = pq.read_table(Path(result["output"]) / "data.parquet")
    assert table.column_names == [*NAMES, "weight", "count"]
    [labels] = labels_of(spec, people)
    true, expected = Counter(labels), expected_deletion(read_spec(spec, output=None).mechanism.noise)
    rows = {tuple(row[name] for name in NAMES): row for row in table.to_pylist()}
    assert len(rows) == table.num_rows == stage["published_groups"] == result["published_groups"]
    assert sum(row["count"] for row in rows.values()) == stage["published_records"] == result["published_records"]
    for group, records in true.items():
        count = rows[group]["count"] if group in rows else 0
        assert (2 <= count <= records) if count else records <= 27 + 1, "only groups of up to 27 + k − 1 can be absent"
        assert not count or 0 <= records - count <= 27
        if count:
            assert rows[group]["weight"] == pytest.approx(float(1 + expected / count), rel=1e-12)
    assert rows.keys() <= true.keys()
    deleted = [records - rows[group]["count"] for group, records in true.items() if records >= 27 + 2]
    assert len(deleted) > 40
    # Of 40 draws the mean lies 6 standard errors from E[Z] = 13.07 once in 5e8; the sd of one is 1.38.
    assert abs(np.mean(deleted) - 13.07) < 6 * 1.38 / len(deleted) ** 0.5
    assert len(set(deleted)) > 2, "each group has a draw of its own"
    assert expected == pytest.approx(Fraction(13.0675), abs=1e-3)
    desk.succeed("verify", result["certificate"])
    desk.succeed("ledger", "verify")


@pytest.mark.parametrize(
    ("form", "file_format"), [pytest.param("microdata", "parquet", marks=pytest.mark.slow), ("counts", "csv")]
)
def test_three_stages_publish_every_record_at_most_once(desk, people, form, file_format) -> None:
    spec = spec_of(desk, form=form, file_format=file_format)
    result = ran(desk, spec)
    assert [stage["levels"]["age"] for stage in result["stages"]] == [0, 1, 3]
    largest = {stage["largest_deletion"] for stage in result["stages"]}
    assert largest == {78}
    rows = published(Path(result["output"]))
    stages = labels_of(spec, people)
    told: list[Counter] = [Counter(), Counter(), Counter()]
    for row in rows:
        told[int(row["stage"]) - 1][tuple(row[name] for name in NAMES)] += int(row.get("count", 1))
    assert [sum(one.values()) for one in told] == [stage["published_records"] for stage in result["stages"]]
    assert [len(one) for one in told] == [stage["published_groups"] for stage in result["stages"]]
    assert all(sum(one.values()) for one in told), "each stage publishes something"
    assert max(row["weight"] for row in rows if int(row["stage"]) < 3) in (1.0, "1.0")
    assert min(float(row["weight"]) for row in rows if int(row["stage"]) == 3) > 1.0
    left = Counter(stages[0])
    for number, one in enumerate(told):
        assert one.keys() <= left.keys()
        for group, records in left.items():
            assert 0 <= records - one[group] <= 78 + 1, "what is left is what was deleted, or a group below k"
        if number < 2:
            above = dict(zip(stages[number], stages[number + 1], strict=True))
            after: Counter = Counter()
            for group, records in left.items():
                after[above[group]] += records - one[group]
            left = +after
    order = [int(row["stage"]) for row in rows]
    assert order == sorted(order)
    desk.succeed("verify", result["certificate"])
    again = ran(desk, spec, "--release-id", result["release_id"])
    assert again["looked_up"]
    assert again["stages"] == result["stages"]


def test_a_retry_publishes_the_same_bytes_and_z_is_kept_nowhere(desk, people, two_attempts) -> None:
    first, second = two_attempts(spec_of(desk, form="counts"))
    assert first == second
    [stored] = desk.home.rglob("noise.draw.json")
    numbers = stored_numbers(json.loads(stored.read_text())["numbers"]).tolist()
    rows = published(desk.folder / "out")
    groups = [sum(row["stage"] == stage for row in rows) for stage in (1, 2, 3)]
    assert len(numbers) == 3 + 2 * sum(groups), "one key and one published count a group, and nothing of the others"
    assert Counter(numbers[1 + groups[0] : 1 + 2 * groups[0]]) == Counter(r["count"] for r in rows if r["stage"] == 1)


@pytest.mark.parametrize("damage", ["count", "short", "long", "below k", "text", "key", "below zero", "wide"])
def test_a_stored_draw_that_is_no_draw_is_refused(desk, people, damage) -> None:
    protection = release_kind("deletion").protection(read_spec(spec_of(desk), output=None), None)
    whole = [2, 5, 9, 7, 2, 0, 1, 2, 40]
    assert protection.fits(whole)
    changed = {
        "count": [3, *whole[1:]],
        "short": whole[:-1],
        "long": [*whole, 0],
        "below k": [*whole[:4], 1, *whole[5:]],
        "text": [],
        "key": [*whole[:1], 10**12, *whole[2:]],
        "below zero": [*whole[:1], -1, *whole[2:]],
        "wide": [*whole[:1], 2**70, *whole[2:]],
    }[damage]
    assert not protection.fits(changed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_more_groups_than_memory_has_room_for_are_refused_before_the_charge(desk, people, monkeypatch, kind) -> None:
    """By the number of records and of combinations that metadata tells of; the control has room for them."""
    if kind == "parquet":
        pq.write_table(pa.csv.read_csv(desk.folder / "people.csv", parse_options=SEMICOLONS), desk.folder / "p.parquet")
    spec = spec_of(desk, edit=lambda text: text.replace("people.csv", "p.parquet") if kind == "parquet" else text)
    monkeypatch.setattr(memory, "_FEW_GROUPS", 100)
    monkeypatch.setenv("CROWDBLEND_MEMORY", "0.0001")
    for words in (("run", spec), ("run", spec, "--dry-run")):
        answer = desk(*words)
        assert answer.code == 2, answer.err
        assert "[columns]: there may be so many distinct groups that they need 1 GiB of memory" in answer.err
        assert "and 0.0001 GiB are meant for them." in answer.err
        assert "set CROWDBLEND_MEMORY to 1" in answer.err
    assert desk("ledger", "show", "--json").json["releases"] == []
    assert not list(desk.home.rglob("*.draw.json"))
    monkeypatch.setenv("CROWDBLEND_MEMORY", "much")
    assert "CROWDBLEND_MEMORY: this is no number of GiB above 0" in desk("run", spec).err
    monkeypatch.setenv("CROWDBLEND_MEMORY", "0.01")
    assert ran(desk, spec)["published_records"] > 15_000


@pytest.mark.parametrize(("limit", "room"), [("4294967296\n", 2), ("max\n", None), (None, None)])
def test_half_of_the_containers_or_the_machines_memory_is_for_groups(tmp_path, monkeypatch, limit, room) -> None:
    monkeypatch.delenv("CROWDBLEND_MEMORY", raising=False)
    monkeypatch.setattr(memory, "_CONTAINER_LIMIT", tmp_path / "memory.max")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    if limit is not None:
        (tmp_path / "memory.max").write_text(limit)
    assert memory.room_bytes() / 2**30 == (min(machine, 4) / 2 if room else machine / 2)


@pytest.mark.slow
def test_verify_holds_labels_against_the_levels_of_their_stage(desk, people) -> None:
    result = ran(desk, spec_of(desk))
    path = Path(result["certificate"])
    certificate = json.loads(json.dumps(read_certificate(path)))

    def findings() -> list[str]:
        columns = certificate["map"]["columns"]
        return list(release_check._label_findings(certificate, columns, path.parent))

    assert findings() == []
    stages = certificate["published"]["stages"]
    stages[1]["levels"]["age"] = 2
    assert findings() == ["column 'age' of data.parquet has labels that its hierarchy doesn't have at level 2"]
    stages[1]["levels"]["age"] = 3
    stages[2]["levels"]["age"] = 1
    assert findings() == ["its stages are not those of its mechanism and its map"]
    del stages[2]
    assert findings() == ["its stages are not those of its mechanism and its map"]


def test_a_series_fixes_chain_and_form(desk) -> None:
    changes = ({}, {"age": "levels = [0, 2, 3]"}, {"form": "counts"}, {"deletion": 'shape = "geometric"'})
    digests = {read_spec(spec_of(desk, **change), output=None, releases=2).series_digest for change in changes}
    assert len(digests) == len(changes)


def test_given_noise_is_taken_and_explained(desk) -> None:
    given = 'shape = "gaussian"\nscale = 7.8\nwidth = 40'
    explained = desk.succeed("explain", spec_of(desk, deletion=given), "--json").json
    assert explained["mechanism"]["noise"] == "gaussian"
    assert (explained["expected_deletion"], explained["largest_deletion"]) == (40.0, 80)
    assert [stage["levels"]["age"] for stage in explained["stages"]] == [0, 1, 3]
    [age] = [column for column in explained["columns"] if column["column"] == "age"]
    assert [level["possible"] for level in age["levels"]] == [True, True, False, True]
    told = desk.succeed("explain", spec_of(desk)).out
    assert "largest deletion" in told
    assert "stage 3" in told
    desk.refuse("run", spec_of(desk), "--dry-run")
