"""What the reports of a collection are and what is estimated from their totals: public, the same on devices and server.

An answer becomes bits before they are flipped: one for each value or question, or a Bloom filter (RAPPOR). Estimates
have standard errors; they are post-processing, which costs nothing more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from ..kinds.krandomization import MOST_BITS, KRandomization
from ..kinds.local_reports import Totals, reports_added_up
from ..kinds.sketch import CountMeanSketch, SketchSums
from .estimates import (
    estimated_counts,
    estimated_distribution,
    estimated_ones,
    standard_error,
    standard_error_of_ones,
    standard_errors,
)

MOST_VALUES = 100_000
MOST_SUMS = 1 << 24
MOST_QUESTIONS = 16

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchDesign:
    """Any text, by a count mean sketch; the counts of some values are estimated.

    Args:
        values: the texts that are asked for, distinct; others may be reported.

    Raises:
        ValueError: no values, too many, one twice, or more sums than memory is bounded by.
    """

    mechanism: CountMeanSketch
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_values(self.values)
        sums = self.mechanism.hashes * self.mechanism.bits
        if sums > MOST_SUMS:
            raise ValueError(f"hashes times bits is {sums}, more than the {MOST_SUMS} sums that are kept")

    @property
    def answers(self) -> int:
        """Return how many numbers are estimated."""
        return len(self.values)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceDesign:
    """One of a few declared values, one bit for each; the values' counts are estimated.

    Basic RAPPOR (arXiv:1407.6981v2, §2.1). Two values differ in at most two bits, but the price counts all L.

    Raises:
        ValueError: another number of bits than of values, or one twice.
    """

    mechanism: KRandomization
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_bits(self.mechanism, _one_bit_each(self.values))

    @property
    def answers(self) -> int:
        """Return how many numbers are estimated."""
        return len(self.values)

    def vector_of(self, value: str) -> int:
        """Return the vector that a value becomes: bit i for the i-th value, no bit for any other text."""
        return sum(1 << place for place, own in enumerate(self.values) if own == value)


@dataclass(frozen=True, kw_only=True, slots=True)
class BloomDesign:
    """Any text, by a Bloom filter whose bits are flipped; the counts of some values' vectors are estimated.

    Each of h hash functions sets one of L bits (RAPPOR, arXiv:1407.6981v2, §2). Another text on the vector of a value
    counts with it.

    Args:
        hashes: h, 1 … L.
        seed: public; names the hash functions. A cohort is a seed of its own.
        values: the texts that are asked for, distinct, no two on one vector.

    Raises:
        ValueError: a field outside its range, no values, too many, one twice, or two on one vector.
    """

    mechanism: KRandomization
    hashes: int
    seed: bytes
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.hashes <= self.mechanism.bits:
            raise ValueError("a Bloom filter has 1 to as many hash functions as bits")
        if not 1 <= len(self.seed) <= 64:
            raise ValueError(f"the seed has 1 to 64 bytes, not {len(self.seed)}")
        _check_values(self.values)
        first: dict[int, str] = {}
        for value in self.values:
            other = first.setdefault(self.vector_of(value), value)
            if other != value:
                raise ValueError(f"{other!r} and {value!r} have the same vector and can't be told apart")

    @property
    def answers(self) -> int:
        """Return how many numbers are estimated."""
        return len(self.values)

    def vector_of(self, value: str) -> int:
        """Return the vector that a text becomes."""
        vector = 0
        for number in range(self.hashes):
            digest = blake2b(
                number.to_bytes(2, "big") + value.encode(), digest_size=8, key=self.seed, person=b"crowdblend-blm/1"
            ).digest()
            vector |= 1 << (int.from_bytes(digest, "big") % self.mechanism.bits)
        return vector


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionDesign:
    """Several questions answered by yes or no, one bit for each; the counts of all combinations are estimated.

    Args:
        questions: their names, distinct.

    Raises:
        ValueError: another number of bits, a name twice, or more questions than have all combinations published.
    """

    mechanism: KRandomization
    questions: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_bits(self.mechanism, _one_bit_each(self.questions))
        if len(self.questions) > MOST_QUESTIONS:
            raise ValueError(f"all combinations are published of at most {MOST_QUESTIONS} questions")

    @property
    def answers(self) -> int:
        """Return how many numbers are estimated."""
        return 1 << len(self.questions)

    def vector_of(self, answers: Sequence[bool]) -> int:
        """Return the vector that a person's answers become; bit i stands for the i-th question.

        Raises:
            ValueError: another number of answers.
        """
        if len(answers) != len(self.questions):
            raise ValueError(f"there are {len(self.questions)} questions, and {len(answers)} answers")
        return sum(1 << place for place, answer in enumerate(answers) if answer)


ReportDesign = SketchDesign | ChoiceDesign | BloomDesign | QuestionDesign


def design_of_table(table: Mapping[str, object]) -> ReportDesign:
    """Return the design that a table of parameters describes: that of a specification, which devices can read too.

    Count mean sketch: `kind = "count-mean-sketch"`, `epsilon`, `hashes`, `bits`, `seed`, `values`.
    K-randomization: `kind = "k-randomization"`, `flip_probability`, and `values` (one bit for each), `questions`, or
    `values` with `bloom = { bits, hashes, seed }`. Other keys decide nothing here.

    Raises:
        ValueError: a key is missing, of another type, of no use to the kind, or a value out of range.
    """
    kind = _taken(table, "kind", str)
    if kind == "count-mean-sketch":
        _refuse_keys(table, ("flip_probability", "questions", "bloom", "least_people"), kind=kind)
        sketch = CountMeanSketch(
            epsilon=_exact(table, "epsilon"),
            hashes=_taken(table, "hashes", int),
            bits=_taken(table, "bits", int),
            seed=_taken(table, "seed", str).encode(),
        )
        return SketchDesign(mechanism=sketch, values=_texts(table, "values"))
    if kind != "k-randomization":
        raise ValueError(f"there is no kind {kind!r}: name one of count-mean-sketch, k-randomization")
    _refuse_keys(table, ("epsilon", "hashes", "bits", "seed"), kind=kind)
    q = _exact(table, "flip_probability")
    if "questions" in table:
        _refuse_keys(table, ("values", "bloom"), kind=f"{kind} of questions")
        questions = _texts(table, "questions")
        randomizer = KRandomization(bits=_one_bit_each(questions), flip_probability=q)
        return QuestionDesign(mechanism=randomizer, questions=questions)
    values = _texts(table, "values")
    if "bloom" in table:
        inner = _taken(table, "bloom", Mapping)  # type: ignore[type-abstract]
        return BloomDesign(
            mechanism=KRandomization(bits=_taken(inner, "bits", int), flip_probability=q),
            hashes=_taken(inner, "hashes", int),
            seed=_taken(inner, "seed", str).encode(),
            values=values,
        )
    return ChoiceDesign(mechanism=KRandomization(bits=_one_bit_each(values), flip_probability=q), values=values)


def design_record(design: ReportDesign) -> dict[str, object]:
    """Return what a design has beside its mechanism, with names that never change: for digests."""
    match design:
        case SketchDesign(values=values):
            return {"encoding": "count-mean-sketch", "values": list(values)}
        case ChoiceDesign(values=values):
            return {"encoding": "one-hot", "values": list(values)}
        case BloomDesign(hashes=hashes, seed=seed, values=values):
            return {"encoding": "bloom", "hashes": hashes, "seed": seed.hex(), "values": list(values)}
        case QuestionDesign(questions=questions):
            return {"encoding": "questions", "questions": list(questions)}
        case _:
            assert_never(design)


def _check_values(values: Sequence[str]) -> None:
    if not 1 <= len(values) <= MOST_VALUES or len(set(values)) != len(values):
        raise ValueError(f"1 to {MOST_VALUES} distinct values can be asked for")


def _one_bit_each(names: Sequence[str]) -> int:
    """Return the number of bits of so many values or questions."""
    if not 1 <= len(names) <= MOST_BITS or len(set(names)) != len(names):
        raise ValueError(f"1 to {MOST_BITS} distinct values or questions have a bit each")
    return len(names)


def _check_bits(mechanism: KRandomization, bits: int) -> None:
    if mechanism.bits != bits:
        raise ValueError(f"the randomizer has {mechanism.bits} bits, and {bits} are needed")


def _taken(table: Mapping[str, object], key: str, kind: type[Kind]) -> Kind:
    value = table.get(key)
    if value is None:
        raise ValueError(f"{key} is required and missing")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{key} has another type")  # noqa: TRY004 - a fault of the text that was written
    return value


def _exact(table: Mapping[str, object], key: str) -> Decimal:
    """Return a number as it is written; a float stands for the shortest text that gives it."""
    value = table.get(key)
    if isinstance(value, float):
        # From the text and not from the double: 0.1 as a double is another number, and a device and the server would
        # have different prices.
        return Decimal(repr(value))
    return Decimal(_taken(table, key, int)) if isinstance(value, int) else _taken(table, key, Decimal)


def _texts(table: Mapping[str, object], key: str) -> tuple[str, ...]:
    values = table.get(key)
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{key} must be there, as a list of texts")
    return tuple(values)


def _refuse_keys(table: Mapping[str, object], keys: Sequence[str], *, kind: str) -> None:
    for key in keys:
        if key in table:
            raise ValueError(f"{key} is not a parameter of {kind}")


OTHER_KIND = "these totals are of another kind of report"
"""Reports added up: a sketch's sums, or how often each of the 2^L vectors was reported."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Estimates:
    """How many people have each answer.

    Args:
        counts: estimates, unbiased; may be negative, and don't add up exactly; shape (answers,).
        standard_errors: of each, by the coins; shape (answers,).
    """

    counts: NDArray[np.float64]
    standard_errors: NDArray[np.float64]


def answer_labels(design: ReportDesign) -> tuple[tuple[str, ...], ...]:
    """Return for each answer its labels, one a column: the value, or "0" or "1" for each question.

    Combinations of answers are in the order of the binary numbers whose first digit is the first question's.
    """
    if not isinstance(design, QuestionDesign):
        return tuple((value,) for value in design.values)
    bits = len(design.questions)
    return tuple(tuple(f"{number:0{bits}b}") for number in range(1 << bits))


def estimated(design: ReportDesign, totals: Totals) -> Estimates:
    """Return the estimates, in the order of `answer_labels`.

    A sketch's standard error is the largest that its coins can give; collisions of hash functions come on top. That
    of a choice is exact. That of a vector is estimated from the outcome counts.

    Raises:
        ValueError: totals of another kind of report.
    """
    if isinstance(totals, SketchSums):
        return _of_sketch(design, totals)
    match design:
        case SketchDesign():
            raise ValueError(OTHER_KIND)
        case ChoiceDesign(mechanism=randomizer):
            found = estimated_ones(randomizer, totals)
            error = standard_error_of_ones(randomizer, people=reports_added_up(totals))
            return Estimates(counts=found, standard_errors=np.full(found.size, error))
        case BloomDesign(values=values):
            return _of_vectors(design.mechanism, totals, [design.vector_of(value) for value in values])
        case QuestionDesign():
            answers = [[digit == "1" for digit in labels] for labels in answer_labels(design)]
            return _of_vectors(design.mechanism, totals, [design.vector_of(one) for one in answers])
        case _:
            assert_never(design)


def largest_standard_error(design: ReportDesign) -> float:
    """Return the largest standard error that an estimate can have by the coins of n people, divided by √n."""
    match design:
        case SketchDesign(mechanism=sketch):
            return standard_error(sketch, reports=1)
        case ChoiceDesign(mechanism=randomizer):
            return standard_error_of_ones(randomizer, people=1)
        case BloomDesign(mechanism=randomizer) | QuestionDesign(mechanism=randomizer):
            return _largest_of_vectors(randomizer)
        case _:
            assert_never(design)


def _of_sketch(design: ReportDesign, sums: SketchSums) -> Estimates:
    if not isinstance(design, SketchDesign):
        raise ValueError(OTHER_KIND)  # noqa: TRY004 - of two values, not of types
    found = estimated_counts(design.mechanism, sums, design.values)
    error = standard_error(design.mechanism, reports=reports_added_up(sums))
    return Estimates(counts=found, standard_errors=np.full(found.size, error))


def _of_vectors(mechanism: KRandomization, outcomes: NDArray[np.int64], vectors: list[int]) -> Estimates:
    return Estimates(
        counts=estimated_distribution(mechanism, outcomes)[vectors],
        standard_errors=standard_errors(mechanism, outcomes)[vectors],
    )


def _largest_of_vectors(mechanism: KRandomization) -> float:
    """√(v^L − 1), v = (p³+q³)/(1−2q)²: that of a vector which everybody has (docs/proofs/local.md)."""
    q = float(mechanism.real_flip_probability)
    p = 1.0 - q
    return math.sqrt(((p**3 + q**3) / (1.0 - 2.0 * q) ** 2) ** mechanism.bits - 1.0)
