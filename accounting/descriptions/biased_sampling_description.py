"""Describe counts of records with unequal rates: of surveys, and of own coins."""

from __future__ import annotations

from decimal import Decimal

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram
from ..kinds.composition.composed import not_composed
from ..kinds.unequal_rates_prices import highest_rate_release
from .kind_description import CELLS, SUPPRESSED, KindDescription
from .zero_knowledge import epsilon_zero_knowledge_robust

_BOUNDED = (
    "inclusion rates within bounds, the setting of Gehrke, Hay, Lui, Pass, CRYPTO 2012, Theorem 2; "
    "the price is proved in docs/proofs/robust-sampling.md"
)
ROBUST_THEOREMS = {"unequal-rates/1": _BOUNDED, "robust-counts/1": _BOUNDED}
_DONE = (
    "Every record was read; no sample was drawn for this release. The data set is itself a sample, whose secret coins, "
    "independent and with rates within the declared bounds, are the protection: so it is released once. Counts of "
    "fewer than k records are published as 0, those of k and more as they are; every cell that was declared before the "
    "records were read is there."
)


def zero_knowledge_holds(mechanism: BiasedSampleCounts) -> bool:
    """Tell whether the hypotheses of CBP, Theorem 2 hold: p > 0, k ≥ 2 and ℓ < k − 1."""
    return mechanism.lowest_rate > 0 and mechanism.k >= 2 and mechanism.exceptions < mechanism.k - 1


def zero_knowledge_epsilon_biased(mechanism: BiasedSampleCounts) -> Decimal:
    """ε of zero-knowledge privacy for the aggregates iRS(p, p′, ℓ). CBP, Theorem 2.

    Its δ falls with k − ℓ and has no stated constant.

    Raises:
        InputRefused: the theorem's hypotheses don't hold.
    """
    if not zero_knowledge_holds(mechanism):
        raise InputRefused(
            "zero-knowledge privacy is proved for rates above 0, k of at least 2 and fewer than k - 1 exceptions, not "
            f"for {mechanism.lowest_rate}, k = {mechanism.k} and {mechanism.exceptions}."
        )
    return epsilon_zero_knowledge_robust(
        Decimal(0),
        lowest_rate=mechanism.lowest_rate,
        highest_rate=mechanism.highest_rate,
        largest_rate=mechanism.largest_rate,
    )


def survey_statement(mechanism: BiasedSampleCounts) -> str:
    """Return the crowd-blending guarantee where rates are unequal, and the zero-knowledge one where its theorem holds.

    CBP, Theorem 2, whose δ has no stated constant: it needs p > 0, k ≥ 2 and ℓ < k − 1, and its δ falls with k − ℓ.
    """
    few = f" but for at most {mechanism.exceptions} of its records" if mechanism.exceptions else ""
    lowest, highest = mechanism.lowest_rate, mechanism.highest_rate
    statement = (
        f"({mechanism.k}, 0)-crowd-blending, on records with inclusion rates from {lowest} to {highest}{few}, none "
        f"above {mechanism.largest_rate}"
    )
    if not zero_knowledge_holds(mechanism):
        return f"{statement}."
    fewer = f"k - {mechanism.exceptions} = {mechanism.k - mechanism.exceptions}" if mechanism.exceptions else "k"
    return (
        f"{statement}: so it is also zero-knowledge private with epsilon {zero_knowledge_epsilon_biased(mechanism)} "
        f"for the aggregates iRS({lowest}, {highest}, {mechanism.exceptions}), with a delta that falls with {fewer} "
        "and has no stated constant (Theorem 2 of Gehrke, Hay, Lui, Pass)."
    )


_SAMPLED_UNEQUALLY = (
    "The records were sampled with fresh independent coins for this release alone, each at the rate that it names "
    "itself, within bounds that were declared beforehand."
)


SURVEY_COUNTS: KindDescription[BiasedSampleCounts] = KindDescription(
    done=lambda _: _DONE,
    proved=lambda mechanism, _: survey_statement(mechanism),
    published=CELLS,
    theorems=ROBUST_THEOREMS,
    losses=not_composed,
)


UNEQUAL_RATES: KindDescription[UnequalRatesHistogram] = KindDescription(
    done=lambda _: f"{_SAMPLED_UNEQUALLY} {SUPPRESSED}",
    proved=lambda mechanism, _: survey_statement(mechanism.as_survey),
    published=CELLS,
    theorems=ROBUST_THEOREMS,
    losses=lambda mechanism: (highest_rate_release(mechanism),),
)
