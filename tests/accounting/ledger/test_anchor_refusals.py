"""An anchor that is damaged, forged, elsewhere or unreadable vouches for nothing, and is never written over."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey, SigningKeys
from crowdblend.accounting.kernel.ledger.entries import Head
from crowdblend.accounting.keys.anchor import AnchorFile, Anchoring, head_of_line, line_of_head
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.ledger.anchor_check import AnchorCheck, check_anchor
from crowdblend.accounting.ledger.creation import begin_anchor
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed

LEDGER, OTHER = "a" * 64, "b" * 64
KEY = SigningKey(seed=bytes(range(32)))
TOO_LONG = b"x" * 9000


@pytest.fixture
def anchor(sqlite_books) -> AnchorFile:
    """The anchor of a ledger with three entries."""
    sqlite_books.add()
    sqlite_books.charge("one")
    with sqlite_books.reader() as reader:
        return sqlite_books.anchoring.anchor_of(reader.ledger_id)


def findings(books, path: Path) -> tuple[str, ...]:
    with books.reader() as reader:
        return reader.verify_anchor(path, trusted=books.anchoring.keys.public_keys()).findings


@pytest.mark.parametrize("position", [-1, True, 1.0, "1", None])
def test_a_head_stands_at_a_whole_number(position) -> None:
    with pytest.raises(ValueError, match="whole number from 0"):
        Head(ledger_id=LEDGER, position=position, hash=OTHER)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"[" * 3000 + b"\n", "a line has no deep nesting"),
        (
            b'{"hash":0,"key_id":0,"ledger_id":0,"position":0,"public_key":0,"signature":0}\n',
            "something else than text",
        ),
        (TOO_LONG, "the anchor's last line is too long"),
    ],
    ids=["deep", "numbers", "endless"],
)
def test_a_line_of_another_form_is_found_and_stops_every_writer(sqlite_books, anchor, line, what) -> None:
    sound = anchor.path.read_bytes()
    anchor.path.write_bytes(line if line == TOO_LONG else sound + line)
    with pytest.raises(AccountantRefused, match=rf"can't be relied on: .*{what}.*Nothing was written"):
        sqlite_books.charge("two")
    assert any("can't be relied on" in finding for finding in findings(sqlite_books, anchor.path))
    with pytest.raises(InputRefused, match=r"there is an anchor here already.*as evidence"):
        begin_anchor(sqlite_books.url, anchoring=sqlite_books.anchoring)
    anchor.path.write_bytes(sound)
    assert findings(sqlite_books, anchor.path) == ()


def test_an_anchor_is_never_continued_with_another_ledgers_head(sqlite_books, anchor) -> None:
    before = anchor.path.read_bytes()
    with pytest.raises(ValueError, match="of another ledger"):
        anchor.append(Head(ledger_id=LEDGER, position=99, hash=OTHER), KEY)
    assert anchor.path.read_bytes() == before


def test_a_head_that_finds_another_ledgers_anchor_is_a_failure_after_the_commit(sqlite_books, anchor) -> None:
    elsewhere = type(sqlite_books.anchoring)(home=sqlite_books.anchoring.home, file=anchor.path)
    with pytest.raises(ReleaseFailed, match=r"the ledger is written, but its anchor is not \(the anchor is of another"):
        elsewhere.record(Head(ledger_id=LEDGER, position=99, hash=OTHER), KEY, written=True)


def test_an_anchor_that_can_not_be_read_is_told(sqlite_books, anchor) -> None:
    anchor.path.unlink()
    with pytest.raises(InputRefused, match=r"the anchor can't be read \(No such file or directory\)"):
        findings(sqlite_books, anchor.path)
    anchor.path.mkdir()
    for attempt in (
        lambda: findings(sqlite_books, anchor.path),
        lambda: sqlite_books.charge("two"),
        lambda: begin_anchor(sqlite_books.url, anchoring=sqlite_books.anchoring),
    ):
        with pytest.raises(InputRefused, match=r"jsonl: the anchor can't be read \(Is a directory\)"):
            attempt()


@pytest.mark.parametrize("content", [b"", b"{}\n", b"x"])
def test_an_anchor_without_a_sound_head_vouches_for_nothing(sqlite_books, anchor, content) -> None:
    anchor.path.write_bytes(content)
    assert "the anchor vouches for nothing: it has no head whose signature holds" in findings(sqlite_books, anchor.path)


def resigned(line: bytes, *, old: str, new: str) -> bytes:
    """A line that says something else under the signature that it had."""
    changed = line.replace(old.encode(), new.encode())
    assert changed != line
    return changed


def test_a_line_whose_signature_does_not_hold_says_nothing_against_the_ledger(sqlite_books, anchor) -> None:
    """Who can write the anchor, and has no key, can't make a sound ledger look cut back or written anew."""
    lines = anchor.path.read_bytes().splitlines(keepends=True)
    with sqlite_books.reader() as reader:
        hashes = [entry.hash for entry in reader.entries()]
    place = next(number for number, line in enumerate(lines) if hashes[1].encode() in line)
    forged = [
        (place, resigned(lines[place], old=hashes[1], new=OTHER)),
        (len(lines) - 1, resigned(lines[-1], old='"position":2', new='"position":7')),
    ]
    for number, line in forged:
        anchor.path.write_bytes(b"".join([*lines[:number], line, *lines[number + 1 :]]))
        found = findings(sqlite_books, anchor.path)
        assert found[0] == f"line {number + 1} of the anchor can't be relied on: the signature doesn't hold"
        assert not any("cut back" in what or "written anew" in what for what in found)
    anchor.path.write_bytes(b"".join(lines))
    assert findings(sqlite_books, anchor.path) == ()


def test_the_control_a_signed_line_does_say_it(sqlite_books, anchor) -> None:
    with sqlite_books.reader() as reader:
        later = Head(ledger_id=reader.ledger_id, position=7, hash=OTHER)
    with anchor.path.open("ab") as file:
        file.write(line_of_head(later, sqlite_books.anchoring.keys.current()))
    assert any("cut back" in what for what in findings(sqlite_books, anchor.path))


CUT_TOGETHER = "an anchor that was cut back together with the ledger: keep a copy where the ledger's writers can't."


def test_all_that_an_anchor_says_and_leaves_open(sqlite_books, anchor) -> None:
    """Of a ledger of entries 0 to 2, which its anchor vouches for; each case changes the anchor alone."""
    sound = anchor.path.read_bytes().splitlines(keepends=True)
    own, heads = sqlite_books.anchoring.keys.current(), [head_of_line(line).head for line in sound]
    (key,), last, stranger = sqlite_books.anchoring.keys.public_keys(), heads[-1], KEY.public.key_id

    def signed(position: int, *, hashed: str = OTHER, by: SigningKey = own, ledger: str = last.ledger_id) -> bytes:
        return line_of_head(Head(ledger_id=ledger, position=position, hash=hashed), by)

    forged = sound[-1].replace(last.hash.encode(), OTHER.encode())
    late = (*sound, signed(3, hashed=heads[0].hash))
    store = open_store(sqlite_books.url, read_only=True)
    for lines, trusted, expected in (
        (sound, (key,), AnchorCheck(findings=(), unchecked=(CUT_TOGETHER,))),
        (
            sound,
            (),
            AnchorCheck(findings=(), unchecked=(CUT_TOGETHER, f"whose the anchor's keys are ({key.key_id}).")),
        ),
        (
            [*sound[:-1], sound[-1][:-1]],
            (key,),
            AnchorCheck(
                findings=(),
                unchecked=(
                    CUT_TOGETHER,
                    "the anchor's last line: it is incomplete, as a crash leaves it.",
                    "the entries after entry 1: they are not anchored yet.",
                ),
            ),
        ),
        (
            [*sound, signed(7, by=KEY, ledger=LEDGER), signed(8, by=KEY, ledger=LEDGER)],
            (key,),
            AnchorCheck(
                findings=(
                    f"the anchor has lines signed by the key {stranger}, which is none of those that are trusted",
                    "2 lines of the anchor are of another ledger",
                ),
                unchecked=(CUT_TOGETHER,),
            ),
        ),
        (
            [*sound, signed(7), signed(9)],
            (key,),
            AnchorCheck(
                findings=(
                    "the anchor vouches for entry 9, and the ledger ends at entry 2: it was cut back, or an older copy "
                    "was restored",
                ),
                unchecked=(CUT_TOGETHER,),
            ),
        ),
        (
            [sound[0], signed(1), signed(2)],
            (key,),
            AnchorCheck(
                findings=(
                    "entry 1 is not the one that the anchor vouches for, nor are 1 other anchored entries: the chain "
                    "was written anew",
                ),
                unchecked=(CUT_TOGETHER,),
            ),
        ),
        (
            [*sound, sound[-1], sound[0], b"{}\n"],
            (key,),
            AnchorCheck(
                findings=(
                    "line 4 of the anchor goes back to entry 2",
                    "line 5 of the anchor goes back to entry 0",
                    "line 6 of the anchor can't be relied on: ",
                ),
                unchecked=(CUT_TOGETHER,),
            ),
        ),
        (
            [*sound[:-1], forged],
            (key,),
            AnchorCheck(
                findings=("line 3 of the anchor can't be relied on: the signature doesn't hold",),
                unchecked=(CUT_TOGETHER, "the entries after entry 1: they are not anchored yet."),
            ),
        ),
        (
            [forged],
            (key,),
            AnchorCheck(
                findings=(
                    "line 1 of the anchor can't be relied on: the signature doesn't hold",
                    "the anchor vouches for nothing: it has no head whose signature holds",
                ),
                unchecked=(CUT_TOGETHER, "the entries after entry -1: they are not anchored yet."),
            ),
        ),
        (
            sound,
            (KEY.public,),
            AnchorCheck(
                findings=(
                    f"the anchor has lines signed by the key {key.key_id}, which is none of those that are trusted",
                    f"the last entry is signed by the key {key.key_id}, which is none of those that are trusted",
                ),
                unchecked=(CUT_TOGETHER,),
            ),
        ),
        (
            late,
            (key,),
            AnchorCheck(
                findings=(
                    "the anchor vouches for entry 3, and the ledger ends at entry 2: it was cut back, or an older copy "
                    "was restored",
                ),
                unchecked=(CUT_TOGETHER,),
            ),
        ),
    ):
        anchor.path.write_bytes(b"".join(lines))
        found = check_anchor(anchor.path, connect=store.reading, trusted=trusted)
        open_end = [
            one if told.endswith(": ") and one.startswith(told) else told
            for one, told in zip(found.findings, expected.findings, strict=True)
        ]
        assert found == replace(expected, findings=tuple(open_end))
    store.close()


def test_what_is_anchored_while_a_ledger_is_looked_at_is_not_held_against_it(sqlite_books, anchor) -> None:
    """The ledger is seen as it was when its reading began; its anchor may grow from then on."""
    with sqlite_books.reader() as reader:
        later = Head(ledger_id=reader.ledger_id, position=3, hash=OTHER)
    store, (key,) = open_store(sqlite_books.url, read_only=True), sqlite_books.anchoring.keys.public_keys()

    @contextmanager
    def connect():
        with anchor.path.open("ab") as file:
            file.write(line_of_head(later, sqlite_books.anchoring.keys.current()))
        with store.reading() as connection:
            yield connection

    assert check_anchor(anchor.path, connect=connect, trusted=(key,)).findings == ()
    assert "cut back" in check_anchor(anchor.path, connect=store.reading, trusted=(key,)).findings[0]
    store.close()


def test_an_entry_that_is_missing_in_the_middle_is_told_by_its_place(sqlite_books, anchor, forge_past_guards) -> None:
    forge_past_guards(sqlite_books, "DELETE FROM entry WHERE position = 1")
    [found] = findings(sqlite_books, anchor.path)
    assert found.startswith("the anchor vouches for entry 1, and the ledger ends at entry 2")


def test_a_line_that_the_system_takes_in_parts_is_written_whole(tmp_path, monkeypatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:7]))
    anchor = AnchorFile(path=tmp_path / "anchor.jsonl")
    lines = b""
    for position in range(2):
        head = Head(ledger_id=LEDGER, position=position, hash=OTHER)
        anchor.append(head, KEY)
        lines += line_of_head(head, KEY)
    assert anchor.path.read_bytes() == lines


def test_a_ledger_of_its_first_entry_needs_no_anchor_and_takes_any_key(sqlite_books, tmp_path) -> None:
    """Nothing was spent yet; from the second entry on both must be those of its writers."""
    with sqlite_books.reader() as reader:
        anchor = sqlite_books.anchoring.anchor_of(reader.ledger_id)
    home = tmp_path / "other"
    create_where_none(SigningKeys(home=home), os.urandom)
    stranger = replace(sqlite_books, anchoring=Anchoring(home=home, file=None))
    anchor.path.unlink()
    stranger.add()
    elsewhere = stranger.anchoring.anchor_of(stranger.reader().ledger_id)
    assert [head_of_line(line).head.position for line in elsewhere.path.read_bytes().splitlines(True)] == [0, 1]
    with pytest.raises(AccountantRefused, match=r"this ledger's anchor is missing.*no key was destroyed") as refused:
        sqlite_books.add("more")
    assert refused.value.where == str(anchor.path)
    elsewhere.path.rename(anchor.path)
    with pytest.raises(AccountantRefused, match="isn't of this private store"):
        sqlite_books.add("more")
    anchor.path.write_bytes(
        b"".join(
            line_of_head(head_of_line(line).head, sqlite_books.anchoring.keys.current())
            for line in anchor.path.read_bytes().splitlines(True)
        )
    )
    with pytest.raises(
        AccountantRefused, match=r"the last entry, 1, is signed by the key .*isn't of this private"
    ) as no:
        sqlite_books.add("more")
    assert no.value.where == str(sqlite_books.anchoring.home)


@pytest.mark.parametrize(("length", "damaged"), [(4095, 1), (4096, 1), (4097, 2)])
def test_a_line_is_read_up_to_its_longest_length(sqlite_books, anchor, length, damaged) -> None:
    """What follows of a longer one counts as a line of its own."""
    sound = anchor.path.read_bytes()
    anchor.path.write_bytes(b"x" * (length - 1) + b"\n" + sound)
    found = findings(sqlite_books, anchor.path)
    assert [what[:6] for what in found] == [f"line {number}" for number in range(1, damaged + 1)]


def test_the_end_of_an_anchor_is_found_behind_whatever_stands_before_it(tmp_path) -> None:
    """A line that a crash cut is passed over up to the length of two lines; behind a longer one nothing is believed."""
    anchor = AnchorFile(path=tmp_path / "anchor.jsonl")
    assert anchor.last() is None
    line = line_of_head(Head(ledger_id=LEDGER, position=3, hash=OTHER), KEY)
    for torn in (0, 1, 8192 - len(line)):
        anchor.path.write_bytes(line + b"x" * torn)
        assert anchor.last().head.position == 3
    for before in (b"y" * 100 + b"\n", b"y" * 9000 + b"\n"):
        anchor.path.write_bytes(before + line)
        assert anchor.last().head.position == 3
    for content in (b"y" + line + b"x" * (8192 - len(line)), line + b"x" * 8192, b"y" * 9000):
        anchor.path.write_bytes(content)
        with pytest.raises(ValueError, match="too long"):
            anchor.last()
    anchor.path.write_bytes(b"x" * 8192)
    assert anchor.last() is None
    anchor.path.write_bytes(line + b"torn")
    anchor.append(Head(ledger_id=LEDGER, position=4, hash=OTHER), KEY)
    lines = anchor.path.read_bytes().splitlines(keepends=True)
    assert [head_of_line(one).head.position for one in lines] == [3, 4]
