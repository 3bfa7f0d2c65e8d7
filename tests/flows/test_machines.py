"""Releases on eight machines behind slow links, one of which dies again and again: the bytes that threads publish.

The machines are network namespaces with a worker each; the files of records lie where all of them see them.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dask
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from distributed import Client
from support.dask_processes import Cluster, write_certificates
from support.hosts import Host, hosts, possible

MACHINES = 8
RATE = "8mbit"
FILES, RECORDS, LABELS = 32, 1_000_000, 512
"""Of each file as many records as one task takes; about `LABELS`² groups, of which each task sends its counts."""
TRANSITIONS = 25
"""Of tasks from one state to the next on the scheduler, after which the oldest worker is killed."""


@dataclass
class Machines(Cluster):
    """A cluster whose scheduler and workers have a host each."""

    machines: list[Host] = field(default_factory=list)
    killed: int = 0

    def machine(self, name: str) -> Host:
        """The scheduler has the first; a worker's name ends with the number of its own."""
        return self.machines[0 if name == "scheduler" else int(name.rpartition("-")[2])]

    def host(self, name: str) -> str:
        return self.machine(name).address

    def around(self, name: str) -> list[str]:
        return self.machine(name).around

    @property
    def environment(self) -> dict[str, str]:
        # A task that was on four machines as they died is given up by Dask's own default.
        return super().environment | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1000"}

    def kill_by_turns(self, end: threading.Event) -> None:
        """Kill the oldest worker that has joined, and start another on its machine, as the work goes on."""
        with Client(self.address, set_as_default=False) as client:

            def passed() -> int:
                return int(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.transition_counter))

            due = passed() + TRANSITIONS
            while not end.wait(0.05):
                if passed() < due:
                    continue
                workers = [name for name in self.processes if name != "scheduler"]
                oldest = next(name for name in workers if "Registered to" in self.log(name))
                self.kill(oldest)
                self.killed += 1
                self.start_worker(f"worker-again-{self.killed}-{oldest.rpartition('-')[2]}")
                due = passed() + TRANSITIONS


@pytest.fixture(scope="module")
def machines(needs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    needs(possible(), "root, ip and tc (Debian: iproute2)", "CROWDBLEND_TEST_HOSTS")
    tls = write_certificates(tmp_path_factory.mktemp("tls"))
    own = yaml.safe_load((tls / "dask.yaml").read_text())["distributed"]
    settings = dask.config.merge(dask.config.get("distributed"), own)
    with hosts(1 + MACHINES, rate=RATE) as made, dask.config.set(distributed=settings):
        cluster = Machines(folder=tmp_path_factory.mktemp("machines"), tls=tls, machines=made)
        try:
            cluster.start_scheduler()
            for number in range(MACHINES):
                cluster.start_worker(f"worker-{number + 1}")
            with Client(cluster.address, set_as_default=False) as client:
                client.wait_for_workers(MACHINES)
                workers = client.scheduler_info(n_workers=-1)["workers"]
            assert {worker["host"] for worker in workers.values()} == {host.address for host in made[1:]}
            assert all(address.startswith("tls://") for address in workers)
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records in groups of all sizes."""
    folder = tmp_path_factory.mktemp("records")
    generator = np.random.default_rng(5)
    for number in range(FILES):
        columns = {name: (LABELS * generator.random(RECORDS) ** 2).astype(np.int16) for name in ("first", "second")}
        pq.write_table(pa.table(columns), folder / f"{number:02}.parquet", row_group_size=RECORDS)
    return folder


LABELLED = f"interval = {{ lower = 0, upper = {LABELS}, widths = [16] }}\n"
FIRST, SECOND = ("[columns.first]\n" + LABELLED, "[columns.second]\n" + LABELLED)
KINDS = {
    "sampled": "[sampling]\nrate = 0.5\n[suppression]\nk = 40\n[privacy]\ndelta = 1e-6\n"
    f"{FIRST}level = 0\n{SECOND}level = 0\n",
    "deletion": f"[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n{FIRST}levels = [0, 1]\n{SECOND}levels = [0, 0]\n",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_machines_that_die_publish_the_bytes_that_threads_publish(desk, machines, records, kind: str) -> None:
    spec = desk.folder / "spec.toml"
    head = f'[release]\nname = "many"\nform = "counts"\n[data]\ndataset = "people"\nsource = "{records}"\n'
    spec.write_text(head + KINDS[kind])
    published = []
    for name, scheduler in (("threads", None), ("machines", machines.address)):
        numbers = itertools.count()
        coins = {"ledger": name, "coins": lambda size, of=numbers: hashlib.shake_256(b"%d" % next(of)).digest(size)}
        killed, sent = machines.killed, [host.bytes_sent() for host in machines.machines]
        end = threading.Event()
        killing = threading.Thread(target=machines.kill_by_turns, args=(end,))
        if scheduler is not None:
            killing.start()
        try:
            result = desk.release(spec, output=name, scheduler=scheduler, **coins)
        finally:
            end.set()
            if scheduler is not None:
                killing.join()
        published.append((Path(result["output"]) / "data.parquet").read_bytes())
    assert published[0] == published[1]
    assert pq.read_table(desk.folder / "threads" / "data.parquet").num_rows > LABELS**2 / 4
    assert machines.killed - killed >= 3
    # Most machines have sent counts. One whose worker dies before its first task, and starts late again, sends none.
    each = [host.bytes_sent() - before for host, before in zip(machines.machines[1:], sent[1:], strict=True)]
    assert sum(one > 1_000_000 for one in each) > MACHINES / 2, each
    print(f"{kind}: {machines.killed - killed} workers killed; MB sent by each machine: {[n // 10**6 for n in each]}")
