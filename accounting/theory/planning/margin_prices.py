"""What the rows and the margins of a calibrated deletion release would cost by themselves."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from decimal import Decimal
from typing import NamedTuple

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.deletion import CalibratedDeletion
from ....mechanisms.kinds.deletion_noise import DeletionNoise
from ...kernel.prices.mechanism_kind import Price, check_request
from ...kinds.deletion_prices import price_of_draws

__all__ = [
    "PartPrices",
    "price_parts",
]


class PartPrices(NamedTuple):
    """What each part of a calibrated release would be charged alone, at the whole δ; together they cost less.

    Attributes:
        rows: the price of the stages; None where no ε has this δ.
        margins: that of the margins; None likewise.
    """

    rows: Price | None
    margins: Price | None


def price_parts(mechanism: CalibratedDeletion, *, delta: Decimal, releases: int = 1, records: int = 1) -> PartPrices:
    """The prices of a calibrated release's rows alone, and of its margins alone.

    Args:
        mechanism: the release.
        delta: δ over all releases together, of either part alone.
        releases: T ≥ 1.
        records: M ≥ 1.

    Raises:
        InputRefused: δ or T is out of range.
    """

    def alone(noise: DeletionNoise, times: int) -> Price | None:
        check_request(delta, releases)
        with suppress(InputRefused):
            return price_of_draws(Counter({noise: times}), delta, releases, records)
        return None

    return PartPrices(
        rows=alone(mechanism.noise, mechanism.stages), margins=alone(mechanism.margin_noise, mechanism.margins)
    )
