"""Publishing: table and certificate appear together or not at all, in a folder or an object store."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ...accounting.certificate.write import VERIFY_PAGE, output_files, write_certificate
from ...accounting.kernel.keys.private_store import ReleaseFolder
from ...accounting.kernel.keys.signing import SigningKey, SigningKeys
from ...accounting.kernel.ledger.charge import Receipt
from ...accounting.kernel.ledger.entry_types import ReleaseCharged
from ...accounting.ledger.lookup import DatasetContext
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.map_selection.choice import MapChoice
from ...mechanisms.recoding import GeneralizationMap
from ..request import MetadataTexts, ObjectPrefix, Output, Request, output_at
from .stage import stage

if TYPE_CHECKING:
    from .table import Publication

__all__ = [
    "Staged",
    "StagedRelease",
    "bring_into_view",
    "certificate_of",
    "discard",
    "in_view",
    "publish",
    "put_into_view",
    "remembered_release",
    "require_free",
    "staging_folder",
    "try_staging",
    "write_output",
    "write_staged",
]

MANIFEST = "certificate.json"
INSIDE_RELEASE = "the output lies inside of a published release, which holds its own files and nothing else."
TRIAL = "trial".ljust(64, "-")
"""A file's name that is longer than any within a release."""
READ_AT_ONCE = 1 << 22


def certificate_of(output: Output) -> str:
    """Where a release's certificate lies."""
    return f"{output}/{MANIFEST}"


NOTHING_KEPT = frozenset(
    {"data", "dir", "git", "github", "http", "https", "jupyter", "libarchive", "memory", "reference", "tar", "zip"}
)
"""Protocols of fsspec that only read, or whose content ends with the process."""


def require_free(prefix: ObjectPrefix) -> None:
    """See that the store keeps what it is given, answers, holds nothing below a prefix, and no release around it.

    Raises:
        InputRefused: something lies there, or the store can't be used.
    """
    protocol = prefix.url.partition("://")[0]
    if protocol in NOTHING_KEPT or "::" in protocol:
        raise InputRefused(
            f"a store of {protocol}:// keeps no release: it only reads, or ends with the process.",
            where=prefix.url,
            remedy="Name a folder, or an object store such as s3://BUCKET/PREFIX.",
        )
    try:
        files, path = _opened(prefix)
        files.invalidate_cache()
        taken = files.exists(path) or bool(files.glob(f"{path}/*"))
        around = [f"{above}/{MANIFEST}" for above in PurePosixPath(path).parents if above.name]
        inside = any(_seen(files, certificate) for certificate in around)
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        raise InputRefused(
            f"the output's store can't be used ({type(error).__name__}).",
            where=prefix.url,
            remedy="Check the URL, its driver (crowdblend[s3] for s3://) and the credentials in the environment.",
        ) from None
    if taken:
        raise InputRefused("the output exists already.", where=prefix.url, remedy="Name a place that is free.")
    if inside:
        raise InputRefused(INSIDE_RELEASE, where=prefix.url, remedy="Name a place elsewhere.")


def _seen(files: Any, path: str) -> bool:  # noqa: ANN401 - fsspec's own
    """Whether there is such an object; one outside of what the credentials may look at is not seen."""
    try:
        return bool(files.exists(path))
    except PermissionError:
        return False


def in_view(prefix: ObjectPrefix, hashes: tuple[tuple[str, str], ...]) -> bool:
    """Whether a release's objects are all there, its certificate among them, and hold exactly these bytes."""
    with _store(prefix) as (files, path):
        return all(_digest(files, f"{path}/{name}") == digest for name, digest in hashes)


def put_into_view(folder: Path, prefix: ObjectPrefix, hashes: tuple[tuple[str, str], ...]) -> None:
    """Put a staged release's objects into the store, and its certificate once all of them are there and read back.

    A reader who goes by the certificate sees the whole release or none. What an earlier attempt has put is left
    where it is the same and put again where it is torn.

    Args:
        folder: the staged files.
        prefix: where they go.
        hashes: name and SHA-256 (hex) of each file, the certificate among them.

    Raises:
        ReleaseFailed: another certificate is in the place, or the store does not give back what it was given.
    """
    digests = dict(hashes)
    with _store(prefix) as (files, path):
        if _digest(files, f"{path}/{MANIFEST}") not in (None, digests[MANIFEST]):
            raise ReleaseFailed(
                "another release has come into the output's place.",
                where=prefix.url,
                remedy="Move it away and run again with the same release id.",
            )
        for name in [*(name for name in digests if name != MANIFEST), MANIFEST]:
            _put(files, folder / name, f"{path}/{name}", digest=digests[name])


def discard(prefix: ObjectPrefix, hashes: tuple[tuple[str, str], ...]) -> None:
    """Remove what an attempt has put of a release that never came into view."""
    with _store(prefix) as (files, path):
        for name, digest in hashes:
            if _digest(files, f"{path}/{name}") == digest:
                files.rm_file(f"{path}/{name}")


def _put(files: Any, source: Path, target: str, *, digest: str) -> None:  # noqa: ANN401 - fsspec's own
    if _digest(files, target) == digest:
        return
    files.put_file(str(source), target)
    if _digest(files, target) != digest:
        raise ReleaseFailed(
            "the store does not give back what it was given.",
            where=target,
            remedy="Run again with the same release id: the same bytes are published.",
        )


def _digest(files: Any, path: str) -> str | None:  # noqa: ANN401
    """SHA-256 (hex) of an object; None where there is none."""
    files.invalidate_cache()
    try:
        with files.open(path, "rb") as content:
            return _digest_of_parts(lambda: content.read(READ_AT_ONCE))
    except FileNotFoundError:
        return None


def _digest_of_parts(read: Callable[[], bytes]) -> str:
    digest = hashlib.sha256()
    while part := read():
        digest.update(part)
    return digest.hexdigest()


def _opened(prefix: ObjectPrefix) -> tuple[Any, str]:
    import fsspec  # for URLs alone: most outputs are folders of this machine

    files, path = fsspec.core.url_to_fs(prefix.url)
    return files, path


@contextmanager
def _store(prefix: ObjectPrefix) -> Iterator[tuple[Any, str]]:
    """The store of a release that is charged: whatever its driver raises is a failure that can be resumed."""
    try:
        yield _opened(prefix)
    except ReleaseFailed:
        raise
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own
        raise ReleaseFailed(
            f"the output's store can't be used ({type(error).__name__}).",
            where=prefix.url,
            remedy="Run again with the same release id: the same bytes are published, at no new charge.",
        ) from None


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
        """Whether the output holds exactly these bytes."""
        if isinstance(self.output, ObjectPrefix):
            return in_view(self.output, self.staged.hashes)
        return _holds(self.output, self.staged.hashes)


def remembered_release(folder: ReleaseFolder) -> StagedRelease | None:
    """The release whose bytes an earlier attempt has made durable; None where there are none yet.

    PRIVACY: once they exist they are published as they are: never drawn or computed again.
    """
    facts = folder.remembered()
    if "published" not in facts:
        return None
    known = facts["published"]
    hashes = tuple((str(name), str(digest)) for name, digest in known["hashes"])
    return StagedRelease(
        sample_id=str(known["sample_id"]),
        output=output_at(str(known["output"]), base=Path("/")),
        groups=int(known["groups"]),
        records=None if known["records"] is None else int(known["records"]),
        staged=Staged(folder=Path(known["staging"]), hashes=hashes),
        details=known.get("details", {}),
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


def try_staging(output: Path) -> None:
    """Make and remove a folder as a release's output would be staged in, with a file in it, and the folders above it.

    Args:
        output: where the release will be published.

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
    for name, path in output_files(folder).items():
        os.utime(path, (seconds, seconds))
        _sync(path)
        hashes.append((name, digest_of_file(path)))
    for inside in sorted(path for path in folder.iterdir() if path.is_dir()):
        os.utime(inside, (seconds, seconds))
        _sync(inside)
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


@stage("write")
def write_output(
    *,
    receipt: Receipt,
    charge: ReleaseCharged,
    context: DatasetContext,
    request: Request,
    generalization: GeneralizationMap,
    publication: Publication,
    folder: ReleaseFolder,
    code_sources: str,
    signing: SigningKeys,
) -> StagedRelease:
    """Write the table and its certificate where nobody looks yet, and remember them durably.

    Args:
        receipt: proof of payment.
        charge: the ledger's entry of the charge.
        context: what the ledger said of the data set at the charge.
        request: what is asked for.
        generalization: the map that the records were recoded with.
        publication: what may be published, its table and what the certificate says of it.
        folder: the release's folder in the private store.
        code_sources: digest of the software's sources, for the certificate.
        signing: the private store's signing keys; the private one is read here and nowhere kept.

    Raises:
        ReleaseFailed: the signing key is gone.
    """
    from .table import write_statistics_table, write_table  # loads pyarrow, which a refusal does without

    key = _key_that_signs(signing)
    facts = publication.facts
    details = {name: fact for name, fact in facts.items() if name not in ("form", "groups", "records")}

    def write(place: Path) -> None:
        for stem, table in {"data": publication.table, **publication.beside}.items():
            write_table(table, folder=place, file_format=publication.file_format, stem=stem)
            for format_ in request.also:
                write_statistics_table(
                    table, folder=place, format_=format_, stem=stem, day=charge.day, codes=request.codes
                )
        if request.verify_page:
            shutil.copyfile(VERIFY_PAGE, place / VERIFY_PAGE.name)
        write_certificate(
            place,
            charge=charge,
            context=context,
            position=receipt.position,
            chain_hash=receipt.hash,
            generalization=generalization,
            choice=request.recoding if isinstance(request.recoding, MapChoice) else None,
            published=facts,
            code_sources=code_sources,
            key=key,
            enforced_by=None if request.limit is None else request.limit.column,
            inclusion=request.thinning,
            describe=_metadata_writer(place, publication=publication, texts=request.metadata),
        )

    place = staging_folder(request.output, sample_id=receipt.sample_id, private=folder.path)
    staged = write_staged(place, day=charge.day, write=write)
    folder.remember(
        {
            "published": {
                "sample_id": receipt.sample_id,
                "output": str(request.output),
                "groups": publication.groups,
                "records": publication.records,
                "staging": str(staged.folder),
                "hashes": staged.hashes,
                "details": details,
            }
        }
    )
    return StagedRelease(
        sample_id=receipt.sample_id,
        output=request.output,
        groups=publication.groups,
        records=publication.records,
        staged=staged,
        details=details,
    )


def _metadata_writer(
    place: Path, *, publication: Publication, texts: MetadataTexts | None
) -> Callable[[Mapping[str, Any]], None] | None:
    """What writes the folder of metadata from the certificate's fields; None where there is to be none.

    PRIVACY: of the publication it gets names, types and numbers of rows, no value.
    """
    if texts is None:
        return None
    from ..metadata.description import described_release, outline_of  # of releases with such a folder alone
    from ..metadata.write import write_metadata

    outlines = {stem: outline_of(table) for stem, table in {"data": publication.table, **publication.beside}.items()}

    def describe(certificate: Mapping[str, Any]) -> None:
        write_metadata(place, described_release(place, certificate=certificate, tables=outlines, texts=texts))

    return describe


def _key_that_signs(signing: SigningKeys) -> SigningKey:
    try:
        return signing.current()
    except InputRefused as refusal:
        raise ReleaseFailed(
            refusal.what,
            where=refusal.where,
            remedy="Restore it, or make one with `crowdblend key rotate`, and run again with the same release id.",
        ) from None


@stage("publish")
def publish(*, release: StagedRelease) -> None:
    """Bring the release's folder into view in one step.

    Raises:
        ReleaseFailed: something else is in its place, or its bytes are not what they were.
    """
    bring_into_view(release.staged, release.output)
