"""One release has one sample, however the work is cut, ordered, spread, lost and done again; two have two.

Every record here is a group of its own, so the counts are the sample itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import cloudpickle
import dask
import dask.threaded
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy
from crowdblend.mechanisms.kernel.sampling import kept_positions, sample_commitment
from crowdblend.tasks.counting import executors
from crowdblend.tasks.counting.count_frames import counts_of_frame, merged_counts
from crowdblend.tasks.counting.executors import DaskCluster, LocalProcesses, LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, group_counts, partial_counts
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.kernel.counting import CountJob, unmarked
from crowdblend.tasks.readers.file_formats import Chunk
from crowdblend.tasks.readers.values import RecordReading

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file

RECORDS = 20_000
RATE = Decimal("0.1")
KEYS = (bytes(range(32)), bytes(range(1, 33)))
MAP = GeneralizationMap(
    columns=(MappedColumn(name="id", hierarchy=IntervalHierarchy(lower=0, upper=RECORDS, widths=()), level=0),)
)


@dataclass(frozen=True)
class TestKey:
    """A key file that is slow to read, so that a worker can be killed in the midst of its work."""

    path: str
    pause: float = 0.0
    __test__ = False

    def load(self) -> bytes:
        time.sleep(self.pause)
        return Path(self.path).read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("identity")
    for number, key in enumerate(KEYS):
        (made / f"key{number}").write_bytes(key)
    table = pa.table({"id": np.arange(RECORDS)})
    (made / "in").mkdir()
    pq.write_table(table.slice(0, 12_000), made / "in" / "a.parquet", row_group_size=500)
    pq.write_table(table.slice(12_000), made / "in" / "b.parquet", row_group_size=777)
    return made


@pytest.fixture(scope="module")
def chunks(folder) -> tuple[Chunk, ...]:
    listed = list_source(str(folder / "in"), base=folder)
    return plan_chunks(check_metadata(listed, columns=MAP.names, reading=RecordReading(separator=",")))


def job_of(folder: Path, number: int = 0, *, pause: float = 0.0) -> CountJob:
    return count_job(
        release_id=f"release-{number}",
        sample_id=sample_commitment(KEYS[number]),
        generalization=MAP,
        rate=RATE,
        reading=RecordReading(null_values=()),
        key_source=TestKey(path=str(folder / f"key{number}"), pause=pause),
    )


def sample_of(groups) -> list[int]:
    assert np.all(groups.counts == 1)
    (codes,) = MAP.decode(groups.keys)
    return [int(label) for label in MAP.columns[0].hierarchy.labels(codes, 0)]


def sample_of_frame(frame) -> list[int]:
    return sample_of(unmarked(counts_of_frame(frame)).counts)


@pytest.fixture(scope="module")
def expected(chunks) -> list[list[int]]:
    """Of each key, by a plain loop over the row groups."""
    found: list[list[int]] = [[], []]
    start = 0
    for chunk in chunks:
        for key, sample in zip(KEYS, found, strict=True):
            kept = kept_positions(key=key, chunk=chunk.identity, records=chunk.records, rate=RATE)
            sample.extend((kept + start).tolist())
        start += chunk.records
    assert start == RECORDS
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "executor", [LocalThreads(workers=1), LocalThreads(workers=4), LocalProcesses(workers=2)], ids=repr
)
def test_threads_and_processes_give_the_same_sample(folder, chunks, expected, executor):
    assert sample_of(group_counts(chunks, job=job_of(folder), executor=executor)) == expected[0]


def test_two_releases_computed_together_share_no_coins(folder, chunks, expected):
    """The control: jobs without a token of their own share one sample."""
    groups = [(chunk,) for chunk in chunks]
    jobs = [job_of(folder, 0), job_of(folder, 1)]

    def together(jobs: list[CountJob]) -> list[list[int]]:
        frames = [merged_counts(partial_counts(groups, job=job)) for job in jobs]
        return [sample_of_frame(frame) for frame in dask.compute(*frames, scheduler=dask.threaded.get)]

    assert together(jobs) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CountJob, "__dask_tokenize__", lambda job: "the same for all")
        one, two = together([replace(job, release_id="same") for job in jobs])
    assert one == two


@pytest.mark.slow
def test_a_worker_killed_in_the_midst_changes_nothing(folder, chunks, expected):
    """A real cluster of two processes; one is killed with signal 9 while tasks run, its results are lost."""
    from distributed import Client, LocalCluster

    told: list[tuple[int, int]] = []
    killed: list[int] = []
    groups = [(chunk,) for chunk in chunks]
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 10}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=60
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def kill_once() -> None:
            while not told or told[-1][0] < 4:
                time.sleep(0.02)
            victim = sorted(client.run(os.getpid).values())[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(executors, "_POLL_SECONDS", 0.05)
            killer = threading.Thread(target=kill_once, daemon=True)
            killer.start()
            frame = merged_counts(partial_counts(groups, job=job_of(folder, pause=0.15)))
            counted = executors.computed(
                frame,
                executor=DaskCluster(client=client),
                on_progress=lambda done, total: told.append((done, total)),
            )
            killer.join(timeout=600)
    assert len(killed) == 1
    assert sample_of_frame(counted) == expected[0]
    assert max(done for done, _ in told) > 4
