"""The price of choosing a chain of maps privately and releasing with it: every outcome of small data sets, exactly."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.deletion_prices import price_deletion
from crowdblend.accounting.kinds.selected_deletion_prices import SELECTED_DELETION, price_selected_deletion
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.recoding import coarsened
from crowdblend.mechanisms.kinds.deletion import DeletionRelease, SelectedDeletion, delete_records, residual_counts
from crowdblend.mechanisms.kinds.deletion_noise import (
    WEIGHT_TOTAL,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    deletion_weights,
    largest_deletion,
)
from crowdblend.mechanisms.map_selection.chains import chain_scores
from crowdblend.mechanisms.map_selection.choice import CHAIN_QUALITY, QUALITY, WEIGHT_UNIT, Lattice, LatticeColumn

TREE = ValueHierarchy.from_rows([["a", "AB", "*"], ["b", "AB", "*"], ["c", "C", "*"]])
LATTICE = Lattice(
    columns=(LatticeColumn(name="value", hierarchy=TREE, min_level=0, max_level=2, weight=Decimal(1)),),
    candidates=((0, 1), (0, 2), (1, 2)),
    stages=2,
)
NARROW = GeometricDeletion(epsilon=Decimal(1), width=1)
NEIGHBOURS = [((0, 0, 0), 0), ((1, 2, 0), 0), ((3, 1, 0), 1), ((2, 2, 3), 2), ((4, 3, 1), 0), ((2, 5, 2), 2)]


def counts_of(sizes) -> GroupCounts:
    present = np.flatnonzero(sizes)
    return GroupCounts((present + 1).reshape(1, -1), np.array(sizes, dtype=np.int64)[present])


def law(sizes, mechanism: SelectedDeletion) -> dict[tuple[object, ...], float]:
    """What is drawn and what is published, each combination with its probability."""
    counts = counts_of(sizes)
    found = chain_scores(counts, lattice=LATTICE, threshold=mechanism.selection_threshold)
    heights = [math.exp(float(mechanism.selection_epsilon) * int(one) / WEIGHT_UNIT) for one in found]
    weights = [weight / WEIGHT_TOTAL for weight in deletion_weights(mechanism.noise)]
    joint: dict[tuple[object, ...], float] = defaultdict(float)
    for levels, height in zip(LATTICE.candidates, heights, strict=True):
        finest = LATTICE.map_of(LATTICE.finest)
        first_map, last_map = LATTICE.chain_of(levels)
        tables = finest.tables_to(first_map)
        keys, places = coarsened(counts.keys, finer=finest, coarser=first_map, tables=tables)
        first = residual_counts(counts.counts, counts.counts * 0, places, groups=keys.shape[1])
        tables = first_map.tables_to(last_map)
        above, parents = coarsened(keys, finer=first_map, coarser=last_map, tables=tables)
        groups = (keys.shape[1], above.shape[1])
        for drawn in itertools.product(range(largest_deletion(mechanism.noise) + 1), repeat=sum(groups)):
            published = delete_records(
                first,
                release=mechanism.release,
                parents=[parents],
                deletions=[np.array(drawn[: groups[0]], dtype=np.int64), np.array(drawn[groups[0] :], dtype=np.int64)],
            )
            # A group that publishes nothing isn't told from one that isn't there.
            seen = tuple(
                (stage, key, records)
                for stage, (own, kept) in enumerate(zip((keys, above), published, strict=True))
                for key, records in zip(own[0].tolist(), kept.tolist(), strict=True)
                if records
            )
            joint[levels, seen] += height / sum(heights) * math.prod(weights[z] for z in drawn)
    return joint


def delta_at(epsilon: float, mechanism: SelectedDeletion) -> float:
    """The largest δ of all neighbours and both directions."""
    worst = 0.0
    for sizes, group in NEIGHBOURS:
        laws = [law(one, mechanism) for one in ([n + (i == group) for i, n in enumerate(sizes)], sizes)]
        for upper, lower in (laws, laws[::-1]):
            stick = sum(max(0.0, p - math.exp(epsilon) * lower.get(o, 0.0)) for o, p in upper.items())
            worst = max(worst, stick)
    return worst


@pytest.mark.parametrize("selection_epsilon", ["0.3", "1.5"])
def test_no_event_contradicts_the_price(selection_epsilon):
    mechanism = SelectedDeletion(stages=2, k=1, noise=NARROW, selection_epsilon=Decimal(selection_epsilon))
    delta = Decimal("0.56")  # both ends of both stages weigh 0.51
    charged = price(mechanism, delta=delta)
    assert delta_at(float(charged.epsilon), mechanism) <= float(delta)


@pytest.mark.parametrize(
    ("stages", "noise", "releases"),
    [
        (1, OptimalDeletion(epsilon=Decimal(1), delta=Decimal("1e-6")), 1),
        (3, GaussianDeletion(scale=Decimal("7.8"), width=39), 1),
        (1, GaussianDeletion(scale=Decimal("34.9"), width=173), 12),
    ],
)
def test_a_choice_costs_at_most_its_epsilon_and_something(stages, noise, releases):
    delta, own = Decimal("1e-6"), Decimal("0.05")
    mechanism = SelectedDeletion(stages=stages, k=2, noise=noise, selection_epsilon=own)
    alone = price_deletion(mechanism.release, delta=delta, releases=releases)
    found = price_selected_deletion(mechanism, delta=delta, releases=releases)
    assert alone.epsilon < found.epsilon <= alone.epsilon + own * releases + Decimal("1e-9")
    assert found.rule.startswith("selected-deletion-")
    if releases > 1:
        assert found.rule == "selected-deletion-composed/1"
        assert found.epsilon < alone.epsilon + own * releases * 3 / 4


def test_several_records_of_a_person_pay_for_the_choice_as_often():
    noise = GaussianDeletion(scale=Decimal("7.8"), width=39)
    mechanism = SelectedDeletion(stages=3, k=2, noise=noise, selection_epsilon=Decimal("0.05"))
    delta = Decimal("1e-5")
    alone = price(DeletionRelease(stages=3, k=2, noise=noise), delta=delta, rows_per_person=3)
    found = price(mechanism, delta=delta, rows_per_person=3)
    assert found.epsilon == pytest.approx(alone.epsilon + Decimal("0.15"), rel=Decimal("1e-11"))
    assert found.epsilon >= alone.epsilon + Decimal("0.15")
    assert found.rule == "group-privacy/1+selected-deletion-sum/1"


@pytest.mark.parametrize(("stages", "quality"), [(1, QUALITY), (2, CHAIN_QUALITY)])
def test_a_map_and_a_chain_are_drawn_by_qualities_of_their_own(stages, quality):
    mechanism = SelectedDeletion(stages=stages, k=1, noise=NARROW, selection_epsilon=Decimal("0.1"))
    assert SELECTED_DELETION.selection(mechanism).quality == quality
