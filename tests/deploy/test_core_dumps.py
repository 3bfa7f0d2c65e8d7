"""The sampling key and core dumps: none of the scheduler has it, and a worker that was given it leaves none."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import Client, Security

RECORDS = 6_000_000
PREFIX = 4


@pytest.fixture
def core_dumps(needs) -> Iterator[None]:
    """Processes that start from here may leave core dumps; asked for before the cluster, which inherits it."""
    needs(shutil.which("gcore") is not None, "gdb's gcore", "CROWDBLEND_TEST_GDB")
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def core_holds(process: int, secret: bytes, folder: Path) -> bool:
    """Whether a core dump of a live process has some bytes."""
    made = subprocess.run(
        ["gcore", "-a", "-o", str(folder / "dump"), str(process)],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    core = folder / f"dump.{process}"
    assert core.exists(), made.stderr
    found, tail = False, b""
    with core.open("rb") as content:
        while part := content.read(1 << 24):
            found = found or secret in tail + part
            tail = part[-len(secret) :]
    core.unlink()
    return found


def core_limit(process: int) -> str:
    [line] = [one for one in Path(f"/proc/{process}/limits").read_text().splitlines() if "core file" in one]
    return line.split()[4]


def dies_with_a_core(process: subprocess.Popen, folder: Path) -> bool:
    """Abort a process; whether it left a core file where it ran."""
    before = set(folder.glob("core*"))
    process.send_signal(signal.SIGABRT)
    process.wait(timeout=600)
    left = set(folder.glob("core*")) - before
    for core in left:
        core.unlink()
    return bool(left)


def reachable(digest: str, prefix: bytes):
    """What a worker runs to look for the key in all objects in reach; of the key it has a digest and four bytes."""

    def look() -> int:
        import gc
        import hashlib
        import sys

        waiting, seen, found = [*gc.get_objects(), *sys._current_frames().values()], set(), 0
        while waiting:
            one = waiting.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, bytes | bytearray | memoryview):
                content = bytes(one)
                place = content.find(prefix)
                while place >= 0:
                    found += hashlib.sha256(content[place : place + 32]).hexdigest() == digest
                    place = content.find(prefix, place + 1)
            else:
                waiting.extend(gc.get_referents(one))
        return found

    return look


@contextmanager
def client_of(cluster) -> Iterator[Client]:
    node = str(cluster.tls / "node.pem")
    security = Security(
        tls_ca_file=str(cluster.tls / "ca.pem"), tls_client_cert=node, tls_client_key=node, require_encryption=True
    )
    with Client(cluster.address, security=security, set_as_default=False) as client:
        yield client


@pytest.mark.long
def test_core_dumps_of_a_cluster(core_dumps, desk, cluster, command, scan, rig, tmp_path_factory) -> None:
    memory_holds, _ = scan
    cores = tmp_path_factory.mktemp("cores")
    rig.write_records(desk.folder / "many", RECORDS)
    desk.add_dataset()
    spec = desk.write_spec(source="many")
    scheduler = cluster.processes["scheduler"]
    workers = {name: process for name, process in cluster.processes.items() if name != "scheduler"}
    with client_of(cluster) as client:
        client.wait_for_workers(3)
        running = command("submit", spec, "--scheduler", cluster.address, "--json", environment=cluster.environment)
        secret = rig.secret_of(desk.home, running.process)
        look = reachable(hashlib.sha256(secret).hexdigest(), secret[:PREFIX])
        while not all(memory_holds(process.pid, secret) for process in workers.values()):
            assert running.process.poll() is None, running.finish()
            time.sleep(0.05)
        assert core_holds(workers["worker-0"].pid, secret, cores), "the scan finds the key where it is"
        assert running.process.poll() is None, "the dump was made during the release"
        assert not core_holds(scheduler.pid, secret, cores)
        assert {core_limit(process.pid) for process in workers.values()} == {"0"}
        held = client.run(look)
        assert running.process.poll() is None, "the walk was made during the release"
        assert min(held.values()) >= 1, "the walk finds the key where it is held"
        code, _, err = running.finish()
        assert code == 0, err
        assert set(client.run(look).values()) == {0}, "no object of any worker is the key or has it"
        left = [name for name, process in workers.items() if core_holds(process.pid, secret, cores)]
        with desk.capture.disabled():
            print(f"workers whose core after the release has the key in freed memory: {left or 'none'}")
        assert not core_holds(scheduler.pid, secret, cores)
        planted = os.urandom(32)
        assert client.submit(len, planted, pure=False).result() == 32
        assert core_holds(scheduler.pid, planted, cores), "a key in the graph is found"
    if not Path("/proc/sys/kernel/core_pattern").read_text().startswith(("|", "/")):
        assert not dies_with_a_core(cluster.processes.pop("worker-1"), cluster.folder)
        assert dies_with_a_core(cluster.processes.pop("scheduler"), cluster.folder), "others do leave a core"
