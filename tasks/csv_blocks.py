"""The records of a CSV file that begin within a range of bytes, read in windows of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from .csv_quotes import Quotes, QuoteState, transition_over

__all__ = ["RecordBlock", "record_blocks"]

_LINE_FEED = 10
_CARRIAGE_RETURN = 13
_SMALL_READ = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordBlock:
    """Consecutive whole records; each begins where the one before ends.

    Args:
        octets: bytes that hold the records, the first record at offset 0; uint8.
        starts: offset of each record's first byte.
        ends: offset of the line feed that ends it, or of the end of the file; where it is longer than a record may
            be, an offset beyond the limit will do.
    """

    octets: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def content_ends(self) -> NDArray[np.int64]:
        """Where each record ends without its line break: LF with an optional CR before it."""
        last = self.octets[np.maximum(self.ends - 1, 0)]
        returned = (self.ends > self.starts) & (last == _CARRIAGE_RETURN)
        ends: NDArray[np.int64] = self.ends - returned
        return ends


def record_blocks(
    file: BinaryIO,
    *,
    start: int,
    stop: int,
    before: QuoteState | None,
    separator: bytes,
    quoted: bool,
    record_limit: int,
    window: int,
) -> Iterator[RecordBlock]:
    """Give the records whose first byte lies in start ≤ offset < stop, in order.

    A record that is still open after `record_limit` bytes is given cut off, longer than the limit, and the rest
    of it is passed over: so memory is bounded by window and limit. Windows do not change the records.

    Args:
        file: opened for reading bytes.
        start: first byte of the range.
        stop: first byte after it.
        before: the state one byte before `start`, which decides together with that byte whether a record begins
            there; None where one does for certain.
        separator: one byte.
        quoted: whether quotes are followed across line breaks; otherwise every line is a record.
        record_limit: length that a record may have.
        window: bytes to read at a time.
    """
    position = start if before is None else start - 1
    skipping = before is not None
    state = QuoteState.FRESH if before is None else before
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
        octets = np.frombuffer(block, dtype=np.uint8)
        ends = _record_ends(block, octets, state=QuoteState.FRESH, separator=separator, quoted=quoted)
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends + 1))
        whole = min(ends.size, int(np.searchsorted(starts, stop - first)))
        if whole:
            yield RecordBlock(octets=octets, starts=starts[:whole], ends=ends[:whole])
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
    block: bytes, octets: NDArray[np.uint8], *, state: QuoteState, separator: bytes, quoted: bool
) -> NDArray[np.int64]:
    """Offsets of the line feeds that end a record, for a block that begins in a state."""
    if quoted and (state is QuoteState.QUOTED or b'"' in block):
        return Quotes(octets, separator=separator).record_ends(state)
    return np.flatnonzero(octets == _LINE_FEED)


def _first_end(block: bytes, *, state: QuoteState, separator: bytes, quoted: bool) -> int:
    """Offset of the first line feed that ends a record, or -1."""
    if not quoted or (state is not QuoteState.QUOTED and b'"' not in block):
        return block.find(b"\n")
    ends = _record_ends(block, np.frombuffer(block, dtype=np.uint8), state=state, separator=separator, quoted=quoted)
    return int(ends[0]) if ends.size else -1


def _single(record: bytes) -> RecordBlock:
    return RecordBlock(
        octets=np.frombuffer(record, dtype=np.uint8),
        starts=np.zeros(1, dtype=np.int64),
        ends=np.full(1, len(record), dtype=np.int64),
    )
