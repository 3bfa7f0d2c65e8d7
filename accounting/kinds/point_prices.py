"""Synthetic points from the counts of a declared grid: they cost what their counts do (docs/proofs/points.md)."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.kinds.histogram import NoisyHistogram
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ...mechanisms.kinds.points import SyntheticPoints
from ..kernel.prices.group_privacy import even_group_price
from ..kernel.prices.loss_distribution import FilterPart, Part
from ..kernel.prices.mechanism_kind import (
    SAMPLED,
    MechanismKind,
    Price,
    Published,
    RecordForm,
    Statements,
    filter_parts_of_one,
    not_composed,
)
from .histogram_prices import NOISY_THEOREMS, noisy_parts, noisy_statement, price_noisy_histogram
from .microdata_prices import EXACT_PROFILE, paper_price_fixed, price_fixed

__all__ = ["POINTS"]

_DONE = (
    "The records were counted in the cells of a declared grid, counts of fewer than k sampled records were {small}, "
    "and the middle of each cell is published as often as its count says."
)


def _price(mechanism: SyntheticPoints, delta: Decimal, releases: int) -> Price:
    if isinstance(mechanism.counts, NoisyHistogram):
        return price_noisy_histogram(mechanism.counts, delta=delta)
    return price_fixed(mechanism.counts, delta=delta, releases=releases)


def _paper_price(mechanism: SyntheticPoints, delta: Decimal, releases: int) -> Price | None:
    if isinstance(mechanism.counts, NoisyHistogram):
        return None
    return paper_price_fixed(mechanism.counts, delta=delta, releases=releases)


def _losses(mechanism: SyntheticPoints) -> tuple[Part, ...]:
    if isinstance(mechanism.counts, NoisyHistogram):
        return not_composed(mechanism)
    return (mechanism.counts,)


def _filter_parts(mechanism: SyntheticPoints) -> tuple[FilterPart, ...]:
    return noisy_parts(mechanism.counts) if isinstance(mechanism.counts, NoisyHistogram) else (mechanism.counts,)


def _done(mechanism: SyntheticPoints) -> str:
    noisy = isinstance(mechanism.counts, NoisyHistogram)
    small = "given two-sided geometric noise, 0 too" if noisy else "left out"
    return f"{SAMPLED} {_DONE.format(small=small)}"


def _proved(mechanism: SyntheticPoints, _rule: str) -> str:
    return noisy_statement(mechanism.counts) if isinstance(mechanism.counts, NoisyHistogram) else ""


POINTS: MechanismKind[SyntheticPoints] = MechanismKind(
    records={
        "synthetic-points/1": RecordForm(mechanism=SyntheticPoints, nested={"counts": StronglySafeRelease}),
        "synthetic-noisy-points/1": RecordForm(mechanism=SyntheticPoints, nested={"counts": NoisyHistogram}),
    },
    pure=False,
    price=_price,
    group_price=even_group_price(_price),
    paper_price=_paper_price,
    losses=_losses,
    filter_parts=filter_parts_of_one(_filter_parts),
    curves=None,
    tunable=None,
    selection=None,
    sampling_rate=lambda mechanism: mechanism.counts.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    earlier={},
    theorems={"exact-profile/1": EXACT_PROFILE, **NOISY_THEOREMS},
    statements=Statements(
        done=_done,
        proved=_proved,
        chosen="a choice of bounds, cells, k or rate",
        series=None,
        published=Published("cell", "cells", "synthetic point"),
    ),
)
