"""A toy kind: the number of records with noise made of coin flips, as a maintainer would write a new kind's module."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from crowdblend.accounting.kernel.prices.arithmetic import decimal_up, log_up
from crowdblend.accounting.kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm
from crowdblend.accounting.kinds.composition.composed import pure_filter_parts
from crowdblend.accounting.kinds.composition.group_privacy import summed_group_price
from crowdblend.mechanisms.kernel.group_counts import GroupCounts
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE, Mechanism, Randomness
from crowdblend.mechanisms.kernel.protection import Numbers, counts_of_groups
from crowdblend.mechanisms.kernel.recoding import KeyLayout

LN_4 = decimal_up(log_up(Decimal(4)))


@dataclass(frozen=True, kw_only=True, slots=True)
class CoinFlipCount(Mechanism):
    """How many records there are, with the noise of coins that are flipped until heads. Source: Notes-DP, Example 1.

    Args:
        least_count: what is published at least.
    """

    kind = "coin_flip_count"

    least_count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CoinFlips:
    """The count of every cell with noise made of coin flips."""

    mechanism: CoinFlipCount
    layout: KeyLayout
    drawn: ClassVar[bool] = True

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> list[int]:
        """Each cell's count with tails until heads, and a last coin for the sign."""
        noisy = []
        for count in counts_of_groups(exact, self.layout).tolist():
            flips = int.from_bytes(randomness(16), "big")
            tails = (flips & -flips).bit_length() - 1
            noisy.append(max(count + (tails if flips >> 127 else -tails), self.mechanism.least_count))
        return noisy

    def fits(self, numbers: Numbers) -> bool:
        """Whether there is a number for every cell."""
        return len(numbers) == self.layout.cells


def price_of_count(_mechanism: CoinFlipCount) -> Price:
    """Return the price of the counts."""
    return Price(epsilon=LN_4, delta=Decimal(0), relation=ADD_REMOVE, rule="coin-flip-noise/1", releases=1)


_price = summed_group_price(price_of_count)

COIN_FLIP_COUNT: MechanismKind[CoinFlipCount] = MechanismKind(
    records={"acme-coins:coin-flip-count/1": RecordForm(mechanism=CoinFlipCount)},
    protections=(CoinFlips,),
    pure=True,
    series=False,
    price=_price,
    filter_parts=pure_filter_parts(_price),
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
)
