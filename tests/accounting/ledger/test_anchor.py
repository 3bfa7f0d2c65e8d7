"""A ledger is found to be cut back, set back or written anew by the anchor outside it, and by that alone."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey, canonical_bytes
from crowdblend.accounting.kernel.ledger.entries import Head, ReleaseReading
from crowdblend.accounting.kernel.ledger.transactions import keep_snapshot
from crowdblend.accounting.keys.anchor import AnchorFile, Anchoring, head_of_line, line_of_head
from crowdblend.accounting.keys.signing_upkeep import rotate_key
from crowdblend.accounting.ledger import creation
from crowdblend.accounting.ledger.anchor_check import check_anchor
from crowdblend.accounting.ledger.creation import begin_anchor, create_ledger
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused, ReleaseFailed

LEDGER, OTHER = "a" * 64, "b" * 64
TOO_LONG = b"x" * 9000
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


def test_no_anchor_is_begun_over_a_state_that_the_entries_do_not_give(books) -> None:
    """Else this store's key would vouch for whatever a stranger signed, and a budget could be spent twice."""
    anchor = filled(books)
    anchor.path.unlink()
    state = books.state()
    state.datasets["census"].account = replace(state.datasets["census"].account, epsilon_spent=Decimal(0))
    books.raw(lambda connection: keep_snapshot(connection, state, KEY))
    with pytest.raises(AccountantRefused, match=r"isn't what its entries give.*ledger verify"):
        begin_anchor(books.url, anchoring=books.anchoring)
    assert not anchor.path.exists()
    with pytest.raises(AccountantRefused, match="anchor is missing"):
        books.charge("three")


def test_a_key_that_was_replaced_signs_nothing_after_the_anchors_last_line(books) -> None:
    """A key is replaced where a copy of it may be out; whoever has the copy writes no head from then on."""
    anchor = filled(books)
    stolen = books.anchoring.keys.current()
    rotate_key(books.anchoring.keys, os.urandom)
    with open_reader(books.url, anchoring=books.anchoring) as reader:
        assert reader.dataset("census").account.epsilon_budget == 10  # the last head is still the earlier key's
    books.charge("three")
    assert against_anchor(books, anchor.path) == ()
    state = books.state()
    state.datasets["census"].account = replace(state.datasets["census"].account, epsilon_budget=Decimal(1000))
    books.raw(lambda connection: keep_snapshot(connection, state, stolen))
    with pytest.raises(AccountantRefused, match=r"which was replaced by another before that.*ledger verify"):
        books.charge("four")
    with open_reader(books.url, anchoring=books.anchoring) as reader, pytest.raises(AccountantRefused):
        reader.dataset("census")
    (found,) = against_anchor(books, anchor.path)
    assert found == f"the last entry is signed by the key {stolen.public.key_id}, which was replaced before that"


def test_no_anchor_is_begun_over_entries_that_break_a_rule(sqlite_books) -> None:
    anchor = filled(sqlite_books)
    sqlite_books.append(ReleaseReading(release_id="one"))
    anchor.path.unlink()
    with pytest.raises(AccountantRefused, match="this ledger does not hold: entry"):
        begin_anchor(sqlite_books.url, anchoring=sqlite_books.anchoring)
    assert not anchor.path.exists()


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
    """After 300 heads an append reads as little as after 50."""
    anchor = AnchorFile(path=tmp_path / "anchor.jsonl")
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda handle, size, start: (read.append(size), pread(handle, size, start))[1])
    anchor.append(Head(ledger_id=LEDGER, position=0, hash="b" * 64), KEY)
    with anchor.path.open("ab") as file:
        for position in range(1, 300):
            file.write(line_of_head(Head(ledger_id=LEDGER, position=position, hash="b" * 64), KEY))
    read.clear()
    anchor.append(Head(ledger_id=LEDGER, position=300, hash="b" * 64), KEY)
    assert sum(read) <= 8192
    last = anchor.last()
    assert last is not None
    assert last.head.position == 300


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


@pytest.fixture
def anchor(sqlite_books) -> AnchorFile:
    """The anchor of a ledger with three entries."""
    sqlite_books.add()
    sqlite_books.charge("one")
    with sqlite_books.reader() as reader:
        return sqlite_books.anchoring.anchor_of(reader.ledger_id)


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
    assert any("can't be relied on" in finding for finding in against_anchor(sqlite_books, anchor.path))
    with pytest.raises(InputRefused, match=r"there is an anchor here already.*as evidence"):
        begin_anchor(sqlite_books.url, anchoring=sqlite_books.anchoring)
    anchor.path.write_bytes(sound)
    assert against_anchor(sqlite_books, anchor.path) == ()


def test_a_head_that_finds_another_ledgers_anchor_is_a_failure_after_the_commit(sqlite_books, anchor) -> None:
    elsewhere = type(sqlite_books.anchoring)(home=sqlite_books.anchoring.home, file=anchor.path)
    with pytest.raises(ReleaseFailed, match=r"the ledger is written, but its anchor is not \(the anchor is of another"):
        elsewhere.record(Head(ledger_id=LEDGER, position=99, hash=OTHER), KEY, written=True)


def test_an_anchor_that_can_not_be_read_is_told(sqlite_books, anchor) -> None:
    anchor.path.unlink()
    with pytest.raises(InputRefused, match=r"the anchor can't be read \(No such file or directory\)"):
        against_anchor(sqlite_books, anchor.path)
    anchor.path.mkdir()
    for attempt in (
        lambda: against_anchor(sqlite_books, anchor.path),
        lambda: sqlite_books.charge("two"),
        lambda: begin_anchor(sqlite_books.url, anchoring=sqlite_books.anchoring),
    ):
        with pytest.raises(InputRefused, match=r"jsonl: the anchor can't be read \(Is a directory\)"):
            attempt()


CUT_TOGETHER = "an anchor that was cut back together with the ledger: keep a copy where the ledger's writers can't."
NOT_YET = "the entries after entry {}: they are not anchored yet."
UNRELIABLE = "line {} of the anchor can't be relied on: the signature doesn't hold"
VOUCHES_FOR_NOTHING = "the anchor vouches for nothing: it has no head whose signature holds"
LAST_IS = "the last entry is"


def test_all_that_an_anchor_says_and_leaves_open(sqlite_books, anchor) -> None:
    """Of a ledger of entries 0 to 2, which its anchor vouches for; each case changes the anchor alone."""
    sound = anchor.path.read_bytes().splitlines(keepends=True)
    own, heads = sqlite_books.anchoring.keys.current(), [head_of_line(line).head for line in sound]
    (key,), last, stranger = sqlite_books.anchoring.keys.public_keys(), heads[-1], KEY.public.key_id

    def signed(position: int, *, hashed: str = OTHER, by: SigningKey = own, ledger: str = last.ledger_id) -> bytes:
        return line_of_head(Head(ledger_id=ledger, position=position, hash=hashed), by)

    forged = sound[-1].replace(last.hash.encode(), OTHER.encode())
    none_trusted = "which is none of those that are trusted"
    cut_back = "and the ledger ends at entry 2: it was cut back, or an older copy was restored"
    written_anew = "is not the one that the anchor vouches for, nor are"
    by_strangers = [
        f"{what} signed by the key {key.key_id}, {none_trusted}" for what in ("the anchor has lines", LAST_IS)
    ]
    torn = ["the anchor's last line: it is incomplete, as a crash leaves it.", NOT_YET.format(1)]
    store = open_store(sqlite_books.url, read_only=True)
    for lines, trusted, findings, unchecked in (
        (sound, (key,), [], []),
        (sound, (), [], [f"whose the anchor's keys are ({key.key_id})."]),
        ([*sound[:-1], sound[-1][:-1]], (key,), [], torn),
        (
            [*sound, signed(7, by=KEY, ledger=LEDGER), signed(8, by=KEY, ledger=LEDGER)],
            (key,),
            [
                f"the anchor has lines signed by the key {stranger}, {none_trusted}",
                "2 lines of the anchor are of another ledger",
            ],
            [],
        ),
        ([*sound, signed(7), signed(9)], (key,), [f"the anchor vouches for entry 9, {cut_back}"], []),
        ([*sound, signed(3, hashed=heads[0].hash)], (key,), [f"the anchor vouches for entry 3, {cut_back}"], []),
        (
            [sound[0], signed(1), signed(2)],
            (key,),
            [f"entry 1 {written_anew} 1 other anchored entries: the chain was written anew"],
            [],
        ),
        (
            [b"{}\n", sound[0], signed(1)],
            (key,),
            ["line 1 of the anchor can't be relied on: ", f"entry 1 {written_anew} 0 other anchored entries: "],
            [NOT_YET.format(1)],
        ),
        (
            [*sound, sound[-1], sound[0], b"{}\n"],
            (key,),
            [
                "line 4 of the anchor goes back to entry 2",
                "line 5 of the anchor goes back to entry 0",
                "line 6 of the anchor can't be relied on: ",
            ],
            [],
        ),
        ([*sound[:-1], forged], (key,), [UNRELIABLE.format(3)], [NOT_YET.format(1)]),
        (
            [*sound, forged.replace(b'"position":2', b'"position":7')],
            (key,),
            [UNRELIABLE.format(4)],
            [],
        ),
        ([forged], (key,), [UNRELIABLE.format(1), VOUCHES_FOR_NOTHING], [NOT_YET.format(-1)]),
        (sound, (KEY.public,), by_strangers, []),
        ([], (key,), [VOUCHES_FOR_NOTHING], [NOT_YET.format(-1)]),
    ):
        anchor.path.write_bytes(b"".join(lines))
        found = check_anchor(anchor.path, connect=store.reading, trusted=trusted)
        assert len(found.findings) == len(findings), found
        assert all(one.startswith(told) for one, told in zip(found.findings, findings, strict=True)), found
        whose = [told for told in unchecked if told.startswith("whose")]
        assert found.unchecked == (CUT_TOGETHER, *whose, *(told for told in unchecked if told not in whose))
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
    [found] = against_anchor(sqlite_books, anchor.path)
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


@pytest.mark.parametrize(("length", "damaged"), [(4095, 1), (4096, 1), (4097, 2)])
def test_a_line_is_read_up_to_its_longest_length(sqlite_books, anchor, length, damaged) -> None:
    """What follows of a longer one counts as a line of its own."""
    sound = anchor.path.read_bytes()
    anchor.path.write_bytes(b"x" * (length - 1) + b"\n" + sound)
    found = against_anchor(sqlite_books, anchor.path)
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
