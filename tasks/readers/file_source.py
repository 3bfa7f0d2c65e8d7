"""The records of files as a source of the kernel: each column's values become codes, added up to keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.generalization_map import MappedColumn
from ...mechanisms.kernel.contributions import PERSON_WORDS, ContributionKeys
from ...mechanisms.kernel.recoding import KeyLayout
from ...mechanisms.kernel.sampling import ChunkIdentity
from ..kernel.counting import CoinsOfBlocks
from .column_codes import ColumnCoder, PersonCoder, RecordCoder
from .file_formats import Chunk
from .source_files import Partition
from .values import RecordReading


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSource:
    """Reads chunks of files, each by its format.

    Args:
        columns: the columns with the levels of their codes, in the order of the keys' layout.
        person: the column that names the person; None where none does.
    """

    columns: tuple[MappedColumn, ...]
    reading: RecordReading
    person: str | None = None

    def keys(
        self, blocks: Sequence[Chunk], *, layout: KeyLayout, coins: CoinsOfBlocks, persons: ContributionKeys | None
    ) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
        """Give the keys of the records that the coins keep, as `RecordSource` has it."""
        reading = blocks[0].read_by.reading(self.reading) if blocks else self.reading
        before = 0 if persons is None else PERSON_WORDS
        coders: list[RecordCoder] = [
            ColumnCoder(column=column, placement=place._replace(word=before + place.word), reading=reading)
            for column, place in zip(self.columns, layout.placements, strict=True)
        ]
        if persons is not None:
            coders.append(PersonCoder(name=str(self.person), keys=persons, reading=reading))
        return keys_of_chunks(blocks, coders=coders, key_words=before + layout.key_words, coins=coins)


def keys_of_chunks(
    chunks: Sequence[Chunk], *, coders: Sequence[RecordCoder], key_words: int, coins: CoinsOfBlocks
) -> Iterator[tuple[ChunkIdentity, NDArray[np.int64]]]:
    """Give the keys of the records that coins keep, batch by batch in the order of the chunks, each with its chunk.

    Each batch has shape (words, n).

    Raises:
        ReleaseFailed: the records cannot be read.
    """
    for file, group in groupby(chunks, key=lambda chunk: chunk.file):
        stored, of_partition = _split(coders, file.partition, key_words=key_words)
        together = list(group)
        read_by = together[0].read_by
        for identity, keys in read_by.keys(together, coders=stored, key_words=key_words, coins=coins):
            yield identity, keys + of_partition


def _split(
    coders: Sequence[RecordCoder], partition: Partition, *, key_words: int
) -> tuple[list[RecordCoder], NDArray[np.int64]]:
    """Return the coders of columns that a file has, and what the others add to each of its keys; shape (words, 1).

    A partition's value is coded once for the file, not for each record.
    """
    values = dict(partition)
    stored: list[RecordCoder] = []
    of_partition = np.zeros((key_words, 1), dtype=np.int64)
    for coder in coders:
        if isinstance(coder, ColumnCoder) and coder.name in values:
            of_partition[coder.placement.word] += coder.scaled_code(values[coder.name])
        else:
            stored.append(coder)
    return stored, of_partition
