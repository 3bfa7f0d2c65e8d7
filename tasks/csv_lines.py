"""The lines of a CSV file that begin within a range of bytes, read in windows of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["LineBlock", "line_blocks"]

_LINE_FEED = 10
_CARRIAGE_RETURN = 13
_SMALL_READ = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class LineBlock:
    """Consecutive whole lines; each begins where the one before ends.

    Args:
        octets: bytes that hold the lines, the first line at offset 0; uint8.
        starts: offset of each line's first byte.
        ends: offset of its line feed, or of the end of the file; where a line is too long to be a record,
            an offset beyond the limit will do.
    """

    octets: NDArray[np.uint8]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def content_ends(self) -> NDArray[np.int64]:
        """Where each line ends without its line break: LF with an optional CR before it."""
        last = self.octets[np.maximum(self.ends - 1, 0)]
        returned = (self.ends > self.starts) & (last == _CARRIAGE_RETURN)
        ends: NDArray[np.int64] = self.ends - returned
        return ends


def line_blocks(
    file: BinaryIO, *, start: int, stop: int, at_line: bool, line_limit: int, window: int
) -> Iterator[LineBlock]:
    """Give the lines whose first byte lies in start ≤ offset < stop, in order.

    A line that is still open after `line_limit` bytes is given cut off, longer than the limit, and the rest
    of it is passed over: so memory is bounded by window and limit. Windows do not change the lines.

    Args:
        file: opened for reading bytes.
        start: first byte of the range.
        stop: first byte after it.
        at_line: whether a line begins at `start` for certain; otherwise the byte before decides.
        line_limit: length that a record's line may have.
        window: bytes to read at a time.
    """
    position = start if at_line else start - 1
    skipping = not at_line
    open_line = b""
    file.seek(position)
    while block := file.read(min(window, max(stop - position, _SMALL_READ))):
        position += len(block)
        if skipping:
            end = block.find(b"\n")
            if end < 0:
                if position >= stop:
                    return
                continue
            skipping, block = False, block[end + 1 :]
        block = open_line + block
        first = position - len(block)
        octets = np.frombuffer(block, dtype=np.uint8)
        ends = np.flatnonzero(octets == _LINE_FEED)
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends + 1))
        whole = min(ends.size, int(np.searchsorted(starts, stop - first)))
        if whole:
            yield LineBlock(octets=octets, starts=starts[:whole], ends=ends[:whole])
        if first + int(starts[-1]) >= stop:
            return
        open_line = block[int(starts[-1]) :]
        if len(open_line) > line_limit:
            yield _single(open_line)
            skipping, open_line = True, b""
    if open_line:
        yield _single(open_line)


def _single(line: bytes) -> LineBlock:
    return LineBlock(
        octets=np.frombuffer(line, dtype=np.uint8),
        starts=np.zeros(1, dtype=np.int64),
        ends=np.full(1, len(line), dtype=np.int64),
    )
