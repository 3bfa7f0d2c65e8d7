"""The records of a CSV range, or a sample of them, as group keys: a total parser that splits wanted records only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...mechanisms.kernel.sampling import ChunkIdentity
from ..kernel.counting import BlockCoins, CoinsOfBlocks
from .column_codes import ColumnCoder, RecordCoder, arrow_of, bytes_of
from .csv_header import LINE_LIMIT, CsvChunk, CsvLayout, csv_names, read_csv_layout
from .csv_quotes import Quotes, QuoteState, split_line, transition_over
from .file_formats import AskedColumns, Chunk, FileFormat, SourceNames, records_read
from .source_files import Location, open_records
from .values import RecordReading

try:
    from . import csv_decoder, page_decoder
except ImportError:
    csv_decoder = page_decoder = None  # type: ignore[assignment]

_LINE_FEED = 10
_CARRIAGE_RETURN = 13
_SMALL_READ = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordBlock:
    """Consecutive whole records; each begins where the one before ends.

    Args:
        raw_bytes: bytes that hold the records, the first record at offset 0; uint8.
        starts: offset of each record's first byte.
        ends: offset of the line feed that ends it, or of the end of the file; where it is longer than a record may
            be, an offset beyond the limit will do.
    """

    raw_bytes: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def content_ends(self, chosen: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.int64]:
        """Return where some records, or all, end without their line break: LF with an optional CR before it."""
        starts, ends = self.starts[chosen], self.ends[chosen]
        last = self.raw_bytes[np.maximum(ends - 1, 0)]
        content: NDArray[np.int64] = ends - ((ends > starts) & (last == _CARRIAGE_RETURN))
        return content


def blocks_of_range(file: BinaryIO, chunk: CsvChunk, *, record_limit: int, window: int) -> Iterator[RecordBlock]:
    """Yield the records whose first byte lies in the range, in order, window by window.

    A record that is still open after `record_limit` bytes is given cut off, longer than the limit, and the rest
    of it is passed over: so memory is bounded by window and limit. Windows do not change the records.

    Raises:
        ValueError: the state of the quotes before the range isn't known.
    """
    layout, stop = chunk.layout, chunk.stop
    separator, quoted = layout.separator, layout.quoted
    first_range = chunk.start == layout.first_record
    # The byte before the range, and the state before that, decide whether a record begins with the range.
    position, skipping = (chunk.start, False) if first_range else (chunk.start - 1, True)
    state = chunk.before if quoted and not first_range else QuoteState.FRESH if first_range else QuoteState.PLAIN
    if state is None:
        raise ValueError("the quotes before this range have not been followed")
    open_record = b""
    file.seek(position)
    while block := file.read(min(window, max(stop - position, _SMALL_READ))):
        position += len(block)
        if skipping:
            end = _first_end(block, state=state, separator=separator, quoted=quoted)
            if end < 0:
                if position >= stop:
                    return
                state = transition_over(block, separator=separator).after(state)
                continue
            skipping, block = False, block[end + 1 :]
        block = open_record + block
        first = position - len(block)
        raw_bytes = np.frombuffer(block, dtype=np.uint8)
        ends = _record_ends(block, raw_bytes, state=QuoteState.FRESH, separator=separator, quoted=quoted)
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends + 1))
        whole = min(ends.size, int(np.searchsorted(starts, stop - first)))
        if whole:
            yield RecordBlock(raw_bytes=raw_bytes, starts=starts[:whole], ends=ends[:whole])
        if first + int(starts[-1]) >= stop:
            return
        open_record = block[int(starts[-1]) :]
        if len(open_record) > record_limit:
            yield _single(open_record)
            state = transition_over(open_record, separator=separator).after(QuoteState.FRESH)
            skipping, open_record = True, b""
    if open_record:
        yield _single(open_record)


def _record_ends(
    block: bytes, raw_bytes: NDArray[np.uint8], *, state: QuoteState, separator: bytes, quoted: bool
) -> NDArray[np.int64]:
    """Return the offsets of the line feeds that end a record, for a block that begins in a state."""
    if quoted and (csv_decoder is not None or state is QuoteState.QUOTED or b'"' in block):
        return Quotes(raw_bytes, separator=separator).record_ends(state)
    return np.flatnonzero(raw_bytes == _LINE_FEED)


def _first_end(block: bytes, *, state: QuoteState, separator: bytes, quoted: bool) -> int:
    """Return the offset of the first line feed that ends a record, or -1."""
    if not quoted or (state is not QuoteState.QUOTED and b'"' not in block):
        return block.find(b"\n")
    ends = _record_ends(block, np.frombuffer(block, dtype=np.uint8), state=state, separator=separator, quoted=quoted)
    return int(ends[0]) if ends.size else -1


def _single(record: bytes) -> RecordBlock:
    return RecordBlock(
        raw_bytes=np.frombuffer(record, dtype=np.uint8),
        starts=np.zeros(1, dtype=np.int64),
        ends=np.full(1, len(record), dtype=np.int64),
    )


_QUOTE = ord('"')


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenRecords:
    """Records copied out of a block, one after the other.

    Args:
        raw_bytes: their bytes, line breaks included; uint8.
        starts: offset of each record; shape (n,).
        ends: where its content ends, before the line break; shape (n,).
    """

    raw_bytes: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegularRecords:
    """Records of as many fields as the header has, none with a quote that its reader would rewrite.

    Args:
        raw_bytes: bytes that hold the fields; uint8.
        starts: offset of each field, without an opening quote; shape (records, fields).
        ends: end of each field, without a closing quote; shape (records, fields).
    """

    raw_bytes: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def column(self, position: int) -> pa.LargeBinaryArray:
        """Return the bytes of one field of every record."""
        count = self.starts.shape[0]
        bounds = np.empty(2 * count + 1, dtype=np.int64)
        bounds[0:-1:2] = self.starts[:, position]
        bounds[1::2] = self.ends[:, position]
        bounds[-1] = bounds[-2] if count else 0
        # Entries alternate: the field, then what lies between it and the next record's.
        everything = pa.Array.from_buffers(
            pa.large_binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(self.raw_bytes)]
        )
        return everything.take(arrow_of(np.arange(0, 2 * count, 2, dtype=np.int64)))


def take_records(block: RecordBlock, chosen: NDArray[np.int64]) -> TakenRecords:
    """Copy the chosen records of a block, given by ascending numbers of shape (chosen,)."""
    # Arrow copies the chosen lines at once, by treating the block as an array of binary values.
    bounds = np.append(block.starts, min(int(block.ends[-1]) + 1, block.raw_bytes.size))
    lines = pa.Array.from_buffers(
        pa.large_binary(), block.starts.size, [None, pa.py_buffer(bounds), pa.py_buffer(block.raw_bytes)]
    ).take(arrow_of(chosen))
    _, offsets, raw_bytes = lines.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[lines.offset : lines.offset + chosen.size + 1]
    lengths = block.content_ends(chosen) - block.starts[chosen]
    taken = np.frombuffer(raw_bytes, dtype=np.uint8)[: starts[-1]] if chosen.size else np.empty(0, dtype=np.uint8)
    return TakenRecords(raw_bytes=taken, starts=starts[:-1], ends=starts[:-1] + lengths)


def sort_records(records: TakenRecords, layout: CsvLayout) -> tuple[RegularRecords, NDArray[np.int64]]:
    """Part the records into those whose fields are as they are stored, and those that are to be split one by one.

    A record with another number of fields than the header is in neither part. A record is regular if every field that
    begins with a quote has one other, at its end. Separators within quotes are none.

    Returns:
        The regular records, and the numbers of the others that have as many fields as the header, shape (others,).
    """
    raw_bytes = records.raw_bytes
    marks = np.flatnonzero(raw_bytes == layout.separator[0])
    quotes = np.flatnonzero(raw_bytes == _QUOTE) if layout.quoted else np.empty(0, dtype=np.int64)
    if quotes.size:
        # Each record begins behind the line feed that ended another.
        # Separators within quotes belong to a value. Each record begins behind the line feed that ended another, so
        # FRESH.
        within = Quotes(raw_bytes, separator=layout.separator).within(marks, QuoteState.FRESH)
        marks = marks[~within]
    regular, between = _separators(marks, records, separators=layout.fields - 1)
    starts = np.column_stack((records.starts[regular], between + 1))
    ends = np.column_stack((between, records.ends[regular]))
    others = np.empty(0, dtype=np.int64)
    if quotes.size:
        opens = (ends > starts) & (raw_bytes[np.minimum(starts, raw_bytes.size - 1)] == _QUOTE)
        closes = (ends - starts >= 2) & (raw_bytes[ends - 1] == _QUOTE)
        if np.array_equal(opens, opens & closes) and quotes.size == 2 * np.count_nonzero(opens):
            return RegularRecords(raw_bytes=raw_bytes, starts=starts + opens, ends=ends - opens), others
        # A field is simple where its only quotes are those at its two ends; every other record is split one by one
        # below.
        in_field = np.searchsorted(quotes, ends) - np.searchsorted(quotes, starts)
        simple = np.all(~opens | (closes & (in_field == 2)), axis=1)
        starts, ends = (starts + opens)[simple], (ends - opens)[simple]
        others = np.flatnonzero(regular)[~simple]
    return RegularRecords(raw_bytes=raw_bytes, starts=starts, ends=ends), others


def _separators(
    marks: NDArray[np.int64], records: TakenRecords, *, separators: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Tell which records have so many separators, shape (n,), and where theirs are, shape (those, separators)."""
    count = records.starts.size
    if marks.size == count * separators:
        between = marks.reshape(count, separators)
        if not separators or np.all((between[:, 0] >= records.starts) & (between[:, -1] < records.ends)):
            return np.ones(count, dtype=np.bool_), between
    found = np.diff(np.searchsorted(marks, np.append(records.starts, records.raw_bytes.size)))
    regular = found == separators
    kept = marks[np.repeat(regular, found)]
    return regular, kept.reshape(int(np.count_nonzero(regular)), separators)


_WINDOW_BYTES = 2 << 20
_FIELD = "field of a CSV file"
_FIRST, _LEARNED = 1 << 12, 1 << 15


class CsvFormat(FileFormat):
    """Delimited text, also compressed by gzip or Zstandard."""

    name = "csv"
    shown = "CSV"
    suffixes = (".csv", ".tsv", ".txt")
    packed = True

    def names(self, location: Location, *, separator: str | None) -> SourceNames:
        """Return the names in the header."""
        return csv_names(location, separator=separator)

    def layout(self, file: Location, asked: AskedColumns) -> CsvLayout:
        """Find the columns in the header."""
        return read_csv_layout(file, asked)

    def keys(
        self, chunks: Sequence[Chunk], *, coders: Sequence[RecordCoder], key_words: int, coins: CoinsOfBlocks
    ) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
        """Give the keys window by window; the columns' places may be more than the coders.

        A map is chosen without the column of rates that comes after.
        """
        for chunk in chunks:
            if not isinstance(chunk, CsvChunk):
                raise TypeError("a range of a CSV file is expected")
            own = coins(chunk.identity)
            with records_read(f"{chunk.file.path}, bytes from {chunk.identity.block} · 64 MiB on"):
                for keys in keys_of_range(
                    chunk, coders=coders, key_words=key_words, coins=own, record_limit=LINE_LIMIT, window=_WINDOW_BYTES
                ):
                    yield chunk.identity, keys

    def reading(self, reading: RecordReading) -> RecordReading:
        """Return the reading as it is declared, with its encoding."""
        return reading


CSV = CsvFormat()


def keys_of_range(
    chunk: CsvChunk,
    *,
    coders: Sequence[RecordCoder],
    key_words: int,
    coins: BlockCoins,
    record_limit: int,
    window: int,
) -> Iterator[NDArray[np.int64]]:
    """As `CsvFormat.keys`, of one range, for any limit and window; a release always takes the fixed ones.

    Each array has shape (words, records).

    INVARIANT: every line that no quoted field holds is a record but the header, and but empty ones where the header
    has several fields. A record with another number of fields than the header, with quotes that do not close
    properly, or longer than `record_limit` is unseen in every column. A field that is not UTF-8, or not declared, is
    unseen.
    """
    range_keys = _RangeKeys(coders, chunk.layout, key_words=key_words)
    with open_records(chunk.file) as file:
        for block in blocks_of_range(file, chunk, record_limit=record_limit, window=window):
            yield range_keys.of_block(block, coins, limit=record_limit)


def is_record(block: RecordBlock, layout: CsvLayout) -> NDArray[np.bool_]:
    """Tell which of a block's records count, shape (n,): an empty line does where the header has one field alone.

    PRIVACY: the number of records must not follow from values. With several fields, a record of nothing but empty ones
    has separators; with one, it is an empty line.
    """
    if layout.fields == 1:
        return np.ones(block.starts.shape, dtype=np.bool_)
    return block.content_ends() > block.starts


class _RangeKeys:
    """Makes keys of a range's records, and remembers the codes of fields that it has met."""

    def __init__(self, coders: Sequence[RecordCoder], layout: CsvLayout, *, key_words: int) -> None:
        self._coders, self._layout, self._key_words = coders, layout, key_words
        columns = [coder for coder in coders if isinstance(coder, ColumnCoder)]
        self._learning = columns if csv_decoder is not None and len(columns) == len(coders) else []

    def of_block(self, block: RecordBlock, coins: BlockCoins, *, limit: int) -> NDArray[np.int64]:
        """Return the keys of the records that coins keep, shape (words, records); a longer one is unseen."""
        records = np.flatnonzero(is_record(block, self._layout))
        kept = coins.kept(records.size)
        sampled = records if kept is None else records[kept]
        # After the coins: a record that is too long has its coin like any other, and is then undeclared in every
        # column.
        usable = sampled[block.ends[sampled] - block.starts[sampled] <= limit]
        parts = []
        # The first records are parsed, so that the others can be recognized by fields that were met among them.
        for chosen in [usable] if self._complete else [usable[:_FIRST], usable[_FIRST:]]:
            keys, left = self._known(block, chosen)
            parts.append(keys)
            if left.any():
                parts.append(self._parsed(take_records(block, chosen[left])))
        # The bucket's code is 0 in every column.
        parts.append(np.zeros((self._key_words, sampled.size - usable.size), dtype=np.int64))
        return np.concatenate(parts, axis=1)

    @property
    def _complete(self) -> bool:
        """Tell whether a record can have all its fields known."""
        return all(coder.known_entries(_FIELD).codes for coder in self._learning)

    def _known(self, block: RecordBlock, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the keys of chosen records of which every field is known, and which of the records are left."""
        if not self._learning or not self._complete or not chosen.size:
            return np.empty((self._key_words, 0), dtype=np.int64), np.ones(chosen.shape, dtype=np.bool_)
        keys = np.zeros((self._key_words, chosen.size), dtype=np.int64)
        asked = []
        for coder, position in zip(self._learning, self._layout.positions, strict=False):
            known = coder.known_entries(_FIELD)
            if not known.index:
                known.index = page_decoder.entry_index(known.codes)
            asked.append((position, known.index, keys[coder.placement.word]))
        starts, ends = block.starts[chosen], block.content_ends(chosen)
        separator, quoted, fields = self._layout.separator[0], self._layout.quoted, self._layout.fields
        flags = csv_decoder.add_known_fields(block.raw_bytes, starts, ends, separator, quoted, fields, asked)
        left = np.frombuffer(flags, dtype=np.bool_)
        if np.count_nonzero(left) > chosen.size // 2:
            # Columns with very many values would fill the table of known fields and seldom hit it.
            self._learning = []  # there are too many values to know
        return keys[:, ~left], left

    def _parsed(self, records: TakenRecords) -> NDArray[np.int64]:
        """Return the keys of records that are split here, simple ones first; ill-formed ones have the bucket's code."""
        regular, others = sort_records(records, self._layout)
        alone = _parsed_alone(records, others, self._layout)
        keys = np.zeros((self._key_words, records.starts.size), dtype=np.int64)
        split = regular.starts.shape[0]
        for coder, position in zip(self._coders, self._layout.positions, strict=False):
            rows = keys[coder.rows]
            fields = regular.column(position)
            if isinstance(coder, ColumnCoder):
                fields = fields.dictionary_encode()
                if self._learning and len(fields.dictionary) <= _LEARNED:
                    coder.learn_entries(_FIELD, fields.dictionary.to_pylist(), coder.table(fields.dictionary))
            rows[..., :split] += coder.scaled_codes(fields, None)
            if alone:
                values = bytes_of([fields[position] for fields in alone])
                rows[..., split : split + len(alone)] += coder.scaled_codes(values, None)
        return keys


def _parsed_alone(records: TakenRecords, chosen: NDArray[np.int64], layout: CsvLayout) -> list[list[bytes]]:
    """Return the fields of the records that have to be split one by one; ill-formed ones are left out."""
    raw_bytes = records.raw_bytes
    parsed = (
        split_line(raw_bytes[records.starts[number] : records.ends[number]].tobytes(), layout.separator)
        for number in chosen.tolist()
    )
    return [fields for fields in parsed if fields is not None and len(fields) == layout.fields]
