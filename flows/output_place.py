"""Where a release may be published: a free place, apart from its records, that can be written."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ..accounting.given_files import looking_at, without_links
from ..accounting.kernel.keys.signing import SigningKeys
from ..mechanisms.kernel.errors import InputRefused
from ..tasks.destinations import INSIDE_RELEASE, ObjectPrefix, Output, require_free
from ..tasks.kernel.publication import try_staging
from ..tasks.readers.source_files import is_url
from ..tasks.request import Request

MARKS = "*?["
TABLES = ("data", "margins", "members")
"""How names of a release's tables begin."""


def require_apart(request: Request) -> None:
    """Refuse an output among the records, or records inside of the output.

    PRIVACY: a table that lies among the records is read as records by the next release, and a folder of a release that
    has private records in it gives them away. Nothing is opened: the names alone decide, with their links followed.
    What only the next release can see, such as a link below a folder, its listing refuses (`list_records`).
    """
    output, source = request.output, str(request.source).removeprefix("file://").removeprefix("local://")
    if isinstance(output, ObjectPrefix):
        inside = is_url(source) and _below(output.url, _fixed(source))
        around = is_url(source) and _below(_fixed(source), output.url)
    elif is_url(source):
        return
    else:
        records, place = without_links(request.base / source).parts, without_links(output).parts
        around = len(records) > len(place) and records[: len(place)] == place
        inside = not around and _may_reach(records, place)
    if inside:
        raise InputRefused(
            "the output lies among the records, so that the next release would read it as records.",
            where=str(output),
            remedy="Name a folder elsewhere.",
        )
    if around:
        raise InputRefused(
            "the records lie inside of the output, whose folder holds what is published and nothing else.",
            where=str(output),
            remedy="Name a folder elsewhere.",
        )


def _may_reach(pattern: Sequence[str], folder: Sequence[str]) -> bool:
    """Tell whether a pattern may match a folder, one above it, or a table of a release in it."""
    for wild, name in zip(pattern, folder, strict=False):
        if wild == "**":
            return True
        if name != wild and not fnmatchcase(name, wild):
            return False
    left = pattern[len(folder) :]
    plain = len(left) == 1 and not any(mark in left[0] for mark in MARKS)
    return not plain or left[0].startswith(TABLES)


def _fixed(source: str) -> str:
    """Return what comes before the first folder or name with a wildcard of a URL."""
    parts = source.split("/")
    wild = next((place for place, part in enumerate(parts) if any(mark in part for mark in MARKS)), len(parts))
    return "/".join(parts[:wild]) or "/"


def _below(inner: str, outer: str) -> bool:
    return f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/")


def check_output(output: Output, *, own: str | None, keys: SigningKeys) -> None:
    """Refuse an output that exists, unless it is the complete one of the release `own`, cut off before its close.

    Whatever could keep a charged release from ever being published is looked for here: the name, the store, and the
    very folder that the output is staged in, which is made and removed.
    """
    require_plain_name(output)
    if isinstance(output, ObjectPrefix):
        if own is None:
            require_free(output)
        return  # what a resumed release finds there is compared when it is published
    with looking_at(output, "the output"):
        _check_folder(output, own=own, keys=keys)


def _check_folder(output: Path, *, own: str | None, keys: SigningKeys) -> None:
    from ..accounting.certificate.verify import check_certificate, read_certificate

    certificate = output / "certificate.json"
    if own is not None and certificate.is_file() and read_certificate(certificate).get("release_id") == own:
        if not check_certificate(certificate, trusted=keys.public_keys()):
            return
        raise InputRefused("the output is this release's, but it has been changed.", where=str(output))
    if output.exists() or output.is_symlink():
        raise InputRefused("the output exists already.", where=str(output), remedy="Name a folder that doesn't exist.")
    # Both ways up: a link may lead into a release's folder, whose certificate would then not cover the new files.
    above = {*output.parents, *without_links(output).parents}
    if any((folder / "certificate.json").exists() for folder in above):
        raise InputRefused(INSIDE_RELEASE, where=str(output), remedy="Name a folder elsewhere.")
    if without_links(keys.home) in (without_links(output), *without_links(output).parents):
        raise InputRefused(
            "the output lies inside of the private store, which nobody but its owner may look into.",
            where=str(output),
            remedy="Name a folder elsewhere.",
        )
    try:
        try_staging(output)
    except OSError as error:
        raise InputRefused(f"the output can't be written ({error.strerror}).", where=str(output)) from None


def require_plain_name(output: Output) -> None:
    """Refuse a name that a certificate, a record or a terminal can't hold."""
    name = str(output)
    try:
        plain = "\0" not in name and bool(name.encode("utf-8"))
    except UnicodeEncodeError:
        plain = False
    if not plain:
        raise InputRefused("the output's name is not UTF-8 text.", where=ascii(name), remedy="Name another folder.")


def output_name(output: Output) -> str:
    """Return an output's one name, by which its place is held."""
    return output.url if isinstance(output, ObjectPrefix) else str(without_links(output))
