"""The parameters that meet a target: least k, largest rate, most releases, and the frontier of all rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TypeVar

import numpy as np

from ....mechanisms.kernel.amounts import amount_exact
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ....mechanisms.wording import amount_left
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
from ...kinds.composition.series_game import MOST_RELEASES as LONGEST_GAME
from ...kinds.composition.series_game import delta_of_game
from ...kinds.microdata_prices import composed_price_fixed, price_fixed
from ...kinds.selected_microdata_prices import price_selected
from .searches import first_whole, last_real

LARGEST_K = 1 << 22
MOST_RELEASES = 1_000_000

_SHORT_GAME, _LONG_GAME = 50, 100
_USUAL_SHARE = 0.88
_MOST_SEARCHES = 4
_MOST_GRIDS = 4
_RATE_DIGITS = 5
_LOWEST_RATE = Decimal("1e-9")
_HIGHEST_RATE = Decimal("0.99999")
# How far a search goes for a k or a rate that fits into a filter budget.
_LARGEST_TRIED_K, _LOWEST_TRIED_RATE = 10_000, Decimal("1e-6")
_LARGE_K = 500

Share = Callable[[int, Decimal], float]
"""k and sampling rate → about the share of what is left that a release with them takes; at most 1 where it fits."""


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
    """Return the charged price at the target's δ, with or without a private choice of the map.

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


def _game_price_applies(target: Target) -> bool:
    """Return whether a search goes by the price of a game: it takes seconds, a composed price milliseconds.

    Games with draws of the map have the most moves: beyond `_LONG_GAME` draws and releases a search goes by composed
    prices, and what it finds is charged less than was asked for.
    """
    if target.draw is None or target.selection_draws is None:
        return target.choice is None and 1 < target.releases <= LONGEST_GAME
    return target.releases * (target.selection_draws + 1) <= _LONG_GAME


def _charged_share(mechanism: StronglySafeRelease, target: Target) -> float:
    """Return the charged price as a share of the composed one; 1 where no game is played."""
    if not _game_price_applies(target):
        return 1.0
    try:
        composed = price_of(mechanism, target, games=False).epsilon
        return float(price_of(mechanism, target).epsilon / composed) if composed else 1.0
    except InputRefused:
        return 1.0


Found = TypeVar("Found", int, Decimal)


def _search_by_charged_share(
    search: Callable[[float], Found | None], point: Callable[[Found], tuple[StronglySafeRelease, Target]], share: float
) -> Found | None:
    """Return what a search finds by the charged price, though few games are played.

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
        previous, found = found, search(_charged_share(*point(found)))
        if found == previous:
            break
    return found


def _parts_of(mechanism: StronglySafeRelease, target: Target) -> dict[Part, int]:
    """Return everything that a target's releases are composed of."""
    parts: dict[Part, int] = {mechanism: target.releases}
    if target.draw is not None and target.selection_draws is not None:
        parts[target.draw] = target.releases * target.selection_draws
    elif target.choice is not None:
        parts[target.choice] = target.releases
    return parts


def least_k(sampling_rate: Decimal, target: Target, *, near: int | None = None) -> int:
    """Return the least threshold k whose charged price is within the target.

    Args:
        sampling_rate: β.
        target: what is allowed.
        near: where the search begins, by the share that is charged there; None for no such k.

    Raises:
        InputRefused: a value out of range, or no k up to `LARGEST_K` is enough.
    """
    guess, share = near or 1, _USUAL_SHARE if target.releases > 1 else 1.0  # one is charged nearly the composed price
    if near is not None:
        share = _charged_share(_mechanism(near, sampling_rate), target)

    def search(share: float) -> int | None:
        nonlocal guess
        found = first_whole(
            lambda k: _search_cost(_mechanism(k, sampling_rate), target, share),
            float_down(target.epsilon),
            largest=LARGEST_K,
            guess=guess,
        )
        guess = found or 1
        return found

    k = _search_by_charged_share(search, lambda k: (_mechanism(k, sampling_rate), target), share)
    while k is not None and k <= LARGEST_K and not _within(_mechanism(k, sampling_rate), target):
        k += 1
    if k is None or k > LARGEST_K:
        raise InputRefused(
            f"no k up to {LARGEST_K} gives epsilon {amount_exact(target.epsilon)} and delta "
            f"{amount_exact(target.delta)} at sampling rate "
            f"{sampling_rate}.",
            remedy="Raise epsilon or delta, or ask for fewer releases.",
        )
    return k


def largest_sampling_rate(k: int, target: Target) -> Decimal:
    """Return the largest sampling rate of at most 5 significant digits whose charged price is within the target.

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

    def search(share: float) -> Decimal:
        rate = last_real(
            lambda rate: _search_cost(_mechanism(k, Decimal(rate)), target, share),
            float_down(target.epsilon),
            low=float(_LOWEST_RATE),
            high=float(_HIGHEST_RATE),
            precision=0.5 * 10.0**-_RATE_DIGITS,
        )
        return Context(prec=_RATE_DIGITS, rounding=ROUND_FLOOR).create_decimal(rate)

    share = _USUAL_SHARE if target.releases > 1 else 1.0
    rate = _search_by_charged_share(search, lambda rate: (_mechanism(k, rate), target), share) or _LOWEST_RATE
    while not _within(_mechanism(k, rate), target):
        rate = rate.next_minus(Context(prec=_RATE_DIGITS))
    return rate.normalize()


def most_releases(mechanism: StronglySafeRelease, target: Target, *, longest_game: int | None = None) -> int:
    """Return the greatest T whose charged price is within the target (its own `releases` is ignored), up to a million.

    Args:
        mechanism: the release.
        target: what is allowed.
        longest_game: no game of more releases is played, so that the answer is about that number, and soon there;
            None for the number itself.

    Raises:
        InputRefused: a value out of range, or not even one release fits.
    """

    def with_releases(releases: int) -> Target:
        return replace(target, releases=releases)

    if not _within(mechanism, with_releases(1)):
        raise InputRefused(
            f"not even one release with k = {mechanism.k} at sampling rate {mechanism.sampling_rate} fits into "
            f"epsilon {amount_exact(target.epsilon)} and delta {amount_exact(target.delta)}.",
            remedy="Raise k, epsilon or delta, or lower the rate.",
        )
    # The first T beyond the target is searched, by 1/ε, which falls with T.
    allowed = math.inf if target.epsilon == 0 else math.nextafter(1.0 / float_up(target.epsilon), 0.0)
    first_beyond: int | None = None

    def inverse_price(releases: int, share: float) -> float:
        epsilon = _composed_share(mechanism, with_releases(releases), share)
        return math.inf if epsilon == 0.0 else 1.0 / epsilon

    def search(share: float) -> int:
        nonlocal first_beyond
        first_beyond = first_whole(
            lambda releases: inverse_price(releases, share), allowed, largest=MOST_RELEASES, guess=first_beyond or 1
        )
        return MOST_RELEASES if first_beyond is None else max(first_beyond - 1, 1)

    short = min(search(_USUAL_SHARE), longest_game or _SHORT_GAME)
    share = _charged_share(mechanism, with_releases(short))
    if longest_game is not None:
        return search(share)
    most = _search_by_charged_share(search, lambda releases: (mechanism, with_releases(releases)), share) or 1
    while not _within(mechanism, with_releases(most)):
        most -= 1
    return most


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
    changes = _changes_that_fit(tunable(mechanism), epsilon=epsilon, delta=at, releases=releases)
    return _advice(left, changes, first="" if at == stated_delta else f"[privacy].delta = {amount_left(at)} and ")


def _changes_that_fit(tunable: Tunable, *, epsilon: Decimal, delta: Decimal, releases: int) -> list[str]:
    """Describe the largest rate and the least k that bring releases within ε and δ, as far as there are such."""
    changes: list[str] = []
    with suppress(InputRefused):
        target = Target(
            epsilon=epsilon,
            delta=delta,
            releases=releases,
            selection_epsilon=tunable.selection_epsilon,
            selection_rate=tunable.selection_rate,
            selection_draws=tunable.selection_draws,
        )
        with suppress(InputRefused):
            changes.append(f"a sampling rate of at most {largest_sampling_rate(tunable.release.k, target)}")
        changes.append(f"k of at least {least_k(tunable.release.sampling_rate, target)}")
    return changes


def advice_for_filter(mechanism: Mechanism, *, order: Decimal, divergence: Decimal, tail: Decimal, share: Share) -> str:
    """Advise on a charge that is past a filter budget, in sentences.

    Args:
        mechanism: what each release runs.
        order: α of the budget.
        divergence: what is left of D_α.
        tail: what is left of τ.
        share: what the charge with another k or rate would take; it rises with the rate and falls with k.
    """
    left = f"Left are {amount_left(divergence)} of divergence at order {order:f} and {amount_left(tail)} of tails."
    tunable = description_of(mechanism).tunable
    if tunable is None:
        return f"{left} Choose parameters that take less, or ask the data owner."
    release = tunable(mechanism).release
    changes = []
    if (rate := _largest_fitting_rate(release, share)) is not None:
        changes.append(f"a sampling rate of at most {amount_left(rate)}")
    if (k := _least_fitting_k(release, share)) is not None:
        changes.append(f"k of at least {k}")
    return _advice(left, changes)


def _advice(left: str, changes: Sequence[str], *, first: str = "") -> str:
    if not changes:
        return f"{left} No rate and no k would fit. Ask the data owner."
    return f"{left} With all else as it is, {first}{' or '.join(changes)} would fit. Or ask the data owner."


def _largest_fitting_rate(release: StronglySafeRelease, share: Share) -> Decimal | None:
    """Return the largest rate of three significant digits with which a release fits; None where none above 1e-6 is."""
    down = Context(prec=3, rounding=ROUND_FLOOR)

    def taken(rate: float) -> float:
        return share(release.k, down.create_decimal(rate))

    # Divergences rise about as the square of the rate, so that the search begins near its end.
    low, high = float_up(_LOWEST_TRIED_RATE), float(release.sampling_rate)
    lowest, near = low, high / math.sqrt(min(max(taken(high), 1.0), 1e12))
    for rate in (0.9 * near, 1.25 * near):
        if low < rate < high:
            low, high = (rate, high) if taken(rate) <= 1.0 else (low, rate)
    if low == lowest and taken(low) > 1.0:
        return None
    return down.create_decimal(last_real(taken, 1.0, low=low, high=high, precision=1e-4))


def _least_fitting_k(release: StronglySafeRelease, share: Share) -> int | None:
    """Return the least k with which a release fits; None where none that is tried does."""

    def taken(k: int) -> float:
        return share(k, release.sampling_rate)

    # Divergences of large k fall about as 1/k, so that the search for one begins near its end.
    guess = _LARGE_K
    for _ in range(2):
        guess = math.ceil(min(guess * max(taken(guess), 1.0), _LARGEST_TRIED_K))
    return first_whole(
        taken, 1.0, largest=_LARGEST_TRIED_K, guess=min(release.k, guess) if guess == _LARGE_K else guess
    )


def _mechanism(k: int, sampling_rate: Decimal) -> StronglySafeRelease:
    try:
        return StronglySafeRelease(k=k, sampling_rate=sampling_rate)
    except ValueError as fault:
        raise InputRefused(f"{fault}.") from fault


def _composed_share(mechanism: StronglySafeRelease, target: Target, share: float) -> float:
    """Return the composed ε, times a share where a game may be played; infinite where there is none."""
    try:
        composed = float(price_of(mechanism, target, games=False).epsilon)
    except InputRefused:
        return math.inf
    return share * composed if _game_price_applies(target) else composed


def _search_cost(mechanism: StronglySafeRelease, target: Target, share: float) -> float:
    """Return what a search compares with the target's ε; for one release 0 (fits) or infinity (does not).

    One release needs no price: whether δ(ε) is within δ is a single evaluation.
    """
    if target.releases > 1 or target.draw is not None:
        return _composed_share(mechanism, target, share)
    try:
        value = _log_delta_of_one(mechanism, target, epsilon=float_down(target.epsilon))
    except ValueError:
        return math.inf
    return 0.0 if value <= log_down(target.delta) else math.inf


def _within(mechanism: StronglySafeRelease, target: Target) -> bool:
    """Return whether the charged price is within the target.

    INVARIANT: everything that a search returns has passed this comparison, of exact decimals.
    """
    try:
        return price_of(mechanism, target, games=_game_price_applies(target)).epsilon <= target.epsilon
    except InputRefused:
        return False


def least_delta(mechanism: StronglySafeRelease, target: Target) -> Decimal:
    """Return the least δ found with which the target's releases together are (ε, δ)-private; its own δ is ignored.

    Raises:
        InputRefused: the parameters are beyond double precision, or the least δ is 1.
    """
    try:
        best = _sum_of_single(mechanism, target)
        if target.releases > 1 or target.draw is not None:
            best = min(best, _composed_delta(mechanism, target, resolution=float(best)))
        if target.choice is None and 1 < target.releases <= _LONG_GAME and target.epsilon > 0:
            best = min(best, _game_delta(mechanism, target, composed=best))
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
    """Return ln δ of one release at ε, with the target's choice of the map where it has one."""
    point, rate = np.array([epsilon], dtype=np.float64), float_up(mechanism.sampling_rate)
    if target.choice is None:
        log_deltas = log_profile(k=mechanism.k, sampling_rate=rate, epsilons=point)
    else:
        choice = float_up(target.choice.epsilon)
        log_deltas = log_profile_selected(k=mechanism.k, sampling_rate=rate, selection_epsilon=choice, epsilons=point)
    return float(log_deltas[0])


def _composed_delta(mechanism: StronglySafeRelease, target: Target, *, resolution: float) -> Decimal:
    """Return the composed δ at ε, on grids for a δ of the resolution, then for the δ that was found."""
    parts, epsilon = _parts_of(mechanism, target), float_down(target.epsilon)
    least, floor = math.inf, float(COMPOSED_FLOOR)
    for _ in range(_MOST_GRIDS):
        resolution = min(max(resolution, floor), 0.1)
        least = min(least, delta_composed(parts, epsilon=epsilon, resolution=resolution))
        if resolution / 10.0 <= least <= 10.0 * resolution:
            break
        resolution = least
    return decimal_up(least)


def _game_delta(mechanism: StronglySafeRelease, target: Target, *, composed: Decimal) -> Decimal:
    """Return δ of the game at ε, mostly below the composed one by an order or two; `composed` where there is none."""
    epsilon = float_down(target.epsilon)
    least, resolution = float_up(composed), float(composed) / 20.0
    for _ in range(2):
        if not float(COMPOSED_FLOOR) <= resolution < 1.0:
            break
        with suppress(ValueError):
            delta = delta_of_game(mechanism, releases=target.releases, epsilon=epsilon, resolution=resolution)
            least = least if delta is None else min(least, delta)
        if least >= resolution / 10.0:
            break
        resolution = least
    return decimal_up(least)


def _paper_epsilon_each(target: Target) -> float:
    """ε/T − ε₁ rounded down: what the paper leaves for one release."""
    spent = Decimal(0) if target.choice is None else target.choice.epsilon
    return float_down(add_up(divide_down(target.epsilon, target.releases), -spent).next_minus())


def delta_of_paper(mechanism: StronglySafeRelease, target: Target) -> Decimal | None:
    """Return T·d(k, β, ε/T − ε₁), at most 1; None where the paper proves nothing.

    Source: LQS, arXiv:1101.2604v2, Theorems 3.9 and 3.11.
    """
    rate, each = float_up(mechanism.sampling_rate), _paper_epsilon_each(target)
    if not rate < 1.0 or not each >= least_epsilon_of_paper(rate):
        return None
    bound = delta_paper(k=mechanism.k, sampling_rate=rate, epsilon=each)
    return min(decimal_up(multiply_up(decimal_up(bound), target.releases)), Decimal(1))


def least_k_of_paper(sampling_rate: Decimal, target: Target) -> int | None:
    """Return the least k by the paper: d(k, β, ε/T − ε₁) ≤ δ/T; None where it proves nothing or no k is found.

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
    """Return the least k at each of the rates; the least exact k rises with the rate."""
    points = []
    for rate in sampling_rates:
        try:
            exact: int | None = least_k(rate, target)
        except InputRefused:
            exact = None
        points.append(FrontierPoint(sampling_rate=rate, k_exact=exact, k_paper=least_k_of_paper(rate, target)))
    return tuple(points)
