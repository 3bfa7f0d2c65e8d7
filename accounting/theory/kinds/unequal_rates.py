"""Suppressed counts of a fresh sample in which each record has a rate of its own, within declared bounds."""

from __future__ import annotations

from decimal import Decimal

from ....mechanisms.biased_sampling import UnequalRatesHistogram
from ..composition.group_privacy import even_group_price
from ..cost import Price
from .kind import CELLS, CHOSEN, SUPPRESSED, MechanismKind, RecordForm, Statements, not_composed
from .survey_counts import ROBUST_THEOREMS, price_biased_counts, survey_statement

__all__ = ["KIND"]

_SAMPLED = (
    "The records were sampled with fresh independent coins for this release alone, each at the rate that it names "
    "itself, within bounds that were declared beforehand."
)


def _price(mechanism: UnequalRatesHistogram, delta: Decimal, _releases: int) -> Price:
    return price_biased_counts(mechanism.as_survey, delta=delta)


KIND: MechanismKind[UnequalRatesHistogram] = MechanismKind(
    records={"unequal-rates-histogram/1": RecordForm(mechanism=UnequalRatesHistogram)},
    pure=False,
    price=_price,
    group_price=even_group_price(_price),
    paper_price=None,
    losses=not_composed,
    curves=None,
    tunable=None,
    sampling_rate=lambda mechanism: mechanism.sampling_rate,
    samples=lambda _: 1,
    survey_rate=None,
    exclusive=False,
    theorems=ROBUST_THEOREMS,
    statements=Statements(
        done=lambda _: f"{_SAMPLED} {SUPPRESSED}",
        proved=lambda mechanism, _: survey_statement(mechanism.as_survey),
        chosen=CHOSEN,
        series=None,
        published=CELLS,
    ),
)
