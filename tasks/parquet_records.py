"""The records of a Parquet row group, or a sample of them, as group keys: coins first, then what they chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..mechanisms.refusal import ReleaseFailed
from ..mechanisms.sampling import kept_positions
from .chunks import ParquetChunk
from .column_codes import ColumnCoder
from .opening import open_parquet
from .parquet_schema import dictionary_columns

__all__ = ["parquet_keys"]

_BATCH_RECORDS = 1 << 17


def parquet_keys(
    chunks: Sequence[ParquetChunk],
    *,
    coders: Sequence[ColumnCoder],
    words: int,
    key: bytes | None,
    rate: Decimal | None,
) -> Iterator[NDArray[np.int64]]:
    """Give the keys of the sampled records, batch by batch; each of shape (words, n).

    Pages are decoded a batch at a time, so memory is bounded however large a row group is.

    Args:
        chunks: row groups; those of one file stand together.
        coders: one per released column.
        words: 64-bit words of a key.
        key: the release's secret; None where every record is wanted.
        rate: sampling rate; None is every record.

    Raises:
        ReleaseFailed: a page cannot be read, or the file is not the one that was planned.
    """
    path, file = "", None
    for chunk in chunks:
        place = f"{chunk.path}, row group {chunk.identity.block}"
        with _reading(place):
            if chunk.path != path:
                path, file = chunk.path, _opened(chunks, chunk.path, [coder.column.name for coder in coders])
        if file is not None:
            yield from _row_group_keys(file, chunk, place=place, coders=coders, words=words, key=key, rate=rate)


def _opened(chunks: Sequence[ParquetChunk], path: str, columns: Sequence[str]) -> pq.ParquetFile:
    footer = open_parquet(path).metadata
    wanted = [chunk.identity.block for chunk in chunks if chunk.path == path]
    if wanted and max(wanted) >= footer.num_row_groups:
        raise _changed(path)
    readable = dictionary_columns(footer, columns, row_groups=wanted)
    return open_parquet(path, dictionary_columns=readable, footer=footer)


def _row_group_keys(
    file: pq.ParquetFile,
    chunk: ParquetChunk,
    *,
    place: str,
    coders: Sequence[ColumnCoder],
    words: int,
    key: bytes | None,
    rate: Decimal | None,
) -> Iterator[NDArray[np.int64]]:
    positions = _positions(chunk, key=key, rate=rate)
    row_group = chunk.identity.block
    with _reading(place):
        if file.metadata.row_group(row_group).num_rows != chunk.records:
            raise _changed(place)
        names = [coder.column.name for coder in coders]
        batches = file.iter_batches(batch_size=_BATCH_RECORDS, row_groups=[row_group], columns=names, use_threads=False)
    start = 0
    while (batch := _next_batch(batches, place)) is not None:
        with _reading(place):
            keys = batch_keys(batch, _within(positions, start, batch.num_rows), coders=coders, words=words)
        yield keys
        start += batch.num_rows
    if start != chunk.records:
        raise _changed(place)


def batch_keys(
    batch: pa.RecordBatch, positions: NDArray[np.int64] | None, *, coders: Sequence[ColumnCoder], words: int
) -> NDArray[np.int64]:
    """Keys of the records at some positions of a batch, None at all; its columns bear the released columns' names."""
    records = batch.num_rows if positions is None else positions.size
    keys = np.zeros((words, records), dtype=np.int64)
    for coder in coders:
        keys[coder.placement.word] += coder.scaled_codes(batch.column(coder.column.name), positions)
    return keys


def _positions(chunk: ParquetChunk, *, key: bytes | None, rate: Decimal | None) -> NDArray[np.int64] | None:
    if (key is None) != (rate is None):
        raise ValueError("a sample needs its key and its rate")
    if key is None or rate is None:
        return None
    return kept_positions(key=key, chunk=chunk.identity, records=chunk.records, rate=rate)


def _within(positions: NDArray[np.int64] | None, start: int, records: int) -> NDArray[np.int64] | None:
    """The positions that lie in a batch, counted from its start."""
    if positions is None:
        return None
    first, last = np.searchsorted(positions, (start, start + records))
    return positions[first:last] - start


def _next_batch(batches: Iterator[pa.RecordBatch], place: str) -> pa.RecordBatch | None:
    with _reading(place):
        return next(batches, None)


@contextmanager
def _reading(place: str) -> Iterator[None]:
    # PRIVACY: a reader's own message may quote what it stumbled over, so only its kind is told.
    try:
        yield
    except (OSError, ImportError, ValueError, IndexError, pa.ArrowException) as error:
        raise ReleaseFailed(
            f"the records cannot be read ({type(error).__name__}).",
            where=place,
            remedy="Repair the file, or abandon the release; its cost stays spent.",
        ) from None


def _changed(place: str) -> ReleaseFailed:
    return ReleaseFailed("the file has changed since it was listed.", where=place)
