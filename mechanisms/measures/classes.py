"""Measures of equivalence classes: their average size, and how many pairs of records can't be told apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["average_class_size", "discernibility", "normalised_class_size", "size_shares"]


def average_class_size(class_sizes: NDArray[np.int64]) -> float:
    """Average size of an equivalence class: records divided by classes; 0 where there are none.

    As ARX reports it; `normalised_class_size` is the measure of the source.

    Args:
        class_sizes: records of each class, each at least 1; shape (classes,).
    """
    return float(class_sizes.sum() / class_sizes.size) if class_sizes.size else 0.0


def normalised_class_size(class_sizes: NDArray[np.int64], *, k: int) -> float:
    """C_AVG: the average class size in units of k; 1 is the best that k-anonymity allows.

    LeFevre, DeWitt, Ramakrishnan, Mondrian Multidimensional K-Anonymity, ICDE 2006, Section 2.1.

    Args:
        class_sizes: records of each class; shape (classes,).
        k: the least class size that is published, at least 1.

    Raises:
        ValueError: k below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return average_class_size(class_sizes) / k


def discernibility(class_sizes: NDArray[np.int64], *, suppressed: int = 0) -> int:
    """C_DM: Σ |class|² + suppressed · records, in pairs of records, exactly; lower is better.

    Each record is charged with the records that it can't be told from; a suppressed one with all records, which are
    those of the classes and the suppressed ones. Bayardo, Agrawal, Data Privacy through Optimal k-Anonymization,
    ICDE 2005, Section 4.

    Args:
        class_sizes: records of each published class; shape (classes,).
        suppressed: records that were left out, at least 0.

    Raises:
        ValueError: a negative number of suppressed records.
    """
    if suppressed < 0:
        raise ValueError(f"the number of suppressed records can't be {suppressed}")
    sizes, classes = np.unique(class_sizes, return_counts=True)
    squares = sum(size * size * times for size, times in zip(sizes.tolist(), classes.tolist(), strict=True))
    return int(squares + suppressed * (int(class_sizes.sum()) + suppressed))


def size_shares(class_sizes: NDArray[np.int64], *, edges: tuple[int, ...]) -> tuple[float, ...]:
    """The share of all records whose class has a size in each interval.

    Args:
        class_sizes: records of each class; shape (classes,).
        edges: first size of each interval, ascending from 1; the last interval has no end.

    Returns:
        Shares from 0 to 1, one an interval; all 0 where there are no records.
    """
    places = np.searchsorted(np.array(edges), class_sizes, side="right") - 1
    sums = np.zeros(len(edges), dtype=np.int64)
    np.add.at(sums, places, class_sizes)
    total = int(class_sizes.sum())
    return tuple(float(part / total) if total else 0.0 for part in sums.tolist())
