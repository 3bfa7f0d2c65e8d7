"""Audits of what samples, counts and suppresses: releases, histograms, points, series, several records of a person."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.survey_prices import price_biased_counts
from crowdblend.accounting.theory.planning.searches import epsilon_exact
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from crowdblend.mechanisms.kernel.contributions import ContributionKeys, chosen_counts, sorted_records
from crowdblend.mechanisms.kernel.group_counts import count_keys
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts
from crowdblend.mechanisms.kinds.histogram import SuppressedHistogram, suppressed_counts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease, suppress
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from crowdblend.mechanisms.synthetic_points import cell_numbers, points_of_counts
from crowdblend.mechanisms.unit_records import MemberLabel, UnitRule
from crowdblend.tasks.kernel.counting import unit_records
from numpy.typing import NDArray
from scipy.stats import binom

from .cases import Case, Draw, Pair

__all__ = ["count_cases", "exact_outcomes", "group_sizes", "safe_case"]

NUMPY = "the audit's (NumPy binomials), then the software's suppression"
OURS = "the software's (ChaCha20 by keyed chunks), its counting and its suppression"
Sampler = Callable[[int, int, np.random.Generator], NDArray[np.int64]]


def group_sizes(k: int, rate: float, epsilon: float) -> list[int]:
    """Sizes of t's group to try: the exact profile's two maximisers, their surroundings, and the small cases."""
    gamma = 1.0 - (1.0 - rate) * math.exp(-epsilon)
    eta = 1.0 - math.exp(epsilon) * (1.0 - rate)
    adding = max(k, math.ceil((k - 1) / gamma))
    sizes = {1, 2, k - 1, k, k + 1, adding - 1, adding, adding + 1, math.ceil(k / rate), 2 * math.ceil(k / rate)}
    if eta > 0.0:
        sizes.add(max(1, min(math.ceil((k - 1) / eta), 6 * math.ceil(k / rate))))
    return sorted(size for size in sizes if size >= 1)


def published(sampled: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The published count of each group, 0 where it is suppressed, by the software's own suppression."""
    survivors = suppress(np.arange(sampled.size).reshape(1, -1), sampled, k)
    outcomes = np.zeros(sampled.size, dtype=np.int64)
    outcomes[survivors.keys[0]] = survivors.counts
    return outcomes


def by_numpy(rate: float) -> Sampler:
    """Sampled counts of groups of a size, drawn as binomials."""
    return lambda size, groups, rng: rng.binomial(size, rate, groups) if size else np.zeros(groups, dtype=np.int64)


def by_coins(rate: Decimal) -> Sampler:
    """The same by the software's coins, one for each record, under a key of each block's own."""

    def sampled(size: int, groups: int, rng: np.random.Generator) -> NDArray[np.int64]:
        chunk = ChunkIdentity(file=int(rng.integers(100)), block=int(rng.integers(1000)))
        kept = kept_positions(key=rng.bytes(32), chunk=chunk, records=size * groups, rate=rate)
        counted = count_keys((kept // max(size, 1)).reshape(1, -1), cells=groups)
        whole = np.zeros(groups, dtype=np.int64)
        whole[counted.keys[0]] = counted.counts
        return whole

    return sampled


def suppressing(sampler: Sampler, *, size: int, k: int, without: int = 1) -> Draw:
    """Publish the group of t, of `size` records with t and of `size` − `without` without."""
    return lambda side, count, rng: published(sampler(size - without * side, count, rng), k)


def _name(size: int, without: int = 1) -> str:
    if size == without:
        return "one record against empty data" if size == 1 else f"{size} records against empty data"
    return f"group of {size} against {size - without}"


def safe_case(
    *, k: int, rate: str, delta: str, draws: int, scouts: int, coins: bool = False, goal: float = 0.8
) -> Case:
    """The strongly-safe release with these parameters."""
    beta = float(rate)
    mechanism = StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
    charged = price(mechanism, delta=Decimal(delta))
    sampler = by_coins(Decimal(rate)) if coins else by_numpy(beta)
    sizes = group_sizes(k, beta, float(charged.epsilon))
    return Case(
        name=f"safe-k{k}-rate{rate}-delta{delta}{'-coins' if coins else ''}",
        mechanism=f"strongly-safe release, k = {k}, β = {rate}",
        claim=float(charged.epsilon),
        delta=float(delta),
        rule=charged.rule,
        exact=epsilon_exact(k=k, sampling_rate=beta, delta=float(delta)),
        pairs=tuple(Pair(name=_name(size), draw=suppressing(sampler, size=size, k=k)) for size in sizes),
        draws=draws,
        scouts=scouts,
        block=500_000 if coins else 2_000_000,
        coins=OURS if coins else NUMPY,
        goal=goal,
        exact_outcomes=(lambda pair, side: exact_outcomes(sizes[pair] - side, k, beta)) if coins else None,
    )


def count_cases(scale: float) -> list[Case]:
    """Every case of this module."""

    def times(draws: int) -> int:
        return max(2_000, round(draws * scale))

    scouts = times(2_000_000)
    return [
        safe_case(k=20, rate="0.1", delta="1e-3", draws=times(100_000_000), scouts=scouts),
        safe_case(k=20, rate="0.1", delta="1e-4", draws=times(200_000_000), scouts=times(5_000_000)),
        safe_case(k=20, rate="0.1", delta="1e-6", draws=times(400_000_000), scouts=times(10_000_000), goal=0.0),
        safe_case(k=20, rate="0.2", delta="1e-4", draws=times(100_000_000), scouts=scouts),
        safe_case(k=5, rate="0.2", delta="1e-3", draws=times(100_000_000), scouts=scouts, coins=True),
        safe_case(k=20, rate="0.5", delta="1e-3", draws=times(20_000_000), scouts=times(500_000), coins=True),
        _suppressed(times(20_000_000), times(500_000)),
        _points(times(2_000_000), times(100_000)),
        _biased(times(20_000_000), times(500_000)),
        _series(times(10_000_000), times(500_000)),
        _several_records(times(20_000_000), times(1_000_000)),
        *(_over_contributor(most, times(2_000_000), times(100_000)) for most in (1, 2)),
        _over_contributor(1, times(2_000_000), times(100_000), household=True),
    ]


def _suppressed(draws: int, scouts: int) -> Case:
    mechanism = SuppressedHistogram(k=20, sampling_rate=Decimal("0.2"))
    delta = Decimal("1e-3")
    charged = price(mechanism, delta=delta)
    sampler = by_numpy(0.2)

    def draw(size: int) -> Draw:
        return lambda side, count, rng: suppressed_counts(sampler(size - side, count, rng), mechanism)

    return Case(
        name="suppressed-histogram",
        mechanism="suppressed histogram on a sample, k = 20, β = 0.2",
        claim=float(charged.epsilon),
        delta=float(delta),
        rule=charged.rule,
        exact=epsilon_exact(k=20, sampling_rate=0.2, delta=1e-3),
        pairs=tuple(Pair(name=_name(n), draw=draw(n)) for n in group_sizes(20, 0.2, float(charged.epsilon))),
        draws=draws,
        scouts=scouts,
        block=1_000_000,
        coins="the audit's (NumPy binomials)",
    )


def _points(draws: int, scouts: int) -> Case:
    grid = SyntheticPoints(
        dimensions=1, cells_per_side=2_000, counts=StronglySafeRelease(k=5, sampling_rate=Decimal("0.2"))
    )
    delta = Decimal("1e-3")
    charged = price(grid, delta=delta)
    sampler = by_numpy(0.2)

    def draw(size: int) -> Draw:
        def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
            parts = []
            for _ in range(-(-count // grid.cells)):
                counts = published(sampler(size - side, grid.cells, rng), 5)
                seen = points_of_counts(grid, counts)
                parts.append(np.bincount(cell_numbers(grid, seen), minlength=grid.cells))
            return np.concatenate(parts)[:count]

        return outcomes

    return Case(
        name="synthetic-points",
        mechanism="synthetic points, one dimension, k = 5, β = 0.2",
        claim=float(charged.epsilon),
        delta=float(delta),
        rule=charged.rule,
        exact=epsilon_exact(k=5, sampling_rate=0.2, delta=1e-3),
        pairs=tuple(Pair(name=_name(n), draw=draw(n)) for n in (1, 5, 6, 7, 8, 9, 25)),
        draws=draws,
        scouts=scouts,
        block=200_000,
        coins=NUMPY,
    )


def _biased(draws: int, scouts: int) -> Case:
    mechanism = BiasedSampleCounts(
        k=20,
        lowest_rate=Decimal("0.1"),
        highest_rate=Decimal("0.11"),
        largest_rate=Decimal("0.11"),
        exceptions=0,
    )
    delta = Decimal("1e-3")
    charged = price_biased_counts(mechanism, delta=delta)

    def draw(others: int, rate: float) -> Draw:
        def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
            sampled = rng.binomial(others, rate, count)
            if side == 0:
                sampled += rng.random(count) < 0.11
            return published(sampled, 20)

        return outcomes

    return Case(
        name="biased-sample",
        mechanism="counts of data that are a biased sample, k = 20, rates 0.1 … 0.11",
        claim=float(charged.epsilon),
        delta=float(delta),
        rule=charged.rule,
        exact=epsilon_exact(k=20, sampling_rate=0.11, delta=1e-3),
        pairs=tuple(
            Pair(name=f"{others} others at rate {rate}, t at 0.11", draw=draw(others, rate))
            for others in (19, 40, 70, 100, 140, 180)
            for rate in (0.1, 0.11)
        ),
        draws=draws,
        scouts=scouts,
        block=1_000_000,
        coins="the audit's (NumPy), since the data's own sampling is what protects",
    )


def exact_outcomes(size: int, k: int, rate: float) -> NDArray[np.float64]:
    """Probabilities of the published counts 0 … `size`; by SciPy, not by the audited theory."""
    masses = binom.pmf(np.arange(size + 1), size, rate)
    dropped = masses[:k].sum()
    masses[:k] = 0.0
    masses[0] += dropped
    return masses


def log_ratios(size: int, k: int, rate: float) -> NDArray[np.float64]:
    """How much likelier each published count is with t than without; by SciPy, not by the audited theory."""
    counts = np.arange(k, size + 1)
    with np.errstate(divide="ignore"):
        kept = binom.logpmf(counts, size, rate) - binom.logpmf(counts, size - 1, rate)
    dropped = binom.logcdf(k - 1, size, rate) - binom.logcdf(k - 1, size - 1, rate)
    return np.concatenate((np.full(k, dropped), np.minimum(kept, 30.0)))


def _series(draws: int, scouts: int) -> Case:
    releases, k, rate = 4, 20, 0.2
    delta = Decimal("1e-3")
    mechanism = StronglySafeRelease(k=k, sampling_rate=Decimal("0.2"))
    charged = price(mechanism, delta=delta, releases=releases)
    sampler = by_numpy(rate)

    def draw(size: int) -> Draw:
        ratios = log_ratios(size, k, rate)

        def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
            loss = np.zeros(count)
            for _ in range(releases):
                loss += ratios[published(sampler(size - side, count, rng), k)]
            return np.clip(np.rint(loss * 200.0) + 2_000, 0, 4_000).astype(np.int64)

        return outcomes

    return Case(
        name="series-of-4",
        mechanism="series of 4 strongly-safe releases, k = 20, β = 0.2",
        claim=float(charged.epsilon),
        delta=float(delta),
        rule=charged.rule,
        exact=None,
        pairs=tuple(Pair(name=_name(size), draw=draw(size)) for size in (20, 30, 45, 55, 65, 75, 85, 100, 140)),
        draws=draws,
        scouts=scouts,
        block=500_000,
        coins=NUMPY,
    )


def _several_records(draws: int, scouts: int) -> Case:
    mechanism = StronglySafeRelease(k=20, sampling_rate=Decimal("0.2"))
    delta = Decimal("1e-3")
    charged = price(mechanism, delta=delta, rows_per_person=2)
    sampler = by_numpy(0.2)
    sizes: Sequence[int] = (2, 21, 40, 50, 60, 70, 80, 100)
    return Case(
        name="two-records-a-person",
        mechanism="strongly-safe release, k = 20, β = 0.2, two records a person",
        claim=float(charged.epsilon),
        delta=float(delta),
        rule=charged.rule,
        exact=None,
        pairs=tuple(Pair(name=_name(size, 2), draw=suppressing(sampler, size=size, k=20, without=2)) for size in sizes),
        draws=draws,
        scouts=scouts,
        block=1_000_000,
        coins=NUMPY,
    )


def _regions(count: int) -> GeneralizationMap:
    """Return the map of so many regions; region number i has the code i + 2."""
    hierarchy = IntervalHierarchy(lower=0, upper=count, widths=())
    return GeneralizationMap(columns=(MappedColumn(name="region", hierarchy=hierarchy, level=0),))


def _over_contributor(most: int, draws: int, scouts: int, *, household: bool = False) -> Case:
    """Somebody with fifty records in a group, of which `most` may count or which make one; all others have one each."""
    rate, k, delta, planted = Decimal("0.2"), 5 * most, Decimal("1e-3"), 50
    mechanism = StronglySafeRelease(k=k, sampling_rate=rate)
    charged = price(mechanism, delta=delta, rows_per_person=most)

    def draw(size: int) -> Draw:
        others = size - most

        def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
            keys = ContributionKeys(secret=rng.bytes(32))
            people = others + 1 - side  # in each group, the last with t's records
            groups = np.repeat(np.arange(count, dtype=np.int64), people)
            numbers = np.arange(count * people, dtype=np.int64)
            persons = np.ascontiguousarray(keys.of_numbers(numbers)).view(np.int64)
            records = np.ones(numbers.size, dtype=np.int64)
            if side == 0:
                records[others::people] = planted
            region = _regions(count)
            found = sorted_records(np.vstack((persons, groups + 2)), records, cells=region.cells)
            if household:
                rule = MemberLabel(column=region.columns[0], by=region.columns[0], highest=True)
                made = UnitRule(members=region.columns, derived={"region": rule}).records(region)
                found = unit_records(found, made, layout=region.layout)
            counted = chosen_counts(found, most=most, rate=rate, cells=region.cells, keys=keys)
            sampled = np.zeros(count, dtype=np.int64)
            sampled[counted.keys[0] - 2] = counted.counts
            return published(sampled, k)

        return outcomes

    sizes = [size for size in group_sizes(k, 0.2, float(charged.epsilon)) if size >= most]
    return Case(
        name="oversized-household" if household else f"over-contributor-{most}",
        mechanism=f"strongly-safe release, k = {k}, β = 0.2, "
        + ("of a household's 50 records one is made" if household else f"of a person's 50 records {most} may count"),
        claim=float(charged.epsilon),
        delta=float(delta),
        rule=charged.rule,
        exact=None,
        pairs=tuple(Pair(name=_name(size, most), draw=draw(size)) for size in sizes),
        draws=draws,
        scouts=scouts,
        block=50_000,
        coins="the software's (AES by person, group and number), its limit and its suppression",
    )
