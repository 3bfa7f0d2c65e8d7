"""How long wide files take: all pairs of many columns counted beside DuckDB, and whole runs of the command.

DuckDB and this project's counting answer in turn, in one process, from whole numbers in memory, and every answer is
checked against the other. DuckDB has a table of one-byte columns and groups by all pairs at once with two threads; ours
puts the columns together to keys, and counts all margins besides. The runs are the command with its flow, in processes
of their own, on Parquet files.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..deletion_path import run
from ..generated_pages import machine, write_between
from ..record_path.census_data import SEED, Column, Records

__all__ = ["columns_of", "counted_pairs", "main", "written"]

LABELS = 7
THREADS = 2
ROWS_AT_ONCE = 1_000_000
KEYS_AT_ONCE = 1 << 14
BY = "benchmarks/wide/wide_speed.py"

Codes = list[NDArray[np.uint8]]
Tables = list[NDArray[np.int64]]


def columns_of(number: int) -> tuple[Column, ...]:
    """Return columns of seven labels, which become three coarser ones."""
    values = tuple(f"value {place}" for place in range(LABELS))
    labels = tuple(f"class {place // 3}" for place in range(LABELS))
    weights = tuple(1 / (1 + place) for place in range(LABELS))
    return tuple(
        Column(name=f"column_{place:02d}", values=values, weights=weights, labels=labels) for place in range(number)
    )


def blocks_of(rows: int, columns: int) -> Iterator[Codes]:
    """Yield the codes of some records at a time, 0 to 6: half of a column follows the one before."""
    for first in range(0, rows, ROWS_AT_ONCE):
        coins = np.random.default_rng([SEED, first])
        size, codes = min(ROWS_AT_ONCE, rows - first), []
        for place in range(columns):
            own = np.minimum(coins.geometric(0.35, size) - 1, LABELS - 1).astype(np.uint8)
            codes.append(np.where(coins.random(size) < 0.5, codes[-1], own) if place else own)
        yield codes


def ours(codes: Codes) -> Callable[[], Tables]:
    """Keys of the records, all margins, and all pairs by them."""
    from crowdblend.mechanisms.kernel.group_counts import GroupCounts
    from crowdblend.mechanisms.kernel.recoding import KeyLayout
    from crowdblend.mechanisms.kinds.margins import exact_margins

    layout = KeyLayout(sizes=(LABELS,) * len(codes))
    pairs = list(combinations(range(len(codes)), 2))
    margins = [*((place,) for place in range(len(codes))), *pairs]

    def count() -> Tables:
        keys = np.empty((layout.key_words, codes[0].size), dtype=np.int64)
        for first in range(0, codes[0].size, KEYS_AT_ONCE):
            some = slice(first, first + KEYS_AT_ONCE)
            keys[:, some] = layout.keys([own[some].astype(np.int64) for own in codes])
        groups = GroupCounts(keys, np.ones(keys.shape[1], dtype=np.int64))
        return exact_margins(groups, layout=layout, margins=margins)[len(codes) :]

    return count


def duckdb(codes: Codes) -> Callable[[], Tables]:
    """Grouping sets of all pairs in one query."""
    import duckdb as database
    import pyarrow as pa

    connection = database.connect(config={"threads": THREADS})
    names = [f"c{place}" for place in range(len(codes))]
    connection.register("given", pa.table(dict(zip(names, codes, strict=True))))
    connection.execute("CREATE TABLE records AS SELECT * FROM given")
    pairs = list(combinations(range(len(codes)), 2))
    sets = ", ".join(f"({names[first]}, {names[second]})" for first, second in pairs)
    query = f"SELECT {', '.join(names)}, count(*) AS n FROM records GROUP BY GROUPING SETS ({sets})"  # noqa: S608

    def count() -> Tables:
        found = connection.execute(query).fetchnumpy()
        there = [~np.ma.getmaskarray(found[name]) for name in names]
        tables = []
        for first, second in pairs:
            own = there[first] & there[second]
            cells = np.zeros(LABELS * LABELS, dtype=np.int64)
            place = (
                np.asarray(found[names[first]])[own].astype(np.int64) * LABELS + np.asarray(found[names[second]])[own]
            )
            cells[place] = found["n"][own]
            tables.append(cells)
        return tables

    return count


def counted_pairs(codes: Codes, *, rounds: int) -> dict[str, tuple[float, float]]:
    """Return the medians of seconds and processor seconds of each contestant.

    Raises:
        RuntimeError: their answers differ.
    """
    contestants = {"ours": ours(codes), "DuckDB": duckdb(codes)}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        answers = []
        for name, count in contestants.items():
            begun, used = time.perf_counter(), time.process_time()
            answers.append(count())
            taken[name].append((time.perf_counter() - begun, time.process_time() - used))
        if not all(np.array_equal(one, other) for one, other in zip(*answers, strict=True)):
            raise RuntimeError("the answers differ")
    return {
        name: (statistics.median(wall for wall, _ in every), statistics.median(used for _, used in every))
        for name, every in taken.items()
    }


def written(folder: Path, *, rows: int, columns: tuple[Column, ...]) -> Records:
    """Write the records to Parquet files, or find them there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = folder / f"wide-{rows}-{len(columns)}"
    if not place.exists():
        place.mkdir(parents=True)
        for number, codes in enumerate(blocks_of(rows, len(columns))):
            arrays = [
                pa.DictionaryArray.from_arrays(pa.array(own), list(column.values))
                for own, column in zip(codes, columns, strict=True)
            ]
            table = pa.table(arrays, names=[column.name for column in columns])
            pq.write_table(table, place / f"part-{number:05d}.parquet")
    return Records(files=tuple(sorted(place.glob("part-*"))), rows=rows, exact=np.empty(0, dtype=np.int64))


def main(argv: list[str] | None = None) -> None:
    """Generate, measure, check and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="records whose pairs are counted")
    parser.add_argument("--columns", type=int, default=24, help="their columns")
    parser.add_argument("--rounds", type=int, default=3, help="answers of each; 0 leaves them out")
    parser.add_argument("--runs", nargs="*", default=["1000000x100", "10000000x24"], help="records x columns of runs")
    parser.add_argument("--data", type=Path, help="folder for generated data, kept; otherwise a temporary one")
    parser.add_argument("--write", type=Path, help="page with the tables, such as docs/benchmarks/wide-files.md")
    arguments = parser.parse_args(argv)
    lines: list[str] = []

    def tell(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    tell(f"Columns of {LABELS} labels; {machine()}.")
    tell("")
    if arguments.rounds:
        pairs = arguments.columns * (arguments.columns - 1) // 2
        codes = [np.concatenate(own) for own in zip(*blocks_of(arguments.rows, arguments.columns), strict=True)]
        times = counted_pairs(codes, rounds=arguments.rounds)
        tell(f"| {pairs} pairs of {arguments.columns} columns, {arguments.rows:,} records | seconds | of processors |")
        tell("|---|---|---|")
        for name, (wall, used) in times.items():
            tell(f"| {name} | {wall:.2f} | {used:.2f} |")
        ratios = [theirs / own for own, theirs in zip(times["ours"], times["DuckDB"], strict=True)]
        tell(f"| DuckDB's over ours | {ratios[0]:.1f} | {ratios[1]:.1f} |")
        tell("")
        del codes
    with tempfile.TemporaryDirectory(prefix="wide-speed-") as temporary:
        if arguments.runs:
            tell("| whole run with chosen pairs and labels | charge, s | count, s | publish, s | all, s | MiB |")
            tell("|---|---|---|---|---|---|")
        for number, words in enumerate(arguments.runs):
            rows, width = map(int, words.split("x"))
            columns = columns_of(width)
            records = written(arguments.data or Path(temporary), rows=rows, columns=columns)
            folder = Path(temporary) / f"run-{number}"
            folder.mkdir()
            _, took = run(
                records,
                folder,
                form="counts",
                columns=columns,
                levels='levels = "auto"',
                margins='[margins]\npairs = "auto"',
            )
            figures = " | ".join(f"{took[name]:.1f}" for name in ("charge", "count", "publish", "all"))
            tell(f"| {rows:,} records, {width} columns | {figures} | {took['MiB']:.0f} |")
    if arguments.write:
        write_between(arguments.write, lines, by=BY)


if __name__ == "__main__":
    main()
