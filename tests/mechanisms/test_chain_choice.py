"""The private choice of a chain of maps: its quality by dictionaries, its draw by exact probabilities, wrong ones."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, sum_counts
from crowdblend.mechanisms.kinds.deletion import DeletionRelease, SelectedDeletion
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, OptimalDeletion, expected_deletion
from crowdblend.mechanisms.map_selection.chains import chain_scores
from crowdblend.mechanisms.map_selection.choice import (
    WEIGHT_UNIT,
    Lattice,
    LatticeColumn,
    MapChoice,
    MapWeights,
    draw_map,
)
from crowdblend.mechanisms.map_selection.rollup import scores
from scipy.stats import chi2

LEAVES = [f"v{leaf:02d}" for leaf in range(16)]
TREE = ValueHierarchy.from_rows([[leaf, f"p{i // 2}", f"q{i // 4}", "*"] for i, leaf in enumerate(LEAVES)])
SEX = ValueHierarchy.from_values(["F", "M"])
COLUMNS = (
    LatticeColumn(name="value", hierarchy=TREE, min_level=0, max_level=3, weight=Decimal(2)),
    LatticeColumn(name="sex", hierarchy=SEX, min_level=0, max_level=1, weight=Decimal(1)),
)
CHAINS = ((0, 0, 1, 0), (0, 0, 2, 1), (1, 0, 2, 0), (1, 1, 3, 1), (3, 1, 3, 1))
LATTICE = Lattice(columns=COLUMNS, candidates=CHAINS, stages=2)

Records = list[tuple[int, int]]
"""The codes of each record at the finest levels; 0 is the bucket of unseen values."""


def counts_of(records: Records, lattice: Lattice = LATTICE) -> GroupCounts:
    finest = lattice.map_of(lattice.finest)
    codes = [
        column.hierarchy.coarser(np.array([record[place] for record in records], dtype=np.int64), level=0, to=level)
        for place, (column, level) in enumerate(zip(lattice.columns, lattice.finest, strict=True))
    ]
    keys = finest.keys(codes)
    return sum_counts(keys, np.ones(keys.shape[1], dtype=np.int64))


def labels(records: Records, levels: tuple[int, ...]) -> list[tuple[str, ...]]:
    found = []
    for place, (column, level) in enumerate(zip(COLUMNS, levels, strict=True)):
        codes = np.array([record[place] for record in records], dtype=np.int64)
        found.append(column.hierarchy.labels(column.hierarchy.coarser(codes, level=0, to=level), level))
    return list(zip(*found, strict=True))


def quality_by_dictionaries(records: Records, chain: tuple[int, ...], threshold: int, weights: list[int]) -> int:
    """w₁·Σ_c (n_c − m)⁺ + w₂·Σ_p (R_p − m)⁺, R_p = n_p − Σ_c (n_c − m)⁺, m = k′ − 1."""
    margin = threshold - 1
    fine, coarse = labels(records, chain[:2]), labels(records, chain[2:])
    above = dict(zip(fine, coarse, strict=True))
    sizes, residual = Counter(fine), Counter(coarse)
    first = {group: max(0, size - margin) for group, size in sizes.items()}
    for group, taken in first.items():
        residual[above[group]] -= taken
    return weights[0] * sum(first.values()) + weights[1] * sum(max(0, left - margin) for left in residual.values())


def some_records(seed: int, number: int) -> Records:
    coins = np.random.default_rng(seed)
    values = np.minimum(coins.geometric(0.2, number), 17) % 17
    return [(int(value), int(sex)) for value, sex in zip(values, coins.integers(0, 3, number), strict=True)]


def weights_of(lattice: Lattice, chain: tuple[int, ...]) -> list[int]:
    weights = MapWeights(lattice=lattice)
    return [weights.of(levels) for levels in lattice.by_stage(chain)]


@pytest.mark.parametrize("threshold", [1, 2, 7])
@pytest.mark.parametrize("number", [0, 1, 40, 300])
def test_scores_are_those_of_dictionaries(threshold, number):
    records = some_records(number, number)
    done: list[tuple[int, int]] = []
    progress = {"on_progress": lambda *so_far: done.append(so_far)}
    found = chain_scores(counts_of(records), lattice=LATTICE, threshold=threshold, **progress)
    assert done == [(number, len(CHAINS)) for number in range(1, len(CHAINS) + 1)]
    assert found.tolist() == [
        quality_by_dictionaries(records, chain, threshold, weights_of(LATTICE, chain)) for chain in CHAINS
    ]


def test_a_chain_of_one_map_has_the_quality_of_a_map():
    single = Lattice(columns=COLUMNS, candidates=((0, 0), (1, 0), (1, 1), (3, 0)))
    counts = counts_of(some_records(7, 400), single)
    for threshold in (1, 5, 40):
        chained = chain_scores(counts, lattice=single, threshold=threshold)
        assert chained.tolist() == scores(counts, lattice=single, threshold=threshold).tolist()


def test_weights_lie_in_zero_to_one_and_the_finest_map_has_one():
    weights = [weights_of(LATTICE, chain) for chain in CHAINS]
    assert max(itertools.chain(*weights)) == WEIGHT_UNIT == weights[0][0]
    assert min(itertools.chain(*weights)) == 0
    assert all(first >= second for first, second in weights)


def steps(quality_of) -> tuple[int, int]:
    """The largest and the smallest change of any chain's quality by one record more."""
    found = []
    for seed in range(8):
        records = some_records(seed, 30)
        for more in itertools.product(range(0, 17, 3), range(3)):
            before, after = quality_of(records), quality_of([*records, more])
            found += [after[place] - before[place] for place in range(len(CHAINS))]
    return max(found), min(found)


def ours(records: Records) -> list[int]:
    return chain_scores(counts_of(records), lattice=LATTICE, threshold=3).tolist()


def test_one_record_more_raises_each_quality_by_at_most_one():
    assert steps(ours) == (WEIGHT_UNIT, 0)


def exact_probabilities(qualities: list[int], *, epsilon: float, rule: str) -> list[float]:
    """Of each candidate, from the definitions: e^(ε₁u) in proportion; or a walk through a random order of them."""
    heights = [epsilon * quality / WEIGHT_UNIT for quality in qualities]
    flips = [math.exp(height - max(heights)) for height in heights]
    if rule == "exponential":
        return [flip / sum(flips) for flip in flips]
    found = [0.0] * len(flips)
    orders = list(itertools.permutations(range(len(flips))))
    for order in orders:
        left = 1.0
        for place in order:
            found[place] += left * flips[place] / len(orders)
            left *= 1 - flips[place]
    return found


@pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
def test_chains_are_drawn_with_the_exact_probabilities(rule):
    """False alarm 1e-6 by χ² on 2,000 draws; with twice the ε₁ it is far beyond."""
    qualities = chain_scores(counts_of(some_records(3, 200)), lattice=LATTICE, threshold=4)
    epsilon = Decimal("0.02")
    draws = [draw_map(qualities, epsilon=epsilon, rule=rule) for _ in range(2_000)]
    seen = np.bincount(draws, minlength=len(CHAINS))

    def distance(of: float) -> float:
        expected = 2_000 * np.array(exact_probabilities(qualities.tolist(), epsilon=of, rule=rule))
        assert expected.min() > 3
        return float(((seen - expected) ** 2 / expected).sum())

    limit = chi2.isf(1e-6, len(CHAINS) - 1)
    assert distance(0.02) < limit < distance(0.04)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stages": 0}, "are listed"),
        ({"candidates": None}, "are listed"),
        ({"candidates": ((0, 0),)}, "bounds"),
        ({"candidates": ((0, 0, 4, 1),)}, "bounds"),
        ({"candidates": ((1, 0, 0, 0),)}, "finer than the one before"),
        ({"candidates": (CHAINS[1], CHAINS[0])}, "ascend"),
    ],
)
def test_what_is_no_list_of_chains_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        Lattice(**{"columns": COLUMNS, "candidates": CHAINS, "stages": 2} | change)


def test_scores_refuse_what_they_do_not_score():
    counts = counts_of([(1, 1)])
    with pytest.raises(ValueError, match="listed"):
        chain_scores(counts, lattice=Lattice(columns=COLUMNS), threshold=1)
    with pytest.raises(ValueError, match="at least 1"):
        chain_scores(counts, lattice=LATTICE, threshold=0)
    with pytest.raises(ValueError, match="more records"):
        chain_scores(GroupCounts(counts.keys, counts.counts << 43), lattice=LATTICE, threshold=1)


def test_chains_are_described_by_stage_and_have_a_digest_of_their_own():
    description = LATTICE.description()
    assert description["kind"] == "chains/1"
    assert description["candidates"][1] == [[0, 0], [2, 1]]
    assert LATTICE.named(CHAINS[1]) == {"value": [0, 2], "sex": [0, 1]}
    assert [one.columns[0].level for one in LATTICE.chain_of(CHAINS[2])] == [1, 2]
    assert (LATTICE.finest, LATTICE.coarsest) == ((0, 0), (3, 1))
    with pytest.raises(ValueError, match="no candidate"):
        LATTICE.chain_of((0, 0, 3, 1))
    fewer = Lattice(columns=COLUMNS, candidates=CHAINS[:-1], stages=2)
    assert (
        len({LATTICE.digest(), fewer.digest(), MapChoice(lattice=fewer, draw="exponential", steps=None).digest()}) == 2
    )


@pytest.mark.parametrize(
    "noise", [OptimalDeletion(epsilon=Decimal(1), delta=Decimal("1e-6")), GaussianDeletion(scale=Decimal(8), width=40)]
)
def test_the_threshold_is_what_a_group_loses_in_expectation_and_k(noise):
    mechanism = SelectedDeletion(stages=1, k=5, noise=noise, selection_epsilon=Decimal("0.1"))
    assert mechanism.selection_threshold == math.ceil(expected_deletion(noise)) + 5
    assert mechanism.release == DeletionRelease(stages=1, k=5, noise=noise)
    for epsilon in ("0", "-1", "NaN"):
        with pytest.raises(ValueError, match="must be positive"):
            SelectedDeletion(stages=1, k=5, noise=noise, selection_epsilon=Decimal(epsilon))
