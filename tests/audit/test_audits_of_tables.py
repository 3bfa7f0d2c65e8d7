"""The audits of pairs and of oversized units' members, on few draws: the charge holds, and a fault is found."""

from __future__ import annotations

import numpy as np
import pytest
from crowdblend.mechanisms import unit_records
from crowdblend.mechanisms.kinds import member_deletion, paired_deletion

from audit.statistics.cases import Case
from audit.statistics.cases_of_members import member_cases
from audit.statistics.cases_of_pairs import pair_cases
from audit.statistics.confidence import chosen_event, epsilon_lower

DRAWS = 6_000
"""With a third of them, OpenDP's coins choose an event that shows too little in one run of thirty."""

[PAIRS], [MEMBERS] = pair_cases(1.0), member_cases(1.0)


def bound(case: Case) -> float:
    """The lower bound on ε that few draws of the worst neighbours show."""
    rng, worst = np.random.default_rng(22), case.pairs[-1]
    scouted, counted = (
        [np.bincount(worst.draw(side, DRAWS, rng)) for side in (0, 1)] for _ in ("to choose an event", "to count it")
    )
    event = chosen_event((scouted[0], scouted[1]), delta=case.delta)
    one, other = (event.hits(counted[side]) for side in (event.likelier, 1 - event.likelier))
    return epsilon_lower(one, DRAWS, other, DRAWS, delta=case.delta, alarm=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("case", [PAIRS, MEMBERS], ids=["pairs", "members"])
def test_the_worst_neighbours_cost_a_third_of_what_is_charged_at_least_and_no_more(case: Case) -> None:
    assert case.claim / 3 < bound(case) <= case.claim


@pytest.mark.slow
def test_a_draw_by_twice_its_exponent_is_found(monkeypatch) -> None:
    """As if the quality could only rise by a record: then the exponent is ε times the quality, not half of it."""
    draw = paired_deletion.draw_pair
    monkeypatch.setattr(
        paired_deletion, "draw_pair", lambda qualities, *, epsilon: draw(qualities, epsilon=2 * epsilon)
    )
    assert bound(PAIRS) > PAIRS.claim


@pytest.mark.slow
def test_a_cap_of_members_that_is_not_kept_is_found(monkeypatch) -> None:
    """As if twelve members of a household could be in the table that is priced for three."""
    made = member_deletion.layout_with_members
    for module in (member_deletion, unit_records):
        monkeypatch.setattr(
            module, "layout_with_members", lambda units, members, *, most: made(units, members, most=4 * most)
        )
    assert bound(MEMBERS) > MEMBERS.claim
