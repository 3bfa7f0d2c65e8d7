"""Which sources a part of the bench has run against, as a digest."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path

__all__ = ["bench_digest", "sources_digest"]

ROOMS = ("mechanisms", "accounting", "tasks", "flows")


def sources_digest(rooms: tuple[str, ...] = ROOMS) -> str:
    """SHA-256 (hex) over the names and contents of the Python files of these rooms, wherever they are imported from."""
    whole = hashlib.sha256()
    for room in rooms:
        found = importlib.import_module(f"crowdblend.{room}").__file__
        if found is None:
            raise RuntimeError(f"{room} has no file")
        root = Path(found).resolve().parent
        for path in sorted(root.rglob("*.py")):
            name = f"{room}/{path.relative_to(root).as_posix()}"
            whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def bench_digest() -> str:
    """The same for what decides what the statistical audits draw: all rooms but the accounts, and the cases."""
    whole = hashlib.sha256(sources_digest(("mechanisms", "tasks", "flows")).encode())
    for path in sorted(Path(__file__).parent.glob("cases*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()
