"""A preview as a page of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ..documents.rendering import page
from .forecast import ByPrice, Forecast
from .suggestions import Suggestion

__all__ = ["preview_page"]


def preview_page(told: Forecast, helpful: Sequence[Suggestion], *, name: str) -> str:
    """The page as HTML.

    Args:
        told: the preview.
        helpful: what would help.
        name: the release's.
    """
    pictures = {
        "k": [(float(point.k), 100.0 * point.suppressed) for point in told.by_k],
        "k_chosen": _chosen(told.by_k, by_k=True),
        "rate": [(point.rate, 100.0 * point.suppressed) for point in told.by_rate],
        "rate_chosen": _chosen(told.by_rate, by_k=False),
    }
    return page("preview.html", told=told, helpful=helpful, name=name, pictures=pictures, zip=zip)


def _chosen(points: Sequence[ByPrice], *, by_k: bool) -> tuple[float, float]:
    """The specification's own point, as a picture has it."""
    own = next(point for point in points if point.chosen)
    return (float(own.k) if by_k else own.rate, 100.0 * own.suppressed)
