"""The published table holds the surviving groups and nothing else."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kinds.microdata import suppress
from crowdblend.tasks.readers.column_codes import arrow_of, texts_of
from crowdblend.tasks.stages import table as table_module
from crowdblend.tasks.stages.table import PublishedTable, TableColumn, count_table, figure_column, write_table

COLOURS = ValueHierarchy.from_values(["blue", "green", "red, dark", "secret"])
SIZES = ValueHierarchy.from_values(["L", "S"])
MAP = GeneralizationMap(
    columns=(
        MappedColumn(name="colour", hierarchy=COLOURS, level=0),
        MappedColumn(name="size", hierarchy=SIZES, level=0),
    )
)


def groups(counts: dict[tuple[int, int], int], *, form: str, k: int = 20) -> PublishedTable:
    codes = np.array(list(counts), dtype=np.int64).reshape(-1, 2).T
    keys = MAP.keys([codes[0], codes[1]])
    kept = suppress(keys, np.array(list(counts.values()), dtype=np.int64), k)
    return count_table(kept.keys, kept.counts, generalization=MAP, form=form)


SAMPLE = {(1, 1): 40, (2, 2): 20, (3, 1): 25, (4, 1): 19}


@pytest.mark.parametrize("form", ["microdata", "counts"])
def test_parquet_and_csv_hold_the_same(tmp_path: Path, form) -> None:
    published = groups(SAMPLE, form=form)
    write_table(published, folder=tmp_path, file_format="parquet")
    write_table(published, folder=tmp_path, file_format="csv")
    from_parquet = [
        {name: str(value) for name, value in row.items()}
        for row in pq.read_table(tmp_path / "data.parquet").to_pylist()
    ]
    with (tmp_path / "data.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == from_parquet
    assert len(from_parquet) == (85 if form == "microdata" else 3)


@pytest.mark.parametrize("form", ["microdata", "counts"])
def test_a_suppressed_value_is_nowhere_in_the_file(tmp_path: Path, form) -> None:
    """Not as a row, a dictionary entry or a statistic; the control is a value that is published."""
    write_table(groups(SAMPLE, form=form), folder=tmp_path, file_format="parquet")
    whole = (tmp_path / "data.parquet").read_bytes()
    assert b"secret" not in whole
    table = pq.read_table(tmp_path / "data.parquet")
    assert "green" in table["colour"].to_pylist()
    write_table(groups(SAMPLE, form=form, k=19), folder=tmp_path, file_format="parquet")
    assert "secret" in pq.read_table(tmp_path / "data.parquet")["colour"].to_pylist()


def test_the_bytes_follow_from_the_published_groups_alone(tmp_path: Path) -> None:
    """Other suppressed groups, and another order of arrival, give the same bytes."""
    names = []
    for place, counts in enumerate((SAMPLE, dict(reversed(SAMPLE.items())), {**SAMPLE, (1, 2): 3, (4, 1): 1})):
        folder = tmp_path / str(place)
        folder.mkdir()
        write_table(groups(counts, form="microdata"), folder=folder, file_format="parquet")
        names.append((folder / "data.parquet").read_bytes())
    assert names[0] == names[1] == names[2]


def test_nothing_survives_is_an_empty_table(tmp_path: Path) -> None:
    write_table(groups({(1, 1): 3}, form="counts"), folder=tmp_path, file_format="parquet")
    assert pq.read_table(tmp_path / "data.parquet").num_rows == 0
    assert pq.read_schema(tmp_path / "data.parquet").names == ["colour", "size", "count"]


ODD = ["", " ", "a,b", '"', 'x"y', "line\nfeed", "carriage\rreturn", "é…", "'", "None", "0", ";"]


@pytest.mark.parametrize("rows_at_once", [1, 3, 7, 1000])
def test_blocks_hold_each_row_as_often_as_it_is_published(rows_at_once) -> None:
    """Rows that are published never, at the beginning, at the end and where a block ends, are in none."""
    times = np.array([0, 0, 3, 1, 0, 5, 0, 0, 12, 2, 0], dtype=np.int64)
    numbers = np.arange(times.size, dtype=np.int64)
    for repeated in (times, None, times[:2]):
        distinct = numbers if repeated is None else numbers[: repeated.size]
        table = PublishedTable(columns=(figure_column("number", distinct),), times=repeated)
        blocks = list(table.blocks(rows_at_once))
        expected = (distinct if repeated is None else np.repeat(distinct, repeated)).tolist()
        assert [number for block in blocks for number in block["number"].to_pylist()] == expected
        assert [block.num_rows for block in blocks[:-1]] == [rows_at_once] * (len(blocks) - 1)


@pytest.mark.parametrize("alone", [True, False])
def test_csv_is_what_pythons_writer_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone) -> None:
    """Whatever the texts and numbers, in labels with a dictionary or without, in blocks of any size."""
    weights = np.array([0.0, -0.0, 1.5, 1 / 3, 1e300, -1.0, 1e-5, 7.0, 2.0, 2.0, 1e16, 0.1])
    columns = [
        TableColumn(
            name="odd, name",
            values=pa.DictionaryArray.from_arrays(arrow_of(np.arange(12, dtype=np.int32)[::-1]), texts_of(ODD)),
        ),
        TableColumn(name="text", values=texts_of(ODD)),
        figure_column("weight", weights),
        TableColumn(name="shown", values=figure_column("", weights).values, shown=lambda value: f"{value:.1f}"),
        figure_column("count", np.arange(12)),
    ]
    chosen = [columns[1:2], columns[:1]] if alone else [columns]
    monkeypatch.setattr(table_module, "TEXT_ROWS_AT_ONCE", 5)
    for own in chosen:
        for times in (None, np.arange(12)[::-1]):
            table = PublishedTable(columns=tuple(own), times=times)
            write_table(table, folder=tmp_path, file_format="csv")
            expected = io.StringIO()
            writer = csv.writer(expected, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
            writer.writerow([column.name for column in own])
            rows = zip(*(column.texts for column in own), strict=True)
            for row, count in zip(rows, [1] * 12 if times is None else times.tolist(), strict=True):
                writer.writerows([row] * count)
            assert (tmp_path / "data.csv").read_bytes() == expected.getvalue().encode()


def test_labels_of_very_many_possible_codes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = MAP.keys([np.array([0, 3, 3, 1]), np.array([2, 0, 1, 2])])
    dense = [column.values for column in table_module.label_columns(keys, generalization=MAP)]
    monkeypatch.setattr(table_module, "_DENSE_CODES", 0)
    assert [column.values for column in table_module.label_columns(keys, generalization=MAP)] == dense
    assert dense[0].to_pylist() == ["*", "red, dark", "red, dark", "blue"]
