"""The verification of a ledger against its anchor: what the chain itself can't show."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection, select

from ....mechanisms.errors import InputRefused, Refusal, ReleaseFailed
from ..database.schema import entry
from ..database.store import present_head
from ..private_store.signing import PublicKey
from ..queries import ledger_id_of
from ..rules.audit import STREAMED
from .anchor import LONGEST_LINE, ClaimedHead, claim_of_line
from .signed_state import head_of, signer_of

__all__ = ["AnchorCheck", "check_anchor"]


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
    """

    damaged: list[str] = field(default_factory=list)
    unsound: set[int] = field(default_factory=set)
    latest: dict[PublicKey, tuple[int, ClaimedHead]] = field(default_factory=dict)
    others: int = 0
    lost: int = -1
    changed: int | None = None
    changes: int = 0


def check_anchor(
    path: Path, *, connect: Callable[[], AbstractContextManager[Connection]], trusted: tuple[PublicKey, ...]
) -> AnchorCheck:
    """Hold a ledger against an anchor; both are read once, in step, and little of them is kept in memory.

    A head's hash binds all entries before it. So a signature is checked where something depends on it: on the latest
    line of each key, and on each line that the chain contradicts. A line that agrees with the chain says nothing that
    the latest one does not.

    Args:
        path: the anchor's file, or a copy of it.
        connect: gives a connection in a reading transaction.
        trusted: public keys that may have signed it; where there are none, it isn't checked whose they are.

    Raises:
        InputRefused: the anchor can't be read.
    """
    unchecked = ["an anchor that was cut back together with the ledger: keep a copy where the ledger's writers can't."]
    differences = _Differences()
    try:
        with path.open("rb") as file:
            # INVARIANT: how long the anchor is, is looked up before the ledger is, and no more is read of it: what was
            # anchored then must be in the ledger.
            length = os.fstat(file.fileno()).st_size
            with connect() as connection:
                _compare(connection, _claims(file, length, differences, unchecked), differences)
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
    return AnchorCheck(findings=tuple(findings), unchecked=tuple(unchecked))


def _signer(connection: Connection) -> PublicKey | None:
    """Whose signature holds over the ledger's head; None where none does, which the ledger's own verification finds."""
    try:
        return signer_of(connection, present_head(connection))
    except Refusal:
        return None


def _claims(
    file: BinaryIO, length: int, differences: _Differences, unchecked: list[str]
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
        yield number, claim


def _compare(connection: Connection, claims: Iterator[tuple[int, ClaimedHead]], differences: _Differences) -> None:
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
        while link is not None and link.position < head.position:
            link = links.fetchone()
        if link is not None and (link.position, link.hash) == (head.position, head.hash):
            continue
        if not _holds(number, claim, differences):
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
