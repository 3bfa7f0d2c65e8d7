"""Series of different mechanisms, fixed beforehand and composed exactly."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from ...mechanisms.kernel.amounts import amount_exact
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.mechanism import ADD_REMOVE, Mechanism
from ...mechanisms.kinds.mixed_series import MixedSeries
from ..kernel.prices.arithmetic import decimal_up, float_down
from ..kernel.prices.mechanism_kind import RELATION, MechanismKind, Price, RecordForm, check_request
from ..kernel.prices.registry import not_covered, price
from .composition.amplification import Guarantee
from .composition.composed import COMPOSED_FLOOR, Part, epsilon_composed, no_filter_parts
from .composition.group_privacy import even_group_price

RULE = "mixed-pld/1"


def parts_of(series: MixedSeries) -> dict[Part, int]:
    """Return what is composed: each part's mechanism, or the pair of its ε, and how many of it.

    Any order of the releases, even one chosen by outputs, costs the same: a measure that covers each mechanism stands
    for it (docs/proofs/composition.md, "Series of different mechanisms").
    """
    parts: Counter[Part] = Counter()
    for part in series.each:
        measure = part.measure
        own = Guarantee(epsilon=measure, delta=Decimal(0)) if isinstance(measure, Decimal) else measure
        parts[own] += part.releases
    return dict(parts)


def price_mixed(series: MixedSeries, *, delta: Decimal, releases: int) -> Price:
    """Return what is charged for a whole series of different mechanisms ("mixed-pld/1"), with δ from 10⁻²⁰⁰.

    Raises:
        InputRefused: δ is out of range, another number of releases, or no finite ε has this δ.
    """
    check_request(delta, releases)
    if releases != series.releases:
        raise InputRefused(f"this series of {series.releases} releases has no price as a series of {releases}.")
    found = None
    if delta >= COMPOSED_FLOOR:
        try:
            found = epsilon_composed(parts_of(series), delta=float_down(delta))
        except ValueError as fault:
            raise InputRefused(f"this series has no price: {fault}.") from fault
    if found is None:
        raise InputRefused(
            f"no epsilon is found for delta {amount_exact(delta)} with the series {series.parts}.",
            remedy="Raise delta or a k, or lower a rate.",
        )
    return Price(epsilon=decimal_up(found), delta=delta, relation=RELATION, rule=RULE, releases=releases)


def mixed_losses(series: MixedSeries) -> tuple[Part, ...]:
    """Return what a whole series is in a composition: all releases of all its parts."""
    return tuple(part for part, times in parts_of(series).items() for _ in range(times))


PURE_ANSWERS = frozenset({"answers"})
"""Kinds that a part with an ε alone pays for."""


def _not_covered(series: MixedSeries, mechanism: Mechanism, number: int) -> str | None:
    """Say why a part doesn't pay for a release: it pays for a sampled one, or an answer of no δ and at most its ε."""
    measure = series.each[series.part_of(number) - 1].measure
    if not isinstance(measure, Decimal):
        return not_covered(mechanism, measure)
    if mechanism.kind not in PURE_ANSWERS:
        return "no answer whose price has no delta"
    costs = price(mechanism, delta=Decimal(0))
    if costs.relation != ADD_REMOVE:
        return f"its price is for the neighbouring relation {costs.relation}"
    return None if costs.epsilon <= measure else f"its epsilon {costs.epsilon} is above the registered {measure}"


MIXED_SERIES: MechanismKind[MixedSeries] = MechanismKind(
    records={"mixed-series/1": RecordForm(mechanism=MixedSeries)},
    protections=(),
    pure=False,
    series=True,
    price=even_group_price(lambda series, delta, releases: price_mixed(series, delta=delta, releases=releases)),
    filter_parts=no_filter_parts("a series of different mechanisms is charged whole, to a budget that adds prices up"),
    sampling_rate=lambda _: None,
    survey_rate=None,
    exclusive=False,
    not_covered=_not_covered,
)
