"""Releases that limit each person's records by a column: price, certificate, refusals, and what is told of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def write_visits(desk, *, people: int = 400, visits: int = 5, file: str = "people.csv") -> None:
    """So many visits of each of so many people: of one person all in one town, of another colour each time."""
    colours, towns = ("blue", "green", "red"), ("Lyon", "Marseille", "Lille", "Paris")
    lines = ["colour;age;town;secret;who"]
    lines += [
        f"{colours[(i + v) % 3]};{20 + 10 * (i % 2)};{towns[i % 4]};{i};p{i}"
        for i in range(people)
        for v in range(visits)
    ]
    (desk.folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")


def spec_of(
    desk, *, unit: str = "person", most: int = 1, column: str = "who", edit=lambda text: text, **changes
) -> Path:
    def edited(text: str) -> str:
        more = f'{unit} = "{column}"\n' + ("" if most == 1 else f"rows_per_person = {most}\n")
        return edit(text.replace('separator = ";"\n', f'separator = ";"\n{more}'))

    return desk.write_spec(edit=edited, **changes)


def rows_of(result: dict) -> list[dict]:
    return pq.read_table(Path(result["output"]) / "data.parquet").to_pylist()


@pytest.mark.parametrize("unit", ["person", pytest.param("household", marks=pytest.mark.slow)])
def test_the_certificate_says_unit_column_and_limit_and_verifies(desk, unit) -> None:
    of_unit = ("--rows-per-person", "2", "--unit", f"{unit}:who")
    desk.succeed("dataset", "add", "people", "--epsilon", "10", "--delta", "1e-3", *of_unit)
    write_visits(desk)
    result = desk.succeed("run", spec_of(desk, unit=unit, most=2, k="60"), "--json").json
    certificate = json.loads(Path(result["certificate"]).read_text())
    guarantee = certificate["guarantee"]
    assert guarantee["unit"] == f"one {unit}, at most 2 records"
    assert guarantee["enforced_by"] == "who"
    assert guarantee["rows_per_person"] == 2
    assert f"any one {unit}, of which at most 2 counted" in guarantee["in_words"]
    assert f"a {unit}" in guarantee["limits"]
    assert certificate["sampler_layout"].startswith(f"aes-contributions-{unit}/1 ")
    desk.succeed("verify", result["certificate"])
    shown = desk.succeed("release", "show", result["release_id"]).out if unit == "person" else ""
    assert "p17" not in json.dumps(certificate) + shown
    for path in (*desk.home.rglob("*"), *Path(result["output"]).iterdir(), desk.folder / "crowdblend-ledger.db"):
        if path.is_file():
            assert b"p399" not in path.read_bytes()


REPORTS = """
[release]
name = "asked"
[data]
dataset = "people"
source = "reports"
person = "who"
[reports]
kind = "k-randomization"
flip_probability = 0.25
questions = ["one", "two", "three"]
"""


def test_what_cannot_be_limited_is_refused_with_its_place_and_nothing_is_charged(desk) -> None:
    desk.add_dataset(unit="person:nobody")
    write_visits(desk)

    def refused(spec: Path, *said: str) -> None:
        for command in (("run", spec, "--output", "never"), ("run", spec, "--dry-run", "--output", "never")):
            answer = desk.refuse(*command)
            for text in said:
                assert text in answer.err
            assert "Traceback" not in answer.err

    refused(spec_of(desk, column="nobody"), "people.csv", "'nobody'", "[data].person")
    refused(spec_of(desk, column="town"), "[data].person", "[columns.town]")
    both = spec_of(desk, edit=lambda text: text.replace("person =", 'household = "town"\nperson ='))
    refused(both, "[data].household", "exclude each other")
    refused(spec_of(desk, most=10001), "10000")
    answer = '[answer]\nkind = "sum"\ncolumn = "secret"\nlower = 0\nupper = 9\nby = ["town"]\nepsilon = 1\n'

    def summed(text: str) -> str:
        columns = text[text.index("[columns.town]") :]
        return text[: text.index("[sampling]")].replace('form = "microdata"', "") + answer + columns

    refused(spec_of(desk, column="secret", edit=summed), "[data].person", "published")
    (desk.folder / "asked.toml").write_text(REPORTS)
    refused(desk.folder / "asked.toml", "[data].person", "[reports]")
    unequal = (
        '[sampling]\ncolumn = "secret"\nrates = [0.1, 0.15]\n[histogram]\nkind = "suppressed"\nk = 20\n'
        '[privacy]\ndelta = 1e-3\n[columns.colour]\nvalues = ["blue"]\nlevel = 0\n'
    )
    refused(
        spec_of(desk, edit=lambda text: text[: text.index("[sampling]")].replace('form = "microdata"', "") + unequal),
        "[data].person",
        "rates",
    )
    assert desk("ledger", "show", "--json").json["releases"] == []


def test_what_is_told_beforehand_knows_of_the_limit(desk) -> None:
    desk.add_dataset(unit="household:who")
    write_visits(desk)
    spec = spec_of(desk, unit="household")
    limit = {"unit": "household", "column": "who", "records": 1}
    assert desk.succeed("explain", spec, "--json").json["limit"] == limit
    assert "household" in desk.succeed("explain", spec).out
    assert desk.succeed("run", spec, "--dry-run", "--json").json["limit"] == limit
    assert "each household of the column 'who'" in desk.succeed("run", spec, "--dry-run").out
    assert desk.succeed("explain", desk.write_spec(), "--json").json["limit"] is None
    write_visits(desk, people=300, file="public.csv")
    preview = desk.succeed("preview", spec_of(desk), "--public", "public.csv", "--json").json
    assert any("at most 1 record of each person" in remark for remark in preview["remarks"])


@pytest.mark.slow
def test_the_private_report_tells_how_many_records_were_left_out_and_nothing_else_does(desk) -> None:
    desk.add_dataset(unit="person:who")
    write_visits(desk, people=401, visits=7)
    spec = spec_of(desk)
    result = desk.succeed("run", spec, "--output", "out", "--json")
    left_out = 401 * 6
    report = desk.succeed("report", "private", spec, "out", "--json").json
    assert report["measures"]["left_out"] == left_out
    assert f"{left_out // 1000}\u202f{left_out % 1000:03d}" in Path(report["report"]).read_text(encoding="utf-8")
    public = result.out + Path(result.json["certificate"]).read_text(encoding="utf-8")
    assert str(left_out) not in public
    desk.refuse("report", "private", spec, "out", "--attacks", said="attacks take each record for another person's")
    assert len(desk("ledger", "show", "--json").json["private_looks"]) == 1
    desk.refuse("report", "private", spec_of(desk, unit="household"), "out", said="another limit")


def write_table(desk, *, people: int = 400, visits: int = 5) -> None:
    """The visits as Parquet, with ids that are numbers; one more of each person has no id."""
    colours, towns = ("blue", "green", "red"), ("Lyon", "Marseille", "Lille", "Paris")
    rows = [(i, v) for i in range(people) for v in range(visits)]
    table = {
        "colour": [colours[(i + v) % 3] for i, v in rows],
        "age": [20 + 10 * (i % 2) for i, _ in rows],
        "town": [towns[i % 4] for i, _ in rows],
        "who": [i if v else None for i, v in rows],
    }
    pq.write_table(pa.table(table), desk.folder / "visits.parquet", row_group_size=300)


SAMPLED = "[sampling]\nrate = 0.5\n[privacy]\ndelta = 1e-3\n"
OF_EACH_KIND = {
    "microdata": "[suppression]\nk = 20\n" + SAMPLED,
    "deletion": "[deletion]\n[privacy]\nepsilon = 5\ndelta = 1e-6\n",
    "suppressed histogram": '[histogram]\nkind = "suppressed"\nk = 20\n' + SAMPLED,
    "noisy histogram": '[histogram]\nkind = "noisy"\nk = 20\nepsilon = 5\n' + SAMPLED,
    "answer": '[answer]\nkind = "count"\nepsilon = 5\nby = ["colour"]\n',
    "points": '[points]\nkind = "suppressed"\nk = 20\ncells_per_side = 4\n' + SAMPLED,
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "deletion" else pytest.mark.slow) for kind in OF_EACH_KIND]
)
def test_each_kind_that_takes_a_column_of_persons_counts_so_many_records_of_each(desk, kind) -> None:
    """Of 400 people with four records and an id one each, and all 400 records without an id: 800 of 2,000."""
    desk.add_dataset(epsilon="100", delta="1e-2", unit="person:who")
    desk.succeed("dataset", "add", "None", "--epsilon", "100", "--delta", "1e-2")
    write_table(desk)

    def edit(text: str) -> str:
        head = text[: text.index("[sampling]")].replace('form = "microdata"\n', "")
        axis = "[columns.age]\nbounds = { lower = 0, upper = 100 }\n"
        colour = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'
        return head + OF_EACH_KIND[kind] + (axis if kind == "points" else colour)

    totals, prices = [], set()
    for unit in ("person", None):
        name = f"{unit}.toml"
        if unit is None:
            plain = {"edit": lambda text: edit(text).replace('"people"', '"None"'), "file": name}
            spec = desk.write_spec(source="visits.parquet", **plain)
        else:
            spec = spec_of(desk, edit=edit, source="visits.parquet", file=name)
        result = desk.succeed("run", spec, "--output", f"out-{unit}", "--json").json
        desk.succeed("verify", result["certificate"])
        prices.add(result["epsilon"])
        rows = rows_of(result)
        totals.append(sum(row.get("answer", row.get("count", 1)) for row in rows))
        assert json.loads(Path(result["certificate"]).read_text())["guarantee"].get("enforced_by") == (unit and "who")
    assert len(prices) == 1, "it is the price of one record"
    share = 0.5 if SAMPLED in OF_EACH_KIND[kind] else 1
    for total, records in zip(totals, (800, 2_000), strict=True):
        assert abs(total - share * records) < 130, (kind, totals)
