"""Splitting many records at once: the offsets of every field, where nothing in it has to be rewritten."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .arrow_arrays import arrow_of
from .csv_blocks import RecordBlock
from .csv_header import CsvLayout
from .csv_quotes import Quotes, QuoteState

__all__ = ["RegularRecords", "TakenRecords", "sort_records", "take_records"]

_QUOTE = ord('"')


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenRecords:
    """Records copied out of a block, one after the other.

    Args:
        octets: their bytes, line breaks included; uint8.
        starts: offset of each record; shape (n,).
        ends: where its content ends, before the line break; shape (n,).
    """

    octets: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegularRecords:
    """Records of as many fields as the header has, none with a quote that its reader would rewrite.

    Args:
        octets: bytes that hold the fields; uint8.
        starts: offset of each field, without an opening quote; shape (records, fields).
        ends: end of each field, without a closing quote; shape (records, fields).
    """

    octets: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def column(self, position: int) -> pa.LargeBinaryArray:
        """The bytes of one field of every record."""
        count = self.starts.shape[0]
        bounds = np.empty(2 * count + 1, dtype=np.int64)
        bounds[0:-1:2] = self.starts[:, position]
        bounds[1::2] = self.ends[:, position]
        bounds[-1] = bounds[-2] if count else 0
        # Entries alternate: the field, then what lies between it and the next record's.
        everything = pa.Array.from_buffers(
            pa.large_binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(self.octets)]
        )
        return everything.take(arrow_of(np.arange(0, 2 * count, 2, dtype=np.int64)))


def take_records(block: RecordBlock, chosen: NDArray[np.int64]) -> TakenRecords:
    """Copy the chosen records of a block, given by ascending numbers of shape (chosen,)."""
    bounds = np.append(block.starts, min(int(block.ends[-1]) + 1, block.octets.size))
    lines = pa.Array.from_buffers(
        pa.large_binary(), block.starts.size, [None, pa.py_buffer(bounds), pa.py_buffer(block.octets)]
    ).take(arrow_of(chosen))
    _, offsets, octets = lines.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[lines.offset : lines.offset + chosen.size + 1]
    lengths = block.content_ends()[chosen] - block.starts[chosen]
    taken = np.frombuffer(octets, dtype=np.uint8)[: starts[-1]] if chosen.size else np.empty(0, dtype=np.uint8)
    return TakenRecords(octets=taken, starts=starts[:-1], ends=starts[:-1] + lengths)


def sort_records(records: TakenRecords, layout: CsvLayout) -> tuple[RegularRecords, NDArray[np.int64]]:
    """Part the records into those whose fields are as they are stored, and those that are to be split one by one.

    A record with another number of fields than the header is in neither part. A record is regular if every field that
    begins with a quote has one other, at its end. Separators within quotes are none.

    Returns:
        The regular records, and the numbers of the others that have as many fields as the header, shape (others,).
    """
    octets = records.octets
    bounds = np.append(records.starts, octets.size)
    marks = np.flatnonzero(octets == layout.separator[0])
    quotes = np.flatnonzero(octets == _QUOTE) if layout.quoted else np.empty(0, dtype=np.int64)
    if quotes.size:
        # Each record begins behind the line feed that ended another.
        within = Quotes(octets, separator=layout.separator).within(marks, QuoteState.FRESH)
        marks = marks[~within]
    marks_of_record = np.diff(np.searchsorted(marks, bounds))
    regular = marks_of_record == layout.fields - 1
    kept = marks if regular.all() else marks[np.repeat(regular, marks_of_record)]
    between = kept.reshape(int(np.count_nonzero(regular)), layout.fields - 1)
    starts = np.column_stack((records.starts[regular], between + 1))
    ends = np.column_stack((between, records.ends[regular]))
    others = np.empty(0, dtype=np.int64)
    if quotes.size:
        opened = (ends > starts) & (octets[np.minimum(starts, octets.size - 1)] == _QUOTE)
        closed = (ends - starts >= 2) & (octets[ends - 1] == _QUOTE)
        in_field = np.searchsorted(quotes, ends) - np.searchsorted(quotes, starts)
        simple = np.all(~opened | (closed & (in_field == 2)), axis=1)
        starts, ends = (starts + opened)[simple], (ends - opened)[simple]
        others = np.flatnonzero(regular)[~simple]
    return RegularRecords(octets=octets, starts=starts, ends=ends), others
