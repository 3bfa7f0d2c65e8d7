"""The pages' pictures, drawn on the server: budget bars, an account over time, an ε–δ curve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from ...mechanisms.amount_format import amount_shown
from .curve import CurvePoint
from .drawing import Axis, Legend, drawing, line, linear_axis, log_axis, steps
from .timeline import TimelinePoint, UnreadableChange

__all__ = ["budget_bar", "curve_picture", "timeline_picture"]

BAR = 200
LEAST_DELTA = 1e-30
MOST_LABELS = 5


def budget_bar(share: float, *, label: str) -> Markup:
    """How much of a budget is spent.

    Args:
        share: spent of the budget, 0 to 1; more is drawn as full, in the colour of a fault.
        label: what stands for the bar where it isn't seen.
    """
    filled = round(BAR * min(1.0, share), 1)
    style = "over" if share > 1 else "high" if share >= 0.8 else "low"
    return Markup(
        '<svg class="bar" viewBox="0 0 {w} 14" preserveAspectRatio="none" role="img" aria-label="{label}" '
        'xmlns="http://www.w3.org/2000/svg"><rect class="track" width="{w}" height="14" rx="3"/>'
        '<rect class="fill {style}" width="{filled}" height="14" rx="3"/></svg>'
    ).format(w=BAR, label=label, style=style, filled=filled)


def timeline_picture(changes: Sequence[TimelinePoint | UnreadableChange]) -> Markup:
    """A data set's ε over its account's changes: charged, composed, by the paper, against the budget.

    Args:
        changes: at least one whose account can be read; the others are lines across the whole height.
    """
    points = [change for change in changes if isinstance(change, TimelinePoint)]
    unread = sorted({change.change for change in changes if isinstance(change, UnreadableChange)})
    last = points[-1]
    budgets = [(float(point.change), float(point.epsilon_budget.exact)) for point in points]
    charged = [(float(point.change), float(point.epsilon_spent.exact)) for point in points]
    composed = [
        (float(point.change), float(point.epsilon_composed.exact))
        for point in points
        if point.epsilon_composed is not None
    ]
    paper = [
        (float(point.change), float(point.epsilon_paper.exact)) for point in points if point.epsilon_paper is not None
    ]
    top = 1.08 * max(*(up for _, up in budgets), *(up for _, up in charged), 1e-9)
    x = _change_axis(points)
    y = linear_axis(0.0, top, name="ε", across=False)
    parts = [
        _under(charged, x=x, y=y),
        steps(budgets, x=x, y=y, style="budget"),
        steps(_up_to(paper, top), x=x, y=y, style="paper"),
        line(composed, x=x, y=y, style="composed"),
        steps(charged, x=x, y=y, style="charged"),
        *(line([(change, 0.0), (change, top)], x=x, y=y, style="unread") for change in unread),
    ]
    legends = [
        Legend(style="budget", text="budget"),
        Legend(style="charged", text="charged"),
        Legend(style="composed", text="composed (estimate)"),
        Legend(style="paper", text="by the paper's bound"),
    ]
    said = (
        f"After {last.change} changes ε = {last.epsilon_spent.shown} is charged of a budget of "
        f"{last.epsilon_budget.shown}."
    )
    if last.epsilon_composed is not None:
        said += f" Composed tightly it is estimated at {last.epsilon_composed.shown}."
    if last.epsilon_paper is not None:
        said += f" The paper's bound would have charged {last.epsilon_paper.shown}."
    if unread:
        said += f" Changes that can't be read, drawn as lines across: {len(unread)}."
    return drawing(
        parts, x=x, y=y, legends=legends, key="timeline", title="Cumulative ε against the budget", description=said
    )


def curve_picture(points: Sequence[CurvePoint], *, theorem: str, epsilon: float | None, delta: float | None) -> Markup:
    """The ε–δ curve of one release, exact and by the paper, through at least one point, and where it is charged."""
    exact = [(point.epsilon, point.delta_exact) for point in points if point.delta_exact > LEAST_DELTA]
    paper = [
        (point.epsilon, point.delta_paper)
        for point in points
        if point.delta_paper is not None and point.delta_paper > LEAST_DELTA
    ]
    values = [up for _, up in (*exact, *paper)] or [LEAST_DELTA, 1.0]
    x = linear_axis(0.0, points[-1].epsilon, name="ε", across=True)
    y = log_axis(min(values), max(values), name="δ", across=False)
    parts = [line(paper, x=x, y=y, style="paper"), line(exact, x=x, y=y, style="charged")]
    said = (
        f"δ falls from {amount_shown(points[0].delta_exact)} at ε = 0 to {amount_shown(points[-1].delta_exact)} at "
        f"ε = {amount_shown(points[-1].epsilon)} by the exact profile"
    )
    said += f"; the paper's bound lies above it, and begins at ε = {amount_shown(paper[0][0])}." if paper else "."
    legends = [Legend(style="charged", text="exact"), Legend(style="paper", text=f"paper, {theorem}")]
    if epsilon is not None and delta is not None:
        parts.append(Markup('<circle class="dot" cx="{}" cy="{}" r="5"/>').format(x.at(epsilon), y.at(delta)))
        said += f" The dot is the price: ε = {amount_shown(epsilon)}, δ = {amount_shown(delta)}."
    return drawing(parts, x=x, y=y, legends=legends, key="curve", title="ε–δ curve of one release", description=said)


def _change_axis(points: Sequence[TimelinePoint]) -> Axis:
    """The account's changes, labelled by their days; a day is named once."""
    first, last = float(points[0].change), float(points[-1].change)
    plain = linear_axis(first, max(last, first + 1.0), name="changes of the account, by day", across=True)
    labels: list[tuple[float, str]] = []
    step = max(1, -(-len(points) // MOST_LABELS))
    for point in points[::step]:
        day = point.day or "?"
        if not labels or labels[-1][1] != day:
            labels.append((float(point.change), day))
    return Axis(
        low=plain.low,
        high=plain.high,
        start=plain.start + 24,
        end=plain.end - 24,
        logarithmic=False,
        ticks=tuple(labels),
        name=plain.name,
    )


def _under(points: Sequence[tuple[float, float]], *, x: Axis, y: Axis) -> Markup:
    """The area under what is charged."""
    corners = [f"{x.at(points[0][0])},{y.at(0.0)}"]
    for (left, up), (right, _) in pairwise(points):
        corners += [f"{x.at(left)},{y.at(up)}", f"{x.at(right)},{y.at(up)}"]
    corners += [f"{x.at(points[-1][0])},{y.at(points[-1][1])}", f"{x.at(points[-1][0])},{y.at(0.0)}"]
    return Markup('<polygon class="area" points="{}"/>').format(" ".join(corners))


def _up_to(points: Sequence[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """The points up to the first that lies above the picture."""
    kept: list[tuple[float, float]] = []
    for across, up in points:
        kept.append((across, min(up, top)))
        if up > top:
            break
    return kept
