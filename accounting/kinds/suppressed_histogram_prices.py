"""What histograms cost whose counts below k are published as 0."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.histogram import HistogramProtection, SuppressedHistogram
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ..kernel.prices.mechanism_kind import MechanismKind, Price, RecordForm
from .composition.composed import Part, filter_parts_of_one, not_composed
from .composition.group_privacy import even_group_price
from .composition.paper_bound import paper_price_fixed
from .microdata_prices import price_fixed


def _price(mechanism: SuppressedHistogram, delta: Decimal, releases: int) -> Price:
    if mechanism.sampling_rate is None:
        raise InputRefused(
            "a suppressed histogram is crowd-blending, but not differentially private without sampling.",
            remedy="Give it a sampling rate of its own.",
        )
    release = StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate)
    return price_fixed(release, delta=delta, releases=releases)


def _paper_price(mechanism: SuppressedHistogram, delta: Decimal, releases: int) -> Price | None:
    if mechanism.sampling_rate is None:
        return None
    release = StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate)
    return paper_price_fixed(release, delta=delta, releases=releases)


def suppressed_losses(mechanism: SuppressedHistogram) -> tuple[Part, ...]:
    """Return what sampled counts are in a composition: a release of microdata with the same k and rate."""
    if mechanism.sampling_rate is None:
        return not_composed(mechanism)
    return (StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate),)


SUPPRESSED_HISTOGRAM: MechanismKind[SuppressedHistogram] = MechanismKind(
    records={"suppressed-histogram/1": RecordForm(mechanism=SuppressedHistogram)},
    protections=(HistogramProtection,),
    pure=False,
    series=False,
    price=even_group_price(_price),
    paper_price=_paper_price,
    filter_parts=filter_parts_of_one(suppressed_losses),
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    survey_rate=None,
    exclusive=False,
)
