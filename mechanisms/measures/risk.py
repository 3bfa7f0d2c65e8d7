"""Equivalence classes and the re-identification risk that their sizes mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ReidentificationRisk",
    "average_class_size",
    "discernibility",
    "normalised_class_size",
    "reidentification_risk",
    "size_shares",
]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class ReidentificationRisk:
    """What an attacker who knows all released columns of a person may hope for; every value from 0 to 1.

    With f records of a class in the table and F in the population: the *prosecutor* knows that the person is in the
    table (risk 1/f), the *journalist* only that the person is in the population (risk 1/F), and the *marketer* wants
    as many right matches as possible (the expected share of right ones, Σ f/F over n).

    It is no guarantee: it knows nothing of what else an attacker may know. That is what ε and δ are for.

    Args:
        prosecutor_highest: 1 over the smallest class of the table.
        prosecutor_average: classes over records: the expected share that a prosecutor names rightly.
        prosecutor_at_risk: share of the records with 1/f above the threshold.
        journalist_highest: 1 over the smallest of those classes in the population.
        journalist_average: the larger of classes over population records in them, and of the marketer's share.
        journalist_at_risk: share of the records with 1/F above the threshold.
        marketer: expected share of the table's records that are matched rightly with the population.
        unique: share of the records that are alone in their class of the table.
        threshold: the risk above which a record counts as at risk.
    """

    prosecutor_highest: float
    prosecutor_average: float
    prosecutor_at_risk: float
    journalist_highest: float
    journalist_average: float
    journalist_at_risk: float
    marketer: float
    unique: float
    threshold: float


def reidentification_risk(
    class_sizes: NDArray[np.int64], population_sizes: NDArray[np.int64], *, threshold: float
) -> ReidentificationRisk:
    """Risks of a table whose records are also in a population; all 0 where the table is empty.

    El Emam, Dankar, Protecting Privacy Using k-Anonymity, J. Am. Med. Inform. Assoc. 15(5), 2008 (prosecutor and
    journalist); Dankar, El Emam, A Method for Evaluating Marketer Re-identification Risk, PAIS 2010; in one notation
    in El Emam, Guide to the De-Identification of Personal Health Information, 2013, Chapter 16.

    Args:
        class_sizes: f, records of each class of the table, each at least 1; shape (classes,).
        population_sizes: F, records of the same class of the population, each at least f; shape (classes,).
        threshold: risk above which a record counts as at risk, from 0 to 1.

    Raises:
        ValueError: shapes that differ, a class that is larger in the table than in the population, or a threshold
            outside 0 … 1.
    """
    if class_sizes.shape != population_sizes.shape:
        raise ValueError("each class of the table needs its size in the population")
    if np.any(class_sizes < 1) or np.any(population_sizes < class_sizes):
        raise ValueError("a class has at least one record, and no more in the table than in the population")
    if not 0 <= threshold <= 1:
        raise ValueError(f"a threshold lies between 0 and 1, not at {threshold}")
    records = int(class_sizes.sum())
    if not records:
        return ReidentificationRisk(**dict.fromkeys(_RISKS, 0.0), threshold=threshold)
    own, population = class_sizes.astype(np.float64), population_sizes.astype(np.float64)
    marketer = float((own / population).sum() / records)
    return ReidentificationRisk(
        prosecutor_highest=float(1 / own.min()),
        prosecutor_average=class_sizes.size / records,
        prosecutor_at_risk=float(own[1 / own > threshold].sum() / records),
        journalist_highest=float(1 / population.min()),
        journalist_average=max(class_sizes.size / float(population.sum()), marketer),
        journalist_at_risk=float(own[1 / population > threshold].sum() / records),
        marketer=marketer,
        unique=float(own[class_sizes == 1].sum() / records),
        threshold=threshold,
    )


_RISKS = (
    "prosecutor_highest",
    "prosecutor_average",
    "prosecutor_at_risk",
    "journalist_highest",
    "journalist_average",
    "journalist_at_risk",
    "marketer",
    "unique",
)
