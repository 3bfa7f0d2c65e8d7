"""A ledger is found to be cut back, set back or written anew by the anchor outside it, and by that alone."""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey, canonical_bytes
from crowdblend.accounting.kernel.ledger.entries import Head
from crowdblend.accounting.keys.anchor import AnchorFile, Anchoring, head_of_line, line_of_head
from crowdblend.accounting.keys.signing_upkeep import rotate_key
from crowdblend.accounting.ledger import creation
from crowdblend.accounting.ledger.creation import begin_anchor, create_ledger
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed

LEDGER = "a" * 64
KEY = SigningKey(seed=bytes(range(32)))


def anchor_of(books) -> AnchorFile:
    with books.reader() as reader:
        return books.anchoring.anchor_of(reader.ledger_id)


def positions(anchor: AnchorFile) -> list[int]:
    return [head_of_line(line).head.position for line in anchor.path.read_bytes().splitlines(keepends=True)]


def against_anchor(books, path: Path, *, trusted=None) -> tuple[str, ...]:
    with books.reader() as reader:
        keys = books.anchoring.keys.public_keys() if trusted is None else trusted
        return reader.verify_anchor(path, trusted=keys).findings


def database(books) -> Path:
    return Path(books.url.removeprefix("sqlite:///"))


def copy_database(source: Path, target: Path) -> None:
    """A whole copy, as a backup would make it."""
    for beside in target.parent.glob(f"{target.name}*"):
        beside.unlink()
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as two:
        one.backup(two)


def filled(books) -> AnchorFile:
    books.add()
    receipt = books.charge("one")
    with books.writer() as writer:
        writer.mark_reading(receipt)
        writer.mark_published(receipt, (("data.csv", "c" * 64),))
    books.charge("two")
    return anchor_of(books)


def test_every_entry_is_anchored(books) -> None:
    anchor = filled(books)
    with books.reader() as reader:
        links = [(link.position, link.hash) for link in reader.entries()]
    anchored = [head_of_line(line).head for line in anchor.path.read_bytes().splitlines(keepends=True)]
    expected = links[1:] if books.dialect == "postgresql" else links  # the database was copied from a template
    assert [(head.position, head.hash) for head in anchored][-len(expected) :] == expected
    assert books.findings() == []
    assert against_anchor(books, anchor.path) == ()


def test_the_anchor_is_its_owners_alone(sqlite_books) -> None:
    anchor = filled(sqlite_books)
    assert stat.S_IMODE(anchor.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(anchor.path.parent.stat().st_mode) == 0o700


def test_a_refused_charge_is_anchored_and_a_rolled_back_one_is_not(sqlite_books) -> None:
    anchor = filled(sqlite_books)
    before = positions(anchor)
    with pytest.raises(AccountantRefused):
        sqlite_books.charge("one")  # a known id: the refusal is an entry
    assert positions(anchor) == [*before, before[-1] + 1]
    with pytest.raises(InputRefused):
        sqlite_books.add()  # a known name: no entry
    assert positions(anchor) == [*before, before[-1] + 1]


def test_a_crash_between_commit_and_anchor_is_made_up_for(sqlite_books, monkeypatch) -> None:
    anchor = filled(sqlite_books)
    before = positions(anchor)
    child = os.fork()
    if child == 0:
        append = AnchorFile.append

        def die(self: AnchorFile, head: Head, key: SigningKey) -> None:
            if head.position > before[-1]:
                os.kill(os.getpid(), signal.SIGKILL)
            append(self, head, key)

        AnchorFile.append = die
        sqlite_books.charge("three")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert positions(anchor) == before
    with sqlite_books.reader() as reader:
        assert reader.head().position == before[-1] + 1
        reader.require_anchored(sqlite_books.anchoring)
        check = reader.verify_anchor(anchor.path, trusted=sqlite_books.anchoring.keys.public_keys())
    assert check.findings == ()
    assert any("not anchored yet" in what for what in check.unchecked)
    with sqlite_books.writer():  # opening is enough
        pass
    assert positions(anchor) == [*before, before[-1] + 1]


def test_an_anchor_that_can_not_be_written_is_a_failure_after_the_commit(sqlite_books) -> None:
    """It must not look like a refusal: whoever is refused destroys the key of what is charged by now."""
    anchor = filled(sqlite_books)
    before = positions(anchor)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch, sqlite_books.writer() as writer:
        patch.setattr(os, "write", full)
        with pytest.raises(ReleaseFailed, match="the ledger is written, but its anchor is not"):
            writer.charge(sqlite_books.request("three"))
    assert positions(anchor) == before
    with sqlite_books.reader() as reader:
        assert reader.release("three") is not None
    with sqlite_books.writer():
        pass
    assert positions(anchor) == [*before, before[-1] + 1]


def test_an_anchor_that_can_not_be_written_before_anything_is_written_says_so(sqlite_books) -> None:
    anchor = filled(sqlite_books)
    anchor.path.write_bytes(b"".join(anchor.path.read_bytes().splitlines(keepends=True)[:-1]))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(InputRefused, match="the ledger's anchor can't be written") as refused:
            sqlite_books.writer()
    assert "the ledger is written" not in str(refused.value)


def test_a_torn_line_is_passed_over_and_replaced(sqlite_books) -> None:
    anchor = filled(sqlite_books)
    whole = positions(anchor)
    with anchor.path.open("ab") as file:
        file.write(line_of_head(Head(ledger_id=LEDGER, position=99, hash=LEDGER), KEY)[:-9])
    last = anchor.last()
    assert last is not None
    assert last.head.position == whole[-1]
    assert against_anchor(sqlite_books, anchor.path) == ()
    sqlite_books.charge("three")
    assert positions(anchor) == [*whole, whole[-1] + 1]


def test_truncation_is_found_by_the_signed_state_and_by_the_anchor(sqlite_books, forge_past_guards) -> None:
    anchor = filled(sqlite_books)
    end = positions(anchor)[-1]
    forge_past_guards(sqlite_books, f"DELETE FROM entry WHERE position = {end}")
    assert any("no signature holds over the last entry" in what for what in sqlite_books.findings())
    (found,) = against_anchor(sqlite_books, anchor.path)
    assert "cut back" in found
    assert f"entry {end}" in found


def test_an_older_copy_is_found_with_the_anchor_and_refused_by_every_writer(sqlite_books, tmp_path) -> None:
    sqlite_books.add()
    copy_database(database(sqlite_books), tmp_path / "older.db")
    sqlite_books.charge("one")
    anchor = anchor_of(sqlite_books)
    copy_database(tmp_path / "older.db", database(sqlite_books))
    assert sqlite_books.findings() == []
    assert "older copy" in against_anchor(sqlite_books, anchor.path)[0]
    with pytest.raises(AccountantRefused, match=r"ends at entry 1, and its anchor vouches for entry 2"):
        sqlite_books.charge("two")
    with sqlite_books.reader() as reader, pytest.raises(AccountantRefused, match="no key was destroyed"):
        reader.require_anchored(sqlite_books.anchoring)
    assert sqlite_books.kinds() == ["ledger-created/1", "dataset-added/1"]


def test_a_chain_written_anew_is_found_with_the_anchor_and_not_without(sqlite_books, tmp_path) -> None:
    """The writer uses this software itself, so every hash, rule and row of the new chain holds."""
    filled(sqlite_books)
    anchor = anchor_of(sqlite_books)
    with sqlite_books.reader() as reader:
        ledger_id = reader.ledger_id
    forged = tmp_path / "forged.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(creation.secrets, "token_hex", lambda _: ledger_id)
        elsewhere = Anchoring(home=sqlite_books.anchoring.home, file=tmp_path / "forged.jsonl")
        create_ledger(f"sqlite:///{forged}", anchoring=elsewhere)
    forger = replace(sqlite_books, url=f"sqlite:///{forged}", anchoring=elsewhere)
    forger.add()
    for release_id in ("other", "one", "two", "three", "four"):
        forger.charge(release_id)
    copy_database(forged, database(sqlite_books))
    assert sqlite_books.findings() == []
    (found,) = against_anchor(sqlite_books, anchor.path)
    assert "written anew" in found
    assert found.startswith("entry 2 ")
    with pytest.raises(AccountantRefused, match="written anew"):
        sqlite_books.charge("five")


def test_a_missing_anchor_is_refused_until_one_is_begun(sqlite_books) -> None:
    anchor = filled(sqlite_books)
    anchor.path.unlink()
    with pytest.raises(AccountantRefused, match=r"anchor is missing.*ledger anchor"):
        sqlite_books.charge("three")
    head = begin_anchor(sqlite_books.url, anchoring=sqlite_books.anchoring)
    assert positions(anchor) == [head.position]
    sqlite_books.charge("three")
    assert positions(anchor) == [head.position, head.position + 1]
    with pytest.raises(InputRefused, match="already"):
        begin_anchor(sqlite_books.url, anchoring=sqlite_books.anchoring)


def test_an_anchor_of_another_ledger_or_key_is_refused(sqlite_books, tmp_path) -> None:
    anchor = filled(sqlite_books)
    sound = anchor.path.read_bytes()
    last = head_of_line(sound.splitlines(keepends=True)[-1]).head
    for line, what in (
        (line_of_head(replace(last, ledger_id=LEDGER), sqlite_books.anchoring.keys.current()), "another ledger"),
        (line_of_head(last, KEY), "isn't of this private store"),
        (b"{}\n", "can't be relied on"),
        (b"x" * 9000 + b"\n", "can't be relied on"),
    ):
        anchor.path.write_bytes(sound + line)
        with pytest.raises(AccountantRefused, match=what):
            sqlite_books.charge("three")
        assert against_anchor(sqlite_books, anchor.path)
    anchor.path.write_bytes(sound)
    sqlite_books.charge("three")


def test_what_stands_behind_a_damaged_line_is_checked_too(sqlite_books) -> None:
    anchor = filled(sqlite_books)
    sound = anchor.path.read_bytes()
    last = head_of_line(sound.splitlines(keepends=True)[-1]).head
    other = line_of_head(replace(last, hash="e" * 64), sqlite_books.anchoring.keys.current())
    first, second, *_ = sound.splitlines(keepends=True)
    for damage, what in (
        (b"{}\n", "line 1 of the anchor can't be relied on"),
        (second + first, "line 2 of the anchor goes back to entry"),
    ):
        anchor.path.write_bytes(damage + other)
        findings = "; ".join(against_anchor(sqlite_books, anchor.path))
        assert what in findings
        assert "written anew" in findings


def test_an_anchor_survives_rotation(sqlite_books) -> None:
    anchor = filled(sqlite_books)
    rotate_key(sqlite_books.anchoring.keys, os.urandom)
    sqlite_books.charge("three")
    assert against_anchor(sqlite_books, anchor.path) == ()
    newest = sqlite_books.anchoring.keys.public_keys()[:1]
    assert "none of those that are trusted" in against_anchor(sqlite_books, anchor.path, trusted=newest)[0]
    with sqlite_books.reader() as reader:
        assert any("whose" in what for what in reader.verify_anchor(anchor.path, trusted=()).unchecked)


def test_every_byte_of_an_anchors_line_counts() -> None:
    line = line_of_head(Head(ledger_id=LEDGER, position=7, hash="b" * 64), KEY)
    assert head_of_line(line).head.position == 7
    for place in range(len(line)):
        for other in (line[place] ^ 1, line[place] ^ 0x20):
            assert not accepted(line[:place] + bytes([other]) + line[place + 1 :]), place
    document = json.loads(line)
    for name in document:
        fewer = {key: value for key, value in document.items() if key != name}
        assert not accepted(canonical_bytes(fewer) + b"\n"), name
    assert accepted(line)


def test_a_later_head_is_never_followed_by_an_earlier_one(tmp_path) -> None:
    anchor = AnchorFile(path=tmp_path / "anchor.jsonl")
    for position in (0, 2, 1, 2, 3):
        anchor.append(Head(ledger_id=LEDGER, position=position, hash="b" * 64), KEY)
    assert positions(anchor) == [0, 2, 3]


def test_appending_reads_only_the_end(tmp_path, monkeypatch) -> None:
    """After 10,000 heads an append reads as little as after 50."""
    anchor = AnchorFile(path=tmp_path / "anchor.jsonl")
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, size, start: (read.append(size), pread(handle, size, start))[1])
    anchor.append(Head(ledger_id=LEDGER, position=0, hash="b" * 64), KEY)
    with anchor.path.open("ab") as file:
        for position in range(1, 10_000):
            file.write(line_of_head(Head(ledger_id=LEDGER, position=position, hash="b" * 64), KEY))
    read.clear()
    anchor.append(Head(ledger_id=LEDGER, position=10_000, hash="b" * 64), KEY)
    assert sum(read) <= 8192
    last = anchor.last()
    assert last is not None
    assert last.head.position == 10_000


@pytest.mark.slow
def test_sixteen_processes_leave_a_sound_anchor(books) -> None:
    books.add()
    attempts = [{"release_id": f"r{number}", "sample_id": f"{number:064x}"} for number in range(16)]
    books.race(attempts)
    anchor = anchor_of(books)
    found = positions(anchor)
    assert found == sorted(set(found))
    with books.reader() as reader:
        assert found[-1] == reader.head().position
    assert against_anchor(books, anchor.path) == ()


def accepted(line: bytes) -> bool:
    try:
        head_of_line(line)
    except ValueError:
        return False
    return True


def test_a_signature_in_the_middle_of_an_anchor_is_checked(sqlite_books) -> None:
    for name in ("first", "second", "third"):
        sqlite_books.add(name)
    with sqlite_books.reader() as reader:
        path = sqlite_books.anchoring.anchor_of(reader.ledger_id).path
        assert reader.verify_anchor(path, trusted=()).findings == ()
        lines = path.read_bytes().splitlines(keepends=True)
        fields = json.loads(lines[1])
        fields["signature"] = ("0" if fields["signature"][0] != "0" else "1") + fields["signature"][1:]
        lines[1] = canonical_bytes(fields) + b"\n"
        path.write_bytes(b"".join(lines))
        findings = reader.verify_anchor(path, trusted=()).findings
    assert findings == ("line 2 of the anchor can't be relied on: the signature doesn't hold",)


def test_a_release_charged_by_others_while_the_anchor_is_read_is_no_loss(books) -> None:
    """A head is anchored after its commit: who reads the anchor after the ledger would miss an entry that is there."""
    books.add()

    class Overtaken(Anchoring):
        def last_of(self, ledger_id):
            books.charge("by-others")
            return Anchoring.last_of(self, ledger_id)

    with books.reader() as reader:
        reader.require_anchored(Overtaken(home=books.anchoring.home, file=None))
