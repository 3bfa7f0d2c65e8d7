"""A value has one label however it is stored: as text, number, day or dictionary, in memory and in Parquet files."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.build import DateHierarchy
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals, NumberSteps, WeightClasses
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.tasks.readers.column_codes import ColumnCoder, UndeclaredValues
from crowdblend.tasks.readers.values import RecordReading
from support.counted import counted_column

NULL = ("", "4", "none", "NA")
VALUES = ValueHierarchy.from_values(
    ["a", "b", "4", "5", "-3", "true", "2026-01-02", "9223372036854775807", "18446744073709551615", "none"]
)
STEPS = NumberSteps(cuts=(-0.5, 0.25, 1.0, 3.0))
MONEY = DecimalIntervals.of(lower=Decimal("0.0"), upper=Decimal("2.5"), widths=[Decimal("0.5")])
BORN = DateHierarchy.of(first="1900-01-01", last="2010-12-31", merged=["month", "quarter", "year", "decade"])

CLASSES = WeightClasses.of([Decimal("0.1"), Decimal("1.1"), Decimal(6), Decimal(9)])
WEIGHTS = ["0.0", "1.0999", "1.1", "5.9", "6.0", "9.5", None]
OF_WEIGHTS = ["< 1.1", "< 1.1", "[1.1, 6)", "[1.1, 6)", ">= 6", ">= 6", "*"]

NUMBERS = [-7.25, -0.5, 0.0, 0.25, 0.75, 1.0, 2.5, 1e300, None]
OF_NUMBERS = ["< -0.5", *["[-0.5, 0.25)"] * 2, *["[0.25, 1.0)"] * 2, *["[1.0, 3.0)"] * 2, ">= 3.0", "*"]
WHOLE = [-3, 0, 1, 2, 3, 2**62 + 1, None]
OF_WHOLE = ["< -0.5", "[-0.5, 0.25)", *["[1.0, 3.0)"] * 2, *[">= 3.0"] * 2, "*"]
PRICES = ["0.0", "0.3", "0.7", "1.1", "2.4", "-0.1", "2.5", None]
OF_PRICES = ["[0.0, 0.1)", "[0.3, 0.4)", "[0.7, 0.8)", "[1.1, 1.2)", "[2.4, 2.5)", "< 0.0", ">= 2.5", "*"]
EXACT = [None if text is None else Decimal(text) for text in PRICES]
DAYS = [date(1899, 12, 31), date(1900, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(2000, 2, 29), date(2011, 1, 1)]
OF_DAYS = ["*", "1900-01-01", "1969-12-31", "1970-01-01", "2000-02-29", "*"]
AFTERNOONS = [datetime(day.year, day.month, day.day, 14, 5, 7) for day in DAYS]  # noqa: DTZ001 - no zone is the point

STORED: dict[str, tuple[Hierarchy, pa.Array, list[str]]] = {
    "texts": (VALUES, pa.array(["a", "4", None, "", "zz", "none"]), ["a", *"*****"]),
    "bytes": (VALUES, pa.array([5, 4, None, -3, 7], type=pa.int8()), ["5", "*", "*", "-3", "*"]),
    "numbers": (VALUES, pa.array([5, 2**63 - 1, -(2**63)]), ["5", str(2**63 - 1), "*"]),
    "large numbers": (VALUES, pa.array([5, 2**64 - 1, None], type=pa.uint64()), ["5", str(2**64 - 1), "*"]),
    "floats": (
        VALUES,
        pa.array([5.0, 5.5, float("nan"), float("inf"), -3.0, None, 2.0**63, 1e300]),
        ["5", *"***", "-3", *"***"],
    ),
    "short floats": (VALUES, pa.array([5.0, -3.0], type=pa.float32()), ["5", "-3"]),
    "truths": (VALUES, pa.array([True, False, None]), ["true", "*", "*"]),
    "dates": (VALUES, pa.array([date(2026, 1, 2), date(2026, 1, 3)]), ["2026-01-02", "*"]),
    "long dates": (VALUES, pa.array([date(2026, 1, 2), None], type=pa.date64()), ["2026-01-02", "*"]),
    "decimals": (VALUES, pa.array([Decimal(5), None, Decimal(-3)], type=pa.decimal128(30, 0)), ["5", "*", "-3"]),
    "nulls": (VALUES, pa.nulls(2), ["*", "*"]),
    "weights as texts": (CLASSES, pa.array(WEIGHTS), OF_WEIGHTS),
    "weights as floats": (CLASSES, pa.array([*map(float, WEIGHTS[:6]), None]), OF_WEIGHTS),
    "weights as short floats": (CLASSES, pa.array([*map(float, WEIGHTS[:6]), None], type=pa.float32()), OF_WEIGHTS),
    "weights as decimals": (CLASSES, pa.array([Decimal(one) for one in WEIGHTS[:6]]), OF_WEIGHTS[:6]),
    "whole weights": (CLASSES, pa.array([0, 3, 6, 12, None]), ["< 1.1", "[1.1, 6)", ">= 6", ">= 6", "*"]),
    "steps of floats": (STEPS, pa.array(NUMBERS), OF_NUMBERS),
    "steps of short floats": (STEPS, pa.array(NUMBERS[:7], type=pa.float32()), OF_NUMBERS[:7]),
    "steps of texts": (STEPS, pa.array([None if one is None else repr(one) for one in NUMBERS]), OF_NUMBERS),
    "steps of whole numbers": (STEPS, pa.array(WHOLE), OF_WHOLE),
    "steps of whole floats": (STEPS, pa.array([None if one is None else float(one) for one in WHOLE]), OF_WHOLE),
    "steps of no number": (STEPS, pa.array([float("nan"), float("inf"), -float("inf")]), ["*", ">= 3.0", "< -0.5"]),
    "steps of null values": (STEPS, pa.array([4.0, 0.5]), ["*", "[0.25, 1.0)"]),
    "prices as texts": (MONEY, pa.array(PRICES), OF_PRICES),
    "prices as other texts": (
        MONEY,
        pa.array(["3e-1", "0.30000000000000001", "NA", "1,1", "x"]),
        ["[0.3, 0.4)", "[0.3, 0.4)", *"***"],
    ),
    "prices as floats": (MONEY, pa.array([None if one is None else float(one) for one in PRICES]), OF_PRICES),
    "prices as short floats": (MONEY, pa.array([float(one) for one in PRICES[:7]], type=pa.float32()), OF_PRICES[:7]),
    "prices as decimals": (MONEY, pa.array(EXACT, type=pa.decimal128(9, 2)), OF_PRICES),
    "prices as narrow decimals": (MONEY, pa.array(EXACT, type=pa.decimal32(9, 1)), OF_PRICES),
    "prices as wide decimals": (MONEY, pa.array(EXACT, type=pa.decimal256(60, 9)), OF_PRICES),
    "days as texts": (BORN, pa.array([str(day) for day in DAYS]), OF_DAYS),
    "days": (BORN, pa.array(DAYS), OF_DAYS),
    "long days": (BORN, pa.array(DAYS, type=pa.date64()), OF_DAYS),
    "times as texts": (BORN, pa.array([str(time) for time in AFTERNOONS]), OF_DAYS),
    "midnights": (BORN, pa.array(DAYS, type=pa.date32()).cast(pa.timestamp("ms")), OF_DAYS),
    "times in ms": (BORN, pa.array(AFTERNOONS, type=pa.timestamp("ms")), OF_DAYS),
    "times in us": (BORN, pa.array(AFTERNOONS, type=pa.timestamp("us")), OF_DAYS),
    "times in ns": (BORN, pa.array(AFTERNOONS, type=pa.timestamp("ns")), OF_DAYS),
    "other days": (
        BORN,
        pa.array(["2000-02-29T23:59", "2000-02-29 23:59:00Z", "2000-02-30", "29.2.2000", "11016"]),
        ["2000-02-29", *"****"],
    ),
}  # fmt: skip
"""Storage → a hierarchy, values, and the labels that they have at level 0."""


def labels(hierarchy: Hierarchy, values: pa.Array, level: int = 0) -> list[str]:
    made = GeneralizationMap(columns=(MappedColumn(name="x", hierarchy=hierarchy, level=level),))
    coder = ColumnCoder(column=made.columns[0], placement=made.placements[0], reading=RecordReading(null_values=NULL))
    return hierarchy.labels(coder.scaled_codes(values, np.arange(len(values))), level)


@pytest.mark.parametrize("stored", STORED)
def test_a_value_has_one_label_however_it_is_stored(stored) -> None:
    """By itself and among many, in a dictionary and in a part of an array."""
    hierarchy, values, expected = STORED[stored]
    assert labels(hierarchy, values) == expected
    assert labels(hierarchy, values.slice(1)) == expected[1:]
    assert labels(hierarchy, pa.concat_arrays([values] * 700)) == expected * 700
    if not (pa.types.is_null(values.type) or pa.types.is_decimal32(values.type)):  # of which pyarrow has no dictionary
        assert labels(hierarchy, values.dictionary_encode()) == expected
        assert labels(hierarchy, values.dictionary_encode().slice(1)) == expected[1:]
    if pa.types.is_string(values.type):
        for other in (pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()):
            assert labels(hierarchy, values.cast(other)) == expected


@pytest.mark.parametrize("stored", [stored for stored, (hierarchy, *_) in STORED.items() if hierarchy is BORN])
def test_a_day_has_the_labels_of_each_level_however_it_is_stored(stored) -> None:
    _, values, days = STORED[stored]
    codes = BORN.codes_of_texts([None if day == "*" else day.encode() for day in days], 0)
    for level in range(BORN.levels):
        assert labels(BORN, values, level) == BORN.labels(BORN.coarser(codes, level=0, to=level), level)


@pytest.mark.parametrize(
    "options",
    [{}, {"use_dictionary": False}, {"store_decimal_as_integer": True}, {"use_deprecated_int96_timestamps": True}],
    ids=str,
)
@pytest.mark.parametrize("stored", STORED)
def test_a_file_has_the_labels_of_its_values(tmp_path, stored, options) -> None:
    hierarchy, values, expected = STORED[stored]
    pq.write_table(pa.table({"x": pa.concat_arrays([values] * 700)}), tmp_path / "in.parquet", **options)
    found = counted_column("in.parquet", tmp_path, "x", hierarchy, null_values=NULL)
    assert found == {label: 700 * count for label, count in Counter(expected).items()}


@pytest.mark.parametrize("stored", [stored for stored in STORED if stored.endswith("texts")])
def test_csv_has_the_labels_of_its_texts(tmp_path, stored) -> None:
    hierarchy, values, expected = STORED[stored]
    (tmp_path / "in.csv").write_text("x\n" + "".join(f"{value or ''}\n" for value in values.to_pylist()))
    assert counted_column("in.csv", tmp_path, "x", hierarchy, null_values=NULL) == Counter(expected)


def test_a_dictionary_may_hold_nulls_and_repeats_and_need_not_be_text() -> None:
    dictionary = pa.array(["a", None, "a", "b"])
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None], type=pa.int8()), dictionary)
    assert labels(VALUES, values) == ["a", "*", "a", "b", "*"]
    assert labels(VALUES, pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array([5, 4]))) == ["*", "5", "*"]


def test_what_one_dictionary_has_taught_changes_nothing_in_the_next() -> None:
    """Of up to 600 texts: declared, unseen, numbers, repeated, null; in changing order."""
    rows = [(f"place {number}", f"class {number % 11}", "*") for number in range(300)]
    hierarchy, rng = ValueHierarchy.from_rows(rows), np.random.default_rng(20_261_121)
    column = MappedColumn(name="x", hierarchy=hierarchy, level=1)
    placement = GeneralizationMap(columns=(column,)).placements[0]
    asked = ColumnCoder(column=column, placement=placement, reading=RecordReading(null_values=("place 7",)))
    for type_ in (pa.string(), pa.large_string(), pa.binary(), pa.string_view()):
        unseen = [*(f"unseen {number}" for number in rng.integers(1_000, size=50)), None, "place 1", "place 7", "007"]
        texts = [*rng.permutation([row[0] for row in rows])[: rng.integers(100, 300)].tolist(), *unseen, *unseen]
        texts = [texts[place] for place in rng.permutation(len(texts))]
        known = [None if text in (None, "place 7") else text.encode() for text in texts]
        found = asked.table(pa.array(texts, type=pa.string()).cast(type_))
        assert found.tolist() == [*hierarchy.codes_of_texts(known, 1).tolist(), 0]


def test_texts_that_are_not_utf8_are_the_bucket() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2], dtype=np.int32))
    assert labels(VALUES, pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xffa")])) == ["*", "a"]


def test_no_time_is_beyond_reading() -> None:
    """Success may not depend on one record: also what no calendar has gets a label, and it is `*`."""
    numbers = pa.array([2**63 - 1, -(2**63), -(2**63) + 1, None, 2**55, -(2**55)], type=pa.int64())
    near = {"ns": ["1971-02-21", "1968-11-10"]}  # 2^55 nanoseconds are 14 months
    for unit in ("ms", "us", "ns"):
        assert labels(BORN, numbers.view(pa.timestamp(unit))) == ["*"] * 4 + near.get(unit, ["*", "*"])
    column = MappedColumn(name="x", hierarchy=BORN, level=0)
    placement = GeneralizationMap(columns=(column,)).placements[0]
    coder = UndeclaredValues(column=column, placement=placement, reading=RecordReading(), most=3)
    coder.scaled_codes(pa.array([0, 2**62 + 1], type=pa.int64()).view(pa.timestamp("ns")), None)
    assert coder.first == ("2116-02-20 23:53:38.427387905",)


def test_a_time_with_a_zone_is_refused_before_the_charge(tmp_path) -> None:
    zoned = pa.array([day.replace(tzinfo=UTC) for day in AFTERNOONS], type=pa.timestamp("us", tz="Europe/Paris"))
    pq.write_table(pa.table({"x": zoned}), tmp_path / "in.parquet")
    with pytest.raises(InputRefused, match="no text that a hierarchy could map"):
        counted_column("in.parquet", tmp_path, "x", BORN)
