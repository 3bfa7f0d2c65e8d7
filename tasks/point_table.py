"""The published table of synthetic points: one row a point, in the columns' own units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..mechanisms.point_axes import PointAxis, centres
from .arrow_arrays import arrow_of
from .table import csv_line

__all__ = ["PublishedPoints", "write_points"]

ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedPoints:
    """Distinct points, and how often each is there.

    PRIVACY: their order, and everything written from them, is a function of the published counts alone.

    Args:
        columns: names of the columns.
        places: for each column the coordinate of each distinct point; float64, shape (distinct,).
        times: how often each is there, above 0; int64, shape (distinct,).
    """

    columns: tuple[str, ...]
    places: tuple[NDArray[np.float64], ...]
    times: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many points are published."""
        return int(self.times.sum())

    @classmethod
    def of_cells(
        cls, published: NDArray[np.int64], *, axes: Sequence[PointAxis], cells_per_side: int
    ) -> PublishedPoints:
        """Every cell's centre as often as its published count says; counts below 1 give none.

        Args:
            published: shape (cells,).
            axes: the columns.
            cells_per_side: cells of each.
        """
        shown = np.flatnonzero(published > 0)
        places = tuple(centres(axes, shown, cells=cells_per_side))
        return cls(columns=tuple(axis.name for axis in axes), places=places, times=published[shown])


def write_points(points: PublishedPoints, *, folder: Path, file_format: Literal["parquet", "csv"]) -> None:
    """Write `data.parquet` or `data.csv` into a folder.

    Raises:
        OSError: the folder can't be written.
    """
    if file_format == "csv":
        with (folder / "data.csv").open("wb") as file:
            file.write(csv_line(list(points.columns)))
            for point, times in enumerate(points.times.tolist()):
                line = csv_line([repr(float(column[point])) for column in points.places])
                for first in range(0, times, ROWS_AT_ONCE):
                    file.write(line * min(ROWS_AT_ONCE, times - first))
        return
    schema = pa.schema([pa.field(name, pa.float64()) for name in points.columns])
    # PRIVACY: every dictionary entry and statistic in this file is of a published point.
    with pq.ParquetWriter(folder / "data.parquet", schema, compression="zstd", store_schema=False) as writer:
        for rows in _rows(points):
            arrays = [arrow_of(column[rows]) for column in points.places]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROWS_AT_ONCE)


def _rows(points: PublishedPoints) -> Iterator[NDArray[np.int64]]:
    """Block by block the point of each row."""
    ends = np.cumsum(points.times)
    for first in range(0, points.count, ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, points.count), dtype=np.int64)
        yield np.searchsorted(ends, rows, side="right")
