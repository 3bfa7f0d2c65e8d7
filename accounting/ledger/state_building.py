"""The whole state of a ledger, made from its entries alone: to begin with, and to hold what is stored against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, delete, select

from ...mechanisms.refusal import Refusal
from .anchor import Head
from .append import head_of
from .canonical import entry_of_bytes
from .chain import GENESIS, Finding
from .derived_audit import STREAMED
from .queries import ledger_id_of
from .replay import Replay
from .schema import as_stored, entry, signed_state, state_node
from .signed_state import KEEP_NODE, Count, Vouched, count_fact, row_fact, signer_of, vouch
from .state_tree import node_digest, nodes_of

__all__ = ["WholeState", "build_state", "check_state"]

BATCH = 2_000


class WholeState:
    """All facts of a ledger's state, gathered in the order of the chain; 64 bytes for each."""

    def __init__(self) -> None:
        self._facts: list[bytes] = []
        self._counts: Counter[tuple[Count, str]] = Counter()

    def take(self, link: Mapping[str, Any], replay: Replay) -> None:
        """Take over an entry with what follows from it.

        Args:
            link: the row of the entry, every column.
            replay: which was handed this entry last.
        """
        self._take(row_fact(entry, link))
        for row in replay.rows:
            self._take(row_fact(row.table, {"position": link["position"], **row.values}))
        self._counts.update(replay.counts)

    def nodes(self) -> Iterator[tuple[str, str]]:
        """Path and children of every node, in falling order of the paths, the topmost last."""
        for (of, name), number in self._counts.items():
            self._take(count_fact(of, name, number))
        self._counts.clear()
        self._facts.sort()
        yield from nodes_of(self._facts)

    def _take(self, fact: tuple[str, str]) -> None:
        self._facts.append(bytes.fromhex(fact[0] + fact[1]))


def build_state(connection: Connection) -> None:
    """Store the state that follows from a ledger's entries, instead of any other.

    Whether the entries hold isn't looked at here: the ledger is to be verified before the state is signed.

    Args:
        connection: a connection in a writing transaction.
    """
    whole, replay = WholeState(), Replay()
    position, link = -1, GENESIS
    columns = [as_stored(column).label(column.name) for column in entry.columns]
    rows = connection.execute(select(*columns).order_by(entry.c.position), execution_options=STREAMED)
    for row in rows:
        try:
            replay.apply(entry_of_bytes(str(row.body).encode("ascii")), position=row.position)
        except ValueError:
            replay.skip()
        whole.take(row._asdict(), replay)
        position, link = row.position, row.hash
    for table in (state_node, signed_state):
        connection.execute(delete(table))
    batch: list[dict[str, str]] = []
    for path, children in whole.nodes():
        batch.append({"path": path, "children": children})
        if path == "" or len(batch) == BATCH:
            connection.execute(KEEP_NODE, batch)
            batch.clear()
        if path == "":
            root = node_digest(children)
            connection.execute(signed_state.insert().values(slot=0, root=root, statement=""))
            vouch(connection, Vouched(position=position, hash=link, root=root))


def check_state(connection: Connection, whole: WholeState) -> Iterator[Finding]:
    """Hold the stored state, and the signature over it, against the state that follows from the entries."""
    columns = [as_stored(state_node.c[name]) for name in ("path", "children")]
    stored = connection.execute(
        select(*columns).order_by(state_node.c.path.desc()), execution_options=STREAMED
    ).tuples()
    differing, root = 0, ""
    row = next(stored, None)
    for path, children in whole.nodes():
        while row is not None and str(row[0]) > path:
            differing, row = differing + 1, next(stored, None)
        if row is None or row[0] != path:
            differing += 1
        else:
            differing += row[1] != children
            row = next(stored, None)
        root = node_digest(children)
    differing += (row is not None) + sum(1 for _ in stored)
    other_root = connection.execute(select(as_stored(signed_state.c.root))).scalar() != root
    if differing:
        them = f"{differing} nodes of the ledger's state{', and its root,' if other_root else ''}"
        yield Finding(position=None, what=f"{them} don't follow from its entries")
    elif other_root:
        yield Finding(position=None, what="the root of the ledger's state doesn't follow from its entries")
    if other_root:
        return
    try:
        place = head_of(connection)
        signer_of(connection, Head(ledger_id=ledger_id_of(connection), position=place.position, hash=place.hash))
    except Refusal as refusal:
        yield Finding(position=None, what=refusal.what.removesuffix("."))
