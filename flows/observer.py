"""Who is told of a running release: the steward's terminal, nobody else."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

__all__ = ["Observer"]


class Observer(Protocol):
    """Who is told which stage runs and how far it is: the steward's terminal, nobody else."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """A stage, from its beginning to its end."""
        ...

    def on_progress(self, done: int, total: int) -> None:
        """So much of the running stage is done."""
        ...
