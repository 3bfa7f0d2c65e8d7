"""Whatever is wrong before the charge is one clear message with exit code 2, and leaves nothing behind."""

from __future__ import annotations

import bz2
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Fault = Callable[..., None]


INTERVAL = "interval = { lower = 0, upper = 100, widths = [10, 50] }"


def replaced(old: str, new: str) -> Fault:
    """A specification in which one piece of text is another."""

    def put(desk) -> None:
        def edit(text: str) -> str:
            assert old in text
            return text.replace(old, new)

        desk.write_spec(edit=edit)

    return put


def file_holds(name: str, content: bytes, **changes: str) -> Fault:
    """A file of the desk with other bytes."""

    def put(desk) -> None:
        (desk.folder / name).write_bytes(content)
        desk.write_spec(**changes)

    return put


def towns(text: str) -> Fault:
    return file_holds("towns.csv", text.encode())


def no_spec(desk) -> None:
    (desk.folder / "spec.toml").unlink(missing_ok=True)


def spec_is_not_text(desk) -> None:
    (desk.folder / "spec.toml").write_bytes(b"\xff\xfe")


def missing_hierarchy(desk) -> None:
    (desk.folder / "towns.csv").unlink()


def missing_source(desk) -> None:
    (desk.folder / "people.csv").unlink()


def listed_twice(desk) -> None:
    people = desk.folder / "many"
    people.mkdir()
    (people / "a.csv").write_bytes((desk.folder / "people.csv").read_bytes())
    (people / "b.csv").symlink_to(people / "a.csv")
    desk.write_spec(source="many")


def output_exists(desk) -> None:
    (desk.folder / "out").mkdir()
    (desk.folder / "out" / "keep.txt").write_text("mine")


def output_below_file(desk) -> None:
    (desk.folder / "plain").write_text("mine")
    desk.write_spec(output="plain/out")


def output_unwritable(desk) -> None:
    desk.write_spec(output="/proc/crowdblend-out")


def nested_parquet(desk) -> None:
    table = pa.table({"colour": [["red"]], "age": [1], "town": ["Lyon"]})
    pq.write_table(table, desk.folder / "people.parquet")
    desk.write_spec(source="people.parquet")


def binary_parquet(desk) -> None:
    table = pa.table({"colour": ["red"], "age": [1], "town": [{"a": 1}]})
    pq.write_table(table, desk.folder / "people.parquet")
    desk.write_spec(source="people.parquet")


def column_missing_in_one_file(desk) -> None:
    people = desk.folder / "many"
    people.mkdir()
    (people / "a.csv").write_text("colour;age;town\nred;1;Lyon\n")
    (people / "b.csv").write_text("colour;age\nred;1\n")
    desk.write_spec(source="many")


def column_missing_in_parquet(desk) -> None:
    pq.write_table(pa.table({"colour": ["red"], "age": [1]}), desk.folder / "people.parquet")
    desk.write_spec(source="people.parquet")


def packed(desk) -> None:
    with bz2.open(desk.folder / "people.csv.bz2", "wb") as file:
        file.write((desk.folder / "people.csv").read_bytes())
    desk.write_spec(source="people.csv.bz2")


FAULTS: dict[str, tuple[Fault, list[str]]] = {
    "specification missing": (no_spec, ["spec.toml"]),
    "specification is not TOML": (replaced("[data]", "[data"), ["spec.toml", "line"]),
    "specification is not text": (spec_is_not_text, ["spec.toml", "UTF-8"]),
    "unknown key": (replaced("form =", "from ="), ["[release].from", "no such key"]),
    "unknown table": (replaced("[privacy]", "[privacy]\nx = 1\n[extra]\ny = 1\n[privacy2]"), ["spec.toml"]),
    "section missing": (replaced("[privacy]\ndelta = 1e-6", ""), ["[privacy]", "required"]),
    "wrong type": (replaced("k = 20", 'k = "20"'), ["[suppression].k"]),
    "k below 1": (replaced("k = 20", "k = 0"), ["[suppression].k"]),
    "rate 0": (replaced("rate = 0.1", "rate = 0"), ["[sampling].rate"]),
    "delta 0": (replaced("delta = 1e-6", "delta = 0.0"), ["[privacy].delta"]),
    "unknown form": (replaced('form = "microdata"', 'form = "rows"'), ["[release].form"]),
    "level out of range": (replaced("level = 0", "level = 2"), ["[columns.colour].level", "0 to 1"]),
    "level missing": (replaced("level = 0", ""), ["[columns.colour].level"]),
    "two declarations": (
        replaced("level = 0", 'level = 0\nhierarchy = "towns.csv"'),
        ["[columns.colour]", "exactly one"],
    ),
    "no declaration": (
        replaced('values = ["blue", "green", "red"]', ""),
        ["[columns.colour]", "exactly one"],
    ),
    "value declared twice": (replaced('"green"', '"red"'), ["[columns.colour]"]),
    "tables deeper than calls can be": (
        replaced("[columns.colour]", f"[{'.'.join('a' * 990)}]"),
        ["spec.toml", "nested too deeply"],
    ),
    "widths not nested": (replaced("[10, 50]", "[10, 25]"), ["[columns.age]"]),
    "interval upside down": (replaced("upper = 100", "upper = -5"), ["[columns.age]"]),
    "days upside down": (
        replaced(INTERVAL, 'dates = { from = "2000-01-02", to = "2000-01-01", levels = [] }'),
        ["[columns.age]", "comes before it"],
    ),
    "a day of another form": (
        replaced(INTERVAL, 'dates = { from = "19000101", to = "2000-01-01", levels = [] }'),
        ["[columns.age]", "is no day"],
    ),
    "too many days": (
        replaced(INTERVAL, 'dates = { from = "1000-01-01", to = "2000-01-01", levels = [] }'),
        ["[columns.age]", "more than the 200000"],
    ),
    "days merged into weeks": (
        replaced(INTERVAL, 'dates = { from = "1900-01-01", to = "2000-01-01", levels = ["week"] }'),
        ["[columns.age.dates].levels"],
    ),
    "levels of days in another order": (
        replaced(INTERVAL, 'dates = { from = "1900-01-01", to = "2000-01-01", levels = ["year", "month"] }'),
        ["[columns.age]", "from fine to coarse"],
    ),
    "column called count": (replaced("[columns.colour]", "[columns.count]"), ["[columns.count]"]),
    "no record a person": (
        replaced('separator = ";"', 'separator = ";"\nrows_per_person = 0'),
        ["[data].rows_per_person"],
    ),
    "more records a person than are priced": (
        replaced('separator = ";"', 'separator = ";"\nrows_per_person = 10001'),
        ["records of a person"],
    ),
    "separator is a quote": (replaced('separator = ";"', "separator = '\"'"), ["[data].separator"]),
    "name that is a path": (replaced('name = "people-2026"', 'name = "../x"'), ["[release].name"]),
    "epsilon too small for the rate": (
        replaced("delta = 1e-6", "delta = 1e-6\nepsilon = 0.01"),
        ["[privacy].epsilon"],
    ),
    "hierarchy missing": (missing_hierarchy, ["towns.csv"]),
    "hierarchy with a gap": (towns("Lyon;South;*\nLille;;*\nParis;North;*\n"), ["towns.csv", "line 2"]),
    "hierarchy ragged": (towns("Lyon;South;*\nLille;North\nParis;North;*\n"), ["towns.csv", "line 2"]),
    "hierarchy not monotone": (
        towns("Lyon;South;France;*\nLille;North;France;*\nParis;South;Gaul;*\n"),
        ["towns.csv", "line 3"],
    ),
    "leaf twice": (towns("Lyon;South;*\nLille;North;*\nLyon;South;*\n"), ["towns.csv", "line 3"]),
    "hierarchy not UTF-8": (file_holds("towns.csv", b"Ly\xffon;South;*\n"), ["towns.csv"]),
    "source missing": (missing_source, ["people.csv"]),
    "glob without a match": (replaced("people.csv", "nobody-*.csv"), ["nobody-*.csv"]),
    "no header": (file_holds("people.csv", b""), ["people.csv", "header"]),
    "header of another table": (
        file_holds("people.csv", b"red;20;Lyon;1\nblue;30;Lille;2\n"),
        ["people.csv", "colour"],
    ),
    "wrong separator": (
        file_holds("people.csv", b"colour,age,town\nred,20,Lyon\n"),
        ["people.csv", "separator"],
    ),
    "column twice in the header": (
        file_holds("people.csv", b"colour;age;town;age\nred;20;Lyon;3\n"),
        ["people.csv", "age"],
    ),
    "header not UTF-8": (file_holds("people.csv", b"col\xffour;age;town\nred;20;Lyon\n"), ["people.csv"]),
    "column missing in one file": (column_missing_in_one_file, ["b.csv", "town"]),
    "column missing in Parquet": (column_missing_in_parquet, ["people.parquet", "town"]),
    "broken Parquet footer": (
        file_holds("people.parquet", b"PAR1 this is no Parquet file PAR1", source="people.parquet"),
        ["people.parquet"],
    ),
    "lists in Parquet": (nested_parquet, ["people.parquet", "colour"]),
    "records in Parquet": (binary_parquet, ["people.parquet", "town"]),
    "compressed CSV": (packed, ["people.csv.bz2"]),
    "unknown file type": (file_holds("people.xlsx", b"PK", source="people.xlsx"), ["people.xlsx"]),
    "file listed twice by a link": (listed_twice, ["csv", "twice"]),
    "output exists": (output_exists, ["out", "exists"]),
    "output below a file": (output_below_file, ["plain"]),
    "output can't be written": (output_unwritable, ["/proc"]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_bad_input_is_one_message_and_changes_nothing(desk, name: str) -> None:
    put, expected = FAULTS[name]
    desk.add_dataset()
    desk.write_spec()
    put(desk)
    entries = desk("ledger", "show", "--json").json
    before = desk.contents()

    tried = desk("run", "spec.toml", "--dry-run", "--json")
    assert desk.contents() == before
    answer = desk("run", "spec.toml", "--json")

    assert answer.code == 2, answer
    assert answer.json["error"]["exit_code"] == 2
    assert (tried.code, tried.json) == (answer.code, answer.json), "a dry run refuses what a run refuses, alike"
    for text in expected:
        assert text in answer.err, answer.err
    assert "Traceback" not in answer.err
    faults = answer.err.count("\n  [")
    assert len(answer.err.strip().splitlines()) == 1 + faults
    assert (f"{faults} things are missing or wrong" in answer.err) is (faults > 0)
    after = desk.contents()
    assert {path for path in after if not path.startswith("home")} == {
        path for path in before if not path.startswith("home")
    }
    assert not list(desk.folder.rglob("sampling.key*"))
    assert desk("ledger", "show", "--json").json == entries


def test_the_good_specification_is_not_refused_for_its_input(desk) -> None:
    """The control: the same desk without a fault gets as far as the accountant."""
    desk.add_dataset(epsilon="0.001")
    desk.write_spec()
    assert desk("run", "spec.toml").code == 3


def test_unknown_dataset_is_2(desk) -> None:
    desk("ledger", "init")
    desk.write_spec()
    answer = desk("run", "spec.toml")
    assert answer.code == 2
    assert "people" in answer.err


def test_missing_ledger_is_2_and_is_not_created(desk) -> None:
    desk.write_spec()
    answer = desk("run", "spec.toml")
    assert answer.code == 2
    assert "dataset add" in answer.err
    assert not (desk.folder / "ledger.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("run",),
        ("run", "spec.toml", "--no-such-option"),
        ("no-such-command",),
        ("dataset", "add", "people", "--epsilon", "-1", "--delta", "1e-6"),
        ("dataset", "add", "people", "--epsilon", "1", "--delta", "2"),
        ("run", "spec.toml", "--release-id", "../escape"),
        ("run", "spec.toml", "--ledger", "nonsense"),
        ("plan", "--k", "0", "--sampling-rate", "0.1", "--delta", "1e-6"),
        ("plan", "--k", "20", "--sampling-rate", "1", "--delta", "1e-6"),
        ("plan", "--k", "20"),
    ],
)
def test_bad_commands_are_2_without_a_traceback(desk, words: tuple[str, ...]) -> None:
    desk.write_spec()
    answer = desk(*words)
    assert answer.code == 2, answer
    assert "Traceback" not in answer.err
    assert answer.err.strip()


UNFINISHED = """
[release]
name = "p"
form = "row"
output = "out"
[data]
dataset = "people"
[sampling]
rate = 1.5
[suppression]
k = "20"
[privacy]
delta = 1e-6
[columns.colour]
values = ["FILL IN"]
level = "FILL IN"
[columns.age]
interval = { lower = "FILL IN", upper = "FILL IN", widths = [10] }
level = 0
[columns.town]
hierarchy = "written-later.csv"
levels = 3
[cluster]
adapt = { minimum = -1 }
"""


def test_all_faults_of_an_unfinished_specification_are_told_at_once(desk) -> None:
    desk.add_dataset()
    (desk.folder / "spec.toml").write_text(UNFINISHED)
    told = desk("explain", "spec.toml")
    assert told.code == 2
    lines = told.err.splitlines()
    assert lines[0] == (
        "crowdblend: spec.toml: 12 things are missing or wrong. Nothing was read, written or charged. They are:"
    )
    assert [line.strip().split(": ", 1) for line in lines[1:]] == [
        ["[columns.colour].values", "this is marked FILL IN and not written yet."],
        ["[columns.colour].level", "this is marked FILL IN and not written yet."],
        ["[columns.age.interval].lower", "this is marked FILL IN and not written yet."],
        ["[columns.age.interval].upper", "this is marked FILL IN and not written yet."],
        ["[release].form", "this must be 'microdata' or 'counts'."],
        ["[data].source", "this is required and missing."],
        ["[sampling].rate", "this must be less than 1."],
        ["[suppression].k", "this must be a whole number."],
        ["[columns.town].levels", "this must be a list in brackets."],
        ["[cluster.adapt].minimum", "this must be at least 0."],
        ["[cluster.adapt].maximum", "this is required and missing."],
        ["[columns.town].hierarchy", "there is no file written-later.csv."],
    ]


EVERY_FAULT = """
[release]
name = 1
form = "x"
verify_page = 1
metadata = { title = "", url = "ftp://x" }
[data]
dataset = ""
source = "x.csv"
separator = ";;"
null = "x"
[sampling]
rate = "a"
rates = []
[suppression]
k = 0.5
[privacy]
delta = nan
epsilon = true
[margins]
pairs = [["a", 1]]
[selection]
epsilon = 200
candidates = [{ age = "x" }]
[columns.age]
level = -1
[columns]
town = 3
[cluster]
address = "tls://a"
class = "b"
"""


def test_no_message_has_the_words_of_a_library(desk) -> None:
    (desk.folder / "spec.toml").write_text(EVERY_FAULT)
    told = desk("explain", "spec.toml").err
    assert "19 things" in told
    for word in (
        "Input should",
        "pydantic",
        "instance of",
        "Field",
        "validation",
        "dictionary",
        "Value error",
        "Table",
    ):
        assert word not in told, told
    assert "[selection].candidates, number 1, age: this must be a whole number." in told
    assert "[cluster]: name exactly one of address, scheduler_file and class." in told


def test_a_misspelt_column_is_asked_about(desk) -> None:
    desk.add_dataset()
    desk.write_spec(edit=lambda text: text.replace("[columns.colour]", "[columns.color]"))
    assert "the header does not name 'color'. Nothing was read, written or charged. Did you mean 'colour'?" in (
        desk("run", "spec.toml").err
    )
    pq.write_table(pa.table({"colour": ["red"], "age": [1], "town": ["Lyon"]}), desk.folder / "people.parquet")
    spec = desk.write_spec(source="people.parquet", edit=lambda text: text.replace("columns.town", "columns.Twon"))
    assert "Did you mean 'town'?" in desk("run", spec).err


def test_a_first_line_that_may_be_a_record_is_not_quoted_for_a_misspelt_column(desk) -> None:
    desk.add_dataset()
    (desk.folder / "people.csv").write_text("colours;agee;town of Lyon\nred;20;Lyon\n")
    desk.write_spec()
    told = desk("run", "spec.toml")
    assert told.code == 2
    assert "Lyon" not in told.err
    assert "Did you mean" not in told.err
