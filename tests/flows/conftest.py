"""A desk whose releases can be killed: one Prefect server, a process that forks, ledgers that can be put back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.ledger_writer import dataset_entry, open_writer
from crowdblend.accounting.ledger.lookup import ReleaseState
from crowdblend.accounting.ledger.reader import open_reader
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

DRIVER = Path(__file__).with_name("crash_driver.py")
RELEASE = "the-one"
CHOICE = """
[selection]
epsilon = 0.2
on = "fresh-sample"
rate = 0.5
draw = "exponential"
candidates = [{ colour = 0, age = 1, town = 2 }, { colour = 1, age = 1, town = 1 }]

[columns.colour]"""
HISTOGRAM = """
[histogram]
kind = "noisy"
epsilon = 0.5
"""
DELETION = """
[deletion]
shape = "optimal"
epsilon = 0.5
delta = 5e-7
"""
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "OPENBLAS_NUM_THREADS": "1",  # the driver forks: it must have no threads
    "NO_PROXY": "127.0.0.1",
}


Driver = Callable[[dict], dict]
Tables = dict[str, bytes]


@pytest.fixture(scope="session")
def driver(prefect_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A process that has imported everything and forks for each job."""
    home = tmp_path_factory.mktemp("driver")
    environment = os.environ | QUIET | {"PREFECT_API_URL": prefect_server.api_url, "PREFECT_HOME": str(home)}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(DRIVER)],
            env=environment,
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def ask(job: dict) -> dict:
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, (home / "log").read_text()
        ended = json.loads(answer)
        assert ended["code"] in (0, -signal.SIGKILL), (home / "log").read_text()[-4000:]
        return ended

    with process:
        yield ask
        process.stdin.close()
        process.wait(timeout=600)


@dataclass(frozen=True)
class SqliteLedgers:
    """Ledgers that are files of the desk, and are copied with it."""

    desk: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.desk / 'ledger.db'}"

    def keep(self, name: str) -> None:
        """The desk's folder is kept as a whole."""

    restore = forget = keep


@dataclass(frozen=True)
class PostgresLedgers:
    """Databases of a server: the one in use, and kept copies of it."""

    server: str
    name: str

    @property
    def url(self) -> str:
        return make_url(self.server).set(database=self.name).render_as_string(hide_password=False)

    def keep(self, name: str) -> None:
        self._copy(self.name, f"{self.name}_{name}")

    def restore(self, name: str) -> None:
        self._copy(f"{self.name}_{name}", self.name)

    def forget(self, name: str) -> None:
        self._run(f"DROP DATABASE {self.name}_{name}")

    def _copy(self, source: str, target: str) -> None:
        self._run(f"DROP DATABASE IF EXISTS {target}")
        for _ in range(100):
            try:
                return self._run(f"CREATE DATABASE {target} TEMPLATE {source}")
            except OperationalError:  # the server has not yet seen that the killed process is gone
                time.sleep(0.05)
        return self._run(f"CREATE DATABASE {target} TEMPLATE {source}")

    def _run(self, statement: str) -> None:
        engine = create_engine(self.server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))


@dataclass(frozen=True)
class State:
    """All that is left of a release after an attempt, wherever it lies."""

    release: ReleaseState | None
    spent: Decimal
    findings: tuple[str, ...]
    output: dict[str, tuple[float, bytes]]
    beside: frozenset[str]
    private: dict[str, bytes]

    @property
    def stage(self) -> str | None:
        return None if self.release is None else self.release.stage


def _copy(source: Path, target: Path) -> None:
    """Copy what is in a folder with its times and its links, so that two names of one file stay two names of one."""
    target.mkdir(exist_ok=True)
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


@dataclass(frozen=True)
class Scene:
    """A desk with its ledger, that can be put back to what it was."""

    desk: Any
    ledgers: SqliteLedgers | PostgresLedgers
    driver: Driver
    kept: Path
    series: str | None
    paid_before: Decimal
    variant: str = ""

    @property
    def drawn(self) -> bool:
        """Whether the release draws something that must be stored before it is used: a map, noise, or Z."""
        return self.variant in ("drawn", "noisy", "deletion")

    def write_spec(self, **changes: str) -> None:
        """The release's specification; where the map is drawn, one of two candidates on a sample of its own."""

        def choose(text: str) -> str:
            lines = [line for line in text.splitlines() if not line.startswith("level")]
            return "\n".join(lines).replace("[columns.colour]", CHOICE.lstrip("\n")) + "\n"

        def histogram(text: str) -> str:
            lines = [line for line in text.splitlines() if not line.startswith("form")]
            return "\n".join(lines).replace("[suppression]", HISTOGRAM.strip()) + "\n"

        def deletion(text: str) -> str:
            stages = text.replace("level = 0", "levels = [0, 1]").replace("level = 1", "levels = [1, 1]")
            sampled = stages.replace("[sampling]\nrate = 0.1", DELETION.strip())
            return sampled.replace("[privacy]", "[privacy]\nepsilon = 1")

        edits = {"drawn": choose, "noisy": histogram, "deletion": deletion}
        self.desk.write_spec(edit=edits.get(self.variant, str), **changes)

    @property
    def folder(self) -> Path:
        return self.desk.folder

    def keep(self, name: str) -> None:
        _copy(self.folder, self.kept / name)
        self.ledgers.keep(name)

    def restore(self, name: str) -> None:
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        _copy(self.kept / name, self.folder)
        self.ledgers.restore(name)

    def forget(self, name: str) -> None:
        shutil.rmtree(self.kept / name)
        self.ledgers.forget(name)

    def job(self, action: str, *, key: bytes, day: date, **changes: Any) -> dict:
        """Have a child run or abandon the release: with `key` if it draws one, on `day`."""
        job = {"action": action, "desk": str(self.folder), "ledger": self.ledgers.url, "release_id": RELEASE}
        extras = {"key": key.hex(), "day": day.isoformat(), "kill_before": None, "version": None, "broken": None}
        extras["series"] = self.series
        return self.driver(job | extras | changes)

    def look(self) -> State:
        with open_reader(self.ledgers.url) as reader:
            release, [dataset] = reader.release(RELEASE), reader.datasets()
            findings = tuple(str(finding) for finding in reader.verify())
        out = self.folder / "out"
        names = frozenset(path.name for path in self.folder.iterdir() if not path.name.startswith("ledger.db"))
        private = [path for path in (self.folder / "home").rglob("*") if path.is_file()]
        files = [out, *out.iterdir()] if out.exists() else []
        return State(
            release=release,
            spent=dataset.account.epsilon_spent,
            findings=findings,
            output={path.name: (path.stat().st_mtime, b"" if path.is_dir() else path.read_bytes()) for path in files},
            beside=names - {"people.csv", "towns.csv", "spec.toml", "home", "out"},
            private={str(path.relative_to(self.folder / "home")): path.read_bytes() for path in private},
        )


@pytest.fixture(
    params=[
        "sqlite",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                "postgresql",
                "sqlite-series",
                "postgresql-series",
                "sqlite-drawn",
                "postgresql-drawn",
                "sqlite-noisy",
                "sqlite-deletion",
            )
        ),
    ]
)
def scene(
    request: pytest.FixtureRequest, desk: Any, driver: Driver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """A desk with a funded ledger, kept as "fresh"; perhaps with a series that pays, or with something drawn."""
    database, _, variant = request.param.partition("-")
    ledgers: SqliteLedgers | PostgresLedgers = SqliteLedgers(desk.folder)
    if database == "postgresql":
        ledgers = PostgresLedgers(request.getfixturevalue("postgresql_server"), f"crash_{os.getpid()}")
        ledgers._run(f"CREATE DATABASE {ledgers.name}")
    anchoring = Anchoring(home=desk.home, file=None)
    create_where_none(anchoring.keys, os.urandom)
    create_ledger(ledgers.url, anchoring=anchoring)
    with open_writer(ledgers.url, anchoring=anchoring) as writer:
        budget = {"epsilon": Decimal(10), "delta": Decimal("0.001"), "relation": "add/remove", "survey_rate": None}
        writer.add_dataset(
            dataset_entry(name="people", **budget, rows_per_person=1, by="steward", day=date(2026, 1, 1))
        )
    if variant == "series":
        desk.write_spec()
        desk.succeed("series", "add", "monthly", "spec.toml", "--releases", "2", "--ledger", ledgers.url)
    with open_reader(ledgers.url) as reader:
        [dataset] = reader.datasets()
    made = Scene(
        desk=desk,
        ledgers=ledgers,
        driver=driver,
        kept=tmp_path_factory.mktemp("kept"),
        series="monthly" if variant == "series" else None,
        paid_before=dataset.account.epsilon_spent,
        variant=variant,
    )
    made.write_spec()
    made.keep("fresh")
    yield made
    made.forget("fresh")
    if isinstance(ledgers, PostgresLedgers):
        ledgers._run(f"DROP DATABASE {ledgers.name}")


@pytest.fixture
def cut_off(desk: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has a first attempt of the release `one` end where this stage would begin, which `seen` is given instead."""
    from crowdblend.flows import release
    from crowdblend.mechanisms.kernel.errors import ReleaseFailed
    from crowdblend.tasks.stages import count

    def run(spec: Path, *words: str, stage: str = "write_output", seen: Callable[..., None] = lambda **_: None) -> None:
        def fail(**given: Any) -> None:
            seen(**given)
            raise ReleaseFailed("the lights went out.")

        with monkeypatch.context() as dark:
            dark.setattr(release if hasattr(release, stage) else count, stage, fail)
            answer = desk("run", spec, "--release-id", "one", *words)
        assert (answer.code, "the lights went out" in answer.err) == (1, True), answer.err

    return run


@pytest.fixture
def two_attempts(desk: Any, cut_off: Callable[..., None]) -> Callable[[Path], tuple[Tables, Tables]]:
    """The tables that a first attempt was about to write when it was cut off, and those that a second published."""
    from crowdblend.tasks.kernel.protected import protected_result
    from crowdblend.tasks.stages.table import write_table

    def run(spec: Path) -> tuple[Tables, Tables]:
        folder = desk.folder / "first"
        folder.mkdir()

        def written(*, gate: Any, finish: Callable[[Any], Any], **_: Any) -> None:
            publication = finish(protected_result(gate._protected))
            for stem, table in {"data": publication.table, **publication.beside}.items():
                write_table(table, folder=folder, file_format=publication.file_format, stem=stem)

        cut_off(spec, seen=written)
        desk.succeed("run", spec, "--release-id", "one")
        first, second = (
            {path.name: path.read_bytes() for path in one.glob("*.parquet")} for one in (folder, desk.folder / "out")
        )
        return first, second

    return run
