"""Describe series of different mechanisms."""

from __future__ import annotations

from ...mechanisms.kinds.mixed_series import MixedSeries
from ..kinds.mixed_series_prices import RULE, mixed_losses
from .kind_description import KindDescription, PaidPart, Published

MIXED_SERIES: KindDescription[MixedSeries] = KindDescription(
    done=lambda series: f"A series of {series.parts} was registered; no sample was drawn for that.",
    chosen="a choice of what is released",
    series="Each release ran what its part of the series allows, on a sample of its own where it draws one.",
    published=Published("release", "releases", ""),
    theorems={
        RULE: "proved in docs/proofs/composition.md, Series of different mechanisms; composed by Zhu, Dong, Wang, "
        "arXiv:2106.08567"
    },
    losses=mixed_losses,
    label="{parts}",
    part=lambda series, number: PaidPart(part := series.part_of(number), str(series.each[part - 1])),
)
