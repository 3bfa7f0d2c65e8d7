"""The records of a CSV range, or a sample of them, as group keys: a total parser that splits wanted records only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..mechanisms.refusal import ReleaseFailed
from ..mechanisms.sampling import Coins
from .arrow_arrays import octets_of
from .chunks import CsvChunk
from .column_codes import ColumnCoder
from .csv_blocks import RecordBlock, record_blocks
from .csv_fields import TakenRecords, sort_records, take_records
from .csv_header import LINE_LIMIT, CsvLayout
from .csv_line import split_line
from .csv_quotes import QuoteState
from .opening import open_input

__all__ = ["blocks_of_range", "csv_keys", "is_record", "keys_of_range"]

_WINDOW_BYTES = 8 << 20


def csv_keys(
    chunk: CsvChunk, *, coders: Sequence[ColumnCoder], words: int, key: bytes | None, rate: Decimal | None
) -> Iterator[NDArray[np.int64]]:
    """Give the keys of the range's sampled records, window by window; each of shape (words, n).

    Args:
        chunk: the range.
        coders: one per released column, in the order of `chunk.layout.positions`.
        words: 64-bit words of a key.
        key: the release's secret; None where every record is wanted.
        rate: sampling rate; None is every record.

    Raises:
        ReleaseFailed: the file cannot be read.
    """
    coins = _coins(chunk, key=key, rate=rate)
    try:
        yield from keys_of_range(
            chunk, coders=coders, words=words, coins=coins, record_limit=LINE_LIMIT, window=_WINDOW_BYTES
        )
    except (OSError, ImportError, ValueError, IndexError, pa.ArrowException) as error:
        raise ReleaseFailed(
            f"the records cannot be read ({type(error).__name__}).",
            where=f"{chunk.path}, bytes from {chunk.identity.block} · 64 MiB on",
            remedy="Repair the file, or abandon the release; its cost stays spent.",
        ) from None


def keys_of_range(
    chunk: CsvChunk,
    *,
    coders: Sequence[ColumnCoder],
    words: int,
    coins: Coins | None,
    record_limit: int,
    window: int,
) -> Iterator[NDArray[np.int64]]:
    """As `csv_keys`, for any limit and window; a release always takes the fixed ones. No coins: every record.

    Each array has shape (words, records).

    INVARIANT: every line that no quoted field holds is a record but the header, and but empty ones where the header
    has several fields. A record with another number of fields than the header, with quotes that do not close
    properly, or longer than `record_limit` is unseen in every column. A field that is not UTF-8, or not declared, is
    unseen.
    """
    with open_input(chunk.path) as file:
        for block in blocks_of_range(file, chunk, record_limit=record_limit, window=window):
            yield _block_keys(block, chunk.layout, coders=coders, words=words, coins=coins, limit=record_limit)


def blocks_of_range(file: BinaryIO, chunk: CsvChunk, *, record_limit: int, window: int) -> Iterator[RecordBlock]:
    """The records of a range, window by window.

    Args:
        file: the range's, opened for reading bytes.
        chunk: the range.
        record_limit: as for `record_blocks`.
        window: as for `record_blocks`.

    Raises:
        ValueError: the state of the quotes before the range isn't known.
    """
    layout = chunk.layout
    before = None if chunk.start == layout.first_record else chunk.before if layout.quoted else QuoteState.PLAIN
    if before is None and chunk.start != layout.first_record:
        raise ValueError("the quotes before this range have not been followed")
    return record_blocks(
        file,
        start=chunk.start,
        stop=chunk.stop,
        before=before,
        separator=layout.separator,
        quoted=layout.quoted,
        record_limit=record_limit,
        window=window,
    )


def is_record(block: RecordBlock, layout: CsvLayout) -> NDArray[np.bool_]:
    """Which of a block's records count, shape (n,): an empty line does where the header has one field alone.

    PRIVACY: the number of records must not follow from values. With several fields, a record of nothing but empty ones
    has separators; with one, it is an empty line.
    """
    if layout.fields == 1:
        return np.ones(block.starts.shape, dtype=np.bool_)
    return block.content_ends() > block.starts


def _coins(chunk: CsvChunk, *, key: bytes | None, rate: Decimal | None) -> Coins | None:
    if (key is None) != (rate is None):
        raise ValueError("a sample needs its key and its rate")
    if key is None or rate is None:
        return None
    return Coins(key=key, chunk=chunk.identity, rate=rate)


def _block_keys(
    block: RecordBlock,
    layout: CsvLayout,
    *,
    coders: Sequence[ColumnCoder],
    words: int,
    coins: Coins | None,
    limit: int,
) -> NDArray[np.int64]:
    records = np.flatnonzero(is_record(block, layout))
    sampled = records if coins is None else records[coins.kept(records.size)]
    keys = np.zeros((words, sampled.size), dtype=np.int64)  # the bucket's code is 0 in every column
    usable = sampled[block.ends[sampled] - block.starts[sampled] <= limit]
    taken = take_records(block, usable)
    regular, others = sort_records(taken, layout)
    alone = _parsed_alone(taken, others, layout)
    split = regular.starts.shape[0]
    for coder, position in zip(coders, layout.positions, strict=True):
        word = keys[coder.placement.word]
        fields = regular.column(position)
        word[:split] += coder.scaled_codes(fields, None)
        if alone:
            values = octets_of([fields[position] for fields in alone])
            word[split : split + len(alone)] += coder.scaled_codes(values, None)
    return keys


def _parsed_alone(records: TakenRecords, chosen: NDArray[np.int64], layout: CsvLayout) -> list[list[bytes]]:
    """Fields of the records that have to be split one by one; ill-formed ones are left out."""
    octets = records.octets
    parsed = (
        split_line(octets[records.starts[number] : records.ends[number]].tobytes(), layout.separator)
        for number in chosen.tolist()
    )
    return [fields for fields in parsed if fields is not None and len(fields) == layout.fields]
