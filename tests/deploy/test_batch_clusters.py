"""Releases on clusters that are started for them: LocalCluster, a real SLURM of one node, a real Dask gateway."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from crowdblend.deploy.prefect_environment import QUIET

SETTINGS = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory=8000 State=UNKNOWN
PartitionName=normal Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cluster_table(desk, table: str, **changes: str) -> Path:
    desk.add_dataset()
    return desk.write_spec(edit=lambda text: f"{text}\n[cluster]\n{table}\n", **changes)


def finished(command, environment: dict[str, str], *words: object) -> dict:
    code, out, err = command("run", "spec.toml", "--json", *words, environment=environment).finish()
    assert code == 0, err
    return json.loads(out)


@pytest.mark.slow
def test_a_local_cluster_is_started_for_the_release_and_ends_with_it(desk, command) -> None:
    kwargs = "{ n_workers = 2, threads_per_worker = 1, processes = true }"
    cluster_table(desk, f'class = "distributed.LocalCluster"\nkwargs = {kwargs}\nworkers = 2')
    result = finished(command, dict(os.environ))
    assert result["published_groups"] > 0
    desk.succeed("ledger", "verify")


@pytest.mark.slow
def test_a_cluster_that_cannot_be_started_costs_nothing(desk, command) -> None:
    cluster_table(desk, 'class = "distributed.LocalCluster"\nkwargs = { memory_limit = "1zz" }')
    code, _, err = command("run", "spec.toml", environment=dict(os.environ)).finish()
    assert code == 2
    assert "LocalCluster can't be started" in err
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.mark.slow
def test_jobs_that_no_queue_takes_are_a_refusal_and_cost_nothing(desk, command) -> None:
    sbatch = desk.folder / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: nosuch' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    kwargs = '{ queue = "nosuch", cores = 1, processes = 1, memory = "1GiB", interface = "lo" }'
    table = f'class = "dask_jobqueue.SLURMCluster"\nkwargs = {kwargs}\nscale = 2\nworkers = 2\nwait_seconds = 3'
    cluster_table(desk, table)
    environment = dict(os.environ) | {"PATH": f"{sbatch.parent}:{os.environ['PATH']}"}
    code, _, err = command("run", "spec.toml", environment=environment).finish()
    assert code == 2, err[-500:]
    assert "fewer than 2 workers joined within 3 seconds. Nothing was read, written or charged" in err
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.fixture
def slurm(needs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A SLURM of one node, of the test's own; what its commands need in the environment."""
    there = shutil.which("slurmctld", path="/usr/sbin:/usr/bin") is not None and os.getuid() == 0
    needs(there, "SLURM with munge, and root to start them", "CROWDBLEND_TEST_SLURM")
    folder = tmp_path_factory.mktemp("slurm")
    for path in [folder, *folder.parents[:2]]:
        path.chmod(0o755)
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir(mode=0o755)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname()
    ports = {"controller": free_port(), "daemon": free_port()}
    settings = SETTINGS.format(folder=folder, host=host, processors=os.cpu_count(), **ports)
    (folder / "slurm.conf").write_text(settings)
    munge = ["munged", "--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge/socket"]
    munge += [f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]
    environment = dict(os.environ) | {
        "SLURM_CONF": str(folder / "slurm.conf"),
        "PATH": f"{os.environ['PATH']}:/usr/sbin",
    }
    servers = [start(munge, environment, folder / "munged.out")]
    try:
        until((folder / "munge" / "socket").exists, folder)
        servers.append(start(["slurmctld", "-D"], environment, folder / "slurmctld.out"))
        servers.append(start(["slurmd", "-D", "-N", host], environment, folder / "slurmd.out"))
        until(lambda: "idle" in said(["sinfo", "--noheader"], environment), folder)
        yield environment
    finally:
        for server in reversed(servers):
            server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def start(words: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen:
    with log.open("wb") as sink:
        return subprocess.Popen(words, env=environment, stdout=sink, stderr=sink, cwd=log.parent)


def said(words: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=60).stdout


def until(condition, folder: Path, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        logs = {path.name: path.read_text(errors="replace")[-800:] for path in folder.glob("*.[ol]*[tg]")}
        assert time.monotonic() < deadline, logs
        time.sleep(0.2)


@pytest.mark.long
def test_slurm_starts_the_workers_of_a_release(desk, command, slurm) -> None:
    kwargs = '{ queue = "normal", cores = 1, processes = 1, memory = "1GiB", interface = "lo", walltime = "00:10:00" }'
    table = f'class = "dask_jobqueue.SLURMCluster"\nkwargs = {kwargs}\nscale = 2\nworkers = 2\nwait_seconds = 240'
    cluster_table(desk, table)
    result = finished(command, slurm)
    assert result["published_groups"] > 0
    desk.succeed("ledger", "verify")
    jobs = said(["squeue", "--noheader", "--states=all", "--format=%j"], slurm)
    assert "dask-worker" in jobs


GATEWAY = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.address = "127.0.0.1:{api}"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.SimpleAuthenticator.password = "{password}"
c.Proxy.address = "127.0.0.1:{proxy}"
c.UnsafeLocalBackend.clusters_directory = "{folder}/clusters"
c.UnsafeLocalBackend.worker_start_failure_limit = 3
c.ClusterConfig.scheduler_cmd = ["{bin}/dask", "scheduler"]
c.ClusterConfig.worker_cmd = ["{bin}/dask", "worker"]
c.ClusterConfig.worker_cores = 1
c.ClusterConfig.worker_memory = "1 G"
"""


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A Dask gateway with its local backend, and Dask's settings that use it."""
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "clusters").mkdir()
    ports = {"api": free_port(), "proxy": free_port()}
    beside = Path(sys.executable).parent
    words = {"folder": folder, "password": "for-tests", "bin": beside}
    (folder / "settings.py").write_text(GATEWAY.format(**ports, **words))
    environment = dict(os.environ) | QUIET | {"PATH": f"{beside}:{os.environ['PATH']}", "NO_PROXY": "127.0.0.1"}
    server = start(["dask-gateway-server", "--config", str(folder / "settings.py")], environment, folder / "server.out")
    try:
        # The server says that it is started before its proxy knows the way to it.
        until(lambda: answers(f"http://127.0.0.1:{ports['proxy']}/api/health"), folder)
        (folder / "dask.yaml").write_text(
            f"gateway:\n  address: http://127.0.0.1:{ports['proxy']}\n"
            "  auth: {type: basic, kwargs: {username: steward, password: for-tests}}\n"
        )
        yield environment | {"DASK_CONFIG": str(folder / "dask.yaml")}
    finally:
        server.terminate()
        server.wait(timeout=60)


@pytest.mark.long
def test_a_gateway_starts_the_workers_of_a_release(desk, command, gateway) -> None:
    table = 'class = "dask_gateway.GatewayCluster"\nscale = 2\nworkers = 2\nwait_seconds = 240'
    cluster_table(desk, table)
    result = finished(command, gateway)
    assert result["published_groups"] > 0
    desk.succeed("ledger", "verify")
