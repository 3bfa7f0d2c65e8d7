"""Biased coins are exact to 64 bits, whatever the bytes."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from crowdblend.mechanisms.kinds.biased_coins import WORD, biased_coins, uniform_below, word_threshold_up


@pytest.mark.parametrize("probability", ["0.1", "0.5", "1e-15", "0.499999", "0.0039062500001"])
def test_the_threshold_is_the_least_that_is_not_below(probability):
    threshold = word_threshold_up(Decimal(probability))
    assert Fraction(threshold, WORD) >= Fraction(Decimal(probability)) > Fraction(threshold - 1, WORD)


@pytest.mark.parametrize("word", [0, 1, 2**56 - 1, 2**56, 2**63, 2**64 - 1, 0x19_9999_9999_9999_9A, 5 << 56])
@pytest.mark.parametrize("threshold", [0, 1, 2**56, 5 << 56, (5 << 56) + 7, 2**63, 2**64 - 1])
def test_a_coin_is_the_comparison_of_one_word(word, threshold):
    raw_bytes = word.to_bytes(8, "big")
    parts = [raw_bytes[:1], raw_bytes[1:]]

    def randomness(count):
        assert count in (0, 1, 7)
        return parts.pop(0) if count else b""

    assert biased_coins(1, threshold=threshold, randomness=randomness).tolist() == [word < threshold]


@pytest.mark.parametrize("bound", [0, 2**32 + 1])
def test_bounds_out_of_range(bound, seeded_bytes):
    with pytest.raises(ValueError, match="bound"):
        uniform_below(1, bound=bound, randomness=seeded_bytes)
    with pytest.raises(ValueError, match="threshold"):
        biased_coins(1, threshold=WORD, randomness=seeded_bytes)
    with pytest.raises(ValueError, match="probability"):
        word_threshold_up(Decimal(1))


@pytest.mark.parametrize("bound", [1, 3, 6, 2**32 - 1, 2**32])
def test_a_word_is_taken_up_to_the_last_whole_multiple_of_the_bound(bound):
    whole = WORD // bound * bound
    words = [whole - 1, *([whole] if whole < WORD else []), WORD - 1, 5, bound, 7]
    fair = [word for word in words if word < whole]
    given = iter(word.to_bytes(8, "little") for word in words)
    drawn = uniform_below(len(fair) - 1, bound=bound, randomness=lambda n: b"".join(next(given) for _ in range(n // 8)))
    assert sorted(drawn.tolist()) == sorted(word % bound for word in fair[:-1])
