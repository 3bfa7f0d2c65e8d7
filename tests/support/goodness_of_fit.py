"""Goodness of fit, stated once for every mechanism: a fixed false-alarm rate, and room for controls."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

FALSE_ALARM = 1e-6


def chi_square(drawn, mass, *, least=10.0):
    """The p-value of whole-numbered draws under a probability function; rare outcomes are pooled at both ends."""
    drawn = np.asarray(drawn)
    low, high = int(drawn.min()), int(drawn.max())
    outcomes = np.arange(low, high + 1)
    expected = np.array([mass(int(x)) for x in outcomes]) * drawn.size
    observed = np.bincount(drawn - low, minlength=outcomes.size)
    common = np.flatnonzero(expected >= least)
    first, last = common[0], common[-1]
    expected, observed = expected[first : last + 1], observed[first : last + 1]
    rest_expected, rest_observed = drawn.size - expected.sum(), drawn.size - observed.sum()
    if rest_expected >= 1.0 or rest_observed:
        expected, observed = np.append(expected, max(rest_expected, 1e-9)), np.append(observed, rest_observed)
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def fits(drawn, mass):
    """Whether draws pass at the false-alarm rate of one in a million."""
    return chi_square(drawn, mass) > FALSE_ALARM


@pytest.fixture(scope="session")
def fit():
    return fits


@pytest.fixture(scope="session")
def false_alarm():
    return FALSE_ALARM


@pytest.fixture
def seeded_bytes():
    """A reproducible stand-in for the operating system's bytes."""
    draws = np.random.default_rng(20260101)
    return draws.bytes


@pytest.fixture(scope="session")
def examples():
    path = Path(__file__).parents[1] / "vectors" / "mechanism_examples.json"
    return json.loads(path.read_text(encoding="utf-8"))
