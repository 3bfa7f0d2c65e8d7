"""The audit of releases that choose pairs, on few draws: the claim holds and is approached, and a fault is found."""

from __future__ import annotations

import numpy as np
import pytest
from crowdblend.mechanisms.kinds import paired_deletion

from audit.statistics.cases_of_pairs import pair_cases
from audit.statistics.confidence import chosen_event, epsilon_lower

DRAWS = 2_000
[CASE] = pair_cases(1.0)


def bound() -> float:
    """The lower bound on ε that few draws of the worst neighbours show."""
    rng, worst = np.random.default_rng(22), CASE.pairs[-1]
    scouted, counted = (
        [np.bincount(worst.draw(side, DRAWS, rng)) for side in (0, 1)] for _ in ("to choose an event", "to count it")
    )
    event = chosen_event((scouted[0], scouted[1]), delta=CASE.delta)
    one, other = (event.hits(counted[side]) for side in (event.likelier, 1 - event.likelier))
    return epsilon_lower(one, DRAWS, other, DRAWS, delta=CASE.delta, alarm=1e-5)


@pytest.mark.slow
def test_the_worst_neighbours_of_a_draw_show_most_of_what_is_charged_and_no_more():
    assert 0.5 * CASE.claim < bound() <= CASE.claim


@pytest.mark.slow
def test_a_draw_by_twice_its_exponent_is_found(monkeypatch):
    """As if the quality could only rise by a record: then the exponent is ε times the quality, not half of it."""
    draw = paired_deletion.draw_pair
    monkeypatch.setattr(
        paired_deletion, "draw_pair", lambda qualities, *, epsilon: draw(qualities, epsilon=2 * epsilon)
    )
    assert bound() > CASE.claim
