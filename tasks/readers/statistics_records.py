"""Records of a file of SPSS, Stata or SAS as group keys: a block of records at a time, coins first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...mechanisms.hierarchies.declare import ValueHierarchy
from .column_codes import ColumnCoder, RecordCoder, arrow_of
from .source_files import SourceFile
from .statistics_files import (
    BLOCK_RECORDS,
    StatisticsHead,
    StoredLabels,
    code_text,
    labels_are_meant,
    number_of_records,
    read_block,
    statistics_head,
)

_MOST_DAYS = 1 << 31


class StatisticsFile:
    """One file, with what it says of itself.

    Args:
        file: as it was listed.

    Raises:
        OSError, ValueError, ImportError: it can't be read.
        ReleaseFailed: it is not the file that was listed.
    """

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self._head = statistics_head(file)
        self._records = number_of_records(file, self._head)

    def records_of(self, block: int) -> int:
        """How many records a block has, from 0 on."""
        return min(BLOCK_RECORDS, self._records - block * BLOCK_RECORDS)

    def keys(
        self,
        block: int,
        positions: NDArray[np.int64] | None,
        *,
        coders: Sequence[RecordCoder],
        key_words: int,
    ) -> NDArray[np.int64]:
        """Keys of the records at some positions of a block, None at all; shape (words, n).

        Memory is bounded by the records of a block.

        Raises:
            OSError, ValueError, ImportError, KeyError, pyarrow.ArrowException: they can't be read.
        """
        records = self.records_of(block)
        keys = np.zeros((key_words, records if positions is None else positions.size), dtype=np.int64)
        if not coders or not keys.shape[1]:
            return keys
        names = [coder.name for coder in coders]
        columns = read_block(self.file, columns=names, start=block * BLOCK_RECORDS, records=records)
        for coder in coders:
            keys[coder.rows] += coder.scaled_codes(_stored(columns.pop(coder.name), coder, self._head), positions)
        return keys


def _stored(values: list[Any], coder: RecordCoder, head: StatisticsHead) -> pa.Array:
    """A column as an Arrow array of the type that the head gives it, or of the texts of its value labels."""
    type_ = head.types[coder.name]
    labels = head.labels.get(coder.name, {})
    text = pa.types.is_large_string(type_)
    numbers = np.empty(0) if text else np.array(values, dtype=np.float64)  # None is NaN
    if isinstance(coder, ColumnCoder):
        hierarchy = coder.column.hierarchy
        if labels_are_meant(hierarchy, labels):
            return _labelled(
                values if text else [None if isnan(number) else number for number in numbers.tolist()],
                labels,
                coder.null_values,
            )
        if not isinstance(hierarchy, ValueHierarchy):
            for least, greatest in head.missing.get(coder.name, ()):
                numbers[(numbers >= least) & (numbers <= greatest)] = np.nan
    if text:
        return pa.array(values, type=type_)
    if pa.types.is_date(type_):
        numbers = np.floor(numbers / head.day_units) + head.epoch_days
        numbers[~(np.abs(numbers) < _MOST_DAYS)] = np.nan
        return _whole(numbers, pa.date32(), np.int32)
    if pa.types.is_integer(type_):
        return _whole(numbers, pa.int64(), np.int64)
    return arrow_of(numbers.astype(np.float32) if type_ == pa.float32() else numbers)


def _whole(numbers: NDArray[np.float64], type_: pa.DataType, kind: type[np.signedinteger[Any]]) -> pa.Array:
    """Whole numbers of a type, null where there is none."""
    known = ~np.isnan(numbers)
    stored = np.where(known, numbers, 0.0).astype(kind)
    present = pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(type_, stored.size, [present, pa.py_buffer(stored)])


def _labelled(values: Iterable[Any], labels: StoredLabels, kept: frozenset[bytes]) -> pa.Array:
    """The value label of each value, or its code where it bears none or its code means null; in a dictionary."""
    places: dict[Any, int] = {}
    indices = [places.setdefault(value, len(places)) for value in values]
    texts = [_text(value, labels, kept) for value in places]
    return pa.DictionaryArray.from_arrays(
        arrow_of(np.array(indices, dtype=np.int32)), pa.array(texts, type=pa.large_string())
    )


def _text(value: float | str | None, labels: StoredLabels, kept: frozenset[bytes]) -> str | None:
    if value is None:
        return None
    code = code_text(value)
    return code if code.encode() in kept else labels.get(value, code)
