"""Holding a ledger against its entries: the state made from them alone, the rules applied again, tables compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

from sqlalchemy import Connection, Table, delete, or_, select, text

from ....mechanisms.errors import Refusal, ReleaseFailed
from ..chain.append import Row, counts_of, is_exclusive, rows_of
from ..chain.hashing import (
    DIGITS,
    EMPTY_ROOT,
    FACT,
    GENESIS,
    PARTS,
    Finding,
    Head,
    Link,
    check_links,
    node_digest,
    nodes_of,
    own_hash,
)
from ..chain.signed_state import KEEP_NODE, Count, Place, Vouched, count_fact, head_of, row_fact, signer_of, vouch
from ..database.schema import (
    DERIVED_TABLES,
    GUARDS,
    account,
    as_stored,
    entry,
    release_stage,
    sample,
    series_release,
    signed_state,
    state_node,
)
from ..entries.codec import entry_of_bytes
from ..entries.kinds import (
    DatasetAdded,
    Entry,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)
from ..entries.values import AccountAt, account_of_row
from ..queries import ledger_id_of
from .rule import Payment
from .violations import violations

__all__ = [
    "STREAMED",
    "DerivedRows",
    "Earlier",
    "Replay",
    "WholeState",
    "build_state",
    "check_growth",
    "check_state",
    "keep_state",
    "verify_ledger",
]


@dataclass(kw_only=True, slots=True)
class Replay:
    """What is known after the entries seen so far; grows with each call of `apply`. Its look-ups are a `LedgerState`.

    Args:
        position: place of the entry that is looked at, or of the next one.
        datasets: name → its registration.
        accounts: data set → its account now.
        registered: series → its registration.
        payments: release id → how it was paid for; equal ones are one object.
        unrefunded: data set, and whether their price holds for them alone → its releases whose cost was not given back.
        samples: sample's id → the release that it serves.
        stages: release id → stages and outcomes passed.
        places: series and number → the releases that took this place, in their order.
        tokens: token's id → whether it was revoked.
        rows: the derived rows that follow from the last entry.
        counts: how the last entry changes the counts of the ledger's state.
        lost: whether an entry before the next one is missing.
        groundless: whether the last entry builds on one that is missing: then nothing follows from it for sure.
    """

    position: int = 0
    datasets: dict[str, DatasetAdded] = field(default_factory=dict)
    accounts: dict[str, AccountAt] = field(default_factory=dict)
    registered: dict[str, SeriesRegistered] = field(default_factory=dict)
    payments: dict[str, Payment] = field(default_factory=dict)
    unrefunded: dict[tuple[str, bool], dict[str, None]] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    stages: dict[str, frozenset[str]] = field(default_factory=dict)
    places: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    tokens: dict[str, bool] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    counts: Mapping[tuple[Count, str], int] = field(default_factory=dict)
    lost: bool = False
    groundless: bool = False
    _alike: dict[Payment, Payment] = field(default_factory=dict)
    _passed: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    def dataset(self, name: str) -> DatasetAdded | None:
        """A data set's registration."""
        return self.datasets.get(name)

    def account(self, name: str) -> AccountAt | None:
        """A data set's account."""
        return self.accounts.get(name)

    def series(self, name: str) -> SeriesRegistered | None:
        """A series' registration."""
        return self.registered.get(name)

    def holder(self, series: str, number: int) -> str | None:
        """The first release that took a place and didn't give it back."""
        holders = self.places.get((series, number), ())
        return next((holder for holder in holders if "refunded" not in self.outcomes(holder)), None)

    def turn(self, series: str, number: int) -> int:
        """How many releases have taken a place."""
        return len(self.places.get((series, number), ()))

    def payment(self, release_id: str) -> Payment | None:
        """How a release was paid for."""
        return self.payments.get(release_id)

    def outcomes(self, release_id: str) -> frozenset[str]:
        """What a release has passed."""
        return self.stages.get(release_id, frozenset())

    def release_of_sample(self, sample_id: str) -> str | None:
        """The release that a sample serves."""
        return self.samples.get(sample_id)

    def standing(self, dataset: str, *, exclusive: bool) -> str | None:
        """The earliest release whose cost was not given back."""
        return next(iter(self.unrefunded.get((dataset, exclusive), ())), None)

    def revoked(self, token_id: str) -> bool | None:
        """Whether a token was revoked."""
        return self.tokens.get(token_id)

    def apply(self, entry: Entry, *, position: int) -> tuple[str, ...]:
        """Take the next entry.

        Returns:
            Each rule that it breaks, in a sentence.
        """
        self.position, self.groundless = position, False
        faults = tuple(self._faults(entry))
        self.skip()
        try:
            self._follow(entry)
        except ValueError as error:
            faults = (*faults, *self._lacking(f"{error}"))
        return faults

    def skip(self) -> None:
        """Pass over an entry that can't be read: nothing follows from it."""
        self.rows, self.counts = (), {}

    def lose(self, rows: tuple[Row, ...]) -> None:
        """Go on after missing entries from the rows that they left, if they did."""
        self.lost = True
        for row in rows:
            if row.table is release_stage:
                self.take(row)
        self.believe(rows)

    def believe(self, rows: tuple[Row, ...]) -> None:
        """Go on from the accounts that are stored for an entry whose content was changed, where they can be read."""
        for row in rows:
            if row.table is account:
                with suppress(TypeError, ValueError):
                    self.take(row)
        self.skip()

    def _faults(self, entry: Entry) -> Iterator[str]:
        for violation in violations(entry, self):
            if violation.lacking:
                yield from self._lacking(violation.fault)
            else:
                yield violation.fault
        if isinstance(entry, ReleaseReading | ReleasePublished | ReleaseAbandoned) and self.lost:
            self.groundless |= entry.release_id not in self.payments

    def _lacking(self, fault: str) -> Iterator[str]:
        """A fault for want of an earlier entry: its own where the chain is whole, else of the one that is missing."""
        if self.lost:
            self.groundless = True
        else:
            yield fault

    def _follow(self, entry: Entry) -> None:
        """Take over what the entry changes, whether or not it may."""
        rows = rows_of(entry, self)
        self.counts = counts_of(entry, rows=rows, state=self)
        self.rows = rows
        for row in rows:
            self.take(row)
        self.know(entry)

    def know(self, entry: Entry) -> None:
        """Take over what an entry says beside its rows."""
        match entry:
            case DatasetAdded():
                self.datasets[entry.dataset] = entry
            case SeriesRegistered():
                self.registered[entry.series] = entry
            case TokenAdded() | TokenRevoked():
                self.tokens[entry.token_id] = isinstance(entry, TokenRevoked)
            case ReleaseCharged():
                self.pay(entry.release_id, Payment.by(entry))
            case ReleaseAbandoned(refunded=True):
                self.give_back(entry.release_id)
            case _:
                pass

    def pay(self, release_id: str, paid: Payment) -> None:
        """Take over how a release was paid for."""
        self.payments[release_id] = self._alike.setdefault(paid, paid)
        for exclusive in {False, is_exclusive(paid.mechanism)}:
            self.unrefunded.setdefault((paid.dataset, exclusive), {})[release_id] = None

    def give_back(self, release_id: str) -> None:
        """Take over that a release's cost was given back."""
        for exclusive in (False, True):
            self.unrefunded.get((self.payments[release_id].dataset, exclusive), {}).pop(release_id, None)

    def take(self, row: Row) -> None:
        """Take over what a derived row says."""
        values = row.values
        if row.table is account:
            self.accounts[str(values["dataset"])] = account_of_row(values)
        elif row.table is release_stage:
            release_id = str(values["release_id"])
            passed = self.outcomes(release_id) | {str(values["outcome"])}
            self.stages[release_id] = self._passed.setdefault(passed, passed)
        elif row.table is sample:
            self.samples[str(values["sample_id"])] = str(values["release_id"])
        elif row.table is series_release:
            place = (str(values["series"]), int(values["number"]))
            self.places[place] = (*self.places.get(place, ()), str(values["release_id"]))


# For one statement at a time: the same options on the connection would stay with it.
STREAMED: Mapping[str, int] = {"yield_per": 2_000}


class DerivedRows:
    """The rows of every derived table, read once in the order of their positions.

    Args:
        connection: a connection in a reading transaction.
        after: the place after which they begin.
    """

    def __init__(self, connection: Connection, *, after: int = -1) -> None:
        self._tables = [_TableRows(connection, table, after=after) for table in DERIVED_TABLES]

    def check(self, position: int, expected: tuple[Row, ...]) -> Iterator[Finding]:
        """Compare what is stored for an entry with what follows from it; positions must rise from call to call."""
        due: dict[Table, list[Row]] = {}
        for row in expected:
            due.setdefault(row.table, []).append(row)
        for table in self._tables:
            if table.position <= position or table.table in due:
                yield from table.check(position, due.get(table.table, []))

    def take(self, position: int) -> tuple[Row, ...]:
        """The rows up to an entry that can't be held against it: it is missing, or another one than was written."""
        return tuple(row for table in self._tables for row in table.take(position))

    def check_rest(self) -> Iterator[Finding]:
        """Find what lies beyond the last entry: one finding, however many rows missing entries have left there."""
        strangers = [stranger for table in self._tables for stranger in table.strangers(float("inf"))]
        if len(strangers) == 1:
            yield from strangers
        elif strangers:
            names = ", ".join(table.table.name for table in self._tables if table.found_strangers)
            first = min(stranger.position for stranger in strangers if stranger.position is not None)
            what = f"the chain ends before it, and {len(strangers)} rows of this place or later ones are left"
            yield Finding(position=first, what=f"{what} in the tables {names}")
        for table in self._tables:
            yield from table.check_homeless()


class _TableRows:
    """The rows of one table from one position on."""

    def __init__(self, connection: Connection, table: Table, *, after: int) -> None:
        self.table = table
        self.position = float("inf")  # of the row that comes next
        self._names = [column.name for column in table.columns if column.name != "position"]
        columns = [as_stored(table.c[name]) for name in ("position", *self._names)]
        # A cursor of its own for each table, so that all can be read in step.
        query = select(*columns).order_by(table.c.position)
        if after >= 0:  # else those before the first entry are strangers too
            query = query.where(or_(table.c.position > after, table.c.position.is_(None)))
        result = connection.execute(query, execution_options=STREAMED)
        self._rows: Iterator[tuple[Any, ...]] = (tuple(row) for part in result.partitions() for row in part)
        self._homeless = 0
        self.found_strangers = False
        self._next: tuple[Any, ...] | None = None
        self._advance()

    def check(self, position: int, expected: list[Row]) -> Iterator[Finding]:
        """Compare the rows at a position, and find those before it, which belong to no entry."""
        yield from self.strangers(position)
        stored = []
        while self._next is not None and self.position == position:
            stored.append(self._next[1:])
            self._advance()
        due = [tuple(row.values[name] for name in self._names) for row in expected]
        if stored == due:
            return
        if any(row not in stored for row in due):
            yield Finding(position=position, what=f"its row in the table {self.table.name} is missing or changed")
        else:
            yield self._stranger(position)

    def take(self, position: int) -> Iterator[Row]:
        """The rows at a position and before it."""
        while self._next is not None and self.position <= position:
            yield Row(table=self.table, values=dict(zip(self._names, self._next[1:], strict=True)))
            self._advance()

    def check_homeless(self) -> Iterator[Finding]:
        """Find the rows that no entry can have."""
        if self._homeless:
            yield Finding(
                position=None, what=f"{self._homeless} rows in the table {self.table.name} name no place in the chain"
            )

    def strangers(self, before: float) -> Iterator[Finding]:
        """Find the rows before a position that belong to no entry, and go past them."""
        while self._next is not None and self.position < before:
            self.found_strangers = True
            yield self._stranger(int(self.position))
            self._advance()

    def _stranger(self, position: int) -> Finding:
        return Finding(position=position, what=f"a row in the table {self.table.name} does not follow from it")

    def _advance(self) -> None:
        """Go to the next row whose position is a whole number; SQLite would store others, if its checks were off."""
        for row in self._rows:
            if type(row[0]) is int:
                self._next, self.position = row, row[0]
                return
            self._homeless += 1
        self._next, self.position = None, float("inf")


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

    def take(self, link: Mapping[str, Any], replay: Replay) -> None:
        """Take over an entry with what follows from it.

        Args:
            link: the row of the entry, every column.
            replay: which was handed this entry last.

        Raises:
            ReleaseFailed: the temporary file can't be written.
        """
        self._take(row_fact(entry, link))
        for row in replay.rows:
            self._take(row_fact(row.table, {"position": link["position"], **row.values}))
        self._counts.update(replay.counts)

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
        for begin, length in self._runs[number]:
            if self._file is not None:
                self._file.seek(begin)
                content += self._file.read(length)
        content += self._parts[number]
        return sorted(bytes(content[at : at + FACT]) for at in range(0, len(content), FACT))


def _content(fact: tuple[str, str]) -> bytes:
    return bytes.fromhex(fact[0] + fact[1])


def build_state(connection: Connection) -> None:
    """Store the state that follows from a ledger's entries, instead of any other.

    Whether the entries hold isn't looked at here: the ledger is to be verified before the state is signed.

    Args:
        connection: a connection in a writing transaction.
    """
    replay, place = Replay(), Place(position=-1, hash=GENESIS)
    with closing(WholeState()) as whole:
        columns = [as_stored(column).label(column.name) for column in entry.columns]
        rows = connection.execute(select(*columns).order_by(entry.c.position), execution_options=STREAMED)
        for row in rows:
            try:
                replay.apply(entry_of_bytes(str(row.body).encode("ascii")), position=row.position)
            except ValueError:
                replay.skip()
            whole.take(row._asdict(), replay)
            place = Place(position=row.position, hash=row.hash)
        keep_state(connection, whole, place)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Earlier:
    """A ledger up to an entry, as it was verified.

    Args:
        place: of that entry.
        root: of the state that followed from the entries up to it.
        replay: what the rules need to know of them.
        counts: the counts of the state then.
    """

    place: Place
    root: str
    replay: Replay
    counts: Mapping[tuple[Count, str], int]


def check_growth(connection: Connection, later: WholeState, since: Earlier) -> Iterator[Finding]:
    """Hold the stored state, and the signature over it, against an earlier one and the facts that came since.

    Every node is held against the one above it. Without the later facts the tree must be the earlier one: a tree
    follows from its set of facts alone.

    Args:
        connection: a connection in a reading transaction.
        later: the facts since.
        since: the ledger before them.
    """
    if _state_before(connection, _LaterFacts(later, since)) == since.root:
        yield from _check_signature(connection)
    else:
        what = "the ledger's state doesn't follow from the one that was verified before and the entries since"
        yield Finding(position=None, what=what)


class _LaterFacts:
    """Facts that came since an earlier state, for nodes in falling order of their paths; each is taken away once."""

    def __init__(self, later: WholeState, since: Earlier) -> None:
        self._later = later
        self._next = PARTS - 1  # the part that is loaded next
        self._part: dict[str, str] = {}  # child now → child before
        self._rest: dict[str, str] = {}
        for (of, name), change in later.counts.items():
            before = since.counts.get((of, name))
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


NAMED = 20  # entries that build on a missing one are listed up to so many

TRIGGERS = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'"
    " AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)",
}


def verify_ledger(connection: Connection, *, dialect: str, since: Earlier | None = None) -> tuple[Finding, ...]:
    """Check everything that can be checked from inside a ledger.

    Entries and derived rows are read once, in step: what is kept in memory is what the rules need to know of earlier
    entries, which grows with releases and not with rows.

    Args:
        connection: a connection in a reading transaction.
        dialect: "sqlite" or "postgresql".
        since: the ledger up to an entry, which isn't looked at again; None to begin with the first.

    Returns:
        What does not hold, in the order of the chain; empty for a sound ledger.
    """
    findings: list[Finding] = []
    derived = DerivedRows(connection, after=-1 if since is None else since.place.position)
    gaps: dict[int, _Gap] = {}
    with closing(WholeState()) as whole:
        links = _links(connection, derived, whole, findings, gaps, since)
        if since is None:
            broken = check_links(links)
        else:
            broken = check_links(links, position=since.place.position + 1, previous=since.place.hash)
        findings.extend([gaps[one.position].reported(one) if one.position in gaps else one for one in list(broken)])
        findings.extend(derived.check_rest())
        if not findings:  # else the state can only be another one
            state = check_state(connection, whole) if since is None else check_growth(connection, whole, since)
            findings.extend(state)
    present = frozenset(connection.execute(text(TRIGGERS[dialect])).scalars())
    findings.extend(
        Finding(position=None, what=f"the database's guard {guard} is missing")
        for guard in sorted(GUARDS[dialect] - present)
    )
    return tuple(sorted(findings, key=lambda finding: (finding.position is None, finding.position or 0)))


@dataclass(kw_only=True, slots=True)
class _Gap:
    """Entries that are missing before one that is there, with what can't be checked for want of them.

    Args:
        rows: that the missing entries left.
        groundless: positions of the entries that build on them.
    """

    rows: tuple[Row, ...]
    groundless: list[int] = field(default_factory=list)

    def reported(self, finding: Finding) -> Finding:
        """The finding of the gap, with its consequences."""
        parts = []
        if self.rows:
            parts.append(f"its rows in {', '.join(sorted({row.table.name for row in self.rows}))}")
        if self.groundless:
            some, more = self.groundless[:NAMED], len(self.groundless) - NAMED
            listed = ", ".join(map(str, some)) + (f" and {more} more" if more > 0 else "")
            parts.append(f"what builds on it (entries {listed})")
        said = f"; for want of it, {' and '.join(parts)} can't be checked" if parts else ""
        return Finding(position=finding.position, what=finding.what + said)


def _links(
    connection: Connection,
    derived: DerivedRows,
    whole: WholeState,
    findings: list[Finding],
    gaps: dict[int, _Gap],
    since: Earlier | None,
) -> Iterator[Link]:
    """Give each stored entry as a link; on the way replay it, and compare the rows that follow from it."""
    replay, last = (Replay(), -1) if since is None else (since.replay, since.place.position)
    columns = (as_stored(entry.c[name]) for name in ("position", "previous", "hash", "kind", "body"))
    query = select(*columns).order_by(entry.c.position)
    if since is not None:
        query = query.where(entry.c.position > last)
    rows = connection.execute(query, execution_options=STREAMED)
    empty, expected, gap = since is None, last + 1, None
    for position, previous, own, kind, stored in rows:
        empty = False
        if position > expected:
            gap = gaps[position] = _Gap(rows=derived.take(position - 1))
            replay.lose(gap.rows)
        expected = position + 1
        body = _text(stored).encode("utf-8")
        read = Link(position=position, previous=_text(previous), hash=_text(own), body=body)
        faults = _faults(position, kind, body, replay)
        if gap is not None and replay.groundless:
            gap.groundless.append(position)
            findings.extend(Finding(position=position, what=what) for what in faults)
            replay.believe(derived.take(position))
        elif own_hash(read) == read.hash:
            findings.extend(Finding(position=position, what=what) for what in faults)
            findings.extend(derived.check(position, replay.rows))
        else:  # that its content was changed is the one cause of whatever its rules and rows would show
            replay.believe(derived.take(position))
        if not findings and not gaps:
            link = {"position": position, "previous": previous, "hash": own, "kind": kind, "body": stored}
            whole.take(link, replay)
        yield read
    if empty:
        findings.append(Finding(position=None, what="the ledger has no entry"))


def _text(stored: object) -> str:
    return stored if isinstance(stored, str) else ""


def _faults(position: int, kind: str, body: bytes, replay: Replay) -> tuple[str, ...]:
    try:
        recorded = entry_of_bytes(body)
    except ValueError as error:
        replay.skip()
        return (f"the entry can't be read: {error}",)
    faults = replay.apply(recorded, position=position)
    return faults if kind == recorded.KIND else (*faults, "the entry's kind differs from its content")
