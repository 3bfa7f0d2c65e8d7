"""Ledgers to test with: SQLite files, and databases of a real PostgreSQL server that the tests start."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from crowdblend.accounting.certificate.write_certificate import write_certificate
from crowdblend.accounting.kernel.field_forms import Fields
from crowdblend.accounting.kernel.keys.signing import SigningKey, SigningKeys
from crowdblend.accounting.kernel.ledger.entries import Entry, FilterAccounting, ReleaseCharged, sorted_fields
from crowdblend.accounting.kernel.ledger.filter_budget import FilterBudget, filter_charge
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState, Receipt
from crowdblend.accounting.kernel.ledger.transactions import looking, writing
from crowdblend.accounting.kernel.prices.mechanism_kind import Price
from crowdblend.accounting.kernel.prices.registry import mechanism_record, paper_price, price
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.kinds.composition.renyi_filter import FilterTerms, conversion_loss
from crowdblend.accounting.ledger.charge_request import RECORDS, SeriesRegistration
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.filter_accounting import propose_accounting
from crowdblend.accounting.ledger.ledger_writer import LedgerWriter, dataset_entry
from crowdblend.accounting.ledger.lookup import DatasetContext, SeriesState
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.accounting.ledger.reader import LedgerReader, open_reader
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import ValueHierarchy
from crowdblend.mechanisms.kernel.mechanism import Mechanism
from crowdblend.mechanisms.kinds.microdata import EpsilonSafeRelease, StronglySafeRelease
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.pool import NullPool
from support.charging import ReleaseCharge, charging_writer
from support.folding import faults_of
from support.golden_ledger import put_golden_ledger
from support.guards import past_guards

ALSO_QUICK_ON_POSTGRESQL = (
    "test_ledger_guards",
    "test_ledger_roles",
    "test_a_release_goes_from_charge_to_publication",
    "test_the_last_of_a_budget_is_spent_once",
)
"""Files and tests that are part of `make test` on PostgreSQL too: what the database itself must keep."""
DAY = date(2026, 3, 4)
FILES = (("data.csv", "c" * 64),)
DELTA = Decimal("1e-6")
FILTER_EPSILON = Decimal("0.48")
MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
CHOSEN = EpsilonSafeRelease(
    k=20, sampling_rate=Decimal("0.1"), selection_epsilon=Decimal("0.1"), selection_rate=Decimal("0.05")
)


def leave_repeats_to_check(items: list[pytest.Item], folder: Path) -> None:
    """Leave to `make check` what repeats on PostgreSQL a rule that SQLite's copy of a test in a folder keeps."""
    for item in items:
        function, *parameters = re.split(r"[\[\]-]", item.name)
        repeats = "postgresql" in parameters and not {item.path.stem, function} & {*ALSO_QUICK_ON_POSTGRESQL}
        if repeats and folder in item.path.parents:
            item.add_marker(pytest.mark.slow)


@cache
def costs_of(
    mechanism: Mechanism = MECHANISM, *, delta: Decimal = DELTA, releases: int = 1, rows_per_person: int = 1
) -> dict[str, Any]:
    """What a charge of a mechanism, or of a series of it, has of its own."""
    terms = {"delta": delta, "releases": releases, "rows_per_person": rows_per_person}
    paper = paper_price(mechanism, **terms)
    return {
        "mechanism": mechanism,
        "price": price(mechanism, **terms),
        "epsilon_paper": None if paper is None else paper.epsilon,
    }


@cache
def filter_accounting(epsilon: Decimal) -> FilterAccounting:
    """How a filter budget of (ε, 1e-6) for twelve of the tests' releases is accounted."""
    return propose_accounting(epsilon=epsilon, delta=DELTA, expected=((MECHANISM, 12),))


def anchoring_at(home: Path) -> Anchoring:
    """Keys and anchors in a private store, whose signing key is made where there is none."""
    create_where_none(SigningKeys(home=home), os.urandom)
    return Anchoring(home=home, file=None)


def request(release_id: str = "one", **changes: Any) -> ReleaseCharge:
    """A release that is to be charged, of the tests' mechanism unless another is given."""
    values: dict[str, Any] = {
        "release_id": release_id,
        "label": "census",
        "dataset": "census",
        "sample_id": hashlib.sha256(release_id.encode()).hexdigest(),
        "spec_digest": "a" * 64,
        "map_digest": "b" * 64,
        "code_version": "0.1.0",
        "sampler_layout": "chacha20-byte-first/1",
        "day": DAY,
    }
    return ReleaseCharge(**values | costs_of() | changes)


def registration(name: str = "monthly", *, releases: int = 3, **changes: Any) -> SeriesRegistration:
    """A series that is to be registered."""
    values = {"dataset": "census", "spec_digest": "c" * 64, "map_digest": "b" * 64, "day": DAY}
    return SeriesRegistration(series=name, **values | costs_of(releases=releases) | changes)


def of_series(release_id: str, *, name: str = "monthly", releases: int = 3, **changes: Any) -> ReleaseCharge:
    """A release that a series pays for."""
    return request(release_id, **costs_of(releases=releases) | {"series": name, "series_digest": "c" * 64} | changes)


def of_two_samples(release_id: str, *, mechanism: EpsilonSafeRelease = CHOSEN, **changes: Any) -> ReleaseCharge:
    """A release that chooses its map, on a sample of its own where the mechanism has a rate for one."""
    values = dict(costs_of(mechanism))
    if mechanism.selection_rate is not None:
        values["selection_sample_id"] = hashlib.sha256(f"{release_id} chooses".encode()).hexdigest()
    return request(release_id, **values | changes)


@dataclass(frozen=True)
class Books:
    """A fresh ledger, with shorthands."""

    url: str
    dialect: str
    anchoring: Anchoring
    racer: Callable[[dict[str, Any]], list[str]]

    @property
    def price(self) -> Price:
        cost: Price = costs_of()["price"]
        return cost

    def writer(self) -> LedgerWriter:
        return charging_writer(self.url, anchoring=self.anchoring)

    def reader(self) -> LedgerReader:
        return open_reader(self.url)

    def add(self, name: str = "census", **changes: Any) -> None:
        values: dict[str, Any] = {
            "name": name,
            "epsilon": Decimal(10),
            "delta": Decimal("0.001"),
            "relation": "add/remove",
            "survey_rate": None,
            "rows_per_person": 1,
            "by": "steward",
            "day": DAY,
        }
        self.writer().add_dataset(dataset_entry(**(values | changes)))

    def add_filter(self, name: str = "census", *, epsilon: Decimal = FILTER_EPSILON, **changes: Any) -> None:
        """Add a data set whose filter budget is meant for twelve of the tests' releases."""
        self.add(name, epsilon=epsilon, delta=DELTA, accounting=filter_accounting(epsilon), **changes)

    def add_room_for(self, releases: Decimal, *, name: str = "census", tails: Decimal = Decimal(50)) -> None:
        """Add a filter data set with room for so many of the tests' releases; for so many more of their tails."""
        whole = filter_accounting(FILTER_EPSILON)
        record = sorted_fields(mechanism_record(MECHANISM))
        budget = FilterBudget(epsilon=FILTER_EPSILON, delta=DELTA, relation="add/remove", accounting=whole)
        each = filter_charge(record, budget=budget, releases=1, rows_per_person=1)
        tail_delta = min(tails * each.tail, DELTA / 2)
        loss = conversion_loss(whole.order, DELTA - tail_delta)
        epsilon = Decimal(f"{loss + releases * each.divergence:.9f}")
        tail_each = min(whole.tail_each, tail_delta)
        terms = FilterTerms(epsilon=epsilon, delta=DELTA, order=whole.order, tail_delta=tail_delta, tail_each=tail_each)
        accounting = dataclasses.replace(whole, tail_delta=tail_delta, tail_each=tail_each, allowance=terms.allowance)
        self.add(name, epsilon=epsilon, delta=DELTA, accounting=accounting)

    request = staticmethod(request)
    registration = staticmethod(registration)
    of_series = staticmethod(of_series)
    of_two_samples = staticmethod(of_two_samples)

    def charge(self, release_id: str = "one", **changes: Any) -> Receipt:
        return self.writer().charge(self.request(release_id, **changes))

    def look(self, dataset: str = "census", **changes: Any) -> None:
        """Look before a charge; raises what speaks against it."""
        values: dict[str, Any] = {"mechanism": MECHANISM, "price": self.price, "unit": RECORDS}
        with self.reader() as reader:
            found = reader.check_charge(dataset=dataset, **(values | changes))
        if found is not None:
            raise found

    def register(self, name: str = "monthly", **changes: Any) -> SeriesRegistration:
        registration = self.registration(name, **changes)
        self.writer().register_series(registration)
        return registration

    def series(self, name: str = "monthly") -> SeriesState:
        with self.reader() as reader:
            return reader.series(name)

    def number(self, release_id: str) -> int:
        with self.reader() as reader:
            state = reader.release(release_id)
        assert state is not None
        assert state.charge.series is not None
        return state.charge.series.number

    def abandon(self, release_id: str) -> bool:
        return self.writer().abandon(release_id=release_id, reason="a test", by="operator", day=DAY)

    def read_and_publish(self, receipt: Receipt) -> None:
        with self.writer() as writer:
            writer.mark_reading(receipt)
            writer.mark_published(receipt, FILES)

    def spent(self, name: str = "census") -> tuple[Decimal, Decimal]:
        with self.reader() as reader:
            (account,) = [state.account for state in reader.datasets() if state.name == name]
        return account.epsilon_spent, account.delta_spent

    def entries(self) -> list[Entry]:
        with self.reader() as reader:
            return [recorded.entry for recorded in reader.entries()]

    def kinds(self) -> list[str]:
        return [entry.KIND for entry in self.entries()]

    def state(self) -> LedgerState:
        """What follows from all entries, as the signed snapshot says."""
        with closing(open_store(self.url, read_only=True)) as store, looking(store) as ledger:
            return ledger.state

    def faults(self, entry: Entry) -> list[str]:
        """What the rules say of one more entry, which is not appended."""
        return faults_of(entry, self.state())

    def append(self, *entries: Entry) -> None:
        """Append entries whatever the rules say, as a writer does that has none."""
        with closing(open_store(self.url, read_only=False)) as store, writing(store, self.anchoring) as ledger:
            for entry in entries:
                ledger._append(entry)

    def findings(self) -> list[str]:
        with self.reader() as reader:
            return [str(finding) for finding in reader.verify()]

    def sql(self, *statements: str, **values: Any) -> None:
        """Run SQL as somebody would who goes past the ledger's code."""
        self.raw(lambda connection: [connection.execute(text(statement), values) for statement in statements])

    def raw(self, work: Callable[[Connection], Any]) -> Any:
        engine = create_engine(self.url, poolclass=NullPool)
        try:
            with engine.begin() as connection:
                return work(connection)
        finally:
            engine.dispose()

    def race(
        self,
        attempts: list[dict[str, Any]],
        *,
        steps: tuple[str, ...] = ("charge",),
        releases: int = 1,
        processes: int | None = None,
    ) -> list[str]:
        """Let one process an attempt, or so many in all, begin at the same moment; gives each attempt's outcome."""
        job = {
            "url": self.url,
            "home": str(self.anchoring.home),
            "attempts": attempts,
            "steps": steps,
            "delta": str(DELTA),
            "releases": releases,
            "processes": processes,
        }
        return self.racer(job)


def _new_database(server: str, tmp_path: Path, *, template: str) -> str:
    name = f"ledger_{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:16]}"
    engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    return server.replace("/postgres?", f"/{name}?")


SEX = ValueHierarchy.from_values(["Female", "Male"])
MAP = GeneralizationMap(columns=(MappedColumn(name="sex", hierarchy=SEX, level=0),))


@dataclass(frozen=True)
class Certified:
    """Writes a small release and its certificate."""

    books: Books
    map: GeneralizationMap = MAP
    hierarchy: ValueHierarchy = SEX

    def __call__(
        self,
        folder: Path,
        *,
        key: SigningKey | None = None,
        charge: ReleaseCharged | None = None,
        rows_per_person: int = 1,
        look_days: tuple[date, ...] = (),
        registered: Fields | None = None,
        context: DatasetContext | None = None,
        enforced_by: str | None = None,
    ) -> Path:
        folder.mkdir()
        (folder / "data.csv").write_text("sex,count\nFemale,21\nMale,34\n")
        plain = DatasetContext(rows_per_person=rows_per_person, look_days=look_days, registered=registered)
        write_certificate(
            folder,
            charge=charge or self.books.request(map_digest=self.map.digest()).entry,
            context=context or plain,
            position=2,
            chain_hash="f" * 64,
            generalization=self.map,
            choice=None,
            published={"form": "counts", "groups": 2, "records": 55},
            code_sources="c" * 64,
            key=key or self.books.anchoring.keys.current(),
            enforced_by=enforced_by,
        )
        return folder / "certificate.json"


@pytest.fixture
def certified(sqlite_books: Books) -> Certified:
    """A writer of certificates of a fresh ledger."""
    return Certified(sqlite_books)


@pytest.fixture
def anchoring(tmp_path: Path) -> Anchoring:
    """A fresh private store with a signing key."""
    return anchoring_at(tmp_path / "home")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger may be created, on either database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return _new_database(request.getfixturevalue("postgresql_server"), tmp_path, template="template1")


@pytest.fixture(scope="session")
def postgresql_template(postgresql_server: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of a database with an empty ledger: copying it is quicker than making one."""
    url = _new_database(postgresql_server, tmp_path_factory.mktemp("template"), template="template1")
    create_ledger(url, anchoring=anchoring_at(tmp_path_factory.mktemp("home")))
    return str(make_url(url).database)


@pytest.fixture(scope="session")
def racer() -> Iterator[Callable[[dict[str, Any]], list[str]]]:
    """A program that loads what it needs at the first race, and forks processes that begin at the same moment."""
    started: list[subprocess.Popen[str]] = []

    def race(job: dict[str, Any]) -> list[str]:
        if not started:
            program = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("ledger_racer.py"))]
            started.append(subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        [process] = started
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        outcomes: list[str] = json.loads(process.stdout.readline())
        return outcomes

    yield race
    for process in started:
        process.communicate(timeout=600)


@pytest.fixture(params=["sqlite", "postgresql"])
def books(request: pytest.FixtureRequest) -> Books:
    """A fresh ledger on either database."""
    fresh: Books = request.getfixturevalue(f"{request.param}_books")
    return fresh


@pytest.fixture
def postgresql_books(
    postgresql_server: str,
    postgresql_template: str,
    tmp_path: Path,
    anchoring: Anchoring,
    racer: Callable[..., list[str]],
) -> Books:
    """A fresh ledger on PostgreSQL, for what is that database's own."""
    url = _new_database(postgresql_server, tmp_path, template=postgresql_template)
    return Books(url=url, dialect="postgresql", anchoring=anchoring, racer=racer)


@pytest.fixture
def sqlite_books(tmp_path: Path, anchoring: Anchoring, racer: Callable[..., list[str]]) -> Books:
    """A fresh ledger on SQLite, for what does not depend on the database."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    create_ledger(url, anchoring=anchoring)
    return Books(url=url, dialect="sqlite", anchoring=anchoring, racer=racer)


@pytest.fixture(scope="session")
def golden_ledger(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Path], Books]:
    """Puts the committed ledger into an empty database, and its keys and anchor into a private store.

    On SQLite all but the first are copies.
    """
    kept = tmp_path_factory.mktemp("golden")

    def put(url: str, home: Path) -> Books:
        dialect, file = make_url(url).get_backend_name(), make_url(url).database
        if dialect == "sqlite" and file is not None:
            if not (kept / "home").exists():
                put_golden_ledger(f"sqlite:///{kept / 'ledger.db'}", kept / "home")
            shutil.copy(kept / "ledger.db", file)
            shutil.copytree(kept / "home", home)
            anchoring = Anchoring(home=home, file=None)
        else:
            anchoring = put_golden_ledger(url, home)
        return Books(url=url, dialect=dialect, anchoring=anchoring, racer=lambda job: [])

    return put


@pytest.fixture
def forge_past_guards() -> Callable[..., Any]:
    """Changes a ledger past its guards, which are there again afterwards; gives the entries as they are then."""

    def forge(books: Books, *statements: str) -> Any:
        def work(connection: Connection) -> Any:
            with past_guards(connection):
                for statement in statements:
                    connection.execute(text(statement))
            return connection.execute(text("SELECT * FROM entry ORDER BY position")).all()

        return books.raw(work)

    return forge
