"""What every fuzz target works at: a folder with a ledger of every kind of entry, and watches over what must not be."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.ledger_writer import dataset_entry, open_writer
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy import cli
from crowdblend.flows.paths import StatePaths

sys.path.append(
    str(Path(__file__).parents[2] / "tests")
)  # for what all tests share, also where pytest doesn't run this
from support.golden_ledger import put_golden_ledger

__all__ = ["Desk", "Fault", "Run", "furnished_desk", "no_network", "plain_desk", "said", "within"]

DAY = date(2026, 3, 4)
TOWNS = "Lyon;South;*\nMarseille;South;*\nLille;North;*\nParis;North;*\n"
CODES = (0, 1, 2, 3)

Run = Callable[[bytes], None]
"""Feeds one input to the product; whatever leaves it is a fault."""


class Fault(Exception):
    """The product broke a promise on some input."""


@dataclass(frozen=True)
class Desk:
    """A folder with a ledger, a private store and an input."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.ledger}"

    @property
    def anchoring(self) -> Anchoring:
        return Anchoring(home=self.home, file=None)

    @property
    def state_paths(self) -> StatePaths:
        return StatePaths(ledger_url=self.url, home=self.home)

    def kinds(self, *, after: int) -> list[str]:
        """Kinds of the ledger's entries after a place."""
        with open_reader(self.url) as reader:
            return [one.entry.KIND for one in reader.entries() if one.position > after]

    def head(self) -> int:
        """Place of the last entry."""
        with open_reader(self.url) as reader:
            return reader.head().position

    def files(self) -> frozenset[str]:
        """Everything below the folder but what the ledger and the private store keep for themselves."""
        return frozenset(
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.relative_to(self.folder).parts[0] != "home" and not path.name.startswith("ledger.db")
        )

    def sampling_keys(self) -> list[Path]:
        """Keys of releases, which only a charge makes."""
        return list(self.home.rglob("sampling.key*"))


def plain_desk(folder: Path) -> Desk:
    """A desk with one funded data set and records."""
    desk = Desk(folder)
    folder.mkdir(parents=True, exist_ok=True)
    create_where_none(SigningKeys(home=desk.home), lambda size: b"\x2a" * size)
    create_ledger(desk.url, anchoring=desk.anchoring)
    with open_writer(desk.url, anchoring=desk.anchoring) as writer:
        budget = {"epsilon": Decimal(10), "delta": Decimal("0.001"), "relation": "add/remove", "survey_rate": None}
        writer.add_dataset(dataset_entry(name="people", **budget, rows_per_person=1, by="steward", day=DAY))
    (folder / "towns.csv").write_text(TOWNS, encoding="utf-8")
    (folder / "people.csv").write_text("colour;age;town\nred;20;Lyon\nblue;30;Lille\n", encoding="utf-8")
    return desk


def furnished_desk(folder: Path) -> Desk:
    """A desk with the committed ledger: every kind of entry."""
    desk = Desk(folder)
    folder.mkdir(parents=True, exist_ok=True)
    put_golden_ledger(desk.url, desk.home)
    with closing(sqlite3.connect(desk.ledger)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return desk


def said(desk: Desk, *words: str | Path) -> tuple[int, str]:
    """Run one command in this process; its exit code and all that it told.

    Raises:
        Fault: it left with another code than the four, or a person was told of an internal fault.
    """
    out, err = io.StringIO(), io.StringIO()
    os.environ.update(CROWDBLEND_LEDGER=desk.url, CROWDBLEND_HOME=str(desk.home))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main([str(word) for word in words])
        except SystemExit as leave:
            code = leave.code
    told = out.getvalue() + err.getvalue()
    if code not in CODES:
        raise Fault(f"{words[:2]} left with {code!r}")
    if "Traceback" in told or "Internal fault" in told:
        at = max(told.find("Internal fault"), told.find("Traceback"))
        raise Fault(f"{' '.join(map(str, words[:2]))}: {told[at : at + 100]}")
    return int(code or 0), told


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """A time limit for one input.

    Raises:
        Fault: it was passed.
    """

    def late(number: int, frame: object) -> None:
        raise Fault(f"no answer in {seconds} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def no_network() -> None:
    """From now on this process reaches nothing, whatever address an input names."""

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
            raise OSError(f"no network here: {event}")

    sys.addaudithook(refuse)
