"""The ways of releasing that are compared, each by the mechanism's own functions at a price of ε and δ.

What is charged, stored and signed around a release is left out; `k_marginal.py` and `deletion.py` make whole releases.
Draws are seeded so that figures can be had again; a release takes its own from the operating system.

- *sampled*: by the usual or the coarse map, with the β, a multiple of a tenth, and the k that publish most by it.
- *sampled, calibrated*: the same with noisy counts of each column's values besides (`share = 0.5`), to which weights
  are raked; *sampled, total* with the number of all records alone.
- *ARX's method*: sampled, at the parameters that ARX 3.9.2 takes: β = 1 − e^−ε, and k one above the least that the
  paper's d allows (LQS, arXiv:1101.2604v2, Theorem 3.9). Its claim of (ε, δ) is taken as it is, and its search for a
  map, which isn't private, is left out: the map is the same as the others'.
- *deletion*: one stage by the usual map; three stages by values, usual and coarse labels; *calibrated* with noisy
  counts of each column besides (`share = 0.35`), to which weights are raked, and by which values within a label are
  weighted.
- *deletion, chosen pairs* and *…, chosen pairs and labels*: `pairs.py`; pairs are read off the release's own model of
  margins, counted pairs and rows, as `fitted` in its files has them.
- *noisy histogram*: two-sided geometric noise of ε in every cell of the usual map (a `CountAnswer` by group).
- *subsample*: a tenth of the records as they are; no guarantee at all.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache

import numpy as np
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.accounting.theory.count_bounds import (
    ERROR,
    HALF,
    BinomialBounds,
    CountBounds,
    NormalBounds,
    deletion_bounds,
)
from crowdblend.accounting.theory.count_bounds import Amounts as CountedAmounts
from crowdblend.accounting.theory.planning.calibrated_sample_planning import plan_calibrated_sample
from crowdblend.accounting.theory.planning.deletion_planning import DeletionPlan, plan_deletion
from crowdblend.accounting.theory.planning.inversion import Target, least_k, least_k_of_paper
from crowdblend.flows.margin_specs import raked_weights
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, count_keys
from crowdblend.mechanisms.kernel.recoding import coarsened
from crowdblend.mechanisms.kinds.calibrated_sample import CalibratedSample
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion, delete_records
from crowdblend.mechanisms.kinds.deletion_noise import draw_deletions, expected_deletion
from crowdblend.mechanisms.kinds.margins import TOTAL, noisy_margins, split_margins
from crowdblend.mechanisms.kinds.microdata import suppress
from crowdblend.mechanisms.record_weights import deletion_variance, record_weights
from numpy.typing import NDArray
from scipy.stats import binom, nbinom

from .deletion import DELTA, RATES, Sampling
from .tables import COARSE_LEVEL, USUAL_LEVEL, Table

__all__ = [
    "SUBSAMPLE",
    "WAYS",
    "Released",
    "arx_sampling",
    "counted",
    "deleted",
    "drawn_noise",
    "most_published",
    "of_values",
    "planned_deletion",
    "sampled",
    "sampled_coarse",
]

SUBSAMPLE, SHARE, SHARE_OF_SAMPLE = Decimal("0.1"), Decimal("0.35"), Decimal("0.5")
_FIVE_DIGITS = Context(prec=5, rounding=ROUND_FLOOR)
_QUANTILE_OF_HALF = 2.241403
"""Of the normal law, for half of the error of one bound."""

Amounts = NDArray[np.float64]
Codes = NDArray[np.int64]
Bounds = Callable[[NDArray[np.bool_], int], tuple[float, float]]
Margins = tuple[Sequence[Amounts], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Released:
    """What a user has.

    Args:
        shares: per column, of each group the share of each value; shape (groups, values).
        labels: per column, of each group its usual label's code, or -1 where it is coarser; shape (groups,).
        rows: records of each group, shape (groups,).
        weights: what each of them stands for, shape (groups,).
        real: how many records of people it has; 0 where none is one.
        bounds: what is said of a count: of the groups that are counted, and how many combinations
            of labels were declared there, the least and the most; None where nothing is said.
        bounds_level: the level of labels that they are told for.
        margins: counts by each column's labels, and their standard error; None where there are none.
        margins_level: the level of these labels; 0 are the values.
        pair_tables: for each pair of columns the counts by their values that the release's files give, where they give
            them otherwise than by rows.
        counted_pairs: pairs that were counted: their columns, the label of each value, the noisy counts, their error.
    """

    shares: Sequence[Amounts]
    labels: Sequence[Codes]
    rows: Amounts
    weights: Amounts
    real: int
    bounds: Bounds | None = None
    bounds_level: int = USUAL_LEVEL
    margins: Margins | None = None
    margins_level: int = 0
    pair_tables: Sequence[Amounts] | None = None
    counted_pairs: Sequence[tuple[int, int, Sequence[Codes], Amounts, float]] = ()

    @property
    def mass(self) -> Amounts:
        """What each group stands for."""
        return self.rows * self.weights


def counted(table: Table, records: Codes, level: int) -> GroupCounts:
    """The records of each group by a level's labels."""
    recoding = table.map_of(level)
    keys = recoding.keys([own[values] for own, values in zip(table.label_codes(level), records, strict=True)])
    return count_keys(keys, cells=recoding.cells)


def of_values(table: Table, values: Codes, *, rows: Amounts, weights: Amounts, real: int) -> Released:
    """A release of the values themselves.

    Args:
        table: their columns.
        values: distinct combinations, shape (columns, groups); -1 for one that isn't known.
        rows: how often each.
        weights: of each row.
        real: how many are people's.
    """
    cases = [np.vstack([np.eye(size), np.full((1, size), 1.0 / size)]) for size in table.sizes]
    shares = [one[own] for one, own in zip(cases, values, strict=True)]
    labels = [np.append(own, -1)[codes] for own, codes in zip(table.label_codes(USUAL_LEVEL), values, strict=True)]
    return Released(shares=shares, labels=labels, rows=rows, weights=weights, real=real)


def _of_labels(
    table: Table,
    keys: Codes,
    *,
    level: int = USUAL_LEVEL,
    rows: Amounts,
    weights: Amounts,
    real: int,
    bounds: Bounds | None,
    margins: Margins | None = None,
) -> Released:
    codes = table.map_of(level).decode(keys)
    return Released(
        shares=[spread[own] for spread, own in zip(table.spread(level), codes, strict=True)],
        labels=codes if level == USUAL_LEVEL else [np.full_like(own, -1) for own in codes],
        rows=rows,
        weights=weights,
        real=real,
        bounds=bounds,
        bounds_level=level,
        margins=margins,
        margins_level=level,
    )


def _bounds(made: Callable[[int], CountBounds], counted: Amounts, there: Amounts) -> Bounds:
    """Return bounds by the formulas of `count_bounds`.

    Args:
        made: the formulas, by the number of combinations.
        counted: what each group adds, shape (groups,).
        there: 1 for those that are combinations of the last stage, 0 for others.
    """

    def told(inside: NDArray[np.bool_], combinations: int) -> tuple[float, float]:
        own = np.float64(counted[inside].sum()), np.float64(there[inside].sum())
        formulas = made(combinations)
        return float(formulas.at_least(*own)), float(formulas.at_most(*own))

    return told


def _sampled(
    table: Table, records: Codes, sampling: Sampling, coins: np.random.Generator, *, level: int = USUAL_LEVEL
) -> Released:
    groups, rate = counted(table, records, level), float(sampling.rate)
    kept = suppress(groups.keys, coins.binomial(groups.counts, rate), sampling.k)
    rows = kept.counts.astype(float)
    return _of_labels(
        table,
        kept.keys,
        level=level,
        rows=rows,
        weights=np.full(rows.size, 1.0 / rate),
        real=int(rows.sum()),
        bounds=_bounds(
            lambda number: BinomialBounds.of(rate, k=sampling.k, noise=None, combinations=number),
            rows,
            np.ones(rows.size),
        ),
    )


def sampled(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """Ours, by the usual map and the k and β that publish most by it."""
    return _sampled(table, records, most_published(table, records, epsilon, USUAL_LEVEL), coins)


def sampled_coarse(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """The same by the coarse map."""
    return _sampled(table, records, most_published(table, records, epsilon, COARSE_LEVEL), coins, level=COARSE_LEVEL)


@lru_cache
def _calibrated_samplings(epsilon: Decimal, margins: int) -> list[CalibratedSample]:
    """Each rate with the least k that the price allows beside margins."""
    found = []
    for rate in RATES:
        with contextlib.suppress(InputRefused):
            mechanism, _ = plan_calibrated_sample(
                epsilon=epsilon, delta=DELTA, sampling_rate=rate, k=None, margins=margins, share=SHARE_OF_SAMPLE
            )
            found.append(mechanism)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class TotalBounds:
    """Bounds where a noisy number of all people is published beside the rows: all who aren't others are of the set.

    At most there are as many as the total is at most, less the others at least. The error of that bound is shared
    evenly by the total's noise and by the sample.

    Args:
        rate: β, of the sample.
        total: the noisy number.
        deviation: of its noise.
        records: that are published.
    """

    rate: float
    total: float
    deviation: float
    records: int

    def at_least(self, counted: CountedAmounts, groups: CountedAmounts) -> CountedAmounts:
        """Return lower bounds; `counted` are records."""
        del groups
        return self._least(counted, ERROR / 2)

    def at_most(self, counted: CountedAmounts, groups: CountedAmounts) -> CountedAmounts:
        """Return upper bounds."""
        del groups
        return self.total + _QUANTILE_OF_HALF * self.deviation + HALF - self._least(self.records - counted, ERROR / 4)

    def _least(self, counted: CountedAmounts, error: float) -> CountedAmounts:
        return np.where(counted > 0, nbinom.ppf(error, np.maximum(counted, 1), self.rate) + counted, 0.0)


def _calibrated_sample(
    table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator, *, places: Sequence[tuple[int, ...]]
) -> Released:
    """A sampled release by the usual map with margins of all records, by the rate that publishes most."""
    groups, usual = counted(table, records, USUAL_LEVEL), table.map_of(USUAL_LEVEL)
    sizes = groups.counts
    mechanism = max(
        _calibrated_samplings(epsilon, len(places)),
        key=lambda one: float(
            sizes @ binom.sf(one.k - 2, sizes - 1, float(one.sampling_rate)) * float(one.sampling_rate)
        ),
    )
    rate = float(mechanism.sampling_rate)
    kept = suppress(groups.keys, coins.binomial(sizes, rate), mechanism.k)
    noisy = noisy_margins(groups, layout=usual, margins=places, release=mechanism, randomness=coins.bytes)
    cells = split_margins(noisy, layout=usual, margins=places)
    first = np.full(kept.counts.size, 1.0 / rate)
    raked = raked_weights(first, [kept], maps=(usual,), margins=places, noisy=cells)
    error, rows = math.sqrt(deletion_variance(mechanism.margin_noise)), kept.counts.astype(float)

    total = TotalBounds(rate=rate, total=float(np.sum(cells[0])), deviation=error, records=int(rows.sum()))
    return _of_labels(
        table,
        kept.keys,
        rows=rows,
        weights=raked.weights,
        real=int(rows.sum()),
        bounds=_bounds(lambda _: total, rows, np.ones(rows.size)) if places == [TOTAL] else None,
        margins=None if places == [TOTAL] else ([own[1:].astype(float) for own in cells], error),  # 0 is *, nobody's
    )


def sampled_calibrated(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """With a margin for each column."""
    return _calibrated_sample(table, records, epsilon, coins, places=[(place,) for place in range(len(table.names))])


def sampled_total(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """With the number of all records."""
    return _calibrated_sample(table, records, epsilon, coins, places=[TOTAL])


_CHOSEN: dict[tuple[str, int, Decimal, int], Sampling] = {}


def most_published(table: Table, records: Codes, epsilon: Decimal, level: int) -> Sampling:
    """The rate, a multiple of a tenth, and the least k for it, that publish most of these records by a level."""
    asked = table.name, records.shape[1], epsilon, level
    if asked not in _CHOSEN:
        sizes = counted(table, records, level).counts
        kept = [
            float(sizes @ binom.sf(one.k - 2, sizes - 1, float(one.rate))) * float(one.rate)
            for one in _samplings(epsilon)
        ]
        _CHOSEN[asked] = _samplings(epsilon)[int(np.argmax(kept))]
    return _CHOSEN[asked]


@lru_cache
def _samplings(epsilon: Decimal) -> list[Sampling]:
    """Each rate with the least k that the price allows."""
    found = []
    for rate in RATES:
        with contextlib.suppress(InputRefused):
            found.append(Sampling(k=least_k(rate, Target(epsilon=epsilon, delta=DELTA)), rate=rate))
    return found


@lru_cache
def arx_sampling(epsilon: Decimal) -> Sampling:
    """β = 1 − e^−ε, and k one above the least of the paper.

    Raises:
        ValueError: the paper proves nothing there.
    """
    rate = _FIVE_DIGITS.create_decimal(1 - (-epsilon).exp())
    least = least_k_of_paper(rate, Target(epsilon=epsilon, delta=DELTA))
    if least is None:
        raise ValueError(f"no k at ε = {epsilon}")
    return Sampling(k=least + 1, rate=rate)


def arx(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """ARX's parameters; it tells no errors."""
    found = _sampled(table, records, arx_sampling(epsilon), coins)
    return Released(shares=found.shares, labels=found.labels, rows=found.rows, weights=found.weights, real=found.real)


@lru_cache
def planned_deletion(epsilon: Decimal, stages: int, margins: int, share: Decimal = SHARE) -> DeletionPlan:
    """The noise of a deletion release at a price."""
    return plan_deletion(epsilon=epsilon, delta=DELTA, stages=stages, margins=margins, margin_share=share)


def deleted(
    table: Table,
    records: Codes,
    epsilon: Decimal,
    coins: np.random.Generator,
    *,
    levels: Sequence[int],
    margins: int,
    share: Decimal = SHARE,
) -> Released:
    """Stages by levels that all columns have, and a margin for each of so many columns, with a share of ε and δ."""
    mechanism = planned_deletion(epsilon, len(levels), margins, share).mechanism
    maps = [table.map_of(level) for level in levels]
    stages = [counted(table, records, levels[0])]
    parents: list[Codes] = []
    for finer, coarser in itertools.pairwise(maps):
        keys, places = coarsened(stages[-1].keys, finer=finer, coarser=coarser, tables=finer.tables_to(coarser))
        parents.append(places)
        stages.append(GroupCounts(keys, np.zeros(keys.shape[1], dtype=np.int64)))
    drawn = [draw_deletions(mechanism.noise, one.keys.shape[1], randomness=coins.bytes) for one in stages]
    left = delete_records(stages[0].counts, release=mechanism, parents=parents, deletions=drawn)
    published = [
        GroupCounts(one.keys[:, counts > 0], counts[counts > 0]) for one, counts in zip(stages, left, strict=True)
    ]
    weights = np.concatenate(
        [record_weights(one.counts, release=mechanism, stage=number) for number, one in enumerate(published, start=1)]
    )
    counts: list[Amounts] | None = None
    told: Margins | None = None
    if isinstance(mechanism, CalibratedDeletion):
        places_of = [(place,) for place in range(len(table.names))]
        noisy = noisy_margins(stages[0], layout=maps[0], margins=places_of, release=mechanism, randomness=coins.bytes)
        cells = split_margins(noisy, layout=maps[0], margins=places_of)
        weights = raked_weights(weights, published, maps=maps, margins=places_of, noisy=cells).weights
        counts = [own[codes].astype(float) for own, codes in zip(cells, table.label_codes(levels[0]), strict=True)]
        told = list(counts), math.sqrt(deletion_variance(mechanism.margin_noise))
    shares: list[list[Amounts]] = [[] for _ in table.names]
    labels: list[list[Codes]] = [[] for _ in table.names]
    ends = np.cumsum([one.counts.size for one in published])
    for level, one, recoding, end in zip(levels, published, maps, ends.tolist(), strict=True):
        mass = (one.counts * weights[end - one.counts.size : end])[:, None]
        spread = table.spread(level, counts)
        for place, codes in enumerate(recoding.decode(one.keys)):
            column = recoding.columns[place].hierarchy
            shares[place].append(spread[place][codes])
            usual = (
                column.coarser(codes, level=level, to=USUAL_LEVEL)
                if level <= USUAL_LEVEL
                else np.full(codes.size, -1, dtype=np.int64)
            )
            labels[place].append(usual)
            if counts is not None:  # what finer rows account for isn't in the coarser ones
                counts[place] = np.maximum(counts[place] - (mass * shares[place][-1]).sum(axis=0), 0.0)
    rows = np.concatenate([one.counts for one in published]).astype(float)
    last = np.concatenate([np.full(one.counts.size, number) for number, one in enumerate(published)]) == len(levels) - 1
    expected = float(expected_deletion(mechanism.noise))
    describe = description_of(mechanism).deletion
    if describe is None:
        raise TypeError(f"{type(mechanism).__name__} deletes no records")
    described = describe(mechanism)
    return Released(
        shares=[np.concatenate(own) for own in shares],
        labels=[np.concatenate(own) for own in labels],
        rows=rows,
        weights=weights,
        real=int(rows.sum()),
        bounds=_bounds(
            lambda number: deletion_bounds(described, combinations=number), rows + expected * last, last.astype(float)
        ),
        bounds_level=levels[-1],
        margins=told,
    )


def deletion(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """One stage."""
    return deleted(table, records, epsilon, coins, levels=(USUAL_LEVEL,), margins=0)


def deletion_stages(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """Three stages."""
    return deleted(table, records, epsilon, coins, levels=(0, USUAL_LEVEL, COARSE_LEVEL), margins=0)


def calibrated(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """Three stages and a margin for each column."""
    levels = (0, USUAL_LEVEL, COARSE_LEVEL)
    return deleted(table, records, epsilon, coins, levels=levels, margins=len(table.names))


def drawn_noise(epsilon: Decimal, cells: int, coins: np.random.Generator) -> Codes:
    """Two-sided geometric noise: Pr[z] ∝ e^(−ε|z|)."""
    up, down = (coins.geometric(1.0 - math.exp(-float(epsilon)), cells) for _ in range(2))
    return up - down


def histogram(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:
    """Every declared cell of the usual map with noise."""
    groups, recoding = counted(table, records, USUAL_LEVEL), table.map_of(USUAL_LEVEL)
    cells = np.zeros(recoding.cells, dtype=np.int64)
    cells[groups.keys[0]] = groups.counts
    noisy = cells + drawn_noise(epsilon, cells.size, coins)
    places = recoding.decode(np.arange(cells.size, dtype=np.int64).reshape(1, -1))
    declared = [np.isin(codes, own) for codes, own in zip(places, table.label_codes(USUAL_LEVEL), strict=True)]
    there = np.flatnonzero(np.all(declared, axis=0))  # nobody has a value that isn't
    alpha = math.exp(-float(epsilon))
    deviation = math.sqrt(2.0 * alpha) / (1.0 - alpha)
    rows = noisy[there].astype(float)

    def bounds(inside: NDArray[np.bool_], _: int) -> tuple[float, float]:
        """Every cell is there, so that nothing is added but its noise."""
        counted_in, cells_in = np.float64(rows[inside].sum()), np.float64(inside.sum())
        noise = NormalBounds(deviation=deviation, once=0.0, absent=0.0, combinations=int(cells_in))
        return float(noise.at_least(counted_in, cells_in)), float(noise.at_most(counted_in, cells_in))

    return _of_labels(
        table,
        there.reshape(1, -1),
        rows=rows,
        weights=np.ones(rows.size),
        real=0,
        bounds=bounds,
    )


def subsample(table: Table, records: Codes, epsilon: Decimal, coins: np.random.Generator) -> Released:  # noqa: ARG001 - costs no ε, having no guarantee
    """A tenth of the records."""
    groups, rate = counted(table, records, 0), float(SUBSAMPLE)
    drawn = coins.binomial(groups.counts, rate)
    there = drawn > 0
    values = np.array(table.map_of(0).decode(groups.keys[:, there])) - 1
    rows = drawn[there].astype(float)
    found = of_values(table, values, rows=rows, weights=np.full(rows.size, 1.0 / rate), real=int(rows.sum()))
    return Released(
        shares=found.shares,
        labels=found.labels,
        rows=found.rows,
        weights=found.weights,
        real=found.real,
        bounds=_bounds(
            lambda number: BinomialBounds.of(rate, k=None, noise=None, combinations=number), rows, np.ones(rows.size)
        ),
    )


WAYS: Mapping[str, Callable[[Table, Codes, Decimal, np.random.Generator], Released]] = {
    "sampled": sampled,
    "sampled, coarse map": sampled_coarse,
    "sampled, calibrated": sampled_calibrated,
    "sampled, total": sampled_total,
    "ARX's method": arx,
    "deletion": deletion,
    "deletion, three stages": deletion_stages,
    "deletion, calibrated": calibrated,
    "noisy histogram": histogram,
    "subsample of 10%, no guarantee": subsample,
}
