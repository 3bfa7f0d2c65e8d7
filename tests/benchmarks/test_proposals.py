"""A proposal is within 5% of the best of a grid, by public facts alone."""

from __future__ import annotations

from decimal import Decimal

import pytest
from crowdblend.accounting.theory.planning.deletion import stage_levels

from benchmarks.utility import proposals
from benchmarks.utility.measures import Truth
from benchmarks.utility.proposals import Choice, best_of, proposed, score
from benchmarks.utility.tables import census


def test_a_column_has_its_finest_a_middle_its_coarsest_level_and_the_last() -> None:
    assert stage_levels([51, 9, 4, 1], records=7_000) == (0, 1, 2, 3)
    assert stage_levels([100, 20, 10, 2, 1], records=50) == (1, 2, 3, 4), "100 labels are more than there are records"
    assert stage_levels([2, 1], records=50) == (0, 0, 0, 1)
    assert stage_levels([5], records=50) == (0, 0, 0, 0), "no level of *"
    assert stage_levels([1], records=50) == (0, 0, 0, 0)


def test_few_records_at_a_low_price_get_a_last_stage_and_are_better_with_it() -> None:
    """The place of the grid where a wrong rule costs most."""
    table, epsilon = census(), Decimal("0.2")
    choice = proposed(table, records=7_000, epsilon=epsilon)
    assert choice == Choice(levels=(0, 1, 2, 3), share=Decimal("0.5"))
    truth = Truth(table=table, records=table.resized(7_000))
    without = Choice(levels=(0, 1, 2), share=Decimal("0.35"))
    own = score(truth, choice, epsilon=epsilon, draws=1)
    _, best = best_of(truth, [without, Choice(levels=(1,), share=None)], epsilon=epsilon, draws=1)
    assert own >= 0.95 * best
    assert score(truth, without, epsilon=epsilon, draws=1) < 0.95 * own, "the control: another choice is found out"


@pytest.mark.long
def test_every_proposal_is_near_the_best_of_the_grid(capsys) -> None:
    proposals.main([])
    assert "The worst proposal has" in capsys.readouterr().out
