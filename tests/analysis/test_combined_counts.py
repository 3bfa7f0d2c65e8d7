"""Margins and pairs together: equal to generalized least squares by brute force, and right about their own errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from crowdblend.analysis.combined_counts import CombinedCounts, LinearCount, PairCells

SIZES = (3, 5, 4, 2)
COARSE = {0: np.array([0, 1, 1]), 1: np.array([0, 0, 1, 1, 2]), 2: np.arange(4), 3: np.arange(2)}
ONCE = ((0, 1, False), (1, 2, False), (0, 3, True), (1, 3, True))
TWICE = (*ONCE, (1, 2, True))
"""Columns, and whether both are counted by coarser labels."""
MARGIN_ERROR, PAIR_ERROR = 3.0, 5.0


def labels_of(first: int, second: int, coarse: bool) -> tuple[np.ndarray, np.ndarray]:
    return tuple(COARSE[place] if coarse else np.arange(SIZES[place]) for place in (first, second))  # type: ignore[return-value]


def measurements(pairs=ONCE) -> tuple[np.ndarray, np.ndarray]:
    """A row for each published cell, a column for each cell of the whole table; and the cells' errors."""
    cells = np.array(list(itertools.product(*map(range, SIZES))))
    rows, errors = [], []
    for place, size in enumerate(SIZES):
        rows += [cells[:, place] == code for code in range(size)]
        errors += [MARGIN_ERROR] * size
    for first, second, coarse in pairs:
        one, other = labels_of(first, second, coarse)
        for a, b in itertools.product(range(one.max() + 1), range(other.max() + 1)):
            rows.append((one[cells[:, first]] == a) & (other[cells[:, second]] == b))
            errors.append(PAIR_ERROR)
    return np.array(rows, dtype=float), np.array(errors)


def published(counts: np.ndarray, pairs_of=ONCE) -> CombinedCounts:
    begin, margins, pairs = 0, [], []
    for size in SIZES:
        margins.append(counts[begin : begin + size])
        begin += size
    for first, second, coarse in pairs_of:
        labels = labels_of(first, second, coarse)
        shape = tuple(int(own.max()) + 1 for own in labels)
        own = counts[begin : begin + shape[0] * shape[1]].reshape(shape)
        begin += own.size
        pairs.append(
            PairCells(
                columns=(first, second), levels=(int(coarse),) * 2, labels=labels, counts=own, deviation=PAIR_ERROR
            )
        )
    assert begin == counts.size
    return CombinedCounts(margins, deviation=MARGIN_ERROR, pairs=pairs)


def brute_force(asked: np.ndarray, counts: np.ndarray, pairs=ONCE) -> tuple[float, float]:
    """The best linear unbiased estimate of a sum of cells of the whole table, and its variance."""
    design, errors = measurements(pairs)
    scaled = design / errors[:, None]
    inverse = np.linalg.pinv(scaled.T @ scaled, rcond=1e-10)
    return float(asked @ inverse @ scaled.T @ (counts / errors)), float(asked @ inverse @ asked)


def noisy(pairs=ONCE) -> np.ndarray:
    coins = np.random.default_rng(1)
    design, errors = measurements(pairs)
    return design @ coins.integers(0, 40, design.shape[1]) + coins.normal(0, errors)


@pytest.fixture
def counts() -> np.ndarray:
    return noisy()


def whole_table(**chosen: list[int]) -> np.ndarray:
    cells = np.array(list(itertools.product(*map(range, SIZES))))
    kept = np.ones(len(cells), dtype=bool)
    for place, codes in chosen.items():
        kept &= np.isin(cells[:, int(place[1:])], codes)
    return kept.astype(float)


def test_counts_by_a_column_are_the_best_that_can_be_made_of_all_tables(counts) -> None:
    combined = published(counts)
    for place, size in enumerate(SIZES):
        for codes in ([0], [1], list(range(size - 1)), list(range(size))):
            mask = np.isin(np.arange(size), codes).astype(float)
            own = LinearCount(mains={place: mask})
            expected = brute_force(whole_table(**{f"c{place}": codes}), counts)
            found = combined.value(own), combined.covariance(own, own)
            assert found == pytest.approx(expected, rel=1e-8)
            assert mask @ combined.margin_covariance(place) @ mask == pytest.approx(expected[1], rel=1e-8)
    assert (combined.records, combined.records_variance) == pytest.approx(brute_force(whole_table(), counts), rel=1e-8)


@pytest.mark.parametrize("number", range(len(ONCE)))
def test_counts_by_a_pair_are_the_best_too(counts, number) -> None:
    combined, pair = published(counts), published(counts).pairs[number]
    estimates, variances = combined.pair_cells(number)
    for cell in np.ndindex(*pair.counts.shape):
        own = np.zeros(pair.counts.shape)
        own[cell] = 1.0
        asked = combined.of_pair(number, own)
        assert combined.value(asked) == pytest.approx(estimates[cell])
        assert combined.covariance(asked, asked) == pytest.approx(variances[cell])
        chosen = {
            f"c{place}": np.flatnonzero(labels == code).tolist()
            for place, labels, code in zip(pair.columns, pair.labels, cell, strict=True)
        }
        expected = brute_force(whole_table(**chosen), counts)
        assert (estimates[cell], variances[cell]) == pytest.approx(expected, rel=1e-8)


def test_a_pair_that_is_counted_by_two_sorts_of_labels_is_told_by_both() -> None:
    """Less variance than by either, and nearly the least that there is; that is by all tables at once."""
    combined = published(noisy(TWICE), TWICE)
    fine, coarse = np.zeros((5, 4)), np.zeros((3, 4))
    fine[:2, 1], coarse[0, 1] = 1.0, 1.0
    both = [combined.of_pair(1, fine), combined.of_pair(4, coarse)]
    best = combined.narrowest(both)
    variance = combined.covariance(best, best)
    assert variance < min(combined.covariance(one, one) for one in both)
    least = brute_force(whole_table(c1=[0, 1], c2=[1]), noisy(TWICE), TWICE)[1]
    assert least * (1 - 1e-9) <= variance <= 1.02 * least


def test_stated_errors_are_those_of_many_draws() -> None:
    coins = np.random.default_rng(2)
    design, errors = measurements()
    cells = coins.integers(0, 40, design.shape[1]).astype(float)
    found = []
    for _ in range(2_000):
        combined = published(design @ cells + coins.normal(0, errors))
        own = LinearCount(mains={1: np.array([0.0, 1.0, 1.0, 0.0, 0.0])})
        cross = combined.of_pair(0, np.eye(3, 5))
        found.append([combined.value(own), combined.value(cross)])
    stated = np.array([[combined.covariance(a, b) for b in (own, cross)] for a in (own, cross)])
    assert np.cov(np.array(found).T) == pytest.approx(stated, rel=0.15)
    true = [float(whole_table(c1=[1, 2]) @ cells), sum(float(whole_table(c0=[i], c1=[i]) @ cells) for i in range(3))]
    assert (np.abs(np.mean(found, axis=0) - true) < 4 * np.sqrt(np.diag(stated) / 2_000)).all()
