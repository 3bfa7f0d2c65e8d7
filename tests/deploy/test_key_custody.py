"""The sampling secret on a real cluster with TLS: in the workers' memory for a while, and nowhere else."""

from __future__ import annotations

import http.client
import json
import os
import re
import time

import pytest
from distributed import Client, Security

PAGES = ("/status", "/workers", "/tasks", "/info/main/workers.html", "/info/main/logs.html", "/info/main/events.html",
         "/individual-plots.json", "/json/counts.json", "/json/identity.json", "/metrics", "/system", "/profile",
         "/graph", "/groups", "/info/main/memory.html")  # fmt: skip


def dashboard_pages(address: str) -> dict[str, bytes]:
    found = {}
    for page in PAGES:
        connection = http.client.HTTPConnection(address, timeout=600)
        connection.request("GET", page)
        answer = connection.getresponse()
        if answer.status == 200:
            found[page] = answer.read()
        connection.close()
    return found


def release(desk, cluster, command, scan, rig, records: int) -> tuple[dict, bytes, float]:
    """Submit one release; while it runs and after it the secret is looked for wherever it must not be."""
    memory_holds, files_holding = scan
    rig.write_records(desk.folder / "many", records)
    desk.add_dataset()
    spec = desk.write_spec(source="many")
    begun = time.perf_counter()
    running = command("submit", spec, "--scheduler", cluster.address, "--json", environment=cluster.environment)
    secret = rig.secret_of(desk.home, running.process)
    scheduler = cluster.processes["scheduler"].pid
    workers = [process.pid for name, process in cluster.processes.items() if name != "scheduler"]
    held = set()
    while running.process.poll() is None:
        assert not memory_holds(scheduler, secret)
        held |= {worker for worker in workers if worker not in held and memory_holds(worker, secret)}
    code, out, err = running.finish()
    seconds = time.perf_counter() - begun
    assert code == 0, err
    assert held, "the scan that finds nothing in the scheduler finds the key where it is"
    assert not memory_holds(scheduler, secret)
    pages = dashboard_pages(cluster.dashboard)
    assert len(pages) >= 6
    assert not [page for page, content in pages.items() if secret in content or secret.hex().encode() in content]
    for folder in (cluster.folder, desk.folder):
        assert not files_holding(folder, secret)
    return json.loads(out), secret, seconds


@pytest.mark.slow
def test_the_secret_is_in_the_workers_alone_and_for_a_while(desk, cluster, command, scan, rig) -> None:
    result, _, _ = release(desk, cluster, command, scan, rig, 600_000)
    assert result["published_groups"] > 0
    desk.succeed("ledger", "verify")
    memory_holds, files_holding = scan
    planted = os.urandom(32)
    node = str(cluster.tls / "node.pem")
    security = Security(
        tls_ca_file=str(cluster.tls / "ca.pem"), tls_client_cert=node, tls_client_key=node, require_encryption=True
    )
    with Client(cluster.address, security=security, set_as_default=False) as client:
        assert client.submit(len, planted, pure=False).result() == 32
        assert memory_holds(cluster.processes["scheduler"].pid, planted), "a key in the graph is found"
    (cluster.folder / "spill" / "planted").write_text(f"key {planted.hex()}")
    assert files_holding(cluster.folder, planted) == ["spill/planted"]


@pytest.mark.long
def test_ten_million_records_are_released_on_a_cluster_with_tls(desk, cluster, command, scan, rig) -> None:
    result, _, seconds = release(desk, cluster, command, scan, rig, 10_000_000)
    with desk.capture.disabled():
        print(f"10,000,000 records, 3 workers with TLS: {seconds:.1f} s, counting {result['timings']['count']} s of it")
    assert result["published_records"] > 900_000


@pytest.mark.slow
def test_a_client_without_a_certificate_is_refused(desk, cluster, command, tmp_path) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    environment = cluster.environment | {"DASK_CONFIG": str(tmp_path / "nothing")}
    code, _, err = command("run", spec, "--scheduler", cluster.address, environment=environment).finish()
    assert code == 2, err
    assert "can't be reached" in err
    assert "Traceback" not in err
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.mark.slow
def test_a_worker_of_another_version_is_refused_before_anything_is_charged(desk, cluster, command, tmp_path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "real = metadata.version\n"
        "metadata.version = lambda name: '0.0.9' if name == 'crowdblend' else real(name)\n"
    )
    desk.add_dataset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(other))
        cluster.start_worker("other")
    while not re.search("Registered to", cluster.log("other")):
        time.sleep(0.05)
    spec = desk.write_spec()
    code, _, err = command("run", spec, "--scheduler", cluster.address, environment=cluster.environment).finish()
    assert code == 2, err
    assert "crowdblend 0.0.9" in err
    assert "Nothing was read, written or charged." in err
    assert desk("ledger", "show", "--json").json["releases"] == []
