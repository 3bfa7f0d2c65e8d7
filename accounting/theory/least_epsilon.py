"""The least ε at which a falling δ(ε) meets a target, found by evaluating it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["least_epsilon"]

_BISECTIONS = 60


def least_epsilon(delta_of: Callable[[float], float], delta: float, *, high: float) -> float | None:
    """About the least ε ≥ 0 at which a falling δ(ε) is at most δ; the answer has been evaluated. None above `high`."""
    if delta_of(0.0) <= delta:
        return 0.0
    low, top = 0.0, 1.0
    while delta_of(top) > delta:
        low, top = top, 2.0 * top
        if top > high:
            return None
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + top)
        if top - low <= 1e-12 * top or not low < middle < top:
            break
        if delta_of(middle) <= delta:
            top = middle
        else:
            low = middle
    return top
