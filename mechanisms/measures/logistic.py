"""A small multinomial logistic regression on labels: one-hot features, a ridge, deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse, special

__all__ = ["LogisticModel", "fitted_model"]

_STEPS = 200


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LogisticModel:
    """Probabilities of classes by the labels of some columns.

    Args:
        sizes: number of labels of each column; shape (columns,).
        weights: one row a label, column after column, and at the end the intercept; shape (labels + 1, classes).
    """

    sizes: tuple[int, ...]
    weights: NDArray[np.float64]

    def log_probabilities(self, codes: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
        """Logarithms of each row's class probabilities; shape (rows, classes).

        Args:
            codes: per column the label of every row, from 0 and below the column's size; each of shape (rows,).
        """
        scores = _one_hot(codes, self.sizes) @ self.weights[:-1] + self.weights[-1]
        logs: NDArray[np.float64] = special.log_softmax(scores, axis=1)
        return logs


def fitted_model(
    codes: Sequence[NDArray[np.int64]],
    *,
    sizes: Sequence[int],
    classes: NDArray[np.int64],
    class_number: int,
    counts: NDArray[np.int64],
    ridge: float = 1.0,
) -> LogisticModel:
    """Minimise Σ counts · (−log probability of the class) + ridge/2 · Σ weights², the intercepts free, by L-BFGS.

    Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, 2nd edition, Sections 4.4 and 18.3.2. Nothing
    is drawn: equal input gives an equal model on one machine.

    Args:
        codes: per column the label of every row; each of shape (rows,).
        sizes: number of labels of each column.
        classes: the class of every row; shape (rows,).
        class_number: number of classes.
        counts: records of every row; shape (rows,).
        ridge: penalty, above 0.

    Raises:
        ValueError: no penalty, without which the least need not exist.
    """
    if ridge <= 0:
        raise ValueError(f"the ridge must be above 0, not {ridge}")
    features = _one_hot(codes, sizes)
    shape = (features.shape[1] + 1, class_number)
    target = np.zeros((features.shape[0], class_number))
    target[np.arange(target.shape[0]), classes] = counts

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(shape)
        logs = special.log_softmax(features @ weights[:-1] + weights[-1], axis=1)
        residuals = np.exp(logs) * counts[:, np.newaxis] - target
        gradient = np.vstack([features.T @ residuals + ridge * weights[:-1], residuals.sum(axis=0)])
        value = -float((target * logs).sum()) + ridge / 2 * float((weights[:-1] ** 2).sum())
        return value, gradient.ravel()

    start = np.zeros(shape[0] * shape[1])
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return LogisticModel(sizes=tuple(sizes), weights=np.asarray(found.x).reshape(shape))


def _one_hot(codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> sparse.csr_array:
    """One column a label; shape (rows, labels)."""
    rows = codes[0].size if codes else 0
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.array([column + start for column, start in zip(codes, starts[:-1], strict=True)], dtype=np.int64)
    ends = np.arange(rows + 1, dtype=np.int64) * len(codes)
    return sparse.csr_array((np.ones(rows * len(codes)), places.T.ravel(), ends), shape=(rows, int(starts[-1])))
