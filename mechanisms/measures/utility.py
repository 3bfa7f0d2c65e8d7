"""All measures of one release together: what coarsening, sampling and suppression cost, and the risks."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from .classification import Classification, classification, default_target
from .counting import CountedRecords, QueryErrors, aligned_counts, counting_query_errors
from .information import (
    EntropyLoss,
    PairDistance,
    ambiguity_log10,
    entropy_loss,
    granularity_loss,
    marginal_distance,
    pair_distances,
)
from .risk import (
    ReidentificationRisk,
    average_class_size,
    discernibility,
    normalised_class_size,
    reidentification_risk,
    size_shares,
)

__all__ = [
    "CLASS_EDGES",
    "ClassMeasures",
    "ColumnUtility",
    "NotOfTheseRecordsError",
    "StageUtility",
    "UtilityMeasures",
    "utility_of",
]

CLASS_EDGES = (1, 2, 5, 10, 20, 50, 100, 1000)
"""First sizes of the intervals in which class sizes are reported."""
MOST_COLUMNS_FOR_THREE = 10


class NotOfTheseRecordsError(ValueError):
    """The release has groups that these records don't have: they are not the records that it was made from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassMeasures:
    """The equivalence classes of one table.

    Args:
        records: number of records.
        classes: number of classes.
        average: average class size.
        normalised: average class size in units of k.
        discernibility: pairs of records that can't be told apart; a suppressed record counts with all.
        ambiguity_log10: log₁₀ of the combinations of declared values that a record may stand for.
        shares: share of the records by class size, one for each of CLASS_EDGES.
        risk: re-identification risks, the population being all records.
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
        name: of the column.
        level: at which it is published.
        granularity: loss of granularity by coarsening, 0 … 1.
        entropy: bits lost by coarsening.
        distance: total variation between its distributions, coarsened and released.
        labels: the labels that some record has, in the order of publication.
        before: records with each label, of all records.
        after: records with each label, in the release.
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
        levels: of the columns, in their order.
        found: records that the stages before left.
        published: of these records.
        groups: that all records are in at these levels.
        published_groups: that the stage published.
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
        k: suppression threshold.
        sampling_rate: β; None where all records were counted.
        suppressed: records of the sample that were left out, as the rate lets one expect: β · records − published, at
            least 0. The sample itself is never known. Of all records, and exactly, where all were counted.
        before: all records with their values, as declared.
        coarsened: all records at the levels of the release.
        after: the release.
        columns: each released column.
        pairs: each pair of columns, coarsened against released.
        queries: errors of counting queries.
        classification: what classifiers learn; None where no column can be predicted.
        stages: of a deletion release, the finest first; none of another one.
        left_out: records that didn't count, since their person has more than may; None where nothing limits them.
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
        raise NotOfTheseRecordsError("the release has groups that these records don't have")
    countable = before.records - (left_out or 0)
    counted = countable if sampling_rate is None else round(sampling_rate * countable)
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
        distance=marginal_distance(coarsened, released, place),
        labels=tuple(column.hierarchy.labels(keys[0], column.level)),
        before=tuple(one.tolist()),
        after=tuple(other.tolist()),
    )
