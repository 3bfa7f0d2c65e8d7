"""The ε–δ curve of one strongly-safe release, for a page's picture and its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .work import Desk

__all__ = ["Curve", "CurvePoint", "curve_of"]

SECONDS_TO_WAIT = 0.5
LARGEST_K = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """One point of the curve; both δ are upper bounds.

    Args:
        epsilon: ε.
        delta_exact: δ by the exact profile.
        delta_paper: δ by Li, Qardaji, Su, arXiv:1101.2604v2, Theorem 3.9; None where that proves nothing.
    """

    epsilon: float
    delta_exact: float
    delta_paper: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """A release's ε–δ curve.

    Args:
        points: by rising ε; none where the curve isn't there.
        why_not: why it isn't; None where it is.
        computing: whether it is being computed; ask again for it.
    """

    points: tuple[CurvePoint, ...]
    why_not: str | None
    computing: bool


def curve_of(mechanism: Mapping[str, str | int], *, delta: str, desk: Desk) -> Curve:
    """The curve of a mechanism's record.

    Args:
        mechanism: the record, as the ledger has it.
        delta: the δ that the picture must show.
        desk: computes it.
    """
    k, rate = mechanism.get("k"), mechanism.get("sampling_rate")
    drawn = mechanism.get("kind") == "strongly-safe-release/1" and isinstance(k, int) and isinstance(rate, str)
    if not drawn or not isinstance(k, int) or k > LARGEST_K:
        return Curve(points=(), why_not="No curve is drawn for this mechanism.", computing=False)
    answer = desk.ask("curve", {"k": k, "sampling_rate": rate, "delta": delta}, wait=SECONDS_TO_WAIT)
    if answer.found is None:
        return Curve(points=(), why_not=answer.why_not, computing=answer.pending)
    found = answer.found
    points = tuple(
        CurvePoint(epsilon=epsilon, delta_exact=exact, delta_paper=paper)
        for epsilon, exact, paper in zip(found["epsilons"], found["exact"], found["paper"], strict=True)
    )
    return Curve(points=points, why_not=None, computing=False)
