"""The bar of a stage on a terminal: how far it is, how long it takes, and how fast it goes."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

__all__ = ["pace", "progress_bar"]

READING = ("select", "count")


def progress_bar(name: str, *, console: Console, records: int | None, n_bytes: int) -> Progress:
    """A bar for one stage, to be entered; those that read records also tell their pace and what is left.

    Args:
        name: the stage.
        console: where it is drawn.
        records: records in all, None where it is not known.
        n_bytes: bytes of the input, 0 where it is not known.
    """
    columns: list[ProgressColumn] = [SpinnerColumn(), TextColumn("{task.description}"), BarColumn()]
    columns.append(TimeElapsedColumn())
    if n_bytes and name in READING:
        columns += [TextColumn("left"), TimeRemainingColumn(), _Pace(records, n_bytes)]
    bar = Progress(*columns, console=console)
    bar.add_task(f"{name:8}", total=None)
    return bar


def pace(*, share: float, seconds: float, records: int | None, n_bytes: int) -> str:
    """How fast a stage goes, for the steward's eyes: `2.1 M rows/s, 11.4 MB/s`; empty while nothing is done.

    Args:
        share: how much is done, 0 … 1.
        seconds: since the stage's beginning.
        records: records in all, None where it is not known.
        n_bytes: bytes of the input.
    """
    if share <= 0 or seconds <= 0:
        return ""
    flow = f"{_short(n_bytes * share / seconds)}B/s"
    return flow if records is None else f"{_short(records * share / seconds).rstrip()} rows/s, {flow}"


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} "


class _Pace(ProgressColumn):
    """The pace of a stage whose work is known."""

    def __init__(self, records: int | None, n_bytes: int) -> None:
        super().__init__()
        self._records, self._n_bytes = records, n_bytes

    def render(self, task: Task) -> Text:
        """Draw it."""
        share = task.completed / task.total if task.total else 0.0
        return Text(pace(share=share, seconds=task.elapsed or 0.0, records=self._records, n_bytes=self._n_bytes))
