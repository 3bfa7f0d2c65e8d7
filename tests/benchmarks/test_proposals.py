"""A proposal is within 5% of the best of a grid, by public facts alone."""

from __future__ import annotations

from decimal import Decimal

import pytest

from benchmarks.utility import proposals
from benchmarks.utility.measures import Truth
from benchmarks.utility.proposals import Choice, best_of, proposed, score
from benchmarks.utility.tables import census


def test_few_records_at_a_low_price_get_no_middle_stage_and_are_better_without_it() -> None:
    """The place of the grid where a wrong rule costs most."""
    table, epsilon = census(), Decimal("0.2")
    choice = proposed(table, records=7_000, epsilon=epsilon)
    assert choice == Choice(levels=(0, 2), share=Decimal("0.5"))
    truth = Truth(table=table, records=table.resized(7_000))
    whole = Choice(levels=(0, 1, 2), share=Decimal("0.35"))
    own = score(truth, choice, epsilon=epsilon, draws=1)
    _, best = best_of(truth, [whole, Choice(levels=(1,), share=None)], epsilon=epsilon, draws=1)
    assert own >= 0.95 * best
    assert score(truth, whole, epsilon=epsilon, draws=1) < 0.95 * own, "the control: another choice is found out"


@pytest.mark.long
def test_every_proposal_is_near_the_best_of_the_grid(capsys) -> None:
    proposals.main([])
    assert "The worst proposal has" in capsys.readouterr().out
