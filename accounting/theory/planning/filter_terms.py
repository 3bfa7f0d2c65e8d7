"""Proposes the terms of a filter budget from the releases that are expected: the order, and the tails' share of δ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from ....mechanisms.kernel.amounts import amount_shown, counted
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ...kernel.prices.arithmetic import (
    add_down,
    add_up,
    decimal_down,
    decimal_up,
    divide_down,
    divide_up,
    multiply_down,
    multiply_up,
)
from ...kinds.composition.renyi_filter import FREE, FilterTerms, conversion_loss, filter_cost, tail_of

EXPECTED: tuple[tuple[Mechanism, int], ...] = ((StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")), 12),)
"""What is expected where nothing is said: twelve releases at k = 20 and a rate of 0.1."""

Expected = Sequence[tuple[Mechanism, int]]

_ORDERS = tuple(Decimal(f"{1.0 + 0.1 * 1.6**power:.3g}") for power in range(26))
_SHARES = tuple(Decimal(share) / 100 for share in (1, 3, 10, 20, 30, 40, 50, 60, 70, 80, 90, 97))
_USUAL_SHARE = Decimal("0.3")
_FINER = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4)
_ROUNDS = 4
_SPARE = 0.02
"""The share of the expected releases that is given up for larger tails, which other mechanisms may need."""
_LESS, _MORE = Decimal("0.999999999"), Decimal("1.000000001")


def propose_terms(epsilon: Decimal, delta: Decimal, expected: Expected = EXPECTED) -> FilterTerms:
    """Propose the terms of a budget (E, D) into which the expected releases fit the most times over.

    PRIVACY: what is expected is a matter of the calendar, never of the records; the terms are fixed before the first
    charge, and hold whatever is released then.

    Args:
        epsilon: E of all releases together, above 0.
        delta: D of all releases together, 0 < D < 1.
        expected: mechanisms, and how many releases of each.

    Raises:
        InputRefused: E or D is out of range, they don't fit, or one of them has no place in a filter budget.
    """
    if not (epsilon.is_finite() and epsilon > 0):
        raise InputRefused(f"epsilon must be positive, not {epsilon}.")
    search = _Search(delta, expected)

    def fitting(order: Decimal, share: Decimal) -> tuple[float, Decimal]:
        return search.times_that_fit(epsilon, order, share)

    order, share = _best(lambda order, share: -fitting(order, share)[0], search.start, spare=_SPARE)
    times, tail_each = fitting(order, share)
    if not times >= 1.0:
        least = least_terms(delta, expected)
        if least.epsilon <= epsilon:
            return replace(least, epsilon=epsilon)
        raise InputRefused(
            f"the expected {counted(search.releases, 'release')} would not fit into a filter of epsilon "
            f"{amount_shown(epsilon)} at delta {amount_shown(delta)}; it takes epsilon {amount_shown(least.epsilon)}.",
            remedy="Raise epsilon, expect fewer releases, raise k, or lower the rate.",
        )
    return FilterTerms(
        epsilon=epsilon, delta=delta, order=order, tail_delta=search.tail_delta(share), tail_each=tail_each
    )


def least_terms(delta: Decimal, expected: Expected = EXPECTED) -> FilterTerms:
    """Return the terms with the least E found at which the expected releases fit once.

    Args:
        delta: D of all releases together, 0 < D < 1.
        expected: mechanisms, and how many releases of each.

    Raises:
        InputRefused: D is out of range, or no E is enough.
    """
    search = _Search(delta, expected)
    order, share = _best(search.epsilon, search.start)
    if search.tail_each(share, 1.0) <= 0:
        raise search.no_epsilon()
    tail_delta, tail_each = search.tail_delta(share), search.tail_each(share, 1.0)
    needed = add_up(search.divergence(order, tail_each), search.loss(order, share))
    return FilterTerms(
        epsilon=decimal_up(multiply_up(needed, _MORE)),
        delta=delta,
        order=order,
        tail_delta=tail_delta,
        tail_each=tail_each,
    )


class _Search:
    """What the expected releases take, by order and share of the tails.

    Args:
        delta: D.
        expected: as `propose_terms`.

    Raises:
        InputRefused: as `propose_terms`.
    """

    def __init__(self, delta: Decimal, expected: Expected) -> None:
        if not (delta.is_finite() and 0 < delta < 1):
            raise InputRefused(f"delta must lie strictly between 0 and 1, not {delta}.")
        if not expected or any(releases < 1 for _, releases in expected):
            raise InputRefused("at least one release is expected of each mechanism.")
        self._delta, self._expected = delta, expected
        self.releases = sum(releases for _, releases in expected)
        self._certain = Decimal(0)
        self._with_tails = 0
        for mechanism, releases in expected:
            least = tail_of(mechanism, Decimal(0))
            self._certain = add_up(self._certain, multiply_up(least, releases))
            self._with_tails += releases if tail_of(mechanism, delta) else 0

    def tail_delta(self, share: Decimal) -> Decimal:
        """Return D_τ at a share of D."""
        return decimal_down(multiply_down(self._delta, share))

    def loss(self, order: Decimal, share: Decimal) -> Decimal:
        """Return what the conversion to an ε takes of E, at an order and a share of the tails."""
        return conversion_loss(order, add_down(self._delta, self.tail_delta(share).copy_negate()))

    @property
    def start(self) -> Decimal:
        """A share at which the tails hold what is infinite, and more; the largest where none does."""
        return next((one for one in _SHARES if one >= _USUAL_SHARE and self.tail_each(one, 1.0) > 0), _SHARES[-1])

    def tail_each(self, share: Decimal, times: float) -> Decimal:
        """Return the tail of one release if D_τ is for so many times the expected ones; it may be 0 or negative."""
        free = add_down(divide_down(self.tail_delta(share), Decimal(max(times, 1.0))), self._certain.copy_negate())
        # What rounding each release's tail up adds is far below this share.
        return decimal_down(multiply_down(divide_down(free, max(self._with_tails, 1)), _LESS))

    def no_epsilon(self) -> InputRefused:
        """Return the refusal of a δ that isn't above the probability of the expected releases' unbounded losses."""
        return InputRefused(
            f"no epsilon is enough for the expected {counted(self.releases, 'release')} at delta "
            f"{amount_shown(self._delta)}: what gives a person away for sure, such as the ends of a noise, has "
            f"probability {amount_shown(self._certain)} in all of them together.",
            remedy="Raise delta or k, lower the rate, or widen the noise.",
        )

    def divergence(self, order: Decimal, tail_each: Decimal) -> Decimal:
        """Return Σ D_α of the expected releases; of several mechanisms with a margin for smaller tails (`tail_for`).

        Raises:
            InputRefused: one of them has none.
        """
        total = Decimal(0)
        for mechanism, releases in self._expected:
            cost = filter_cost(mechanism, order=order, tail=tail_of(mechanism, tail_each))
            total = add_up(total, multiply_up(cost.divergence, releases))
        # One mechanism needs no margin: no release's share of the budget is larger than at `tail_each`.
        return divide_up(total, add_down(1, FREE.copy_negate())) if len(self._expected) > 1 else total

    def epsilon(self, order: Decimal, share: Decimal) -> float:
        """Return the E at which the expected releases fit once; infinite where none is enough."""
        tail_each = self.tail_each(share, 1.0)
        if tail_each <= 0:
            return math.inf
        return float(add_up(self.divergence(order, tail_each), self.loss(order, share)))

    def times_that_fit(self, epsilon: Decimal, order: Decimal, share: Decimal) -> tuple[float, Decimal]:
        """Return how many times over the expected releases fit, and the tail of each at which they do."""
        allowance = float(add_down(epsilon, self.loss(order, share).copy_negate()))
        times, tail_each = 1.0, self.tail_each(share, 1.0)
        if tail_each <= 0 or allowance <= 0.0:
            return -math.inf, tail_each
        fit = allowance / float(self.divergence(order, tail_each))
        for _ in range(_ROUNDS):
            if fit <= times:
                break
            # More releases have smaller tails each and so larger divergences: `fit` is too high for its own number of
            # releases. The geometric mean of what is shown and what is hoped for is tried next, for a few rounds.
            wanted = math.sqrt(times * fit)
            smaller = self.tail_each(share, wanted)
            if smaller <= 0:
                break
            reached = allowance / float(self.divergence(order, smaller))
            if reached < wanted:
                fit = wanted
                continue
            times, tail_each, fit = wanted, smaller, reached
        return min(fit, times) if times > 1.0 else fit, tail_each


def _best(cost: Callable[[Decimal, Decimal], float], start: Decimal, *, spare: float = 0.0) -> tuple[Decimal, Decimal]:
    """Return the order and the share with the least cost on a grid, which is finer around its best coarse point.

    Args:
        cost: of an order and a share.
        start: a share at which there is a finite cost, if there is any.
        spare: by how much, relatively, the cost may be above the least for a larger share of the tails.
    """
    share, order = start, _ORDERS[0]
    # One after the other, twice: the cost of an order hardly depends on the share, and a full grid takes several times
    # as long. The terms needn't be the best ones; whatever they are, the budget's guarantee holds.
    for _ in range(2):
        order = min(_ORDERS, key=lambda one: cost(one, share))
        share = min(_SHARES, key=lambda one: cost(order, one))
    finer = [Decimal(f"{1.0 + float(order - 1) * factor:.3g}") for factor in _FINER]
    order = min((one for one in finer if one > 1), key=lambda one: cost(one, share))
    costs = {one: cost(order, one) for one in _SHARES}
    least = min(costs.values())
    most = least + spare * abs(least) if math.isfinite(least) else least
    return order, max(tried for tried, cost_there in costs.items() if cost_there <= most)
