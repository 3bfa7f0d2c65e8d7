"""What a release would lose and why, in expectation; and what would help, tried on the reference population."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from operator import ge

import numpy as np
from numpy.typing import NDArray

from ....accounting.descriptions.description_registry import description_of
from ....accounting.kernel.prices.registry import price
from ....accounting.theory.planning.inversion import Target, least_k
from ....flows.releases.release_kind import Suppressing
from ....mechanisms.generalization_map import GeneralizationMap
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.group_counts import GroupCounts
from ....mechanisms.map_selection.choice import Lattice, LatticeColumn, Levels, MapChoice, information_kept
from ....mechanisms.map_selection.rollup import scores
from ....tasks.request import Request
from .changes import Change, KeptColumn, TellingRecords, column_changes, columns_kept, telling_records
from .reference_population import (
    Groups,
    ReferencePopulation,
    SuppressionEstimate,
    UndeclaredColumn,
    limit_remarks,
)

THRESHOLDS = (5, 10, 20, 30, 50, 100)
RATES = tuple(Decimal(rate) for rate in ("0.01", "0.02", "0.05", "0.1", "0.2", "0.3", "0.5"))
SAME_PRICE_RATES = (*RATES, *(Decimal(rate) for rate in ("0.4", "0.6", "0.7", "0.8", "0.9")))
MOST_LABELS = 12
MOST_PAIRS = 8
MOST_COLUMNS_PAIRED = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class ByPrice:
    """One threshold and rate: what they cost and what they leave.

    Args:
        k: Suppression threshold.
        rate: Sampling rate.
        epsilon: ε that would be charged; null where the release has no price.
        suppressed: Share of the sampled records that would be left out.
        records: Expected number of published records.
        chosen: Whether threshold and rate are those of the specification.
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
        column: Name of the column.
        level: Level of the column.
        kept: Share of the column's information that the level keeps.
        suppressed: Share of the sampled records that would be left out.
        chosen: Whether this is the level of the previewed map.
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
        column: Name of the column.
        suppressed: Share of the sampled records that would be left out without the column.
        saved: Difference from the share that would be left out with the column.
    """

    column: str
    suppressed: float
    saved: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost:
    """People with some labels, and what would become of their sampled records.

    Args:
        columns: Names of the columns.
        labels: Label of each of these columns.
        people: Number of people with these labels.
        suppressed: Share of these people that would be left out.
    """

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    people: float
    suppressed: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastBasis:
    """What is predicted of a release of any kind.

    Args:
        crowd: The records that were looked at, in words.
        remarks: What readers must know; sentences.
        people: Number of people that these records stand for.
        k: Suppression threshold: the smallest number of records of a group that is published.
        epsilon: ε that the release would be charged.
        delta: δ that the release would be charged.
        by_label: Labels that lose more than others, worst first.
        telling: How much the published records would tell.
        undeclared: Columns in which the public records have values that aren't declared.
        changes: Each column left out or coarser alone, with what would then be informative, most first.
        kept: The columns that are worth keeping, in the order of what they add.
    """

    crowd: str
    remarks: tuple[str, ...]
    people: float
    k: int
    epsilon: float
    delta: float
    by_label: tuple[Lost, ...]
    telling: TellingRecords
    undeclared: tuple[UndeclaredColumn, ...]
    changes: tuple[Change, ...]
    kept: tuple[KeptColumn, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast(ForecastBasis):
    """A preview of a release that suppresses.

    Args:
        levels: Level of each column in the previewed map.
        rate: Sampling rate.
        estimate: What would become of the records.
        by_k: Other thresholds at the rate of the specification.
        by_rate: Other rates at the threshold of the specification.
        same_price: Other rates, each with the least threshold that costs no more.
        by_level: Each level of each column, the other columns as they are.
        by_column: Each column left out, the one that saves most first.
        by_pair: Pairs of labels of two columns that lose more than others, worst first.
    """

    levels: dict[str, int]
    rate: float
    estimate: SuppressionEstimate
    by_k: tuple[ByPrice, ...]
    by_rate: tuple[ByPrice, ...]
    same_price: tuple[ByPrice, ...]
    by_level: tuple[ByLevel, ...]
    by_column: tuple[WithoutColumn, ...]
    by_pair: tuple[Lost, ...]

    @property
    def columns(self) -> int:
        """How many columns are released."""
        return len(self.levels)

    @property
    def published(self) -> float:
        """How many records would be published."""
        return self.estimate.records

    @property
    def published_groups(self) -> float:
        """How many groups would be published."""
        return self.estimate.groups


def forecast(request: Request, mechanism: Suppressing, reference: ReferencePopulation, *, levels: Levels) -> Forecast:
    """Predict a release on a public reference population.

    Args:
        request: the specification.
        mechanism: the one that it asks for.
        reference: who stands for the private records.
        levels: one for each column, nowhere finer than the reference population's.
    """
    k, own_rate = mechanism.k, rate_of(mechanism)
    rate = float(own_rate)
    groups = reference.at(levels)
    estimate = reference.suppression_estimate(groups, k=k, rate=rate)
    lost = 1.0 - reference.survival(groups.counts, k=k, rate=rate)
    thresholds = sorted({*THRESHOLDS, k})
    rates = sorted({*RATES, own_rate})

    def at(threshold: int, sampling_rate: Decimal) -> ByPrice:
        found = reference.suppression_estimate(groups, k=threshold, rate=float(sampling_rate))
        return ByPrice(
            k=threshold,
            rate=float(sampling_rate),
            epsilon=_epsilon(request, mechanism, threshold, sampling_rate),
            suppressed=found.suppressed,
            records=found.records,
            chosen=(threshold, sampling_rate) == (k, own_rate),
        )

    # Called for every column left out or coarser, so that no price and no table is computed in it.
    def evaluate(some: ReferencePopulation, chain: Sequence[Levels]) -> TellingRecords:
        found = some.at(chain[0])
        published = found.counts * some.scale * rate * some.survival(found.counts, k=k, rate=rate)
        return telling_records(some, chain, [(found, published)])

    others = sorted({*SAME_PRICE_RATES, own_rate})
    same = ((sampling_rate, _least_k(request, mechanism, sampling_rate)) for sampling_rate in others)
    return Forecast(
        crowd=reference.origin,
        remarks=(*reference.remarks, *limit_remarks(request)),
        people=reference.people,
        levels=dict(zip(reference.names, levels, strict=True)),
        k=k,
        rate=rate,
        epsilon=float(request.price.epsilon),
        delta=float(request.price.delta),
        estimate=estimate,
        by_k=tuple(at(threshold, own_rate) for threshold in thresholds),
        by_rate=tuple(at(k, sampling_rate) for sampling_rate in rates),
        same_price=tuple(at(least, sampling_rate) for sampling_rate, least in same if least is not None),
        by_level=tuple(_by_level(reference, levels, k=k, rate=rate)),
        by_column=tuple(_by_column(reference, levels, estimate, k=k, rate=rate)),
        by_label=tuple(worst_labels(reference, groups, levels, lost, together=1)[:MOST_LABELS]),
        by_pair=tuple(worst_labels(reference, groups, levels, lost, together=2)[:MOST_PAIRS])
        if 1 < len(reference.names) <= MOST_COLUMNS_PAIRED
        else (),
        telling=evaluate(reference, [levels]),
        undeclared=reference.undeclared,
        changes=column_changes(reference, [levels], evaluate),
        kept=columns_kept(reference, [levels], evaluate),
    )


def rate_of(mechanism: Suppressing) -> Decimal:
    """Return the sampling rate.

    Raises:
        InputRefused: it has none, so it has no price either.
    """
    if mechanism.sampling_rate is None:
        raise InputRefused("a release without a sampling rate isn't predicted.", where="[sampling].rate")
    return mechanism.sampling_rate


def suppression_at(reference: ReferencePopulation, levels: Levels, *, k: int, rate: float) -> SuppressionEstimate:
    """Return what would happen to the records under another map."""
    return reference.suppression_estimate(reference.at(levels), k=k, rate=rate)


def _epsilon(request: Request, mechanism: Suppressing, k: int, rate: Decimal) -> float | None:
    other = dataclasses.replace(mechanism, k=k, sampling_rate=rate)
    try:
        charged = price(other, delta=request.price.delta, rows_per_person=request.price.rows_per_person)
    except InputRefused:
        return None
    return float(charged.epsilon)


def _least_k(request: Request, mechanism: Suppressing, rate: Decimal) -> int | None:
    """The least threshold that costs no more at this rate; None where there is none, or it isn't known how to ask."""
    tunable = description_of(mechanism).tunable
    if tunable is None or request.price.rows_per_person > 1:
        return None
    chosen = tunable(mechanism)
    try:
        target = Target(
            epsilon=request.price.epsilon,
            delta=request.price.delta,
            selection_epsilon=chosen.selection_epsilon,
            selection_rate=chosen.selection_rate,
            selection_draws=chosen.selection_draws,
        )
        return least_k(rate, target)
    except InputRefused:
        return None


def _by_level(reference: ReferencePopulation, levels: Levels, *, k: int, rate: float) -> Iterator[ByLevel]:
    for place, (name, hierarchy) in enumerate(zip(reference.names, reference.hierarchies, strict=True)):
        for level in range(reference.base[place], hierarchy.levels):
            other = (*levels[:place], level, *levels[place + 1 :])
            yield ByLevel(
                column=name,
                level=level,
                kept=float(information_kept(hierarchy, level)),
                suppressed=suppression_at(reference, other, k=k, rate=rate).suppressed,
                chosen=level == levels[place],
            )


def _by_column(
    reference: ReferencePopulation, levels: Levels, now: SuppressionEstimate, *, k: int, rate: float
) -> list[WithoutColumn]:
    found = []
    for place, name in enumerate(reference.names):
        others = [other for other in range(len(reference.names)) if other != place]
        without = reference.suppression_estimate(reference.at(levels, columns=others), k=k, rate=rate).suppressed
        found.append(WithoutColumn(column=name, suppressed=without, saved=now.suppressed - without))
    return sorted(found, key=lambda one: -one.saved)


def worst_labels(
    reference: ReferencePopulation, groups: Groups, levels: Levels, lost: NDArray[np.float64], *, together: int
) -> list[Lost]:
    """Labels, one by one or in pairs, by how many more of their people are lost than if all lost alike.

    Args:
        reference: whose they are.
        groups: its groups at some levels.
        levels: these levels, one for each column.
        lost: share of each group that is lost, shape (groups,).
        together: how many labels, 1 or 2.
    """
    records = groups.counts.astype(np.float64)
    overall = float(records @ lost) / float(records.sum())
    found: list[tuple[float, Lost]] = []
    for places in _choices(len(groups.columns), together):
        codes = np.stack([groups.codes[place] for place in places])
        distinct, of = np.unique(codes, axis=1, return_inverse=True)
        people = np.bincount(of.ravel(), weights=records)
        gone = np.bincount(of.ravel(), weights=records * lost)
        # Ordered by people, not by share: a label of two people would otherwise always come first.
        excess = gone - overall * people
        for one in np.argsort(-excess, kind="stable")[: 2 * MOST_LABELS].tolist():
            if excess[one] <= 1e-9 * people[one]:
                continue
            labels = [
                reference.hierarchies[groups.columns[place]].labels(
                    distinct[row, one : one + 1], levels[groups.columns[place]]
                )[0]
                for row, place in enumerate(places)
            ]
            entry = Lost(
                columns=tuple(reference.names[groups.columns[place]] for place in places),
                labels=tuple(labels),
                people=float(people[one]) * reference.scale,
                suppressed=float(gone[one] / people[one]),
            )
            found.append((float(excess[one]), entry))
    return [one for _, one in sorted(found, key=lambda pair: -pair[0])]


def _choices(columns: int, together: int) -> Sequence[tuple[int, ...]]:
    if together == 1:
        return [(place,) for place in range(columns)]
    return [(left, right) for left in range(columns) for right in range(left + 1, columns)]


MOST_MAPS = 5_000
LITTLE = 0.02
MOST_STEPS = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """One thing to change.

    Args:
        what: The change in words.
        suppressed: Share of the sampled records that would then be left out.
        records: Expected number of records that would then be published.
        information: Share that the map would keep of what the finest levels tell, by the columns' weights.
        epsilon: ε that the release would then be charged.
    """

    what: str
    suppressed: float
    records: float
    information: float
    epsilon: float


def suggestions(
    request: Request, mechanism: Suppressing, reference: ReferencePopulation, prediction: Forecast
) -> tuple[Suggestion, ...]:
    """Return what would help, most helpful kinds first; empty where nothing does."""
    levels = tuple(prediction.levels.values())
    found = [*_another_map(request, mechanism, reference, prediction, levels)]
    found += sorted(
        _steps(request, reference, prediction, levels), key=lambda one: -one.information * (1.0 - one.suppressed)
    )[:MOST_STEPS]
    return (*found, *_other_spending(reference, request, prediction, levels))


def best_levels(request: Request, mechanism: Suppressing, reference: ReferencePopulation) -> Levels | None:
    """The map that keeps most of these groups, by a private draw's quality; None where there are too many maps."""
    lattice = _lattice(request, reference)
    if lattice.size > MOST_MAPS:
        return None
    base = lattice.map_of(lattice.finest)
    groups = reference.at(lattice.finest)
    counts = GroupCounts(base.keys(list(groups.codes)), groups.counts)
    # The size, in counted records, at which about k of a group are sampled: each record stands for `scale` people.
    threshold = max(1, ceil(mechanism.k / (float(rate_of(mechanism)) * reference.scale)))
    scored = scores(counts, lattice=lattice, threshold=threshold)
    if not scored.any():
        return lattice.coarsest  # no group of any map is large enough
    return lattice.levels_of(int(scored.argmax()))


def _lattice(request: Request, reference: ReferencePopulation) -> Lattice:
    """The maps that may be suggested: a choice's own candidates, or all; nowhere finer than the reference population.

    Raises:
        InputRefused: every candidate is finer somewhere.
    """
    match request.recoding:
        case MapChoice(lattice=lattice):
            columns = lattice.columns
            listed = lattice.candidates
        case GeneralizationMap():
            columns = tuple(
                LatticeColumn(
                    name=name, hierarchy=hierarchy, min_level=0, max_level=hierarchy.levels - 1, weight=Decimal(1)
                )
                for name, hierarchy in zip(reference.names, reference.hierarchies, strict=True)
            )
            listed = None
    if listed is not None:
        listed = tuple(levels for levels in listed if all(map(ge, levels, reference.base)))
    for least, column in zip(reference.base, columns, strict=True):
        if least > column.max_level or listed == ():
            raise InputRefused(
                f"no candidate is as coarse as what is known; the column {column.name!r} is known at level {least}.",
                where="--release",
            )
    bounded = (
        dataclasses.replace(column, min_level=max(least, column.min_level))
        for least, column in zip(reference.base, columns, strict=True)
    )
    return Lattice(columns=tuple(bounded), candidates=listed)


def _information(request: Request, reference: ReferencePopulation, levels: Levels) -> float:
    """Share that a map keeps of the information at the reference's own levels, by the columns' weights."""
    weights = [float(column.weight) for column in _lattice(request, reference).columns]
    kept, most = (
        sum(
            weight * float(information_kept(hierarchy, level))
            for weight, hierarchy, level in zip(weights, reference.hierarchies, chosen, strict=True)
        )
        for chosen in (levels, reference.base)
    )
    return kept / most if most else 0.0


def _suggestion(
    request: Request, reference: ReferencePopulation, prediction: Forecast, levels: Levels, what: str
) -> Suggestion:
    then = suppression_at(reference, levels, k=prediction.k, rate=prediction.rate)
    return Suggestion(
        what=what,
        suppressed=then.suppressed,
        records=then.records,
        information=_information(request, reference, levels),
        epsilon=prediction.epsilon,
    )


def _another_map(
    request: Request, mechanism: Suppressing, reference: ReferencePopulation, prediction: Forecast, levels: Levels
) -> Iterator[Suggestion]:
    best = best_levels(request, mechanism, reference)
    if best is None or best == levels:
        return
    words = ", ".join(
        f"{name} {then}" for name, now, then in zip(reference.names, levels, best, strict=True) if now != then
    )
    yield _suggestion(
        request, reference, prediction, best, f"Of all maps this one keeps most on these records; levels: {words}"
    )


def _steps(
    request: Request, reference: ReferencePopulation, prediction: Forecast, levels: Levels
) -> Iterator[Suggestion]:
    """Yield one level more for one column, where that saves enough to be worth it; one less, where little is lost."""
    lattice = _lattice(request, reference)
    if lattice.candidates is not None:
        return
    for place, column in enumerate(lattice.columns):
        coarser = (*levels[:place], levels[place] + 1, *levels[place + 1 :])
        finer = (*levels[:place], levels[place] - 1, *levels[place + 1 :])
        if levels[place] < column.max_level:
            step = _suggestion(
                request, reference, prediction, coarser, f"Publish {column.name} at level {levels[place] + 1}"
            )
            if prediction.estimate.suppressed - step.suppressed > LITTLE:
                yield step
        if levels[place] > column.min_level:
            step = _suggestion(
                request, reference, prediction, finer, f"Publish {column.name} at level {levels[place] - 1}"
            )
            if step.suppressed < min(1.0, prediction.estimate.suppressed + LITTLE):
                yield step


def _other_spending(
    reference: ReferencePopulation, request: Request, prediction: Forecast, levels: Levels
) -> Iterator[Suggestion]:
    """Another rate with its least k at no higher price, where it publishes clearly more."""
    best = max(prediction.same_price, key=lambda point: point.records, default=None)
    if best is None or best.epsilon is None or best.records <= (1.0 + LITTLE) * prediction.estimate.records:
        return
    yield Suggestion(
        what=f"Spend the same ε on rate {best.rate:g} with k = {best.k}",
        suppressed=best.suppressed,
        records=best.records,
        information=_information(request, reference, levels),
        epsilon=best.epsilon,
    )
