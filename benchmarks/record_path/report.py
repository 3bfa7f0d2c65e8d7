"""The record path's timings as a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Timing", "page", "write_picture"]

OURS = "ours"
OPENING = """\
# The record path beside what people would write by hand

Written by `{command}`. Every contestant samples 10% of the same generated records, generalizes nine columns, counts \
the groups and drops those below 20. They answer in turn; times are medians of {rounds}. *Warm* is a process that has \
answered before, *whole* a process from its start to its end, imports included; processor time is that of all \
threads. *Times ours* is the contestant's time over ours in the same run. Each answer was checked against \
the records' exact counts. `ours, pyarrow alone` is an installation without the compiled readers.

{machine} Where others load the processors too, wall times stretch and processor time is the better measure.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Medians of one contestant.

    Args:
        warm: seconds in a process that has answered before.
        warm_processor: the same, processor seconds of all its threads.
        whole: seconds from the start of a process to its end.
        whole_processor: the same, processor seconds.
        peak_mb: most memory of a whole process, MiB.
    """

    warm: float
    warm_processor: float
    whole: float
    whole_processor: float
    peak_mb: float


def page(
    results: Mapping[str, Mapping[str, Timing]], *, rounds: int, command: str = "", picture: str = "", machine: str = ""
) -> str:
    """Tables in Markdown, one per data set."""
    lines = [OPENING.format(command=command, rounds=rounds, machine=machine)] if command else []
    if picture:
        lines.append(f"![Times as multiples of ours]({picture})\n")
    for title, timings in results.items():
        lines.append(f"## {title}\n" if command else f"{title}, medians of {rounds}\n")
        lines.append("| | warm s | processor s | times ours | processor | whole s | processor s | times ours | MiB |")
        lines.append("|---|---|---|---|---|---|---|---|---|")
        base = timings[OURS]
        lines.extend(
            f"| {name} | {found.warm:.2f} | {found.warm_processor:.2f} | {found.warm / base.warm:.2f} | "
            f"{found.warm_processor / base.warm_processor:.2f} | {found.whole:.2f} | {found.whole_processor:.2f} | "
            f"{found.whole / base.whole:.2f} | {found.peak_mb:.0f} |"
            for name, found in timings.items()
        )
        lines.append("")
    return "\n".join(lines)


def write_picture(results: Mapping[str, Mapping[str, Timing]], path: Path) -> None:
    """Bars of each contestant's time over ours, warm and whole, one row per data set."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "record-path"
    from matplotlib import pyplot

    lines = sum(len(timings) for timings in results.values())
    figure, axes = pyplot.subplots(
        len(results),
        2,
        figsize=(10, 0.9 * len(results) + 0.24 * lines),
        height_ratios=[len(timings) + 2 for timings in results.values()],
        squeeze=False,
        layout="constrained",
    )
    for (title, timings), row in zip(results.items(), axes, strict=True):
        names = list(timings)[::-1]
        for axis, kind in zip(row, ("warm", "whole"), strict=True):
            base = getattr(timings[OURS], kind)
            shares = [getattr(timings[name], kind) / base for name in names]
            bars = axis.barh(names, shares, color=["#224466" if name == OURS else "#88aacc" for name in names])
            axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
            axis.axvline(1.0, color="#999999", linewidth=0.8, zorder=0)
            axis.set_xlim(0, 1.18 * max(shares))
            axis.set_title(f"{title}\n{kind} process", fontsize=7)
            axis.set_xlabel("time over ours", fontsize=8)
            axis.tick_params(labelsize=8)
            axis.tick_params(axis="y", labelleft=kind == "warm")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
