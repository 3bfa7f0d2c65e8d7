"""A ledger with every kind of entry, and a forger with a key who gets past its guards and computes every hash again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from crowdblend.accounting.kernel.field_forms import amount_text
from crowdblend.accounting.kernel.keys.signing import PublicKey, SigningKey
from crowdblend.accounting.kernel.ledger.database import UNIQUE_OF_CHARGE, entry
from crowdblend.accounting.kernel.ledger.entries import GENESIS, entry_of_bytes, link_hash
from crowdblend.accounting.kernel.ledger.ledger_state import LedgerState, Place
from crowdblend.accounting.kernel.ledger.transactions import NO_CHARGE, columns_of, keep_snapshot
from crowdblend.accounting.ledger.anchor_check import check_anchor
from crowdblend.accounting.ledger.verification import verify_ledger
from sqlalchemy import Connection, Table, create_engine, delete, insert, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from support.guards import past_guards


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make test-long` what repeats on PostgreSQL a mutation that has nothing to do with releases."""
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        of_release = str(params.get("kind", "release-")).startswith("release-")
        if params.get("victim") == "postgresql" and not of_release:
            item.add_marker(pytest.mark.long)


FORGER = SigningKey(seed=b"\x07" * 32)
Document = dict[str, Any]
Work = Callable[[Connection], None]


class Refused(Exception):
    """The database refuses a change even of somebody who has switched its guards off."""


@dataclass(frozen=True)
class Found:
    """What a verification says without the anchor, what the anchor adds, and whether the signer is somebody else."""

    inside: tuple[str, ...]
    anchor: tuple[str, ...]
    others_key: bool
    unchecked: tuple[str, ...]


@dataclass(frozen=True)
class Victim:
    """A ledger with every kind of entry; each forgery is looked at and then undone."""

    connection: Connection
    anchor: Path
    trusted: tuple[PublicKey, ...]

    @property
    def dialect(self) -> str:
        return self.connection.dialect.name

    def documents(self) -> list[Document]:
        with self.connection.begin():
            bodies = self.connection.execute(select(entry.c.body).order_by(entry.c.position)).scalars().all()
        return [json.loads(body) for body in bodies]

    def rows(self, table: Table) -> list[dict[str, Any]]:
        with self.connection.begin():
            return [dict(row) for row in self.connection.execute(select(table)).mappings()]

    def after(self, *work: Work) -> Found:
        """What is found after a forgery past the guards, which are there again when it is verified."""
        with self.connection.begin() as transaction:
            with past_guards(self.connection):
                for one in work:
                    try:
                        one(self.connection)
                    except DBAPIError as error:
                        transaction.rollback()
                        raise Refused from error
            found = self._look()
            transaction.rollback()
        return found

    def found(self, *work: Work) -> bool:
        """Whether a forgery is found from inside, or can't be stored at all."""
        try:
            return self.after(*work).inside != ()
        except Refused:
            return True

    def some(self, items: Sequence[Any], *, thorough: bool) -> Sequence[Any]:
        """All of them, or some that are spread over the whole; fewer where each look costs more."""
        return items if thorough else items[:: 5 if self.dialect == "sqlite" else 10]

    def rewritten(self, documents: list[Any]) -> Work:
        """Write a whole ledger anew: every hash, what each charge takes for itself, and the state that follows."""
        return lambda connection: _rewrite(connection, documents)

    @staticmethod
    def sealed(connection: Connection) -> None:
        """Make the state that follows from the entries, and sign it with the forger's own key."""
        links = connection.execute(select(entry).order_by(entry.c.position)).mappings().all()
        _keep(connection, [(link["body"].encode(), link["hash"]) for link in links])

    @staticmethod
    def others(value: Any) -> list[Any]:
        """Values that stand for every other one, the most plausible first."""
        return [other for other in _others(value) if other != value or type(other) is not type(value)]

    def _look(self) -> Found:
        inside = tuple(str(finding) for finding in verify_ledger(self.connection))
        check = check_anchor(self.anchor, connect=lambda: nullcontext(self.connection), trusted=self.trusted)
        anchor = tuple(what for what in check.findings if "last entry is signed by the key" not in what)
        return Found(
            inside=inside, anchor=anchor, others_key=len(anchor) < len(check.findings), unchecked=check.unchecked
        )


def _rewrite(connection: Connection, documents: list[Any]) -> None:
    connection.execute(delete(entry))
    previous, links, taken = GENESIS, [], set()
    for position, document in enumerate(documents):
        body = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        own = link_hash(previous=previous, position=position, body=body)
        try:
            unique = columns_of(entry_of_bytes(body))
        except ValueError:
            unique = NO_CHARGE
        # The forger leaves out what the tables refuse.
        unique = tuple(
            None if (name, one) in taken else one for name, one in zip(UNIQUE_OF_CHARGE, unique, strict=True)
        )
        taken.update(zip(UNIQUE_OF_CHARGE, unique, strict=True))
        values = {"position": position, "previous": previous, "hash": own, "body": body.decode()}
        links.append(values | dict(zip(UNIQUE_OF_CHARGE, unique, strict=True)))
        previous = own
    connection.execute(insert(entry), links)
    _keep(connection, [(link["body"].encode(), link["hash"]) for link in links])


def _keep(connection: Connection, links: list[tuple[bytes, str]]) -> None:
    """Sign with the forger's key what follows from entries, so far as anything does."""
    state = LedgerState()
    for position, (body, own) in enumerate(links):
        state.head = Place(position=position - 1, hash="")
        try:
            state.apply(entry_of_bytes(body), own)
        except ValueError:
            state.head = Place(position=position, hash=own)
    keep_snapshot(connection, state, FORGER)


def _others(value: Any) -> list[Any]:
    match value:
        case bool():
            return [not value, None, "true", 1]
        case int():
            return [value + 1, max(0, value - 1) or 7, -value - 1, str(value), None]
        case None:
            return ["0.5", "x", 1, {}]
        case dict():
            return [{}, None, {**value, "more": "x"}]
        case str() if value.replace(".", "", 1).isdigit():  # prices are compared to a billionth
            return [amount_text(Decimal(value) * Decimal("1.001") or Decimal("0.5")), "0.25", "0", "1e-3", "", None, 1]
        case str():
            return [value[:-1] + ("0" if value[-1:] != "0" else "1"), value + "x", value.upper() + "é", "", None, 1]
        case _:
            raise TypeError(value)


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def victim(request, tmp_path_factory, golden_ledger) -> Iterator[Victim]:
    folder = tmp_path_factory.mktemp("victim")
    url = f"sqlite:///{folder / 'ledger.db'}"
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql_server")
        engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            name = f"forgery_{sha256(str(folder).encode()).hexdigest()[:16]}"
            connection.execute(text(f"CREATE DATABASE {name}"))
        url = server.replace("/postgres?", f"/{name}?")
    books = golden_ledger(url, folder / "home")
    with books.reader() as reader:
        anchor = books.anchoring.anchor_of(reader.ledger_id).path
    engine = create_engine(url, poolclass=NullPool)
    if request.param == "sqlite":
        from sqlalchemy import event

        event.listen(engine, "connect", lambda driver, _: setattr(driver, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with engine.connect() as connection:
        yield Victim(connection=connection, anchor=anchor, trusted=books.anchoring.keys.public_keys())


@pytest.fixture(params=[pytest.param(False, id="some"), pytest.param(True, id="all", marks=pytest.mark.long)])
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether every case is tried, or some."""
    return bool(request.param)
