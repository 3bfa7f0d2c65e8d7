"""Exhibits: groups made from the records themselves, maps chosen by looking at them, and levels group by group."""

from __future__ import annotations

import math
import os
from decimal import Decimal

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price as price_of
from crowdblend.accounting.kinds.selected_microdata_prices import price_selected
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from crowdblend.mechanisms.kernel.group_counts import count_keys
from crowdblend.mechanisms.kernel.sampling import ChunkIdentity, kept_positions
from crowdblend.mechanisms.kinds.deletion import DeletionRelease, delete_records
from crowdblend.mechanisms.kinds.deletion_noise import draw_deletions
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease, suppress
from crowdblend.mechanisms.map_selection.choice import draw_map, group_threshold

from ..statistics.cases_of_choices import LATTICE, LEAVES_OF_G, RELEASE, qualities, records_by_leaf, tied_pair
from ..statistics.confidence import epsilon_lower
from . import unsafe_mechanisms as unsafe
from .exhibit import Exhibit

__all__ = ["extreme_values", "ladder_on_one_sample", "map_of_own_sample", "published_optimum"]

ALARM = 1e-6
RUNS = 400
LOSS_K = 74


def _ours(incomes: list[int], key: bytes) -> list[tuple[str, int]]:
    """Sample, recode with intervals declared beforehand, count, suppress: by the software's own functions."""
    hierarchy = IntervalHierarchy(lower=0, upper=200_000, widths=(10_000,))
    column = MappedColumn(name="income", hierarchy=hierarchy, level=1)
    recoding = GeneralizationMap(columns=(column,))
    kept = kept_positions(key=key, chunk=ChunkIdentity(file=0, block=0), records=len(incomes), rate=Decimal("0.5"))
    codes = hierarchy.codes_of_texts([str(incomes[place]).encode() for place in kept.tolist()], 1)
    counted = count_keys(recoding.keys([codes]), cells=recoding.cells)
    groups = suppress(counted.keys, counted.counts, 5)
    [labels] = [hierarchy.labels(codes, 1) for codes in recoding.decode(groups.keys)]
    return list(zip(labels, groups.counts.tolist(), strict=True))


def extreme_values() -> list[Exhibit]:
    """The one very large income in local recoding and in clustering."""
    incomes, rich = list(unsafe.INCOMES), unsafe.RICH
    keys = [os.urandom(32) for _ in range(RUNS)]
    same = sum(_ours(incomes, key) == _ours([*incomes, rich], key) for key in keys)
    shown = max(_ours([*incomes, rich], keys[0]), default=("nothing", 0))
    found = []
    for name, title, publish in (
        ("local-recoding", "The extreme value in local recoding", unsafe.local_recoding),
        ("clustering", "The extreme value in clustering", unsafe.clustered),
    ):
        without, with_rich = publish(incomes, 5)[-1], publish([*incomes, rich], 5)[-1]
        found.append(
            Exhibit(
                name=name,
                title=title,
                other_way=f"groups of at least 5 made from the records ({title.split()[-1]}), k-anonymous",
                from_other=f"the last group is {with_rich} with the person and {without} without: whoever sees "
                f"it knows "
                f"for certain that somebody earns millions; δ = 1 for every ε",
                from_ours=f"with equal coins the releases with and without the person were the same in {same} of "
                f"{RUNS} runs, since the intervals are declared and the top code's group is dropped (last group of one "
                f"of them: {shown})",
                other_betrays=with_rich != without,
                ours_betrays=same != RUNS,
            )
        )
    return found


def _own_sample(counts: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    """Broken: the sample that is released decides which map loses less; whether the event was seen, by run."""
    sampled = rng.binomial(counts, 1 - math.exp(-1.0), (runs, counts.size))
    fine_loss = np.where(sampled >= LOSS_K, 0, sampled).sum(axis=1)
    in_g, in_h = sampled[:, :LEAVES_OF_G].sum(axis=1), sampled[:, LEAVES_OF_G:].sum(axis=1)
    coarser = 0.2 * in_g + 0.8 * in_h < fine_loss
    g, h = np.where(in_g >= LOSS_K, in_g, 0), np.where(in_h >= LOSS_K, in_h, 0)
    return coarser & (h < 0.2 * g + 0.8 * h)


def _private_draw(counts: np.ndarray, runs: int, rng: np.random.Generator) -> np.ndarray:
    scores = qualities(counts, group_threshold(RELEASE.k, RELEASE.sampling_rate, None))
    seen = []
    for sampled in rng.binomial(counts, float(RELEASE.sampling_rate), (runs, counts.size)):
        level = draw_map(scores, epsilon=Decimal(1), rule="permute-and-flip")
        groups = np.array([sampled[:LEAVES_OF_G].sum(), sampled[LEAVES_OF_G:].sum()])
        g, h = np.where(groups >= RELEASE.k, groups, 0)
        seen.append(level == 1 and h < 0.2 * g + 0.8 * h)
    return np.array(seen)


def map_of_own_sample() -> Exhibit:
    """The map that loses least on the release's own sample, and a private draw with coins of its own."""
    rng = np.random.default_rng(391)
    with_t, without = (records_by_leaf(main=200, others=190, own=own) for own in (1, 0))
    many, few = 100_000, 10_000
    other = [int(_own_sample(counts, many, rng).sum()) for counts in (with_t, without)]
    ours = [int(_private_draw(counts, few, rng).sum()) for counts in (with_t, without)]
    least = epsilon_lower(other[0], many, other[1], many, delta=1e-6, alarm=ALARM)
    price = price_selected(RELEASE, selection_epsilon=Decimal(1), selection_rate=None, delta=Decimal("1e-6"))
    bound = max(
        epsilon_lower(ours[a], few, ours[b], few, delta=float(price.delta), alarm=ALARM) for a, b in ((0, 1), (1, 0))
    )
    return Exhibit(
        name="map-of-own-sample",
        title="The map chosen on the release's own sample",
        other_way="the sample that is released also decides which map loses least, at a claimed (1, 1e-6)",
        from_other=f"the coarser map although the published counts say that the finer one loses less: "
        f"{other[0] / many:.1%} "
        f"of the releases with the person, {other[1]} of {many:,} without; ε is at least {least:.1f}",
        from_ours=f"the same event: {ours[0] / few:.1%} with and {ours[1] / few:.1%} without; ε is at least "
        f"{bound:.2f}, "
        f"and {float(price.epsilon):.2f} was paid",
        other_betrays=least > 1.0,
        ours_betrays=bound > float(price.epsilon),
    )


def published_optimum() -> Exhibit:
    """The best map of the whole data set, and a draw that favours it."""
    epsilon, runs = Decimal(1), 20_000
    scores = [
        qualities(counts, group_threshold(RELEASE.k, RELEASE.sampling_rate, None))
        for counts in tied_pair(group_threshold(RELEASE.k, RELEASE.sampling_rate, None))
    ]
    best = [int(np.argmax(found)) for found in scores]
    draws = [[draw_map(found, epsilon=epsilon, rule="permute-and-flip") for _ in range(runs)] for found in scores]
    coarser = [sum(levels) for levels in draws]
    bound = max(
        epsilon_lower(hits[a], runs, hits[b], runs, delta=0.0, alarm=ALARM / 2)
        for hits in (coarser, [runs - hits for hits in coarser])
        for a, b in ((0, 1), (1, 0))
    )
    names = [LATTICE.levels_of(place) for place in best]
    return Exhibit(
        name="published-optimum",
        title="The optimum published",
        other_way="the map of the highest quality is found on all records and published",
        from_other=f"level {names[0][0]} with the person and level {names[1][0]} without, every time: δ = 1 for "
        f"every ε",
        from_ours=f"a draw by quality at ε₁ = {epsilon}: level 1 in {coarser[0] / runs:.1%} of {runs:,} draws with the "
        f"person and in {coarser[1] / runs:.1%} without; ε is at least {bound:.3f}, and {epsilon} was paid",
        other_betrays=best[0] != best[1],
        ours_betrays=bound > float(epsilon),
    )


def ladder_on_one_sample() -> Exhibit:
    """What a finer level leaves out goes on to a coarser one: on one suppressed sample, and as a deletion release."""
    k, rate, siblings, runs = unsafe.LADDER_K, unsafe.LADDER_RATE, unsafe.LADDER_SIBLINGS, 20_000
    delta = Decimal("1e-6")
    strongly_safe = StronglySafeRelease(k=k, sampling_rate=Decimal(1) / rate.denominator)
    claimed = float(price_of(strongly_safe, delta=delta).epsilon)
    rng = np.random.default_rng(190)
    shown = []
    for person in (1, 0):
        drawn = zip(rng.binomial(person, float(rate), runs), rng.binomial(siblings, float(rate), runs), strict=True)
        shown.append(sum(unsafe.ladder_of_sample((int(t), int(others)), k)[1] > 0 for t, others in drawn))
    least = epsilon_lower(shown[0], runs, shown[1], runs, delta=float(delta), alarm=ALARM)
    exact = float(unsafe.ladder_delta(k=k, rate=rate, siblings=siblings))
    plan = plan_deletion(epsilon=Decimal(str(round(claimed, 3))), delta=delta, stages=2)
    found = [_published_by_ladder(np.array([person, siblings]), plan.mechanism, runs) for person in (1, 0)]
    bounds = []
    for records in range(siblings + 1):
        hits = [int(np.count_nonzero(published > records)) for published in found]
        for one, other in (hits, hits[::-1], [runs - hit for hit in hits], [runs - hit for hit in hits[::-1]]):
            bounds.append(epsilon_lower(one, runs, other, runs, delta=float(delta), alarm=ALARM / (4 * siblings + 4)))
    return Exhibit(
        name="ladder-on-one-sample",
        title="Coarser levels for those whom one sample leaves out",
        other_way=f"groups below k = {k} of a sample at rate {float(rate)} are published at a coarser level, the price "
        f"of one release claimed: ({claimed:.3f}, {delta})",
        from_other=f"a person alone beside {siblings} others: the coarser level shows a group in {shown[0] / runs:.2%} "
        f"of the runs with the person and in {shown[1]} of {runs:,} without; ε is at least {least:.1f}, and δ is "
        f"exactly {exact:.6f} at every ε",
        from_ours=f"a deletion release with these two stages at ({plan.price.epsilon:.3f}, {delta}): no number of "
        f"published records tells more than ε = {max(bounds):.3f} in {runs:,} releases each",
        other_betrays=least > claimed and exact > float(delta),
        ours_betrays=max(bounds) > float(plan.price.epsilon),
    )


def _published_by_ladder(counts: np.ndarray, mechanism: DeletionRelease, runs: int) -> np.ndarray:
    """The records that a deletion release publishes of two groups and of their parent, by run."""
    fine = draw_deletions(mechanism.noise, 2 * runs, randomness=os.urandom).reshape(runs, 2)
    coarse = draw_deletions(mechanism.noise, runs, randomness=os.urandom)
    parents = [np.zeros(2, dtype=np.int64)]
    return np.array(
        [
            sum(
                int(stage.sum())
                for stage in delete_records(counts, release=mechanism, parents=parents, deletions=[one, coarse[[run]]])
            )
            for run, one in enumerate(fine)
        ]
    )
