"""Charts as SVG for pages and documents: lines over axes, bars, shares and triangles of cells.

Each stands for itself in a title and a description, takes its colours from the page's style sheet, and runs no script.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from markupsafe import Markup

WIDTH, HEIGHT = 680, 320
LEFT, RIGHT, TOP, BOTTOM = 66, 16, 40, 46
SHARE_WIDTH, SHARE_HEIGHT, HATCH = 200, 14, 5
BARS_WIDTH, LABELS, NUMBERS, FIGURE = 720, 236, 64, 7.0
BAR, GAP, TEXT_LINE, HEAD = 12, 9, 15, 30
CELL, SIDE, CELLS_TOP, LEAST_WIDTH = 42, 210, 30, 480
CHARACTERS, MOST_LINES = 32, 3
MAP_SIDE, MAP_CELL, MAP_NAME, FAINT = 880, 26, 6.2, 0.08


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
        """Return where a value lies; one past an end lies at that end."""
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


def linear_axis(low: float, high: float, *, name: str, across: bool) -> Axis:
    """Return a linear scale with about five round ticks."""
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
    """Return a logarithmic scale over whole powers of ten, with at most seven ticks."""
    first, last = math.floor(math.log10(max(low, 1e-300))), math.ceil(math.log10(max(high, 1e-300)))
    last = max(last, first + 1)
    step = max(1, -(-(last - first) // 6))
    ticks = tuple((10.0**power, f"1e{power}" if power else "1") for power in range(last, first - 1, -step))
    start, end = _ends(across=across)
    return Axis(low=float(first), high=float(last), start=start, end=end, logarithmic=True, ticks=ticks, name=name)


def line(points: Iterable[tuple[float, float]], *, x: Axis, y: Axis, style: str) -> Markup:
    """Return a line through points."""
    places = " ".join(f"{x.at(across)},{y.at(up)}" for across, up in points)
    return _shape("polyline", f"line {style}", points=places) if places else Markup("")


def steps(points: Sequence[tuple[float, float]], *, x: Axis, y: Axis, style: str) -> Markup:
    """Return a line that keeps each value until the next point."""
    return line(_corners(points), x=x, y=y, style=style)


def area(points: Sequence[tuple[float, float]], *, x: Axis, y: Axis) -> Markup:
    """Return what lies under such a line, through at least one point."""
    corners = [(points[0][0], 0.0), *_corners(points), (points[-1][0], 0.0)]
    return _shape("polygon", "area", points=" ".join(f"{x.at(across)},{y.at(up)}" for across, up in corners))


def dot(across: float, up: float, *, x: Axis, y: Axis, radius: int, style: str) -> Markup:
    """Return a point that is marked."""
    return _shape("circle", style, cx=x.at(across), cy=y.at(up), r=radius)


def line_chart(
    parts: Iterable[Markup], *, x: Axis, y: Axis, legends: Sequence[Legend], key: str, title: str, description: str
) -> Markup:
    """Lines with axes, grid and legend; title and description stand for them where they aren't seen.

    Args:
        parts: what is drawn, back to front.
        x: the scale across.
        y: the scale upward.
        legends: the lines' names.
        key: a word of its own on the page, for ids.
        title: what the picture is.
        description: what it shows, with its figures.
    """
    across = float(LEFT)
    named = []
    for legend in legends:
        named.append(_shape("line", f"line {legend.style}", x1=across, y1=TOP - 14, x2=across + 24, y2=TOP - 14))
        named.append(_shape("text", "legend", legend.text, x=across + 30, y=TOP - 10))
        across += 48 + 7.1 * len(legend.text)
    return _picture([*_grid(x, y), *parts, *named], size=(WIDTH, HEIGHT), key=key, title=title, description=description)


def share_bar(share: float, *, label: str, style: str, hatched: bool = False) -> Markup:
    """Return a bar of which a share is filled.

    Args:
        share: 0 to 1; more is drawn as full.
        label: what stands for the bar where it isn't seen.
        style: class of the filled part.
        hatched: whether that is told apart by a pattern too, with a frame around the whole.
    """
    filled = round(SHARE_WIDTH * min(1.0, max(0.0, share)), 1)
    corner = 0 if hatched else 3
    whole = {"width": SHARE_WIDTH, "height": SHARE_HEIGHT, "rx": corner}
    parts = [_shape("rect", "track", **whole), _shape("rect", f"fill {style}", **(whole | {"width": filled}))]
    if hatched:
        strokes = range(-SHARE_HEIGHT, int(filled) + SHARE_HEIGHT, HATCH)
        places = "".join(f"M{place} {SHARE_HEIGHT}l{SHARE_HEIGHT} -{SHARE_HEIGHT}" for place in strokes)
        hatch = _shape("path", "hatch", d=places)
        parts.append(
            Markup('<svg width="{}" height="{}" overflow="hidden">{}</svg>').format(filled, SHARE_HEIGHT, hatch)
        )
        inner = {"width": SHARE_WIDTH - 1, "height": SHARE_HEIGHT - 1}
        parts.append(_shape("rect", "frame", x=0.5, y=0.5, **inner))
    return Markup(
        '<svg class="bar" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}" '
        'xmlns="http://www.w3.org/2000/svg">{}</svg>'
    ).format(SHARE_WIDTH, SHARE_HEIGHT, label, Markup("").join(parts))


def bar_chart(
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
    beside = max([NUMBERS, *(FIGURE * len(shown) + 14 for row in rows for shown in row.shown)])
    parts: list[Markup] = []
    across, top = float(LABELS), HEAD if len(series) > 1 else 8
    for style, name in series if len(series) > 1 else ():
        parts.append(_shape("rect", f"bar {style}", x=across, y=6, width=22, height=11))
        parts.append(_shape("text", "label", name, x=across + 28, y=16))
        across += 46 + 7.2 * len(name)
    for row in rows:
        lines = textwrap.wrap(row.label, CHARACTERS, max_lines=MOST_LINES, placeholder=" …") or [row.label]
        height = max(len(series) * BAR, len(lines) * TEXT_LINE)
        middle = top + height / 2
        parts += _labels(lines, right=LABELS - 10, middle=middle - 3.5 + TEXT_LINE / 2, spacing=TEXT_LINE)
        for number, ((style, _), value, shown) in enumerate(zip(series, row.values, row.shown, strict=True)):
            place = middle - len(series) * BAR / 2 + number * BAR
            length = round(max(0.0, min(1.0, value / full)) * (BARS_WIDTH - LABELS - beside), 1)
            parts.append(_shape("rect", f"bar {style}", x=LABELS, y=place + 0.5, width=length, height=BAR - 1.5))
            parts.append(_shape("text", "figure", shown, x=LABELS + length + 6, y=place + BAR - 2))
        top += height + GAP
    said = "; ".join(
        f"{row.label}: " + ", ".join(f"{name} {shown}" for (_, name), shown in zip(series, row.shown, strict=True))
        for row in rows
    )
    return _picture(parts, size=(BARS_WIDTH, top), key=key, title=title, description=said)


def triangle_chart(
    names: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    key: str,
    title: str,
    notes: Mapping[tuple[str, str], str] | None = None,
) -> Markup:
    """Return a triangle of cells, one for each pair of names: the darker, the larger; empty without a value.

    Args:
        names: at least two; of rows and columns.
        values: a pair of names, in their order → its value, at least 0.
        key: a word of its own on the page, for ids.
        title: what the picture is.
        notes: what is told of a pair besides.
    """
    most = max(values.values()) or 1.0
    parts: list[Markup] = []
    for number, name in enumerate(names):
        lines = textwrap.wrap(f"{name} {number + 1}", 28, max_lines=MOST_LINES, placeholder=f" … {number + 1}")
        parts += _labels(lines, right=SIDE - 10, middle=CELLS_TOP + (number + 0.5) * CELL + 4, spacing=14)
    for number in range(len(names) - 1):
        middle = SIDE + (number + 0.5) * CELL
        parts.append(_shape("text", "label", str(number + 1), x=middle, y=CELLS_TOP - 8, text_anchor="middle"))
    told, said = {pair: f", {note}" for pair, note in (notes or {}).items()}, []
    for (column, row), value in values.items():
        across, down = SIDE + names.index(column) * CELL, CELLS_TOP + names.index(row) * CELL
        place = {"x": across + 1, "y": down + 1, "width": CELL - 2, "height": CELL - 2}
        center = {"x": across + CELL / 2, "y": down + CELL / 2 + 4}
        one = f"{column} and {row}: {value:.3f}{told.get((column, row), '')}"
        shapes = (
            Markup("<title>{}</title>").format(one),
            _shape("rect", "cell", fill_opacity=round(0.04 + 0.46 * value / most, 3), **place),
            _shape("text", "cell-figure", f"{value:.2f}", text_anchor="middle", **center),
        )
        parts.append(_shape("g", "pair-cell", Markup("").join(shapes)))
        said.append(one)
    for (left, first), (below, second) in combinations(enumerate(names), 2):
        if (first, second) not in values:
            corner = {"x": SIDE + left * CELL + 1, "y": CELLS_TOP + below * CELL + 1}
            parts.append(_shape("rect", "no-cell", **corner, width=CELL - 2, height=CELL - 2))
    size = max(SIDE + (len(names) - 1) * CELL + 8, LEAST_WIDTH), CELLS_TOP + len(names) * CELL + 6
    return _picture(parts, size=size, key=key, title=title, description="; ".join(said), bounded=True)


def column_map(
    names: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    marked: Mapping[tuple[str, str], str],
    groups: Mapping[str, Sequence[str]],
    key: str,
    title: str,
) -> Markup:
    """Return a triangle of many columns: each pair's cell the darker, the larger its value; and which groups hold them.

    A column's name stands at the end of its row, where its own cells begin below it. What is too faint to be seen isn't
    drawn.

    Args:
        names: at least two, in the order of the rows.
        values: a pair of names, in either order → its value, at least 0.
        marked: pairs that have a dot → what is told of each.
        groups: names of groups, numbered in this order → those of the columns in it.
        key: a word of its own on the page, for ids.
        title: what the picture is.
    """
    cell = round(min(MAP_CELL, MAP_SIDE / len(names)), 1)
    text = {"style": f"font-size:{min(12.5, cell * 0.85):.1f}px"}  # a style sheet's would have precedence over a size
    places, left = {name: number for number, name in enumerate(names)}, (len(groups) + 1) * cell if groups else 8.0
    most, parts, said = max(values.values(), default=0.0) or 1.0, list[Markup](), []
    for number, (group, members) in enumerate(groups.items()):
        across = round(number * cell + cell / 2, 1)
        parts.append(_shape("text", "tick", str(number + 1), x=across, y=22, text_anchor="middle", **text))
        for member in members:
            told = Markup("<title>{}</title>").format(f"{member} is in {group}")
            down = round(CELLS_TOP + places[member] * cell + cell / 2, 1)
            parts.append(_shape("circle", "member", told, cx=across, cy=down, r=round(cell * 0.32, 1)))
    for number, name in enumerate(names):
        down, end = CELLS_TOP + number * cell, left + number * cell
        parts.append(_shape("line", "grid", x1=left, x2=end, y1=down, y2=down))
        parts.append(_shape("line", "grid", x1=end, x2=end, y1=down, y2=CELLS_TOP + len(names) * cell))
        shown = textwrap.shorten(name, 28, placeholder="…") or name[:28]
        parts.append(_shape("text", "label", shown, x=end + 4, y=round(down + cell * 0.75, 1), **text))
    for pair, value in sorted(values.items(), key=lambda one: one[1]):
        note = marked.get(pair)
        if note is None and value < FAINT * most:
            continue
        column, row = sorted(pair, key=places.__getitem__)
        corner = {"x": round(left + places[column] * cell, 1), "y": round(CELLS_TOP + places[row] * cell, 1)}
        one = f"{column} and {row}: {value:.3f}, {note or 'not counted'}"
        shapes = [
            Markup("<title>{}</title>").format(one),
            _shape("rect", "shade", fill_opacity=round(value / most, 2), **corner, width=cell, height=cell),
        ]
        if note is not None:
            said.append(one)
            middle = {"cx": round(corner["x"] + cell / 2, 1), "cy": round(corner["y"] + cell / 2, 1)}
            shapes.append(_shape("circle", "counted", **middle, r=round(max(1.6, cell * 0.16), 1)))
        parts.append(Markup("<g>{}</g>").format(Markup("").join(shapes)))
    longest = max(len(name) for name in names[-1:]) if names else 0
    size = left + len(names) * cell + max(60, min(longest, 28) * MAP_NAME), CELLS_TOP + len(names) * cell + 8
    listed = [f"{number}: {group}" for number, group in enumerate(groups, start=1)]
    return _picture(
        parts, size=(round(size[0]), round(size[1])), key=key, title=title,
        description="; ".join([*listed, *reversed(said)]), bounded=True,
    )  # fmt: skip


def _corners(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    corners = list(points[:1])
    for (_, before), (across, up) in pairwise(points):
        corners += [(across, before), (across, up)]
    return corners


def _shape(tag: str, style: str, text: str | None = None, /, **attributes: float | str) -> Markup:
    """Return one element, with its text escaped; an underscore in an attribute's name stands for a hyphen."""
    written = Markup("").join(
        Markup(' {}="{}"').format(name.replace("_", "-"), value) for name, value in attributes.items()
    )
    end = Markup("/>") if text is None else Markup(">{}</{}>").format(text, tag)
    return Markup('<{} class="{}"{}{}').format(tag, style, written, end)


def _picture(
    parts: Iterable[Markup],
    *,
    size: tuple[float, float],
    key: str,
    title: str,
    description: str,
    bounded: bool = False,
) -> Markup:
    """Return a whole picture; one that is bounded is never shown larger than it is."""
    head = Markup(
        '<svg class="picture" viewBox="0 0 {w} {h}"{style} role="img" aria-labelledby="{k}-t {k}-d" '
        'xmlns="http://www.w3.org/2000/svg"><title id="{k}-t">{t}</title><desc id="{k}-d">{d}</desc>'
    )
    style = Markup(' style="max-width:{}px"').format(size[0]) if bounded else ""
    begun = head.format(w=size[0], h=size[1], style=style, k=key, t=title, d=description)
    return Markup("").join([begun, *parts, Markup("</svg>")])


def _labels(lines: Sequence[str], *, right: float, middle: float, spacing: float) -> list[Markup]:
    """Lines of a label that ends at a place, around a height."""
    first = middle - (len(lines) - 1) / 2 * spacing
    return [
        _shape("text", "label", text, x=right, y=first + number * spacing, text_anchor="end")
        for number, text in enumerate(lines)
    ]


def _ends(*, across: bool) -> tuple[float, float]:
    return (LEFT, WIDTH - RIGHT) if across else (HEIGHT - BOTTOM, TOP)


def _grid(x: Axis, y: Axis) -> list[Markup]:
    parts, floor, right = [], HEIGHT - BOTTOM, WIDTH - RIGHT
    for value, label in y.ticks:
        up = y.at(value)
        parts.append(_shape("line", "grid", x1=LEFT, y1=up, x2=right, y2=up))
        parts.append(_shape("text", "tick", label, x=LEFT - 8, y=up + 4, text_anchor="end"))
    for value, label in x.ticks:
        across = x.at(value)
        parts.append(_shape("line", "grid", x1=across, y1=floor, x2=across, y2=floor + 5))
        parts.append(_shape("text", "tick", label, x=across, y=floor + 19, text_anchor="middle"))
    parts.append(_shape("line", "axis", x1=LEFT, y1=floor, x2=right, y2=floor))
    parts.append(_shape("text", "name", x.name, x=right, y=HEIGHT - 6, text_anchor="end"))
    parts.append(_shape("text", "name", y.name, x=8, y=TOP - 22))
    return parts
