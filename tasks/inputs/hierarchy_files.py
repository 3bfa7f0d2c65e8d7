"""Hierarchies as files: no header, one line a value, from the value to its most general label; peers' leniently."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...accounting.given_files import read_given
from ...mechanisms.hierarchies.declare import HierarchyError, ValueHierarchy
from ...mechanisms.kernel.errors import InputRefused
from ..readers.csv_quotes import split_line
from ..readers.source_files import open_input

_OWN_SEPARATORS = (";", ",")
_SEPARATORS = (";", ",", "\t", "|")
_SIZE_LIMIT = 1 << 30
_UTF_8 = "utf-8-sig"


def read_hierarchy(location: str) -> ValueHierarchy:
    """Read a hierarchy from a path or an fsspec URL.

    The separator is `;` or `,`, whichever splits every line into the same number of columns, two or more; if
    both do, the one by which every line ends in `*`, since labels such as `[0, 10)` hold commas.
    UTF-8, with or without a byte order mark; lines end in LF or CRLF; fields may be quoted with `"`.

    Raises:
        InputRefused: with file and line: unreadable, empty, not UTF-8, a gap (an empty cell or a short or
            long line), a value twice, labels that are not monotone, or a separator that could be either.
    """
    try:
        with open_input(location) as file:
            if file.seek(0, os.SEEK_END) > _SIZE_LIMIT:
                raise InputRefused("a hierarchy has at most 1 GiB.", where=location)
            file.seek(0)
            content = file.read()
    except (OSError, ValueError, ImportError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise InputRefused(f"the hierarchy cannot be read ({why}).", where=location) from None
    rows = _even_rows(_lines(content, location, _UTF_8), location)
    try:
        return ValueHierarchy.from_rows(rows)
    except HierarchyError as error:
        place = "" if error.row is None else f", line {error.row + 1}"
        raise InputRefused(f"{error.what}.", where=f"{location}{place}") from None


def _even_rows(lines: list[str], location: str) -> list[list[str]]:
    """Return the fields of lines that one of two separators splits evenly."""
    if not lines:
        raise InputRefused("the hierarchy is empty.", where=location)
    if "" in lines:
        raise InputRefused("this line is empty.", where=f"{location}, line {lines.index('') + 1}")
    readings = [[_split(line, mark) for line in lines] for mark in _OWN_SEPARATORS]
    even = [reading for reading in readings if len({*map(len, reading)}) == 1 and len(reading[0]) >= 2]
    if len(even) == 2:
        even = [reading for reading in even if all(fields[-1] == "*" for fields in reading)]
        if len(even) != 1:
            raise InputRefused(
                "every line splits evenly both by `;` and by `,`, and only one way must.",
                where=location,
                remedy='Quote the labels, for example "a, b";"c".',
            )
    if even:
        return even[0]
    # Where the reading breaks off is decided by the separator that the first line has more of.
    reading = max(readings, key=lambda fields: len(fields[0]))
    width = len(reading[0])
    if width < 2:
        raise InputRefused(
            "the first line has a single column.",
            where=f"{location}, line 1",
            remedy="A hierarchy needs two columns or more, separated by `;` or `,`.",
        )
    number, fields = next((n, fields) for n, fields in enumerate(reading, start=1) if len(fields) != width)
    raise InputRefused(
        f"there is a gap: this line has {len(fields)} columns where the first has {width}."
        if fields
        else "the quotes of this line do not close.",
        where=f"{location}, line {number}",
    )


def _split(line: str, mark: str) -> list[str]:
    """Return the fields of a line; none where its quotes don't close."""
    fields = split_line(line.encode("utf-8", "surrogatepass"), mark.encode()) or []
    return [field.decode("utf-8", "surrogatepass") for field in fields]


@dataclass(frozen=True, kw_only=True, slots=True)
class PeerRows:
    """The rows of a file, of whatever lengths they have.

    Args:
        rows: the fields of each line that isn't empty.
        lines: for each row its line, from 1.
        separator: what was taken for the separator.
    """

    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    separator: str

    def where(self, path: Path, row: int | None) -> str:
        """Return the place of a row, from 0, for a message."""
        return str(path) if row is None else f"{path}, line {self.lines[row]}"


def read_lines(path: Path, *, encoding: str = _UTF_8) -> list[str]:
    """Return the lines of a text file without their ends.

    Raises:
        InputRefused: it can't be read, is over 1 GiB, or isn't in that encoding; with the line.
    """
    try:
        content = read_given(path, most=_SIZE_LIMIT)
    except OSError as error:
        raise InputRefused(f"the file can't be read ({error.strerror}).", where=str(path)) from None
    return _lines(content, str(path), encoding)


def _lines(content: bytes, location: str, encoding: str) -> list[str]:
    try:
        text = content.decode(encoding)
    except LookupError:
        raise InputRefused(f"there is no encoding {encoding!r}.", where="--encoding") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        raise InputRefused(
            f"this line is not {'UTF-8' if encoding == _UTF_8 else encoding}.",
            where=f"{location}, line {line}",
            remedy="Save it as UTF-8, or name its encoding where the command takes one, for example "
            f"--encoding {'utf-16' if wide else 'cp1252'}.",
        ) from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def is_utf8(path: Path) -> bool:
    """Tell whether a file that can be read is UTF-8, as specifications take it."""
    try:
        read_given(path, most=_SIZE_LIMIT).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_peer_rows(
    path: Path, *, encoding: str = _UTF_8, separator: str | None = None, header: bool = False
) -> PeerRows:
    """Read a hierarchy as ARX and others write it: one line a value, from the value to its most general label.

    Args:
        separator: one character; None takes the one of ; , tab | that splits the lines most evenly.
        header: whether the first line names the levels and is no row.

    Raises:
        InputRefused: it can't be read, quotes don't close, or nothing separates its lines.
    """
    numbered = [(number, line) for number, line in enumerate(read_lines(path, encoding=encoding), start=1) if line]
    numbered = numbered[1:] if header else numbered
    if not numbered:
        raise InputRefused("the hierarchy is empty.", where=str(path))
    mark = separator or _likeliest([line for _, line in numbered], path)
    if len(mark) != 1 or mark in '"\r\n\0' or not mark.isascii():
        raise InputRefused("a separator is one ASCII character, no quote or line break.", where="--separator")
    rows = [tuple(_split(line, mark)) for _, line in numbered]
    if () in rows:
        number = numbered[rows.index(())][0]
        raise InputRefused("the quotes of this line do not close.", where=f"{path}, line {number}")
    return PeerRows(rows=tuple(rows), lines=tuple(number for number, _ in numbered), separator=mark)


def hierarchy_text(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as the file that a specification names: `;`, quotes where needed, a line feed after each."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";", lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerows(rows)
    return text.getvalue()


def _likeliest(lines: Sequence[str], path: Path) -> str:
    """Return the separator by which most lines have one and the same number of columns, and then end in `*`."""
    best, chosen = (0, 0), ""
    for mark in _SEPARATORS:
        split = [_split(line, mark) for line in lines]
        widths = Counter(len(fields) for fields in split if len(fields) > 1)
        if not widths:
            continue
        even = widths.most_common(1)[0][1]
        starred = sum(1 for fields in split if len(fields) > 1 and fields[-1].strip() == "*")
        if (even, starred) > best:
            best, chosen = (even, starred), mark
    if not chosen:
        raise InputRefused(
            "each line has a single column.",
            where=f"{path}, line 1",
            remedy="A hierarchy needs two columns or more, separated by `;`, `,`, a tab or `|`; "
            "`crowdblend hierarchy build` makes one from a list of values.",
        )
    return chosen
