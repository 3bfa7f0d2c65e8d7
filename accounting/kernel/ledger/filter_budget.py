"""What a filter budget pays: how it is accounted, what a charge takes of it, and whether that is right.

Source: docs/proofs/filter.md. INVARIANT: the order and the share of δ for tails are those of the data set's entry,
which fixed them before its first charge; nothing here takes them from anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ....mechanisms.kernel.errors import InputRefused
from ..field_forms import Fields, differ
from ..prices.registry import filter_rules, mechanism_of_record
from .entries import (
    FilterAccounting,
    FilterCharge,
    FilterDatasetAdded,
    ReleaseCharged,
    ReleaseChargedToFilter,
    SeriesRegistered,
    SeriesRegisteredToFilter,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterBudget:
    """A filter budget (E, D) of all releases together as it was registered; an equal one is priced once."""

    epsilon: Decimal
    delta: Decimal
    relation: str
    accounting: FilterAccounting

    @classmethod
    def of(cls, added: FilterDatasetAdded) -> FilterBudget:
        """Return the budget of a data set as registered."""
        return cls(epsilon=added.epsilon, delta=added.delta, relation=added.relation, accounting=added.accounting)

    @property
    def terms(self) -> Any:  # noqa: ANN401 - `FilterTerms` of the rules, which are found by name
        """The terms as the theory takes them; InputRefused where nothing fits by them, ValueError out of range."""
        fixed = {name: getattr(self.accounting, name) for name in ("order", "tail_delta", "tail_each")}
        return filter_rules().FilterTerms(epsilon=self.epsilon, delta=self.delta, **fixed)


def accounting_faults(budget: FilterBudget) -> tuple[str, ...]:
    """Return what is wrong with a filter budget's recorded accounting, in sentences; nothing where it follows."""
    accounting = budget.accounting
    if accounting.rule != (known := filter_rules().RULE):
        return (f"its accounting is recorded as '{accounting.rule}', and '{known}' is the one that is known",)
    try:
        allowance = budget.terms.allowance
    except (ArithmeticError, InputRefused, ValueError) as error:
        return (f"its filter budget can't be accounted: {getattr(error, 'what', error)}",)
    if differ(accounting.allowance, allowance):
        recorded = f"the allowance of its filter budget is recorded as {accounting.allowance}"
        return (f"{recorded}, but at order {accounting.order} it is {allowance}",)
    return ()


@lru_cache(maxsize=1024)
def filter_charge(
    mechanism: Fields, *, budget: FilterBudget, releases: int, rows_per_person: int, tail: Decimal | None = None
) -> FilterCharge:
    """Return what releases of a mechanism's record, with parameters fixed beforehand, take of a filter budget.

    It is remembered, so that what was computed before a transaction takes no time within it. The tail is as recorded;
    None for a charge that is yet to be made.

    Raises:
        ArithmeticError: numbers that are too large or too small to compute with.
        InputRefused: the mechanism, by its name, has no divergence of the budget's order and relation.
        ValueError: the budget's terms are out of range.
    """
    rules, decoded, terms = filter_rules(), mechanism_of_record(dict(mechanism)), budget.terms
    if tail is None:
        tail = rules.tail_for(terms, decoded, releases=releases, rows_per_person=rows_per_person)
    cost = rules.filter_cost(decoded, order=terms.order, tail=tail, releases=releases, rows_per_person=rows_per_person)
    if cost.relation != budget.relation:
        raise InputRefused(
            f"its divergence holds for the neighbouring relation {cost.relation}, the budget's is {budget.relation}."
        )
    return FilterCharge(order=terms.order, divergence=cost.divergence, tail=cost.tail, rule=cost.rule)


def charge_faults(
    mechanism: Fields, taken: FilterCharge, *, budget: FilterBudget, releases: int, rows_per_person: int
) -> tuple[str, ...]:
    """Return what is wrong with what a charge is said to take of a filter budget, in sentences."""
    try:
        decoded = mechanism_of_record(dict(mechanism))
        # Another machine may have halved the tail once more or less, by its last bits. Whichever of the allowed tails
        # was recorded, the divergence must be that after this very tail is cut off.
        tails = filter_rules().tails_of(budget.terms, decoded, releases=releases, rows_per_person=rows_per_person)
        allowed = not all(differ(taken.tail, tail) for tail in tails)
        tail = taken.tail if allowed else None
        due = filter_charge(mechanism, budget=budget, releases=releases, rows_per_person=rows_per_person, tail=tail)
    except (ArithmeticError, InputRefused, ValueError) as error:
        return (f"what it takes of the filter budget can't be computed: {getattr(error, 'what', error)}",)
    faults = []
    if taken.order != due.order:
        faults.append(f"its order is recorded as {taken.order}, but its data set's was fixed at {due.order}")
    if taken.rule != due.rule:
        faults.append(f"its divergence's rule is recorded as '{taken.rule}', but it is '{due.rule}'")
    if differ(taken.divergence, due.divergence):
        faults.append(f"its divergence is recorded as {taken.divergence}, but its mechanism's is {due.divergence}")
    if not allowed:
        faults.append(f"its tail is recorded as {taken.tail}, but by its data set's terms it is {due.tail}")
    return tuple(faults)


def charged_to(
    budget: FilterBudget, entry: ReleaseCharged | SeriesRegistered, *, rows_per_person: int
) -> ReleaseCharged | SeriesRegistered:
    """Return a charge that pays for itself as a filter data set's ledger records it: with what it takes of the budget.

    Where the mechanism has no divergence it is the same entry: then the rules refuse it by name (`violations`).
    """
    releases = entry.price.releases
    try:
        taken = filter_charge(entry.mechanism, budget=budget, releases=releases, rows_per_person=rows_per_person)
    except (ArithmeticError, InputRefused, ValueError):
        return entry
    if isinstance(entry, SeriesRegistered):
        return SeriesRegisteredToFilter.of(entry, filter_charge=taken)
    selection = dict(entry.samples).get("selection")
    return ReleaseChargedToFilter.of(entry, selection_sample_id=selection, filter_charge=taken)
