"""A ledger made by real commands, and the real server on it, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import ssl
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import cast

import httpx
import pytest
from crowdblend.accounting.dashboard.server.access import Options
from crowdblend.accounting.dashboard.server.app import Observer, dashboard
from crowdblend.accounting.kernel.prices.registry import paper_price, price
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.ledger.ledger_writer import LedgerWriter
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import AccountantRefused
from crowdblend.mechanisms.kernel.mechanism import Mechanism
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.local_reports.design import QuestionDesign, ReportDesign, design_of_table
from crowdblend.mechanisms.local_reports.device import header, question_report, report
from support.charging import ReleaseCharge, charging_writer
from support.commands import Commands, Forked
from support.desk import DEFAULTS, SPEC, CommandFolder
from support.prefect_servers import PrefectServer
from support.shared import filled_once

REPORTS = """
[release]
name = "{name}"
output = "out/{name}"
[data]
dataset = "{name}"
source = "{name}.csv"
[reports]
{reports}
"""
WORDS = """kind = "count-mean-sketch"
epsilon = 4
hashes = 16
bits = 64
seed = "town"
values = ["tea", "coffee"]
"""
VOTES = """kind = "k-randomization"
flip_probability = 0.25
questions = ["voted"]
least_people = 900
[privacy]
delta = 1e-6
"""

CHARGED = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


@dataclass
class Town(CommandFolder):
    """A folder with a ledger, its private store, and what was released from it."""

    token: str = ""

    @property
    def anchoring(self) -> Anchoring:
        return Anchoring(home=self.home, file=None)

    def writer(self) -> LedgerWriter:
        return charging_writer(self.ledger, anchoring=self.anchoring)

    def charge(
        self,
        release_id: str,
        *,
        dataset: str = "people",
        sample: str | None = None,
        label: str = "x",
        mechanism: Mechanism = CHARGED,
    ) -> None:
        """Charge a release that is never read, as a process does that dies after the charge."""
        paper = paper_price(mechanism, delta=Decimal("1e-6"))
        with self.writer() as writer:
            writer.charge(
                ReleaseCharge(
                    release_id=release_id,
                    label=label,
                    dataset=dataset,
                    sample_id=sample or os.urandom(32).hex(),
                    mechanism=mechanism,
                    price=price(mechanism, delta=Decimal("1e-6")),
                    epsilon_paper=None if paper is None else paper.epsilon,
                    spec_digest="a" * 64,
                    map_digest="b" * 64,
                    code_version="0.1.0",
                    sampler_layout="chacha20-byte-first/1",
                    day=datetime.now(UTC).date(),
                )
            )

    def copy(self, folder: Path) -> Town:
        """Another ledger of the same content."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Town(folder=folder, processes=self.processes, token=self.token)

    def past_the_guards(self, *statements: str) -> None:
        """Change the ledger as somebody would who first removes the triggers, and then puts them back."""
        connection = sqlite3.connect(self.folder / "ledger.db", isolation_level=None)
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement
        for _, definition in triggers:
            connection.execute(definition)
        connection.close()


@pytest.fixture(scope="session")
def town_of() -> Callable[[Path], Town]:
    """A folder for a ledger of a test's own, which runs no command."""
    return lambda folder: Town(folder=folder, processes=cast("Commands", None))


def spec_text(name: str, *, rate: str, k: int) -> str:
    """A specification of microdata."""
    return SPEC.format(**DEFAULTS | {"name": name, "output": f"out/{name}", "rate": rate, "k": k})


def reported(design: ReportDesign, person: int) -> str:
    """What a person's device sends."""
    if isinstance(design, QuestionDesign):
        return question_report(design, [person % 3 == 0], randomness=os.urandom)
    return report(design, ("tea", "coffee", "water")[person % 3], randomness=os.urandom)


def build(folder: Path, processes: Commands, prefect: str) -> Town:
    """Data sets, releases, a series, a raised budget, refusals, a reused sample, and a token: by real commands."""
    town = Town(folder=folder, processes=processes)
    rows = [f"{('blue', 'green', 'red')[i % 3]};{20 + 10 * (i % 2)};{('Lyon', 'Lille')[i % 2]}" for i in range(12_000)]
    (folder / "people.csv").write_text("\n".join(["colour;age;town", *rows]) + "\n", encoding="utf-8")
    (folder / "towns.csv").write_text("Lyon;South;*\nLille;North;*\n", encoding="utf-8")
    specs = {"spring": ("0.1", 20), "summer": ("0.05", 15), "month-1": ("0.05", 20), "greedy": ("0.5", 25)}
    for name, (rate, k) in specs.items():
        (folder / f"{name}.toml").write_text(spec_text(name, rate=rate, k=k), encoding="utf-8")
    chosen = spec_text("chosen", rate="0.1", k=20).replace("level = 1\n", "").replace("level = 0\n", "")
    (folder / "chosen.toml").write_text(chosen + "[selection]\nepsilon = 0.1\n", encoding="utf-8")
    families = spec_text("families", rate="0.1", k=60).replace('"people"', '"families"\nrows_per_person = 3')
    (folder / "families.toml").write_text(families, encoding="utf-8")
    for name, reports in (("words", WORDS), ("votes", VOTES)):
        (folder / f"{name}.toml").write_text(REPORTS.format(name=name, reports=reports), encoding="utf-8")
        design = design_of_table(tomllib.loads(reports))
        lines = [reported(design, person) for person in range(900)]
        (folder / f"{name}.csv").write_text("\n".join([header(design), *lines]) + "\n", encoding="ascii")
    for command, code in (
        ("dataset add people --epsilon 1.5 --delta 1e-5", 0),
        ("dataset add schools,north --epsilon 0.5 --delta 1e-6", 0),
        ("run spring.toml --release-id people-spring", 0),
        ("run summer.toml --release-id people-summer", 0),
        ("series add monthly month-1.toml --releases 12", 0),
        ("run month-1.toml --series monthly --release-id monthly-1", 0),
        ("run greedy.toml --release-id people-greedy", 3),
        ("run chosen.toml --release-id people-chosen", 0),
        ("dataset add families --epsilon 9 --delta 1e-3 --rows-per-person 3", 0),
        ("run families.toml --release-id families-spring", 0),
        ("dataset raise people --epsilon 2 --delta 1e-5 --reason Agreed", 0),
        ("dataset add words --relation replacement --epsilon 9 --delta 1e-3", 0),
        ("run words.toml --release-id words-of-phones", 0),
        ("dataset add votes --relation replacement --epsilon 9 --delta 1e-3", 0),
        ("run votes.toml --release-id votes-counted", 0),
    ):
        town.command(*command.split(), code=code, PREFECT_API_URL=prefect)
    town.charge("people-autumn", label="autumn", sample="7" * 64)
    with pytest.raises(AccountantRefused):
        town.charge("people-again", sample="7" * 64)
    town.command("abandon", "people-autumn", "--reason", "columns")
    said = town.command("token", "add", "auditor", "--expires", "90d")
    token = said.strip().splitlines()[-1]
    with open_reader(town.ledger) as reader:
        assert reader.verify() == ()
    return Town(folder=folder, processes=processes, token=token)


@pytest.fixture(scope="session")
def town(tmp_path_factory: pytest.TempPathFactory, fork_server: Path, request: pytest.FixtureRequest) -> Town:
    """The ledger that most tests look at; nothing writes to it. All processes of tests share it."""
    processes = Commands(fork_server)

    def make(folder: Path) -> None:
        prefect: PrefectServer = request.getfixturevalue("prefect_server")
        made = build(folder, processes, prefect.api_url)
        (folder / "token").write_text(made.token, encoding="ascii")

    folder = filled_once(tmp_path_factory, "town", make)
    return Town(folder=folder, processes=processes, token=(folder / "token").read_text(encoding="ascii"))


NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without authorities, which each request would read
HANGS = 600.0  # seconds; whatever takes longer hangs, also on a busy machine


def verified(pages: Served | Opened, *, past: str | None = None) -> dict:
    """Wait until a verification has ended, another one than that which ended at a time."""
    until = time.monotonic() + HANGS
    while time.monotonic() < until:
        told = pages.get("/api/v1/verification", headers=pages.headers).json()
        chain = told["frame"]["chain"] if "frame" in told else told["error"].get("chain", {"ended": None})
        if chain["ended"] is not None and chain["ended"] != past and not chain["running"]:
            return chain
        time.sleep(0.1)
    pytest.fail("no verification ended")


@dataclass
class Served:
    """A running dashboard."""

    url: str
    process: Forked
    log: Path
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **options) -> httpx.Response:
        headers = self.headers | options.pop("headers", {})
        return httpx.get(self.url.rstrip("/") + path, headers=headers, timeout=HANGS, verify=NO_TLS, **options)

    def verified(self, *, past: str | None = None) -> dict:
        """Wait until a verification has ended, another one than that which ended at a time."""
        return verified(self, past=past)


@contextmanager
def serving(town: Town, *options: str, url: str | None = None) -> Iterator[Served]:
    """The real command, on any free port, ended afterwards."""
    log = town.folder / f"dashboard-{os.urandom(4).hex()}.log"
    environment = town.environment | ({} if url is None else {"CROWDBLEND_LEDGER": url})
    words = ("dashboard", "--port", "0", *options)
    process = town.processes.start(*words, folder=town.folder, environment=environment, log=log)
    try:
        said = process.stdout.readline()
        assert "http://" in said, log.read_text()
        yield Served(url=said.split()[-1], process=process, log=log)
    finally:
        process.terminate()
        process.communicate(timeout=600)


@pytest.fixture(scope="session")
def serve() -> Callable[..., object]:
    """Starts a dashboard for a ledger."""
    return serving


@pytest.fixture(scope="session")
def served(town: Town) -> Iterator[Served]:
    """One dashboard on the common ledger, open on this machine, with the published releases."""
    with serving(town, "--releases", "out") as running:
        running.verified()
        yield running


class Opened:
    """The pages of a ledger in this process, without a server: quick to open for a ledger of a test's own."""

    def __init__(self, url: str, **options) -> None:
        self.headers: dict[str, str] = {}
        self.events: list[dict] = []
        observer = Observer(lambda line: self.events.append(json.loads(line)))
        self.pages = dashboard(Options(ledger_url=url, **options), observer=observer)
        self.loop = asyncio.new_event_loop()

    def get(self, path: str, *, host: str = "localhost", headers: dict[str, str] | None = None) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.pages, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
                return await client.get(path, headers=headers)

        return self.loop.run_until_complete(asked())

    def verified(self, *, past: str | None = None) -> dict:
        """Wait until a verification has ended, another one than that which ended at a time."""
        return verified(self, past=past)

    def __enter__(self) -> Opened:
        self.told: asyncio.Queue[dict] = asyncio.Queue()
        self.said: asyncio.Queue[dict] = asyncio.Queue()
        self.told.put_nowait({"type": "lifespan.startup"})
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self.life = self.loop.create_task(self.pages(scope, self.told.get, self.said.put))
        assert self.loop.run_until_complete(self.said.get()) == {"type": "lifespan.startup.complete"}
        return self

    def __exit__(self, *_: object) -> None:
        self.told.put_nowait({"type": "lifespan.shutdown"})
        self.loop.run_until_complete(self.life)
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture(scope="session")
def opened() -> type[Opened]:
    """Opens the pages of a ledger in this process."""
    return Opened


PATHS = (
    "/",
    "/overview",
    "/datasets/1",
    "/datasets/2",
    "/datasets/1/forecast",
    "/releases",
    "/releases/people-spring",
    "/releases/people-chosen",
    "/releases/families-spring",
    "/releases/monthly-1",
    "/releases/people-autumn",
    "/releases/words-of-phones",
    "/releases/votes-counted",
    "/samples",
    "/refusals",
    "/verification",
    "/entries/0",
    "/entries/3",
    "/calculator",
    "/calculator?k=20&sampling_rate=0.1&delta=1e-6&releases=12",
)


@pytest.fixture(scope="session")
def paths() -> tuple[str, ...]:
    """The address of every kind of page on the common ledger."""
    return PATHS


@pytest.fixture
def copied(town: Town, tmp_path: Path) -> Town:
    """A copy of the common ledger that a test may write to."""
    return town.copy(tmp_path / "copy")
