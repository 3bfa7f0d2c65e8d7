"""The same release by hand and by this project: sample, generalize, count, drop small groups; one process each."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .census_data import COLUMNS, Column

if TYPE_CHECKING:
    from crowdblend.tasks.counting.executors import Executor

__all__ = ["ALL", "CLUSTERS", "CONTESTANTS", "EVERY_RECORD", "THREADS", "Question", "cell_counts", "main", "peak_mb"]

THREADS = 2
ALL = "all"
"""Instead of a rate: every record is counted."""
EVERY_RECORD = ("ours", "ours, pyarrow alone", "DuckDB")
"""Those that can be asked for it."""
Answer = tuple[list[Sequence[str]], NDArray[np.int64]]
"""Per released column the label of each group, and each group's count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What every contestant is asked.

    Args:
        files: Parquet or CSV files, all of one folder.
        rate: sampling rate; None counts every record, for those of EVERY_RECORD.
        k: groups below it are dropped.
        columns: with their labels.
        seed: of the coins, where a contestant has any use for it.
    """

    files: tuple[str, ...]
    rate: float | None = 0.1
    k: int = 20
    columns: tuple[Column, ...] = field(default=COLUMNS)
    seed: int = 1

    @property
    def form(self) -> str:
        """Of the files, whatever their compression: parquet or csv."""
        return Path(self.files[0]).suffixes[0][1:]


def ours(question: Question, threads: int = THREADS) -> Callable[[], Answer]:
    """This project's record path on threads, from the listing of the files to the surviving groups' labels."""
    from crowdblend.tasks.counting.executors import LocalThreads

    return _release(question, LocalThreads(workers=threads))


def ours_on_cluster(workers: int, question: Question) -> Callable[[], Answer]:
    """The same on worker processes of one thread each, of a scheduler on loopback that has started before."""
    from crowdblend.tasks.counting.executors import DaskCluster
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    client = Client(cluster, set_as_default=False)
    client.wait_for_workers(workers)
    return _release(question, DaskCluster(client=client))


def _release(question: Question, executor: Executor) -> Callable[[], Answer]:
    from crowdblend.accounting.kernel.keys.private_store import KeyRef
    from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
    from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
    from crowdblend.mechanisms.kernel.sampling import sample_commitment
    from crowdblend.mechanisms.kinds.microdata import suppress
    from crowdblend.tasks.counting.group_counting import count_job, group_counts
    from crowdblend.tasks.inputs.list import list_source
    from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
    from crowdblend.tasks.readers.values import RecordReading
    from crowdblend.tasks.stages.count import key_source_at
    from crowdblend.tasks.stages.table import label_columns

    pattern = str(Path(question.files[0]).parent / f"*.{question.form}*")
    generation = GeneralizationMap(
        columns=tuple(
            MappedColumn(
                name=column.name,
                hierarchy=ValueHierarchy.from_rows(
                    [(str(value), label, "*") for value, label in zip(column.values, column.labels, strict=True)]
                ),
                level=1,
            )
            for column in question.columns
        )
    )

    def release() -> Answer:
        chunks = plan_chunks(
            check_metadata(
                list_source(pattern, base=Path()), columns=generation.names, reading=RecordReading(separator=",")
            )
        )
        with tempfile.TemporaryDirectory(prefix="record-path-") as folder:
            path = Path(folder) / "sampling.key"
            key = np.random.default_rng([question.seed, time.perf_counter_ns()]).bytes(32)
            path.write_bytes(key)
            rate = None if question.rate is None else Decimal(str(question.rate))
            with key_source_at(None if rate is None else KeyRef(path=path), executor) as key_source:
                job = count_job(
                    release_id="benchmark",
                    sample_id=None if rate is None else sample_commitment(key),
                    generalization=generation,
                    rate=rate,
                    reading=RecordReading(),
                    key_source=key_source,
                )
                counts = group_counts(chunks, job=job, executor=executor)
        groups = suppress(counts.keys, counts.counts, question.k)
        labels = [np.array(column.texts) for column in label_columns(groups.keys, generalization=generation)]
        return [*labels], groups.counts

    return release


def ours_by_pyarrow(question: Question) -> Callable[[], Answer]:
    """The same as it is installed where there is no compiler: pyarrow decodes every page."""
    for name in ("csv_decoder", "page_decoder"):
        sys.modules[f"crowdblend.tasks.readers.{name}"] = None  # type: ignore[assignment]
    release = ours(question)
    from crowdblend.tasks.readers import sampled_pages

    if sampled_pages.AVAILABLE:
        raise RuntimeError("the sampled-position reader was imported before")
    return release


def duckdb(question: Question) -> Callable[[], Answer]:
    """DuckDB: Bernoulli TABLESAMPLE, one lookup table and join per column."""
    import duckdb as database

    connection = database.connect(config={"threads": THREADS})
    for column in question.columns:
        connection.execute(
            f"CREATE TABLE lookup_{column.name} AS SELECT unnest($values) AS value, unnest($labels) AS label",
            {"values": list(column.values), "labels": list(column.labels)},
        )
    labels = ", ".join(f"lookup_{column.name}.label AS {column.name}" for column in question.columns)
    joins = " ".join(
        f"JOIN lookup_{column.name} ON lookup_{column.name}.value = r.{column.name}" for column in question.columns
    )
    # The sample is drawn from the records, before any join.
    sample = "" if question.rate is None else f"TABLESAMPLE BERNOULLI({question.rate * 100}%)"
    query = (
        f"SELECT {labels}, count(*) AS n FROM (SELECT * FROM read_{question.form}($files) "  # noqa: S608
        f"{sample}) r {joins} GROUP BY ALL HAVING count(*) >= {question.k}"
    )

    def release() -> Answer:
        found = connection.execute(query, {"files": list(question.files)}).fetchnumpy()
        return [found[column.name].tolist() for column in question.columns], found["n"].astype(np.int64)

    return release


def polars(question: Question) -> Callable[[], Answer]:
    """Polars: a mask over the row numbers, replacement by a dictionary per column."""
    import polars as frames

    names = [column.name for column in question.columns]
    mapped = [
        frames.col(column.name).replace_strict(list(column.values), list(column.labels), return_dtype=frames.String)
        for column in question.columns
    ]

    def release() -> Answer:
        rng = np.random.default_rng([question.seed, time.perf_counter_ns()])
        scan = frames.scan_parquet if question.form == "parquet" else frames.scan_csv
        lazy = scan(list(question.files)).select(names)
        rows = lazy.select(frames.len()).collect().item()
        kept = frames.Series("kept", rng.random(rows, dtype=np.float32) < question.rate)
        found = (
            lazy.filter(kept)
            .group_by(names)
            .len("n")
            .with_columns(mapped)
            .group_by(names)
            .agg(frames.col("n").sum())
            .filter(frames.col("n") >= question.k)
            .collect()
        )
        return [found[name].to_list() for name in names], found["n"].to_numpy().astype(np.int64)

    return release


def dask_dataframe(question: Question) -> Callable[[], Answer]:
    """Plain dask.dataframe on threads: a random mask per partition, `map` per column, `groupby().size()`."""
    import dask
    import dask.dataframe as dd

    names = [column.name for column in question.columns]
    tables = {column.name: dict(zip(column.values, column.labels, strict=True)) for column in question.columns}

    def part(frame: Any) -> Any:
        rng = np.random.default_rng([question.seed, time.perf_counter_ns()])
        sampled = frame[rng.random(len(frame)) < question.rate]
        return sampled.assign(**{name: sampled[name].map(table) for name, table in tables.items()})

    def release() -> Answer:
        with dask.config.set(num_workers=THREADS):
            frame = dd.read_parquet(list(question.files), columns=names)
            sizes = frame.map_partitions(part).groupby(names).size().compute(scheduler="threads")
        sizes = sizes[sizes >= question.k]
        return [sizes.index.get_level_values(name).tolist() for name in names], sizes.to_numpy().astype(np.int64)

    return release


CONTESTANTS: dict[str, Callable[[Question], Callable[[], Answer]]] = {
    "ours": ours,
    "ours, pyarrow alone": ours_by_pyarrow,
    "DuckDB": duckdb,
    "Polars": polars,
    "dask.dataframe": dask_dataframe,
}
CLUSTERS: dict[str, Callable[[Question], Callable[[], Answer]]] = {
    f"ours, {workers} worker processes": partial(ours_on_cluster, workers) for workers in (2, 3, 4)
}


def cell_counts(answer: Answer, columns: tuple[Column, ...] = COLUMNS) -> NDArray[np.int64]:
    """An answer as one count for every combination of labels; shape (cells,)."""
    labels, counts = answer
    keys = np.zeros(len(counts), dtype=np.int64)
    cells = 1
    for column, found in zip(columns, labels, strict=True):
        place_of = {label: place for place, label in enumerate(column.classes)}
        keys = keys * len(column.classes) + np.array([place_of[label] for label in found], dtype=np.int64)
        cells *= len(column.classes)
    dense = np.zeros(cells, dtype=np.int64)
    np.add.at(dense, keys, counts)
    return dense


def peak_mb() -> float:
    """Most memory of this process so far, MiB; what the system tells its parent starts with the parent's own."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = [line.split() for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM")]
    return int(found[0][1]) / 1024


def main(words: list[str]) -> None:
    """`NAME FOLDER RATE|all K TARGET`: answer once at the start, and again for each line of standard input.

    For each answer one JSON line: seconds and processor seconds. The last answer's counts go to TARGET.
    """
    name, folder, rate, k, target = words
    files = tuple(str(path) for path in sorted(Path(folder).glob("part-*")))
    question = Question(files=files, rate=None if rate == ALL else float(rate), k=int(k))
    release = (CONTESTANTS | CLUSTERS)[name](question)
    while True:
        begun, used = time.perf_counter(), time.process_time()
        answer = release()
        line = {"seconds": time.perf_counter() - begun, "processor": time.process_time() - used}
        line["peak_mb"] = peak_mb()
        print(json.dumps(line), flush=True)
        if not sys.stdin.readline():
            break
    np.save(target, cell_counts(answer))
    sys.stdout.flush()
    os._exit(0)  # what a library does at its exit is not part of the release


if __name__ == "__main__":
    main(sys.argv[1:])
