"""COUNT, SUM and MEAN: sensitivities against every small data set, distributions, accuracy, groups, samples."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.mechanisms.answer_errors import estimates, half_width, standard_errors
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, REPLACEMENT
from crowdblend.mechanisms.kinds.answers import (
    MEAN_STEPS,
    CountAnswer,
    MeanAnswer,
    SumAnswer,
    Tally,
    answered,
    noise_of,
    sensitivity,
    step,
    tallied,
)

ONE = {"epsilon": Decimal("0.5"), "relation": ADD_REMOVE, "groups": 1, "sampling_rate": None}
DRAWS = 30_000


def empty_tally(answer):
    zeros = np.zeros(answer.groups, dtype=np.int64)
    return Tally(records=zeros, sums=zeros)


def exact(answer, records):
    """The answer without noise, in fractions, straight from its definition; records are (group, value) pairs."""
    result = []
    for group in range(answer.groups):
        values = [value for own, value in records if own == group]
        match answer:
            case CountAnswer():
                result.append(Fraction(len(values)))
            case SumAnswer():
                result.append(Fraction(sum(min(max(v, answer.lower), answer.upper) for v in values)))
            case MeanAnswer():
                total = sum(min(max(v, answer.lower), answer.upper) for v in values)
                result.append(Fraction(total, max(len(values), answer.least_records)))
    return result


def in_steps(answer, records):
    """The whole number that the code would publish without noise."""
    groups = np.array([group for group, _ in records], dtype=np.int64)
    values = None if isinstance(answer, CountAnswer) else np.array([v for _, v in records], dtype=np.int64)
    tally = tallied(answer, groups=groups, values=values)
    quiet = type(answer)(**{name: getattr(answer, name) for name in fields(answer)} | {"epsilon": Decimal(10**9)})
    return answered(quiet, tally)


def fields(answer):
    return [name for cls in type(answer).__mro__ for name in getattr(cls, "__slots__", ())]


def neighbours(relation, groups, values, largest):
    rows = list(itertools.product(range(groups), values))
    for size in range(largest + 1):
        for data in itertools.combinations_with_replacement(rows, size):
            if relation == ADD_REMOVE:
                for row in rows:
                    yield list(data), [*data, row]
            else:
                for place, row in itertools.product(range(size), rows):
                    yield list(data), [*data[:place], row, *data[place + 1 :]]


CASES = [
    CountAnswer(**ONE),
    CountAnswer(**ONE | {"groups": 2}),
    CountAnswer(**ONE | {"groups": 2, "relation": REPLACEMENT}),
    SumAnswer(**ONE, lower=-1, upper=2),
    SumAnswer(**ONE | {"relation": REPLACEMENT}, lower=-1, upper=2),
    SumAnswer(**ONE | {"groups": 2, "relation": REPLACEMENT}, lower=1, upper=2),
    MeanAnswer(**ONE, lower=-1, upper=2, least_records=1),
    MeanAnswer(**ONE, lower=-2, upper=2, least_records=2),
    MeanAnswer(**ONE, lower=0, upper=3, least_records=3),
    MeanAnswer(**ONE | {"relation": REPLACEMENT}, lower=-1, upper=2, least_records=2),
    MeanAnswer(**ONE | {"groups": 2}, lower=-1, upper=2, least_records=1),
    MeanAnswer(**ONE | {"groups": 2, "relation": REPLACEMENT}, lower=-2, upper=2, least_records=1),
]


@pytest.mark.slow
@pytest.mark.parametrize("answer", CASES, ids=lambda a: f"{type(a).__name__}-{a.relation}-{a.groups}")
def test_the_sensitivity_is_the_largest_difference_of_neighbours(answer):
    """Over every data set of up to three records, values beyond the bounds too; the bound is met."""
    values = range(-3, 4)
    largest = max(
        sum(abs(a - b) for a, b in zip(exact(answer, one), exact(answer, other), strict=True))
        for one, other in neighbours(answer.relation, answer.groups, values, 3)
    )
    assert largest <= sensitivity(answer)
    assert largest == sensitivity(answer), "the bound is met"


@pytest.mark.parametrize("answer", [CASES[7], CASES[9], CASES[11]], ids=["add-remove", "replacement", "groups"])
def test_rounding_to_the_grid_adds_no_step(answer):
    most = noise_of(answer).sensitivity
    assert most == MEAN_STEPS * (2 if answer.groups > 1 else 1)
    seen = 0
    for number, (one, other) in enumerate(neighbours(answer.relation, answer.groups, [-3, -1, 0, 2], 2)):
        if number % 7 == 0:
            moved = sum(abs(a - b) for a, b in zip(in_steps(answer, one), in_steps(answer, other), strict=True))
            seen = max(seen, moved)
            assert moved <= most
    assert seen > most // 2


@pytest.mark.parametrize("answer", CASES, ids=lambda a: f"{type(a).__name__}-{a.relation}-{a.groups}")
def test_a_mean_is_told_in_parts_of_the_sensitivity_of_one_group_and_others_in_whole_numbers(answer):
    """2²⁰ parts, which the proof of the grid names; under replacement two of several groups move."""
    two = answer.relation == REPLACEMENT and answer.groups > 1
    parts = Fraction(1, 2**20) / (2 if two else 1)
    assert step(answer) == (sensitivity(answer) * parts if isinstance(answer, MeanAnswer) else 1)
    assert noise_of(answer).sensitivity == sensitivity(answer) / step(answer)


def test_professors_salaries(examples):
    example = examples["professors"]
    answer = MeanAnswer(**ONE, lower=0, upper=example["largest_salary"], least_records=example["least_professors"])
    assert sensitivity(answer) == Fraction(example["sensitivity"])
    assert sensitivity(answer) == Fraction(example["largest_salary"], example["least_professors"])


@pytest.mark.parametrize("answer", [CASES[0], CASES[3], CASES[8]], ids=["count", "sum", "mean"])
def test_answers_have_their_distribution(fit, answer):
    records = [(0, 2), (0, -3), (0, 1)]
    groups, values = (np.array(column) for column in zip(*records, strict=True))
    tally = tallied(answer, groups=groups, values=None if isinstance(answer, CountAnswer) else values)
    many = type(answer)(**{name: getattr(answer, name) for name in fields(answer)} | {"groups": DRAWS})
    repeated = type(tally)(records=np.repeat(tally.records, DRAWS), sums=np.repeat(tally.sums, DRAWS))
    centre = exact(answer, records)[0]
    published = np.array(answered(many, repeated))
    # In quarters of the sensitivity, so that the mean's fine grid has few outcomes.
    width = max(1, noise_of(answer).sensitivity // 4)
    binned = np.floor_divide(published - int(centre / step(answer)), width)

    def mass(factor):
        loss = float(answer.epsilon) * factor / noise_of(answer).sensitivity

        def below(x):
            """Pr[noise < x] of the discrete Laplace distribution."""
            alpha = math.exp(-loss)
            return alpha ** (1 - x) / (1 + alpha) if x <= 0 else 1 - alpha**x / (1 + alpha)

        return lambda b: below((b + 1) * width) - below(b * width)

    assert fit(binned, mass(1.0))
    assert not fit(binned, mass(1.1))
    assert not fit(binned, mass(1 / 1.1))
    assert abs(float(published.mean() * step(answer) - centre)) < 6 * float(step(answer)) * math.sqrt(
        noise_of(answer).variance / DRAWS
    ) + float(step(answer))


def test_every_declared_group_is_answered_empty_ones_too():
    answer = CountAnswer(**ONE | {"groups": 5})
    tally = tallied(answer, groups=np.array([1, 1, 4]), values=None)
    assert tally.records.tolist() == [0, 2, 0, 0, 1]
    assert len(answered(answer, tally)) == 5
    assert len(answered(answer, empty_tally(answer))) == 5


def test_estimates_from_a_sample_are_unbiased_with_their_standard_error():
    rate, people = Decimal("0.2"), 5000
    answer = CountAnswer(**ONE | {"groups": DRAWS, "sampling_rate": rate})
    sampled = np.random.default_rng(8).binomial(people, 0.2, DRAWS)
    tally = empty_tally(answer)
    found = answered(answer, type(tally)(records=sampled, sums=tally.sums))
    values = np.array([float(value) for value in estimates(answer, found)])
    errors = np.array(standard_errors(answer, found))
    assert abs(values.mean() - people) < 6 * errors.mean() / math.sqrt(DRAWS)
    assert values.std() == pytest.approx(errors.mean(), rel=6 / math.sqrt(2 * DRAWS) + 0.002)
    assert abs(values.mean() * 1.1 - people) > 6 * errors.mean() / math.sqrt(DRAWS)


def test_the_standard_error_of_a_sampled_sum_covers_the_truth():
    rate, values = Decimal("0.2"), np.random.default_rng(4).integers(0, 9, 3000)
    answer = SumAnswer(**ONE | {"groups": 4000, "sampling_rate": rate}, lower=0, upper=8)
    draws = np.random.default_rng(9)
    sums = np.array([values[draws.random(3000) < 0.2].sum() for _ in range(4000)])
    found = answered(answer, type(empty_tally(answer))(records=sums, sums=sums))
    spread = np.array([float(value) for value in estimates(answer, found)]).std()
    stated = np.mean(standard_errors(answer, found))
    assert spread < stated < 1.5 * spread
    mixed = SumAnswer(**ONE | {"sampling_rate": rate}, lower=-1, upper=8)
    with pytest.raises(ValueError, match="one sign"):
        standard_errors(mixed, [3])


def test_stated_errors_and_widths_by_hand():
    """√(σ² + spread·(1−β))/β for what is sampled; a mean's interval is wider by its rounding, half a step."""
    rate = Decimal("0.2")
    sampled = SumAnswer(**ONE | {"sampling_rate": rate}, lower=-3, upper=0)
    noise = noise_of(sampled).variance
    assert standard_errors(sampled, [-40, 0]) == pytest.approx(
        [math.sqrt(noise + 3 * 40 * 0.8) / 0.2, math.sqrt(noise) / 0.2]
    )
    counted = CountAnswer(**ONE | {"sampling_rate": rate})
    noise = noise_of(counted).variance
    assert standard_errors(counted, [40, -7]) == pytest.approx(
        [math.sqrt(noise + 40 * 0.8) / 0.2, math.sqrt(noise) / 0.2]
    )
    assert estimates(counted, [40, -7]) == [200, -35]
    mean = MeanAnswer(**ONE | {"sampling_rate": rate}, lower=0, upper=8, least_records=4)
    assert estimates(mean, [3]) == [3 * step(mean)]
    assert standard_errors(mean, [3]) == pytest.approx([math.sqrt(noise_of(mean).variance) * float(step(mean))])
    assert half_width(mean, confidence=0.9) / step(mean) == noise_of(mean).half_width(0.9) + Fraction(1, 2)
    assert half_width(counted, confidence=0.9) == noise_of(counted).half_width(0.9)


def test_records_that_are_told_with_their_number_count_as_often():
    answer = SumAnswer(**ONE | {"groups": 2}, lower=0, upper=10)
    groups, values, times = np.array([0, 1, 1]), np.array([4, 99, -1]), np.array([3, 2, 5])
    told = tallied(answer, groups=groups, values=values, times=times)
    each = tallied(answer, groups=np.repeat(groups, times), values=np.repeat(values, times))
    assert told.records.tolist() == each.records.tolist() == [3, 7]
    assert told.sums.tolist() == each.sums.tolist() == [12, 20]


def test_sums_that_do_not_fit_64_bits_are_refused():
    answer = SumAnswer(**ONE, lower=0, upper=2**53)
    with pytest.raises(ValueError, match="64 bits"):
        tallied(answer, groups=np.zeros(600, dtype=np.int64), values=np.zeros(600, dtype=np.int64))
    with pytest.raises(ValueError, match="takes no values"):
        tallied(CASES[0], groups=np.zeros(1, dtype=np.int64), values=np.zeros(1, dtype=np.int64))
    with pytest.raises(ValueError, match="needs values"):
        tallied(answer, groups=np.zeros(1, dtype=np.int64), values=None)
