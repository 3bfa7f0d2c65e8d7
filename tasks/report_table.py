"""The published table of estimates: each answer's labels, how many people have it, and how accurate that is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from ..mechanisms.report_estimates import Estimates, answer_labels
from .request import ReportsRequest
from .table import csv_line

__all__ = ["ESTIMATE_COLUMNS", "PublishedEstimates", "write_estimates"]

ESTIMATE_COLUMNS = ("estimate", "interval_low", "interval_high", "standard_error")


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedEstimates:
    """One row for each answer that was asked for, in the order of the specification.

    PRIVACY: a function of the reports' totals and of what was declared.

    Args:
        columns: names of the columns that the answers' labels stand in.
        labels: for each answer its labels, one a column.
        figures: for each answer its estimate, the ends of its interval, and its standard error.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    figures: tuple[tuple[float, float, float, float], ...]

    @classmethod
    def of(cls, request: ReportsRequest, estimates: Estimates) -> PublishedEstimates:
        """The estimates with intervals by normal approximation, at the request's confidence.

        Args:
            request: what was asked for.
            estimates: of its design.
        """
        quantile = NormalDist().inv_cdf((1.0 + float(request.confidence)) / 2.0)
        figures = tuple(
            (count, count - quantile * error, count + quantile * error, error)
            for count, error in zip(estimates.counts.tolist(), estimates.standard_errors.tolist(), strict=True)
        )
        return cls(columns=request.recoding.names, labels=answer_labels(request.design), figures=figures)


def write_estimates(estimates: PublishedEstimates, *, folder: Path, file_format: Literal["parquet", "csv"]) -> None:
    """Write `data.parquet` or `data.csv` into a folder.

    Raises:
        OSError: the folder can't be written.
    """
    names = [*estimates.columns, *ESTIMATE_COLUMNS]
    if file_format == "csv":
        with (folder / "data.csv").open("wb") as file:
            file.write(csv_line(names))
            for labels, figures in zip(estimates.labels, estimates.figures, strict=True):
                file.write(csv_line([*labels, *map(repr, figures)]))
        return
    arrays = [pa.array(list(column), type=pa.string()) for column in zip(*estimates.labels, strict=True)]
    arrays += [pa.array(list(column), type=pa.float64()) for column in zip(*estimates.figures, strict=True)]
    table = pa.Table.from_arrays(arrays, names=names)
    pq.write_table(table, folder / "data.parquet", compression="zstd", store_schema=False)
