"""Real clusters and servers for the deploy tests: Dask's scheduler and workers with TLS, and a Prefect server."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from crowdblend.deploy.prefect_environment import QUIET
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.commands import Forked

CHUNK = 1 << 22


def write_certificates(folder: Path) -> Path:
    """An authority and one certificate of it for 127.0.0.1, and Dask's settings that use them."""
    folder.mkdir(exist_ok=True)
    now = datetime.now(UTC)

    def certificate(name: str, key, issuer, issuer_key, *, authority: bool) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        )
        return builder.sign(issuer_key, hashes.SHA256())

    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = certificate("tests", authority_key, None, authority_key, authority=True)
    node = certificate("node", key, authority.subject, authority_key, authority=False)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.pem").write_bytes(authority.public_bytes(pem))
    (folder / "node.pem").write_bytes(node.public_bytes(pem) + private)
    role = f"{{cert: {folder}/node.pem, key: {folder}/node.pem}}"
    (folder / "dask.yaml").write_text(
        "distributed:\n  comm:\n    require-encryption: true\n    tls:\n"
        f"      ca-file: {folder}/ca.pem\n      scheduler: {role}\n      worker: {role}\n      client: {role}\n"
    )
    return folder


@dataclass
class Cluster:
    """A scheduler and workers, each a process of its own; every file that they write lies in one folder."""

    folder: Path
    tls: Path
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What lets a process join or use the cluster."""
        return os.environ | QUIET | {"DASK_CONFIG": str(self.tls), "NO_PROXY": "127.0.0.1"}

    @property
    def scheduler_file(self) -> Path:
        return self.folder / "scheduler.json"

    @property
    def address(self) -> str:
        return json.loads(self.scheduler_file.read_text())["address"]

    @property
    def dashboard(self) -> str:
        [port] = re.findall(r"dashboard at: +https?://127\.0\.0\.1:(\d+)", self.log("scheduler"))[-1:]
        return f"127.0.0.1:{port}"

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def start_scheduler(self) -> None:
        self.scheduler_file.unlink(missing_ok=True)
        words = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--protocol", "tls"]
        words += ["--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(self.scheduler_file)]
        self._start("scheduler", words)
        self._await(self.scheduler_file.exists, "scheduler")

    def start_worker(self, name: str) -> None:
        words = ["distributed.cli.dask_worker", "--scheduler-file", str(self.scheduler_file), "--nthreads", "1"]
        words += ["--no-nanny", "--no-dashboard", "--host", "127.0.0.1", "--memory-limit", "1GiB", "--name", name]
        words += ["--local-directory", str(self.folder / "spill")]
        self._start(name, words)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=3)  # on a loaded machine Dask's own end takes any time
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, words: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", *words]
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=self.environment
            )

    def _await(self, condition, name: str) -> None:
        deadline = time.monotonic() + 900
        while not condition():
            assert self.processes[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.05)


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
