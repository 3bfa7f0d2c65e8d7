"""Row groups: each type maps as its text does, in any encoding, and only sampled records are looked at."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.recoding import Placement
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers import parquet_records
from crowdblend.tasks.readers.column_codes import ColumnCoder
from crowdblend.tasks.readers.parquet_records import PARQUET
from crowdblend.tasks.readers.values import RecordReading
from support.coins import coins_of

KEY = bytes(range(32))
READING = RecordReading(null_values=("", "4", "none"))
VALUES = ValueHierarchy.from_values(
    ["a", "b", "4", "5", "-3", "true", "2026-01-02", "9223372036854775807", "18446744073709551615", "none"]
)
RANGE = IntervalHierarchy(lower=0, upper=10, widths=(5,))
STRIDE = 7


def coder(hierarchy, name: str = "x", level: int = 0) -> ColumnCoder:
    return ColumnCoder(
        column=MappedColumn(name=name, hierarchy=hierarchy, level=level),
        placement=Placement(word=0, stride=STRIDE, size=1 << 40),
        reading=READING,
    )


def labels(values: pa.Array, hierarchy) -> list[str]:
    scaled = coder(hierarchy).scaled_codes(values, np.arange(len(values)))
    assert np.all(scaled % STRIDE == 0)
    return hierarchy.labels(scaled // STRIDE, 0)


MAP = GeneralizationMap(
    columns=(
        MappedColumn(name="letter", hierarchy=VALUES, level=0),
        MappedColumn(name="number", hierarchy=RANGE, level=1),
    )
)


def keys_of(path, *, rate: str = "0.3") -> tuple[Counter, list]:
    chunks = plan_chunks(check_metadata(list_source(str(path), base=path), columns=MAP.names, reading=READING))
    coders = [
        ColumnCoder(column=column, placement=place, reading=READING)
        for column, place in zip(MAP.columns, MAP.placements, strict=True)
    ]
    found: Counter = Counter()
    for _, keys in PARQUET.keys(chunks, coders=coders, key_words=1, coins=coins_of(KEY, Decimal(rate))):
        names = [
            column.hierarchy.labels(codes, column.level)
            for column, codes in zip(MAP.columns, MAP.decode(keys), strict=True)
        ]
        found.update(zip(*names, strict=True))
    return found, list(chunks)


def table_of(records: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    letters = np.array(["a", "b", "4", "zz", None], dtype=object)[rng.integers(0, 5, records)]
    return pa.table(
        {
            "number": rng.integers(-3, 14, records),
            "other": rng.random(records),
            "letter": pa.array(letters, pa.string()),
        }
    )


def expected_counts(table: pa.Table, row_group: int, rate: str) -> Counter:
    found: Counter = Counter()
    letters, numbers = table["letter"].to_pylist(), table["number"].to_pylist()
    for block, start in enumerate(range(0, len(letters), row_group)):
        size = min(row_group, len(letters) - start)
        kept = kept_positions(key=KEY, chunk=ChunkIdentity(file=0, block=block), records=size, rate=Decimal(rate))
        for place in (kept + start).tolist():
            letter = letters[place] if letters[place] in ("a", "b") else "*"
            number = numbers[place]
            width = "< 0" if number < 0 else ">= 10" if number >= 10 else "[0, 5)" if number < 5 else "[5, 10)"
            found[(letter, "*" if number == 4 else width)] += 1  # 4 is declared null
    return found


@pytest.mark.parametrize(
    "writing",
    [
        {},
        {"use_dictionary": False},
        {"use_dictionary": ["letter"], "compression": "zstd"},
        {"data_page_version": "2.0", "compression": "gzip"},
        {
            "use_dictionary": False,
            "column_encoding": {"letter": "DELTA_BYTE_ARRAY", "number": "DELTA_BINARY_PACKED"},
        },
        {"dictionary_pagesize_limit": 8, "data_page_size": 64, "write_batch_size": 10},
        {"store_schema": False, "version": "1.0"},
    ],
)
@pytest.mark.parametrize("row_group", [1, 37, 1000])
def test_any_encoding_and_cut_counts_as_a_plain_loop_does(tmp_path, monkeypatch, writing, row_group):
    records = 60 if row_group == 1 else 1000
    table = table_of(records, seed=row_group)
    path = tmp_path / "records.parquet"
    pq.write_table(table, path, row_group_size=row_group, **writing)
    expected = expected_counts(table, row_group, "0.3")
    assert keys_of(path)[0] == expected
    monkeypatch.setattr(parquet_records, "_BATCH_RECORDS", 13)
    assert keys_of(path)[0] == expected


def test_a_dictionary_column_and_an_empty_table_work(tmp_path):
    table = table_of(500, seed=1)
    encoded = table.set_column(2, "letter", table["letter"].dictionary_encode())
    pq.write_table(encoded, tmp_path / "in.parquet", row_group_size=90)
    assert keys_of(tmp_path / "in.parquet")[0] == expected_counts(table, 90, "0.3")
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    assert keys_of(tmp_path / "none.parquet") == (Counter(), [])
