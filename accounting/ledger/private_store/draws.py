"""Small private files that are complete or absent after a crash, and the draws that are stored in them.

Small private files that are complete or absent after a crash, and readable by their owner alone.

Random draws that a release depends on, durable and private before anything follows from them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....mechanisms.errors import AccountantRefused, ReleaseFailed

__all__ = [
    "DrawStore",
    "create_private",
    "destroy",
    "private_folder",
    "read_private_record",
    "replace_private",
    "store_failed",
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


ENDING = ".draw.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawStore:
    """The draws in a release's private folder, which the caller holds.

    Args:
        folder: the release's folder.
    """

    folder: Path

    def store_draw(self, draw: str, value: Mapping[str, Any]) -> None:
        """Make a random draw durable, before anything depends on it.

        INVARIANT: a stored draw is never replaced: a retry takes it, so that nobody draws until one pleases.

        Args:
            draw: its name, for example "map".
            value: what was drawn, name → JSON value.

        Raises:
            AccountantRefused: this draw is stored already.
            ReleaseFailed: it can't be written.
        """
        content = json.dumps(dict(value), sort_keys=True, allow_nan=False).encode("utf-8")
        try:
            create_private(self._path(draw), content)
        except FileExistsError:
            raise AccountantRefused(
                f"the {draw} of this release is drawn already.", remedy="Resume it, or use another release id."
            ) from None
        except OSError as error:
            raise store_failed(error) from None

    def load_draw(self, draw: str) -> dict[str, Any] | None:
        """What was drawn; None where this draw is not stored.

        Raises:
            ReleaseFailed: it can't be read.
        """
        try:
            return read_private_record(self._path(draw))
        except OSError as error:
            raise store_failed(error) from None
        except ValueError:
            raise ReleaseFailed(
                f"the {draw} that was drawn for this release is damaged in the private store.",
                remedy="It is never drawn again: the release can only be abandoned.",
            ) from None

    def forget(self) -> None:
        """Overwrite and remove every draw of a release that was never charged, or is given up.

        Raises:
            ReleaseFailed: one can't be removed.
        """
        try:
            for path in sorted(self.folder.glob(f"*{ENDING}")):
                destroy(path)
        except OSError as error:
            raise store_failed(error) from None

    def _path(self, draw: str) -> Path:
        return self.folder / f"{draw}{ENDING}"


def store_failed(error: OSError) -> ReleaseFailed:
    """The refusal where the private store can't be read or written after it was opened."""
    return ReleaseFailed(f"the private store can't be used ({error.strerror}).", not_done="")
