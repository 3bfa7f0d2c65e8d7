"""The draw's frequencies are the mechanism's exact probabilities; the walk ends on its own last draw.

opendp draws by itself and takes no seed. A comparison is failed at p < 1e-6, so that the four here which must hold
fail by chance less often than once in 200,000 runs; the controls fail by far.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.map_selection.choice import (
    WEIGHT_UNIT,
    Lattice,
    LatticeColumn,
    Levels,
    draw_map,
    draw_scale,
    epsilon_shares,
    neighbours,
    walk,
)
from numpy.polynomial import Polynomial
from scipy.stats import chisquare

DRAWS = 20_000
CONTROL_DRAWS = 2_000  # with twice or half of ε₁ so many are taken for the right ones once in 1e27
ALARM = 1e-6
EPSILON = Decimal("0.4")
QUALITIES = np.array([3.0, 0.0, 5.5, 5.25, 1.0, 4.0])
SCORES = (QUALITIES * WEIGHT_UNIT).astype(np.int64)


def exact(rule: str, qualities: np.ndarray, epsilon: float) -> np.ndarray:
    """Probabilities by the definitions, without noise.

    Permute-and-flip: give each candidate an arrival time uniform in 0 … 1; the one that flips heads (p_i) at x wins
    if no earlier one did, so its probability is p_i times the integral of the product of 1 − x·p_j over x.
    """
    heads = np.exp(epsilon * (qualities - qualities.max()))
    if rule == "exponential":
        return heads / heads.sum()
    found = []
    for place, chance in enumerate(heads):
        others = Polynomial([1.0])
        for other in np.delete(heads, place):
            others *= Polynomial([1.0, -other])
        found.append(chance * others.integ()(1.0))
    return np.array(found)


def p_value(drawn: Sequence[int], probabilities: np.ndarray) -> float:
    seen = np.bincount(drawn, minlength=probabilities.size)
    return float(chisquare(seen, probabilities * len(drawn)).pvalue)


@pytest.mark.parametrize(
    ("rule", "number"),
    [
        ("exponential", DRAWS // 4),
        pytest.param("permute-and-flip", DRAWS // 4, marks=pytest.mark.slow),
        *(pytest.param(rule, DRAWS, marks=pytest.mark.long) for rule in ("permute-and-flip", "exponential")),
    ],
)
def test_maps_are_drawn_with_the_exact_probabilities(rule, number):
    """Controls: a draw with twice ε₁, with half of it, and by the scale of a quality that is not monotone."""

    def draws(epsilon: Decimal, number: int = CONTROL_DRAWS) -> list[int]:
        return [draw_map(SCORES, epsilon=epsilon, rule=rule) for _ in range(number)]

    probabilities = exact(rule, QUALITIES, float(EPSILON))
    assert probabilities.sum() == pytest.approx(1)
    assert p_value(draws(EPSILON, number), probabilities) > ALARM
    assert p_value(draws(EPSILON * 2), probabilities) < ALARM
    assert p_value(draws(EPSILON / 2), probabilities) < ALARM

    measure = dp.max_divergence() if rule == "permute-and-flip" else dp.zero_concentrated_divergence()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=False)
    two_sided = dp.m.make_noisy_max(*space, measure, scale=2 * WEIGHT_UNIT / float(EPSILON))
    scores = SCORES.tolist()
    assert p_value([two_sided(scores) for _ in range(CONTROL_DRAWS)], probabilities) < ALARM


@pytest.mark.parametrize("rule", ["permute-and-flip", "exponential"])
def test_the_exact_probabilities_are_private_and_permute_and_flip_is_never_worse(rule):
    """Every neighbour that raises some qualities by 1: no probability moves by more than a factor e^ε₁."""
    epsilon = float(EPSILON)
    before = exact(rule, QUALITIES, epsilon)
    worst = 0.0
    for raised in range(1 << QUALITIES.size):
        bits = np.array([raised >> place & 1 for place in range(QUALITIES.size)])
        after = exact(rule, QUALITIES + bits, epsilon)
        worst = max(worst, float(np.abs(np.log(after / before)).max()))
    assert worst <= epsilon + 1e-9
    assert worst > 0.9 * epsilon
    loss = {name: QUALITIES.max() - exact(name, QUALITIES, epsilon) @ QUALITIES for name in (rule, "exponential")}
    assert loss[rule] <= loss["exponential"] + 1e-12


def test_opendp_states_the_price_that_we_charge():
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True)
    for epsilon in ("0.1", "0.3", "1", "7e-5", "0.123456789012"):
        scale = draw_scale(Decimal(epsilon))
        measurement = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale)
        assert Decimal(measurement.map(WEIGHT_UNIT)) <= Decimal(epsilon) * (1 + Decimal("1e-15"))


def test_the_scale_is_rounded_up():
    nearest_too_small = 0
    for epsilon in (*map(Decimal, ("1", "1e-9", "3.7")), *(Decimal(number) / 10 for number in range(1, 30))):
        scale, exact = draw_scale(epsilon), WEIGHT_UNIT / Fraction(epsilon)
        assert Fraction(scale) >= exact
        assert Fraction(float(np.nextafter(scale, 0))) < exact
        nearest_too_small += Fraction(float(exact)) < exact
    assert nearest_too_small > 5


@pytest.mark.parametrize("epsilon", ["0", "-1", "NaN", "Infinity", "1e-40"])
def test_no_candidates_and_no_price_are_refused(epsilon):
    with pytest.raises(ValueError, match="no candidate"):
        draw_map(np.empty(0, dtype=np.int64), epsilon=EPSILON, rule="exponential")
    with pytest.raises(ValueError, match="epsilon"):
        draw_map(SCORES, epsilon=Decimal(epsilon), rule="exponential")


def ladder(levels: int) -> ValueHierarchy:
    return ValueHierarchy.from_rows([["x", *(f"x{level}" for level in range(1, levels))]])


LATTICE = Lattice(
    columns=tuple(
        LatticeColumn(name=name, hierarchy=ladder(3), min_level=0, max_level=top, weight=Decimal(1))
        for name, top in (("a", 2), ("b", 1))
    )
)


def quality_of(levels: Levels) -> float:
    return float(QUALITIES[LATTICE.index_of(levels)])


def score_of(maps: Sequence[Levels]) -> np.ndarray:
    return np.array([quality_of(levels) * WEIGHT_UNIT for levels in maps], dtype=np.int64)


def walked(steps: int, epsilon: float) -> np.ndarray:
    """Where a walk from the coarsest map ends: the product of its steps' exact probabilities."""
    place = np.zeros(LATTICE.size)
    place[LATTICE.index_of(LATTICE.coarsest)] = 1.0
    for _ in range(steps):
        following = np.zeros(LATTICE.size)
        for number, chance in enumerate(place):
            around = neighbours(LATTICE, LATTICE.levels_of(number))
            chances = exact("exponential", np.array([quality_of(levels) for levels in around]), epsilon / steps)
            for levels, share in zip(around, chances, strict=True):
                following[LATTICE.index_of(levels)] += chance * share
        place = following
    return place


@pytest.mark.slow
def test_a_walk_ends_where_its_steps_lead():
    """Controls: the best map visited, and a walk that gives every step the whole ε₁."""
    steps, epsilon = 3, Decimal(3)
    ends: list[int] = []
    best: list[int] = []
    for _ in range(DRAWS // 4):
        visited: list[Levels] = []
        last = walk(score_of, lattice=LATTICE, epsilon=epsilon, steps=steps, keep=visited.append)
        assert len(visited) == steps
        assert last == visited[-1]
        ends.append(LATTICE.index_of(last))
        best.append(LATTICE.index_of(max(visited, key=quality_of)))
    assert p_value(ends, walked(steps, 3.0)) > ALARM
    assert p_value(best, walked(steps, 3.0)) < ALARM
    assert p_value(ends, walked(steps, 3.0 * steps)) < ALARM


def test_a_broken_off_walk_goes_on_where_it_was():
    taken: list[Levels] = []
    walk(score_of, lattice=LATTICE, epsilon=Decimal(1), steps=5, keep=taken.append)
    asked: list[Sequence[Levels]] = []

    def counting(maps: Sequence[Levels]) -> np.ndarray:
        asked.append(maps)
        return score_of(maps)

    more: list[Levels] = []
    walk(counting, lattice=LATTICE, epsilon=Decimal(1), steps=5, taken=taken[:3], keep=more.append)
    assert len(more) == 2
    assert asked[0] == neighbours(LATTICE, taken[2])
    assert walk(counting, lattice=LATTICE, epsilon=Decimal(1), steps=5, taken=taken) == taken[-1]
    assert len(asked) == 2


def test_the_shares_are_at_most_the_whole():
    for epsilon in ("1", "0.1", "0.000000000007"):
        for steps in (1, 3, 7):
            shares = epsilon_shares(Decimal(epsilon), steps)
            assert len(shares) == steps
            assert Decimal(epsilon) - Decimal("1e-11") <= sum(shares) <= Decimal(epsilon)
    assert epsilon_shares(Decimal("0.3"), 3) == [Decimal("0.1")] * 3
    with pytest.raises(ValueError, match="share"):
        epsilon_shares(Decimal("1e-12"), 7)


def test_a_walk_stays_inside_and_refuses_what_is_not():
    assert neighbours(LATTICE, (0, 0)) == ((0, 0), (0, 1), (1, 0))
    assert neighbours(LATTICE, (1, 1)) == ((0, 1), (1, 0), (1, 1), (2, 1))
    LATTICE.index_of(walk(score_of, lattice=LATTICE, epsilon=Decimal(1), steps=2))
    refused: list[dict] = [
        {"steps": 0},
        {"taken": [(5, 0)]},
        {"taken": [(5, 0), (0, 0)]},
        {"taken": [(0, 0)] * 3},
        {"lattice": Lattice(columns=LATTICE.columns, candidates=((0, 0), (1, 1)))},
    ]
    for changed in refused:
        arguments = {"lattice": LATTICE, "epsilon": Decimal(1), "steps": 2} | changed
        with pytest.raises(ValueError, match=r"walk|levels|steps"):
            walk(score_of, **arguments)
