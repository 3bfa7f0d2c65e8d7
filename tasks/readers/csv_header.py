"""The header of a CSV file: where the released columns stand, found without looking at a record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.sampling import ChunkIdentity
from ...mechanisms.wording import did_you_mean
from .csv_quotes import Quotes, QuoteState, split_line
from .file_formats import AskedColumns, Chunk, FileFormat, FileLayout, NamedColumn, SourceNames
from .source_files import Location, SourceFile, open_records, path_of, reject_duplicate_partition_column, unpacked_name
from .values import RecordReading

LINE_LIMIT = 1 << 20

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_USUAL_SEPARATORS = (";", ",", "\t", "|")
_VALUE_LIKE = (
    (re.compile(r"[+-]?[0-9][0-9., ]*%?"), "a number"),
    (re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}.*"), "a date"),
    (re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"), "a mail address"),
)
_LINE_FEED = 10
_CARRIAGE_RETURN = 13


RANGE_BYTES = 64 << 20
UNKNOWN_END = 1 << 62
"""Where the one range of a compressed file stops, beyond any end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvLayout(FileLayout):
    """What the header says.

    Args:
        first_record: byte offset of what follows the header.
        separator: one byte.
        quoted: whether quotes are followed, also across line breaks.
        fields: number of fields of the header, and so of every well-formed record.
        positions: per released column, in the order asked for, its place among the fields, from 0.
        content_bytes: how many follow the header; None where the file is compressed.
    """

    first_record: int
    separator: bytes
    quoted: bool
    fields: int
    positions: tuple[int, ...]
    content_bytes: int | None = None

    @property
    def outline(self) -> tuple[int, ...]:
        """Return where the records begin, and how many fields the header has."""
        return self.first_record, self.fields

    @property
    def records(self) -> None:
        """Return None: how many records there are isn't known before they are read."""
        return

    @property
    def empty(self) -> bool:
        """Tell whether nothing follows the header; a compressed file doesn't tell."""
        return self.content_bytes is not None and self.content_bytes <= 0

    def chunks(self, file: SourceFile, number: int, read_by: FileFormat) -> list[CsvChunk]:
        """Cut a file into ranges of RANGE_BYTES.

        A compressed file is one range, since it can be read from its beginning alone, and its end isn't known.
        """
        first, size, range_bytes = self.first_record, file.size, RANGE_BYTES
        if unpacked_name(file.path)[1] is not None:
            # INVARIANT: ranges are of fixed byte positions and not of lines, so that a chunk's identity follows from
            # the file alone.
            first, size, range_bytes = 0, UNKNOWN_END, UNKNOWN_END
        blocks = range(first // range_bytes, -(-size // range_bytes))
        bounds = ((b, max(b * range_bytes, self.first_record), min((b + 1) * range_bytes, size)) for b in blocks)
        return [
            CsvChunk(
                file=file,
                identity=ChunkIdentity(file=number, block=block),
                read_by=read_by,
                records=None,
                read_bytes=stop - start,
                start=start,
                stop=stop,
                layout=self,
            )
            for block, start, stop in bounds
            if start < stop
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvChunk(Chunk):
    """The records of a CSV file whose first bytes lie in start ≤ offset < stop.

    Args:
        start: first byte of the range, or of the first record if that is later.
        stop: first byte after the range, at most the file's size; of a compressed file beyond any end.
        layout: the file's header.
        before: the state of the quotes one byte before `start`; None where it isn't known yet, or nothing comes before.
    """

    start: int
    stop: int
    layout: CsvLayout
    before: QuoteState | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvHeader:
    """The first record of a file.

    Args:
        line: its bytes without byte order mark and line break.
        end: byte offset of what follows it.
    """

    line: bytes
    names: tuple[str, ...]
    end: int


def separator_byte(separator: str) -> bytes:
    """Return the separator as one byte.

    Raises:
        InputRefused: it is not one ASCII character, or one that records need for quotes or line breaks.
    """
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise InputRefused(
            f"a separator is one ASCII character, no quote or line break, not {separator!r}.",
            where="[data].separator",
        )
    return separator.encode()


def read_csv_layout(location: Location, asked: AskedColumns) -> CsvLayout:
    """Find the released columns in the header of one file; at most LINE_LIMIT bytes are read.

    PRIVACY: where there is no header, the first line is a record; so no refusal here quotes that line.

    Raises:
        InputRefused: the header is missing, too long, not UTF-8, does not name every column once, or names one that
            folders bear.
        ReleaseFailed: it is not the file that was listed.
    """
    columns, reading = asked.names, asked.reading
    path, separator = path_of(location), separator_byte(reading.separator)
    header = header_of(read_head(location), path=path, reading=reading)
    wanted = [name.encode(reading.encoding, errors="replace") for name in columns]
    lost = [column for column in columns if column not in header.names]
    if lost:
        raise _lost_columns(lost, header=header, wanted=wanted, separator=reading.separator, path=path)
    reject_duplicate_partition_column(header.names, partition_columns=asked.partition_columns, where=f"{path}, line 1")
    for column in columns:
        if header.names.count(column) > 1:
            raise InputRefused(
                f"the header names the column {column!r} {header.names.count(column)} times.",
                where=f"{path}, line 1",
            )
    return CsvLayout(
        first_record=header.end,
        separator=separator,
        quoted=reading.quoting == "rfc4180",
        fields=len(header.names),
        positions=tuple(header.names.index(column) for column in columns),
        content_bytes=None if isinstance(location, str) or unpacked_name(path)[1] else location.size - header.end,
        remarks=tuple(_remarks(header, reading)),
    )


def read_head(location: Location) -> bytes:
    """Return the beginning of a file, one byte more of it than a header may have.

    Raises:
        InputRefused: the file can't be read.
        ReleaseFailed: it is not the file that was listed.
    """
    try:
        with open_records(location) as file:
            return file.read(LINE_LIMIT + 1)
    except (OSError, ValueError, ImportError) as error:
        raise InputRefused(f"the file cannot be read ({type(error).__name__}).", where=path_of(location)) from None


def header_of(head: bytes, *, path: str, reading: RecordReading) -> CsvHeader:
    """Return the header with which a file begins; whatever is refused follows from the header alone.

    Raises:
        InputRefused: the header is missing, too long, not UTF-8, or its lines end with CR alone.
    """
    where = f"{path}, line 1"
    if not head:
        raise InputRefused("the file is empty: there is no header.", where=where)
    if head.startswith(_UTF_16_MARKS):
        raise InputRefused("the file is UTF-16.", where=where, remedy="Save it as UTF-8.")
    mark = separator_byte(reading.separator)
    if head.startswith(_BYTE_ORDER_MARK) and reading.encoding != "utf-8":
        raise InputRefused(
            f"the file begins with UTF-8's byte order mark, and the specification says {reading.encoding}.",
            where=where,
            remedy="Remove [data].encoding.",
        )
    length = len(head)
    head = head.removeprefix(_BYTE_ORDER_MARK)
    skipped = length - len(head)
    end, following = _bounds(head, mark, quoted=reading.quoting == "rfc4180", whole=length <= LINE_LIMIT, where=where)
    line = head[:end]
    if not line.strip():
        raise InputRefused(
            "there is no header: the first line is empty.",
            where=where,
            remedy="The first line has to name the columns.",
        )
    if b"\0" in line:
        raise InputRefused(
            "the header has bytes of zero, as UTF-16 has.", where=where, remedy="Save the file as UTF-8."
        )
    fields = split_line(line, mark) if reading.quoting == "rfc4180" else line.split(mark)
    if fields is None:
        raise InputRefused("the quotes of the header do not close.", where=where)
    try:
        names = tuple(field.decode(reading.encoding) for field in fields)
    except UnicodeDecodeError:
        usual = reading.encoding == "utf-8"
        raise InputRefused(
            f"the header is not {'UTF-8' if usual else reading.encoding}.",
            where=where,
            remedy='Save the file as UTF-8, or say how it is encoded, for example [data].encoding = "cp1252".',
        ) from None
    return CsvHeader(line=line, names=names, end=skipped + following)


def _bounds(head: bytes, mark: bytes, *, quoted: bool, whole: bool, where: str) -> tuple[int, int]:
    """Return where the header's content ends, and what follows it begins."""
    raw_bytes = np.frombuffer(head, dtype=np.uint8)
    breaks = np.flatnonzero((raw_bytes == _LINE_FEED) | (raw_bytes == _CARRIAGE_RETURN))
    if quoted:
        # A name may hold a line break within quotes.
        breaks = breaks[~Quotes(raw_bytes, separator=mark).within(breaks, QuoteState.FRESH)]
    if not breaks.size:
        if not whole:
            remedy = "Does a quote in it not close?" if quoted and b'"' in head else ""
            raise InputRefused(f"the header line is longer than {LINE_LIMIT} bytes.", where=where, remedy=remedy)
        return len(head), len(head)
    end = int(breaks[0])
    if raw_bytes[end] == _LINE_FEED:
        return end, end + 1
    if head[end + 1 : end + 2] == b"\n":
        return end, end + 2
    raise InputRefused(
        "the line ends with a carriage return alone (CR), and records end with LF or CR LF.",
        where=where,
        remedy="Save the file with LF or CR LF line ends, for example by `tr '\\r' '\\n'`.",
    )


def likeness(name: str) -> str | None:
    """Return what value a name looks like, in words; None where it looks like a name."""
    if not name.strip():
        return "nothing"
    return next((what for pattern, what in _VALUE_LIKE if pattern.fullmatch(name.strip())), None)


def _remarks(header: CsvHeader, reading: RecordReading) -> Iterator[str]:
    if all(likeness(name) is not None for name in header.names):
        yield (
            "every name in the header looks like a value. Is the first line a record? Then the file has no header, "
            "and that record is lost"
        )
    if reading.encoding != "utf-8" and not header.line.isascii():
        try:
            header.line.decode("utf-8")
        except UnicodeDecodeError:
            return
        yield f"the header's bytes are UTF-8, and the specification says {reading.encoding}"


def _lost_columns(
    lost: list[str], *, header: CsvHeader, wanted: Sequence[bytes], separator: str, path: str
) -> InputRefused:
    remedy = "Check the names in [columns], and that the first line names the columns."
    for other in _USUAL_SEPARATORS:
        fields = split_line(header.line, other.encode())
        if other != separator and fields is not None and set(wanted) <= set(fields):
            remedy = f"With the separator {other!r} they are all there: set [data].separator."
            break
    else:
        if len(header.names) == 1 and len(wanted) > 1:
            remedy = f"The header has one field only: is {separator!r} the right [data].separator?"
        elif all(likeness(name) is not None for name in header.names):
            remedy = "The first line seems to be a record. It has to name the columns."
        elif not set(wanted) <= {name.encode() for name in lost}:
            # PRIVACY: a first line that names another wanted column is a header, so its names may be shown.
            names = [name for name in header.names if likeness(name) is None]
            remedy = f"{did_you_mean(lost, names)} {remedy}".strip()
    listed = ", ".join(repr(name) for name in lost)
    return InputRefused(f"the header does not name {listed}.", where=f"{path}, line 1", remedy=remedy)


def csv_names(location: Location, *, separator: str | None) -> SourceNames:
    """Return the names in a file's header, as `FileFormat.names`.

    PRIVACY: the first line is taken, and refused where it looks like a record; no refusal quotes it.

    Args:
        separator: None takes the one that splits the first line into most fields.

    Raises:
        InputRefused: the file can't be read, or its first line is no header.
    """
    path = path_of(location)
    # The separator that gives most fields is the right one nearly always, and the header alone decides it.
    marks = _USUAL_SEPARATORS if separator is None else (separator,)
    if any(len(mark) != 1 or not mark.isascii() or mark in '"\r\n\0' for mark in marks):
        raise InputRefused("a separator is one ASCII character, no quote or line break.", where="--separator")
    head = read_head(location)
    found: list[tuple[CsvHeader, str]] = []
    refusals: list[InputRefused] = []
    for mark in marks:
        try:
            found.append((header_of(head, path=path, reading=RecordReading(separator=mark)), mark))
        except InputRefused as refusal:
            refusals.append(refusal)
    if not found:
        raise refusals[0]
    header, mark = max(found, key=lambda each: len(each[0].names))
    _require_names(header.names, where=f"{path}, line 1")
    columns = tuple(NamedColumn(name=name, kind="unknown") for name in header.names)
    return SourceNames(separator=mark, columns=columns)


def _require_names(names: Sequence[str], *, where: str) -> None:
    # PRIVACY: where there is no header, the first line is a record, and its values would stand in the specification.
    for place, name in enumerate(names, start=1):
        looks = likeness(name)
        if looks is not None:
            raise InputRefused(
                f"field {place} of the first line is {looks}, so the line seems to be a record and not a header.",
                where=where,
                remedy="The first line has to name the columns. A column that is really called so must be renamed.",
            )
    if len(set(names)) != len(names):
        raise InputRefused(
            "the first line has a field twice, so it seems to be a record and not a header.",
            where=where,
            remedy="The first line has to name each column once.",
        )
