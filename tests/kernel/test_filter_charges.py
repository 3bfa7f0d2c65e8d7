"""A filter budget pays divergences of the order that was fixed with it, as far as they go, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from crowdblend.accounting.kernel.ledger.entries import (
    FilterAccounting,
    FilterDatasetAdded,
    LedgerCreated,
    sorted_fields,
)
from crowdblend.accounting.kernel.ledger.filter_budget import (
    FilterBudget,
    accounting_faults,
    charge_faults,
    charged_to,
    filter_charge,
)
from crowdblend.accounting.kernel.ledger.ledger_state import Account, LedgerState
from crowdblend.accounting.kernel.ledger.rules import violations
from crowdblend.accounting.kernel.prices.registry import mechanism_record, paper_price, price
from crowdblend.accounting.kinds.composition import renyi_divergence, renyi_filter
from crowdblend.accounting.kinds.composition.renyi_filter import (
    RULE,
    FilterCost,
    FilterTerms,
    filter_cost,
    fits,
    tails_of,
)
from crowdblend.accounting.ledger.charge_request import charged_price
from crowdblend.accounting.ledger.filter_accounting import propose_accounting
from crowdblend.accounting.ledger.reader import budget_violations
from crowdblend.accounting.ledger.refusals import refusal_of, what_fits_filter
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused
from crowdblend.mechanisms.kinds.answers import CountAnswer
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from support.folding import fold

DELTA = Decimal("1e-6")
MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


def taken_by(books, mechanism=MECHANISM, *, releases: int = 1, name: str = "census"):
    """What releases take of a data set's filter budget."""
    budget = FilterBudget.of(state_of(books, name).filter_budget)
    return filter_charge(
        sorted_fields(mechanism_record(mechanism)), budget=budget, releases=releases, rows_per_person=1
    )


def state_of(books, name: str = "census"):
    with books.reader() as reader:
        return reader.dataset(name)


def of_mechanism(books, release_id: str, mechanism, *, delta: Decimal = DELTA):
    """A charge of another mechanism at its own price."""
    paper = paper_price(mechanism, delta=delta)
    return books.request(
        release_id,
        mechanism=mechanism,
        price=price(mechanism, delta=delta),
        epsilon_paper=None if paper is None else paper.epsilon,
    )


@pytest.mark.slow
def test_twelve_releases_fit_and_the_arithmetic_says_where_it_ends(sqlite_books) -> None:
    """At ε = 0.48, δ = 1e-6; the sum of their prices is 2.2, and each is decided by itself."""
    books = sqlite_books
    books.add_filter()
    taken, budget = taken_by(books), FilterBudget.of(state_of(books).filter_budget)
    cost = FilterCost(divergence=taken.divergence, tail=taken.tail, rule=taken.rule, relation="add/remove")
    most = next(number for number in range(1, 100) if not fits(budget.terms, [cost] * (number + 1)))
    assert most >= 12
    for number in range(most):
        books.charge(f"release-{number}")
    assert state_of(books).account.epsilon_spent == most * taken.divergence
    before = len(books.kinds())
    with pytest.raises(AccountantRefused, match="past the budget") as refused:
        books.charge("one-more")
    assert "Left are" in refused.value.remedy
    assert "would fit" in refused.value.remedy
    assert books.kinds()[before:] == ["release-refused/1"]
    assert state_of(books).account.delta_spent == most * taken.tail
    assert books.findings() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "releases", "full"),
    [
        ("0.391", 12, True),
        *(pytest.param(*rest, False, marks=pytest.mark.slow) for rest in (("0.48", 12), ("0.91", 52))),
    ],
)
def test_as_many_fit_as_were_expected_and_a_full_budget_refuses_the_next(
    sqlite_books, epsilon: str, releases: int, full: bool
) -> None:
    books = sqlite_books
    proposed = propose_accounting(epsilon=Decimal(epsilon), delta=DELTA, expected=((MECHANISM, releases),))
    books.add(epsilon=Decimal(epsilon), delta=DELTA, accounting=proposed)
    for number in range(releases):
        books.charge(f"release-{number}")
    account = state_of(books).account
    assert account.within_budget
    assert (account.spent_share > Decimal("0.98")) is full
    if full:
        with pytest.raises(AccountantRefused, match="past the budget") as refused:
            books.charge("one-more")
        assert re.search("Left are .* of divergence .* of tails. With all else as it is, a", refused.value.remedy)
        assert state_of(books).account == account
    assert books.findings() == []


def test_what_is_said_to_fit_does_and_a_little_more_does_not(sqlite_books) -> None:
    books = sqlite_books
    books.add_filter()
    limits = state_of(books).filter_budget.accounting
    with pytest.raises(AccountantRefused) as refused:
        books.charge("large", **charge_values(StronglySafeRelease(k=20, sampling_rate=Decimal("0.4"))))
    told = re.search(r"a sampling rate of at most (\S+) or k of at least (\S+) would fit", refused.value.remedy)
    assert told is not None, refused.value.remedy
    rate, k = Decimal(told[1]), int(told[2])

    def fits_alone(k: int, rate: Decimal) -> bool:
        taken = taken_by(books, StronglySafeRelease(k=k, sampling_rate=rate))
        return taken.divergence <= limits.allowance and taken.tail <= limits.tail_delta

    assert fits_alone(k, Decimal("0.4"))
    assert fits_alone(20, rate)
    assert not fits_alone(k - 1, Decimal("0.4"))
    assert not fits_alone(20, rate * Decimal("1.02"))


TERMS = FilterTerms(
    epsilon=Decimal("0.48"),
    delta=DELTA,
    order=Decimal(37),
    tail_delta=Decimal("1e-7"),
    tail_each=Decimal("5e-9"),
)
ACCOUNTING = FilterAccounting(
    rule=RULE,
    order=TERMS.order,
    tail_delta=TERMS.tail_delta,
    tail_each=TERMS.tail_each,
    allowance=TERMS.allowance,
)
BUDGET = FilterBudget(epsilon=TERMS.epsilon, delta=DELTA, relation="add/remove", accounting=ACCOUNTING)
LARGER_THAN_ALL = replace(BUDGET, accounting=replace(ACCOUNTING, tail_each=Decimal("2e-7")))
"""One release's tail would be larger than all tails together may be."""


@pytest.mark.parametrize(
    ("mechanism", "told"),
    [
        pytest.param(
            CountAnswer(epsilon=Decimal(3), relation="add/remove", groups=3, sampling_rate=None),
            "Choose parameters that take less, or ask the data owner.",
            id="nothing to search",
        ),
        pytest.param(
            StronglySafeRelease(k=1, sampling_rate=Decimal("0.9999999")),
            "No rate and no k would fit. Ask the data owner.",
            id="nothing that is tried has a divergence",
        ),
    ],
)
def test_where_nothing_else_would_fit_that_is_said_with_what_is_left(mechanism, told) -> None:
    account = Account(
        epsilon_spent=TERMS.allowance / 2,
        delta_spent=Decimal("9e-8"),
        epsilon_budget=TERMS.allowance,
        delta_budget=TERMS.tail_delta,
    )
    record = sorted_fields(mechanism_record(mechanism))
    said = what_fits_filter(account, mechanism=record, budget=BUDGET, releases=1, rows_per_person=1)
    assert said == f"Left are 0.110505 of divergence at order 37 and 1e-8 of tails. {told}"


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


def state_with(books, accounting: FilterAccounting) -> tuple[LedgerState, list[str]]:
    """A ledger with a filter data set alone, and what is wrong with its registration."""
    added = FilterDatasetAdded(
        dataset="census",
        epsilon=TERMS.epsilon,
        delta=DELTA,
        relation="add/remove",
        survey_rate=None,
        rows_per_person=1,
        by="steward",
        day=books.request().day,
        accounting=accounting,
    )
    return fold([LedgerCreated(ledger_id="1" * 64), added])


def test_a_charge_to_a_filter_budget_that_was_forged_out_of_range_is_refused(sqlite_books) -> None:
    """Whether it names what it takes or not; the registration is found before."""
    plain = sqlite_books.request("one").entry
    state, [fault] = state_with(sqlite_books, LARGER_THAN_ALL.accounting)
    assert fault.startswith("its filter budget can't be accounted: a release's tail must be")
    of_filter = charged_to(BUDGET, plain, rows_per_person=1)
    for entry, cause in ((of_filter, "divergence-differs"), (plain, "no-divergence")):
        found = {violation.cause: violation for violation in violations(entry, state)}
        assert "a release's tail must be positive and at most all tails'" in refusal_of(found[cause]).what


def test_what_no_budget_can_pay_for_is_told_once_and_nothing_is_computed_from_it(sqlite_books) -> None:
    """Neither before a charge, by a look, nor of an entry."""
    books, (state, faults) = sqlite_books, state_with(sqlite_books, ACCOUNTING)
    assert faults == []
    counts = OutcomeCounts(randomizer=KRandomization(bits=2, flip_probability=Decimal("0.25")), least_people=10**5)
    for mechanism, told in (
        (MECHANISM, []),
        (counts, ["it has a filter budget, which can't pay for outcome-counts/1: "]),
    ):
        charged = charged_price(price(mechanism, delta=DELTA))
        record = sorted_fields(mechanism_record(mechanism))
        known = state.datasets["census"]
        found = list(budget_violations(charged, mechanism=record, rows_per_person=1, known=known))
        assert [violation.where for violation in found] == ["dataset 'census'"] * len(told)
        assert all(refusal_of(violation).what.startswith(what) for violation, what in zip(found, told, strict=True))
    free = books.registration(free_columns=True).entry
    [found] = (violation for violation in violations(free, state) if violation.cause == "accounting-differs")
    refusal = refusal_of(found)
    assert refusal.what.startswith("it has a filter budget, which pays for no series with free columns")
    assert "leave --free-columns out" in refusal.remedy


def charge_values(mechanism, *, delta: Decimal = DELTA):
    paper = paper_price(mechanism, delta=delta)
    return {
        "mechanism": mechanism,
        "price": price(mechanism, delta=delta),
        "epsilon_paper": None if paper is None else paper.epsilon,
    }


def test_a_charge_records_what_anybody_can_compute_again(books) -> None:
    books.add_filter()
    receipt = books.charge("one")
    with books.reader() as reader:
        entry = reader.release("one").charge
        context = reader.dataset_context(receipt)
    assert entry.KIND == "release-charged/3"
    assert entry.price == books.request("one").entry.price
    assert entry.filter_charge == taken_by(books)
    cost = filter_cost(MECHANISM, order=entry.filter_charge.order, tail=entry.filter_charge.tail)
    assert (cost.divergence, cost.tail) == (entry.filter_charge.divergence, entry.filter_charge.tail)
    assert (context.filter_charge, context.filter_budget.accounting.order) == (entry.filter_charge, Decimal(37))
    assert state_of(books).account.epsilon_budget == context.filter_budget.accounting.allowance
    assert books.findings() == []
    assert books.abandon("one") is True
    assert state_of(books).account.spent_share == 0
    assert books.findings() == []


def test_releases_that_choose_their_map_and_answers_take_their_own(sqlite_books) -> None:
    books = sqlite_books
    books.add_filter()
    books.writer().charge(books.of_two_samples("two-samples"))
    answer = CountAnswer(epsilon=Decimal("0.05"), relation="add/remove", groups=3, sampling_rate=None)
    books.charge("answer", **charge_values(answer, delta=Decimal(0)))
    with books.reader() as reader:
        chosen, asked = (reader.release(name).charge for name in ("two-samples", "answer"))
    assert [purpose for purpose, _ in chosen.samples] == ["release", "selection"]
    assert asked.filter_charge.tail == 0
    assert 0 < asked.filter_charge.divergence <= Decimal("0.05")
    assert books.findings() == []


def test_a_series_takes_as_many_times_what_its_releases_take_and_pays_for_them(sqlite_books) -> None:
    books = sqlite_books
    books.add_filter()
    books.register(releases=3)
    spent = state_of(books).account
    assert spent.epsilon_spent == pytest.approx(3 * taken_by(books).divergence, rel=Decimal("1e-9"))
    assert spent.epsilon_spent >= 3 * taken_by(books).divergence
    books.writer().charge(books.of_series("of-series"))
    assert state_of(books).account == spent
    with books.reader() as reader:
        release = reader.release("of-series")
        assert release.charge.KIND == "release-charged/1"
        assert reader.dataset_context(release.receipt).filter_charge == books.series().registered.of_filter
    with pytest.raises(AccountantRefused, match="no series with free columns"):
        books.register("free", free_columns=True)
    assert books.findings() == []


def test_a_kind_without_a_divergence_is_refused_by_its_name(sqlite_books) -> None:
    books = sqlite_books
    counts = OutcomeCounts(randomizer=KRandomization(bits=2, flip_probability=Decimal("0.25")), least_people=10**5)
    books.add_filter(relation="replacement")
    with pytest.raises(AccountantRefused, match=r"can't pay for outcome-counts/1: .*stands alone"):
        books.look(mechanism=counts, price=price(counts, delta=DELTA))
    with pytest.raises(AccountantRefused, match=r"can't pay for outcome-counts/1: .*stands alone"):
        books.writer().charge(of_mechanism(books, "counts", counts))
    with pytest.raises(AccountantRefused, match="relation"):
        books.charge("other-relation")
    assert state_of(books).account.spent_share == 0
    assert books.kinds().count("release-refused/1") == 2
    assert books.findings() == []


def test_budgets_never_mix_and_are_never_converted_or_raised(sqlite_books) -> None:
    books = sqlite_books
    books.add_filter()
    books.add("plain")
    for name in ("census", "plain"):
        with pytest.raises(InputRefused, match="in the ledger already"):
            books.add_filter(name)
    assert repr(state_of(books)) == "DatasetState(name='census', spent_share=0, epsilon_budget=0.48)"
    assert repr(state_of(books, "plain")) == "DatasetState(name='plain', epsilon_spent=0, epsilon_budget=10)"
    raised = {"epsilon": Decimal(1), "delta": Decimal("1e-5"), "reason": "more", "by": "me", "day": books.request().day}
    with pytest.raises(InputRefused, match="can't be raised"), books.writer() as writer:
        writer.raise_budget(name="census", **raised)
    books.charge("plain", dataset="plain")
    with books.reader() as reader:
        assert reader.release("plain").charge.KIND == "release-charged/1"
    with pytest.raises(InputRefused, match="can be released once"):
        books.add_filter("survey", survey_rate=Decimal("0.1"))
    assert books.findings() == []


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
