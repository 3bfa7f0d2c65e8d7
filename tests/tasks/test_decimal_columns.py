"""Columns of decimal numbers, however they are stored, in intervals that are written with decimals."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals
from support.counted import counted_column

NUMBERS = ["0.0", "0.3", "0.7", "1.1", "2.4", "-0.1", "2.5"]
INTERVALS = DecimalIntervals.of(lower=Decimal("0.0"), upper=Decimal("2.5"), widths=[Decimal("0.5")])
EXACT = [Decimal(number) for number in NUMBERS]
STORED = {
    "text": pa.array(NUMBERS),
    "double": pa.array([float(number) for number in NUMBERS]),
    "float": pa.array([float(number) for number in NUMBERS], type=pa.float32()),
    "decimal": pa.array(EXACT, type=pa.decimal128(9, 2)),
    "narrow": pa.array(EXACT, type=pa.decimal32(9, 1)),
    "wide": pa.array(EXACT, type=pa.decimal256(60, 9)),
}
LABELS = {"[0.0, 0.1)": 1, "[0.3, 0.4)": 1, "[0.7, 0.8)": 1, "[1.1, 1.2)": 1, "[2.4, 2.5)": 1, "< 0.0": 1, ">= 2.5": 1}


def labels(folder, column: pa.Array, *, kind: str = "parquet", **options) -> dict[str, int]:
    name = f"in.{kind}"
    if kind == "csv":
        (folder / name).write_text("x\n" + "".join(f"{value.as_py()}\n" for value in column), encoding="utf-8")
    else:
        pq.write_table(pa.table({"x": column}), folder / name, **options)
    return counted_column(name, folder, "x", INTERVALS, level=0, null_values=("", "NA"))


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"store_decimal_as_integer": True}], ids=str)
def test_a_number_has_one_interval_however_it_is_stored(tmp_path, stored, options):
    column = STORED[stored]
    assert labels(tmp_path, column, **options) == LABELS
    many = pa.concat_arrays([column, pa.nulls(2, column.type)] * 1_500)
    expected = {label: 1_500 * count for label, count in LABELS.items()} | {"*": 3_000}
    assert labels(tmp_path, many, **options) == expected


def test_texts_of_csv_are_numbers_too(tmp_path):
    assert labels(tmp_path, STORED["text"], kind="csv") == LABELS
    other = pa.array(["3e-1", "0.30000000000000001", "NA", "", "1,1", "x"])
    assert labels(tmp_path, other, kind="csv") == {"[0.3, 0.4)": 2, "*": 4}
