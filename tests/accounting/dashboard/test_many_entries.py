"""Pages stay quick and small however long the chain is, and looking never holds up a release."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.ledger.creation import create_ledger

GENERATOR = Path(__file__).resolve().parents[3] / "benchmarks" / "ledger" / "of_size.py"
READERS = 50
CHARGES = 40


def generator():
    """The benchmarks' maker of long ledgers."""
    spec = importlib.util.spec_from_file_location("ledger_of_size_for_pages", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def grown(town, folder: Path, entries: int):
    town = replace(town, folder=folder, token="")
    create_where_none(SigningKeys(home=folder / "home"), __import__("os").urandom)
    create_ledger(town.ledger, anchoring=town.anchoring)
    generator().grow(town.ledger, anchoring=town.anchoring, entries=entries)
    return town


def addresses(entries: int) -> tuple[str, ...]:
    middle = entries // 2
    own = (
        "/",
        "/datasets/1",
        "/datasets/2",
        f"/datasets/1?before={middle}",
        "/releases",
        f"/releases?before={middle}",
        "/releases/release-7",
        "/releases/release-3",
        "/samples",
        f"/samples?before={middle}",
        "/refusals",
        f"/refusals?before={middle}",
        "/refusals?cause=release-known",
        "/verification",
        f"/verification?before={middle}",
        f"/entries/{middle}",
        "/calculator?k=20&sampling_rate=0.1&delta=1e-6",
    )
    forms = [f"{form}{'/overview' if path == '/' else path}" for form in ("/api/v1", "/csv", "/report") for path in own]
    return (*own, *forms, "/metrics", "/health")


def processor_seconds(pid: int) -> float:
    """What a process has used of a processor: other work on the machine adds nothing to it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quick_and_small(running, entries: int, *, most_seconds: float) -> None:
    for path in addresses(entries):
        running.get(path)  # curves and estimates are computed once
    slowest = []
    for path in addresses(entries):
        begun = processor_seconds(running.process.pid)
        answer = running.get(path)
        slowest.append((processor_seconds(running.process.pid) - begun, len(answer.content), path))
        assert answer.status_code == 200, path
        assert len(answer.content) < 200_000, path
    slowest.sort(reverse=True)
    print(f"{entries} entries: slowest {slowest[:3]}, largest {max(size for _, size, _ in slowest)} bytes")
    assert slowest[0][0] < most_seconds, slowest[:5]


@pytest.mark.slow
def test_pages_of_a_thousand_entries(serve, town, tmp_path) -> None:
    long = grown(town, tmp_path, 1_000)
    with serve(long) as running:
        assert running.verified()["verdict"] == "sound"
        quick_and_small(running, 1_000, most_seconds=1.0)


@pytest.mark.long
def test_pages_of_a_hundred_thousand_entries(serve, town, tmp_path) -> None:
    long = grown(town, tmp_path, 100_000)
    with serve(long) as running:
        assert running.verified()["verdict"] == "sound"
        quick_and_small(running, 100_000, most_seconds=1.0)


@pytest.mark.long
def test_fifty_readers_hold_up_no_charge_and_see_nothing_wrong(serve, copied) -> None:
    """Each reader's answers come from one state: what is spent is what the entries that it counts have charged."""
    copied.command("dataset", "raise", "people", "--epsilon", "50", "--delta", "1e-3", "--reason", "a test")
    stop, wrong, answers = threading.Event(), [], []
    with serve(copied) as running:
        first = running.get("/api/v1/datasets/1").json()
        one = 0.18298860992

        def read(address: str) -> None:
            transport = httpx.HTTPTransport(local_address=address)
            with httpx.Client(base_url=running.url, timeout=600, transport=transport) as client:
                while not stop.is_set():
                    answer = client.get("/api/v1/datasets/1")
                    if answer.status_code != 200:
                        wrong.append(answer.text[:300])
                        return
                    page = answer.json()
                    charged = page["frame"]["entries"] - first["frame"]["entries"]
                    spent = float(page["budget"]["epsilon_spent"]["exact"])
                    before = float(first["budget"]["epsilon_spent"]["exact"])
                    if abs(spent - before - charged * one) > 1e-9:
                        wrong.append(json.dumps([charged, spent, before]))
                    answers.append(charged)

        # Each from an address of its own: of one client, connections above a number are closed.
        readers = [threading.Thread(target=read, args=(f"127.0.0.{number + 2}",)) for number in range(READERS)]
        for reader in readers:
            reader.start()
        times = []
        for number in range(CHARGES):
            begun = time.perf_counter()
            copied.charge(f"meanwhile-{number}")
            times.append(time.perf_counter() - begun)
        stop.set()
        for reader in readers:
            reader.join()
    print(f"{len(answers)} answers; median charge {1000 * statistics.median(times):.0f} ms, slowest {max(times):.2f} s")
    assert not wrong, wrong[:3]
    assert len(set(answers)) > 1
    assert max(times) < 30
