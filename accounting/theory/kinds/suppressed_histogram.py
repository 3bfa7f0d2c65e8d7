"""Suppressed histograms: on a fresh sample they are strongly-safe releases of a declared partition."""

from __future__ import annotations

from decimal import Decimal

from ....mechanisms.errors import InputRefused
from ....mechanisms.histogram import SuppressedHistogram
from ....mechanisms.microdata import StronglySafeRelease
from ..composition.amplification import crowd_blending_statement
from ..composition.group_privacy import even_group_price
from ..composition.loss_distribution import Part
from .kind import (
    CELLS,
    CHOSEN,
    SAMPLED,
    SUPPRESSED,
    MechanismKind,
    Price,
    RecordForm,
    Statements,
    filter_parts_of_one,
    not_composed,
)
from .strongly_safe import EXACT_PROFILE, paper_price_fixed, price_fixed

__all__ = ["KIND"]


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


def _losses(mechanism: SuppressedHistogram) -> tuple[Part, ...]:
    if mechanism.sampling_rate is None:
        return not_composed(mechanism)
    return (StronglySafeRelease(k=mechanism.k, sampling_rate=mechanism.sampling_rate),)


def _proved(mechanism: SuppressedHistogram, _rule: str) -> str:
    return crowd_blending_statement(k=mechanism.k, epsilon=Decimal(0), sampling_rate=mechanism.sampling_rate)


KIND: MechanismKind[SuppressedHistogram] = MechanismKind(
    records={"suppressed-histogram/1": RecordForm(mechanism=SuppressedHistogram)},
    pure=False,
    price=_price,
    group_price=even_group_price(_price),
    paper_price=_paper_price,
    losses=_losses,
    filter_parts=filter_parts_of_one(_losses),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={"exact-profile/1": EXACT_PROFILE},
    statements=Statements(
        done=lambda _: f"{SAMPLED} {SUPPRESSED}",
        proved=_proved,
        chosen=CHOSEN,
        series=None,
        published=CELLS,
    ),
)
