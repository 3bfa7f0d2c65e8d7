"""Parquet columns decoded at the sampled positions only; types not known here are left to pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ...mechanisms.kernel.recoding import BUCKET_CODE
from .column_codes import ColumnCoder, RecordCoder, arrow_of

try:
    from . import page_decoder
except ImportError:  # installed where no compiler was at hand
    page_decoder = None  # type: ignore[assignment]


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
class StoredColumn:
    """Where a column stands in the file, and how its values are stored.

    Args:
        physical: Parquet's type of its values.
        type_name: its name; types themselves are slow to look up by.
        optional: whether they may be null.
    """

    place: int
    physical: str
    type_: pa.DataType
    type_name: str
    optional: bool

    @property
    def width(self) -> int:
        """Return bytes of a value; 0 where each begins with its length."""
        return 0 if self.physical == "BYTE_ARRAY" else _WIDTHS[self.physical].itemsize


def stored_columns(footer: pq.FileMetaData, schema: pa.Schema) -> dict[str, StoredColumn]:
    """Return the flat columns of types that are known here."""
    known: dict[str, StoredColumn] = {}
    for place in range(footer.num_columns):
        stored = footer.schema.column(place)
        # Lists and nested fields have more or fewer values than the group has records, so that positions say nothing
        # there.
        if stored.max_repetition_level or stored.max_definition_level > 1 or stored.path != stored.name:
            continue
        found = schema.get_all_field_indices(stored.name)
        type_ = schema.field(found[0]).type if len(found) == 1 else None
        if type_ is not None and pa.types.is_dictionary(type_):
            type_ = type_.value_type
        if type_ in _TYPES.get(stored.physical_type, frozenset()):
            known[stored.name] = StoredColumn(
                place=place,
                physical=stored.physical_type,
                type_=type_,
                type_name=str(type_),
                optional=stored.max_definition_level == 1,
            )
    return known


def dictionary_values(raw_bytes: memoryview, count: int, column: StoredColumn) -> pa.Array:
    """Return the values of a dictionary page.

    Raises:
        ValueError: there are not `count` of them, or something else besides.
    """
    if column.physical == "BYTE_ARRAY":
        offsets, texts = page_decoder.plain_texts(raw_bytes, count)
        return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)])
    stored = _WIDTHS[column.physical]
    if count * stored.itemsize != raw_bytes.nbytes:
        raise ValueError("the dictionary has another length than its header says")
    numbers = np.frombuffer(raw_bytes, dtype=stored)
    if column.type_ == pa.date32():
        return arrow_of(numbers).cast(pa.date32())
    return arrow_of(numbers.astype(_NARROW.get(column.type_, stored)))


AVAILABLE = page_decoder is not None

_PageHeader = tuple[int, int, int, int, int, int, int, int, int, int]
"""As `page_decoder.page_headers` gives it."""

_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "ZSTD": 6}
_NAMES = {1: "snappy", 2: "gzip", 6: "zstd"}
_ZSTD = 6
_LARGEST = 64 << 20
_TOGETHER = 1 << 20
_GAP = 1 << 12  # so many bytes between two columns are read along with them
_MAGIC_BYTES = 4
_LEARNED = 1 << 15
_NOT_OURS = (ValueError, pa.ArrowException, OSError)  # the codecs' own error is an OSError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A column's bytes of one row group.

    Args:
        column: how it is stored.
        codec: its compression, as Parquet numbers them.
        start: place of the first byte in the file.
        stop: place after the last one.
    """

    coder: ColumnCoder
    column: StoredColumn
    codec: int
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pages:
    """A part's pages that hold chosen records, the dictionary before them."""

    raw_bytes: memoryview
    headers: list[_PageHeader]


class SampledPages:
    """One Parquet file, read page by page at chosen positions.

    INVARIANT: what it gives is what pyarrow's values would give, or it gives nothing and says so. Pages are read
    into memory of their own: a file that shrinks meanwhile is an error, never a fault of the process.
    """

    def __init__(self, file: pa.OSFile, parquet: pq.ParquetFile) -> None:
        self._file = file
        self._footer: pq.FileMetaData = parquet.metadata
        self._columns = stored_columns(self._footer, parquet.schema_arrow)
        self._codes = np.empty(0, dtype=np.int64)
        self._frames = bytearray()

    def add_keys(
        self, coders: Sequence[RecordCoder], row_group: int, positions: NDArray[np.int64], keys: NDArray[np.int64]
    ) -> list[RecordCoder]:
        """Add the scaled codes of some columns at some positions of a row group to the records' keys.

        Small columns that lie side by side are read, unpacked and decoded together, since every call that lets other
        threads in has its price.

        Args:
            positions: ascending, shape (n,); records of the row group.
            keys: shape (words, n); each column adds to the row of its word.

        Returns:
            The columns for which nothing was added, since they, their encoding or their pages are not known here, or
            are damaged: pyarrow then reads them, or fails.

        Raises:
            OSError: the file cannot be read.
        """
        metadata = self._footer.row_group(row_group)
        parts: list[_Part] = []
        left: list[RecordCoder] = []
        for coder in coders:
            part = self._part(coder, metadata)
            if part is None:
                left.append(coder)
            else:
                parts.append(part)
        for bundle in _bundles(parts):
            left += self._add_bundle(bundle, positions, metadata.num_rows, keys)
        return left

    def _part(self, coder: RecordCoder, metadata: pq.RowGroupMetaData) -> _Part | None:
        column = self._columns.get(coder.name)
        if column is None or not isinstance(coder, ColumnCoder):
            return None
        part = metadata.column(column.place)
        codec = _CODECS.get(part.compression)
        start = part.data_page_offset
        if part.has_dictionary_page and part.dictionary_page_offset is not None:
            start = min(start, part.dictionary_page_offset)
        size = part.total_compressed_size
        # The footer may be damaged: nothing is read before the magic bytes, and parts above 64 MiB are left to pyarrow.
        if codec is None or start < _MAGIC_BYTES or not 0 < size <= _LARGEST:
            return None
        return _Part(coder=coder, column=column, codec=codec, start=start, stop=start + size)

    def _add_bundle(
        self, bundle: Sequence[_Part], positions: NDArray[np.int64], records: int, keys: NDArray[np.int64]
    ) -> list[ColumnCoder]:
        origin = bundle[0].start
        self._file.seek(origin)
        raw_bytes = memoryview(self._file.read_buffer(max(part.stop for part in bundle) - origin))
        # Dask's workers give memory back at once, and fresh memory costs as much as the decoding.
        if self._codes.size < keys.size:
            self._codes = np.empty(keys.size, dtype=np.int64)
        codes = self._codes[: keys.size].reshape(keys.shape)
        codes.fill(0)
        try:
            pages = []
            for part in bundle:
                own = raw_bytes[part.start - origin : part.stop - origin]
                headers = page_decoder.page_headers(own, records, part.codec, positions)
                pages.append(_Pages(raw_bytes=own, headers=headers))
            contents = _all_unpacked(pages, bundle, self._frames)
            page_decoder.add_codes(_to_decode(bundle, pages, contents, list(codes)), positions)
        except _NOT_OURS:
            # One column that isn't understood makes the whole bundle fail, so each of its columns is tried again by
            # itself.
            if len(bundle) == 1:
                return [bundle[0].coder]
            return [left for part in bundle for left in self._add_bundle([part], positions, records, keys)]
        # Only after all pages were decoded: a fault in the middle leaves the keys as they were, for pyarrow to fill.
        keys += codes
        return []


def _bundles(parts: Sequence[_Part]) -> list[list[_Part]]:
    """Parts in the order in which they lie; small ones that lie side by side together."""
    bundles: list[list[_Part]] = []
    for part in sorted(parts, key=lambda part: part.start):
        last = bundles[-1] if bundles else None
        # Columns that lie side by side are read in one call; what lies between them would be read for nothing. Polars
        # puts a copy of a column's metadata behind it.
        if last and part.start <= last[-1].stop + _GAP and part.stop - last[0].start <= _TOGETHER:
            last.append(part)
        else:
            bundles.append([part])
    return bundles


def _to_decode(
    parts: Sequence[_Part],
    pages: Sequence[_Pages],
    contents: Sequence[Sequence[memoryview]],
    codes: Sequence[NDArray[np.int64]],
) -> list[page_decoder.Page]:
    """Every page of some parts, as `page_decoder.add_codes` takes it; `codes` has a row for each word.

    Raises:
        ValueError, pyarrow.ArrowException: a part is for pyarrow to read.
    """
    asked: list[page_decoder.Page] = []
    for part, own, (dictionary, *unpacked) in zip(parts, pages, contents, strict=True):
        table = _table(dictionary, own.headers[0][4], part.column, part.coder)
        optional, out = part.column.optional, codes[part.coder.placement.word]
        for header, content in zip(own.headers[1:], unpacked, strict=True):
            second_version, *_, values, levels, _, first, last, origin = header
            known_levels = levels if second_version else -1
            asked.append((content, first, last, origin, values, known_levels, optional, table, out))
    return asked


def _table(raw_bytes: memoryview, count: int, column: StoredColumn, coder: ColumnCoder) -> bytes | NDArray[np.int64]:
    """`ColumnCoder.table` of a dictionary page; small row groups repeat its entries, each in an order of its own."""
    width, null_code = column.width, BUCKET_CODE * coder.placement.stride
    known = coder.known_entries(column.type_name)
    # The index is a hash table of entries that were met before, since row groups of a file repeat their dictionaries.
    if not known.index:
        known.index = page_decoder.entry_index(known.codes)
    codes = page_decoder.known_codes(raw_bytes, count, width, known.index, null_code)
    if codes is not None:
        return codes
    dictionary = dictionary_values(raw_bytes, count, column)
    table = coder.table(dictionary)
    if count <= _LEARNED:
        numbers = [bytes(raw_bytes[at : at + width]) for at in range(0, count * width, width)] if width else None
        coder.learn_entries(column.type_name, dictionary.to_pylist() if numbers is None else numbers, table)
    return table


def _all_unpacked(pages: Sequence[_Pages], parts: Sequence[_Part], frames: bytearray) -> list[list[memoryview]]:
    """The bytes of the parts' pages without their compression; `frames` is memory to work in, which grows as it must.

    INVARIANT: `page_headers` has seen that a page of Zstandard is one frame and nothing else, of the length that is
    said; the codec unpacks frames in a row one after the other, so that each page's bytes begin where they must.

    Raises:
        ValueError, pyarrow.ArrowException, OSError: some page cannot be unpacked.
    """
    headers = [header for own in pages for header in own.headers]
    sizes = [header[3] for header in headers]
    # Zstandard unpacks frames in a row in one call; pages of other codecs are unpacked one by one.
    apart = sum(sizes) > _LARGEST or any(header[5] or header[6] for header in headers)
    if apart or any(part.codec != _ZSTD for part in parts):
        unpackers = [pa.Codec(_NAMES[part.codec]) if part.codec else None for part in parts]
        return [
            [_unpacked(own.raw_bytes, header, unpacker) for header in own.headers]
            for own, unpacker in zip(pages, unpackers, strict=True)
        ]
    packed = sum(header[2] for header in headers)
    if len(frames) < packed:
        frames.extend(bytes(packed - len(frames)))
    end = 0
    for own in pages:
        for header in own.headers:
            frames[end : end + header[2]] = own.raw_bytes[header[1] : header[1] + header[2]]
            end += header[2]
    content = memoryview(pa.Codec(_NAMES[_ZSTD]).decompress(memoryview(frames)[:packed], sum(sizes)))
    places = zip(accumulate(sizes, initial=0), sizes, strict=False)
    every = iter([content[start : start + size] for start, size in places])
    return [[next(every) for _ in own.headers] for own in pages]


def _unpacked(raw_bytes: memoryview, header: _PageHeader, unpacker: pa.Codec | None) -> memoryview:
    """Return a page's bytes without its compression; levels of the second version stand before the packed part."""
    _, start, packed_size, raw_size, _, levels, already, *_ = header
    page = raw_bytes[start : start + packed_size]
    if already or unpacker is None:
        return page
    if raw_size > _LARGEST:
        raise ValueError("the page is very large")
    if not levels:
        return memoryview(unpacker.decompress(page, raw_size))
    values = unpacker.decompress(page[levels:], raw_size - levels) if raw_size > levels else b""
    return memoryview(b"".join((page[:levels], values)))
