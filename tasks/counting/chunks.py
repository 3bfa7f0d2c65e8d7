"""How the input is cut: chunks whose identities decide the coins, groups of chunks that share a task, quotes at cuts.

Whether a range of a large CSV file begins within quotes is found in parallel before any record is parsed."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.sampling import ChunkIdentity
from ..inputs.csv_header import CsvLayout
from ..inputs.files import SourceFile, open_input, unpacked_name
from ..inputs.list import SourceLayout
from ..inputs.parquet_footer import ParquetLayout
from ..kernel.counting import naming_kinds_only
from ..readers.csv_quotes import UNCHANGED, QuoteState, QuoteTransition, transition_over
from .executors import Executor, LocalThreads, OnProgress, computed, computed_on_threads

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pandas as pd

__all__ = [
    "RANGE_BYTES",
    "UNKNOWN_END",
    "ByteRange",
    "Chunk",
    "CsvChunk",
    "ParquetChunk",
    "csv_ranges",
    "group_chunks",
    "plan_chunks",
    "range_transition",
    "shared_chunks",
    "with_quote_states",
]

_BLOCK_BYTES = 1 << 20
_SPLIT_EVERY = 64

SomeChunk = TypeVar("SomeChunk")


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteRange:
    """Bytes of a file from one place where the state of the quotes is wanted to the next.

    Args:
        file: as it was listed.
        start: first byte.
        stop: first byte after it.
        separator: one byte.
    """

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

    Args:
        chunks: as `plan_chunks`.
        executor: where the scanning is done.
        on_progress: called with the progress; for the steward's terminal alone.

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
    """What the bytes of a range do to each state of the quotes.

    Raises:
        ReleaseFailed: the file can't be read, or is not the one that was listed.
    """
    transition, place = UNCHANGED, scanned.start
    try:
        with open_input(scanned.file) as file:
            file.seek(place)
            while block := file.read(min(_BLOCK_BYTES, scanned.stop - place)):
                place += len(block)
                transition = transition.then(transition_over(block, separator=scanned.separator))
    except (OSError, ImportError, ValueError) as error:
        raise ReleaseFailed(
            f"the records cannot be read ({type(error).__name__}).",
            where=scanned.file.path,
            remedy="Repair the file, or abandon the release; its cost stays spent.",
        ) from None
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
    table = computed(_frame(ranges, token), executor=executor, on_progress=on_progress).sort_values("range")
    ends = table[["fresh", "plain", "quoted"]].to_numpy().tolist()
    return [QuoteTransition(ends=(QuoteState(a), QuoteState(b), QuoteState(c))) for a, b, c in ends]


def _frame(ranges: Sequence[ByteRange], token: str) -> dd.DataFrame:
    """A lazy Dask dataframe of one row for each range: its number, and the state after it for each before it."""
    import dask
    import dask.dataframe as dd

    meta = _table([])
    with dask.config.set({"dataframe.convert-string": False}):
        rows = dd.from_map(_row, list(enumerate(ranges)), meta=meta, label=f"quotes-{token}", enforce_metadata=False)
        return rows.reduction(
            chunk=_unchanged, combine=_unchanged, aggregate=_unchanged, meta=meta, split_every=_SPLIT_EVERY
        )


def _row(numbered: tuple[int, ByteRange]) -> pd.DataFrame:
    number, scanned = numbered
    return _table([(number, *range_transition(scanned).ends)])


def _table(rows: Sequence[tuple[int, ...]]) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    values = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return pd.DataFrame(values, columns=["range", "fresh", "plain", "quoted"])


def _unchanged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


RANGE_BYTES = 64 << 20
UNKNOWN_END = 1 << 62
"""Where the one range of a compressed file stops, beyond any end."""

_TASK_RECORDS = 1 << 20
_TASK_BYTES = 64 << 20
_LARGEST_TASK = 4
_TASKS_EACH = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetChunk:
    """One row group of a Parquet file.

    Args:
        file: as it was listed.
        identity: the file's number and the row group's.
        records: number of records, by the footer.
        read_bytes: bytes to be decoded.
    """

    file: SourceFile
    identity: ChunkIdentity
    records: int
    read_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvChunk:
    """The records of a CSV file whose first bytes lie in start ≤ offset < stop.

    Args:
        file: as it was listed.
        identity: the file's number and the number of the fixed range of RANGE_BYTES.
        start: first byte of the range, or of the first record if that is later.
        stop: first byte after the range, at most the file's size; of a compressed file beyond any end.
        layout: the file's header.
        before: the state of the quotes one byte before `start`; None where it isn't known yet, or nothing comes before.
    """

    file: SourceFile
    identity: ChunkIdentity
    start: int
    stop: int
    layout: CsvLayout
    before: QuoteState | None = None

    @property
    def records(self) -> None:
        """How many records there are isn't known before they are read."""
        return


Chunk = ParquetChunk | CsvChunk


def plan_chunks(layout: SourceLayout) -> tuple[Chunk, ...]:
    """Cut the input into chunks: row groups of Parquet files, ranges of RANGE_BYTES of CSV files (of packed ones all).

    INVARIANT: the cut depends on the files alone, never on the machine, the workers, or a setting, since a
    chunk's identity decides its coins.

    Args:
        layout: the checked source.
    """
    chunks: list[Chunk] = []
    parts: Sequence[CsvLayout | ParquetLayout] = layout.layouts
    for number, (file, part) in enumerate(zip(layout.source.files, parts, strict=True)):
        match part:
            case ParquetLayout():
                chunks.extend(_row_groups(file, number, part))
            case CsvLayout():
                chunks.extend(csv_ranges(file, number, part, range_bytes=RANGE_BYTES))
    return tuple(chunks)


def csv_ranges(file: SourceFile, number: int, layout: CsvLayout, *, range_bytes: int) -> list[CsvChunk]:
    """The ranges of one CSV file; a release always takes RANGE_BYTES, tests take a few bytes.

    A compressed file is one range, since it can be read from its beginning alone, and its end isn't known.
    """
    chunks: list[CsvChunk] = []
    first, size = layout.first_record, file.size
    if unpacked_name(file.path)[1] is not None:
        first, size, range_bytes = 0, UNKNOWN_END, UNKNOWN_END
    for block in range(first // range_bytes, -(-size // range_bytes)):
        start = max(block * range_bytes, layout.first_record)
        stop = min((block + 1) * range_bytes, size)
        if start < stop:
            identity = ChunkIdentity(file=number, block=block)
            chunks.append(CsvChunk(file=file, identity=identity, start=start, stop=stop, layout=layout))
    return chunks


def group_chunks(
    chunks: Sequence[Chunk], *, task_records: int = _TASK_RECORDS, task_bytes: int = _TASK_BYTES
) -> list[tuple[Chunk, ...]]:
    """Put neighbouring chunks together until a task has about a million records, or 64 MiB to decode.

    How they are grouped changes no coin. A chunk that is larger stays alone.

    Args:
        chunks: in the order of `plan_chunks`.
        task_records: records that are enough for a task.
        task_bytes: bytes that are enough for a task.
    """
    groups: list[list[Chunk]] = []
    records, size = task_records, task_bytes
    for chunk in chunks:
        match chunk:
            case ParquetChunk():
                more_records, more_bytes = chunk.records, chunk.read_bytes
            case CsvChunk():
                more_records, more_bytes = 0, chunk.stop - chunk.start
        if records + more_records > task_records or size + more_bytes > task_bytes:
            groups.append([])
            records, size = 0, 0
        groups[-1].append(chunk)
        records += more_records
        size += more_bytes
    return [tuple(group) for group in groups]


def shared_chunks(chunks: Sequence[Chunk], *, workers: int) -> list[tuple[Chunk, ...]]:
    """As `group_chunks`, for worker processes, which send what they counted: up to four times as much in a task.

    Every worker still gets at least four tasks, where there are so many.

    Args:
        chunks: in the order of `plan_chunks`.
        workers: how many tasks run at once.
    """
    groups = group_chunks(chunks)
    larger = max(1, min(_LARGEST_TASK, len(groups) // (_TASKS_EACH * workers)))
    return group_chunks(chunks, task_records=larger * _TASK_RECORDS, task_bytes=larger * _TASK_BYTES)


def _row_groups(file: SourceFile, number: int, layout: ParquetLayout) -> list[ParquetChunk]:
    return [
        ParquetChunk(
            file=file,
            identity=ChunkIdentity(file=number, block=block),
            records=records,
            read_bytes=size,
        )
        for block, (records, size) in enumerate(zip(layout.rows, layout.read_bytes, strict=True))
        if records
    ]
