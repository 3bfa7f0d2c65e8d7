"""What is refused leaks as its page says."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from audit.exhibits import unsafe_mechanisms as unsafe
from audit.exhibits.of_maps import ladder_on_one_sample


def test_what_is_refused_betrays_the_extreme_record(capsys):
    for publish in (unsafe.local_recoding, unsafe.clustered):
        without, with_rich = publish(unsafe.INCOMES, 5), publish([*unsafe.INCOMES, unsafe.RICH], 5)
        assert min(group[-1] for group in without) >= 5, "it is k-anonymous"
        assert min(group[-1] for group in with_rich) >= 5
        # Nothing that any data set within the usual range could publish.
        assert max(value for group in with_rich for value in group[:-1]) > max(unsafe.INCOMES)
        assert max(value for group in without for value in group[:-1]) <= max(unsafe.INCOMES)
    unsafe.main()
    told = capsys.readouterr().out
    assert told.count("impossible without the person") == 2
    assert told.count("no epsilon is enough") == 2
    assert told.count("epsilon = 0.5") == 2
    delta = unsafe.ladder_delta(k=unsafe.LADDER_K, rate=unsafe.LADDER_RATE, siblings=unsafe.LADDER_SIBLINGS)
    assert f"delta is {float(delta):.6f} at every epsilon" in told


@pytest.mark.parametrize(("k", "siblings"), [(2, 3), (3, 6)])
def test_the_delta_of_a_ladder_on_one_sample_is_what_no_epsilon_covers(k, siblings):
    """Every outcome with the person and without, exactly: what only the person makes possible."""
    rate = Fraction(1, 3)
    laws: list[dict[str, Fraction]] = []
    for people in (1, 0):
        law: dict[str, Fraction] = {}
        for person in range(people + 1):
            for others in range(siblings + 1):
                chance = (rate if person else 1 - rate) if people else Fraction(1)
                chance *= math.comb(siblings, others) * rate**others * (1 - rate) ** (siblings - others)
                seen = repr(unsafe.ladder_of_sample((person, others), k))
                law[seen] = law.get(seen, Fraction(0)) + chance
        laws.append(law)
    only = sum(chance for seen, chance in laws[0].items() if seen not in laws[1])
    assert only == unsafe.ladder_delta(k=k, rate=rate, siblings=siblings)
    at_large_epsilon = sum(max(chance - 10**9 * laws[1].get(seen, 0), 0) for seen, chance in laws[0].items())
    assert at_large_epsilon == only


@pytest.mark.slow
def test_a_ladder_betrays_on_one_sample_and_not_as_a_deletion_release():
    found = ladder_on_one_sample()
    assert found.other_betrays
    assert not found.ours_betrays
