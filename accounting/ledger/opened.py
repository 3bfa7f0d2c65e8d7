"""What looking into a ledger and writing to it share: an open database that is given back at the end."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from .store import Store

__all__ = ["OpenedLedger"]


class OpenedLedger:
    """A ledger that is open; a context manager that gives its connections back."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._store.close()
