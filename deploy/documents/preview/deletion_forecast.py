"""What a deletion release would publish at each stage, in expectation; and what sampling would at the same price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ....accounting.kernel.prices.registry import price
from ....accounting.theory.planning.deletion_planning import DeletionPlan, plan_deletion
from ....accounting.theory.planning.inversion import Target, least_k
from ....accounting.theory.planning.paired_planning import plan_paired_again
from ....accounting.theory.planning.parts_beside import asked_again
from ....flows.releases.deletion_request import DeletionRequest
from ....mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.recoding import coarsened
from ....mechanisms.kinds.deletion import DeletionRelease
from ....mechanisms.kinds.deletion_noise import WEIGHT_TOTAL, deletion_weights, expected_deletion, largest_deletion
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ....mechanisms.map_selection.choice import Levels
from ....mechanisms.record_weights import deletion_variance
from .changes import TellingRecords, column_changes, columns_kept, telling_records
from .reference_population import Groups, ReferencePopulation, limit_remarks
from .suppression_forecast import MOST_LABELS, SAME_PRICE_RATES, ForecastBasis, worst_labels

LIKE_PRICES = Decimal("0.01")
"""A plan with about the same shares isn't shown beside the specification's own where their prices are so near."""
EPSILONS = tuple(Decimal(epsilon) for epsilon in ("0.1", "0.2", "0.5", "1", "2", "4"))
MOST_COLUMNS_PRICED = 40
"""Other prices of a release that counts the pairs of more columns take long, and aren't tried."""
WIDEST = 2_000
"""Prices whose noise is wider are not tried: they would take long, and publish next to nothing."""
BLOCK = 1 << 21
"""So many numbers are convolved at once."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageForecast:
    """One stage, in expectation.

    Args:
        block: Name of the table of rows; empty where there is one table.
        stage: Number of the stage, 1 for the finest.
        levels: Level of each column.
        groups: Number of groups that have a record in the population, at these levels.
        published_groups: Expected number of groups that would be published.
        left: Expected number of records that the stage finds.
        published: Expected number of records that the stage would publish.
        withheld: Share of the records found that the stage would not publish: they go on, or at the last stage are
            deleted for good.
    """

    block: str
    stage: int
    levels: dict[str, int]
    groups: int
    published_groups: float
    left: float
    published: float
    withheld: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TableForecast:
    """One of several tables of rows, in expectation.

    Args:
        block: Name of the table.
        columns: Its columns.
        published: Expected number of published records, at all its stages.
        groups: Expected number of published groups.
        deleted: Share of all records that no stage of it would publish.
        telling: How much its records would tell; the information is a share of that of its columns.
    """

    block: str
    columns: tuple[str, ...]
    published: float
    groups: float
    deleted: float
    telling: TellingRecords


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledInstead:
    """The sampled release by the map of a stage that publishes most at no higher price, among some rates.

    Args:
        stage: Stage whose map the sampled release has.
        k: Suppression threshold, the least at this rate and price.
        rate: Sampling rate.
        epsilon: ε that would be charged.
        records: Expected number of published records.
        groups: Expected number of published groups.
        suppressed: Share of the sampled records that would be left out.
    """

    stage: int
    k: int
    rate: float
    epsilon: float
    records: float
    groups: float
    suppressed: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ByEpsilon:
    """Another ε at the same δ, with the noise that follows from it.

    Args:
        epsilon: Largest ε that would be charged.
        expected_deletion: Expected number of records that a group loses at a stage.
        largest_deletion: Largest number of records that a group loses at a stage.
        published: Expected number of published records, at all stages.
        groups: Expected number of published groups, at all stages.
        deleted: Share of all records that no stage would publish.
        chosen: Whether this is the price of the specification.
    """

    epsilon: float
    expected_deletion: float
    largest_deletion: int
    published: float
    groups: float
    deleted: float
    chosen: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionForecast(ForecastBasis):
    """A preview of a deletion release.

    Args:
        expected_deletion: Expected number E[Z] of records that a group loses at a stage.
        largest_deletion: Largest number of records that a group loses at a stage.
        published: Expected number of published records, at all stages of all tables.
        groups: Expected number of published groups, at all stages of all tables.
        deleted: Share of all records that no stage would publish; of several tables the mean.
        stages: What each stage would do, table by table.
        members: What each stage of the table of members would do; empty where there is none, or where the reference
            population has no members.
        tables: What each table of rows would have; empty where there is one.
        sampled: What sampling would publish instead; empty where sampling has no such price.
        by_epsilon: The specification's price and others, with the noise that follows from each.
    """

    expected_deletion: float
    largest_deletion: int
    published: float
    groups: float
    deleted: float
    stages: tuple[StageForecast, ...]
    members: tuple[StageForecast, ...]
    tables: tuple[TableForecast, ...]
    sampled: tuple[SampledInstead, ...]
    by_epsilon: tuple[ByEpsilon, ...]

    @property
    def columns(self) -> int:
        """How many columns are released."""
        return len({name for stage in self.stages for name in stage.levels})

    @property
    def published_groups(self) -> float:
        """How many groups would be published, at all stages."""
        return self.groups


def forecast_deletion(
    request: DeletionRequest, reference: ReferencePopulation, *, chain: Sequence[Levels]
) -> DeletionForecast:
    """Predict a release with one table of rows on a public reference population.

    Args:
        request: the specification.
        reference: who stands for the private records.
        chain: the levels of each stage, nowhere finer than the reference population's.
    """
    groups = _chained(reference, chain)
    own = _expected(request.mechanism, reference, groups)

    def evaluate(some: ReferencePopulation, levels: Sequence[Levels]) -> TellingRecords:
        parts = _chained(some, levels)
        return _telling(some, levels, parts, _expected(request.mechanism, some, parts))

    last = groups[-1].groups
    lost = own[-1].withheld / np.maximum(last.counts * reference.scale, 1e-300)
    return replace(
        forecast_tables(request, reference, tables={"": (reference, chain)}),
        tables=(),
        sampled=tuple(_sampled(request, reference, groups)),
        by_label=tuple(worst_labels(reference, last, chain[-1], lost, together=1)[:MOST_LABELS]),
        changes=column_changes(reference, chain, evaluate),
        kept=columns_kept(reference, chain, evaluate),
    )


def forecast_tables(
    request: DeletionRequest,
    reference: ReferencePopulation,
    *,
    tables: Mapping[str, tuple[ReferencePopulation, Sequence[Levels]]],
) -> DeletionForecast:
    """Predict a release with several tables of rows on a public reference population.

    Args:
        request: the specification.
        reference: who stands for the private records.
        tables: of each, by its name, the same people with its columns, and the levels of each stage.
    """
    mechanism, charged = request.mechanism, request.price
    chained = {name: _chained(some, chain) for name, (some, chain) in tables.items()}
    expected = {name: _expected(mechanism, tables[name][0], groups) for name, groups in chained.items()}
    parts = [
        TableForecast(
            block=name,
            columns=some.names,
            published=float(sum(stage.published.sum() for stage in expected[name])),
            groups=float(sum(stage.there.sum() for stage in expected[name])),
            deleted=_share(float(expected[name][-1].withheld.sum()), reference.people),
            telling=_telling(some, chain, chained[name], expected[name]),
        )
        for name, (some, chain) in tables.items()
    ]
    plans = [DeletionPlan(mechanism=mechanism, price=charged), *_plans(request)]
    prices = (_at(plan, reference, tables, chained, chosen=plan is plans[0]) for plan in plans)
    return DeletionForecast(
        crowd=reference.origin,
        remarks=(*reference.remarks, *limit_remarks(request)),
        people=reference.people,
        k=mechanism.k,
        epsilon=float(charged.epsilon),
        delta=float(charged.delta),
        expected_deletion=float(expected_deletion(mechanism.noise)),
        largest_deletion=largest_deletion(mechanism.noise),
        published=sum(part.published for part in parts),
        groups=sum(part.groups for part in parts),
        deleted=sum(part.deleted for part in parts) / len(parts),
        stages=tuple(
            stage
            for name, (some, chain) in tables.items()
            for stage in _stage_forecasts(name, some, chain, chained[name], expected[name])
        ),
        members=tuple(_of_members(request, reference)),
        tables=tuple(parts),
        sampled=(),
        by_epsilon=tuple(sorted(prices, key=lambda one: one.epsilon)),
        by_label=(),
        telling=_told_by_all(parts),
        undeclared=reference.undeclared,
        changes=(),
        kept=(),
    )


def _told_by_all(parts: Sequence[TableForecast]) -> TellingRecords:
    """Return what all tables tell: their records added up, the fewest columns, and the mean by the columns' number."""
    columns = sum(len(part.columns) for part in parts)
    return TellingRecords(
        informative=sum(part.telling.informative for part in parts),
        columns_told=min(part.telling.columns_told for part in parts),
        information=sum(part.telling.information * len(part.columns) for part in parts) / columns,
    )


def _telling(
    reference: ReferencePopulation, chain: Sequence[Levels], groups: Sequence[_Chained], stages: Sequence[_Stage]
) -> TellingRecords:
    published = [(one.groups, stage.published) for one, stage in zip(groups, stages, strict=True)]
    return telling_records(reference, chain, published)


def _at(
    plan: DeletionPlan,
    reference: ReferencePopulation,
    tables: Mapping[str, tuple[ReferencePopulation, Sequence[Levels]]],
    chained: Mapping[str, Sequence[_Chained]],
    *,
    chosen: bool,
) -> ByEpsilon:
    expected = [_expected(plan.mechanism, some, chained[name]) for name, (some, _) in tables.items()]
    deleted = [_share(float(stages[-1].withheld.sum()), reference.people) for stages in expected]
    return ByEpsilon(
        epsilon=float(plan.price.epsilon),
        expected_deletion=plan.expected_deletion,
        largest_deletion=plan.largest_deletion,
        published=float(sum(stage.published.sum() for stages in expected for stage in stages)),
        groups=float(sum(stage.there.sum() for stages in expected for stage in stages)),
        deleted=sum(deleted) / len(deleted),
        chosen=chosen,
    )


def _stage_forecasts(
    name: str,
    some: ReferencePopulation,
    chain: Sequence[Levels],
    chained: Sequence[_Chained],
    expected: Sequence[_Stage],
) -> Iterator[StageForecast]:
    """Yield what each stage of a table of rows would do."""
    for number, (levels, one, stage) in enumerate(zip(chain, chained, expected, strict=True), start=1):
        yield StageForecast(
            block=name,
            stage=number,
            levels=dict(zip(some.names, levels, strict=True)),
            groups=int(one.groups.counts.size),
            published_groups=float(stage.there.sum()),
            left=float(stage.left.sum()),
            published=float(stage.published.sum()),
            withheld=_share(float(stage.withheld.sum()), float(stage.left.sum())),
        )


def _of_members(request: DeletionRequest, reference: ReferencePopulation) -> Iterator[StageForecast]:
    """Yield what each stage of the table of members would do; nothing where there is none, or its noise is too wide."""
    if request.members is None or reference.members is None:
        return
    table, mechanism = request.members
    if largest_deletion(mechanism.members.noise) > WIDEST:
        return
    some, chain = reference.members, [tuple(column.level for column in one.columns) for one in table.maps]
    groups = _chained(some, chain)
    expected = _expected(mechanism.members.release(k=mechanism.k), some, groups)
    yield from _stage_forecasts("", some, chain, groups, expected)


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole else 0.0


def _plans(request: DeletionRequest) -> Iterator[DeletionPlan]:
    """Yield the noise that follows from other prices, where there is one."""
    mechanism, charged, paired = request.mechanism, request.price, request.paired
    if paired is not None and paired.mechanism.margins > MOST_COLUMNS_PRICED:
        return
    for epsilon in EPSILONS:
        try:
            if paired is not None:
                plan = plan_paired_again(
                    paired.mechanism, epsilon=epsilon, delta=charged.delta, rows_per_person=charged.rows_per_person
                )
            else:
                rows = mechanism.stages / float(deletion_variance(mechanism.noise))
                plan = plan_deletion(
                    epsilon=epsilon,
                    delta=charged.delta,
                    stages=mechanism.stages,
                    rows_per_person=charged.rows_per_person,
                    k=mechanism.k,
                    members=asked_again(mechanism, precision=rows),
                )
        except InputRefused:
            continue
        # A law has as many entries as the noise is wide, for each group: wider noise would take minutes.
        near = (paired or request.members) is not None and abs(plan.price.epsilon / charged.epsilon - 1) < LIKE_PRICES
        if not near and plan.mechanism.noise != mechanism.noise and plan.largest_deletion <= WIDEST:
            yield plan


def _sampled(
    request: DeletionRequest, reference: ReferencePopulation, groups: Sequence[_Chained]
) -> Iterator[SampledInstead]:
    """For each stage's map the rate of `SAME_PRICE_RATES` that publishes most with the least k that costs no more."""
    charged = request.price
    if charged.rows_per_person > 1 or request.members is not None:  # no sample has a table of members
        return
    releases = []
    for rate in SAME_PRICE_RATES:
        try:
            k = least_k(rate, Target(epsilon=charged.epsilon, delta=charged.delta))
        except InputRefused:
            continue
        releases.append(StronglySafeRelease(k=k, sampling_rate=rate))
    for stage, one in enumerate(groups, start=1):
        found = [
            (reference.suppression_estimate(one.groups, k=release.k, rate=float(release.sampling_rate)), release)
            for release in releases
        ]
        if found:
            best, release = max(found, key=lambda pair: pair[0].records)
            yield SampledInstead(
                stage=stage,
                k=release.k,
                rate=float(release.sampling_rate),
                epsilon=float(price(release, delta=charged.delta).epsilon),
                records=best.records,
                groups=best.groups,
                suppressed=best.suppressed,
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chained:
    """The groups of a stage's map, and which of the next one's theirs become part of; none at the last.

    Args:
        groups: of the population.
        parents: shape (groups,), or None.
    """

    groups: Groups
    parents: NDArray[np.int64] | None


def _chained(reference: ReferencePopulation, chain: Sequence[Levels]) -> list[_Chained]:
    maps = [
        GeneralizationMap(
            columns=tuple(
                MappedColumn(name=name, hierarchy=hierarchy, level=level)
                for name, hierarchy, level in zip(reference.names, reference.hierarchies, levels, strict=True)
            )
        )
        for levels in chain
    ]
    here, found = reference.at(chain[0]), []
    for finer, coarser in pairwise(maps):
        above, parents = coarsened(
            finer.keys(list(here.codes)), finer=finer, coarser=coarser, tables=finer.tables_to(coarser)
        )
        found.append(_Chained(groups=here, parents=parents))
        counts = np.zeros(above.shape[1], dtype=np.int64)
        np.add.at(counts, parents, here.counts)
        here = Groups(columns=here.columns, codes=tuple(coarser.decode(above)), counts=counts)
    return [*found, _Chained(groups=here, parents=None)]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stage:
    """What a stage does in expectation, for each of its groups; all of shape (groups,).

    Args:
        left: records that it finds.
        there: the probability that the group is published.
        published: records.
        withheld: records.
    """

    left: Numbers
    there: Numbers
    published: Numbers
    withheld: Numbers


def _expected(mechanism: DeletionRelease, reference: ReferencePopulation, groups: Sequence[_Chained]) -> list[_Stage]:
    """Return each stage in expectation, exactly but for rounding; nothing is simulated.

    How many records are left of a group has a law: at the first stage the group's size, later the sum of what its parts
    have left, which are independent. A group of max Z + k records or more is published for certain, so that a law is
    kept for fewer than that, and the mean.
    """
    noise = _Noise.of(mechanism)
    law = _law_of_counts(groups[0].groups.counts, reference.scale, noise.certain)
    mean: Numbers = groups[0].groups.counts * np.float64(reference.scale)
    stages: list[_Stage] = []
    for one in groups:
        # The law has the sizes below `certain` alone; what it lacks of 1 is the probability of a larger size.
        certain = np.maximum(1.0 - law.sum(axis=1), 0.0)
        # The large sizes' part of the mean, less E[Z] each: for them publishing is certain, so that the mean is all
        # that is needed.
        of_certain = np.maximum(mean - law @ np.arange(noise.certain), 0.0) - certain * noise.mean
        published = law @ noise.published + np.where(certain > 0.0, of_certain, 0.0)
        stages.append(
            _Stage(left=mean, there=law @ noise.there + certain, published=published, withheld=mean - published)
        )
        if one.parents is not None:
            # A group that was published for certain leaves exactly Z records to the next stage.
            law = _sums(law @ noise.withheld + certain[:, np.newaxis] * noise.weights, one.parents)
            mean = np.zeros(law.shape[0])
            np.add.at(mean, one.parents, stages[-1].withheld)
    return stages


@dataclass(frozen=True, kw_only=True, slots=True)
class _Noise:
    """What the noise does to a group of r records, for each r below `certain`.

    Args:
        certain: max Z + k; a group of so many records is published whatever Z is.
        mean: E[Z].
        weights: Pr[Z = z] for z below `certain`.
        there: the probability that the group is published, shape (certain,).
        published: its published records in expectation, shape (certain,).
        withheld: the probability that so many of r are withheld, shape (certain, certain).
    """

    certain: int
    mean: float
    weights: Numbers
    there: Numbers
    published: Numbers
    withheld: Numbers

    @staticmethod
    def of(mechanism: DeletionRelease) -> _Noise:
        """Return the noise of a mechanism, by its integer weights."""
        own = np.array([weight / WEIGHT_TOTAL for weight in deletion_weights(mechanism.noise)])
        certain = own.size - 1 + mechanism.k
        weights = np.zeros(certain)
        weights[: own.size] = own
        sizes = np.arange(certain)
        kept = sizes[:, np.newaxis] - sizes
        law = np.where(kept >= mechanism.k, weights, 0.0)
        there = law.sum(axis=1)
        return _Noise(
            certain=certain,
            mean=float(weights @ sizes),
            weights=weights,
            there=there,
            published=(kept * law).sum(axis=1),
            withheld=law + np.diag(1.0 - there),
        )


def _law_of_counts(counts: NDArray[np.int64], scale: float, below: int) -> Numbers:
    """For groups of counted records the probability of each number of records below a bound, shape (groups, below).

    Where a counted record stands for less than one person, each is one with that probability; where for more, the
    group is taken to be that much larger.
    """
    sizes = np.arange(below)
    if scale >= 1.0:
        return np.asarray(np.rint(counts * scale)[:, np.newaxis] == sizes, dtype=np.float64)
    from scipy.stats import binom  # SciPy loads slowly, and most previews do without it

    return np.asarray(binom.pmf(sizes, counts[:, np.newaxis], scale), dtype=np.float64)


def _sums(laws: Numbers, owners: NDArray[np.int64]) -> Numbers:
    """Return the law of the sum of independent numbers with one owner each, for every owner; shape (owners, as given).

    Numbers aren't negative, so what lies beyond the laws' last place never comes back.

    Args:
        laws: shape (n, places).
        owners: 0, 1, …, each at least once; shape (n,).
    """
    order = np.argsort(owners, kind="stable")
    laws, owners = laws[order], owners[order]
    while np.any(same := owners[1:] == owners[:-1]):
        starts = np.flatnonzero(np.concatenate(([True], ~same)))
        rank = np.arange(owners.size) - np.repeat(starts, np.diff(np.append(starts, owners.size)))
        first = np.flatnonzero(rank % 2 == 0)
        pairs = first[(first + 1 < owners.size) & (owners[np.minimum(first + 1, owners.size - 1)] == owners[first])]
        for block in np.array_split(pairs, max(1, pairs.size * laws.shape[1] // BLOCK)):
            laws[block] = _convolved(laws[block], laws[block + 1])
        laws, owners = laws[first], owners[first]
    return laws


def _convolved(one: Numbers, other: Numbers) -> Numbers:
    places = one.shape[1]
    long = 2 * places
    both = np.fft.irfft(np.fft.rfft(one, long) * np.fft.rfft(other, long), long)[:, :places]
    return np.maximum(both, 0.0)
