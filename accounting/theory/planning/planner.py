"""The planner: fills in the one parameter that is missing and prices the point, by the paper and exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ....mechanisms.kernel.amounts import amount_shown
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ...kernel.prices.arithmetic import decimal_up, multiply_up
from ...kinds.composition.amplification import Guarantee, amplified
from ...kinds.composition.paper_bound import paper_price_fixed, paper_price_selected
from ...kinds.microdata_prices import price_fixed
from ..survival import survival_share
from .inversion import (
    Target,
    delta_of_paper,
    frontier,
    largest_sampling_rate,
    least_delta,
    least_k,
    least_k_of_paper,
    most_releases,
    price_of,
)

RATES_TRIED = tuple(
    Decimal(rate) for rate in ("0.01", "0.02", *(f"0.{twentieth * 5:02}" for twentieth in range(1, 20)))
)
"""Sampling rates among which the one that publishes most is looked for."""

_TEN_THOUSANDTH, _NEARLY_ONE = Decimal("1e-4"), Decimal("0.999999")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A priced point; None where a quantity does not exist or was not asked for.

    Args:
        k: Suppression threshold; None for a bare guarantee that is amplified.
        sampling_rate: Sampling rate β of each release.
        epsilon: ε that would be charged over all releases, selections included.
        delta: δ over all releases.
        releases: Number of releases T, each with a fresh sample.
        selection_epsilon: ε₁ of each private choice of a map.
        selection_rate: Rate of the fresh sample of each choice; None where it is made on the whole data.
        amplify_from: Rate at which the given guarantee held, where LQS Theorem 1 was applied.
        epsilon_paper: ε by the paper: Theorems 3.9 and 3.11, with δ split evenly and ε added up.
        epsilon_exact: ε of one release alone by the exact profile at δ.
        epsilon_composed: ε of all releases by their composed privacy losses, selections included.
        delta_paper: δ by the paper at the requested ε.
        delta_exact: δ of all releases, exact and composed, at the requested ε.
        k_paper: Least k by the paper at the requested ε and this δ.
        k_exact: Least k by the charged price at the requested ε and this δ.
        filled: Name of the parameter that was filled in; None where all were given.
    """

    k: int | None
    sampling_rate: Decimal
    epsilon: Decimal
    delta: Decimal
    releases: int
    selection_epsilon: Decimal | None
    selection_rate: Decimal | None
    amplify_from: Decimal | None
    epsilon_paper: Decimal | None
    epsilon_exact: Decimal | None
    epsilon_composed: Decimal | None
    delta_paper: Decimal | None
    delta_exact: Decimal | None
    k_paper: int | None
    k_exact: int | None
    filled: str | None

    def __repr__(self) -> str:
        """Return the point and its charge; the other prices are fields."""
        point = f"k={self.k}, sampling_rate={self.sampling_rate}, releases={self.releases}"
        return f"Plan({point}, epsilon={amount_shown(self.epsilon)}, delta={amount_shown(self.delta)})"


def plan(
    k: int | None = None,
    sampling_rate: Decimal | None = None,
    epsilon: Decimal | None = None,
    delta: Decimal | None = None,
    releases: int | None = 1,
    selection_epsilon: Decimal | None = None,
    selection_rate: Decimal | None = None,
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
        selection_epsilon: ε₁ of each private choice of a map.
        selection_rate: rate of the fresh sample of each choice; None where it is made on the whole data.
        amplify_from: the rate at which (ε, δ) held.

    Raises:
        InputRefused: more than one parameter is missing, a value is out of range, or nothing meets the target.
    """
    if amplify_from is not None:
        if k is not None or selection_epsilon is not None or selection_rate is not None:
            raise InputRefused("amplification of a bare guarantee takes neither k nor a selection.")
        return _amplified_plan(sampling_rate, epsilon, delta, releases, amplify_from)
    given = {"k": k, "sampling_rate": sampling_rate, "epsilon": epsilon, "delta": delta, "releases": releases}
    missing = [name for name, value in given.items() if value is None]
    target = Target(
        epsilon=Decimal(0) if epsilon is None else epsilon,
        delta=Decimal("0.5") if delta is None else delta,
        releases=1 if releases is None else releases,
        selection_epsilon=selection_epsilon,
        selection_rate=selection_rate,
    )
    if missing == ["k"] and sampling_rate is not None:
        k = least_k(sampling_rate, target)
    if missing == ["sampling_rate"] and k is not None:
        sampling_rate = largest_sampling_rate(k, target)
    if len(missing) > 1 or k is None or sampling_rate is None:
        raise InputRefused(
            f"these are missing: {', '.join(missing)}; one of them can be filled in, not {len(missing)}.",
            remedy="Give all but one of k, sampling rate, epsilon, delta and releases.",
        )
    try:
        mechanism = StronglySafeRelease(k=k, sampling_rate=sampling_rate)
    except ValueError as fault:
        raise InputRefused(f"{fault}.") from fault
    if releases is None:
        target = replace(target, releases=most_releases(mechanism, target))
    if delta is None:
        target = _charged_within(mechanism, replace(target, delta=least_delta(mechanism, target)))
    return _priced(mechanism, target, missing=missing[0] if missing else None)


def plan_for_groups(
    *,
    group_sizes: Mapping[int, int],
    epsilon: Decimal,
    delta: Decimal,
    releases: int = 1,
    selection_epsilon: Decimal | None = None,
    selection_rate: Decimal | None = None,
) -> Plan:
    """Plan the rate of `RATES_TRIED`, with its least k within a price, that publishes most records of such groups.

    PRIVACY: the sizes must be public (an earlier release, a census, a synthetic population), never counts of the
    data that are to be released: parameters may not be chosen by private looks.

    Args:
        group_sizes: size of a group in the whole data → how many groups of that size; sizes and numbers at least 1.
        epsilon: ε over all releases.
        delta: δ over all releases.
        releases: T ≥ 1.
        selection_epsilon: ε₁ of each private choice of a map.
        selection_rate: rate of the fresh sample of each choice; None where it is made on the whole data.

    Raises:
        InputRefused: a value out of range, or no pair has this price.
    """
    target = Target(
        epsilon=epsilon,
        delta=delta,
        releases=releases,
        selection_epsilon=selection_epsilon,
        selection_rate=selection_rate,
    )
    best: tuple[float, StronglySafeRelease] | None = None
    for point in frontier(target, sampling_rates=RATES_TRIED):
        if point.k_exact is not None:
            release = StronglySafeRelease(k=point.k_exact, sampling_rate=point.sampling_rate)
            share = float(point.sampling_rate) * survival_share(release, group_sizes=group_sizes)
            if best is None or share > best[0]:
                best = share, release
    if best is None:
        raise InputRefused(
            f"no k and sampling rate cost at most epsilon {amount_shown(epsilon)} at delta {amount_shown(delta)}.",
            remedy="Raise epsilon or delta, or ask for fewer releases.",
        )
    return _priced(best[1], target, missing=None)


def _charged_within(mechanism: StronglySafeRelease, target: Target) -> Target:
    """Return the target, with δ raised by some ten thousandths where its price is above ε.

    δ was searched on another grid than the price is computed on, and the two differ by so much.
    """
    if target.releases == 1:
        return target
    for part in (1, 2, 4, 8):
        if price_of(mechanism, target).epsilon <= target.epsilon:
            return target
        raised = decimal_up(multiply_up(target.delta, 1 + part * _TEN_THOUSANDTH))
        target = replace(target, delta=min(raised, _NEARLY_ONE))
    return target


def _priced(mechanism: StronglySafeRelease, target: Target, *, missing: str | None) -> Plan:
    """Return the plan of a point whose parameters are all known; the target's ε is the one asked for, if any."""
    charged = price_of(mechanism, target).epsilon
    asked = missing != "epsilon"
    return Plan(
        k=mechanism.k,
        sampling_rate=mechanism.sampling_rate,
        epsilon=charged,
        delta=target.delta,
        releases=target.releases,
        selection_epsilon=target.selection_epsilon,
        selection_rate=target.selection_rate,
        amplify_from=None,
        epsilon_paper=_epsilon_of_paper(mechanism, target),
        epsilon_exact=price_fixed(mechanism, delta=target.delta).epsilon,
        epsilon_composed=charged,
        delta_paper=delta_of_paper(mechanism, target) if asked else None,
        delta_exact=_delta_exact(mechanism, target, charged, missing) if asked else None,
        k_paper=least_k_of_paper(mechanism.sampling_rate, target) if asked else None,
        k_exact=_k_exact(mechanism, target, missing) if asked else None,
        filled=missing,
    )


def _epsilon_of_paper(mechanism: StronglySafeRelease, target: Target) -> Decimal | None:
    if target.selection_epsilon is None:
        paper = paper_price_fixed(mechanism, delta=target.delta, releases=target.releases)
    else:
        paper = paper_price_selected(
            mechanism,
            selection_epsilon=target.selection_epsilon,
            selection_rate=target.selection_rate,
            delta=target.delta,
            releases=target.releases,
        )
    return None if paper is None else paper.epsilon


def _delta_exact(
    mechanism: StronglySafeRelease, target: Target, charged: Decimal, missing: str | None
) -> Decimal | None:
    if missing == "delta":
        return target.delta
    try:
        least = least_delta(mechanism, target)
    except InputRefused:
        return None
    # A price within the ε asked for shows the target's δ as well; two grids may differ in the fourth digit.
    return min(least, target.delta) if charged <= target.epsilon else least


def _k_exact(mechanism: StronglySafeRelease, target: Target, missing: str | None) -> int | None:
    if missing == "k":
        return mechanism.k
    try:
        return least_k(mechanism.sampling_rate, target, near=mechanism.k)
    except InputRefused:
        return None


def _amplified_plan(
    sampling_rate: Decimal | None,
    epsilon: Decimal | None,
    delta: Decimal | None,
    releases: int | None,
    amplify_from: Decimal,
) -> Plan:
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
        selection_rate=None,
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
