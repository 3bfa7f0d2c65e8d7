"""What a release would lose and why: per threshold, rate, level, column and label, in expectation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from ....accounting.theory.planning.planner import least_k
from ....accounting.theory.price import price
from ....flows.releases.kind import Suppressing
from ....mechanisms.errors import InputRefused
from ....mechanisms.histogram import SuppressedHistogram
from ....mechanisms.map_selection.lattice import Levels, information_kept
from ....mechanisms.microdata import EpsilonSafeRelease
from ....tasks.request import Request
from .reference_population import Groups, ReferencePopulation, SuppressionEstimate

__all__ = [
    "ByLevel",
    "ByPrice",
    "Forecast",
    "Lost",
    "WithoutColumn",
    "forecast",
    "rate_of",
    "suppression_at",
]

THRESHOLDS = (5, 10, 20, 30, 50, 100)
RATES = tuple(Decimal(rate) for rate in ("0.01", "0.02", "0.05", "0.1", "0.2", "0.3", "0.5"))
MOST_LABELS = 12
MOST_PAIRS = 8
MOST_COLUMNS_PAIRED = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class ByPrice:
    """One threshold and rate: what they cost and what they leave.

    Args:
        k: suppression threshold.
        rate: sampling rate.
        epsilon: what the release would be charged; None where it has no price.
        suppressed: share of the sampled records that would be left out.
        records: records that would be published.
        chosen: whether these are the specification's.
    """

    k: int
    rate: float
    epsilon: float | None
    suppressed: float
    records: float
    chosen: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ByLevel:
    """One column at one level, the others as they are.

    Args:
        column: its name.
        level: the level.
        kept: share of the column's information that the level keeps.
        suppressed: share of the sampled records that would be left out.
        chosen: whether this is the previewed map's level.
    """

    column: str
    level: int
    kept: float
    suppressed: float
    chosen: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class WithoutColumn:
    """What leaving a column out would save.

    Args:
        column: its name.
        suppressed: share that would be left out without it.
        saved: by how much that is less.
    """

    column: str
    suppressed: float
    saved: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """People with some labels, and what would become of their sampled records.

    Args:
        columns: the columns.
        labels: a label of each.
        people: how many there are.
        suppressed: share of them that would be left out.
    """

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    people: float
    suppressed: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """A whole preview.

    Args:
        crowd: what was looked at, in words.
        remarks: what has to be borne in mind.
        people: how many people it stands for.
        levels: level of each column in the previewed map.
        k: suppression threshold.
        rate: sampling rate.
        epsilon: what the release would be charged.
        delta: the same.
        estimate: what would become of the records.
        by_k: for thresholds, at the specification's rate.
        by_rate: for rates, at the specification's k.
        same_price: for rates, the least k that costs no more.
        by_level: for each level of each column.
        by_column: for each column left out, dearest first.
        by_label: labels that lose more than others, worst first.
        by_pair: the same for labels of two columns together.
    """

    crowd: str
    remarks: tuple[str, ...]
    people: float
    levels: dict[str, int]
    k: int
    rate: float
    epsilon: float
    delta: float
    estimate: SuppressionEstimate
    by_k: tuple[ByPrice, ...]
    by_rate: tuple[ByPrice, ...]
    same_price: tuple[ByPrice, ...]
    by_level: tuple[ByLevel, ...]
    by_column: tuple[WithoutColumn, ...]
    by_label: tuple[Lost, ...]
    by_pair: tuple[Lost, ...]


def forecast(request: Request, mechanism: Suppressing, crowd: ReferencePopulation, *, levels: Levels) -> Forecast:
    """Foretell a release on a public crowd.

    Args:
        request: the specification.
        mechanism: the one that it asks for.
        crowd: who stands for the private records.
        levels: one for each column, nowhere finer than the crowd's.
    """
    k, own_rate = mechanism.k, rate_of(mechanism)
    rate = float(own_rate)
    groups = crowd.at(levels)
    estimate = crowd.suppression_estimate(groups, k=k, rate=rate)
    lost = 1.0 - crowd.survival(groups.counts, k=k, rate=rate)
    thresholds = sorted({*THRESHOLDS, k})
    rates = sorted({*RATES, own_rate})

    def at(threshold: int, sampling_rate: Decimal) -> ByPrice:
        found = crowd.suppression_estimate(groups, k=threshold, rate=float(sampling_rate))
        return ByPrice(
            k=threshold,
            rate=float(sampling_rate),
            epsilon=_epsilon(request, mechanism, threshold, sampling_rate),
            suppressed=found.suppressed,
            records=found.records,
            chosen=(threshold, sampling_rate) == (k, own_rate),
        )

    same = ((sampling_rate, _least_k(request, mechanism, sampling_rate)) for sampling_rate in rates)
    return Forecast(
        crowd=crowd.told,
        remarks=crowd.remarks,
        people=crowd.people,
        levels=dict(zip(crowd.names, levels, strict=True)),
        k=k,
        rate=rate,
        epsilon=float(request.price.epsilon),
        delta=float(request.price.delta),
        estimate=estimate,
        by_k=tuple(at(threshold, own_rate) for threshold in thresholds),
        by_rate=tuple(at(k, sampling_rate) for sampling_rate in rates),
        same_price=tuple(at(least, sampling_rate) for sampling_rate, least in same if least is not None),
        by_level=tuple(_by_level(crowd, levels, k=k, rate=rate)),
        by_column=tuple(_by_column(crowd, levels, estimate, k=k, rate=rate)),
        by_label=tuple(_worst(crowd, groups, levels, lost, together=1)[:MOST_LABELS]),
        by_pair=tuple(_worst(crowd, groups, levels, lost, together=2)[:MOST_PAIRS])
        if 1 < len(crowd.names) <= MOST_COLUMNS_PAIRED
        else (),
    )


def rate_of(mechanism: Suppressing) -> Decimal:
    """The sampling rate.

    Raises:
        InputRefused: it has none, so it has no price either.
    """
    if mechanism.sampling_rate is None:
        raise InputRefused("a release without a sampling rate isn't foretold.", where="[sampling].rate")
    return mechanism.sampling_rate


def suppression_at(crowd: ReferencePopulation, levels: Levels, *, k: int, rate: float) -> SuppressionEstimate:
    """What would happen to the records under another map."""
    return crowd.suppression_estimate(crowd.at(levels), k=k, rate=rate)


def _epsilon(request: Request, mechanism: Suppressing, k: int, rate: Decimal) -> float | None:
    other = dataclasses.replace(mechanism, k=k, sampling_rate=rate)
    try:
        charged = price(other, delta=request.price.delta, rows_per_person=request.price.rows_per_person)
    except InputRefused:
        return None
    return float(charged.epsilon)


def _least_k(request: Request, mechanism: Suppressing, rate: Decimal) -> int | None:
    """The least threshold that costs no more at this rate; None where there is none, or it isn't known how to ask."""
    if isinstance(mechanism, SuppressedHistogram) or request.price.rows_per_person > 1:
        return None
    chosen = mechanism if isinstance(mechanism, EpsilonSafeRelease) else None
    try:
        return least_k(
            sampling_rate=rate,
            epsilon=request.price.epsilon,
            delta=request.price.delta,
            selection_epsilon=None if chosen is None else chosen.selection_epsilon,
            selection_rate=None if chosen is None else chosen.selection_rate,
        )
    except InputRefused:
        return None


def _by_level(crowd: ReferencePopulation, levels: Levels, *, k: int, rate: float) -> Iterator[ByLevel]:
    for place, (name, hierarchy) in enumerate(zip(crowd.names, crowd.hierarchies, strict=True)):
        for level in range(crowd.base[place], hierarchy.levels):
            other = (*levels[:place], level, *levels[place + 1 :])
            yield ByLevel(
                column=name,
                level=level,
                kept=float(information_kept(hierarchy, level)),
                suppressed=suppression_at(crowd, other, k=k, rate=rate).suppressed,
                chosen=level == levels[place],
            )


def _by_column(
    crowd: ReferencePopulation, levels: Levels, now: SuppressionEstimate, *, k: int, rate: float
) -> list[WithoutColumn]:
    found = []
    for place, name in enumerate(crowd.names):
        others = [other for other in range(len(crowd.names)) if other != place]
        without = crowd.suppression_estimate(crowd.at(levels, columns=others), k=k, rate=rate).suppressed
        found.append(WithoutColumn(column=name, suppressed=without, saved=now.suppressed - without))
    return sorted(found, key=lambda one: -one.saved)


def _worst(
    crowd: ReferencePopulation, groups: Groups, levels: Levels, lost: NDArray[np.float64], *, together: int
) -> list[Lost]:
    """Labels, one by one or in pairs, by how many more of their people are lost than if all lost alike."""
    records = groups.counts.astype(np.float64)
    overall = float(records @ lost) / float(records.sum())
    found: list[tuple[float, Lost]] = []
    for places in _choices(len(groups.columns), together):
        codes = np.stack([groups.codes[place] for place in places])
        distinct, of = np.unique(codes, axis=1, return_inverse=True)
        people = np.bincount(of.ravel(), weights=records)
        gone = np.bincount(of.ravel(), weights=records * lost)
        excess = gone - overall * people
        for one in np.argsort(-excess, kind="stable")[: 2 * MOST_LABELS].tolist():
            if excess[one] <= 1e-9 * people[one]:
                continue
            labels = [
                crowd.hierarchies[groups.columns[place]].labels(
                    distinct[row, one : one + 1], levels[groups.columns[place]]
                )[0]
                for row, place in enumerate(places)
            ]
            told = Lost(
                columns=tuple(crowd.names[groups.columns[place]] for place in places),
                labels=tuple(labels),
                people=float(people[one]) * crowd.scale,
                suppressed=float(gone[one] / people[one]),
            )
            found.append((float(excess[one]), told))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def _choices(columns: int, together: int) -> Sequence[tuple[int, ...]]:
    if together == 1:
        return [(place,) for place in range(columns)]
    return [(left, right) for left in range(columns) for right in range(left + 1, columns)]
