"""What a search passes over without an exact price is dearer by the exact price, so that the search finds the same."""

from __future__ import annotations

from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.theory.planning import deletion_planning
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.accounting.theory.planning.paired_planning import _planned, plan_paired
from crowdblend.accounting.theory.planning.price_estimates import surely_dearer
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, GeometricDeletion
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

E, D = Decimal(1), Decimal("1e-6")
PLANS = {
    "pairs": lambda: plan_paired(epsilon=E, delta=D, stages=3, columns=4, pairs=6),
    "blocks": lambda: plan_paired(epsilon=Decimal(2), delta=Decimal("1e-5"), stages=2, columns=12, pairs=9, blocks=3),
    "records": lambda: plan_paired(epsilon=E, delta=D, stages=2, columns=3, pairs=2, rows_per_person=2),
    "series": lambda: plan_paired(epsilon=E, delta=Decimal("1e-8"), stages=2, columns=3, pairs=2, releases=3),
    "improbable": lambda: plan_paired(epsilon=E, delta=Decimal("1e-11"), stages=2, columns=3, pairs=2),
    "margins": lambda: plan_deletion(epsilon=E, delta=D, stages=3, margins=4, shape="gaussian"),
    "rows": lambda: plan_deletion(epsilon=Decimal("0.5"), delta=D, stages=4, releases=2, shape="gaussian"),
    "one": lambda: plan_deletion(epsilon=E, delta=D, shape="gaussian"),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_search_finds_what_exact_prices_alone_find(name, monkeypatch) -> None:
    asked: list[bool] = []

    def told(*args, **kwargs) -> bool:
        asked.append(surely_dearer(*args, **kwargs))
        return asked[-1]

    _planned.cache_clear()
    monkeypatch.setattr(deletion_planning, "surely_dearer", told)
    with_estimates = PLANS[name]()
    _planned.cache_clear()
    monkeypatch.setattr(deletion_planning, "surely_dearer", lambda *_args, **_kwargs: False)
    assert PLANS[name]() == with_estimates
    _planned.cache_clear()
    # All but one or two of the candidates need no exact price, where δ is large against the error of a transform.
    assert asked.count(False) <= (2 if name not in ("improbable", "one") else len(asked))


@pytest.mark.parametrize("stages", [2, 5, 40])
@pytest.mark.parametrize("records", [1, 3])
def test_what_is_called_dearer_is_dearer(stages, records) -> None:
    """At ε a little below the exact price it is called dearer, and at ε from the price on it never is."""
    mechanism = DeletionRelease(stages=stages, k=1, noise=GaussianDeletion(scale=Decimal(30), width=180))
    delta = Decimal("1e-5")
    exact = price(mechanism, delta=delta, rows_per_person=records).epsilon
    told = {
        part: surely_dearer(mechanism, epsilon=exact * Decimal(part), delta=delta, rows_per_person=records)
        for part in ("0.5", "0.99", "0.999", "0.9999", "0.99999", "1", "1.00001", "1.001", "2")
    }
    assert told["0.5"]
    assert told["0.99"]
    assert not any(told[part] for part in ("1", "1.00001", "1.001", "2"))


def test_a_sum_that_is_cheaper_than_the_composition_is_not_passed_over() -> None:
    """The losses of two geometric steps add up to less than the grid gives them, and this sum is what is charged."""
    mechanism = DeletionRelease(stages=2, k=1, noise=GeometricDeletion(epsilon=Decimal("0.5"), width=60))
    delta = Decimal("1e-8")
    exact = price(mechanism, delta=delta)
    assert exact.rule == "deletion-sum/1"
    assert not surely_dearer(mechanism, epsilon=exact.epsilon, delta=delta)
    assert surely_dearer(mechanism, epsilon=exact.epsilon * Decimal("0.9"), delta=delta)


def test_nothing_is_told_of_what_has_no_finite_losses() -> None:
    sampled = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    assert not surely_dearer(sampled, epsilon=Decimal("0.01"), delta=D, releases=2)
