"""Pages decoded at sampled positions give what pyarrow gives, whoever wrote the file, or are left to pyarrow."""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.generalization_map import MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.recoding import Placement
from crowdblend.tasks.readers.column_codes import ColumnCoder
from crowdblend.tasks.readers.sampled_pages import SampledPages
from crowdblend.tasks.readers.values import RecordReading

page_decoder = pytest.importorskip("crowdblend.tasks.readers.page_decoder", reason="installed without a compiler")
RECORDS = 9_000
STRIDE = 3
TEXTS = [f"text {number}" for number in range(300)]
NUMBERS = [str(number) for number in range(-150, 150)]
DAYS = [(datetime.date(2026, 1, 1) + datetime.timedelta(days=number)).isoformat() for number in range(300)]
EVERYTHING = ValueHierarchy.from_values([*TEXTS, *NUMBERS, *DAYS, "4294967295", "18446744073709551615"])


def table_of(records: int = RECORDS, seed: int = 1) -> pa.Table:
    """Runs, short runs, one value only, nulls in runs and here and there, and every type that is decoded."""
    rng = np.random.default_rng(seed)
    mixed = rng.integers(0, 300, records)
    runs = np.repeat(rng.integers(0, 300, records // 50 + 1), 50)[:records]
    halves = np.where(np.arange(records) // 700 % 2, mixed, runs)
    texts = np.array(TEXTS, dtype=object)
    scattered = rng.random(records) < 0.2
    in_runs = np.arange(records) // 900 % 3 == 1
    columns = {
        "text": pa.array(texts[mixed]),
        "runs": pa.array(texts[runs]),
        "halves": pa.array(texts[halves]),
        "one": pa.array(["text 7"] * records),
        "two": pa.array(texts[mixed % 2]),
        "scattered_nulls": pa.array(texts[halves], mask=scattered),
        "null_runs": pa.array(texts[mixed], mask=in_runs),
        "all_null": pa.array([None] * records, type=pa.string()),
        "last_only": pa.array([None] * (records - 1) + ["text 9"], type=pa.string()),
        "int64": pa.array(mixed - 150),
        "int64_nulls": pa.array(mixed - 150, mask=scattered),
        "int32": pa.array((halves - 150).astype(np.int32)),
        "int8": pa.array((mixed % 200 - 100).astype(np.int8)),
        "uint16": pa.array(mixed.astype(np.uint16)),
        "uint32": pa.array(np.where(mixed < 9, 2**32 - 1, mixed).astype(np.uint32)),
        "uint64": pa.array(np.where(mixed < 9, 2**64 - 1, mixed.astype(np.uint64)).astype(np.uint64)),
        "day": pa.array([datetime.date(2026, 1, 1) + datetime.timedelta(days=int(n)) for n in mixed]),
        "float64": pa.array((mixed - 150).astype(np.float64)),
        "float32": pa.array((mixed - 150).astype(np.float32)),
    }
    return pa.table(columns)


def coder(name: str, word: int = 0) -> ColumnCoder:
    column = MappedColumn(name=name, hierarchy=EVERYTHING, level=0)
    return ColumnCoder(
        column=column, placement=Placement(word=word, stride=STRIDE, size=1 << 40), reading=RecordReading()
    )


def codes_of(
    pages: SampledPages, coders: list[ColumnCoder], row_group: int, positions: np.ndarray
) -> dict[str, np.ndarray | None]:
    """What is added for each column, whose words must differ; None where it is left."""
    before = np.arange(len(coders) * positions.size, dtype=np.int64).reshape(len(coders), -1)
    keys = before.copy()
    left = pages.add_keys(coders, row_group, positions, keys)
    added = keys - before
    assert not any(added[asked.placement.word].any() for asked in left)
    return {asked.column.name: None if asked in left else added[asked.placement.word] for asked in coders}


def differences(path: Path) -> tuple[list[str], list[str]]:
    """Columns that were decoded here and those that were left, after comparing all that were with pyarrow."""
    parquet = pq.ParquetFile(path)
    pages = SampledPages(pa.OSFile(str(path)), parquet)
    names = parquet.schema_arrow.names
    rng = np.random.default_rng(5)
    left = set()
    lasting = [coder(name, word) for word, name in enumerate(names)]
    for row_group in range(parquet.metadata.num_row_groups):
        values = parquet.read_row_group(row_group).combine_chunks()
        for rate in (0.0, 0.001, 0.1, 0.9, 1.0):
            positions = np.flatnonzero(rng.random(values.num_rows) < rate).astype(np.int64)
            for coders in (lasting, *([coder(name)] for name in names)):  # all columns at once, and each by itself
                for name, found in codes_of(pages, coders, row_group, positions).items():
                    if found is None:
                        left.add(name)
                    else:
                        [chunk] = values[name].chunks
                        expected = coder(name).scaled_codes(chunk, positions)
                        assert np.array_equal(found, expected), (name, row_group, rate)
    return [name for name in names if name not in left], [name for name in names if name in left]


@pytest.mark.slow
@pytest.mark.parametrize(
    "codec", ["snappy", *(pytest.param(codec, marks=pytest.mark.slow) for codec in ("NONE", "zstd", "gzip"))]
)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    "layout",
    [
        {},
        {"data_page_size": 200, "write_batch_size": 64},
        {"row_group_size": 1000, "store_schema": False},
        {"version": "1.0"},
        {"write_page_checksum": True, "write_page_index": True},
    ],
    ids=["default", "small pages", "small row groups", "old types", "checksums"],
)
def test_files_of_pyarrow(tmp_path, codec, version, layout):
    table = table_of()
    pq.write_table(table, tmp_path / "in.parquet", compression=codec, data_page_version=version, **layout)
    _, left = differences(tmp_path / "in.parquet")
    assert set(left) <= ({"uint32"} if layout.get("version") == "1.0" else set())  # stored as INT64 then


def test_required_columns_have_no_levels(tmp_path):
    table = table_of().select(["text", "int64", "one"])
    strict = table.cast(pa.schema([field.with_nullable(False) for field in table.schema]))
    pq.write_table(strict, tmp_path / "in.parquet")
    assert differences(tmp_path / "in.parquet")[1] == []


def test_dictionaries_and_long_strings_of_arrow(tmp_path):
    table = table_of().select(["text", "null_runs"])
    table = table.append_column("coded", table["text"].dictionary_encode())
    table = table.append_column("large", table["text"].cast(pa.large_string()))
    table = table.append_column("view", table["text"].cast(pa.string_view()))
    pq.write_table(table, tmp_path / "in.parquet")
    assert differences(tmp_path / "in.parquet")[1] == []


def test_files_of_pandas(tmp_path):
    frame = table_of().to_pandas()
    frame["category"] = frame["text"].astype("category")
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=4000)
    assert differences(tmp_path / "in.parquet")[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "uncompressed"])
def test_files_of_polars(tmp_path, codec):
    pl.from_arrow(table_of()).write_parquet(tmp_path / "in.parquet", compression=codec, row_group_size=2500)
    taken, _ = differences(tmp_path / "in.parquet")
    assert {"text", "runs", "one", "scattered_nulls"} <= set(taken)


class CountedReads:
    """A file that counts how often it is read."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path))
        self.reads = 0

    def seek(self, place: int) -> None:
        """Go to a place."""
        self._file.seek(place)

    def read_buffer(self, size: int) -> pa.Buffer:
        """Read, and count that."""
        self.reads += 1
        return self._file.read_buffer(size)


def test_small_columns_with_metadata_between_them_are_read_at_once(tmp_path):
    names = ["text", "runs", "one", "two"]
    pl.from_arrow(table_of().select(names)).write_parquet(tmp_path / "in.parquet", compression="zstd")
    parquet = pq.ParquetFile(tmp_path / "in.parquet")
    parts = [parquet.metadata.row_group(0).column(place) for place in range(len(names))]
    assert parts[0].dictionary_page_offset + parts[0].total_compressed_size < parts[1].dictionary_page_offset
    file = CountedReads(tmp_path / "in.parquet")
    found = codes_of(
        SampledPages(file, parquet),
        [coder(name, word) for word, name in enumerate(names)],
        0,
        np.arange(0, RECORDS, 9, dtype=np.int64),
    )
    assert all(codes is not None for codes in found.values())
    assert file.reads == 1


@pytest.mark.parametrize("settings", ["", ", PARQUET_VERSION V2", ", COMPRESSION ZSTD, ROW_GROUP_SIZE 2048"])
def test_files_of_duckdb(tmp_path, settings):
    table = table_of()
    with duckdb.connect() as connection:
        connection.register("records", table)
        connection.execute(f"COPY records TO '{tmp_path / 'in.parquet'}' (FORMAT parquet{settings})")
    taken, _ = differences(tmp_path / "in.parquet")
    assert {"two", "runs", "one"} <= set(taken)


def test_layouts_like_those_of_spark(tmp_path):
    """Snappy, version 1 pages, optional columns, several pages of a dictionary; then a dictionary given up midway."""
    pq.write_table(
        table_of(),
        tmp_path / "in.parquet",
        compression="snappy",
        version="1.0",
        store_schema=False,
        data_page_size=2000,
    )
    assert "text" in differences(tmp_path / "in.parquet")[0]
    pq.write_table(table_of(), tmp_path / "mixed.parquet", dictionary_pagesize_limit=600, data_page_size=500)
    encodings = pq.ParquetFile(tmp_path / "mixed.parquet").metadata.row_group(0).column(0).encodings
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(encodings)
    taken, left = differences(tmp_path / "mixed.parquet")
    assert "text" in left
    assert "two" in taken


def test_what_is_not_known_is_left(tmp_path):
    table = pa.table({"list": [[1], [2]], "flag": [True, False], "text": ["text 1", "text 2"]})
    pq.write_table(table, tmp_path / "in.parquet", compression="brotli")
    pages = SampledPages(pa.OSFile(str(tmp_path / "in.parquet")), pq.ParquetFile(tmp_path / "in.parquet"))
    everything = np.arange(2, dtype=np.int64)
    coders = [coder(name, word) for word, name in enumerate(("list", "flag", "text", "none"))]
    assert list(codes_of(pages, coders, 0, everything).values()) == [None] * 4


def test_what_one_type_has_taught_is_not_taken_for_another(tmp_path):
    """Four bytes of text and a 32-bit number can be the same bytes; files of one task may differ in their types."""
    number = int.from_bytes(b"1234", "little")
    asked = coder("one")
    for name, values in (
        ("text", pa.array(["1234", "text 1"] * 50)),
        ("number", pa.array([number, 5] * 50, type=pa.int32())),
        ("day", pa.array([number % 10_000, 5] * 50, type=pa.int32()).cast(pa.date32())),
        ("unsigned", pa.array([2**32 - 1, 5] * 50, type=pa.uint32())),
        ("signed", pa.array([-1, 5] * 50, type=pa.int32())),
    ):
        pq.write_table(pa.table({"one": values}), tmp_path / name)
        pages = SampledPages(pa.OSFile(str(tmp_path / name)), pq.ParquetFile(tmp_path / name))
        for _ in range(2):  # the second time by what is known
            found = codes_of(pages, [asked], 0, np.arange(100, dtype=np.int64))["one"]
            assert found is not None
            assert np.array_equal(found, coder("one").scaled_codes(values, None)), name


@pytest.mark.parametrize("at", ["headers", "frames"])
def test_a_damaged_column_spoils_no_other_that_was_read_with_it(tmp_path, at):
    table = table_of().select(["text", "halves", "int64", "runs"])
    pq.write_table(table, tmp_path / "in.parquet", compression="zstd")
    parquet = pq.ParquetFile(tmp_path / "in.parquet")
    content = bytearray((tmp_path / "in.parquet").read_bytes())
    start = parquet.metadata.row_group(0).column(1).data_page_offset
    if at == "frames":
        start = content.index(b"\x28\xb5\x2f\xfd", start) + 12  # past what the headers' reader looks at
    content[start : start + 30] = b"\xff" * 30
    (tmp_path / "in.parquet").write_bytes(content)
    pages = SampledPages(pa.OSFile(str(tmp_path / "in.parquet")), parquet)
    everything = np.arange(table.num_rows, dtype=np.int64)
    found = codes_of(pages, [coder(name, word) for word, name in enumerate(table.column_names)], 0, everything)
    assert found.pop("halves") is None
    for name, codes in found.items():
        assert np.array_equal(codes, coder(name).scaled_codes(table[name].combine_chunks(), None)), name
