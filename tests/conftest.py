"""What tests of every room use: a steward's desk, and a real PostgreSQL server that the tests start."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from crowdblend.deploy.prefect_environment import QUIET
from hypothesis import HealthCheck, settings
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

os.environ.update(QUIET)  # before anything imports Prefect
# The tests' releases go to a server of this process's own, never to one that the surroundings name.
os.environ.pop("PREFECT_API_URL", None)
os.environ.pop("PREFECT_HOME", None)
# No verdict depends on how busy the machine is; what a property may take is the whole suite's affair.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
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
class Desk:
    """One steward's folder and the command line in it."""

    folder: Path
    capture: pytest.CaptureFixture
    database: str | None = None
    defaults: dict = field(
        default_factory=lambda: {
            "name": "people-2026",
            "form": "microdata",
            "file_format": "parquet",
            "output": "out",
            "source": "people.csv",
            "rate": "0.1",
            "k": "20",
            "delta": "1e-6",
        }
    )

    @property
    def ledger(self) -> str:
        return self.database or f"sqlite:///{self.folder / 'ledger.db'}"

    @property
    def home(self) -> Path:
        return self.folder / "home"

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

    def add_dataset(self, *, epsilon: str = "10", delta: str = "1e-3") -> None:
        answer = self("dataset", "add", "people", "--epsilon", epsilon, "--delta", delta)
        assert answer.code == 0, answer.err

    def __call__(self, *words: str | Path) -> Answer:
        """Run one command in this process."""
        from crowdblend.deploy import cli

        self.capture.readouterr()
        with pytest.raises(SystemExit) as leave:
            cli.main([str(word) for word in words])
        out, err = self.capture.readouterr()
        return Answer(code=int(leave.value.code or 0), out=out, err=err)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> Desk:
    """A fresh desk with records, hierarchies and settings, but no ledger yet."""
    made = Desk(folder=tmp_path, capture=capfd)
    monkeypatch.setenv("CROWDBLEND_LEDGER", made.ledger)
    monkeypatch.setenv("CROWDBLEND_HOME", str(made.home))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "towns.csv").write_text(TOWNS, encoding="utf-8")
    made.write_people(2_400)
    return made


def _server_program(name: str) -> str | None:
    beside = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))]
    return shutil.which(name) or (beside[-1] if beside else None)


def _as_ordinary_user(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root: the words before a command that make it somebody else's."""
    if os.getuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]


@pytest.fixture(scope="module")
def browser(needs: Callable[[bool, str, str], None]) -> Iterator[object]:
    """A real headless Chromium, by way of Playwright; no page reaches beyond this machine."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    needs(program is not None, "Chromium", "CROWDBLEND_TEST_BROWSER")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, headless=True, args=BROWSER_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def needs() -> Callable[[bool, str, str], None]:
    """What a test needs of the machine: whether it is there, what it is, and the switch of those who go without."""

    def need(there: bool, what: str, switch: str) -> None:
        if there:
            return
        if os.environ.get(switch) == "off":
            # Whoever hasn't got it has said so; the checks set no switch, and fail below.
            pytest.skip(f"{switch}=off says that {what} is known to be missing")
        pytest.fail(f"{what} is missing; install it, or set {switch}=off to leave untested what needs it")

    return need


@pytest.fixture(scope="session")
def postgresql_server(needs: Callable[[bool, str, str], None]) -> Iterator[str]:
    """URL of an empty server's maintenance database; the server is the tests' own and ends with them."""
    initdb, postgres = _server_program("initdb"), _server_program("postgres")
    needs(initdb is not None and postgres is not None, "PostgreSQL", "CROWDBLEND_TEST_POSTGRES")
    folder = Path(tempfile.mkdtemp(prefix="crowdblend-pg-", dir="/tmp"))
    data, log = folder / "data", folder / "log"
    user = _as_ordinary_user(folder)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C"}
    subprocess.run(
        [*user, initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
        check=True,
        capture_output=True,
        env=environment,
        cwd=folder,
    )
    with log.open("wb") as sink:
        server = subprocess.Popen(
            [*user, postgres, "-D", str(data), "-k", str(folder), "-c", "listen_addresses=", "-F"],
            stdout=sink,
            stderr=sink,
            env=environment,
            cwd=folder,
        )
    url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
    try:
        _await_server(url, server, log)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder)


def _await_server(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    from sqlalchemy.exc import OperationalError

    engine = create_engine(url, poolclass=NullPool)
    for _ in range(300):
        assert server.poll() is None, log.read_text()
        try:
            with engine.connect():
                return
        except OperationalError:
            time.sleep(0.1)
    pytest.fail("the PostgreSQL server did not start in 30 seconds")
