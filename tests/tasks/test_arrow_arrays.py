"""Arrow arrays made without pyarrow's own conversions: the same arrays, and pandas is not imported for them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from crowdblend.tasks.readers.column_codes import arrow_of, bytes_of, filled, numbers_of, texts_of
from hypothesis import given
from hypothesis import strategies as st

WITHOUT_PANDAS = """
import sys
import numpy as np
from crowdblend.tasks.readers.column_codes import arrow_of, filled, bytes_of, texts_of
texts_of(["a", ""]), bytes_of([])
numbers = arrow_of(np.arange(3)).take(arrow_of(np.array([2, 0])))
filled(numbers, 7), filled(numbers.is_null(), 0)
assert "pandas" not in sys.modules
"""


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_and_bytes_are_those_of_pyarrow(texts):
    assert texts_of(texts).equals(pa.array(texts, type=pa.string()))
    raw_bytes = [text.encode() for text in texts]
    assert bytes_of(raw_bytes).equals(pa.array(raw_bytes, type=pa.large_binary()))
    texts_of(texts).validate(full=True)
    bytes_of(raw_bytes).validate(full=True)


@pytest.mark.parametrize("values", [[1, None, 3], [None, 2.5], [True, None, False], []])
def test_nulls_are_filled(values):
    type_ = pa.float64() if 2.5 in values else pa.bool_() if True in values[:1] and values[0] is True else pa.int64()
    array = pa.array(values, type=type_)
    assert filled(array, 0).to_pylist() == [0 if value is None else value for value in values]
    if type_ == pa.float64():
        assert np.isnan(numbers_of(filled(array, float("nan")))[0])
    assert filled(arrow_of(np.array([4])), 0).to_pylist() == [4]


def test_pandas_is_not_imported():
    subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=True)
