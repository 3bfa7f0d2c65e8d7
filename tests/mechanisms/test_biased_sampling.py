"""Unequal rates: each record is included with the rate that is declared, and never with more than the highest."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.decimals import NumberSteps
from crowdblend.mechanisms.inclusion import drawn_rates, require_rates, stated_rates
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.sampling import threshold
from crowdblend.mechanisms.kinds.biased_coins import WORD, word_threshold_up
from crowdblend.mechanisms.kinds.biased_sampling import (
    INCLUSION_LAYOUT,
    Thinning,
    UnequalRatesHistogram,
    inclusion_coins,
    thinned_counts,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

HIGHEST = Decimal("0.3")


@pytest.mark.parametrize("rate", ["0.05", "0.2", "0.3"])
def test_a_records_two_coins_have_its_rate_together(fit, seeded_bytes, rate) -> None:
    """Bin(40, p′) first, thinned: Bin(40, p). Rates that are 10% off in either direction are told apart."""
    first = np.random.default_rng(3).binomial(40, float(HIGHEST), 20_000)
    kept = thinned_counts(first, [Decimal(rate)] * first.size, highest=HIGHEST, randomness=seeded_bytes)
    assert fit(kept, lambda x: stats.binom.pmf(x, 40, float(rate)))
    for factor in (1.1, 1 / 1.1):
        assert not fit(kept, lambda x, factor=factor: stats.binom.pmf(x, 40, float(rate) * factor))
    assert abs(kept.mean() - 40 * float(rate)) < 6 * math.sqrt(40 * 0.3 * 0.7 / 20_000)


@given(rate=st.decimals("0.000001", "0.3", places=18).filter(lambda rate: rate > 0))
@settings(derandomize=True)
def test_the_real_rate_is_not_below_the_declared_one_nor_above_the_highest(rate) -> None:
    first = Fraction(threshold(HIGHEST), WORD)
    share = Fraction(rate) / first
    real = first if share >= 1 else first * word_threshold_up(share) / WORD
    assert real >= Fraction(rate) - Fraction(1, WORD)
    assert rate == HIGHEST or real >= Fraction(rate)
    assert real <= Fraction(HIGHEST)


def test_at_the_highest_rate_all_stay_without_a_coin() -> None:
    """A half is a threshold of 64 bits exactly, 0.3 is between two."""

    def randomness(n: int) -> bytes:
        raise AssertionError(f"{n} bytes were asked for")

    for highest in (Decimal("0.5"), HIGHEST):
        kept = thinned_counts(np.array([7, 0]), [highest] * 2, highest=highest, randomness=randomness)
        assert kept.tolist() == [7, 0]


def test_rates_that_cannot_be_drawn(seeded_bytes) -> None:
    for rate in ("0", "0.31"):
        with pytest.raises(ValueError, match="at most"):
            thinned_counts(np.array([1]), [Decimal(rate)], highest=HIGHEST, randomness=seeded_bytes)
    require_rates([Decimal("1e-30")])
    require_rates([Decimal("0.1"), Decimal("0.2"), Decimal(1) - Decimal("1e-20")])
    for rates in (
        [],
        ["0.2", "0.1"],
        ["0.1", "0.1"],
        ["0"],
        ["1"],
        ["-0.1", "0.1"],
        ["0.1", "1"],
        ["0.1", "0.3", "0.2"],
    ):
        with pytest.raises(ValueError, match="ascend"):
            require_rates([Decimal(rate) for rate in rates])
    with pytest.raises(ValueError, match="rates must satisfy"):
        UnequalRatesHistogram(k=5, sampling_rate=Decimal("0.1"), lowest_rate=Decimal("0.2"))


def test_a_record_is_drawn_with_the_greatest_declared_rate_that_is_not_above_its_own() -> None:
    inclusion = drawn_rates("p", [Decimal("0.05"), Decimal("0.1"), Decimal("0.3")])
    texts = [b"0.05", b"0.0999", b"0.1", b"0.1000", b"1e-1", b"7", b"0.01", b"-3", b"often", None]
    codes = inclusion.column.hierarchy.codes_of_texts(texts, 0)
    assert [str(inclusion.rates_of_codes[code]) for code in codes.tolist()] == [
        "0.05", "0.05", "0.1", "0.1", "0.1", "0.3", "0.05", "0.05", "0.05", "0.05",
    ]  # fmt: skip


def test_a_surveyed_record_counts_where_its_rate_lies_within_the_bounds_both_included() -> None:
    inclusion = stated_rates("p", lowest=Decimal("0.1"), highest=Decimal("0.2"))
    texts = [b"0.1", b"0.2", b"0.15", b"0.0999999", b"0.2000001", b"", b"many", None]
    codes = inclusion.column.hierarchy.codes_of_texts(texts, 0)
    assert inclusion.counted_codes[codes].tolist() == [True, True, True, False, False, False, False, False]
    with pytest.raises(ValueError, match="over"):
        _ = inclusion.rates_of_codes


SECRET = bytes(range(32))
CELLS = GeneralizationMap(columns=(MappedColumn(name="cell", hierarchy=NumberSteps(cuts=(1.0, 2.0)), level=0),))


def rated_counts(rates):
    """The thinning of, and 4,000 records of each of two cells at each declared rate, in the order of the keys."""
    inclusion = drawn_rates("rate", rates)
    both = GeneralizationMap(columns=(*CELLS.columns, inclusion.column))
    codes = [np.repeat([2, 3], len(rates)), np.tile(np.arange(1, len(rates) + 1), 2)]
    return Thinning(layout=both.layout, rates=inclusion.rates_of_codes), GroupCounts(
        both.keys(codes), np.full(2 * len(rates), 4_000)
    )


def test_second_coins_follow_from_the_releases_key_alone():
    """A retry keeps the same records; the numbers are those of the layout's name, so another rule needs another one."""
    thinning, counts = rated_counts((Decimal("0.1"), Decimal("0.2")))
    first, again, other = (
        thinning.thinned(counts, randomness=inclusion_coins(secret)).counts.tolist()
        for secret in (SECRET, SECRET, SECRET[::-1])
    )
    assert first == again != other
    assert INCLUSION_LAYOUT == "chacha20-inclusion/1"
    assert inclusion_coins(SECRET)(8).hex() == "aca109ad6406fd87"
    assert first == [6_043, 5_983]
    assert all(abs(count - 6_000) < 6 * 32 for count in (*first, *other)), "half of one, all of the other"


def test_groups_of_which_nobody_is_kept_are_not_there():
    thinning, counts = rated_counts((Decimal("1e-30"), Decimal("0.2")))
    kept = thinning.thinned(counts, randomness=inclusion_coins(SECRET))
    assert CELLS.decode(kept.keys)[0].tolist() == [2, 3]
    assert kept.counts.tolist() == [4_000, 4_000]
    low = GroupCounts(counts.keys[:, ::2], counts.counts[::2])
    assert thinning.thinned(low, randomness=inclusion_coins(SECRET)).counts.size == 0


def test_a_surveys_column_thins_nothing():
    inclusion = stated_rates("rate", lowest=Decimal("0.1"), highest=Decimal("0.2"))
    with pytest.raises(ValueError, match="a survey that is over"):
        _ = inclusion.rates_of_codes
    thinning, _ = rated_counts((Decimal("0.1"),))
    with pytest.raises(ValueError, match="a table of 1 codes"):
        replace(thinning, rates=thinning.rates[1:])
