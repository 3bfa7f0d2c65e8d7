"""Small private files that are complete or absent after a crash, and readable by their owner alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

__all__ = [
    "create_private",
    "destroy",
    "private_folder",
    "read_private_record",
    "replace_private",
    "sync_folder",
]

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for its owner alone.

    Raises:
        OSError: it can't be made.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        sync_folder(folder.parent)


def create_private(path: Path, content: bytes) -> None:
    """Create a file with its whole content, durably, where there is none.

    Raises:
        FileExistsError: there is one; it is left as it is.
        OSError: it can't be written.
    """
    draft = _write_draft(path, content)
    try:
        os.link(draft, path)  # unlike a rename, it fails where the name is taken
    finally:
        draft.unlink()
        sync_folder(path.parent)


def replace_private(path: Path, content: bytes) -> None:
    """Put a file with its whole content, durably, in the place of an earlier one or of none.

    Raises:
        OSError: it can't be written.
    """
    _write_draft(path, content).replace(path)
    sync_folder(path.parent)


def read_private_record(path: Path) -> dict[str, Any] | None:
    """Read a JSON object back; None where there is no such file.

    Raises:
        OSError: it can't be read.
        ValueError: it holds something else.
    """
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    if not isinstance(record, dict):
        raise ValueError("the file holds no record")  # noqa: TRY004 - what a file holds is a value
    return record


def destroy(path: Path) -> None:
    """Overwrite a file, then remove it, durably; a file that is not there is left so.

    PRIVACY: on copy-on-write file systems and flash storage an overwritten block may outlive its file; only
    an encrypted volume protects against someone who reads the raw device.

    Raises:
        OSError: it can't be removed.
    """
    try:
        handle = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        os.pwrite(handle, bytes(os.fstat(handle).st_size), 0)
        os.fsync(handle)
    finally:
        os.close(handle)
    path.unlink()
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable.

    Raises:
        OSError: it can't be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_draft(path: Path, content: bytes) -> Path:
    """Write the content beside its place; a draft that a crash left there is replaced."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        os.fchmod(handle, PRIVATE_FILE)
        view = memoryview(content)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    return draft
