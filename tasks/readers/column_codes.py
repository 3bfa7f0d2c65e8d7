"""From a column of records to its share of the group keys, by one table per dictionary of distinct values.

Arrow arrays of numbers and texts; pyarrow's own conversions import pandas, which takes a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...mechanisms.generalization_map import MappedColumn
from ...mechanisms.hierarchies.decimals import DecimalIntervals, NumberSteps, WeightClasses
from ...mechanisms.hierarchies.declare import INT64_MAX, INT64_MIN, canonical_integer, number_of_text
from ...mechanisms.kernel.contributions import PERSON_WORDS, ContributionKeys
from ...mechanisms.kernel.recoding import BUCKET_CODE, Placement
from .values import RecordReading

_ARROW: Mapping[np.dtype[Any], pa.DataType] = {
    np.dtype(np.int8): pa.int8(),
    np.dtype(np.int16): pa.int16(),
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.uint8): pa.uint8(),
    np.dtype(np.uint16): pa.uint16(),
    np.dtype(np.uint32): pa.uint32(),
    np.dtype(np.uint64): pa.uint64(),
    np.dtype(np.float32): pa.float32(),
    np.dtype(np.float64): pa.float64(),
}
_NUMPY: Mapping[pa.DataType, np.dtype[Any]] = {type_: kind for kind, type_ in _ARROW.items()}


def arrow_of(numbers: NDArray[Any]) -> pa.Array:
    """Return an Arrow array of some numbers of shape (n,), none of them null."""
    raw_bytes = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(_ARROW[numbers.dtype], numbers.size, [None, raw_bytes])


def numbers_of(values: pa.Array) -> NDArray[Any]:
    """Return the values of an Arrow array of numbers; null slots hold anything; shape (n,)."""
    kind = _NUMPY[values.type]
    if len(values) == 0:
        return np.empty(0, dtype=kind)
    return np.frombuffer(values.buffers()[1], dtype=kind, count=len(values), offset=values.offset * kind.itemsize)


def texts_of(texts: Sequence[str]) -> pa.Array:
    """Return an Arrow array of type string of some texts, none of them null; shape (n,).

    Raises:
        OverflowError: together they have 2 GiB or more.
    """
    raw_bytes = [text.encode("utf-8") for text in texts]
    ends = _offsets(raw_bytes)
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError("texts of 2 GiB or more don't fit one Arrow array")
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(raw_bytes))]
    return pa.Array.from_buffers(pa.string(), len(raw_bytes), buffers)


def bytes_of(values: Sequence[bytes]) -> pa.Array:
    """Return an Arrow array of type large_binary of some values, none of them null; shape (n,)."""
    buffers = [None, pa.py_buffer(_offsets(values)), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def filled(values: pa.Array, number: float) -> pa.Array:
    """Return an array of numbers or truth values with a number (0 is false) in place of each null."""
    if pa.types.is_boolean(values.type):
        scalar = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(bytes([number != 0]))])[0]
    else:
        scalar = arrow_of(np.array([number], dtype=_NUMPY[values.type]))[0]
    return pc.fill_null(values, scalar)


def _offsets(values: Sequence[bytes]) -> NDArray[np.int64]:
    """Return where each value begins, and the end of the last; shape (n + 1,)."""
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return offsets


_CANONICAL_PATTERN = "^(0|-?[1-9][0-9]{0,17})$"
_MANY_TEXTS = 1 << 10
_KNOWN_FROM, _KNOWN_BYTES = 1 << 7, 1 << 22
_ENTRY_BYTES = 128  # of a Python object of bytes, a number, and their place in a dictionary
_FLOAT_LIMIT = float(1 << 63)


@dataclass(kw_only=True, slots=True)
class KnownEntries:
    """Entries of earlier dictionaries, by the bytes that Parquet stores.

    Args:
        codes: their scaled codes.
        index: the same in the form in which the pages' decoder looks them up; empty until it is made anew.
    """

    codes: dict[bytes, int] = field(default_factory=dict)
    index: bytes = b""


class RecordCoder(Protocol):
    """What a column's values add to the keys of their records."""

    name: str
    rows: int | slice

    def scaled_codes(self, values: pa.Array, positions: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return what is added to those rows of the keys for the values at some positions; None is every position."""
        ...


class ColumnCoder:
    """Turns one column's values into code · stride, batch by batch; keeps the table of the last dictionary.

    INVARIANT: total: any value of any supported type has a code, and equal texts have equal codes whether
    they come as text, as a dictionary, or as a number in canonical decimal.

    Args:
        column: name, hierarchy and level.
        placement: word and stride of the column in the keys.
        reading: how the records are read; its null values have the bucket's code.
    """

    def __init__(self, *, column: MappedColumn, placement: Placement, reading: RecordReading) -> None:
        self.column = column
        self.placement = placement
        self.name: str = column.name
        self.rows: int | slice = placement.word
        null_values = [text.encode() for text in reading.null_values]
        self.null_values = frozenset(null_values)
        self._reading = reading
        # A float32 is the shortest decimal that it is.
        self._decimal = isinstance(column.hierarchy, DecimalIntervals | WeightClasses)
        numbers = (canonical_integer(text) for text in null_values)
        inside = [number for number in numbers if number is not None and INT64_MIN <= number <= INT64_MAX]
        self._null_integers = np.array(inside, dtype=np.int64)
        self._null_numbers = np.array([number_of_text(text) for text in null_values], dtype=np.float64)
        self._known = bytes_of([])
        self._known_codes: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._known_entries: defaultdict[str, KnownEntries] = defaultdict(KnownEntries)
        self._known_entries_bytes = 0
        self._dictionary: pa.Array | None = None
        self._table: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def scaled_codes(self, values: pa.Array, positions: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the code times the stride of the values at some positions, in their order; None is every position."""
        type_ = values.type
        if pa.types.is_dictionary(type_):
            return self._by_table(values, positions)
        if pa.types.is_string_view(type_):
            values = values.cast(pa.large_string())
        sampled = values if positions is None else values.take(arrow_of(positions))
        if is_text(type_):
            return self._by_table(sampled.dictionary_encode(), None)
        return self.placement.scaled(self._codes(sampled))

    def scaled_code(self, text: str | None) -> int:
        """The code times the stride of one text that stands in no file, and so has no file's encoding; or of null."""
        if text is None:
            return BUCKET_CODE * self.placement.stride
        coder = ColumnCoder(column=self.column, placement=self.placement, reading=self._reading.of_unicode)
        # A folder's name need not be UTF-8; nothing that isn't is declared.
        return int(coder.scaled_codes(bytes_of([text.encode("utf-8", "surrogatepass")]), None)[0])

    def table(self, dictionary: pa.Array) -> NDArray[np.int64]:
        """Return the code times the stride of each entry of a dictionary, and at the end that of null."""
        # The batches of a row group share their dictionary, so its table is made once and not for each batch.
        if self._dictionary is None or not dictionary.equals(self._dictionary):
            self._table = self.placement.scaled(np.append(self._codes(dictionary), BUCKET_CODE))
            self._dictionary = dictionary
        return self._table

    def known_entries(self, type_name: str) -> KnownEntries:
        """Return what is known of the entries of a type."""
        return self._known_entries[type_name]

    def learn_entries(self, type_name: str, entries: Sequence[bytes], table: NDArray[np.int64]) -> None:
        """Remember a dictionary's entries, as far as there is room for them."""
        known = self.known_entries(type_name)
        fresh = {entry: code for entry, code in zip(entries, table.tolist(), strict=False) if entry not in known.codes}
        raw_bytes = sum(len(entry) + _ENTRY_BYTES for entry in fresh)
        if self._known_entries_bytes + raw_bytes <= _KNOWN_BYTES:
            self._known_entries_bytes += raw_bytes
            known.codes.update(fresh)
            known.index = b""

    def _by_table(self, values: pa.DictionaryArray, positions: NDArray[np.int64] | None) -> NDArray[np.int64]:
        table = self.table(values.dictionary)
        indices = values.indices
        if indices.null_count:
            indices = filled(indices.cast(pa.int64()), table.size - 1)
        wanted = numbers_of(indices) if positions is None else numbers_of(indices)[positions]
        return table.take(wanted)

    def _codes(self, values: pa.Array) -> NDArray[np.int64]:
        """Return codes of an array without a dictionary of its own."""
        type_ = values.type
        if pa.types.is_dictionary(type_):
            return self._codes(values.dictionary_decode())
        if pa.types.is_null(type_):
            return np.full(len(values), BUCKET_CODE, dtype=np.int64)
        if pa.types.is_floating(type_) and not (self._decimal and type_ != pa.float64()):
            return self._codes_of_floats(values)
        if pa.types.is_integer(type_) and type_ != pa.uint64():
            return self._codes_of_integers(values.cast(pa.int64()))
        if not is_text(type_):
            distinct = values.cast(pa.string()).dictionary_encode()
            table = np.append(self._codes_of_texts(distinct.dictionary), BUCKET_CODE)
            known = filled(distinct.indices.cast(pa.int64()), table.size - 1)
            codes: NDArray[np.int64] = table[numbers_of(known)]
            return codes
        return self._codes_of_texts(values)

    def _codes_of_integers(self, values: pa.Array) -> NDArray[np.int64]:
        known = filled(values, 0) if values.null_count else values
        numbers = numbers_of(known)
        codes = self.column.hierarchy.codes_of_integers(numbers, self.column.level)
        if self._null_integers.size:
            codes[np.isin(numbers, self._null_integers)] = BUCKET_CODE
        if values.null_count:
            codes[numbers_of(values.is_null().cast(pa.uint8())).astype(np.bool_)] = BUCKET_CODE
        return codes

    def _codes_of_floats(self, values: pa.Array) -> NDArray[np.int64]:
        """Return codes of floating-point numbers; where a hierarchy is of whole ones, others have the bucket's code."""
        numbers = numbers_of(filled(values.cast(pa.float64()), float("nan")))
        if isinstance(self.column.hierarchy, NumberSteps | DecimalIntervals | WeightClasses):
            steps = self.column.hierarchy.codes_of_numbers(numbers, self.column.level)
            steps[np.isin(numbers, self._null_numbers)] = BUCKET_CODE
            return steps
        # Beyond 2**63 a conversion to integers is undefined; such numbers are declared by no hierarchy of whole
        # numbers.
        whole = (numbers >= -_FLOAT_LIMIT) & (numbers < _FLOAT_LIMIT) & (numbers == np.floor(numbers))
        integers = np.where(whole, numbers, 0.0).astype(np.int64)
        codes = self._codes_of_integers(arrow_of(integers))
        codes[~whole] = BUCKET_CODE
        return codes

    def _codes_of_texts(self, values: pa.Array) -> NDArray[np.int64]:
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        raw_bytes = values.cast(pa.large_binary())
        if len(raw_bytes) < _KNOWN_FROM:
            return self._codes_of_bytes(raw_bytes.to_pylist())
        places = pc.index_in(raw_bytes, value_set=self._known)
        if places.null_count:
            # Small row groups of a file have much the same dictionary, each in an order of its own.
            unknown = raw_bytes.filter(places.is_null()).unique()
            if self._known.nbytes + unknown.nbytes > _KNOWN_BYTES:
                return self._codes_of_array(raw_bytes)
            self._known = pa.concat_arrays([self._known, unknown])
            self._known_codes = np.append(self._known_codes, self._codes_of_array(unknown))
            places = pc.index_in(raw_bytes, value_set=self._known)
        return self._known_codes.take(numbers_of(places))

    def _codes_of_array(self, raw_bytes: pa.Array) -> NDArray[np.int64]:
        if len(raw_bytes) < _MANY_TEXTS:
            return self._codes_of_bytes(raw_bytes.to_pylist())
        # Long lists are mostly numbers, for which no Python object need be made.
        numeric = filled(pc.match_substring_regex(raw_bytes, _CANONICAL_PATTERN), 0)
        chosen = numbers_of(numeric.cast(pa.uint8())).astype(np.bool_)
        codes = np.empty(len(raw_bytes), dtype=np.int64)
        numbers = raw_bytes.filter(numeric).cast(pa.large_string()).cast(pa.int64())
        codes[chosen] = self._codes_of_integers(numbers)
        codes[~chosen] = self._codes_of_bytes(raw_bytes.filter(pc.invert(numeric)).to_pylist())
        return codes

    def _codes_of_bytes(self, texts: Sequence[bytes | None]) -> NDArray[np.int64]:
        if self._reading.rewrites:
            present = [None if text is None else self._reading.meant(text) for text in texts]
        else:
            present = [None if text in self.null_values else text for text in texts]
        return self.column.hierarchy.codes_of_texts(present, self.column.level)


class UndeclaredValues(ColumnCoder):
    """Codes as a `ColumnCoder`, and remembers the first values that aren't declared and don't mean null.

    PRIVACY: only of records that anybody may look at; a release never counts with it.

    Args:
        column: name, hierarchy and level, at which a value that isn't declared has the bucket's code.
        most: how many values are remembered.
    """

    def __init__(self, *, column: MappedColumn, placement: Placement, reading: RecordReading, most: int) -> None:
        super().__init__(column=column, placement=placement, reading=reading)
        self._most = most
        self._first: dict[str, None] = {}

    @property
    def first(self) -> tuple[str, ...]:
        """Return the values that were met first."""
        return tuple(self._first)

    @property
    def complete(self) -> bool:
        """Tell whether as many are remembered as are wanted."""
        return len(self._first) >= self._most

    def _codes(self, values: pa.Array) -> NDArray[np.int64]:
        codes = super()._codes(values)
        if pa.types.is_timestamp(values.type):  # Python has no nanoseconds, and fewer years
            values = values.cast(pa.string())
        # A dictionary within a dictionary is decoded and comes here again; its own values are met then.
        for place in (
            () if self.complete or pa.types.is_dictionary(values.type) else np.flatnonzero(codes == BUCKET_CODE)
        ):
            value = values[int(place)].as_py()
            raw_bytes = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
            if value is None or value != value or raw_bytes.strip() in self.null_values:  # noqa: PLR0124 - NaN
                continue
            self._first[raw_bytes.decode(self._reading.encoding, "replace")] = None
            if self.complete:
                break
        return codes


def is_text(type_: pa.DataType) -> bool:
    """Tell whether values of a type are texts, or bytes."""
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    return any(test(type_) for test in tests)


_WHOLE_FLOAT = {".": r"^(-?(?:0|[1-9][0-9]*))\.0*$", ",": r"^(-?(?:0|[1-9][0-9]*)),0*$"}
_SPACE = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f "


class PersonCoder:
    """Adds the keyed hash of an id to the first words of its record's key; 0 where there is none.

    INVARIANT: total, and each record affects itself alone. Ids are equal as texts, or as whole numbers of any width; a
    null value, a text that means null, and that of a record that can't be split are none.
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
        """Return the hashes of the ids at some positions, in their order; None is every position; shape (2, n)."""
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
            # Unicode.
            texts = pc.ascii_trim(texts.view(pa.large_string()), characters=_SPACE).view(pa.large_binary())
        if self._reading.whole_floats:
            texts = pc.replace_substring_regex(texts, pattern=_WHOLE_FLOAT[self._reading.decimal], replacement=r"\1")
        # Whatever can't be compared counts as no id: such a record is a person of its own.
        none = filled(pc.is_in(texts, value_set=self._null), 1)
        if texts.null_count:
            none = pc.or_(none, texts.is_null())
        offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64, offset=texts.offset * 8, count=len(texts) + 1)
        stored = texts.buffers()[2]
        raw_bytes = np.empty(0, dtype=np.uint8) if stored is None else np.frombuffer(stored, dtype=np.uint8)
        # Arrow's slices share one buffer; only the bytes of this slice are hashed.
        raw_bytes = raw_bytes[offsets[0] : offsets[-1]]
        own = offsets - offsets[0]
        return self._keys.of_texts(raw_bytes, own[:-1], own[1:]), _mask(none)


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    return numbers_of(values.cast(pa.uint8())).astype(np.bool_)
