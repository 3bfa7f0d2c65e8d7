"""Counts of records included with unequal rates, by a survey that is over or by own coins."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts, sum_counts
from ..kernel.mechanism import Mechanism, Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import KeyLayout
from ..kernel.sampling import threshold
from .biased_coins import WORD, biased_coins, word_threshold_up
from .histogram import HistogramProtection, SuppressedHistogram

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


def thinned_counts(
    counts: NDArray[np.int64], rates: Sequence[Decimal], *, highest: Decimal, randomness: Randomness
) -> NDArray[np.int64]:
    """Return how many records stay of those that a sample at the highest rate holds, each by a coin of its own.

    PRIVACY: the result is drawn, so store what follows from it before anything depends on it. A record's real rate,
    both coins together, is never above the highest, and never below its declared one, but at the highest rate by less
    than 2⁻⁶⁴.

    Args:
        counts: records that came through the first coins; shape (n,).
        rates: the declared rate of each of these groups of records.
        highest: the rate of the first coins, which none of the rates exceeds.
        randomness: n to n secret bytes.

    Raises:
        ValueError: a rate outside (0, highest].
    """
    # The first coins' real rate is ⌊p′·2⁶⁴⌋/2⁶⁴. Divided by that, a record's own rate is met exactly or from above, and
    # both coins together are never above the highest.
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
    """Return the second coins of a release whose records have rates of their own: one ChaCha20 stream of its key.

    They come from another key than the first coins, derived from the release's; so a retry, which counts the same
    records of the same sample, keeps the same of them.
    """
    key = hmac.digest(secret, _DOMAIN, hashlib.sha256)
    stream = Cipher(algorithms.ChaCha20(key, bytes(_NONCE_BYTES)), mode=None).encryptor()
    return lambda size: stream.update(bytes(size))


@dataclass(frozen=True, kw_only=True, slots=True)
class Thinning:
    """Second coins for sampled records, each of which names its rate: so many groups fewer, or smaller ones.

    Args:
        layout: of the groups' columns and, last, of the column of rates.
        rates: the rate of each code of that column, of which the greatest is that of the first coins.

    Raises:
        ValueError: another number of rates than the column has codes, or no other column.
    """

    layout: KeyLayout
    rates: tuple[Decimal, ...]

    def __post_init__(self) -> None:
        _ = self.kept
        _require_each(self.rates, self.layout)

    @property
    def kept(self) -> KeyLayout:
        """Layout of the groups' columns alone."""
        return KeyLayout(sizes=self.layout.sizes[:-1])

    def thinned(self, counts: GroupCounts, *, randomness: Randomness) -> GroupCounts:
        """Return the groups without the column of rates, each record kept by a coin at the rate that it names.

        PRIVACY: of a release that draws nothing else the coins are `inclusion_coins`, which follow from its key; so
        nothing is drawn anew by a retry. Of others the result is stored before anything depends on it.

        Args:
            counts: records sampled at the highest rate, by the layout.
            randomness: n to n secret bytes.
        """
        *codes, named = self.layout.decode(counts.keys)
        rates = [self.rates[code] for code in named.tolist()]
        kept = thinned_counts(counts.counts, rates, highest=max(self.rates), randomness=randomness)
        some = np.flatnonzero(kept)
        return sum_counts(self.kept.keys([column[some] for column in codes]), kept[some])


@dataclass(frozen=True, kw_only=True, slots=True)
class UnequalRatesProtection:
    """The published count of every cell, of sampled records that second coins keep at the rates that they name.

    Args:
        mechanism: the release.
        layout: of the cells' columns and, last, of the column of rates.
        rates: the rate of each code of that column.

    Raises:
        ValueError: another number of rates than the column has codes, or one that isn't priced.
    """

    mechanism: UnequalRatesHistogram
    layout: KeyLayout
    rates: tuple[Decimal, ...]
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        lowest, highest = self.mechanism.lowest_rate, self.mechanism.sampling_rate
        if not lowest <= min(self.rates) <= max(self.rates) == highest:
            raise ValueError(f"the rates that are priced lie in {lowest} … {highest}, and the highest is one of them")
        _ = self._cells

    @property
    def _thinning(self) -> Thinning:
        return Thinning(layout=self.layout, rates=self.rates)

    @property
    def _cells(self) -> HistogramProtection:
        suppressed = SuppressedHistogram(k=self.mechanism.k, sampling_rate=None)
        return HistogramProtection(mechanism=suppressed, layout=self._thinning.kept)

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> list[int]:
        """Return the published count of every cell, by their keys."""
        return self._cells.protect(self._thinning.thinned(exact, randomness=randomness), randomness=randomness)

    def fits(self, numbers: Numbers) -> bool:
        """Return whether there is a number for every cell."""
        return self._cells.fits(numbers)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SurveyProtection:
    """The published count of every cell, of the records that count: those whose stated rate lies within the bounds.

    Args:
        mechanism: the release.
        layout: of the cells' columns and, where records state their rates, last of the column of rates.
        counted: whether a record with each code of that column counts; None where records don't state their rates.

    Raises:
        ValueError: another number of codes than the column has.
    """

    mechanism: BiasedSampleCounts
    layout: KeyLayout
    counted: NDArray[np.bool_] | None
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.counted is not None:
            _require_each(self.counted.tolist(), self.layout)

    @property
    def _cells(self) -> HistogramProtection:
        sizes = self.layout.sizes if self.counted is None else self.layout.sizes[:-1]
        suppressed = SuppressedHistogram(k=self.mechanism.k, sampling_rate=None)
        return HistogramProtection(mechanism=suppressed, layout=KeyLayout(sizes=sizes))

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> list[int]:
        """Return the published count of every cell, by their keys; nothing of it is drawn."""
        cells = self._cells
        if self.counted is not None:
            # A record whose stated rate is out of bounds counts for nothing, whatever the others are: so the bounds
            # hold for every record that counts.
            *codes, stated = self.layout.decode(exact.keys)
            exact = GroupCounts(cells.layout.keys(codes), np.where(self.counted[stated], exact.counts, 0))
        return cells.protect(exact, randomness=randomness)

    def fits(self, numbers: Numbers) -> bool:
        """Return whether there is a number for every cell."""
        return self._cells.fits(numbers)


def _require_each(table: Sequence[object], layout: KeyLayout) -> None:
    if len(table) != layout.sizes[-1]:
        raise ValueError(f"a table of {len(table)} codes is not one of a column of {layout.sizes[-1]}")
