"""Pictures of horizontal bars that read in colour, in grey, and without sight."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

__all__ = ["BarRow", "bar_picture"]

WIDTH = 720
LABELS = 236
NUMBERS = 64
BAR, GAP = 12, 9
LINE = 15
HEAD = 30
CHARACTERS = 32
MOST_LINES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class BarRow:
    """One label with a bar for each series.

    Args:
        label: in words.
        values: one for each series, at least 0.
        shown: the same as texts.
    """

    label: str
    values: tuple[float, ...]
    shown: tuple[str, ...]


def bar_picture(
    rows: Sequence[BarRow], *, series: Sequence[tuple[str, str]], key: str, title: str, most: float | None = None
) -> Markup:
    """Bars below each other, for each row one of each series; their figures stand beside them.

    Args:
        rows: from top to bottom.
        series: class of the style and name of each; at most three.
        key: a word of its own on the page, for ids.
        title: what the picture is.
        most: the value of a full bar; None is the largest.
    """
    full = most or max((value for row in rows for value in row.values), default=0.0) or 1.0
    parts: list[Markup] = []
    top = HEAD if len(series) > 1 else 8
    for row in rows:
        lines = _lines(row.label)
        height = max(len(series) * BAR, len(lines) * LINE)
        parts.append(_labels(lines, top=top, height=height))
        first = top + (height - len(series) * BAR) / 2
        for number, ((style, _), value, shown) in enumerate(zip(series, row.values, row.shown, strict=True)):
            parts.append(_bar(style, value / full, shown, top=first + number * BAR))
        top += height + GAP
    said = "; ".join(
        f"{row.label}: " + ", ".join(f"{name} {shown}" for (_, name), shown in zip(series, row.shown, strict=True))
        for row in rows
    )
    head = Markup(
        '<svg class="picture" viewBox="0 0 {w} {h}" role="img" aria-labelledby="{k}-t {k}-d" '
        'xmlns="http://www.w3.org/2000/svg"><title id="{k}-t">{t}</title><desc id="{k}-d">{d}</desc>'
    ).format(w=WIDTH, h=top, k=key, t=title, d=said)
    return Markup("").join([head, _legend(series) if len(series) > 1 else Markup(""), *parts, Markup("</svg>")])


def _bar(style: str, share: float, shown: str, *, top: float) -> Markup:
    length = round(max(0.0, min(1.0, share)) * (WIDTH - LABELS - NUMBERS), 1)
    return Markup(
        '<rect class="bar {}" x="{}" y="{}" width="{}" height="{}"/><text class="figure" x="{}" y="{}">{}</text>'
    ).format(style, LABELS, top + 0.5, length, BAR - 1.5, LABELS + length + 6, top + BAR - 2, shown)


def _labels(lines: Sequence[str], *, top: float, height: float) -> Markup:
    first = top + (height - len(lines) * LINE) / 2 + LINE - 3.5
    return Markup("").join(
        Markup('<text class="label" x="{}" y="{}" text-anchor="end">{}</text>').format(
            LABELS - 10, first + number * LINE, line
        )
        for number, line in enumerate(lines)
    )


def _lines(label: str) -> list[str]:
    return textwrap.wrap(label, CHARACTERS, max_lines=MOST_LINES, placeholder=" …") or [label]


def _legend(series: Sequence[tuple[str, str]]) -> Markup:
    parts, across = [], float(LABELS)
    for style, name in series:
        parts.append(
            Markup(
                '<rect class="bar {}" x="{}" y="6" width="22" height="11"/><text class="label" x="{}" y="16">{}</text>'
            ).format(style, across, across + 28, name)
        )
        across += 46 + 7.2 * len(name)
    return Markup("").join(parts)
