"""Estimates with standard errors from the totals of local reports: post-processing, which costs nothing more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from .design import BloomDesign, ChoiceDesign, QuestionDesign, ReportDesign, SketchDesign
from .krandomization import (
    KRandomization,
    estimated_distribution,
    estimated_ones,
    standard_error_of_ones,
    standard_errors,
)
from .sketch import SketchSums, estimated_counts, standard_error

__all__ = ["Estimates", "Totals", "answer_labels", "estimated", "largest_standard_error", "reports_added_up"]

OTHER_KIND = "these totals are of another kind of report"
Totals = SketchSums | NDArray[np.int64]
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
    """For each answer its labels, one a column: the value, or "0" or "1" for each question.

    Combinations of answers are in the order of the binary numbers whose first digit is the first question's.
    """
    if not isinstance(design, QuestionDesign):
        return tuple((value,) for value in design.values)
    bits = design.encoding.bits
    return tuple(tuple(f"{number:0{bits}b}") for number in range(1 << bits))


def reports_added_up(totals: Totals) -> int:
    """How many reports the totals have."""
    return int(totals.reports.sum() if isinstance(totals, SketchSums) else totals.sum())


def estimated(design: ReportDesign, totals: Totals) -> Estimates:
    """The estimates, in the order of `answer_labels`.

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
        case BloomDesign(encoding=encoding, values=values):
            return _of_vectors(design.mechanism, totals, [encoding.vector_of(value) for value in values])
        case QuestionDesign(encoding=encoding):
            answers = [[digit == "1" for digit in labels] for labels in answer_labels(design)]
            return _of_vectors(design.mechanism, totals, [encoding.vector_of(one) for one in answers])
        case _:
            assert_never(design)


def largest_standard_error(design: ReportDesign) -> float:
    """The largest standard error that an estimate can have by the coins of n people, divided by √n."""
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
