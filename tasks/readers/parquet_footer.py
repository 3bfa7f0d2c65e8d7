"""The footer of a Parquet file: its row groups, and whether the released columns have types that map."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.sampling import ChunkIdentity
from ...mechanisms.wording import did_you_mean
from .file_formats import AskedColumns, Chunk, FileFormat, FileLayout
from .source_files import (
    Location,
    SourceFile,
    is_url,
    open_input,
    open_local,
    path_of,
    reject_duplicate_partition_column,
)

try:
    from . import page_decoder
except ImportError:  # installed where no compiler was at hand
    page_decoder = None  # type: ignore[assignment]

_CODECS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "LZ4", "LZ4_RAW", "ZSTD"}
_DICTIONARY_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"}
_FOOTERS = 4  # are remembered, since few files are read at a time
_MAGIC = b"PAR1"
_MOST_RECORDS = 1 << 32  # of which each has a coin
MISSING_COLUMN = (
    "Check [columns]. Files that a table had before it was given the column lack it: rewrite them with its present "
    "schema."
)
_TAIL = 4 + len(_MAGIC)  # the footer's length and the magic bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetLayout(FileLayout):
    """What the footer says; or the head of a statistics package's file, whose blocks of records are as row groups.

    Args:
        rows: records of each row group.
        read_bytes: bytes of the released columns in each row group once decompressed.
    """

    rows: tuple[int, ...]
    read_bytes: tuple[int, ...]

    @property
    def outline(self) -> tuple[int, ...]:
        """Return the records of each row group."""
        return self.rows

    @property
    def records(self) -> int:
        """Return how many records there are."""
        return sum(self.rows)

    def chunks(self, file: SourceFile, number: int, read_by: FileFormat) -> list[Chunk]:
        """Return a chunk for each row group that has records."""
        return [
            Chunk(
                file=file,
                identity=ChunkIdentity(file=number, block=block),
                read_by=read_by,
                records=records,
                read_bytes=size,
            )
            for block, (records, size) in enumerate(zip(self.rows, self.read_bytes, strict=True))
            if records
        ]


def open_parquet(
    location: Location | pa.OSFile, *, dictionary_columns: Sequence[str] = (), footer: pq.FileMetaData | None = None
) -> pq.ParquetFile:
    """Open a Parquet file and read its footer.

    Args:
        location: the file, or what `open_local` gave of it.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be opened, or its footer cannot be read or is damaged.
        ReleaseFailed: it is not the file that was listed.
    """
    far = not isinstance(location, pa.OSFile) and is_url(path_of(location))
    file = location if isinstance(location, pa.OSFile) else open_input(location) if far else open_local(location)
    options = {"read_dictionary": list(dictionary_columns), "metadata": footer or _footer(file)}
    return pq.ParquetFile(file, pre_buffer=far, **options)


def read_parquet_layout(location: Location, asked: AskedColumns) -> ParquetLayout:
    """Check the released columns of one file against its footer; no page is read.

    Texts, integers, Booleans, dates, times without a zone, decimals and floating-point numbers map, and dictionaries
    of these. Where whole numbers are declared, others have the bucket's code, and so have all decimals with places.

    Raises:
        InputRefused: the footer cannot be read, or a column is missing, doubled, another one, or of a type that has no
            text: the message names file and column.
        ReleaseFailed: it is not the file that was listed.
    """
    path, columns, field_ids = path_of(location), asked.names, asked.field_ids
    try:
        with open_parquet(location) as file:
            schema: pa.Schema = file.schema_arrow
            metadata: pq.FileMetaData = file.metadata
            layout = _row_groups(metadata, columns)
    except (OSError, ImportError, pa.ArrowException, UnicodeDecodeError) as error:
        raise unread_footer(path, error) from None
    reject_duplicate_partition_column(schema.names, partition_columns=asked.partition_columns, where=path)
    for column in columns:
        places = schema.get_all_field_indices(column)
        if not places:
            remedy = f"{did_you_mean([column], schema.names)} {MISSING_COLUMN}".strip()
            raise InputRefused(f"there is no column {column!r}.", where=path, remedy=remedy)
        if len(places) > 1:
            raise InputRefused(f"the column {column!r} is there {len(places)} times.", where=path)
        # Of an Iceberg table a name is another column's where the file has another id with it.
        if field_ids and _field_id(schema.field(places[0])) != str(field_ids[column]).encode():
            raise InputRefused(
                f"the column {column!r} is another one in this file: the table's schema was changed since it was "
                "written.",
                where=path,
                remedy="Rewrite the table's files with its present schema, or leave the column out.",
            )
        if not _maps(schema.field(places[0]).type):
            raise InputRefused(
                f"the column {column!r} has the type {schema.field(places[0]).type}, which has no text that a"
                " hierarchy could map.",
                where=path,
                remedy="Store it as text or as integers.",
            )
        _check_storage(metadata, column, schema.field(places[0]).type, path)
    return replace(layout, types=tuple(schema.field(column).type for column in columns))


def unread_footer(path: str, error: Exception) -> InputRefused:
    """Return the refusal of a file whose footer can't be read."""
    return InputRefused(
        f"the Parquet footer cannot be read ({type(error).__name__}).",
        where=path,
        remedy="The file is cut off, damaged, encrypted, or not Parquet.",
    )


def dictionary_columns(metadata: pq.FileMetaData, columns: Sequence[str], *, row_groups: Iterable[int]) -> list[str]:
    """Return those of the columns that the reader can give as dictionaries in all of some row groups."""
    chosen = list(row_groups)
    return [
        column
        for column in columns
        if all(set(part.encodings) <= _DICTIONARY_ENCODINGS for part in _parts(metadata, column, row_groups=chosen))
    ]


def _field_id(field: pa.Field) -> bytes | None:
    """Return the id that Iceberg knows a column by, as the file has it."""
    return (field.metadata or {}).get(b"PARQUET:field_id")


def _parts(metadata: pq.FileMetaData, column: str, *, row_groups: Iterable[int]) -> Iterator[pq.ColumnChunkMetaData]:
    """Yield the column's part in each of some row groups; none for a nested column."""
    schema = metadata.schema
    for place in range(metadata.num_columns):
        if schema.column(place).path == column:
            yield from (metadata.row_group(number).column(place) for number in row_groups)


def _check_storage(metadata: pq.FileMetaData, column: str, type_: pa.DataType, path: str) -> None:
    """Refuse, before the charge, what the reader is known to fail at after it."""
    everywhere = range(metadata.num_row_groups)
    # Refused before the charge: found afterwards, it would leave a release that is paid for and can't be read.
    codecs = {part.compression for part in _parts(metadata, column, row_groups=everywhere)} - _CODECS
    if codecs:
        raise InputRefused(f"the column {column!r} is compressed by {sorted(codecs)}.", where=path)
    if pa.types.is_dictionary(type_) and not dictionary_columns(metadata, [column], row_groups=everywhere):
        raise InputRefused(
            f"the column {column!r} is declared a dictionary but stored in an encoding without one.",
            where=path,
            remedy="Write it again as plain text.",
        )


def _row_groups(metadata: pq.FileMetaData, columns: Sequence[str]) -> ParquetLayout:
    groups = range(metadata.num_row_groups)
    rows = tuple(metadata.row_group(number).num_rows for number in groups)
    sizes = [0] * len(rows)
    for column in columns:
        for number, part in enumerate(_parts(metadata, column, row_groups=groups)):
            sizes[number % len(rows)] += part.total_uncompressed_size
    return ParquetLayout(rows=rows, read_bytes=tuple(sizes))


def _maps(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _maps(type_.value_type)
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_integer,
        pa.types.is_boolean,
        pa.types.is_date,
        pa.types.is_decimal,
        pa.types.is_floating,
        pa.types.is_null,
    )
    # With a zone, its readers would be told another time than those who wrote it.
    return any(test(type_) for test in tests) or (pa.types.is_timestamp(type_) and type_.tz is None)


def _check_records(footer: pq.FileMetaData) -> None:
    """Refuse row groups of which no record could have its coin.

    Raises:
        pyarrow.ArrowInvalid: there is one with fewer records than none, or too many.
    """
    if any(not 0 <= footer.row_group(number).num_rows < _MOST_RECORDS for number in range(footer.num_row_groups)):
        raise pa.ArrowInvalid("a row group has fewer records than none, or more than can be counted")


@lru_cache(maxsize=_FOOTERS)
def _footer_of(raw_bytes: bytes, tail: bytes) -> pq.FileMetaData:
    """Return what the bytes of a footer say; of a large file they are read again by each of its tasks.

    Raises:
        pyarrow.ArrowException: they are damaged, or the columns are encrypted.
    """
    # pyarrow ends the process on some damaged footers, before Python could refuse anything.
    if not page_decoder.sound_footer(raw_bytes):
        raise pa.ArrowInvalid("the footer is damaged or encrypted")
    # From the bytes that were checked, since the file may be another one by now.
    return pq.read_metadata(pa.BufferReader(raw_bytes + tail))


def _footer(file: BinaryIO) -> pq.FileMetaData:
    """Read a footer, and refuse one that would end the process: pyarrow throws what it finds there past Python.

    INVARIANT: pyarrow reads the very bytes that were checked, whatever becomes of the file meanwhile. What is no footer
    at all is left to it, since it says so, and everything is where there was no compiler.

    Raises:
        OSError, pyarrow.ArrowException: the footer cannot be read, is damaged, or its columns are encrypted.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    length = int.from_bytes(tail[: -len(_MAGIC)], "little")
    if page_decoder is None or not tail.endswith(_MAGIC) or not 0 < length <= size - _TAIL:
        footer = pq.read_metadata(file)
    else:
        file.seek(size - _TAIL - length)
        footer = _footer_of(file.read(length), tail)
    _check_records(footer)
    return footer
