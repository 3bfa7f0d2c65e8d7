"""Numbers cut at declared places: total, monotone, the same whatever they are stored as."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.decimals import NumberSteps
from crowdblend.mechanisms.hierarchies.declare import number_of_text
from crowdblend.mechanisms.synthetic_points import PointAxis
from hypothesis import given, settings
from hypothesis import strategies as st

CUTS = st.lists(st.floats(-1e6, 1e6), max_size=8, unique=True).map(lambda cuts: tuple(sorted(cuts)))


@given(cuts=CUTS, values=st.lists(st.floats(width=64), max_size=20))
@settings(derandomize=True)
def test_every_number_has_the_code_of_the_cuts_below_it(cuts, values) -> None:
    steps = NumberSteps(cuts=cuts)
    codes = steps.codes_of_numbers(np.array(values, dtype=np.float64), 0).tolist()
    assert codes == [0 if math.isnan(v) else 1 + sum(cut <= v for cut in cuts) for v in values]
    assert all(0 <= code < steps.size(0) for code in codes)
    assert set(steps.codes_of_numbers(np.array(values, dtype=np.float64), 1).tolist()) <= {0}
    whole = np.arange(-3, 4)
    assert steps.codes_of_integers(whole, 0).tolist() == [1 + sum(cut <= number for cut in cuts) for number in whole]


@given(text=st.one_of(st.binary(max_size=12), st.from_regex(rb"[-+.0-9eE ]{0,9}", fullmatch=True)))
@settings(derandomize=True)
def test_any_text_has_a_code_and_only_decimal_numbers_are_numbers(text) -> None:
    [code] = NumberSteps(cuts=(0.0,)).codes_of_texts([text], 0)
    assert code in (0, 1, 2)
    try:
        written = float(text)
    except ValueError:
        assert code == 0
    else:
        same = number_of_text(text) == written
        assert same or code == 0, "spaces, underscores, nan and infinity are no numbers here"


def test_what_is_no_number_and_what_is_beyond() -> None:
    steps = NumberSteps(cuts=(0.5, 2.0))
    texts = [None, b"", b"nan", b"inf", b" 1", b"1_0", b"1e999", b"-1e999", b"0.5", b".5", b"5e-1", b"2", b"1.99"]
    assert steps.codes_of_texts(texts, 0).tolist() == [0, 0, 0, 0, 0, 0, 3, 1, 2, 2, 2, 3, 2]
    for cuts in ((1.0, 1.0), (2.0, 1.0), (math.nan,), (math.inf,)):
        with pytest.raises(ValueError, match="must be finite and ascend"):
            NumberSteps(cuts=cuts)


@given(cuts=CUTS)
@settings(derandomize=True)
def test_a_label_names_the_cuts_between_which_its_numbers_lie(cuts) -> None:
    steps = NumberSteps(cuts=cuts)
    ends = [-math.inf, *cuts, math.inf]
    expected = [f"[{low!r}, {high!r})" for low, high in pairwise(ends)]
    expected = [f"< {cuts[0]!r}", *expected[1:-1], f">= {cuts[-1]!r}"] if cuts else ["any number"]
    assert steps.labels(np.arange(steps.size(0)), 0) == ["*", *expected]
    assert steps.labels(np.arange(steps.size(1)), 1) == ["*"]
    codes = np.arange(steps.size(0))
    assert steps.values_covered(codes, 0).tolist() == [len(expected)] + [1] * len(expected)
    assert steps.values_covered(codes[:1], 1).tolist() == [len(expected)]
    assert (steps.label_sizes(0), steps.label_sizes(1)) == ({1: len(expected)}, {len(expected): 1})


@pytest.mark.parametrize(
    ("lower", "upper", "missing"),
    [("1", "1", "1"), ("2", "1", "1"), ("0", "1", "1.1"), ("0", "1", "-0.1"), ("0", "1", "nan"), ("nan", "1", "1"),
     ("0", "inf", "1"), ("-inf", "0", "0")],
)  # fmt: skip
def test_bounds_that_are_none(lower, upper, missing) -> None:
    with pytest.raises(ValueError, match="must"):
        PointAxis(name="x", lower=Decimal(lower), upper=Decimal(upper), missing=Decimal(missing))
    for either in ("0", "1"):
        assert PointAxis(name="x", lower=Decimal(0), upper=Decimal(1), missing=Decimal(either)).missing == int(either)
