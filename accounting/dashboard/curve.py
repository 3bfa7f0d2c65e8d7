"""The ε–δ curve of one release, for a page's picture and its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...mechanisms.refusal import InputRefused
from ..theory.kinds.registry import kind_of_record
from .work import Desk

__all__ = ["Curve", "CurvePoint", "curve_of"]

SECONDS_TO_WAIT = 0.5
LARGEST_K = 10_000
FOR_SEVERAL_RECORDS = (
    "No curve is drawn where a person may have several records: the profile is that of one record, and its price is "
    "carried over to several by group privacy."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """One point of the curve; both δ are upper bounds.

    Args:
        epsilon: ε.
        delta_exact: δ by the exact profile.
        delta_paper: δ by the paper's theorem; None where that proves nothing.
    """

    epsilon: float
    delta_exact: float
    delta_paper: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A release's ε–δ curve.

    Args:
        points: by rising ε; none where the curve isn't there.
        theorem: of Li, Qardaji, Su, arXiv:1101.2604v2, that gives the paper's δ.
        why_not: why there is no curve; None where it is there.
        computing: whether it is being computed; ask again for it.
    """

    points: tuple[CurvePoint, ...]
    theorem: str
    why_not: str | None
    computing: bool


def curve_of(mechanism: Mapping[str, str | int], *, rows_per_person: int, delta: str, desk: Desk) -> Curve:
    """The curve of a mechanism's record.

    Args:
        mechanism: the record, as the ledger has it.
        rows_per_person: the most records of one person.
        delta: the δ that the picture must show.
        desk: computes it.
    """
    try:
        curves = kind_of_record(mechanism.get("kind")).curves
    except InputRefused:
        curves = None
    theorem = "" if curves is None else curves.theorem
    k = mechanism.get("k")
    if rows_per_person != 1:
        why_not = FOR_SEVERAL_RECORDS
    elif not theorem:
        why_not = "No curve is known for this kind of mechanism."
    elif not isinstance(k, int) or k > LARGEST_K:
        why_not = f"No curve is drawn for a k above {LARGEST_K}."
    else:
        answer = desk.ask("curve", {"mechanism": dict(mechanism), "delta": delta}, wait=SECONDS_TO_WAIT)
        if answer.found is None:
            return Curve(points=(), theorem=theorem, why_not=answer.why_not, computing=answer.pending)
        found = answer.found
        points = tuple(
            CurvePoint(epsilon=epsilon, delta_exact=exact, delta_paper=paper)
            for epsilon, exact, paper in zip(found["epsilons"], found["exact"], found["paper"], strict=True)
        )
        return Curve(points=points, theorem=theorem, why_not=None, computing=False)
    return Curve(points=(), theorem=theorem, why_not=why_not, computing=False)
