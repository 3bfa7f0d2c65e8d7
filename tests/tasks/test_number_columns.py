"""A number has one code, whether it comes as text, as a dictionary, as a whole number or as a floating-point one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.decimals import NumberSteps
from crowdblend.tasks.readers.column_codes import ColumnCoder
from crowdblend.tasks.readers.values import RecordReading

COLUMN = MappedColumn(name="x", hierarchy=NumberSteps(cuts=(-0.5, 0.25, 1.0, 3.0)), level=0)
MAP = GeneralizationMap(columns=(COLUMN,))


def codes(values: pa.Array, *, null: tuple[str, ...] = ("",)) -> list[int]:
    coder = ColumnCoder(column=COLUMN, placement=MAP.placements[0], reading=RecordReading(null_values=null))
    return coder.scaled_codes(values, None).tolist()


@pytest.mark.parametrize("times", [1, 700], ids=["few texts", "more texts than are taken one by one"])
def test_fractions_have_one_code_in_every_storage(times) -> None:
    numbers = [-7.25, -0.5, 0.0, 0.25, 0.75, 1.0, 2.5, 1e300, None] * times
    floats = pa.array(numbers, type=pa.float64())
    texts = pa.array([None if number is None else repr(number) for number in numbers])
    found = codes(floats)
    assert found[:9] == [1, 2, 2, 3, 3, 4, 4, 5, 0]
    assert codes(texts) == found
    assert codes(texts.dictionary_encode()) == found
    assert codes(floats.dictionary_encode()) == found
    assert codes(pc.replace_substring(texts, "0.25", "2.5E-1")) == found
    narrow = pa.array(numbers[:7], type=pa.float32())
    assert codes(narrow) == found[:7]


def test_whole_numbers_have_the_code_of_the_same_fraction() -> None:
    whole = [-3, 0, 1, 2, 3, 2**62 + 1, None]
    found = codes(pa.array(whole, type=pa.int64()))
    assert found == [1, 2, 4, 4, 5, 5, 0]
    floats = [None if number is None else float(number) for number in whole]
    assert codes(pa.array(floats, type=pa.float64())) == found
    assert codes(pa.array([None if number is None else str(number) for number in whole])) == found


def test_what_means_null_is_no_number_in_any_storage() -> None:
    null = ("-9", "0.25")
    for values in (pa.array([-9.0, 0.25, 0.5]), pa.array(["-9", "0.25", "0.5"])):
        assert codes(values, null=null) == [0, 0, 3]
    assert codes(pa.array([-9, 2]), null=null) == [0, 4]


def test_not_a_number_is_none() -> None:
    assert codes(pa.array([float("nan"), float("inf"), -float("inf")])) == [0, 5, 1]
