"""Each kind of mechanism has one protection, whose parts are checked against one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from decimal import Decimal
from secrets import token_bytes
from typing import get_type_hints

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import MECHANISM_KINDS, kind_of, load_kind
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE
from crowdblend.mechanisms.kernel.protection import Numbers
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kinds.answers import AnswerProtection, CountAnswer, RehearsalProtection, SumAnswer
from crowdblend.mechanisms.kinds.biased_sampling import (
    BiasedSampleCounts,
    SurveyProtection,
    Thinning,
    UnequalRatesHistogram,
    UnequalRatesProtection,
)
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import GeometricDeletion
from crowdblend.mechanisms.kinds.deletion_protection import DeletionProtection, published_stages
from crowdblend.mechanisms.kinds.histogram import HistogramProtection, SuppressedHistogram
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.local_reports import ReportsProtection
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease, Suppression
from crowdblend.mechanisms.kinds.moments import MomentsAnswer, MomentsProtection
from crowdblend.mechanisms.kinds.points import PointsProtection, SyntheticPoints
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch
from crowdblend.mechanisms.kinds.synthetic_table import SyntheticProtection, SyntheticTable

HALF, ONE = Decimal("0.5"), Decimal(1)
LAYOUT = KeyLayout(sizes=(3, 4))
EXACT = GroupCounts(np.array([[0, 5, 6, 11]]), np.array([1, 40, 60, 80]))
SAFE = StronglySafeRelease(k=50, sampling_rate=HALF)
NOISE = GeometricDeletion(epsilon=ONE, width=3)
RANDOMIZER = KRandomization(bits=2, flip_probability=Decimal("0.25"))
LOW, HIGH = Decimal("0.1"), HALF
STAGES = (LAYOUT, KeyLayout(sizes=(3, 2)))
TABLES = ((None, np.array([0, 0, 1, 1])),)

DELETION = DeletionProtection(
    mechanism=DeletionRelease(stages=2, k=2, noise=NOISE), layouts=STAGES, tables=TABLES, levels=(7, 8), margins=()
)
PROTECTED = {
    "microdata": Suppression(mechanism=SAFE, layout=LAYOUT),
    "histogram": HistogramProtection(mechanism=SuppressedHistogram(k=50, sampling_rate=HALF), layout=LAYOUT),
    "survey": SurveyProtection(
        mechanism=BiasedSampleCounts(k=50, lowest_rate=LOW, highest_rate=HIGH, largest_rate=HIGH, exceptions=0),
        layout=LAYOUT,
        counted=np.array([False, True, True, False]),
    ),
    "unequal rates": UnequalRatesProtection(
        mechanism=UnequalRatesHistogram(k=50, sampling_rate=HIGH, lowest_rate=LOW),
        layout=LAYOUT,
        rates=(LOW, LOW, HIGH, HIGH),
    ),
    "points": PointsProtection(
        mechanism=SyntheticPoints(dimensions=2, cells_per_side=2, counts=replace(SAFE, k=50)),
        layout=LAYOUT,
        sides=(np.array([0, 0, 1]), np.array([0, 1, 1, 0])),
    ),
    "count": AnswerProtection(
        mechanism=CountAnswer(epsilon=ONE, relation=ADD_REMOVE, groups=12, sampling_rate=None),
        layout=LAYOUT,
        groups=LAYOUT,
        missing=0,
    ),
    "sum": AnswerProtection(
        mechanism=SumAnswer(epsilon=ONE, relation=ADD_REMOVE, groups=3, sampling_rate=None, lower=5, upper=6),
        layout=LAYOUT,
        groups=KeyLayout(sizes=(3,)),
        missing=6,
    ),
    "moments": MomentsProtection(
        mechanism=MomentsAnswer(epsilon=ONE, relation=ADD_REMOVE, columns="2 labels; 3 labels"), layout=LAYOUT
    ),
    "rehearsal": RehearsalProtection(
        mechanism=CountAnswer(epsilon=ONE, relation=ADD_REMOVE, groups=4, sampling_rate=None),
        layout=LAYOUT,
        groups=None,
        missing=0,
    ),
    "deletion": DELETION,
    "calibrated deletion": DeletionProtection(
        mechanism=CalibratedDeletion(stages=1, k=1, noise=NOISE, margins=2, margin_scale=ONE, margin_width=3),
        layouts=(LAYOUT,),
        tables=(),
        levels=(),
        margins=((0,), (0, 1)),
    ),
    "reports": ReportsProtection(mechanism=OutcomeCounts(randomizer=RANDOMIZER, least_people=100)),
    "synthetic": SyntheticProtection(
        mechanism=SyntheticTable(method="mst", rho=ONE),
        layout=LAYOUT,
        draw=lambda exact: ((0, 16, 0, 1, 1, 0), exact),
    ),
}


@pytest.mark.parametrize("kind", sorted(MECHANISM_KINDS.keys() - {"mixed_series"}))
def test_every_kind_has_a_protection_for_its_mechanisms(kind) -> None:
    assert load_kind(kind).protections
    for protection in load_kind(kind).protections:
        hint = get_type_hints(protection)["mechanism"]
        assert kind in {mechanism.kind for mechanism in getattr(hint, "__args__", (hint,))} | _kinds_below(hint)


def _kinds_below(hint: type) -> set[str]:
    below = getattr(hint, "__subclasses__", list)()
    return {one.kind for one in below}.union(*map(_kinds_below, below))


def test_a_series_has_no_protection_and_a_strangers_kind_has_none() -> None:
    assert load_kind("mixed_series").protections == ()
    stranger = type("Stranger", (StronglySafeRelease,), {"kind": "strange"})(k=1, sampling_rate=HALF)
    with pytest.raises(KeyError, match="strange"):
        kind_of(stranger)


@pytest.mark.parametrize("name", PROTECTED)
def test_a_protection_is_a_frozen_value_of_its_mechanisms_class(name) -> None:
    protection = PROTECTED[name]
    assert isinstance(protection, kind_of(protection.mechanism).protections)
    assert all(field.kw_only for field in fields(protection))
    with pytest.raises(FrozenInstanceError):
        protection.mechanism = SAFE  # type: ignore[misc]


@pytest.mark.parametrize("name", [name for name in PROTECTED if name != "reports"])
def test_what_is_drawn_fits_and_one_number_more_or_less_does_not(name) -> None:
    protection = PROTECTED[name]
    result = protection.protect(EXACT, randomness=token_bytes)
    if not protection.drawn:
        assert not protection.fits([])
        return
    numbers: Numbers = [int(number) for number in result]
    assert protection.fits(numbers)
    assert protection.fits(np.array(numbers, dtype=np.int64))
    assert not protection.fits(numbers[:-1])
    assert not protection.fits([*numbers, 1])


def test_what_is_dropped_or_drawn_is_what_the_parts_say() -> None:
    surviving = PROTECTED["microdata"].protect(EXACT, randomness=token_bytes)
    assert (surviving.keys.tolist(), surviving.counts.tolist()) == ([[6, 11]], [60, 80])
    cells = PROTECTED["histogram"].protect(EXACT, randomness=token_bytes)
    assert cells == [0] * 6 + [60] + [0] * 4 + [80]
    counted = PROTECTED["survey"].protect(EXACT, randomness=token_bytes)
    assert counted == [0, 60 + 40, 0]
    grid = PROTECTED["points"].protect(EXACT, randomness=token_bytes)
    assert grid == [0, 40 + 60, 80, 0]
    unequal = PROTECTED["unequal rates"].protect(EXACT, randomness=token_bytes)
    assert len(unequal) == 3
    assert 60 <= unequal[1] <= 60 + 40
    assert unequal[2] == 80, "at the highest rate all stay"


def test_groups_and_values_of_an_answer_are_those_of_its_codes() -> None:
    tally = PROTECTED["sum"].tally(EXACT, randomness=token_bytes)
    assert tally.records.tolist() == [1, 100, 80]
    assert tally.sums.tolist() == [1 * 6, 40 * 5 + 60 * 5, 80 * 6], "missing, below, the least, the greatest"
    everything = replace(PROTECTED["count"], mechanism=replace(PROTECTED["count"].mechanism, groups=1), groups=None)
    assert everything.tally(EXACT, randomness=token_bytes).records.tolist() == [181]


def test_stages_and_margins_are_read_as_they_were_put_down() -> None:
    numbers = DELETION.protect(EXACT, randomness=bytes)
    assert numbers[:2].tolist() == [7, 8]
    stages, margins = published_stages(numbers, k=2, layouts=STAGES, levels=(7, 8), margins=())
    assert [stage.keys.tolist() for stage in stages] == [[[5, 6, 11]], [[]]]
    assert (stages[0].counts.tolist(), margins) == ([40, 60, 80], [])
    for levels in ((7, 9), (7,), (7, 8, 3)):
        assert not replace(DELETION, levels=levels).fits(numbers)
    calibrated = PROTECTED["calibrated deletion"]
    [stage], margins = published_stages(
        calibrated.protect(EXACT, randomness=bytes), k=1, layouts=(LAYOUT,), levels=(), margins=calibrated.margins
    )
    assert stage.counts.tolist() == [1, 40, 60, 80]
    assert [(cells + 3).tolist() for cells in margins] == [
        [1, 100, 80],
        [1, 0, 0, 0, 0, 40, 60, 0, 0, 0, 0, 80],
    ]


def test_reports_are_published_where_there_are_enough() -> None:
    protection = PROTECTED["reports"]
    totals = np.array([20, 30, 30, 20])
    assert protection.protect(totals, randomness=bytes) is totals
    with pytest.raises(ReleaseFailed, match="99 reports could be read, and the release needs 100"):
        protection.protect(totals - [0, 0, 0, 1], randomness=bytes)
    assert (protection.layout.sizes, protection.fits([20])) == ((4,), False)
    sketch = CountMeanSketch(epsilon=ONE, hashes=16, bits=32, seed=b"seed")
    alone = ReportsProtection(mechanism=sketch)
    assert (alone.layout.sizes, alone.least_reports) == ((16, 32), 1)
    with pytest.raises(ReleaseFailed, match="0 reports"):
        ReportsProtection(mechanism=RANDOMIZER).protect(totals * 0, randomness=bytes)


REFUSED: dict[str, Callable[[], object]] = {
    "more stages than are priced": lambda: replace(DELETION, layouts=(*STAGES, STAGES[1]), tables=TABLES * 2),
    "stages without a table": lambda: replace(DELETION, tables=()),
    "a table that lacks a code": lambda: replace(DELETION, tables=((None, np.array([0, 0, 1])),)),
    "a table to a code that isn't there": lambda: replace(DELETION, tables=((None, np.array([0, 0, 1, 2])),)),
    "a table to a code below 0": lambda: replace(DELETION, tables=((None, np.array([0, 0, 1, -1])),)),
    "a table for one column": lambda: replace(DELETION, tables=((None,),)),
    "codes that stay and don't": lambda: replace(DELETION, tables=((None, None),)),
    "margins that aren't paid for": lambda: replace(DELETION, margins=((0,),)),
    "margins that are missing": lambda: replace(PROTECTED["calibrated deletion"], margins=((0,),)),
    "an axis too many": lambda: replace(PROTECTED["points"], layout=KeyLayout(sizes=(3, 4, 5))),
    "an axis without a cell": lambda: replace(PROTECTED["points"], sides=(np.array([0, 1]), np.arange(4) % 2)),
    "a cell beyond its axis": lambda: replace(PROTECTED["points"], sides=(np.arange(3), np.arange(4) % 2)),
    "a cell before its axis": lambda: replace(PROTECTED["points"], sides=(np.arange(3) - 1, np.arange(4) % 2)),
    "other groups than are priced": lambda: replace(PROTECTED["sum"], groups=KeyLayout(sizes=(4,))),
    "groups of other columns": lambda: replace(PROTECTED["count"], groups=KeyLayout(sizes=(4, 3))),
    "no groups where some are priced": lambda: replace(PROTECTED["count"], groups=None),
    "sums of other columns": lambda: replace(PROTECTED["moments"], layout=KeyLayout(sizes=(3, 5))),
    "a rehearsal of other columns": lambda: replace(PROTECTED["rehearsal"], layout=KeyLayout(sizes=(3, 4, 5))),
    "a rehearsal with groups": lambda: replace(PROTECTED["rehearsal"], groups=LAYOUT),
    "a rehearsal of a sum": lambda: replace(PROTECTED["rehearsal"], mechanism=PROTECTED["sum"].mechanism),
    "rates that aren't all there": lambda: replace(PROTECTED["unequal rates"], rates=(LOW, HIGH)),
    "a rate below the lowest": lambda: replace(PROTECTED["unequal rates"], rates=(LOW / 2, LOW, LOW, HIGH)),
    "a rate above the highest": lambda: replace(PROTECTED["unequal rates"], rates=(LOW, LOW, LOW, ONE)),
    "rates below the first coins'": lambda: replace(PROTECTED["unequal rates"], rates=(LOW,) * 4),
    "codes of a survey that aren't all there": lambda: replace(PROTECTED["survey"], counted=np.array([True])),
    "thinning to a rate of no code": lambda: Thinning(layout=LAYOUT, rates=(LOW,) * 5),
    "thinning without groups": lambda: Thinning(layout=KeyLayout(sizes=(4,)), rates=(LOW,) * 4),
}


@pytest.mark.parametrize("wrong", REFUSED)
def test_parts_that_do_not_go_together_are_refused(wrong) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each says its own
        REFUSED[wrong]()
