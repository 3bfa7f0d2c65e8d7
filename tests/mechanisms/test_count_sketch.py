"""The count mean sketch: its reports' distribution, its estimates' mean and variance, its lasting hash functions."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from crowdblend.mechanisms.kinds.biased_coins import WORD
from crowdblend.mechanisms.kinds.sketch import (
    LEAST_EPSILON,
    CountMeanSketch,
    SketchReports,
    empty_sums,
    encode,
    hash_positions,
    summed,
)
from crowdblend.mechanisms.local_reports.estimates import estimated_counts, standard_error
from scipy import stats

from audit.theory.report_errors import expected_estimate, variance_given_hashes, variance_over_hashes

SMALL = CountMeanSketch(epsilon=Decimal(2), hashes=4, bits=16, seed=b"small")
COUNTS = {"red": 60, "blue": 25, "green": 10, "mauve": 5}
PEOPLE = [value for value, count in COUNTS.items() for _ in range(count)]


def test_hash_functions_never_change(examples):
    stored = examples["count_mean_sketch_positions"]
    sketch = CountMeanSketch(
        epsilon=Decimal(4), hashes=len(stored["positions"]), bits=stored["bits"], seed=stored["seed"].encode()
    )
    assert hash_positions(sketch, stored["value"]).tolist() == stored["positions"]


@pytest.mark.parametrize("epsilon", ["0.01", "1", "4", "40"])
def test_the_real_flips_are_the_stated_ones_rounded_towards_privacy(epsilon):
    sketch = CountMeanSketch(epsilon=Decimal(epsilon), hashes=1, bits=8, seed=b"x")
    stated = 1 / (Decimal(epsilon) / 2).exp().__add__(1)
    real = Fraction(sketch.flip_threshold, WORD)
    assert real >= Fraction(stated) * (1 - Fraction(1, 10**26))
    assert real <= Fraction(stated) + Fraction(2, WORD)
    assert sketch.correction == pytest.approx(1 / math.tanh(float(epsilon) / 4), rel=1e-6)


def test_an_epsilon_that_no_coin_of_64_bits_can_have_is_refused():
    """Below 8/2⁶⁴ the least probability that is not below 1/(e^{ε/2}+1) would be one half."""
    for epsilon in ("0", "9.99e-19", "4.3e-19", "1e-30", "NaN"):
        with pytest.raises(ValueError, match="at least 1E-18 and at most 40"):
            CountMeanSketch(epsilon=Decimal(epsilon), hashes=1, bits=8, seed=b"x")
    least = CountMeanSketch(epsilon=LEAST_EPSILON, hashes=1, bits=8, seed=b"x")
    assert 1 / (Fraction((LEAST_EPSILON / 2).exp(Context(prec=60))) + 1) <= Fraction(least.flip_threshold, WORD)
    assert least.flip_threshold < WORD // 2


def test_each_bit_is_flipped_with_its_probability(seeded_bytes, false_alarm):
    reports = encode(SMALL, ["red"] * 20_000, randomness=seeded_bytes)
    places = hash_positions(SMALL, "red")[reports.hash_numbers]
    bits = np.unpackbits(reports.packed_bits, axis=1).astype(bool)
    bits[np.arange(places.size), places] ^= True

    def p_value(q):
        per_bit = [stats.binomtest(int(column.sum()), column.size, q).pvalue for column in bits.T]
        return min(per_bit) * SMALL.bits

    stated = 1 / (math.e + 1)
    assert p_value(stated) > false_alarm
    assert p_value(stated * 1.1) < false_alarm
    assert p_value(stated / 1.1) < false_alarm
    assert np.corrcoef(bits.T)[0, 1] < 6 / math.sqrt(places.size), "and independently"


def test_hash_functions_are_drawn_evenly(fit, seeded_bytes):
    drawn = encode(SMALL, ["red"] * 20_000, randomness=seeded_bytes).hash_numbers.astype(np.int64)
    assert fit(drawn, lambda x: 1 / SMALL.hashes)
    assert not fit(np.where(drawn == 3, drawn, drawn * (drawn % 2)), lambda x: 1 / SMALL.hashes)


@pytest.mark.parametrize("value", COUNTS)
def test_the_estimate_has_its_mean_and_variance_for_given_hash_functions(value):
    """Exactly: each person adds a term of the hash function that is drawn and of the coin at the value's place."""
    flip, places = SMALL.flip_threshold / WORD, hash_positions(SMALL, value)
    mean = variance = 0.0
    for own, count in COUNTS.items():
        terms, chances = [], []
        for number, one in enumerate(hash_positions(SMALL, own) == places):
            for bit in (0, 1):
                sums = empty_sums(SMALL)
                sums.reports[number], sums.ones[number, places[number]] = 1, bit
                terms.append(estimated_counts(SMALL, sums, [value])[0])
                chances.append((1 - flip if bit == one else flip) / SMALL.hashes)
        of_one = np.dot(chances, terms)
        mean += count * of_one
        variance += count * (np.dot(chances, np.square(terms)) - of_one**2)
    assert mean == pytest.approx(expected_estimate(SMALL, value=value, counts=COUNTS))
    assert variance == pytest.approx(variance_given_hashes(SMALL, value=value, counts=COUNTS))
    assert variance <= standard_error(SMALL, reports=len(PEOPLE)) ** 2


def test_more_reports_of_one_hash_function_than_16_bits_count_are_summed():
    sketch = CountMeanSketch(epsilon=Decimal(1), hashes=1, bits=8, seed=b"x")
    many = 2 * 2**16 + 3
    packed = np.full((many, 1), 0b10000001, dtype=np.uint8)
    reports = SketchReports(hash_numbers=np.zeros(many, dtype=np.uint16), packed_bits=packed)
    assert summed(sketch, reports).ones.tolist() == [[many, 0, 0, 0, 0, 0, 0, many]]


def test_over_hash_functions_the_estimate_is_unbiased_with_the_whole_variance():
    """Exactly: of the k functions, as many put another value on the same place as k coins of 1/m show."""
    sketch = CountMeanSketch(epsilon=Decimal(4), hashes=3, bits=8, seed=b"any")
    scale, c, people = sketch.bits / (sketch.bits - 1), sketch.correction, sum(COUNTS.values())
    collide = stats.binom(sketch.hashes, 1 / sketch.bits).pmf(range(sketch.hashes + 1))
    own, *others = COUNTS["green"], *(count for value, count in COUNTS.items() if value != "green")
    mean = square = 0.0
    for numbers in product(range(sketch.hashes + 1), repeat=len(others)):
        shares = [(own, 1.0), *((count, number / sketch.hashes) for count, number in zip(others, numbers, strict=True))]
        chance = math.prod(collide[list(numbers)])
        estimate = scale * (sum(count * share for count, share in shares) - people / sketch.bits)
        coins = scale**2 * sum(count * (c**2 - (2 * share - 1) ** 2) / 4 for count, share in shares)
        mean += chance * estimate
        square += chance * (estimate**2 + coins)
    assert mean == pytest.approx(own)
    assert square - mean**2 == pytest.approx(variance_over_hashes(sketch, value="green", counts=COUNTS))


def test_sums_of_parts_add_up_and_unknown_hash_functions_count_nowhere(seeded_bytes):
    reports = encode(SMALL, PEOPLE, randomness=seeded_bytes)
    whole = summed(SMALL, reports)
    parts = [
        summed(SMALL, SketchReports(hash_numbers=reports.hash_numbers[a::3], packed_bits=reports.packed_bits[a::3]))
        for a in range(3)
    ]
    assert (sum(part.ones for part in parts) == whole.ones).all()
    assert (sum(part.reports for part in parts) == whole.reports).all()
    slow = np.zeros_like(whole.ones)
    for number, row in zip(reports.hash_numbers, reports.packed_bits, strict=True):
        slow[number] += np.unpackbits(row)
    assert (slow == whole.ones).all()
    assert Counter(reports.hash_numbers.tolist()) == Counter(dict(enumerate(whole.reports.tolist())))
    strange = SketchReports(hash_numbers=np.array([9], dtype=np.uint16), packed_bits=reports.packed_bits[:1])
    assert summed(SMALL, strange).reports.sum() == 0
    assert empty_sums(SMALL).ones.sum() == 0
    with pytest.raises(ValueError, match=r"reports of 16 bits have shape \(n, 2\)"):
        summed(SMALL, SketchReports(hash_numbers=reports.hash_numbers, packed_bits=reports.packed_bits[:, :1]))


@pytest.mark.parametrize(("epsilon", "bits"), [("2", 8), ("0.5", 64)])
def test_the_standard_error_is_that_of_so_many_fair_coins_at_most(epsilon, bits):
    """m/(m−1)·c·√n/2, c = (e^{ε/2} + 1)/(e^{ε/2} − 1), and estimates by the same formula without the coins."""
    sketch = CountMeanSketch(epsilon=Decimal(epsilon), hashes=2, bits=bits, seed=b"s")
    growth = math.exp(float(epsilon) / 2)
    c = (growth + 1) / (growth - 1)
    assert standard_error(sketch, reports=900) == pytest.approx(bits / (bits - 1) * c * 30 / 2, rel=1e-12)
    sums = empty_sums(sketch)
    places = hash_positions(sketch, "a")
    sums.reports[:] = 500, 400
    sums.ones[[0, 1], places] = 300, 200
    counted = c * 500 + (1 - c) / 2 * 900
    assert estimated_counts(sketch, sums, ["a"])[0] == pytest.approx((counted - 900 / bits) * bits / (bits - 1))
