"""A Dask cluster of processes, with TLS: certificates, a scheduler, and workers that a test starts and kills."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from crowdblend.deploy.prefect_environment import QUIET
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


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

    def host(self, name: str) -> str:
        """Where a process listens."""
        return "127.0.0.1"

    def around(self, name: str) -> list[str]:
        """The words before a process's own: a program that starts it somewhere else."""
        return []

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
        words = ["distributed.cli.dask_scheduler", "--port", "0", "--protocol", "tls"]
        words += ["--host", self.host("scheduler"), "--dashboard-address", f"{self.host('scheduler')}:0"]
        words += ["--scheduler-file", str(self.scheduler_file)]
        self._start("scheduler", words)
        self._await(self.scheduler_file.exists, "scheduler")

    def start_worker(self, name: str) -> None:
        words = ["distributed.cli.dask_worker", "--scheduler-file", str(self.scheduler_file), "--nthreads", "1"]
        words += ["--no-nanny", "--no-dashboard", "--host", self.host(name), "--memory-limit", "1GiB", "--name", name]
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
            command = [*self.around(name), sys.executable, "-m", *words]
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=self.environment
            )

    def _await(self, condition, name: str) -> None:
        deadline = time.monotonic() + 900
        while not condition():
            assert self.processes[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.05)
