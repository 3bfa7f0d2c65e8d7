"""Counts of records included with unequal rates, by a survey that is over or by own coins, and their column."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import inf, nextafter

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from ..hierarchies.decimals import NumberSteps
from ..hierarchies.declare import BUCKET_CODE
from ..kernel.group_counts import GroupCounts, sum_counts
from ..kernel.mechanism import Mechanism, Randomness
from ..kernel.sampling import threshold
from ..recoding import GeneralizationMap, MappedColumn
from .krandomization import WORD, biased_coins, word_threshold_up

__all__ = [
    "BiasedSampleCounts",
    "InclusionColumn",
    "UnequalRatesHistogram",
    "drawn_rates",
    "inclusion_coins",
    "require_rates",
    "stated_rates",
    "thinned_counts",
    "thinned_groups",
]

INCLUSION_LAYOUT = "chacha20-inclusion/1"
"""INVARIANT: it names how the second coins of a column of rates follow from a release's key, and in which order."""

_DOMAIN = b"crowdblend/inclusion/1\x00"
_NONCE_BYTES = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class BiasedSampleCounts(Mechanism):
    """Counts of at least k, of records that were included with unequal rates. The setting of CBP, Theorem 2.

    The data set's own sampling is the protection, so it can be released once, ever. Rates must be functions of
    the record alone.

    Args:
        k: suppression threshold, at least 1.
        lowest_rate: p, the least rate but for the exceptions; 0 where nothing is known of it.
        highest_rate: p′, the greatest but for the exceptions, at least p.
        largest_rate: p_max, which no record exceeds, p′ ≤ p_max < 1.
        exceptions: ℓ, how many other records of a group may have rates outside [p, p′], up to p_max.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "survey_counts"

    k: int
    lowest_rate: Decimal
    highest_rate: Decimal
    largest_rate: Decimal
    exceptions: int

    def __post_init__(self) -> None:
        if self.k < 1 or self.exceptions < 0:
            raise ValueError(f"k must be at least 1 and the exceptions at least 0, not {self.k}, {self.exceptions}")
        if not (0 <= self.lowest_rate <= self.highest_rate <= self.largest_rate < 1 and self.highest_rate > 0):
            raise ValueError(
                "rates must satisfy 0 ≤ lowest ≤ highest ≤ largest < 1 and 0 < highest, not "
                f"{self.lowest_rate}, {self.highest_rate}, {self.largest_rate}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class UnequalRatesHistogram(Mechanism):
    """Counts of at least k in a fresh sample in which each record has a rate of its own, as the record says.

    Source: CBP, Theorem 2. The coins are the release's own: first at the highest rate, then each record that came
    through stays with its own rate divided by that. So the bounds are kept and need not be believed.

    Args:
        k: suppression threshold, at least 1.
        sampling_rate: p′, the highest rate, below 1.
        lowest_rate: p, 0 ≤ p ≤ p′.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "unequal_rates"

    k: int
    sampling_rate: Decimal
    lowest_rate: Decimal

    def __post_init__(self) -> None:
        _ = self.as_survey

    @property
    def as_survey(self) -> BiasedSampleCounts:
        """The same counts as those of a survey with these rates and no exceptions."""
        return BiasedSampleCounts(
            k=self.k,
            lowest_rate=self.lowest_rate,
            highest_rate=self.sampling_rate,
            largest_rate=self.sampling_rate,
            exceptions=0,
        )


def require_rates(rates: Sequence[Decimal]) -> None:
    """Whether declared rates can be drawn.

    Raises:
        ValueError: none, rates that don't ascend, or one outside (0, 1).
    """
    if not rates or not all(0 < rate < 1 for rate in rates) or any(a >= b for a, b in pairwise(rates)):
        raise ValueError("rates must ascend and lie strictly between 0 and 1")


def thinned_counts(
    counts: NDArray[np.int64], rates: Sequence[Decimal], *, highest: Decimal, randomness: Randomness
) -> NDArray[np.int64]:
    """How many records stay of those that a sample at the highest rate holds, each by a coin of its own.

    PRIVACY: the result is drawn, so store what follows from it before anything depends on it. A record's real rate,
    both coins together, is never above the highest, and never below its declared one, but at the highest rate by less
    than 2⁻⁶⁴.

    Args:
        counts: records that came through the first coins; shape (n,).
        rates: the declared rate of each of these groups of records.
        highest: the rate of the first coins, which none of the rates exceeds.
        randomness: n to n secret bytes.

    Returns:
        Shape (n,).

    Raises:
        ValueError: a rate outside (0, highest].
    """
    first = Fraction(threshold(highest), WORD)
    kept = np.empty(counts.shape, dtype=np.int64)
    for place, (count, rate) in enumerate(zip(counts.tolist(), rates, strict=True)):
        if not 0 < rate <= highest:
            raise ValueError(f"a rate must lie above 0 and be at most {highest}, not {rate}")
        share = Fraction(rate) / first
        if share >= 1:
            kept[place] = count
            continue
        limit = word_threshold_up(share)
        kept[place] = count if limit >= WORD else biased_coins(count, threshold=limit, randomness=randomness).sum()
    return kept


def inclusion_coins(secret: bytes) -> Randomness:
    """The second coins of a release whose records have rates of their own: bytes that follow from its key alone.

    They come from another key than the first coins, derived from the release's; so a retry, which counts the same
    records of the same sample, keeps the same of them.

    Args:
        secret: the release's key.

    Returns:
        n to the next n bytes of one ChaCha20 stream.
    """
    key = hmac.digest(secret, _DOMAIN, hashlib.sha256)
    stream = Cipher(algorithms.ChaCha20(key, bytes(_NONCE_BYTES)), mode=None).encryptor()
    return lambda size: stream.update(bytes(size))


_WITHIN = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class InclusionColumn:
    """A column of inclusion rates, read beside the columns of the cells and never published.

    Args:
        column: the column, cut into steps.
        rates: where the rates are drawn with, the declared ones, ascending; None where a survey was drawn with them.
    """

    column: MappedColumn
    rates: tuple[Decimal, ...] | None

    def counted(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which records of a survey count: those whose stated rate lies within the declared bounds."""
        return np.equal(codes, _WITHIN)

    def rates_of(self, codes: NDArray[np.int64]) -> Sequence[Decimal]:
        """The rate that each code is drawn with: the greatest declared one that isn't above what the record says.

        A record that says less than the lowest, or nothing that is a number, has the lowest.

        Raises:
            ValueError: a survey's column, which nothing is drawn with.
        """
        rates = self.declared
        return [rates[0 if code == BUCKET_CODE else code - 1] for code in codes.tolist()]

    @property
    def declared(self) -> tuple[Decimal, ...]:
        """The rates that are drawn with, ascending.

        Raises:
            ValueError: a survey's column, which nothing is drawn with.
        """
        if self.rates is None:
            raise ValueError("nothing is drawn with the rates of a survey that is over")
        return self.rates

    @property
    def layout(self) -> str:
        """Names the rule of the second coins, in ledger and certificate."""
        return INCLUSION_LAYOUT


def drawn_rates(name: str, rates: Sequence[Decimal]) -> InclusionColumn:
    """A column whose rates the release draws with.

    Args:
        name: the column's name.
        rates: the declared rates, ascending.
    """
    steps = NumberSteps(cuts=tuple(float(rate) for rate in rates[1:]))
    return InclusionColumn(column=MappedColumn(name=name, hierarchy=steps, level=0), rates=tuple(rates))


def stated_rates(name: str, *, lowest: Decimal, highest: Decimal) -> InclusionColumn:
    """A column of rates that a survey was drawn with, and the bounds within which a record counts.

    PRIVACY: a record beyond the bounds is left out, as if its rate were 0; a refusal would tell of it.

    Args:
        name: the column's name.
        lowest: the least rate with which a record counts.
        highest: the greatest.
    """
    steps = NumberSteps(cuts=(float(lowest), nextafter(float(highest), inf)))
    return InclusionColumn(column=MappedColumn(name=name, hierarchy=steps, level=0), rates=None)


def thinned_groups(
    counts: GroupCounts, *, published: GeneralizationMap, inclusion: InclusionColumn, secret: bytes
) -> GroupCounts:
    """The groups of a map, each record kept by a second coin at the rate that it names.

    PRIVACY: the coins follow from the release's key, which is stored before a record is read; nothing is drawn anew.

    Args:
        counts: records sampled at the highest rate, by the map's columns and, last, the column of rates.
        published: the map.
        inclusion: the column of rates.
        secret: the release's key.

    Raises:
        ValueError: a survey's column, which nothing is drawn with.
    """
    rates = inclusion.declared
    *codes, named = GeneralizationMap(columns=(*published.columns, inclusion.column)).decode(counts.keys)
    coins = inclusion_coins(secret)
    kept = thinned_counts(counts.counts, inclusion.rates_of(named), highest=rates[-1], randomness=coins)
    some = np.flatnonzero(kept)
    return sum_counts(published.keys([column[some] for column in codes]), kept[some])
