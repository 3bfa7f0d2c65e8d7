"""Hierarchies as files: no header, one line a value, from the value to its most general label."""

from __future__ import annotations

from ..mechanisms.hierarchy import HierarchyError, ValueHierarchy
from ..mechanisms.refusal import InputRefused
from .csv_line import split_line
from .opening import open_input

__all__ = ["read_hierarchy"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SEPARATORS = (b";", b",")
_SIZE_LIMIT = 1 << 30


def read_hierarchy(location: str) -> ValueHierarchy:
    """Read a hierarchy from a path or an fsspec URL.

    The separator is `;` or `,`, whichever splits every line into the same number of columns, two or more; if
    both do, the one by which every line ends in `*`, since labels such as `[0, 10)` hold commas.
    UTF-8, with or without a byte order mark; lines end in LF or CRLF; fields may be quoted with `"`.

    Raises:
        InputRefused: with file and line: unreadable, empty, not UTF-8, a gap (an empty cell or a short or
            long line), a value twice, labels that are not monotone, or a separator that could be either.
    """
    lines = _lines(_read(location), location)
    rows = _rows(lines, location)
    try:
        return ValueHierarchy.from_rows(rows)
    except HierarchyError as error:
        place = "" if error.row is None else f", line {error.row + 1}"
        raise InputRefused(f"{error.what}.", where=f"{location}{place}") from None


def _read(location: str) -> bytes:
    try:
        with open_input(location) as file:
            content = bytearray()
            while part := file.read(1 << 20):
                content += part
                if len(content) > _SIZE_LIMIT:
                    raise InputRefused("a hierarchy has at most 1 GiB.", where=location)
    except (OSError, ValueError, ImportError) as error:
        raise InputRefused(f"the hierarchy cannot be read ({type(error).__name__}).", where=location) from None
    return bytes(content)


def _lines(content: bytes, location: str) -> list[bytes]:
    lines = content.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    if not lines:
        raise InputRefused("the hierarchy is empty.", where=location)
    lines = [line.removesuffix(b"\r") for line in lines]
    for number, line in enumerate(lines, start=1):
        if not line:
            raise InputRefused("this line is empty.", where=f"{location}, line {number}")
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            raise InputRefused("this line is not UTF-8.", where=f"{location}, line {number}") from None
    return lines


def _rows(lines: list[bytes], location: str) -> list[list[str]]:
    readings = [[split_line(line, separator) for line in lines] for separator in _SEPARATORS]
    even = [reading for reading in readings if _is_even(reading)]
    if len(even) > 1:
        even = [reading for reading in even if all(fields and fields[-1] == b"*" for fields in reading)]
    if len(even) != 1 and all(_is_even(reading) for reading in readings):
        raise InputRefused(
            "every line splits evenly both by `;` and by `,`, and only one way must.",
            where=location,
            remedy='Quote the labels, for example "a, b";"c".',
        )
    if not even:
        raise _uneven(readings, location)
    return [[field.decode("utf-8") for field in fields or ()] for fields in even[0]]


def _is_even(reading: list[list[bytes] | None]) -> bool:
    widths = {0 if fields is None else len(fields) for fields in reading}
    return len(widths) == 1 and widths.pop() >= 2


def _uneven(readings: list[list[list[bytes] | None]], location: str) -> InputRefused:
    """Say where the reading breaks off, by the separator that the first line has more of."""
    reading = max(readings, key=lambda fields: len(fields[0] or ()))
    width = len(reading[0] or ())
    if width < 2:
        return InputRefused(
            "the first line has a single column.",
            where=f"{location}, line 1",
            remedy="A hierarchy needs two columns or more, separated by `;` or `,`.",
        )
    for number, fields in enumerate(reading, start=1):
        if fields is None:
            return InputRefused("the quotes of this line do not close.", where=f"{location}, line {number}")
        if len(fields) != width:
            return InputRefused(
                f"there is a gap: this line has {len(fields)} columns where the first has {width}.",
                where=f"{location}, line {number}",
            )
    return InputRefused("the lines cannot be read.", where=location)
