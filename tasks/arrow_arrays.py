"""Arrow arrays of numbers and texts; pyarrow's own conversions import pandas, which takes a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["arrow_of", "filled", "numbers_of", "octets_of", "texts_of"]

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
    """An Arrow array of some numbers of shape (n,), none of them null."""
    octets = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(_ARROW[numbers.dtype], numbers.size, [None, octets])


def numbers_of(values: pa.Array) -> NDArray[Any]:
    """The values of an Arrow array of numbers; null slots hold anything; shape (n,)."""
    kind = _NUMPY[values.type]
    if len(values) == 0:
        return np.empty(0, dtype=kind)
    return np.frombuffer(values.buffers()[1], dtype=kind, count=len(values), offset=values.offset * kind.itemsize)


def texts_of(texts: Sequence[str]) -> pa.Array:
    """An Arrow array of type string of some texts, none of them null; shape (n,).

    Raises:
        OverflowError: together they have 2 GiB or more.
    """
    octets = [text.encode("utf-8") for text in texts]
    ends = _offsets(octets)
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError("texts of 2 GiB or more don't fit one Arrow array")
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(octets))]
    return pa.Array.from_buffers(pa.string(), len(octets), buffers)


def octets_of(values: Sequence[bytes]) -> pa.Array:
    """An Arrow array of type large_binary of some values, none of them null; shape (n,)."""
    buffers = [None, pa.py_buffer(_offsets(values)), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def filled(values: pa.Array, number: float) -> pa.Array:
    """An array of numbers or truth values with a number (0 is false) in place of each null."""
    if pa.types.is_boolean(values.type):
        scalar = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(bytes([number != 0]))])[0]
    else:
        scalar = arrow_of(np.array([number], dtype=_NUMPY[values.type]))[0]
    return pc.fill_null(values, scalar)


def _offsets(values: Sequence[bytes]) -> NDArray[np.int64]:
    """Where each value begins, and the end of the last; shape (n + 1,)."""
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return offsets
