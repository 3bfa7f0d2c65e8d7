"""The records of a Parquet row group, or a sample of them, as group keys: coins first, then what they chose.

Blocks of a statistics package's file are read as row groups are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.sampling import ChunkIdentity
from ..kernel.counting import CoinsOfBlocks
from .chunks import ParquetChunk
from .column_codes import RecordCoder
from .parquet_footer import dictionary_columns, open_parquet
from .sampled_pages import AVAILABLE, SampledPages
from .source_files import SourceFile, is_url, open_local
from .statistics_files import StatisticsFile, is_statistics_file

_BATCH_RECORDS = 1 << 17
_WHOLE_RECORDS = 1 << 22


def parquet_keys(
    chunks: Sequence[ParquetChunk],
    *,
    coders: Sequence[RecordCoder],
    key_words: int,
    coins: CoinsOfBlocks,
) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
    """Give the keys of the records that coins keep, batch by batch, each of shape (words, n), with their row group.

    Pages are decoded a batch at a time, so memory is bounded however large a row group is.

    Args:
        chunks: row groups; those of one file stand together.
        coders: one per released column.
        key_words: 64-bit words of a key.
        coins: of each row group.

    Raises:
        ReleaseFailed: a page cannot be read, or the file is not the one that was listed.
    """
    open_file: _OpenFile | None = None
    statistics: StatisticsFile | None = None
    for chunk in chunks:
        place = f"{chunk.file.path}, row group {chunk.identity.block}"
        if is_statistics_file(chunk.file.path):
            place = f"{chunk.file.path}, block {chunk.identity.block}"
            positions = coins(chunk.identity).kept(chunk.records)
            with _reading(place):
                if statistics is None or statistics.file != chunk.file:
                    statistics = StatisticsFile(chunk.file)
                if statistics.records_of(chunk.identity.block) != chunk.records:
                    raise _changed(place)
                keys = statistics.keys(chunk.identity.block, positions, coders=coders, key_words=key_words)
            yield chunk.identity, keys
            continue
        with _reading(place):
            if open_file is None or open_file.file != chunk.file:
                blocks = [other.identity.block for other in chunks if other.file == chunk.file]
                open_file = _OpenFile(chunk.file, blocks, [coder.name for coder in coders])
            footer = open_file.parquet.metadata
            if chunk.identity.block >= footer.num_row_groups:
                raise _changed(place)
            if footer.row_group(chunk.identity.block).num_rows != chunk.records:
                raise _changed(place)
        positions = coins(chunk.identity).kept(chunk.records)
        wanted = chunk.records if positions is None else positions.size
        if open_file.pages is not None and wanted <= _WHOLE_RECORDS:
            with _reading(place):
                keys = _keys_by_pages(
                    open_file, open_file.pages, chunk, positions, place=place, coders=coders, key_words=key_words
                )
            yield chunk.identity, keys
        else:
            for keys in _keys_by_batches(open_file, chunk, positions, place=place, coders=coders, key_words=key_words):
                yield chunk.identity, keys


class _OpenFile:
    """One file as the readers need it.

    Args:
        file: as it was listed.
        row_groups: those that will be read.
        columns: the released columns.
    """

    def __init__(self, file: SourceFile, row_groups: Sequence[int], columns: Sequence[str]) -> None:
        self.file = file
        self._opened = None if is_url(file.path) else open_local(file)
        self.parquet = open_parquet(self._opened or file)
        # A store behind a URL answers few large reads best, which pyarrow makes.
        self.pages = SampledPages(self._opened, self.parquet) if self._opened and AVAILABLE else None
        self._row_groups = row_groups
        self._columns = columns

    @cached_property
    def dictionaries(self) -> pq.ParquetFile:
        """The file with its texts as dictionaries."""
        footer = self.parquet.metadata
        known = [block for block in self._row_groups if block < footer.num_row_groups]
        readable = dictionary_columns(footer, self._columns, row_groups=known)
        return open_parquet(self._opened or self.file, dictionary_columns=readable, footer=footer)


def _keys_by_pages(
    open_file: _OpenFile,
    pages: SampledPages,
    chunk: ParquetChunk,
    positions: NDArray[np.int64] | None,
    *,
    place: str,
    coders: Sequence[RecordCoder],
    key_words: int,
) -> NDArray[np.int64]:
    """Keys of a row group's wanted records, column by column; pyarrow reads the columns that pages are no use for."""
    wanted = np.arange(chunk.records, dtype=np.int64) if positions is None else positions
    keys = np.zeros((key_words, wanted.size), dtype=np.int64)
    left = pages.add_keys(coders, chunk.identity.block, wanted, keys)
    done = 0
    for batch in (
        _keys_by_batches(open_file, chunk, positions, place=place, coders=left, key_words=key_words) if left else ()
    ):
        keys[:, done : done + batch.shape[1]] += batch
        done += batch.shape[1]
    return keys


def _keys_by_batches(
    open_file: _OpenFile,
    chunk: ParquetChunk,
    positions: NDArray[np.int64] | None,
    *,
    place: str,
    coders: Sequence[RecordCoder],
    key_words: int,
) -> Iterator[NDArray[np.int64]]:
    """Keys of a row group's wanted records, batch by batch, from what pyarrow decodes."""
    with _reading(place):
        names = [coder.name for coder in coders]
        batches = open_file.dictionaries.iter_batches(
            batch_size=_BATCH_RECORDS, row_groups=[chunk.identity.block], columns=names, use_threads=False
        )
    start = 0
    while (batch := _next_batch(batches, place)) is not None:
        with _reading(place):
            keys = batch_keys(batch, _within(positions, start, batch.num_rows), coders=coders, key_words=key_words)
        yield keys
        start += batch.num_rows
    if start != chunk.records:
        raise _changed(place)


def batch_keys(
    batch: pa.RecordBatch, positions: NDArray[np.int64] | None, *, coders: Sequence[RecordCoder], key_words: int
) -> NDArray[np.int64]:
    """Keys of the records at some positions of a batch, None at all; its columns bear the released columns' names."""
    records = batch.num_rows if positions is None else positions.size
    keys = np.zeros((key_words, records), dtype=np.int64)
    for coder in coders:
        keys[coder.rows] += coder.scaled_codes(batch.column(coder.name), positions)
    return keys


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
    # PRIVACY: a reader's own message may quote what it stumbled over, so only its kind is reported.
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
