"""What the reports of a collection are and what is estimated from them: public, the same on devices and server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar, assert_never

from .encoding import BloomEncoding, OneHotEncoding, QuestionEncoding
from .krandomization import KRandomization
from .sketch import CountMeanSketch

__all__ = [
    "MOST_SUMS",
    "MOST_VALUES",
    "BloomDesign",
    "ChoiceDesign",
    "QuestionDesign",
    "ReportDesign",
    "SketchDesign",
    "design_of_table",
    "design_record",
]

MOST_VALUES = 100_000
MOST_SUMS = 1 << 24
MOST_QUESTIONS = 16

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True, slots=True)
class SketchDesign:
    """Any text, by a count mean sketch; the counts of some values are estimated.

    Args:
        mechanism: what each device does.
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
        """How many numbers are estimated."""
        return len(self.values)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChoiceDesign:
    """One of a few declared values, one bit for each; the values' counts are estimated.

    Args:
        mechanism: what each device does.
        encoding: the declared values.

    Raises:
        ValueError: another number of bits than of values.
    """

    mechanism: KRandomization
    encoding: OneHotEncoding

    def __post_init__(self) -> None:
        _check_bits(self.mechanism, self.encoding.bits)

    @property
    def values(self) -> tuple[str, ...]:
        """The declared values, in the order of their bits."""
        return self.encoding.values

    @property
    def answers(self) -> int:
        """How many numbers are estimated."""
        return len(self.values)


@dataclass(frozen=True, kw_only=True, slots=True)
class BloomDesign:
    """Any text, by a Bloom filter whose bits are flipped; the counts of some values' vectors are estimated.

    Args:
        mechanism: what each device does.
        encoding: the Bloom filter.
        values: the texts that are asked for, distinct, no two on one vector; another text on a vector counts with it.

    Raises:
        ValueError: another number of bits, no values, too many, one twice, or two on one vector.
    """

    mechanism: KRandomization
    encoding: BloomEncoding
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_bits(self.mechanism, self.encoding.bits)
        _check_values(self.values)
        for sharing in self.encoding.shared_vectors(self.values).values():
            raise ValueError(f"{sharing[0]!r} and {sharing[1]!r} have the same vector and can't be told apart")

    @property
    def answers(self) -> int:
        """How many numbers are estimated."""
        return len(self.values)


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionDesign:
    """Several questions answered by yes or no; the counts of all combinations of answers are estimated.

    Args:
        mechanism: what each device does.
        encoding: the questions.

    Raises:
        ValueError: another number of bits, or more questions than have all their combinations published.
    """

    mechanism: KRandomization
    encoding: QuestionEncoding

    def __post_init__(self) -> None:
        _check_bits(self.mechanism, self.encoding.bits)
        if self.encoding.bits > MOST_QUESTIONS:
            raise ValueError(f"all combinations are published of at most {MOST_QUESTIONS} questions")

    @property
    def answers(self) -> int:
        """How many numbers are estimated."""
        return 1 << self.encoding.bits


ReportDesign = SketchDesign | ChoiceDesign | BloomDesign | QuestionDesign


def design_of_table(table: Mapping[str, object]) -> ReportDesign:
    """The design that a table of parameters describes: that of a specification, which devices can read too.

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
        questions = QuestionEncoding(questions=_texts(table, "questions"))
        return QuestionDesign(mechanism=KRandomization(bits=questions.bits, flip_probability=q), encoding=questions)
    if "bloom" in table:
        inner = _taken(table, "bloom", Mapping)  # type: ignore[type-abstract]
        bloom = BloomEncoding(
            bits=_taken(inner, "bits", int),
            hashes=_taken(inner, "hashes", int),
            seed=_taken(inner, "seed", str).encode(),
        )
        randomizer = KRandomization(bits=bloom.bits, flip_probability=q)
        return BloomDesign(mechanism=randomizer, encoding=bloom, values=_texts(table, "values"))
    choice = OneHotEncoding(values=_texts(table, "values"))
    return ChoiceDesign(mechanism=KRandomization(bits=choice.bits, flip_probability=q), encoding=choice)


def design_record(design: ReportDesign) -> dict[str, object]:
    """What a design has beside its mechanism, with names that never change: for digests."""
    match design:
        case SketchDesign(values=values):
            return {"encoding": "count-mean-sketch", "values": list(values)}
        case ChoiceDesign(values=values):
            return {"encoding": "one-hot", "values": list(values)}
        case BloomDesign(encoding=bloom, values=values):
            return {"encoding": "bloom", "hashes": bloom.hashes, "seed": bloom.seed.hex(), "values": list(values)}
        case QuestionDesign(encoding=QuestionEncoding(questions=questions)):
            return {"encoding": "questions", "questions": list(questions)}
        case _:
            assert_never(design)


def _check_values(values: Sequence[str]) -> None:
    if not 1 <= len(values) <= MOST_VALUES or len(set(values)) != len(values):
        raise ValueError(f"1 to {MOST_VALUES} distinct values can be asked for")


def _check_bits(mechanism: KRandomization, bits: int) -> None:
    if mechanism.bits != bits:
        raise ValueError(f"the randomizer has {mechanism.bits} bits, and the encoding {bits}")


def _taken(table: Mapping[str, object], key: str, kind: type[Kind]) -> Kind:
    value = table.get(key)
    if value is None:
        raise ValueError(f"{key} is required and missing")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{key} has another type")  # noqa: TRY004 - a fault of the text that was written
    return value


def _exact(table: Mapping[str, object], key: str) -> Decimal:
    """A number as it is written; a float stands for the shortest text that gives it."""
    value = table.get(key)
    if isinstance(value, float):
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
