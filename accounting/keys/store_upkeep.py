"""Keeps a private store in order, and answers those who only look into it.

The names under which a source was released are kept privately: two names of one source have two budgets.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...mechanisms.kernel.errors import Refusal
from ..kernel.keys.private_files import (
    DRAFT,
    create_private,
    destroy_draft,
    open_handle,
    private_folder,
    read_private_record,
    replace_private,
    require_usable,
    try_lock,
)
from ..kernel.keys.private_store import (
    COPY,
    RECORD,
    PrivateStore,
    fingerprint_under,
    json_bytes,
    output_lock,
    path_of_release,
    release_lock,
)

LOCKS = Path("/proc/locks")
CORE = re.compile(r"core([.-].+)?")
ELF = b"\x7fELF"


PLACES_OF_DRAFTS = (".", "signing", "signing/public", "outputs", "cache", "reports", "anchors", "sources/*", "jobs/*")
"""Folders of the store in which files are written that no lock of a release guards."""
PREFECT = "prefect-"
"""The prefix of the folder that a process has for Prefect, locked while it lives."""
TRIAL_BYTES = 1 << 22
"""More than what a release and Prefect's own server write into the private store at once."""


def open_private_store(home: Path) -> PrivateStore:
    """Open the store at `home`, make it where there is none, and clear away what killed processes have left."""
    store = PrivateStore(home)
    sweep(store.home)
    return store


def leftovers(home: Path) -> Iterator[Path]:
    """Yield the store's drafts and folders for Prefect, of live processes too; releases have drafts of their own."""
    for place in PLACES_OF_DRAFTS:
        yield from sorted(home.glob(f"{place}/.*{DRAFT}"))
    yield from sorted(path for path in home.glob(f"{PREFECT}*") if path.is_dir() and not path.is_symlink())


def sweep(home: Path) -> None:
    """Clear away what killed processes have left in a store: drafts, overwritten, and folders for Prefect.

    What can't be cleared away is left, since a process of another account may have it; `doctor` names it.
    """
    for path in leftovers(home):
        with suppress(OSError):
            is_folder = path.is_dir()
            with open_handle(path, os.O_NOFOLLOW | (os.O_RDONLY if is_folder else os.O_RDWR)) as handle:
                # Whoever writes a draft keeps it locked, so a free lock means that its writer is dead. The names and
                # ages of files could not show that.
                if try_lock(handle):
                    shutil.rmtree(path, ignore_errors=True) if is_folder else destroy_draft(path)


def require_writable(home: Path) -> None:
    """Refuse a private store that takes no file, such as on a full disk; the one that is tried is removed."""
    trial = home / "trial"
    with require_usable(home):
        replace_private(trial, bytes(TRIAL_BYTES))
        trial.unlink()


def require_not_held(home: Path, *, ledger_id: str, release_id: str) -> None:
    """Refuse a release that a live process holds; there need be none, and nothing is made or changed."""
    # Asked before a charge, and only asked: taking the lock here would make a folder for a release that may be refused.
    _require_unlocked(*release_lock(home / "releases" / ledger_id / release_id))


def require_output_not_held(home: Path, output: str) -> None:
    """Refuse an output that a live process is on its way to; nothing is made or changed."""
    _require_unlocked(*output_lock(home, output))


def _require_unlocked(path: Path, held: Refusal) -> None:
    """Raise the refusal where another process has locked a file, of which there need be none."""
    with require_usable(path.parent), suppress(FileNotFoundError), open_handle(path, os.O_RDONLY) as handle:
        if not try_lock(handle, fcntl.LOCK_SH):
            raise held


def releases_with_secrets(home: Path, *, ledger_id: str) -> Iterator[str]:
    """Yield the releases of a ledger whose folder has a key, a draft or a copy of records; nothing is changed."""
    with suppress(OSError):
        for folder in sorted((home / "releases" / ledger_id).iterdir()):
            with suppress(OSError):
                if any(path.name.endswith((".key", DRAFT)) or path.name == COPY.parts[0] for path in folder.iterdir()):
                    yield folder.name


def other_names_of_source(home: Path, *, fingerprint: str, ledger_id: str, dataset: str) -> tuple[str, ...]:
    """Note that a source goes by this data set's name, and return the other names that it has gone by, sorted.

    The fingerprint is keyed, of what metadata alone tell of the source. The names warn and never decide: a data set may
    well be added under a second name by right, and what can't be noted is not.

    PRIVACY: this stays in the private store. That two deliveries have the same fingerprint would tell in a ledger that
    nothing changed between them.
    """
    folder = home / "sources" / fingerprint
    own = {"ledger_id": ledger_id, "dataset": dataset}
    content = json_bytes(own)
    path = folder / _note_name(content)
    try:
        if not path.exists():
            private_folder(folder)
            create_private(path, content)
        notes = [json.loads(file.read_bytes()) for file in folder.iterdir() if not file.name.startswith(".")]
        elsewhere = {True: "", False: " in another ledger"}
        return tuple(
            sorted(f"'{note['dataset']}'{elsewhere[note['ledger_id'] == ledger_id]}" for note in notes if note != own)
        )
    except (KeyError, OSError, TypeError, ValueError):
        return ()


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
    # Field 5 is major:minor:inode. The device isn't compared: some file systems give stat() another one than the
    # kernel's table has. Too many locked files are then found, never too few, and nothing is cleared away wrongly.
    return any(line.split()[5].endswith(f":{status.st_ino}") for line in locks.splitlines() if " FLOCK " in line)


def left_by_the_dead(home: Path) -> tuple[Path, ...]:
    """Return the drafts and folders for Prefect that no live process has, which the next opening clears away."""
    return tuple(path for path in leftovers(home) if _is_locked(path) is False)


def core_files(*folders: Path) -> tuple[Path, ...]:
    """Return the core files in some folders: what a process had in memory when it crashed, ids of persons too."""
    cores = []
    for path in sorted(path for folder in folders for path in folder.glob("core*") if CORE.fullmatch(path.name)):
        with suppress(OSError), path.open("rb") as file:
            # Somebody's own file may be named `core`; a crash's begins with the mark of an executable format.
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(len(ELF)) == ELF:
                cores.append(path)
    return tuple(cores)


def known_names_of_source(home: Path, metadata: bytes) -> tuple[str, ...]:
    """Return the names of data sets, sorted, under which a source was released from this private store.

    There are none where the source is unknown, or the store can't be read; a damaged note still says that there was a
    release. The metadata are what `source_metadata_bytes` of the tasks gives.
    """
    return tuple(sorted({_noted_name(note) for note in _notes_of_source(home, metadata)}))


def datasets_of_source(home: Path, metadata: bytes, *, ledger_id: str, datasets: Iterable[str]) -> tuple[str, ...]:
    """Return those data sets of a ledger under which a source was released from this private store.

    A damaged note counts too, since its name follows from its data set.
    """
    notes = {note.name for note in _notes_of_source(home, metadata)}
    return tuple(
        name for name in datasets if _note_name(json_bytes({"ledger_id": ledger_id, "dataset": name})) in notes
    )


def _notes_of_source(home: Path, metadata: bytes) -> list[Path]:
    try:
        key = (home / "fingerprint.key").read_bytes()
        folder = home / "sources" / fingerprint_under(key, metadata)
        return [file for file in folder.iterdir() if not file.name.startswith(".")]
    except OSError:
        return []


def _note_name(content: bytes) -> str:
    """Name a note by its content: two processes that note the same thing write one file."""
    return hashlib.sha256(content).hexdigest()[:32]


def _noted_name(note: Path) -> str:
    try:
        return f"'{json.loads(note.read_bytes())['dataset']}'"
    except (KeyError, OSError, TypeError, ValueError):
        return "of a damaged note"
