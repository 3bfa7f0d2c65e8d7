"""Figures by survey weights: intervals hold wherever weights are within their classes, and as often as they should."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.analysis.loaded_release import LoadedRelease
from crowdblend.analysis.published_tables import PublishedTables, RowReading, pair_cells
from crowdblend.mechanisms.generalization_map import MappedColumn
from crowdblend.mechanisms.hierarchies.decimals import WeightClasses
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused

BOUNDS = (10.0, 14.0, 20.0, 28.0, 40.0)
COLUMNS = (
    MappedColumn(name="sex", hierarchy=ValueHierarchy.from_values(["f", "m"]), level=0),
    MappedColumn(name="hours", hierarchy=IntervalHierarchy(lower=0, upper=20, widths=(5,)), level=0),
    MappedColumn(name="base", hierarchy=WeightClasses.of([Decimal(str(bound)) for bound in BOUNDS]), level=0),
)


def people(number: int = 4_000) -> tuple[list[np.ndarray], np.ndarray]:
    """Codes, and weights; who works long weighs less."""
    coins = np.random.default_rng(6)
    hours, sex = coins.integers(0, 20, number), coins.integers(0, 2, number)
    weights = np.clip(coins.normal(30 - 0.6 * hours - 3 * sex, 6, number), 10, 39.9)
    return [sex + 1, hours + 2, COLUMNS[2].hierarchy.codes_of_numbers(weights, 0)], weights


def release(codes: list[np.ndarray], coins: np.random.Generator, *, error: float) -> LoadedRelease:
    pairs = []
    for place in (0, 1):
        cells = np.zeros((COLUMNS[place].size, COLUMNS[2].size))
        np.add.at(cells, (codes[place], codes[2]), 1.0)
        noisy = cells + coins.normal(0, error, cells.shape)
        pairs.append(pair_cells([COLUMNS[place], COLUMNS[2]], (place, 2), (0, 0), noisy, max(error, 1e-6)))
    margins = [np.bincount(own, minlength=one.size) for own, one in zip(codes, COLUMNS, strict=True)]
    published = PublishedTables(
        columns=COLUMNS,
        rows=(),
        reading=RowReading(form="microdata", k=1),
        margins=tuple(own + coins.normal(0, error, own.size) for own in margins),
        margin_deviation=max(error, 1e-6),
        pairs=tuple(pairs),
    )
    return LoadedRelease(published)


def test_without_noise_the_ends_are_what_weights_within_classes_can_give() -> None:
    codes, _ = people()
    own = release(codes, np.random.default_rng(1), error=0.0)
    bounds, classes = np.array(BOUNDS), codes[2] - 1
    female = codes[0] == 1
    total = own.count({"sex": "f"}, weighted=True)
    ends = [bounds[classes[female]].sum(), bounds[classes[female] + 1].sum()]
    assert [total.lower, total.upper] == pytest.approx(ends, rel=1e-4)
    assert own.count(weighted=True).lower == pytest.approx(bounds[classes].sum(), rel=1e-4)
    # The least and the largest mean: each hour's weights at one of their ends, the light ones on one side of a cut.
    hours = codes[1] - 2.0
    means = []
    for cut, (below, above) in itertools.product(range(21), ((0, 1), (1, 0))):
        weights = bounds[classes + np.where(hours < cut, below, above)]
        means.append(float((weights * hours).sum() / weights.sum()))
    mean = own.mean("hours", weighted=True)
    assert [mean.lower, mean.upper] == pytest.approx([min(means), max(means)], rel=1e-4)
    light, heavy = bounds[classes], bounds[classes + 1]
    shares = [
        one[female].sum() / (one[female].sum() + other[~female].sum())
        for one, other in ((light, heavy), (heavy, light))
    ]
    share = own.share({"sex": "f"}, weighted=True)
    assert [share.lower, share.upper] == pytest.approx(shares, rel=1e-4)


def test_weights_beyond_the_bounds_are_clipped_and_the_figures_say_so() -> None:
    """1,000 weights of 90 beyond a last bound of 40: the interval holds what was counted, 28 to 40 for each."""
    codes = [np.repeat(1, 1_000), np.repeat(2, 1_000), COLUMNS[2].hierarchy.codes_of_numbers(np.full(1_000, 90.0), 0)]
    own = release(codes, np.random.default_rng(1), error=0.0)
    figures = [own.count(weighted=True), own.share({"sex": "f"}, weighted=True), own.mean("hours", weighted=True)]
    assert [figures[0].lower, figures[0].upper] == pytest.approx([28_000, 40_000], rel=1e-3)
    assert all("weights clipped at the bounds, missing ones at the mean" in figure.note for figure in figures)


@pytest.mark.parametrize("exact", [False, True])
def test_intervals_hold_at_their_rate(exact) -> None:
    """100 draws; with weights at the lower ends of their classes half of the interval is the noise's alone."""
    codes, weights = people()
    if exact:
        weights = np.array(BOUNDS)[codes[2] - 1]
    hours, female = codes[1] - 2.0, codes[0] == 1
    true = [
        float(weights[female].sum()),
        float(np.average(hours, weights=weights)),
        float(np.average(hours[hours < 10], weights=weights[hours < 10])),
        float(weights[female].sum() / weights.sum()),
    ]
    coins, held = np.random.default_rng(3), []
    for _ in range(100):
        own = release(codes, coins, error=15.0)
        figures = [
            own.count({"sex": "f"}, weighted=True),
            own.mean("hours", weighted=True),
            own.mean("hours", where={"hours": range(10)}, weighted=True),
            own.share({"sex": "f"}, weighted=True),
        ]
        held.append([one.lower <= figure <= one.upper for one, figure in zip(figures, true, strict=True)])
    rates = np.mean(held, axis=0)
    assert (rates >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 100)).all(), rates
    assert not exact or rates[0] < 1.0, "an interval isn't wider than it must be"


def test_what_was_not_counted_with_the_weights_is_refused() -> None:
    codes, _ = people(300)
    own = release(codes, np.random.default_rng(1), error=1.0)
    for asked in (
        lambda: own.count({"sex": "f", "hours": range(10)}, weighted=True),
        lambda: own.mean("hours", by="sex", weighted=True),
        lambda: own.mean("hours", where={"sex": "f"}, weighted=True),
        lambda: own.share({"sex": "f"}, of={"hours": range(10)}, weighted=True),
    ):
        with pytest.raises(InputRefused, match="one column at a time"):
            asked()
    plain = LoadedRelease(
        PublishedTables(
            columns=COLUMNS[:1],
            rows=(),
            reading=RowReading(form="microdata"),
            margins=(np.ones(3),),
            margin_deviation=1.0,
        )
    )
    with pytest.raises(InputRefused, match="no survey weights"):
        plain.count(weighted=True)
