"""The pictures in documents: shares as bars, told apart by their pattern too, and lines over a parameter."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from ...accounting.dashboard.drawing import drawing, line, linear_axis

__all__ = ["line_picture", "share_picture"]

WIDTH, HEIGHT = 200, 14
HATCH = 5


def share_picture(share: float, *, label: str) -> Markup:
    """A bar whose hatched part is the share.

    Args:
        share: 0 to 1.
        label: what stands for the bar where it isn't seen.
    """
    filled = round(WIDTH * min(1.0, max(0.0, share)), 1)
    strokes = "".join(f"M{place} {HEIGHT}l{HEIGHT} -{HEIGHT}" for place in range(-HEIGHT, int(filled) + HEIGHT, HATCH))
    return Markup(
        '<svg class="bar" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" aria-label="{label}" '
        'xmlns="http://www.w3.org/2000/svg"><rect class="kept" width="{w}" height="{h}"/>'
        '<svg width="{filled}" height="{h}" overflow="hidden"><rect class="gone" width="{filled}" height="{h}"/>'
        '<path class="hatch" d="{strokes}"/></svg>'
        '<rect class="frame" x=".5" y=".5" width="{inner_w}" height="{inner_h}"/></svg>'
    ).format(w=WIDTH, h=HEIGHT, label=label, filled=filled, strokes=strokes, inner_w=WIDTH - 1, inner_h=HEIGHT - 1)


def line_picture(
    points: Sequence[tuple[float, float]], *, across: str, up: str, key: str, title: str, chosen: tuple[float, float]
) -> Markup:
    """A line through points, with a dot on the one that is the specification's.

    Args:
        points: across and up, ascending across.
        across: name of the quantity across.
        up: name of the quantity upward.
        key: a word of its own on the page.
        title: what the picture is.
        chosen: the point of the specification.
    """
    x = linear_axis(0.0, max(place for place, _ in points), name=across, across=True)
    y = linear_axis(0.0, max(1e-9, *(value for _, value in points)), name=up, across=False)
    marks = [
        Markup('<circle class="point" cx="{}" cy="{}" r="3"/>').format(x.at(place), y.at(value))
        for place, value in points
    ]
    dot = Markup('<circle class="dot" cx="{}" cy="{}" r="6"/>').format(x.at(chosen[0]), y.at(chosen[1]))
    first, last = points[0], points[-1]
    said = (
        f"{up} goes from {first[1]:.4g} at {first[0]:g} to {last[1]:.4g} at {last[0]:g}. "
        f"The large dot is the specification's: {chosen[1]:.4g} at {chosen[0]:g}."
    )
    parts = [line(points, x=x, y=y, style="charged"), *marks, dot]
    return drawing(parts, x=x, y=y, legends=(), key=key, title=title, description=said)
