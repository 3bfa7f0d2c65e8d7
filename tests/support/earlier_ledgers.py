"""Ledgers that an earlier version of the program wrote, put into a database, and what a program answers about them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import rotate_key
from crowdblend.accounting.ledger.database_schema import database_objects
from crowdblend.deploy.cli import main
from sqlalchemy import create_engine, inspect, make_url, text
from sqlalchemy.pool import NullPool

REVISION_0003 = Path(__file__).parents[1] / "vectors" / "ledgers_0003"
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "ledger verify": ("ledger", "verify", "--json"),
    "ledger verify, without an anchor": ("ledger", "verify", "--json"),
    "ledger show": ("ledger", "show", "--json"),
    "dataset list": ("dataset", "list", "--json"),
    "series list": ("series", "list", "--json"),
    "token list": ("token", "list", "--json"),
    "release list": ("release", "list", "--all", "--json"),
    "ledger export": ("ledger", "export"),
}
"""What is asked of a ledger → the words of the command line."""
DIGESTS = ("release list", "ledger export")
"""Answers that are long: of them the SHA-256 is kept, and the head that the export ends with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedLedger:
    """A ledger in a database, and the private store that it belongs to.

    Args:
        url: of the database.
        home: folder of the private store, with its keys and the anchor.
    """

    url: str
    home: Path

    @property
    def anchoring(self) -> Anchoring:
        """Its keys and its anchor."""
        return Anchoring(home=self.home, file=None)


def ledger_names(folder: Path = REVISION_0003) -> list[str]:
    """Names of the stored ledgers, in the order of the list of their keys."""
    return list(json.loads((folder / "keys.json").read_bytes())["ledgers"])


def expected_answers(folder: Path = REVISION_0003) -> dict[str, Any]:
    """What the program that wrote the ledgers answered about each of them."""
    expected: dict[str, Any] = json.loads((folder / "expected.json").read_bytes())
    return expected


def load_ledger(name: str, *, place: Path, server: str | None, folder: Path = REVISION_0003) -> PlacedLedger:
    """Put a stored ledger into a new database, and its keys and its anchor into a new private store.

    Args:
        name: of the ledger.
        place: an empty folder, for the private store and an SQLite file.
        server: URL of a PostgreSQL server's maintenance database; None for an SQLite file.
        folder: where the ledgers are stored.
    """
    url = f"sqlite:///{place / 'ledger.db'}"
    if server is not None:
        url = new_database(server, hashlib.sha256(str(place).encode()).hexdigest()[:16])
    placed = PlacedLedger(url=url, home=place / "home")
    fill_ledger(name, placed, folder=folder)
    return placed


def fill_ledger(name: str, placed: PlacedLedger, *, folder: Path = REVISION_0003) -> None:
    """Put a stored ledger, its keys and its anchor where there is nothing yet.

    Args:
        name: of the ledger.
        placed: an SQLite file that isn't there or an empty database, and a private store that isn't there.
        folder: where the ledgers are stored.
    """
    put_keys(name, placed.home, folder=folder)
    stored = _stored_files(folder)
    anchor = stored[f"{name}/anchor.jsonl"]
    kept = placed.home / "anchors" / f"{json.loads(anchor.splitlines()[0])['ledger_id']}.jsonl"
    kept.parent.mkdir(mode=0o700)
    kept.write_bytes(anchor)
    kept.chmod(0o600)
    if not placed.url.startswith("sqlite"):
        _load_dump(placed.url, stored[f"{name}/ledger.sql"])
        return
    file = Path(str(make_url(placed.url).database))
    file.write_bytes(stored[f"{name}/ledger.db"])
    file.chmod(0o600)


@cache
def _stored_files(folder: Path) -> Mapping[str, bytes]:
    """All files of the ledgers, by their names."""
    with tarfile.open(folder / "ledgers.tar.xz") as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def put_keys(name: str, home: Path, *, folder: Path = REVISION_0003, keys: int | None = None) -> None:
    """Make a private store with the test keys of a ledger, the last of which signs.

    Args:
        name: of the ledger.
        home: folder of the private store; it must not be there.
        folder: where the ledgers are stored.
        keys: how many of them, the first ones; None for all.
    """
    known = json.loads((folder / "keys.json").read_bytes())
    for key in known["ledgers"][name][:keys]:
        rotate_key(SigningKeys(home=home), lambda _, key=key: bytes.fromhex(known["keys"][key]["seed"]))


def new_database(server: str, name: str) -> str:
    """Make an empty database on a PostgreSQL server; gives its URL.

    Args:
        server: URL of the maintenance database.
        name: what the database's name ends with.
    """
    engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE stored_{name} TEMPLATE template0 ENCODING 'UTF8'"))
    return server.replace("/postgres?", f"/stored_{name}?")


def _load_dump(url: str, dump: bytes) -> None:
    """Run the statements of a dump, which has no commands of psql's own."""
    import psycopg

    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(dump)


def stored_entries(url: str) -> list[tuple[Any, ...]]:
    """Return what every revision stores of a ledger's entries.

    Args:
        url: of the ledger.
    """
    with create_engine(url, poolclass=NullPool).connect() as connection:
        found = connection.execute(text("SELECT position, previous, hash, body FROM entry ORDER BY position"))
        return [tuple(row) for row in found]


def database_content(url: str) -> dict[str, Any]:
    """All definitions and rows of a ledger's database.

    Args:
        url: of the ledger.
    """
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        rows = {name: connection.execute(text(f"SELECT * FROM {name}")).all() for name in tables}
        shown = {name: sorted(map(repr, found)) for name, found in rows.items()}
        return {"objects": database_objects(connection), **shown}


def private_files(home: Path) -> dict[str, tuple[int, bytes]]:
    """All files of a private store: what each holds, and who may read it."""
    files = (path for path in sorted(home.rglob("*")) if path.is_file())
    return {str(path.relative_to(home)): (path.stat().st_mode, path.read_bytes()) for path in files}


def answers(url: str, home: Path) -> dict[str, Any]:
    """What the command line answers about a ledger: each command's exit code, and its object or its text.

    Args:
        url: of the ledger.
        home: folder of the private store.
    """
    found: dict[str, Any] = {}
    for name, words in COMMANDS.items():
        store = home.with_name("no-store") if name.endswith("without an anchor") else home
        code, out, err = _run(words, url, store)
        shown: Any = _without_places(err, url, home)
        if out and name == "ledger export":
            last = json.loads(out.splitlines()[-1])
            found["head"] = {"position": last["position"], "hash": last["hash"]}
        if out and name in DIGESTS:
            shown = hashlib.sha256(out.encode("utf-8")).hexdigest()
        elif out:
            shown = json.loads(_without_places(out, url, home), parse_float=_short)
        found[name] = {"code": code, "answer": shown}
    return found


def _short(number: str) -> float:
    """A number to nine digits: the last ones of an estimate are the machine's."""
    return float(f"{float(number):.9g}")


def _run(words: tuple[str, ...], url: str, home: Path) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command line, run in this process."""
    places = {"CROWDBLEND_LEDGER": url, "CROWDBLEND_HOME": str(home), "CROWDBLEND_ANCHOR": ""}
    out, err, code = io.StringIO(), io.StringIO(), 0
    with mock.patch.dict(os.environ, places), redirect_stdout(out), redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as left:
            code = int(left.code or 0)
    return code, out.getvalue(), err.getvalue()


def _without_places(said: str, url: str, home: Path) -> str:
    """What was said, with names in place of the folders and the database of this run."""
    parsed = make_url(url)
    shown = parsed.render_as_string(hide_password=True)
    for path, name in ((str(home), "HOME"), (url, "LEDGER"), (shown, "LEDGER"), (str(parsed.database), "LEDGER")):
        said = said.replace(path, name)
    return said
