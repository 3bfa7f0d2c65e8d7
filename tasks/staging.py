"""Publishing: the surviving groups and their certificate appear together, or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.refusal import ReleaseFailed
from .objects import ObjectPrefix, Output, in_view, output_at, put_into_view

__all__ = [
    "SettledRelease",
    "Staged",
    "bring_into_view",
    "remembered_release",
    "staging_folder",
    "write_staged",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """A complete output that is not in view yet.

    Args:
        folder: hidden folder; beside an output that is a folder, on the same file system.
        hashes: name and SHA-256 (hex) of each file in it, sorted by name.
    """

    folder: Path
    hashes: tuple[tuple[str, str], ...]

    @property
    def intact(self) -> bool:
        """Whether the folder holds exactly these bytes."""
        return _holds(self.folder, self.hashes)


@dataclass(frozen=True, kw_only=True, slots=True)
class SettledRelease:
    """A release whose bytes are settled, in view or about to be.

    Args:
        sample_id: commitment to its sample.
        output: its folder, or its place in an object store.
        groups: published groups.
        records: published records; None where what is published counts none.
        staged: where its bytes were written, and their digests.
    """

    sample_id: str
    output: Output
    groups: int
    records: int | None
    staged: Staged

    @property
    def in_view(self) -> bool:
        """Whether the output holds exactly these bytes."""
        if isinstance(self.output, ObjectPrefix):
            return in_view(self.output, self.staged.hashes)
        return _holds(self.output, self.staged.hashes)


def remembered_release(folder: ReleaseFolder) -> SettledRelease | None:
    """The release whose bytes an earlier attempt has made durable; None where there are none yet.

    PRIVACY: once they exist they are published as they are: never drawn or computed again.
    """
    facts = folder.remembered()
    if "published" not in facts:
        return None
    known = facts["published"]
    hashes = tuple((str(name), str(digest)) for name, digest in known["hashes"])
    return SettledRelease(
        sample_id=str(known["sample_id"]),
        output=output_at(str(known["output"]), base=Path("/")),
        groups=int(known["groups"]),
        records=None if known["records"] is None else int(known["records"]),
        staged=Staged(folder=Path(known["staging"]), hashes=hashes),
    )


def staging_folder(output: Output, *, sample_id: str, private: Path) -> Path:
    """Where a release's output is written before it comes into view; hidden, and the release's own.

    Beside a folder, so that a rename brings it into view; for an object store, in the private store.

    Args:
        output: where it will be published.
        sample_id: commitment to its sample.
        private: the release's folder in the private store.
    """
    if isinstance(output, ObjectPrefix):
        return private / f"staged-{sample_id[:16]}"
    return output.parent / f".{output.name}.crowdblend-{sample_id[:16]}"


def write_staged(folder: Path, *, day: date, write: Callable[[Path], None]) -> Staged:
    """Write an output into its staging folder and make it durable.

    PRIVACY: files carry the day of the charge as their time; when the work ended follows the records.

    Args:
        folder: staging folder; what an earlier, unfinished attempt left in it is removed.
        day: day of the charge.
        write: writes every file of the output into the folder it is given.

    Raises:
        OSError: the folder can't be written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755, parents=True)
    write(folder)
    seconds = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    hashes = []
    for path in sorted(folder.iterdir()):
        os.utime(path, (seconds, seconds))
        _sync(path)
        hashes.append((path.name, digest_of_file(path)))
    os.utime(folder, (seconds, seconds))
    _sync(folder)
    _sync(folder.parent)
    return Staged(folder=folder, hashes=tuple(hashes))


def bring_into_view(staged: Staged, output: Output) -> None:
    """Make a staged output visible in one step; an output that is already in view as these bytes is left.

    Raises:
        ReleaseFailed: something else is in the output's place, or the staged bytes are not what they were.
    """
    if isinstance(output, ObjectPrefix):
        if not in_view(output, staged.hashes):
            _require_intact(staged)
            put_into_view(staged.folder, output, staged.hashes)
        shutil.rmtree(staged.folder, ignore_errors=True)
        return
    if _holds(output, staged.hashes):
        shutil.rmtree(staged.folder, ignore_errors=True)
        return
    _require_intact(staged)
    if output.exists() or output.is_symlink():
        raise ReleaseFailed(
            "something else has come into the output's place.",
            where=str(output),
            remedy="Move it away and run again with the same release id.",
        )
    staged.folder.rename(output)
    _sync(output.parent)


def _require_intact(staged: Staged) -> None:
    if not staged.intact:
        raise ReleaseFailed(
            "the prepared output is not what was written.",
            where=str(staged.folder),
            remedy="The release can only be abandoned: it is never computed twice.",
        )


def digest_of_file(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _holds(folder: Path, hashes: tuple[tuple[str, str], ...]) -> bool:
    if not folder.is_dir() or folder.is_symlink():
        return False
    names = tuple(sorted(path.name for path in folder.iterdir()))
    return names == tuple(name for name, _ in hashes) and all(
        digest_of_file(folder / name) == digest for name, digest in hashes
    )


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
