"""The audit of deletion releases on few draws: no claim is contradicted, all are approached, faults contradict them."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kinds import deletion

from audit.statistics.cases import Case
from audit.statistics.cases_of_deletion import deletion_cases, exact_epsilon
from audit.statistics.confidence import chosen_event, epsilon_lower

DRAWS = 200_000
# The share of the exact ε that so few draws show; the bench's own reach 97% and more.
SHOWN = {
    "deletion-one-stage": 0.95,
    "deletion-two-stages": 0.9,
    "deletion-three-stages": 0.3,
    "deletion-three-geometric": 0.9,
    "deletion-series-of-12": 0.3,
    "deletion-two-records": 0.95,
}


@cache
def cases() -> dict[str, Case]:
    return {case.name: case for case in deletion_cases(0.01)}


def bound(case: Case) -> float:
    """The largest lower bound on ε over a case's neighbours."""
    found = []
    for pair in case.pairs:
        rng = np.random.default_rng(22)
        scouted, counted = (
            [np.bincount(pair.draw(side, DRAWS, rng)) for side in (0, 1)] for _ in ("to choose an event", "to count it")
        )
        event = chosen_event((scouted[0], scouted[1]), delta=case.delta)
        one, other = (event.hits(counted[side]) for side in (event.likelier, 1 - event.likelier))
        found.append(epsilon_lower(one, DRAWS, other, DRAWS, delta=case.delta, alarm=1e-5))
    return max(found)


QUICK = [name for name in SHOWN if name != "deletion-series-of-12"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*QUICK, pytest.param("deletion-series-of-12", marks=pytest.mark.slow)])
def test_the_worst_neighbours_show_most_of_what_is_charged_and_no_more(name):
    case = cases()[name]
    assert case.exact is not None
    assert case.exact * (1 - 1e-9) <= case.claim <= case.exact * (1 + 1e-4), "the price is the exact ε by enumeration"
    assert SHOWN[name] * case.exact < bound(case) <= case.claim
    assert cases().keys() == SHOWN.keys()


@pytest.mark.parametrize(
    ("scale", "width", "stages", "releases"),
    [("7.633", 39, 3, 1), pytest.param("15.17", 79, 1, 12, marks=pytest.mark.long)],
)
def test_the_price_of_planned_noise_is_the_exact_one_at_a_millionth_too(scale, width, stages, releases):
    """Enumerated in floating point from another law of Z; too rare an event to be shown by draws."""
    noise = deletion.GaussianDeletion(scale=Decimal(scale), width=width)
    release = deletion.DeletionRelease(stages=stages, k=1, noise=noise)
    charged = float(price(release, delta=Decimal("1e-6"), releases=releases).epsilon)
    exact = exact_epsilon(noise, times=stages * releases, records=1, delta=1e-6)
    assert exact * (1 - 1e-9) <= charged <= exact * (1 + 1e-4)


def k_of_all_records(counts, deletions, *, k):
    return np.where(counts >= k, np.maximum(counts - deletions, 0), 0)


def kept_back_twice(counts, published, parents, *, groups):
    left = np.zeros(groups, dtype=np.int64)
    np.add.at(left, parents, counts - published + np.where(published, 0, counts))
    return left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "function", "fault"),
    [
        ("deletion-one-stage", "stage_counts", k_of_all_records),
        ("deletion-two-stages", "residual_counts", kept_back_twice),
    ],
)
def test_a_deletion_that_costs_more_is_found(monkeypatch, case, function, fault):
    monkeypatch.setattr(deletion, function, fault)
    assert bound(cases()[case]) > cases()[case].claim
