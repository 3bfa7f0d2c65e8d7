"""Splitting many lines at once: the offsets of every field, where quotes need not be followed one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .arrow_arrays import arrow_of
from .csv_header import CsvLayout
from .csv_lines import LineBlock

__all__ = ["RegularLines", "TakenLines", "sort_lines", "take_lines"]

_QUOTE = ord('"')


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenLines:
    """Lines copied out of a block, one after the other.

    Args:
        octets: their bytes, line breaks included; uint8.
        starts: offset of each line; shape (n,).
        ends: where its content ends, before the line break; shape (n,).
    """

    octets: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class RegularLines:
    """Lines that split at every separator into as many fields as the header has.

    Args:
        octets: bytes that hold the fields; uint8.
        starts: offset of each field, without an opening quote; shape (lines, fields).
        ends: end of each field, without a closing quote; shape (lines, fields).
    """

    octets: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def column(self, position: int) -> pa.LargeBinaryArray:
        """The bytes of one field of every line."""
        count = self.starts.shape[0]
        bounds = np.empty(2 * count + 1, dtype=np.int64)
        bounds[0:-1:2] = self.starts[:, position]
        bounds[1::2] = self.ends[:, position]
        bounds[-1] = bounds[-2] if count else 0
        # Entries alternate: the field, then what lies between it and the next line's.
        everything = pa.Array.from_buffers(
            pa.large_binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(self.octets)]
        )
        return everything.take(arrow_of(np.arange(0, 2 * count, 2, dtype=np.int64)))


def take_lines(block: LineBlock, chosen: NDArray[np.int64]) -> TakenLines:
    """Copy the chosen lines of a block, given by ascending numbers of shape (chosen,)."""
    bounds = np.append(block.starts, min(int(block.ends[-1]) + 1, block.octets.size))
    lines = pa.Array.from_buffers(
        pa.large_binary(), block.starts.size, [None, pa.py_buffer(bounds), pa.py_buffer(block.octets)]
    ).take(arrow_of(chosen))
    _, offsets, octets = lines.buffers()
    starts = np.frombuffer(offsets, dtype=np.int64)[lines.offset : lines.offset + chosen.size + 1]
    lengths = block.content_ends()[chosen] - block.starts[chosen]
    taken = np.frombuffer(octets, dtype=np.uint8)[: starts[-1]] if chosen.size else np.empty(0, dtype=np.uint8)
    return TakenLines(octets=taken, starts=starts[:-1], ends=starts[:-1] + lengths)


def sort_lines(lines: TakenLines, layout: CsvLayout) -> tuple[RegularLines, NDArray[np.int64]]:
    """Part the lines into those that split at every separator, and those whose quotes must be followed.

    A line without a quote that has another number of fields than the header is in neither part. A line with
    quotes is regular if it has the right number of separators and every field that begins with a quote has
    one other, at its end: then no separator can stand inside quotes.

    Returns:
        The regular lines, and the numbers of the others that have quotes, of shape (others,).
    """
    bounds = np.append(lines.starts, lines.octets.size)
    marks = np.flatnonzero(lines.octets == layout.separator[0])
    marks_of_line = np.diff(np.searchsorted(marks, bounds))
    regular = marks_of_line == layout.fields - 1
    quotes = np.flatnonzero(lines.octets == _QUOTE)
    quoted = np.diff(np.searchsorted(quotes, bounds)) > 0
    kept = marks if regular.all() else marks[np.repeat(regular, marks_of_line)]
    between = kept.reshape(int(np.count_nonzero(regular)), layout.fields - 1)
    starts = np.column_stack((lines.starts[regular], between + 1))
    ends = np.column_stack((between, lines.ends[regular]))
    if quotes.size:
        opened = (ends > starts) & (lines.octets[np.minimum(starts, lines.octets.size - 1)] == _QUOTE)
        closed = (ends - starts >= 2) & (lines.octets[ends - 1] == _QUOTE)
        in_field = np.searchsorted(quotes, ends) - np.searchsorted(quotes, starts)
        simple = np.all(~opened | (closed & (in_field == 2)), axis=1)
        starts, ends = (starts + opened)[simple], (ends - opened)[simple]
        regular[np.flatnonzero(regular)[~simple]] = False
    return RegularLines(octets=lines.octets, starts=starts, ends=ends), np.flatnonzero(quoted & ~regular)
