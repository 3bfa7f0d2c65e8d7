"""Finds the ends of what fits: the first whole number, the last real one."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...kernel.prices.arithmetic import ULP
from ...kernel.prices.privacy_profile import epsilon_of_log_delta


def first_whole(cost: Callable[[int], float], target: float, *, largest: int, guess: int = 1) -> int | None:
    """Return the first whole number from 1 at which a falling cost is at most a target; None if none up to `largest`.

    From the guess the search steps outward until it has both a failing and a fitting number; between them the next
    number follows the power law through both costs (halving where a cost is 0 or infinite, and after every step
    that left most of the range).
    """
    step = max(1, guess // 256)
    low, low_cost = 0, math.inf
    high, high_cost = guess, cost(guess)
    while not high_cost <= target:
        if high >= largest:
            return None
        low, low_cost = high, high_cost
        high, step = min(high + step, largest), 4 * step
        high_cost = cost(high)
    while low == 0 and high > 1:
        below = max(high - step, 1)
        step *= 4
        below_cost = cost(below)
        if below_cost <= target:
            high, high_cost = below, below_cost
        else:
            low, low_cost = below, below_cost
    halve = False
    while high - low > 1:
        width = high - low
        middle = (low + high) // 2
        share = None if halve else _power_share(low_cost, high_cost, target)
        if share is not None:
            middle = min(max(round(low * (high / low) ** share), low + 1), high - 1)
        value = cost(middle)
        if value <= target:
            high, high_cost = middle, value
        else:
            low, low_cost = middle, value
        halve = 2 * (high - low) > width
    return high


def last_real(cost: Callable[[float], float], target: float, *, low: float, high: float, precision: float) -> float:
    """Return about the last number at which a rising cost is at most a target; it is at `low` and not at `high`.

    Args:
        cost: rising with its argument, of at least 0, perhaps infinite.
        target: the cost allowed.
        low: positive, fits.
        high: above `low`, does not fit.
        precision: relative width at which the search stops.

    Returns:
        A number that fits; a number above it by at most `precision` does not.
    """
    low_cost, high_cost = cost(low), cost(high)
    halve = False
    while high / low > 1.0 + precision:
        width = math.log(high / low)
        middle = math.sqrt(low) * math.sqrt(high)
        share = None if halve else _power_share(high_cost, low_cost, target)
        if share is not None:
            margin = 0.25 * precision / width
            middle = low * math.exp(width * min(max(1.0 - share, margin), 1.0 - margin))
        if not low < middle < high:
            break
        value = cost(middle)
        if value <= target:
            low, low_cost = middle, value
        else:
            high, high_cost = middle, value
        halve = 2.0 * math.log(high / low) > width
    return low


def _power_share(failing: float, fitting: float, target: float) -> float | None:
    """Where a power law reaches the target, as a share of the way from failing to fitting; None where there is none."""
    if not (math.isfinite(failing) and 0.0 < fitting < failing and fitting <= target):
        return None
    return math.log(failing / target) / math.log(failing / fitting)


def epsilon_exact(*, k: int, sampling_rate: float, delta: float) -> float | None:
    """Return the least ε ≥ 0 with δ(ε) ≤ δ, rounded outward; None where no finite ε has it (δ below β^k).

    Raises:
        ValueError: parameters that `check_parameters` refuses, or δ outside (0, 1).
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
    return epsilon_of_log_delta(k=k, sampling_rate=sampling_rate, log_delta=math.log(delta) * (1.0 + 4.0 * ULP))
