"""The planner: fills in the one parameter that is missing and prices the point, by the paper and exactly."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .amplification import amplified
from .exact_decimals import divide_down, multiply_up
from .guarantee import Guarantee
from .inversion import (
    largest_sampling_rate,
    least_delta,
    least_k,
    least_k_of_paper,
    most_releases,
    price_of,
)
from .paper_bound import delta_paper, least_epsilon_of_paper
from .price import paper_price, price
from .rounding import decimal_up, float_down, float_up
from .selection import paper_price_selected

__all__ = ["Plan", "largest_sampling_rate", "least_k", "plan"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A priced point; None where a quantity does not exist or was not asked for.

    Args:
        k: suppression threshold; None for a bare guarantee that is amplified.
        sampling_rate: β of each release.
        epsilon: ε that would be charged over all releases, selections included.
        delta: δ over all releases.
        releases: T, each with a fresh sample.
        selection_epsilon: ε₁ of each private choice of a map on the whole data.
        amplify_from: the rate at which the given guarantee held, where LQS Theorem 1 was applied.
        epsilon_paper: ε by the paper: Theorems 3.9 and 3.11, δ split evenly, added up.
        epsilon_exact: ε of one release alone by the exact profile at δ.
        epsilon_composed: ε of all releases by their composed privacy losses, selections included.
        delta_paper: δ by the paper at the ε asked for.
        delta_exact: δ of all releases, exact and composed, at the ε asked for.
        k_paper: least k by the paper at the ε asked for and this δ.
        k_exact: least k by the charged price at the ε asked for and this δ.
        filled: the name of the parameter that was filled in; None where all were given.
    """

    k: int | None
    sampling_rate: Decimal
    epsilon: Decimal
    delta: Decimal
    releases: int
    selection_epsilon: Decimal | None
    amplify_from: Decimal | None
    epsilon_paper: Decimal | None
    epsilon_exact: Decimal | None
    epsilon_composed: Decimal | None
    delta_paper: Decimal | None
    delta_exact: Decimal | None
    k_paper: int | None
    k_exact: int | None
    filled: str | None


def plan(
    k: int | None = None,
    sampling_rate: Decimal | None = None,
    epsilon: Decimal | None = None,
    delta: Decimal | None = None,
    releases: int | None = 1,
    selection_epsilon: Decimal | None = None,
    amplify_from: Decimal | None = None,
) -> Plan:
    """Fill in the one of k, sampling rate, ε, δ and releases that is None, and price the point.

    With `amplify_from` the guarantee (ε, δ) held at that rate, and the plan says what it is worth at
    `sampling_rate`, T times (LQS, arXiv:1101.2604v2, Theorem 1); there is no k then.

    Args:
        k: suppression threshold.
        sampling_rate: β.
        epsilon: ε over all releases.
        delta: δ over all releases.
        releases: T; None to ask for the most releases that fit.
        selection_epsilon: ε₁ of each private choice of a map on the whole data.
        amplify_from: the rate at which (ε, δ) held.

    Raises:
        InputRefused: more than one parameter is missing, a value is out of range, or nothing meets the target.
    """
    if amplify_from is not None:
        return _amplified_plan(k, sampling_rate, epsilon, delta, releases, selection_epsilon, amplify_from)
    given = {"k": k, "sampling_rate": sampling_rate, "epsilon": epsilon, "delta": delta, "releases": releases}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) > 1:
        raise InputRefused(
            f"these are missing: {', '.join(missing)}; one of them can be filled in, not {len(missing)}.",
            remedy="Give all but one of k, sampling rate, epsilon, delta and releases.",
        )
    if k is None:
        k = least_k(
            sampling_rate=_given(sampling_rate),
            epsilon=_given(epsilon),
            delta=_given(delta),
            releases=releases or 1,
            selection_epsilon=selection_epsilon,
        )
    if sampling_rate is None:
        sampling_rate = largest_sampling_rate(
            k=k,
            epsilon=_given(epsilon),
            delta=_given(delta),
            releases=releases or 1,
            selection_epsilon=selection_epsilon,
        )
    try:
        mechanism = StronglySafeRelease(k=k, sampling_rate=sampling_rate)
    except ValueError as fault:
        raise InputRefused(f"{fault}.") from fault
    if releases is None:
        releases = most_releases(
            mechanism, epsilon=_given(epsilon), delta=_given(delta), selection_epsilon=selection_epsilon
        )
    if delta is None:
        delta = least_delta(mechanism, epsilon=_given(epsilon), releases=releases, selection_epsilon=selection_epsilon)
    return _priced(
        mechanism,
        asked=epsilon,
        delta=delta,
        releases=releases,
        selection_epsilon=selection_epsilon,
        filled=missing[0] if missing else None,
    )


def _priced(
    mechanism: StronglySafeRelease,
    *,
    asked: Decimal | None,
    delta: Decimal,
    releases: int,
    selection_epsilon: Decimal | None,
    filled: str | None,
) -> Plan:
    k, sampling_rate = mechanism.k, mechanism.sampling_rate
    charged = price_of(mechanism, delta=delta, releases=releases, selection_epsilon=selection_epsilon).epsilon
    if selection_epsilon is None:
        paper = paper_price(mechanism, delta=delta, releases=releases)
    else:
        paper = paper_price_selected(
            mechanism,
            selection_epsilon=selection_epsilon,
            selection_rate=None,
            delta=delta,
            releases=releases,
        )
    alone = charged
    if releases > 1 or selection_epsilon is not None:
        alone = price(mechanism, delta=delta).epsilon
    delta_by_paper, delta_by_profile, k_by_paper, k_by_price = None, None, None, None
    if asked is not None:
        delta_by_paper = _delta_of_paper(mechanism, asked, releases, selection_epsilon)
        delta_by_profile = (
            delta
            if filled == "delta"
            else least_delta(mechanism, epsilon=asked, releases=releases, selection_epsilon=selection_epsilon)
        )
        k_by_paper = least_k_of_paper(
            sampling_rate=sampling_rate,
            epsilon=asked,
            delta=delta,
            releases=releases,
            selection_epsilon=selection_epsilon,
        )
        k_by_price = k if filled == "k" else _least_k_or_none(sampling_rate, asked, delta, releases, selection_epsilon)
    return Plan(
        k=k,
        sampling_rate=sampling_rate,
        epsilon=charged,
        delta=delta,
        releases=releases,
        selection_epsilon=selection_epsilon,
        amplify_from=None,
        epsilon_paper=None if paper is None else paper.epsilon,
        epsilon_exact=alone,
        epsilon_composed=charged,
        delta_paper=delta_by_paper,
        delta_exact=delta_by_profile,
        k_paper=k_by_paper,
        k_exact=k_by_price,
        filled=filled,
    )


def _amplified_plan(
    k: int | None,
    sampling_rate: Decimal | None,
    epsilon: Decimal | None,
    delta: Decimal | None,
    releases: int | None,
    selection_epsilon: Decimal | None,
    amplify_from: Decimal,
) -> Plan:
    if k is not None or selection_epsilon is not None:
        raise InputRefused("amplification of a bare guarantee takes neither k nor a selection.")
    if sampling_rate is None or epsilon is None or releases is None or releases < 1:
        raise InputRefused(
            "amplification needs the guarantee's epsilon, the lower sampling rate, and at least one release.",
            remedy="Give epsilon, sampling rate and perhaps delta (0 where none is given).",
        )
    try:
        guarantee = Guarantee(epsilon=epsilon, delta=Decimal(0) if delta is None else delta)
    except ValueError as fault:
        raise InputRefused(f"{fault}.") from fault
    each = amplified(guarantee, from_rate=amplify_from, to_rate=sampling_rate)
    total = decimal_up(multiply_up(decimal_up(each.epsilon), releases))
    return Plan(
        k=None,
        sampling_rate=sampling_rate,
        epsilon=total,
        delta=decimal_up(multiply_up(each.delta, releases)),
        releases=releases,
        selection_epsilon=None,
        amplify_from=amplify_from,
        epsilon_paper=total,
        epsilon_exact=decimal_up(each.epsilon),
        epsilon_composed=total,
        delta_paper=None,
        delta_exact=None,
        k_paper=None,
        k_exact=None,
        filled=None,
    )


def _delta_of_paper(
    mechanism: StronglySafeRelease, epsilon: Decimal, releases: int, selection_epsilon: Decimal | None
) -> Decimal | None:
    rate = float_up(mechanism.sampling_rate)
    each = float_down(divide_down(epsilon, releases) - (selection_epsilon or Decimal(0)))
    if not rate < 1.0 or not each >= least_epsilon_of_paper(rate):
        return None
    total = decimal_up(delta_paper(k=mechanism.k, sampling_rate=rate, epsilon=each) * releases)
    return min(total, Decimal(1))


def _least_k_or_none(
    sampling_rate: Decimal, epsilon: Decimal, delta: Decimal, releases: int, selection_epsilon: Decimal | None
) -> int | None:
    try:
        return least_k(
            sampling_rate=sampling_rate,
            epsilon=epsilon,
            delta=delta,
            releases=releases,
            selection_epsilon=selection_epsilon,
        )
    except InputRefused:
        return None


def _given(value: Decimal | None) -> Decimal:
    if value is None:
        raise InputRefused("a parameter is missing.")
    return value
