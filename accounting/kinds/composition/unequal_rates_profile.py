"""The privacy profile of counts of records with unequal sampling rates, by their upper bounds alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ...kernel.prices.arithmetic import ABOVE, BELOW, ULP, least_epsilon, log_binomial_pmf, sum_margin
from ...kernel.prices.privacy_profile import LARGEST_GROUP, check_parameters, delta_exact

MOST_EXCEPTIONS = 1000
"""More records with higher rates are no exceptions: then all are priced at the highest rate."""


_MOST_SECANTS, _NEAR_ROOT, _ASIDE = 12, 1e-11, 1e-3
_TINY = 1e-300
_TIE = 1e-10
_DEVIATIONS = 12.0
_MORE_TERMS = 60.0
_NEAR = 16
_UP = 1.0 + 1e-9
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
    """Return the least δ at ε ≥ 0 of counts of at least k of records sampled at rates up to p′, and a few up to p_max.

    The record in question may have any rate up to p_max, and so may at most ℓ others of its group; above
    `MOST_EXCEPTIONS` all count as exceptions. It is the largest divergence between X + Ber(p_max) and X, both
    suppressed, X ~ Bin(n, p′) + Bin(a, p_max), over n ≥ 0, a ≤ ℓ (docs/proofs/robust-sampling.md). Where p′ = p_max it
    is the exact profile at that rate.

    Returns:
        δ, never below the truth and above it by rounding only, but for δ below 1e-300. With a target, where only the
        side of this δ is asked for, a number on the same side of it as δ, and at least δ where that is below.

    Raises:
        ValueError: a value out of range, or beyond double precision.
    """
    _check(k, highest_rate, largest_rate, exceptions, epsilon)
    if highest_rate == largest_rate or exceptions > MOST_EXCEPTIONS:
        return delta_exact(k=k, sampling_rate=largest_rate, epsilon=epsilon)
    return _Counts(k, highest_rate, largest_rate, epsilon).delta(exceptions, target or 0.0)[0]


def least_epsilon_unequal(
    *, k: int, highest_rate: float, largest_rate: float, exceptions: int, delta: float, high: float
) -> float | None:
    """Return about the least ε ≥ 0 with `delta_unequal` at most δ, itself evaluated; None above `high`.

    Raises:
        ValueError: as `delta_unequal`.
    """
    _check(k, highest_rate, largest_rate, exceptions, 0.0)
    if highest_rate == largest_rate or exceptions > MOST_EXCEPTIONS:
        return least_epsilon(
            lambda epsilon: delta_exact(k=k, sampling_rate=largest_rate, epsilon=epsilon), delta, high=high
        )

    # A search goes by one number of exceptions alone, and where it ends all are tried. Where one is above δ there, the
    # search goes on by the worst around it, and ends at a larger ε.
    # INVARIANT: δ falls with ε, so that the last search ends where one with all numbers would have ended.
    odd, least = exceptions, 0.0
    while True:
        followed = _Falling(partial(_delta_of, k, highest_rate, largest_rate, odd), delta, least)
        found = followed.least(high=high)
        if found is None:
            return None
        counts = _Counts(k, highest_rate, largest_rate, found)
        reached, above = counts.delta(exceptions, delta)
        if reached <= delta:
            return found
        odd, least = counts.peak(above, exceptions), found


def _delta_of(k: int, rate: float, top: float, odd: int, epsilon: float) -> float:
    return _Counts(k, rate, top, epsilon).delta_of(odd)


class _Falling:
    """A falling δ(ε) that is evaluated only where the side of a target isn't known.

    Args:
        delta_of: of ε ≥ 0.
        delta: the target, above 0.
        above: an ε at which δ(ε) is above it, if that is not 0.
    """

    def __init__(self, delta_of: Callable[[float], float], delta: float, above: float) -> None:
        self._delta_of, self._delta = delta_of, delta
        self._above, self._within = (above or -1.0, math.inf), (math.inf, 0.0)

    def __call__(self, epsilon: float) -> float:
        """Return a number on the same side of the target as δ(ε)."""
        if epsilon <= self._above[0]:
            return math.inf
        if epsilon >= self._within[0]:
            return 0.0
        value = self._delta_of(epsilon)
        if value > self._delta:
            self._above = (epsilon, value)
        else:
            self._within = (epsilon, value)
        return value

    def least(self, *, high: float) -> float | None:
        """Return what `least_epsilon` does, after few evaluations by a secant of ln δ have found about where it is."""
        if self(0.0) <= self._delta:
            return 0.0
        top = 1.0
        while self(top) > self._delta:
            top *= 2.0
            if top > high:
                return None
        for _ in range(_MOST_SECANTS):
            (low, over), (top, under) = self._above, self._within
            if top - low <= _NEAR_ROOT * top:
                break
            share = 0.5
            if math.isfinite(over) and under > 0.0:
                share = math.log(over / self._delta) / math.log(over / under)
            # A little to either side of where the secant meets the target, so that both ends come nearer.
            for aside in (-_ASIDE, _ASIDE):
                self(low + min(max(share + aside, _ASIDE), 1.0 - _ASIDE) * (top - low))
        return least_epsilon(self, self._delta, high=high)


def _check(k: int, rate: float, top: float, exceptions: int, epsilon: float) -> None:
    check_parameters(k, rate)
    check_parameters(k, top)
    if not (rate <= top and exceptions >= 0 and epsilon >= 0.0):
        raise ValueError(f"rates must ascend, not {rate}, {top}; exceptions and epsilon be at least 0")


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

    def delta(self, exceptions: int, enough: float) -> tuple[float, int]:
        """Return δ over both ways, or a bound on it of at most `enough`, and the number of exceptions that has it."""
        largest, odd = max(self.worst(exceptions, enough, adding=way) for way in (True, False))
        return min(1.0, largest + _TINY), odd

    def delta_of(self, odd: int) -> float:
        """Return δ of one number of exceptions, over all n and both ways."""
        return min(1.0, max(self.largest(odd, adding=way) for way in (True, False)) + _TINY)

    def peak(self, odd: int, exceptions: int) -> int:
        """Return a number of exceptions, of at most all, at which δ is largest among those around it."""
        here, step, widening = self.delta_of(odd), 1, True
        while step:
            around = [near for near in (odd - step, odd + step) if 0 <= near <= exceptions]
            there, near = max((self.delta_of(near), near) for near in around)
            if there > here:
                here, odd, step = there, near, 2 * step if widening else step
            else:
                widening, step = False, step // 2
        return odd

    def largest(self, odd: int, *, adding: bool) -> float:
        """Return the largest divergence over all n of one number of exceptions, rounded up."""
        if not adding and self.removing_ratio <= 0.0:
            return 0.0
        return self.at(self.first(odd, adding=adding), odd, adding=adding)

    def worst(self, exceptions: int, enough: float, *, adding: bool) -> tuple[float, int]:
        """Return the largest divergence over all n and all a ≤ ℓ, rounded up, and the a that has it.

        Where none is above `enough` it may be a bound on it of at most that, and the a another one.
        """
        best, worst = self.largest(exceptions, adding=adding), exceptions
        if not adding and self.removing_ratio <= 0.0:
            return best, worst
        skipped, blocks = best, [(0, exceptions)]
        while blocks and not best > enough > 0.0:
            # INVARIANT: what `at` gives for the fewest exceptions of a block, and the first n of the most, is reached
            # by no n with any number of the block. A block that could exceed the best is halved.
            fewest, most = blocks.pop()
            bound = self.at(self.first(most, adding=adding), fewest, adding=adding)
            if bound <= max(best, enough):
                skipped = max(skipped, bound)
            elif fewest == most:
                best, worst = bound, most
            else:
                middle = (fewest + most) // 2
                blocks += [(fewest, middle), (middle + 1, most)]
        return max(best, skipped), worst

    def first(self, odd: int, *, adding: bool) -> int:
        """Return the first n with Pr[X = k − 2] / Pr[X = k − 1] at most the ratio; by rounding or if huge, a lower."""
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
        """Return ln Pr[X = j] for j = first … last, −∞ where impossible, and a bound on the errors."""
        regular, error = _log_pmf(np.arange(first - odd, last + 1, dtype=np.float64), n, self.rate)
        others, more = _log_pmf_of_all(odd, self.top)
        terms = sliding_window_view(regular, odd + 1) + others
        largest = np.maximum(terms.max(axis=1), -1e300)
        with np.errstate(divide="ignore", under="ignore"):
            logs = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))
        size = float(np.abs(largest[largest > -1e300]).max(initial=0.0))
        return logs, error + more + (odd + 16.0 + 4.0 * size) * ULP

    def at(self, n: int, odd: int, *, adding: bool) -> float:
        """Return the divergence between X + Ber(p_max) and X without suppression, rounded up."""
        # Ratios of successive probabilities fall with j, so the counts that add to it are all those above one count, or
        # all below. The window reaches past that count; what lies beyond its other end is below a geometric series.
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
        """Return what each count from `first` to `last` + 1 adds, rounded up, and a bound on all beyond the far end."""
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
    """Return ln Pr[Bin(trials, rate) = j], −∞ where impossible, and the largest error bound of the others."""
    possible = (values >= 0.0) & (values <= trials)
    if trials == 0:
        return np.where(possible, 0.0, -np.inf), 0.0
    counts = np.full_like(values, float(trials))
    logs, errors = log_binomial_pmf(np.clip(values, 0.0, counts), counts, rate)
    return np.where(possible, logs, -np.inf), float(errors[possible].max(initial=0.0))


@lru_cache(maxsize=64)
def _log_pmf_of_all(trials: int, rate: float) -> tuple[Array, float]:
    """Return ln Pr[Bin(trials, rate) = j] for j = trials … 0, kept since few numbers of trials are asked for often."""
    return _log_pmf(np.arange(trials, -1, -1, dtype=np.float64), trials, rate)


def _geometric(outer: float, inner: float) -> float:
    """Return at least the sum of `outer` and what lies beyond it, from its neighbour `inner` nearer to the middle.

    The logarithm of Pr[X = j] is concave, so that successive ratios fall.
    """
    if outer == 0.0:
        return 0.0
    ratio = outer / inner * _UP
    return outer / (1.0 - ratio) * _UP if ratio < 1.0 else math.inf
