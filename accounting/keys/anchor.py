"""A copy of each head of a chain outside its database: a file of signed lines that only grows."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ..given_files import open_given
from ..kernel.keys.private_files import private_folder, sync_folder
from ..kernel.keys.signing import SigningKey, SigningKeys, read_statement, signed_statement
from ..kernel.ledger.entries import Head
from ..kernel.ledger.snapshot import BEGIN, AnchoredHead, anchor_refusal


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
        """Return the anchor of a ledger, whether or not it is there."""
        return AnchorFile(path=self.file or self.home / "anchors" / f"{ledger_id}.jsonl")

    def last_of(self, ledger_id: str) -> AnchoredHead | None:
        """Return the last head that was anchored of a ledger; None where none was.

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
            raise anchor_refusal(
                f"the anchor's last line can't be relied on: {error}.", self.where(ledger_id), BEGIN
            ) from None
        if last is None:
            return None
        if last.head.ledger_id != ledger_id:
            remedy = "Name its own in CROWDBLEND_ANCHOR."
            raise anchor_refusal("this is the anchor of another ledger.", self.where(ledger_id), remedy)
        if last.key not in self.keys.public_keys():
            what = f"the anchor's last line is signed by the key {last.key.key_id}, which isn't of this private store."
            raise anchor_refusal(what, self.where(ledger_id), "Name the private store that has it in CROWDBLEND_HOME.")
        return last

    def where(self, ledger_id: str) -> str:
        """Return where a ledger's anchor is, for messages."""
        return str(self.anchor_of(ledger_id).path)

    def record(self, head: Head, key: SigningKey, *, written: bool) -> None:
        """Anchor a head whose entry is committed; nothing happens where it or a later one is anchored.

        Args:
            head: the head.
            key: signs it.
            written: whether its entry was committed just now, and not by an earlier write that was cut off.

        Raises:
            ReleaseFailed: the anchor can't be written; the next write to the ledger makes up for it.
        """
        anchor = self.anchor_of(head.ledger_id)
        try:
            anchor.append(head, key)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            what = "the ledger is written, but its anchor is not" if written else "the ledger's anchor can't be written"
            raise ReleaseFailed(
                f"{what} ({why}).",
                where=str(anchor.path),
                not_done="",
                remedy="See to the file and do the same again: what is in the ledger isn't written twice.",
            ) from None


DOMAIN = b"crowdblend ledger anchor 1\n"
LONGEST_LINE = 4096  # bytes; a line of this version has fewer than 600
FIELDS = frozenset({"hash", "key_id", "ledger_id", "position", "public_key"})


def line_of_head(head: Head, key: SigningKey) -> bytes:
    """Return the anchor's line for a head, with its newline."""
    return signed_statement(asdict(head), key, domain=DOMAIN) + b"\n"


def head_of_line(line: bytes) -> AnchoredHead:
    """Read an anchor's line, and refuse (ValueError) one whose signature doesn't hold for the key that it names."""
    if not line.endswith(b"\n"):
        raise ValueError("the line has no end")
    statement = read_statement(line[:-1])
    fields = statement.fields
    if fields.keys() != FIELDS or not all(isinstance(fields[name], str) for name in FIELDS - {"position"}):
        raise ValueError("the line has another form than an anchor's")
    head = Head(ledger_id=fields["ledger_id"], position=fields["position"], hash=fields["hash"])
    if not statement.holds(domain=DOMAIN):
        raise ValueError("the signature doesn't hold")
    return AnchoredHead(head=head, key=statement.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchorFile:
    """An anchor's file: one line a head, positions rising. Appending and looking at its end cost the same always.

    Args:
        path: the file.
    """

    path: Path

    def last(self) -> AnchoredHead | None:
        """Return the last head; None where there is no file or no head in it.

        A line without its newline was never reported as written, and is passed over.

        Raises:
            ValueError: the last line is damaged.
            OSError: the file can't be read.
        """
        try:
            with open_given(self.path) as file:
                return _last(file.fileno())[0]
        except FileNotFoundError:
            return None

    def append(self, head: Head, key: SigningKey) -> None:
        """Add a head of a chain that continues the last one here, durable when this returns, unless it is there.

        Raises:
            ValueError: the last line is damaged, or of another ledger.
            OSError: the file can't be written.
        """
        with self._locked() as handle:
            last, whole = _last(handle)
            if last is not None and last.head.ledger_id != head.ledger_id:
                raise ValueError("the anchor is of another ledger")
            if last is not None and last.head.position >= head.position:
                # Two processes may write the ledger one after the other and come here in the other order. Entries are
                # chained, so the later head already vouches for this one.
                return  # its hash binds this one
            # A line is trusted only once its newline is on the disk. What a crash left of one has to go, or the new
            # line would be appended to it and both would be unreadable.
            os.ftruncate(handle, whole)  # what a crash left of a line
            line = line_of_head(head, key)
            written = 0
            while written < len(line):
                written += os.write(handle, line[written:])
            os.fsync(handle)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        private_folder(self.path.parent)
        new = not self.path.exists()
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            # The new file's name is in the folder's own data: without this, a power cut could leave the ledger with an
            # entry and no anchor at all.
            if new:
                sync_folder(self.path.parent)
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)  # frees the lock


def _last(handle: int) -> tuple[AnchoredHead | None, int]:
    """Return the last head, and how many bytes of the file are whole lines; ValueError for a damaged last line."""
    # Only the end is read: an anchor grows with the ledger for years, and each write to the ledger comes through here.
    # Two of the longest lines are certain to hold the last whole one and the newline before it.
    size = os.fstat(handle).st_size
    start = max(0, size - 2 * LONGEST_LINE)
    end = os.pread(handle, size - start, start)
    whole = end.rfind(b"\n") + 1
    before = end.rfind(b"\n", 0, max(0, whole - 1)) + 1
    if before == 0 and start:
        raise ValueError("the anchor's last line is too long")
    return head_of_line(end[before:whole]) if whole else None, start + whole
