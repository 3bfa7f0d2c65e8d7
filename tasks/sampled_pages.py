"""Parquet columns decoded at the sampled positions only; whatever is not known here is left to pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .arrow_arrays import arrow_of
from .column_codes import ColumnCoder

try:
    from . import page_decoder
except ImportError:  # installed where no compiler was at hand
    page_decoder = None  # type: ignore[assignment]

__all__ = ["AVAILABLE", "SampledPages"]

AVAILABLE = page_decoder is not None

_Page = tuple[int, int, int, int, int, int, int, int]
"""As `page_decoder.page_headers` gives it."""

_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "ZSTD": 6}
_INDEXED = (2, 8)  # PLAIN_DICTIONARY, RLE_DICTIONARY
_PLAIN = (0, 2)  # of a dictionary page, both mean PLAIN
_DICTIONARY_PAGE = 2
_SECOND_VERSION = 3
_LARGEST = 64 << 20
_MAGIC_BYTES = 4

_WIDTHS: Mapping[str, np.dtype[Any]] = {
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FLOAT": np.dtype("<f4"),
    "DOUBLE": np.dtype("<f8"),
}
_NARROW: Mapping[pa.DataType, np.dtype[Any]] = {
    pa.int8(): np.dtype("i1"),
    pa.int16(): np.dtype("<i2"),
    pa.uint8(): np.dtype("u1"),
    pa.uint16(): np.dtype("<u2"),
    pa.uint32(): np.dtype("<u4"),
    pa.uint64(): np.dtype("<u8"),
}
_TYPES: Mapping[str, frozenset[pa.DataType]] = {
    "INT32": frozenset({pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.date32()}),
    "INT64": frozenset({pa.int64(), pa.uint64()}),
    "FLOAT": frozenset({pa.float32()}),
    "DOUBLE": frozenset({pa.float64()}),
    "BYTE_ARRAY": frozenset({pa.string(), pa.large_string(), pa.string_view()}),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    """Where a column stands in the file, and how its values are stored.

    Args:
        place: number of the column.
        physical: Parquet's type of its values.
        type_: their type for Arrow.
        optional: whether they may be null.
    """

    place: int
    physical: str
    type_: pa.DataType
    optional: bool


class SampledPages:
    """One Parquet file, read page by page at chosen positions.

    INVARIANT: what it adds is what pyarrow's values would give, or it adds nothing and says so. Pages are read
    into memory of their own: a file that shrinks meanwhile is an error, never a fault of the process.

    Args:
        path: of a file on this machine.
        parquet: the same file for pyarrow, whose footer decides.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str, parquet: pq.ParquetFile) -> None:
        self._file = pa.OSFile(path, "rb")
        self._footer: pq.FileMetaData = parquet.metadata
        self._columns = _known_columns(self._footer, parquet.schema_arrow)
        self._row_group = -1
        self._parts: pq.RowGroupMetaData | None = None
        self._codes = np.empty(0, dtype=np.int64)
        self._frames = bytearray()

    def codes(self, coder: ColumnCoder, row_group: int, positions: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The scaled codes of one column at some positions of a row group.

        Args:
            coder: of the column.
            row_group: its number.
            positions: ascending; records of the row group.

        Returns:
            Shape as `positions`, valid until the next call, since Dask's workers give memory back at once and
            fresh memory costs as much as the decoding; None where the column, its encoding or its pages are not
            known here, or are damaged: pyarrow then reads it, or fails.

        Raises:
            OSError: the file cannot be read.
        """
        column = self._columns.get(coder.column.name)
        if column is None:
            return None
        if self._parts is None or self._row_group != row_group:
            self._row_group, self._parts = row_group, self._footer.row_group(row_group)
        part = self._parts.column(column.place)
        codec = _CODECS.get(part.compression)
        start = part.data_page_offset
        if part.has_dictionary_page and part.dictionary_page_offset is not None:
            start = min(start, part.dictionary_page_offset)
        if codec is None or start < _MAGIC_BYTES or not 0 < part.total_compressed_size <= _LARGEST:
            return None
        self._file.seek(start)
        chunk = self._file.read_buffer(part.total_compressed_size)
        records = self._parts.num_rows
        if self._codes.size < positions.size:
            self._codes = np.empty(positions.size, dtype=np.int64)
        codes = self._codes[: positions.size]
        try:
            _add_codes(codes, chunk, column, coder, positions, records, codec, self._frames)
        except (ValueError, pa.ArrowException, OSError):  # the codecs' own error is an OSError
            return None
        return codes


def _add_codes(
    codes: NDArray[np.int64],
    chunk: pa.Buffer,
    column: _Column,
    coder: ColumnCoder,
    positions: NDArray[np.int64],
    records: int,
    codec: int,
    frames: bytearray,
) -> None:
    """Write `SampledPages.codes` into `codes`, from the bytes of the column's part in the row group.

    Raises:
        ValueError, pyarrow.ArrowException, OSError: it is for pyarrow to read.
    """
    pages = page_decoder.page_headers(chunk, records, codec)
    if not pages or pages[0][0] != _DICTIONARY_PAGE or pages[0][5] not in _PLAIN:
        raise ValueError("the column's part does not begin with a dictionary")
    if any(page[0] == _DICTIONARY_PAGE or page[5] not in _INDEXED for page in pages[1:]):
        raise ValueError("there are pages without a dictionary")
    unpacker = None if codec == 0 else pa.Codec(_NAMES[codec])
    starts = list(accumulate((page[4] for page in pages[1:]), initial=0))
    bounds = positions.searchsorted(np.array(starts, dtype=np.int64)).tolist()
    wanted = [number for number in range(len(starts) - 1) if bounds[number] < bounds[number + 1]]
    contents = _all_unpacked(chunk, [pages[0], *(pages[1 + number] for number in wanted)], unpacker, frames)
    table = coder.table(_dictionary(next(contents), pages[0][4], column))
    codes.fill(0)
    for number, content in zip(wanted, contents, strict=True):
        page = pages[1 + number]
        page_decoder.add_codes(
            content,
            positions,
            bounds[number],
            bounds[number + 1],
            starts[number],
            page[4],
            page[6] if page[0] == _SECOND_VERSION else -1,
            column.optional,
            table,
            codes,
        )


_NAMES = {1: "snappy", 2: "gzip", 6: "zstd"}


def _all_unpacked(
    chunk: pa.Buffer, pages: Sequence[_Page], unpacker: pa.Codec | None, frames: bytearray
) -> Iterator[memoryview]:
    """Pages' bytes without their compression; `frames` is memory to work in, which grows as it must.

    INVARIANT: `page_headers` has seen that a page of Zstandard is one frame and nothing else, of the length that is
    said; the codec unpacks frames in a row one after the other, so that each page's bytes begin where they must.
    """
    sizes = [page[3] for page in pages]
    apart = sum(sizes) > _LARGEST or any(page[6] or page[7] for page in pages)
    if unpacker is None or unpacker.name != "zstd" or apart:
        yield from (_unpacked(chunk, page, unpacker) for page in pages)
        return
    octets = memoryview(chunk)
    packed = sum(page[2] for page in pages)
    if len(frames) < packed:
        frames.extend(bytes(packed - len(frames)))
    end = 0
    for page in pages:
        frames[end : end + page[2]] = octets[page[1] : page[1] + page[2]]
        end += page[2]
    content = memoryview(unpacker.decompress(memoryview(frames)[:packed], sum(sizes)))
    for start, size in zip(accumulate(sizes, initial=0), sizes, strict=False):
        yield content[start : start + size]


def _unpacked(chunk: pa.Buffer, page: _Page, unpacker: pa.Codec | None) -> memoryview:
    """A page's bytes without its compression; levels of the second version stand before the packed part."""
    _, start, packed_size, raw_size, _, _, levels, already = page
    octets = memoryview(chunk)[start : start + packed_size]
    if already or unpacker is None:
        return octets
    if raw_size > _LARGEST:
        raise ValueError("the page is very large")
    if not levels:
        return memoryview(unpacker.decompress(octets, raw_size))
    values = unpacker.decompress(octets[levels:], raw_size - levels) if raw_size > levels else b""
    return memoryview(b"".join((octets[:levels], values)))


def _dictionary(octets: memoryview, count: int, column: _Column) -> pa.Array:
    """The values of a dictionary page."""
    if column.physical == "BYTE_ARRAY":
        offsets, texts = page_decoder.plain_texts(octets, count)
        return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
    stored = _WIDTHS[column.physical]
    if count * stored.itemsize != octets.nbytes:
        raise ValueError("the dictionary has another length than its header says")
    numbers = np.frombuffer(octets, dtype=stored)
    if column.type_ == pa.date32():
        return arrow_of(numbers).cast(pa.date32())
    return arrow_of(numbers.astype(_NARROW.get(column.type_, stored)))


def _known_columns(footer: pq.FileMetaData, schema: pa.Schema) -> dict[str, _Column]:
    """The flat columns of types that are known here."""
    known: dict[str, _Column] = {}
    for place in range(footer.num_columns):
        stored = footer.schema.column(place)
        if stored.max_repetition_level or stored.max_definition_level > 1 or stored.path != stored.name:
            continue
        found = schema.get_all_field_indices(stored.name)
        type_ = schema.field(found[0]).type if len(found) == 1 else None
        if type_ is not None and pa.types.is_dictionary(type_):
            type_ = type_.value_type
        if type_ in _TYPES.get(stored.physical_type, frozenset()):
            known[stored.name] = _Column(
                place=place,
                physical=stored.physical_type,
                type_=type_,
                optional=stored.max_definition_level == 1,
            )
    return known
