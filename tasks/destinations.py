"""Where a release goes: a folder of this machine, or a place in an object store.

A store is looked at before the charge; a release is put there whole, its certificate last."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..mechanisms.kernel.errors import InputRefused, ReleaseFailed
from .kernel.publication import Hashes

MANIFEST = "certificate.json"
INSIDE_RELEASE = "the output lies inside of a published release, which holds its own files and nothing else."
READ_AT_ONCE = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectPrefix:
    """A place for a release in an object store: all its objects begin with it."""

    url: str

    def __str__(self) -> str:
        """Return the URL."""
        return self.url

    def holds(self, hashes: Hashes) -> bool:
        """Return whether these files are there, all of them and with these bytes."""
        return in_view(self, hashes)

    def bring(self, folder: Path, hashes: Hashes) -> None:
        """Put a staged release's files there, its certificate last."""
        put_into_view(folder, self, hashes)


Output = Path | ObjectPrefix
"""Where a release is published: a folder of this machine, or a place in an object store."""


_PASSWORD = re.compile(r"[^:/]+://[^/]*:[^/]*@")


def refuse_password(url: str, *, where: str) -> None:
    """Refuse a URL that holds a password, and don't repeat it; does nothing for others.

    PRIVACY: addresses are shown in messages, logs and results, and kept with the release.
    """
    if _PASSWORD.match(url):
        raise InputRefused(
            "the URL holds a password; it is not shown.",
            where=where,
            remedy="Leave the password out: the store's driver takes it from its own variables or files.",
        )


def output_named(name: str) -> Output:
    """Return the place that the text of another one names."""
    return _place(name, base=Path("/"))


def output_at(location: str, *, base: Path) -> Output:
    """Return the place that a text names.

    Raises:
        InputRefused: no file can have the name, or it is a chain of URLs or a URL with a password.
    """
    refuse_password(location, where="output")
    return _place(location, base=base)


def _place(location: str, *, base: Path) -> Output:
    if "\0" in location:
        raise InputRefused("no file's name has a NUL character.", where="output")
    local = location.removeprefix("file://").removeprefix("local://")
    if "://" in local:
        if "::" in local:
            raise InputRefused("chained URLs are not supported.", where=local, remedy="Name one URL.")
        return ObjectPrefix(url=local.rstrip("/"))
    return (base / local).absolute()


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
    if protocol in NOTHING_KEPT:
        raise InputRefused(
            f"a store of {protocol}:// keeps no release: it only reads, or ends with the process.",
            where=prefix.url,
            remedy="Name a folder, or an object store such as s3://BUCKET/PREFIX.",
        )
    try:
        files, path = _opened(prefix)
        files.invalidate_cache()
        # An object store has no folders: something "lies there" where any object's name begins with the prefix.
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
    """Tell whether there is such an object; one outside of what the credentials may look at is not seen."""
    try:
        return bool(files.exists(path))
    except PermissionError:
        return False


def in_view(prefix: ObjectPrefix, hashes: Hashes) -> bool:
    """Tell whether a release's objects are all there, its certificate among them, and hold exactly these bytes."""
    with _store(prefix) as (files, path):
        return all(_digest(files, f"{path}/{name}") == digest for name, digest in hashes)


def put_into_view(folder: Path, prefix: ObjectPrefix, hashes: Hashes) -> None:
    """Put a staged release's objects into the store, and its certificate once all of them are there and read back.

    A reader who goes by the certificate sees the whole release or none. What an earlier attempt has put is left
    where it is the same and put again where it is torn.

    Args:
        hashes: name and SHA-256 (hex) of each file, the certificate among them.

    Raises:
        ReleaseFailed: another certificate is in the place, or the store does not give back what it was given.
    """
    digests = dict(hashes)
    with _store(prefix) as (files, path):
        # An object store can't rename a folder in one step, as a file system can. The certificate comes last instead,
        # and it is what readers look for.
        for name in [*(name for name in digests if name != MANIFEST), MANIFEST]:
            # Before each file, since the upload of a table takes long enough for another release to be published.
            if _digest(files, f"{path}/{MANIFEST}") not in (None, digests[MANIFEST]):
                raise ReleaseFailed(
                    "another release has come into the output's place.",
                    where=prefix.url,
                    remedy="Move it away and run again with the same release id.",
                )
            _put(files, folder / name, f"{path}/{name}", digest=digests[name])


def discard(prefix: ObjectPrefix, hashes: Hashes) -> None:
    """Remove what an attempt has put of a release that never came into view."""
    with _store(prefix) as (files, path):
        for name, digest in hashes:
            if _digest(files, f"{path}/{name}") == digest:
                files.rm_file(f"{path}/{name}")


def _put(files: Any, source: Path, target: str, *, digest: str) -> None:  # noqa: ANN401 - fsspec's own
    if _digest(files, target) == digest:
        return
    # Read back and hashed below, since not every driver reports a write that was cut off.
    files.put_file(str(source), target)
    if _digest(files, target) != digest:
        raise ReleaseFailed(
            "the store does not give back what it was given.",
            where=target,
            remedy="Run again with the same release id: the same bytes are published.",
        )


def _digest(files: Any, path: str) -> str | None:  # noqa: ANN401
    """Return the SHA-256 (hex) of an object; None where there is none."""
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
