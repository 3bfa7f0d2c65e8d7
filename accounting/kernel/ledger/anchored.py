"""What a ledger must continue: the last head that was copied out of its database, by a key of our own.

An anchor keeps the copies, outside of the kernel. One that lies can hide heads, and so that a ledger was set back
behind them; nothing else that it says lets a ledger pass which doesn't hold what it held.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, select

from ....mechanisms.kernel.errors import AccountantRefused
from ..keys.signing import PublicKey, SigningKey, SigningKeys
from .database import entry
from .entries import Head

NOTHING_WRITTEN = "Nothing was written, and no key was destroyed."
RESTORE = "Restore the ledger's newest copy; `crowdblend ledger verify --anchor FILE` tells what differs."
BEGIN = (
    "If the ledger's private store is another one, name that in CROWDBLEND_HOME: where neither it nor HOME is set, "
    "another folder is looked at. Else bring the anchor back, or begin a new one at the ledger's present head with "
    "`crowdblend ledger anchor`."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchoredHead:
    """A head whose signature holds for the key that stands beside it; whose key that is, isn't said here."""

    head: Head
    key: PublicKey


class Anchor(Protocol):
    """Who signs the heads of ledgers, and where they are copied to."""

    @property
    def home(self) -> Path:
        """The private store, with the signing keys."""

    @property
    def keys(self) -> SigningKeys:
        """The keys that sign."""

    def where(self, ledger_id: str) -> str:
        """Return where a ledger's anchor is, for messages."""

    def last_of(self, ledger_id: str) -> AnchoredHead | None:
        """Return the last head that was anchored of a ledger; None where none was."""

    def record(self, head: Head, key: SigningKey, *, written: bool) -> None:
        """Anchor a head whose entry is committed, just now if it is `written`, durably."""


def require_continued(
    connection: Connection, head: Head, signer: PublicKey, anchor: Anchor, last: AnchoredHead | None
) -> None:
    """Refuse a ledger that is behind its anchor, or whose head isn't signed by a key of the private store.

    INVARIANT: a head is anchored after its commit, so whoever reads the anchor before the transaction sees the
    ledger's state, or while no other writer can commit, must find the head there.

    Args:
        connection: a connection in a transaction.
        head: where the chain ends in it.
        signer: of that head.
        anchor: of the ledger.
        last: the anchor's last head, read as the invariant says.

    Raises:
        AccountantRefused: it is behind, or another chain, or its anchor is missing; or somebody else signed its head. A
            ledger that has its first entry alone may be anybody's, and have no anchor: nothing was spent by it.
    """
    end, where = head.position, anchor.where(head.ledger_id)
    if last is None and end > 0:
        raise anchor_refusal("this ledger's anchor is missing.", where, BEGIN, cause="anchor-missing")
    if last is not None:
        position = last.head.position
        found = connection.execute(select(entry.c.hash).where(entry.c.position == position)).scalar()
        if found is None:
            what = (
                f"the ledger ends at entry {end}, and its anchor vouches for entry {position}: what came after entry "
                f"{end} was lost, such as by the restoring of an older copy."
            )
            raise anchor_refusal(what, where, RESTORE)
        if found != last.head.hash:
            what = f"entry {position} is not the one that the anchor vouches for: the chain was written anew."
            raise anchor_refusal(what, where, RESTORE)
    if end > 0 and signer not in anchor.keys.public_keys():
        remedy = (
            "Name the private store that has it in CROWDBLEND_HOME. Where it is lost, run `crowdblend ledger verify`, "
            "then begin a new anchor with `crowdblend ledger anchor`."
        )
        what = f"the last entry, {end}, is signed by the key {signer.key_id}, which isn't of this private store."
        raise anchor_refusal(what, str(anchor.home), remedy)


def anchor_refusal(what: str, where: str, remedy: str, *, cause: str = "") -> AccountantRefused:
    """Return the refusal of a ledger, or of its anchor, before anything was written."""
    return AccountantRefused(what, where=where, not_done=NOTHING_WRITTEN, remedy=remedy, cause=cause)
