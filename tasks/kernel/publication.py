"""Publication: a release's files are staged, hashed, remembered, and come into view together or not at all.

What is rendered is a function of a protected result: nothing else can be staged.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ...accounting.kernel.keys.private_files import output_files
from ...accounting.kernel.keys.private_store import ReleaseFolder
from ...mechanisms.kernel.errors import ReleaseFailed
from .protected import Protected, protected_result

Hashes = tuple[tuple[str, str], ...]
"""Name and SHA-256 (hex) of each file of a release, its certificate among them, sorted by name."""
TRIAL = "trial".ljust(64, "-")
"""A file's name that is longer than any within a release."""


@runtime_checkable
class RemotePlace(Protocol):
    """A place of a release that is no folder of this machine, such as one in an object store; its text names it."""

    def holds(self, hashes: Hashes) -> bool:
        """Return whether these files are there, all of them and with these bytes."""
        ...

    def bring(self, folder: Path, hashes: Hashes) -> None:
        """Put a staged release's files there, its certificate last.

        Raises:
            ReleaseFailed: another release is there, or the place does not give back what it was given.
        """
        ...


Output = Path | RemotePlace
"""Where a release is published."""


class Rendered(NamedTuple):
    """What is said of a release's files beside them.

    Args:
        groups: published groups.
        records: published records; None where what is published counts none.
        details: what else its certificate says of what is published.
    """

    groups: int
    records: int | None
    details: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """A complete output that is not in view yet.

    Args:
        folder: hidden folder; beside an output that is a folder, on the same file system.
        hashes: of each file in it.
    """

    folder: Path
    hashes: Hashes

    @property
    def intact(self) -> bool:
        """Tell whether the folder holds exactly these bytes."""
        return _holds(self.folder, self.hashes)


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedRelease:
    """A release whose bytes are final, in view or about to be.

    Args:
        sample_id: commitment to its sample.
        output: its folder, or its place in an object store.
        groups: published groups.
        records: published records; None where what is published counts none.
        staged: where its bytes were written, and their digests.
        details: what else its certificate says of what is published.
    """

    sample_id: str
    output: Output
    groups: int
    records: int | None
    staged: Staged
    details: Mapping[str, Any]

    @property
    def in_view(self) -> bool:
        """Tell whether the output holds exactly these bytes."""
        if isinstance(self.output, Path):
            return _holds(self.output, self.staged.hashes)
        return self.output.holds(self.staged.hashes)


def remembered_release(folder: ReleaseFolder, *, place_of: Callable[[str], Output]) -> StagedRelease | None:
    """Return the release whose bytes an earlier attempt has made durable; None where there are none yet.

    PRIVACY: once they exist they are published as they are: never drawn or computed again.
    """
    facts = folder.remembered()
    if "published" not in facts:
        return None
    published = facts["published"]
    hashes = tuple((str(name), str(digest)) for name, digest in published["hashes"])
    return StagedRelease(
        sample_id=str(published["sample_id"]),
        output=place_of(str(published["output"])),
        groups=int(published["groups"]),
        records=None if published["records"] is None else int(published["records"]),
        staged=Staged(folder=Path(published["staging"]), hashes=hashes),
        details=published.get("details", {}),
    )


def stage_release(
    protected: Protected,
    *,
    output: Output,
    sample_id: str,
    day: date,
    folder: ReleaseFolder,
    render: Callable[[Path, Any], Rendered],
) -> StagedRelease:
    """Write a release's files where nobody looks yet, and remember them durably.

    Args:
        protected: what is published, and all that the files may be made of.
        output, sample_id: as of `StagedRelease`.
        day: of the charge.
        folder: the release's folder in the private store.
        render: writes every file into the folder it is given, from the protected result.

    Raises:
        OSError: the folder can't be written.
    """
    result, said = protected_result(protected), list[Rendered]()
    place = staging_folder(output, sample_id=sample_id, private=folder.path)
    staged = write_staged(place, day=day, write=lambda into: said.append(render(into, result)))
    [rendered] = said
    release = StagedRelease(
        sample_id=sample_id,
        output=output,
        groups=rendered.groups,
        records=rendered.records,
        staged=staged,
        details=rendered.details,
    )
    # After the bytes are durable: whoever finds this publishes them, and never computes or draws again.
    folder.remember(
        {
            "published": {
                "sample_id": sample_id,
                "output": str(output),
                "groups": release.groups,
                "records": release.records,
                "staging": str(staged.folder),
                "hashes": staged.hashes,
                "details": release.details,
            }
        }
    )
    return release


def staging_folder(output: Output, *, sample_id: str, private: Path) -> Path:
    """Return where a release's output is written before it comes into view; hidden, and the release's own.

    Beside a folder, so that a rename brings it into view; for an object store, in the private store.
    """
    if isinstance(output, Path):
        return output.parent / f".{output.name}.crowdblend-{sample_id[:16]}"
    return private / f"staged-{sample_id[:16]}"


def try_staging(output: Path) -> None:
    """Make and remove a folder as an output would be staged in, with a file in it, and the folders above it.

    Raises:
        OSError: it can't be made, such as by a name that is too long beside the output's own.
    """
    # Always by one name: what a kill leaves of it, the next trial removes.
    folder = staging_folder(output, sample_id=TRIAL[:16], private=output)
    made = [above for above in folder.parents if not above.exists()]
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        trial = folder / TRIAL
        trial.touch()
        trial.unlink(missing_ok=True)
        folder.rmdir()
    finally:
        for above in [folder, *made]:
            with suppress(OSError):  # it is gone, or another release's folder may lie in it by now
                above.rmdir()


def write_staged(folder: Path, *, day: date, write: Callable[[Path], None]) -> Staged:
    """Write an output into its staging folder, without what an unfinished attempt left in it, and make it durable.

    PRIVACY: files carry the day of the charge as their time; when the work ended follows the records.

    Raises:
        OSError: the folder can't be written.
        ReleaseFailed: nothing is in it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755, parents=True)
    write(folder)
    seconds = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    hashes = []
    # Files are made durable before the folders that name them, so that no name outlives a crash without its bytes.
    for name, path in output_files(folder).items():
        os.utime(path, (seconds, seconds))
        _sync(path)
        hashes.append((name, digest_of_file(path)))
    for inside in sorted(path for path in folder.iterdir() if path.is_dir()):
        os.utime(inside, (seconds, seconds))
        _sync(inside)
    if not hashes:
        raise ReleaseFailed("a release without files can't be published.")
    os.utime(folder, (seconds, seconds))
    _sync(folder)
    _sync(folder.parent)
    return Staged(folder=folder, hashes=tuple(hashes))


def bring_into_view(staged: Staged, output: Output) -> None:
    """Make a staged output visible in one step; an output that is already in view as these bytes is left.

    Raises:
        ReleaseFailed: something else is in the output's place, or the staged bytes are not what they were.
    """
    if not isinstance(output, Path):
        if not output.holds(staged.hashes):
            _require_intact(staged)
            output.bring(staged.folder, staged.hashes)
        shutil.rmtree(staged.folder, ignore_errors=True)
        return
    if _holds(output, staged.hashes):  # an attempt was killed after its rename
        shutil.rmtree(staged.folder, ignore_errors=True)
        return
    _require_intact(staged)
    if output.exists() or output.is_symlink():
        raise ReleaseFailed(
            "something else has come into the output's place.",
            where=str(output),
            remedy="Move it away and run again with the same release id.",
        )
    staged.folder.rename(output)  # within one file system, so that readers see the whole folder or none
    _sync(output.parent)


def _require_intact(staged: Staged) -> None:
    if not staged.intact:
        raise ReleaseFailed(
            "the prepared output is not what was written.",
            where=str(staged.folder),
            remedy="The release can only be abandoned: it is never computed twice.",
        )


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _holds(folder: Path, hashes: Hashes) -> bool:
    if not folder.is_dir() or folder.is_symlink():
        return False
    files = output_files(folder)
    return tuple(files) == tuple(name for name, _ in hashes) and all(
        path.is_file() and digest_of_file(path) == digest
        for path, (_, digest) in zip(files.values(), hashes, strict=True)
    )


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
