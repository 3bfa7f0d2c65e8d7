"""Noisy tables drawn towards an estimate of them, and tables fitted to margins: post-processing of published figures.

Only elementwise arithmetic and sums in a fixed order are used, so that every machine finds the same doubles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Amounts = NDArray[np.float64]

_BLOCKS = 12
_LEAST_OF_BLOCK = 4
_ROUNDS = 30
_TINY = 1e-12


def total(amounts: Amounts) -> float:
    """Return the sum, added up one after the other."""
    # np.sum adds in pairs whose order depends on the processor's vectors, and another last digit could change which
    # levels are chosen.
    return float(np.cumsum(amounts.reshape(-1))[-1]) if amounts.size else 0.0


def row_sums(table: Amounts) -> Amounts:
    """Return the sum of each row, added up one after the other; shape (rows,)."""
    sums: Amounts = np.cumsum(table, axis=1)[:, -1]
    return sums


def column_sums(table: Amounts) -> Amounts:
    """Return the sum of each column, added up one after the other; shape (columns,)."""
    sums: Amounts = np.cumsum(table, axis=0)[-1]
    return sums


def product(first: Amounts, second: Amounts) -> Amounts:
    """Return the matrix product; a library's would add up in an order of its own on each machine."""
    result = np.zeros((first.shape[0], second.shape[1]))
    for place in range(first.shape[1]):
        result += first[:, place, None] * second[place, None, :]
    return result


def quotient(above: Amounts, below: Amounts) -> Amounts:
    """Return above / below, and 0 where what is below is too small to divide by."""
    result: Amounts = np.divide(
        above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below > _TINY
    )
    return result


def on_simplex(noisy: Amounts, *, records: float) -> Amounts:
    """Return the nearest amounts that are at least 0 and add up to a number of records, above 0; shape (n,)."""
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - records) / np.arange(1, ordered.size + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    nearest: Amounts = np.maximum(noisy - excess[last], 0.0)
    return nearest


def shrunken(noisy: Amounts, estimate: Amounts, *, deviation: float) -> Amounts:
    """Return a noisy table drawn towards an estimate, cell by cell in blocks of cells with like estimates.

    In a block of b cells what is added to the estimate P is max(0, 1 − (b − 2)σ²/Σ(T − P)²)·(T − P). Where the estimate
    is good the noise goes; where it isn't, the noisy counts T stay.

    Source: W. James, C. Stein, Estimation with quadratic loss, Fourth Berkeley Symposium (1961).

    Args:
        noisy: T, any shape.
        estimate: P, of the same shape.
        deviation: σ of each cell's noise.
    """
    flat, towards = noisy.reshape(-1), estimate.reshape(-1)
    order = np.argsort(towards, kind="stable")
    result = flat.copy()
    for block in np.array_split(order, max(1, min(_BLOCKS, order.size // _LEAST_OF_BLOCK))):
        # For two cells or fewer the estimator shrinks nothing (b − 2 ≤ 0).
        if block.size > 2:
            difference = flat[block] - towards[block]
            spread = total(difference * difference)
            noise = (block.size - 2) * deviation * deviation
            kept = 1.0 - noise / spread if spread > noise else 0.0
            result[block] = towards[block] + kept * difference
    shrunk: Amounts = np.maximum(result, 0.0).reshape(noisy.shape)
    return shrunk


def fitted(table: Amounts, rows: Amounts, columns: Amounts) -> Amounts:
    """Return a table scaled by rows and columns until it has these sums, nearly.

    Source: W. Deming, F. Stephan, Annals of Mathematical Statistics 11 (1940).
    """
    result = np.maximum(table, _TINY)
    for _ in range(_ROUNDS):
        result = result * quotient(rows, row_sums(result))[:, None]
        result = result * quotient(columns, column_sums(result))[None, :]
    return result
