"""The tree over all facts of a ledger's state: made from the facts alone, and held against the stored one.

The facts are the entries' rows, the derived rows and the counts (docs/decisions/0012-signed-state.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

from sqlalchemy import Connection, delete, select

from ....mechanisms.errors import Refusal, ReleaseFailed
from ..chain.append import Row
from ..chain.hashing import DIGITS, EMPTY_ROOT, FACT, PARTS, Finding, Head, node_digest, nodes_of
from ..chain.signed_state import KEEP_NODE, Count, Place, Vouched, count_fact, head_of, row_fact, signer_of, vouch
from ..database.schema import STREAMED, as_stored, entry, signed_state, state_node
from ..queries import ledger_id_of

__all__ = ["WholeState", "check_growth", "check_state", "keep_state"]

BATCH = 2_000
KEPT = 1 << 25  # bytes of facts in memory


class WholeState:
    """All facts of a ledger's state, gathered in the order of the chain: 64 bytes for each, most of them on disk.

    It is to be closed, which frees that room.
    """

    def __init__(self) -> None:
        self._parts = [bytearray() for _ in range(PARTS)]  # by the first byte of a fact's key
        self._kept = 0
        self._file: IO[bytes] | None = None
        self._runs: list[list[tuple[int, int]]] = [[] for _ in range(PARTS)]  # where in the file, how many bytes
        self._counts: Counter[tuple[Count, str]] = Counter()

    def close(self) -> None:
        """Free the room on disk."""
        if self._file is not None:
            self._file.close()

    def take(self, link: Mapping[str, Any], *, rows: Iterable[Row], counts: Mapping[tuple[Count, str], int]) -> None:
        """Take over an entry with what follows from it.

        Args:
            link: the row of the entry, every column.
            rows: the derived rows that follow from it.
            counts: how the counts change by it.

        Raises:
            ReleaseFailed: the temporary file can't be written.
        """
        self._take(row_fact(entry, link))
        for row in rows:
            self._take(row_fact(row.table, {"position": link["position"], **row.values}))
        self._counts.update(counts)

    def nodes(self) -> Iterator[tuple[str, str]]:
        """Path and children of every node, in falling order of the paths, the topmost last."""
        counts: list[list[bytes]] = [[] for _ in range(PARTS)]
        for (of, name), number in self._counts.items():
            content = _content(count_fact(of, name, number))
            counts[content[0]].append(content)
        yield from nodes_of(sorted(self.part(first) + counts[first]) for first in reversed(range(PARTS)))

    @property
    def counts(self) -> Mapping[tuple[Count, str], int]:
        """How the counts have changed by what was taken."""
        return self._counts

    def _take(self, fact: tuple[str, str]) -> None:
        content = _content(fact)
        self._parts[content[0]] += content
        self._kept += len(content)
        if self._kept >= KEPT:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = TemporaryFile()  # noqa: SIM115 - `close` closes it
            for part, runs in zip(self._parts, self._runs, strict=True):
                runs.append((self._file.tell(), len(part)))
                self._file.write(part)
                part.clear()
        except OSError as error:
            raise ReleaseFailed(
                f"what is known of the entries so far can't be kept on disk ({error.strerror}).",
                where=gettempdir(),
                not_done="The ledger was not verified.",
                remedy="Name a folder with room for 300 bytes an entry in TMPDIR.",
            ) from None
        self._kept = 0

    def part(self, number: int) -> list[bytes]:
        """The facts of rows whose keys begin with a byte, sorted."""
        content = bytearray()
        if self._file is not None:
            for begin, length in self._runs[number]:
                self._file.seek(begin)
                content += self._file.read(length)
        content += self._parts[number]
        return sorted(bytes(content[at : at + FACT]) for at in range(0, len(content), FACT))


def _content(fact: tuple[str, str]) -> bytes:
    return bytes.fromhex(fact[0] + fact[1])


def keep_state(connection: Connection, whole: WholeState, place: Place) -> None:
    """Store a state instead of any other, and vouch for it.

    Args:
        connection: a connection in a writing transaction.
        whole: the facts.
        place: of the last entry that they follow from.
    """
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
            vouch(connection, Vouched(position=place.position, hash=place.hash, root=root))


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
    other_root = _stored_root(connection) != root
    if differing:
        them = f"{differing} nodes of the ledger's state{', and its root,' if other_root else ''}"
        yield Finding(position=None, what=f"{them} don't follow from its entries")
    elif other_root:
        yield Finding(position=None, what="the root of the ledger's state doesn't follow from its entries")
    if not other_root:
        yield from _check_signature(connection)


def _stored_root(connection: Connection) -> object:
    return connection.execute(select(as_stored(signed_state.c.root))).scalar()


def _check_signature(connection: Connection) -> Iterator[Finding]:
    try:
        place = head_of(connection)
        signer_of(connection, Head(ledger_id=ledger_id_of(connection), position=place.position, hash=place.hash))
    except Refusal as refusal:
        yield Finding(position=None, what=refusal.what.removesuffix("."))


def check_growth(
    connection: Connection, later: WholeState, *, root: str, counts: Mapping[tuple[Count, str], int]
) -> Iterator[Finding]:
    """Hold the stored state, and the signature over it, against an earlier one and the facts that came since.

    Every node is held against the one above it. Without the later facts the tree must be the earlier one: a tree
    follows from its set of facts alone.

    Args:
        connection: a connection in a reading transaction.
        later: the facts since.
        root: of the earlier state.
        counts: the counts of the earlier state.
    """
    if _state_before(connection, _LaterFacts(later, counts)) == root:
        yield from _check_signature(connection)
    else:
        what = "the ledger's state doesn't follow from the one that was verified before and the entries since"
        yield Finding(position=None, what=what)


class _LaterFacts:
    """Facts that came since an earlier state, for nodes in falling order of their paths; each is taken away once."""

    def __init__(self, later: WholeState, counts: Mapping[tuple[Count, str], int]) -> None:
        self._later = later
        self._next = PARTS - 1  # the part that is loaded next
        self._part: dict[str, str] = {}  # child now → child before
        self._rest: dict[str, str] = {}
        for (of, name), change in later.counts.items():
            before = counts.get((of, name))
            now = "".join(count_fact(of, name, (before or 0) + change))
            self._rest[now] = "" if before is None else "".join(count_fact(of, name, before))

    def before(self, path: str, child: str) -> str:
        """What stood before where a node has a fact now: the same, the earlier count, or nothing."""
        self._load(int((path + "00")[:2], 16))
        for facts in (self._part, self._rest):
            if child in facts:
                return facts.pop(child)
        return child

    def all_taken(self) -> bool:
        """Whether every later fact was found."""
        self._load(-1)
        return not self._rest

    def _load(self, number: int) -> None:
        """Load the parts down to one."""
        while self._next >= max(number, 0):
            self._rest |= self._part
            self._part = {fact.hex(): "" for fact in self._later.part(self._next)}
            self._next -= 1
        if number < 0:
            self._rest |= self._part
            self._part = {}


def _state_before(connection: Connection, later: _LaterFacts) -> str | None:
    """The root of the stored state without its later facts; None where a node, or one of these facts, isn't there."""
    columns = [as_stored(state_node.c[name]) for name in ("path", "children")]
    query = select(*columns).order_by(state_node.c.path.desc())
    known: dict[str, tuple[str, str]] = {}  # path of a node whose upper one comes later → its digest, what stood before
    with closing(connection.execute(query, execution_options=STREAMED)) as stored:
        for path, shown in stored.tuples():
            children = shown.split(",") if isinstance(path, str) and isinstance(shown, str) else []
            if len(children) != len(DIGITS):
                return None
            before = []
            for digit, child in zip(DIGITS, children, strict=True):
                if len(child) == len(EMPTY_ROOT):
                    digest, below = known.pop(path + digit, ("", ""))
                    if digest != child:
                        return None
                    before.append(below)
                else:
                    before.append(later.before(path, child) if child else "")
            digest = node_digest(shown)
            known[path] = digest, digest if before == children else _node_before(path, before)
    if known.keys() != {""} or known[""][0] != _stored_root(connection):
        return None
    return known[""][1] if later.all_taken() else None


def _node_before(path: str, children: list[str]) -> str:
    """What stood above some children: a node's digest, or the only fact; nothing where there were none."""
    present = [child for child in children if child]
    if path and len(present) < 2 and not any(len(child) == len(EMPTY_ROOT) for child in present):
        return "".join(present)
    return node_digest(",".join(children))
