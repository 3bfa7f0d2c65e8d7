"""A format of records: files of Arrow's IPC format, whose record batches are the chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity
from crowdblend.tasks.kernel.counting import CoinsOfBlocks
from crowdblend.tasks.readers.column_codes import RecordCoder
from crowdblend.tasks.readers.file_formats import (
    AskedColumns,
    Chunk,
    FileFormat,
    FileLayout,
    NamedColumn,
    SourceNames,
    column_kind,
    records_read,
)
from crowdblend.tasks.readers.source_files import Location, SourceFile, open_input, path_of
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class ArrowLayout(FileLayout):
    """How many records each batch of a file has."""

    batches: tuple[int, ...]

    @property
    def outline(self) -> tuple[int, ...]:
        """The batches' records."""
        return self.batches

    @property
    def records(self) -> int:
        """All of them."""
        return sum(self.batches)

    def chunks(self, file: SourceFile, number: int, read_by: FileFormat) -> list[Chunk]:
        """Return a chunk for each batch that has records."""
        return [
            Chunk(
                file=file,
                identity=ChunkIdentity(file=number, block=i),
                read_by=read_by,
                records=rows,
                read_bytes=rows,
            )
            for i, rows in enumerate(self.batches)
            if rows
        ]


class ArrowFormat(FileFormat):
    """Files of Arrow's IPC format."""

    name = "arrow"
    shown = "Arrow"
    suffixes = (".arrow",)

    def names(self, location: Location, *, separator: str | None) -> SourceNames:
        """Return the columns of the schema."""
        del separator
        with open_input(location) as file, pa.ipc.open_file(file) as opened:
            columns = [NamedColumn(name=one.name, kind=column_kind(one.type)) for one in opened.schema]
        return SourceNames(separator=None, columns=tuple(columns))

    def layout(self, file: Location, asked: AskedColumns) -> ArrowLayout:
        """Check the schema, and count the records of each batch."""
        try:
            with open_input(file) as opened, pa.ipc.open_file(opened) as batches:
                schema = batches.schema
                rows = tuple(batches.get_batch(i).num_rows for i in range(batches.num_record_batches))
        except (OSError, pa.ArrowException) as error:
            raise InputRefused(f"the file cannot be read ({type(error).__name__}).", where=path_of(file)) from None
        for column in asked.names:
            if schema.names.count(column) != 1 or column in asked.partition_columns:
                raise InputRefused(f"there is not one column {column!r}.", where=path_of(file))
        return ArrowLayout(types=tuple(schema.field(column).type for column in asked.names), batches=rows)

    def keys(
        self, chunks: Sequence[Chunk], *, coders: Sequence[RecordCoder], key_words: int, coins: CoinsOfBlocks
    ) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
        """Give the keys, batch by batch."""
        for chunk in chunks:
            with (
                records_read(f"{chunk.file.path}, batch {chunk.identity.block}"),
                open_input(chunk.file) as file,
                pa.ipc.open_file(file) as opened,
            ):
                batch = opened.get_batch(chunk.identity.block)
                positions = coins(chunk.identity).kept(batch.num_rows)
                keys = np.zeros((key_words, batch.num_rows if positions is None else positions.size), dtype=np.int64)
                for coder in coders:
                    keys[coder.rows] += coder.scaled_codes(batch.column(coder.name), positions)
            yield chunk.identity, keys


ARROW = ArrowFormat()
