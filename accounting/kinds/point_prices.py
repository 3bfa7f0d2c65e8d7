"""Synthetic points from the counts of a declared grid: they cost what their counts do (docs/proofs/points.md)."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.kinds.histogram import NoisyHistogram
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ...mechanisms.kinds.points import PointsProtection, SyntheticPoints
from ..kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm
from .composition.composed import FilterPart, filter_parts_of_one
from .composition.group_privacy import even_group_price
from .composition.paper_bound import paper_price_fixed
from .microdata_prices import price_fixed
from .noisy_histogram_prices import noisy_parts, price_noisy_histogram


def _price(mechanism: SyntheticPoints, delta: Decimal, releases: int) -> Price:
    if isinstance(mechanism.counts, NoisyHistogram):
        return price_noisy_histogram(mechanism.counts, delta=delta)
    return price_fixed(mechanism.counts, delta=delta, releases=releases)


def _paper_price(mechanism: SyntheticPoints, delta: Decimal, releases: int) -> Price | None:
    if isinstance(mechanism.counts, NoisyHistogram):
        return None
    return paper_price_fixed(mechanism.counts, delta=delta, releases=releases)


def _filter_parts(mechanism: SyntheticPoints) -> tuple[FilterPart, ...]:
    return noisy_parts(mechanism.counts) if isinstance(mechanism.counts, NoisyHistogram) else (mechanism.counts,)


POINTS: MechanismKind[SyntheticPoints] = MechanismKind(
    records={
        "synthetic-points/1": RecordForm(mechanism=SyntheticPoints, nested={"counts": StronglySafeRelease}),
        "synthetic-noisy-points/1": RecordForm(mechanism=SyntheticPoints, nested={"counts": NoisyHistogram}),
    },
    protections=(PointsProtection,),
    pure=False,
    series=False,
    price=even_group_price(_price),
    paper_price=_paper_price,
    filter_parts=filter_parts_of_one(_filter_parts),
    sampling_rate=lambda mechanism: mechanism.counts.sampling_rate,
    survey_rate=None,
    exclusive=False,
)
