"""Synthetic points: total on any input, faithful to the counts, and within their stated error."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, noisy_counts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from crowdblend.mechanisms.synthetic_points import (
    PointAxis,
    axis_steps,
    cell_numbers,
    centres,
    error_bound,
    points_of_counts,
    sides_of_codes,
    stated_moved_share,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

SUPPRESSED = StronglySafeRelease(k=5, sampling_rate=Decimal("0.1"))
GRID = SyntheticPoints(dimensions=2, cells_per_side=4, counts=SUPPRESSED)


def twice(distance: float) -> float:
    return 2.0 * distance


@given(points=arrays(np.float64, st.tuples(st.integers(0, 20), st.just(2)), elements=st.floats(width=64)))
@settings(derandomize=True)
def test_every_point_has_a_cell_even_what_is_not_a_number(points):
    cells = cell_numbers(GRID, points)
    assert cells.shape == (len(points),)
    assert ((cells >= 0) & (cells < GRID.cells)).all()


def test_edges_and_corners():
    points = np.array([[0, 0], [1, 1], [0.25, 0.999], [-3, 7], [math.nan, 0.5], [math.inf, -math.inf]])
    assert cell_numbers(GRID, points).tolist() == [0, 15, 7, 3, 2, 12]


def test_centres_as_often_as_counted():
    counts = np.zeros(16, dtype=np.int64)
    counts[[0, 7, 15]] = [2, 1, -4]
    assert points_of_counts(GRID, counts).tolist() == [[0.125, 0.125], [0.125, 0.125], [0.375, 0.875]]


def test_a_centre_lies_in_its_cell_and_within_the_radius():
    centres = points_of_counts(GRID, np.ones(16, dtype=np.int64))
    assert cell_numbers(GRID, centres).tolist() == list(range(16))
    points = np.random.default_rng(1).random((5000, 2))
    distance = np.linalg.norm(points - centres[cell_numbers(GRID, points)], axis=1)
    assert GRID.radius * 0.95 < distance.max() <= GRID.radius


FUNCTIONS = {
    "distance to a corner": (lambda x: np.linalg.norm(x, axis=1), 1.0, math.sqrt(2)),
    "first coordinate": (lambda x: x[:, 0], 1.0, 1.0),
    "waves": (lambda x: np.sin(6 * x[:, 0]) / 6 + np.cos(4 * x[:, 1]) / 8, math.sqrt(1.25), 0.55),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("side", [2, 5, 20])
@pytest.mark.parametrize("noisy", [False, True])
def test_means_of_smooth_functions_are_within_the_stated_error(name, side, noisy):
    function, constant, oscillation = FUNCTIONS[name]
    counted = NoisyHistogram(k=5, epsilon=Decimal(1), sampling_rate=Decimal("0.1")) if noisy else SUPPRESSED
    grid = SyntheticPoints(dimensions=2, cells_per_side=side, counts=counted)
    points = np.random.default_rng(side).beta(2, 5, (1500, 2))
    counts = np.bincount(cell_numbers(grid, points), minlength=grid.cells)
    published = noisy_counts(counts, counted) if noisy else np.where(counts >= 5, counts, 0)
    error = abs(function(points).mean() - function(points_of_counts(grid, published)).mean())
    bound = error_bound(
        grid, modulus=lambda distance: constant * distance, oscillation=oscillation, counts=counts, published=published
    )
    assert error <= bound


def test_a_noisy_count_below_0_shows_no_points():
    counts, published = np.zeros((2, 16), dtype=np.int64)
    counts[:3], published[:3] = [6, 10, 4], [8, 12, -9]
    given = {"modulus": twice, "oscillation": 3.0, "counts": counts}
    bound = error_bound(GRID, **given, published=published)
    assert bound == pytest.approx(2 * GRID.radius + 3 * (0.1 + 0.1 + 0.2) / 2)
    assert bound == error_bound(GRID, **given, published=np.maximum(published, 0))
    with pytest.raises(ValueError, match="published point"):
        error_bound(GRID, **given, published=np.minimum(published, 0))


def test_the_bound_can_be_met():
    """A function that differs by its modulus between centre and corner, and by its oscillation where dropped."""
    grid = SyntheticPoints(dimensions=1, cells_per_side=2, counts=SUPPRESSED)
    points = np.array([[0.0]] * 8 + [[1.0]] * 2)
    counts = np.bincount(cell_numbers(grid, points), minlength=2)
    published = np.where(counts >= 5, counts, 0)
    error = abs(points.mean() - points_of_counts(grid, published).mean())
    bound = error_bound(grid, modulus=float, oscillation=1.0, counts=counts, published=published)
    assert error == pytest.approx(0.05)
    assert error <= bound == pytest.approx(0.45)


def test_refusals():
    with pytest.raises(ValueError, match="at most"):
        SyntheticPoints(dimensions=3, cells_per_side=1000, counts=SUPPRESSED)
    with pytest.raises(ValueError, match="at least one"):
        SyntheticPoints(dimensions=0, cells_per_side=1, counts=SUPPRESSED)
    for dimensions, cells in ((10**400, 2), (10**30, 1), (2, 10**400)):
        with pytest.raises(ValueError, match="dimensions"):
            SyntheticPoints(dimensions=dimensions, cells_per_side=cells, counts=SUPPRESSED)
    for shape in ((3, 3), (3, 1), (2,), (3, 2, 2), ()):
        with pytest.raises(ValueError, match=r"points of 2 dimensions have shape \(n, 2\)"):
            cell_numbers(GRID, np.zeros(shape))
    empty = np.zeros(16, dtype=np.int64)
    with pytest.raises(ValueError, match="at least one"):
        error_bound(GRID, modulus=twice, oscillation=1, counts=empty, published=empty)


def moved_share(counts, published):
    shown = np.maximum(published, 0)
    return 0.5 * np.abs(counts / counts.sum() - shown / shown.sum()).sum()


@given(counts=arrays(np.int64, 16, elements=st.integers(0, 30)).filter(lambda counts: counts.max() >= 5))
@settings(derandomize=True)
def test_the_share_that_suppression_moves_is_never_above_the_stated_one(counts):
    published = np.where(counts >= 5, counts, 0)
    assert moved_share(counts, published) <= stated_moved_share(GRID, published, confidence=0.5) + 1e-12


def test_the_stated_share_is_met_by_cells_just_below_k():
    counts = np.full(16, 4)
    counts[3] = 90
    published = np.where(counts >= 5, counts, 0)
    assert moved_share(counts, published) == pytest.approx(stated_moved_share(GRID, published, confidence=0.5))
    assert stated_moved_share(GRID, np.zeros(16, dtype=np.int64), confidence=0.5) == 1.0
    for confidence in (-0.5, 0.0, 1.0, 1.5):
        with pytest.raises(ValueError, match="confidence"):
            stated_moved_share(GRID, published, confidence=confidence)


@pytest.mark.parametrize(("epsilon", "cells", "confidence"), [("0.5", 36, 0.95), ("2", 4, 0.5), ("0.01", 900, 0.999)])
def test_the_noise_of_all_cells_is_bounded_by_the_best_of_chernoffs_bounds(epsilon, cells, confidence):
    """ln E[e^{s|x|}] by the sum over all x; no bound of another s is much better than that which is stated."""
    noisy = NoisyHistogram(k=2, epsilon=Decimal(epsilon), sampling_rate=None)
    grid = SyntheticPoints(dimensions=1, cells_per_side=cells, counts=noisy)
    published = np.full(cells, 10**9)
    stated = stated_moved_share(grid, published, confidence=confidence) * published.sum()
    decay = float(epsilon)
    sizes = np.arange(1, int(800 / decay))
    bounds = []
    for tilt in np.linspace(0.005, 0.97, 400) * decay:
        mean = (1 - math.exp(-decay)) / (1 + math.exp(-decay)) * (1 + 2 * np.exp((tilt - decay) * sizes).sum())
        bounds.append((cells * math.log(mean) - math.log(1 - confidence)) / tilt)
    assert min(bounds) * (1 - 1e-6) <= stated <= min(bounds) * 1.01
    few = np.zeros(cells, dtype=np.int64)
    few[0] = 1
    assert stated_moved_share(grid, few, confidence=confidence) == 1.0


AXES = (
    PointAxis(name="x", lower=Decimal("-1.5"), upper=Decimal("2"), missing=Decimal("0.1")),
    PointAxis(name="y", lower=Decimal(0), upper=Decimal("0.3"), missing=Decimal("0.3")),
)


@pytest.mark.parametrize("cells", [1, 2, 3, 7])
def test_columns_are_cut_into_equal_cells_and_shown_at_their_centres(cells):
    """By exact fractions: cell j of an axis is that from lower + j/r of its width on, and its centre half a cell on."""
    values = np.array([[-9.0, -1.5, -0.4, 0.1, 1.99, 2.0, math.nan], [-1.0, 0.0, 0.1, 0.15, 0.29, 7.0, math.nan]])
    codes, numbers = [], np.zeros(7, dtype=np.int64)
    for axis, own in zip(AXES, values, strict=True):
        codes.append(axis_steps(axis, cells=cells).codes_of_numbers(own, 0))
        lower, width = Fraction(axis.lower), Fraction(axis.upper) - Fraction(axis.lower)
        exact = [Fraction(axis.missing) if math.isnan(value) else Fraction(str(value)) for value in own]
        places = [min(max(math.floor((value - lower) / width * cells), 0), cells - 1) for value in exact]
        numbers = numbers * cells + np.array(places)
    sides = [sides_of_codes(axis, cells=cells)[own] for axis, own in zip(AXES, codes, strict=True)]
    assert KeyLayout(sizes=(cells, cells)).keys(sides)[0].tolist() == numbers.tolist()
    every = np.arange(cells**2)
    for axis, own, sides in zip(AXES, centres(AXES, every, cells=cells), np.divmod(every, cells), strict=True):
        width = Fraction(axis.upper) - Fraction(axis.lower)
        middle = [float(Fraction(axis.lower) + width * (2 * int(side) + 1) / (2 * cells)) for side in sides]
        assert own.tolist() == middle


def test_of_one_published_point_and_of_none_the_share_is_stated_too():
    noisy = NoisyHistogram(k=2, epsilon=Decimal(1), sampling_rate=None)
    published = np.zeros(16, dtype=np.int64)
    for counts in (SUPPRESSED, noisy):
        grid = SyntheticPoints(dimensions=2, cells_per_side=4, counts=counts)
        assert stated_moved_share(grid, published, confidence=0.5) == 1.0
    published[3] = 1
    whole = SyntheticPoints(
        dimensions=2, cells_per_side=4, counts=StronglySafeRelease(k=1, sampling_rate=Decimal("0.1"))
    )
    assert stated_moved_share(whole, published, confidence=0.5) == 0.0
