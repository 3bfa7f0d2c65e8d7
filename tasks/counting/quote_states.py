"""Whether a range of a large CSV file begins within quotes, found in parallel before any record is parsed."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..kernel.counting import naming_kinds_only
from ..readers.csv_header import CsvChunk
from ..readers.csv_quotes import UNCHANGED, QuoteState, QuoteTransition, transition_over
from ..readers.file_formats import records_read
from ..readers.source_files import SourceFile, open_input
from .executors import (
    Executor,
    LocalThreads,
    OnProgress,
    computed,
    computed_on_threads,
    frame_of_tasks,
    merged_frame,
    unchanged,
)

if TYPE_CHECKING:
    import pandas as pd


_BLOCK_BYTES = 1 << 20
_SPLIT_EVERY = 64

SomeChunk = TypeVar("SomeChunk")


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteRange:
    """Bytes of a file from one place where the state of the quotes is wanted to the next."""

    file: SourceFile
    start: int
    stop: int
    separator: bytes


def with_quote_states(
    chunks: Sequence[SomeChunk], *, executor: Executor, on_progress: OnProgress | None = None
) -> tuple[SomeChunk | CsvChunk, ...]:
    """Tell every range of a CSV file the state of the quotes before it; all other chunks stay as they are.

    A range may begin anywhere, so each is scanned for what it does to every state, all at once, and the states follow
    from one another. Only files of more than one range are scanned, and not their last one.

    PRIVACY: three possible states for each 64 MiB travel through Dask, where they are the steward's.

    Raises:
        ReleaseFailed: a file can't be read, or the workers were lost.
    """
    waiting = [
        place
        for place, chunk in enumerate(chunks)
        if isinstance(chunk, CsvChunk) and chunk.layout.quoted and chunk.start != chunk.layout.first_record
    ]
    if not waiting:
        return tuple(chunks)
    followed: list[SomeChunk | CsvChunk] = list(chunks)
    ranges = [_range_before(chunks, place) for place in waiting]
    transitions = _transitions(ranges, executor=executor, on_progress=on_progress)
    state = QuoteState.FRESH
    for place, scanned, transition in zip(waiting, ranges, transitions, strict=True):
        chunk = chunks[place]
        if not isinstance(chunk, CsvChunk):
            raise TypeError("a range of a CSV file is expected")
        if scanned.start == chunk.layout.first_record:
            state = QuoteState.FRESH
        state = transition.after(state)
        followed[place] = replace(chunk, before=state)
    return tuple(followed)


@naming_kinds_only
def range_transition(scanned: ByteRange) -> QuoteTransition:
    """Return what the bytes of a range do to each state of the quotes.

    Raises:
        ReleaseFailed: the file can't be read, or is not the one that was listed.
    """
    # Each range is scanned for all three states it could begin in, so that ranges don't wait for one another.
    transition, place = UNCHANGED, scanned.start
    with records_read(scanned.file.path), open_input(scanned.file) as file:
        file.seek(place)
        while block := file.read(min(_BLOCK_BYTES, scanned.stop - place)):
            place += len(block)
            transition = transition.then(transition_over(block, separator=scanned.separator))
    return transition


def _range_before(chunks: Sequence[object], place: int) -> ByteRange:
    """From one byte before the chunk before to one byte before this one."""
    chunk, earlier = chunks[place], chunks[place - 1]
    if not isinstance(chunk, CsvChunk) or not isinstance(earlier, CsvChunk) or earlier.stop != chunk.start:
        raise ValueError("the ranges of a file must stand side by side, from its first one on")
    first = earlier.start == chunk.layout.first_record
    return ByteRange(
        file=chunk.file,
        start=earlier.start - (not first),
        stop=chunk.start - 1,
        separator=chunk.layout.separator,
    )


def _transitions(
    ranges: Sequence[ByteRange], *, executor: Executor, on_progress: OnProgress | None
) -> list[QuoteTransition]:
    token = uuid.uuid4().hex  # a scheduler may still have what it found in a file that was another one then
    if isinstance(executor, LocalThreads):
        graph: dict[Any, Any] = {
            ("crowdblend-quotes", token, number): (partial(range_transition, scanned),)
            for number, scanned in enumerate(ranges)
        }
        found: list[QuoteTransition] = list(
            computed_on_threads(graph, list(graph), executor=executor, on_progress=on_progress)
        )
        return found
    rows = frame_of_tasks(_row, list(enumerate(ranges)), meta=_table([]), label=f"quotes-{token}")
    merged = merged_frame(rows, unchanged, split_every=_SPLIT_EVERY)
    table = computed(merged, executor=executor, on_progress=on_progress).sort_values("range")
    ends = table[["fresh", "plain", "quoted"]].to_numpy().tolist()
    return [QuoteTransition(ends=(QuoteState(a), QuoteState(b), QuoteState(c))) for a, b, c in ends]


def _row(numbered: tuple[int, ByteRange]) -> pd.DataFrame:
    number, scanned = numbered
    return _table([(number, *range_transition(scanned).ends)])


def _table(rows: Sequence[tuple[int, ...]]) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    values = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return pd.DataFrame(values, columns=["range", "fresh", "plain", "quoted"])
