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


def on_both(desk, cluster, spec: Path, *, more: tuple[str, ...] = (), secrets: tuple[bytes, ...] = ()) -> list[dict]:
    """The rows that threads and a cluster publish with the same coins; no worker has printed a key or a secret."""
    address, folder = cluster
    keys, found = (KEY, KEY[::-1]), []
    for name, scheduler in (("threads", None), ("cluster", address)):
        drawn = itertools.cycle(keys)

        def coins(size: int, *, drawn=drawn) -> bytes:
            return (next(drawn) * (size // len(KEY) + 1))[:size]

        result = desk.release(spec, ledger=name, output=name, scheduler=scheduler, more=more, coins=coins)
        tables = [pq.read_table(path).to_pylist() for path in sorted(Path(result["output"]).glob("*.parquet"))]
        found.append((result.get("levels"), tables))
    assert found[0] == found[1]
    assert all(found[0][1])
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(secret in content for key in keys for secret in (key, key.hex().encode(), *secrets))
    return found[0][1][0]


def write_many(desk, *, files: int = 3, rows: int = 4_000) -> None:
    (desk.folder / "many").mkdir()
    for number in range(files):
        desk.write_people(rows, file=f"many/{number}.csv", shift=number)


def test_a_cluster_draws_the_sample_that_threads_draw(desk, cluster) -> None:
    write_many(desk, files=6)
    on_both(desk, cluster, desk.write_spec(source="many"))


HEAD = '[release]\nname = "kind"\nform = "counts"\n[data]\ndataset = "people"\nsource = "many"\n'
OF_PEOPLE = HEAD.replace('form = "counts"\n', "") + 'separator = ";"\n'
COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'
SUPPRESSED = '[histogram]\nkind = "suppressed"\nk = 20\n'
# One map has all the probability but e^-100, so that threads and cluster draw it alike, from the same samples.
CHOICE = (
    "[sampling]\nrate = 0.1\n[suppression]\nk = 20\n[privacy]\ndelta = 1e-6\n[selection]\nepsilon = 2\n{on}"
    + COLOUR.replace("level = 0\n", "min_level = 0\nmax_level = 1\n")
    + '[columns.town]\nhierarchy = "towns.csv"\nmin_level = 0\nmax_level = 1\n'
)
KINDS = {
    "histogram": "[sampling]\nrate = 0.1\n" + SUPPRESSED + "[privacy]\ndelta = 1e-6\n" + COLOUR,
    "unequal": '[sampling]\ncolumn = "secret"\nrates = [0.1, 0.15]\n'
    + SUPPRESSED
    + "[privacy]\ndelta = 1e-3\n"
    + COLOUR,
    "points": '[sampling]\nrate = 0.1\n[points]\nkind = "suppressed"\nk = 20\ncells_per_side = 4\n'
    "[privacy]\ndelta = 1e-6\n[columns.age]\nbounds = { lower = 0, upper = 100 }\n",
    "deletion": "[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n" + COLOUR.replace("level = 0", "levels = [0, 1]"),
    # Pr[noise ≠ 0] is below 1e-40 at this ε.
    "answer": '[answer]\nkind = "count"\nby = ["colour"]\nepsilon = 100\n' + COLOUR,
    "map drawn on a fresh sample": CHOICE.format(on='on = "fresh-sample"\nrate = 0.5\n'),
    "map drawn on all records": CHOICE.format(on=""),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_makes_of_every_kind_what_threads_make(desk, cluster, kind) -> None:
    write_many(desk)
    (desk.folder / "kind.toml").write_text(OF_PEOPLE + KINDS[kind])
    on_both(desk, cluster, desk.folder / "kind.toml")


PERSONS = 'person = "who"\n[sampling]\nrate = 0.4\n[suppression]\nk = 20\n[privacy]\ndelta = 1e-6\n'
WIDE = "interval = { lower = 0, upper = 1152921504606846976, widths = [] }\nlevel = 0\n"
VISITS = f"[columns.visit]\ninterval = {{ lower = 0, upper = 8, widths = [] }}\nlevel = 0\n[columns.wide]\n{WIDE}"


@pytest.mark.slow
def test_a_cluster_chooses_the_records_of_each_person_that_threads_choose(desk, cluster) -> None:
    """The records of everyone lie in several files: a shuffle between the workers brings them together."""
    (desk.folder / "many").mkdir()
    numbers = np.random.default_rng(8)
    people = np.repeat(np.arange(6_000), 3)
    numbers.shuffle(people)
    for number in range(6):
        own = people[number::6]
        rows = zip(own.tolist(), numbers.integers(0, 8, own.size).tolist(), strict=True)
        lines = [f"{f'person-{who:09d}' if who else ''},{visit},{visit % 2},1" for who, visit in rows]
        (desk.folder / "many" / f"{number}.csv").write_text("\n".join(["who,visit,wide,far", *lines]) + "\n")
    spec = desk.folder / "visits.toml"
    spec.write_text(HEAD + PERSONS + VISITS + f"[columns.far]\n{WIDE}")
    rows = on_both(desk, cluster, spec, more=("--unit", "person:who"), secrets=(b"person-000000123",))
    assert 0.3 * 6_000 < sum(row["count"] for row in rows) < 0.5 * 6_000


HOMES = (
    '[unit]\nby = "who"\n[unit.columns.visit]\ninterval = { lower = 0, upper = 8, widths = [4] }\n'
    "[sampling]\nrate = 0.4\n[suppression]\nk = 20\n[privacy]\ndelta = 1e-6\n"
    '[columns.who_comes]\ncomposition = { column = "visit", from_level = 1, most = 3 }\nlevel = 0\n'
    '[columns.latest]\nmember_label = { column = "visit", highest = "visit" }\nlevel = 1\n'
)


BOTH = HOMES.replace(
    "[sampling]\nrate = 0.4\n[suppression]\nk = 20\n[privacy]",
    "[unit.members]\nmost = 2\ncolumns = { visit = [0] }\n[deletion]\n[privacy]\nepsilon = 4",
)
"""Households and a table of two members of each."""


@pytest.mark.slow
@pytest.mark.parametrize(("units", "share"), [(HOMES, (0.3, 0.5)), (BOTH, (0.5, 1.0))], ids=["units", "both tables"])
def test_a_cluster_makes_the_records_of_units_that_threads_make(desk, cluster, units, share) -> None:
    """The records of every household lie in several files and partitions, on several workers."""
    (desk.folder / "many").mkdir()
    numbers = np.random.default_rng(8)
    homes = np.repeat(np.arange(6_000), 3)
    numbers.shuffle(homes)
    for number in range(6):
        own = homes[number::6]
        rows = zip(own.tolist(), numbers.integers(0, 8, own.size).tolist(), strict=True)
        lines = [f"{f'person-{who:09d}' if who else ''},{visit}" for who, visit in rows]
        (desk.folder / "many" / f"{number}.csv").write_text("\n".join(["who,visit", *lines]) + "\n")
    spec = desk.folder / "homes.toml"
    spec.write_text(HEAD + units)
    rows = on_both(desk, cluster, spec, more=("--unit", "household:who"), secrets=(b"person-000000123",))
    # The household without an id is as many as it has records.
    assert share[0] * 6_000 < sum(row["count"] for row in rows) < share[1] * 6_010


REPORTS = '[reports]\nkind = "k-randomization"\nflip_probability = 0.25\nquestions = ["one", "two", "three"]\n'


@pytest.mark.slow
def test_a_cluster_adds_up_the_reports_that_threads_add_up(desk, cluster) -> None:
    (desk.folder / "many").mkdir()
    numbers = np.random.default_rng(4).integers(0, 8, 3_000)
    for number in range(6):
        (desk.folder / "many" / f"{number}.csv").write_text("\n".join(["vector", *map(str, numbers[number::6])]))
    spec = desk.folder / "asked.toml"
    spec.write_text(HEAD.replace('form = "counts"\n', "") + REPORTS)
    rows = on_both(desk, cluster, spec, more=("--relation", "replacement"))
    assert sum(row["estimate"] for row in rows) == pytest.approx(3_000)


DELETION = (
    HEAD
    + 'separator = ";"\n[deletion]\n[privacy]\nepsilon = 1\ndelta = 1e-6\n'
    + COLOUR.replace("level = 0", "levels = [0, 1]")
    + "[columns.age]\ninterval = { lower = 0, upper = 100, widths = [10, 50] }\nlevels = [1, 1]\n"
    + '[columns.town]\nhierarchy = "towns.csv"\nlevels = [0, 1]\n'
)


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
    write_many(desk, files=8, rows=40_000)
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
    desk.refuse(*words, code=1, said="was changed since it was listed")
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
