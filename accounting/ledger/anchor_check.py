"""A ledger held against its anchor: truncation, rollback, and a chain that was written anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection, select

from ...mechanisms.kernel.errors import InputRefused, Refusal, ReleaseFailed
from ..given_files import open_given
from ..kernel.keys.signing import PublicKey
from ..kernel.ledger.database import STREAMED, Store, entry
from ..kernel.ledger.entries import Head
from ..kernel.ledger.snapshot import require_continued
from ..kernel.ledger.transactions import Look, head_in, last_place, stored_state, stored_statement
from ..keys.anchor import LONGEST_LINE, Anchoring, head_of_line
from .database_schema import typed
from .opening import ledger_id_of


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchorCheck:
    """What an anchor says of a ledger.

    Args:
        findings: what does not hold, one sentence each; empty where the ledger continues its anchor.
        unchecked: what it can't show, one sentence each.
    """

    findings: tuple[str, ...]
    unchecked: tuple[str, ...]


@dataclass(kw_only=True, slots=True)
class _Comparison:
    """What the lines read so far say of the chain.

    Args:
        damaged: findings about single lines.
        unchecked: what can't be shown.
        keys: that signed a line.
        last: the highest position of a line whose signature holds, -1 before the first.
        last_key: that signed this line.
        others: lines of another ledger.
        lost: the highest position that the ledger lacks, -1 where it lacks none.
        changed: positions whose entries are other ones.
    """

    damaged: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    keys: set[PublicKey] = field(default_factory=set)
    last: int = -1
    last_key: PublicKey | None = None
    others: int = 0
    lost: int = -1
    changed: list[int] = field(default_factory=list)

    def heads(self, file: BinaryIO, length: int) -> Iterator[Head]:
        """Give each head whose line can be relied on, in the order of rising positions."""
        number = 0
        while file.tell() < length and (line := file.readline(LONGEST_LINE)):
            number += 1
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                self.unchecked.append("the anchor's last line: it is incomplete, as a crash leaves it.")
                return
            try:
                anchored = head_of_line(line)
            except ValueError as error:
                self.damaged.append(f"line {number} of the anchor can't be relied on: {error}")
                continue
            if anchored.head.position <= self.last:
                self.damaged.append(f"line {number} of the anchor goes back to entry {anchored.head.position}")
                continue
            self.last = anchored.head.position
            self.keys.add(anchored.key)
            self.last_key = anchored.key
            yield anchored.head

    def compare(self, connection: Connection, heads: Iterator[Head]) -> None:
        """Hold the chain against anchored heads; both are read once, in step."""
        ledger_id = None
        try:
            ledger_id = ledger_id_of(connection)
        except ReleaseFailed:
            self.damaged.append("the ledger's first entry is damaged, so that no anchor can be known to be its own")
        stored = select(typed(entry.c.position), typed(entry.c.hash)).order_by(entry.c.position)
        with connection.execute(stored, execution_options=STREAMED) as links:
            link = links.fetchone()
            for head in heads:
                if head.ledger_id != ledger_id:
                    self.others += 1
                    continue
                while link is not None and link.position < head.position:
                    link = links.fetchone()
                if link is None or link.position != head.position:
                    self.lost = head.position
                elif link.hash != head.hash:
                    self.changed.append(head.position)

    def differences(self, end: int) -> Iterator[str]:
        """Give what differs, one sentence each, in a ledger that ends at an entry."""
        if self.others:
            yield f"{self.others} lines of the anchor are of another ledger"
        if self.lost >= 0:
            yield (
                f"the anchor vouches for entry {self.lost}, and the ledger ends at entry {end}: it was cut back, "
                "or an older copy was restored"
            )
        if self.changed:
            yield (
                f"entry {self.changed[0]} is not the one that the anchor vouches for, nor are "
                f"{len(self.changed) - 1} other anchored entries: the chain was written anew"
            )


def check_anchor(
    path: Path,
    *,
    connect: Callable[[], AbstractContextManager[Connection]],
    trusted: tuple[PublicKey, ...],
) -> AnchorCheck:
    """Hold a ledger against an anchor.

    Args:
        path: the anchor's file, or a copy of it.
        connect: gives a connection in a reading transaction.
        trusted: public keys that may have signed it, the one that signs now first; where there are none, it isn't
            checked whose they are.

    Raises:
        InputRefused: the anchor can't be read.
    """
    found = _Comparison()
    try:
        with open_given(path) as file:
            # INVARIANT: how long the anchor is, is looked up before the ledger is, and no more is read of it: what was
            # anchored then must be in the ledger.
            length = os.fstat(file.fileno()).st_size
            with connect() as connection:
                found.compare(connection, found.heads(file, length))
                end = last_place(connection).position
                signer = _signer(connection)
    except OSError as error:
        raise InputRefused(f"the anchor can't be read ({error.strerror}).", where=str(path)) from None
    findings = list(found.damaged)
    if found.last < 0:
        findings.append("the anchor vouches for nothing: it has no head whose signature holds")
    unchecked = ["an anchor that was cut back together with the ledger: keep a copy where the ledger's writers can't."]
    keys = sorted(found.keys, key=lambda key: key.key_id)
    if not trusted:
        unchecked.append(f"whose the anchor's keys are ({', '.join(key.key_id for key in keys)}).")
    findings += [
        f"{what} signed by the key {key.key_id}, which is none of those that are trusted"
        for what, key in [*(("the anchor has lines", key) for key in keys), ("the last entry is", signer)]
        if trusted and key is not None and key not in trusted
    ]
    if trusted and signer in trusted and signer not in (found.last_key, trusted[0]):
        findings.append(f"the last entry is signed by the key {signer.key_id}, which was replaced before that")
    findings += found.differences(end)
    if end > found.last:
        found.unchecked.append(f"the entries after entry {found.last}: they are not anchored yet.")
    return AnchorCheck(findings=tuple(findings), unchecked=(*unchecked, *found.unchecked))


def _signer(connection: Connection) -> PublicKey | None:
    """Whose signature holds over the ledger's head; None where none does, which the ledger's own verification finds."""
    try:
        return stored_statement(connection).key
    except Refusal:
        return None


@contextmanager
def looking_anchored(store: Store, anchoring: Anchoring) -> Iterator[Look]:
    """Open one transaction to look things up in, of a ledger that continues its anchor and has a head of our own.

    Raises:
        AccountantRefused: it is behind its anchor, others signed it, or the anchor is missing or damaged.
        InputRefused: the anchor can't be read.
        ReleaseFailed: the database fails.
    """
    with store.reading() as connection:
        last = anchoring.last_of(ledger_id_of(connection))
    with store.reading() as connection:
        state, signer = stored_state(connection)
        require_continued(connection, head_in(state), signer, anchoring, last)
        yield Look(connection=connection, state=state)
