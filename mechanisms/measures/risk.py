"""Re-identification risk: what sizes of equivalence classes mean, and what attackers get out of a release of groups.

The attacks' figures are about this release and these records, never a guarantee. An attack that fails proves nothing;
another one may succeed. What holds against all of them is the price, ε and δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts, sum_counts
from ..kernel.recoding import coarsened
from ..kinds.deletion import residual_counts
from ..kinds.deletion_noise import DeletionNoise, deletion_weights
from .counted_records import CountedRecords, aligned_counts


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
    """Return the share of all records whose class has a size in each interval.

    Args:
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
        prosecutor_highest: 1 over the size of the smallest class of the table.
        prosecutor_average: Classes over records: the expected share of records that a prosecutor identifies correctly.
        prosecutor_at_risk: Share of the records with 1/f above the threshold.
        journalist_highest: 1 over the size of the smallest of those classes in the population.
        journalist_average: The larger of classes over population records in them, and of the marketer's share.
        journalist_at_risk: Share of the records with 1/F above the threshold.
        marketer: Expected share of the table's records that are matched correctly with the population.
        unique: Share of the records that are alone in their class of the table.
        threshold: Risk above which a record counts as at risk.
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


RISKS = tuple(field.name for field in fields(ReidentificationRisk) if field.name != "threshold")


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
        return ReidentificationRisk(**dict.fromkeys(RISKS, 0.0), threshold=threshold)
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


CERTAINTIES = (0.6, 0.75, 0.9, 0.99)
"""Chances of a right verdict for which shares of the records are told."""

Counts = NDArray[np.int64]
Amounts = NDArray[np.float64]
ToldLosses = Callable[[Counts, Counts], Amounts]
"""(published counts, true counts) of groups → what each tells of one record to whoever knows all others."""


def sampling_losses(published: Counts, records: Counts, *, rate: float, k: int) -> Amounts:
    """ln Pr[J | n] − ln Pr[J | n − 1] of a sampled release: what J tells of one person to whoever knows all others.

    J is what is published of a group of n records, she among them: Binomial(n, rate), or 0 where that is below k. The
    difference is the statistic that the best test of "she is in" against "she isn't" is made by (Neyman and Pearson).

    Args:
        published: J of each group, 0 or from k to n; shape (groups,).
        records: n of each group, at least 1; shape (groups,).

    Returns:
        Shape (groups,), in nats; infinite where one of the two can't have been.
    """
    from scipy.stats import binom  # SciPy's statistics load slowly

    with np.errstate(divide="ignore"):
        # The ratio of two binomial probabilities in closed form: n(1 − β)/(n − J). It is infinite where J = n, since
        # without her only n − 1 could have been sampled.
        shown = np.log(records) - np.log(records - published) + math.log1p(-rate)
        # A group that isn't shown is an observation too: fewer than k were sampled, which is likelier without her.
        hidden = binom.logcdf(k - 1, records, rate) - binom.logcdf(k - 1, records - 1, rate)
    return np.asarray(np.where(published > 0, shown, hidden), dtype=np.float64)


def deletion_losses(published: Counts, records: Counts, *, noise: DeletionNoise, k: int) -> Amounts:
    """Return the same of a stage of a deletion release: J = n − Z, or 0 where that is below k.

    Of several stages it is the sum over them: what the first publishes of her group tells what is left of it, with and
    without her.

    Args:
        published: J of each group at the stage, 0 or from k to n; shape (groups,).
        records: n of each group, what the stages before left of it, she among them; at least 1; shape (groups,).

    Returns:
        Shape (groups,), in nats; infinite where one of the two can't have been.
    """
    chances, tails = _logarithms(noise)
    with np.errstate(invalid="ignore"):
        shown = _at(chances, records - published) - _at(chances, records - published - 1)
        hidden = _at(tails, np.maximum(records - k + 1, 0)) - _at(tails, np.maximum(records - k, 0))
    return np.where(published > 0, shown, hidden)


@lru_cache
def _logarithms(noise: DeletionNoise) -> tuple[Amounts, Amounts]:
    """ln Pr[Z = z] and ln Pr[Z ≥ z] for z from 0 to the largest."""
    weights = deletion_weights(noise)
    total = math.log(sum(weights))
    tails = list(accumulate(reversed(weights)))[::-1]
    chances, above = (np.array([math.log(one) - total for one in some]) for some in (weights, tails))
    return chances, above


def _at(logarithms: Amounts, places: Counts) -> Amounts:
    """Return those of some values of Z; −∞ of those that it never has."""
    inside = (places >= 0) & (places < logarithms.size)
    return np.where(inside, logarithms[np.where(inside, places, 0)], -math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownPerson:
    """How sure somebody is that one person is in, or that she isn't, who knew all other records and held it to be even.

    He has seen what was published of the groups, and no margins. By (ε, δ) the loss of one person given beforehand is
    above ε + t with a chance of at most δ/(1 − e^(−t)), for each t above 0. A loss of L makes him sure by
    1/(1 + e^(−L)).

    Args:
        highest: Probability that the attacker is right about the most exposed record; 0.5 … 1.
        median: Median of this probability over the records.
        shares: Share of the records with at least each of these probabilities, one for each of CERTAINTIES.
    """

    highest: float
    median: float
    shares: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class InferredColumn:
    """How often a column is guessed by all other columns: as the label that the release has most often beside them.

    Args:
        name: Name of the column.
        guessed: Share of all records for which the guess is right. Several most frequent labels are equally likely;
            where nothing is published, the most frequent label of the release is taken.
        without: The same share where each record is removed from the release before it is guessed. The difference from
            `guessed` is at most what one's own record reveals.
        most_frequent: Share of all records for which the most frequent label of the release is right.
    """

    name: str
    guessed: float
    without: float
    most_frequent: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Attacks:
    """What some attacks on a release reach. One that fails proves nothing.

    PRIVACY: exact figures of the private records. Nothing of this may be published.

    Args:
        known: How surely somebody who knows all other records can say whether one person is in.
        inferred: How often each released column is guessed by the others, at the levels of the last stage.
        groups_of_one: Number of groups with published records that have one record alone, at the levels of their stage.
    """

    known: KnownPerson
    inferred: tuple[InferredColumn, ...]
    groups_of_one: int


def attacks_of(
    before: CountedRecords,
    released: Sequence[CountedRecords],
    *,
    told: ToldLosses,
    on_progress: Callable[[int, int], None] | None = None,
) -> Attacks:
    """Try the attacks on a release.

    Args:
        before: all records at level 0 of the released columns, each another person's.
        told: what an attacker learns of one record (`sampling_losses`, `deletion_losses`).

    Raises:
        ValueError: the release has groups that these records don't have.
    """
    columns = len(before.map.columns)

    def tell(done: int) -> None:
        if on_progress is not None:
            on_progress(done, columns + 1)

    alone = 0
    for one in released:
        _keys, records, published = aligned_counts(before.recoded(one.map), one)
        alone += int(((records == 1) & (published > 0)).sum())
    known = known_person(before, released, told=told)
    tell(1)
    last = released[-1].map
    parts = [one.recoded(last).groups for one in released]
    keys, counts = (np.concatenate(some, axis=-1) for some in zip(*parts, strict=True))
    whole, inferred = CountedRecords(map=last, groups=sum_counts(keys, counts)), []
    for place in range(columns):
        inferred.append(inferred_column(before.recoded(last), whole, place))
        tell(place + 2)
    return Attacks(known=known, inferred=tuple(inferred), groups_of_one=alone)


def known_person(before: CountedRecords, released: Sequence[CountedRecords], *, told: ToldLosses) -> KnownPerson:
    """Return how sure one gets of each record, as `attacks_of`."""
    left = before.recoded(released[0].map)
    sizes, losses = left.class_sizes, np.zeros(left.class_sizes.size)
    at = np.arange(sizes.size)
    for stage, one in enumerate(released):
        keys, records, published = aligned_counts(left, one)
        if keys.shape[1] != left.class_sizes.size or np.any(published > records):
            raise ValueError("the release has groups that these records don't have")
        # Stages add up: what a stage publishes of a group depends on the stages before only by the records that they
        # left, which this attacker knows but for one.
        losses += told(published, records)[at]
        if stage + 1 < len(released):
            coarser = released[stage + 1].map
            above, parents = coarsened(keys, finer=one.map, coarser=coarser, tables=one.map.tables_to(coarser))
            rest = residual_counts(records, published, parents, groups=above.shape[1])
            left, at = CountedRecords(map=coarser, groups=GroupCounts(above, rest)), parents[at]
    certain = 1.0 / (1.0 + np.exp(-np.abs(losses)))
    order = np.argsort(certain)
    # The median of the records, not of the groups: a group counts as often as it has records.
    middle = order[np.searchsorted(np.cumsum(sizes[order]), (sizes.sum() + 1) // 2)] if sizes.size else None
    total = max(int(sizes.sum()), 1)
    return KnownPerson(
        highest=float(certain.max(initial=0.5)),
        median=0.5 if middle is None else float(certain[middle]),
        shares=tuple(float(sizes[certain >= least].sum() / total) for least in CERTAINTIES),
    )


def inferred_column(records: CountedRecords, released: CountedRecords, place: int) -> InferredColumn:
    """Return how often one column is guessed by the others."""
    keys, true, shown = aligned_counts(records, released)
    group = np.zeros(true.size, dtype=np.int64)
    for number, column in enumerate(records.map.columns):
        if number != place:  # numbers of the groups by all other columns, kept small
            _, group = np.unique(group * column.size + records.map.codes_of(keys, number), return_inverse=True)
    own = records.map.codes_of(keys, place)
    overall = np.bincount(own, weights=shown)
    frequent = own == int(np.argmax(overall)) if overall.size else np.zeros(0, dtype=bool)
    most, second, groups = _two_largest(group, shown)
    largest = np.bincount(group, weights=shown == most[group], minlength=groups)[group]
    beside = np.bincount(group, weights=shown == second[group], minlength=groups)[group]
    top, next_one = most[group], second[group]
    guessed = np.where(top == 0, frequent, (shown == top) / largest)
    # Her own record taken out: with a unique largest label the second may catch up; otherwise another is in front.
    fewer = shown - 1
    alone = (shown == top) & (largest == 1)
    tied = np.where(top == 1, frequent, 1.0 / (1.0 + beside))
    taken = np.where(alone, np.where(fewer > next_one, 1.0, tied), 0.0)
    # Which of a group's records were published isn't known: each is taken to be among them with the group's share. If
    # it isn't, taking it out of the release changes nothing.
    published = np.divide(shown, true, out=np.zeros(true.size), where=true > 0)
    without = published * taken + (1 - published) * guessed
    total = max(int(true.sum()), 1)
    return InferredColumn(
        name=records.map.columns[place].name,
        guessed=float(true @ guessed / total),
        without=float(true @ without / total),
        most_frequent=float(true @ frequent / total),
    )


def _two_largest(group: Counts, shown: Counts) -> tuple[Counts, Counts, int]:
    """Return each group's largest count and its second largest, which may be as large; 0 where there is none."""
    groups = int(group.max(initial=-1)) + 1
    order = np.lexsort((-shown, group))
    starts = np.searchsorted(group[order], np.arange(groups))
    ends = np.append(starts[1:], group.size)
    ranked = shown[order]
    return ranked[starts], np.where(ends - starts > 1, ranked[np.minimum(starts + 1, ends - 1)], 0), groups
