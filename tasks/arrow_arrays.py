"""Numbers between numpy and Arrow over the same memory; pyarrow's own conversions import pandas for a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["arrow_of", "numbers_of"]

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
