"""Whether records may be looked at: never the specification's own, nor any that this steward has released."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ...accounting.ledger.source_names import known_names_of_source
from ...mechanisms.refusal import InputRefused
from ...tasks.csv_header import CsvLayout
from ...tasks.parquet_schema import ParquetLayout
from ...tasks.request import Request
from ...tasks.source import SourceLayout, check_metadata, list_source, source_metadata_bytes

__all__ = ["REMEDY", "WHY", "require_public"]

WHY = (
    "Levels, k and rates that are chosen by looking at the private records are a choice that the guarantee doesn't "
    "cover: what was looked at decides what is published, and nobody has paid for that."
)
REMEDY = (
    "Preview on public or synthetic records, a past release, or a charged noisy histogram; or let the levels be drawn "
    "privately with [selection]."
)
UNCOMPARED = "The specification's own records can't be listed, so these were not compared with them."


def require_public(given: SourceLayout, request: Request, *, home: Path) -> str:
    """Refuse records that are, by what metadata tell, the specification's own or a source that was released.

    Neither the private records nor those given are read for this: names, places, sizes, headers and footers decide.
    A part of the private records, or a copy that was changed, isn't recognized.

    Args:
        given: what somebody says is public.
        request: the specification.
        home: the private store, which knows keyed fingerprints of what was released.

    Returns:
        A remark where nothing could be compared; else empty.

    Raises:
        InputRefused: the records are private.
    """
    for file in given.source.files:
        folder = PurePosixPath(file.path).parent
        if (Path(folder) / "certificate.json").exists():
            raise InputRefused(
                "this is the table of a release.", where=file.path, remedy=f"Preview on it with --release {folder}."
            )
    names = known_names_of_source(home, source_metadata_bytes(given))
    if names:
        raise _private(given, f"this source was released as the data set {', '.join(names)}")
    try:
        own = list_source(request.source, base=request.base)
    except InputRefused:
        return UNCOMPARED
    _require_other_files([file.path for file in given.source.files], [file.path for file in own.files], given)
    try:
        layout = check_metadata(own, columns=(), reading=request.reading)
    except InputRefused:
        return UNCOMPARED
    if _outlines(given) & _outlines(layout):
        raise _private(given, "a file of it has the size and the header or row groups of the specification's records")
    return ""


def _require_other_files(given: Sequence[str], own: Sequence[str], layout: SourceLayout) -> None:
    private = {_identity(path) for path in own}
    if any(_identity(path) in private for path in given):
        raise _private(layout, "this is the specification's own source")


def _identity(path: str) -> tuple[int, int] | str:
    """A file of this machine by its inode, so that links are seen through."""
    try:
        state = os.stat(path)
    except OSError:
        return path
    return (state.st_dev, state.st_ino)


def _outlines(layout: SourceLayout) -> set[tuple[object, ...]]:
    """Of each file what a copy of it would share, whatever it is called; empty files tell nothing."""
    found: set[tuple[object, ...]] = set()
    parts: Sequence[CsvLayout | ParquetLayout] = layout.layouts
    for file, part in zip(layout.source.files, parts, strict=True):
        if isinstance(part, ParquetLayout):
            found |= {(file.size, *part.rows)} if sum(part.rows) else set()
        if isinstance(part, CsvLayout) and file.size > part.first_record:
            found.add((file.size, part.first_record))
    return found


def _private(layout: SourceLayout, what: str) -> InputRefused:
    return InputRefused(
        f"{what}. {WHY}",
        where=layout.source.files[0].path,
        not_done="No record was read, and nothing was written.",
        remedy=REMEDY,
    )
