"""What a format of files of records is: its files are recognised by name, checked by metadata alone, cut and read.

A format is one object. Those that are known stand in the registry (`tasks/inputs/source_formats.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.sampling import ChunkIdentity
from ..kernel.counting import CoinsOfBlocks
from .column_codes import RecordCoder
from .source_files import Location, SourceFile
from .values import RecordReading

ColumnKind = Literal["text", "integer", "boolean", "date", "number", "unknown", "unmapped"]

_TASK_RECORDS = 1 << 20
_TASK_BYTES = 64 << 20
_LARGEST_TASK = 4
_TASKS_EACH = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class FileLayout(ABC):
    """What a file's header, head or footer says of the released columns.

    Args:
        types: per column, in the order asked for, its type; None where the format has none, as CSV.
        labels: per column that has value labels, {stored value: label}.
        remarks: what seems wrong with the header and may be right, in words that quote nothing of it.
    """

    types: tuple[pa.DataType, ...] | None = None
    labels: Mapping[str, Mapping[float | str, str]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    @abstractmethod
    def outline(self) -> tuple[int, ...]:
        """Return what a copy of the file would share with it, whatever columns are released."""

    @property
    @abstractmethod
    def records(self) -> int | None:
        """Return how many records the file has; None where that isn't known before they are read."""

    @property
    def empty(self) -> bool:
        """Tell whether it is known that the file has no record."""
        return self.records == 0

    @abstractmethod
    def chunks(self, file: SourceFile, number: int, read_by: FileFormat) -> Sequence[Chunk]:
        """Cut the file, which has a number among those of the source.

        INVARIANT: the cut depends on the file alone, since a chunk's identity decides its coins.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """A piece of a file that has coins of its own.

    Args:
        file: as it was listed.
        identity: the file's number and the piece's number in it.
        read_by: the format of the file.
        records: how many there are, by the metadata; None where that isn't known before they are read.
        read_bytes: how many are decoded, by which pieces are put together in a task.
    """

    file: SourceFile
    identity: ChunkIdentity
    read_by: FileFormat
    records: int | None
    read_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedColumns:
    """What is looked for in the metadata of a source's files.

    Args:
        names: of the released columns that the files must have.
        reading: how the records are read.
        partition_columns: names of those that folders bear, which the files may not have.
        field_ids: by which a lake table's files must have their columns; empty where names decide.
    """

    names: Sequence[str]
    reading: RecordReading = field(default_factory=RecordReading)
    partition_columns: Sequence[str] = ()
    field_ids: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedColumn:
    """A column as a specification is begun with.

    Args:
        name: as the source has it.
        kind: what its type is to a hierarchy; "unknown" in CSV, which has no types, "unmapped" for a type that has
            no text.
        labels: its value labels with their codes, in the order of the codes.
    """

    name: str
    kind: ColumnKind
    labels: tuple[tuple[float | str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceNames:
    """What may be known of a source before anything is decided.

    Args:
        separator: of CSV records; None for others.
        columns: in their order.
    """

    separator: str | None
    columns: tuple[NamedColumn, ...]


@dataclass(frozen=True)
class FileFormat(ABC):
    """A format of files of records. It travels to workers with the chunks, so a subclass has no state."""

    name: ClassVar[str]
    """As `--json` and the registry have it."""
    shown: ClassVar[str]
    """As people call it."""
    suffixes: ClassVar[tuple[str, ...]]
    """Endings of the names of its files, in lower case."""
    packed: ClassVar[bool] = False
    """Whether its files may be compressed as a whole."""

    @abstractmethod
    def names(self, location: Location, *, separator: str | None) -> SourceNames:
        """Return the names of a file's columns, by its metadata alone.

        PRIVACY: no record is looked at, and no refusal quotes a text that may be a record's.

        Raises:
            InputRefused: the metadata can't be read, or a first line seems to be a record.
        """

    @abstractmethod
    def layout(self, file: Location, asked: AskedColumns) -> FileLayout:
        """Check that a file has the released columns, by its metadata alone.

        PRIVACY: this runs before the charge, so it must not depend on a record.

        Raises:
            InputRefused: names the file and, where there is one, the column.
            ReleaseFailed: it is not the file that was listed.
        """

    @abstractmethod
    def keys(
        self, chunks: Sequence[Chunk], *, coders: Sequence[RecordCoder], key_words: int, coins: CoinsOfBlocks
    ) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
        """Give the keys of the records that coins keep, batch by batch, each of shape (words, n), with their chunk.

        INVARIANT: `coins` is asked once for each chunk, when its reading begins, and told of each record once.

        Args:
            chunks: of one file.
            coders: one per released column that the file has, in the order of the layout's columns.
            key_words: 64-bit words of a key.
            coins: of each chunk.

        Raises:
            ReleaseFailed: a record cannot be read, or the file is not the one that was listed.
        """

    def reading(self, reading: RecordReading) -> RecordReading:
        """Return how its texts are read; they are UTF-8 whatever the specification says, but for CSV."""
        return reading.of_unicode


@contextmanager
def records_read(place: str, what: str = "records") -> Iterator[None]:
    """Turn a fault of reading at a place into a failure of the release.

    PRIVACY: a reader's own message may quote what it stumbled over, so only its kind is reported.

    Raises:
        ReleaseFailed: there is one.
    """
    try:
        yield
    except (OSError, ImportError, ValueError, IndexError, pa.ArrowException) as error:
        raise ReleaseFailed(
            f"the {what} cannot be read ({type(error).__name__}).",
            where=place,
            remedy="Repair the file, or abandon the release; its cost stays spent.",
        ) from None


def changed_since_listed(place: str) -> ReleaseFailed:
    """Return the failure of a file that has other records than its metadata said."""
    return ReleaseFailed("the file has changed since it was listed.", where=place)


def column_kind(type_: pa.DataType) -> ColumnKind:
    """Return what a type is to a hierarchy."""
    if pa.types.is_dictionary(type_):
        return column_kind(type_.value_type)
    if pa.types.is_decimal(type_):
        return "integer" if type_.scale == 0 else "number"
    if pa.types.is_timestamp(type_) and type_.tz is None:
        return "date"
    kinds: tuple[tuple[ColumnKind, tuple[Callable[[pa.DataType], bool], ...]], ...] = (
        ("text", (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)),
        ("integer", (pa.types.is_integer,)),
        ("boolean", (pa.types.is_boolean,)),
        ("date", (pa.types.is_date,)),
        ("number", (pa.types.is_floating,)),
    )
    return next((kind for kind, tests in kinds if any(test(type_) for test in tests)), "unmapped")


def group_chunks(
    chunks: Sequence[Chunk], *, task_records: int = _TASK_RECORDS, task_bytes: int = _TASK_BYTES
) -> list[tuple[Chunk, ...]]:
    """Put neighbouring chunks together until a task has about a million records, or 64 MiB to decode.

    How they are grouped changes no coin. A chunk that is larger stays alone.

    Args:
        chunks: in the order of `plan_chunks`.
        task_records: records that are enough for a task.
        task_bytes: bytes that are enough for a task.
    """
    groups: list[list[Chunk]] = []
    records, size = task_records, task_bytes
    for chunk in chunks:
        more_records = chunk.records or 0
        # Small row groups share a task, since each task costs the scheduler some milliseconds.
        if records + more_records > task_records or size + chunk.read_bytes > task_bytes:
            groups.append([])
            records, size = 0, 0
        groups[-1].append(chunk)
        records += more_records
        size += chunk.read_bytes
    return [tuple(group) for group in groups]


def chunks_of_tasks(chunks: Sequence[Chunk], *, records: int) -> list[tuple[Chunk, ...]]:
    """As `group_chunks`, with so many records in a task where these are fewer."""
    most = min(records, _TASK_RECORDS)
    return group_chunks(chunks, task_records=most, task_bytes=_TASK_BYTES * most // _TASK_RECORDS)


def shared_chunks(
    chunks: Sequence[Chunk], *, workers: int, records: int = _LARGEST_TASK * _TASK_RECORDS
) -> list[tuple[Chunk, ...]]:
    """As `group_chunks`, with up to four times as much in a task: each reads footers and makes tables of codes anew.

    Every worker still gets at least four tasks, where there are so many.

    Args:
        chunks: in the order of `plan_chunks`.
        workers: how many tasks run at once.
        records: at most so many in a task, but for larger chunks.
    """
    if records < _TASK_RECORDS:
        return chunks_of_tasks(chunks, records=records)
    groups = group_chunks(chunks)
    # Larger tasks send fewer partial counts, as long as every worker still has several tasks to balance the load.
    larger = max(1, min(_LARGEST_TASK, records // _TASK_RECORDS, len(groups) // (_TASKS_EACH * workers)))
    return group_chunks(chunks, task_records=larger * _TASK_RECORDS, task_bytes=larger * _TASK_BYTES)
