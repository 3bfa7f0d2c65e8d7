"""The parameters that meet a target: least k, largest rate, most releases, and the frontier of all rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TypeVar

import numpy as np

from ....mechanisms.kernel.amounts import amount_exact, amount_left
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ...descriptions.description_registry import description_of
from ...descriptions.kind_description import Tunable
from ...kernel.prices.arithmetic import add_up, decimal_up, divide_down, float_down, float_up, log_down, multiply_up
from ...kernel.prices.mechanism_kind import Price
from ...kernel.prices.privacy_profile import exp_up, log_profile
from ...kinds.composition.amplification import Guarantee
from ...kinds.composition.bounded_range import BoundedRange
from ...kinds.composition.composed import COMPOSED_FLOOR, Part, delta_composed
from ...kinds.composition.paper_bound import delta_paper, least_epsilon_of_paper
from ...kinds.composition.private_choice import log_profile_selected, range_of_draw, selection_cost
from ...kinds.composition.series_game import MOST_RELEASES as MOST_PLAYED
from ...kinds.composition.series_game import delta_of_game
from ...kinds.microdata_prices import composed_price_fixed, price_fixed
from ...kinds.selected_microdata_prices import price_selected
from .estimates import estimated_log_delta
from .searches import first_whole, last_real

__all__ = [
    "LARGEST_K",
    "FrontierPoint",
    "Target",
    "advice_for_filter",
    "advice_for_price",
    "changes_that_fit",
    "delta_of_paper",
    "frontier",
    "largest_sampling_rate",
    "least_delta",
    "least_k",
    "least_k_of_paper",
    "most_releases",
    "parts_of",
    "price_of",
]

LARGEST_K = 1 << 22
MOST_RELEASES = 1_000_000

_SHORT_GAME, _LONG_GAME = 50, 100
_USUAL_SHARE = 0.88
_MOST_SEARCHES = 4
_RATE_DIGITS = 5
_LOWEST_RATE = Decimal("1e-9")
_HIGHEST_RATE = Decimal("0.99999")
_LARGEST_TRIED_K, _LOWEST_TRIED_RATE = 10_000, Decimal("1e-6")
"""How far is searched for what a filter budget has room for."""

Fits = Callable[[int, Decimal], bool]
"""k and sampling rate → whether a release that has them instead fits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What the releases may cost together, how many they are, and whether each chooses its map.

    Args:
        epsilon: ε over everything, at least 0.
        delta: δ over everything, 0 < δ < 1.
        releases: T ≥ 1.
        selection_epsilon: ε₁ > 0 of each choice of a map; None where the map is fixed.
        selection_rate: rate of the fresh sample of each choice; None where it is made on the whole data.
        selection_draws: how many draws of the exponential mechanism share ε₁ evenly; None for any private choice.

    Raises:
        InputRefused: a value is out of range.
    """

    epsilon: Decimal
    delta: Decimal
    releases: int = 1
    selection_epsilon: Decimal | None = None
    selection_rate: Decimal | None = None
    selection_draws: int | None = 1

    def __post_init__(self) -> None:
        """Refuse what no release could meet."""
        if not (self.epsilon.is_finite() and self.epsilon >= 0):
            raise InputRefused(f"epsilon must be finite and at least 0, not {self.epsilon}.")
        if not (self.delta.is_finite() and 0 < self.delta < 1):
            raise InputRefused(f"delta must lie strictly between 0 and 1, not {self.delta}.")
        if self.releases < 1:
            raise InputRefused(f"the number of releases must be at least 1, not {self.releases}.")
        if self.selection_epsilon is not None:
            selection_cost(self.selection_epsilon, selection_rate=self.selection_rate)
        elif self.selection_rate is not None:
            raise InputRefused("a selection's rate goes with a selection's epsilon.")

    @property
    def choice(self) -> Guarantee | None:
        """What one choice of a map costs, amplified by its sampling; None where the map is fixed."""
        if self.selection_epsilon is None:
            return None
        return selection_cost(self.selection_epsilon, selection_rate=self.selection_rate)

    @property
    def draw(self) -> BoundedRange | None:
        """Each draw of the choice; None where the map is fixed, or its choice has no bounded range."""
        if self.choice is None or self.selection_draws is None:
            return None
        return range_of_draw(self.choice.epsilon, draws=self.selection_draws)


def price_of(mechanism: StronglySafeRelease, target: Target, *, games: bool = True) -> Price:
    """The charged price at the target's δ, with or without a private choice of the map.

    Without `games` it is the composed one, which is there sooner.

    Raises:
        InputRefused: there is no finite price.
    """
    if target.selection_epsilon is None:
        priced = price_fixed if games else composed_price_fixed
        return priced(mechanism, delta=target.delta, releases=target.releases)
    return price_selected(
        mechanism,
        selection_epsilon=target.selection_epsilon,
        selection_rate=target.selection_rate,
        delta=target.delta,
        releases=target.releases,
        draws=target.selection_draws,
        games=games,
    )


def _may_be_played(target: Target) -> bool:
    """Whether a search goes by the price of a game, which takes seconds where a composed price takes milliseconds.

    Games with draws of the map have the most moves: beyond `_LONG_GAME` draws and releases a search goes by composed
    prices, and what it finds is charged less than was asked for.
    """
    if target.draw is None or target.selection_draws is None:
        return target.choice is None and 1 < target.releases <= MOST_PLAYED
    return target.releases * (target.selection_draws + 1) <= _LONG_GAME


def _usual_share(target: Target) -> float:
    """The share to begin a search with: one release after draws of its map is charged nearly the composed price."""
    return 1.0 if target.releases == 1 else _USUAL_SHARE


def _charged_share(mechanism: StronglySafeRelease, target: Target) -> float:
    """The charged price as a share of the composed one; 1 where no game is played."""
    if not _may_be_played(target):
        return 1.0
    try:
        composed = price_of(mechanism, target, games=False).epsilon
        return float(price_of(mechanism, target).epsilon / composed) if composed else 1.0
    except InputRefused:
        return 1.0


Found = TypeVar("Found", int, Decimal)


def _found_at_charged_share(
    search: Callable[[float], Found | None], point: Callable[[Found], tuple[StronglySafeRelease, Target]], share: float
) -> Found | None:
    """What a search finds by the charged price, though few games are played.

    The search goes by composed prices times the share of them that is charged. That share hardly changes from one
    number to the next: it is computed where the search ends, until it ends there again.

    Args:
        search: the share → what is found; None for nothing.
        point: what is found → the mechanism and the target that are priced.
        share: to begin with.
    """
    found = search(share)
    for _ in range(_MOST_SEARCHES):
        if found is None:
            return None
        before, found = found, search(_charged_share(*point(found)))
        if found == before:
            break
    return found


def parts_of(mechanism: StronglySafeRelease, target: Target) -> dict[Part, int]:
    """Everything that a target's releases are composed of."""
    parts: dict[Part, int] = {mechanism: target.releases}
    if target.draw is not None and target.selection_draws is not None:
        parts[target.draw] = target.releases * target.selection_draws
    elif target.choice is not None:
        parts[target.choice] = target.releases
    return parts


def least_k(sampling_rate: Decimal, target: Target, *, near: int | None = None) -> int:
    """The least threshold k whose charged price is within the target.

    Args:
        sampling_rate: β.
        target: what is allowed.
        near: a k near which the search may begin; None for no such.

    Raises:
        InputRefused: a value out of range, or no k up to `LARGEST_K` is enough.
    """
    guess = near or 1
    if (target.releases > 1 or target.draw is not None) and target.choice is not None:
        guess = (
            first_whole(lambda k: _hardness(_mechanism(k, sampling_rate), target), _soft(target), largest=LARGEST_K)
            or 1
        )
    found = _found_at_charged_share(
        lambda share: first_whole(
            lambda k: _cost(_mechanism(k, sampling_rate), target, share), _hard(target), largest=LARGEST_K, guess=guess
        ),
        lambda k: (_mechanism(k, sampling_rate), target),
        _usual_share(target) if near is None else _charged_share(_mechanism(near, sampling_rate), target),
    )
    while found is not None and found <= LARGEST_K and not _within(_mechanism(found, sampling_rate), target):
        found += 1
    if found is None or found > LARGEST_K:
        raise InputRefused(
            f"no k up to {LARGEST_K} gives epsilon {amount_exact(target.epsilon)} and delta "
            f"{amount_exact(target.delta)} at sampling rate "
            f"{sampling_rate}.",
            remedy="Raise epsilon or delta, or ask for fewer releases.",
        )
    return found


def largest_sampling_rate(k: int, target: Target) -> Decimal:
    """The largest sampling rate of at most 5 significant digits whose charged price is within the target.

    Raises:
        InputRefused: a value out of range, or no rate of at least 1e-9 is low enough.
    """
    if _within(_mechanism(k, _HIGHEST_RATE), target):
        return _HIGHEST_RATE
    if not _within(_mechanism(k, _LOWEST_RATE), target):
        raise InputRefused(
            f"no sampling rate of at least {amount_exact(_LOWEST_RATE)} gives epsilon "
            f"{amount_exact(target.epsilon)} and delta {amount_exact(target.delta)} "
            f"with k = {k}.",
            remedy="Raise k, epsilon or delta.",
        )

    rate = _found_at_charged_share(
        lambda share: _largest_rate(k, target, share), lambda rate: (_mechanism(k, rate), target), _usual_share(target)
    )
    rate = _LOWEST_RATE if rate is None else rate
    unit = _unit(rate)
    while not _within(_mechanism(k, rate), target):
        rate -= unit
    return rate.normalize()


def _largest_rate(k: int, target: Target, share: float) -> Decimal:
    """The largest rate by a share of composed prices, cut to its digits; both ends of the range are known to differ."""

    def cost(rate: float) -> float:
        return _cost(_mechanism(k, Decimal(rate)), target, share)

    low, high = float(_LOWEST_RATE), float(_HIGHEST_RATE)
    if (target.releases > 1 or target.draw is not None) and target.choice is not None:
        near = last_real(
            lambda rate: _hardness(_mechanism(k, Decimal(rate)), target),
            _soft(target),
            low=low,
            high=high,
            precision=1e-3,
        )
        below, above = max(near * 0.995, low), min(near * 1.005, high)
        low = below if cost(below) <= _hard(target) else low
        high = above if cost(above) > _hard(target) else high
    rate = Decimal(last_real(cost, _hard(target), low=low, high=high, precision=0.5 * 10.0**-_RATE_DIGITS))
    return rate.quantize(_unit(rate), rounding=ROUND_FLOOR)


def _unit(rate: Decimal) -> Decimal:
    """The last digit of a rate."""
    return Decimal(1).scaleb(rate.adjusted() - _RATE_DIGITS + 1)


def most_releases(mechanism: StronglySafeRelease, target: Target, *, longest_game: int | None = None) -> int:
    """The greatest T whose charged price is within the target (its own `releases` is ignored), up to a million.

    Args:
        mechanism: the release.
        target: what is allowed.
        longest_game: no game of more releases is played, so that the answer is about that number, and soon there;
            None for the number itself.

    Raises:
        InputRefused: a value out of range, or not even one release fits.
    """

    def many(releases: int) -> Target:
        return replace(target, releases=releases)

    def inverse(cost: float) -> float:
        return math.inf if cost == 0.0 else 1.0 / cost

    if not _within(mechanism, many(1)):
        raise InputRefused(
            f"not even one release with k = {mechanism.k} at sampling rate {mechanism.sampling_rate} fits into "
            f"epsilon {amount_exact(target.epsilon)} and delta {amount_exact(target.delta)}.",
            remedy="Raise k, epsilon or delta, or lower the rate.",
        )
    # The first T beyond the target, less one: the cost turned over falls with T.
    allowed = math.inf if target.epsilon == 0 else math.nextafter(1.0 / float_up(target.epsilon), 0.0)
    near = None
    if target.epsilon > 0 and target.choice is not None:
        near = first_whole(
            lambda releases: inverse(_hardness(mechanism, many(releases))),
            1.0 / _soft(target),
            largest=MOST_RELEASES,
        )

    def search(share: float) -> int:
        nonlocal near
        beyond = first_whole(
            lambda releases: inverse(_priced(mechanism, many(releases), share)),
            allowed,
            largest=MOST_RELEASES,
            guess=near or 1,
        )
        near = beyond
        return MOST_RELEASES if beyond is None else max(beyond - 1, 1)

    short = min(search(_USUAL_SHARE), longest_game or _SHORT_GAME)
    share = _charged_share(mechanism, many(short))
    if longest_game is not None:
        return search(share)
    found = _found_at_charged_share(search, lambda releases: (mechanism, many(releases)), share) or 1
    while not _within(mechanism, many(found)):
        found -= 1
    return found


def changes_that_fit(tunable: Tunable, *, epsilon: Decimal, delta: Decimal, releases: int) -> tuple[str, ...]:
    """The largest rate and the least k that bring releases within ε and δ, all else as it is, as far as there are such.

    Args:
        tunable: the release.
        epsilon: ε over everything.
        delta: δ over everything.
        releases: T ≥ 1.
    """
    changes: list[str] = []
    try:
        target = Target(
            epsilon=epsilon,
            delta=delta,
            releases=releases,
            selection_epsilon=tunable.selection_epsilon,
            selection_rate=tunable.selection_rate,
            selection_draws=tunable.selection_draws,
        )
    except InputRefused:
        return ()
    with suppress(InputRefused):
        changes.append(f"a sampling rate of at most {largest_sampling_rate(tunable.release.k, target)}")
    with suppress(InputRefused):
        changes.append(f"k of at least {least_k(tunable.release.sampling_rate, target)}")
    return tuple(changes)


def advice_for_price(
    mechanism: Mechanism,
    *,
    epsilon: Decimal,
    delta: Decimal,
    stated_delta: Decimal,
    releases: int,
    rows_per_person: int,
) -> str:
    """Advise on releases whose price is past a budget, in sentences.

    Args:
        mechanism: what each release runs.
        epsilon: what is left of ε.
        delta: what is left of δ.
        stated_delta: the δ that the price is for.
        releases: how many the price covers.
        rows_per_person: the most records of one person that the price covers.
    """
    left = f"Left are ε = {amount_left(epsilon)} and δ = {amount_left(delta)}."
    tunable = description_of(mechanism).tunable if rows_per_person == 1 else None
    if tunable is None:
        return f"{left} Lower the rate, raise k, or ask the data owner."
    at = min(stated_delta, delta)
    changes = changes_that_fit(tunable(mechanism), epsilon=epsilon, delta=at, releases=releases)
    return _advice(left, changes, first="" if at == stated_delta else f"[privacy].delta = {amount_left(at)} and ")


def advice_for_filter(mechanism: Mechanism, *, order: Decimal, divergence: Decimal, tail: Decimal, fits: Fits) -> str:
    """Advise on a charge that is past a filter budget, in sentences.

    Args:
        mechanism: what each release runs.
        order: α of the budget.
        divergence: what is left of D_α.
        tail: what is left of τ.
        fits: whether the charge with another k or rate would fit; it falls with the rate and rises with k.
    """
    left = f"Left are {amount_left(divergence)} of divergence at order {order:f} and {amount_left(tail)} of tails."
    tunable = description_of(mechanism).tunable
    if tunable is None:
        return f"{left} Choose parameters that take less, or ask the data owner."
    release = tunable(mechanism).release
    rate, k = _largest_fitting_rate(release, fits), _least_fitting_k(release, fits)
    changes = [] if rate is None else [f"a sampling rate of at most {amount_left(rate)}"]
    return _advice(left, changes if k is None else [*changes, f"k of at least {k}"])


def _advice(left: str, changes: Sequence[str], *, first: str = "") -> str:
    if not changes:
        return f"{left} No rate and no k would fit. Ask the data owner."
    return f"{left} With all else as it is, {first}{' or '.join(changes)} would fit. Or ask the data owner."


def _least_fitting_k(release: StronglySafeRelease, fits: Fits) -> int | None:
    """Return the least k up to `_LARGEST_TRIED_K` with which a release fits; None where there is none."""
    low, high = release.k, 2 * release.k
    while not fits(min(high, _LARGEST_TRIED_K), release.sampling_rate):
        if high >= _LARGEST_TRIED_K:
            return None
        low, high = high, 2 * high
    high = min(high, _LARGEST_TRIED_K)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle, release.sampling_rate) else (middle, high)
    return high


def _largest_fitting_rate(release: StronglySafeRelease, fits: Fits) -> Decimal | None:
    """Return the largest rate of three significant digits with which a release fits; None where none above 1e-6 is."""
    down = Context(prec=3, rounding=ROUND_FLOOR)
    low, high = release.sampling_rate / 2, release.sampling_rate
    while not fits(release.k, down.plus(low)):
        if low < _LOWEST_TRIED_RATE:
            return None
        low, high = low / 2, low
    while (middle := down.plus((low + high) / 2)) not in (down.plus(low), down.plus(high)):
        low, high = (middle, high) if fits(release.k, middle) else (low, middle)
    return down.plus(low)


def _mechanism(k: int, sampling_rate: Decimal) -> StronglySafeRelease:
    try:
        return StronglySafeRelease(k=k, sampling_rate=sampling_rate)
    except ValueError as fault:
        raise InputRefused(f"{fault}.") from fault


def _priced(mechanism: StronglySafeRelease, target: Target, share: float) -> float:
    """The charged ε, or a share of the composed one where a game may be played; infinite where there is none."""
    try:
        composed = float(price_of(mechanism, target, games=False).epsilon)
    except InputRefused:
        return math.inf
    return share * composed if _may_be_played(target) else composed


def _cost(mechanism: StronglySafeRelease, target: Target, share: float) -> float:
    """What a search compares with `_hard`: ε as `_priced` has it, or for one release 0 (fits) or infinity (does not).

    One release needs no price: whether δ(ε) is within δ is a single evaluation.
    """
    if target.releases > 1 or target.draw is not None:
        return _priced(mechanism, target, share)
    try:
        value = _log_delta_of_one(mechanism, target, epsilon=float_down(target.epsilon))
    except ValueError:
        return math.inf
    return 0.0 if value <= log_down(target.delta) else math.inf


def _hard(target: Target) -> float:
    return float_down(target.epsilon)


def _hardness(mechanism: StronglySafeRelease, target: Target) -> float:
    """About 1/ln(1/δ(ε)): falls with k by a power law, rises with the rate and the number of releases."""
    try:
        estimate = estimated_log_delta(
            parts_of(mechanism, target),
            epsilon=max(float(target.epsilon), 1e-300),
            negligible=math.exp(max(log_down(target.delta), -600.0)) * 1e-4 / target.releases,
        )
    except ValueError:
        return math.inf
    return math.inf if estimate >= 0.0 else -1.0 / estimate


def _soft(target: Target) -> float:
    return -1.0 / log_down(target.delta)


def _within(mechanism: StronglySafeRelease, target: Target) -> bool:
    """INVARIANT: what a search returns is charged at most what was compared, as exact decimals, with the target."""
    try:
        return price_of(mechanism, target, games=_may_be_played(target)).epsilon <= target.epsilon
    except InputRefused:
        return False


def least_delta(mechanism: StronglySafeRelease, target: Target) -> Decimal:
    """The least δ found with which the target's releases together are (ε, δ)-private (its own δ is ignored).

    Raises:
        InputRefused: the parameters are beyond double precision, or the least δ is 1.
    """
    try:
        best = _sum_of_single(mechanism, target)
        if target.releases > 1 or target.draw is not None:
            best = min(best, _composed(mechanism, target))
        if target.choice is None and _may_be_played(target) and target.releases <= _LONG_GAME and target.epsilon > 0:
            best = min(best, _played(mechanism, target, composed=best))
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault
    if best >= 1:
        raise InputRefused(
            f"at epsilon {amount_exact(target.epsilon)} the least delta is 1: this guarantees nothing.",
            remedy="Raise epsilon or k.",
        )
    return decimal_up(best)


def _sum_of_single(mechanism: StronglySafeRelease, target: Target) -> Decimal:
    each = _log_delta_of_one(mechanism, target, epsilon=float_down(divide_down(target.epsilon, target.releases)))
    return multiply_up(decimal_up(exp_up(each)), target.releases)


def _log_delta_of_one(mechanism: StronglySafeRelease, target: Target, *, epsilon: float) -> float:
    """ln δ of one release at ε, with the target's choice of the map where it has one."""
    point, rate = np.array([epsilon], dtype=np.float64), float_up(mechanism.sampling_rate)
    if target.choice is None:
        found = log_profile(k=mechanism.k, sampling_rate=rate, epsilons=point)
    else:
        choice = float_up(target.choice.epsilon)
        found = log_profile_selected(k=mechanism.k, sampling_rate=rate, selection_epsilon=choice, epsilons=point)
    return float(found[0])


def _composed(mechanism: StronglySafeRelease, target: Target) -> Decimal:
    parts = parts_of(mechanism, target)
    epsilon = float_down(target.epsilon)
    floor = float(COMPOSED_FLOOR)
    estimate = estimated_log_delta(parts, epsilon=max(epsilon, 1e-300), negligible=floor * 1e-4 / target.releases)
    resolution = min(max(math.exp(estimate), floor), 0.1)
    found = delta_composed(parts, epsilon=epsilon, resolution=resolution)
    if not resolution / 10.0 <= found <= 10.0 * resolution:
        resolution = min(max(found, floor), 0.1)
        found = min(found, delta_composed(parts, epsilon=epsilon, resolution=resolution))
    return decimal_up(found)


def _played(mechanism: StronglySafeRelease, target: Target, *, composed: Decimal) -> Decimal:
    """δ of the game at ε; `composed` where there is none. It is mostly below the composed one by an order or two."""
    epsilon = float_down(target.epsilon)
    found, resolution = float_up(composed), float(composed) / 20.0
    for _ in range(2):
        if not float(COMPOSED_FLOOR) <= resolution < 1.0:
            break
        with suppress(ValueError):
            played = delta_of_game(mechanism, releases=target.releases, epsilon=epsilon, resolution=resolution)
            found = found if played is None else min(found, played)
        if found >= resolution / 10.0:
            break
        resolution = found
    return decimal_up(found)


def _paper_epsilon_each(target: Target) -> float:
    """ε/T − ε₁ rounded down: what the paper leaves for one release."""
    spent = Decimal(0) if target.choice is None else target.choice.epsilon
    return float_down(add_up(divide_down(target.epsilon, target.releases), -spent).next_minus())


def delta_of_paper(mechanism: StronglySafeRelease, target: Target) -> Decimal | None:
    """T·d(k, β, ε/T − ε₁), at most 1; None where the paper proves nothing.

    Source: LQS, arXiv:1101.2604v2, Theorems 3.9 and 3.11.
    """
    rate, each = float_up(mechanism.sampling_rate), _paper_epsilon_each(target)
    if not rate < 1.0 or not each >= least_epsilon_of_paper(rate):
        return None
    bound = delta_paper(k=mechanism.k, sampling_rate=rate, epsilon=each)
    return min(decimal_up(multiply_up(decimal_up(bound), target.releases)), Decimal(1))


def least_k_of_paper(sampling_rate: Decimal, target: Target) -> int | None:
    """The least k by the paper: d(k, β, ε/T − ε₁) ≤ δ/T; None where it proves nothing or no k is found.

    Source: LQS, arXiv:1101.2604v2, Theorems 3.9 and 3.11.
    """
    rate, each = float_up(sampling_rate), _paper_epsilon_each(target)
    share = float_down(divide_down(target.delta, target.releases))
    if not rate < 1.0 or not each >= least_epsilon_of_paper(rate) or share <= 0.0:
        return None

    def cost(k: int) -> float:
        return 0.0 if delta_paper(k=k, sampling_rate=rate, epsilon=each) <= share else math.inf

    return first_whole(cost, share, largest=LARGEST_K)


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierPoint:
    """One sampling rate with the least thresholds that meet a target; None where none does.

    Args:
        sampling_rate: β.
        k_exact: least k by the charged price.
        k_paper: least k by the paper (LQS, arXiv:1101.2604v2, Theorem 3.9).
    """

    sampling_rate: Decimal
    k_exact: int | None
    k_paper: int | None


def frontier(target: Target, *, sampling_rates: Sequence[Decimal]) -> tuple[FrontierPoint, ...]:
    """The least k at each of the rates; the least exact k rises with the rate."""
    points = []
    for rate in sampling_rates:
        try:
            exact: int | None = least_k(rate, target)
        except InputRefused:
            exact = None
        points.append(FrontierPoint(sampling_rate=rate, k_exact=exact, k_paper=least_k_of_paper(rate, target)))
    return tuple(points)
