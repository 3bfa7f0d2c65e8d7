"""Pairs that are chosen privately: what is published of exact counts, and that its price is enough, by brute force."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from functools import cache
from secrets import token_bytes
from typing import Any

import numpy as np
import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.composition.bounded_range import BoundedRange
from crowdblend.accounting.kinds.composition.composed import delta_composed
from crowdblend.accounting.kinds.deletion_tables_prices import losses_of_tables
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kinds.deletion_noise import (
    WEIGHT_TOTAL,
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    deletion_weights,
)
from crowdblend.mechanisms.kinds.paired_deletion import (
    ESTIMATE_UNIT,
    BlockedDeletion,
    Chain,
    CountedPair,
    PairCandidate,
    PairedDeletion,
    PairedProtection,
    draw_pair,
    pair_quality,
)

RELEASE = PairedDeletion(
    stages=1,
    k=1,
    noise=GeometricDeletion(epsilon=Decimal(1), width=1),
    margins=3,
    margin_scale=Decimal(1),
    margin_width=1,
    pairs=1,
    pair_scale=Decimal(1),
    pair_width=1,
    pair_epsilon=Decimal("0.7"),
)
LAYOUT = KeyLayout(sizes=(2, 2, 2))
CANDIDATES = (PairCandidate(0, 1, 0), PairCandidate(0, 2, 0), PairCandidate(1, 2, 0))
ROWS = Chain((0, 1, 2), (), (KeyLayout(sizes=(1, 1, 2)),), ((np.zeros(2, np.int64), np.zeros(2, np.int64), None),))


class Model:
    """Estimates by a formula of what is published: half of the first margin, alternating."""

    def estimates(self, margins: Sequence[Any], pairs: Sequence[CountedPair]) -> list[Any]:
        seen = sum(abs(int(cells[0])) for cells in margins) + sum(pair.number for pair in pairs)
        return [np.full(4, ESTIMATE_UNIT * (seen % 3 + number) // 2, np.int64) for number in range(len(CANDIDATES))]

    def penalties(self) -> list[int]:
        return [0, ESTIMATE_UNIT // 2, ESTIMATE_UNIT]

    def chains(self, margins: Sequence[Any], pairs: Sequence[CountedPair]) -> tuple[Chain, ...]:
        return (ROWS,)


def protection(**changed: Any) -> PairedProtection:
    same = {"details": ((None, None, None),), "sizes": ((2, 2, 2),), "candidates": CANDIDATES, "model": Model()}
    return PairedProtection(**({"mechanism": RELEASE, "layout": LAYOUT} | same | changed))


def groups(records: Sequence[tuple[int, int, int]]) -> GroupCounts:
    codes = [np.array([record[place] for record in records], dtype=np.int64) for place in range(3)]
    keys, counts = np.unique(LAYOUT.keys(codes)[0], return_counts=True)
    return GroupCounts(keys.reshape(1, -1), counts.astype(np.int64))


def test_what_is_published_is_read_back_and_nothing_else():
    own = protection()
    numbers = own.protect(groups([(0, 1, 0)] * 7 + [(1, 1, 1)] * 4), randomness=token_bytes)
    margins, [pair], [chain], [[stage]] = own.published(numbers)
    assert [cells.size for cells in margins] == [2, 2, 2]
    for cells, exact in zip(margins, ([7, 4], [0, 11], [7, 4]), strict=True):
        assert np.abs(cells - exact).max() <= RELEASE.margin_width
    tables = {0: [0, 7, 0, 4], 1: [7, 0, 0, 4], 2: [0, 0, 7, 4]}
    assert np.abs(pair.cells - tables[pair.number]).max() <= RELEASE.pair_width
    assert chain[:3] == ROWS[:3]
    assert stage.counts.tolist() <= [7, 4]
    assert own.fits(numbers)
    wrong: list[Callable[[Any], Any]] = [
        lambda all_: all_[:-1],
        lambda all_: np.append(all_, 1),
        lambda all_: np.concatenate((all_[:6], [3], all_[7:])),
        lambda all_: np.concatenate((all_[:6], [-1], all_[7:])),
        lambda all_: all_[:3],
        lambda all_: all_[:9],
        lambda _: [1 << 70],
    ]
    for change in wrong:
        assert not own.fits(change(numbers))


def test_a_pair_is_drawn_once_and_by_the_labels_of_its_detail():
    halves = np.array([0, 0, 1, 1])
    layout = KeyLayout(sizes=(4, 2))
    candidates = (PairCandidate(0, 1, 0), PairCandidate(0, 1, 1))

    class Zero(Model):
        def estimates(self, margins: Sequence[Any], pairs: Sequence[CountedPair]) -> list[Any]:
            return [np.zeros(8, np.int64), np.zeros(4, np.int64)]

        def penalties(self) -> list[int]:
            return [0, 0]

        def chains(self, margins: Sequence[Any], pairs: Sequence[CountedPair]) -> tuple[Chain, ...]:
            assert sorted(pair.number for pair in pairs) == [0, 1]
            return (Chain((0, 1), (1, 0), (KeyLayout(sizes=(2, 2)),), ((halves, None),)),)

    own = PairedProtection(
        mechanism=replace(RELEASE, margins=2, pairs=2),
        layout=layout,
        details=((None, None), (halves, None)),
        sizes=((4, 2), (2, 2)),
        candidates=candidates,
        model=Zero(),
    )
    keys = layout.keys([np.array([0, 1, 3]), np.array([1, 1, 0])])
    numbers = own.protect(GroupCounts(keys, np.array([50, 60, 70])), randomness=token_bytes)
    _, pairs, [chain], [[stage]] = own.published(numbers)
    cells = {pair.number: pair.cells for pair in pairs}
    assert np.abs(cells[0] - [0, 50, 0, 60, 0, 0, 70, 0]).max() <= 1
    assert np.abs(cells[1] - [0, 110, 70, 0]).max() <= 1
    assert chain.levels == (1, 0)
    assert stage.counts.sum() >= 180 - 2 * 2


class Watching(np.ndarray):
    """An array that keeps what numpy is given beside it."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        SEEN.append(inputs)
        return getattr(ufunc, method)(*(np.asarray(one) for one in inputs), **named)

    def __getitem__(self, place: Any) -> Any:
        SEEN.append(place)
        return np.asarray(self)[place]


class Told(int):
    """A number that keeps what it is taken from."""

    def __rsub__(self, other: Any) -> Any:
        SEEN.append(other)
        return int(other) - int(self)


class Placing(KeyLayout):
    __slots__ = ()

    def keys(self, codes: Any) -> Any:
        SEEN.append(codes)
        return KeyLayout.keys(self, codes)


SEEN: list[Any] = []


def test_no_code_of_the_model_is_handed_exact_counts_or_the_groups_that_there_are():
    class Curious(Model):
        def estimates(self, margins: Sequence[Any], pairs: Sequence[CountedPair]) -> list[Any]:
            return [one.view(Watching) for one in Model.estimates(self, margins, pairs)]

        def penalties(self) -> list[int]:
            return [Told(one) for one in Model.penalties(self)]

        def chains(self, margins: Sequence[Any], pairs: Sequence[CountedPair]) -> tuple[Chain, ...]:
            same = np.arange(2).view(Watching)
            return (ROWS._replace(layouts=(Placing(sizes=LAYOUT.sizes),), tables=((same, same, same),)),)

    SEEN.clear()
    own = protection(model=Curious())
    assert own.fits(own.protect(groups([(0, 1, 0)] * 7 + [(1, 1, 1)] * 4), randomness=token_bytes))
    assert not SEEN
    pair_quality(np.array([3, 1]), np.zeros(2, np.int64).view(Watching), 0)
    assert not SEEN
    assert np.zeros(1).view(Watching) + 1 == 1  # it would have seen
    assert 3 - Told(1) == 2
    assert len(SEEN) == 2


def test_maps_of_rows_that_do_not_fit_the_groups_are_refused():
    class Astray(Model):
        def chains(self, margins: Sequence[Any], pairs: Sequence[CountedPair]) -> tuple[Chain, ...]:
            return (ROWS._replace(tables=((np.zeros(2, np.int64), np.zeros(2, np.int64), np.array([0, 2])),)),)

    with pytest.raises(ValueError, match="a table lacks a code"):
        protection(model=Astray()).protect(groups([(0, 1, 0)]), randomness=token_bytes)


@pytest.mark.parametrize(
    "changed",
    [
        {"candidates": CANDIDATES[:1] * 2},
        {"candidates": ()},
        {"candidates": (PairCandidate(1, 1, 0),)},
        {"candidates": (PairCandidate(0, 3, 0),)},
        {"candidates": (PairCandidate(0, 1, 1),)},
        {"layout": KeyLayout(sizes=(2, 2))},
        {"sizes": ((2, 2, 1),)},
        {"details": ((None, None, np.array([0, -1])),)},
        {"details": ((None, None, np.array([0])),)},
    ],
)
def test_what_does_not_go_together_is_refused(changed):
    with pytest.raises(ValueError, match=r"candidate|margins|table|drawn"):
        protection(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"pairs": 0},
        {"pair_epsilon": Decimal(0)},
        {"pair_epsilon": Decimal("NaN")},
        {"pair_epsilon": Decimal(1000)},
        {"pair_scale": Decimal(0)},
        {"pair_width": 0},
        {"margins": 0},
    ],
)
def test_a_mechanism_out_of_range_is_refused(changed):
    with pytest.raises(ValueError, match=r"must|noise|width|scale"):
        replace(RELEASE, **changed)


def test_one_record_moves_a_quality_by_one_unit_at_most_in_either_direction():
    coins = np.random.default_rng(8)
    moved = set()
    for _ in range(300):
        counts = coins.integers(0, 4, 5)
        estimate = coins.integers(0, 4 * ESTIMATE_UNIT, 5)
        more = counts + np.eye(5, dtype=np.int64)[coins.integers(5)]
        moved.add(pair_quality(more, estimate, 7) - pair_quality(counts, estimate, 7))
    assert max(map(abs, moved)) == ESTIMATE_UNIT
    assert min(moved) < 0 < max(moved)
    assert pair_quality(np.array([2, 0]), np.array([ESTIMATE_UNIT, 5]), 3) == ESTIMATE_UNIT + 2


@pytest.mark.parametrize("estimate", [np.zeros(3, np.int64), np.array([-1, 0]), np.array([1 << 60, 0])])
def test_an_estimate_that_is_none_is_refused(estimate):
    with pytest.raises(ValueError, match="an estimate"):
        pair_quality(np.array([1, 2]), estimate, 0)


def test_a_pair_is_drawn_with_the_probability_that_its_price_is_for():
    """Of two candidates, e^{ε·q/2}; 2,000 draws miss by six standard errors once in 10⁸ runs, e^{ε·q} always."""
    drawn = sum(draw_pair([3 * ESTIMATE_UNIT, 0], epsilon=Decimal("0.8")) for _ in range(2_000)) / 2_000

    def is_drawn_by(exponent: float) -> bool:
        share = 1 / (1 + math.exp(exponent))
        return abs(drawn - share) < 6 * math.sqrt(share * (1 - share) / 2_000)

    assert is_drawn_by(0.8 * 3 / 2)
    assert not is_drawn_by(0.8 * 3)


# --- the whole mechanism on small data sets, enumerated -------------------------------------------------------------

SMALL = replace(
    RELEASE,
    noise=GeometricDeletion(epsilon=Decimal("0.3"), width=3),
    margins=1,
    margin_scale=Decimal(4),
    margin_width=3,
    pair_scale=Decimal(4),
    pair_width=3,
    pair_epsilon=Decimal(2),
)

Law = dict[tuple[int, ...], float]
Records = tuple[int, int, int, int]
"""How many records each combination of two labels and two has. It is counted whole, or by the first column alone."""


def noise(law: DeletionNoise) -> list[tuple[int, float]]:
    return [(z, weight / WEIGHT_TOTAL) for z, weight in enumerate(deletion_weights(law))]


@cache
def law_of(records: Records, fault: str, blocks: int = 1) -> Law:
    """The law of what is published: a margin's cell, which pair was drawn, a cell of it, and the rows of a group.

    With two blocks a second table has rows of a group too, whose columns follow from the published cell.

    They are those that the record added below is in; each other cell has noise of its own and one law in both worlds.
    The estimates follow from the published cell alone, unless a fault lets the true number of records in.
    """
    result: Law = defaultdict(float)
    by_first = records[0] + records[1], records[2] + records[3]
    tables = [records, by_first]
    for z, chance in noise(SMALL.margin_noise):
        margin = by_first[0] + z - SMALL.margin_width
        guesses = [[max(2 * margin, 1) / len(table)] * len(table) for table in tables]
        if fault == "scaled by the true number":
            guesses[0] = [float(9 * sum(records)), 0.0, 0.0, 0.0]
        qualities = [
            sum(abs(count - one) for count, one in zip(table, guess, strict=True))
            for table, guess in zip(tables, guesses, strict=True)
        ]
        half = 1.0 if fault == "drawn as if no record lowered a quality" else 0.5
        sizes = [math.exp(float(SMALL.pair_epsilon) * half * quality) for quality in qualities]
        for number, size in enumerate(sizes):
            picked = size / sum(sizes)
            if fault == "chosen by the exact counts":
                picked = float(qualities[number] == max(qualities)) / qualities.count(max(qualities))
            for z_cell, of_cell in noise(SMALL.pair_noise):
                for z_rows, of_rows in noise(SMALL.noise):
                    out = margin, number, tables[number][0] + z_cell, max(0, by_first[0] - z_rows)
                    if blocks == 1:
                        result[out] += chance * picked * of_cell * of_rows
                        continue
                    for z_second, of_second in noise(SMALL.noise):
                        second = max(0, tables[margin % 2][0] - z_second)
                        result[*out, second] += chance * picked * of_cell * of_rows * of_second
    return result


def delta_between(first: Law, second: Law, epsilon: float) -> float:
    growth = math.exp(epsilon)
    return max(
        sum(max(0.0, p - growth * other.get(out, 0.0)) for out, p in law.items())
        for law, other in ((first, second), (second, first))
    )


DESIGNS: list[tuple[Records, Records]] = [
    (records, (records[0] + 1, *records[1:]))
    for records in ((0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 1, 0), (0, 2, 0, 2), (3, 1, 0, 2), (1, 3, 2, 2), (0, 3, 3, 0))
]


def worst(epsilon: float, *, fault: str = "", blocks: int = 1) -> float:
    return max(delta_between(law_of(one, fault, blocks), law_of(two, fault, blocks), epsilon) for one, two in DESIGNS)


EPSILONS = (0.1, 0.4, 0.8, 1.2, 1.8, 2.5, 3.0, 3.5)
PARTS = Counter(losses_of_tables(SMALL))


def bounds(parts: Counter[Any]) -> list[float]:
    return [delta_composed(parts, epsilon=epsilon) for epsilon in EPSILONS]


def test_no_neighbours_are_told_apart_better_than_the_composed_losses_say():
    """A record that is added meets the margin's noise, the pair's and the rows', and every draw."""
    found = [worst(epsilon) for epsilon in EPSILONS]
    assert all(one <= most for one, most in zip(found, bounds(PARTS), strict=True))
    assert max(one / most for one, most in zip(found, bounds(PARTS), strict=True)) > 0.7


@pytest.mark.parametrize(
    "fault", ["scaled by the true number", "chosen by the exact counts", "drawn as if no record lowered a quality"]
)
def test_the_oracle_catches(fault):
    found = [worst(epsilon, fault=fault) for epsilon in EPSILONS]
    assert any(one > most for one, most in zip(found, bounds(PARTS), strict=True))


def test_the_oracle_catches_a_draw_that_is_not_charged():
    without = Counter({part: times for part, times in PARTS.items() if not isinstance(part, BoundedRange)})
    found = [worst(epsilon) for epsilon in EPSILONS]
    assert any(one > most for one, most in zip(found, bounds(without), strict=True))


def test_no_neighbours_are_told_apart_better_by_two_blocks_than_their_losses_say():
    """Each table of rows is of all records, so that the stages of one alone are too few."""
    two = BlockedDeletion(**{field.name: getattr(SMALL, field.name) for field in fields(SMALL)}, blocks=2)
    found = [worst(epsilon, blocks=2) for epsilon in EPSILONS]
    own = bounds(Counter(losses_of_tables(two)))
    assert all(one <= most for one, most in zip(found, own, strict=True))
    assert max(one / most for one, most in zip(found, own, strict=True)) > 0.7
    assert any(one > most for one, most in zip(found, bounds(PARTS), strict=True))


def test_tables_of_rows_are_as_many_as_are_paid_for_and_each_has_its_own_columns():
    two = BlockedDeletion(**{field.name: getattr(RELEASE, field.name) for field in fields(RELEASE)}, blocks=2)
    first = Chain((2,), (), (KeyLayout(sizes=(2,)),), ((None,),))
    second = Chain((0, 1), (), (KeyLayout(sizes=(2, 2)),), ((None, None),))

    class Blocks(Model):
        def __init__(self, *chains: Chain) -> None:
            self._chains = chains

        def chains(self, margins: Sequence[Any], pairs: Sequence[CountedPair]) -> tuple[Chain, ...]:
            return self._chains

    own = protection(mechanism=two, model=Blocks(first, second))
    numbers = own.protect(groups([(0, 1, 0)] * 70 + [(1, 1, 1)] * 40), randomness=token_bytes)
    _, _, _, [[by_last], [by_others]] = own.published(numbers)
    assert by_last.keys.tolist() == [[0, 1]]
    assert by_others.keys.tolist() == [[1, 3]]
    for stage in (by_last, by_others):
        assert np.all(np.abs(stage.counts - [70, 40] + 1) <= 1)
    assert not own.fits(numbers[:-1])
    assert not own.fits(np.append(numbers, 0))
    lies = [(first,), (first, second, second), (first, second._replace(columns=(1, 0)))]
    lies += [(first, first._replace(columns=())), (first, first._replace(columns=(-1,)))]
    for chains in lies:
        with pytest.raises(ValueError, match=r"tables of rows|a table"):
            protection(mechanism=two, model=Blocks(*chains)).protect(groups([(0, 1, 0)]), randomness=token_bytes)
    with pytest.raises(ValueError, match="one block"):
        replace(two, blocks=0)


def test_each_part_is_charged():
    def epsilon(mechanism: Any, **more: Any) -> Decimal:
        return price(mechanism, delta=Decimal("1e-6"), **more).epsilon

    own = replace(
        RELEASE,
        noise=GaussianDeletion(scale=Decimal(8), width=45),
        margin_scale=Decimal(20),
        margin_width=120,
        pair_scale=Decimal(20),
        pair_width=120,
        pair_epsilon=Decimal("0.05"),
    )
    for part in ("stages", "margins", "pairs", "pair_epsilon"):
        assert epsilon(replace(own, **{part: 2 * getattr(own, part)})) > epsilon(own), part
    blocked = BlockedDeletion(**{field.name: getattr(own, field.name) for field in fields(own)}, blocks=3)
    assert epsilon(blocked) == epsilon(replace(own, stages=3 * own.stages)), "as so many stages of one table"
    assert epsilon(own, rows_per_person=2) > 1.9 * float(epsilon(own))
    assert epsilon(own, releases=3) > epsilon(own, releases=2) > epsilon(own)
