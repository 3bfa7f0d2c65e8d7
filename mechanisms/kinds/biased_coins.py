"""Biased coins and uniform numbers from random bytes, exactly: many at once, about one byte each."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..kernel.mechanism import Randomness

WORD = 1 << 64
_BLOCK = 1 << 24


def word_threshold_up(probability: Decimal | Fraction) -> int:
    """Return the least whole T with T / 2⁶⁴ of at least a probability, which lies in (0, 1)."""
    exact = Fraction(probability)
    if not 0 < exact < 1:
        raise ValueError(f"a probability must lie strictly between 0 and 1, not {probability}")
    return -int(-exact * WORD // 1)


def biased_coins(count: int, *, threshold: int, randomness: Randomness) -> NDArray[np.bool_]:
    """Return independent coins, shape (count,), each true with probability T / 2⁶⁴ exactly, 0 ≤ T < 2⁶⁴."""
    if not 0 <= threshold < WORD:
        raise ValueError(f"a threshold must lie in 0 … 2**64 - 1, not {threshold}")
    top, rest = threshold >> 56, threshold & ((1 << 56) - 1)
    coins = np.empty(count, dtype=np.bool_)
    for start in range(0, count, _BLOCK):
        first = np.frombuffer(randomness(min(_BLOCK, count - start)), dtype=np.uint8)
        block = coins[start : start + first.size]
        np.less(first, top, out=block)
        # A coin is a 64-bit word below T; its seven low bytes are drawn only where the top byte doesn't decide.
        tied = np.flatnonzero(first == top)
        words = np.zeros((tied.size, 8), dtype=np.uint8)
        words[:, 1:] = np.frombuffer(randomness(7 * tied.size), dtype=np.uint8).reshape(tied.size, 7)
        block[tied] = words.view(">u8").reshape(tied.size) < rest
    return coins


def uniform_below(count: int, *, bound: int, randomness: Randomness) -> NDArray[np.int64]:
    """Return independent whole numbers, uniform on 0 … bound − 1 exactly, by rejection; bound ≤ 2³²."""
    if not 1 <= bound <= 1 << 32:
        raise ValueError(f"a bound must lie in 1 … 2**32, not {bound}")
    drawn = np.empty(count, dtype=np.int64)
    waiting = np.arange(count)
    # Words from the last whole multiple of the bound on are drawn again: their remainders would favour small numbers.
    limit = np.uint64(WORD // bound * bound - 1)
    while waiting.size:
        words = np.frombuffer(randomness(8 * waiting.size), dtype="<u8")
        fair = words <= limit
        drawn[waiting[fair]] = (words[fair] % np.uint64(bound)).astype(np.int64)
        waiting = waiting[~fair]
    return drawn
