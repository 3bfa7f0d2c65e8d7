"""What a run leaves behind, by place: files, tables of databases, what Parquet files and packed texts hold inside."""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Traces", "traces_of"]

SQLITE = b"SQLite format 3\x00"
ZSTANDARD = b"\x28\xb5\x2f\xfd"
BESIDE_SQLITE = ("-wal", "-shm", "-journal")
PACKED = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")
SHIPPED = "block_"  # tables of block types that Prefect ships, in an order of their own


@dataclass(frozen=True)
class Traces:
    """All that a run left.

    Args:
        lines: place → text that a comparison can go through line by line.
        raw_bytes: place → bytes as they lie there, and what is packed into them; for searching alone.
    """

    lines: dict[str, bytes]
    raw_bytes: dict[str, bytes]

    def with_more(self, place: str, content: bytes) -> Traces:
        """The same, with something added at a place."""
        lines = self.lines | {place: self.lines.get(place, b"") + b"\n" + content}
        return Traces(lines=lines, raw_bytes=self.raw_bytes | {place: lines[place]})

    def holding(self, pattern: re.Pattern[bytes]) -> list[str]:
        """The places where a pattern is found."""
        everything = [*self.lines.items(), *self.raw_bytes.items()]
        return sorted({place for place, content in everything if pattern.search(content)})


def traces_of(folder: Path, *, leaving_out: frozenset[str]) -> Traces:
    """Read everything below a folder.

    Args:
        folder: of one run.
        leaving_out: names, below the folder, of what holds the records themselves.
    """
    lines: dict[str, bytes] = {}
    raw_bytes: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        place = str(path.relative_to(folder))
        if not path.is_file() or place in leaving_out:
            continue
        content = path.read_bytes()
        raw_bytes[place] = content
        raw_bytes[f"{place} (unpacked)"] = b"\n".join(_unpacked(content))
        if content.startswith(SQLITE):
            lines[f"{place} (rows)"] = _rows(path)
        elif content[:4] == b"PAR1":
            lines[f"{place} (inside)"] = _inside(path)
        elif not place.endswith(BESIDE_SQLITE):
            lines[place] = content
    lines["names and sizes"] = "\n".join(_listing(folder, lines)).encode()
    return Traces(lines=lines, raw_bytes=raw_bytes)


def _rows(path: Path) -> bytes:
    """Every row of every table as text, in one order."""
    database = sqlite3.connect(path)
    try:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        names = [name for name in sorted(names) if not name.startswith(SHIPPED)]
        rows = [f"{name} {row!r}" for name in names for row in database.execute(f'SELECT * FROM "{name}"')]
    finally:
        database.close()
    return "\n".join(rows).encode("utf-8", "backslashreplace")


def _inside(path: Path) -> bytes:
    """A Parquet file's footer, its statistics and its dictionaries, entries that no row uses among them."""
    footer = pq.read_metadata(path)
    found = [f"{footer.num_rows} rows, {footer.num_row_groups} row groups, {footer.metadata!r}, {footer.created_by}"]
    for group in range(footer.num_row_groups):
        found += [str(footer.row_group(group).column(column).to_dict()) for column in range(footer.num_columns)]
    texts = [field.name for field in pq.read_schema(path) if pa.types.is_string(field.type)]
    table = pq.ParquetFile(path, read_dictionary=texts).read()
    found += [f"{name}: {chunk.dictionary.to_pylist()}" for name in texts for chunk in table[name].chunks]
    return "\n".join(found).encode()


def _listing(folder: Path, lines: dict[str, bytes]) -> Iterator[str]:
    """What is published, with size and time: both can be seen without opening a file."""
    for place in sorted(lines):
        yield f"name {place}"
    for path in sorted((folder / "out").rglob("*")):
        state = path.stat()
        yield f"published {path.name} {state.st_size} bytes at {state.st_mtime_ns} mode {state.st_mode:o}"


def _unpacked(content: bytes) -> Iterator[bytes]:
    """What Base64, gzip, zlib and Zstandard hide from a search, such as pickled results and stored draws."""
    if content[:2] == b"\x1f\x8b":
        yield gzip.decompress(content)
    for match in PACKED.finditer(content):
        text = match.group().rstrip(b"=")
        for altchars in (b"+/", b"-_"):
            try:
                unpacked = base64.b64decode(text + b"=" * (-len(text) % 4), altchars=altchars, validate=True)
            except binascii.Error:
                continue
            yield unpacked
            if unpacked.startswith(ZSTANDARD):
                with pa.CompressedInputStream(pa.BufferReader(unpacked), "zstd") as stream:
                    yield stream.read()
            with suppress(zlib.error):
                yield zlib.decompress(unpacked)
