"""Re-identification risk by class sizes: of a prosecutor, a journalist and a marketer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ReidentificationRisk", "reidentification_risk"]


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
