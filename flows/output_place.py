"""A release's output and its records lie apart: neither may be inside of the other."""

from __future__ import annotations

from pathlib import Path, PurePath

from ..mechanisms.refusal import InputRefused
from ..tasks.objects import ObjectPrefix
from ..tasks.opening import is_url
from ..tasks.request import Request

__all__ = ["require_apart"]

TABLES = ("data.csv", "data.parquet")
MARKS = "*?["


def require_apart(request: Request) -> None:
    """Refuse an output among the records, or records inside of the output.

    PRIVACY: a table that lies among the records is read as records by the next release, and a folder of a release that
    has private records in it gives them away. Nothing is opened: the names alone decide.

    Args:
        request: the release.

    Raises:
        InputRefused: they are not apart.
    """
    output, source = request.output, str(request.source)
    if isinstance(output, ObjectPrefix):
        inside = is_url(source) and _below(output.url, _fixed(source))
        around = is_url(source) and _below(_fixed(source), output.url)
    elif is_url(source):
        return
    else:
        whole = (request.base / source).absolute()
        records, place = Path(_fixed(str(whole))).resolve(), output.resolve()
        recursive = not any(mark in source for mark in MARKS) or "**" in source
        inside = recursive and records in (place, *place.parents)
        inside = inside or any(PurePath(output / name).match(str(whole)) for name in TABLES)
        around = place in (records, *records.parents) and records != Path(records.anchor)
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


def _fixed(source: str) -> str:
    """What comes before the first folder or name with a wildcard."""
    parts = source.split("/")
    wild = next((place for place, part in enumerate(parts) if any(mark in part for mark in MARKS)), len(parts))
    return "/".join(parts[:wild]) or "/"


def _below(inner: str, outer: str) -> bool:
    return f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/")
