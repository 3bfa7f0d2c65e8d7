"""What counts of records with unequal rates cost: of a survey with rates known within bounds, and with own coins."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...mechanisms.kernel.amounts import amount_exact, amount_shown
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ..kernel.prices.amplification import epsilon_zero_knowledge_robust
from ..kernel.prices.arithmetic import (
    ABOVE,
    BELOW,
    ULP,
    decimal_up,
    float_down,
    float_up,
    least_epsilon,
    log_binomial_pmf,
    log_down,
    sum_margin,
    tail_up,
)
from ..kernel.prices.group_privacy import even_group_price, no_price_for_surveyed_group, rule_for_group
from ..kernel.prices.mechanism_kind import (
    CELLS,
    CHOSEN,
    RELATION,
    SUPPRESSED,
    MechanismKind,
    Price,
    RecordForm,
    Statements,
    check_request,
    filter_parts_of_one,
    no_filter_parts,
    not_composed,
)
from ..kernel.prices.privacy_profile import LARGEST_GROUP, check_parameters, delta_exact, epsilon_of_log_delta
from .microdata_prices import group_price_fixed

__all__ = [
    "MOST_EXCEPTIONS",
    "SURVEY_COUNTS",
    "UNEQUAL_RATES",
    "delta_biased",
    "delta_robust",
    "delta_unequal",
    "price_biased_counts",
    "price_robust_counts",
    "survey_statement",
    "zero_knowledge_epsilon_biased",
]

MOST_EXCEPTIONS = 1000
"""More records with higher rates are no exceptions: then all are priced at the highest rate."""

_TINY = 1e-300
_TIE = 1e-10
_DEVIATIONS = 12.0
_MORE_TERMS = 60.0
_NEAR = 16
_UP, _DOWN = 1.0 + 1e-9, 1.0 - 1e-9

Array = NDArray[np.float64]


def delta_unequal(
    *,
    k: int,
    highest_rate: float,
    largest_rate: float,
    exceptions: int,
    epsilon: float,
    target: float | None = None,
) -> float:
    """The least δ at ε ≥ 0 of counts of at least k, over all records sampled at rates up to p′, and a few up to p_max.

    The record in question may have any rate up to p_max, and so may at most ℓ others of its group. It is the largest
    divergence between X + Ber(p_max) and X, both suppressed, X ~ Bin(n, p′) + Bin(a, p_max), over n ≥ 0, a ≤ ℓ
    (docs/proofs/robust-sampling.md). Where p′ = p_max it is the exact profile at that rate.

    Args:
        k: suppression threshold, at least 1.
        highest_rate: p′, 0 < p′ < 1; there is no lower bound of the rates.
        largest_rate: p_max, p′ ≤ p_max < 1.
        exceptions: ℓ of at least 0; above `MOST_EXCEPTIONS` all records count as exceptions.
        epsilon: ε of at least 0.
        target: where only the side of this δ is asked for, which is decided sooner.

    Returns:
        δ, never below the truth and above it by rounding only, but for δ below 1e-300; with a target a number on the
        same side of it as δ, and at least δ where that is below.

    Raises:
        ValueError: a value out of range, or beyond double precision.
    """
    check_parameters(k, highest_rate)
    check_parameters(k, largest_rate)
    if not (highest_rate <= largest_rate and exceptions >= 0 and epsilon >= 0.0):
        raise ValueError(f"rates must ascend, not {highest_rate}, {largest_rate}; exceptions and epsilon be at least 0")
    if highest_rate == largest_rate or exceptions > MOST_EXCEPTIONS:
        return delta_exact(k=k, sampling_rate=largest_rate, epsilon=epsilon)
    counts = _Counts(k, highest_rate, largest_rate, epsilon)
    enough = 0.0 if target is None else target
    return min(1.0, max(counts.worst(exceptions, enough, adding=way) for way in (True, False)) + _TINY)


class _Counts:
    """The counts of one threshold and one ε, for any numbers of records at either rate.

    Args:
        k: suppression threshold.
        rate: p′.
        top: p_max, also that of the record in question.
        epsilon: ε.
    """

    def __init__(self, k: int, rate: float, top: float, epsilon: float) -> None:
        self.k, self.rate, self.top = k, rate, top
        self.less = math.expm1(epsilon)
        # A count j adds to the divergence where Pr[X = j − 1] / Pr[X = j] is above this (adding), or below (removing).
        self.adding_ratio = 1.0 + self.less / top
        left = top - self.less * (1.0 - top)  # 1 − e^ε(1 − p_max)
        self.removing_ratio = left / (math.exp(epsilon) * top)

    def worst(self, exceptions: int, enough: float, *, adding: bool) -> float:
        """The largest divergence over all n and all a ≤ ℓ, rounded up, or a bound on it that is at most `enough`.

        INVARIANT: what `at` gives for the first n of the most exceptions of a block, and the fewest, is reached by no
        n with any number of the block; a block that could exceed the best is halved.
        """
        if not adding and self.removing_ratio <= 0.0:
            return 0.0
        best = self.at(self.first(exceptions, adding=adding), exceptions, adding=adding)
        skipped, blocks = best, [(0, exceptions)]
        while blocks and not best > enough > 0.0:
            fewest, most = blocks.pop()
            bound = self.at(self.first(most, adding=adding), fewest, adding=adding)
            if bound <= max(best, enough):
                skipped = max(skipped, bound)
            elif fewest == most:
                best = bound
            else:
                middle = (fewest + most) // 2
                blocks += [(fewest, middle), (middle + 1, most)]
        return max(best, skipped)

    def first(self, odd: int, *, adding: bool) -> int:
        """The first n with Pr[X = k − 2] / Pr[X = k − 1] at most the ratio; by rounding, or if huge, a lower one."""
        ratio = (self.adding_ratio if adding else self.removing_ratio) * (1.0 + _TIE)
        least = max(self.k - 2 - odd, -1)  # too few for Pr[X = k − 1] > 0, or none at all
        alone = (self.k - 1.0) * (1.0 - self.rate) / (self.rate * ratio)  # without exceptions, and they make it less
        low, high = least, int(min(self.k - 1.0 + alone, LARGEST_GROUP))
        if self._above(ratio, high, odd):
            return high
        step = 1
        while high - low > 1:
            middle = max(high - step, (low + high) // 2)
            if self._above(ratio, middle, odd):
                low = middle
            else:
                high, step = middle, 2 * step
        return high

    def _above(self, ratio: float, n: int, odd: int) -> bool:
        below, here = self._log_masses(n, odd, self.k - 2, self.k - 1)[0].tolist()
        return bool(below > here + math.log(ratio) or here == -math.inf)

    def _log_masses(self, n: int, odd: int, first: int, last: int) -> tuple[Array, float]:
        """ln Pr[X = j] for j = first … last, −∞ where impossible, and a bound on the errors."""
        regular, error = _log_pmf(np.arange(first - odd, last + 1, dtype=np.float64), n, self.rate)
        others, more = _log_pmf(np.arange(odd, -1, -1, dtype=np.float64), odd, self.top)
        terms = sliding_window_view(regular, odd + 1) + others
        largest = np.maximum(terms.max(axis=1), -1e300)
        with np.errstate(divide="ignore", under="ignore"):
            logs = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))
        size = float(np.abs(largest[largest > -1e300]).max(initial=0.0))
        return logs, error + more + (odd + 16.0 + 4.0 * size) * ULP

    def at(self, n: int, odd: int, *, adding: bool) -> float:
        """The divergence between X + Ber(p_max) and X without suppression, rounded up.

        Ratios of successive probabilities fall with j. So the counts that add to it are all those above one, or below
        one; the window reaches past that one, and what lies beyond its other end is below a geometric series.
        """
        centre = max(float(self.k), n * self.rate + odd * self.top) if adding else float(self.k)
        width, near = math.ceil(_DEVIATIONS * math.sqrt(centre) + _MORE_TERMS), _NEAR
        middle = min(math.ceil(centre), n + odd)
        while True:
            first = max(middle - (near if adding else width), 0)
            last = min(middle + (width if adding else near), n + odd)
            gains, beyond = self._gains(n, odd, first, last, adding=adding)
            if gains[0 if adding else -1] <= 0.0:  # as at either end of what is possible
                return (float(np.maximum(gains, 0.0).sum()) + beyond) * sum_margin(gains.size)
            near *= 2

    def _gains(self, n: int, odd: int, first: int, last: int, *, adding: bool) -> tuple[Array, float]:
        """What each count from `first` to `last` + 1 adds, rounded up, and a bound on what lies beyond the far end."""
        logs, error = self._log_masses(n, odd, first - 1, last + 1)
        with np.errstate(under="ignore"):
            upper, lower = np.exp(logs + error) * ABOVE, np.exp(logs - error) * BELOW
        if adding:
            gains = self.top * upper[:-1] * ABOVE - (self.less + self.top) * lower[1:] * BELOW
            return gains, self.top * _geometric(upper[-1], upper[-2]) if last < n + odd else 0.0
        left = self.top - self.less * (1.0 - self.top) + (ABOVE - 1.0) * (1.0 + self.less)
        gains = left * upper[1:] - (1.0 + self.less) * self.top * lower[:-1] * BELOW
        return gains, left * _geometric(upper[0], upper[1]) if first > 0 else 0.0


def _log_pmf(values: Array, trials: int, rate: float) -> tuple[Array, float]:
    """ln Pr[Bin(trials, rate) = j], −∞ where impossible, and the largest error bound of the others."""
    possible = (values >= 0.0) & (values <= trials)
    if trials == 0:
        return np.where(possible, 0.0, -np.inf), 0.0
    counts = np.full_like(values, float(trials))
    logs, errors = log_binomial_pmf(np.clip(values, 0.0, counts), counts, rate)
    return np.where(possible, logs, -np.inf), float(errors[possible].max(initial=0.0))


def _geometric(outer: float, inner: float) -> float:
    """At least the sum of `outer` and what lies beyond it, from its neighbour `inner` nearer to the middle.

    The logarithm of Pr[X = j] is concave, so that successive ratios fall.
    """
    if outer == 0.0:
        return 0.0
    ratio = outer / inner * _UP
    return outer / (1.0 - ratio) * _UP if ratio < 1.0 else math.inf


_BOUNDED = (
    "inclusion rates within bounds, the setting of Gehrke, Hay, Lui, Pass, CRYPTO 2012, Theorem 2; "
    "the price is proved in docs/proofs/robust-sampling.md"
)
ROBUST_THEOREMS = {"unequal-rates/1": _BOUNDED, "robust-counts/1": _BOUNDED}
_DONE = (
    "Every record was read; no sample was drawn for this release. The data set is itself a sample, whose secret coins, "
    "independent and with rates within the declared bounds, are the protection: so it is released once. Counts of "
    "fewer than k records are published as 0, those of k and more as they are; every cell that was declared before the "
    "records were read is there."
)
_LARGEST_EPSILON = 60.0
_MOST_GROUPS = 200_000
_BLOCK = 128


def delta_robust(
    *,
    k: int,
    lowest_rate: float,
    highest_rate: float,
    largest_rate: float,
    exceptions: int,
    epsilon: float,
    target: float | None = None,
) -> float:
    """δ at ε ≥ −ln(1 − p_max) of releasing counts of at least k, records sampled at rates within [p, p′] but for ℓ.

    With n regular records in the group of the record in question, φ(j) = max(0, 1 − e^ε/ρ_j), ρ_j = 1 − p_max +
    p_max·j(1−p)/((n−j+1)p) and k′ = max(1, k − ℓ), the δ is the largest over n of E[φ(X + B); X + B ≥ k′], X ~
    Bin(n, p′), B ~ Bernoulli(p_max) independent (docs/proofs/robust-sampling.md). For p = p′ = p_max and ℓ = 0 it
    is the exact profile of adding a record. The setting is that of CBP, Theorem 2.

    Args:
        k: suppression threshold, at least 1.
        lowest_rate: p, 0 < p.
        highest_rate: p′, p ≤ p′ < 1.
        largest_rate: p_max, the rate that no record exceeds, p′ ≤ p_max < 1.
        exceptions: ℓ, how many records may have a rate outside [p, p′].
        epsilon: ε of at least −ln(1 − p_max).
        target: where only the side of this δ is asked for, which is decided sooner.

    Returns:
        δ, rounded outward; with a target a number on the same side of it as δ, and at least δ where that is below.

    Raises:
        InputRefused: a value out of range, or bounds so wide that δ does not fall with the size of the group.
    """
    p, q, top = lowest_rate, highest_rate, largest_rate
    if k < 1 or exceptions < 0:
        raise InputRefused(f"k must be at least 1 and the exceptions at least 0, not {k} and {exceptions}.")
    if not 0.0 < p <= q <= top < 1.0:
        raise InputRefused(f"rates must satisfy 0 < lowest ≤ highest ≤ largest < 1, not {p}, {q}, {top}.")
    if not epsilon >= -math.log1p(-top):
        raise InputRefused(
            f"epsilon must be at least {amount_shown(-math.log1p(-top))} for rates up to {top}, not {epsilon}."
        )
    threshold = max(1, k - exceptions)
    wanted = (math.expm1(epsilon) + top) / top * (p / (1.0 - p))
    share = wanted / (1.0 + wanted)
    if share <= q * (1.0 + 1e-6):
        raise InputRefused(
            f"sampling rates from {p} to {q} are too far apart for epsilon {amount_shown(epsilon)}: "
            f"delta would not fall with the "
            "size of a group.",
            remedy="Raise epsilon, or bound the rates more tightly.",
        )
    divergence = share * math.log(share / q) + (1.0 - share) * (math.log1p(-share) - math.log1p(-q))
    tilt = share * (1.0 - q) / (q * (1.0 - share))
    factor = (1.0 + top * (tilt - 1.0)) / (1.0 + q * (tilt - 1.0))
    best = skipped = 0.0
    n = threshold - 1
    while n < _MOST_GROUPS:
        # INVARIANT: the bound falls with n, so that no later group can reach the best once it is below it.
        bound = factor * math.exp(-(n + 1.0) * divergence * _DOWN) * _UP
        if target is not None and (best > target or bound <= target):
            return min(1.0, max(best, skipped, bound) if best <= target else best)
        if bound <= best or bound < 1e-300:
            return min(1.0, best + 5e-324)
        last = n + n // _BLOCK
        least = max(threshold, math.floor((n + 1.0) * share * (1.0 - 1e-12)) + 1)
        above = _at_least(least, last, q=q, top=top)
        # INVARIANT: no group of n … last exceeds this one's bound, which is what is skipped.
        if above <= (best if target is None else max(best, target)):
            skipped = max(skipped, above)
            n = last + 1
            continue
        best = max(best, _at_group(n, threshold, p, q, top, epsilon))
        n += 1
    raise InputRefused(
        f"the search for delta at epsilon {amount_shown(epsilon)} is too long: the rates are too far apart."
    )


def _at_least(least: int, trials: int, *, q: float, top: float) -> float:
    """At least Pr[X + B ≥ least], X ~ Bin(trials, q), B ~ Bernoulli(top)."""
    return ((1.0 - top) * tail_up(least, trials, q) + top * tail_up(least - 1, trials, q)) * ABOVE**2 + 1e-300


def _at_group(n: int, threshold: int, p: float, q: float, top: float, epsilon: float) -> float:
    """The expectation for one n, rounded outward; what lies far above the mean counts in full."""
    spread = _DEVIATIONS * math.sqrt(n * q * (1.0 - q) + 1.0) + _MORE_TERMS
    last = min(n + 1, max(threshold, math.floor(n * q)) + math.ceil(spread))
    counts = np.arange(threshold, last + 1, dtype=np.float64)
    trials = np.full_like(counts, n)

    def pmf(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        inside = np.clip(values, 0.0, trials)
        logs, errors = log_binomial_pmf(inside, trials, q)
        return np.where(values <= n, np.exp(logs + errors) * ABOVE, 0.0)

    weights = (1.0 - top) * pmf(counts) + top * pmf(counts - 1.0)
    ratios = 1.0 - top + top * counts * (1.0 - p) / ((n - counts + 1.0 + 1e-300) * p)
    gains = np.clip(-np.expm1(epsilon - np.log(ratios)) + _loss_margin(epsilon), 0.0, 1.0)
    total = float(weights @ gains) * sum_margin(counts.size)
    if last <= n:
        # Successive weights fall by at most this ratio, and ever faster: the rest is below a geometric series.
        ratio = (n - last + 1.0) * q / (last * (1.0 - q))
        total += float(weights[-1]) * ratio / (1.0 - ratio) * _UP
    return total


def _loss_margin(epsilon: float) -> float:
    """What 1 − e^{ε − ln ρ} errs by at most, where it is above 0."""
    return max(1e-14, (10.0 + 5.0 * epsilon) * ULP)


def delta_biased(mechanism: BiasedSampleCounts, *, epsilon: float, target: float | None = None) -> float:
    """δ at ε of the suppressed counts, with the rates rounded outward; `target` as in `delta_robust`.

    Raises:
        InputRefused: ε below −ln(1 − p_max), or rates too far apart for it.
    """
    return delta_robust(
        k=mechanism.k,
        lowest_rate=float_down(mechanism.lowest_rate),
        highest_rate=float_up(mechanism.highest_rate),
        largest_rate=float_up(mechanism.largest_rate),
        exceptions=mechanism.exceptions,
        epsilon=epsilon,
        target=target,
    )


def zero_knowledge_holds(mechanism: BiasedSampleCounts) -> bool:
    """Whether the hypotheses of CBP, Theorem 2 hold: p > 0, k ≥ 2 and ℓ < k − 1."""
    return mechanism.lowest_rate > 0 and mechanism.k >= 2 and mechanism.exceptions < mechanism.k - 1


def zero_knowledge_epsilon_biased(mechanism: BiasedSampleCounts) -> Decimal:
    """ε of zero-knowledge privacy for the aggregates iRS(p, p′, ℓ). CBP, Theorem 2.

    Its δ falls with k − ℓ and has no stated constant.

    Raises:
        InputRefused: the theorem's hypotheses don't hold.
    """
    if not zero_knowledge_holds(mechanism):
        raise InputRefused(
            "zero-knowledge privacy is proved for rates above 0, k of at least 2 and fewer than k - 1 exceptions, not "
            f"for {mechanism.lowest_rate}, k = {mechanism.k} and {mechanism.exceptions}."
        )
    return epsilon_zero_knowledge_robust(
        Decimal(0),
        lowest_rate=mechanism.lowest_rate,
        highest_rate=mechanism.highest_rate,
        largest_rate=mechanism.largest_rate,
    )


def price_biased_counts(mechanism: BiasedSampleCounts, *, delta: Decimal) -> Price:
    """What the release costs under add/remove ("unequal-rates/1"); the data set's own sample is spent by it.

    [Ours] The least ε ≥ 0 with `delta_unequal` at most δ: the exact price for all rates up to p′, but for the
    exceptions up to p_max; no lower bound of the rates is used (docs/proofs/robust-sampling.md).

    Raises:
        InputRefused: δ out of range, or no ε is enough.
    """
    check_request(delta)
    try:
        found = _least_epsilon(mechanism, delta)
    except ValueError as fault:
        raise InputRefused(f"this release has no price: {fault}.") from fault
    if found is None:
        raise _no_epsilon(mechanism, delta)
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule="unequal-rates/1", releases=1)


def _least_epsilon(mechanism: BiasedSampleCounts, delta: Decimal) -> float | None:
    rate, top = float_up(mechanism.highest_rate), float_up(mechanism.largest_rate)
    if rate == top:
        return epsilon_of_log_delta(k=mechanism.k, sampling_rate=top, log_delta=log_down(delta))
    target = float_down(delta)

    def evaluated(epsilon: float) -> float:
        return delta_unequal(
            k=mechanism.k,
            highest_rate=rate,
            largest_rate=top,
            exceptions=mechanism.exceptions,
            epsilon=epsilon,
            target=target,
        )

    return least_epsilon(evaluated, target, high=_LARGEST_EPSILON)


def _no_epsilon(mechanism: BiasedSampleCounts, delta: Decimal) -> InputRefused:
    few = f", and up to {mechanism.largest_rate} for {mechanism.exceptions} records" if mechanism.exceptions else ""
    return InputRefused(
        f"no epsilon is enough for delta {amount_exact(delta)} with k = {mechanism.k} and rates up to "
        f"{mechanism.highest_rate}{few}.",
        remedy="Raise k or delta, or bound the rates more tightly.",
    )


def price_robust_counts(mechanism: BiasedSampleCounts, *, delta: Decimal) -> Price:
    """What earlier versions charged ("robust-counts/1"), by a looser bound that needs a lowest rate.

    [Ours] The least ε from −ln(1 − p_max) on with `delta_biased` at most δ (docs/proofs/robust-sampling.md).

    Raises:
        InputRefused: δ out of range, or no ε is enough.
    """
    check_request(delta)
    least = math.nextafter(-math.log1p(-float_up(mechanism.largest_rate)), math.inf) * (1.0 + 1e-15)

    target = float_down(delta)

    def evaluated(epsilon: float) -> float:
        if epsilon < least:
            return math.inf
        try:
            return delta_biased(mechanism, epsilon=epsilon, target=target)
        except InputRefused:
            return math.inf

    found = least if evaluated(least) <= target else least_epsilon(evaluated, target, high=_LARGEST_EPSILON)
    if found is None:
        raise _no_epsilon(mechanism, delta)
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule="robust-counts/1", releases=1)


def survey_statement(mechanism: BiasedSampleCounts) -> str:
    """The crowd-blending guarantee where rates are unequal, and the zero-knowledge one where its theorem holds.

    CBP, Theorem 2, whose δ has no stated constant: it needs p > 0, k ≥ 2 and ℓ < k − 1, and its δ falls with k − ℓ.
    """
    few = f" but for at most {mechanism.exceptions} of its records" if mechanism.exceptions else ""
    lowest, highest = mechanism.lowest_rate, mechanism.highest_rate
    statement = (
        f"({mechanism.k}, 0)-crowd-blending, on records with inclusion rates from {lowest} to {highest}{few}, none "
        f"above {mechanism.largest_rate}"
    )
    if not zero_knowledge_holds(mechanism):
        return f"{statement}."
    fewer = f"k - {mechanism.exceptions} = {mechanism.k - mechanism.exceptions}" if mechanism.exceptions else "k"
    return (
        f"{statement}: so it is also zero-knowledge private with epsilon {zero_knowledge_epsilon_biased(mechanism)} "
        f"for the aggregates iRS({lowest}, {highest}, {mechanism.exceptions}), with a delta that falls with {fewer} "
        "and has no stated constant (Theorem 2 of Gehrke, Hay, Lui, Pass)."
    )


def _survey_price(mechanism: BiasedSampleCounts, delta: Decimal, _releases: int) -> Price:
    return price_biased_counts(mechanism, delta=delta)


def _survey_group_price(_mechanism: BiasedSampleCounts, _delta: Decimal, _releases: int, records: int) -> Price:
    raise no_price_for_surveyed_group(records)


def _survey_robust_price(mechanism: BiasedSampleCounts, delta: Decimal, _releases: int, records: int) -> Price:
    if records > 1:
        raise no_price_for_surveyed_group(records)
    return price_robust_counts(mechanism, delta=delta)


SURVEY_COUNTS: MechanismKind[BiasedSampleCounts] = MechanismKind(
    records={"biased-sample-counts/1": RecordForm(mechanism=BiasedSampleCounts)},
    pure=False,
    price=_survey_price,
    group_price=_survey_group_price,
    paper_price=None,
    losses=not_composed,
    filter_parts=no_filter_parts("its protection is the data set's own sampling, which serves one release ever"),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda _: None,
    samples=lambda _: 1,
    survey_rate=lambda mechanism: mechanism.largest_rate,
    exclusive=False,
    earlier={"robust-counts/1": _survey_robust_price},
    theorems=ROBUST_THEOREMS,
    statements=Statements(
        done=lambda _: _DONE,
        proved=lambda mechanism, _: survey_statement(mechanism),
        chosen=CHOSEN,
        series=None,
        published=CELLS,
    ),
)


_SAMPLED_UNEQUALLY = (
    "The records were sampled with fresh independent coins for this release alone, each at the rate that it names "
    "itself, within bounds that were declared beforehand."
)


def _highest_rate_release(mechanism: UnequalRatesHistogram) -> StronglySafeRelease:
    """The release at the highest rate: lower rates are the same of fewer records, each left out by its own coin."""
    return StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate)


def _unequal_price(mechanism: UnequalRatesHistogram, delta: Decimal, _releases: int) -> Price:
    return price_biased_counts(mechanism.as_survey, delta=delta)


def _unequal_group_price(mechanism: UnequalRatesHistogram, delta: Decimal, releases: int, records: int) -> Price:
    at_one_rate = group_price_fixed(_highest_rate_release(mechanism), delta, releases, records)
    return replace(at_one_rate, rule=rule_for_group("unequal-rates/1", even=False))


def _unequal_robust_price(mechanism: UnequalRatesHistogram, delta: Decimal, releases: int, records: int) -> Price:
    def of_one(survey: BiasedSampleCounts, share: Decimal, _releases: int) -> Price:
        return price_robust_counts(survey, delta=share)

    if records == 1:
        return of_one(mechanism.as_survey, delta, releases)
    return even_group_price(of_one)(mechanism.as_survey, delta, releases, records)


UNEQUAL_RATES: MechanismKind[UnequalRatesHistogram] = MechanismKind(
    records={"unequal-rates-histogram/1": RecordForm(mechanism=UnequalRatesHistogram)},
    pure=False,
    price=_unequal_price,
    group_price=_unequal_group_price,
    paper_price=None,
    losses=lambda mechanism: (_highest_rate_release(mechanism),),
    filter_parts=filter_parts_of_one(lambda mechanism: (_highest_rate_release(mechanism),)),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={"robust-counts/1": _unequal_robust_price},
    theorems=ROBUST_THEOREMS,
    statements=Statements(
        done=lambda _: f"{_SAMPLED_UNEQUALLY} {SUPPRESSED}",
        proved=lambda mechanism, _: survey_statement(mechanism.as_survey),
        chosen=CHOSEN,
        series=None,
        published=CELLS,
    ),
)
