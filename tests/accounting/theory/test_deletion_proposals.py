"""What is proposed of a deletion release follows from what is declared, about how many records there are, and ε."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from math import ceil

import pytest
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.theory.planning.deletion_planning import plan_beside, plan_deletion
from crowdblend.accounting.theory.planning.deletion_proposal import propose_deletion, stage_levels
from crowdblend.accounting.theory.planning.parts_beside import Beside, calibrated
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion

BUDGET = {"epsilon": Decimal(2), "delta": Decimal("1e-4")}
TOWNS, SEXES, AGES = [51, 9, 4, 1], [2, 1], [100, 20, 10, 2, 1]


def test_a_column_has_its_finest_a_middle_and_its_coarsest_level_and_never_stars() -> None:
    assert stage_levels(TOWNS, records=7_000) == (0, 1, 2)
    assert stage_levels(AGES, records=50) == (1, 2, 3), "100 labels are more than there are records"
    assert stage_levels(SEXES, records=50) == (0, 0, 0)
    assert stage_levels([5], records=50) == (0, 0, 0), "no level of *"
    assert stage_levels([1], records=50) == (0, 0, 0)


def test_at_a_tiny_epsilon_margins_leave_delta_for_the_rows_and_the_search_ends() -> None:
    """A margin's noise much narrower than its σ is even: its ends weigh as much as any other number."""
    plan = plan_deletion(epsilon=Decimal("1e-4"), delta=Decimal("1e-3"), margins=4)
    assert plan.price.epsilon <= Decimal("1e-4")
    assert plan.expected_deletion < 1000


@pytest.mark.parametrize(
    ("columns", "records", "stages", "share", "combinations"),
    [
        ([TOWNS, AGES], 7_000, (0, 1, 2), "0.35", 4 * 2),
        ([SEXES, [3]], 7_000, (0,), "0.35", 2 * 3),  # no other level but *: one stage
        ([[9, 2, 1], SEXES], 7_000, (0, 1), "0.35", 2 * 2),  # the middle level is the coarsest
        ([TOWNS, []], 7_000, (0, 1, 2), "0.35", None),  # unknown labels: a stage for each level that there may be
        ([TOWNS, [30, 10, 1]], 40, (0, 1), "0.5", 4 * 10),  # too few records, and no stage of * for them
        ([TOWNS, AGES], 40, (0, 2), "0.5", 4 * 2),  # the one in the middle is left out
        ([[40], [30]], 40, (0,), "0.5", 40 * 30),
        ([TOWNS, []], 1, (0, 1, 2), "0.35", None),
    ],
)
def test_a_proposal_has_the_stages_that_its_columns_and_its_records_allow(
    columns, records, stages, share, combinations
) -> None:
    found = propose_deletion(columns, records=records, **BUDGET)
    assert (found.stages, found.margin_share, found.combinations) == (stages, Decimal(share), combinations)
    alone = plan_deletion(stages=len(stages), margins=len(columns), margin_share=Decimal(share), **BUDGET)
    assert found.plan == alone
    assert price(found.plan.mechanism, delta=BUDGET["delta"]).epsilon == found.plan.price.epsilon <= BUDGET["epsilon"]


def test_the_middle_stage_goes_where_a_combination_has_fewer_records_than_it_loses() -> None:
    """Exactly there: 40 combinations, each of which loses E[Z] records in expectation."""
    columns = [TOWNS, [60, 30, 10, 1]]
    many = propose_deletion(columns, records=10**6, **BUDGET)
    lost = ceil(40 * many.plan.expected_deletion)
    assert propose_deletion(columns, records=lost, **BUDGET).stages == (0, 1, 2)
    assert propose_deletion(columns, records=lost - 1, **BUDGET).stages == (0, 2)


def test_it_says_for_how_many_columns_there_are_records_enough() -> None:
    columns = [[9, 3, 1]] * 19
    found = propose_deletion(columns, records=7_600, **BUDGET)
    assert found.combinations == 3**19
    assert found.fitting is not None
    assert (
        3**found.fitting * found.plan.expected_deletion
        <= 7_600
        < 3 ** (found.fitting + 1) * found.plan.expected_deletion
    )
    assert not found.enough
    assert propose_deletion(columns[:2], records=7_600, **BUDGET).enough
    assert propose_deletion([*columns, []], records=7_600, **BUDGET).fitting is None


@pytest.mark.parametrize("epsilon", [1, 3, 8, 16])
@pytest.mark.parametrize("share", ["0.2", "0.5"])
def test_margins_of_a_narrow_noise_leave_delta_for_the_rows(epsilon, share) -> None:
    """One record less of width has ends a thousand times as probable at ε = 8: they may not weigh all of δ."""
    found = plan_deletion(
        epsilon=Decimal(epsilon), delta=Decimal("1e-4"), stages=3, margins=2, margin_share=Decimal(share)
    )
    assert Decimal("0.8") * epsilon < found.price.epsilon <= epsilon
    assert price(found.mechanism, delta=Decimal("1e-4")).epsilon == found.price.epsilon


@pytest.mark.parametrize(
    "beside",
    [
        Beside(complete=lambda rows: rows, precision=1e9),
        Beside(
            complete=partial(calibrated, margins=4, noise=GaussianDeletion(scale=Decimal(15_260), width=1)),
            precision=0.0,
        ),
    ],
    ids=["by its shift", "by its ends"],
)
def test_where_what_is_beside_the_rows_exceeds_delta_the_search_ends_with_a_refusal(beside) -> None:
    """Without an end it would go through all σ for ever, or through thousands of widths that are priced for minutes."""
    asked = {"stages": 1, "releases": 1, "rows_per_person": 1, "k": 1}
    with pytest.raises(InputRefused, match="no noise that deletes at most"):
        plan_beside(epsilon=Decimal("1e-4"), delta=Decimal("1e-3"), beside=beside, **asked)


@pytest.mark.parametrize("records", [0, -1])
def test_a_proposal_needs_a_record(records) -> None:
    with pytest.raises(InputRefused, match=f"at least one record, not {records}"):
        propose_deletion([TOWNS], records=records, **BUDGET)


def test_where_no_noise_is_wide_enough_none_is_proposed_and_none_is_planned() -> None:
    low = {"epsilon": Decimal("1e-4"), "delta": Decimal("1e-6")}
    with pytest.raises(InputRefused, match=r"costs so little as 3\.5e-5 at delta 3\.5e-7.*or publish fewer margins"):
        propose_deletion([TOWNS, AGES], records=7_000, **low)
    with pytest.raises(InputRefused, match=r"charged at most 0\.0001 at delta 1e-6 for 3 stages in all.*fewer stages"):
        plan_deletion(stages=3, shape="gaussian", **low)
