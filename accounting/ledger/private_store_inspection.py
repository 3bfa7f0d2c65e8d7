"""What the private store tells somebody who only looks into it: nothing is made, changed or locked."""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..kernel.keys.private_files import leftovers, read_private_record
from ..kernel.keys.private_store import COPY, RECORD, fingerprint_under, path_of_release

__all__ = ["copy_of_release", "core_files", "is_held", "known_names_of_source", "left_by_the_dead", "remembered_facts"]

LOCKS = Path("/proc/locks")
CORE = re.compile(r"core([.-].+)?")
ELF = b"\x7fELF"


def remembered_facts(home: Path, *, ledger_id: str, release_id: str) -> dict[str, Any]:
    """Return what is remembered of a release; empty where nothing is, or nothing readable."""
    record = path_of_release(home, ledger_id=ledger_id, release_id=release_id) / RECORD
    try:
        return read_private_record(record) or {}
    except (OSError, ValueError):
        return {}


def copy_of_release(home: Path, *, ledger_id: str, release_id: str) -> Path:
    """Return where the copy of a database's records lies, whether or not it is there."""
    return path_of_release(home, ledger_id=ledger_id, release_id=release_id) / COPY


def is_held(home: Path, *, ledger_id: str, release_id: str) -> bool | None:
    """Return whether a live process of this machine holds a release; None where the system doesn't tell."""
    return _is_locked(path_of_release(home, ledger_id=ledger_id, release_id=release_id) / "lock")


def _is_locked(path: Path) -> bool | None:
    """Return whether a live process of this machine has locked a file or folder; None where the system doesn't tell.

    The kernel's table of locks is read, since trying the lock would refuse a process that takes it at that moment.
    """
    try:
        status = path.stat()
    except OSError:
        return False
    try:
        locks = LOCKS.read_text(encoding="ascii")
    except OSError:
        return None
    return any(line.split()[5].endswith(f":{status.st_ino}") for line in locks.splitlines() if " FLOCK " in line)


def left_by_the_dead(home: Path) -> tuple[Path, ...]:
    """Return the drafts and folders for Prefect that no live process has, which the next opening clears away."""
    return tuple(path for path in leftovers(home) if _is_locked(path) is False)


def core_files(*folders: Path) -> tuple[Path, ...]:
    """Return the core files in some folders: what a process had in memory when it crashed, ids of persons too."""
    found = []
    for path in sorted(path for folder in folders for path in folder.glob("core*") if CORE.fullmatch(path.name)):
        with suppress(OSError), path.open("rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(len(ELF)) == ELF:
                found.append(path)
    return tuple(found)


def known_names_of_source(home: Path, metadata: bytes) -> tuple[str, ...]:
    """Return the names of data sets, sorted, under which a source was released from this private store.

    There are none where the source is unknown, or the store can't be read; a damaged note still says that there was a
    release. The metadata are what `source_metadata_bytes` of the tasks gives.
    """
    try:
        key = (home / "fingerprint.key").read_bytes()
        folder = home / "sources" / fingerprint_under(key, metadata)
        notes = [file for file in folder.iterdir() if not file.name.startswith(".")]
    except OSError:
        return ()
    return tuple(sorted({_noted_name(note) for note in notes}))


def _noted_name(note: Path) -> str:
    try:
        return f"'{json.loads(note.read_bytes())['dataset']}'"
    except (KeyError, OSError, TypeError, ValueError):
        return "of a damaged note"
