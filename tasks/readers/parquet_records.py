"""The records of a Parquet row group, or a sample of them, as group keys: coins first, then what they chose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...mechanisms.kernel.sampling import ChunkIdentity
from ..kernel.counting import CoinsOfBlocks
from .column_codes import RecordCoder
from .file_formats import (
    Chunk,
    FileFormat,
    FileLayout,
    NamedColumn,
    SourceNames,
    changed_since_listed,
    column_kind,
    records_read,
)
from .parquet_footer import ParquetLayout, dictionary_columns, open_parquet, read_parquet_layout, unread_footer
from .sampled_pages import AVAILABLE, SampledPages
from .source_files import Location, SourceFile, is_url, open_local, path_of
from .values import RecordReading

_BATCH_RECORDS = 1 << 17
_WHOLE_RECORDS = 1 << 22


class ParquetFormat(FileFormat):
    """Parquet, whose row groups are the chunks."""

    name = "parquet"
    shown = "Parquet"
    suffixes = (".parquet", ".pq")

    def names(self, location: Location, *, separator: str | None) -> SourceNames:
        """Return the names and types of the schema.

        PRIVACY: statistics, dictionaries and metadata of the footer are not looked at, nor what a nested type is of.
        """
        del separator
        try:
            with open_parquet(location) as file:
                fields = [(field.name, field.type) for field in file.schema_arrow]
        except (OSError, ImportError, pa.ArrowException, UnicodeDecodeError) as error:
            raise unread_footer(path_of(location), error) from None
        return SourceNames(
            separator=None, columns=tuple(NamedColumn(name=name, kind=column_kind(type_)) for name, type_ in fields)
        )

    def layout(
        self,
        file: Location,
        *,
        columns: Sequence[str],
        borne: Sequence[str],
        reading: RecordReading,
        field_ids: Mapping[str, int],
    ) -> ParquetLayout:
        """Check the columns against the footer."""
        del reading
        return read_parquet_layout(file, columns=columns, borne=borne, field_ids=field_ids)

    def chunks(self, file: SourceFile, number: int, layout: FileLayout) -> list[Chunk]:
        """Return the row groups that have records."""
        if not isinstance(layout, ParquetLayout):
            raise TypeError("a Parquet file has a footer")
        return layout.chunks(file, number, self)

    def keys(
        self, chunks: Sequence[Chunk], *, coders: Sequence[RecordCoder], key_words: int, coins: CoinsOfBlocks
    ) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
        """Give the keys, decoding pages a batch at a time: memory is bounded however large a row group is."""
        open_file: _OpenFile | None = None
        for chunk in chunks:
            block, place = chunk.identity.block, f"{chunk.file.path}, row group {chunk.identity.block}"
            with records_read(place):
                if open_file is None:
                    blocks = [other.identity.block for other in chunks]
                    open_file = _OpenFile(chunk.file, blocks, [coder.name for coder in coders])
                footer = open_file.parquet.metadata
                if block >= footer.num_row_groups or footer.row_group(block).num_rows != chunk.records:
                    raise changed_since_listed(place)
            records = footer.row_group(block).num_rows
            positions = coins(chunk.identity).kept(records)
            wanted = records if positions is None else positions.size
            if open_file.pages is not None and wanted <= _WHOLE_RECORDS:
                with records_read(place):
                    keys = _keys_by_pages(
                        open_file, open_file.pages, chunk, positions, place=place, coders=coders, key_words=key_words
                    )
                yield chunk.identity, keys
            else:
                for keys in _keys_by_batches(
                    open_file, chunk, positions, place=place, coders=coders, key_words=key_words
                ):
                    yield chunk.identity, keys


PARQUET = ParquetFormat()


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
    chunk: Chunk,
    positions: NDArray[np.int64] | None,
    *,
    place: str,
    coders: Sequence[RecordCoder],
    key_words: int,
) -> NDArray[np.int64]:
    """Keys of a row group's wanted records, column by column; pyarrow reads the columns that pages are no use for."""
    records = open_file.parquet.metadata.row_group(chunk.identity.block).num_rows
    wanted = np.arange(records, dtype=np.int64) if positions is None else positions
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
    chunk: Chunk,
    positions: NDArray[np.int64] | None,
    *,
    place: str,
    coders: Sequence[RecordCoder],
    key_words: int,
) -> Iterator[NDArray[np.int64]]:
    """Keys of a row group's wanted records, batch by batch, from what pyarrow decodes."""
    with records_read(place):
        names = [coder.name for coder in coders]
        batches = open_file.dictionaries.iter_batches(
            batch_size=_BATCH_RECORDS, row_groups=[chunk.identity.block], columns=names, use_threads=False
        )
    start = 0
    while (batch := _next_batch(batches, place)) is not None:
        with records_read(place):
            keys = batch_keys(batch, _within(positions, start, batch.num_rows), coders=coders, key_words=key_words)
        yield keys
        start += batch.num_rows
    if start != chunk.records:
        raise changed_since_listed(place)


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
    with records_read(place):
        return next(batches, None)
