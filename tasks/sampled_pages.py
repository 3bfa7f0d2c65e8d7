"""Parquet columns decoded at the sampled positions only; whatever is not known here is left to pyarrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..mechanisms.hierarchy import BUCKET_CODE
from .column_codes import ColumnCoder
from .stored_columns import StoredColumn, dictionary_values, stored_columns

try:
    from . import page_decoder
except ImportError:  # installed where no compiler was at hand
    page_decoder = None  # type: ignore[assignment]

__all__ = ["AVAILABLE", "SampledPages"]

AVAILABLE = page_decoder is not None

_PageHeader = tuple[int, int, int, int, int, int, int, int]
"""As `page_decoder.page_headers` gives it."""

_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "ZSTD": 6}
_NAMES = {1: "snappy", 2: "gzip", 6: "zstd"}
_ZSTD = 6
_INDEXED = (2, 8)  # PLAIN_DICTIONARY, RLE_DICTIONARY
_PLAIN = (0, 2)  # of a dictionary page, both mean PLAIN
_DICTIONARY_PAGE = 2
_SECOND_VERSION = 3
_LARGEST = 64 << 20
_TOGETHER = 1 << 20
_MAGIC_BYTES = 4
_LEARNED = 1 << 15
_NOT_OURS = (ValueError, pa.ArrowException, OSError)  # the codecs' own error is an OSError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A column's bytes of one row group.

    Args:
        coder: of the column.
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
    """A part's pages that hold chosen records, the dictionary before them.

    Args:
        octets: the part.
        headers: of the dictionary and of the pages.
        places: for each page but the dictionary, which of the positions lie in it (first, and first after them), and
            the row group's record with which it begins.
    """

    octets: memoryview
    headers: list[_PageHeader]
    places: list[tuple[int, int, int]]


class SampledPages:
    """One Parquet file, read page by page at chosen positions.

    INVARIANT: what it gives is what pyarrow's values would give, or it gives nothing and says so. Pages are read
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
        self._columns = stored_columns(self._footer, parquet.schema_arrow)
        self._codes = np.empty(0, dtype=np.int64)
        self._frames = bytearray()

    def codes(
        self, coders: Sequence[ColumnCoder], row_group: int, positions: NDArray[np.int64]
    ) -> Iterator[tuple[ColumnCoder, NDArray[np.int64] | None]]:
        """The scaled codes of some columns at some positions of a row group.

        Small columns that lie side by side are read and unpacked together, since every call that lets other threads
        in has its price.

        Args:
            coders: of the columns.
            row_group: its number.
            positions: ascending; records of the row group.

        Yields:
            Each coder once, in any order, with codes of the shape of `positions`, which are valid until the next are
            asked for: Dask's workers give memory back at once, and fresh memory costs as much as the decoding. Or with
            None where the column, its encoding or its pages are not known here, or are damaged: pyarrow then reads
            it, or fails.

        Raises:
            OSError: the file cannot be read.
        """
        metadata = self._footer.row_group(row_group)
        if self._codes.size < positions.size:
            self._codes = np.empty(positions.size, dtype=np.int64)
        parts: list[_Part] = []
        for coder in coders:
            part = self._part(coder, metadata)
            if part is None:
                yield coder, None
            else:
                parts.append(part)
        for bundle in _bundles(parts):
            yield from self._codes_of(bundle, positions, metadata.num_rows)

    def _part(self, coder: ColumnCoder, metadata: pq.RowGroupMetaData) -> _Part | None:
        column = self._columns.get(coder.column.name)
        if column is None:
            return None
        part = metadata.column(column.place)
        codec = _CODECS.get(part.compression)
        start = part.data_page_offset
        if part.has_dictionary_page and part.dictionary_page_offset is not None:
            start = min(start, part.dictionary_page_offset)
        size = part.total_compressed_size
        if codec is None or start < _MAGIC_BYTES or not 0 < size <= _LARGEST:
            return None
        return _Part(coder=coder, column=column, codec=codec, start=start, stop=start + size)

    def _codes_of(
        self, bundle: Sequence[_Part], positions: NDArray[np.int64], records: int
    ) -> Iterator[tuple[ColumnCoder, NDArray[np.int64] | None]]:
        origin = bundle[0].start
        self._file.seek(origin)
        octets = memoryview(self._file.read_buffer(max(part.stop for part in bundle) - origin))
        try:
            pages = [
                _pages(part, octets[part.start - origin : part.stop - origin], positions, records) for part in bundle
            ]
            contents = _all_unpacked(pages, bundle, self._frames)
        except _NOT_OURS:
            if len(bundle) == 1:
                yield bundle[0].coder, None
                return
            for part in bundle:
                yield from self._codes_of([part], positions, records)
            return
        codes = self._codes[: positions.size]
        for part, own, unpacked in zip(bundle, pages, contents, strict=True):
            try:
                _write_codes(codes, part, own, unpacked, positions)
                sound = True
            except _NOT_OURS:
                sound = False
            yield part.coder, codes if sound else None


def _bundles(parts: Sequence[_Part]) -> list[list[_Part]]:
    """Parts in the order in which they lie; small ones that lie side by side together."""
    bundles: list[list[_Part]] = []
    for part in sorted(parts, key=lambda part: part.start):
        last = bundles[-1] if bundles else None
        if last and part.start <= last[-1].stop and part.stop - last[0].start <= _TOGETHER:
            last.append(part)
        else:
            bundles.append([part])
    return bundles


def _pages(part: _Part, octets: memoryview, positions: NDArray[np.int64], records: int) -> _Pages:
    """A part's pages that hold chosen records.

    Raises:
        ValueError: it is for pyarrow to read.
    """
    dictionary, *pages = page_decoder.page_headers(octets, records, part.codec)
    if dictionary[0] != _DICTIONARY_PAGE or dictionary[5] not in _PLAIN:
        raise ValueError("the column's part does not begin with a dictionary")
    if any(page[0] == _DICTIONARY_PAGE or page[5] not in _INDEXED for page in pages):
        raise ValueError("there are pages without a dictionary")
    starts = list(accumulate((page[4] for page in pages), initial=0))
    bounds = positions.searchsorted(np.array(starts, dtype=np.int64)).tolist()
    headers, places = [dictionary], []
    for page, start, first, last in zip(pages, starts, bounds, bounds[1:], strict=False):
        if first < last:
            headers.append(page)
            places.append((first, last, start))
    return _Pages(octets=octets, headers=headers, places=places)


def _write_codes(
    codes: NDArray[np.int64], part: _Part, pages: _Pages, contents: Sequence[memoryview], positions: NDArray[np.int64]
) -> None:
    """Write a column's codes into `codes`.

    Raises:
        ValueError, pyarrow.ArrowException: it is for pyarrow to read.
    """
    table = _table(contents[0], pages.headers[0][4], part.column, part.coder)
    codes.fill(0)
    for header, content, (first, last, origin) in zip(pages.headers[1:], contents[1:], pages.places, strict=True):
        levels = header[6] if header[0] == _SECOND_VERSION else -1
        page_decoder.add_codes(
            content, positions, first, last, origin, header[4], levels, part.column.optional, table, codes
        )


def _table(octets: memoryview, count: int, column: StoredColumn, coder: ColumnCoder) -> NDArray[np.int64]:
    """`ColumnCoder.table` of a dictionary page; small row groups repeat its entries, each in an order of its own."""
    width, null_code = column.width, BUCKET_CODE * coder.placement.stride
    codes = page_decoder.known_codes(octets, count, width, coder.known_entries(column.type_), null_code)
    if codes is not None:
        return np.frombuffer(codes, dtype=np.int64)
    dictionary = dictionary_values(octets, count, column)
    table = coder.table(dictionary)
    if count <= _LEARNED:
        numbers = [bytes(octets[at : at + width]) for at in range(0, count * width, width)] if width else None
        coder.learn_entries(column.type_, dictionary.to_pylist() if numbers is None else numbers, table)
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
    apart = sum(sizes) > _LARGEST or any(header[6] or header[7] for header in headers)
    if apart or any(part.codec != _ZSTD for part in parts):
        unpackers = [pa.Codec(_NAMES[part.codec]) if part.codec else None for part in parts]
        return [
            [_unpacked(own.octets, header, unpacker) for header in own.headers]
            for own, unpacker in zip(pages, unpackers, strict=True)
        ]
    packed = sum(header[2] for header in headers)
    if len(frames) < packed:
        frames.extend(bytes(packed - len(frames)))
    end = 0
    for own in pages:
        for header in own.headers:
            frames[end : end + header[2]] = own.octets[header[1] : header[1] + header[2]]
            end += header[2]
    content = memoryview(pa.Codec(_NAMES[_ZSTD]).decompress(memoryview(frames)[:packed], sum(sizes)))
    places = zip(accumulate(sizes, initial=0), sizes, strict=False)
    every = iter([content[start : start + size] for start, size in places])
    return [[next(every) for _ in own.headers] for own in pages]


def _unpacked(octets: memoryview, header: _PageHeader, unpacker: pa.Codec | None) -> memoryview:
    """A page's bytes without its compression; levels of the second version stand before the packed part."""
    _, start, packed_size, raw_size, _, _, levels, already = header
    page = octets[start : start + packed_size]
    if already or unpacker is None:
        return page
    if raw_size > _LARGEST:
        raise ValueError("the page is very large")
    if not levels:
        return memoryview(unpacker.decompress(page, raw_size))
    values = unpacker.decompress(page[levels:], raw_size - levels) if raw_size > levels else b""
    return memoryview(b"".join((page[:levels], values)))
