"""What is proved of a ledger, or held against it, follows from all its entries; what can't be read or kept is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey
from crowdblend.accounting.ledger.checkpoint import (
    PLAIN,
    MerkleTree,
    NoteKey,
    checkpoint_text,
    note,
    origin_of,
    read_checkpoint,
    read_policy,
)
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.accounting.ledger.witnessed import check_witnessed, prove_entry, prove_since, witness_head
from crowdblend.mechanisms.kernel.errors import InputRefused, ReleaseFailed
from sqlalchemy import text

KEY = SigningKey(seed=b"\x07" * 32)
NOBODY = read_policy(b"quorum none\n")


@pytest.fixture
def grown(sqlite_books) -> Any:
    """A ledger of three entries."""
    sqlite_books.add("first")
    sqlite_books.add("second")
    return sqlite_books


def leaves(books: Any) -> list[bytes]:
    rows = books.raw(lambda connection: connection.execute(text("SELECT hash FROM entry ORDER BY position")).all())
    return [bytes.fromhex(row.hash) for row in rows]


def kept(path: Path, books: Any, size: int, *, of: str | None = None) -> Path:
    """A checkpoint of a ledger's first entries, as the ledger is now or of another one."""
    with books.reader() as reader:
        origin = origin_of(of or reader.ledger_id)
    own = NoteKey(name=origin, kind=PLAIN, public=KEY.public)
    written = checkpoint_text(origin=origin, size=size, root=MerkleTree(leaves(books)).root(size))
    path.write_bytes(note(written, [own.sign(written, KEY)]))
    return path


def findings(books: Any, head: Path) -> tuple[str, ...]:
    store = open_store(books.url, read_only=True)
    try:
        return check_witnessed(head, connect=store.reading, policy=NOBODY, trusted=(KEY.public,)).findings
    finally:
        store.close()


def test_a_checkpoint_that_the_witnessed_head_does_not_continue_gets_no_proof(grown, tmp_path) -> None:
    one, two, three = (kept(tmp_path / f"{size}", grown, size) for size in (1, 2, 3))
    assert prove_since(grown.url, since=one, head=two)
    with pytest.raises(
        InputRefused, match=r"/3: this checkpoint is of 3 entries, and the last witnessed one of 2"
    ) as no:
        prove_since(grown.url, since=three, head=two)
    assert "Have the present head witnessed first: `crowdblend ledger anchor`" in no.value.remedy
    other = kept(tmp_path / "other", grown, 1, of="ab" * 32)
    with pytest.raises(InputRefused, match=r"/other: this checkpoint is of another ledger"):
        prove_since(grown.url, since=other, head=two)


DAMAGE = {
    "gone": "DELETE FROM entry WHERE position = 1",
    "no ASCII": "UPDATE entry SET body = body || 'é' WHERE position = 1",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_ledger_with_a_damaged_entry_proves_nothing_and_is_no_longer_witnessed(
    grown, tmp_path, forge_past_guards, damage
) -> None:
    head = kept(tmp_path / "head", grown, 3)
    assert findings(grown, head) == ()
    forge_past_guards(grown, DAMAGE[damage])
    for attempt in (
        lambda: prove_since(grown.url, since=head, head=head),
        lambda: prove_entry(grown.url, position=2, head=head),
    ):
        with pytest.raises(ReleaseFailed, match=r"entry 1 is missing or damaged.*crowdblend ledger verify"):
            attempt()
    [found] = findings(grown, head)
    assert found.startswith("the ledger can't be held against what was witnessed: entry 1 is missing or damaged")


def test_a_checkpoint_that_can_not_be_read_is_told(grown, tmp_path) -> None:
    head = tmp_path / "head"
    head.mkdir()
    with pytest.raises(InputRefused, match=r"/head: the checkpoint can't be read \(Is a directory\)"):
        prove_entry(grown.url, position=0, head=head)
    assert findings(grown, head) == ("the checkpoint can't be read (Is a directory).",)


def test_a_witnessed_checkpoint_that_can_not_be_kept_is_told(grown, tmp_path) -> None:
    """Of a policy that asks nobody."""
    policy, place = tmp_path / "policy", tmp_path / "none" / "checkpoint"
    policy.write_bytes(b"quorum none\n")
    with pytest.raises(ReleaseFailed, match=r"checkpoint can't be written \(No such file or directory\)") as failed:
        witness_head(grown.url, anchoring=grown.anchoring, policy_file=policy, checkpoint=place)
    assert failed.value.where == str(place)
    place.parent.mkdir()
    assert witness_head(grown.url, anchoring=grown.anchoring, policy_file=policy, checkpoint=place).size == 3
    assert read_checkpoint(place.read_bytes()).size == 3
