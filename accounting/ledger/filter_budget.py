"""What a filter budget pays: how it is accounted, what a charge takes of it, whether that is right, and what fits.

Source: docs/proofs/filter.md. INVARIANT: the order and the share of δ for tails are those of the data set's entry,
which fixed them before its first charge; nothing here takes them from anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from ...mechanisms.amounts import amount_left
from ...mechanisms.errors import InputRefused
from ...mechanisms.mechanism import Mechanism
from ...mechanisms.microdata import StronglySafeRelease
from ..theory.composition.renyi import RULE, FilterTerms, filter_cost, tail_for, tails_of
from ..theory.kinds.registry import kind_of, mechanism_of_record
from .entries.kinds import (
    Fields,
    FilterAccounting,
    FilterCharge,
    FilterDatasetAdded,
    ReleaseCharged,
    ReleaseChargedToFilter,
    SeriesRegistered,
    SeriesRegisteredToFilter,
)
from .entries.values import Account, differ

if TYPE_CHECKING:
    from ..theory.planning.forecast import FilterLeft

__all__ = [
    "FilterBudget",
    "accounting_faults",
    "charge_faults",
    "charged_to",
    "filter_charge",
    "propose_accounting",
    "share_of",
    "what_fits_filter",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterBudget:
    """A filter budget as it was registered.

    Args:
        epsilon: E, of all releases together.
        delta: D, of all releases together.
        relation: the one neighbouring relation of its divergences.
        accounting: how it is accounted.
    """

    epsilon: Decimal
    delta: Decimal
    relation: str
    accounting: FilterAccounting

    @classmethod
    def of(cls, added: FilterDatasetAdded) -> FilterBudget:
        """The budget of a data set as registered."""
        return cls(epsilon=added.epsilon, delta=added.delta, relation=added.relation, accounting=added.accounting)

    def left(self, account: Account) -> FilterLeft:
        """What an account of this budget has left."""
        from ..theory.planning.forecast import FilterLeft  # numerics of searches, for a forecast alone

        return FilterLeft(terms=self.terms, divergence=account.epsilon_left, tail=account.delta_left)

    @property
    def terms(self) -> FilterTerms:
        """The terms as the theory takes them.

        Raises:
            InputRefused: nothing fits by them.
            ValueError: they are out of range.
        """
        return FilterTerms(
            epsilon=self.epsilon,
            delta=self.delta,
            order=self.accounting.order,
            tail_delta=self.accounting.tail_delta,
            tail_each=self.accounting.tail_each,
        )


def propose_accounting(
    *, epsilon: Decimal, delta: Decimal, expected: Sequence[tuple[Mechanism, int]]
) -> FilterAccounting:
    """How a new filter budget is accounted, by the releases that are expected of it.

    Args:
        epsilon: E over all releases.
        delta: D over all releases.
        expected: mechanisms and how many releases of each; none for what the planner takes then.

    Raises:
        InputRefused: with no order and no share of δ they fit, or anything at all.
    """
    from ..theory.planning.filter_terms import EXPECTED, propose_terms  # numerics of a search, for a registration alone

    terms = propose_terms(epsilon, delta, expected or EXPECTED)
    return FilterAccounting(
        rule=RULE,
        order=terms.order,
        tail_delta=terms.tail_delta,
        tail_each=terms.tail_each,
        allowance=terms.allowance,
    )


def accounting_faults(budget: FilterBudget) -> tuple[str, ...]:
    """What is wrong with a filter budget's accounting as recorded, in sentences; nothing where it follows from it."""
    accounting = budget.accounting
    if accounting.rule != RULE:
        return (f"its accounting is recorded as '{accounting.rule}', and '{RULE}' is the one that is known",)
    try:
        allowance = budget.terms.allowance
    except InputRefused as error:
        return (f"its filter budget can't be accounted: {error.what}",)
    except (ArithmeticError, ValueError) as error:
        return (f"its filter budget can't be accounted: {error}",)
    if differ(accounting.allowance, allowance):
        return (
            f"the allowance of its filter budget is recorded as {accounting.allowance}, but at order "
            f"{accounting.order} it is {allowance}",
        )
    return ()


@lru_cache(maxsize=1024)
def filter_charge(
    mechanism: Fields, *, budget: FilterBudget, releases: int, rows_per_person: int, tail: Decimal | None = None
) -> FilterCharge:
    """What releases of a mechanism take of a filter budget.

    It is remembered, so that what was computed before a transaction takes no time within it.

    Args:
        mechanism: the mechanism's versioned record.
        budget: as registered.
        releases: how many, with parameters fixed beforehand.
        rows_per_person: the most records of one person in a delivery.
        tail: as recorded; None for a charge that is yet to be made.

    Raises:
        ArithmeticError: numbers that are too large or too small to compute with.
        InputRefused: the mechanism, by its name, has no divergence of the budget's order and relation.
        ValueError: the budget's terms are out of range.
    """
    found, terms = mechanism_of_record(dict(mechanism)), budget.terms
    if tail is None:
        tail = tail_for(terms, found, releases=releases, rows_per_person=rows_per_person)
    cost = filter_cost(found, order=terms.order, tail=tail, releases=releases, rows_per_person=rows_per_person)
    if cost.relation != budget.relation:
        raise InputRefused(
            f"its divergence holds for the neighbouring relation {cost.relation}, the budget's is {budget.relation}."
        )
    return FilterCharge(order=terms.order, divergence=cost.divergence, tail=cost.tail, rule=cost.rule)


def charge_faults(
    mechanism: Fields, taken: FilterCharge, *, budget: FilterBudget, releases: int, rows_per_person: int
) -> tuple[str, ...]:
    """What is wrong with what a charge is recorded to take of a filter budget, in sentences.

    The tail is taken as recorded if it is one that the terms allow, since another machine may have halved it once more
    or less (`tail_for`); the divergence must be that after this very tail is cut off.

    Args:
        mechanism: the mechanism's versioned record.
        taken: as recorded.
        budget: as registered.
        releases: how many it covers.
        rows_per_person: the most records of one person in a delivery.
    """
    try:
        found = mechanism_of_record(dict(mechanism))
        tails = tails_of(budget.terms, found, releases=releases, rows_per_person=rows_per_person)
        allowed = not all(differ(taken.tail, tail) for tail in tails)
        due = filter_charge(
            mechanism,
            budget=budget,
            releases=releases,
            rows_per_person=rows_per_person,
            tail=taken.tail if allowed else None,
        )
    except InputRefused as error:
        return (f"what it takes of the filter budget can't be computed: {error.what}",)
    except (ArithmeticError, ValueError) as error:
        return (f"what it takes of the filter budget can't be computed: {error}",)
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
    """A charge as a filter data set's ledger records it.

    Args:
        budget: as registered.
        entry: the charge by its price alone, of a release or a series that pays for itself.
        rows_per_person: the most records of one person that it covers.

    Returns:
        The entry with what it takes of the filter budget; the same entry where the mechanism has no divergence: then
        the rules refuse it by name (`violations`).
    """
    try:
        taken = filter_charge(
            entry.mechanism, budget=budget, releases=entry.price.releases, rows_per_person=rows_per_person
        )
    except (ArithmeticError, InputRefused, ValueError):
        return entry
    names = {field.name for field in fields(entry)} - {"selection_sample_id"}
    values = {name: getattr(entry, name) for name in names} | {"filter_charge": taken}
    if isinstance(entry, SeriesRegistered):
        return SeriesRegisteredToFilter(**values)
    return ReleaseChargedToFilter(**values, selection_sample_id=dict(entry.samples).get("selection"))


def share_of(taken: FilterCharge, accounting: FilterAccounting) -> Decimal:
    """The share of a filter budget that a charge takes, the larger of divergence and tail, rounded up to 6 digits."""
    up = Context(prec=6, rounding=ROUND_CEILING)
    return max(up.divide(taken.divergence, accounting.allowance), up.divide(taken.tail, accounting.tail_delta))


LARGEST_K, LOWEST_RATE = 10_000, Decimal("1e-6")
OTHERWISE = "Choose parameters that take less, or ask the data owner."


def what_fits_filter(
    account: Account, *, mechanism: Fields, budget: FilterBudget, releases: int, rows_per_person: int
) -> str:
    """What to do about a charge that is past a filter budget, in sentences: what is left, and what would fit.

    Args:
        account: before the charge.
        mechanism: the mechanism's versioned record.
        budget: as registered.
        releases: how many it covers.
        rows_per_person: the most records of one person that it covers.
    """
    left = (
        f"Left are {amount_left(account.epsilon_left)} of divergence at order {budget.accounting.order:f} and "
        f"{amount_left(account.delta_left)} of tails."
    )
    found = mechanism_of_record(dict(mechanism))
    tunable = kind_of(found).tunable
    if tunable is None:
        return f"{left} {OTHERWISE}"

    def fits(k: int, rate: Decimal) -> bool:
        changed = tuple(sorted({**dict(mechanism), "k": k, "sampling_rate": str(rate)}.items()))
        try:
            taken = filter_charge(changed, budget=budget, releases=releases, rows_per_person=rows_per_person)
        except (ArithmeticError, InputRefused, ValueError):
            return False
        return account.charged(epsilon=taken.divergence, delta=taken.tail).within_budget

    release = tunable(found).release
    rate, k = _largest_rate(release, fits), _least_k(release, fits)
    changes = [] if rate is None else [f"a sampling rate of at most {amount_left(rate)}"]
    changes += [] if k is None else [f"k of at least {k}"]
    if not changes:
        return f"{left} No rate and no k would fit. Ask the data owner."
    return f"{left} With all else as it is, {' or '.join(changes)} would fit. Or ask the data owner."


Fits = Callable[[int, Decimal], bool]


def _least_k(release: StronglySafeRelease, fits: Fits) -> int | None:
    """The least k up to `LARGEST_K` with which a release fits; None where there is none."""
    low, high = release.k, 2 * release.k
    while not fits(min(high, LARGEST_K), release.sampling_rate):
        if high >= LARGEST_K:
            return None
        low, high = high, 2 * high
    high = min(high, LARGEST_K)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle, release.sampling_rate) else (middle, high)
    return high


def _largest_rate(release: StronglySafeRelease, fits: Fits) -> Decimal | None:
    """The largest rate of three significant digits with which a release fits; None where none above 1e-6 does."""
    down = Context(prec=3, rounding=ROUND_FLOOR)
    low, high = release.sampling_rate / 2, release.sampling_rate
    while not fits(release.k, down.plus(low)):
        if low < LOWEST_RATE:
            return None
        low, high = low / 2, low
    while (middle := down.plus((low + high) / 2)) not in (down.plus(low), down.plus(high)):
        low, high = (middle, high) if fits(release.k, middle) else (low, middle)
    return down.plus(low)
