"""Pictures of analyses: dots with intervals around the truth, a panel an analysis; same bytes for same numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .analysis_asked import Answer

__all__ = ["Shown", "write_pictures"]

SETTINGS = {"svg.hashsalt": "crowdblend", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 9.0}
COLOURS = {
    "chosen pairs": "#7B2D8E",
    "named pairs": "#B56BC4",
    "MST": "#777777",
    "AIM": "#009E73",
    "noisy histogram": "#D55E00",
}


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A panel.

    Args:
        title: of the analysis.
        figure: which figure is drawn.
        truth: of the records.
        answers: by way, medians of estimates and of ends; None where there is no answer.
    """

    title: str
    figure: str
    truth: float
    answers: Mapping[str, Answer | None]


def write_pictures(file: Path, panels: Sequence[Shown], *, title: str) -> None:
    """Draw four panels."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        figure = Figure(figsize=(8.0, 5.0), layout="constrained")
        for axes, panel in zip(figure.subplots(2, 2).flat, panels, strict=True):
            _draw(axes, panel)
        figure.savefig(file, metadata={"Date": None, "Title": title})


def _draw(axes: Axes, panel: Shown) -> None:
    axes.axvline(panel.truth, color="0.3", linewidth=1.0, linestyle="--", zorder=1)
    told = [one for one in panel.answers.values() if one is not None]
    ends = [
        end for one in told for end in (one.estimate, one.lower, one.upper) if end is not None and math.isfinite(end)
    ]
    most = max(ends) + 0.1 * (max(ends) - min(ends))
    for place, (way, answer) in enumerate(panel.answers.items()):
        if answer is None:
            axes.annotate("no answer", (0.02, -place), xycoords=("axes fraction", "data"), va="center", color="0.4")
            continue
        if answer.lower is not None and answer.upper is not None:
            # An end of infinity is drawn up to the edge.
            axes.plot([answer.lower, min(answer.upper, most)], [-place, -place], color=COLOURS[way], linewidth=2.0)
        axes.plot([answer.estimate], [-place], "o", color=COLOURS[way], markersize=5.0)
    axes.set_title(f"{panel.title}\n{panel.figure}", fontsize=9.0)
    axes.set_yticks([-place for place in range(len(panel.answers))], [*panel.answers])
    axes.set_ylim(-len(panel.answers) + 0.5, 0.5)
    axes.grid(visible=True, axis="x", color="0.9", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
