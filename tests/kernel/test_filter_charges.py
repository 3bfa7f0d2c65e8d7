"""A filter budget pays divergences of the order that was fixed with it, as far as they go, and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.kernel.field_forms import amount_text
from crowdblend.accounting.kernel.ledger.entries import (
    Entry,
    FilterAccounting,
    LedgerCreated,
    bytes_of_entry,
    entry_of_bytes,
    sorted_fields,
)
from crowdblend.accounting.kernel.ledger.filter_budget import (
    FilterBudget,
    accounting_faults,
    charge_faults,
    charged_to,
    filter_charge,
)
from crowdblend.accounting.kernel.ledger.rules import violations
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.accounting.kinds.composition import renyi_divergence, renyi_filter
from crowdblend.accounting.kinds.composition.renyi_filter import (
    RULE,
    FilterCost,
    FilterTerms,
    conversion_loss,
    filter_cost,
    fits,
    tails_of,
)
from crowdblend.accounting.ledger.filter_accounting import propose_accounting
from crowdblend.accounting.ledger.reader import price_violations
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from support.folding import dataset, faults_of, fold, raised, sound_state
from support.ledger_books import DELTA, MECHANISM, costs_of, of_two_samples, registration, request

TERMS = FilterTerms(
    epsilon=Decimal("0.48"), delta=DELTA, order=Decimal(37), tail_delta=Decimal("1e-7"), tail_each=Decimal("5e-9")
)
ACCOUNTING = FilterAccounting(
    rule=RULE, order=TERMS.order, tail_delta=TERMS.tail_delta, tail_each=TERMS.tail_each, allowance=TERMS.allowance
)
BUDGET = FilterBudget(epsilon=TERMS.epsilon, delta=DELTA, relation="add/remove", accounting=ACCOUNTING)
LARGER_THAN_ALL = replace(BUDGET, accounting=replace(ACCOUNTING, tail_each=Decimal("2e-7")))
"""One release's tail would be larger than all tails together may be."""
RECORD, WHOLE = sorted_fields(mechanism_record(MECHANISM)), {"releases": 1, "rows_per_person": 1}
FILTER = dataset(epsilon=TERMS.epsilon, delta=DELTA, accounting=ACCOUNTING)
TAKEN = filter_charge(RECORD, budget=BUDGET, **WHOLE)
COUNTS = OutcomeCounts(randomizer=KRandomization(bits=2, flip_probability=Decimal("0.25")), least_people=10**5)


def charged(release_id: str = "one", **changes: Any) -> Entry:
    """A charge with what it takes of the budget."""
    return charged_to(BUDGET, request(release_id, **changes).entry, rows_per_person=1)


def test_as_many_releases_fit_as_the_arithmetic_says() -> None:
    """Twelve and more at ε = 0.48, δ = 1e-6, where the sum of their prices is 2.2; the next is refused."""
    cost = FilterCost(divergence=TAKEN.divergence, tail=TAKEN.tail, rule=TAKEN.rule, relation="add/remove")
    most = next(number for number in range(1, 100) if not fits(TERMS, [cost] * (number + 1)))
    assert most >= 12
    state = sound_state(FILTER, *(charged(f"r{number}") for number in range(most)))
    account = state.datasets["census"].account
    assert (account.epsilon_spent, account.delta_spent) == (most * TAKEN.divergence, most * TAKEN.tail)
    assert faults_of(charged("more"), state) == ["the budget of dataset 'census' is exceeded"]


def test_tails_are_added_up_beside_divergences() -> None:
    """Divergences would allow more releases, and the tails of δ fewer."""
    tails = Decimal("0.01") * TAKEN.tail
    room = conversion_loss(TERMS.order, DELTA - tails) + 400 * TAKEN.divergence
    terms = replace(TERMS, epsilon=Decimal(f"{room:.9f}"), tail_delta=tails, tail_each=tails)
    fewer = replace(ACCOUNTING, tail_delta=tails, tail_each=tails, allowance=terms.allowance)
    added = dataset(epsilon=terms.epsilon, delta=DELTA, accounting=fewer)
    charges = []
    for number in range(40):
        charge = charged_to(FilterBudget.of(added), request(f"r{number}").entry, rows_per_person=1)
        state = sound_state(added, *charges)
        if faults_of(charge, state):
            break
        charges.append(charge)
    after = state.datasets["census"].account.charged(epsilon=charge.of_filter.divergence, delta=charge.of_filter.tail)
    assert after.delta_spent > after.delta_budget
    assert after.epsilon_spent < after.epsilon_budget
    assert faults_of(charge, state) == ["the budget of dataset 'census' is exceeded"]


def test_a_charge_records_what_anybody_can_compute_again() -> None:
    entry = charged()
    assert (entry.KIND, entry.price, entry.of_filter) == ("release-charged/3", request().entry.price, TAKEN)
    cost = filter_cost(MECHANISM, order=TAKEN.order, tail=TAKEN.tail)
    assert (cost.divergence, cost.tail) == (TAKEN.divergence, TAKEN.tail)
    chosen = charged_to(BUDGET, of_two_samples("two").entry, rows_per_person=1)
    assert [purpose for purpose, _ in chosen.samples] == ["release", "selection"]
    answer = CountAnswer(epsilon=Decimal("0.05"), relation="add/remove", groups=3, sampling_rate=None)
    asked = charged("three", **costs_of(answer, delta=Decimal(0)))
    assert asked.of_filter.tail == 0
    assert 0 < asked.of_filter.divergence <= Decimal("0.05")
    series = charged_to(BUDGET, registration().entry, rows_per_person=1)
    assert series.of_filter.divergence == pytest.approx(3 * TAKEN.divergence, rel=Decimal("1e-9"))
    assert series.of_filter.divergence >= 3 * TAKEN.divergence
    assert faults_of(series, sound_state(FILTER, entry, chosen, asked)) == []


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        (replace(BUDGET, epsilon=Decimal("0.01")), "nothing would fit into a filter of epsilon 0.01 at order 37"),
        (LARGER_THAN_ALL, "a release's tail must be positive and at most all tails', not 2E-7"),
    ],
)
def test_a_filter_budget_that_nothing_can_be_accounted_by_is_a_fault_and_pays_for_nothing(budget, told) -> None:
    """As a forged registration could have it: its figures follow from nothing, and nothing is computed from them."""
    assert accounting_faults(BUDGET) == ()
    [fault] = accounting_faults(budget)
    assert fault.startswith("its filter budget can't be accounted: ")
    assert told in fault
    record, whole = sorted_fields(mechanism_record(MECHANISM)), {"releases": 1, "rows_per_person": 1}
    taken = filter_charge(record, budget=BUDGET, **whole)
    assert charge_faults(record, taken, budget=BUDGET, **whole) == ()
    [fault] = charge_faults(record, taken, budget=budget, **whole)
    assert fault.startswith("what it takes of the filter budget can't be computed: ")
    assert told in fault


BY_PRICE = "it is charged by ε and δ to a filter budget, which pays divergences alone"
NOT_PAID = {
    "a price": (FILTER, request().entry, "accounting-differs", BY_PRICE),
    "a series with free columns": (FILTER, registration(free_columns=True).entry, "accounting-differs", BY_PRICE),
    "a kind without a divergence": (
        dataset(relation="replacement", epsilon=TERMS.epsilon, delta=DELTA, accounting=ACCOUNTING),
        request(**costs_of(COUNTS)).entry,
        "no-divergence",
        BY_PRICE,
    ),
    "a divergence of an additive budget": (
        dataset(),
        charged(),
        "accounting-differs",
        "it takes a divergence of a budget that adds up ε and δ",
    ),
    "a raise": (FILTER, raised("1", "0.00001"), "filter-raised", "a filter budget is raised"),
    "a budget of another relation": (
        dataset(relation="replacement", epsilon=TERMS.epsilon, delta=DELTA, accounting=ACCOUNTING),
        charged(),
        "divergence-differs",
        "what it takes of the filter budget can't be computed: its divergence holds for the neighbouring relation",
    ),
    "an unknown accounting": (
        FILTER,
        dataset("other", epsilon=TERMS.epsilon, delta=DELTA, accounting=replace(ACCOUNTING, rule="a sum")),
        "filter-terms",
        "its accounting is recorded as 'a sum', and 'renyi-filter/1' is the one that is known",
    ),
}


@pytest.mark.parametrize("name", NOT_PAID)
def test_budgets_never_mix_and_are_never_converted_or_raised(name: str) -> None:
    added, entry, cause, told = NOT_PAID[name]
    found = {violation.cause: violation.fault for violation in violations(entry, sound_state(added))}
    assert found[cause].startswith(told)


def test_a_charge_to_a_filter_budget_that_was_forged_out_of_range_is_refused() -> None:
    """Whether it names what it takes or not; the registration is found before."""
    added = dataset(epsilon=TERMS.epsilon, delta=DELTA, accounting=LARGER_THAN_ALL.accounting)
    state, [fault] = fold([LedgerCreated(ledger_id="1" * 64), added])
    assert fault.startswith("its filter budget can't be accounted: a release's tail must be")
    plain = request().entry
    assert charged_to(LARGER_THAN_ALL, plain, rows_per_person=1) == plain
    for entry, cause in ((charged(), "divergence-differs"), (plain, "no-divergence")):
        found = {violation.cause: violation for violation in violations(entry, state)}
        said = found[cause].fault + str(found[cause].numbers)
        assert "a release's tail must be positive and at most all tails'" in said


def test_what_no_budget_can_pay_for_is_told_once_before_a_charge() -> None:
    state = sound_state(FILTER)
    for mechanism, causes in ((MECHANISM, []), (COUNTS, ["no-divergence"])):
        entry = request(**costs_of(mechanism)).entry
        known = state.datasets["census"]
        found = price_violations(entry.price, mechanism=entry.mechanism, known=known)
        assert [violation.cause for violation in found] == causes


def smaller(value: str, factor: str = "0.9") -> str:
    return amount_text(Decimal(value) * Decimal(factor))


def larger(value: str) -> str:
    return smaller(value, "1.1")


FORGED: list[tuple[int, tuple[str, ...], Callable[[Any], Any], str]] = [
    (1, ("filter_charge", "divergence"), smaller, "its divergence is recorded as"),
    (1, ("filter_charge", "tail"), smaller, "its tail is recorded as"),
    (1, ("filter_charge", "tail"), lambda _: "0", "its tail is recorded as"),
    (1, ("filter_charge", "order"), lambda _: "30", "its order is recorded as 30, but its data set's was fixed at 37"),
    (1, ("filter_charge", "rule"), lambda _: "renyi-filter/0", "its divergence's rule is recorded as"),
    (1, ("mechanism", "k"), lambda _: 40, "its divergence is recorded as"),
    (0, ("accounting", "order"), lambda _: "30", "the allowance of its filter budget is recorded as"),
    (0, ("accounting", "allowance"), larger, "the allowance of its filter budget is recorded as"),
    (0, ("accounting", "tail_delta"), smaller, "the allowance of its filter budget is recorded as"),
    (0, ("accounting", "tail_each"), smaller, "its tail is recorded as"),
    (0, ("accounting", "rule"), lambda _: "a sum", "its accounting is recorded as 'a sum'"),
    (0, ("epsilon",), larger, "the allowance of its filter budget is recorded as"),
]


@pytest.mark.parametrize(("place", "path", "forge", "told"), FORGED, ids=["-".join(one[1]) for one in FORGED])
def test_a_forged_figure_is_found_though_all_hashes_fit(place, path, forge, told) -> None:
    whole = [json.loads(bytes_of_entry(entry)) for entry in (FILTER, charged())]
    forged = copy.deepcopy(whole)
    held = forged[place]
    for name in path[:-1]:
        held = held[name]
    held[path[-1]] = forge(held[path[-1]])
    bodies = [json.dumps(one, sort_keys=True, separators=(",", ":")).encode() for one in forged]
    _, faults = fold([LedgerCreated(ledger_id="1" * 64), *map(entry_of_bytes, bodies)])
    assert any(told in fault for fault in faults), faults


def test_a_tail_that_another_machine_would_have_halved_otherwise_is_right_on_both(monkeypatch) -> None:
    """The last digit of one divergence decides how often a tail is halved; both charges hold, on both machines."""
    weak = StronglySafeRelease(k=50, sampling_rate=Decimal("0.05"))
    accounting = propose_accounting(epsilon=Decimal("0.48"), delta=DELTA, expected=((MECHANISM, 12),))
    budget = FilterBudget(epsilon=Decimal("0.48"), delta=DELTA, relation="add/remove", accounting=accounting)
    terms, exact = budget.terms, renyi_divergence.step_divergence
    tails = tails_of(terms, weak)
    shares = [filter_cost(weak, order=terms.order, tail=tail).divergence / terms.allowance for tail in tails]
    halved = next(place for place, tail in enumerate(tails) if tail / terms.tail_delta <= shares[0])
    # So much room that it just suffices for the smallest tail.
    tie = (shares[halved] - shares[0]) / (tails[0] / terms.tail_delta) * Decimal("1.0000000000001")
    monkeypatch.setattr(renyi_filter, "FREE", tie)

    def of_machine(more: float) -> None:
        def divergence(part, order: float, tail: float) -> float | None:
            found = exact(part, order, tail)
            return found if found is None or tail > float(tails[halved]) * 1.5 else found * (1.0 + more)

        filter_charge.cache_clear()
        monkeypatch.setattr(renyi_filter, "step_divergence", divergence)

    values = {"budget": budget, "releases": 1, "rows_per_person": 1}
    record = sorted_fields(mechanism_record(weak))
    charges = []
    for more in (-5e-12, 5e-12):
        of_machine(more)
        charges.append(filter_charge(record, **values))
    assert charges[0].tail == tails[halved]
    assert charges[1].tail > Decimal("1.9") * charges[0].tail
    for more in (-5e-12, 0.0, 5e-12):
        of_machine(more)
        for taken in charges:
            assert charge_faults(record, taken, **values) == ()
            assert charge_faults(record, replace(taken, tail=Decimal("0.7") * taken.tail), **values) != ()
        mixed = replace(charges[1], tail=charges[0].tail)
        assert any("its divergence is recorded as" in fault for fault in charge_faults(record, mixed, **values))
    filter_charge.cache_clear()
