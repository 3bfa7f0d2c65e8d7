"""What a guarantee for one record is worth for a person who has up to M of them, in any groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ....mechanisms.kernel.amounts import amount_exact
from ....mechanisms.kernel.errors import InputRefused
from ...kernel.prices.arithmetic import add_up, decimal_up, divide_down, exp_up, log_down, multiply_up
from ...kernel.prices.mechanism_kind import Price, check_request

_POINTS = 1024
_SLACK = 1.0 + 1e-12
_HIGHEST_RATIO = 1e290
_LOWEST_RATIO = 1e-290
_LOG_HIGHEST = 667.0
_ROUNDS = 200
_UNDERCUT = Decimal("0.999999")

Array = NDArray[np.float64]
LogCurve = Callable[[Array], Array]
Inner = TypeVar("Inner")
M = TypeVar("M")
PriceOfOne = Callable[[M, Decimal, int], Price]
PriceOfGroup = Callable[[M, Decimal, int, int], Price]


def no_price_for_group(delta: Decimal, records: int) -> InputRefused:
    """Return the refusal where no finite ε was found: many records of one person can lift their own group over k."""
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} where a person has up to {records} records.",
        remedy="Raise k or delta, lower the rate, or reduce the records of a person.",
    )


def rule_for_group(inner: str, *, even: bool) -> str:
    """Return the rule of a price for several records, from the `inner` one for one; `even` if all have the same ε."""
    return f"{'even-' if even else ''}group-privacy/1+{inner}"


def even_group_price(price_of_one: PriceOfOne[M]) -> PriceOfGroup[M]:
    """Return the price for M records from that for one, each of several records taking the same ε (`even_split`).

    Args:
        price_of_one: (mechanism, δ, releases) → the price for one record.

    Returns:
        (mechanism, δ, releases, M) → the price; for M > 1 it refuses what `check_request` does, and `even_split`.
    """

    def price(mechanism: M, delta: Decimal, releases: int, records: int) -> Price:
        if records == 1:
            return price_of_one(mechanism, delta, releases)
        check_request(delta, releases)
        one, total = even_split(
            lambda share: price_of_one(mechanism, share, releases),
            lambda cost: cost.epsilon,
            delta=delta,
            records=records,
        )
        return replace(
            one,
            epsilon=decimal_up(total),
            delta=delta,
            rule=rule_for_group(one.rule, even=True),
            rows_per_person=records,
        )

    return price


def summed_group_price(price_of_one: Callable[[M], Price]) -> PriceOfGroup[M]:
    """Return the price of what has no δ for M records: that of one record, as often as there are records."""

    def price(mechanism: M, _delta: Decimal, _releases: int, records: int) -> Price:
        one = price_of_one(mechanism)
        if records == 1:
            return one
        total = decimal_up(multiply_up(one.epsilon, records))
        return replace(one, epsilon=total, rule=rule_for_group(one.rule, even=True), rows_per_person=records)

    return price


def best_split(log_curve: LogCurve, *, delta: Decimal, records: int, largest_epsilon: float) -> float | None:
    """Return the least ε found at which M records of one person are protected at δ, from the profile of one record.

    A person's M records are added one after the other, so for every split of ε into ε_1 + … + ε_M
    δ_M(ε) ≤ Σ_i e^{ε_1+…+ε_{i−1}}·δ(ε_i); the best split is found on a grid, and between two points of the grid the
    chord over e^ε is taken (docs/proofs/group-privacy.md, Claims 1 to 3). Nothing is assumed about which records fall
    into the same group.

    Args:
        log_curve: upper bounds on ln δ(ε) of one record, for ε ≥ 0 of shape (n,); not growing in ε.
        delta: the target, 0 < δ < 1.
        records: M, 1 ≤ M ≤ `MOST_RECORDS`.
        largest_epsilon: an ε of one record beyond which the curve falls no further.

    Returns:
        ε, at least the true one; None where no ε on the grid has this δ.
    """
    log_target = log_down(delta)
    highest = records * largest_epsilon
    top = min(_first_epsilon(log_curve, log_target, largest_epsilon) * records, highest)
    while True:
        spacing = 2.0 ** math.ceil(math.log2(top / _POINTS))  # so that multiples and their differences are exact
        epsilons = spacing * np.arange(_POINTS + 1, dtype=np.float64)
        ratios = _of_group(_ratios(log_curve(epsilons), log_target), epsilons, records)
        below = np.flatnonzero(ratios <= 1.0)
        if below.size:
            return _on_chord(epsilons, ratios, int(below[0]))
        if top >= highest:
            return None
        top = min(2.0 * top, highest)


def _first_epsilon(log_curve: LogCurve, log_target: float, largest_epsilon: float) -> float:
    """Return about the least ε at which one record meets the target; any positive one is a sound start."""
    points = largest_epsilon * np.exp2(-np.arange(60.0))
    met = np.flatnonzero(log_curve(points) <= log_target)
    return float(points[met[-1]]) if met.size else largest_epsilon


def _ratios(log_deltas: Array, log_target: float) -> Array:
    """Return upper bounds on δ(ε) over the target; one that is cut off above is far above 1 all the same."""
    ratios = np.exp(np.minimum(log_deltas - log_target, _LOG_HIGHEST)) * _SLACK
    return np.asarray(np.maximum(ratios, _LOWEST_RATIO), dtype=np.float64)


def _of_group(one: Array, epsilons: Array, records: int) -> Array:
    """Return the curve of M records by doubling: any way to split them into two parts gives a valid bound."""
    # M − 1 joins one after the other would be as valid, and take M/log M times as long.
    result: Array | None = None
    power, rest = one, records
    while True:
        if rest & 1:
            result = power if result is None else _joined(result, power, epsilons)
        rest >>= 1
        if not rest:
            return result if result is not None else one
        power = _joined(power, power, epsilons)


def _joined(first: Array, second: Array, epsilons: Array) -> Array:
    """Return the least over grid points e ≤ ε of first(e) + e^e·second(ε − e), rounded up."""
    result = np.empty_like(first)
    with np.errstate(over="ignore"):  # an infinite growth is never part of a least sum
        growth = np.exp(epsilons) * _SLACK
        for last in range(first.size):
            result[last] = (first[: last + 1] + growth[: last + 1] * second[last::-1]).min()
    return np.asarray(np.minimum(result * _SLACK, _HIGHEST_RATIO), dtype=np.float64)


def _on_chord(epsilons: Array, ratios: Array, index: int) -> float:
    """Return the ε at which the chord over e^ε from the last point above the target to the first below it meets it."""
    # δ as a function of e^ε is convex, so the chord between two points lies above it.
    right = float(epsilons[index])
    if index == 0:
        return right
    left, above, below = float(epsilons[index - 1]), float(ratios[index - 1]), float(ratios[index])
    share = (above - 1.0) / (above - below)
    met = left + math.log1p(share * math.expm1(right - left))
    return min(met * (1.0 + 1e-12), right)


def even_split(
    inner: Callable[[Decimal], Inner], epsilon_of: Callable[[Inner], Decimal], *, delta: Decimal, records: int
) -> tuple[Inner, Decimal]:
    """Return the price for one record at δ', `inner(δ')`, and ε = Mε', not yet rounded, which M records have at δ.

    (ε', δ') for one record is (Mε', (1 + e^{ε'} + … + e^{(M−1)ε'})·δ') for M (docs/proofs/group-privacy.md, Claim 4).
    The largest such δ' is approached from above, each step undercut by a millionth.

    Raises:
        InputRefused: no finite ε was found, or what `inner` refuses.
    """
    share = divide_down(delta, records)
    for _ in range(_ROUNDS):
        one = inner(share)
        affordable = divide_down(delta, _growth(epsilon_of(one), records))
        if share <= affordable:
            return one, multiply_up(epsilon_of(one), records)
        share = multiply_up(affordable, _UNDERCUT)
    raise no_price_for_group(delta, records)


def _growth(epsilon: Decimal, records: int) -> Decimal:
    """Return an upper bound on 1 + e^ε + … + e^{(m−1)ε}."""
    ratio, total, weight = exp_up(epsilon), Decimal(0), Decimal(1)
    for _ in range(records):
        total, weight = add_up(total, weight), multiply_up(weight, ratio)
    return total
