"""The records of a CSV range, or a sample of them, as group keys: a total parser that looks at wanted lines only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..mechanisms.refusal import ReleaseFailed
from ..mechanisms.sampling import Coins
from .arrow_arrays import octets_of
from .chunks import CsvChunk
from .column_codes import ColumnCoder
from .csv_fields import TakenLines, sort_lines, take_lines
from .csv_header import LINE_LIMIT, CsvLayout
from .csv_line import split_line
from .csv_lines import LineBlock, line_blocks
from .opening import open_input

__all__ = ["csv_keys", "keys_of_range"]

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
            chunk, coders=coders, words=words, coins=coins, line_limit=LINE_LIMIT, window=_WINDOW_BYTES
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
    line_limit: int,
    window: int,
) -> Iterator[NDArray[np.int64]]:
    """As `csv_keys`, for any limit and window; a release always takes the fixed ones. No coins: every record.

    Each array has shape (words, records).

    INVARIANT: every line stands alone, and every line is a record but the header and empty ones. A line with
    another number of fields than the header, with quotes that do not close, or longer than `line_limit` is
    the record that is unseen in every column. A field that is not UTF-8, or not declared, is unseen.
    """
    at_line = chunk.start == chunk.layout.first_record
    with open_input(chunk.path) as file:
        for block in line_blocks(
            file, start=chunk.start, stop=chunk.stop, at_line=at_line, line_limit=line_limit, window=window
        ):
            yield _block_keys(block, chunk.layout, coders=coders, words=words, coins=coins, limit=line_limit)


def _coins(chunk: CsvChunk, *, key: bytes | None, rate: Decimal | None) -> Coins | None:
    if (key is None) != (rate is None):
        raise ValueError("a sample needs its key and its rate")
    if key is None or rate is None:
        return None
    return Coins(key=key, chunk=chunk.identity, rate=rate)


def _block_keys(
    block: LineBlock,
    layout: CsvLayout,
    *,
    coders: Sequence[ColumnCoder],
    words: int,
    coins: Coins | None,
    limit: int,
) -> NDArray[np.int64]:
    content_ends = block.content_ends()
    records = np.flatnonzero(content_ends > block.starts)
    sampled = records if coins is None else records[coins.kept(records.size)]
    keys = np.zeros((words, sampled.size), dtype=np.int64)  # the bucket's code is 0 in every column
    usable = sampled[block.ends[sampled] - block.starts[sampled] <= limit]
    lines = take_lines(block, usable)
    regular, irregular = sort_lines(lines, layout)
    alone = _parsed_alone(lines, irregular, layout)
    split = regular.starts.shape[0]
    for coder, position in zip(coders, layout.positions, strict=True):
        word = keys[coder.placement.word]
        fields = regular.column(position)
        word[:split] += coder.scaled_codes(fields, None)
        if alone:
            values = octets_of([fields[position] for fields in alone])
            word[split : split + len(alone)] += coder.scaled_codes(values, None)
    return keys


def _parsed_alone(lines: TakenLines, chosen: NDArray[np.int64], layout: CsvLayout) -> list[list[bytes]]:
    """Fields of the lines whose quotes have to be followed one by one; ill-formed lines are left out."""
    octets = lines.octets
    parsed = (
        split_line(octets[lines.starts[line] : lines.ends[line]].tobytes(), layout.separator)
        for line in chosen.tolist()
    )
    return [fields for fields in parsed if fields is not None and len(fields) == layout.fields]
