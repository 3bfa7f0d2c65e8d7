"""The parameters that meet a target: least k, largest rate, most releases, least δ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

import numpy as np

from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from .composition import delta_composed
from .exact_decimals import divide_down, multiply_up
from .guarantee import Guarantee
from .paper_bound import delta_paper, least_epsilon_of_paper
from .price import Price, price
from .profile import exp_up, log_profile
from .rounding import decimal_up, float_down, float_up, log_down
from .search import first_whole, last_real
from .selection import log_profile_selected, price_selected, selection_cost

__all__ = [
    "Target",
    "largest_sampling_rate",
    "least_delta",
    "least_k",
    "least_k_of_paper",
    "most_releases",
    "price_of",
]

LARGEST_K = 1 << 22
MOST_RELEASES = 1_000_000
_RATE_DIGITS = 6
_LOWEST_RATE = Decimal("1e-9")
_HIGHEST_RATE = Decimal("0.999999")
_RESOLUTIONS = (1e-10, 1e-25, 1e-50, 1e-100, 1e-190)


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What the releases may cost together, how many they are, and whether each chooses its map.

    Args:
        epsilon: ε over everything.
        delta: δ over everything.
        releases: T ≥ 1.
        selection_epsilon: ε₁ of each choice of a map on the whole data; None where the map is fixed.
    """

    epsilon: Decimal
    delta: Decimal
    releases: int = 1
    selection_epsilon: Decimal | None = None


def price_of(
    mechanism: StronglySafeRelease, *, delta: Decimal, releases: int, selection_epsilon: Decimal | None
) -> Price:
    """The charged price with or without a private choice of the map.

    Raises:
        InputRefused: as `price` and `price_selected`.
    """
    if selection_epsilon is None:
        return price(mechanism, delta=delta, releases=releases)
    return price_selected(
        mechanism,
        selection_epsilon=selection_epsilon,
        selection_rate=None,
        delta=delta,
        releases=releases,
    )


def least_k(
    *,
    sampling_rate: Decimal,
    epsilon: Decimal,
    delta: Decimal,
    releases: int = 1,
    selection_epsilon: Decimal | None = None,
) -> int:
    """The least threshold k whose charged price is within (ε, δ).

    Raises:
        InputRefused: a value out of range, or no k up to `LARGEST_K` is enough.
    """
    target = Target(epsilon=epsilon, delta=delta, releases=releases, selection_epsilon=selection_epsilon)
    _check(target)

    found = first_whole(lambda k: _cost(_mechanism(k, sampling_rate), target), _allowed(target), LARGEST_K)
    while found is not None and found <= LARGEST_K and not _within(_mechanism(found, sampling_rate), target):
        found += 1
    if found is None or found > LARGEST_K:
        raise InputRefused(
            f"no k up to {LARGEST_K} gives epsilon {epsilon} and delta {delta} at sampling rate {sampling_rate}.",
            remedy="Raise epsilon or delta, or ask for fewer releases.",
        )
    return found


def largest_sampling_rate(
    *,
    k: int,
    epsilon: Decimal,
    delta: Decimal,
    releases: int = 1,
    selection_epsilon: Decimal | None = None,
) -> Decimal:
    """The largest sampling rate of at most 6 significant digits whose charged price is within (ε, δ).

    Raises:
        InputRefused: a value out of range, or no rate of at least 1e-9 is low enough.
    """
    target = Target(epsilon=epsilon, delta=delta, releases=releases, selection_epsilon=selection_epsilon)
    _check(target)
    if _within(_mechanism(k, _HIGHEST_RATE), target):
        return _HIGHEST_RATE
    if not _within(_mechanism(k, _LOWEST_RATE), target):
        raise InputRefused(
            f"no sampling rate of at least {_LOWEST_RATE} gives epsilon {epsilon} and delta {delta} with k = {k}.",
            remedy="Raise k, epsilon or delta.",
        )
    found = last_real(
        lambda rate: _cost(_mechanism(k, Decimal(rate)), target),
        _allowed(target),
        low=float(_LOWEST_RATE),
        high=float(_HIGHEST_RATE),
        precision=10.0**-_RATE_DIGITS,
    )
    rate = Decimal(found)
    unit = Decimal(1).scaleb(rate.adjusted() - _RATE_DIGITS + 1)
    rate = rate.quantize(unit, rounding=ROUND_FLOOR)
    while not _within(_mechanism(k, rate), target):
        rate -= unit
    return rate.normalize()


def most_releases(
    mechanism: StronglySafeRelease, *, epsilon: Decimal, delta: Decimal, selection_epsilon: Decimal | None = None
) -> int:
    """The greatest number of releases whose charged price together is within (ε, δ), up to `MOST_RELEASES`.

    Raises:
        InputRefused: a value out of range, or not even one release fits.
    """

    def target(releases: int) -> Target:
        return Target(epsilon=epsilon, delta=delta, releases=releases, selection_epsilon=selection_epsilon)

    def spared(releases: int) -> float:
        cost = _price_or_infinity(mechanism, target(releases))
        return math.inf if cost == 0.0 else 1.0 / cost

    _check(target(1))
    if not _within(mechanism, target(1)):
        raise InputRefused(
            f"not even one release with k = {mechanism.k} at sampling rate {mechanism.sampling_rate} fits into "
            f"epsilon {epsilon} and delta {delta}.",
            remedy="Raise k, epsilon or delta, or lower the rate.",
        )
    allowed = math.nextafter(1.0 / float(epsilon), 0.0) if epsilon else math.inf
    first_beyond = first_whole(spared, allowed, MOST_RELEASES)
    found = MOST_RELEASES if first_beyond is None else max(first_beyond - 1, 1)
    while not _within(mechanism, target(found)):
        found -= 1
    return found


def least_delta(
    mechanism: StronglySafeRelease,
    *,
    epsilon: Decimal,
    releases: int = 1,
    selection_epsilon: Decimal | None = None,
) -> Decimal:
    """The least δ found with which the releases together are (ε, δ)-private, rounded up.

    Raises:
        InputRefused: ε or another value is out of range, or the least δ is 1.
    """
    _check(Target(epsilon=epsilon, delta=Decimal("0.5"), releases=releases, selection_epsilon=selection_epsilon))
    k, rate = mechanism.k, float_up(mechanism.sampling_rate)
    cost = None if selection_epsilon is None else selection_cost(selection_epsilon, selection_rate=None)
    point = np.array([float_down(divide_down(epsilon, releases))], dtype=np.float64)
    try:
        if cost is None:
            each = log_profile(k=k, sampling_rate=rate, epsilons=point)
        else:
            each = log_profile_selected(
                k=k, sampling_rate=rate, selection_epsilon=float_up(cost.epsilon), epsilons=point
            )
        best = multiply_up(decimal_up(exp_up(float(each[0]))), releases)
        if releases > 1:
            parts: dict[StronglySafeRelease | Guarantee, int] = {mechanism: releases}
            if cost is not None:
                parts[cost] = releases
            for resolution in _RESOLUTIONS:
                found = delta_composed(parts, epsilon=float_down(epsilon), resolution=resolution)
                if found >= 100.0 * resolution or resolution == _RESOLUTIONS[-1]:
                    best = min(best, decimal_up(found))
                    break
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault
    if best >= 1:
        raise InputRefused(
            f"at epsilon {epsilon} the least delta is 1: this guarantees nothing.", remedy="Raise epsilon or k."
        )
    return decimal_up(best)


def least_k_of_paper(
    *,
    sampling_rate: Decimal,
    epsilon: Decimal,
    delta: Decimal,
    releases: int = 1,
    selection_epsilon: Decimal | None = None,
) -> int | None:
    """The least k by the paper: d(k, β, ε/T − ε₁) ≤ δ/T; None where ε/T − ε₁ < −ln(1−β) or no k is found.

    Source: LQS, arXiv:1101.2604v2, Theorems 3.9 and 3.11.
    """
    rate, share = float_up(sampling_rate), float_down(divide_down(delta, releases))
    each = float_down(divide_down(epsilon, releases) - (selection_epsilon or Decimal(0)))
    if not rate < 1.0 or not each >= least_epsilon_of_paper(rate) or share <= 0.0:
        return None
    return first_whole(lambda k: delta_paper(k=k, sampling_rate=rate, epsilon=each), share, LARGEST_K)


def _mechanism(k: int, sampling_rate: Decimal) -> StronglySafeRelease:
    try:
        return StronglySafeRelease(k=k, sampling_rate=sampling_rate)
    except ValueError as fault:
        raise InputRefused(f"{fault}.") from fault


def _price_or_infinity(mechanism: StronglySafeRelease, target: Target) -> float:
    """The charged ε as a double, infinite where there is no finite price."""
    try:
        found = price_of(
            mechanism,
            delta=target.delta,
            releases=target.releases,
            selection_epsilon=target.selection_epsilon,
        )
    except InputRefused:
        return math.inf
    return float(found.epsilon)


def _cost(mechanism: StronglySafeRelease, target: Target) -> float:
    """What a search compares with `_allowed`: the charged ε, or for one release with a fixed map 0 or infinity.

    One release needs no price: whether δ(ε) is within δ is a single evaluation.
    """
    if target.releases > 1 or target.selection_epsilon is not None:
        return _price_or_infinity(mechanism, target)
    try:
        value = log_profile(
            k=mechanism.k,
            sampling_rate=float_up(mechanism.sampling_rate),
            epsilons=np.array([float_down(target.epsilon)], dtype=np.float64),
        )
    except ValueError:
        return math.inf
    return 0.0 if float(value[0]) <= log_down(target.delta) else math.inf


def _allowed(target: Target) -> float:
    return float_down(target.epsilon)


def _within(mechanism: StronglySafeRelease, target: Target) -> bool:
    """INVARIANT: what a search returns has been priced as it will be charged, and compared as exact decimals."""
    try:
        found = price_of(
            mechanism,
            delta=target.delta,
            releases=target.releases,
            selection_epsilon=target.selection_epsilon,
        )
    except InputRefused:
        return False
    return found.epsilon <= target.epsilon


def _check(target: Target) -> None:
    if not (target.epsilon.is_finite() and target.epsilon >= 0):
        raise InputRefused(f"epsilon must be finite and at least 0, not {target.epsilon}.")
    if not (target.delta.is_finite() and 0 < target.delta < 1):
        raise InputRefused(f"delta must lie strictly between 0 and 1, not {target.delta}.")
    if target.releases < 1:
        raise InputRefused(f"the number of releases must be at least 1, not {target.releases}.")
    if target.selection_epsilon is not None and not 0 < target.selection_epsilon < Decimal("1e6"):
        raise InputRefused(f"the selection's epsilon must be positive, not {target.selection_epsilon}.")
