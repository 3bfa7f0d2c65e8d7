"""The published table of answers: each group's labels, its answer, and how accurate that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..mechanisms.answers import MeanAnswer, estimates, half_width, standard_errors
from .request import AnswerRequest
from .table import csv_line, labelled

__all__ = ["ANSWER_COLUMNS", "PublishedAnswers", "write_answers"]

ANSWER_COLUMNS = ("answer", "interval_low", "interval_high", "standard_error")


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedAnswers:
    """One row for each declared group, in the order of their codes.

    PRIVACY: a function of the noisy numbers and of what was declared.

    Args:
        columns: names of the columns that the groups are of; none where the answer is about all records.
        labels: for each group its labels, one a column.
        figures: for each group its answer, the ends of its interval, and its standard error.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    figures: tuple[tuple[float, float, float, float], ...]

    @classmethod
    def of(cls, request: AnswerRequest, steps: Sequence[int]) -> PublishedAnswers:
        """The answers that noisy numbers give.

        The interval holds the exact answer with the request's confidence: exactly for an answer about all records. A
        count or sum from a sample has a normal approximation, which the sampling is part of; a mean from a sample has
        an interval for the sample's mean.

        Args:
            request: what was asked for.
            steps: the noisy numbers, in steps of the answer.
        """
        answer, confidence = request.mechanism, float(request.confidence)
        values = estimates(answer, steps)
        errors = standard_errors(answer, steps)
        if answer.sampling_rate is None or isinstance(answer, MeanAnswer):
            exact = half_width(answer, confidence=confidence)
            widths = [float(exact)] * len(values)
        else:
            quantile = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
            widths = [quantile * error for error in errors]
        figures = tuple(
            (float(value), float(value) - width, float(value) + width, error)
            for value, width, error in zip(values, widths, errors, strict=True)
        )
        if request.groups is None:
            return cls(columns=(), labels=((),), figures=figures)
        keys = np.arange(answer.groups).reshape(1, -1)
        labels, places = labelled(keys, generalization=request.groups)
        rows = [[names[place] for place in column.tolist()] for names, column in zip(labels, places, strict=True)]
        return cls(columns=request.groups.names, labels=tuple(zip(*rows, strict=True)), figures=figures)


def write_answers(answers: PublishedAnswers, *, folder: Path, file_format: Literal["parquet", "csv"]) -> None:
    """Write `data.parquet` or `data.csv` into a folder; whole numbers in CSV have no fraction.

    Raises:
        OSError: the folder can't be written.
    """
    if file_format == "csv":
        with (folder / "data.csv").open("wb") as file:
            file.write(csv_line([*answers.columns, *ANSWER_COLUMNS]))
            for labels, figures in zip(answers.labels, answers.figures, strict=True):
                file.write(csv_line([*labels, *(_shown(figure) for figure in figures)]))
        return
    arrays = [pa.array(list(column), type=pa.string()) for column in zip(*answers.labels, strict=True)]
    arrays += [pa.array(list(column), type=pa.float64()) for column in zip(*answers.figures, strict=True)]
    table = pa.Table.from_arrays(arrays, names=[*answers.columns, *ANSWER_COLUMNS])
    pq.write_table(table, folder / "data.parquet", compression="zstd", store_schema=False)


def _shown(figure: float) -> str:
    whole = math.isfinite(figure) and figure.is_integer() and abs(figure) < 1 << 53
    return str(int(figure)) if whole else repr(figure)
