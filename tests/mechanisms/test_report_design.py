"""Designs of reports: read from the public table alone, what a device sends, and the estimates' mean and error."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.kinds.krandomization import KRandomization, flipped, outcome_counts
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
from crowdblend.mechanisms.local_reports.estimates import estimated_ones, standard_error_of_ones

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
    asked = design_of_table(ASKED)
    vector = int(question_report(asked, [True, False, True], randomness=np.random.default_rng(2).bytes))
    assert vector == flipped(asked.mechanism, np.array([5], dtype=np.uint32), randomness=np.random.default_rng(2).bytes)
    assert header(asked) == "vector"
    with pytest.raises(ValueError, match="3 questions, and 2 answers"):
        question_report(asked, [True, False], randomness=np.random.default_rng(2).bytes)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["y", "not declared"])
def test_lines_have_the_flips_distribution(fit, seeded_bytes, value):
    """By χ² at one false alarm in a million; flips 10% off in either direction are rejected."""
    design = design_of_table(CHOICE)
    drawn = np.array([int(report(design, value, randomness=seeded_bytes)) for _ in range(10_000)])
    origin = 2 if value == "y" else 0

    def mass(outcome, q):
        apart = (outcome ^ origin).bit_count()
        return q**apart * (1 - q) ** (3 - apart)

    assert fit(drawn, lambda outcome: mass(outcome, 0.25))
    assert not fit(drawn, lambda outcome: mass(outcome, 0.275))
    assert not fit(drawn, lambda outcome: mass(outcome, 0.25 / 1.1))


def test_the_counts_of_values_are_unbiased_with_their_exact_error(seeded_bytes):
    """Mean within 6 standard errors, variance within 6 of its own: a false alarm in about 10⁸. Controls are 10% off."""
    design = design_of_table(CHOICE)
    people = np.array([300, 150, 0, 50])  # x, y, z, none of them
    vectors = np.repeat(np.array([1, 2, 4, 0], dtype=np.uint32), people)
    trials = 4_000
    found, outcomes = np.empty((trials, 3)), np.zeros(8)
    for trial in range(trials):
        totals = outcome_counts(design.mechanism, flipped(design.mechanism, vectors, randomness=seeded_bytes))
        estimates = estimated(design, totals)
        outcomes += totals / trials
        found[trial] = estimates.counts
    [error] = set(estimates.standard_errors.tolist())
    assert error == standard_error_of_ones(design.mechanism, people=500) == pytest.approx(math.sqrt(500 * 0.1875) / 0.5)

    def mean_holds(values):
        return (np.abs(values.mean(axis=0) - people[:3]) < 6 * error / math.sqrt(trials)).all()

    def spread_holds(values):
        return (np.abs(values.var(axis=0) / error**2 - 1) < 6 * math.sqrt(2 / trials)).all()

    assert mean_holds(found)
    assert spread_holds(found)
    for factor in (1.1, 1 / 1.1):
        assert not mean_holds(found * factor)
        assert not spread_holds((found - found.mean(axis=0)) * factor)
        other = KRandomization(bits=3, flip_probability=Decimal(str(round(0.25 * factor, 4))))
        wrong = estimated_ones(other, outcomes)
        assert not mean_holds(wrong.reshape(1, 3)), "a server that believes in other flips is biased"


@pytest.mark.slow
def test_combinations_of_answers_are_told_by_their_labels(seeded_bytes):
    design = design_of_table(ASKED)
    answers = [(True, False, False)] * 400 + [(False, True, True)] * 250 + [(False, False, False)] * 50
    expected = {labels: answers.count(tuple(digit == "1" for digit in labels)) for labels in answer_labels(design)}
    assert list(expected)[:3] == [("0", "0", "0"), ("0", "0", "1"), ("0", "1", "0")]
    vectors = np.array([design.vector_of(one) for one in answers], dtype=np.uint32)
    trials = 2_000
    found = np.array(
        [
            estimated(
                design, outcome_counts(design.mechanism, flipped(design.mechanism, vectors, randomness=seeded_bytes))
            ).counts
            for _ in range(trials)
        ]
    )
    exact = variances(design.mechanism, np.bincount(vectors, minlength=8).astype(float))
    order = [design.vector_of([digit == "1" for digit in labels]) for labels in expected]
    assert (np.abs(found.mean(axis=0) - list(expected.values())) < 6 * np.sqrt(exact[order] / trials)).all()
    swapped = [labels[::-1] for labels in expected]
    wrong = [expected[labels] for labels in swapped]
    assert (np.abs(found.mean(axis=0) - wrong) > 6 * np.sqrt(exact[order] / trials)).any(), "the order is not arbitrary"


@pytest.mark.parametrize("table", [CHOICE, BLOOM])
def test_a_value_has_its_own_label_and_the_count_of_its_vector(table):
    """With as many reports of each vector as coins give in the mean, estimates are the counts themselves."""
    design = design_of_table(table)
    assert answer_labels(design) == (("x",), ("y",), ("z",))
    bits, flip = design.mechanism.bits, float(design.mechanism.flip_probability)
    people = {"x": 300.0, "y": 150.0, "z": 0.0}
    vector_of = {value: 1 << place for place, value in enumerate(design.values)}
    if isinstance(design, BloomDesign):
        vector_of = {value: design.vector_of(value) for value in design.values}
    numbers = np.arange(1 << bits)
    outcomes = np.zeros(1 << bits)
    for value, count in people.items():
        flips = np.array([int(number).bit_count() for number in numbers ^ vector_of[value]])
        outcomes += count * flip**flips * (1 - flip) ** (bits - flips)
    assert estimated(design, outcomes).counts.tolist() == pytest.approx(list(people.values()), abs=1e-6)


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
