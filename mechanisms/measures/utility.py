"""What coarsening, sampling and suppression lose, measure by measure, and all measures of one release together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..hierarchies.declare import Hierarchy
from .classification import Classification, classification, default_target
from .counted_records import CountedRecords, QueryErrors, aligned_counts, counting_query_errors
from .risk import (
    ReidentificationRisk,
    average_class_size,
    discernibility,
    normalised_class_size,
    reidentification_risk,
    size_shares,
)


def total_variation(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """½ Σ |p − q| of two tables of counts, each scaled to 1; from 0, the same, to 1, nothing in common.

    It is the largest difference of the shares that the two tables give to any set of rows. 0 where both are empty,
    1 where one of them is.
    """
    totals = float(one.sum()), float(other.sum())
    if not all(totals):
        return float(any(totals))
    return float(np.abs(one / totals[0] - other / totals[1]).sum() / 2)


def association(records: CountedRecords) -> float:
    """Cramér's V of a table of two columns: from 0, independent, to 1, one decides the other.

    √(χ² / (n · (min(rows, columns) − 1))), Cramér, Mathematical Methods of Statistics, 1946, Section 21.9; 0 where a
    column has a single label.

    Raises:
        ValueError: another number of columns.
    """
    if len(records.map.columns) != 2:
        raise ValueError("an association is of two columns")
    codes, counts = records.codes(), records.class_sizes
    total = float(counts.sum())
    sizes, sums = [], []
    for column in codes:
        _, place = np.unique(column, return_inverse=True)
        of_label = np.bincount(place, weights=counts)
        sizes.append(of_label.size)
        sums.append(of_label[place])
    if not total or min(sizes) < 2:
        return 0.0
    # χ² = n·(Σ n_ij²/(n_i n_j) − 1): cells without records need not be visited.
    chi_squared = total * max(0.0, float((counts / sums[0] * (counts / sums[1])).sum()) - 1.0)
    return float(min(1.0, np.sqrt(chi_squared / (total * (min(sizes) - 1)))))


@dataclass(frozen=True, kw_only=True, slots=True)
class PairDistance:
    """Two columns together, before and after.

    Args:
        columns: Names of the two columns.
        distance: Total variation between the joint distributions, 0 … 1.
        association_before: Cramér's V before, 0 … 1.
        association_after: Cramér's V after, 0 … 1.
    """

    columns: tuple[str, str]
    distance: float
    association_before: float
    association_after: float


def pair_distances(before: CountedRecords, after: CountedRecords) -> tuple[PairDistance, ...]:
    """Return each pair of columns, in the order of the columns."""
    names = before.map.names
    found = []
    for pair in combinations(range(len(names)), 2):
        one, other = before.projected(pair), after.projected(pair)
        _, counts_before, counts_after = aligned_counts(one, other)
        found.append(
            PairDistance(
                columns=(names[pair[0]], names[pair[1]]),
                distance=total_variation(counts_before, counts_after),
                association_before=association(one),
                association_after=association(other),
            )
        )
    return tuple(found)


def granularity_loss(records: CountedRecords, place: int) -> float:
    """LM: how much of its domain a value of one column covers beyond itself, averaged over records; 0 … 1.

    (1/n) Σ (c − 1)/(m − 1), where a record's label covers c of the m declared values.
    Iyengar, Transforming Data to Satisfy Privacy Constraints, KDD 2002, Section 2. ARX shows 1 minus this as its
    quality "granularity". 0 for a domain of one value, and where there are no records.
    """
    column = records.map.columns[place]
    codes, counts = records.marginal(place)
    domain = _domain(column.hierarchy)
    total = int(counts.sum())
    if domain <= 1 or not total:
        return 0.0
    covered = column.hierarchy.values_covered(codes, column.level).astype(np.float64)
    return float(((covered - 1) / (domain - 1) * counts).sum()) / total


@dataclass(frozen=True, kw_only=True, slots=True)
class EntropyLoss:
    """What coarsening one column loses of the information that its values had.

    Args:
        lost: Bits lost over all records.
        had: Bits that the values had over all records.
    """

    lost: float
    had: float

    @property
    def share(self) -> float:
        """Return the share lost, 0 … 1; 0 where the column told nothing before."""
        return self.lost / self.had if self.had else 0.0


def entropy_loss(before: CountedRecords, place: int, *, level: int) -> EntropyLoss:
    """Π_e: non-uniform entropy, the bits that one needs to get from each record's label back to its value.

    lost = Σ log₂(n_label / n_value) and had = Σ log₂(n / n_value) over the records, with the frequencies of the
    table before. De Waal, Willenborg, Information Loss through Global Recoding and Local Suppression, Netherlands
    Official Statistics 14, 1999; Gionis, Tassa, k-Anonymization with Minimal Loss of Information, TKDE 21(2), 2009,
    Section 4.

    Raises:
        ValueError: a level below the table's.
    """
    column = before.map.columns[place]
    codes, counts = before.marginal(place)
    if not counts.size:
        return EntropyLoss(lost=0.0, had=0.0)
    labels = column.hierarchy.coarser(codes, level=column.level, to=level)
    _, group = np.unique(labels, return_inverse=True)
    of_label = np.bincount(group, weights=counts)[group]
    return EntropyLoss(
        lost=float((counts * np.log2(of_label / counts)).sum()),
        had=float((counts * np.log2(counts.sum() / counts)).sum()),
    )


def ambiguity_log10(records: CountedRecords) -> float:
    """AM: log₁₀ of how many combinations of declared values a record may stand for, on average over records.

    (1/n) Σ Π c_j, where the record's label in column j covers c_j declared values. Goldberger, Tassa, Efficient
    Anonymizations with Enhanced Utility, Transactions on Data Privacy 3(2), 2010, Section 2. The logarithm, since
    the product of many columns is large; 0 means that every record stands for one combination, and so does an
    empty table.
    """
    if not records.class_sizes.size:
        return 0.0
    logs: NDArray[np.float64] = np.zeros(records.class_sizes.size)
    for column, codes in zip(records.map.columns, records.codes(), strict=True):
        # The product over many columns exceeds every double; the largest logarithm is taken out before powers are added
        # up.
        logs += np.log10(column.hierarchy.values_covered(codes, column.level).astype(np.float64))
    highest = float(logs.max())
    scaled = float((records.class_sizes * 10 ** (logs - highest)).sum()) / records.records
    return highest + math.log10(scaled)


def _domain(hierarchy: Hierarchy) -> int:
    """Return the number of declared values."""
    return sum(size * labels for size, labels in hierarchy.label_sizes(0).items())


CLASS_EDGES = (1, 2, 5, 10, 20, 50, 100, 1000)
"""First sizes of the intervals in which class sizes are reported."""
MOST_COLUMNS_FOR_THREE = 10


class NotOfTheseRecordsError(ValueError):
    """The release has groups that these records don't have: they are not the records that it was made from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassMeasures:
    """The equivalence classes of one table.

    Args:
        records: Number of records.
        classes: Number of classes.
        average: Average class size.
        normalised: Average class size in units of k.
        discernibility: Number of pairs of indistinguishable records; a suppressed record counts with all others.
        ambiguity_log10: Base-10 logarithm of how many combinations of declared values a record may represent.
        shares: Share of the records by class size, one for each of CLASS_EDGES.
        risk: Re-identification risks, the population being all records.
    """

    records: int
    classes: int
    average: float
    normalised: float
    discernibility: int
    ambiguity_log10: float
    shares: tuple[float, ...]
    risk: ReidentificationRisk


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnUtility:
    """One column.

    Args:
        name: Name of the column.
        level: Level at which the column is published.
        granularity: Loss of granularity by coarsening, 0 … 1.
        entropy: Bits lost by coarsening.
        distance: Total variation between the column's distributions, coarsened and released.
        labels: Labels that some record has, in the order of publication.
        before: Number of records with each label, of all records.
        after: Number of records with each label, in the release.
    """

    name: str
    level: int
    granularity: float
    entropy: EntropyLoss
    distance: float
    labels: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageUtility:
    """One stage of a deletion release.

    Args:
        levels: Level of each column at this stage.
        found: Number of records that the stages before left.
        published: Number of these records that this stage published.
        groups: Number of groups of all records at these levels.
        published_groups: Number of groups that this stage published.
    """

    levels: tuple[int, ...]
    found: int
    published: int
    groups: int
    published_groups: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UtilityMeasures:
    """What a release keeps of its records, and what it risks.

    PRIVACY: exact figures of the private records. Nothing of this may be published.

    Args:
        k: Suppression threshold.
        sampling_rate: Sampling rate β; None where all records were counted.
        suppressed: Expected number of sampled records that were left out: β · records − published, at least 0; the
            sample itself is never known. Where all records were counted, their exact number.
        before: The classes of all records with their values, as declared.
        coarsened: The classes of all records at the levels of the release.
        after: The classes of the release.
        columns: Measures of each released column.
        pairs: Measures of each pair of columns, coarsened against released.
        queries: Errors of counting queries.
        classification: What classifiers learn; None where no column can be predicted.
        stages: The stages of a deletion release, the finest first; empty for other releases.
        left_out: Number of records that didn't count, since their person has more than the limit; None where nothing
            limits them.
    """

    k: int
    sampling_rate: Decimal | None
    suppressed: int
    before: ClassMeasures
    coarsened: ClassMeasures
    after: ClassMeasures
    columns: tuple[ColumnUtility, ...]
    pairs: tuple[PairDistance, ...]
    queries: QueryErrors
    classification: Classification | None
    stages: tuple[StageUtility, ...]
    left_out: int | None


def utility_of(
    before: CountedRecords,
    released: CountedRecords,
    *,
    k: int,
    sampling_rate: Decimal | None,
    weighted: CountedRecords | None = None,
    stages: tuple[StageUtility, ...] = (),
    left_out: int | None = None,
    target: str | None = None,
    threshold: float = 0.2,
) -> UtilityMeasures:
    """Measure a release against the records that it was made from.

    Args:
        before: all records at level 0 of the released columns.
        released: the published groups and counts.
        k: suppression threshold of the release.
        sampling_rate: β of the release, between 0 and 1; None where all records were counted.
        weighted: the published groups with what their records' weights add up to, which answers the counting queries;
            None takes the counts.
        stages: of a deletion release.
        left_out: records that didn't count, since their person has more than may; None where nothing limits them.
        target: column that a classifier tells; None takes `default_target`.
        threshold: re-identification risk above which a record counts as at risk.

    Raises:
        NotOfTheseRecordsError: the release has a group that is larger than in the records.
        ValueError: a target that is not released, or tables of different columns.
    """
    coarsened = before.recoded(released.map)
    _keys, population, published = aligned_counts(coarsened, released)
    if np.any(published > population):
        # Every measure below would be wrong without a sign of it.
        raise NotOfTheseRecordsError("the release has groups that these records don't have")
    countable = before.records - (left_out or 0)
    counted = countable if sampling_rate is None else round(sampling_rate * countable)
    # The sample is not known, only its expected size, which by chance may be below what was published.
    suppressed = max(0, counted - released.records)
    reported = target or default_target(released)
    columns = len(before.map.columns)
    return UtilityMeasures(
        k=k,
        sampling_rate=sampling_rate,
        suppressed=suppressed,
        before=_classes(before, before.class_sizes, k=k, suppressed=0, threshold=threshold),
        coarsened=_classes(coarsened, coarsened.class_sizes, k=k, suppressed=0, threshold=threshold),
        after=_classes(released, population[published > 0], k=k, suppressed=suppressed, threshold=threshold),
        columns=tuple(_column(before, coarsened, released, place) for place in range(columns)),
        pairs=pair_distances(coarsened, released),
        queries=counting_query_errors(
            coarsened,
            weighted or released,
            sampling_rate=sampling_rate,
            ways=3 if columns <= MOST_COLUMNS_FOR_THREE else 2,
        ),
        classification=None if reported is None else classification(before, released, target=reported),
        stages=stages,
        left_out=left_out,
    )


def _classes(
    table: CountedRecords, population: NDArray[np.int64], *, k: int, suppressed: int, threshold: float
) -> ClassMeasures:
    sizes = table.class_sizes
    return ClassMeasures(
        records=table.records,
        classes=int(sizes.size),
        average=average_class_size(sizes),
        normalised=normalised_class_size(sizes, k=k),
        discernibility=discernibility(sizes, suppressed=suppressed),
        ambiguity_log10=ambiguity_log10(table),
        shares=size_shares(sizes, edges=CLASS_EDGES),
        risk=reidentification_risk(sizes, population, threshold=threshold),
    )


def _column(before: CountedRecords, coarsened: CountedRecords, released: CountedRecords, place: int) -> ColumnUtility:
    column = released.map.columns[place]
    keys, one, other = aligned_counts(coarsened.projected([place]), released.projected([place]))
    return ColumnUtility(
        name=column.name,
        level=column.level,
        granularity=granularity_loss(coarsened, place),
        entropy=entropy_loss(before, place, level=column.level),
        distance=total_variation(one, other),
        labels=tuple(column.hierarchy.labels(keys[0], column.level)),
        before=tuple(one.tolist()),
        after=tuple(other.tolist()),
    )
