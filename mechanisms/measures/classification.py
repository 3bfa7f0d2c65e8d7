"""What a classifier learns from the records, from the coarsened records, and from the release.

A small multinomial logistic regression on labels: one-hot features, a ridge, deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse, special

from ..generalization_map import GeneralizationMap, MappedColumn
from ..kernel.group_counts import GroupCounts
from .counted_records import CountedRecords

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
        """Return the logarithms of each row's class probabilities; shape (rows, classes).

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
) -> LogisticModel:
    """Minimise Σ counts · (−log probability of the class) + 1/2 · Σ weights², the intercepts free, by L-BFGS.

    Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, 2nd edition, Sections 4.4 and 18.3.2. Nothing
    is drawn: equal input gives an equal model on one machine.

    Args:
        codes: per column the label of every row; each of shape (rows,).
        sizes: number of labels of each column.
        classes: the class of every row; shape (rows,).
        class_number: number of classes.
        counts: records of every row; shape (rows,).
    """
    features = _one_hot(codes, sizes)
    shape = (features.shape[1] + 1, class_number)
    target = np.zeros((features.shape[0], class_number))
    target[np.arange(target.shape[0]), classes] = counts

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(shape)
        logs = special.log_softmax(features @ weights[:-1] + weights[-1], axis=1)
        residuals = np.exp(logs) * counts[:, np.newaxis] - target
        gradient = np.vstack([features.T @ residuals + weights[:-1], residuals.sum(axis=0)])
        # Counts are weights of the rows: a group of a thousand equal records is one row. The penalty has no intercept,
        # so that a rare class isn't drawn towards the others.
        value = -float((target * logs).sum()) + 0.5 * float((weights[:-1] ** 2).sum())
        return value, gradient.ravel()

    start = np.zeros(shape[0] * shape[1])
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    return LogisticModel(sizes=tuple(sizes), weights=np.asarray(found.x).reshape(shape))


def _one_hot(codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]) -> sparse.csr_array:
    """Return one column a label; shape (rows, labels)."""
    rows = codes[0].size if codes else 0
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.array([column + start for column, start in zip(codes, starts[:-1], strict=True)], dtype=np.int64)
    ends = np.arange(rows + 1, dtype=np.int64) * len(codes)
    return sparse.csr_array((np.ones(rows * len(codes)), places.T.ravel(), ends), shape=(rows, int(starts[-1])))


MOST_TRAINED = 60_000
MOST_LABELS = 100
MOST_CLASSES = 50
HELD_OUT = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifierScore:
    """How well one classifier tells the held-out records' classes.

    Args:
        trained_on: What the classifier was trained on, in words.
        trained_records: Number of records that it was trained on.
        accuracy: Share of the held-out records whose most probable class is right, 0 … 1.
        log_loss: Average −ln of the probability that the classifier gives to the right class.
    """

    trained_on: str
    trained_records: int
    accuracy: float
    log_loss: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Classification:
    """Classifiers of one column by the others, all tested on the same held-out records.

    Args:
        target: Column that is predicted.
        classes: Number of its labels that some record has.
        held_out: Number of records for testing: every third record, of which the release may hold some.
        scores: Scores of the most frequent class, and of classifiers trained on records, on coarsened records and on
            the release.
    """

    target: str
    classes: int
    held_out: int
    scores: tuple[ClassifierScore, ...]


def default_target(released: CountedRecords) -> str | None:
    """Return the column with the fewest labels in the release, at least two; the last of several; None without one."""
    found: tuple[int, str] | None = None
    for place, name in enumerate(released.map.names):
        labels = released.marginal(place)[0].size
        if labels >= 2 and (found is None or labels <= found[0]):
            found = (labels, name)
    return None if found is None else found[1]


def every_nth(counts: NDArray[np.int64], step: int) -> NDArray[np.int64]:
    """Return how many of each group are taken if every step-th record is, from the first, in the order of the groups.

    Returns:
        Shape (groups,); its sum is the number of records divided by the step, rounded up.
    """
    ends = np.cumsum(counts)
    taken: NDArray[np.int64] = -(-ends // step) - -(-(ends - counts) // step)
    return taken


def classification(before: CountedRecords, released: CountedRecords, *, target: str) -> Classification | None:
    """Train and test the classifiers; None where the target has one label, or more than 50, or stands alone.

    Two thirds of the records are trained on and one third is held out, by their place in the order of the rows; at
    most 60,000 are trained on, evenly spread. A column of more than 100 labels is used at its finest level of at
    most 100. The method is `logistic.fitted_model`; nothing is drawn.

    Raises:
        ValueError: the release has no such column.
    """
    names = before.map.names
    if target not in names:
        raise ValueError(f"the release has no column {target!r}")
    place = names.index(target)
    others = [number for number in range(len(names)) if number != place]
    labels = before.recoded(released.map).marginal(place)[0]
    if not others or not 2 <= labels.size <= MOST_CLASSES or not released.records:
        return None
    thin = -(-before.records // (MOST_TRAINED * 3 // 2))
    counts = before.groups.counts
    # By place in a fixed order instead of by chance: two reports on the same records have the same figures.
    held = every_nth(counts, HELD_OUT * thin)
    trained = every_nth(counts, thin) - held
    fine = _fine_map(before.map, released.map, place)
    tested = _part(before, held)
    learners = (
        ("the records", _part(before, trained).recoded(fine)),
        ("the coarsened records", _part(before, trained).recoded(released.map)),
        ("the release", _part(released, every_nth(released.groups.counts, -(-released.records // MOST_TRAINED)))),
    )
    most_frequent = _most_frequent(learners[1][1], tested.recoded(released.map), place)
    scores = [_score(name, table, tested.recoded(table.map), place, others, labels) for name, table in learners]
    return Classification(
        target=target, classes=int(labels.size), held_out=tested.records, scores=(most_frequent, *scores)
    )


def _fine_map(finest: GeneralizationMap, released: GeneralizationMap, target: int) -> GeneralizationMap:
    """Return the finest levels of at most MOST_LABELS labels; the target's is the published one."""
    columns = []
    for place, (fine, coarse) in enumerate(zip(finest.columns, released.columns, strict=True)):
        candidates = range(fine.level, coarse.level)
        small = [level for level in candidates if fine.hierarchy.size(level) <= MOST_LABELS]
        level = coarse.level if place == target or not small else small[0]
        columns.append(MappedColumn(name=fine.name, hierarchy=fine.hierarchy, level=level))
    return GeneralizationMap(columns=tuple(columns))


def _part(table: CountedRecords, counts: NDArray[np.int64]) -> CountedRecords:
    chosen = counts > 0
    return CountedRecords(map=table.map, groups=GroupCounts(table.groups.keys[:, chosen], counts[chosen]))


def _most_frequent(trained: CountedRecords, tested: CountedRecords, place: int) -> ClassifierScore:
    known, counts = trained.marginal(place)
    asked, tests = tested.marginal(place)
    shares = np.zeros(asked.size)
    common = np.isin(asked, known)
    shares[common] = counts[np.searchsorted(known, asked[common])] / counts.sum()
    best = known[int(np.argmax(counts))]
    # A class that was never seen in training would have an infinite loss.
    floor = 1 / (2 * float(counts.sum()))
    return ClassifierScore(
        trained_on="nothing: always the most frequent",
        trained_records=trained.records,
        accuracy=float(tests[asked == best].sum() / tests.sum()),
        log_loss=float(-(tests * np.log(np.maximum(shares, floor))).sum() / tests.sum()),
    )


def _score(
    name: str,
    trained: CountedRecords,
    tested: CountedRecords,
    place: int,
    others: Sequence[int],
    labels: NDArray[np.int64],
) -> ClassifierScore:
    codes, test_codes = trained.codes(), tested.codes()
    # A label that only one of the two tables has needs a place in the features of both.
    dense = [np.unique(np.concatenate([codes[number], test_codes[number]])) for number in others]
    model = fitted_model(
        [np.searchsorted(known, codes[number]) for known, number in zip(dense, others, strict=True)],
        sizes=[known.size for known in dense],
        classes=np.searchsorted(labels, codes[place]),
        class_number=int(labels.size),
        counts=trained.groups.counts,
    )
    logs = model.log_probabilities(
        [np.searchsorted(known, test_codes[number]) for known, number in zip(dense, others, strict=True)]
    )
    right, counts = np.searchsorted(labels, test_codes[place]), tested.groups.counts
    reported = np.argmax(logs, axis=1) == right
    return ClassifierScore(
        trained_on=name,
        trained_records=trained.records,
        accuracy=float(counts[reported].sum() / counts.sum()),
        log_loss=float(-(counts * logs[np.arange(right.size), right]).sum() / counts.sum()),
    )
