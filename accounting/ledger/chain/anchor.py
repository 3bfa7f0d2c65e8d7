"""A copy of each head of a chain outside its database: a file of signed lines that only grows."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ..entries.values import require_digest
from ..private_store.draws import private_folder, sync_folder
from ..private_store.signing import PublicKey, SigningKey, Statement, read_statement, signed_statement

__all__ = ["AnchorFile", "ClaimedHead", "Head", "SignedHead", "claim_of_line", "head_of_line", "line_of_head"]

DOMAIN = b"crowdblend ledger anchor 1\n"
LONGEST_LINE = 4096  # bytes; a line of this version has fewer than 600
FIELDS = frozenset({"hash", "key_id", "ledger_id", "position", "public_key"})


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedHead:
    """A head whose signature holds for the key that stands beside it; whose key that is, isn't said here.

    Args:
        head: the head.
        key: the public key.
    """

    head: Head
    key: PublicKey


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimedHead:
    """A head as an anchor's line states it, its signature not checked yet.

    Args:
        head: the head.
        statement: the line.
    """

    head: Head
    statement: Statement

    @property
    def key(self) -> PublicKey:
        """The public key that the line names."""
        return self.statement.key

    @property
    def holds(self) -> bool:
        """Whether the signature is the key's over this head."""
        return self.statement.holds(domain=DOMAIN)


def line_of_head(head: Head, key: SigningKey) -> bytes:
    """The anchor's line for a head, with its newline."""
    return signed_statement(asdict(head), key, domain=DOMAIN) + b"\n"


def claim_of_line(line: bytes) -> ClaimedHead:
    """Read an anchor's line without checking its signature.

    Raises:
        ValueError: it has another form.
    """
    if not line.endswith(b"\n"):
        raise ValueError("the line has no end")
    statement = read_statement(line[:-1])
    fields = statement.fields
    if fields.keys() != FIELDS or not all(isinstance(fields[name], str) for name in FIELDS - {"position"}):
        raise ValueError("the line has another form than an anchor's")
    head = Head(ledger_id=fields["ledger_id"], position=fields["position"], hash=fields["hash"])
    return ClaimedHead(head=head, statement=statement)


def head_of_line(line: bytes) -> SignedHead:
    """Read an anchor's line back, and check its signature against the key that it names.

    Raises:
        ValueError: it has another form, or its signature doesn't hold.
    """
    claim = claim_of_line(line)
    if not claim.holds:
        raise ValueError("the signature doesn't hold")
    return SignedHead(head=claim.head, key=claim.key)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnchorFile:
    """An anchor's file: one line a head, positions rising. Appending and looking at its end cost the same always.

    Args:
        path: the file.
    """

    path: Path

    def last(self) -> SignedHead | None:
        """The last head; None where there is no file or no head in it.

        A line without its newline was never reported as written, and is passed over.

        Raises:
            ValueError: the last line is damaged.
            OSError: the file can't be read.
        """
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return _last(handle)[0]
        finally:
            os.close(handle)

    def append(self, head: Head, key: SigningKey) -> None:
        """Add a head, durable when this returns, unless it or a later one is there.

        Args:
            head: the head, of a chain that continues the last one here.
            key: signs it.

        Raises:
            ValueError: the last line is damaged, or of another ledger.
            OSError: the file can't be written.
        """
        with self._locked() as handle:
            last, whole = _last(handle)
            if last is not None and last.head.ledger_id != head.ledger_id:
                raise ValueError("the anchor is of another ledger")
            if last is not None and last.head.position >= head.position:
                return  # its hash binds this one
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
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        handle = os.open(self.path, flags, 0o600)
        try:
            if new:
                sync_folder(self.path.parent)
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)  # frees the lock


def _last(handle: int) -> tuple[SignedHead | None, int]:
    """The last head, and how many bytes of the file are whole lines.

    Raises:
        ValueError: the last line is damaged.
    """
    size = os.fstat(handle).st_size
    start = max(0, size - 2 * LONGEST_LINE)
    end = os.pread(handle, size - start, start)
    whole = end.rfind(b"\n") + 1
    if whole == 0:
        if start:
            raise ValueError("the anchor's last line is too long")
        return None, 0
    before = end.rfind(b"\n", 0, whole - 1) + 1
    if before == 0 and start:
        raise ValueError("the anchor's last line is too long")
    return head_of_line(end[before:whole]), start + whole
