"""Describe histograms of declared cells: suppressed, noisy and outlier-private; and points made of their counts."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.kinds.histogram import NoisyHistogram, OutlierPrivateHistogram, SuppressedHistogram
from ...mechanisms.kinds.points import SyntheticPoints
from ..kinds.composition.composed import Part, not_composed
from ..kinds.suppressed_histogram_prices import suppressed_losses
from .kind_description import CELLS, SAMPLED, SUPPRESSED, WHOLE, KindDescription, Published
from .microdata_description import EXACT_PROFILE
from .zero_knowledge import crowd_blending_statement


def _suppressed_statement(mechanism: SuppressedHistogram, _rule: str) -> str:
    return crowd_blending_statement(k=mechanism.k, epsilon=Decimal(0), sampling_rate=mechanism.sampling_rate)


NOISY_CELLS = Published("noisy count", "noisy counts", "")
NOISY_THEOREMS = {
    "exact-noisy-profile/1": "Gehrke, Hay, Lui, Pass, CRYPTO 2012, Example 2; exact form proved in "
    "docs/proofs/noisy-histogram.md"
}
_NOISY_DONE = (
    "Counts of fewer than k sampled records, 0 too, have two-sided geometric noise, those of k and more are published "
    "as they are; every cell that was declared before the records were read is there. Which are noisy is not told."
)


def noisy_statement(mechanism: NoisyHistogram) -> str:
    """Return what else is proved of counts with noise below k: they are crowd-blending."""
    return crowd_blending_statement(k=mechanism.k, epsilon=mechanism.epsilon, sampling_rate=mechanism.sampling_rate)


_OUTLIER_DONE = (
    "Every count has two-sided geometric noise, and every cell that was declared before the records were read is there."
)


def outlier_statement(mechanism: OutlierPrivateHistogram) -> str:
    """Return the outlier-private guarantee. Notes-CBP, Definition 7."""
    edge = mechanism.horizon - mechanism.margin
    return (
        f"Outlier-private: the rarer a person's group, the better the protection. In a group of c people below {edge} "
        f"the noise has loss {mechanism.margin * mechanism.epsilon}/({mechanism.horizon} − c) per record, in larger "
        f"ones {mechanism.epsilon}; neighbouring groups' scales differ, which is paid for in δ."
    )


SUPPRESSED_HISTOGRAM: KindDescription[SuppressedHistogram] = KindDescription(
    done=lambda _: f"{SAMPLED} {SUPPRESSED}",
    proved=_suppressed_statement,
    published=CELLS,
    theorems={"exact-profile/1": EXACT_PROFILE},
    losses=suppressed_losses,
)


NOISY_HISTOGRAM: KindDescription[NoisyHistogram] = KindDescription(
    done=lambda _: f"{SAMPLED} {_NOISY_DONE}",
    proved=lambda mechanism, _: noisy_statement(mechanism),
    published=NOISY_CELLS,
    theorems=NOISY_THEOREMS,
    losses=not_composed,
)


OUTLIER_HISTOGRAM: KindDescription[OutlierPrivateHistogram] = KindDescription(
    done=lambda _: f"{WHOLE} {_OUTLIER_DONE}",
    proved=lambda mechanism, _: outlier_statement(mechanism),
    published=NOISY_CELLS,
    theorems={
        "outlier-exact/1": "Lui, Pass, Outlier Privacy, TCC 2015; exact form proved in docs/proofs/outlier-privacy.md"
    },
    losses=not_composed,
)


_POINTS_DONE = (
    "The records were counted in the cells of a declared grid, counts of fewer than k sampled records were {small}, "
    "and the middle of each cell is published as often as its count says."
)


def _point_losses(mechanism: SyntheticPoints) -> tuple[Part, ...]:
    if isinstance(mechanism.counts, NoisyHistogram):
        return not_composed(mechanism)
    return (mechanism.counts,)


def _points_done(mechanism: SyntheticPoints) -> str:
    noisy = isinstance(mechanism.counts, NoisyHistogram)
    small = "given two-sided geometric noise, 0 too" if noisy else "left out"
    return f"{SAMPLED} {_POINTS_DONE.format(small=small)}"


def _proved_of_points(mechanism: SyntheticPoints, _rule: str) -> str:
    return noisy_statement(mechanism.counts) if isinstance(mechanism.counts, NoisyHistogram) else ""


POINTS: KindDescription[SyntheticPoints] = KindDescription(
    done=_points_done,
    proved=_proved_of_points,
    chosen="a choice of bounds, cells, k or rate",
    published=Published("cell", "cells", "synthetic point"),
    theorems={"exact-profile/1": EXACT_PROFILE, **NOISY_THEOREMS},
    losses=_point_losses,
)
