"""Hierarchy files of other tools, read leniently, so that all that is wrong with them can be told at once."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..mechanisms.refusal import InputRefused
from .csv_line import split_line

__all__ = ["PeerRows", "hierarchy_text", "is_utf8", "read_lines", "read_peer_rows"]

SEPARATORS = (";", ",", "\t", "|")
SIZE_LIMIT = 1 << 30


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
        """The place of a row, from 0, for a message."""
        return str(path) if row is None else f"{path}, line {self.lines[row]}"


def read_lines(path: Path, *, encoding: str = "utf-8-sig") -> list[str]:
    """The lines of a text file without their ends.

    Args:
        path: the file.
        encoding: as Python names them; the default takes UTF-8 with or without a byte order mark.

    Raises:
        InputRefused: it can't be read, is over 1 GiB, or isn't in that encoding; with the line.
    """
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise InputRefused("a hierarchy has at most 1 GiB.", where=str(path))
        content = path.read_bytes()
    except OSError as error:
        raise InputRefused(f"the file can't be read ({error.strerror}).", where=str(path)) from None
    try:
        text = content.decode(encoding)
    except LookupError:
        raise InputRefused(f"there is no encoding {encoding!r}.", where="--encoding") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        raise InputRefused(
            f"this line is not {'UTF-8' if encoding == 'utf-8-sig' else encoding}.",
            where=f"{path}, line {line}",
            remedy="Save it as UTF-8, or name its encoding where the command takes one, for example "
            f"--encoding {'utf-16' if wide else 'cp1252'}.",
        ) from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def is_utf8(path: Path) -> bool:
    """Whether a file that can be read is UTF-8, as specifications take it."""
    try:
        path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_peer_rows(
    path: Path, *, encoding: str = "utf-8-sig", separator: str | None = None, header: bool = False
) -> PeerRows:
    """Read a hierarchy as ARX and others write it: one line a value, from the value to its most general label.

    Args:
        path: the file.
        encoding: as `read_lines`.
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
    rows = []
    for number, line in numbered:
        fields = split_line(line.encode("utf-8", "surrogatepass"), mark.encode())
        if fields is None:
            raise InputRefused("the quotes of this line do not close.", where=f"{path}, line {number}")
        rows.append(tuple(field.decode("utf-8", "surrogatepass") for field in fields))
    return PeerRows(rows=tuple(rows), lines=tuple(number for number, _ in numbered), separator=mark)


def hierarchy_text(rows: Sequence[Sequence[str]]) -> str:
    """Rows as the file that a specification names: `;`, quotes where needed, a line feed after each."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";", lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerows(rows)
    return text.getvalue()


def _likeliest(lines: Sequence[str], path: Path) -> str:
    """The separator by which most lines have one and the same number of columns, and then end in `*`."""
    best, chosen = (0, 0), ""
    for mark in SEPARATORS:
        split = [split_line(line.encode("utf-8", "surrogatepass"), mark.encode()) or [] for line in lines]
        widths = Counter(len(fields) for fields in split if len(fields) > 1)
        if not widths:
            continue
        even = widths.most_common(1)[0][1]
        starred = sum(1 for fields in split if len(fields) > 1 and fields[-1].strip() == b"*")
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
