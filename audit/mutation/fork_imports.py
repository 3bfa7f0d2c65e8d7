"""Lets one module be imported from a changed source, whoever imports it, without a file being touched."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

__all__ = ["put_in_place"]


class _Changed(MetaPathFinder, Loader):
    """Finds and loads the one module."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is None or found.origin is None:
            raise ImportError(f"{name} has no file")
        found.loader = self
        found.cached = None
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, module.__file__ or self.name, "exec"), module.__dict__)  # noqa: S102 - a mutant


def put_in_place(name: str, source: str) -> None:
    """From now on `name` is imported from this source.

    Raises:
        RuntimeError: it is imported already.
    """
    if name in sys.modules:
        raise RuntimeError(f"{name} is imported already")
    sys.meta_path.insert(0, _Changed(name, source))
