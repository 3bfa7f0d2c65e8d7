"""The verification of a ledger from inside: one pass that hashes the chain, folds it with its rules, and compares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain

from sqlalchemy import Connection, select

from ...mechanisms.kernel.errors import Refusal
from ..kernel.keys.signing import canonical_bytes
from ..kernel.ledger.database import snapshot
from ..kernel.ledger.entries import GENESIS, entry_of_bytes, link_hash
from ..kernel.ledger.ledger_state import LedgerState
from ..kernel.ledger.rules import violations
from ..kernel.ledger.snapshot import bytes_of_state, excerpt_of
from ..kernel.ledger.transactions import ENTRY_COLUMNS, columns_of, stored_rows, stored_state, stored_statement
from .database_schema import schema_differences


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Something that does not hold in a ledger.

    Args:
        position: the entry that it concerns, None where it concerns no single entry.
        what: the fault in one sentence.
    """

    position: int | None
    what: str

    def __str__(self) -> str:
        """Return the finding as one line."""
        return self.what if self.position is None else f"entry {self.position}: {self.what}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One entry as stored.

    Args:
        position: its place, from 0.
        previous: hash of the entry before it, 64 hexadecimal digits; `GENESIS` for the first.
        hash: its own hash.
        body: its canonical bytes.
    """

    position: int
    previous: str
    hash: str
    body: bytes


def check_links(links: Iterable[Link], *, position: int = 0, previous: str = GENESIS) -> Iterator[Finding]:
    """Check places, previous hashes and own hashes of entries in the order of their places.

    What was cut off at the end can't be seen here: it needs a copy of the head kept elsewhere. One fault is one
    finding: what follows after it is held against the link as it is stored, and as it should be.

    Args:
        links: the entries.
        position: place of the first.
        previous: hash of the entry before it.
    """
    expected_position, expected_previous = position, {previous}
    for link in links:
        own = own_hash(link)
        if link.position != expected_position:
            yield Finding(
                position=link.position,
                what=f"entry {expected_position} is missing: the next entry has position {link.position}",
            )
        elif link.previous not in expected_previous:
            yield Finding(position=link.position, what="the entry does not continue the chain before it")
        elif own != link.hash:
            yield Finding(position=link.position, what="the entry's content differs from its hash")
        expected_position, expected_previous = link.position + 1, {link.hash, own or link.hash}


def own_hash(link: Link) -> str | None:
    """Return the hash that the link should have, None where its previous hash or place has no valid form."""
    try:
        return link_hash(previous=link.previous, position=link.position, body=link.body)
    except (ValueError, OverflowError):
        return None


class Fold:
    """The fold of stored entries with their rules, for as long as the chain is whole.

    Past the first entry that isn't the one that was written, nothing is known to follow from what comes before: the
    chain is checked on to its end, and the rules are not applied any more.

    Args:
        state: after the last entry that was folded.
        findings: what does not hold.
        broken: the place of the entry at which the fold ended, None while it goes on.
    """

    def __init__(self) -> None:
        self.state = LedgerState()
        self.findings: list[Finding] = []
        self.broken: int | None = None

    @classmethod
    def of(cls, connection: Connection, columns: tuple[str, ...] = ENTRY_COLUMNS) -> Fold:
        """Return the fold of all entries, of which the table has these columns."""
        fold = cls()
        fold.findings[:0] = check_links(fold.links(connection, columns))
        if fold.broken is not None:
            what = "prices and rules of this entry and those after it can't be checked, since the chain is broken here"
            fold.findings.append(Finding(position=fold.broken, what=what))
        elif fold.state.head.position < 0:
            fold.findings.append(Finding(position=None, what="the ledger has no entry"))
        return fold

    def links(self, connection: Connection, columns: tuple[str, ...]) -> Iterator[Link]:
        """Give each stored entry as a link, and fold it; an earlier revision had no columns for what a charge takes."""
        for position, previous, own, stored, *taken in chain.from_iterable(stored_rows(connection, columns)):
            if type(position) is not int:
                self.findings.append(Finding(position=None, what="an entry has no whole number for its place"))
                self.broken = self.state.head.position + 1 if self.broken is None else self.broken
                continue
            body = _text(stored).encode("utf-8", "replace")
            link = Link(position=position, previous=_text(previous), hash=_text(own), body=body)
            if self.broken is None:
                head = self.state.head
                # Behind a broken link nothing is known to follow from what was signed, so rules and prices are not
                # applied there.
                if (position, link.previous, own_hash(link)) == (head.position + 1, head.hash, link.hash):
                    self.findings.extend(Finding(position=position, what=what) for what in self._faults(link, taken))
                else:
                    self.broken = position
            yield link

    def _faults(self, link: Link, taken: list[object]) -> Iterator[str]:
        try:
            recorded = entry_of_bytes(link.body)
        except ValueError as error:
            self.broken = link.position
            yield f"the entry can't be read: {error}"
            return
        if taken and tuple(taken) != columns_of(recorded):
            yield "what it takes for itself alone differs from what its columns say"
        faults = [violation.fault for violation in violations(recorded, self.state)]
        # The entry is folded in spite of its faults, so that one wrong entry doesn't make all later ones look wrong.
        yield from faults
        try:
            self.state.apply(recorded, link.hash)
        except ValueError as error:
            if not faults:
                yield f"{error}"


def _text(stored: object) -> str:
    return stored if isinstance(stored, str) else ""


def verify_ledger(connection: Connection) -> tuple[Finding, ...]:
    """Check everything that can be checked from inside a ledger, and return what does not hold, by its place.

    Entries are read once; what is kept in memory is the state, which grows with releases.
    """
    fold = Fold.of(connection)
    findings = list(fold.findings)
    if not findings:  # else the state can only be another one
        findings.extend(Finding(position=None, what=what) for what in _snapshot_faults(connection, fold.state))
    findings.extend(Finding(position=None, what=what) for what in schema_differences(connection))
    return tuple(sorted(findings, key=lambda finding: (finding.position is None, finding.position or 0)))


def _snapshot_faults(connection: Connection, state: LedgerState) -> Iterator[str]:
    content = bytes_of_state(state).decode("ascii")
    stated = {"ledger_id": state.ledger_id, "state": sha256(content.encode("ascii")).hexdigest()}
    try:
        fields = stored_statement(connection).fields
        # Texts are compared: to read the stored one would take as much memory once more as the folded state does.
        if connection.execute(select(snapshot.c.state)).scalar() != content or not stated.items() <= fields.items():
            stored_state(connection)  # says what is wrong with it where that is more than its content
            yield "the signed snapshot of the state is not what follows from the entries"
            return
    except Refusal as refusal:
        yield refusal.what
        return
    excerpt = fields.get("excerpt")  # which earlier versions didn't sign, and small ledgers don't have
    if excerpt is not None and canonical_bytes(excerpt) != canonical_bytes(excerpt_of(state)):
        yield "the signed excerpt of the state is not what follows from the entries"
