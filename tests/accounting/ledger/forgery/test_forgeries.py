"""Whatever somebody does to a ledger's database who has no signing key, the next charge is refused and it is found.

One table of forgeries. Each is done to a copy of the committed ledger, on both databases, with the guards switched off;
those that a constraint would stop, with the constraints gone too. Then the next charge is refused, whether its writer
was open before or is opened now, and appends nothing; the verification finds the forgery, by what the ledger holds and
not by a missing constraint alone; and whoever only looks is told in words.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey, canonical_bytes, signed_statement
from crowdblend.accounting.kernel.ledger import snapshot as kernel_snapshot
from crowdblend.accounting.kernel.ledger.entries import GENESIS, DataAccess, link_hash
from crowdblend.accounting.kernel.ledger.snapshot import DOMAIN
from crowdblend.accounting.kernel.ledger.transactions import ENTRY_COLUMNS, keep_snapshot, writing
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import AccountantRefused, Refusal
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool
from support.guards import past_guards

FORGER = SigningKey(seed=b"\x07" * 32)
OTHER = "e" * 64
UNIQUE = ENTRY_COLUMNS[4:]
PAGE = Path(__file__).parents[4] / "docs" / "operations" / "forgeries.md"
Row = dict[str, Any]
Change = Callable[["Tables"], Any]


@dataclass
class Tables:
    """What a ledger's two tables hold, for a forger to change.

    Args:
        entries: rows of `entry`, in their order.
        snapshots: rows of `snapshot`.
        earlier: what they held one entry before.
        other: what another ledger's hold that the same key signs.
    """

    entries: list[Row]
    snapshots: list[Row]
    earlier: Tables | None = None
    other: Tables | None = None

    def edit(self, position: int, *path: str, to: Any) -> None:
        """Change one value of an entry, in canonical form, and with it the column of what a charge takes."""
        document = place = json.loads(self.entries[position]["body"])
        for name in path[:-1]:
            place = place[name]
        assert place[path[-1]] != to
        place[path[-1]] = to
        self.write(position, canonical_bytes(document).decode())
        if path[0] in UNIQUE and self.entries[position][path[0]] is not None:
            self.entries[position][path[0]] = to

    def write(self, position: int, body: Any) -> None:
        assert self.entries[position]["body"] != body
        self.entries[position]["body"] = body

    def seal(self, position: int) -> None:
        """Make an entry's own hash fit its content."""
        row = self.entries[position]
        body = row["body"].encode("utf-8")
        row["hash"] = link_hash(previous=row["previous"], position=row["position"], body=body)

    def chain(self) -> None:
        """Number all entries, and make every hash fit."""
        previous = GENESIS
        for position, row in enumerate(self.entries):
            row.update(position=position, previous=previous)
            self.seal(position)
            previous = row["hash"]

    def state(self, change: Callable[[dict[str, Any]], Any], *, key: SigningKey | None = None) -> None:
        """Change the snapshot's state; sign it, where there is a key, as the ledger's own programs do."""
        [row] = self.snapshots
        state = json.loads(row["state"])
        before = copy.deepcopy(state)
        change(state)
        assert state != before or key is not None
        content = canonical_bytes(state)
        row["state"] = content.decode()
        if key is not None:
            fields = {"ledger_id": state["ledger_id"], "position": state["position"], "hash": state["hash"]}
            stated = {**fields, "state": sha256(content).hexdigest()}
            row["statement"] = signed_statement(stated, key, domain=DOMAIN).decode()

    def statement(self, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the signed statement."""
        [row] = self.snapshots
        fields = json.loads(row["statement"])
        change(fields)
        assert row["statement"] != canonical_bytes(fields).decode()
        row["statement"] = canonical_bytes(fields).decode()

    def statement_without_excerpt(self) -> None:
        self.statement(lambda stated: stated.pop("excerpt"))

    @classmethod
    def of(cls, connection: Connection) -> Tables:
        entries = connection.execute(text("SELECT * FROM entry ORDER BY position")).mappings().all()
        snapshots = connection.execute(text("SELECT * FROM snapshot ORDER BY slot")).mappings().all()
        return cls(entries=[dict(row) for row in entries], snapshots=[dict(row) for row in snapshots])

    def put(self, connection: Connection) -> None:
        for table, rows in (("entry", self.entries), ("snapshot", self.snapshots)):
            connection.execute(text(f"DELETE FROM {table}"))
            for row in rows:
                names = ", ".join(row)
                values = ", ".join(f":{name}" for name in row)
                connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({values})"), row)


@dataclass(frozen=True)
class Forgery:
    """One thing that a forger does.

    Args:
        change: what is done to what the tables hold; or statements.
        loose: the tables' constraints and types are gone.
        only: the database on which it can be done; empty for both.
        inside: the ledger's own verification finds it; else its anchor does.
        charged: the next charge is not refused and is sound: nothing of what the ledger holds was changed.
        refused: how the next charge is refused.
    """

    change: Change | tuple[str, ...]
    loose: bool = False
    only: str = ""
    inside: bool = True
    charged: bool = False
    refused: type[Refusal] = AccountantRefused


FORGERIES: dict[str, Forgery] = {}


def enter(name: str, *steps: Change, **options: Any) -> None:
    """Enter a forgery in the table, which does some steps."""
    assert name not in FORGERIES
    FORGERIES[name] = Forgery(lambda now: [step(now) for step in steps], **options)


def edited(at: int, *path: str, to: Any) -> Change:
    return lambda now: now.edit(at, *path, to=to)


def sealed(at: int) -> Change:
    return lambda now: now.seal(at)


def entry(at: int, **cells: Any) -> Change:
    return lambda now: now.entries[at].update(cells)


def snapshot(**cells: Any) -> Change:
    return lambda now: now.snapshots[0].update(cells)


def state(change: Callable[[Row], Any], *, key: SigningKey | None = None) -> Change:
    return lambda now: now.state(change, key=key)


def statement(**fields: Any) -> Change:
    return lambda now: now.statement(lambda stated: stated.update(fields))


# Places in the committed ledger.
CENSUS, SURVEY, PUBLISHED, REFUNDED, BURNT, RAISE, SERIES, NUMBERED = 1, 2, 6, 11, 14, 15, 19, 26
TOKEN, REVOKED, READING, CHARGED, TWO_SAMPLES, LOOK, FILTER, OF_FILTER, LAST = 28, 29, 31, 32, 33, 34, 35, 36, 42

# A value of an entry → its place, its path, and what a forger would put there.
VALUES: dict[str, tuple[int, tuple[str, ...], Any]] = {
    "epsilon of a charge": (CHARGED, ("price", "epsilon"), "0.000000001"),
    "delta of a charge": (CHARGED, ("price", "delta"), "0"),
    "rule of a price": (CHARGED, ("price", "rule"), "exact-profile/2"),
    "relation of a price": (CHARGED, ("price", "relation"), "replacement"),
    "sample of a charge": (CHARGED, ("sample_id",), OTHER[:-1] + "0"),
    "second sample of a charge": (TWO_SAMPLES, ("selection_sample_id",), OTHER[:-1] + "0"),
    "id of a charge": (CHARGED, ("release_id",), "somebody-elses"),
    "data set of a charge": (CHARGED, ("dataset",), "visits"),
    "k of a charge": (CHARGED, ("mechanism", "k"), 1000),
    "rate of a charge": (CHARGED, ("mechanism", "sampling_rate"), "0.01"),
    "specification of a charge": (CHARGED, ("spec_digest",), OTHER),
    "day of a charge": (CHARGED, ("day",), "2020-01-01"),
    "place in a series": (NUMBERED, ("series", "number"), 2),
    "length of a series": (SERIES, ("price", "releases"), 30),
    "files of a publication": (PUBLISHED, ("output_hashes", "data.csv"), OTHER),
    "what is given back": (BURNT, ("refunded",), True),
    "what is not given back": (REFUNDED, ("refunded",), False),
    "budget of a data set": (CENSUS, ("epsilon",), "1000"),
    "delta of a budget": (CENSUS, ("delta",), "0.9"),
    "records of a person": (CENSUS, ("rows_per_person",), 2),
    "rate of a survey": (SURVEY, ("survey_rate",), None),
    "amount of a raise": (RAISE, ("epsilon",), "1100"),
    "whose reading": (READING, ("release_id",), "one"),
    "secret of a token": (TOKEN, ("secret_digest",), OTHER),
    "end of a token": (TOKEN, ("expires",), "2199-06-02"),
    "which token is revoked": (REVOKED, ("token_id",), "3" * 16),
    "what was looked at": (LOOK, ("what",), "nothing"),
    "order of a filter": (FILTER, ("accounting", "order"), "30"),
    "divergence of a charge": (OF_FILTER, ("filter_charge", "divergence"), "0.0001"),
    "kind of an entry": (BURNT, ("kind",), "release-abandoned/9"),
    "id of the ledger": (0, ("ledger_id",), OTHER),
}
for what, (at, path, forged) in VALUES.items():
    enter(f"{what}, hash kept", edited(at, *path, to=forged))
    enter(f"{what}, own hash made anew", edited(at, *path, to=forged), sealed(at))
    enter(f"{what}, all hashes made anew", edited(at, *path, to=forged), Tables.chain)

# What is no entry, or none in canonical form.
BODIES: dict[str, Callable[[str], str]] = {
    "spaces": lambda body: body.replace(":", ": "),
    "another order": lambda body: json.dumps(dict(reversed(json.loads(body).items())), separators=(",", ":")),
    "a newline": lambda body: body + "\n",
    "a name twice": lambda body: body.replace('{"', '{"by":"x","', 1),
    "a field more": lambda body: body.replace("}", ',"z":1}'),
    "other letters": lambda body: body.replace("operator", "opér\u0430tor"),
    "a fraction": lambda body: body.replace("false", "0.5"),
    "no JSON": lambda _: "no entry",
    "deep nesting": lambda _: "[" * 100_000,
    "a long number": lambda _: "9" * 10_000,
    "nothing": lambda _: "",
}
for what, make in BODIES.items():

    def written(now: Tables, make: Callable[[str], str] = make) -> None:
        now.write(BURNT, make(now.entries[BURNT]["body"]))

    enter(f"{what} in an entry, hash kept", written)
    enter(f"{what} in an entry, all hashes made anew", written, Tables.chain)

# A cell of an entry → what stands in it.
ON_SQLITE = {"loose": True, "only": "sqlite"}
for column in ("position", "previous", "hash", "body"):
    for what, cell, options in (
        ("nothing", None, {"loose": True}),
        ("a number", 7 if column != "position" else 7.5, ON_SQLITE),
        ("the same number as a fraction", 14.0, ON_SQLITE),
        ("a blob", b"\x00\xff", ON_SQLITE),
        ("a text", "x", {"loose": True} if column != "position" else ON_SQLITE),
        ("an empty text", "", {"loose": True} if column != "position" else ON_SQLITE),
    ):
        for which, at in (("an", BURNT), ("the first", 0), ("the last", LAST)):
            put = {column: float(at) if cell == 14.0 else cell}
            enter(f"{what} for the {column} of {which} entry", entry(at, **put), **options)


def in_capitals(now: Tables) -> None:
    now.entries[BURNT]["hash"] = now.entries[BURNT + 1]["previous"] = now.entries[BURNT]["hash"].upper()


def swapped(one: int, other: int, *columns: str) -> Change:
    """Swap what two rows have in some columns."""

    def swap(now: Tables) -> None:
        cells = [{name: now.entries[at][name] for name in columns} for at in (one, other)]
        now.entries[one].update(cells[1])
        now.entries[other].update(cells[0])

    return swap


enter("a hash in capitals", in_capitals)
enter("another previous hash", entry(BURNT, previous=OTHER))
enter("another previous hash, own hash made anew", entry(BURNT, previous=OTHER), sealed(BURNT))
enter("another hash of the last entry", entry(-1, hash=OTHER))
enter("two hashes swapped", swapped(4, BURNT, "hash"))


def without(gone: slice) -> Change:
    return lambda now: now.entries.__delitem__(gone)


# Entries taken out, put in, and moved.
for what, gone in {
    "the first entry": slice(0, 1),
    "a charge": slice(CHARGED, CHARGED + 1),
    "the last entry": slice(LAST, None),
    "several entries": slice(PUBLISHED, BURNT),
    "all after a charge": slice(CHARGED + 1, None),
    "all but the first entry": slice(1, None),
    "every entry": slice(0, None),
}.items():
    enter(f"{what} deleted", without(gone), loose=what == "every entry")
    if what != "every entry":
        enter(f"{what} deleted, all hashes made anew", without(gone), Tables.chain)


def inserted(at: int, source: int = RAISE, **changes: Any) -> Change:
    """Insert a copy of an entry, without what a charge takes for itself."""
    return lambda now: now.entries.insert(at, {**now.entries[source], **dict.fromkeys(UNIQUE), **changes})


def twice(source: int, **changes: Any) -> Change:
    return lambda now: now.entries.append(now.entries[source] | changes)


def exchanged(one: int, other: int) -> Change:
    def exchange(now: Tables) -> None:
        now.entries[one], now.entries[other] = now.entries[other], now.entries[one]

    return exchange


def moved(by: int) -> Change:
    return lambda now: [row.update(position=row["position"] + by) for row in now.entries]


def chained_from_1(now: Tables) -> None:
    previous = GENESIS
    for position, row in enumerate(now.entries):
        row.update(position=position + 1, previous=previous)
        now.seal(position)
        previous = row["hash"]


LOOSE_END = {"previous": OTHER, "hash": "d" * 64}
END = LAST + 1
enter("an entry appended that continues nothing", inserted(END, position=END, **LOOSE_END))
enter("an entry appended that continues the chain", inserted(END), edited(END, "epsilon", to="1000"), Tables.chain)
enter("an entry appended far behind the end", inserted(END, position=1 << 60, **LOOSE_END))
enter("an entry inserted", inserted(RAISE), edited(RAISE, "epsilon", to="10.5"), Tables.chain)
enter("an entry before the first", inserted(0), Tables.chain)
enter("an entry before the first, at a place below 0", inserted(0, position=-1, **LOOSE_END), loose=True)
enter("the last entry twice", twice(-1), loose=True)
enter("a charge twice", twice(CHARGED), loose=True)
enter(
    "a charge twice, at the next place and with its hash",
    lambda now: twice(CHARGED, position=END, previous=now.entries[-1]["hash"])(now),
    sealed(END),
    loose=True,
)
enter("two entries at one place", inserted(END, position=CHARGED, hash="d" * 64), loose=True)
for what, one, other in (("two charges", 30, 32), ("neighbours", 4, 5), ("the last two entries", LAST - 1, LAST)):
    enter(f"{what} swapped", swapped(one, other, "position", "previous", "hash"))
    enter(f"{what} swapped, all hashes made anew", exchanged(one, other), Tables.chain)
enter("every place one higher", moved(1))
enter("every place one higher, all hashes made anew", chained_from_1)
enter("every place below 0", moved(-100), loose=True)
enter("a gap before the last entry", entry(-1, position=LAST + 5))


# The snapshot.
def census(place: int, to: str) -> Callable[[Row], Any]:
    """Put a value of the account of the first data set."""
    return lambda stated: stated["datasets"][0].__setitem__(place, to)


def released(release_id: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    """Change what a state says of a release; nothing is left of it where nothing is given."""

    def change(state: dict[str, Any]) -> None:
        releases = state["releases"]
        place = releases["release_id"].index(release_id)
        for name, value in changes.items():
            releases[name][place] = value
        for column in () if changes else releases.values():
            del column[place]

    return change


STATES: dict[str, Callable[[Row], Any]] = {
    "less spent": census(2, "0"),
    "less of delta spent": census(3, "0"),
    "a larger budget": census(4, "1000"),
    "a larger delta": census(5, "0.9"),
    "another stage": released("reading", stage="charged"),
    "refunded": released("burnt", refunded=True),
    "another sample": released("one", sample=OTHER),
    "another link": released("one", link=OTHER),
    "without a release": released("one"),
    "without any release": lambda state: state["releases"].clear(),
    "without a data set": lambda state: state["datasets"].pop(),
    "without a series": lambda state: state["series"].pop(),
    "without a revocation": lambda state: state["tokens"][0].__setitem__(2, None),
    "without a look": lambda state: state["looks"].clear(),
    "without a raise": lambda state: state["raises"].clear(),
    "fewer entries of a kind": lambda state: state["kinds"].popitem(),
    "another head": lambda state: state.update(position=LAST - 1),
    "another ledger's id": lambda state: state.update(ledger_id=OTHER),
    "another format": lambda state: state.update(format="crowdblend ledger state 9"),
    "a field more": lambda state: state.update(more=1),
}
for what, change in STATES.items():
    enter(f"a snapshot with {what}", state(change))
    if what in ("less spent", "a larger budget", "without a release", "another sample", "without a revocation"):
        enter(f"a snapshot with {what}, signed by somebody else", state(change, key=FORGER))


def restated(now: Tables) -> None:
    now.statement(lambda stated: stated.update(state=sha256(now.snapshots[0]["state"].encode()).hexdigest()))


def at_the_new_end(now: Tables) -> None:
    now.state(lambda stated: stated.update(position=END, hash=now.entries[-1]["hash"]), key=FORGER)


def taken_from(source: str, *names: str) -> Change:
    """Take some tables from the ledger of before, or from another ledger of the same key."""

    def take(now: Tables) -> None:
        for name in names:
            setattr(now, name, getattr(getattr(now, source), name))

    return take


def excerpt(change: Callable[[Row], Any], *, key: SigningKey | None = None) -> Change:
    """Change the excerpt in the signed statement; sign it, where there is a key."""

    def work(now: Tables) -> None:
        now.statement(lambda stated: change(stated["excerpt"]))
        if key is not None:
            [row] = now.snapshots
            stated = {name: value for name, value in json.loads(row["statement"]).items() if name != "signature"}
            row["statement"] = signed_statement(stated, key, domain=DOMAIN).decode()

    return work


EXCERPTS: dict[str, Callable[[Row], Any]] = {
    "less spent": lambda part: census(2, "0")(part["state"]),
    "another link": lambda part: released("one", link=OTHER)(part["state"]),
    "without a release": lambda part: released("one")(part["state"]),
    "fewer releases counted": lambda part: part["counts"]["stages"].update(published=0),
    "fewer series counted": lambda part: part["counts"].update(series=0),
    "fewer places taken": lambda part: part["counts"]["taken"].update(monthly=[0]),
    "the count of a data set missing": lambda part: part["counts"]["own"].popitem(),
    "a text for a count": lambda part: part["counts"].update(series="x"),
    "no counts": lambda part: part.pop("counts"),
    "another head": lambda part: part["state"].update(position=LAST - 1),
}
for what, change in EXCERPTS.items():
    enter(f"an excerpt with {what}", excerpt(change))
    enter(f"an excerpt with {what}, signed by somebody else", excerpt(change, key=FORGER))


def earlier_excerpt(now: Tables) -> None:
    earlier = json.loads(now.earlier.snapshots[0]["statement"])["excerpt"]
    now.statement(lambda stated: stated.update(excerpt=earlier))


def earlier_cell(name: str) -> Change:
    return lambda now: now.snapshots[0].update({name: now.earlier.snapshots[0][name]})


enter("a sound snapshot, signed by somebody else", state(lambda _: None, key=FORGER), inside=False)
enter("an appended entry and its snapshot, signed by somebody else", inserted(END, LOOK), Tables.chain, at_the_new_end)
enter("a snapshot whose statement names the digest of another state", state(census(2, "0")), restated)
enter("a statement with another place", statement(position=LAST - 1))
enter("a statement with another key's id", statement(key_id=FORGER.public.key_id))
enter("a statement with another key", statement(key_id=FORGER.public.key_id, public_key=FORGER.public.raw.hex()))
enter("a statement with another signature", statement(signature="00" * 64))
enter("an earlier snapshot", taken_from("earlier", "snapshots"))
enter("an earlier state under the present statement", earlier_cell("state"))
enter("an earlier statement over the present state", earlier_cell("statement"))
enter("an earlier excerpt in the present statement", earlier_excerpt)
enter("a statement without its excerpt", Tables.statement_without_excerpt)
enter("an earlier copy of the whole ledger", taken_from("earlier", "entries", "snapshots"), inside=False)
enter("another ledger's snapshot, signed by the same key", taken_from("other", "snapshots"))
enter("another ledger's entries, signed by the same key", taken_from("other", "entries"))
for column in ("state", "statement"):
    for what, cell, options in (
        ("nothing", None, {"loose": True}),
        ("an empty text", "", {}),
        ("no JSON", "no JSON", {}),
        ("deep nesting", "[" * 100_000, {}),
        ("a list", "[]", {}),
        ("null", "null", {}),
        ("other letters", '{"é": "\U0001f600"}', {}),
        ("a number", 7, ON_SQLITE),
        ("a blob", b"\x00\xff", ON_SQLITE),
    ):
        enter(f"{what} for the snapshot's {column}", snapshot(**{column: cell}), **options)


def second(slot: int | None) -> Change:
    return lambda now: now.snapshots.append(now.earlier.snapshots[0] | ({} if slot is None else {"slot": slot}))


enter("no snapshot", lambda now: now.snapshots.clear())
enter("a second snapshot at another place", second(1), loose=True)
enter("two snapshots at one place", second(None), loose=True)
enter("the snapshot twice", lambda now: now.snapshots.append(dict(now.snapshots[0])), loose=True)
enter("the snapshot at another place", snapshot(slot=1), loose=True)
enter("the snapshot at no place", snapshot(slot=None), loose=True)


def as_bytes(column: str) -> Change:
    return lambda now: now.entries[TWO_SAMPLES].update({column: now.entries[TWO_SAMPLES][column].encode()})


def crossed(now: Tables) -> None:
    row = now.entries[TWO_SAMPLES]
    row["sample_id"], row["selection_sample_id"] = row["selection_sample_id"], row["sample_id"]


# What a charge takes for itself alone.
for column in UNIQUE:
    enter(f"a charge without its {column}", entry(TWO_SAMPLES, **{column: None}))
    enter(f"a charge with another {column}", entry(TWO_SAMPLES, **{column: OTHER[:-1] + "0"}))
    enter(f"the {column} of a charge at an entry that is none", entry(BURNT, **{column: OTHER[:-1] + "0"}))
    enter(f"a blob for the {column} of a charge", as_bytes(column), **ON_SQLITE)
enter("two charges' ids swapped", swapped(CHARGED, TWO_SAMPLES, "release_id"))
enter("a charge's samples swapped", crossed)
enter("no charge has its columns", lambda now: [row.update(dict.fromkeys(UNIQUE)) for row in now.entries])
enter("an id in capitals", entry(CHARGED, release_id="CHARGED"))

# What the tables are. Where they hold the same as before, a charge is as sound as before: the writer's own checks
# don't lean on guards. Everything else is refused.
FORGERIES |= {
    "no constraint": Forgery((), loose=True, charged=True),
    "a table more": Forgery(("CREATE TABLE account (epsilon_spent TEXT)",), charged=True),
    "a view more": Forgery(("CREATE VIEW spent AS SELECT * FROM entry",), charged=True),
    "an index less": Forgery(
        ("ALTER TABLE entry DROP CONSTRAINT entry_release_id_key",), only="postgresql", charged=True
    ),
    "a check less": Forgery(
        ("ALTER TABLE snapshot DROP CONSTRAINT snapshot_slot_check",), only="postgresql", charged=True
    ),
    "the chain guarded no more": Forgery(("DROP TRIGGER entry_no_update",), only="sqlite", charged=True),
    "the order guarded no more": Forgery(("DROP TRIGGER entry_in_order",), only="sqlite", charged=True),
    "a guard less": Forgery(("DROP TRIGGER entry_append_only ON entry",), only="postgresql", charged=True),
    "a guard switched off": Forgery(
        ("ALTER TABLE entry DISABLE TRIGGER entry_in_order",), only="postgresql", charged=True
    ),
    "a guard that does nothing": Forgery(
        (
            "CREATE OR REPLACE FUNCTION ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN NEW; END $$",
        ),
        only="postgresql",
        charged=True,
    ),
    "a column of bytes": Forgery(
        ("ALTER TABLE entry ALTER COLUMN body TYPE bytea USING convert_to(body, 'UTF8')",), only="postgresql"
    ),
    "a column of fractions": Forgery(("ALTER TABLE entry ALTER COLUMN position TYPE numeric",), only="postgresql"),
    "another schema revision": Forgery(("UPDATE ledger_version SET version_num = '0005'",), charged=True),
    "two schema revisions": Forgery(("INSERT INTO ledger_version VALUES ('0005')",), charged=True),
    "the chain a view": Forgery(
        ("ALTER TABLE entry RENAME TO kept", "CREATE VIEW entry AS SELECT * FROM kept WHERE position <> 32"),
        refused=Refusal,
    ),
    "no snapshot's table": Forgery(("DROP TABLE snapshot",), refused=Refusal),
    "no chain": Forgery(("DROP TABLE entry",), refused=Refusal),
}


def loosen(connection: Connection) -> None:
    """Put tables without constraints in the place of the ledger's, with the same rows."""
    types = {"entry": ("position", *ENTRY_COLUMNS[1:]), "snapshot": ("slot", "state", "statement")}
    for table, columns in types.items():
        connection.execute(text(f"ALTER TABLE {table} RENAME TO tight"))
        if connection.dialect.name == "sqlite":
            connection.execute(text(f"CREATE TABLE {table} ({', '.join(columns)})"))
            connection.execute(text(f"INSERT INTO {table} SELECT * FROM tight"))
        else:
            connection.execute(text(f"CREATE TABLE {table} AS SELECT * FROM tight"))
        connection.execute(text("DROP TABLE tight"))


@dataclass(frozen=True)
class Original:
    """A ledger of which each forger gets a copy.

    Args:
        books: the ledger.
        folder: of its private store, and of copies.
        server: of PostgreSQL, None on SQLite.
        now: its tables.
        earlier: the same one entry before.
        other: the tables of another ledger that the same key signs.
    """

    books: Any
    folder: Path
    server: str | None
    now: Tables
    earlier: Tables
    other: Tables

    @contextmanager
    def copied(self, name: str, forgery: Forgery) -> Iterator[Any]:
        """The ledger with its private store, once more; a database whose tables stay is not copied but restored."""
        home = self.folder / f"home-{name}"
        shutil.copytree(self.folder / "home", home)
        url, work = self.books.url, None
        if self.server is None:
            url = f"sqlite:///{self.folder / name}.db"
            shutil.copy(self.folder / "ledger.db", self.folder / f"{name}.db")
        elif forgery.loose or isinstance(forgery.change, tuple):
            url = new_database(self.server, self.folder, name, template=database_name(self.folder, "ledger"))
        else:
            work = self.now.put
        books = dataclasses.replace(self.books, url=url, anchoring=Anchoring(home=home, file=None))
        try:
            yield books
        finally:
            shutil.rmtree(home)
            for path in self.folder.glob(f"{name}.db*"):
                path.unlink()
            if work is not None:
                books.raw(lambda connection: past(connection, work))


def past(connection: Connection, work: Callable[[Connection], Any]) -> None:
    """Do something with the guards switched off."""
    with past_guards(connection):
        work(connection)


def at_server(server: str, statement: str) -> None:
    engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))


def database_name(folder: Path, name: str) -> str:
    return f"forged_{sha256(f'{folder} {name}'.encode()).hexdigest()[:16]}"


def new_database(server: str, folder: Path, name: str, *, template: str) -> str:
    made = database_name(folder, name)
    at_server(server, f"CREATE DATABASE {made} TEMPLATE {template}")
    return server.replace("/postgres?", f"/{made}?")


@pytest.fixture(scope="module")
def originals(request, tmp_path_factory, golden_ledger) -> Iterator[Callable[[str], Original]]:
    """The ledger on a database, which is made once for each."""

    @cache
    def original(dialect: str) -> Original:
        folder = tmp_path_factory.mktemp("original")
        server, url = None, f"sqlite:///{folder / 'ledger.db'}"
        if dialect == "postgresql":
            server = request.getfixturevalue("postgresql_server")
            url = new_database(server, folder, "ledger", template="template1")
        books = golden_ledger(url, folder / "home")
        state, key = books.state(), books.anchoring.keys.current()
        books.raw(lambda connection: keep_snapshot(connection, state, key))  # a copy may be without an excerpt
        earlier = books.raw(Tables.of)
        books.charge("later")
        create_ledger(f"sqlite:///{folder / 'other.db'}", anchoring=books.anchoring)
        another = dataclasses.replace(books, url=f"sqlite:///{folder / 'other.db'}", dialect="sqlite")
        another.add()
        if server is None:
            books.raw(lambda connection: connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)"))
        now, other = books.raw(Tables.of), another.raw(Tables.of)
        return Original(books=books, folder=folder, server=server, now=now, earlier=earlier, other=other)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_snapshot, "LARGE", 0)  # so that the statement has an excerpt
        yield original


def stored(books: Any) -> list[list[str]]:
    """Every row of the ledger's tables, as it is stored; and the anchor."""

    def rows(connection: Connection) -> list[list[str]]:
        return [
            sorted(repr(tuple(row)) for row in connection.execute(text(f"SELECT * FROM {table}")))
            for table in ("entry", "snapshot")
        ]

    anchors = [path.read_text() for path in sorted((books.anchoring.home / "anchors").iterdir())]
    return [*books.raw(rows), anchors]


READS: tuple[Callable[[Any], Any], ...] = (
    lambda reader: reader.ledger_id,
    lambda reader: reader.head(),
    lambda reader: reader.datasets(),
    lambda reader: reader.releases(),
    lambda reader: reader.all_series(),
    lambda reader: reader.tokens(),
    lambda reader: reader.overview(latest=3),
    lambda reader: reader.private_looks(),
    lambda reader: reader.series("monthly"),
    lambda reader: reader.release("one"),
    lambda reader: list(reader.entries()),
)


def looked_at(books: Any) -> None:
    """Look in every way; what can't be shown is told."""
    try:
        reader = books.reader()
    except Refusal:
        return
    with reader:
        for read in READS:
            try:
                read(reader)
            except Refusal as refusal:
                assert refusal.what  # noqa: PT017 - other exceptions fail


def findings(books: Any, *, anchor: Path | None = None) -> list[str]:
    """What the verification finds, or by what words it tells that it can't read what is there."""
    try:
        with open_reader(books.url) as reader:
            if anchor is None:
                return [str(finding) for finding in reader.verify()]
            return list(reader.verify_anchor(anchor, trusted=books.anchoring.keys.public_keys()).findings)
    except Refusal as refusal:
        return [refusal.what]


def of_schema(finding: str) -> bool:
    return finding.startswith(("the database", "this ledger has schema revision"))


def forge(books: Any, forgery: Forgery, original: Original) -> None:
    def work(connection: Connection) -> None:
        if isinstance(forgery.change, tuple):
            if forgery.loose:
                loosen(connection)
            for statement in forgery.change:
                connection.execute(text(statement))
            return
        with past_guards(connection):
            now = Tables.of(connection)
            if forgery.loose:
                loosen(connection)
            now.earlier, now.other = copy.deepcopy((original.earlier, original.other))
            forgery.change(now)
            now.put(connection)

    books.raw(work)


def faults(books: Any, forgery: Forgery, original: Original) -> Iterator[str]:
    """What is wrong of how a forgery is met."""
    with books.reader() as reader:
        anchor = books.anchoring.anchor_of(reader.ledger_id).path
    writer = books.writer()
    forge(books, forgery, original)
    try:
        before = stored(books)
    except Exception:  # noqa: BLE001 - a table is missing
        before = None
    found = findings(books)
    by_anchor = findings(books, anchor=anchor)
    told = [finding for finding in found if forgery.charged or not of_schema(finding)]
    if not (told if forgery.inside else by_anchor):
        yield f"not found: {found}, {by_anchor}"
    if not forgery.inside and found:
        yield f"found from inside: {found}"
    if original.server is None or forgery.loose or before is None:  # else the database gives what SQLite gives
        looked_at(books)
    with writer:
        for which, charge in (
            ("open", lambda: writer.charge(books.request("fresh"))),
            ("new", lambda: books.charge("second")),
        ):
            try:
                charge()
            except Refusal as refusal:
                if forgery.charged and which == "open":
                    yield f"the {which} writer is refused: {refusal}"
                if not forgery.charged and which == "open" and not isinstance(refusal, forgery.refused):
                    yield f"the {which} writer is refused by {type(refusal).__name__}: {refusal}"
            else:
                if not forgery.charged:
                    yield f"the {which} writer charges"
    if forgery.charged:
        yield from (f"after the charge: {finding}" for finding in findings(books) if not of_schema(finding))
    elif before is not None and stored(books) != before:
        yield "something was written"


def cases() -> Iterator[Any]:
    """Each forgery on each database: those that are least alike on SQLite quickly, the others on PostgreSQL last."""
    for name, forgery in FORGERIES.items():
        alike = "own hash made anew" in name or name.endswith(("of the first entry", "of the last entry"))
        for dialect in ("sqlite", "postgresql"):
            if forgery.only in ("", dialect):
                marks = () if not alike else pytest.mark.slow if dialect == "sqlite" else pytest.mark.long
                yield pytest.param(dialect, name, id=f"{dialect}-{name}", marks=marks)


def page() -> Iterator[str]:
    """The lines of the table that a reader looks at."""
    yield "# What a forger without a key can do, and how it is met\n"
    yield (
        f"{len(FORGERIES)} forgeries, each done past the guards to a copy of a ledger with every kind of entry, by "
        "`tests/accounting/ledger/forgery/test_forgeries.py`. It checks what the two columns on the right say: that "
        "the next charge is refused and nothing is written, and what finds the forgery. Where the database was changed "
        "and what the ledger holds was not, a charge is as sound as before. Why it is so is in "
        "[decision 26](../decisions/0026-ledger-is-a-fold.md).\n"
    )
    yield "| forgery | on | next charge | found by |"
    yield "|---|---|---|---|"
    for name, forgery in FORGERIES.items():
        where = {"": "both", "sqlite": "SQLite", "postgresql": "PostgreSQL"}[forgery.only]
        met = "sound" if forgery.charged else "refused"
        yield f"| {name} | {where} | {met} | {'`ledger verify`' if forgery.inside else 'its anchor'} |"


def test_the_table_is_written_down() -> None:
    """With CROWDBLEND_WRITE_FORGERIES=1 this writes it anew."""
    text = "\n".join(page()) + "\n"
    if os.environ.get("CROWDBLEND_WRITE_FORGERIES"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("dialect", "name"), list(cases()))
def test_a_forgery_is_refused_and_found(originals, dialect: str, name: str) -> None:
    original = originals(dialect)
    with original.copied(f"forgery-{list(FORGERIES).index(name)}", FORGERIES[name]) as books:
        assert list(faults(books, FORGERIES[name], original)) == []


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_what_nobody_forged_is_sound_and_goes_on(originals, dialect: str) -> None:
    """The control: the forger's own tools leave no trace, with and without constraints."""
    original = originals(dialect)
    assert len(FORGERIES) > 200
    for number, loose in enumerate((False, True)):
        nothing = Forgery(lambda _: None, loose=loose)
        with original.copied(f"control-{number}", nothing) as books:
            forge(books, nothing, original)
            with books.reader() as reader:
                anchor = books.anchoring.anchor_of(reader.ledger_id).path
            assert all(map(of_schema, findings(books)))
            assert loose is bool(findings(books))
            assert findings(books, anchor=anchor) == []
            books.charge("fresh")
            assert all(map(of_schema, findings(books)))


def test_a_ledger_that_has_its_first_entry_alone_may_be_anothers_and_one_that_was_cut_back_to_it_may_not(books) -> None:
    first = books.raw(Tables.of)
    first.state(lambda _: None, key=FORGER)
    books.raw(lambda connection: past(connection, first.put))
    books.add()
    books.raw(lambda connection: past(connection, first.put))
    with pytest.raises(AccountantRefused, match="anchor vouches for entry 1"):
        books.writer()


def test_what_is_changed_while_a_writer_works_decides_nothing(postgresql_books) -> None:
    """PostgreSQL lets a writer's next statement see what others have committed since its first one.

    The snapshot can't be changed meanwhile: it is what writers lock.
    """
    books = postgresql_books
    books.add()
    store = open_store(books.url, read_only=False)
    look = DataAccess(dataset="census", what="a table", by="steward", day=date(2026, 3, 5))
    with writing(store, books.anchoring) as ledger:
        with pytest.raises(OperationalError, match="lock timeout"):
            books.sql("SET lock_timeout = '100ms'", "UPDATE snapshot SET state = ''")
        ledger.append(look)
    assert books.findings() == []

    def attempt() -> None:
        with writing(store, books.anchoring) as ledger:
            books.sql(
                "INSERT INTO entry SELECT position + 1, hash, repeat('e', 64), 'x' FROM entry "
                "ORDER BY position DESC LIMIT 1"
            )
            ledger.append(look)

    with pytest.raises(AccountantRefused, match=r"the chain ends at entry|not the one that the signed head binds"):
        attempt()
    store.close()
