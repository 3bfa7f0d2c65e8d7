"""Budgets for releases decided one after the other: Rényi divergences with the tails of their losses cut off.

One order and a share D_τ of δ for all tails are fixed when the budget is registered; then divergences add up."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kernel.amounts import amount_shown, counted
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ...kernel.prices.arithmetic import (
    PRICE_DIGITS,
    add_down,
    add_up,
    decimal_down,
    decimal_up,
    divide_down,
    divide_up,
    exact_log_down,
    exp_up,
    float_down,
    float_up,
    multiply_up,
)
from ...kernel.prices.mechanism_kind import RELATION, check_records
from ...kernel.prices.privacy_profile import least_log_delta
from ...kernel.prices.registry import kind_of
from .amplification import Concentrated, Guarantee
from .bounded_range import BoundedRange
from .composed import FilterPart
from .finite_losses import FiniteLosses, LossesBySize
from .renyi_divergence import step_divergence

RULE, RULE_WITHOUT_LOSSES = "renyi-filter/1", "renyi-filter/2"
"""Of a budget and of charges; the other of charges for steps whose divergence is known without their losses."""

_LARGEST_ORDER = Decimal(100_000)
_MOST_HALVINGS = 20
FREE = Decimal("1e-4")
"""How much the divergences' share may grow for smaller tails, over the tails' share at `tail_each` (`tail_for`)."""

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterTerms:
    """What the registration of a filter budget fixes for ever.

    INVARIANT: the order and D_τ are fixed before the first charge. A bound that follows the tails that were spent so
    far, or an order chosen afterwards, is not private (docs/proofs/filter.md, 6).

    Args:
        epsilon: E of all releases together, above 0.
        delta: D of all releases together, 0 < D < 1.
        order: α, above 1 and at most 100,000.
        tail_delta: D_τ, what the tails of all releases may weigh together, 0 < D_τ < D.
        tail_each: the most that one release's tail is beside what is infinite for sure (`tail_for`), 0 < τ ≤ D_τ.

    Raises:
        ValueError: a field outside its range.
        InputRefused: nothing would fit: E is too small for this order and D − D_τ.
    """

    epsilon: Decimal
    delta: Decimal
    order: Decimal
    tail_delta: Decimal
    tail_each: Decimal

    def __post_init__(self) -> None:
        """Refuse what can't be a budget."""
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError(f"epsilon must be positive, not {self.epsilon}")
        if not (self.delta.is_finite() and 0 < self.delta < 1):
            raise ValueError(f"delta must lie strictly between 0 and 1, not {self.delta}")
        if not (self.order.is_finite() and 1 < self.order <= _LARGEST_ORDER):
            raise ValueError(f"the order must be above 1 and at most {_LARGEST_ORDER}, not {self.order}")
        if len(self.order.as_tuple().digits) > PRICE_DIGITS:
            raise ValueError(f"the order has at most {PRICE_DIGITS} digits, not {self.order}")
        if not (self.tail_delta.is_finite() and 0 < self.tail_delta < self.delta):
            raise ValueError(f"the tails' share must lie strictly between 0 and delta, not {self.tail_delta}")
        if not (self.tail_each.is_finite() and 0 < self.tail_each <= self.tail_delta):
            raise ValueError(f"a release's tail must be positive and at most all tails', not {self.tail_each}")
        if self.allowance <= 0:
            raise InputRefused(
                f"nothing would fit into a filter of epsilon {amount_shown(self.epsilon)} at order {self.order}, of "
                f"whose delta {amount_shown(self.delta)} the tails take {amount_shown(self.tail_delta)}.",
                remedy="Raise epsilon, delta or the order.",
            )

    @property
    def allowance(self) -> Decimal:
        """What the releases' D_α may add up to: E − ln((α−1)/α) + (ln(D − D_τ) + ln α)/(α − 1), rounded down."""
        left = add_down(self.delta, self.tail_delta.copy_negate())
        return decimal_down(add_down(self.epsilon, conversion_loss(self.order, left).copy_negate()))


def conversion_loss(order: Decimal, delta: Decimal) -> Decimal:
    """Return by how much the ε of (ε, δ) is above the D_α that it follows from, rounded up; α has at most 12 digits.

    It is ln((α−1)/α) − (ln δ + ln α)/(α − 1). Source: Canonne, Kamath, Steinke, arXiv:2004.00010,
    Proposition 12 (docs/proofs/filter.md, 3).
    """
    above = add_down(-1, order)
    gain = exact_log_down(divide_down(order, above))
    # The minus sign alone would round to the digits that happen to be set for the thread.
    return add_down(gain, divide_down(add_down(exact_log_down(delta), exact_log_down(order)), above)).copy_negate()


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterCost:
    """What a charge takes of a filter budget.

    Args:
        divergence: D_α, the larger of adding and removing the person, over all data sets; rounded up.
        tail: τ, the probability that was cut off before, at most, in either direction.
        rule: the versioned rule that was applied.
        relation: the neighbour relation that it holds for.
    """

    divergence: Decimal
    tail: Decimal
    rule: str
    relation: str


def fits(terms: FilterTerms, costs: Iterable[FilterCost]) -> bool:
    """Return whether charges stay within a filter budget: their D_α within its allowance, their tails within D_τ."""
    divergence, tail = _sums(costs)
    return divergence <= terms.allowance and tail <= terms.tail_delta


def spent_share(terms: FilterTerms, costs: Iterable[FilterCost]) -> Decimal:
    """Return the larger share of a filter budget that charges have spent, of its allowance or of D_τ, rounded up."""
    divergence, tail = _sums(costs)
    return decimal_up(max(divide_up(divergence, terms.allowance), divide_up(tail, terms.tail_delta)))


def _sums(costs: Iterable[FilterCost]) -> tuple[Decimal, Decimal]:
    divergence = tail = Decimal(0)
    for cost in costs:
        divergence, tail = add_up(divergence, cost.divergence), add_up(tail, cost.tail)
    return divergence, tail


def tail_for(terms: FilterTerms, mechanism: Mechanism, *, releases: int = 1, rows_per_person: int = 1) -> Decimal:
    """Return the tail that a charge takes by the terms of its budget, one of `tails_of`.

    It is that of `tail_each` where its share of D_τ is no larger than the divergence's of the allowance. Otherwise
    `tail_each` is halved until that is so. It is halved less often where the divergence's share would grow by more than
    `FREE` of the tail's share at `tail_each`, or to more than that share. So no charge takes a larger share of the
    budget than with `tail_each`.

    PRIVACY: it follows from the terms and from what is charged, never from what is published; whatever tail is chosen
    so is covered (docs/proofs/filter.md, 1), and the divergence is computed with the tail that is charged. How often it
    is halved hangs on comparisons of doubles, which another machine may decide otherwise: who verifies a charge takes
    the tail that it names.

    Raises:
        InputRefused: as `tail_of`. Where `filter_cost` refuses, it does so with the tail that is returned.
    """
    tails = tails_of(terms, mechanism, releases=releases, rows_per_person=rows_per_person)

    # Halving a tail saves some of D_τ and costs divergence; it goes on while divergence isn't the scarcer of the two.
    def share(halvings: int) -> Decimal:
        try:
            cost = filter_cost(
                mechanism, order=terms.order, tail=tails[halvings], releases=releases, rows_per_person=rows_per_person
            )
        except InputRefused:
            return Decimal("Infinity")
        return divide_up(cost.divergence, allowance)

    allowance, of_tails = terms.allowance, [divide_up(tail, terms.tail_delta) for tail in tails]
    largest, least = of_tails[0], share(0)
    enough = next((halvings for halvings, of in enumerate(of_tails) if of <= least), _MOST_HALVINGS)
    most = min(add_up(least, multiply_up(largest, FREE)), largest)
    if enough == 0 or share(enough) <= most:
        return tails[enough]
    return tails[bisect_right(range(enough), most, key=share) - 1]


def tails_of(
    terms: FilterTerms, mechanism: Mechanism, *, releases: int = 1, rows_per_person: int = 1
) -> tuple[Decimal, ...]:
    """Return the tails that a charge may take by the terms of its budget: those of `tail_each` and of its halves.

    Raises:
        InputRefused: as `tail_of`.
    """
    halves = [divide_down(terms.tail_each, 2**halvings) for halvings in range(_MOST_HALVINGS + 1)]
    return _tails(_parts(mechanism, releases, rows_per_person), halves, releases)


def tail_of(mechanism: Mechanism, tail_each: Decimal) -> Decimal:
    """Return a tail for a release; 0 where losses are bounded.

    It is `tail_each`, and the probability of what gives the person away for sure, which no order could bear: all
    sampled records of the smallest groups, or the ends of a noise.

    Raises:
        InputRefused: as `filter_cost`.
    """
    return _tails(_parts(mechanism, 1, 1), [tail_each], 1)[0]


def _tails(parts: list[tuple[FilterPart, int]], each: list[Decimal], releases: int) -> tuple[Decimal, ...]:
    steps = sum(times for part, times in parts if _has_tail(part))
    if steps == 0:
        return (Decimal(0),) * len(each)
    certain = multiply_up(max(_least_tail(part) for part, _ in parts if _has_tail(part)), steps)
    return tuple(decimal_up(add_up(multiply_up(one, releases), certain)) for one in each)


def filter_cost(
    mechanism: Mechanism, *, order: Decimal, tail: Decimal, releases: int = 1, rows_per_person: int = 1
) -> FilterCost:
    """Return what a charge for T releases of one mechanism, for M records of a person, takes of a filter budget.

    Every step of it (a release; a stage of a deletion release) has an even share of the tail τ, 0 ≤ τ < 1, but those of
    bounded losses, which take none. After the highest losses are cut so that a step loses this much, its D_α is taken,
    the larger of both directions, over all data sets; steps add up (docs/proofs/filter.md). The rule is
    "renyi-filter/1", or "renyi-filter/2" where some step is a draw of a bounded range or has zero-concentrated privacy.

    Raises:
        InputRefused: no divergence is proved for this mechanism or for M, the tail is too small for what gives a
            person away for sure, or the parameters are beyond double precision.
    """
    if not (order.is_finite() and 1 < order <= _LARGEST_ORDER and tail.is_finite() and 0 <= tail < 1):
        raise InputRefused(f"a filter needs an order above 1 and a tail from 0 to below 1, not {order} and {tail}.")
    parts = _parts(mechanism, releases, rows_per_person)
    steps = sum(times for part, times in parts if _has_tail(part))
    each = float_down(divide_down(tail, steps)) if steps else 0.0
    total = Decimal(0)
    for part, times in parts:
        share = each if _has_tail(part) else 0.0
        try:
            divergence = step_divergence(part, float_up(order), share)
        except ValueError as fault:
            raise InputRefused(f"this release has no place in a filter budget: {fault}.") from fault
        if divergence is None:
            raise _no_divergence(part, tail, steps)
        total = add_up(total, multiply_up(decimal_up(divergence), times))
    kind = kind_of(mechanism)
    relation = kind.price(mechanism, Decimal(0), 1, 1).relation if kind.pure else RELATION
    return FilterCost(
        divergence=decimal_up(total),
        tail=decimal_up(tail) if steps else Decimal(0),
        rule=RULE_WITHOUT_LOSSES if any(isinstance(part, _WithoutLosses) for part, _ in parts) else RULE,
        relation=relation,
    )


def _parts(mechanism: Mechanism, releases: int, records: int) -> list[tuple[FilterPart, int]]:
    """Return the steps of the releases, and how often each is made."""
    if releases < 1:
        raise InputRefused(f"the number of releases must be at least 1, not {releases}.")
    check_records(records)
    parts = kind_of(mechanism).filter_parts(mechanism, records)
    return [(part, releases * (part.times if isinstance(part, FiniteLosses) else 1)) for part in parts]


_WithoutLosses = BoundedRange | Concentrated


def _has_tail(part: FilterPart) -> bool:
    return not isinstance(part, _WithoutLosses) and (not isinstance(part, Guarantee) or part.delta > 0)


def _least_tail(part: FilterPart) -> Decimal:
    """Return the probability of an infinite loss in one step, rounded up."""
    match part:
        case StronglySafeRelease():
            return decimal_up(exp_up(Decimal(least_log_delta(k=part.k, sampling_rate=float_up(part.sampling_rate)))))
        case Guarantee():
            return part.delta
        case FiniteLosses():
            return decimal_up(divide_up(Decimal(part.infinite.numerator), part.infinite.denominator))
        case LossesBySize() | BoundedRange() | Concentrated():
            return Decimal(0)
    assert_never(part)


def _no_divergence(part: FilterPart, tail: Decimal, steps: int) -> InputRefused:
    least = _least_tail(part)
    return InputRefused(
        f"a tail of {amount_shown(tail)} is too small for this mechanism in a filter budget: what gives a person away "
        f"for sure has probability {amount_shown(least)} in each of {counted(steps, 'step')}.",
        remedy="Let it take a larger tail, raise k or lower the rate, or widen the noise.",
    )
