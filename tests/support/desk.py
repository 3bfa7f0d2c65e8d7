"""A steward's desk: a folder with records, a specification and settings, and the command line in it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.commands import Commands, Forked
from support.schemas import require_valid, require_valid_answer, require_valid_certificate

SPEC = """
[release]
name = "{name}"
form = "{form}"
format = "{file_format}"
output = "{output}"

[data]
dataset = "people"
source = "{source}"
separator = ";"

[sampling]
rate = {rate}

[suppression]
k = {k}

[privacy]
delta = {delta}

[columns.colour]
values = ["blue", "green", "red"]
level = 0

[columns.age]
interval = {{ lower = 0, upper = 100, widths = [10, 50] }}
level = 1

[columns.town]
hierarchy = "towns.csv"
level = 1
"""

DEFAULTS = {
    "name": "people-2026",
    "form": "microdata",
    "file_format": "parquet",
    "output": "out",
    "source": "people.csv",
    "rate": "0.1",
    "k": "20",
    "delta": "1e-6",
}
RELEASING = ("answer", "demo", "run", "submit")
TOWNS = "Lyon;South;*\nMarseille;South;*\nLille;North;*\nParis;North;*\n"


@dataclass
class Answer:
    """What a command said and how it left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


@dataclass
class StewardFolder:
    """A folder with a ledger and a private store."""

    folder: Path

    @property
    def ledger(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def settings(self) -> dict[str, str]:
        """The environment that names both."""
        return {"CROWDBLEND_LEDGER": self.ledger, "CROWDBLEND_HOME": str(self.home)}


@dataclass
class CommandFolder(StewardFolder):
    """One in which each command runs in a process of its own."""

    processes: Commands

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CROWDBLEND_")}
        return kept | self.settings

    def command(self, *words: str | Path, code: int = 0, **environment: str) -> str:
        """Run one command, with more of an environment than this process's; what it said."""
        own = self.environment | environment
        ended = self.processes.run(*words, folder=self.folder, environment=own)
        assert ended.returncode == code, ended.stderr
        require_valid_answer(words, ended.stdout)
        return ended.stdout


@dataclass
class Desk(StewardFolder):
    """One steward's folder and the command line in it."""

    capture: pytest.CaptureFixture
    fixture: Callable[[str], Any]
    database: str | None = None
    defaults: dict = field(default_factory=DEFAULTS.copy)

    @property
    def ledger(self) -> str:
        return self.database or super().ledger

    def write_spec(self, *, edit=lambda text: text, file: str = "spec.toml", **changes: str) -> Path:
        path = self.folder / file
        path.write_text(edit(SPEC.format(**(self.defaults | changes))), encoding="utf-8")
        return path

    def write_people(self, rows: int, *, file: str = "people.csv", shift: int = 0) -> Path:
        """Records spread evenly over a few groups, every one of them in the declared domain."""
        colours, towns = ("blue", "green", "red"), ("Lyon", "Marseille", "Lille", "Paris")
        lines = ["colour;age;town;secret"]
        lines += [f"{colours[i % 3]};{20 + 10 * (i % 2)};{towns[i % 4]};{i}" for i in range(shift, shift + rows)]
        path = self.folder / file
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def add_dataset(self, *, epsilon: str = "10", delta: str = "1e-3", unit: str = "record") -> None:
        self.succeed("dataset", "add", "people", "--epsilon", epsilon, "--delta", delta, "--unit", unit)

    def contents(self, below: str = ".") -> dict[str, tuple[int, int, bytes]]:
        """Every file and folder below one, with its mode, its time of change and its bytes, but SQLite's own files."""
        folder = self.folder / below
        return {
            str(path.relative_to(folder)): (
                path.stat().st_mode,
                path.stat().st_mtime_ns,
                path.read_bytes() if path.is_file() else b"",
            )
            for path in sorted(folder.rglob("*"))
            if not path.name.endswith(("-shm", "-wal"))
        }

    def entries(self) -> int:
        """How many entries the ledger has."""
        return len(self("ledger", "export").out.splitlines())

    def releases(self) -> list[dict]:
        """The releases as `ledger show` has them."""
        found: list[dict] = self("ledger", "show", "--json").json["releases"]
        return found

    def prefect(self) -> str:
        """Address of the Prefect server that the tests share; it starts when it is first asked for."""
        address: str = self.fixture("prefect_server").api_url
        return address

    def start(self, *words: str | Path, script: str | None = None, **environment: str) -> Forked:
        """Run one command, or a script, in a process of its own, with more of an environment than this one's."""
        own = os.environ | self.settings | {"PREFECT_API_URL": self.prefect()} | environment
        started: Forked = self.fixture("commands").start(*words, script=script, folder=self.folder, environment=own)
        return started

    def __call__(self, *words: str | Path) -> Answer:
        """Run one command in this process; a release on the server that the tests share, unless one is named."""
        from crowdblend.deploy import cli

        if words and words[0] in RELEASING and "PREFECT_API_URL" not in os.environ:
            self.prefect()
        self.capture.readouterr()
        with pytest.raises(SystemExit) as leave:
            cli.main([str(word) for word in words])
        out, err = self.capture.readouterr()
        require_valid_answer(words, out)
        return Answer(code=int(leave.value.code or 0), out=out, err=err)

    def release(
        self,
        spec: Path,
        *,
        coins: Callable[[int], bytes],
        output: str | None = None,
        scheduler: str | None = None,
        ledger: str | None = None,
        more: tuple[str, ...] = (),
    ) -> dict:
        """Run a release in this process whose sampling keys are these coins; gives what `run --json` prints.

        A ledger that is named is a new one, with a budget for one such release, which is added with `more` options.
        """
        from crowdblend.deploy.run import run_release
        from crowdblend.flows.paths import StatePaths

        if "PREFECT_API_URL" not in os.environ:
            self.prefect()
        url = self.ledger if ledger is None else f"sqlite:///{self.folder / ledger}.db"
        if ledger is not None:
            budget = ("--epsilon", "101", "--delta", "1e-2", "--ledger", url)
            self.succeed("dataset", "add", "people", *budget, *more)
        result = run_release(
            spec,
            state_paths=StatePaths(ledger_url=url, home=self.home),
            output=None if output is None else str(self.folder / output),
            scheduler=scheduler,
            release_id=None,
            randomness=coins,
        )
        require_valid("run", result)
        require_valid_certificate(result["certificate"])
        return result

    def succeed(self, *words: str | Path) -> Answer:
        """The same, for a command that must succeed."""
        answer = self(*words)
        assert answer.code == 0, answer.err
        return answer

    def refuse(self, *words: str | Path, code: int = 2, said: str | tuple[str, ...] = ()) -> Answer:
        """The same, for a command that must end with this exit code and say this on standard error."""
        answer = self(*words)
        assert answer.code == code, answer.err
        for text in (said,) if isinstance(said, str) else said:
            assert text in answer.err
        return answer


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture, request: pytest.FixtureRequest
) -> Desk:
    """A fresh desk with records, hierarchies and settings, but no ledger yet."""
    made = Desk(folder=tmp_path, capture=capfd, fixture=request.getfixturevalue)
    for name, value in made.settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "towns.csv").write_text(TOWNS, encoding="utf-8")
    made.write_people(2_400)
    return made
