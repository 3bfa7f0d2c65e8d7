"""Designs of reports: read from the public table alone, what a device sends, and the estimates' mean and error."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.kinds.krandomization import KRandomization, flipped
from crowdblend.mechanisms.kinds.local_reports import reports_added_up
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch, encode, summed
from crowdblend.mechanisms.local_reports.design import (
    BloomDesign,
    ChoiceDesign,
    QuestionDesign,
    SketchDesign,
    answer_labels,
    design_of_table,
    design_record,
    estimated,
    largest_standard_error,
)
from crowdblend.mechanisms.local_reports.device import header, question_report, report

from audit.theory.report_errors import variances

SKETCH = {"kind": "count-mean-sketch", "epsilon": 4, "hashes": 8, "bits": 64, "seed": "s", "values": ["a", "b"]}
CHOICE = {"kind": "k-randomization", "flip_probability": Decimal("0.25"), "values": ["x", "y", "z"]}
BLOOM = {**CHOICE, "flip_probability": 0.1, "bloom": {"bits": 6, "hashes": 2, "seed": "s"}}
ASKED = {"kind": "k-randomization", "flip_probability": Decimal("0.2"), "questions": ["p", "q", "r"]}


def test_a_table_says_what_the_reports_are():
    sketch = design_of_table(SKETCH)
    assert sketch == SketchDesign(
        mechanism=CountMeanSketch(epsilon=Decimal(4), hashes=8, bits=64, seed=b"s"), values=("a", "b")
    )
    choice, bloom, asked = (design_of_table(table) for table in (CHOICE, BLOOM, ASKED))
    assert isinstance(choice, ChoiceDesign)
    assert choice.mechanism == KRandomization(bits=3, flip_probability=Decimal("0.25"))
    assert isinstance(bloom, BloomDesign)
    assert bloom.mechanism == KRandomization(bits=6, flip_probability=Decimal("0.1"))
    assert isinstance(asked, QuestionDesign)
    assert [design.answers for design in (sketch, choice, bloom, asked)] == [2, 3, 3, 8]
    assert design_of_table({**CHOICE, "confidence": 1, "least_people": 3}) == choice, "keys of the server alone"


def test_records_of_designs_never_change():
    assert design_record(design_of_table(SKETCH)) == {"encoding": "count-mean-sketch", "values": ["a", "b"]}
    assert design_record(design_of_table(CHOICE)) == {"encoding": "one-hot", "values": ["x", "y", "z"]}
    assert design_record(design_of_table(ASKED)) == {"encoding": "questions", "questions": ["p", "q", "r"]}
    assert design_record(design_of_table(BLOOM)) == {
        "encoding": "bloom", "hashes": 2, "seed": "73", "values": ["x", "y", "z"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({**SKETCH, "kind": "gaussian"}, "there is no kind"),
        ({**CHOICE, "kind": "gaussian"}, "there is no kind"),
        ({**CHOICE, "kind": "sketch"}, "there is no kind"),
        ({**SKETCH, "values": [f"v{i}" for i in range(100_001)]}, "1 to 100000 distinct values"),
        ({**SKETCH, "hashes": 65_536, "bits": 264}, "sums that are kept"),
        ({**SKETCH, "questions": ["a"]}, "questions is not a parameter of count-mean-sketch"),
        ({**SKETCH, "bloom": {}}, "bloom is not a parameter of count-mean-sketch"),
        ({**CHOICE, "hashes": 1}, "hashes is not a parameter of k-randomization"),
        ({**CHOICE, "bits": 1}, "bits is not a parameter of k-randomization"),
        ({**CHOICE, "seed": "s"}, "seed is not a parameter of k-randomization"),
        ({**ASKED, "bloom": {}}, "bloom is not a parameter of k-randomization of questions"),
        ({**CHOICE, "values": "xyz"}, "list of texts"),
        ({**BLOOM, "values": ["x", "x"]}, "distinct values"),
        ({name: value for name, value in SKETCH.items() if name != "kind"}, "kind is required"),
        ({**SKETCH, "epsilon": None}, "epsilon is required"),
        ({**SKETCH, "epsilon": "4"}, "epsilon has another type"),
        ({**SKETCH, "hashes": True}, "hashes has another type"),
        ({**SKETCH, "bits": 60}, "multiple of 8"),
        ({**SKETCH, "hashes": 65_536, "bits": 512}, "sums that are kept"),
        ({**SKETCH, "values": []}, "distinct values"),
        ({**SKETCH, "values": ["a", "a"]}, "distinct values"),
        ({**SKETCH, "values": ["a", 1]}, "list of texts"),
        ({**SKETCH, "flip_probability": 0.1}, "not a parameter"),
        ({**SKETCH, "least_people": 100}, "not a parameter"),
        ({**CHOICE, "epsilon": 4}, "not a parameter"),
        ({**CHOICE, "flip_probability": 0.5}, "flip probability"),
        ({**CHOICE, "values": ["x"] * 2}, "distinct values"),
        ({**ASKED, "values": ["x"]}, "not a parameter"),
        ({**ASKED, "questions": [f"q{i}" for i in range(17)]}, "at most 16 questions"),
        ({**BLOOM, "bloom": 6}, "bloom has another type"),
        ({**BLOOM, "values": [f"v{i}" for i in range(40)]}, "the same vector"),
    ],
)
def test_a_table_that_is_wrong_says_why(table, said):
    with pytest.raises(ValueError, match=said):
        design_of_table(table)


def test_a_devices_line_is_the_report_that_the_library_makes():
    design = design_of_table(SKETCH)
    line = report(design, "a", randomness=np.random.default_rng(1).bytes)
    made = encode(design.mechanism, ["a"], randomness=np.random.default_rng(1).bytes)
    number, bits = line.split(",")
    assert (header(design), int(number)) == ("hash,bits", made.hash_numbers[0])
    assert bytes.fromhex(bits) == made.packed_bits.tobytes()
    for value, one in (("y", 2), ("not declared", 0)):
        choice = design_of_table(CHOICE)
        drawn = flipped(choice.mechanism, np.array([one], np.uint32), randomness=np.random.default_rng(2).bytes)
        assert int(report(choice, value, randomness=np.random.default_rng(2).bytes)) == drawn
    asked = design_of_table(ASKED)
    vector = int(question_report(asked, [True, False, True], randomness=np.random.default_rng(2).bytes))
    assert vector == flipped(asked.mechanism, np.array([5], dtype=np.uint32), randomness=np.random.default_rng(2).bytes)
    assert header(asked) == "vector"
    with pytest.raises(ValueError, match="3 questions, and 2 answers"):
        question_report(asked, [True, False], randomness=np.random.default_rng(2).bytes)


@pytest.mark.parametrize("table", [CHOICE, BLOOM, ASKED])
def test_estimates_are_unbiased_under_their_labels_with_their_exact_errors(table):
    """By all outcomes: each report adds a term of its outcome; people are so many that expected outcomes are whole."""
    design = design_of_table(table)
    bits, flip = design.mechanism.bits, float(design.mechanism.flip_probability)
    vectors = {("x",): 1, ("y",): 2, ("z",): 4}
    if isinstance(design, BloomDesign):
        vectors = {(value,): design.vector_of(value) for value in design.values}
    elif isinstance(design, QuestionDesign):
        asked = (f"{number:03b}" for number in range(8))
        vectors = {tuple(digits): int(digits[::-1], 2) for digits in asked}
    assert answer_labels(design) == tuple(vectors)
    numbers = np.arange(1 << bits)
    apart = np.array([[int(one ^ other).bit_count() for one in numbers] for other in numbers])
    chances = flip**apart * (1 - flip) ** (bits - apart)
    people = np.zeros(numbers.size)
    people[list(vectors.values())] = [10**7 * (1 + place) for place in range(len(vectors))]
    people[0] += 5 * 10**7
    found = estimated(design, np.rint(people @ chances).astype(np.int64))
    terms = np.array([estimated(design, one).counts for one in np.eye(numbers.size)])
    exact = people @ (chances @ terms**2 - (chances @ terms) ** 2)
    assert people @ chances @ terms == pytest.approx(people[list(vectors.values())], abs=1e-3)
    assert found.counts == pytest.approx(people[list(vectors.values())], abs=1e-3)
    assert found.standard_errors**2 == pytest.approx(exact, rel=1e-9)


def test_no_standard_error_passes_the_largest_one(seeded_bytes):
    n = 900
    for table in (SKETCH, CHOICE, BLOOM, ASKED):
        design = design_of_table(table)
        if isinstance(design, SketchDesign):
            totals = summed(design.mechanism, encode(design.mechanism, ["a"] * n, randomness=seeded_bytes))
            errors = estimated(design, totals).standard_errors
        elif isinstance(design, ChoiceDesign):
            errors = estimated(design, np.array([n, 0, 0, 0, 0, 0, 0, 0])).standard_errors
        else:
            size = 1 << design.mechanism.bits
            crowd = np.zeros(size)
            crowd[3] = n
            errors = np.sqrt(variances(design.mechanism, crowd))
        assert (errors <= largest_standard_error(design) * math.sqrt(n) * (1 + 1e-12)).all()
        assert errors.max() > 0.99 * largest_standard_error(design) * math.sqrt(n), "and it is nearly reached"


def test_totals_of_another_kind_are_refused():
    sketch, choice = design_of_table(SKETCH), design_of_table(CHOICE)
    sums = summed(sketch.mechanism, encode(sketch.mechanism, ["a"], randomness=np.random.default_rng(1).bytes))
    assert (reports_added_up(sums), reports_added_up(np.array([3, 4]))) == (1, 7)
    for design, totals in ((choice, sums), (sketch, np.array([1, 2]))):
        with pytest.raises(ValueError, match="another kind"):
            estimated(design, totals)
