"""Values as bits, and the whole way from values through flipped bits to estimates."""

from __future__ import annotations

import hashlib
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.kinds.krandomization import KRandomization, flipped, outcome_counts
from crowdblend.mechanisms.local_reports.design import BloomEncoding, OneHotEncoding, QuestionEncoding
from crowdblend.mechanisms.local_reports.estimates import estimated_distribution, standard_errors

COLOURS = OneHotEncoding(values=("red", "green", "blue"))


def test_one_bit_for_each_value_and_none_for_others():
    assert COLOURS.bits == 3
    assert COLOURS.encode(["red", "blue", "pink", "green"]).tolist() == [1, 4, 0, 2]
    assert COLOURS.vector_of("blue") == 4


def test_a_bloom_filter_sets_up_to_h_bits_and_is_lasting():
    bloom = BloomEncoding(bits=16, hashes=2, seed=b"cohort 1")
    vectors = bloom.encode([f"v{i}" for i in range(500)])
    ones = np.array([bin(vector).count("1") for vector in vectors.tolist()])
    assert set(ones.tolist()) == {1, 2}
    assert vectors.max() < 1 << 16
    assert bloom.vector_of("v7") == vectors[7]
    assert (BloomEncoding(bits=16, hashes=2, seed=b"cohort 2").encode(["v1", "v2", "v3"]) != vectors[1:4]).any()


def test_the_hash_functions_of_a_bloom_filter_never_change():
    """Devices that are out keep the vectors that they have."""
    bloom = BloomEncoding(bits=24, hashes=4, seed=b"cohort 1")
    assert [bloom.vector_of(text) for text in ("Lyon", "Nice", "é")] == [2621704, 1048837, 66178]
    by_hand = 0
    for number in (b"\0\0", b"\0\1", b"\0\2", b"\0\3"):
        digest = hashlib.blake2b(number + b"Lyon", digest_size=8, key=b"cohort 1", person=b"crowdblend-blm/1")
        by_hand |= 1 << int(digest.hexdigest(), 16) % 24
    assert by_hand == bloom.vector_of("Lyon")


def test_values_that_share_a_vector_are_told():
    bloom = BloomEncoding(bits=4, hashes=1, seed=b"x")
    texts = [f"v{i}" for i in range(9)]
    shared = bloom.shared_vectors([*texts, "v0"])
    assert all(len(sharing) > 1 for sharing in shared.values())
    assert all(bloom.vector_of(text) == vector for vector, sharing in shared.items() for text in sharing)
    assert COLOURS.vector_of("pink") == COLOURS.vector_of("mauve")
    alone = BloomEncoding(bits=1, hashes=1, seed=b"x")
    assert (alone.shared_vectors(["b", "a", "b"]), alone.shared_vectors(["a", "a"])) == ({1: ["b", "a"]}, {})


def test_from_values_to_estimates(seeded_bytes):
    people = ["red"] * 6000 + ["green"] * 2500 + ["blue"] * 400 + ["pink"] * 1100
    mechanism = KRandomization(bits=COLOURS.bits, flip_probability=Decimal("0.25"))
    outcomes = outcome_counts(mechanism, flipped(mechanism, COLOURS.encode(people), randomness=seeded_bytes))
    found, errors = estimated_distribution(mechanism, outcomes), standard_errors(mechanism, outcomes)
    for text in ("red", "green", "blue", "pink"):
        vector = COLOURS.vector_of(text)
        assert abs(found[vector] - people.count(text)) < 6 * errors[vector]


@pytest.mark.parametrize(
    "make",
    [
        lambda: OneHotEncoding(values=()),
        lambda: OneHotEncoding(values=("a", "a")),
        lambda: OneHotEncoding(values=tuple("abcdefghijklmnopqrstuvwxy")),
        lambda: QuestionEncoding(questions=()),
        lambda: QuestionEncoding(questions=("a", "a")),
        lambda: QuestionEncoding(questions=tuple("abcdefghijklmnopqrstuvwxy")),
        lambda: BloomEncoding(bits=25, hashes=1, seed=b"x"),
        lambda: BloomEncoding(bits=4, hashes=0, seed=b"x"),
        lambda: BloomEncoding(bits=4, hashes=4, seed=b"x" * 65),
        lambda: BloomEncoding(bits=0, hashes=1, seed=b"x"),
        lambda: BloomEncoding(bits=4, hashes=5, seed=b"x"),
        lambda: BloomEncoding(bits=4, hashes=2, seed=b""),
    ],
)
def test_fields_out_of_range(make):
    with pytest.raises(ValueError, match="1 to"):
        make()


def test_one_bit_is_enough_and_24_are_the_most():
    for letters in ("a", "abcdefghijklmnopqrstuvwx"):
        assert OneHotEncoding(values=tuple(letters)).vector_of(letters[-1]) == 1 << (len(letters) - 1)
        asked = QuestionEncoding(questions=tuple(letters))
        assert asked.vector_of([True] * asked.bits) == (1 << len(letters)) - 1
        assert asked.vector_of([False] * (asked.bits - 1) + [True]) == 1 << (len(letters) - 1)
        for answers in (asked.bits - 1, asked.bits + 1):
            with pytest.raises(ValueError, match="answers"):
                asked.vector_of([True] * answers)
    assert BloomEncoding(bits=1, hashes=1, seed=b"x" * 64).vector_of("any") == 1
    assert BloomEncoding(bits=24, hashes=24, seed=b"x").vector_of("any") < 1 << 24
