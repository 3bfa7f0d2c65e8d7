"""The published table: surviving groups written as rows or counts, in Parquet or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.suppression import GroupCounts
from .arrow_arrays import arrow_of, texts_of

__all__ = ["PublishedGroups", "csv_line", "labelled", "write_table"]

ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedGroups:
    """The groups that may leave: each with its published values and its published count.

    PRIVACY: their order, and everything written from them, is a function of this object alone.

    Args:
        columns: names of the released columns.
        labels: for each column the distinct values that some group here publishes, in publication order.
        codes: for each column the group's place in `labels`; int32, shape (groups,).
        counts: what is published of each group's size; int64, shape (groups,).
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    codes: tuple[NDArray[np.int32], ...]
    counts: NDArray[np.int64]

    @property
    def records(self) -> int:
        """How many records are published."""
        return int(self.counts.sum())

    @classmethod
    def of(cls, groups: GroupCounts, *, generalization: GeneralizationMap) -> PublishedGroups:
        """Give the groups that survived suppression their labels; dictionaries hold nothing else."""
        labels, places = labelled(groups.keys, generalization=generalization)
        return cls(columns=generalization.names, labels=labels, codes=places, counts=groups.counts)

    @classmethod
    def of_cells(cls, counts: NDArray[np.int64], *, generalization: GeneralizationMap) -> PublishedGroups:
        """Give every cell of a declared partition its labels and its published count, which may be 0 or negative.

        Args:
            counts: one for each combination of codes, in the order of their keys; shape (cells,).
            generalization: the partition, whose keys have one word.
        """
        labels, places = labelled(np.arange(counts.size).reshape(1, -1), generalization=generalization)
        return cls(columns=generalization.names, labels=labels, codes=places, counts=counts)


def labelled(
    keys: NDArray[np.int64], *, generalization: GeneralizationMap
) -> tuple[tuple[tuple[str, ...], ...], tuple[NDArray[np.int32], ...]]:
    """For each column the labels that some group has, and each group's place among them.

    Args:
        keys: the groups, shape (words, n).
        generalization: the map that they are keys of.
    """
    labels, places = [], []
    for column, codes in zip(generalization.columns, generalization.decode(keys), strict=True):
        present, place = np.unique(codes, return_inverse=True)
        labels.append(tuple(column.hierarchy.labels(present, column.level)))
        places.append(place.astype(np.int32))
    return tuple(labels), tuple(places)


def write_table(
    groups: PublishedGroups,
    *,
    folder: Path,
    form: Literal["microdata", "counts"],
    file_format: Literal["parquet", "csv"],
) -> str:
    """Write `data.parquet` or `data.csv` into a folder and return the file's name.

    Raises:
        OSError: the folder can't be written.
    """
    name = f"data.{file_format}"
    if file_format == "parquet":
        _write_parquet(groups, folder / name, form=form)
    else:
        _write_csv(groups, folder / name, form=form)
    return name


def _row_blocks(groups: PublishedGroups, form: str) -> Iterator[NDArray[np.int64]]:
    """Give, block by block, the group of each row; a block has at most ROWS_AT_ONCE rows."""
    if form == "counts":
        for first in range(0, len(groups.counts), ROWS_AT_ONCE):
            yield np.arange(first, min(first + ROWS_AT_ONCE, len(groups.counts)), dtype=np.int64)
        return
    ends = np.cumsum(groups.counts)
    for first in range(0, groups.records, ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, groups.records), dtype=np.int64)
        yield np.searchsorted(ends, rows, side="right")


def _write_parquet(groups: PublishedGroups, path: Path, *, form: str) -> None:
    dictionaries = [texts_of(labels) for labels in groups.labels]
    fields = [pa.field(name, pa.dictionary(pa.int32(), pa.string())) for name in groups.columns]
    if form == "counts":
        fields.append(pa.field("count", pa.int64()))
    schema = pa.schema(fields)
    # PRIVACY: every dictionary entry and statistic in this file is of a published value.
    with pq.ParquetWriter(path, schema, compression="zstd", store_schema=False) as writer:
        for rows in _row_blocks(groups, form):
            arrays: list[pa.Array] = [
                pa.DictionaryArray.from_arrays(arrow_of(codes[rows]), dictionary)
                for codes, dictionary in zip(groups.codes, dictionaries, strict=True)
            ]
            if form == "counts":
                arrays.append(arrow_of(groups.counts[rows]))
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROWS_AT_ONCE)


def _write_csv(groups: PublishedGroups, path: Path, *, form: str) -> None:
    with path.open("wb") as file:
        header = [*groups.columns, "count"] if form == "counts" else list(groups.columns)
        file.write(csv_line(header))
        for group, count in enumerate(groups.counts.tolist()):
            row = [labels[codes[group]] for labels, codes in zip(groups.labels, groups.codes, strict=True)]
            if form == "counts":
                file.write(csv_line([*row, str(count)]))
                continue
            line = csv_line(row)
            for first in range(0, count, ROWS_AT_ONCE):
                file.write(line * min(ROWS_AT_ONCE, count - first))


def csv_line(fields: list[str]) -> bytes:
    """One row with minimal quotes and a line feed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_MINIMAL).writerow(fields)
    return text.getvalue().encode("utf-8")
