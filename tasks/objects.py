"""A release in an object store: its objects come first, and the certificate that makes them a release comes last."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..mechanisms.refusal import InputRefused, ReleaseFailed

__all__ = [
    "ObjectPrefix",
    "Output",
    "certificate_of",
    "discard",
    "in_view",
    "output_at",
    "put_into_view",
    "require_free",
]

MANIFEST = "certificate.json"
READ_AT_ONCE = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectPrefix:
    """A place for a release in an object store: all its objects begin with it.

    Args:
        url: fsspec URL without a slash at its end, for example s3://bucket/releases/census.
    """

    url: str

    def __str__(self) -> str:
        """The URL."""
        return self.url


Output = Path | ObjectPrefix
"""Where a release is published: a folder of this machine, or a place in an object store."""


def output_at(location: str, *, base: Path) -> Output:
    """The place that a text names.

    Args:
        location: a path, or an fsspec URL.
        base: folder that a relative path starts from.
    """
    local = location.removeprefix("file://").removeprefix("local://")
    if "://" in local:
        return ObjectPrefix(url=local.rstrip("/"))
    return (base / local).absolute()


def certificate_of(output: Output) -> str:
    """Where a release's certificate lies."""
    return f"{output}/{MANIFEST}"


def require_free(prefix: ObjectPrefix) -> None:
    """See that the store answers and holds nothing below a prefix.

    Raises:
        InputRefused: something lies there, or the store can't be used.
    """
    try:
        files, path = _opened(prefix)
        files.invalidate_cache()
        taken = files.exists(path) or bool(files.glob(f"{path}/*"))
    except Exception as error:  # noqa: BLE001 - each store's driver has faults of its own; nothing was charged yet
        raise InputRefused(
            f"the output's store can't be used ({type(error).__name__}).",
            where=prefix.url,
            remedy="Check the URL, its driver (crowdblend[s3] for s3://) and the credentials in the environment.",
        ) from None
    if taken:
        raise InputRefused("the output exists already.", where=prefix.url, remedy="Name a place that is free.")


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
