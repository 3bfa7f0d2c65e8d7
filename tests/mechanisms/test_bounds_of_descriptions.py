"""Fields of descriptions lie within bounds that are stated: what lies at them is taken, what lies beyond is refused."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations
from math import prod

import pytest
from crowdblend.mechanisms.kernel.contributions import ContributionLimit
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, REPLACEMENT
from crowdblend.mechanisms.kernel.noise import TwoSidedGeometricNoise
from crowdblend.mechanisms.kinds.answers import CountAnswer, MeanAnswer, SumAnswer
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from crowdblend.mechanisms.kinds.deletion import CalibratedDeletion
from crowdblend.mechanisms.kinds.deletion_noise import (
    LARGEST_DELETION,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
)
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch
from crowdblend.mechanisms.kinds.synthetic_table import SyntheticTable, counted_cells, library_rho
from crowdblend.mechanisms.map_selection.choice import draw_scale, epsilon_shares

TINY, ALMOST = Decimal("1e-20"), 1 - Decimal("1e-20")
RATES = ([TINY, ALMOST], [Decimal(0), Decimal(1), -TINY, 1 + TINY])
EPSILONS = ([Decimal("1e-9"), Decimal("1e9")], [Decimal(0), Decimal("-1"), Decimal("Infinity"), Decimal("NaN")])
WHOLE = 1 << 53
ONE, HALF = Decimal(1), Decimal("0.5")
SURVEY = {"k": 5, "lowest_rate": HALF, "highest_rate": HALF, "largest_rate": HALF, "exceptions": 0}
NOISE = OptimalDeletion(epsilon=ONE, delta=Decimal("1e-6"))
ANSWER = {"epsilon": ONE, "relation": ADD_REMOVE, "groups": 1, "sampling_rate": None}

CASES = [
    (SuppressedHistogram, {"k": 2, "sampling_rate": None}, {"k": ([1], [0, -1]), "sampling_rate": RATES}),
    (
        NoisyHistogram,
        {"k": 2, "epsilon": ONE, "sampling_rate": None},
        {"k": ([1], [0, -1]), "epsilon": EPSILONS, "sampling_rate": RATES},
    ),
    (
        OutlierPrivateHistogram,
        {"epsilon": ONE, "horizon": 5, "margin": 3},
        {"epsilon": EPSILONS, "margin": ([1, 4], [0, -1, 5, 6])},
    ),
    (
        BiasedSampleCounts,
        SURVEY,
        {
            "k": ([1], [0]),
            "exceptions": ([0, 1], [-1]),
            "lowest_rate": ([Decimal(0), TINY, HALF], [-TINY, HALF + TINY]),
            "highest_rate": ([HALF], [HALF - TINY, HALF + TINY]),
            "largest_rate": ([HALF, ALMOST], [HALF - TINY, ONE]),
        },
    ),
    (
        CountMeanSketch,
        {"epsilon": ONE, "hashes": 2, "bits": 8, "seed": b"x"},
        {
            "epsilon": ([Decimal("1e-6"), Decimal(40)], [Decimal(0), 40 + TINY, Decimal("NaN"), Decimal("-Infinity")]),
            "hashes": ([1, 65536], [0, 65537]),
            "bits": ([8, 16, 65536], [0, 4, 12, 65532, 65544]),
            "seed": ([b"s", b"s" * 64], [b"", b"s" * 65]),
        },
    ),
    (
        KRandomization,
        {"bits": 2, "flip_probability": Decimal("0.25")},
        {
            "bits": ([1, 24], [0, 25]),
            "flip_probability": ([Decimal("1e-15"), Decimal("0.499999")], [Decimal("9e-16"), Decimal("0.4999991")]),
        },
    ),
    (
        OutcomeCounts,
        {"randomizer": KRandomization(bits=1, flip_probability=HALF / 2), "least_people": 2},
        {"least_people": ([1], [0])},
    ),
    (TwoSidedGeometricNoise, {"epsilon": ONE}, {"epsilon": EPSILONS, "sensitivity": ([1], [0, -1])}),
    (CountAnswer, ANSWER, {"epsilon": EPSILONS, "groups": ([1, 2], [0, -1]), "sampling_rate": RATES}),
    (
        CountAnswer,
        ANSWER | {"relation": REPLACEMENT, "groups": 2},
        {"groups": ([2], [1]), "sampling_rate": ([], [HALF])},
    ),
    (
        SumAnswer,
        ANSWER | {"lower": 0, "upper": 1},
        {"lower": ([-WHOLE, 0], [-WHOLE - 1, 1, 2]), "upper": ([1, WHOLE], [0, -1, WHOLE + 1])},
    ),
    (MeanAnswer, ANSWER | {"lower": 0, "upper": 1, "least_records": 2}, {"least_records": ([1], [0, -1])}),
    (ContributionLimit, {"unit": "person", "column": "id", "records": 3}, {"records": ([1, 2, 1000], [0, -1])}),
    (
        SyntheticTable,
        {"method": "mst", "rho": ONE},
        {
            "method": (["aim"], ["MST", ""]),
            "rho": ([TINY, Decimal(10**6)], [Decimal(0), -ONE, 10**6 + TINY, Decimal("Infinity"), Decimal("NaN")]),
        },
    ),
    (StronglySafeRelease, {"k": 2, "sampling_rate": HALF}, {"k": ([1], [0, -1]), "sampling_rate": RATES}),
    (
        EpsilonSafeRelease,
        {"k": 2, "sampling_rate": HALF, "selection_epsilon": ONE, "selection_rate": None},
        {"k": ([1], [0]), "sampling_rate": RATES, "selection_epsilon": EPSILONS, "selection_rate": RATES},
    ),
    (
        UnequalRatesHistogram,
        {"k": 2, "sampling_rate": HALF, "lowest_rate": HALF},
        {"k": ([1], [0]), "lowest_rate": ([TINY, HALF], [HALF + TINY])},
    ),
    (
        SyntheticPoints,
        {"dimensions": 1, "cells_per_side": 1, "counts": StronglySafeRelease(k=5, sampling_rate=HALF)},
        {"dimensions": ([1, 1000], [0, 1001, 10**400]), "cells_per_side": ([1, 2**26], [0, -2, 2**26 + 1, 10**400])},
    ),
    (
        OptimalDeletion,
        {"epsilon": ONE, "delta": HALF},
        {"epsilon": ([ONE], [Decimal(0), Decimal(51), Decimal("NaN")]), "delta": ([HALF], [Decimal(0), ONE])},
    ),
    (OptimalDeletion, {"epsilon": Decimal(50), "delta": HALF}, {"delta": ([HALF], [Decimal("1e-25")])}),
    (OptimalDeletion, {"epsilon": Decimal("1e-6"), "delta": HALF}, {"delta": ([HALF], [Decimal("1e-6")])}),
    (GeometricDeletion, {"epsilon": ONE, "width": 9}, {"width": ([1, 9], [0, LARGEST_DELETION, 200])}),
    (GaussianDeletion, {"scale": Decimal(8), "width": 20}, {"scale": ([Decimal(8)], [ONE, -ONE])}),
    (
        CalibratedDeletion,
        {"stages": 1, "k": 1, "noise": NOISE, "margins": 1, "margin_scale": ONE, "margin_width": 8},
        {"stages": ([1], [0]), "k": ([1], [0]), "margins": ([1], [0])},
    ),
    (
        SumAnswer,
        ANSWER | {"lower": 0, "upper": 1, "relation": REPLACEMENT},
        {"groups": ([1, 2], [0]), "sampling_rate": ([], [HALF]), "epsilon": EPSILONS},
    ),
]


@pytest.mark.parametrize(("kind", "fields", "bounds"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_each_field_is_taken_up_to_its_bounds_and_not_beyond(kind, fields, bounds) -> None:
    for name, (within, beyond) in bounds.items():
        for value in within:
            assert getattr(kind(**fields | {name: value}), name) == value
        for value in beyond:
            with pytest.raises(
                ValueError, match=r"must|at least|at most|too|more than|there is|has 1 to|public|add/remove"
            ):
                kind(**fields | {name: value})


@pytest.mark.parametrize("sizes", [(), (3,), (3, 4), (3, 4, 5), (2, 2, 2, 7)])
def test_a_synthetic_table_counts_all_combinations_of_two_columns_or_of_two_and_three(sizes) -> None:
    cells = {width: sum(map(prod, combinations(sizes, width))) for width in (2, 3)}
    assert counted_cells(sizes, method="mst") == cells[2]
    assert counted_cells(sizes, method="aim") == cells[2] + cells[3]
    assert library_rho(SyntheticTable(method="aim", rho=Decimal("0.5"))) == 0.5 * 0.999999


def test_a_scale_can_be_drawn_for_thirty_digits_either_side() -> None:
    assert [draw_scale(Decimal(text)) > 0 for text in ("1e-29", "9.99e29")] == [True, True]
    for text in ("9.9e-30", "1e-31", "1e30", "1e31", "0", "-1", "NaN"):
        with pytest.raises(ValueError, match="epsilon must"):
            draw_scale(Decimal(text))
    assert epsilon_shares(Decimal("3e-12"), 3) == [Decimal("1e-12")] * 3
    for steps in (4, 0):
        with pytest.raises(ValueError, match="step"):
            epsilon_shares(Decimal("3e-12"), steps)
