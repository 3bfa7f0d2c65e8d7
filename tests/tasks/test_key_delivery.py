"""The sampling key is lent to workers: all have it while it is needed, and none has it afterwards."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.keys.private_store import KeyRef
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.tasks.counting import key_delivery
from crowdblend.tasks.counting.key_delivery import HeldKey, WorkerKey, delivered_key
from distributed import Client, LocalCluster

SECRET = bytes(range(60, 92))


@pytest.fixture
def workers() -> Iterator[tuple[LocalCluster, Client]]:
    """Real workers in this process, so that a test can look into them."""
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**settings) as cluster, Client(cluster, set_as_default=False) as client:
        yield cluster, client


@pytest.fixture
def key(tmp_path: Path) -> KeyRef:
    (tmp_path / "sampling.key").write_bytes(SECRET)
    return KeyRef(path=tmp_path / "sampling.key")


def fingerprint(source: WorkerKey, number: int) -> str:
    del number
    return hashlib.sha256(source.load()).hexdigest()


def held(cluster: LocalCluster) -> list[HeldKey]:
    return [
        plugin
        for worker in cluster.workers.values()
        for plugin in worker.plugins.values()
        if isinstance(plugin, HeldKey)
    ]


def until(condition, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_every_worker_has_the_key_while_it_is_needed_and_none_afterwards(workers, key) -> None:
    cluster, client = workers
    with delivered_key(client, key) as source:
        futures = client.map(lambda number: fingerprint(source, number), range(8), pure=False)
        assert set(client.gather(futures)) == {hashlib.sha256(SECRET).hexdigest()}
        until(lambda: len(held(cluster)) == 2)
        cluster.scale(3)
        until(lambda: len(held(cluster)) == 3)
        lent = held(cluster)
    assert held(cluster) == []
    assert [one.secret() for one in lent] == [None] * 3


def test_the_lease_ends_when_nobody_renews_it(workers, key, monkeypatch) -> None:
    cluster, client = workers
    monkeypatch.setattr(key_delivery, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr(key_delivery, "RENEWED_EVERY_SECONDS", 1000.0)
    with delivered_key(client, key):
        until(lambda: len(held(cluster)) == 2)
        until(lambda: [one.secret() for one in held(cluster)] == [None, None])


@pytest.mark.slow
def test_a_renewed_lease_goes_on(workers, key, monkeypatch) -> None:
    cluster, client = workers
    monkeypatch.setattr(key_delivery, "LEASE_SECONDS", 3.0)
    monkeypatch.setattr(key_delivery, "RENEWED_EVERY_SECONDS", 0.2)
    with delivered_key(client, key):
        until(lambda: len(held(cluster)) == 2)
        time.sleep(4.5)
        assert [one.secret() for one in held(cluster)] == [SECRET, SECRET]


def test_a_task_without_a_key_fails_by_itself(workers, monkeypatch) -> None:
    _, client = workers
    monkeypatch.setattr(key_delivery, "WAITED_FOR_SECONDS", 0.2)
    with pytest.raises(ReleaseFailed, match="not given the sampling key"):
        client.submit(WorkerKey(name="nothing").load).result()


def test_no_text_shows_the_key() -> None:
    one = HeldKey(SECRET, lease_seconds=1)
    for text in (repr(one), str(one), f"{[one]}", repr(WorkerKey(name="name"))):
        assert SECRET.decode("ascii") not in text
        assert SECRET.hex() not in text
        assert repr(bytearray(SECRET)) not in text
    assert SECRET in pickle.dumps(one), "only its one message holds it"
    assert SECRET not in pickle.dumps(WorkerKey(name="name"))
