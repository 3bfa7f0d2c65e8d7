"""What a person sees while a release runs: stages and a progress bar, on standard error alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

__all__ = ["Stages"]


class Stages:
    """Names each stage as it begins and keeps how long it took; what comes before the first is "start".

    PRIVACY: how far the count has come follows the number of records, so the bar is drawn for a person at a
    terminal only; a log gets the stages' names.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("start", "charge", "select", "count", "publish", "close"), 0.0)
        self._begun = time.perf_counter()
        self._started = False
        self._told = ""
        self._console = Console(stderr=True, highlight=False)
        self._progress: Progress | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage, from its beginning to its end."""
        begun = time.perf_counter()
        if not self._started:
            self.seconds["start"] = begun - self._begun
            self._started = True
        try:
            with self.shown(name):
                yield
        finally:
            self.seconds[name] += time.perf_counter() - begun

    @contextmanager
    def shown(self, name: str) -> Iterator[None]:
        """Show one stage, from its beginning to its end."""
        if not self._console.is_terminal:
            if name != self._told:
                print(f"crowdblend: {name}", file=sys.stderr, flush=True)
            self._told = name
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        try:
            with Progress(*columns, console=self._console) as self._progress:
                self._progress.add_task(f"{name:8}", total=None)
                yield
        finally:
            self._progress = None

    def advanced(self, done: int, total: int) -> None:
        """Show how much of the running stage is done."""
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[-1], completed=done, total=total)
