"""The header line of a CSV file: where the released columns stand, found without looking at a record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..mechanisms.refusal import InputRefused
from .csv_line import split_line
from .opening import open_input

__all__ = ["LINE_LIMIT", "CsvLayout", "read_csv_layout", "separator_byte"]

LINE_LIMIT = 1 << 20

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_USUAL_SEPARATORS = (";", ",", "\t", "|")


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvLayout:
    """What the header says.

    Args:
        first_record: byte offset of the line after the header.
        separator: one byte.
        fields: number of fields of the header, and so of every well-formed record.
        positions: per released column, in the order asked for, its place among the fields, from 0.
    """

    first_record: int
    separator: bytes
    fields: int
    positions: tuple[int, ...]


def separator_byte(separator: str) -> bytes:
    """The separator as one byte.

    Raises:
        InputRefused: it is not one ASCII character, or one that records need for quotes or line breaks.
    """
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise InputRefused(
            f"a separator is one ASCII character, no quote or line break, not {separator!r}.",
            where="[data].separator",
        )
    return separator.encode()


def read_csv_layout(path: str, *, columns: Sequence[str], separator: str) -> CsvLayout:
    """Find the released columns in the header of one file; at most LINE_LIMIT bytes are read.

    PRIVACY: where there is no header, the first line is a record; so no refusal here quotes that line.

    Args:
        path: file or URL.
        columns: names of the released columns.
        separator: as the specification has it.

    Raises:
        InputRefused: the header is missing, too long, not UTF-8, or does not name every column once.
    """
    mark = separator_byte(separator)
    try:
        with open_input(path) as file:
            head = file.read(LINE_LIMIT + 1)
    except (OSError, ValueError, ImportError) as error:
        raise InputRefused(f"the file cannot be read ({type(error).__name__}).", where=path) from None
    end = head.find(b"\n")
    if end < 0 and len(head) > LINE_LIMIT:
        raise InputRefused(f"the header line is longer than {LINE_LIMIT} bytes.", where=f"{path}, line 1")
    line = (head if end < 0 else head[:end]).removesuffix(b"\r").removeprefix(_BYTE_ORDER_MARK)
    if not line.strip():
        raise InputRefused(
            "there is no header: the first line is empty.",
            where=f"{path}, line 1",
            remedy="The first line has to name the columns.",
        )
    names = _names(line, mark, path)
    lost = [column for column in columns if column not in names]
    if lost:
        raise _lost_columns(lost, line=line, names=names, columns=columns, separator=separator, path=path)
    for column in columns:
        if names.count(column) > 1:
            raise InputRefused(
                f"the header names the column {column!r} {names.count(column)} times.",
                where=f"{path}, line 1",
            )
    return CsvLayout(
        first_record=len(head) if end < 0 else end + 1,
        separator=mark,
        fields=len(names),
        positions=tuple(names.index(column) for column in columns),
    )


def _names(line: bytes, mark: bytes, path: str) -> list[str]:
    fields = split_line(line, mark)
    if fields is None:
        raise InputRefused("the quotes of the header do not close.", where=f"{path}, line 1")
    try:
        return [field.decode("utf-8") for field in fields]
    except UnicodeDecodeError:
        raise InputRefused(
            "the header is not UTF-8.", where=f"{path}, line 1", remedy="Save the file as UTF-8."
        ) from None


def _lost_columns(
    lost: list[str], *, line: bytes, names: list[str], columns: Sequence[str], separator: str, path: str
) -> InputRefused:
    remedy = "Check the names in [columns], and that the first line names the columns."
    for other in _USUAL_SEPARATORS:
        fields = split_line(line, other.encode())
        if other != separator and fields is not None and {name.encode() for name in columns} <= set(fields):
            remedy = f"With the separator {other!r} they are all there: set [data].separator."
            break
    else:
        if len(names) == 1 and len(columns) > 1:
            remedy = f"The header has one field only: is {separator!r} the right [data].separator?"
    listed = ", ".join(repr(name) for name in lost)
    return InputRefused(f"the header does not name {listed}.", where=f"{path}, line 1", remedy=remedy)
