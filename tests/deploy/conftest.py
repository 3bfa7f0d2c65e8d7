"""Real clusters and servers for the deploy tests: Dask's scheduler and workers with TLS, and a Prefect server."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.commands import Forked
from support.dask_processes import Cluster, write_certificates

CHUNK = 1 << 22


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tls: Path) -> Iterator[Cluster]:
    """A TLS scheduler on loopback with three workers, or as many as a test says."""
    made = Cluster(folder=tmp_path_factory.mktemp("cluster"), tls=tls)
    try:
        made.start_scheduler()
        for number in range(getattr(request, "param", 3)):
            made.start_worker(f"worker-{number}")
        yield made
    finally:
        made.stop()


@dataclass
class Running:
    """The command line in a process of its own."""

    process: Forked

    def finish(self, timeout: float = 400) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=timeout)
        return self.process.wait(), out, err


def memory_holds(process: int, secret: bytes) -> bool:
    """Whether a live process has some bytes anywhere in its memory."""
    with Path(f"/proc/{process}/maps").open() as maps, open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights, *rest = line.split()
            if "r" not in rights or rest[-1:] in (["[vvar]"], ["[vsyscall]"], ["[vvar_vclock]"]):
                continue
            begin, end = (int(place, 16) for place in span.split("-"))
            try:
                if _holds(memory, begin, end, secret):
                    return True
            except OSError:
                continue
    return False


def _holds(memory, begin: int, end: int, secret: bytes) -> bool:
    tail = b""
    memory.seek(begin)
    while begin < end:
        part = memory.read(min(CHUNK, end - begin))
        if not part:
            return False
        if secret in tail + part:
            return True
        tail, begin = part[-len(secret) :], begin + len(part)
    return False


def files_holding(folder: Path, secret: bytes) -> list[str]:
    """Files below a folder that have some bytes, as they are or in hexadecimal digits."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if secret in content or secret.hex().encode() in content:
                found.append(str(path.relative_to(folder)))
    return found


@pytest.fixture
def command(desk, commands):
    """Start the command line at the desk, in a process of its own."""

    def start(*words: object, environment: dict[str, str]) -> Running:
        own = environment | {"CROWDBLEND_LEDGER": desk.ledger, "CROWDBLEND_HOME": str(desk.home)}
        return Running(commands.start(*words, folder=desk.folder, environment=own))

    return start


@pytest.fixture
def scan():
    """The two scans for a secret."""
    return memory_holds, files_holding


def write_records(folder: Path, records: int, *, files: int = 12) -> None:
    """Parquet records of the desk's columns, with a rare colour that no threshold lets through."""
    folder.mkdir()
    generator = np.random.default_rng(11)
    each = records // files
    for number in range(files):
        table = pa.table(
            {
                "colour": pa.array(["blue", "green", "red"]).take(pa.array(generator.integers(0, 3, each))),
                "age": pa.array(generator.integers(20, 40, each)),
                "town": pa.array(["Lyon", "Marseille", "Lille", "Paris"]).take(
                    pa.array(generator.integers(0, 4, each))
                ),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=250_000)


def secret_of(home: Path, process) -> bytes:
    """The sampling key of the one release that runs."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        for path in home.rglob("sampling.key"):
            key = path.read_bytes()
            if len(key) == 32:
                return key
        time.sleep(0.002)
    raise AssertionError("no key was made")


def stage_of(ledger: Path, release_id: str) -> set[str]:
    """What the ledger has of a release, without the program that wrote it."""
    database = sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)
    try:
        bodies = [json.loads(body) for (body,) in database.execute("SELECT body FROM entry")]
    finally:
        database.close()
    passed = [one for one in bodies if one.get("release_id") == release_id and one["kind"] != "release-refused/1"]
    return {one["kind"].removeprefix("release-").partition("/")[0] for one in passed}


def await_stage(ledger: Path, release_id: str, stage: str) -> None:
    deadline = time.monotonic() + 900
    while stage not in stage_of(ledger, release_id):
        assert time.monotonic() < deadline, f"{release_id} never was {stage}"
        time.sleep(0.005)


@pytest.fixture(scope="session")
def rig():
    """What several tests do: records, the secret of a running release, and waiting for a stage."""
    return SimpleNamespace(write_records=write_records, secret_of=secret_of, stage_of=stage_of, await_stage=await_stage)
