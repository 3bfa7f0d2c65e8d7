"""Tests across draws and groups: each count has the one exact distribution, and knows nothing of its neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, chisquare

from .cases_of_counts import exact_outcomes
from .confidence import Counts
from .whole_flow import FlowRuns

__all__ = ["TESTS_OF_A_FLOW", "goodness", "uniformity"]

TESTS_OF_A_FLOW = 8
_FEW = 25.0


def goodness(seen: Counts, probabilities: NDArray[np.float64]) -> float:
    """Pearson's test of outcomes against their exact probabilities, those of few expected draws taken together.

    Returns:
        The p-value; 0 where an impossible outcome was seen.
    """
    size = max(seen.size, probabilities.size)
    seen, masses = np.pad(seen, (0, size - seen.size)), np.pad(probabilities, (0, size - probabilities.size))
    if np.any(seen[masses == 0.0]):
        return 0.0
    order = np.argsort(-masses)[: int(np.count_nonzero(masses))]
    seen, expected = seen[order], masses[order] * (seen.sum() / masses.sum())
    many = max(1, int(np.count_nonzero(expected >= _FEW)))
    while many > 1 and many < expected.size and expected[many:].sum() < _FEW:
        many -= 1
    if many < expected.size:
        seen = np.append(seen[:many], seen[many:].sum())
        expected = np.append(expected[:many], expected[many:].sum())
    return float(chisquare(seen, expected).pvalue) if seen.size > 1 else 1.0


def uniformity(runs: FlowRuns) -> dict[str, float]:
    """The tests of a flow on a sample, as p-values by their names: four for either size of group.

    Against the exact distribution; between kinds of records (identical, of unseen values, of missing values); between
    the first places in the file and the last; between neighbouring groups, whose coins must not know of each other.
    """
    flow = runs.flow
    found = {}
    for side, outcomes in enumerate(runs.outcomes):
        size = runs.size - side
        words = f"{flow.name}, groups of {size}: published counts"
        found[f"{words} follow the exact distribution"] = goodness(
            np.bincount(outcomes), exact_outcomes(size, flow.k, flow.rate)
        )
        shown, number = outcomes > 0, np.arange(outcomes.size)
        found[f"{words} do not depend on the kind of record"] = _same(shown, number % 3)
        found[f"{words} do not depend on the place in the file"] = _same(shown, number * 8 // outcomes.size)
        found[f"{words} do not depend on the neighbouring group's"] = _same(
            shown[1::2], shown[0::2][: shown[1::2].size]
        )
    return found


def _same(shown: NDArray[np.bool_], part: NDArray[np.generic]) -> float:
    """Whether a group is shown is independent of the part that it belongs to."""
    parts = np.unique(part)
    table = np.array([[np.sum(shown & (part == one)), np.sum(~shown & (part == one))] for one in parts])
    if np.any(table.sum(axis=0) == 0) or parts.size < 2:
        return 1.0
    return float(chi2_contingency(table, correction=False).pvalue)
