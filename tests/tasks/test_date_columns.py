"""Columns of days, however they are stored, by the bounds that were declared."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.build import DateHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.readers.column_codes import UndeclaredValues
from crowdblend.tasks.readers.values import RecordReading
from support.counted import counted_column

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
    "midnights": pa.array(DAYS, type=pa.date32()).cast(pa.timestamp("ms")),
    **{f"afternoons in {unit}": pa.array(AFTERNOONS, type=pa.timestamp(unit)) for unit in ("ms", "us", "ns")},
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
    return counted_column(name, folder, "x", BORN, level=level, null_values=("", "NA"))


OPTIONS = {"dictionary": {}, "plain": {"use_dictionary": False}, "int96": {"use_deprecated_int96_timestamps": True}}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
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


def test_no_time_is_beyond_reading(tmp_path) -> None:
    """Success may not depend on one record: also what no calendar has gets a label, and it is `*`."""
    numbers = pa.array([2**63 - 1, -(2**63), -(2**63) + 1, 2**55, -(2**55), None], type=pa.int64())
    for unit in ("ms", "us", "ns"):
        counts = labels(tmp_path, numbers.view(pa.timestamp(unit)), level=0)
        near = {"1971-02-21": 1, "1968-11-10": 1} if unit == "ns" else {}  # 2^55 nanoseconds are 14 months
        assert counts == {"*": 6 - len(near)} | near


def test_a_time_with_a_zone_is_refused_before_the_charge(tmp_path) -> None:
    zoned = pa.array([day.replace(tzinfo=UTC) for day in AFTERNOONS], type=pa.timestamp("us", tz="Europe/Paris"))
    with pytest.raises(InputRefused, match="no text that a hierarchy could map"):
        labels(tmp_path, zoned, level=0)


def test_undeclared_times_of_public_records_are_shown(tmp_path) -> None:
    column = MappedColumn(name="x", hierarchy=BORN, level=0)
    placement = GeneralizationMap(columns=(column,)).placements[0]
    coder = UndeclaredValues(column=column, placement=placement, reading=RecordReading(), most=3)
    coder.scaled_codes(pa.array([0, 2**62 + 1], type=pa.int64()).view(pa.timestamp("ns")), None)
    assert coder.first == ("2116-02-20 23:53:38.427387905",)
