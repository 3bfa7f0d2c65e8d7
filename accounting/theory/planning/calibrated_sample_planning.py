"""The margins' noise and the least k of a sampled release with margins beside it."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from decimal import Decimal
from functools import partial

from ....mechanisms.kernel.amounts import amount_exact
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kinds.calibrated_sample import CalibratedSample
from ...kernel.prices.mechanism_kind import Price
from ...kernel.prices.registry import price
from ...kinds.deletion_prices import price_of_draws
from .deletion_planning import plan_margins

LARGEST_K = 1 << 20
"""Of a k that is searched for."""


def plan_calibrated_sample(
    *,
    epsilon: Decimal,
    delta: Decimal,
    sampling_rate: Decimal,
    k: int | None,
    margins: int,
    share: Decimal,
    releases: int = 1,
) -> tuple[CalibratedSample, Price]:
    """Plan the margins' noise by their share of ε and δ; where k is None, the least k with a price of at most ε.

    A price for a k that is given may be above ε.

    Args:
        epsilon: ε over all releases.
        delta: δ over all releases.
        sampling_rate: of the rows.
        k: of the rows; None for the least.
        margins: how many margins each release publishes, at least 1.
        share: what the margins alone take of ε and δ, above 0 and below 1.
        releases: T ≥ 1.

    Raises:
        InputRefused: no noise of margins costs so little, no k does, or the k that is given has no price.
    """
    noise = plan_margins(
        epsilon=epsilon, delta=delta, margins=margins, releases=releases, rows_per_person=1, share=share
    )
    with_k = partial(
        CalibratedSample,
        sampling_rate=sampling_rate,
        margins=margins,
        margin_scale=noise.scale,
        margin_width=noise.width,
    )
    if k is not None:
        return with_k(k=k), price(with_k(k=k), delta=delta, releases=releases)

    def price_within(tried: int) -> Price | None:
        with suppress(InputRefused):  # of a k that no ε is enough for
            charged = price(with_k(k=tried), delta=delta, releases=releases)
            return charged if charged.epsilon <= epsilon else None
        return None

    high, best = 1, price_within(1)
    while best is None:
        if high >= LARGEST_K:
            raise InputRefused(
                f"no k up to {LARGEST_K} costs so little as epsilon {amount_exact(epsilon)} at delta "
                f"{amount_exact(delta)} with sampling rate {amount_exact(sampling_rate)} and these margins.",
                remedy="Lower the rate or the margins' share, or raise epsilon or delta.",
            )
        high *= 2
        best = price_within(high)
    low = high // 2  # too small, or 0
    while high - low > 1:
        middle = (low + high) // 2
        if (charged := price_within(middle)) is None:
            low = middle
        else:
            high, best = middle, charged
    return with_k(k=high), best


def price_sample_parts(
    mechanism: CalibratedSample, *, delta: Decimal, releases: int = 1
) -> tuple[Price | None, Price | None]:
    """Return the price of a release's rows alone and of its margins alone, at the whole δ; None where there is none."""
    rows: Price | None = None
    margins: Price | None = None
    with suppress(InputRefused):
        rows = price(mechanism.rows, delta=delta, releases=releases)
    with suppress(InputRefused):
        margins = price_of_draws(Counter({mechanism.margin_noise: mechanism.margins}), delta, releases, 1)
    return rows, margins
