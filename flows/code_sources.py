"""Which sources of the software run: one digest, that a certificate names and an audit's report names too."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from .. import accounting, mechanisms, tasks

__all__ = ["ROOMS", "code_sources", "digest_of_sources"]

ROOMS: Mapping[str, Path] = {
    "accounting": Path(str(accounting.__file__)).parent,
    "flows": Path(__file__).parent,
    "mechanisms": Path(str(mechanisms.__file__)).parent,
    "tasks": Path(str(tasks.__file__)).parent,
}
"""The rooms that decide what a release is and what it costs, and where they lie."""


@cache
def code_sources() -> str:
    """The digest of all of them.

    PRIVACY: a function of the installed software alone.
    """
    return digest_of_sources(ROOMS)


def digest_of_sources(rooms: Mapping[str, Path]) -> str:
    """SHA-256 (hex) over names and contents of the Python files of some rooms, by room and path.

    Args:
        rooms: name and folder of each.
    """
    whole = hashlib.sha256()
    for room, root in sorted(rooms.items()):
        files = {path.relative_to(root).as_posix(): path for path in root.rglob("*.py")}
        for name in sorted(files):
            content = hashlib.sha256(files[name].read_bytes()).hexdigest()
            whole.update(f"{room}/{name}\0{content}\n".encode())
    return whole.hexdigest()
