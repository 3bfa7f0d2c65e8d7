"""What a kind and a price would mean, from public facts alone: which groups show, how exact counts are, who is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from ...accounting.kernel.prices.registry import mechanism_record
from ...accounting.theory.planning.paired_planning import PairShares, plan_paired
from ...flows.releases.paired_parts import STAGES, STAGES_OF_BLOCK
from ...mechanisms.kinds.deletion_noise import WEIGHT_TOTAL, deletion_weights
from ...tasks.request import Request

SIZES = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
FALSE_ALARMS = 0.05
WIDTH, LEFT, BASE, TALL = 620, 46, 180, 150


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """The chance that a group of a size is shown at all, with its place in the picture."""

    size: int
    chance: float
    x: float
    y: float
    height: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What one release would tell.

    Args:
        epsilon: that it is charged.
        delta: that it is charged.
        bars: by the size of a group.
        margin_error: of the count of a label, in records; None where no counts are published.
        pair_error: of the count of a pair's labels; None likewise.
        lost: by a group of rows in expectation, in records; None where the rows are a sample.
        most_lost: by a group, in records; None likewise.
        k: the smallest number that is published of a group.
        rate: of the sample; None where all records are read.
    """

    epsilon: Decimal
    delta: Decimal
    bars: tuple[Bar, ...]
    k: int
    margin_error: float | None = None
    pair_error: float | None = None
    lost: float | None = None
    most_lost: int | None = None
    rate: float | None = None

    @property
    def recognized(self) -> float:
        """At most so many of 100 people who are there, by an attacker who is wrong about 5 of 100 who aren't."""
        return 100 * largest_power(float(self.epsilon), float(self.delta), false_alarms=FALSE_ALARMS)

    @property
    def recognized_up(self) -> int:
        """The same as a whole number, rounded up: it is a bound."""
        return math.ceil(self.recognized)


def paired_outlook(
    *,
    epsilon: Decimal,
    delta: Decimal,
    columns: int,
    blocks: int | None,
    rows_per_person: int,
    k: int,
    shares: tuple[Decimal, Decimal, Decimal],
    pairs: int,
) -> Outlook:
    """Return what a release that finds its own pairs and labels would tell.

    Raises:
        InputRefused: no noise has this price.
    """
    planned = plan_paired(
        epsilon=epsilon,
        delta=delta,
        stages=STAGES if blocks is None else STAGES_OF_BLOCK,
        columns=columns,
        pairs=pairs,
        rows_per_person=rows_per_person,
        k=k,
        shares=PairShares(margins=shares[0], pairs=shares[1], draws=shares[2]),
        blocks=blocks,
    )
    record = mechanism_record(planned.mechanism)
    weights = deletion_weights(planned.mechanism.noise)
    # Shown: at least k records are left of the group at the first stage that it comes to.
    chances = [sum(weights[: max(0, size - k + 1)]) / WEIGHT_TOTAL for size in SIZES]
    return Outlook(
        epsilon=planned.price.epsilon,
        delta=planned.price.delta,
        bars=_bars(chances),
        k=k,
        margin_error=float(record["margin_scale"]),
        pair_error=float(record["pair_scale"]),
        lost=planned.expected_deletion,
        most_lost=planned.largest_deletion,
    )


def sampled_outlook(*, k: int, rate: Decimal, epsilon: Decimal, delta: Decimal) -> Outlook:
    """Return what a sampled release of a price would tell."""
    return Outlook(epsilon=epsilon, delta=delta, bars=_sampled_bars(k, rate), k=k, rate=float(rate))


def _sampled_bars(k: int, rate: Decimal) -> tuple[Bar, ...]:
    from scipy.stats import binom  # half a second, which the studio's start does without

    return _bars([float(binom.sf(k - 1, size, float(rate))) for size in SIZES])


def fixed_outlook(request: Request) -> Outlook:
    """Return what a release would tell whose columns have each one level."""
    record = mechanism_record(request.mechanism)
    k = int(record.get("k") or 0)
    rate, margin = record.get("sampling_rate"), record.get("margin_scale")
    bars: tuple[Bar, ...] = ()
    if rate is not None and record.get("epsilon") is None:  # what is below k isn't shown; else it is noisy
        bars = _sampled_bars(k, Decimal(rate))
    return Outlook(
        epsilon=request.price.epsilon,
        delta=request.price.delta,
        bars=bars,
        k=k,
        margin_error=None if margin is None else float(margin),
        rate=None if rate is None else float(rate),
    )


def _bars(chances: Sequence[float]) -> tuple[Bar, ...]:
    step = (WIDTH - LEFT) / len(SIZES)
    return tuple(
        Bar(
            size=size,
            chance=chance,
            x=round(LEFT + place * step + 8, 1),
            y=round(BASE - TALL * chance, 1),
            height=round(TALL * chance, 1),
        )
        for place, (size, chance) in enumerate(zip(SIZES, chances, strict=True))
    )


def largest_power(epsilon: float, delta: float, *, false_alarms: float) -> float:
    """Return how often a test can recognize a record that is there, at most: Kairouz, Oh, Viswanath, arXiv:1311.0776v4.

    By their section 2 an (ε, δ)-private answer leaves a test with type I error α a type II error of at least
    max(1 − δ − e^ε·α, e^{−ε}(1 − δ − α)).

    Args:
        epsilon: ε.
        delta: δ.
        false_alarms: α, how often the test is wrong about a record that isn't there.
    """
    missed = max(0.0, 1.0 - delta - math.exp(epsilon) * false_alarms, math.exp(-epsilon) * (1.0 - delta - false_alarms))
    return 1.0 - missed
