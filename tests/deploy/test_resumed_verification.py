"""`crowdblend ledger verify --resume`: it goes on from what the last verification kept, and believes no other file."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest


def verify(desk, *words: str):
    return desk("ledger", "verify", "--resume", "kept.json", *words)


@pytest.fixture
def kept(desk) -> Path:
    """A ledger of a few entries that was verified, and what was kept of that."""
    desk.add_dataset()
    desk.succeed("dataset", "looked", "people", "--what", "the header")
    answer = verify(desk, "--json")
    assert (answer.code, answer.json["resumed"]) == (0, None)
    file: Path = desk.folder / "kept.json"
    return file


def forge(desk, *statements: str) -> None:
    """Change an SQLite ledger past its guards, which are there again afterwards."""
    with closing(sqlite3.connect(desk.folder / "ledger.db", isolation_level=None)) as database:
        guards = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
        for _, definition in guards:
            database.execute(definition)


def sealed(fields: dict) -> bytes:
    """The file that has some fields, with a digest that fits."""
    fields = {name: value for name, value in fields.items() if name != "digest"}
    written = [json.dumps(fields, sort_keys=True, separators=(",", ":"))]
    fields["digest"] = hashlib.sha256(written[0].encode()).hexdigest()
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def test_later_verifications_go_on_from_earlier_ones(desk, kept) -> None:
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    first = kept.read_bytes()
    desk.succeed("dataset", "looked", "people", "--what", "the first page")
    answer = verify(desk)
    assert answer.code == 0
    assert "The ledger holds." in answer.out
    assert "Resumed after entry 2, which the key " in answer.out
    assert "Not checked: the rules and prices of entries 0 to 2 again." in answer.out
    assert "Kept up to entry 3" in answer.out
    assert kept.read_bytes() != first
    again = verify(desk, "--json")
    assert (again.json["ok"], again.json["resumed"]) == (True, 4)
    assert any("rules and prices of entries 0 to 3" in what for what in again.json["unchecked"])


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE entry SET body = replace(body, 'header', 'heador') WHERE position = 2", "content differs"),
        ("UPDATE entry SET body = replace(body, 'page', 'pace') WHERE position = 3", "content differs"),
        ("UPDATE account SET epsilon_budget = '11' WHERE position = 1", "rows of the table account up to entry 2"),
        ("DELETE FROM entry WHERE position > 1", "ends at entry 1, and entry 2 was verified"),
    ],
)
def test_a_changed_ledger_is_a_finding_and_what_was_kept_stays(desk, kept, statement, said) -> None:
    desk.succeed("dataset", "looked", "people", "--what", "the first page")
    before = kept.read_bytes()
    forge(desk, statement)
    answer = verify(desk)
    assert answer.code == 1
    assert said in answer.out
    assert kept.read_bytes() == before


@pytest.mark.parametrize(("name", "code"), [("anchored", 2), ("root", 1), ("tables", 1), ("version", 0), ("format", 2)])
def test_a_forged_file_is_never_believed(desk, kept, name, code) -> None:
    """Also where its digest was made to fit; another version's rules are no reason to spare any entry."""
    fields = json.loads(kept.read_bytes())
    match name:
        case "anchored":  # another place, as its signature doesn't say
            fields[name] = fields[name].replace('"position":2', '"position":1')
        case "root":
            fields[name] = "0" * 64
        case "tables":
            fields[name] = {**fields[name], "account": "0" * 64}
        case _:
            fields[name] = "other"
    kept.write_bytes(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode() + b"\n")  # the earlier digest
    assert verify(desk).code == 2
    kept.write_bytes(sealed(fields))
    answer = verify(desk, "--json")
    assert answer.code == code, answer
    if code == 0:
        assert answer.json["resumed"] is None
    elif code == 2:
        assert kept.read_bytes() == sealed(fields)


def test_what_others_can_change_or_signed_is_refused(desk, kept) -> None:
    kept.chmod(0o640)
    answer = verify(desk)
    assert answer.code == 2
    assert "chmod 600" in answer.err
    kept.chmod(0o600)
    desk.succeed("key", "export", "own.pem")
    shutil.move(desk.home / "signing", desk.folder / "elsewhere")
    desk.succeed("key", "rotate")
    desk.succeed("key", "export", "other.pem")
    anchor = next((desk.home / "anchors").glob("*.jsonl"))
    assert verify(desk, "--anchor", str(anchor), "--public-key", "own.pem").code == 0
    answer = verify(desk, "--anchor", str(anchor), "--public-key", "other.pem")
    assert answer.code == 2
    assert "none of those that are trusted" in answer.err


def test_another_ledgers_file_and_a_missing_anchor_are_refused(desk, kept) -> None:
    other = f"sqlite:///{desk.folder / 'other.db'}"
    desk.succeed("ledger", "init", "--ledger", other)
    answer = verify(desk, "--ledger", other)
    assert answer.code == 2
    assert "of another ledger" in answer.err
    shutil.move(desk.home / "anchors", desk.folder / "elsewhere")
    answer = verify(desk)
    assert answer.code == 2
    assert "no anchor of this ledger" in answer.err
