"""A ledger held against its anchor before each write, and its head anchored after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from ....mechanisms.errors import AccountantRefused, InputRefused, ReleaseFailed
from ..database.schema import entry
from ..private_store.signing import SigningKey, SigningKeys
from .anchor import AnchorFile, Head, SignedHead
from .append import head_of
from .signed_state import is_new, signer_of

__all__ = ["Anchoring"]

NOTHING_WRITTEN = "Nothing was written, and no key was destroyed."
RESTORE = "Restore the ledger's newest copy; `crowdblend ledger verify --anchor FILE` tells what differs."
BEGIN = "Bring the anchor back, or begin a new one at the ledger's present head with `crowdblend ledger anchor`."


@dataclass(frozen=True, kw_only=True, slots=True)
class Anchoring:
    """Who signs the heads of ledgers, and where they are copied to.

    Args:
        home: the private store, with the signing keys; the anchors lie in its folder `anchors`.
        file: the anchor, where it lies elsewhere.
    """

    home: Path
    file: Path | None

    @property
    def keys(self) -> SigningKeys:
        """The keys that sign."""
        return SigningKeys(home=self.home)

    def anchor_of(self, ledger_id: str) -> AnchorFile:
        """The anchor of a ledger, whether or not it is there."""
        return AnchorFile(path=self.file or self.home / "anchors" / f"{ledger_id}.jsonl")

    def last_of(self, ledger_id: str) -> SignedHead | None:
        """The last head that was anchored of a ledger; None where none was.

        Raises:
            AccountantRefused: the anchor is damaged, of another ledger, or signed by a key of somebody else.
            InputRefused: it can't be read.
        """
        anchor = self.anchor_of(ledger_id)
        try:
            last = anchor.last()
        except OSError as error:
            raise InputRefused(f"the anchor can't be read ({error.strerror}).", where=str(anchor.path)) from None
        except ValueError as error:
            raise self._refusal(f"the anchor's last line can't be relied on: {error}.", ledger_id, BEGIN) from None
        if last is None:
            return None
        if last.head.ledger_id != ledger_id:
            raise self._refusal(
                "this is the anchor of another ledger.", ledger_id, "Name its own in CROWDBLEND_ANCHOR."
            )
        if last.key not in self.keys.public_keys():
            raise self._refusal(
                f"the anchor's last line is signed by the key {last.key.key_id}, which isn't of this private store.",
                ledger_id,
                "Name the private store that has it in CROWDBLEND_HOME.",
            )
        return last

    def require_continued(self, connection: Connection, *, ledger_id: str, last: SignedHead | None) -> None:
        """Refuse a ledger that doesn't hold what its anchor says it held.

        INVARIANT: a head is anchored after its commit, so whoever reads the anchor before the transaction sees the
        ledger's state, or while no other writer can commit, must find the head there.

        Args:
            connection: a connection in a transaction.
            ledger_id: the ledger's id.
            last: what `last_of` gave.

        Raises:
            AccountantRefused: the ledger is behind its anchor, or another chain, or its anchor is missing.
        """
        if last is None:
            if head_of(connection).position > 0:
                raise self._refusal("this ledger's anchor is missing.", ledger_id, BEGIN)
            return
        position, expected = last.head.position, last.head.hash
        found = connection.execute(select(entry.c.hash).where(entry.c.position == position)).scalar()
        if found is None:
            end = head_of(connection).position
            raise self._refusal(
                f"the ledger ends at entry {end}, and its anchor vouches for entry {position}: what came after entry "
                f"{end} was lost, such as by the restoring of an older copy.",
                ledger_id,
                RESTORE,
            )
        if found != expected:
            raise self._refusal(
                f"entry {position} is not the one that the anchor vouches for: the chain was written anew.",
                ledger_id,
                RESTORE,
            )

    def require_signed(self, connection: Connection, head: Head) -> None:
        """Refuse a head that no writer with a key of this private store wrote, and tables that don't belong to it.

        Args:
            connection: a connection in a transaction.
            head: where the chain ends in it.

        Raises:
            AccountantRefused: the head and the state of the tables aren't signed together, or by a key of somebody
                else.
        """
        key = signer_of(connection, head)
        if key not in self.keys.public_keys() and not is_new(connection):
            raise AccountantRefused(
                f"the last entry, {head.position}, is signed by the key {key.key_id}, which isn't of this private "
                "store.",
                where=str(self.home),
                not_done=NOTHING_WRITTEN,
                remedy="Name the private store that has it in CROWDBLEND_HOME. Where it is lost, run "
                "`crowdblend ledger verify`, then begin a new anchor with `crowdblend ledger anchor`.",
            )

    def record(self, head: Head, key: SigningKey) -> None:
        """Anchor a head whose entry is committed; nothing happens where it or a later one is anchored.

        Raises:
            ReleaseFailed: the anchor can't be written; the next write to the ledger makes up for it.
        """
        anchor = self.anchor_of(head.ledger_id)
        try:
            anchor.append(head, key)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ReleaseFailed(
                f"the ledger is written, but its anchor is not ({why}).",
                where=str(anchor.path),
                not_done="",
                remedy="See to the file and do the same again: what is in the ledger isn't written twice.",
            ) from None

    def _refusal(self, what: str, ledger_id: str, remedy: str) -> AccountantRefused:
        where = str(self.anchor_of(ledger_id).path)
        return AccountantRefused(what, where=where, not_done=NOTHING_WRITTEN, remedy=remedy)
