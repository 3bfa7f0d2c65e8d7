"""Tests across draws and groups: each count has the one exact distribution, and knows nothing of its neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom

from .cases_of_counts import exact_outcomes
from .confidence import Counts
from .whole_flow import FlowRuns

__all__ = ["TESTS_OF_A_FLOW", "goodness", "independence", "uniformity"]

TESTS_OF_A_FLOW = 8


def goodness(seen: Counts, probabilities: NDArray[np.float64]) -> float:
    """The exact test of outcomes against their exact probabilities.

    How often an outcome, or one of a number or more, is seen is binomial. The least of the tails' probabilities of all
    these counts, times how many there are of them, is no larger than α with a probability of at most α.

    Returns:
        The p-value; 0 where an impossible outcome was seen.
    """
    size = max(seen.size, probabilities.size)
    seen, masses = np.pad(seen, (0, size - seen.size)), np.pad(probabilities, (0, size - probabilities.size))
    if np.any(seen[masses == 0.0]):
        return 0.0
    draws = seen.sum()
    hits = np.concatenate((seen, np.cumsum(seen[::-1])[::-1]))
    chances = np.minimum(np.concatenate((masses, np.cumsum(masses[::-1])[::-1])) / masses.sum(), 1.0)
    tails = np.minimum(binom.cdf(hits, draws, chances), binom.sf(hits - 1, draws, chances))
    return min(1.0, 2 * hits.size * float(tails.min()))


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
        found[f"{words} do not depend on the kind of record"] = independence(shown, number % 3)
        found[f"{words} do not depend on the place in the file"] = independence(shown, number * 8 // outcomes.size)
        found[f"{words} do not depend on the neighbouring group's"] = independence(
            shown[1::2], shown[0::2][: shown[1::2].size]
        )
    return found


def independence(shown: NDArray[np.bool_], part: NDArray[np.generic]) -> float:
    """Whether showing a group is independent of the part that it belongs to: exact, given how many are shown."""
    parts, sizes = np.unique(part, return_counts=True)
    hits = np.array([np.count_nonzero(shown & (part == one)) for one in parts])
    whole = shown.size, int(np.count_nonzero(shown)), sizes
    tails = np.minimum(hypergeom.cdf(hits, *whole), hypergeom.sf(hits - 1, *whole))
    return min(1.0, 2 * parts.size * float(tails.min()))
