"""Counting over partitions: exact, without the key in the graph, and failing in words that tell no value."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from decimal import Decimal
from pathlib import Path

import dask
import dask.threaded
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.mechanisms.kernel.sampling import sample_commitment
from crowdblend.tasks.counting import group_counting as chunk_counts
from crowdblend.tasks.counting.count_frames import counts_of_frame, merged_counts
from crowdblend.tasks.counting.executors import LocalProcesses, LocalThreads
from crowdblend.tasks.counting.group_counting import (
    count_chunks,
    count_job,
    group_counts,
    partial_counts,
)
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.kernel.counting import CountJob, require_every_block, unmarked
from crowdblend.tasks.readers.file_formats import Chunk
from crowdblend.tasks.readers.values import RecordReading

READING = RecordReading()

KEY = bytes(range(100, 132))
RATE = Decimal("0.4")
MAP = GeneralizationMap(
    columns=(
        MappedColumn(name="letter", hierarchy=ValueHierarchy.from_values(["a", "b", "c"]), level=0),
        MappedColumn(name="wide", hierarchy=IntervalHierarchy(lower=0, upper=2**59, widths=()), level=0),
        MappedColumn(name="number", hierarchy=IntervalHierarchy(lower=0, upper=2**40, widths=(10,)), level=1),
    )
)


@pytest.fixture
def key(tmp_path) -> KeyRef:
    path = tmp_path / "store" / "sampling.key"
    path.parent.mkdir()
    path.write_bytes(KEY)
    return KeyRef(path=path)


def job_of(key: KeyRef, *, rate: Decimal = RATE, secret: bytes = KEY, release_id: str = "r-1") -> CountJob:
    return count_job(
        release_id=release_id,
        sample_id=sample_commitment(secret),
        generalization=MAP,
        rate=rate,
        reading=READING,
        key_source=key,
    )


def table_of(records: int) -> pa.Table:
    rng = np.random.default_rng(records)
    return pa.table(
        {
            "letter": pa.array(np.array(["a", "b", "zz"])[rng.integers(0, 3, records)]),
            "number": rng.integers(0, 40, records),
            "wide": rng.integers(0, 2, records),
        }
    )


def chunks_of(folder: Path, records: int = 4000, *, kind: str = "parquet") -> tuple[Chunk, ...]:
    folder.mkdir(exist_ok=True)
    if kind == "parquet":
        pq.write_table(table_of(records), folder / "a.parquet", row_group_size=300)
        pq.write_table(table_of(records // 2), folder / "b.parquet", row_group_size=700)
    else:
        pa.csv.write_csv(table_of(records), folder / "a.csv")
    listed = list_source(str(folder), base=folder)
    return plan_chunks(check_metadata(listed, columns=MAP.names, reading=RecordReading(separator=",")))


def as_counter(groups) -> Counter:
    return Counter(dict(zip(map(tuple, groups.keys.T.tolist()), groups.counts.tolist(), strict=True)))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_tree_adds_up_what_the_chunks_hold(tmp_path, key, kind):
    chunks = chunks_of(tmp_path / "in", kind=kind)
    job = job_of(key)
    assert MAP.key_words == 2
    expected: Counter = Counter()
    for chunk in chunks:
        expected.update(as_counter(unmarked(counts_of_frame(count_chunks((chunk,), job=job))).counts))
    counted = group_counts(chunks, job=job, executor=LocalThreads(workers=2))
    assert as_counter(counted) == expected
    ordered = list(map(tuple, counted.keys.T.tolist()))
    assert ordered == sorted(ordered)
    single = merged_counts(partial_counts([(chunk,) for chunk in chunks], job=job), split_every=2)
    merged = unmarked(counts_of_frame(single.compute(scheduler=dask.threaded.get)))
    assert as_counter(merged.counts) == expected
    require_every_block(merged.blocks, chunks)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_without_a_rate_every_record_is_counted_and_no_key_is_read(tmp_path, key, kind):
    """As a coin that never fails would count them. Control: a job with half of the coins counts fewer."""
    chunks = chunks_of(tmp_path / "in", kind=kind)
    job = count_job(release_id="r-1", sample_id=None, generalization=MAP, rate=None, reading=READING, key_source=None)
    counted = group_counts(chunks, job=job, executor=LocalThreads(workers=2))
    nearly = group_counts(chunks, job=job_of(key, rate=1 - Decimal("1e-19")), executor=LocalThreads(workers=2))
    assert as_counter(counted) == as_counter(nearly)
    assert counted.counts.sum() == (6000 if kind == "parquet" else 4000)
    half = group_counts(chunks, job=job_of(key, rate=Decimal("0.5")), executor=LocalThreads(workers=2))
    assert half.counts.sum() < 0.6 * counted.counts.sum()


def test_a_thread_whose_start_is_interrupted_ends(tmp_path, key, monkeypatch):
    """Python waits for every thread before it ends."""
    chunks, before = chunks_of(tmp_path / "in", kind="csv"), set(threading.enumerate())
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        thread.daemon = True  # so that these tests end also where it doesn't
        start(thread)
        raise KeyboardInterrupt

    for workers in (2, None):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                group_counts(chunks, job=job_of(key), executor=LocalThreads(workers=workers))
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()


def test_many_tasks_are_counted_some_after_the_others(tmp_path, key, monkeypatch):
    """Dask needs memory with the square of the tasks for a graph as deep as theirs: of 100,000, 20 GB."""
    chunks, job, told = chunks_of(tmp_path / "in"), job_of(key), []
    whole = group_counts(chunks, job=job, executor=LocalThreads(workers=2))
    monkeypatch.setattr(chunk_counts, "GROUPS_AT_ONCE", 5)
    monkeypatch.setattr(chunk_counts, "group_chunks", lambda chunks: [(chunk,) for chunk in chunks])
    found = group_counts(chunks, job=job, executor=LocalThreads(workers=2), on_progress=lambda *pair: told.append(pair))
    assert as_counter(found) == as_counter(whole)
    assert told == sorted(told)
    assert (told[0], told[-1]) == ((0, len(chunks)), (len(chunks), len(chunks)))


def test_no_records_are_a_valid_empty_count(tmp_path, key):
    (tmp_path / "in.csv").write_bytes(b"letter,wide,number\n")
    listed = list_source("in.csv", base=tmp_path)
    chunks = plan_chunks(check_metadata(listed, columns=MAP.names, reading=RecordReading(separator=",")))
    counted = group_counts(chunks, job=job_of(key), executor=LocalThreads())
    assert (counted.keys.shape, counted.counts.shape) == ((2, 0), (0,))


def shows_key(content: bytes) -> bool:
    return any(form in content for form in (KEY, KEY.hex().encode(), repr(KEY)[2:-1].encode()))


def test_the_graph_does_not_hold_the_key(tmp_path, key):
    """Control: a job that carries the key itself is found out."""
    chunks = chunks_of(tmp_path / "in")

    def graph_of(job: CountJob) -> bytes:
        frame = merged_counts(partial_counts([(chunk,) for chunk in chunks], job=job)).optimize()
        graph = frame.__dask_graph__()
        return repr(dict(graph)).encode() + pickle.dumps(dict(graph))

    assert not shows_key(graph_of(job_of(key)))
    leaky = KeyRef(path=Path(KEY.hex()))
    assert shows_key(graph_of(job_of(leaky)))


def test_two_jobs_share_no_task_and_one_job_names_its_tasks_once(tmp_path, key):
    chunks = [(chunk,) for chunk in chunks_of(tmp_path / "in")]

    def names(job: CountJob) -> set:
        return set(merged_counts(partial_counts(chunks, job=job)).optimize().__dask_graph__())

    job = job_of(key)
    assert names(job) == names(job)
    assert not names(job) & names(job_of(key))
    assert not names(job) & names(job_of(key, release_id="r-2"))


@pytest.mark.slow
@pytest.mark.parametrize("executor", [LocalThreads(workers=2), LocalProcesses(workers=2)])
def test_a_page_that_cannot_be_read_fails_the_release(tmp_path, key, executor):
    chunks = chunks_of(tmp_path / "in")
    path = tmp_path / "in" / "b.parquet"
    content, listed = bytearray(path.read_bytes()), path.stat().st_mtime_ns
    content[4:2000] = b"\x55" * 1996
    path.write_bytes(content)
    os.utime(path, ns=(listed, listed))  # else it is not the file that was listed
    with pytest.raises(ReleaseFailed, match="cannot be read") as failure:
        group_counts(chunks, job=job_of(key), executor=executor)
    assert type(failure.value) is ReleaseFailed
    assert failure.value.where == f"{path}, row group 0"
    assert failure.value.__cause__ is None
    assert "Traceback" not in str(failure.value)


@pytest.mark.slow
def test_threads_do_not_import_the_cluster():
    """Importing `distributed` costs a third of a second that one machine need not pay."""
    modules = "crowdblend.tasks.counting.group_counting, crowdblend.tasks.counting.executors"
    lines = f"import sys, {modules}; sys.exit('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
