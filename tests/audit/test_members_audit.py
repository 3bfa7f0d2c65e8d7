"""The audit of an oversized household's members, on few draws: the charge holds, and a cap that isn't kept is found."""

from __future__ import annotations

import numpy as np
import pytest
from crowdblend.mechanisms import unit_records
from crowdblend.mechanisms.kinds import member_deletion

from audit.statistics.cases_of_members import member_cases
from audit.statistics.confidence import chosen_event, epsilon_lower

DRAWS = 2_000
[CASE] = member_cases(1.0)


def bound() -> float:
    """The lower bound on ε that few draws of the worst neighbours show."""
    rng, worst = np.random.default_rng(23), CASE.pairs[-1]
    scouted, counted = (
        [np.bincount(worst.draw(side, DRAWS, rng)) for side in (0, 1)] for _ in ("to choose an event", "to count it")
    )
    event = chosen_event((scouted[0], scouted[1]), delta=CASE.delta)
    one, other = (event.hits(counted[side]) for side in (event.likelier, 1 - event.likelier))
    return epsilon_lower(one, DRAWS, other, DRAWS, delta=CASE.delta, alarm=1e-5)


@pytest.mark.slow
def test_an_oversized_household_costs_most_of_what_is_charged_and_no_more():
    assert 0.4 * CASE.claim < bound() <= CASE.claim


@pytest.mark.slow
def test_a_cap_of_members_that_is_not_kept_is_found(monkeypatch):
    """As if twelve members of a household could be in the table that is priced for three."""
    made = member_deletion.layout_with_members
    for module in (member_deletion, unit_records):
        monkeypatch.setattr(
            module, "layout_with_members", lambda units, members, *, most: made(units, members, most=4 * most)
        )
    assert bound() > CASE.claim
