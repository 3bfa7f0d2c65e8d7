"""The pages' pictures, drawn on the server: budget bars, an account over time, an ε–δ curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from ...mechanisms.amount_format import amount_shown
from .charts import Axis, Legend, area, dot, line, line_chart, linear_axis, log_axis, share_bar, steps
from .curve import CurvePoint
from .timeline import TimelinePoint

__all__ = ["budget_bar", "curve_picture", "timeline_picture"]

LEAST_DELTA = 1e-30
MOST_LABELS = 5


def budget_bar(share: float, *, label: str) -> Markup:
    """How much of a budget is spent.

    Args:
        share: spent of the budget, 0 to 1; more is drawn as full, in the colour of a fault.
        label: what stands for the bar where it isn't seen.
    """
    return share_bar(share, label=label, style="over" if share > 1 else "high" if share >= 0.8 else "low")


def timeline_picture(points: Sequence[TimelinePoint]) -> Markup:
    """A data set's ε over its account's changes: charged, composed, by the paper, against the budget."""
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
        area(charged, x=x, y=y),
        steps(budgets, x=x, y=y, style="budget"),
        steps(_up_to(paper, top), x=x, y=y, style="paper"),
        line(composed, x=x, y=y, style="composed"),
        steps(charged, x=x, y=y, style="charged"),
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
    return line_chart(
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
        parts.append(dot(epsilon, delta, x=x, y=y, radius=5, style="dot"))
        said += f" The dot is the price: ε = {amount_shown(epsilon)}, δ = {amount_shown(delta)}."
    return line_chart(parts, x=x, y=y, legends=legends, key="curve", title="ε–δ curve of one release", description=said)


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
    return replace(plain, start=plain.start + 24, end=plain.end - 24, ticks=tuple(labels))


def _up_to(points: Sequence[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """The points up to the first that lies above the picture."""
    kept: list[tuple[float, float]] = []
    for across, up in points:
        kept.append((across, min(up, top)))
        if up > top:
            break
    return kept
