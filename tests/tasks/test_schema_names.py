"""A specification is begun from names and types: no value of the records gets into it, from wherever it might."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.deploy.proposals.begun_spec import begun_spec
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.inputs.schema import read_names

PLANTED = "Zanzibar7"


def sketch(path: Path) -> str:
    names = read_names(str(path), base=path.parent)
    begun = begun_spec(
        names, label="x", dataset="x", source="x", schema="s.json", released=[c.name for c in names.columns]
    )
    return begun.text


def planted_parquet(path: Path) -> None:
    """The mark in a dictionary, in statistics, in pages, in the footer's own notes, and in a nested type."""
    table = pa.table(
        {
            "town": pa.array([PLANTED, "Lyon"] * 50).dictionary_encode(),
            "name": pa.array([f"{PLANTED} {number}" for number in range(100)]),
            "age": pa.array(range(100)),
            "member": pa.array([True, False] * 50),
            "born": pa.array([0] * 100, type=pa.date32()),
            "income": pa.array([1.5] * 100),
            "tags": pa.array([{PLANTED: 1}] * 100),
        }
    )
    notes = {b"pandas": json.dumps({"index_columns": [PLANTED], "columns": []}).encode()}
    fields = [field.with_metadata({"note": PLANTED}) for field in table.schema]
    table = table.cast(pa.schema(fields, metadata=notes))
    pq.write_table(table, path, compression="none", write_statistics=True)


def test_nothing_of_a_parquet_file_but_names_and_kinds(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    planted_parquet(path)
    assert path.read_bytes().count(PLANTED.encode()) > 5, "the control: the mark is in many places"
    names = read_names(str(path), base=tmp_path)
    assert [(column.name, column.kind) for column in names.columns] == [
        ("town", "text"),
        ("name", "text"),
        ("age", "integer"),
        ("member", "boolean"),
        ("born", "date"),
        ("income", "number"),
        ("tags", "unmapped"),
    ]
    assert PLANTED not in repr(names)
    assert PLANTED not in sketch(path)


def test_no_page_is_read(tmp_path: Path) -> None:
    """With every page overwritten the same specification comes out, so none was looked at."""
    path = tmp_path / "people.parquet"
    planted_parquet(path)
    before = sketch(path)
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(content[:4] + bytes(len(content) - footer - 4) + content[-footer:])
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(path)
    assert sketch(path) == before


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_nothing_of_a_csv_file_but_its_first_line(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text(mark.join(("town", '"full name"', "age")) + "\n" + mark.join((PLANTED, "x", "7")) + "\n")
    names = read_names(str(path), base=tmp_path)
    assert [column.name for column in names.columns] == ["town", "full name", "age"]
    assert {column.kind for column in names.columns} == {"unknown"}
    assert names.separator == mark
    assert PLANTED not in sketch(path)


@pytest.mark.parametrize(
    "line",
    [
        f"{PLANTED};34;nurse",
        f"{PLANTED};2001-04-03;nurse",
        f"{PLANTED};anna@example.org;nurse",
        f"{PLANTED};;nurse",
        f"{PLANTED};nurse;nurse",
        f"{PLANTED};12,5 %;nurse",
    ],
)
def test_a_first_line_that_seems_a_record_is_refused_unquoted(tmp_path: Path, line: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text(line + "\n")
    with pytest.raises(InputRefused, match="seems to be a record") as refused:
        read_names(str(path), base=tmp_path)
    assert PLANTED not in refused.value.message
    assert "anna" not in refused.value.message


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("people.xlsx", "spreadsheet"),
        ("people.ods", "spreadsheet"),
        ("people.rds", "statistics"),
        ("people.duckdb", "database"),
        ("postgresql://anna:Zanzibar7@host/people", "database"),
        ("mysql+pymysql://anna:Zanzibar7@host/people", "database"),
        ("jdbc:oracle:thin:@host", "database"),
    ],
)
def test_other_sources_are_refused_with_the_way_round(tmp_path: Path, source: str, word: str) -> None:
    with pytest.raises(InputRefused, match=word) as refused:
        read_names(source, base=tmp_path)
    assert "Parquet" in refused.value.remedy
    assert PLANTED not in refused.value.message, "a password"
