"""The ledger's state under the signature of its head: what is looked up in the tables is held against it.

Every row of every table of the ledger is a fact of a Merkle tree, and so are a few counts. Its root is signed together
with the head of the chain, so a row that was changed, added or removed without the signing key is found where it is
looked up, at a cost that doesn't grow with the ledger (docs/decisions/0012-signed-state.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import Column, Connection, Select, Table, select, text, update

from ....mechanisms.errors import AccountantRefused
from ..database.schema import as_stored, entry, signed_state, state_node
from ..entries.values import require_digest
from ..private_store.signing import PublicKey, SigningKey, read_statement, signed_statement
from .hashing import EMPTY_NODE, EMPTY_ROOT, GENESIS, Head, NodeForged, StateTree

__all__ = [
    "KEEP_NODE",
    "Count",
    "ForgedState",
    "Place",
    "SignedState",
    "Vouched",
    "begin_state",
    "count_fact",
    "head_of",
    "is_new",
    "row_fact",
    "rows_in",
    "sign_state",
    "signer_of",
    "vouch",
    "vouched",
]

DOMAIN = b"crowdblend ledger state 1\n"
Count = Literal["alone", "entries", "held", "outcome", "released", "rows"]
Key = tuple[str | int, ...]
ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, default=str)
VOUCHED = "crowdblend vouched"  # where a connection keeps it

# Nodes are looked up by so many levels at once: enough for millions of facts; deeper ones come one by one.
LEVELS = 6
MOST_PATHS = 500
KEEP_NODE = text(
    "INSERT INTO state_node (path, children) VALUES (:path, :children) "
    "ON CONFLICT (path) DO UPDATE SET children = excluded.children"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Vouched:
    """What a signature, or this transaction itself, vouches for.

    INVARIANT: it is kept in memory from its check to the end of the transaction, and the stored copy isn't read again:
    PostgreSQL lets each statement see what others have committed meanwhile.

    Args:
        position: place of the last entry, -1 before the first.
        hash: of its link.
        root: of the state that follows from it.
    """

    position: int
    hash: str
    root: str


class ForgedState(AccountantRefused):
    """Something that is stored does not follow from the signed chain: it decides nothing, and isn't shown as true."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}. The ledger was changed past its own programs, or its file is damaged.",
            remedy="Run `crowdblend ledger verify`, which tells what differs; then restore the newest sound copy.",
        )


def row_fact(table: Table, values: Mapping[str, Any]) -> tuple[str, str]:
    """A row as a fact: the digest of its primary key, and the digest of all its cells.

    Args:
        table: of the ledger.
        values: column → cell, every column.
    """
    key = tuple(values[column.name] for column in table.primary_key)
    cells = [values[column.name] for column in table.columns]
    return _row_key(table, key), _digest("row", table.name, *cells)


def count_fact(of: Count, name: str, number: int) -> tuple[str, str]:
    """A count as a fact: its value is the number itself.

    Args:
        of: what is counted: "entries" of a kind, "rows" of a table, releases with an "outcome", releases "released"
            of a data set and not given back, those of them that must stand "alone", places of a series that are "held".
        name: of the kind, table, outcome, data set or series.
        number: how many, from 0.
    """
    return _count_key(of, name), f"{number:064d}"


def _row_key(table: Table, key: Key) -> str:
    return _digest("key", table.name, *key)


def _count_key(of: Count, name: str) -> str:
    return _digest("count", of, name)


def _digest(*parts: object) -> str:
    written = ENCODER.encode(parts)
    return hashlib.sha256(b"crowdblend ledger fact 1\n" + written.encode("ascii")).hexdigest()


def rows_in(connection: Connection, query: Select[Any]) -> list[dict[str, Any]]:
    """What a query finds: column → cell, for each row."""
    return [row._asdict() for row in connection.execute(query)]


class SignedState:
    """The tables of a ledger as its signed state vouches for them, in one transaction.

    Args:
        connection: a connection in a transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tree = StateTree(vouched(connection).root, self._load)

    def require(self, table: Table, rows: Iterable[Mapping[str, Any]], *, what: str) -> None:
        """Require that rows which were read are rows of the signed state, cell for cell.

        Args:
            table: where they were read.
            rows: column → cell, every column.
            what: what the rows tell, for the message.

        Raises:
            ForgedState: one is not.
        """
        facts = [row_fact(table, row) for row in rows]
        self._fetch([key for key, _ in facts])
        if any(self._value(key) != value for key, value in facts):
            raise ForgedState(f"{what} does not follow from the signed chain (table {table.name})")

    def row(self, table: Table, *key: str | int, what: str) -> Mapping[str, Any] | None:
        """The row of a primary key, None where the signed state has none either.

        Args:
            table: where it is looked up.
            key: the cells of the primary key, in the order of its columns.
            what: what the row tells, for the message.

        Raises:
            ForgedState: the table and the signed state differ in it.
        """
        where = [column == cell for column, cell in zip(table.primary_key, key, strict=True)]
        found = next(iter(rows_in(self._connection, select(table).where(*where))), None)
        if found is None:
            self.require_absent(table, key, what=what)
        else:
            self.require(table, [found], what=what)
        return found

    def require_absent(self, table: Table, *keys: Key, what: str) -> None:
        """Require that the signed state has no row of some primary keys, as the table had none.

        Raises:
            ForgedState: it has one, which is missing in the table.
        """
        digests = [_row_key(table, key) for key in keys]
        self._fetch(digests)
        if any(self._value(digest) is not None for digest in digests):
            raise ForgedState(f"{what} is missing, and the signed chain has it (table {table.name})")

    def follow(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> tuple[bool, ...]:
        """Whether each of some rows is one of the signed state, cell for cell; also no where that can't be told."""
        facts = [row_fact(table, row) for row in rows]
        self._fetch([key for key, _ in facts])
        return tuple(self._is(key, value) for key, value in facts)

    def _is(self, key: str, value: str) -> bool:
        try:
            return self._tree.value(key) == value
        except NodeForged:
            return False

    def count(self, of: Count, name: str) -> int:
        """A count, 0 where nothing was counted.

        Raises:
            ForgedState: the state is damaged.
        """
        key = _count_key(of, name)
        self._fetch([key])
        value = self._value(key)
        return 0 if value is None else int(value)

    def require_rows(self, table: Table, number: int) -> None:
        """Require that a table has as many rows as the signed state.

        Raises:
            ForgedState: rows were added or removed.
        """
        if (expected := self.count("rows", table.name)) != number:
            raise ForgedState(f"the table {table.name} has {number} rows, and {expected} follow from the signed chain")

    def entries_of_other_kinds(self, known: Collection[str]) -> int:
        """Return how many entries are of none of some kinds: the signed state counts those of each kind.

        Args:
            known: names of kinds.

        Raises:
            ForgedState: the state is damaged.
        """
        self._fetch([_count_key("entries", kind) for kind in known])
        return vouched(self._connection).position + 1 - sum(self.count("entries", kind) for kind in known)

    def add(self, rows: Collection[tuple[Table, Mapping[str, Any]]], counts: Mapping[tuple[Count, str], int]) -> str:
        """Take over new rows and changes of counts, and store the new state, which is to be signed; gives its root.

        Raises:
            ForgedState: a row of the same primary key is in the signed state, or a node is damaged.
        """
        facts = [row_fact(table, row) for table, row in rows]
        self._fetch([*(key for key, _ in facts), *(_count_key(of, name) for of, name in counts)])
        for key, value in facts:
            if self._value(key) is not None:
                raise ForgedState("what is to be written is missing in its table, and the signed chain has it")
            self._tree.put(key, value)
        for (of, name), change in counts.items():
            self._tree.put(*count_fact(of, name, self.count(of, name) + change))
        changed = [{"path": path, "children": children} for path, children in self._tree.changed.items()]
        self._connection.execute(KEEP_NODE, changed)
        self._connection.execute(update(signed_state).values(root=self._tree.root))
        return self._tree.root

    def _fetch(self, keys: Collection[str]) -> None:
        self._tree.fetch(keys, depth=LEVELS)

    def _value(self, key: str) -> str | None:
        try:
            return self._tree.value(key)
        except NodeForged as error:
            raise ForgedState(f"{error}") from None

    def _load(self, paths: Collection[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in _parts(sorted(paths)):
            query = select(as_stored(state_node.c.path), as_stored(state_node.c.children))
            for path, children in self._connection.execute(query.where(state_node.c.path.in_(part))):
                if isinstance(children, str):
                    found[str(path)] = children
        return found


def _parts(paths: list[str]) -> Iterator[list[str]]:
    for begin in range(0, len(paths), MOST_PATHS):
        yield paths[begin : begin + MOST_PATHS]


def is_new(connection: Connection) -> bool:
    """Whether a ledger has its first entry alone, by its signed state too: whoever signed that, nothing was spent."""
    links = rows_in(connection, select(entry).order_by(entry.c.position.desc()).limit(2))
    if len(links) != 1:
        return False
    tree = StateTree(EMPTY_ROOT, lambda _: {"": EMPTY_NODE})
    tree.put(*row_fact(entry, links[0]))
    tree.put(*count_fact("entries", links[0]["kind"], 1))
    return tree.root == vouched(connection).root


def begin_state(connection: Connection) -> None:
    """Store the state of a ledger without entries."""
    connection.execute(KEEP_NODE, [{"path": "", "children": EMPTY_NODE}])
    connection.execute(signed_state.insert().values(slot=0, root=EMPTY_ROOT, statement=""))
    vouch(connection, Vouched(position=-1, hash=GENESIS, root=EMPTY_ROOT))


def vouched(connection: Connection) -> Vouched:
    """What is vouched for in this transaction.

    Raises:
        ForgedState: nothing was.
    """
    known = connection.info.get(VOUCHED)
    if not isinstance(known, Vouched):
        raise ForgedState("nothing vouches for the ledger's tables in this transaction")
    return known


def vouch(connection: Connection, known: Vouched) -> None:
    """Vouch for a head and its state from now to the end of the transaction."""
    connection.info[VOUCHED] = known


def _stored(column: Column[Any]) -> Select[Any]:
    return select(as_stored(column)).where(signed_state.c.slot == 0)


def _stored_root(connection: Connection) -> str:
    """The root of the state as it is stored; nothing vouches for it here.

    Raises:
        ForgedState: it is missing, or has another form.
    """
    root = connection.execute(_stored(signed_state.c.root)).scalar()
    try:
        require_digest(root if isinstance(root, str) else "", "state's root")
    except ValueError:
        raise ForgedState("the ledger's signed state is missing") from None
    return str(root)


def sign_state(connection: Connection, head: Head, key: SigningKey, *, root: str) -> None:
    """Sign a state's root together with the head from which it follows, in the transaction that wrote both."""
    statement = signed_statement({**asdict(head), "state": root}, key, domain=DOMAIN).decode("ascii")
    connection.execute(update(signed_state).values(statement=statement))


def signer_of(connection: Connection, head: Head) -> PublicKey:
    """The key whose signature holds over this head and the stored root, which it then vouches for.

    Whose key that is, isn't said here.

    Raises:
        ForgedState: there is no such signature.
    """
    stored, root = connection.execute(_stored(signed_state.c.statement)).scalar(), _stored_root(connection)
    try:
        statement = read_statement(stored.encode("ascii") if isinstance(stored, str) else b"")
        key, stated = statement.key, {**asdict(head), "state": root}
        named = {"key_id": key.key_id, "public_key": key.raw.hex()}
        holds = statement.fields == {**stated, **named} and statement.holds(domain=DOMAIN)
    except ValueError:
        holds = False
    if not holds:
        raise ForgedState(f"no signature holds over the last entry, {head.position}, and the state of the tables")
    vouch(connection, Vouched(position=head.position, hash=head.hash, root=root))
    return key


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where an entry stands in the chain.

    Args:
        position: from 0.
        hash: its link's hash, 64 hexadecimal digits.
    """

    position: int
    hash: str


def head_of(connection: Connection) -> Place:
    """The last entry's place; position -1 before the first."""
    head = connection.execute(
        select(entry.c.position, entry.c.hash).order_by(entry.c.position.desc()).limit(1)
    ).one_or_none()
    return Place(position=-1, hash=GENESIS) if head is None else Place(position=head.position, hash=head.hash)
