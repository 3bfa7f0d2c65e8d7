"""The records of a Parquet row group, or a sample of them, as group keys: coins first, then what they chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...mechanisms.kernel.sampling import ChunkIdentity
from ..kernel.counting import CoinsOfBlocks
from .column_codes import RecordCoder
from .file_formats import (
    AskedColumns,
    Chunk,
    FileFormat,
    NamedColumn,
    SourceNames,
    changed_since_listed,
    column_kind,
    records_read,
)
from .parquet_footer import ParquetLayout, dictionary_columns, open_parquet, read_parquet_layout, unread_footer
from .sampled_pages import AVAILABLE, SampledPages
from .source_files import Location, SourceFile, is_url, open_local, path_of

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

    def layout(self, file: Location, asked: AskedColumns) -> ParquetLayout:
        """Check the columns against the footer."""
        return read_parquet_layout(file, asked)

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
                    open_file = _OpenFile(chunk.file, blocks, coders=coders, key_words=key_words)
                if open_file.records(block) != chunk.records:
                    raise changed_since_listed(place)
                positions = coins(chunk.identity).kept(open_file.records(block))
                for keys in open_file.keys(block, positions):
                    yield chunk.identity, keys


PARQUET = ParquetFormat()


class _OpenFile:
    """One file as it is read."""

    def __init__(
        self, file: SourceFile, blocks: Sequence[int], *, coders: Sequence[RecordCoder], key_words: int
    ) -> None:
        self._file, self._blocks, self._coders, self._key_words = file, blocks, coders, key_words
        self._opened = None if is_url(file.path) else open_local(file)
        self._parquet = open_parquet(self._opened or file)
        # A store behind a URL answers few large reads best, which pyarrow makes.
        self._pages = SampledPages(self._opened, self._parquet) if self._opened and AVAILABLE else None

    @cached_property
    def _dictionaries(self) -> pq.ParquetFile:
        """Return the file with its texts as dictionaries."""
        footer, names = self._parquet.metadata, [coder.name for coder in self._coders]
        known = [block for block in self._blocks if block < footer.num_row_groups]
        readable = dictionary_columns(footer, names, row_groups=known)
        return open_parquet(self._opened or self._file, dictionary_columns=readable, footer=footer)

    def records(self, block: int) -> int:
        """Return how many records a row group has; -1 where there is no such row group."""
        footer = self._parquet.metadata
        return footer.row_group(block).num_rows if block < footer.num_row_groups else -1

    def keys(self, block: int, positions: NDArray[np.int64] | None) -> Iterator[NDArray[np.int64]]:
        """Yield the keys of a row group's wanted records; pyarrow reads the columns that pages are no use for."""
        wanted = self.records(block) if positions is None else positions.size
        if self._pages is None or wanted > _WHOLE_RECORDS:
            yield from self._keys_by_batches(block, positions, self._coders)
            return
        keys = np.zeros((self._key_words, wanted), dtype=np.int64)
        places = np.arange(wanted, dtype=np.int64) if positions is None else positions
        left = self._pages.add_keys(self._coders, block, places, keys)
        done = 0
        for batch in self._keys_by_batches(block, positions, left) if left else ():
            keys[:, done : done + batch.shape[1]] += batch
            done += batch.shape[1]
        yield keys

    def _keys_by_batches(
        self, block: int, positions: NDArray[np.int64] | None, coders: Sequence[RecordCoder]
    ) -> Iterator[NDArray[np.int64]]:
        """Yield the keys of a row group's wanted records by some columns, batch by batch, as pyarrow decodes them."""
        start = 0
        for batch in self._dictionaries.iter_batches(
            batch_size=_BATCH_RECORDS, row_groups=[block], columns=[coder.name for coder in coders], use_threads=False
        ):
            own = None
            if positions is not None:
                first, last = np.searchsorted(positions, (start, start + batch.num_rows))
                own = positions[first:last] - start
            keys = np.zeros((self._key_words, batch.num_rows if own is None else own.size), dtype=np.int64)
            for coder in coders:
                keys[coder.rows] += coder.scaled_codes(batch.column(coder.name), own)
            yield keys
            start += batch.num_rows
        if start != self.records(block):
            raise changed_since_listed(f"{self._file.path}, row group {block}")
