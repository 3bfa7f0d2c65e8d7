"""The keyed hash of each record's id of a person or household; no id is kept, reported or published."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...mechanisms.hierarchies.declare import INT64_MAX, INT64_MIN, canonical_integer
from ...mechanisms.kernel.contributions import PERSON_WORDS, ContributionKeys
from .column_codes import arrow_of, bytes_of, filled, numbers_of
from .values import RecordReading

_WHOLE_FLOAT = {".": r"^(-?(?:0|[1-9][0-9]*))\.0*$", ",": r"^(-?(?:0|[1-9][0-9]*)),0*$"}
_SPACE = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "


class PersonCoder:
    """Adds the keyed hash of an id to the first words of its record's key; 0 where there is none.

    INVARIANT: total, and each record affects itself alone. Ids are equal as texts, or as whole numbers of any width; a
    null value, a text that means null, and that of a record that can't be split are none.

    Args:
        name: the column.
        keys: the release's keyed functions.
        reading: how the records are read.
    """

    def __init__(self, *, name: str, keys: ContributionKeys, reading: RecordReading) -> None:
        self.name = name
        self.rows: int | slice = slice(0, PERSON_WORDS)
        self._keys = keys
        self._reading = reading
        self._null = bytes_of([text.encode(reading.encoding, "replace") for text in reading.null_values])
        numbers = (canonical_integer(text.encode()) for text in reading.null_values)
        inside = [number for number in numbers if number is not None and INT64_MIN <= number <= INT64_MAX]
        self._null_integers = np.array(inside, dtype=np.int64)
        self._dictionary: pa.Array | None = None
        self._table: NDArray[np.int64] = np.empty((PERSON_WORDS, 0), dtype=np.int64)

    def scaled_codes(self, values: pa.Array, positions: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """The hashes of the ids at some positions, in their order; None is every position; shape (2, n)."""
        if positions is not None:
            values = values.take(arrow_of(positions))
        if not pa.types.is_dictionary(values.type):
            return self._hashes(values)
        if self._dictionary is None or not values.dictionary.equals(self._dictionary):
            none = np.zeros((PERSON_WORDS, 1), dtype=np.int64)
            self._table = np.concatenate((self._hashes(values.dictionary), none), axis=1)
            self._dictionary = values.dictionary
        places = numbers_of(filled(values.indices.cast(pa.int64()), self._table.shape[1] - 1))
        return self._table[:, places]

    def _hashes(self, values: pa.Array) -> NDArray[np.int64]:
        hashes, none = self._of_integers(values) if pa.types.is_integer(values.type) else self._of_texts(values)
        found = np.ascontiguousarray(hashes).view(np.int64)
        if none is not None:
            found[:, none] = 0
        return found

    def _of_integers(self, values: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.bool_] | None]:
        unsigned = values.type == pa.uint64()
        numbers = numbers_of(filled(values if unsigned else values.cast(pa.int64()), 0))
        none = _mask(values.is_null()) if values.null_count else None
        if self._null_integers.size:
            null = self._null_integers
            declared = np.isin(numbers, null[null >= 0].astype(np.uint64) if unsigned else null)
            none = declared if none is None else none | declared
        return self._keys.of_numbers(numbers), none

    def _of_texts(self, values: pa.Array) -> tuple[NDArray[np.uint64], NDArray[np.bool_] | None]:
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        texts = values.cast(pa.large_binary())
        if self._reading.trim:
            texts = pc.ascii_trim(texts.view(pa.large_string()), characters=_SPACE).view(pa.large_binary())
        if self._reading.whole_floats:
            texts = pc.replace_substring_regex(texts, pattern=_WHOLE_FLOAT[self._reading.decimal], replacement=r"\1")
        none = filled(pc.is_in(texts, value_set=self._null), 1)
        if texts.null_count:
            none = pc.or_(none, texts.is_null())
        offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64, offset=texts.offset * 8, count=len(texts) + 1)
        stored = texts.buffers()[2]
        raw_bytes = np.empty(0, dtype=np.uint8) if stored is None else np.frombuffer(stored, dtype=np.uint8)
        raw_bytes = raw_bytes[offsets[0] : offsets[-1]]
        own = offsets - offsets[0]
        return self._keys.of_texts(raw_bytes, own[:-1], own[1:]), _mask(none)


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    return numbers_of(values.cast(pa.uint8())).astype(np.bool_)
