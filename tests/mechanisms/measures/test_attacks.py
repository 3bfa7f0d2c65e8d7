"""Attacks on releases: what is seen of one person, against the chances of every outcome; columns guessed, by hand."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from crowdblend.accounting.descriptions.description_registry import description_of
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import sum_counts
from crowdblend.mechanisms.kinds.deletion import DeletionRelease
from crowdblend.mechanisms.kinds.deletion_noise import OptimalDeletion, deletion_weights
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.measures.counted_records import CountedRecords
from crowdblend.mechanisms.measures.risk import (
    CERTAINTIES,
    attacks_of,
    deletion_losses,
    inferred_column,
    known_person,
    sampling_losses,
)

NOISE = OptimalDeletion(epsilon=Decimal("0.7"), delta=Decimal("0.02"))


def told_by(mechanism: Any) -> Any:
    return description_of(mechanism).told(mechanism)


def binomial(records: int, k: int, rate: float) -> dict[int, float]:
    """What a sampled release shows of a group, with its chance."""
    found: dict[int, float] = {}
    for hit in range(records + 1):
        shown = hit if hit >= k else 0
        found[shown] = found.get(shown, 0) + math.comb(records, hit) * rate**hit * (1 - rate) ** (records - hit)
    return found


def deleted(records: int, k: int) -> dict[int, float]:
    """What a stage shows of a group, with its chance."""
    found: dict[int, float] = {}
    for gone, weight in enumerate(deletion_weights(NOISE)):
        shown = records - gone if records - gone >= k else 0
        found[shown] = found.get(shown, 0) + weight / 2**128
    return found


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("records", [1, 2, 3, 4, 9, 40])
def test_a_loss_is_the_logarithm_of_the_ratio_of_the_chances(records: int, k: int) -> None:
    ways = (
        (lambda n: binomial(n, k, 0.3), lambda *seen: sampling_losses(*seen, rate=0.3, k=k)),
        (lambda n: deleted(n, k), lambda *seen: deletion_losses(*seen, noise=NOISE, k=k)),
    )
    for chances, losses in ways:
        there, without = chances(records), chances(records - 1)
        outcomes = sorted(there.keys() | without.keys())
        found = losses(np.array(outcomes), np.full(len(outcomes), records))
        for outcome, loss in zip(outcomes, found.tolist(), strict=True):
            p, q = there.get(outcome, 0.0), without.get(outcome, 0.0)
            assert loss == pytest.approx(math.log(p / q) if p and q else math.inf if p else -math.inf), outcome


def test_losses_beyond_the_price_are_as_rare_as_delta() -> None:
    """Σ max(0, P − e^ε·Q) over outcomes is at most δ, both ways."""
    for records in (1, 5, 12, 30):
        there, without = deleted(records, 1), deleted(records - 1, 1)
        for one, other in ((there, without), (without, there)):
            beyond = sum(max(0.0, p - math.exp(0.7) * other.get(outcome, 0.0)) for outcome, p in one.items())
            assert beyond <= 0.02


TOWNS = ValueHierarchy.from_rows([("Lille", "North", "*"), ("Arras", "North", "*"), ("Nice", "South", "*")])
AGES = IntervalHierarchy(lower=0, upper=100, widths=(10, 50))


def table(rows: dict[tuple[str, int], int], levels=(0, 0)) -> CountedRecords:
    columns = (
        MappedColumn(name="town", hierarchy=TOWNS, level=levels[0]),
        MappedColumn(name="age", hierarchy=AGES, level=levels[1]),
    )
    made = GeneralizationMap(columns=columns)
    codes = [
        TOWNS.codes_of_texts([TOWNS_OF.get(town, town).encode() for town, _ in rows], levels[0]),
        AGES.codes_of_integers(np.array([age for _, age in rows], dtype=np.int64), levels[1]),
    ]
    return CountedRecords(map=made, groups=sum_counts(made.keys(codes), np.array(list(rows.values()), dtype=np.int64)))


def test_a_table_does_not_show_its_rows_where_it_is_named():
    """As in a traceback or a log: neither the keys of its rows nor how many records they have."""
    assert "counts=" not in repr(table({("Lille", 30): 70_001}))
    assert "70001" not in repr(table({("Lille", 30): 70_001}))


TOWNS_OF = {"North": "Lille", "South": "Nice"}
PEOPLE = {("Lille", 31): 6, ("Lille", 61): 3, ("Nice", 32): 4}


def test_a_group_that_is_published_whole_is_certain_and_one_persons_group_is_counted() -> None:
    shown = table({("Lille", 31): 2, ("Nice", 61): 1})
    people = table({("Lille", 31): 2, ("Nice", 61): 1, ("Arras", 31): 1})
    told: list[tuple[int, int]] = []
    mechanism = StronglySafeRelease(k=1, sampling_rate=Decimal("0.5"))
    found = attacks_of(
        people, [shown], told=told_by(mechanism), on_progress=lambda done, total: told.append((done, total))
    )
    assert attacks_of(people, [shown], told=told_by(mechanism)) == found
    assert (found.known.highest, found.known.shares[-1], found.groups_of_one) == (1, 0.75, 1)
    assert found.known.shares[0] == 1  # that Arras isn't shown has half the chance with its one person
    assert told == [(1, 3), (2, 3), (3, 3)]
    for other in ({("Arras", 61): 1}, {("Lille", 31): 3}):
        with pytest.raises(ValueError, match="groups that these records don't have"):
            known_person(people, [table(other)], told=told_by(StronglySafeRelease(k=1, sampling_rate=Decimal("0.5"))))


def test_of_nobody_nothing_is_told() -> None:
    nobody = table({})
    found = attacks_of(nobody, [nobody], told=told_by(StronglySafeRelease(k=1, sampling_rate=Decimal("0.5"))))
    assert (found.known.highest, found.known.median, set(found.known.shares)) == (0.5, 0.5, {0.0})
    assert {(one.guessed, one.without, one.most_frequent) for one in found.inferred} == {(0.0, 0.0, 0.0)}
    assert found.groups_of_one == 0


def test_nothing_published_tells_nothing_of_a_column() -> None:
    found = inferred_column(table(PEOPLE, (1, 1)), table({("North", 31): 0}, (1, 1)), 0)
    assert 0 <= found.without == found.guessed == found.most_frequent <= 1


LETTERS = ValueHierarchy.from_rows([("a", "vowel", "*"), ("b", "other", "*"), ("c", "other", "*")])
Rows = dict[tuple[int, ...], int]


def lettered(rows: Rows, level: int = 0) -> CountedRecords:
    """Three columns of letters, given by codes at level 0."""
    made = GeneralizationMap(columns=tuple(MappedColumn(name=n, hierarchy=LETTERS, level=level) for n in "xyz"))
    codes = [LETTERS.coarser(np.array(own), level=0, to=level) for own in zip(*rows, strict=True)]
    return CountedRecords(map=made, groups=sum_counts(made.keys(codes), np.array(list(rows.values()))))


def guessed_right(label: int, tally: dict[int, int], usual: int) -> float:
    """The chance that the most frequent label of some is this one, the usual one where there is none."""
    most = max(tally.values(), default=0)
    best = [one for one, count in tally.items() if count == most] if most else [usual]
    return (label in best) / len(best)


@pytest.mark.parametrize("seed", range(25))
def test_each_column_of_three_is_guessed_as_by_counting(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = [(x, y, z) for x in range(4) for y in range(4) for z in range(4)]
    people = {cells[one]: int(rng.integers(1, 6)) for one in rng.choice(64, 25, replace=False)}
    shown = {row: int(rng.integers(0, count + 1)) * int(rng.random() < 0.7) for row, count in people.items()}
    for place in range(3):
        overall = [sum(count for row, count in shown.items() if row[place] == label) for label in range(4)]
        usual = overall.index(max(overall))
        guessed = without = frequent = 0.0
        for row, count in people.items():
            own = row[place]
            beside = {label: shown.get((*row[:place], label, *row[place + 1 :]), 0) for label in range(4)}
            fewer = beside | {own: beside[own] - 1}
            there, taken = guessed_right(own, beside, usual), guessed_right(own, fewer, usual)
            guessed += count * there
            without += beside[own] * taken + (count - beside[own]) * there
            frequent += count * (own == usual)
        found = inferred_column(lettered(people), lettered(shown), place)
        total = sum(people.values())
        assert (found.guessed, found.without, found.most_frequent) == pytest.approx(
            (guessed / total, without / total, frequent / total)
        )


@pytest.mark.parametrize("seed", range(3))
def test_groups_of_one_record_are_counted_at_the_levels_of_their_stage(seed: int) -> None:
    rng = np.random.default_rng(seed)
    people = {(x, y, z): int(rng.integers(1, 4)) for x in (1, 2, 3) for y in (1, 2, 3) for z in (1, 2)}
    shown = {row: int(rng.integers(0, count + 1)) for row, count in people.items()}
    left: Rows = {}
    for row, count in people.items():
        above = tuple(min(code, 2) for code in row)
        left[above] = left.get(above, 0) + count - shown[row]
    stages = [lettered(shown), lettered(left, 1)]
    found = attacks_of(lettered(people), stages, told=told_by(DeletionRelease(stages=2, k=1, noise=NOISE)))
    assert found.groups_of_one == sum(count == 1 and shown[row] > 0 for row, count in people.items())
    assert found.groups_of_one > 0
    assert [one.name for one in found.inferred] == ["x", "y", "z"]


def summed_up(certain: dict[tuple[int, ...], float], people: Rows) -> tuple[float, float, list[float]]:
    """The highest, that of the record in the middle, and the shares that reach each of the certainties."""
    ordered = sorted(one for row, count in people.items() for one in [certain[row]] * count)
    shares = [sum(one >= least for one in ordered) / len(ordered) for least in CERTAINTIES]
    return ordered[-1], ordered[(len(ordered) - 1) // 2], shares


@pytest.mark.parametrize("seed", range(6))
def test_the_known_person_is_as_by_the_chances_of_each_outcome(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = [(x, y, z) for x in range(1, 4) for y in range(1, 4) for z in range(1, 4)]
    people = {cells[one]: int(rng.integers(1, 9)) for one in rng.choice(27, 12, replace=False)}
    k = 2

    def outcome(chances: dict[int, float]) -> int:
        return int(rng.choice(list(chances), p=np.array(list(chances.values())) / sum(chances.values())))

    def loss(make, seen: int, records: int) -> float:
        there, without = make(records).get(seen, 0.0), make(records - 1).get(seen, 0.0)
        return math.log(there / without) if there and without else math.inf

    def sampled(n: int) -> dict[int, float]:
        return binomial(n, k, 0.3)

    def stage(n: int) -> dict[int, float]:
        return deleted(n, k)

    shown = {row: outcome(sampled(count)) for row, count in people.items()}
    told = {row: abs(loss(sampled, shown[row], count)) for row, count in people.items()}
    found = known_person(
        lettered(people), [lettered(shown)], told=told_by(StronglySafeRelease(k=k, sampling_rate=Decimal("0.3")))
    )
    highest, median, shares = summed_up({row: 1 / (1 + math.exp(-one)) for row, one in told.items()}, people)
    assert (found.highest, found.median, *found.shares) == pytest.approx((highest, median, *shares))

    above = {row: tuple(min(code, 2) for code in row) for row in people}  # c is told with b
    shown = {row: outcome(stage(count)) for row, count in people.items()}
    left: Rows = {}
    for row, count in people.items():
        left[above[row]] = left.get(above[row], 0) + count - shown[row]
    again = {row: outcome(stage(count)) for row, count in left.items()}
    told = {
        row: abs(loss(stage, shown[row], count) + loss(stage, again[above[row]], left[above[row]]))
        for row, count in people.items()
    }
    stages = [lettered(shown), lettered(again, 1)]
    found = known_person(lettered(people), stages, told=told_by(DeletionRelease(stages=2, k=k, noise=NOISE)))
    highest, median, shares = summed_up({row: 1 / (1 + math.exp(-one)) for row, one in told.items()}, people)
    assert (found.highest, found.median, *found.shares) == pytest.approx((highest, median, *shares))
