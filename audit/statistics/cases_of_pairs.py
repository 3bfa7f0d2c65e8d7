"""Audits of paired deletion releases: margins, a pair that is drawn and counted, and rows, in one go.

The neighbours are as bad as they can be for the draw too: the record raises the quality of one pair by 1 and lowers
that of the other, whose qualities are equal without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.recoding import KeyLayout
from crowdblend.mechanisms.kinds.deletion_noise import GaussianDeletion, largest_deletion
from crowdblend.mechanisms.kinds.paired_deletion import (
    ESTIMATE_UNIT,
    Chain,
    CountedPair,
    PairCandidate,
    PairedDeletion,
    PairedProtection,
)
from numpy.typing import NDArray

from .cases import Case, Draw, Pair
from .cases_of_deletion import log_ratios

__all__ = ["RELEASE", "pair_cases"]

DELTA = Decimal("1e-3")
NOISE = GaussianDeletion(scale=Decimal(40), width=160)
RELEASE = PairedDeletion(
    stages=1,
    k=2,
    noise=NOISE,
    margins=3,
    margin_scale=NOISE.scale,
    margin_width=NOISE.width,
    pairs=1,
    pair_scale=NOISE.scale,
    pair_width=NOISE.width,
    pair_epsilon=Decimal(3),
)
_MIDDLE, _UNITS = 4_000, 200

Counts = NDArray[np.int64]


class _Estimates:
    """Estimates that make both pairs' qualities equal without the record: 0 of one, twice the count of the other."""

    def __init__(self, others: int) -> None:
        self.others = others

    def estimates(self, margins: Sequence[Counts], pairs: Sequence[CountedPair]) -> list[Counts]:
        """Return nothing of the first pair, and more of the second than there is."""
        del margins, pairs
        cells = np.array([2 * self.others * ESTIMATE_UNIT, 0, 0, 0], dtype=np.int64)
        return [np.zeros(4, dtype=np.int64), cells]

    def penalties(self) -> list[int]:
        """Return none."""
        return [0, 0]

    def chains(self, margins: Sequence[Counts], pairs: Sequence[CountedPair]) -> tuple[Chain, ...]:
        """Return rows by the first column alone."""
        del margins, pairs
        last = np.zeros(2, dtype=np.int64)
        return (Chain((0, 1, 2), (), (KeyLayout(sizes=(2, 1, 1)),), ((None, last, last),)),)


def pair_cases(scale: float) -> list[Case]:
    """Every case of this module."""
    charged = price(RELEASE, delta=DELTA)
    sizes = (1, largest_deletion(NOISE) + RELEASE.k, 1_000)
    return [
        Case(
            name="deletion-with-pairs",
            mechanism="deletion release of one stage with three margins, one of two pairs drawn at ε = 3 and counted",
            claim=float(charged.epsilon),
            delta=float(DELTA),
            rule=charged.rule,
            exact=None,
            pairs=tuple(Pair(name=f"{n} records against {n - 1}", draw=_draw(n)) for n in sizes),
            draws=max(2_000, round(100_000 * scale)),
            scouts=max(1_000, round(10_000 * scale)),
            block=2_000,
            coins="OpenDP's own for the pair, the audit's bytes for the noises",
        )
    ]


def _draw(size: int) -> Draw:
    """Outcomes are sums of the losses of all that is published, of which 200 make 1."""
    layout, candidates = KeyLayout(sizes=(2, 2, 2)), (PairCandidate(0, 1, 0), PairCandidate(0, 2, 0))
    protection = PairedProtection(
        mechanism=RELEASE,
        layout=layout,
        details=((None, None, None),),
        sizes=((2, 2, 2),),
        candidates=candidates,
        model=_Estimates(size - 1),
    )
    half = float(RELEASE.pair_epsilon) / 2.0
    # How much likelier each pair is with the record than without.
    drawn = np.log(2.0) - np.log1p(np.exp([-2.0 * half, 2.0 * half]))

    ratios = log_ratios(NOISE, 1)

    def loss(taken: int) -> float:
        return float(ratios[min(max(taken, 0), ratios.size - 1)])

    def outcomes(side: int, count: int, rng: np.random.Generator) -> Counts:
        keys = layout.keys([np.zeros(1, dtype=np.int64)] * 3)
        exact = GroupCounts(keys, np.array([size - side], dtype=np.int64))
        found = np.zeros(count)
        for number in range(count):
            margins, [pair], _, [[stage]] = protection.published(protection.protect(exact, randomness=rng.bytes))
            shown = sum(int(one) for one in stage.counts[:1])
            found[number] = (
                sum(loss(size + RELEASE.margin_width - int(cells[0])) for cells in margins)
                + loss(size + RELEASE.pair_width - int(pair.cells[0]))
                + loss(size - shown)
                + drawn[pair.number]
            )
        return np.clip(np.rint(found * _UNITS) + _MIDDLE, 0, 2 * _MIDDLE).astype(np.int64)

    return outcomes
