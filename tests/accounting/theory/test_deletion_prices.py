"""Prices of deletion releases: linear programs over all mechanisms, every outcome of small chains, exact sums."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.accounting.descriptions import deletion_description
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds import deletion_prices
from crowdblend.accounting.kinds.composition.composed import delta_composed
from crowdblend.accounting.kinds.composition.finite_losses import FiniteLosses, _least_growth
from crowdblend.accounting.kinds.deletion_prices import deletion_losses, price_deletion
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.accounting.theory.planning.parts_beside import price_parts
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion, DeletionRelease, delete_records
from crowdblend.mechanisms.kinds.deletion_noise import (
    WEIGHT_TOTAL,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    deletion_weights,
    largest_deletion,
)
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from scipy.optimize import linprog

MILLIONTH = Decimal("1e-6")
COARSE = OptimalDeletion(epsilon=Decimal(1), delta=Decimal("0.1"))
LOPSIDED = OptimalDeletion(epsilon=Decimal("0.7"), delta=Decimal("0.2"))
NARROW = GeometricDeletion(epsilon=Decimal(1), width=1)
BELL = GaussianDeletion(scale=Decimal(1), width=2)
GROWTHS = [Fraction(1), Fraction(5, 4), Fraction(2), Fraction(27, 10), Fraction(4), Fraction(9), Fraction(25)]


def release(noise, stages=1):
    return DeletionRelease(stages=stages, k=1, noise=noise)


def hockey_stick(upper, lower, growth):
    """Σ max(0, P − E·Q) of two laws given as whole numbers over the same total, exactly."""
    return sum(max(Fraction(0), mass - growth * lower.get(outcome, 0)) for outcome, mass in upper.items())


def shifted(noise, records):
    """The laws of Z and of Z + M."""
    weights = deletion_weights(noise)
    law = {z: Fraction(weight, WEIGHT_TOTAL) for z, weight in enumerate(weights)}
    return law, {z + records: mass for z, mass in law.items()}


def together(pairs):
    """The joint laws of independent pairs."""
    joint = []
    for side in (0, 1):
        law = {(): Fraction(1)}
        for pair in pairs:
            law = {(*o, x): p * q for o, p in law.items() for x, q in pair[side].items()}
        joint.append(law)
    return joint


# The optimal noise.


def most_published(epsilon, delta, n, wanted):
    """The largest Pr[J ≥ wanted] with n records, over all (ε, δ)-private mechanisms with 0 ≤ J ≤ records."""
    places = {(m, j): index for index, (m, j) in enumerate((m, j) for m in range(n + 1) for j in range(m + 1))}
    masses = len(places)
    pairs = [(m, m - 1) for m in range(1, n + 1)] + [(m - 1, m) for m in range(1, n + 1)]
    slacks = {(pair, j): masses + i for i, (pair, j) in enumerate(itertools.product(pairs, range(n + 1)))}
    size = masses + len(slacks)
    rows, limits = [], []
    for pair in pairs:
        total = np.zeros(size)
        for j in range(n + 1):
            row = np.zeros(size)
            if (pair[0], j) in places:
                row[places[pair[0], j]] = 1.0
            if (pair[1], j) in places:
                row[places[pair[1], j]] = -math.exp(epsilon)
            row[slacks[pair, j]] = -1.0
            rows.append(row)
            limits.append(0.0)
            total[slacks[pair, j]] = 1.0
        rows.append(total)
        limits.append(delta)
    sums = np.zeros((n + 1, size))
    for (m, _), index in places.items():
        sums[m, index] = 1.0
    goal = np.zeros(size)
    for j in range(wanted, n + 1):
        goal[places[n, j]] = -1.0
    found = linprog(goal, A_ub=np.array(rows), b_ub=limits, A_eq=sums, b_eq=np.ones(n + 1), bounds=(0, None))
    return -found.fun


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "0.05"), ("0.4", "0.1"), ("2", "0.01"), ("0.2", "0.25")])
def test_no_private_mechanism_publishes_more_records_of_any_group(epsilon, delta):
    noise = OptimalDeletion(epsilon=Decimal(epsilon), delta=Decimal(delta))
    cumulative = [float(Fraction(mass, WEIGHT_TOTAL)) for mass in itertools.accumulate(deletion_weights(noise))]
    for n, wanted in [(1, 1), (2, 1), (3, 2), (4, 1), (5, 5), (6, 1), (6, 4)]:
        ours = cumulative[min(n - wanted, len(cumulative) - 1)]
        assert ours == pytest.approx(most_published(float(epsilon), float(delta), n, wanted), abs=1e-7)


@pytest.mark.parametrize("epsilon", ["0.01", "0.183", "0.5", "1", "2", "7"])
@pytest.mark.parametrize("delta", ["0.1", "1e-6", "1e-12"])
def test_the_optimal_noise_is_charged_what_it_was_made_for_and_no_more(epsilon, delta):
    noise = OptimalDeletion(epsilon=Decimal(epsilon), delta=Decimal(delta))
    found = price(release(noise), delta=Decimal(delta))
    assert found.rule == "deletion-exact/1"
    assert Decimal(epsilon) * Decimal("0.99999999") < found.epsilon <= Decimal(epsilon)


# One step, exactly, in both directions.


@pytest.mark.parametrize("noise", [COARSE, LOPSIDED, NARROW, BELL])
@pytest.mark.parametrize("records", [1, 2, 3])
@pytest.mark.parametrize("delta", ["0.35", "0.6", "0.9"])
def test_a_step_costs_the_least_epsilon_of_both_directions(oracle, noise, records, delta):
    present, without = shifted(noise, records)
    outcomes = sorted(present | without)
    sides = [[float(law.get(z, 0)) for z in outcomes] for law in (present, without)]
    wanted = [oracle.least_epsilon(*pair, float(delta)) for pair in (sides, sides[::-1])]
    found = deletion_losses(release(noise), records=records).epsilon_of_step(Decimal(delta))
    if None in wanted:
        assert found is None
    else:
        assert float(found) == pytest.approx(max(wanted), rel=1e-12, abs=1e-15)


def test_a_price_of_one_direction_alone_would_be_too_low():
    losses = deletion_losses(release(LOPSIDED))
    adding, removing = losses.directions
    deltas = []
    for atoms in (adding, removing):
        law = {i: Fraction(upper, WEIGHT_TOTAL) for i, (upper, _) in enumerate(atoms)}
        other = {i: Fraction(lower, WEIGHT_TOTAL) for i, (_, lower) in enumerate(atoms)}
        deltas.append(hockey_stick(law, other, GROWTHS[2]))
    assert min(deltas) < max(deltas)
    assert delta_composed({losses: 1}, epsilon=math.log(2)) >= max(deltas)
    weights = deletion_weights(LOPSIDED)
    assert losses.infinite == Fraction(max(weights[0], weights[-1]), WEIGHT_TOTAL)


# Chains of stages, every outcome of small data sets.

PARENTS = [np.array([0, 0, 1]), np.array([0, 0])]


def published_law(noise, counts, stages, k=1, chain=delete_records):
    """The exact law of what all stages publish: every combination of draws through the mechanism itself."""
    mechanism = DeletionRelease(stages=stages, k=k, noise=noise)
    groups = [3, 2, 1][:stages]
    drawn = np.array(list(itertools.product(range(largest_deletion(noise) + 1), repeat=sum(groups))))
    copies = len(drawn)
    # One forest with a copy of the tree for each combination.
    parents = [
        (step[None, :] + np.arange(copies)[:, None] * groups[place + 1]).ravel()
        for place, step in enumerate(PARENTS[: stages - 1])
    ]
    edges = np.cumsum([0, *groups])
    deletions = [drawn[:, edges[i] : edges[i + 1]].ravel() for i in range(stages)]
    published = chain(np.tile(counts, copies), release=mechanism, parents=parents, deletions=deletions)
    outcomes = np.concatenate([one.reshape(copies, -1) for one in published], axis=1)
    weights = deletion_weights(noise)
    law = defaultdict(int)
    for outcome, draws in zip(outcomes.tolist(), drawn.tolist(), strict=True):
        law[tuple(outcome)] += math.prod(weights[z] for z in draws)
    total = WEIGHT_TOTAL ** sum(groups)
    return {outcome: Fraction(mass, total) for outcome, mass in law.items()}


def deltas_of(upper, lower):
    """The larger of both directions, for each growth."""
    return [max(hockey_stick(upper, lower, growth), hockey_stick(lower, upper, growth)) for growth in GROWTHS]


def composed_exactly(noise, stages, records=1):
    return deltas_of(*together([shifted(noise, records)] * stages))


NEIGHBOURS = [((0, 0, 0), 0), ((2, 0, 0), 0), ((1, 2, 0), 0), ((4, 1, 2), 0), ((3, 3, 1), 2), ((5, 5, 5), 1)]


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_no_data_set_exceeds_the_composition_of_its_stages(stages, k):
    largest = [Fraction(0)] * len(GROWTHS)
    for counts, group in NEIGHBOURS:
        with_record = list(counts)
        with_record[group] += 1
        laws = [published_law(NARROW, np.array(c), stages, k) for c in (with_record, counts)]
        largest = [max(pair) for pair in zip(largest, deltas_of(*laws), strict=True)]
    bound = composed_exactly(NARROW, stages)
    assert all(found <= limit for found, limit in zip(largest, bound, strict=True))
    losses = deletion_losses(release(NARROW, stages))
    for growth, limit in zip(GROWTHS, bound, strict=True):
        assert delta_composed({losses: 1}, epsilon=math.log(growth)) >= limit
    if k == 1:  # one data set attains the bound of one stage, and most of the others'
        assert largest[-1] == bound[-1] if stages == 1 else largest[-1] >= bound[-1] / 2


def same_noise_again(counts, *, release, parents, deletions):
    """A wrong chain: the later stages use the first stage's draws once more."""
    again = [deletions[0]]
    for step in parents:
        later = np.zeros(int(step.max()) + 1, dtype=np.int64)
        later[step] = again[-1]
        again.append(later)
    return delete_records(counts, release=release, parents=parents, deletions=again)


def untouched_residual(counts, *, release, parents, deletions):
    """A wrong chain: what is left at the end is published as it is."""
    return delete_records(counts, release=release, parents=parents, deletions=[*deletions[:-1], deletions[-1] * 0])


@pytest.mark.parametrize("wrong", [same_noise_again, untouched_residual])
def test_a_chain_that_reuses_or_leaves_out_noise_is_found_out(wrong):
    laws = [published_law(NARROW, np.array(counts), 2, chain=wrong) for counts in ((5, 4, 0), (4, 4, 0))]
    bound = composed_exactly(NARROW, 2)
    assert any(found > limit for found, limit in zip(deltas_of(*laws), bound, strict=True))


# Several records of a person.


@pytest.mark.parametrize("noise", [NARROW, LOPSIDED, BELL])
@pytest.mark.parametrize("records", [2, 3])
def test_one_group_is_the_worst_place_for_several_records(noise, records):
    bound = deltas_of(*shifted(noise, records))
    for split in itertools.product(range(records + 1), repeat=3):
        if 0 < sum(split) <= records:
            pair = together([shifted(noise, share) for share in split if share])
            assert all(found <= limit for found, limit in zip(deltas_of(*pair), bound, strict=True))
    # Records in as many groups, or a single record, are another thing, and cheaper somewhere.
    for cheaper in (together([shifted(noise, 1)] * records), shifted(noise, 1)):
        assert any(found < limit for found, limit in zip(deltas_of(*cheaper), bound, strict=True))


@pytest.mark.parametrize(
    ("with_person", "without"), [((5, 5, 2), (4, 4, 2)), ((5, 2, 2), (3, 2, 2)), ((2, 2, 2), (2, 1, 1))]
)
def test_a_person_with_two_records_is_covered_over_the_whole_chain(with_person, without):
    laws = [published_law(NARROW, np.array(counts), 2) for counts in (with_person, without)]
    bound = composed_exactly(NARROW, 2, records=2)
    assert all(found <= limit for found, limit in zip(deltas_of(*laws), bound, strict=True))
    losses = deletion_losses(release(NARROW, 2), records=2)
    for growth, limit in zip(GROWTHS, bound, strict=True):
        assert delta_composed({losses: 1}, epsilon=math.log(growth)) >= limit


def test_more_records_cost_more_and_at_most_as_plain_group_privacy_has_it():
    noise = GaussianDeletion(scale=Decimal("7.8"), width=39)
    prices = [price(release(noise, 3), delta=MILLIONTH * 10, rows_per_person=m) for m in (1, 2, 3)]
    epsilons = [one.epsilon for one in prices]
    assert epsilons == sorted(set(epsilons))
    assert prices[1].rule == "group-privacy/1+deletion-composed/1"
    even = Decimal("0.9e-6")
    plain = 2 * price(release(noise, 3), delta=even).epsilon  # (ε, δ) of one is (2ε, (1 + e^ε)δ) of two
    assert (1 + plain.exp() ** Decimal("0.5")) * even <= MILLIONTH * 10
    assert epsilons[1] <= plain


def test_weights_whose_logarithm_is_not_concave_have_no_price_for_several_records():
    ragged = release(GeometricDeletion(epsilon=Decimal(1), width=80))
    assert price(ragged, delta=MILLIONTH).epsilon == pytest.approx(Decimal(1), rel=Decimal("0.01"))
    with pytest.raises(InputRefused, match="too improbable"):
        price(ragged, delta=MILLIONTH, rows_per_person=2)
    assert deletion_prices.deletion_filter_parts(ragged, 1)
    with pytest.raises(InputRefused, match="too improbable"):
        deletion_prices.deletion_filter_parts(ragged, 2)


# Composition.


@pytest.mark.parametrize("noise", [NARROW, COARSE, BELL])
@pytest.mark.parametrize("times", [2, 4])
def test_the_composition_on_a_grid_is_never_below_the_exact_one_and_close_to_it(noise, times):
    exact = composed_exactly(noise, times)
    losses = deletion_losses(release(noise))
    stages = deletion_losses(release(noise, times))
    for growth, limit in zip(GROWTHS, exact, strict=True):
        for parts in ({losses: times}, {stages: 1}):
            found = delta_composed(parts, epsilon=math.log(growth))
            assert float(limit) * (1 - 1e-12) <= found <= float(limit) * 1.002 + 1e-12


def test_an_order_of_stages_and_releases_costs_the_same():
    noise = GaussianDeletion(scale=Decimal("15.6"), width=80)
    twelve = price(release(noise), delta=MILLIONTH, releases=12).epsilon
    assert price(release(noise, 3), delta=MILLIONTH, releases=4).epsilon == pytest.approx(twelve, rel=Decimal("1e-6"))
    assert price(release(noise, 3), delta=MILLIONTH, releases=5).epsilon > twelve


def test_losses_of_different_kinds_compose():
    sampled = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    losses = deletion_losses(release(GaussianDeletion(scale=Decimal("15.6"), width=80)))
    both = delta_composed({sampled: 1, losses: 2}, epsilon=0.5)
    assert both > delta_composed({losses: 2}, epsilon=0.5)


def test_a_single_loss_is_put_between_two_grid_points_without_lowering_the_curve():
    third = FiniteLosses(outcomes=((2, 1), (1, 2)), total=3, times=1)
    for epsilon in np.linspace(0.0, 0.8, 41):
        exact = max(0.0, 2 / 3 - math.exp(epsilon) / 3)
        assert delta_composed({third: 1}, epsilon=float(epsilon)) >= exact * (1 - 1e-12)


@pytest.mark.parametrize("delta", ["1e-8", "1e-210"])
def test_a_noise_whose_ends_outweigh_delta_has_no_price(delta):
    with pytest.raises(InputRefused, match="at 2 stages in all: the ends of the noise"):
        price_deletion(release(NARROW, 2), delta=Decimal(delta))
    with pytest.raises(InputRefused, match="in all where a person has up to 3 records: the ends of the noise"):
        price_deletion(release(NARROW, 2), delta=Decimal(delta), records=3)


# The planner.


@pytest.mark.parametrize(
    ("epsilon", "steps", "shape", "width"),
    [
        ("1", 1, "geometric", 14),
        ("1", 2, "geometric", 27),
        ("1", 3, "gaussian", 39),
        ("1", 4, "gaussian", 45),
        ("1", 12, "gaussian", 80),
        ("1", 52, "gaussian", 170),
        ("0.4216", 12, "gaussian", 173),
    ],
)
def test_the_planner_finds_widths_at_most_those_known(epsilon, steps, shape, width):
    found = plan_deletion(epsilon=Decimal(epsilon), delta=MILLIONTH, releases=steps, shape=shape)
    noise = found.mechanism.noise
    assert width * 0.98 - 1 < noise.width <= width
    assert found.price == price(found.mechanism, delta=MILLIONTH, releases=steps)
    assert found.price.epsilon <= Decimal(epsilon)
    assert found.largest_deletion == 2 * noise.width


def within_one(mechanism):
    try:
        return price(mechanism, delta=MILLIONTH).epsilon <= 1
    except InputRefused:
        return False


@pytest.mark.parametrize(("steps", "scales"), [(3, range(70, 90)), (4, range(80, 100))])
def test_a_smaller_width_than_the_planned_one_is_charged_more_whatever_its_scale(steps, scales):
    planned = plan_deletion(epsilon=Decimal(1), delta=MILLIONTH, stages=steps, shape="gaussian").mechanism
    assert within_one(planned)
    for tenths in scales:
        noise = GaussianDeletion(scale=Decimal(tenths) / 10, width=planned.noise.width - 1)
        assert not within_one(release(noise, steps))


def test_the_plan_for_one_stage_is_the_optimal_noise_and_for_more_what_deletes_least():
    one = plan_deletion(epsilon=Decimal(1), delta=MILLIONTH)
    assert one.mechanism.noise == OptimalDeletion(epsilon=Decimal(1), delta=MILLIONTH)
    assert (one.largest_deletion, round(one.expected_deletion, 4)) == (27, 13.0675)
    two = plan_deletion(epsilon=Decimal(1), delta=MILLIONTH, stages=2)
    assert isinstance(two.mechanism.noise, OptimalDeletion)
    assert two.expected_deletion < 27
    series = plan_deletion(epsilon=Decimal("0.4216"), delta=MILLIONTH, releases=12)
    assert isinstance(series.mechanism.noise, GaussianDeletion)
    assert series.expected_deletion <= 175


@pytest.mark.parametrize("records", [2, 5])
def test_a_plan_for_several_records_is_charged_within_its_target(records):
    found = plan_deletion(epsilon=Decimal(1), delta=MILLIONTH, stages=3, rows_per_person=records, k=5)
    assert found.mechanism.k == 5
    assert found.price.rows_per_person == records
    assert Decimal("0.9") < found.price.epsilon <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": Decimal(0)},
        {"epsilon": Decimal(51)},
        {"delta": Decimal(0)},
        {"stages": 0},
        {"releases": 0},
        {"rows_per_person": 0},
        {"epsilon": Decimal("1e-9")},
        {"delta": Decimal("1e-40"), "stages": 3},
    ],
)
def test_a_plan_out_of_range_is_refused(wrong):
    with pytest.raises(InputRefused):
        plan_deletion(**{"epsilon": Decimal(1), "delta": MILLIONTH} | wrong)


# The exhibit.


def ladder_on_a_sample(counts, *, rate, k):
    """The law of a ladder of two levels on one suppressed sample: what a finer level leaves out goes to the coarser."""
    law = defaultdict(Fraction)
    for sampled in itertools.product(*(range(n + 1) for n in counts)):
        mass = math.prod(
            math.comb(n, y) * rate**y * (1 - rate) ** (n - y) for n, y in zip(counts, sampled, strict=True)
        )
        fine = tuple(y if y >= k else 0 for y in sampled)
        left = sum(sampled) - sum(fine)
        law[(*fine, left if left >= k else 0)] += mass
    return law


@pytest.mark.parametrize(("k", "rate", "siblings"), [(3, Fraction(1, 5), 10), (20, Fraction(1, 10), 190)])
def test_the_same_ladder_on_one_suppressed_sample_betrays_a_person_at_every_epsilon(k, rate, siblings):
    """A sibling group at k − 1 in the sample: the remainder appears when one record more is sampled."""
    present = ladder_on_a_sample((1, siblings), rate=rate, k=k)
    absent = ladder_on_a_sample((0, siblings), rate=rate, k=k)
    one_short = math.comb(siblings, k - 1) * rate ** (k - 1) * (1 - rate) ** (siblings - k + 1)
    betrayed = hockey_stick(present, {(*o[:1], *o[1:]): p for o, p in absent.items()}, Fraction(10**9))
    assert betrayed >= rate * one_short
    assert present[(0, 0, k)] == rate * one_short
    assert absent[(0, 0, k)] == 0
    if k == 20:
        mechanism = StronglySafeRelease(k=k, sampling_rate=Decimal("0.1"))
        assert float(betrayed) > 9e-3
        assert price(mechanism, delta=MILLIONTH).epsilon < 1  # what one level alone is charged at a millionth


# Margins beside the rows.


def calibrated(noise, stages, margins, scale="1.5", width=1):
    return CalibratedDeletion(
        stages=stages, k=1, noise=noise, margins=margins, margin_scale=Decimal(scale), margin_width=width
    )


def published_with_margins(mechanism, counts):
    """The exact law of one stage's records and of two noisy margins, by the groups and by their parents."""
    law = published_law(mechanism.noise, np.array(counts), 1)
    weights = deletion_weights(mechanism.margin_noise)
    for cell in (*counts, counts[0] + counts[1], counts[2]):
        noisy = {cell + z - mechanism.margin_width: Fraction(w, WEIGHT_TOTAL) for z, w in enumerate(weights)}
        law = {(*outcome, x): p * q for outcome, p in law.items() for x, q in noisy.items()}
    return law


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "group"), [((2, 0, 0), 0), ((3, 3, 1), 2)])
def test_rows_with_margins_are_within_their_composition_and_beyond_that_of_the_rows(counts, group):
    with_record = list(counts)
    with_record[group] += 1
    mechanism = calibrated(NARROW, 1, 2)
    found = deltas_of(*(published_with_margins(mechanism, one) for one in (with_record, counts)))
    bound = deltas_of(*together([shifted(NARROW, 1), *[shifted(mechanism.margin_noise, 1)] * 2]))
    assert all(one <= limit for one, limit in zip(found, bound, strict=True))
    rows = deltas_of(*shifted(NARROW, 1))
    assert any(one > limit for one, limit in zip(found, rows, strict=True)), "a price of the rows alone is too low"
    for growth, limit in zip(GROWTHS, bound, strict=True):
        parts = dict.fromkeys(deletion_description.DELETION.losses(mechanism), 1)
        assert delta_composed(parts, epsilon=math.log(growth)) >= limit


@pytest.mark.parametrize("alike", [False, True])
def test_margins_cost_what_as_many_stages_with_their_noise_cost(alike):
    """Also where their noise is the stages' own, or has the same weights by other parameters."""
    noise = GaussianDeletion(scale=Decimal("15.6"), width=80)
    other = ("15.60" if alike else "24.1", 80 if alike else 130)
    mechanism = calibrated(noise, 2, 3, *other)
    parts = deletion_description.DELETION.losses(mechanism)
    assert sum(part.times for part in parts) == 5
    found = price(mechanism, delta=MILLIONTH, releases=2)
    assert found.rule == "deletion-composed/1"
    if alike:
        assert found.epsilon == price(release(noise, 5), delta=MILLIONTH, releases=2).epsilon
    rows, margins = price_parts(mechanism, delta=MILLIONTH, releases=2)
    assert rows == price(release(noise, 2), delta=MILLIONTH, releases=2)
    assert margins == price(release(mechanism.margin_noise, 3), delta=MILLIONTH, releases=2)
    assert max(rows.epsilon, margins.epsilon) < found.epsilon < rows.epsilon + margins.epsilon
    several = [price(mechanism, delta=MILLIONTH * 10, releases=2, rows_per_person=m).epsilon for m in (1, 2)]
    assert several[1] > 1.5 * float(several[0])


def test_weights_that_are_alike_by_other_parameters_are_added_up():
    same = Decimal("15.6") + Decimal("1e-60")
    noise = GaussianDeletion(scale=Decimal("15.6"), width=80)
    assert deletion_weights(GaussianDeletion(scale=same, width=80)) == deletion_weights(noise)
    mechanism = calibrated(noise, 1, 1, str(same), 80)
    assert price(mechanism, delta=MILLIONTH).epsilon == price(release(noise, 2), delta=MILLIONTH).epsilon


@pytest.mark.parametrize(("stages", "margins", "share"), [(1, 1, "0.2"), (2, 10, "0.2"), (3, 4, "0.5")])
def test_a_plan_with_margins_keeps_the_price_and_leaves_the_rows_more_than_the_rest(stages, margins, share):
    found = plan_deletion(
        epsilon=Decimal(1), delta=MILLIONTH, stages=stages, margins=margins, margin_share=Decimal(share)
    )
    assert Decimal("0.9") < found.price.epsilon <= 1
    assert found.price == price(found.mechanism, delta=MILLIONTH)
    assert (found.mechanism.stages, found.mechanism.margins) == (stages, margins)
    rows, beside = price_parts(found.mechanism, delta=MILLIONTH)
    assert Decimal(share) * Decimal("0.8") < beside.epsilon < Decimal(share) * Decimal("1.01")
    assert rows.epsilon > (1 - Decimal(share)) * Decimal("0.99")


@pytest.mark.parametrize(("share", "margins"), [("0", 1), ("1", 1), ("1e-9", 900)])
def test_shares_that_leave_no_noise_are_refused(share, margins):
    with pytest.raises(InputRefused, match="share"):
        plan_deletion(epsilon=Decimal(1), delta=MILLIONTH, margins=margins, margin_share=Decimal(share))


def test_parts_whose_noise_has_no_price_at_a_delta_have_none():
    mechanism = calibrated(GaussianDeletion(scale=Decimal("15.6"), width=80), 2, 3, "24.1", 130)
    assert price_parts(mechanism, delta=Decimal("1e-300")) == (None, None)


@pytest.mark.parametrize("total", [7, 60, 2**64])
def test_the_least_growth_in_whole_numbers_is_that_of_fractions(total) -> None:
    draws = np.random.default_rng(20261128)
    for _ in range(200):
        weights = draws.integers(0, total // 6 + 2, size=(8, 2), dtype=np.uint64)
        atoms = tuple((int(upper), int(lower)) for upper, lower in [*weights, *weights[:3]] if upper or lower)
        target = Fraction(int(draws.integers(1, 999)), 1000) * total
        # Σ max(0, P − E·Q) is piecewise linear in E: it meets the target between two ratios, or nowhere.
        ends = sorted({Fraction(0), *(Fraction(upper, lower) for upper, lower in atoms if lower)})
        sums = [sum(max(Fraction(0), upper - end * lower) for upper, lower in atoms) for end in ends]
        if sums[-1] > target:
            expected = None
        elif sums[0] <= target:
            expected = Fraction(0)
        else:
            place = next(number for number, value in enumerate(sums) if value <= target)
            slope = (sums[place - 1] - sums[place]) / (ends[place] - ends[place - 1])
            expected = ends[place] - (target - sums[place]) / slope
        found = _least_growth(atoms, target)
        assert (None if found is None else max(found, Fraction(0))) == expected
