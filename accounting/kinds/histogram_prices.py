"""What histograms of declared cells cost: suppressed below k, with noise below k, and outlier-private."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kernel.amounts import amount_exact, amount_shown
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.noise import TwoSidedGeometricNoise
from ...mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ..kernel.prices.amplification import crowd_blending_statement
from ..kernel.prices.arithmetic import (
    ABOVE,
    BELOW,
    decimal_up,
    float_down,
    float_up,
    least_epsilon,
    log_binomial_pmf,
    sum_margin,
)
from ..kernel.prices.finite_losses import BothDirections, LossesBySize, LossesInDoubles, losses_of_masses
from ..kernel.prices.group_privacy import even_group_price
from ..kernel.prices.loss_distribution import FilterPart, Part
from ..kernel.prices.mechanism_kind import (
    CELLS,
    CHOSEN,
    RELATION,
    SAMPLED,
    SUPPRESSED,
    WHOLE,
    MechanismKind,
    Price,
    Published,
    RecordForm,
    Statements,
    check_request,
    filter_parts_of_one,
    not_composed,
)
from .microdata_prices import EXACT_PROFILE, paper_price_fixed, price_fixed

__all__ = [
    "NOISY_HISTOGRAM",
    "NOISY_THEOREMS",
    "OUTLIER_HISTOGRAM",
    "SUPPRESSED_HISTOGRAM",
    "NoisyProfile",
    "delta_for_group",
    "epsilon_for_group",
    "noisy_parts",
    "noisy_statement",
    "outlier_statement",
    "price_noisy_histogram",
    "price_outlier_histogram",
]


def _suppressed_price(mechanism: SuppressedHistogram, delta: Decimal, releases: int) -> Price:
    if mechanism.sampling_rate is None:
        raise InputRefused(
            "a suppressed histogram is crowd-blending, but not differentially private without sampling.",
            remedy="Give it a sampling rate of its own.",
        )
    release = StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate)
    return price_fixed(release, delta=delta, releases=releases)


def _suppressed_paper_price(mechanism: SuppressedHistogram, delta: Decimal, releases: int) -> Price | None:
    if mechanism.sampling_rate is None:
        return None
    release = StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate)
    return paper_price_fixed(release, delta=delta, releases=releases)


def _suppressed_losses(mechanism: SuppressedHistogram) -> tuple[Part, ...]:
    if mechanism.sampling_rate is None:
        return not_composed(mechanism)
    return (StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate),)


def _suppressed_statement(mechanism: SuppressedHistogram, _rule: str) -> str:
    return crowd_blending_statement(k=mechanism.k, epsilon=Decimal(0), sampling_rate=mechanism.sampling_rate)


SUPPRESSED_HISTOGRAM: MechanismKind[SuppressedHistogram] = MechanismKind(
    records={"suppressed-histogram/1": RecordForm(mechanism=SuppressedHistogram)},
    pure=False,
    price=_suppressed_price,
    group_price=even_group_price(_suppressed_price),
    paper_price=_suppressed_paper_price,
    losses=_suppressed_losses,
    filter_parts=filter_parts_of_one(_suppressed_losses),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={"exact-profile/1": EXACT_PROFILE},
    statements=Statements(
        done=lambda _: f"{SAMPLED} {SUPPRESSED}",
        proved=_suppressed_statement,
        chosen=CHOSEN,
        series=None,
        published=CELLS,
    ),
)


NOISY_CELLS = Published("noisy count", "noisy counts", "")
NOISY_THEOREMS = {
    "exact-noisy-profile/1": "Gehrke, Hay, Lui, Pass, CRYPTO 2012, Example 2; exact form proved in "
    "docs/proofs/noisy-histogram.md"
}
_NOISY_DONE = (
    "Counts of fewer than k sampled records, 0 too, have two-sided geometric noise, those of k and more are published "
    "as they are; every cell that was declared before the records were read is there. Which are noisy is not told."
)

_MOST_GROUPS = 20_000
_NEGLIGIBLE = 1e-300
_LARGEST_EPSILON = 500.0

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Group:
    """One size of the group of the record in question: outcome masses as bounds, and those without noise.

    Published outcomes: everything up to 0 (one ratio), 1 … top, everything above (one ratio); sampled ones: 0 … top.
    Each pair is (upper, lower). What is sampled above the top, far beyond its mean, is at most `rest`.
    """

    published: tuple[Array, Array]
    sampled: tuple[Array, Array]
    rest: float


class NoisyProfile:
    """δ(ε) of a `NoisyHistogram` on a fresh sample, add/remove, both directions; keeps the masses it has computed.

    [Ours] The largest hockey-stick divergence over all group sizes n, each a finite sum and two geometric series; the
    search over n ends where the divergence of the bare sampled counts, which covers that of the published ones and
    falls with n, is at most the largest found (docs/proofs/noisy-histogram.md).

    Args:
        mechanism: the release, with a sampling rate.

    Raises:
        InputRefused: the mechanism doesn't sample, so that it has no such price.
    """

    def __init__(self, mechanism: NoisyHistogram) -> None:
        if mechanism.sampling_rate is None:
            raise InputRefused(
                "a histogram that is exact above k is crowd-blending, but not differentially private without sampling.",
                remedy="Give it a sampling rate of its own.",
            )
        self._k = mechanism.k
        self._rate = float_up(mechanism.sampling_rate)
        if not 1e-9 < self._rate < 1.0 - 1e-9:
            raise InputRefused(f"a sampling rate of {mechanism.sampling_rate} is beyond the enumeration.")
        self._loss = 1.0 / TwoSidedGeometricNoise(epsilon=mechanism.epsilon).scale
        self._groups: list[_Group] = []

    def delta(self, epsilon: float, *, enough: float = _NEGLIGIBLE) -> float:
        """An upper bound on the least δ at ε ≥ 0, above it by rounding only; or by up to `enough` where it is below.

        Raises:
            InputRefused: the search over group sizes is too long.
        """
        growth = math.exp(min(epsilon, _LARGEST_EPSILON)) * BELOW
        best = 0.0
        for n in range(1, _MOST_GROUPS):
            larger, smaller = self._group(n), self._group(n - 1)
            rest = larger.rest + smaller.rest
            more = larger.sampled[0].size - smaller.sampled[0].size
            absent = [np.append(masses, np.zeros(more)) for masses in smaller.sampled]
            # INVARIANT: the bare divergence falls with n and is at least the published one.
            bare = rest + max(
                _divergence(larger.sampled[0], absent[1], growth), _divergence(absent[0], larger.sampled[1], growth)
            )
            if bare <= max(best, enough):
                return min(1.0, max(best, bare))
            absent = [self._split(masses, more) for masses in smaller.published]
            best = max(
                best,
                rest + _divergence(larger.published[0], absent[1], growth),
                rest + _divergence(absent[0], larger.published[1], growth),
            )
        raise InputRefused(
            f"the search for delta at epsilon {amount_shown(epsilon)} is too long.",
            remedy="Raise the rate, or lower k.",
        )

    def epsilon(self, delta: float) -> float | None:
        """About the least ε with δ(ε) ≤ δ; it has been evaluated itself. None where none below 500 has it."""

        def evaluated(epsilon: float) -> float:
            try:
                return self.delta(epsilon, enough=delta)
            except InputRefused:
                return math.inf

        return least_epsilon(evaluated, delta, high=_LARGEST_EPSILON)

    def losses(self) -> Iterator[tuple[BothDirections, BothDirections]]:
        """For the sizes n = 1, 2, … of a group the losses of what is published, and those of the bare sampled counts.

        The latter cover what is published of this size and of all later ones.
        """
        n = 0
        while True:
            n += 1
            larger, smaller = self._group(n), self._group(n - 1)
            rest = larger.rest + smaller.rest
            more = larger.sampled[0].size - smaller.sampled[0].size
            bare = [np.append(masses, np.zeros(more)) for masses in smaller.sampled]
            absent = [self._split(masses, more) for masses in smaller.published]
            yield _both(larger.published, absent, rest), _both(larger.sampled, bare, rest)

    def _group(self, n: int) -> _Group:
        while len(self._groups) <= n:
            self._groups.append(self._computed(len(self._groups)))
        return self._groups[n]

    def _computed(self, n: int) -> _Group:
        mean = n * self._rate
        top = min(n, math.ceil(mean + 30.0 * math.sqrt(mean) + 200.0))
        rest = 0.0
        if n == 0:
            upper = lower = np.array([1.0])
        else:
            counts = np.arange(top + 1, dtype=np.float64)
            logs, errors = log_binomial_pmf(counts, np.full_like(counts, float(n)), self._rate)
            upper = np.exp(logs + errors) * ABOVE
            lower = np.exp(logs - errors) * BELOW
        if top < n:
            # Successive probabilities fall by at most this ratio, which is below ½ there.
            ratio = (n - top) / (top + 1.0) * self._rate / (1.0 - self._rate)
            rest = float(upper[-1]) * ratio / (1.0 - ratio) * (1.0 + 1e-9)
        slack = sum_margin(16 * (top + self._k)) - 1.0
        published = (self._published(upper) * (1.0 + slack), self._published(lower) * (1.0 - slack))
        return _Group(published=published, sampled=(upper, lower), rest=rest)

    def _split(self, masses: Array, more: int) -> Array:
        """Published outcomes with their open end taken apart into single places and a new open end."""
        ends = masses[-1] * np.exp(-self._loss * np.arange(more + 1))
        ends[:-1] *= -math.expm1(-self._loss)
        return np.append(masses[:-1], ends)

    def _published(self, sampled: Array) -> Array:
        top = sampled.size - 1
        decay = math.exp(-self._loss)
        unit = -math.expm1(-self._loss)
        norm = unit / (1.0 + decay)
        small = sampled[: self._k]
        last = small.size - 1
        places = np.arange(last + 1)
        # Noise reaches outcome o from counts up to o and from those above it.
        from_below = _decaying_sums(small, decay)
        from_above = np.append(decay * _decaying_sums(small[::-1], decay)[::-1][1:], 0.0)
        masses = np.zeros(top + 2)
        masses[0] = norm / unit * float(small @ np.exp(-self._loss * places))
        masses[1 : last + 1] = norm * (from_below + from_above)[1:]
        beyond = np.arange(last + 1, top + 1)
        end = norm * float(from_below[-1])
        masses[last + 1 : top + 1] = end * np.exp(-self._loss * (beyond - last))
        masses[self._k : top + 1] += sampled[self._k :]
        masses[top + 1] = end * math.exp(-self._loss * (top + 1 - last)) / unit
        return masses


def _decaying_sums(terms: Array, decay: float) -> Array:
    """The sums s_i = x_i + decay·s_{i−1}, one after the other as `scipy.signal.lfilter` forms them, shape (n,)."""
    return np.array(list(accumulate(terms.tolist(), lambda reached, term: term + decay * reached)))


def _both(present: Sequence[Array], absent: Sequence[Array], rest: float) -> BothDirections:
    """The losses of two laws in upper and lower bounds, in both directions."""
    return losses_of_masses(present[0], absent[1], rest), losses_of_masses(absent[0], present[1], rest)


def _divergence(upper: Array, lower: Array, growth: float) -> float:
    """Σ max(0, P − E·Q) for upper bounds of P and lower ones of Q."""
    return float(np.maximum(upper - growth * lower, 0.0).sum()) * sum_margin(upper.size)


@lru_cache  # whoever charges prices again what the specification has priced
def price_noisy_histogram(mechanism: NoisyHistogram, *, delta: Decimal) -> Price:
    """What one sampled histogram with noise below k costs under add/remove ("exact-noisy-profile/1").

    Raises:
        InputRefused: no sampling, δ out of range, no ε is enough, or too long a search.
    """
    check_request(delta)
    found = NoisyProfile(mechanism).epsilon(float_down(delta))
    if found is None:
        raise InputRefused(
            f"no epsilon is enough for delta {amount_exact(delta)}.", remedy="Raise k or delta, or lower the rate."
        )
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule="exact-noisy-profile/1", releases=1)


def noisy_parts(mechanism: NoisyHistogram) -> tuple[FilterPart, ...]:
    """What such a histogram is in a filter budget: one step, whose losses are known for each size of a group.

    Raises:
        InputRefused: as `NoisyProfile`.
    """
    NoisyProfile(mechanism)
    return (LossesBySize(mechanism=mechanism, sizes=_noisy_sizes),)


def _noisy_sizes(mechanism: NoisyHistogram) -> Iterator[tuple[BothDirections, BothDirections]]:
    return NoisyProfile(mechanism).losses()


def noisy_statement(mechanism: NoisyHistogram) -> str:
    """What else is proved of counts with noise below k: they are crowd-blending."""
    return crowd_blending_statement(k=mechanism.k, epsilon=mechanism.epsilon, sampling_rate=mechanism.sampling_rate)


def _noisy_price(mechanism: NoisyHistogram, delta: Decimal, _releases: int) -> Price:
    return price_noisy_histogram(mechanism, delta=delta)


NOISY_HISTOGRAM: MechanismKind[NoisyHistogram] = MechanismKind(
    records={"noisy-histogram/1": RecordForm(mechanism=NoisyHistogram)},
    pure=False,
    price=_noisy_price,
    group_price=even_group_price(_noisy_price),
    paper_price=None,
    losses=not_composed,
    filter_parts=filter_parts_of_one(noisy_parts),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems=NOISY_THEOREMS,
    statements=Statements(
        done=lambda _: f"{SAMPLED} {_NOISY_DONE}",
        proved=lambda mechanism, _: noisy_statement(mechanism),
        chosen=CHOSEN,
        series=None,
        published=NOISY_CELLS,
    ),
)


_OUTLIER_DONE = (
    "Every count has two-sided geometric noise, and every cell that was declared before the records were read is there."
)

_SLACK = 1e-12
_LARGEST_HORIZON = 1_000_000
_FARTHEST, _MOST_PLACES = 60.0, 10_000_000


def delta_for_group(mechanism: OutlierPrivateHistogram, *, count: int, epsilon: float) -> float:
    """The least δ at ε for one member of a group of `count`, that member being present or not, both directions.

    [Ours] The hockey-stick divergence of count + noise(count) and count − 1 + noise(count − 1): on either side of
    the two counts both masses are geometric, so that each sum is in closed form (docs/proofs/outlier-privacy.md).

    Args:
        mechanism: the release.
        count: c, records in the group with the member, at least 1.
        epsilon: ε of at least 0.

    Returns:
        δ, rounded outward.

    Raises:
        ValueError: a count or an ε out of range.
    """
    if count < 1 or not epsilon >= 0.0:
        raise ValueError(f"a member's group has at least one record and epsilon is at least 0, not {count}, {epsilon}")
    present, absent = (1.0 / mechanism.noise(c).scale for c in (count, count - 1))
    growth = min(epsilon, _LARGEST_EPSILON)
    return min(1.0, max(_one_way(present, absent, growth), _one_way(absent, present, growth)) + 5e-324)


def epsilon_for_group(mechanism: OutlierPrivateHistogram, *, count: int, delta: float) -> float | None:
    """About the least ε at which the members of a group of `count` have δ; None where none below 500 has it."""
    return least_epsilon(
        lambda epsilon: delta_for_group(mechanism, count=count, epsilon=epsilon), delta, high=_LARGEST_EPSILON
    )


def price_outlier_histogram(mechanism: OutlierPrivateHistogram, *, delta: Decimal) -> Price:
    """What the histogram costs everybody under add/remove ("outlier-exact/1"): the least ε of all groups together.

    Raises:
        InputRefused: δ out of range, K too large, or no ε is enough.
    """
    check_request(delta)
    if mechanism.horizon > _LARGEST_HORIZON:
        raise InputRefused(f"K of {mechanism.horizon} is beyond the enumeration; at most {_LARGEST_HORIZON}.")
    target = float_down(delta)
    found: float | None = 0.0 if mechanism.epsilon <= _LARGEST_EPSILON else None  # it hides nobody
    for count in range(1, mechanism.horizon - mechanism.margin + 2):
        if found is not None and delta_for_group(mechanism, count=count, epsilon=found) > target:
            found = epsilon_for_group(mechanism, count=count, delta=target)
    if found is None:
        raise InputRefused(
            f"no epsilon is enough for delta {amount_exact(delta)}.", remedy="Raise the margin t, or delta."
        )
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule="outlier-exact/1", releases=1)


def _one_way(upper: float, lower: float, epsilon: float) -> float:
    """Σ max(0, P − e^ε·Q) for P with losses `upper` round 0 and Q with losses `lower` round 1 (the place is symmetric).

    Away from 1 on Q's side: P = N·x^{i+1}, Q = M·y^i; away from 0 on P's side: P = N·x^i, Q = M·y^{i+1}.
    """
    norm, other = math.tanh(0.5 * upper), math.exp(epsilon) * math.tanh(0.5 * lower)
    behind = _ray(norm, upper, other * math.exp(-lower), lower)
    ahead = _ray(norm * math.exp(-upper), upper, other, lower)
    return (behind + ahead) * (1.0 + _SLACK)


def _ray(first: float, loss: float, other_first: float, other_loss: float) -> float:
    """Σ_{i≥0} max(0, A·e^{−ai} − B·e^{−bi}), with what rounding may lose added."""
    gap = math.log(first) - math.log(other_first)
    slope = loss - other_loss
    if slope == 0.0:
        if gap < -_SLACK:
            return 0.0
        return max(0.0, first - other_first) / -math.expm1(-loss) + first * _SLACK / -math.expm1(-loss)
    # The terms are positive while gap > slope·i: before the crossing where P falls faster, after it where slower.
    crossing = gap / slope
    if slope > 0.0:
        terms = max(0, math.ceil(crossing))
        mass = first * math.expm1(-loss * terms) / math.expm1(-loss)
        other = other_first * math.expm1(-other_loss * terms) / math.expm1(-other_loss)
    else:
        start = max(0, math.floor(crossing) + 1)
        mass = first * math.exp(-loss * start) / -math.expm1(-loss)
        other = other_first * math.exp(-other_loss * start) / -math.expm1(-other_loss)
    return max(0.0, mass - other) + mass * _SLACK


def _outlier_filter_parts(mechanism: OutlierPrivateHistogram) -> tuple[FilterPart, ...]:
    last = mechanism.horizon - mechanism.margin + 1
    if last * _reach(mechanism.noise(0).scale) > _MOST_PLACES:
        raise InputRefused(f"K of {mechanism.horizon} with this noise is beyond the enumeration.")
    return (LossesBySize(mechanism=mechanism, sizes=_outlier_sizes),)


def _outlier_sizes(mechanism: OutlierPrivateHistogram) -> Iterator[tuple[BothDirections, None]]:
    """For each count up to K − t + 1 the losses of its noisy count; the pairs of larger counts are like the last."""
    for count in range(1, mechanism.horizon - mechanism.margin + 2):
        present, absent = (1.0 / mechanism.noise(c).scale for c in (count, count - 1))
        steps = np.arange(_reach(1.0 / absent), dtype=np.float64)  # of the wider noise
        # Away from the person's side, and away from the other: the place is symmetric.
        here, there = (
            np.concatenate([decay * np.exp(-loss * steps) * math.tanh(0.5 * loss) for decay in decays])
            for loss, decays in ((present, (1.0, math.exp(-present))), (absent, (math.exp(-absent), 1.0)))
        )
        yield (_outlier_losses(here, there, present), _outlier_losses(there, here, absent)), None


def _outlier_losses(likely: Array, other: Array, loss: float) -> LossesInDoubles:
    beyond = 2.0 * math.exp(-loss * (0.5 * likely.size)) * (1.0 + _SLACK)
    return losses_of_masses(likely * (1.0 + _SLACK), other * (1.0 - _SLACK), beyond)


def _reach(scale: float) -> int:
    """So many places away the noise is negligible."""
    return math.ceil(_FARTHEST * scale)


def outlier_statement(mechanism: OutlierPrivateHistogram) -> str:
    """The outlier-private guarantee. Notes-CBP, Definition 7."""
    edge = mechanism.horizon - mechanism.margin
    return (
        f"Outlier-private: the rarer a person's group, the better the protection. In a group of c people below {edge} "
        f"the noise has loss {mechanism.margin * mechanism.epsilon}/({mechanism.horizon} − c) per record, in larger "
        f"ones {mechanism.epsilon}; neighbouring groups' scales differ, which is paid for in δ."
    )


def _outlier_price(mechanism: OutlierPrivateHistogram, delta: Decimal, _releases: int) -> Price:
    return price_outlier_histogram(mechanism, delta=delta)


OUTLIER_HISTOGRAM: MechanismKind[OutlierPrivateHistogram] = MechanismKind(
    records={"outlier-private-histogram/1": RecordForm(mechanism=OutlierPrivateHistogram)},
    pure=False,
    price=_outlier_price,
    group_price=even_group_price(_outlier_price),
    paper_price=None,
    losses=not_composed,
    filter_parts=filter_parts_of_one(_outlier_filter_parts),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda _: None,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={
        "outlier-exact/1": "Lui, Pass, Outlier Privacy, TCC 2015; exact form proved in docs/proofs/outlier-privacy.md"
    },
    statements=Statements(
        done=lambda _: f"{WHOLE} {_OUTLIER_DONE}",
        proved=lambda mechanism, _: outlier_statement(mechanism),
        chosen=CHOSEN,
        series=None,
        published=NOISY_CELLS,
    ),
)
