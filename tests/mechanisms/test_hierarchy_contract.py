"""What every declared hierarchy promises: a code for whatever is looked up, coarser level by level, and a description.

What labels are, each kind's own tests hold against an oracle.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.build import DAY_LEVELS, DateHierarchy, described_hierarchy, labels_beyond
from crowdblend.mechanisms.hierarchies.decimals import DecimalIntervals, NumberSteps, WeightClasses
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from hypothesis import given, settings
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy], object]


def tree(draw: Draw) -> tuple[ValueHierarchy, list[str]]:
    values = draw(st.lists(st.sampled_from(["Lyon", "7", "-3", "!", "~", "é", "012", "x y"]), min_size=1, unique=True))
    above = {value: draw(st.sampled_from(["a", "b", "*"])) for value in values}
    last = {"*": "*"} | {label: draw(st.sampled_from(["c", "*"])) for label in ("a", "b")}
    rows = [(value, above[value], last[above[value]], "*") for value in values]
    return ValueHierarchy.from_rows(rows), values


def widths_of(draw: Draw) -> list[int]:
    factors = draw(st.lists(st.integers(2, 5), max_size=3))
    return [int(np.prod(factors[: place + 1])) for place in range(len(factors))]


def intervals(draw: Draw) -> tuple[IntervalHierarchy, list[str]]:
    lower, span = draw(st.sampled_from([-(2**59), -7, 0, 40])), draw(st.sampled_from([1, 9, 60, 2**60]))
    made = IntervalHierarchy(lower=lower, upper=min(lower + span, 2**60), widths=tuple(widths_of(draw)))
    near = [made.lower - 1, made.lower, made.lower + 3, made.upper - 1, made.upper, -(2**63), 2**63 - 1]
    return made, [*map(str, near), "9" * 999]


def decimals(draw: Draw) -> tuple[DecimalIntervals, list[str]]:
    lower, tenth = draw(st.integers(-50, 50)), Decimal("0.1")
    upper, widths = lower + draw(st.integers(1, 60)), [width * tenth for width in widths_of(draw)]
    made = DecimalIntervals.of(lower=lower * tenth, upper=upper * tenth, widths=widths)
    return made, [str(units * tenth) for units in range(lower - 2, upper + 2)] + ["1e999"]


def days(draw: Draw) -> tuple[DateHierarchy, list[str]]:
    first, span = date(1999, 11, 28), draw(st.integers(0, 800))
    last = first + timedelta(days=span)
    merged = [name for name in DAY_LEVELS if draw(st.booleans())]
    made = DateHierarchy.of(first=first.isoformat(), last=last.isoformat(), merged=merged)
    return made, [(first + timedelta(days=number)).isoformat() for number in range(-2, span + 3)]


def steps(draw: Draw) -> tuple[NumberSteps, list[str]]:
    cuts = draw(st.lists(st.floats(-1e6, 1e6), max_size=6, unique=True).map(sorted))
    return NumberSteps(cuts=tuple(cuts)), [*(repr(cut) for cut in cuts), "0", "-1e9", "1e9", "1e-9"]


def weights(draw: Draw) -> tuple[WeightClasses, list[str]]:
    bounds = draw(st.lists(st.integers(1, 10**6), min_size=3, max_size=12, unique=True).map(sorted))
    made = WeightClasses.of([Decimal(bound) / 100 for bound in bounds])
    return made, [*made.bounds, "0", "-5", "0.001", "1e9", "1e999"]


KINDS = {"values": tree, "intervals": intervals, "decimals": decimals, "days": days, "steps": steps, "weights": weights}
STRANGE: list[bytes | None] = [None, b"", b"\xff", b"*", b"\0", b" 7", b"nan", b"inf", "١".encode(), b"1e"]


@pytest.mark.parametrize("kind", KINDS)
@settings(derandomize=True, max_examples=60, deadline=None)
@given(data=st.data())
def test_every_hierarchy_keeps_the_contract(kind, data) -> None:
    hierarchy, texts = KINDS[kind](data.draw)
    asked = [*STRANGE, *(text.encode() for text in texts)]
    codes = [hierarchy.codes_of_texts(asked, level) for level in range(hierarchy.levels)]
    whole = np.array([-(2**63), -4, 0, 7, 2**63 - 1])
    below = () if isinstance(hierarchy, ValueHierarchy) else (-1,)  # of a list it is the last
    for level, own in enumerate(codes):
        size = hierarchy.size(level)
        assert ((own >= 0) & (own < size)).all()
        assert not own[: len(STRANGE)].any(), "what is no value is in the bucket"
        assert hierarchy.codes_of_integers(whole, level).tolist() == [
            hierarchy.codes_of_texts([str(number).encode()], level)[0] for number in whole.tolist()
        ]
        labels = hierarchy.labels(own, level)
        assert all((label == "*") is (code == 0) for label, code in zip(labels, own.tolist(), strict=True))
        assert len({*zip(labels, own.tolist(), strict=True)}) == len({*labels}) == len({*own.tolist()})
        assert not labels_beyond(hierarchy, labels, level=level)
        for to in range(level, hierarchy.levels):
            assert (hierarchy.coarser(own, level=level, to=to) == codes[to]).all()
        for code in (size, *below):
            with pytest.raises(IndexError):
                hierarchy.labels(np.array([code]), level)
    for level in (hierarchy.levels, *below):
        with pytest.raises(IndexError):
            hierarchy.size(level)
    with pytest.raises(ValueError, match="finer"):
        hierarchy.coarser(codes[-1], level=hierarchy.levels - 1, to=hierarchy.levels - 2)
    for twin in (described_hierarchy(hierarchy.description()), pickle.loads(pickle.dumps(hierarchy))):  # noqa: S301
        assert (type(twin), twin.digest(), twin.description()) == (
            type(hierarchy),
            hierarchy.digest(),
            hierarchy.description(),
        )
    assert len(repr(hierarchy)) < 200


def test_different_hierarchies_have_different_digests() -> None:
    made: list[Hierarchy] = [
        ValueHierarchy.from_values(["a"]),
        ValueHierarchy.from_values(["a", "b"]),
        ValueHierarchy.from_values(["a", "b"]).folded(),
        ValueHierarchy.from_rows([("a", "*", "*"), ("b", "*", "*")]),
        ValueHierarchy.from_rows([("a", "x", "*"), ("b", "x", "*")]),
        *(
            IntervalHierarchy(lower=lower, upper=upper, widths=widths)
            for lower in (0, 1)
            for upper in (50, 60)
            for widths in ((), (5,), (5, 10))
        ),
        DecimalIntervals.of(lower=Decimal(0), upper=Decimal("2.5"), widths=[]),
        DecimalIntervals.of(lower=Decimal(0), upper=Decimal("2.5"), widths=[Decimal("0.5")]),
        DateHierarchy.of(first="2000-01-01", last="2000-12-31", merged=[]),
        DateHierarchy.of(first="2000-01-01", last="2000-12-31", merged=["month"]),
        NumberSteps(cuts=(0.5, 2.0)),
        NumberSteps(cuts=(0.5, 2.5)),
        WeightClasses.of([Decimal(1), Decimal(2), Decimal(5)]),
        WeightClasses.of([Decimal(1), Decimal(2), Decimal("5.5")]),
    ]
    assert all(one.digest() != other.digest() for one, other in combinations(made, 2))
