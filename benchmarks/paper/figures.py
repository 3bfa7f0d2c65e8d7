"""Figures 2 to 6 of LQS (arXiv:1101.2604v2), each with the exact profile beside the paper's bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from crowdblend.accounting.kernel.prices.privacy_profile import delta_exact
from crowdblend.accounting.kinds.composition.paper_bound import delta_paper, epsilon_paper, least_epsilon_of_paper
from crowdblend.accounting.theory.planning.searches import epsilon_exact
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import stats

__all__ = ["PICTURES", "Picture", "divergence_of_group", "tail_of_group", "write_picture"]

RATES = (0.05, 0.1, 0.2)
THRESHOLDS = (5, 10, 20, 30, 50)
K, RATE, EPSILON_OF_GROUPS, EPSILON_OF_K, DELTA = 20, 0.1, 0.25, 0.5, "1e-6"
GROUP_SIZES = range(K, 161)
LARGEST_EPSILON, EPSILON_POINTS = 2.0, 121
SUPPRESSIONS = range(1, 51)

# Okabe and Ito's colours, told apart also by the marks; the kind of curve is told by the line's style.
LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#000000", "v"))
PAPER_STYLE, EXACT_STYLE = (0, (4.0, 2.0)), "-"
SETTINGS = {
    "svg.hashsalt": "crowdblend",
    "svg.fonttype": "path",
    "path.simplify": False,
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "axes.unicode_minus": True,
}

Points = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One figure of the page.

    Args:
        number: its number in the paper.
        title: what it shows, for the heading.
        caption: what is drawn, with every parameter.
        original: what is known of the paper's own figure.
        draw: puts the curves on the axes and returns the entries of the legend.
    """

    number: int
    title: str
    caption: str
    original: str
    draw: Callable[[Axes], list[Line2D]]

    @property
    def file(self) -> str:
        """File name of the picture."""
        return f"figure-{self.number}.svg"


def write_picture(picture: Picture, folder: Path, *, ending: str = "svg") -> Path:
    """Draw one figure into `folder`: the same bytes for the same values and version of matplotlib.

    Args:
        picture: what to draw.
        folder: existing folder.
        ending: `svg`, or `png` for a look at it.
    """
    path = (folder / picture.file).with_suffix(f".{ending}")
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        figure = Figure(figsize=(7.2, 4.3), layout="constrained")
        axes = figure.subplots()
        entries = picture.draw(axes)
        axes.grid(visible=True, which="major", color="0.88", linewidth=0.7)
        axes.set_axisbelow(True)
        kinds = [
            Line2D([], [], color="0.3", linestyle=PAPER_STYLE, label="paper's bound"),
            Line2D([], [], color="0.3", linestyle=EXACT_STYLE, label="exact profile"),
        ]
        figure.legend(handles=kinds + entries, loc="outside right center", frameon=False, handlelength=3.0)
        metadata = {"Date": None, "Title": f"Figure {picture.number}: {picture.title}"} if ending == "svg" else None
        figure.savefig(path, metadata=metadata, dpi=120)
    return path


def tail_of_group(*, k: int, sampling_rate: float, epsilon: float, size: int) -> float:
    """The term of the paper's bound for a group of `size` records: Pr[Bin(n, β) > γn]; NaN before n = ⌈k/γ − 1⌉.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9, with γ = (e^ε − 1 + β)/e^ε.
    """
    gamma = 1.0 - (1.0 - sampling_rate) * math.exp(-epsilon)
    if size < math.ceil(k / gamma - 1.0):
        return math.nan
    return float(stats.binom.sf(math.floor(gamma * size), size, sampling_rate))


def divergence_of_group(*, k: int, sampling_rate: float, epsilon: float, size: int) -> float:
    """The exact δ(ε) of a group of `size` ≥ k records: the larger hockey-stick divergence of its two directions.

    Summed from the definition: the released count with and without one record, every value below k merged.
    """
    counts = np.arange(k, size + 1)
    present = np.append(stats.binom.pmf(counts, size, sampling_rate), stats.binom.cdf(k - 1, size, sampling_rate))
    absent = np.append(
        stats.binom.pmf(counts, size - 1, sampling_rate), stats.binom.cdf(k - 1, size - 1, sampling_rate)
    )
    adding = np.maximum(present - math.exp(epsilon) * absent, 0.0).sum()
    removing = np.maximum(absent - math.exp(epsilon) * present, 0.0).sum()
    return float(max(adding, removing))


def _draw_groups(axes: Axes) -> list[Line2D]:
    entries = []
    for place, rate in enumerate(RATES):
        paper, exact = (
            [term(k=K, sampling_rate=rate, epsilon=EPSILON_OF_GROUPS, size=size) for size in GROUP_SIZES]
            for term in (tail_of_group, divergence_of_group)
        )
        entries.append(_pair(axes, place, f"β = {rate:g}", (GROUP_SIZES, paper), (GROUP_SIZES, exact)))
    axes.set(xlabel="records in the group, n", ylabel="term of δ for this n (probability)", yscale="log")
    axes.set(xlim=(GROUP_SIZES[0], GROUP_SIZES[-1] + 2), ylim=(1e-20, 1e-1))
    return entries


def _draw_rates(axes: Axes) -> list[Line2D]:
    entries = [_against_epsilon(axes, place, f"β = {rate:g}", K, rate) for place, rate in enumerate(RATES)]
    axes.set(ylim=(1e-26, 1.0))
    return entries


def _draw_thresholds(axes: Axes) -> list[Line2D]:
    entries = [_against_epsilon(axes, place, f"k = {k}", k, RATE) for place, k in enumerate(THRESHOLDS)]
    axes.set(ylim=(1e-45, 1.0))
    return entries


def _draw_delta_of_k(axes: Axes) -> list[Line2D]:
    entries = []
    for place, rate in enumerate(RATES):
        paper = [delta_paper(k=k, sampling_rate=rate, epsilon=EPSILON_OF_K) for k in SUPPRESSIONS]
        exact = [delta_exact(k=k, sampling_rate=rate, epsilon=EPSILON_OF_K) for k in SUPPRESSIONS]
        entries.append(_pair(axes, place, f"β = {rate:g}", (SUPPRESSIONS, paper), (SUPPRESSIONS, exact)))
    axes.set(xlabel="suppression threshold k (records)", ylabel="δ (probability)", yscale="log")
    axes.set(xlim=(0, SUPPRESSIONS[-1] + 1))
    return entries


def _draw_epsilon_of_k(axes: Axes) -> list[Line2D]:
    entries = []
    for place, rate in enumerate(RATES):
        paper = _with_gaps(epsilon_paper(k=k, sampling_rate=rate, delta=float(DELTA)) for k in SUPPRESSIONS)
        exact = _with_gaps(epsilon_exact(k=k, sampling_rate=rate, delta=float(DELTA)) for k in SUPPRESSIONS)
        entries.append(_pair(axes, place, f"β = {rate:g}", (SUPPRESSIONS, paper), (SUPPRESSIONS, exact)))
    axes.set(xlabel="suppression threshold k (records)", ylabel="least ε (nats)")
    axes.set(xlim=(0, SUPPRESSIONS[-1] + 1), ylim=(0, None))
    return entries


def _against_epsilon(axes: Axes, place: int, label: str, k: int, rate: float) -> Line2D:
    """One pair of curves of δ against ε: the paper's begins at −ln(1−β), the exact one at 0."""
    proved = np.linspace(least_epsilon_of_paper(rate), LARGEST_EPSILON, EPSILON_POINTS).tolist()
    every = np.linspace(0.0, LARGEST_EPSILON, EPSILON_POINTS).tolist()
    paper = [delta_paper(k=k, sampling_rate=rate, epsilon=epsilon) for epsilon in proved]
    exact = [delta_exact(k=k, sampling_rate=rate, epsilon=epsilon) for epsilon in every]
    axes.set(xlabel="ε (nats)", ylabel="δ (probability)", yscale="log", xlim=(0.0, LARGEST_EPSILON))
    return _pair(axes, place, label, (proved, paper), (every, exact))


def _pair(axes: Axes, place: int, label: str, paper: Points, exact: Points) -> Line2D:
    """Draw both curves of one parameter; returns its entry in the legend."""
    colour, mark = LOOKS[place]
    for (xs, ys), style, face in ((paper, PAPER_STYLE, "white"), (exact, EXACT_STYLE, colour)):
        every = (0.04 + 0.03 * place, 0.16)
        axes.plot(
            xs, ys, color=colour, linestyle=style, linewidth=1.5,
            marker=mark, markersize=5, markerfacecolor=face, markevery=every,
        )  # fmt: skip
    return Line2D([], [], color=colour, linestyle="none", marker=mark, markersize=6, label=label)


def _with_gaps(values: Iterable[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _listed(values: Iterable[float]) -> str:
    *most, last = [f"{value:g}" for value in values]
    return f"{', '.join(most)} and {last}"


UNKNOWN = (
    "Drawn from the formula with these axes; what the original of this number shows, on which axes and with which "
    "parameters, could not be checked."
)

PICTURES = (
    Picture(
        number=2,
        title="the error probability against the size of the group",
        caption=(
            f"k = {K}, ε = {EPSILON_OF_GROUPS:g}, β = {_listed(RATES)}. The paper's curve is Pr[Bin(n, β) > γn], from "
            "its first n = ⌈k/γ − 1⌉ on; the exact one is the divergence of a group of n records, for every n ≥ k. "
            "δ is the height of each curve's highest point."
        ),
        original=UNKNOWN,
        draw=_draw_groups,
    ),
    Picture(
        number=3,
        title="δ against ε for several sampling rates",
        caption=(
            f"k = {K}, β = {_listed(RATES)}. The paper's bound begins at ε = −ln(1−β), the exact profile at ε = 0; "
            "Table 2 is read off these curves."
        ),
        original=UNKNOWN,
        draw=_draw_rates,
    ),
    Picture(
        number=4,
        title="δ against ε for several k",
        caption=f"β = {RATE:g}, k = {_listed(THRESHOLDS)}. The paper's bound begins at ε = −ln(1−β).",
        original=UNKNOWN,
        draw=_draw_thresholds,
    ),
    Picture(
        number=5,
        title="δ against k for several sampling rates",
        caption=f"ε = {EPSILON_OF_K:g}, β = {_listed(RATES)}, k from {SUPPRESSIONS[0]} to {SUPPRESSIONS[-1]}.",
        original=UNKNOWN,
        draw=_draw_delta_of_k,
    ),
    Picture(
        number=6,
        title=f"the ε that a given k reaches with δ ≤ {DELTA}",
        caption=(
            f"δ = {DELTA}, β = {_listed(RATES)}, k up to {SUPPRESSIONS[-1]}. A curve begins at the first k with "
            "β^k < δ: below it no ε is finite, by either method. The paper's curve never falls below −ln(1−β), where "
            "its theorem ends."
        ),
        original=(
            "The quantities are those of the original: its caption, as quoted in public code that reworks it, says ε "
            f"against k for δ at most {DELTA} and several sampling probabilities. The values of β and the range of k "
            "are ours; the original's could not be checked."
        ),
        draw=_draw_epsilon_of_k,
    ),
)
