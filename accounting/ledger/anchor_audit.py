"""The verification of a ledger against its anchor: what the chain itself can't show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from ...mechanisms.refusal import InputRefused
from .anchor import LONGEST_LINE, SignedHead, head_of_line
from .append import head_of
from .queries import ledger_id_of
from .schema import entry
from .signing import PublicKey

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


def check_anchor(
    path: Path, *, connect: Callable[[], AbstractContextManager[Connection]], trusted: tuple[PublicKey, ...]
) -> AnchorCheck:
    """Hold a ledger against an anchor.

    Args:
        path: the anchor's file, or a copy of it.
        connect: gives a connection in a reading transaction; called after the anchor was read.
        trusted: public keys that may have signed it; where there are none, it isn't checked whose they are.

    Raises:
        InputRefused: the anchor can't be read.
    """
    findings: list[str] = []
    unchecked = ["an anchor that was cut back together with the ledger: keep a copy where the ledger's writers can't."]
    heads = dict(_heads(path, findings, unchecked))
    if not heads:
        findings.append("the anchor vouches for nothing: it has no head whose signature holds")
    signers = {signed.key for signed in heads.values()}
    if not trusted:
        unchecked.append(f"whose the anchor's keys are ({', '.join(sorted(key.key_id for key in signers))}).")
    findings += [
        f"the anchor has lines signed by the key {key.key_id}, which is none of those that are trusted"
        for key in sorted(signers, key=lambda key: key.key_id)
        if trusted and key not in trusted
    ]
    with connect() as connection:
        findings += _differences(connection, heads)
        end, last = head_of(connection).position, max((signed.head.position for signed in heads.values()), default=-1)
    if end > last:
        unchecked.append(f"the entries after entry {last}: they are not anchored yet.")
    return AnchorCheck(findings=tuple(findings), unchecked=tuple(unchecked))


def _heads(path: Path, findings: list[str], unchecked: list[str]) -> Iterator[tuple[int, SignedHead]]:
    """Each sound line's number and head; positions must rise."""
    before = -1
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE):
                number += 1
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE:
                    unchecked.append("the anchor's last line: it is incomplete, as a crash leaves it.")
                    return
                try:
                    signed = head_of_line(line)
                except ValueError as error:
                    findings.append(f"line {number} of the anchor can't be relied on: {error}")
                    continue
                if signed.head.position <= before:
                    findings.append(f"line {number} of the anchor goes back to entry {signed.head.position}")
                before = max(before, signed.head.position)
                yield number, signed
    except OSError as error:
        raise InputRefused(f"the anchor can't be read ({error.strerror}).", where=str(path)) from None


def _differences(connection: Connection, heads: dict[int, SignedHead]) -> Iterator[str]:
    ledger_id, end = ledger_id_of(connection), head_of(connection).position
    hashes: dict[int, str] = {
        row.position: row.hash for row in connection.execute(select(entry.c.position, entry.c.hash))
    }
    others = sum(signed.head.ledger_id != ledger_id for signed in heads.values())
    if others:
        yield f"{others} lines of the anchor are of another ledger"
    own = sorted(
        (signed.head.position, signed.head.hash) for signed in heads.values() if signed.head.ledger_id == ledger_id
    )
    lost = [position for position, _ in own if position not in hashes]
    if lost:
        yield (
            f"the anchor vouches for entry {max(lost)}, and the ledger ends at entry {end}: it was cut back, "
            "or an older copy was restored"
        )
    changed = [position for position, hash_then in own if hashes.get(position, hash_then) != hash_then]
    if changed:
        yield (
            f"entry {min(changed)} is not the one that the anchor vouches for, nor are {len(changed) - 1} other "
            "anchored entries: the chain was written anew"
        )
