"""The verification of a ledger against what is kept outside of it: its anchor, and an earlier verification.

The anchor shows what the chain itself can't. An earlier verification, kept by the auditor, spares the rules and prices
of the entries before it (docs/decisions/0022-resumed-verification.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from sqlalchemy import Connection, Table, select

from ....mechanisms.errors import InputRefused, Refusal, ReleaseFailed
from ..database.schema import DERIVED_TABLES, STREAMED, account, as_stored, entry, release_stage, sample, series_release
from ..database.store import present_head
from ..entries.codec import entry_of_bytes
from ..entries.kinds import ReleaseCharged
from ..entries.values import require_digest
from ..file_access import open_given, replace_private
from ..private_store.signing import PublicKey, canonical_bytes
from ..queries import ledger_id_of
from ..rules.audit import Earlier, Replay, verify_ledger
from ..rules.rule import Payment
from .anchor import LONGEST_LINE, ClaimedHead, SignedHead, claim_of_line, head_of_line
from .append import Row, standing
from .hashing import Finding, Head, Link, check_links
from .signed_state import Count, Place, head_of, signer_of, vouched

__all__ = [
    "AnchorCheck",
    "KeptVerification",
    "Reached",
    "RowDigests",
    "check_anchor",
    "keep_verification",
    "read_verification",
    "verify_resumable",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchorCheck:
    """What an anchor says of a ledger.

    Args:
        findings: what does not hold, one sentence each; empty where the ledger continues its anchor.
        unchecked: what it can't show, one sentence each.
        line: the anchor's line of the head that was asked for, if it has one whose signature holds.
    """

    findings: tuple[str, ...]
    unchecked: tuple[str, ...]
    line: bytes | None = None


@dataclass(kw_only=True, slots=True)
class _Differences:
    """What the lines read so far say against the chain.

    Args:
        damaged: findings about single lines.
        unsound: numbers of the lines whose signature was checked and doesn't hold.
        latest: key → its latest line's number and claim.
        others: lines of another ledger.
        lost: the highest position that the ledger lacks, -1 where it lacks none.
        changed: the lowest position whose entry is another one, None where there is none.
        changes: how many entries are other ones.
        asked: the line of the head that was asked for, with its number and claim.
    """

    damaged: list[str] = field(default_factory=list)
    unsound: set[int] = field(default_factory=set)
    latest: dict[PublicKey, tuple[int, ClaimedHead]] = field(default_factory=dict)
    others: int = 0
    lost: int = -1
    changed: int | None = None
    changes: int = 0
    asked: tuple[bytes, int, ClaimedHead] | None = None


def check_anchor(
    path: Path,
    *,
    connect: Callable[[], AbstractContextManager[Connection]],
    trusted: tuple[PublicKey, ...],
    asked: Head | None = None,
) -> AnchorCheck:
    """Hold a ledger against an anchor; both are read once, in step, and little of them is kept in memory.

    The signature of each line is checked, after the head that was asked for where there is one: up to there an earlier
    verification did. Of the lines before it those are checked on which something depends: the latest of each key, and
    whatever the chain contradicts.

    Args:
        path: the anchor's file, or a copy of it.
        connect: gives a connection in a reading transaction.
        trusted: public keys that may have signed it; where there are none, it isn't checked whose they are.
        asked: a head whose line is wanted.

    Raises:
        InputRefused: the anchor can't be read.
    """
    unchecked = ["an anchor that was cut back together with the ledger: keep a copy where the ledger's writers can't."]
    differences = _Differences()
    try:
        with open_given(path) as file:
            # INVARIANT: how long the anchor is, is looked up before the ledger is, and no more is read of it: what was
            # anchored then must be in the ledger.
            length = os.fstat(file.fileno()).st_size
            with connect() as connection:
                after = -1 if asked is None else asked.position
                _compare(connection, _claims(file, length, differences, unchecked, asked), differences, after=after)
                end = head_of(connection).position
                signer = _signer(connection)
    except OSError as error:
        raise InputRefused(f"the anchor can't be read ({error.strerror}).", where=str(path)) from None
    sound = [claim for number, claim in differences.latest.values() if _holds(number, claim, differences)]
    findings = list(differences.damaged)
    if not sound:
        findings.append("the anchor vouches for nothing: it has no head whose signature holds")
    keys = sorted(differences.latest, key=lambda key: key.key_id)
    if not trusted:
        unchecked.append(f"whose the anchor's keys are ({', '.join(key.key_id for key in keys)}).")
    findings += [
        f"the anchor has lines signed by the key {key.key_id}, which is none of those that are trusted"
        for key in keys
        if trusted and key not in trusted
    ]
    if trusted and signer is not None and signer not in trusted:
        findings.append(f"the last entry is signed by the key {signer.key_id}, which is none of those that are trusted")
    findings += _sentences(differences, end)
    last = max((claim.head.position for claim in sound), default=-1)
    if end > last:
        unchecked.append(f"the entries after entry {last}: they are not anchored yet.")
    line = None
    if differences.asked is not None and _holds(*differences.asked[1:], differences):
        line = differences.asked[0]
    return AnchorCheck(findings=tuple(findings), unchecked=tuple(unchecked), line=line)


def _signer(connection: Connection) -> PublicKey | None:
    """Whose signature holds over the ledger's head; None where none does, which the ledger's own verification finds."""
    try:
        return signer_of(connection, present_head(connection))
    except Refusal:
        return None


def _claims(
    file: BinaryIO, length: int, differences: _Differences, unchecked: list[str], asked: Head | None
) -> Iterator[tuple[int, ClaimedHead]]:
    """Each readable line's number and claim, in the order of rising positions."""
    before, number = -1, 0
    while file.tell() < length and (line := file.readline(LONGEST_LINE)):
        number += 1
        if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
            unchecked.append("the anchor's last line: it is incomplete, as a crash leaves it.")
            return
        try:
            claim = claim_of_line(line)
        except ValueError as error:
            differences.damaged.append(f"line {number} of the anchor can't be relied on: {error}")
            continue
        if claim.head.position <= before:
            differences.damaged.append(f"line {number} of the anchor goes back to entry {claim.head.position}")
            continue
        before = claim.head.position
        differences.latest[claim.key] = (number, claim)
        if claim.head == asked:
            differences.asked = (line, number, claim)
        yield number, claim


def _compare(
    connection: Connection, claims: Iterator[tuple[int, ClaimedHead]], differences: _Differences, *, after: int
) -> None:
    try:
        ledger_id = ledger_id_of(connection)
    except ReleaseFailed:
        ledger_id = None
        differences.damaged.append("the ledger's first entry is damaged, so that no anchor can be known to be its own")
    links = connection.execute(
        select(entry.c.position, entry.c.hash).order_by(entry.c.position), execution_options=STREAMED
    )
    link = links.fetchone()
    for number, claim in claims:
        head = claim.head
        if head.ledger_id != ledger_id:
            differences.others += 1
            continue
        if head.position > after and not _holds(number, claim, differences):
            continue
        while link is not None and link.position < head.position:
            link = links.fetchone()
        if link is not None and (link.position, link.hash) == (head.position, head.hash):
            continue
        if head.position <= after and not _holds(number, claim, differences):
            continue
        if link is None or link.position != head.position:
            differences.lost = head.position
            continue
        differences.changed = head.position if differences.changed is None else differences.changed
        differences.changes += 1
    links.close()


def _holds(number: int, claim: ClaimedHead, differences: _Differences) -> bool:
    if number not in differences.unsound and claim.holds:
        return True
    if number not in differences.unsound:
        differences.unsound.add(number)
        differences.damaged.append(f"line {number} of the anchor can't be relied on: the signature doesn't hold")
    return False


def _sentences(differences: _Differences, end: int) -> Iterator[str]:
    if differences.others:
        yield f"{differences.others} lines of the anchor are of another ledger"
    if differences.lost >= 0:
        yield (
            f"the anchor vouches for entry {differences.lost}, and the ledger ends at entry {end}: it was cut back, "
            "or an older copy was restored"
        )
    if differences.changed is not None:
        yield (
            f"entry {differences.changed} is not the one that the anchor vouches for, nor are "
            f"{differences.changes - 1} other anchored entries: the chain was written anew"
        )


KEPT = "crowdblend kept verification 1"
LONGEST_KEPT = 1 << 14  # bytes; this version writes fewer than 2,500
ROWS = b"crowdblend ledger rows 1\n"
TABLES = (entry, *DERIVED_TABLES)
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """A ledger that was verified whole.

    Args:
        head: where its chain ended.
        root: of the state that follows from its entries.
        tables: table → SHA-256 (hex) of its rows.
    """

    head: Head
    root: str
    tables: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptVerification:
    """What an auditor keeps of a verification, so that the next one can go on from there.

    Args:
        reached: what was verified.
        anchored: its head as the anchor has it, signed.
        version: of the software whose rules were applied.
    """

    reached: Reached
    anchored: SignedHead
    version: str


def keep_verification(path: Path, reached: Reached, *, line: bytes, version: str) -> None:
    """Write what is kept of a verification, for its owner alone, in the place of an earlier one or of none.

    Args:
        path: the file, which the ledger's writers must not be able to write to.
        reached: what was verified.
        line: the anchor's line of its head.
        version: of this software.

    Raises:
        ReleaseFailed: it can't be written.
    """
    fields = {
        "format": KEPT,
        "anchored": line.decode("ascii").removesuffix("\n"),
        "root": reached.root,
        "tables": dict(reached.tables),
        "version": version,
    }
    try:
        replace_private(path, canonical_bytes({**fields, "digest": _digest_of(fields)}) + b"\n")
    except OSError as error:
        raise ReleaseFailed(
            f"the ledger was verified, and that can't be kept ({error.strerror}).", where=str(path), not_done=""
        ) from None


def read_verification(path: Path, *, trusted: tuple[PublicKey, ...]) -> KeptVerification | None:
    """Read what was kept of a verification; None where there is no such file.

    Args:
        path: the file.
        trusted: public keys that may have signed its head; where there are none, it isn't asked whose the key is.

    Raises:
        InputRefused: it can't be read, others than its owner can, it is no such file or a changed one, or its head is
            signed by a key that isn't trusted.
    """
    anew = "Remove it, or name another file: then everything is verified."
    try:
        with open_given(path) as file:
            open_to_others = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077
            content = file.read(LONGEST_KEPT)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputRefused(f"the kept verification can't be read ({error.strerror}).", where=str(path)) from None
    if open_to_others:
        raise InputRefused(
            "others than its owner can read or change the kept verification, which decides what isn't checked again.",
            where=str(path),
            remedy=f"If nobody has changed it, close it with: chmod 600 '{path}'. Else remove it.",
        )
    try:
        kept = _kept(content)
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, ValueError) else "it is nested too deeply"
        raise InputRefused(f"this is no kept verification: {why}.", where=str(path), remedy=anew) from None
    if trusted and kept.anchored.key not in trusted:
        raise InputRefused(
            f"the kept verification is of a head that the key {kept.anchored.key.key_id} signed, which is none of "
            "those that are trusted.",
            where=str(path),
            remedy="Name the keys with --public-key FILE, after a rotation all of them (`key export --all`).",
        )
    return kept


def _kept(content: bytes) -> KeptVerification:
    fields = json.loads(content)
    if not isinstance(fields, dict) or fields.get("format") != KEPT or canonical_bytes(fields) + b"\n" != content:
        raise ValueError("it has another form")
    if fields.pop("digest", None) != _digest_of(fields):
        raise ValueError("its content differs from its digest")
    line, root, tables, version = (fields.get(name) for name in ("anchored", "root", "tables", "version"))
    if not (isinstance(line, str) and isinstance(root, str) and isinstance(tables, dict) and isinstance(version, str)):
        raise ValueError("a field is missing, or holds something else")  # noqa: TRY004 - what a file holds is a value
    anchored = head_of_line(line.encode("ascii") + b"\n")
    require_digest(root, "state's root")
    if tables.keys() != {table.name for table in TABLES}:
        raise ValueError("it names other tables")
    return KeptVerification(
        reached=Reached(head=anchored.head, root=root, tables=tables), anchored=anchored, version=version
    )


def _digest_of(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_bytes(fields)).hexdigest()


def verify_resumable(
    kept: KeptVerification | None, *, connect: Callable[[], AbstractContextManager[Connection]]
) -> tuple[tuple[Finding, ...], Reached | None]:
    """Check all that `verify_ledger` checks; or the later entries by it, and that the earlier ones are as they were.

    Of entries up to the kept head every hash is computed again, and every row must be the one that was verified. The
    rules aren't applied to them again, nor are their prices computed.

    Args:
        kept: of an earlier verification; None to begin with the first entry.
        connect: gives a connection in a reading transaction.

    Returns:
        What does not hold, and what was reached where all holds.

    Raises:
        InputRefused: what was kept is of another ledger.
    """
    with connect() as connection:
        rows = RowDigests(connection)
        since = None
        if kept is not None:
            findings, since = _earlier(connection, kept.reached, rows)
            if findings:
                return findings, None
        findings = verify_ledger(connection, since=since)
        if findings:
            return findings, None
        known = vouched(connection)
        rows.read_all(after=None if since is None else since.place.position, upto=known.position)
        head = Head(ledger_id=ledger_id_of(connection), position=known.position, hash=known.hash)
        return (), Reached(head=head, root=known.root, tables=rows.digests)


class RowDigests:
    """A digest of each table's rows in the order of their places; of entries that of what their hashes don't bind.

    Args:
        connection: a connection in a transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._hashes = {table: hashlib.sha256(ROWS + table.name.encode()) for table in TABLES}

    @property
    def digests(self) -> dict[str, str]:
        """Table → digest of the rows so far."""
        return {table.name: hashed.hexdigest() for table, hashed in self._hashes.items()}

    def read_all(self, *, after: int | None, upto: int) -> None:
        """Take the rows of every table after a place, or from the first on, up to another, into its digest."""
        for table in TABLES:
            for _ in self.read(table, after=after, upto=upto):
                pass

    def read(self, table: Table, *, after: int | None, upto: int) -> Iterator[tuple[Any, ...]]:
        """Give a table's rows after a place, up to another, and take them into its digest."""
        columns = [table.c.position, table.c.kind] if table is entry else list(table.columns)
        for part in self._parts(table, columns, after=after, upto=upto):
            self.take(table, part)
            yield from part

    def read_entries(self, *, upto: int) -> Iterator[tuple[Any, ...]]:
        """Give place, kind, previous hash, hash and body of the entries up to a place, and take them in as well."""
        columns = [entry.c[name] for name in ("position", "kind", "previous", "hash", "body")]
        for part in self._parts(entry, columns, after=None, upto=upto):
            self.take(entry, [row[:2] for row in part])
            yield from part

    def take(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
        """Take rows into a table's digest; where one part of them ends doesn't matter."""
        written = json.dumps(rows, separators=(",", ":"), ensure_ascii=True, default=str)
        self._hashes[table].update(written[1:-1].encode("ascii") + b",")

    def _parts(
        self, table: Table, columns: list[Any], *, after: int | None, upto: int
    ) -> Iterator[list[tuple[Any, ...]]]:
        query = select(*(as_stored(column) for column in columns)).where(table.c.position <= upto)
        if after is not None:
            query = query.where(table.c.position > after)
        ordered = query.order_by(table.c.position, *table.primary_key)
        for part in self._connection.execute(ordered, execution_options=STREAMED).partitions():
            yield [tuple(row) for row in part]


def _earlier(connection: Connection, reached: Reached, rows: RowDigests) -> tuple[tuple[Finding, ...], Earlier | None]:
    """The ledger up to a head, as its chain and its rows give it, where they are those that were verified."""
    head = reached.head
    try:
        if ledger_id_of(connection) != head.ledger_id:
            raise InputRefused(
                "the kept verification is of another ledger.",
                where="--resume",
                remedy="Name this ledger's own, or a file that isn't there yet: then everything is verified.",
            )
    except ReleaseFailed:
        what = "the ledger's first entry is damaged, so that no kept verification can be known to be its own"
        return (Finding(position=None, what=what),), None
    before = _Before(rows)
    findings = list(check_links(before.links(head.position)))
    if before.last.position < head.position:
        what = (
            f"the ledger ends at entry {before.last.position}, and entry {head.position} was verified: it was cut "
            "back, or an older copy was restored"
        )
        findings.append(Finding(position=None, what=what))
    elif before.last.hash != head.hash:
        what = "the entry is not the one that was verified: the chain was written anew"
        findings.append(Finding(position=head.position, what=what))
    if not findings:
        before.read_rows(head.position)
        findings = [
            Finding(
                position=None,
                what=f"the rows of the table {name} up to entry {head.position} are not those that were verified",
            )
            for name, digest in rows.digests.items()
            if digest != reached.tables[name]
        ]
    if findings:
        return tuple(findings), None
    before.finish()
    place = Place(position=head.position, hash=head.hash)
    return (), Earlier(place=place, root=reached.root, replay=before.replay, counts=before.counts())


class _Before:
    """What the rules need to know of entries that were verified, without applying the rules to them again."""

    def __init__(self, rows: RowDigests) -> None:
        self.replay = Replay()
        self.last = Place(position=-1, hash="")
        self._rows = rows
        self._of_kind: Counter[str] = Counter()
        self._in_table: Counter[str] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._refunded: list[str] = []
        self._accounts: dict[object, Row] = {}
        self._payments: dict[tuple[object, ...], Payment] = {}

    def links(self, upto: int) -> Iterator[Link]:
        """The entries up to a place; each is taken over as it is given."""
        for position, kind, previous, own, body in self._rows.read_entries(upto=upto):
            shown = body if isinstance(body, str) else ""
            self._of_kind[str(kind)] += 1
            with suppress(*MALFORMED):  # then it isn't the entry that was verified, which its hash tells
                self._take(shown)
            self.last = Place(position=position, hash=str(own))
            yield Link(position=position, previous=str(previous), hash=str(own), body=shown.encode("utf-8"))

    def _take(self, body: str) -> None:
        document = json.loads(body)
        kind = document["kind"]
        if kind.startswith("release-charged/"):
            self.replay.pay(document["release_id"], self._payment(body, document))
        elif not kind.startswith("release-"):
            self.replay.know(entry_of_bytes(body.encode("ascii")))

    def _payment(self, body: str, document: Mapping[str, Any]) -> Payment:
        """How a charge was paid for; read once where many were paid for alike."""
        series, taken = document["series"], document.get("filter_charge") or {}
        alike = (
            document["dataset"],
            None if series is None else series["name"],
            *(tuple(part.items()) for part in (document["mechanism"], document["price"], taken)),
        )
        if alike not in self._payments:
            charge = entry_of_bytes(body.encode("ascii"))  # refused where its class isn't that of its kind
            self._payments[alike] = Payment.by(cast("ReleaseCharged", charge))
        return self._payments[alike]

    def read_rows(self, upto: int) -> None:
        """Read the rows up to a place: they follow from the entries, as was verified."""
        for table in DERIVED_TABLES:
            names = [column.name for column in table.columns]
            for cells in self._rows.read(table, after=None, upto=upto):
                self._in_table[table.name] += 1
                if table in (account, release_stage, sample, series_release):
                    row = Row(table=table, values=dict(zip(names, cells, strict=True)))
                    if table is account:
                        self._accounts[row.values["dataset"]] = row  # the latest is the one that counts
                        continue
                    with suppress(*MALFORMED):  # then it isn't the row that was verified, which the digest tells
                        self.replay.take(row)
                    if table is release_stage:
                        self._outcomes[str(row.values["outcome"])] += 1
                        if row.values["outcome"] == "refunded":
                            self._refunded.append(str(row.values["release_id"]))

    def finish(self) -> None:
        """Take over what is known of the rows to be those that were verified."""
        for row in self._accounts.values():
            self.replay.take(row)
        for release_id in self._refunded:
            self.replay.give_back(release_id)

    def counts(self) -> Mapping[tuple[Count, str], int]:
        """The counts of the state that followed from the entries."""
        counts: Counter[tuple[Count, str]] = Counter()
        counts.update({("entries", name): number for name, number in self._of_kind.items()})
        counts.update({("rows", name): number for name, number in self._in_table.items()})
        counts.update({("outcome", name): number for name, number in self._outcomes.items()})
        paid = self.replay.payments
        for payment, number in Counter(paid.values()).items():
            counts.update(standing(payment, number))
        for payment, number in Counter(paid[release_id] for release_id in self._refunded).items():
            counts.update(standing(payment, -number))
        return counts
