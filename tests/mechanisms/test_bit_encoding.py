"""Values and answers as bits that never change, and the whole way from values through flipped bits to estimates."""

from __future__ import annotations

import hashlib
from decimal import Decimal

import pytest
from crowdblend.mechanisms.kinds.krandomization import MOST_BITS, KRandomization
from crowdblend.mechanisms.local_reports.design import BloomDesign, ChoiceDesign, QuestionDesign, design_of_table

FLIPS = {"kind": "k-randomization", "flip_probability": Decimal("0.25")}
LETTERS = "abcdefghijklmnopqrstuvwxy"


def choice(*values: str) -> ChoiceDesign:
    return design_of_table({**FLIPS, "values": values})


def bloom(*values: str, bits: int = 24, hashes: int = 4, seed: str = "cohort 1") -> BloomDesign:
    return design_of_table({**FLIPS, "values": values, "bloom": {"bits": bits, "hashes": hashes, "seed": seed}})


def asked(*questions: str) -> QuestionDesign:
    return design_of_table({**FLIPS, "questions": questions})


def test_each_declared_value_has_a_bit_and_no_other_text():
    for letters in ("a", "abc", LETTERS[:MOST_BITS]):
        design = choice(*letters)
        assert [design.vector_of(letter) for letter in letters] == [1 << place for place in range(len(letters))]
        assert design.vector_of("pink") == 0


def test_each_answer_has_a_bit():
    design = asked(*"abc")
    assert [design.vector_of([bool(n & 1), bool(n & 2), bool(n & 4)]) for n in range(8)] == list(range(8))
    for answers in (2, 4):
        with pytest.raises(ValueError, match="answers"):
            design.vector_of([True] * answers)


def test_the_hash_functions_of_a_bloom_filter_never_change():
    """Devices that are out keep the vectors that they have."""
    design = bloom("Lyon")
    assert [design.vector_of(text) for text in ("Lyon", "Nice", "é")] == [2621704, 1048837, 66178]
    by_hand = 0
    for number in (b"\0\0", b"\0\1", b"\0\2", b"\0\3"):
        digest = hashlib.blake2b(number + b"Lyon", digest_size=8, key=b"cohort 1", person=b"crowdblend-blm/1")
        by_hand |= 1 << int(digest.hexdigest(), 16) % 24
    assert by_hand == design.vector_of("Lyon")
    assert bloom("Lyon", seed="cohort 2").vector_of("Lyon") != by_hand
    ones = {bloom("x", bits=16, hashes=2).vector_of(f"v{number}").bit_count() for number in range(500)}
    assert ones == {1, 2}
    assert bloom("x", bits=1, hashes=1, seed="x" * 64).vector_of("any") == 1


@pytest.mark.parametrize(
    "make",
    [
        choice,
        lambda: choice("a", "a"),
        lambda: choice(*LETTERS),
        asked,
        lambda: asked("a", "a"),
        lambda: asked(*LETTERS[:17]),
        lambda: asked(*LETTERS),
        lambda: bloom("a", bits=25),
        lambda: bloom("a", bits=0, hashes=1),
        lambda: bloom("a", hashes=0),
        lambda: bloom("a", bits=4, hashes=5),
        lambda: bloom("a", seed="x" * 65),
        lambda: bloom("a", seed=""),
        bloom,
        lambda: bloom("a", "a"),
        lambda: bloom("a", "b", bits=1, hashes=1),
        lambda: QuestionDesign(mechanism=KRandomization(bits=2, flip_probability=Decimal("0.1")), questions=("a",)),
    ],
)
def test_what_has_no_such_bits_is_refused(make):
    with pytest.raises(ValueError, match=r"bits|distinct|questions|hash functions|seed|vector"):
        make()
