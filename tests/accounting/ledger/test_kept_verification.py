"""What is kept of a verification is read back as it was, or refused."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from crowdblend.accounting.ledger.chain import check
from crowdblend.accounting.ledger.chain.anchor import head_of_line, line_of_head
from crowdblend.accounting.ledger.chain.check import KeptVerification, Reached, keep_verification, read_verification
from crowdblend.accounting.ledger.chain.hashing import Head
from crowdblend.accounting.ledger.database.schema import entry
from crowdblend.accounting.ledger.database.store import open_store
from crowdblend.accounting.ledger.file_access import replace_private
from crowdblend.accounting.ledger.private_store.signing import SigningKey, canonical_bytes
from crowdblend.mechanisms.errors import InputRefused, ReleaseFailed

KEY = SigningKey(seed=bytes(32))
HEAD = Head(ledger_id="1" * 64, position=3, hash="3" * 64)
REACHED = Reached(head=HEAD, root="5" * 64, tables={table.name: "7" * 64 for table in check.TABLES})
LINE = line_of_head(HEAD, KEY)


def test_what_is_kept_is_read_back(tmp_path) -> None:
    path = tmp_path / "kept.json"
    assert read_verification(path, trusted=()) is None
    keep_verification(path, REACHED, line=LINE, version="1")
    kept = read_verification(path, trusted=(KEY.public,))
    assert (kept.reached, kept.anchored.key, kept.version) == (REACHED, KEY.public, "1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"root": 5}, "a field is missing, or holds something else"),
        ({"root": "5" * 63}, "state's root"),
        ({"tables": {"entry": "7" * 64}}, "it names other tables"),
    ],
)
def test_a_field_of_another_form_is_refused_though_the_digest_fits(tmp_path, change, said) -> None:
    fields = {"format": check.KEPT, "anchored": LINE.decode().strip(), "root": REACHED.root, "version": "1"}
    fields |= {"tables": dict(REACHED.tables)} | change
    path = tmp_path / "kept.json"
    replace_private(path, canonical_bytes({**fields, "digest": check._digest_of(fields)}) + b"\n")
    with pytest.raises(InputRefused, match=said):
        read_verification(path, trusted=())


def test_where_there_is_no_file_to_be_read_or_written_that_is_said(tmp_path) -> None:
    with pytest.raises(InputRefused, match="can't be read"):
        read_verification(tmp_path, trusted=())
    with pytest.raises(ReleaseFailed, match="was verified, and that can't be kept"):
        keep_verification(tmp_path / "missing" / "kept.json", REACHED, line=LINE, version="1")


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_what_others_can_read_or_change_decides_nothing(tmp_path, mode) -> None:
    path = tmp_path / "kept.json"
    keep_verification(path, REACHED, line=LINE, version="1")
    os.chmod(path, mode)
    with pytest.raises(InputRefused, match="others than its owner"):
        read_verification(path, trusted=())
    os.chmod(path, 0o700)
    assert read_verification(path, trusted=()) is not None


def test_what_another_key_signed_or_what_was_changed_is_refused(tmp_path) -> None:
    path = tmp_path / "kept.json"
    keep_verification(path, REACHED, line=LINE, version="1")
    with pytest.raises(InputRefused, match=f"the key {KEY.public.key_id} signed, which is none"):
        read_verification(path, trusted=(SigningKey(seed=b"1" * 32).public,))
    sound = path.read_bytes()
    for content, said in (
        (sound.replace(b'"version":"1"', b'"version":"2"'), "differs from its digest"),
        (sound.replace(b"verification 1", b"verification 2"), "another form"),
        (sound[:-1], "another form"),
        (sound + b"\n", "another form"),
        (sound.replace(b'","', b'", "', 1), "another form"),
        (b"[]\n", "another form"),
        (b"[" * 10_000, "nested too deeply"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputRefused, match=f"this is no kept verification: .*{said}"):
            read_verification(path, trusted=())
    path.write_bytes(sound)
    assert read_verification(path, trusted=()).reached == REACHED


def test_what_is_longer_than_any_kept_verification_is_not_read_whole(tmp_path) -> None:
    for room, taken in ((1 << 14, True), ((1 << 14) + 1, False)):
        path = tmp_path / "kept.json"
        keep_verification(path, REACHED, line=LINE, version="1")
        version = "1" * (room - path.stat().st_size + 1)
        keep_verification(path, REACHED, line=LINE, version=version)
        assert path.stat().st_size == room
        if taken:
            assert read_verification(path, trusted=()).version == version
        else:
            with pytest.raises(InputRefused, match="no kept verification"):
                read_verification(path, trusted=())


def test_a_digest_of_rows_is_of_each_row_with_a_comma_wherever_they_were_divided() -> None:
    """What auditors have kept stays good: this is the form of the first version."""
    rows = [(0, "a"), (1, None), (2, "\u00e9")]
    whole, parts = check.RowDigests(None), check.RowDigests(None)
    whole.take(entry, rows)
    parts.take(entry, rows[:1])
    parts.take(entry, rows[1:])
    assert whole.digests == parts.digests
    written = "".join(json.dumps(row, separators=(",", ":")) + "," for row in rows)
    expected = hashlib.sha256(b"crowdblend ledger rows 1\nentry" + written.encode())
    assert whole.digests["entry"] == expected.hexdigest()
    assert len(set(check.RowDigests(None).digests.values())) == len(check.TABLES)


def test_digests_of_rows_can_be_continued_from_any_entry(sqlite_books) -> None:
    sqlite_books.add()
    sqlite_books.charge("one")
    sqlite_books.charge("two")
    store = open_store(sqlite_books.url, anchoring=None)
    with store.reading() as connection:
        whole = check.RowDigests(connection)
        whole.read_all(after=None, upto=3)
        for middle in (0, 1, 2, 3):
            parts = check.RowDigests(connection)
            parts.read_all(after=None, upto=middle)
            assert (parts.digests == whole.digests) == (middle == 3)
            parts.read_all(after=middle, upto=3)
            assert parts.digests == whole.digests
    store.close()


def test_a_resumed_verification_reaches_what_a_whole_one_reaches(sqlite_books) -> None:
    """From the first entry on, and from a ledger of one entry."""
    books, kept = sqlite_books, []
    for grow in (lambda: None, books.add, books.charge):
        grow()
        store = open_store(books.url, anchoring=None)
        for earlier in (None, *kept):
            findings, reached = check.verify_resumable(earlier, connect=store.reading)
            assert findings == ()
            if earlier is None:
                whole = reached
            assert reached == whole
        with store.reading() as connection:
            rows = check.RowDigests(connection)
            rows.read_all(after=None, upto=whole.head.position)
        assert whole.tables == rows.digests
        assert whole.head.position == len(kept)
        anchored = head_of_line(line_of_head(whole.head, KEY))
        kept.append(KeptVerification(reached=whole, anchored=anchored, version="1"))
        store.close()
