"""Generated census-like records: seeded, 9 columns of about 5 bytes a row in all, with their exact group counts."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "SMALL_ROW_GROUPS", "Column", "Records", "cells", "generate"]

SEED = 20_260_401
FILE_ROWS = 10_000_000
ROW_GROUP = 1_000_000
SMALL_ROW_GROUP = 65_536
SMALL_ROW_GROUPS = (SMALL_ROW_GROUP, 122_880)
"""What other writers make of themselves."""
BLOCK_ROWS = 1_000_000
_SLOTS = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of the records, and the level at which the benchmark releases it.

    Args:
        name: the column's name.
        values: its domain; texts, or consecutive whole numbers.
        weights: relative frequency of each value.
        labels: what each value becomes.
    """

    name: str
    values: tuple[str, ...] | tuple[int, ...]
    weights: tuple[float, ...]
    labels: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The distinct labels, in order."""
        return tuple(sorted(set(self.labels)))


def _texts(name: str, count: int, classes: int, skew: float) -> Column:
    values = tuple(f"{name} {place:04d}" for place in range(count))
    weights = tuple(1.0 / (place + 2) ** skew for place in range(count))
    labels = tuple(f"{name} class {place * classes // count}" for place in range(count))
    return Column(name=name, values=values, weights=weights, labels=labels)


def _numbers(name: str, count: int, width: int, weights: NDArray[np.float64]) -> Column:
    labels = tuple(f"[{n // width * width}, {min(n // width * width + width, count)})" for n in range(count))
    return Column(name=name, values=tuple(range(count)), weights=tuple(weights.tolist()), labels=labels)


_AGES = np.minimum(1.0, np.exp(-(np.arange(100) - 55.0) / 18.0))
_HOURS = np.where(np.arange(80) % 5 == 0, 4.0, 0.6) * np.exp(-(((np.arange(80) - 38.0) / 14.0) ** 2)) + 0.02

COLUMNS = (
    _numbers("age", 100, 20, _AGES),
    Column(name="sex", values=("female", "male"), weights=(0.51, 0.49), labels=("female", "male")),
    _texts("state", 51, 9, 0.7),
    _texts("education", 16, 4, 0.6),
    _texts("race", 7, 3, 1.6),
    _texts("marital", 5, 2, 0.9),
    _texts("occupation", 25, 5, 0.4),
    _numbers("hours", 80, 40, _HOURS),
    _texts("area", 980, 3, 0.3),
)
"""Texts are dictionaries of short strings; a value's frequency falls with its place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Records:
    """A generated data set.

    Args:
        files: the Parquet files, in order.
        rows: records in all.
        exact: exact number of records in each cell of the released columns; shape (cells,).
    """

    files: tuple[Path, ...]
    rows: int
    exact: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.files)


def cells() -> int:
    """Number of combinations of labels."""
    return int(np.prod([len(column.classes) for column in COLUMNS]))


def generate(
    folder: Path, *, rows: int, row_group: int = ROW_GROUP, seed: int = SEED, form: str = "parquet"
) -> Records:
    """Write the records into a folder, or find them there; the same arguments give the same records.

    Columns are independent, except that every eighth record repeats the one before it, which gives the runs
    that sorted or household data have. Files hold 10 million records each.

    Args:
        folder: where the data set's own folder is made.
        rows: records in all.
        row_group: records of a Parquet row group; it does not change the records.
        seed: of numpy's default generator.
        form: parquet; or csv, with quotes around texts; or csv.gz, the same compressed.
    """
    place = folder / f"census-{rows}-{row_group if form == 'parquet' else form}-{seed}"
    finished = place / "finished.json"
    if not finished.exists():
        place.mkdir(parents=True, exist_ok=True)
        firsts = range(0, rows, FILE_ROWS)
        parts = [(place, first, min(FILE_ROWS, rows - first), row_group, seed, form) for first in firsts]
        if len(parts) == 1:
            exact = _write_file(*parts[0])
        else:
            with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
                exact = np.sum(list(pool.map(_write_file, *zip(*parts, strict=True))), axis=0)
        np.save(place / "exact.npy", exact)
        finished.write_text(json.dumps({"rows": rows}), encoding="utf-8")
    return Records(files=tuple(sorted(place.glob("part-*"))), rows=rows, exact=np.load(place / "exact.npy"))


def _write_file(place: Path, first: int, rows: int, row_group: int, seed: int, form: str) -> NDArray[np.int64]:
    import pyarrow as pa
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    slots = [_slots(column) for column in COLUMNS]
    exact = np.zeros(cells(), dtype=np.int64)
    schema = pa.schema([(column.name, _dictionary(column).type) for column in COLUMNS])
    fields = [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    target, stored = place / f"part-{first // FILE_ROWS:04d}.{form}", pa.schema(fields)
    with ExitStack() as opened:
        if form == "parquet":
            writer = opened.enter_context(pq.ParquetWriter(target, stored, compression="zstd"))
        else:  # what the name says of its compression holds
            file = opened.enter_context(pa.output_stream(target, compression="detect"))
            writer = opened.enter_context(pc.CSVWriter(file, stored))
        for start in range(first, first + rows, BLOCK_ROWS):
            size = min(BLOCK_ROWS, first + rows - start)
            codes = _codes(np.random.default_rng([seed, start]), slots, size)
            exact += _tally(codes)
            table = _table(codes)
            for begin in range(0, size, row_group):
                writer.write_table(table.slice(begin, row_group).cast(stored), row_group)
    return exact


def _slots(column: Column) -> NDArray[np.uint16]:
    """Which value each of 2**16 equally likely numbers stands for; every value has at least one."""
    weights = np.array(column.weights)
    shares = 1 + np.floor(weights / weights.sum() * (_SLOTS - weights.size)).astype(np.int64)
    shares[np.argmax(shares)] += _SLOTS - shares.sum()
    return np.repeat(np.arange(weights.size, dtype=np.uint16), shares)


def _codes(rng: np.random.Generator, slots: list[NDArray[np.uint16]], size: int) -> list[NDArray[np.uint16]]:
    found = []
    for table in slots:
        codes = table[rng.integers(0, _SLOTS, size, dtype=np.uint16)]
        codes[7::8] = codes[6::8][: codes[7::8].size]
        found.append(codes)
    return found


def _tally(codes: list[NDArray[np.uint16]]) -> NDArray[np.int64]:
    keys = np.zeros(codes[0].size, dtype=np.int64)
    for column, values in zip(COLUMNS, codes, strict=True):
        place_of = {label: place for place, label in enumerate(column.classes)}
        keys *= len(column.classes)
        keys += np.array([place_of[label] for label in column.labels], dtype=np.int64)[values]
    return np.bincount(keys, minlength=cells())


def _dictionary(column: Column) -> pa.Array:
    import pyarrow as pa

    if isinstance(column.values[0], str):
        return pa.array(column.values).dictionary_encode()
    return pa.array(column.values, type=pa.int64())


def _table(codes: list[NDArray[np.uint16]]) -> pa.Table:
    import pyarrow as pa

    arrays = []
    for column, values in zip(COLUMNS, codes, strict=True):
        if isinstance(column.values[0], str):
            indices = pa.array(values.astype(np.int32))
            arrays.append(pa.DictionaryArray.from_arrays(indices, pa.array(column.values)))
        else:
            arrays.append(pa.array(values.astype(np.int64)))
    return pa.table(arrays, names=[column.name for column in COLUMNS])


if __name__ == "__main__":
    made = generate(Path(sys.argv[1]), rows=int(sys.argv[2]), row_group=int(sys.argv[3]))
    print(f"{made.rows} rows, {made.size / made.rows:.2f} bytes a row, {np.count_nonzero(made.exact)} groups")
