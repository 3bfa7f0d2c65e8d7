"""Convolution of non-negative arrays by direct summation: every entry has a small relative error."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .binomial import ULP

__all__ = ["convolution_slack", "convolve_direct"]

_BLOCK = 128
_SMALL = 2048


def convolution_slack(first: int, second: int) -> float:
    """The relative error of every entry of a direct convolution of arrays of these lengths.

    A sum of m products of non-negative doubles, in any order, errs by at most m + 1 rounding errors.
    """
    return (min(first, second) + 2.0) * ULP


def convolve_direct(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """The full convolution, without Fourier transforms, whose error would be relative to the largest entry only.

    The shorter array is cut into blocks; a matrix product convolves every block with the longer array at once.

    Args:
        first: non-negative, shape (m,).
        second: non-negative, shape (n,).

    Returns:
        Shape (m + n − 1,), relative error of every entry at most `convolution_slack(m, n)`, but for products below
        the smallest normal double.
    """
    short, long = (first, second) if first.size <= second.size else (second, first)
    if short.size * long.size <= _SMALL * _SMALL:
        return np.convolve(short, long)
    blocks = -(-short.size // _BLOCK)
    padded = np.zeros(blocks * _BLOCK)
    padded[: short.size] = short
    edge = np.zeros(_BLOCK - 1)
    windows = sliding_window_view(np.concatenate([edge, long, edge]), _BLOCK)
    rows = padded.reshape(blocks, _BLOCK)[:, ::-1] @ np.ascontiguousarray(windows).T
    result = np.zeros(blocks * _BLOCK + long.size - 1)
    for block in range(blocks):
        start = block * _BLOCK
        result[start : start + rows.shape[1]] += rows[block]
    return result[: short.size + long.size - 1]
