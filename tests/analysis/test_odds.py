"""Odds and their ratios: the records' own without noise, within intervals with noise, and refused where pairs can't."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from crowdblend.analysis.figures import Figure
from crowdblend.analysis.loaded_release import LoadedRelease
from crowdblend.analysis.odds import odds_of
from crowdblend.mechanisms.kernel.errors import InputRefused

from .test_regressions import people, published

RICH = {"pay": range(12, 24)}


def odds(codes: list[np.ndarray], label: int) -> float:
    own = codes[2] == label
    rich = codes[0] - 2 >= 12
    return float((rich & own).sum() / (~rich & own).sum())


def test_without_noise_they_are_those_of_the_records() -> None:
    codes = people()
    release = LoadedRelease(published(codes, np.random.default_rng(1), error=0.0))
    true = [odds(codes, label) for label in (1, 2, 3)]
    alone = release.odds(RICH, by="town")
    assert alone["town"].tolist() == ["x", "y", "z"]
    assert alone["estimate"].to_numpy() == pytest.approx(true, rel=1e-6)
    ratios = release.odds(RICH, by="town", against="y")
    assert ratios["estimate"].to_numpy() == pytest.approx(np.array(true) / true[1], rel=1e-6)
    assert (ratios["lower"] <= ratios["estimate"]).all()
    assert ratios["upper"].to_numpy() == pytest.approx(ratios["estimate"].to_numpy(), rel=1e-4)
    part = release.odds(RICH, of={"pay": range(6, 24)}, by="town")["estimate"][0]
    own = codes[0][codes[2] == 1] - 2
    assert part == pytest.approx((own >= 12).sum() / ((own >= 6) & (own < 12)).sum(), rel=1e-6)
    two = release.odds(RICH, of={"town": ["x", "z"]}, against={"town": "y"})
    both = codes[2] != 2
    rich = codes[0] - 2 >= 12
    assert two.estimate == pytest.approx((rich & both).sum() / (~rich & both).sum() / true[1], rel=1e-6)
    whole = codes[0] - 2 >= 12
    assert release.odds(RICH).estimate == pytest.approx(whole.sum() / (~whole).sum(), rel=1e-6)


@pytest.mark.parametrize("error", [3.0, 12.0])
def test_intervals_hold_the_records_odds_in_95_of_100_draws(error) -> None:
    """300 draws: outside 95 % by 4 standard errors once in 16,000 tests; where counts are few a little wide."""
    codes, coins = people(1_500), np.random.default_rng(2)
    alone, ratios = [], []
    for _ in range(300):
        release = LoadedRelease(published(codes, coins, error=error))
        own = release.odds(RICH, by="town").iloc[2]
        alone.append(own["lower"] <= odds(codes, 3) <= own["upper"])
        ratio = release.odds(RICH, by="town", against="y").iloc[2]
        ratios.append(ratio["lower"] <= odds(codes, 3) / odds(codes, 2) <= ratio["upper"])
    assert abs(np.mean(alone) - 0.95) <= 0.0503
    assert np.mean(ratios) >= 0.95 - 0.0503


def test_where_nobody_is_left_there_is_no_interval() -> None:
    release = LoadedRelease(published(people(150), np.random.default_rng(4), error=0.0))
    ratios = release.odds({"pay": 23}, by="town", against="x")
    assert ratios["lower"][1:].isna().all()
    assert (ratios["note"][1:] == "too few records to tell").all()


def test_a_share_that_is_no_number_has_no_odds() -> None:
    """Of records whose noisy number isn't above 0; of all of some records the odds are infinite."""
    whole = published(people(150), np.random.default_rng(4), error=0.0)
    margin = whole.margins[2].copy()
    margin[3] = -900.0
    release = LoadedRelease(replace(whole, margins=(*whole.margins[:2], margin, whole.margins[3]), pairs=()))
    assert math.isnan(odds_of(Figure(estimate=math.nan, lower=0.0, upper=1.0, source="pairs")).estimate)
    assert math.isnan(release.odds({"town": "x"}, of={"town": "z"}).estimate)
    assert release.odds({"town": "x"}, of={"town": "x"}).estimate == math.inf


def test_what_pairs_do_not_tell_is_refused_or_has_no_interval() -> None:
    whole = published(people(), np.random.default_rng(5), error=12.0)
    release = LoadedRelease(whole)
    with pytest.raises(InputRefused, match="one column") as refused:
        release.odds(RICH, by=["town", "sex"])
    assert "linear probability" in str(refused.value)
    with pytest.raises(InputRefused, match="one column"):
        release.odds(RICH, against="x")
    with pytest.raises(InputRefused, match="no label"):
        release.odds(RICH, by="town", against="nowhere")
    apart = LoadedRelease(replace(whole, pairs=whole.pairs[:1]))
    assert apart.odds(RICH, by="town", against="x")["lower"][1:].isna().all()
