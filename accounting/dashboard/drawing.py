"""The parts of a picture: scaled axes with round labels, lines, and the text that stands for it all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

__all__ = ["Axis", "Legend", "drawing", "line", "linear_axis", "log_axis", "steps"]

WIDTH, HEIGHT = 680, 320
LEFT, RIGHT, TOP, BOTTOM = 66, 16, 40, 46


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A scale from values to places in the picture.

    Args:
        low: the least value; its logarithm to base 10 on a logarithmic scale.
        high: the largest likewise.
        start: where the least lies, in the picture's units.
        end: where the largest lies.
        logarithmic: whether values are placed by their logarithms.
        ticks: values with their labels.
        name: of the quantity.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool
    ticks: tuple[tuple[float, str], ...]
    name: str

    def at(self, value: float) -> float:
        """Where a value lies; one past an end lies at that end."""
        scaled = math.log10(max(value, 1e-300)) if self.logarithmic else value
        share = 0.0 if self.high == self.low else (scaled - self.low) / (self.high - self.low)
        return round(self.start + min(1.0, max(0.0, share)) * (self.end - self.start), 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Legend:
    """A line's name in the picture.

    Args:
        style: the line's class.
        text: its name.
    """

    style: str
    text: str


def linear_axis(low: float, high: float, *, name: str, across: bool) -> Axis:
    """A linear scale with about five round ticks."""
    span = (high - low) or 1.0
    rough = span / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    ticks = tuple(
        (number * step, f"{number * step:.6g}") for number in range(first, math.floor(high / step + 1e-9) + 1)
    )
    start, end = _ends(across=across)
    return Axis(low=low, high=low + span, start=start, end=end, logarithmic=False, ticks=ticks, name=name)


def log_axis(low: float, high: float, *, name: str, across: bool) -> Axis:
    """A logarithmic scale over whole powers of ten, with at most seven ticks."""
    first, last = math.floor(math.log10(max(low, 1e-300))), math.ceil(math.log10(max(high, 1e-300)))
    last = max(last, first + 1)
    step = max(1, -(-(last - first) // 6))
    ticks = tuple((10.0**power, f"1e{power}" if power else "1") for power in range(last, first - 1, -step))
    start, end = _ends(across=across)
    return Axis(
        low=float(first), high=float(last), start=start, end=end, logarithmic=True, ticks=tuple(ticks), name=name
    )


def line(points: Iterable[tuple[float, float]], *, x: Axis, y: Axis, style: str) -> Markup:
    """A line through points."""
    places = " ".join(f"{x.at(across)},{y.at(up)}" for across, up in points)
    return Markup('<polyline class="line {}" points="{}"/>').format(style, places) if places else Markup("")


def steps(points: Sequence[tuple[float, float]], *, x: Axis, y: Axis, style: str) -> Markup:
    """A line that keeps each value until the next point."""
    corners: list[tuple[float, float]] = []
    for across, up in points:
        if corners:
            corners.append((across, corners[-1][1]))
        corners.append((across, up))
    return line(corners, x=x, y=y, style=style)


def drawing(
    parts: Iterable[Markup], *, x: Axis, y: Axis, legends: Sequence[Legend], key: str, title: str, description: str
) -> Markup:
    """A picture with axes, grid and legend; title and description stand for it where it isn't seen.

    Args:
        parts: what is drawn, back to front.
        x: the scale across.
        y: the scale upward.
        legends: the lines' names.
        key: a word of its own on the page, for ids.
        title: what the picture is.
        description: what it shows, with its figures.
    """
    head = Markup(
        '<svg class="picture" viewBox="0 0 {w} {h}" role="img" aria-labelledby="{k}-t {k}-d" '
        'xmlns="http://www.w3.org/2000/svg"><title id="{k}-t">{t}</title><desc id="{k}-d">{d}</desc>'
    ).format(w=WIDTH, h=HEIGHT, k=key, t=title, d=description)
    return Markup("").join([head, _grid(x, y), *parts, _legend(legends), Markup("</svg>")])


def _ends(*, across: bool) -> tuple[float, float]:
    return (LEFT, WIDTH - RIGHT) if across else (HEIGHT - BOTTOM, TOP)


def _grid(x: Axis, y: Axis) -> Markup:
    parts = []
    for value, label in y.ticks:
        up = y.at(value)
        parts.append(
            Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(LEFT, up, WIDTH - RIGHT, up)
            + Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>').format(LEFT - 8, up + 4, label)
        )
    for value, label in x.ticks:
        across = x.at(value)
        parts.append(
            Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                across, HEIGHT - BOTTOM, across, HEIGHT - BOTTOM + 5
            )
            + Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
                across, HEIGHT - BOTTOM + 19, label
            )
        )
    parts.append(
        Markup('<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
            LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM
        )
    )
    parts.append(
        Markup('<text class="name" x="{}" y="{}" text-anchor="end">{}</text>').format(
            WIDTH - RIGHT, HEIGHT - 6, escape(x.name)
        )
    )
    parts.append(Markup('<text class="name" x="{}" y="{}">{}</text>').format(8, TOP - 22, escape(y.name)))
    return Markup("").join(parts)


def _legend(legends: Sequence[Legend]) -> Markup:
    parts, across = [], float(LEFT)
    for legend in legends:
        parts.append(
            Markup('<line class="line {}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                legend.style, across, TOP - 14, across + 24, TOP - 14
            )
            + Markup('<text class="legend" x="{}" y="{}">{}</text>').format(across + 30, TOP - 10, legend.text)
        )
        across += 48 + 7.1 * len(legend.text)
    return Markup("").join(parts)
