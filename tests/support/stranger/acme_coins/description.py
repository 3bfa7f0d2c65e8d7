"""What is said of the toy kind, as a maintainer would write a new kind's description."""

from __future__ import annotations

from decimal import Decimal

from crowdblend.accounting.descriptions.kind_description import WHOLE, KindDescription, Published
from crowdblend.accounting.kinds.composition.amplification import Guarantee

from .prices import LN_4, CoinFlipCount

COIN_FLIP_COUNT: KindDescription[CoinFlipCount] = KindDescription(
    done=lambda _: f"{WHOLE} The records were counted, with noise made of coin flips.",
    published=Published("count", "counts", ""),
    theorems={"coin-flip-noise/1": "Notes-DP, Example 1"},
    losses=lambda _: (Guarantee(epsilon=LN_4, delta=Decimal(0)),),
)
