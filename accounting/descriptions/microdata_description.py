"""Describe releases of microdata from a fresh sample, their map fixed or chosen privately."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kinds.microdata import EpsilonSafeRelease, Microdata, StronglySafeRelease
from ..kernel.prices.arithmetic import float_up
from ..kernel.prices.privacy_profile import log_profile
from ..kinds.composition.paper_bound import delta_paper, least_epsilon_of_paper
from ..kinds.composition.private_choice import log_profile_selected, range_of_draw
from ..kinds.composition.series_game import curve_of_drawn_game
from ..kinds.selected_microdata_prices import draws_of, selected_cost, selected_losses
from .kind_description import Curves, KindDescription, PrivacyCurve, Published, Tunable

if TYPE_CHECKING:
    from ...mechanisms.measures.risk import ToldLosses

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


def release_curve(
    mechanism: StronglySafeRelease,
    *,
    log_delta: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    choice: float = 0.0,
) -> PrivacyCurve:
    """Return the curve of a release, of whose ε the choice of its map may have taken a part.

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


def _fixed_curve(mechanism: StronglySafeRelease) -> PrivacyCurve:
    rate = float_up(mechanism.sampling_rate)
    return release_curve(
        mechanism, log_delta=lambda epsilons: log_profile(k=mechanism.k, sampling_rate=rate, epsilons=epsilons)
    )


_LOG_SLACK = 1e-13
_DRAWN_RESOLUTION = 1e-9
_DRAWN_MAP = (
    "a map that was drawn privately, before they were sampled, from candidates declared before any record was read; "
    "what the draw costs is part of epsilon and delta"
)
_THEOREM = "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.11"
_EXACT = f"{_THEOREM}; exact form proved in docs/proofs/selection.md"
BOUNDED_RANGE = "with the draws' bounded range, proved in docs/proofs/bounded-range.md"


def _selected_curve(mechanism: EpsilonSafeRelease) -> PrivacyCurve:
    rate, choice = float_up(mechanism.sampling_rate), float_up(selected_cost(mechanism).epsilon)

    def log_delta(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        of_any = log_profile_selected(k=mechanism.k, sampling_rate=rate, selection_epsilon=choice, epsilons=epsilons)
        if played is None:
            return of_any
        deltas = np.array([played(min(float(epsilon), farthest)) for epsilon in epsilons], dtype=np.float64)
        return np.minimum(of_any, np.log(deltas) + _LOG_SLACK)

    curve = release_curve(mechanism.release, log_delta=log_delta, choice=choice)
    farthest, played, draws = curve.farthest, None, draws_of(mechanism)
    if draws is not None:
        draw = range_of_draw(selected_cost(mechanism).epsilon, draws=draws)
        with suppress(ValueError):  # what no grid can hold has the curve of any choice
            played = curve_of_drawn_game(
                mechanism.release, draw, draws=draws, reach=farthest, resolution=_DRAWN_RESOLUTION
            )
    return curve


def _told(mechanism: Microdata) -> ToldLosses:
    from ...mechanisms.measures.risk import sampling_losses  # of private reports alone

    return partial(sampling_losses, rate=float(mechanism.sampling_rate), k=mechanism.k)


STRONGLY_SAFE: KindDescription[StronglySafeRelease] = KindDescription(
    done=lambda _: DONE.format(map=_FIXED_MAP),
    series=SERIES.format(map=_FIXED_MAP),
    published=RECORDS,
    theorems={
        "lqs-theorem-3.9/1": "Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.9",
        "exact-profile/1": EXACT_PROFILE,
        "basic-exact/1": f"{EXACT_PROFILE}, the releases' costs added up",
        "pld/1": f"{EXACT_PROFILE}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        "series-game/1": f"{EXACT_PROFILE}; of a series in docs/proofs/composition.md, The game",
    },
    losses=lambda mechanism: (mechanism,),
    curves=Curves(theorem="Theorem 3.9", of=_fixed_curve),
    tunable=lambda mechanism: Tunable(mechanism, None, None, None),
    label="k = {k}, rate {sampling_rate}",
    told=_told,
)


EPSILON_SAFE: KindDescription[EpsilonSafeRelease] = KindDescription(
    done=lambda _: DONE.format(map=_DRAWN_MAP),
    chosen="a choice of candidates, weights, k or rate",
    series=SERIES.format(map=_DRAWN_MAP),
    published=RECORDS,
    theorems={
        "exact-profile-selection/1": _EXACT,
        "pld-selection/1": f"{_EXACT}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        "bounded-range-pld/1": f"{_EXACT}, {BOUNDED_RANGE}, composed by Zhu, Dong, Wang, arXiv:2106.08567",
        "bounded-range-game/1": f"{_EXACT}, {BOUNDED_RANGE}",
        "basic-selection/1": f"{_THEOREM}: the draw's cost and that of the releases, added up",
    },
    losses=selected_losses,
    curves=Curves(theorem="Theorem 3.11", of=_selected_curve),
    tunable=lambda chosen: Tunable(chosen.release, chosen.selection_epsilon, chosen.selection_rate, draws_of(chosen)),
    label="k = {k}, rate {sampling_rate}, map chosen at ε {selection_epsilon} on {of}",
    told=_told,
)
