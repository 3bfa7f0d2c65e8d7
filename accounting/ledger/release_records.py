"""A look into a release's folder in the private store that changes nothing and waits for nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .durable import read_private_record
from .identifiers import require_digest, require_release_id

__all__ = ["is_held", "remembered_facts"]

LOCKS = Path("/proc/locks")


def remembered_facts(home: Path, *, ledger_id: str, release_id: str) -> dict[str, Any]:
    """What the private store remembers of a release; empty where it knows nothing, or nothing readable.

    Args:
        home: the private store.
        ledger_id: the ledger's id.
        release_id: the release.

    Raises:
        ValueError: an id has another form.
    """
    record = _folder(home, ledger_id, release_id) / "record.json"
    try:
        return read_private_record(record) or {}
    except (OSError, ValueError):
        return {}


def is_held(home: Path, *, ledger_id: str, release_id: str) -> bool | None:
    """Whether a live process of this machine holds a release; None where the system doesn't tell.

    The kernel's table of locks is read, since trying the lock would refuse a process that takes it at that moment.
    Arguments and errors as of `remembered_facts`.
    """
    lock = _folder(home, ledger_id, release_id) / "lock"
    try:
        status = lock.stat()
    except OSError:
        return False
    try:
        locks = LOCKS.read_text(encoding="ascii")
    except OSError:
        return None
    return any(line.split()[5].endswith(f":{status.st_ino}") for line in locks.splitlines() if " FLOCK " in line)


def _folder(home: Path, ledger_id: str, release_id: str) -> Path:
    require_digest(ledger_id, "ledger's id")
    require_release_id(release_id)
    return home / "releases" / ledger_id / release_id
