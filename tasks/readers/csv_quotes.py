"""Quotes of separated text by RFC 4180: which line breaks end a record, block by block, and the fields of one line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

try:
    from . import csv_decoder
except ImportError:
    csv_decoder = None  # type: ignore[assignment]

_QUOTE = ord('"')
_LINE_FEED = 10
_ONE, _LAST = np.uint64(1), np.uint64(63)


class QuoteState(IntEnum):
    """Where a reader stands between two bytes.

    The states and their changes are those of Python's `csv` and of pandas: a quote opens a field only at its very
    beginning, two of them within a quoted field stand for one, and any other quote is an ordinary character.
    A line feed ends a record in the states FRESH and PLAIN.
    """

    FRESH = 0
    """A quote would open a quoted field, or go on with the one that the quote just read seemed to close."""

    PLAIN = 1
    """Within an unquoted field, or behind the closing quote of another: a quote is an ordinary character."""

    QUOTED = 2
    """Within a quoted field: separators and line breaks belong to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuoteTransition:
    """What some bytes do to each state; transitions of neighbouring pieces put together are that of the whole.

    Args:
        ends: the state after the bytes for each state before them, in the order of `QuoteState`.
    """

    ends: tuple[QuoteState, QuoteState, QuoteState]

    def after(self, state: QuoteState) -> QuoteState:
        """Return the state after the bytes."""
        return self.ends[state]

    def then(self, following: QuoteTransition) -> QuoteTransition:
        """Return the transition of these bytes and of those that follow them."""
        fresh, plain, quoted = (following.after(state) for state in self.ends)
        return QuoteTransition(ends=(fresh, plain, quoted))


UNCHANGED = QuoteTransition(ends=(QuoteState.FRESH, QuoteState.PLAIN, QuoteState.QUOTED))
"""The transition of no bytes."""


class Quotes:
    """The quotes of a block of bytes, for any state that the block may begin in.

    Where every quote that is met outside of quotes begins a field or doubles the one before it, a place lies within
    quotes if an odd number of quotes stands before it: that is counted for 64 bytes at a time. Where one does not, as
    in an improperly quoted file, the runs of quotes are followed (`_QuoteRuns`).
    """

    def __init__(self, raw_bytes: NDArray[np.uint8], *, separator: bytes) -> None:
        self._raw_bytes = raw_bytes
        self._separator = separator[0]

    @cached_property
    def _quotes(self) -> NDArray[np.uint64]:
        return _bits(self._raw_bytes == _QUOTE)

    @cached_property
    def _begins(self) -> NDArray[np.uint64]:
        return _bits((self._raw_bytes == self._separator) | (self._raw_bytes == _LINE_FEED))

    @cached_property
    def _parity(self) -> NDArray[np.uint64]:
        return _odd_until(self._quotes)

    def within(self, places: NDArray[np.int64], state: QuoteState) -> NDArray[np.bool_]:
        """Tell which places, ascending and none of them a quote, lie within quotes; shape (n,)."""
        inside = self._inside(state)
        if inside is None:
            return _QuoteRuns(self._raw_bytes, separator=self._separator).within(places, state)
        found: NDArray[np.bool_] = (inside[places >> 6] >> (places & 63).astype(np.uint64) & _ONE).astype(np.bool_)
        return found

    def record_ends(self, state: QuoteState) -> NDArray[np.int64]:
        """Return the offsets of the line feeds that end a record, ascending."""
        if csv_decoder is not None:
            quoted, fresh = state is QuoteState.QUOTED, state is QuoteState.FRESH
            proper, _, _, offsets = csv_decoder.follow_quotes(self._raw_bytes, self._separator, quoted, fresh, True)
            if proper:
                return np.frombuffer(offsets, dtype=np.int64)
        places = np.flatnonzero(self._raw_bytes == _LINE_FEED)
        return places[~self.within(places, state)]

    def transition(self) -> QuoteTransition:
        """Return what the block does to each state.

        A byte after the first quote that stands alone, and behind no field's beginning, all states have become one:
        it closes a field, or is an ordinary character. So where there is such a quote, one state's end is that of all.
        """
        if not self._raw_bytes.size:
            return UNCHANGED
        # A range may begin in any state. Where the states merge, one pass of the compiled decoder answers for all of
        # them.
        for quoted in (False, True) if csv_decoder is not None else ():
            proper, merges, inside, _ = csv_decoder.follow_quotes(
                self._raw_bytes, self._separator, quoted, not quoted, False
            )
            if not merges:
                break
            if proper:
                end = self._end(within_quotes=inside)
                return QuoteTransition(ends=(end, end, end))
        runs = _QuoteRuns(self._raw_bytes, separator=self._separator)
        fresh, plain, quoted_end = (runs.after(state) for state in QuoteState)
        return QuoteTransition(ends=(fresh, plain, quoted_end))

    def _inside(self, state: QuoteState) -> NDArray[np.uint64] | None:
        """Bits of the bytes behind which a reader is within quotes; None where a quote is an ordinary character."""
        if not self._raw_bytes.size:
            return self._parity
        # Within quotes a reader has met an odd number of quotes, or an even number if the block began within quotes.
        inside = ~self._parity if state is QuoteState.QUOTED else self._parity
        opening = self._quotes & inside
        may_open = _shifted(self._begins | self._quotes, first=state is QuoteState.FRESH)
        # A quote in the middle of an unquoted field is an ordinary character; then parity no longer tells what is
        # quoted.
        return None if np.any(opening & ~may_open) else inside

    def _end(self, *, within_quotes: bool) -> QuoteState:
        if within_quotes:
            return QuoteState.QUOTED
        begun = int(self._raw_bytes[-1]) in (_QUOTE, self._separator, _LINE_FEED)
        return QuoteState.FRESH if begun else QuoteState.PLAIN


def _bits(marks: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Return one bit for each mark, the first in the lowest; shape (⌈n / 64⌉,)."""
    packed = np.zeros(-(-marks.size // 64) * 8, dtype=np.uint8)
    packed[: -(-marks.size // 8)] = np.packbits(marks, bitorder="little")
    return packed.view("<u8").astype(np.uint64, copy=False)


def _odd_until(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Tell whether an odd number of bits is set up to each place, itself included."""
    odd = bits.copy()
    # A prefix sum modulo two within each word of 64 bits, in six steps instead of 64.
    for distance in (1, 2, 4, 8, 16, 32):
        odd ^= odd << np.uint64(distance)
    words = (odd >> _LAST).astype(np.uint8)  # whether each word has an odd number
    # The parity of all words before, which inverts every bit of a word or none.
    before = np.bitwise_xor.accumulate(words) ^ words
    odd ^= np.negative(before.astype(np.int64)).view(np.uint64)  # all bits of a word, or none
    return odd


def _shifted(bits: NDArray[np.uint64], *, first: bool) -> NDArray[np.uint64]:
    """At each place the bit of the place before it."""
    shifted = bits << _ONE
    shifted[1:] |= bits[:-1] >> _LAST
    if first:
        shifted[:1] |= _ONE
    return shifted


class _QuoteRuns:
    """The quotes of a block by their runs, however they stand.

    Quotes side by side are a run. An even run changes nothing that lies behind it. An odd one behind a separator, a
    line feed or a FRESH beginning toggles between outside and within quotes; any other odd one is outside
    afterwards: it closes, or its quotes are ordinary.
    """

    __slots__ = ("_entry_run", "_opens", "_raw_bytes", "_run_opens", "_run_start", "_separator", "_starts")

    def __init__(self, raw_bytes: NDArray[np.uint8], *, separator: int) -> None:
        self._raw_bytes = raw_bytes
        self._separator = separator
        quotes = np.flatnonzero(raw_bytes == _QUOTE)
        places = np.flatnonzero(np.diff(quotes, prepend=-2) != 1)
        odd = np.diff(places, append=quotes.size) % 2 == 1
        starts = quotes[places]
        opens = self._begins_field(starts)
        self._starts = starts[odd]
        self._opens = opens[odd]
        self._entry_run = bool(self._starts.size) and self._starts[0] == 0
        self._run_start = int(starts[-1]) if starts.size else -1
        self._run_opens = bool(opens[-1]) if starts.size else False

    def within(self, places: NDArray[np.int64], state: QuoteState) -> NDArray[np.bool_]:
        """Tell which places, ascending and none of them a quote, lie within quotes; shape (n,)."""
        inside = np.append(self._inside(state), state is QuoteState.QUOTED)  # the last is before all runs
        found: NDArray[np.bool_] = inside[np.searchsorted(self._starts, places) - 1]
        return found

    def after(self, state: QuoteState) -> QuoteState:
        """Return the state behind the block."""
        inside = self._inside(state)
        if inside[-1] if inside.size else state is QuoteState.QUOTED:
            return QuoteState.QUOTED
        last = int(self._raw_bytes[-1])
        if last != _QUOTE:
            return QuoteState.FRESH if last in (self._separator, _LINE_FEED) else QuoteState.PLAIN
        opens = state is QuoteState.FRESH if self._run_start == 0 else self._run_opens
        before = np.searchsorted(self._starts, self._run_start) - 1
        quoted = inside[before] if before >= 0 else state is QuoteState.QUOTED
        return QuoteState.FRESH if opens or quoted else QuoteState.PLAIN

    def _begins_field(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        before = self._raw_bytes[np.maximum(places - 1, 0)] if places.size else np.empty(0, dtype=np.uint8)
        found: NDArray[np.bool_] = (places > 0) & ((before == self._separator) | (before == _LINE_FEED))
        return found

    def _inside(self, state: QuoteState) -> NDArray[np.bool_]:
        """Tell whether what lies behind each odd run is within quotes; shape (runs,)."""
        opens = self._opens
        if self._entry_run:
            opens = opens.copy()
            opens[0] = state is QuoteState.FRESH
        # Within quotes means an odd number of toggles since the last run that ended outside.
        toggles = np.cumsum(opens)
        since = np.maximum.accumulate(np.where(opens, -1, toggles))
        carried = (since < 0) & (state is QuoteState.QUOTED)
        inside: NDArray[np.bool_] = (toggles - np.maximum(since, 0) + carried) % 2 == 1
        return inside


def transition_over(block: bytes, *, separator: bytes) -> QuoteTransition:
    """Return what a block does to each state; a block without a quote costs one search for one."""
    if not block:
        return UNCHANGED
    if b'"' not in block:
        end = QuoteState.FRESH if block[-1:] in (separator, b"\n") else QuoteState.PLAIN
        return QuoteTransition(ends=(end, end, QuoteState.QUOTED))
    return Quotes(np.frombuffer(block, dtype=np.uint8), separator=separator).transition()


def split_line(line: bytes, separator: bytes) -> list[bytes] | None:
    """Return the fields of one line without its line break; None where a quoted field is not closed properly.

    A field that begins with `"` runs to the next single `"`, which the separator or the end must follow; `""`
    inside stands for one. A `"` elsewhere is an ordinary character. An empty line has one empty field.

    Args:
        separator: one byte, not a quote.
    """
    if b'"' not in line:
        return line.split(separator)
    fields: list[bytes] = []
    start = 0
    while True:
        if line.startswith(b'"', start):
            end = _closing_quote(line, start + 1)
            if end < 0:
                return None
            fields.append(line[start + 1 : end].replace(b'""', b'"'))
            end += 1
            if end < len(line) and not line.startswith(separator, end):
                return None
        else:
            end = line.find(separator, start)
            end = len(line) if end < 0 else end
            fields.append(line[start:end])
        if end == len(line):
            return fields
        start = end + 1


def _closing_quote(line: bytes, start: int) -> int:
    """Place of the first quote from `start` on that is not doubled, or -1."""
    while True:
        place = line.find(b'"', start)
        if place < 0 or not line.startswith(b'"', place + 1):
            return place
        start = place + 2
