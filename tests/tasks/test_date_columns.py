"""Columns of days, however they are stored, by the bounds that were declared."""

from __future__ import annotations

from datetime import date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.hierarchies.build import DateHierarchy
from crowdblend.mechanisms.recoding import GeneralizationMap, MappedColumn
from crowdblend.tasks.counting.chunks import plan_chunks
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.group_counts import count_job, group_counts
from crowdblend.tasks.inputs.list import check_metadata, list_source
from crowdblend.tasks.readers.values import RecordReading

DAYS = [date(1899, 12, 31), date(1900, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2000, 2, 29), date(2011, 1, 1)]
BORN = DateHierarchy.of(first="1900-01-01", last="2010-12-31", merged=["month", "quarter", "year", "decade"])
AFTERNOONS = [datetime(day.year, day.month, day.day, 14, 5, 7) for day in DAYS]  # noqa: DTZ001 - no zone is the point
STORED = {
    "text": pa.array([str(day) for day in DAYS]),
    "large text": pa.array([str(day) for day in DAYS], type=pa.large_string()),
    "date32": pa.array(DAYS, type=pa.date32()),
    "date64": pa.array(DAYS, type=pa.date64()),
    "dictionary": pa.array([str(day) for day in DAYS]).dictionary_encode(),
    "times as text": pa.array([str(time) for time in AFTERNOONS]),
}
EXPECTED = {
    0: {"*": 2, "1900-01-01": 1, "1969-12-31": 1, "1970-01-01": 1, "2000-02-29": 1},
    1: {"*": 2, "1900-01": 1, "1969-12": 1, "1970-01": 1, "2000-02": 1},
    2: {"*": 2, "1900-Q1": 1, "1969-Q4": 1, "1970-Q1": 1, "2000-Q1": 1},
    4: {"*": 2, "1900s": 1, "1960s": 1, "1970s": 1, "2000s": 1},
    5: {"*": 6},
}


def labels(folder, column: pa.Array, *, level: int, kind: str = "parquet", **options) -> dict[str, int]:
    name = f"in.{kind}"
    if kind == "csv":
        (folder / name).write_text("x\n" + "".join(f"{value.as_py()}\n" for value in column), encoding="utf-8")
    else:
        pq.write_table(pa.table({"x": column}), folder / name, **options)
    mapped = GeneralizationMap(columns=(MappedColumn(name="x", hierarchy=BORN, level=level),))
    reading = RecordReading(null_values=("", "NA"))
    layout = check_metadata(list_source(name, base=folder), columns=["x"], reading=reading)
    job = count_job(release_id="r", sample_id=None, generalization=mapped, rate=None, reading=reading, key_source=None)
    groups = group_counts(plan_chunks(layout), job=job, executor=LocalThreads())
    names = BORN.labels(mapped.decode(groups.keys)[0], level)
    return dict(zip(names, groups.counts.tolist(), strict=True))


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}], ids=["dictionary", "plain"])
def test_a_day_has_one_label_however_it_is_stored(tmp_path, stored, options) -> None:
    column = STORED[stored]
    many = pa.concat_arrays([column, pa.nulls(2, column.type)] * 700)
    for level, counts in EXPECTED.items():
        expected = {label: 700 * count for label, count in counts.items()}
        assert labels(tmp_path, many, level=level, **options) == expected | {"*": expected["*"] + 1_400}


def test_texts_of_csv_are_days_too(tmp_path) -> None:
    for level, counts in EXPECTED.items():
        assert labels(tmp_path, STORED["text"], level=level, kind="csv") == counts
        assert labels(tmp_path, STORED["times as text"], level=level, kind="csv") == counts
    other = pa.array(["2000-02-29T23:59", "2000-02-29 23:59:00Z", "2000-02-30", "29.2.2000", "NA", "", "11016"])
    assert labels(tmp_path, other, level=0, kind="csv") == {"2000-02-29": 1, "*": 6}
