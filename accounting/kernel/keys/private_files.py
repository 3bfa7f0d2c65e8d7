"""Write, lock and destroy files of the private store.

A private file is whole or absent after a crash, durable, and readable by its owner alone.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ....mechanisms.kernel.errors import InputRefused, Refusal

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
DRAFT = ".draft"
ZEROS = 1 << 20


@contextmanager
def require_usable(path: Path, what: str = "the private store", *, not_done: str | None = None) -> Iterator[None]:
    """Turn a failure of the operating system in a file or folder of the store into a refusal."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "Make room on its disk." if full else "Name a folder of your own in CROWDBLEND_HOME."
        unusable = f"{what} can't be used ({error.strerror})."
        raise InputRefused(unusable, where=str(path), not_done=not_done, remedy=remedy) from None


@contextmanager
def open_handle(path: Path, flags: int) -> Iterator[int]:
    """Open a file or folder while the block runs; one that is made is its owner's alone."""
    handle = os.open(path, flags, PRIVATE_FILE)
    try:
        yield handle
    finally:
        os.close(handle)


def try_lock(handle: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file or folder, for this process alone unless it is `LOCK_SH`; False where another has it."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def lock_file(path: Path, held: Refusal) -> Iterator[None]:
    """Lock a file, made where there is none, while the block runs; where another process has it, raise the refusal.

    INVARIANT: the lock's file is never removed; a lock on a removed file would exclude nobody.
    """
    with ExitStack() as opened:
        with require_usable(path.parent):
            private_folder(path.parent)
            handle = opened.enter_context(open_handle(path, os.O_RDWR | os.O_CREAT))
            if not try_lock(handle):
                raise held
        try:
            yield
        finally:
            with suppress(
                OSError
            ):  # what was done under the lock is done; its end is that of the process at the latest
                fcntl.flock(handle, fcntl.LOCK_UN)  # for forked copies of the open file too


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, durably and for its owner alone."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    with open_handle(path, os.O_RDONLY | os.O_DIRECTORY) as handle:
        os.fsync(handle)


def create_private(path: Path, content: bytes) -> None:
    """Create a file with its whole content, durably; a file that is there is left, and `FileExistsError` raised."""
    with _written_draft(path, content) as draft:
        os.link(draft, path)  # unlike a rename, it fails where the name is taken
        draft.unlink()
        sync_folder(path.parent)


def replace_private(path: Path, content: bytes) -> None:
    """Put a file with its whole content, durably, in the place of an earlier one or of none."""
    with _written_draft(path, content) as draft:
        draft.replace(path)
        sync_folder(path.parent)


def replace_secret(path: Path, content: bytes) -> None:
    """Replace a file as `replace_private` does, and overwrite the earlier one once the new one is in its place."""
    with ExitStack() as opened:
        earlier = opened.enter_context(open_handle(path, os.O_WRONLY)) if path.exists() else None
        replace_private(path, content)
        if earlier is not None:
            _overwrite(earlier)


def read_private_record(path: Path) -> dict[str, Any] | None:
    """Read a JSON object back, None where there is no such file; a file of something else raises `ValueError`."""
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
    """
    with suppress(FileNotFoundError), open_handle(path, os.O_WRONLY) as handle:
        _overwrite(handle)
        path.unlink()
        sync_folder(path.parent)


def _overwrite(handle: int) -> None:
    size, written = os.fstat(handle).st_size, 0
    while written < size:
        written += os.pwrite(handle, bytes(min(ZEROS, size - written)), written)
    os.fsync(handle)


@contextmanager
def _written_draft(path: Path, content: bytes) -> Iterator[Path]:
    """Write the content durably beside its place, under a name that nobody else has; it is locked while the block runs.

    INVARIANT: whoever clears the store away takes a draft that isn't locked for one that a crash has left. One that was
    cleared between its making and its lock is made anew.
    """
    while True:
        # By a random name: containers that share a store may have equal process ids.
        draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}{DRAFT}")  # no coin of a release
        with open_handle(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as handle:
            try:
                if not try_lock(handle) or not os.fstat(handle).st_nlink:
                    continue
                os.fchmod(handle, PRIVATE_FILE)
                view = memoryview(content)
                while view:
                    view = view[os.write(handle, view) :]
                os.fsync(handle)
                yield draft
            except BaseException:  # an interruption too: no draft of a key may stay; it is raised again
                with suppress(OSError):
                    destroy_draft(draft)
                raise
            return


def destroy_draft(draft: Path) -> None:
    """Destroy a draft; one with a second name is complete and in its place, and only loses the draft's name."""
    if draft.stat().st_nlink > 1:
        draft.unlink()
    else:
        destroy(draft)


def output_files(folder: Path) -> dict[str, Path]:
    """Return the files of a release's folder by their names, those in a folder of it as FOLDER/NAME, sorted by name.

    A link, an empty folder and a folder in a folder stand there themselves, so that they are told from files.
    """
    found: dict[str, Path] = {}
    for path in folder.iterdir():
        inside = list(path.iterdir()) if path.is_dir() and not path.is_symlink() else []
        found |= {f"{path.name}/{one.name}": one for one in inside} or {path.name: path}
    return dict(sorted(found.items()))
