"""What a release of microdata from a fresh sample costs: its map fixed, or chosen privately for that release."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.amounts import amount_exact, amount_of_log10
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.microdata import EpsilonSafeRelease, ExponentialSafeRelease, StronglySafeRelease
from ...mechanisms.map_selection.choice import QUALITY, group_threshold
from ..kernel.prices.amplification import Guarantee, amplified
from ..kernel.prices.arithmetic import (
    add_up,
    decimal_up,
    divide_down,
    divide_up,
    float_down,
    float_up,
    log_down,
    multiply_up,
)
from ..kernel.prices.bounded_range import BoundedRange
from ..kernel.prices.group_privacy import best_split, even_group_price, no_price_for_group, rule_for_group
from ..kernel.prices.loss_distribution import COMPOSED_FLOOR, Part, epsilon_composed
from ..kernel.prices.mechanism_kind import (
    CHOSEN,
    RELATION,
    Curves,
    MechanismKind,
    Price,
    PrivacyCurve,
    Published,
    RecordForm,
    Selection,
    Statements,
    Tunable,
    check_request,
    filter_parts_of_one,
)
from ..kernel.prices.privacy_profile import (
    check_parameters,
    delta_paper,
    epsilon_of_log_delta,
    epsilon_paper,
    farthest_epsilon,
    least_epsilon_of_paper,
    log_adding,
    log_profile,
    log_removing,
)
from ..kernel.prices.series_game import curve_of_drawn_game, epsilon_of_drawn_game, epsilon_of_game

__all__ = [
    "BOUNDED_RANGE",
    "EPSILON_SAFE",
    "EXACT_PROFILE",
    "RECORDS",
    "SERIES",
    "STRONGLY_SAFE",
    "composed_price_fixed",
    "group_price_fixed",
    "log_profile_selected",
    "paper_price_fixed",
    "paper_price_selected",
    "price_fixed",
    "price_selected",
    "range_of_draw",
    "selection_cost",
]

DONE = (
    "The records were sampled with fresh independent coins, recoded with {map}, and groups of fewer than k sampled "
    "records were left out."
)
SERIES = (
    "Each release sampled the records with fresh independent coins, recoded them with {map}, and left groups of fewer "
    "than k sampled records out."
)
EXACT_PROFILE = "Li, Qardaji, Su, arXiv:1101.2604v2, Section 3; exact form proved in docs/proofs"
RECORDS = Published("group", "groups", "record")
_FIXED_MAP = "a map that was fixed before they were read"


def price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price:
    """What is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    One release costs its exact profile ("exact-profile/1", docs/proofs/exact-profile.md). Several cost what an
    adversary can reach who picks each release's groups by the outputs before it ("series-game/1"), or, where that is
    smaller or the game too long, their composed privacy losses ("pld/1"), or the sum of the exact profiles at δ/T where
    that is smaller or δ is below the floor of composed prices ("basic-exact/1"; docs/proofs/composition.md).

    Args:
        mechanism: the release; its rate is rounded up to a double, since δ grows with the rate.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.

    Raises:
        InputRefused: δ or T is out of range, no finite ε has this δ, or the parameters are beyond double precision.
    """
    return _priced(mechanism, delta, releases, games=True)


def composed_price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price:
    """As `price_fixed`, without a game: what earlier versions charged for a series."""
    return _priced(mechanism, delta, releases, games=False)


def _priced(mechanism: StronglySafeRelease, delta: Decimal, releases: int, *, games: bool) -> Price:
    check_request(delta, releases)
    found: float | Decimal | None
    if releases == 1:
        found, rule = _epsilon(mechanism, log_delta=log_down(delta)), "exact-profile/1"
    else:
        found, rule = _epsilon_of_series(mechanism, delta, releases)
        if games and rule == "pld/1" and (game := _epsilon_of_game(mechanism, delta, releases, float(found or 0))):
            found, rule = game, "series-game/1"
    if found is None:
        raise no_finite_price(mechanism, delta)
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule=rule, releases=releases)


def paper_price_fixed(mechanism: StronglySafeRelease, *, delta: Decimal, releases: int = 1) -> Price | None:
    """The price by the paper alone: δ split evenly over the releases, ε added up; None where it has none.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9.

    Raises:
        InputRefused: δ or the number of releases is out of range.
    """
    check_request(delta, releases)
    share = float_down(divide_down(delta, releases))
    rate = float_up(mechanism.sampling_rate)
    if share <= 0.0 or rate >= 1.0:
        return None
    found = epsilon_paper(k=mechanism.k, sampling_rate=rate, delta=share)
    if found is None:
        return None
    return Price(
        epsilon=decimal_up(multiply_up(decimal_up(found), releases)),
        delta=delta,
        relation=RELATION,
        rule="lqs-theorem-3.9/1",
        releases=releases,
    )


@lru_cache(maxsize=1024)  # whoever charges prices again what the specification has priced
def _epsilon(mechanism: StronglySafeRelease, *, log_delta: float) -> float | None:
    try:
        return epsilon_of_log_delta(k=mechanism.k, sampling_rate=float_up(mechanism.sampling_rate), log_delta=log_delta)
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault


@lru_cache(maxsize=1024)
def _epsilon_of_series(
    mechanism: StronglySafeRelease, delta: Decimal, releases: int
) -> tuple[float | Decimal | None, str]:
    share = log_down(divide_down(delta, releases))
    composed: float | None = None
    if delta >= COMPOSED_FLOOR:
        # A curve that can't be put on a grid is no fault of the request: the sum is a price too.
        with suppress(ValueError):
            composed = epsilon_composed({mechanism: releases}, delta=float_down(delta))
    if composed is not None:
        point = np.array([composed / releases], dtype=np.float64)
        rate = float_up(mechanism.sampling_rate)
        if float(log_profile(k=mechanism.k, sampling_rate=rate, epsilons=point)[0]) > share:
            return composed, "pld/1"
    each = _epsilon(mechanism, log_delta=share)
    return None if each is None else multiply_up(decimal_up(each), releases), "basic-exact/1"


@lru_cache(maxsize=1024)
def _epsilon_of_game(mechanism: StronglySafeRelease, delta: Decimal, releases: int, composed: float) -> float | None:
    """The game's ε where it is below the composed one, which was found before; None elsewhere."""
    try:
        found = epsilon_of_game(mechanism, releases=releases, delta=float_down(delta), composed=composed)
    except ValueError:
        return None  # what a game's grid can't hold has a composed price all the same
    return found if found is not None and found < composed else None


def no_finite_price(mechanism: StronglySafeRelease, delta: Decimal) -> InputRefused:
    """The refusal of a δ that no ε is enough for."""
    floor = amount_of_log10(mechanism.k * float(mechanism.sampling_rate.log10()))
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with k = {mechanism.k} at sampling "
        f"rate {mechanism.sampling_rate}: "
        f"delta must be above rate^k, about {floor} (for each release).",
        remedy="Raise k or delta, or lower the rate.",
    )


def release_curve(
    mechanism: StronglySafeRelease,
    *,
    log_delta: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    choice: float = 0.0,
) -> PrivacyCurve:
    """The curve of a release, of whose ε the choice of its map may have taken a part.

    The paper's δ is that of LQS, arXiv:1101.2604v2, Theorem 3.9; after a choice of the map that of what Theorem 3.11
    leaves for the release.

    Args:
        mechanism: the release.
        log_delta: ε of shape (n,) → ln δ by its exact profile, the choice included.
        choice: ε of the choice of the map; 0 where it is fixed.
    """
    k, rate = mechanism.k, float_up(mechanism.sampling_rate)
    least = least_epsilon_of_paper(rate)

    def by_the_paper(epsilon: float) -> float | None:
        left = math.nextafter(epsilon - choice, -math.inf) if choice else epsilon
        return delta_paper(k=k, sampling_rate=rate, epsilon=left) if left >= least else None

    farthest = choice + 2.0 * max(math.log(k) + math.log1p(-rate), least, 0.05)
    return PrivacyCurve(log_delta=log_delta, delta_paper=by_the_paper, farthest=farthest)


def _fixed_price(mechanism: StronglySafeRelease, delta: Decimal, releases: int) -> Price:
    return price_fixed(mechanism, delta=delta, releases=releases)


def group_price_fixed(mechanism: StronglySafeRelease, delta: Decimal, releases: int, records: int) -> Price:
    """The price for M records of a person: for one release by the best split of ε over them.

    Args:
        mechanism: the release.
        delta: δ over all releases together.
        releases: T ≥ 1.
        records: M > 1.

    Raises:
        InputRefused: as `price_fixed`.
    """
    if releases != 1:
        return even_group_price(_fixed_price)(mechanism, delta, releases, records)
    check_request(delta, releases)
    k, rate = mechanism.k, float_up(mechanism.sampling_rate)
    try:
        found = best_split(
            lambda epsilons: log_profile(k=k, sampling_rate=rate, epsilons=epsilons),
            delta=delta,
            records=records,
            largest_epsilon=farthest_epsilon(k=k, sampling_rate=rate),
        )
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault
    if found is None:
        raise no_price_for_group(delta, records)
    rule = rule_for_group("exact-profile/1", even=False)
    return Price(
        epsilon=decimal_up(found), delta=delta, relation=RELATION, rule=rule, releases=1, rows_per_person=records
    )


def _fixed_composed_price(mechanism: StronglySafeRelease, delta: Decimal, releases: int) -> Price:
    return composed_price_fixed(mechanism, delta=delta, releases=releases)


def _fixed_earlier_price(mechanism: StronglySafeRelease, delta: Decimal, releases: int, records: int) -> Price:
    """What earlier versions charged for a series."""
    if records == 1:
        return _fixed_composed_price(mechanism, delta, releases)
    return even_group_price(_fixed_composed_price)(mechanism, delta, releases, records)


def _fixed_curve(mechanism: StronglySafeRelease) -> PrivacyCurve:
    rate = float_up(mechanism.sampling_rate)
    return release_curve(
        mechanism, log_delta=lambda epsilons: log_profile(k=mechanism.k, sampling_rate=rate, epsilons=epsilons)
    )


STRONGLY_SAFE: MechanismKind[StronglySafeRelease] = MechanismKind(
    records={"strongly-safe-release/1": RecordForm(mechanism=StronglySafeRelease)},
    pure=False,
    price=_fixed_price,
    group_price=group_price_fixed,
    paper_price=lambda mechanism, delta, releases: paper_price_fixed(mechanism, delta=delta, releases=releases),
    losses=lambda mechanism: (mechanism,),
    filter_parts=filter_parts_of_one(lambda mechanism: (mechanism,)),
    curves=Curves(theorem="Theorem 3.9", of=_fixed_curve),
    tunable=lambda mechanism: Tunable(mechanism, None, None, None),
    selection=None,
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={"pld/1": _fixed_earlier_price, "basic-exact/1": _fixed_earlier_price},
    theorems={
        "lqs-theorem-3.9/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.9",
        "exact-profile/1": EXACT_PROFILE,
        "basic-exact/1": f"{EXACT_PROFILE}, the releases' costs added up",
        "pld/1": f"{EXACT_PROFILE}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        "series-game/1": f"{EXACT_PROFILE}; of a series in docs/proofs/composition.md, The game",
    },
    statements=Statements(
        done=lambda _: DONE.format(map=_FIXED_MAP),
        proved=lambda *_: "",
        chosen=CHOSEN,
        series=SERIES.format(map=_FIXED_MAP),
        published=RECORDS,
    ),
)


_BISECTIONS = 200
_LOG_SLACK = 1e-13
_DRAWN_RESOLUTION = 1e-9
_DRAWN_MAP = (
    "a map that was drawn privately, before they were sampled, from candidates declared before any record was read; "
    "what the draw costs is part of epsilon and delta"
)
_THEOREM = "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11"
_EXACT = f"{_THEOREM}; exact form proved in docs/proofs/selection.md"
BOUNDED_RANGE = "with the draws' bounded range, proved in docs/proofs/bounded-range.md"


def selection_cost(selection_epsilon: Decimal, *, selection_rate: Decimal | None) -> Guarantee:
    """What the choice of one map costs: ε₁ on the whole data, ln(1 + β_s(e^{ε₁} − 1)) on a fresh sample at rate β_s.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.11 and Theorem 1. The caller promises that the choice is
    ε₁-private under add/remove, and that it is made on the whole data with coins of its own, or on a sample that
    serves nothing else; never on the release's own sample (docs/proofs/selection.md).

    Raises:
        InputRefused: ε₁ is not positive, or the rate is out of range.
    """
    if not (selection_epsilon.is_finite() and selection_epsilon > 0):
        raise InputRefused(f"the selection's epsilon must be positive, not {selection_epsilon}.")
    whole = Guarantee(epsilon=selection_epsilon, delta=Decimal(0))
    if selection_rate is None:
        return whole
    return amplified(whole, from_rate=Decimal(1), to_rate=selection_rate)


def log_profile_selected(
    *, k: int, sampling_rate: float, selection_epsilon: float, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Upper bounds on ln δ(ε) of an ε₁-private choice followed by the release, for ε ≥ 0, both directions.

    With p = e^{ε₁}/(1 + e^{ε₁}) and δ± the release's profile in one direction, δ(ε) = p·δ±(ε − ε₁) + (1−p)·δ±(ε + ε₁)
    (docs/proofs/selection.md). The shape is that of the ε.

    Raises:
        ValueError: parameters out of range.
    """
    check_parameters(k, sampling_rate)
    likely = -math.log1p(math.exp(-selection_epsilon))
    # Both curves fall, so that arguments rounded down are outward.
    low = np.nextafter(epsilons - selection_epsilon, -np.inf)
    high = np.nextafter(epsilons + selection_epsilon, 0.0)
    curves = []
    for ahead, behind in ((log_adding, log_removing), (log_removing, log_adding)):
        forward = ahead(k=k, sampling_rate=sampling_rate, epsilons=np.abs(low))
        backward = behind(k=k, sampling_rate=sampling_rate, epsilons=np.abs(low))
        negative = np.minimum(low, 0.0)
        with np.errstate(divide="ignore"):
            mirrored = np.logaddexp(np.log(-np.expm1(negative)), negative + backward)
        near = np.where(low >= 0.0, forward, mirrored) + likely
        far = ahead(k=k, sampling_rate=sampling_rate, epsilons=high) + likely - selection_epsilon
        curves.append(np.logaddexp(near, far))
    # The logarithms of the two weights and of the sums err by a few units in the last place.
    return np.minimum(np.maximum(curves[0], curves[1]) + _LOG_SLACK * (1.0 + selection_epsilon), 0.0)


def price_selected(
    mechanism: StronglySafeRelease,
    *,
    selection_epsilon: Decimal,
    selection_rate: Decimal | None,
    delta: Decimal,
    releases: int = 1,
    draws: int | None = None,
    games: bool = True,
) -> Price:
    """What is charged for `releases` rounds of choosing a map and releasing with it on a fresh sample.

    One round costs its exact mixture of profiles ("exact-profile-selection/1"), several their composed losses
    ("pld-selection/1"), or the sum ε₁·T + the release's price where that is smaller ("basic-selection/1"). Where the
    map is drawn by exponential mechanisms, it costs the least of these and what an adversary reaches who picks each
    draw's and each release's worst pair by the outputs before it ("bounded-range-game/1"), or the composed losses of
    draws of bounded range and releases ("bounded-range-pld/1"; docs/proofs/bounded-range.md).

    Args:
        mechanism: the release.
        selection_epsilon: ε₁ of one choice.
        selection_rate: rate of the choice's own fresh sample; None where it is made on the whole data.
        delta: δ over everything together.
        releases: rounds, at least 1.
        draws: how many draws of the exponential mechanism share ε₁ evenly in a round; None for any ε₁-private choice.
        games: whether the game is played; without it the price is higher, and there sooner.

    Raises:
        InputRefused: as `price_fixed` and `selection_cost`; several draws from one fresh sample.
    """
    check_request(delta, releases)
    if draws is not None and (draws < 1 or (draws > 1 and selection_rate is not None)):
        raise InputRefused("a map is drawn at least once, and once alone from a fresh sample.")
    cost = selection_cost(selection_epsilon, selection_rate=selection_rate)
    rest = composed_price_fixed(mechanism, delta=delta, releases=releases)
    best = decimal_up(add_up(rest.epsilon, multiply_up(cost.epsilon, releases)))
    rule = "basic-selection/1"
    try:
        if releases == 1:
            found = _epsilon_of_one(mechanism, float_up(cost.epsilon), log_down(delta), float_up(best))
        elif delta >= COMPOSED_FLOOR:
            parts: dict[Part, int] = {mechanism: releases, cost: releases}
            found = epsilon_composed(parts, delta=float_down(delta))
        else:
            found = None
    except ValueError:
        found = None
    if found is not None and decimal_up(found) <= best:
        best = decimal_up(found)
        rule = "exact-profile-selection/1" if releases == 1 else "pld-selection/1"
    if draws is not None and delta >= COMPOSED_FLOOR:
        draw = range_of_draw(cost.epsilon, draws=draws)
        for by_range, epsilon in _epsilons_of_drawn(mechanism, draw, draws, delta, releases, games).items():
            if epsilon < best:
                best, rule = epsilon, by_range
    return Price(epsilon=best, delta=delta, relation=RELATION, rule=rule, releases=releases)


def range_of_draw(epsilon: Decimal, *, draws: int) -> BoundedRange:
    """The range of each of some draws of the exponential mechanism that share ε evenly, rounded up."""
    return BoundedRange(epsilon=decimal_up(divide_up(epsilon, draws)))


@lru_cache(maxsize=1024)
def _epsilons_of_drawn(
    mechanism: StronglySafeRelease, draw: BoundedRange, draws: int, delta: Decimal, releases: int, games: bool
) -> dict[str, Decimal]:
    """What draws of bounded range and releases cost, by rule; without what no grid can hold."""
    parts: dict[Part, int] = {mechanism: releases, draw: releases * draws}
    found: dict[str, Decimal] = {}
    with suppress(ValueError):
        composed = epsilon_composed(parts, delta=float_down(delta))
        if composed:
            found["bounded-range-pld/1"] = decimal_up(composed)
            played = None
            if games:
                played = epsilon_of_drawn_game(
                    mechanism, draw, draws=draws, releases=releases, delta=float_down(delta), composed=composed
                )
            if played is not None:
                found["bounded-range-game/1"] = decimal_up(played)
    return found


def _epsilon_of_one(
    mechanism: StronglySafeRelease, selection_epsilon: float, log_delta: float, high: float
) -> float | None:
    rate = float_up(mechanism.sampling_rate)

    def holds(epsilon: float) -> bool:
        value = log_profile_selected(
            k=mechanism.k,
            sampling_rate=rate,
            selection_epsilon=selection_epsilon,
            epsilons=np.array([epsilon], dtype=np.float64),
        )
        return bool(value[0] <= log_delta)

    if not holds(high):
        return None
    low = 0.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if high - low <= 1e-13 * high or not low < middle < high:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def paper_price_selected(
    mechanism: StronglySafeRelease,
    *,
    selection_epsilon: Decimal,
    selection_rate: Decimal | None,
    delta: Decimal,
    releases: int = 1,
) -> Price | None:
    """The paper's price of the same: ε₁ + the release's ε by the bound d, added up; None where it has none.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.11 with Theorem 3.9.

    Raises:
        InputRefused: as `selection_cost`.
    """
    cost = selection_cost(selection_epsilon, selection_rate=selection_rate)
    rest = paper_price_fixed(mechanism, delta=delta, releases=releases)
    if rest is None:
        return None
    return Price(
        epsilon=decimal_up(add_up(rest.epsilon, multiply_up(cost.epsilon, releases))),
        delta=delta,
        relation=RELATION,
        rule="lqs-theorem-3.11/1",
        releases=releases,
    )


def _selected_price(mechanism: EpsilonSafeRelease, delta: Decimal, releases: int) -> Price:
    return price_selected(
        mechanism.release,
        selection_epsilon=mechanism.selection_epsilon,
        selection_rate=mechanism.selection_rate,
        delta=delta,
        releases=releases,
        draws=_draws(mechanism),
    )


def _selected_paper_price(mechanism: EpsilonSafeRelease, delta: Decimal, releases: int) -> Price | None:
    return paper_price_selected(
        mechanism.release,
        selection_epsilon=mechanism.selection_epsilon,
        selection_rate=mechanism.selection_rate,
        delta=delta,
        releases=releases,
    )


def _selected_cost(mechanism: EpsilonSafeRelease) -> Guarantee:
    return selection_cost(mechanism.selection_epsilon, selection_rate=mechanism.selection_rate)


def _draws(mechanism: EpsilonSafeRelease) -> int | None:
    """How many exponential mechanisms share ε₁; None for any ε₁-private draw."""
    return mechanism.selection_draws if isinstance(mechanism, ExponentialSafeRelease) else None


def _selected_losses(mechanism: EpsilonSafeRelease) -> tuple[Part, ...]:
    cost, draws = _selected_cost(mechanism), _draws(mechanism)
    if draws is None:
        return (mechanism.release, cost)
    return (mechanism.release, *(range_of_draw(cost.epsilon, draws=draws),) * draws)


def _selected_curve(mechanism: EpsilonSafeRelease) -> PrivacyCurve:
    rate, choice = float_up(mechanism.sampling_rate), float_up(_selected_cost(mechanism).epsilon)

    def log_delta(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        of_any = log_profile_selected(k=mechanism.k, sampling_rate=rate, selection_epsilon=choice, epsilons=epsilons)
        if played is None:
            return of_any
        deltas = np.array([played(min(float(epsilon), farthest)) for epsilon in epsilons], dtype=np.float64)
        return np.minimum(of_any, np.log(deltas) + _LOG_SLACK)

    curve = release_curve(mechanism.release, log_delta=log_delta, choice=choice)
    farthest, played, draws = curve.farthest, None, _draws(mechanism)
    if draws is not None:
        draw = range_of_draw(_selected_cost(mechanism).epsilon, draws=draws)
        with suppress(ValueError):  # what no grid can hold has the curve of any choice
            played = curve_of_drawn_game(
                mechanism.release, draw, draws=draws, reach=farthest, resolution=_DRAWN_RESOLUTION
            )
    return curve


EPSILON_SAFE: MechanismKind[EpsilonSafeRelease] = MechanismKind(
    records={
        "epsilon-safe-release/1": RecordForm(mechanism=EpsilonSafeRelease),
        "epsilon-safe-release/2": RecordForm(mechanism=ExponentialSafeRelease),
    },
    pure=False,
    price=_selected_price,
    group_price=even_group_price(_selected_price),
    paper_price=_selected_paper_price,
    losses=_selected_losses,
    filter_parts=filter_parts_of_one(_selected_losses),
    curves=Curves(theorem="Theorem 3.11", of=_selected_curve),
    tunable=lambda chosen: Tunable(chosen.release, chosen.selection_epsilon, chosen.selection_rate, _draws(chosen)),
    selection=lambda chosen: Selection(
        chosen.selection_epsilon,
        chosen.selection_rate,
        group_threshold(chosen.k, chosen.sampling_rate, chosen.selection_rate),
        QUALITY,
        _draws(chosen),
    ),
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda mechanism: 1 if mechanism.selection_rate is None else 2,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        "exact-profile-selection/1": _EXACT,
        "pld-selection/1": f"{_EXACT}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        "bounded-range-pld/1": f"{_EXACT}, {BOUNDED_RANGE}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        "bounded-range-game/1": f"{_EXACT}, {BOUNDED_RANGE}",
        "basic-selection/1": f"{_THEOREM}: the draw's cost and that of the releases, added up",
    },
    statements=Statements(
        done=lambda _: DONE.format(map=_DRAWN_MAP),
        proved=lambda *_: "",
        chosen="a choice of candidates, weights, k or rate",
        series=SERIES.format(map=_DRAWN_MAP),
        published=RECORDS,
    ),
)
