"""Where a release lies, and where documents about it may be written: never where a release would be picked up."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from ..accounting.given_files import looking_at, without_links
from ..mechanisms.kernel.errors import InputRefused

if TYPE_CHECKING:
    from ..tasks.destinations import Output
    from ..tasks.request import Request


CERTIFICATE = "certificate.json"
TAKEN_NAMES = frozenset({CERTIFICATE, "data.csv", "data.parquet", "margins.csv", "margins.parquet"})
_OF_BLOCK = re.compile(r"data-[a-z0-9_-]+\.(csv|parquet)")


def release_certificate(path: Path) -> Path:
    """Return the certificate's path of a release that is named by its folder or by the certificate in it.

    A path that can't be looked at is left as it is: whoever reads it says why.
    """
    # `Path.is_dir` would raise in a folder that is closed to this account.
    return path / CERTIFICATE if os.path.isdir(path) else path


def release_folder(path: Path) -> Path:
    """Return the folder of a release that is named by it or by the certificate in it."""
    return path if os.path.isdir(path) or path.name != CERTIFICATE else path.parent


def require_elsewhere(path: Path, *, request: Request | None = None) -> None:
    """Refuse a place in or below a release's folder, in a specification's output or among its records, or taken.

    PRIVACY: a release's folder holds its table and its certificate and nothing else; what lies beside them would be
    published with them.

    Args:
        path: the file to be written.
        request: the specification that it is about, if any.

    Raises:
        InputRefused: nothing may be written there.
    """
    with looking_at(path):
        _require_elsewhere(path, request)


def _require_elsewhere(path: Path, request: Request | None) -> None:
    from ..tasks.readers.source_files import is_url

    remedy = "Name a file elsewhere."
    if is_url(str(path)):
        raise InputRefused("documents are written to files of this machine.", where=str(path), remedy=remedy)
    full = path.expanduser().absolute()
    real = without_links(full)
    if path.name in TAKEN_NAMES or _OF_BLOCK.fullmatch(path.name):
        raise InputRefused("this is the name of a release's file.", where=str(path), remedy=remedy)
    for folder in {*full.parents, *real.parents}:
        if (folder / CERTIFICATE).exists():
            raise InputRefused(
                f"this lies in the release {folder}, which holds its table and its certificate and nothing else.",
                where=str(path),
                remedy=remedy,
            )
    if request is not None:
        _require_outside(path, real, request.output, what="this lies in the specification's output.")
        if not is_url(request.source):
            source = request.base / request.source
            _require_outside(path, real, source, what="this lies among the specification's records.")
    if full.exists() or full.is_symlink():
        raise InputRefused("this exists already.", where=str(path), remedy="Name a file that doesn't exist.")
    if not full.parent.is_dir():
        raise InputRefused("its folder doesn't exist.", where=str(path), remedy="Make it first.")


def make_folder_elsewhere(folder: Path) -> None:
    """Make a folder for documents where there is none, but not in a release's folder; one that is there is left.

    Raises:
        InputRefused: it may not, or can't, be made.
    """
    with looking_at(folder):
        if folder.expanduser().is_dir():
            return
        missing = folder.expanduser().absolute()
        while not missing.parent.exists():
            missing = missing.parent
    require_elsewhere(missing)
    try:
        folder.expanduser().mkdir(parents=True)
    except OSError as error:
        raise InputRefused(f"the folder can't be made ({error.strerror}).", where=str(folder)) from None


def write_new(path: Path, text: str, *, request: Request | None = None) -> None:
    """Write a new file; arguments and errors as of `require_elsewhere`.

    Raises:
        InputRefused: nothing may, or can, be written there, or the text has half of a surrogate pair, as a name that is
            not UTF-8 has.
    """
    require_elsewhere(path, request=request)
    try:
        raw_bytes = text.encode("utf-8")
    except UnicodeEncodeError:
        raise InputRefused("a name that this would state is not UTF-8.", where=str(path)) from None
    place = path.expanduser()
    try:
        with place.open("xb") as file:
            try:
                file.write(raw_bytes)
                file.flush()
            except OSError:
                place.unlink()
                raise
    except OSError as error:
        raise InputRefused(f"this can't be written ({error.strerror}).", where=str(path)) from None


def _require_outside(path: Path, real: Path, place: Output | Path, *, what: str) -> None:
    if not isinstance(place, Path):
        return
    if without_links(place) in (real, *real.parents) or fnmatch(str(real), str(place)):
        raise InputRefused(what, where=str(path), remedy="Name a file elsewhere.")
