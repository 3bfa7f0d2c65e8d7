"""The same release on a real Dask scheduler with workers in processes of their own."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import itertools
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from crowdblend.flows import release
from crowdblend.tasks.stages import count
from support.commands import AS_MODULE, Commands

REPORTS = """
[release]
name = "asked"
[data]
dataset = "phones"
source = "reports"
[reports]
kind = "k-randomization"
flip_probability = 0.25
questions = ["one", "two", "three"]
"""
KEY = bytes(range(7, 39))
SEPARATED = pyarrow.csv.ParseOptions(delimiter=";")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, fork_server: Path):
    """Address of a scheduler on loopback, its two workers, and the files of all they print."""
    folder = tmp_path_factory.mktemp("cluster")
    info = folder / "scheduler.json"
    commands = Commands(fork_server)
    scheduler = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    scheduler += ["--dashboard-address", "127.0.0.1:0", "--scheduler-file", info]
    processes = [commands.start(*scheduler, folder=folder, script=AS_MODULE, log=folder / "scheduler.log")]
    while not info.exists():
        time.sleep(0.1)
    address = json.loads(info.read_text())["address"]
    worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    for name in ("worker-0", "worker-1"):
        processes.append(commands.start(*worker, folder=folder, script=AS_MODULE, log=folder / f"{name}.log"))
    yield address, folder
    for process in reversed(processes):
        process.terminate()
        process.finish(timeout=600)


def released(desk, name: str, *, scheduler: str | None) -> Counter:
    spec = desk.write_spec(output=name, source="many")
    result = desk.release(spec, ledger=name, scheduler=scheduler, coins=lambda size: KEY[:size])
    return Counter(map(str, pq.read_table(f"{result['output']}/data.parquet").to_pylist()))


def test_a_cluster_draws_the_sample_that_threads_draw(desk, cluster) -> None:
    address, folder = cluster
    (desk.folder / "many").mkdir()
    for number in range(6):
        desk.write_people(4_000, file=f"many/{number}.csv", shift=number)
    on_threads = released(desk, "threads", scheduler=None)
    on_cluster = released(desk, "cluster", scheduler=address)
    assert on_threads
    assert on_cluster == on_threads
    for path in folder.rglob("*"):
        if path.is_file():
            assert KEY not in path.read_bytes()
            assert KEY.hex().encode() not in path.read_bytes()


PERSONS = """
[release]
name = "visits"
form = "counts"
[data]
dataset = "people"
source = "many"
person = "who"
[sampling]
rate = 0.4
[suppression]
k = 20
[privacy]
delta = 1e-6
[columns.visit]
interval = { lower = 0, upper = 8, widths = [] }
level = 0
[columns.wide]
interval = { lower = 0, upper = 1152921504606846976, widths = [] }
level = 0
[columns.far]
interval = { lower = 0, upper = 1152921504606846976, widths = [] }
level = 0
"""


@pytest.mark.slow
def test_a_cluster_chooses_the_records_of_each_person_that_threads_choose(desk, cluster) -> None:
    """The records of everyone lie in several files: a shuffle between the workers brings them together."""
    address, folder = cluster
    (desk.folder / "many").mkdir()
    numbers = np.random.default_rng(8)
    people = np.repeat(np.arange(6_000), 3)
    numbers.shuffle(people)
    for number in range(6):
        own = people[number::6]
        rows = zip(own.tolist(), numbers.integers(0, 8, own.size).tolist(), strict=True)
        lines = [
            "who,visit,wide,far",
            *(f"person-{who:09d},{visit},{visit % 2},1" if who else f",{visit},0,1" for who, visit in rows),
        ]
        (desk.folder / "many" / f"{number}.csv").write_text("\n".join(lines) + "\n")
    (desk.folder / "visits.toml").write_text(PERSONS)
    found = []
    for name, scheduler in (("threads", None), ("cluster", address)):
        given = {"ledger": name, "unit": "person:who", "coins": lambda size: KEY[:size]}
        result = desk.release(desk.folder / "visits.toml", output=name, scheduler=scheduler, **given)
        found.append(pq.read_table(f"{result['output']}/data.parquet").to_pylist())
    assert found[0] == found[1]
    assert 0.3 * 6_000 < sum(row["count"] for row in found[0]) < 0.5 * 6_000
    for path in folder.rglob("*"):
        if path.is_file():
            assert KEY not in path.read_bytes()
            assert b"person-000000123" not in path.read_bytes()


@pytest.mark.slow
def test_a_cluster_adds_up_the_reports_that_threads_add_up(desk, cluster) -> None:
    address, _ = cluster
    (desk.folder / "reports").mkdir()
    numbers = np.random.default_rng(4).integers(0, 8, 3_000)
    for number in range(6):
        lines = ["vector", *map(str, numbers[number::6])]
        (desk.folder / "reports" / f"{number}.csv").write_text("\n".join(lines))
    (desk.folder / "asked.toml").write_text(REPORTS)
    desk.succeed("dataset", "add", "phones", "--relation", "replacement", "--epsilon", "9", "--delta", "0.1")
    tables = []
    for words in (("--output", "threads"), ("--output", "cluster", "--scheduler", address)):
        done = desk.succeed("run", "asked.toml", *words, "--json")
        tables.append(pq.read_table(f"{done.json['output']}/data.parquet").to_pylist())
    assert tables[0] == tables[1]
    assert sum(row["estimate"] for row in tables[0]) == pytest.approx(3_000)


KINDS = {
    "histogram": '[sampling]\nrate = 0.1\n[histogram]\nkind = "suppressed"\nk = 20\n[privacy]\ndelta = 1e-6\n{columns}',
    "unequal": '[sampling]\ncolumn = "secret"\nrates = [0.1, 0.15]\n'
    '[histogram]\nkind = "suppressed"\nk = 20\n[privacy]\ndelta = 1e-3\n{columns}',
    "points": '[sampling]\nrate = 0.1\n[points]\nkind = "suppressed"\nk = 20\ncells_per_side = 4\n'
    "[privacy]\ndelta = 1e-6\n[columns.age]\nbounds = {{ lower = 0, upper = 100 }}\n",
    "deletion": "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n"
    '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevels = [0, 1]\n',
    # Pr[noise ≠ 0] is below 1e-40 at this ε.
    "answer": '[answer]\nkind = "count"\nby = ["colour"]\nepsilon = 100\n{columns}',
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_makes_of_every_kind_what_threads_make(desk, cluster, kind) -> None:
    address, _ = cluster
    (desk.folder / "many").mkdir()
    for number in range(3):
        desk.write_people(4_000, file=f"many/{number}.csv", shift=number)
    columns = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'
    head = '[release]\nname = "kind"\n[data]\ndataset = "people"\nsource = "many"\nseparator = ";"\n'
    spec = desk.folder / "kind.toml"
    spec.write_text(head + KINDS[kind].format(columns=columns))
    found = []
    for name, scheduler in (("threads", None), ("cluster", address)):
        coins = {"ledger": name, "coins": lambda size: (KEY * (size // len(KEY) + 1))[:size]}
        result = desk.release(spec, output=name, scheduler=scheduler, **coins)
        found.append(pq.read_table(f"{result['output']}/data.parquet").to_pylist())
    assert found[0] == found[1]
    assert found[0]


DELETION = """
[release]
name = "kept"
form = "counts"
[data]
dataset = "people"
source = "many"
separator = ";"
[deletion]
[privacy]
epsilon = 1
delta = 1e-6
[columns.colour]
values = ["blue", "green", "red"]
levels = [0, 1]
[columns.age]
interval = { lower = 0, upper = 100, widths = [10, 50] }
levels = [1, 1]
[columns.town]
hierarchy = "towns.csv"
levels = [0, 1]
"""


def kill_at_reading(ledger: Path, worker: subprocess.Popen) -> None:
    """SIGKILL as soon as the ledger knows that the records are read."""
    while worker.poll() is None:
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(ledger)) as database:
            if database.execute("SELECT * FROM entry WHERE body LIKE '%\"release-reading/1\"%'").fetchall():
                worker.kill()
        time.sleep(0.005)


@pytest.mark.slow
def test_a_deletion_release_that_loses_a_worker_publishes_what_threads_publish(desk, cluster) -> None:
    """With the same draws of Z the same rows, stage by stage: no record is counted twice or left out."""
    address, folder = cluster
    (desk.folder / "many").mkdir()
    for number in range(8):
        desk.write_people(40_000, file=f"many/{number}.csv", shift=number)
    spec = desk.folder / "kept.toml"
    spec.write_text(DELETION)
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
    with (folder / "lost.log").open("wb") as log:
        lost = subprocess.Popen([*command, "--no-nanny"], stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    while "Registered to" not in (folder / "lost.log").read_text():
        time.sleep(0.1)
    found = []
    killing = threading.Thread(target=kill_at_reading, args=(desk.folder / "cluster.db", lost))
    for name, scheduler in (("threads", None), ("cluster", address)):
        if scheduler is not None:
            killing.start()
        numbers = itertools.count()
        coins = {"ledger": name, "coins": lambda size, of=numbers: hashlib.shake_256(b"%d" % next(of)).digest(size)}
        result = desk.release(spec, output=name, scheduler=scheduler, **coins)
        found.append(pq.read_table(f"{result['output']}/data.parquet").to_pylist())
    killing.join()
    assert lost.wait() == -signal.SIGKILL
    assert found[0] == found[1]
    assert {row["stage"] for row in found[0]} == {1, 2}


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_refused_before_the_charge(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    lost = desk("run", spec, "--release-id", "later", "--scheduler", "tcp://127.0.0.1:9")
    assert lost.code == 2
    assert "Nothing was read, written or charged." in lost.err
    assert list(desk.home.glob("prefect-*")) == []  # no server was started in vain, which would take its time
    assert desk("ledger", "show", "--json").json["releases"] == []
    desk.succeed("run", spec, "--release-id", "later", "--json")


def test_what_answers_but_is_no_scheduler_is_refused_before_the_charge(desk) -> None:
    """Its first bytes would be taken for lengths beyond all memory."""
    desk.add_dataset()
    spec = desk.write_spec()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            talk, _ = listener.accept()
            with talk:
                talk.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20)

        answering = threading.Thread(target=answer)
        answering.start()
        refused = desk("run", spec, "--scheduler", f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        answering.join()
    assert refused.code == 2, refused.err
    assert "the scheduler can't be reached" in refused.err
    assert desk("ledger", "show", "--json").json["releases"] == []


@pytest.mark.slow
@pytest.mark.parametrize("on", ['on = "fresh-sample"\nrate = 0.5', 'on = "whole"'], ids=["fresh sample", "whole"])
def test_a_cluster_counts_for_a_private_choice_too(desk, cluster, on: str) -> None:
    """One map has all the probability but e^-100, so that threads and cluster draw it alike, from the same samples."""
    address, folder = cluster
    (desk.folder / "many").mkdir()
    for number in range(6):
        desk.write_people(4_000, file=f"many/{number}.csv", shift=number)
    columns = "min_level = 0\nmax_level = 1\n"
    selection = f"[selection]\nepsilon = 2\n{on}\n\n[columns.colour]"

    def choose(text: str) -> str:
        lines = [line for line in text.splitlines() if not line.startswith("level")]
        return "\n".join(lines).replace("[columns.colour]", selection) + "\n" + columns

    keys = [KEY, KEY[::-1]]
    found = []
    for name, scheduler in (("threads", None), ("cluster", address)):
        drawn = iter(keys)
        spec = desk.write_spec(output=name, source="many", edit=choose)
        coins = {"ledger": name, "coins": lambda size, drawn=drawn: next(drawn)[:size]}
        result = desk.release(spec, scheduler=scheduler, **coins)
        rows = pq.read_table(f"{result['output']}/data.parquet").to_pylist()
        found.append((result["levels"], Counter(map(str, rows))))
    assert found[0] == found[1]
    assert found[0][1]
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(secret in content for key in keys for secret in (key, key.hex().encode()))


@pytest.mark.parametrize("moment", ["begin_reading", "block_counts"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_workers_read_the_files_that_were_listed_alone(desk, cluster, monkeypatch, ending, moment) -> None:
    """Two files of the same people in another order are exchanged while a release on the cluster reads."""
    address, _ = cluster
    desk.add_dataset()
    (desk.folder / "many").mkdir()
    places = [desk.folder / "many" / f"{name}.{ending}" for name in ("one", "other")]
    for place, shift in zip(places, (0, 1), strict=True):
        text = desk.write_people(3_000, file="text.csv", shift=shift).read_bytes()
        if ending == "parquet":
            pq.write_table(pyarrow.csv.read_csv(BytesIO(text), parse_options=SEPARATED), place)
        else:
            place.write_bytes(gzip.compress(text) if ending == "csv.gz" else text)
        os.utime(place, ns=(1, 1))

    def exchange() -> None:
        places[0].rename(desk.folder / "between")
        places[1].rename(places[0])
        (desk.folder / "between").rename(places[1])

    stages, waiting = (release, count)[moment == "block_counts"], [exchange]
    real = getattr(stages, moment)

    def then_exchanged(*given, **named):
        done = real(*given, **named)
        if waiting:
            waiting.pop()()
        return done

    monkeypatch.setattr(stages, moment, then_exchanged)
    words = ("run", desk.write_spec(source="many"), "--release-id", "one", "--scheduler", address)
    told = desk(*words)
    assert (told.code, "not the file any more that was listed" in told.err) == (1, True), told.err
    assert not (desk.folder / "out").exists()
    exchange()
    desk.succeed(*words)


def test_a_worker_that_does_not_see_the_files_is_refused_before_the_charge(desk, cluster, monkeypatch) -> None:
    """As one on another machine, whose file system numbers the files in its own way."""
    address, _ = cluster
    desk.add_dataset()
    real = release.layout_for_other_machines

    def elsewhere(layout):
        files = tuple(replace(file, inode=file.inode + 1) for file in layout.source.files)
        return real(replace(layout, source=replace(layout.source, files=files)))

    monkeypatch.setattr(release, "layout_for_other_machines", elsewhere)
    told = desk("run", desk.write_spec(), "--scheduler", address)
    assert told.code == 2, told.err
    assert "doesn't see the file" in told.err
    assert str(desk.folder / "people.csv") in told.err
    assert desk("ledger", "show", "--json").json["releases"] == []
