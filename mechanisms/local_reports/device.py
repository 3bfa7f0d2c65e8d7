"""What runs on a person's device: one answer in, one randomized line of text out. Needs NumPy and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from ..kernel.mechanism import Randomness
from ..kinds.krandomization import KRandomization, flipped
from ..kinds.sketch import encode
from .design import BloomDesign, ChoiceDesign, QuestionDesign, ReportDesign, SketchDesign

SKETCH_COLUMNS = ("hash", "bits")
VECTOR_COLUMNS = ("vector",)


def header(design: ReportDesign) -> str:
    """Return the first line of a CSV file of such reports, without its line break."""
    match design:
        case SketchDesign():
            return ",".join(SKETCH_COLUMNS)
        case ChoiceDesign() | BloomDesign() | QuestionDesign():
            return ",".join(VECTOR_COLUMNS)
        case _:
            assert_never(design)


def report(design: SketchDesign | ChoiceDesign | BloomDesign, value: str, *, randomness: Randomness) -> str:
    """Return a person's report: one line of a CSV file, without its line break.

    A sketch's line has the number of the hash function and the flipped bits, two hexadecimal digits for eight of
    them, the first bit the highest; a K-randomized one the vector as a decimal number.

    PRIVACY: the value leaves the device only through the flipped bits. A second report of the same person costs as
    much again, whatever it is about.

    Args:
        value: what the person has; a choice that was not declared sets no bit.
    """
    match design:
        case SketchDesign(mechanism=sketch):
            made = encode(sketch, [value], randomness=randomness)
            return f"{int(made.hash_numbers[0])},{made.packed_bits[0].tobytes().hex()}"
        case ChoiceDesign() | BloomDesign():
            return _vector_line(design.mechanism, design.vector_of(value), randomness=randomness)
        case _:
            assert_never(design)


def question_report(design: QuestionDesign, answers: Sequence[bool], *, randomness: Randomness) -> str:
    """Return a person's report of their answers; as `report`.

    Raises:
        ValueError: another number of answers than of questions.
    """
    return _vector_line(design.mechanism, design.vector_of(answers), randomness=randomness)


def _vector_line(mechanism: KRandomization, vector: int, *, randomness: Randomness) -> str:
    return str(int(flipped(mechanism, np.array([vector], dtype=np.uint32), randomness=randomness)[0]))
