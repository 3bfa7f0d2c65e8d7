"""The price of many releases together: privacy-loss distributions of exact profiles, composed without a floor."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from .loss_curves import LossCurves, Part, curves_of, grid_spacing, measures_of
from .loss_distribution import LossDistribution, compose, delta_at, epsilon_at, power

__all__ = ["COMPOSED_FLOOR", "delta_composed", "epsilon_composed"]

COMPOSED_FLOOR = Decimal("1e-200")

_CUT_SHARE = 1e-4


def epsilon_composed(parts: Mapping[Part, int], *, delta: float) -> float | None:
    """The least ε found for the composition of fresh-sample releases and bare guarantees, rounded outward.

    The parameters are fixed beforehand; the outputs may be used adaptively otherwise. Both directions are
    composed, each with itself, since a person is present in all the releases or absent from all.

    Args:
        parts: mechanism → how many of it, each at least 1.
        delta: δ over all of them together, at least `COMPOSED_FLOOR`.

    Returns:
        ε, at least the true one; None where no finite ε is found.

    Raises:
        ValueError: a count, δ or a mechanism's parameters are out of range.
    """
    results = [epsilon_at(measure, delta) for measure in _compose_all(parts, delta)]
    finite = [result for result in results if result is not None]
    return max(finite) if len(finite) == len(results) else None


def delta_composed(parts: Mapping[Part, int], *, epsilon: float, resolution: float = 1e-15) -> float:
    """An upper bound on δ at ε for the composition of `parts`; masses below about `resolution` count in full.

    Raises:
        ValueError: as `epsilon_composed`, or ε below 0.
    """
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be at least 0, not {epsilon}")
    return max(delta_at(measure, epsilon) for measure in _compose_all(parts, resolution))


def _compose_all(parts: Mapping[Part, int], delta: float) -> tuple[LossDistribution, LossDistribution]:
    if not float(COMPOSED_FLOOR) <= delta < 1.0:
        raise ValueError(f"a composed price needs delta from {COMPOSED_FLOOR} to 1, not {delta}")
    if not parts or min(parts.values()) < 1:
        raise ValueError("a composition needs at least one mechanism, each at least once")
    # INVARIANT: the order of composition is a function of the mechanisms, so that the price is the same in any order.
    ordered = sorted(parts.items(), key=lambda item: repr(item[0]))
    negligible = delta * _CUT_SHARE / sum(parts.values())
    curves: dict[LossCurves, int] = {curves_of(part, negligible=negligible): times for part, times in ordered}
    spacing = grid_spacing(curves, negligible=negligible)
    cut = delta * _CUT_SHARE / (2.0 * len(curves))
    adding: LossDistribution | None = None
    removing: LossDistribution | None = None
    for part, times in curves.items():
        one_adding, one_removing = measures_of(part, spacing)
        all_adding = power(one_adding, times, cut=cut)
        all_removing = power(one_removing, times, cut=cut)
        adding = all_adding if adding is None else compose(adding, all_adding, cut=cut)
        removing = all_removing if removing is None else compose(removing, all_removing, cut=cut)
    if adding is None or removing is None:
        raise ValueError("a composition needs at least one mechanism, each at least once")
    return adding, removing
