"""A token opens the pages for its holder, until its last day, and nobody finds its secret in the ledger."""

from __future__ import annotations

import json
import os
from datetime import date, timedelta

import pytest
from crowdblend.accounting.kernel.ledger.entries import bytes_of_entry
from crowdblend.accounting.ledger.tokens import recognised
from crowdblend.mechanisms.kernel.errors import AccountantRefused, InputRefused

DAY = date(2026, 3, 4)
EXPIRES = DAY + timedelta(days=90)


def add(books, name: str = "auditor", *, expires: date = EXPIRES, day: date = DAY) -> str:
    with books.writer() as writer:
        return writer.add_token(name=name, expires=expires, by="steward", day=day, randomness=os.urandom)


def opens(books, text: str, today: date = DAY) -> bool:
    with books.reader() as reader:
        return recognised(text, tokens=reader.tokens(), today=today)


def test_a_token_opens_until_its_last_day(books) -> None:
    text = add(books)
    assert opens(books, text)
    assert opens(books, text, EXPIRES - timedelta(days=1))
    assert not opens(books, text, EXPIRES)
    assert books.findings() == []


FORGERIES = {
    "not revoked": "UPDATE snapshot SET state = replace(state, ',\"2026-03-04\"]', ',null]')",
    "another's": "UPDATE snapshot SET state = replace(state, 'other', 'eve')",
    "no revocation": "DELETE FROM entry WHERE position = 3",
    "no state": "UPDATE snapshot SET state = x'00'",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_nobody_is_let_in_where_tokens_were_changed_past_the_writer(sqlite_books, forge_past_guards, forgery) -> None:
    books = sqlite_books
    text, other = add(books), add(books, "other")
    with books.writer() as writer:
        writer.revoke_token(name="auditor", by="steward", day=DAY)
    forge_past_guards(books, FORGERIES[forgery])
    for presented in (text, other):
        with pytest.raises(AccountantRefused, match=r"no signature holds over the last entry.*changed past its own"):
            opens(books, presented)


def test_a_revoked_token_opens_nothing(books) -> None:
    text, other = add(books), add(books, "other")
    with books.writer() as writer:
        writer.revoke_token(name="auditor", by="steward", day=DAY)
    assert not opens(books, text)
    assert opens(books, other)
    assert books.findings() == []


def test_any_other_text_opens_nothing(sqlite_books) -> None:
    text = add(sqlite_books)
    other = add(sqlite_books, "other")
    id_and_secret = text.split("-")[1:], other.split("-")[1:]
    wrong = [
        "",
        text[:-1],
        text + "0",
        text.upper(),
        text + "\n",
        f"cb-{id_and_secret[0][0]}-{id_and_secret[1][1]}",
        f"cb-{'0' * 16}-{'0' * 64}",
        text[:-1] + ("0" if text[-1] != "0" else "1"),
    ]
    assert opens(sqlite_books, text)
    assert not [attempt for attempt in wrong if opens(sqlite_books, attempt)]


def test_the_ledger_never_holds_the_secret(sqlite_books) -> None:
    secret = add(sqlite_books).split("-")[2]
    with sqlite_books.reader() as reader:
        stored = [bytes_of_entry(recorded.entry).decode() for recorded in reader.entries()]
    assert any("token-added/1" in body for body in stored)
    assert not any(secret in body for body in stored)


def test_a_name_in_use_is_refused_and_one_out_of_use_is_not(books) -> None:
    add(books)
    with pytest.raises(InputRefused, match="in use"):
        add(books)
    add(books, expires=EXPIRES + timedelta(days=90), day=EXPIRES)
    with books.writer() as writer:
        first = writer.revoke_token(name="auditor", by="steward", day=EXPIRES)
        second = writer.revoke_token(name="auditor", by="steward", day=EXPIRES)
        assert first != second
        with pytest.raises(InputRefused, match="no such token"):
            writer.revoke_token(name="auditor", by="steward", day=EXPIRES)


@pytest.mark.parametrize("changes", [{"name": ""}, {"name": "a\nb"}, {"expires": DAY}])
def test_what_the_ledger_can_not_hold_is_refused(sqlite_books, changes) -> None:
    with pytest.raises(InputRefused):
        add(sqlite_books, **changes)


def test_the_command_line_prints_the_token_once(desk) -> None:
    desk.add_dataset()
    made = desk("token", "add", "auditor", "--expires", "90d", "--json").json
    assert made["token"].startswith("cb-")
    listed = desk("token", "list", "--json")
    assert [row["state"] for row in listed.json["tokens"]] == ["active"]
    assert made["token"].split("-")[2] not in listed.out
    assert desk("token", "add", "auditor", "--expires", "90d").code == 2
    desk.succeed("token", "revoke", "auditor")
    assert [row["state"] for row in json.loads(desk("token", "list", "--json").out)["tokens"]] == ["revoked"]
    for wrong in ("90", "0d", "9999d", "-1d", "tomorrow"):
        assert desk("token", "add", "other", "--expires", wrong).code == 2
    desk.succeed("ledger", "verify")
