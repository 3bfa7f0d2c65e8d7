"""Survey weights: classes and their middles, totals with intervals that hold, and all that one record may change."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise, product

import numpy as np
import pytest
from crowdblend.accounting.kinds.composition.composed import delta_composed
from crowdblend.accounting.kinds.deletion_prices import losses_of_draws
from crowdblend.mechanisms.hierarchies.build import described_hierarchy
from crowdblend.mechanisms.hierarchies.decimals import WeightClasses
from crowdblend.mechanisms.kinds.deletion_noise import (
    WEIGHT_TOTAL,
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    deletion_weights,
)
from crowdblend.mechanisms.record_weights import (
    class_totals,
    class_weights,
    row_weights,
    weighted_totals,
    whole_total,
)

BOUNDS = [1, 20, 50, 100, 200, 500]
CLASSES = WeightClasses.of([Decimal(bound) for bound in BOUNDS])


def codes_of(weights: Sequence[float], level: int = 0) -> list[int]:
    return CLASSES.codes_of_numbers(np.array(weights, dtype=np.float64), level).tolist()


def test_a_weight_has_the_class_that_it_lies_in_and_one_outside_the_nearest() -> None:
    weights = [1.0, 19.99, 20.0, 99.0, 100.0, 499.0, 500.0, 501.0, math.inf, 0.5, -3.0, math.nan]
    assert codes_of(weights) == [1, 1, 2, 3, 4, 5, 5, 5, 5, 1, 1, 0]
    assert [CLASSES.size(level) for level in range(CLASSES.levels)] == [6, 4, 3, 1]
    shown = [CLASSES.labels(np.arange(CLASSES.size(level)), level) for level in range(4)]
    assert shown == [
        ["*", "< 20", "[20, 50)", "[50, 100)", "[100, 200)", ">= 200"],
        ["*", "< 50", "[50, 200)", ">= 200"],
        ["*", "< 200", ">= 200"],
        ["*"],
    ]
    assert CLASSES.label_sizes(1) == {2: 2, 1: 1}
    assert CLASSES.values_covered(np.arange(4), 1).tolist() == [5, 2, 2, 1]


@pytest.mark.parametrize(
    "bounds", [["1", "2"], ["0", "1", "2"], ["1", "1", "2"], ["2", "1", "3"], ["1", "2", "NaN"], ["1", "2", "1e15"]]
)
def test_bounds_that_are_none_are_refused(bounds: list[str]) -> None:
    with pytest.raises(ValueError, match=r"bound|classes"):
        WeightClasses.of([Decimal(bound) for bound in bounds])
    with pytest.raises(ValueError, match=r"bound|classes"):
        described_hierarchy({"kind": "weight-classes/1", "bounds": bounds})


def test_bounds_have_one_form_however_they_are_written() -> None:
    assert WeightClasses.of([Decimal(one) for one in ("0.50", "1e2", "200.0")]).bounds == ("0.5", "100", "200")


def test_a_record_counts_as_the_middle_by_ratio_and_one_without_a_weight_as_the_mean() -> None:
    weights = class_weights(CLASSES, 0, np.array([50, 10, 0, -7, 30, 0]))
    assert weights.middle[1:] == pytest.approx([math.sqrt(a * b) for a, b in pairwise(BOUNDS)])
    assert weights.mean == pytest.approx((10 * math.sqrt(20) + 30 * math.sqrt(20_000)) / 40)
    assert (weights.lower[0], weights.upper[0]) == (weights.mean, weights.mean)
    assert class_weights(CLASSES, 1, np.zeros(4, np.int64)).lower.tolist()[1:] == [1, 50, 200]
    assert class_weights(CLASSES, 0, np.full(6, -3)).mean == pytest.approx(math.sqrt(500)), "no class seems to be there"


def test_no_other_multiple_of_the_difference_leaves_less_noise() -> None:
    weights = class_weights(CLASSES, 0, np.array([0, 5, 9, 50, 30, 6]))
    found = weighted_totals(
        np.zeros((1, 6)), weights, deviation=3.0, alone=np.zeros(1, np.int64), alone_deviation=2.0
    ).standard_error
    tried = [
        math.sqrt(9.0 * float(((weights.middle - share) ** 2).sum()) + share**2 * 4.0) for share in range(-50, 300)
    ]
    assert found < min(tried) < 1.001 * found
    assert found < 3.0 * math.sqrt(float(weights.middle @ weights.middle))


@pytest.mark.parametrize("end", ["lower", "middle", "upper"])
def test_intervals_hold_whatever_the_weights_are_in_their_classes(end: str) -> None:
    """Of 3,000 releases with weights at an end, 2.5 % miss at that end: more than 3.75 % once in 10^5 runs."""
    coins = np.random.default_rng(5)
    exact = coins.integers(0, 60, (4, 6))
    exact[:, 0] = 0
    drawn, missed = 3_000, np.zeros(4)
    deviation, alone_deviation = 8.0, 5.0
    weights = class_weights(CLASSES, 0, exact.sum(axis=0))
    true = exact @ getattr(weights, end)
    errors = []
    for _ in range(drawn):
        noisy = exact + np.rint(coins.normal(0, deviation, exact.shape)).astype(np.int64)
        alone = exact.sum(axis=1) + np.rint(coins.normal(0, alone_deviation, 4)).astype(np.int64)
        own = weighted_totals(noisy, weights, deviation=deviation, alone=alone, alone_deviation=alone_deviation)
        missed += (own.low > true) | (own.high < true)
        errors.append(own.totals - exact @ weights.middle)
    share = missed / drawn
    assert share.max() <= 0.0375
    if end != "middle":
        assert share.min() >= 0.0125, "an interval that is much too wide tells nothing"
    spread = np.array(errors).std(axis=0)
    assert spread == pytest.approx(own.standard_error, rel=0.07)
    assert np.abs(np.array(errors).mean(axis=0)).max() < 6 * own.standard_error / math.sqrt(drawn)


def test_totals_of_classes_and_of_all_records_have_intervals_too() -> None:
    counts = np.array([0, 40, 100, 300, 200, 40])
    weights = class_weights(CLASSES, 0, counts)
    totals, errors, low, high = class_totals(weights, counts, deviation=2.0)
    assert totals == pytest.approx(counts * weights.middle)
    assert errors == pytest.approx(2.0 * weights.middle)
    assert (low <= totals).all()
    assert (totals <= high).all()
    assert low[2] == pytest.approx((100 - 1.959964 * 2) * 20)
    whole, [error], [least], [most] = whole_total(weights, counts, deviation=2.0)
    assert whole == pytest.approx(totals.sum())
    assert error == pytest.approx(math.sqrt(float((errors**2).sum())))
    assert least < float(counts @ weights.lower)
    assert most > float(counts @ weights.upper)


def test_rows_of_merged_classes_have_the_mean_of_what_was_left() -> None:
    """Stages by classes, by two together and by none: the rows of all add up to the total of the classes."""
    counts = np.array([0, 40, 100, 300, 200, 40])
    weights = class_weights(CLASSES, 0, counts)
    first = (0, np.array([3, 4]), np.array([250.0, 100.0]))
    second = (1, np.array([1, 2]), np.array([90.0, 120.0]))
    third = (3, np.array([0, 0]), np.array([70.0, 50.0]))
    found = row_weights(CLASSES, weights, counts, level=0, stages=[first, second, third])
    assert found[0].tolist() == weights.middle[[3, 4]].tolist()
    assert found[1] == pytest.approx(
        [
            (40 * weights.middle[1] + 100 * weights.middle[2]) / 140,
            (50 * weights.middle[3] + weights.middle[4] * 100) / 150,
        ]
    )
    total = sum(float(values @ records) for values, (_, _, records) in zip(found, (first, second, third), strict=True))
    assert total == pytest.approx(float(counts @ weights.middle))
    [alone] = row_weights(CLASSES, weights, counts, level=0, stages=[third])
    assert alone == pytest.approx([weights.mean] * 2)
    # Rows for more records than there seem to be leave nothing behind, and later rows the plain mean.
    spent = row_weights(CLASSES, weights, counts, level=0, stages=[(3, np.array([0]), np.array([1e6])), third])
    assert spent[1] == pytest.approx([weights.mean] * 2)


# --- what one record may change of all that is published with weights, enumerated ------------------------------------

NOISE = GaussianDeletion(scale=Decimal(2), width=3)
ROWS = GeometricDeletion(epsilon=Decimal("0.5"), width=2)
PARTS = Counter(losses_of_draws({NOISE: 3, ROWS: 1}, records=1))
Law = dict[tuple[float, ...], float]
Records = tuple[tuple[int, float], ...]
"""Of each record the label of another column, 0 or 1, and the weight."""


def law(noise: DeletionNoise) -> list[tuple[int, float]]:
    return [(z, weight / WEIGHT_TOTAL) for z, weight in enumerate(deletion_weights(noise))]


def published(records: Records, added: tuple[int, float], *, fault: str = "") -> Law:
    """The law of totals, intervals and a row's weight, with noise in the cells of the added record alone.

    Every other cell has noise of its own, which has one law in both worlds. A fault adds up the weights themselves.
    """
    labels = np.array([label for label, _ in records], dtype=np.int64)
    weights = np.array([weight for _, weight in records], dtype=np.float64)
    codes = CLASSES.codes_of_numbers(weights, 0)
    by_class = np.zeros((2, CLASSES.size(0)), dtype=np.int64)
    np.add.at(by_class, (labels, codes), 1)
    place, [code] = added[0], CLASSES.codes_of_numbers(np.array([added[1]]), 0).tolist()
    found: Law = defaultdict(float)
    for (a, p), (b, q), (c, r), (z, s) in product(law(NOISE), law(NOISE), law(NOISE), law(ROWS)):
        tables, classes, alone = by_class.copy(), by_class.sum(axis=0), by_class.sum(axis=1)
        tables[place, code] += a - NOISE.width
        classes[code] += b - NOISE.width
        alone[place] += c - NOISE.width
        own = class_weights(CLASSES, 0, classes)
        totals = weighted_totals(tables, own, deviation=2.0, alone=alone, alone_deviation=2.0)
        rows = max(0, int(by_class[place, code]) - z)
        [row] = row_weights(CLASSES, own, classes, level=0, stages=[(3, np.array([0]), np.array([float(rows)]))])
        figures = (*totals.totals, *totals.low, *totals.high, float(rows), *row)
        if fault:
            figures = (*figures, float(weights.sum()))
        found[tuple(round(float(one), 9) for one in figures)] += p * q * r * s
    return found


def delta_between(first: Law, second: Law, epsilon: float) -> float:
    return max(
        sum(max(0.0, p - math.exp(epsilon) * other.get(out, 0.0)) for out, p in one.items())
        for one, other in ((first, second), (second, first))
    )


OTHERS: Records = ((0, 30.0), (0, 30.0), (1, 70.0), (1, 250.0), (0, math.nan))
ADDED = [(0, 30.0), (1, 999.0), (1, 0.0), (0, math.nan)]
EPSILONS = (0.3, 1.0, 2.0, 3.0)


@pytest.mark.parametrize("added", ADDED, ids=str)
def test_neighbours_are_told_apart_no_better_than_the_price_of_one_more_column_says(added: tuple[int, float]) -> None:
    """The counts of the classes, of a column, of both together, and the rows: whatever the added record weighs."""
    without, with_it = published(OTHERS, added), published((*OTHERS, added), added)
    for epsilon in EPSILONS:
        assert delta_between(without, with_it, epsilon) <= delta_composed(PARTS, epsilon=epsilon)


def test_weights_of_one_class_are_told_apart_by_nothing() -> None:
    one, other, beyond = (0, 200.0), (0, 480.0), (0, 1e9)
    laws = [published((*OTHERS, added), added) for added in (one, other, beyond)]
    assert laws[0] == laws[1] == laws[2]
    assert published((*OTHERS, (0, 199.0)), (0, 199.0)) != laws[0]


def test_the_oracle_catches_a_sum_of_the_weights_themselves() -> None:
    laws = [published((*OTHERS, added), added, fault="exact") for added in ((0, 200.0), (0, 480.0))]
    assert laws[0] != laws[1]
    without = published(OTHERS, (0, 200.0), fault="exact")
    assert delta_between(without, laws[0], 3.0) > delta_composed(PARTS, epsilon=3.0)
