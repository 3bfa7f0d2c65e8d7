"""One line of separated text on its own: its fields, or nothing where the quotes do not close."""

from __future__ import annotations

__all__ = ["split_line"]

_QUOTE = b'"'


def split_line(line: bytes, separator: bytes) -> list[bytes] | None:
    """The fields of one line without its line break; None where a quoted field is not closed properly.

    A field that begins with `"` runs to the next single `"`, which the separator or the end must follow; `""`
    inside stands for one. A `"` elsewhere is an ordinary character. An empty line has one empty field.

    Args:
        line: the bytes of the line.
        separator: one byte, not a quote.
    """
    if _QUOTE not in line:
        return line.split(separator)
    fields: list[bytes] = []
    start = 0
    while True:
        if line.startswith(_QUOTE, start):
            end = _closing_quote(line, start + 1)
            if end < 0:
                return None
            fields.append(line[start + 1 : end].replace(b'""', _QUOTE))
            end += 1
            if end < len(line) and not line.startswith(separator, end):
                return None
        else:
            end = line.find(separator, start)
            end = len(line) if end < 0 else end
            fields.append(line[start:end])
        if end == len(line):
            return fields
        start = end + 1


def _closing_quote(line: bytes, start: int) -> int:
    """Place of the first quote from `start` on that is not doubled, or -1."""
    while True:
        place = line.find(_QUOTE, start)
        if place < 0 or not line.startswith(_QUOTE, place + 1):
            return place
        start = place + 2
