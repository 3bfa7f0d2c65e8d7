"""Describe synthetic points."""

from __future__ import annotations

from ...mechanisms.kinds.histogram import NoisyHistogram
from ...mechanisms.kinds.points import SyntheticPoints
from ..kinds.composition.composed import Part, not_composed
from .histogram_description import NOISY_THEOREMS, noisy_statement
from .kind_description import SAMPLED, KindDescription, Published
from .microdata_description import EXACT_PROFILE

_DONE = (
    "The records were counted in the cells of a declared grid, counts of fewer than k sampled records were {small}, "
    "and the middle of each cell is published as often as its count says."
)


def _losses(mechanism: SyntheticPoints) -> tuple[Part, ...]:
    if isinstance(mechanism.counts, NoisyHistogram):
        return not_composed(mechanism)
    return (mechanism.counts,)


def _done(mechanism: SyntheticPoints) -> str:
    noisy = isinstance(mechanism.counts, NoisyHistogram)
    small = "given two-sided geometric noise, 0 too" if noisy else "left out"
    return f"{SAMPLED} {_DONE.format(small=small)}"


def _proved(mechanism: SyntheticPoints, _rule: str) -> str:
    return noisy_statement(mechanism.counts) if isinstance(mechanism.counts, NoisyHistogram) else ""


POINTS: KindDescription[SyntheticPoints] = KindDescription(
    done=_done,
    proved=_proved,
    chosen="a choice of bounds, cells, k or rate",
    published=Published("cell", "cells", "synthetic point"),
    theorems={"exact-profile/1": EXACT_PROFILE, **NOISY_THEOREMS},
    losses=_losses,
)
