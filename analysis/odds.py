"""Odds and odds ratios by counts whose noise is known, with intervals."""

from __future__ import annotations

import math
from dataclasses import replace

from .combined_counts import CombinedCounts, LinearCount
from .count_estimates import NO_INTERVAL
from .figures import Figure, Ratio, quantile_of

TOO_FEW = "too few records to tell"


def odds_of(share: Figure) -> Figure:
    """Return a share's odds; an upper end of infinity where the share may be all, no number where it is none."""

    def odds(part: float | None) -> float | None:
        return None if part is None else math.inf if part >= 1.0 else part / (1.0 - part)

    return replace(share, estimate=odds(share.estimate) or 0.0, lower=odds(share.lower), upper=odds(share.upper))


def odds_by_rows(one: Figure, base: Figure) -> Figure:
    """Return the odds of one share over those of another that weren't counted: an estimate without an interval."""
    above, below = odds_of(one).estimate, odds_of(base).estimate
    note = one.note or base.note or NO_INTERVAL
    return Figure(estimate=above / below if below > 0 else math.nan, lower=None, upper=None, source="rows", note=note)


def odds_ratio(
    one: tuple[LinearCount, LinearCount], base: tuple[LinearCount, LinearCount], combined: CombinedCounts, error: float
) -> Figure:
    """Return the odds of one set of records over those of another.

    The interval is put together from those of both odds, whose ends are unequally far off where counts are small, with
    the correlation of their errors.

    Source: G. Zou, A. Donner, Construction of confidence limits about effect measures, Statistics in Medicine 27
    (2008), with Fieller's intervals.

    Args:
        one: the count of those that fulfil the condition, and of all.
        base: likewise, of the records that are compared with.
        combined: margins and pairs.
        error: of the interval.
    """
    parts = [_Odds(*counts, combined, error) for counts in (one, base)]
    if not all(part.known for part in parts):
        return Figure(estimate=math.nan, lower=None, upper=None, source="pairs", note=TOO_FEW)
    above, below = parts
    spread = math.sqrt(combined.covariance(above.moved, above.moved) * combined.covariance(below.moved, below.moved))
    shared = combined.covariance(above.moved, below.moved) / spread if spread > 0 else 0.0
    if shared > 1.0 - 1e-9:
        return Figure(estimate=1.0, lower=1.0, upper=1.0, source="pairs", note="compared with")
    ends = [
        _together(above.middle - above.lower, below.upper - below.middle, shared),
        _together(above.upper - above.middle, below.middle - below.lower, shared),
    ]
    estimate = above.middle - below.middle
    lower, upper = math.exp(estimate - ends[0]), math.exp(estimate + ends[1])
    note = "" if lower > 0 and math.isfinite(upper) else TOO_FEW
    return Figure(estimate=math.exp(estimate), lower=lower, upper=upper, source="pairs", note=note)


class _Odds:
    """The logarithm of odds, with Fieller's interval, and how it moves with the counts."""

    def __init__(self, part: LinearCount, whole: LinearCount, combined: CombinedCounts, error: float) -> None:
        rest = whole.plus(part, -1.0)
        yes, no = combined.value(part), combined.value(rest)
        self.known = yes > 0 and no > 0
        if not self.known:
            return
        self.middle = math.log(yes / no)
        self.moved = LinearCount().plus(part, 1.0 / yes).plus(rest, -1.0 / no)
        ratio = Ratio(
            above=yes,
            below=yes + no,
            variance_above=combined.covariance(part, part),
            covariance=combined.covariance(part, whole),
            variance_below=combined.covariance(whole, whole),
        )
        self.lower, self.upper = (_log_odds(share) for share in ratio.interval(quantile_of(error)))


def _log_odds(share: float) -> float:
    return -math.inf if share <= 0 else math.inf if share >= 1 else math.log(share / (1.0 - share))


def _together(one: float, other: float, correlation: float) -> float:
    """Return the distance of an end from that of both odds; infinite where one of them is."""
    if math.isinf(one) or math.isinf(other):
        return math.inf
    return math.sqrt(max(one**2 + other**2 - 2.0 * correlation * one * other, 0.0))
