"""What histograms cost whose counts below k have noise."""

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
from ...mechanisms.kinds.histogram import HistogramProtection, NoisyHistogram
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
from ..kernel.prices.mechanism_kind import RELATION, MechanismKind, Price, RecordForm, check_request
from .composition.composed import FilterPart, filter_parts_of_one
from .composition.finite_losses import BothDirections, LossesBySize, losses_of_masses
from .composition.group_privacy import even_group_price

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
        """Return an upper bound on the least δ at ε ≥ 0, above it by rounding alone, or by `enough` where it is below.

        Raises:
            InputRefused: the search over group sizes is too long.
        """
        growth = math.exp(min(epsilon, _LARGEST_EPSILON)) * BELOW
        best = 0.0
        for n in range(1, _MOST_GROUPS):
            larger, smaller = self._group(n), self._group(n - 1)
            rest = larger.rest + smaller.rest
            more = larger.sampled[0].size - smaller.sampled[0].size
            # Both laws must list the same outcomes, so the smaller group's are continued.
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
        """Return about the least ε with δ(ε) ≤ δ, itself evaluated; None where none below 500 has it."""

        def evaluated(epsilon: float) -> float:
            try:
                return self.delta(epsilon, enough=delta)
            except InputRefused:
                return math.inf

        return least_epsilon(evaluated, delta, high=_LARGEST_EPSILON)

    def losses(self) -> Iterator[tuple[BothDirections, BothDirections]]:
        """Yield the losses of what is published for group sizes n = 1, 2, …, and losses that cover all later sizes.

        The second are those of the bare sampled counts, of which the published ones are a function with coins.
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
        # Far beyond the mean outcomes aren't listed; their mass, `rest`, counts in full as an infinite loss.
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
        """Return published outcomes with their open end taken apart into single places and a new open end."""
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
    """Return the sums s_i = x_i + decay·s_{i−1}, in the order of `scipy.signal.lfilter`; shape (n,)."""
    return np.array(list(accumulate(terms.tolist(), lambda reached, term: term + decay * reached)))


def _both(present: Sequence[Array], absent: Sequence[Array], rest: float) -> BothDirections:
    """Return the losses of two laws in upper and lower bounds, in both directions."""
    return losses_of_masses(present[0], absent[1], rest), losses_of_masses(absent[0], present[1], rest)


def _divergence(upper: Array, lower: Array, growth: float) -> float:
    """Return Σ max(0, P − E·Q) for upper bounds of P and lower ones of Q."""
    return float(np.maximum(upper - growth * lower, 0.0).sum()) * sum_margin(upper.size)


@lru_cache  # whoever charges prices again what the specification has priced
def price_noisy_histogram(mechanism: NoisyHistogram, *, delta: Decimal) -> Price:
    """Return what one sampled histogram with noise below k costs under add/remove ("exact-noisy-profile/1").

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
    """Return what such a histogram is in a filter budget: one step, whose losses are known for each size of a group.

    Raises:
        InputRefused: as `NoisyProfile`.
    """
    NoisyProfile(mechanism)
    return (LossesBySize(mechanism=mechanism, sizes=_noisy_sizes),)


def _noisy_sizes(mechanism: NoisyHistogram) -> Iterator[tuple[BothDirections, BothDirections]]:
    return NoisyProfile(mechanism).losses()


NOISY_HISTOGRAM: MechanismKind[NoisyHistogram] = MechanismKind(
    records={"noisy-histogram/1": RecordForm(mechanism=NoisyHistogram)},
    protections=(HistogramProtection,),
    pure=False,
    series=False,
    price=even_group_price(lambda mechanism, delta, _: price_noisy_histogram(mechanism, delta=delta)),
    filter_parts=filter_parts_of_one(noisy_parts),
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    survey_rate=None,
    exclusive=False,
)
