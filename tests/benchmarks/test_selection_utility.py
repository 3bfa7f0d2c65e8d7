"""EXTRA: on UCI Adult the drawn map keeps more records and more information than the fixed one, at equal (ε, δ)."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from benchmarks.utility import selection as command

pytestmark = pytest.mark.extra


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_the_drawn_map_keeps_more_of_both(epsilon):
    """At a rate of a tenth; medians of 20 runs."""
    folder = Path(os.environ["CROWDBLEND_ADULT"])
    lattice = command.adult_lattice(folder)
    assert lattice.size == 12_960
    counts = command.adult_counts(folder / "adult.csv", lattice)
    line = command.compare(lattice, counts, epsilon=Decimal(epsilon), rate=Decimal("0.1"), runs=20)
    assert line.records[1] > line.records[0]
    assert line.information[1] > line.information[0]
