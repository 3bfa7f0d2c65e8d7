"""The hash chain over entries: pure functions on bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .entry_values import require_digest

__all__ = ["GENESIS", "LINK_DOMAIN", "Finding", "Head", "Link", "check_links", "link_hash", "own_hash"]

LINK_DOMAIN = b"crowdblend ledger entry 1\n"
GENESIS = "0" * 64


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
        """The finding as one line."""
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


def link_hash(*, previous: str, position: int, body: bytes) -> str:
    """SHA-256 (hex) that binds an entry's bytes to its place and to all entries before it.

    The parts before the body have fixed lengths, so that no two different links share their input.

    Raises:
        ValueError: the previous hash is not 32 bytes in hexadecimal.
    """
    if len(bytes.fromhex(previous)) != 32:
        raise ValueError("a link's previous hash must have 32 bytes")
    return hashlib.sha256(LINK_DOMAIN + bytes.fromhex(previous) + position.to_bytes(8, "big") + body).hexdigest()


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
    """The hash that the link should have, None where its previous hash or place has no valid form."""
    try:
        return link_hash(previous=link.previous, position=link.position, body=link.body)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """Where a ledger's chain ended at some moment.

    Args:
        ledger_id: which ledger, 64 hexadecimal digits.
        position: place of the last entry, from 0.
        hash: its link's hash, which binds all entries before it.
    """

    ledger_id: str
    position: int
    hash: str

    def __post_init__(self) -> None:
        require_digest(self.ledger_id, "ledger's id")
        require_digest(self.hash, "head's hash")
        if type(self.position) is not int or self.position < 0:
            raise ValueError("a head's position is a whole number from 0")
