"""A look at a large ledger reads an excerpt that is signed with the state, and shows what the state shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from crowdblend.accounting.kernel.keys.signing import SigningKey, signed_statement
from crowdblend.accounting.kernel.ledger import snapshot
from crowdblend.accounting.ledger import budget_overview
from crowdblend.accounting.ledger.budget_overview import Overview
from crowdblend.mechanisms.kernel.errors import AccountantRefused, Refusal
from sqlalchemy import Connection, text
from support.ledger_books import DAY, Books

STRANGER = SigningKey(seed=b"\x09" * 32)
OTHERS: tuple[Any, ...] = (None, -1, 1 << 80, True, "x", "published", [], [[]], {})


@pytest.fixture(autouse=True)
def _every_ledger_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Excerpts of two releases and series, and of at most four own charges of data sets with few."""
    monkeypatch.setattr(snapshot, "LARGE", 0)
    for module in (snapshot, budget_overview):
        monkeypatch.setattr(module, "LISTED", 2)
    monkeypatch.setattr(snapshot, "ESTIMATED", 4)
    monkeypatch.setattr(budget_overview, "MOST_WORK_AT_A_GLANCE", 4)


def look(books: Books, latest: int | None = 2) -> Overview:
    with books.reader() as reader:
        return reader.overview(latest=latest)


def whole(books: Books, monkeypatch: pytest.MonkeyPatch, latest: int) -> Overview:
    """What is shown by the whole state."""
    with monkeypatch.context() as patch:
        patch.setattr(budget_overview, "_signed_excerpt", lambda _: None)
        return look(books, latest)


def stored(books: Books) -> dict[str, Any]:
    row = books.raw(lambda connection: connection.execute(text("SELECT * FROM snapshot")).mappings().one())
    return dict(row)


def stated(books: Books) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(stored(books)["statement"])
    return fields


def sign_anew(books: Books, change: Callable[[dict[str, Any]], Any], *, key: SigningKey = STRANGER) -> None:
    """Change the fields of the statement, and sign them by some key."""
    fields = stated(books)
    change(fields)
    fields.pop("signature")
    said = signed_statement(fields, key, domain=snapshot.DOMAIN).decode()
    books.sql("UPDATE snapshot SET statement = :said", said=said)


def fill(books: Books) -> None:
    """Fill a ledger with more than an excerpt lists: data sets with few own charges and with many, and series."""
    for name in ("many", "few", "none"):
        books.add(name)
    for number in range(5):
        books.charge(f"many-{number}", dataset="many")
    books.charge("few-0", dataset="few")
    for number in range(3):
        books.register(f"series-{number}", dataset="many")
        books.writer().charge(books.of_series(f"place-{number}", name=f"series-{number}", dataset="many"))
    books.abandon("place-1")
    books.abandon("many-1")
    books.writer().record_look(dataset="few", what="a table", by="steward", day=DAY)
    books.writer().raise_budget(
        name="few", epsilon=Decimal(11), delta=Decimal("0.01"), reason="decided", by="steward", day=DAY
    )


def test_an_excerpt_shows_what_the_state_shows(books, monkeypatch) -> None:
    fill(books)
    for latest in (1, 2):
        seen = look(books, latest)
        assert seen == whole(books, monkeypatch, latest)
        assert (len(seen.releases), seen.release_count, len(seen.series), seen.series_count) == (latest, 9, latest, 3)
    estimates = {known.state.name: known.epsilon_estimate for known in seen.datasets}
    assert [estimates[name] is None for name in ("few", "many", "none")] == [False, True, False]
    assert books.findings() == []


def test_an_excerpt_of_a_ledger_of_every_kind_shows_what_the_state_shows(golden_ledger, tmp_path, monkeypatch) -> None:
    books = golden_ledger(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "home")
    books.charge("later")
    assert "excerpt" in stated(books)
    for latest in (1, 2):
        assert look(books, latest) == whole(books, monkeypatch, latest)
    assert books.findings() == []


def test_a_snapshot_at_another_place_is_none(books) -> None:
    fill(books)

    def moved(connection: Connection) -> None:
        if books.dialect == "sqlite":
            connection.execute(text("PRAGMA ignore_check_constraints = ON"))
        else:
            connection.execute(text("ALTER TABLE snapshot DROP CONSTRAINT snapshot_slot_check"))
        connection.execute(text("UPDATE snapshot SET slot = 1"))

    books.raw(moved)
    with pytest.raises(AccountantRefused, match="no signature holds over the last entry"):
        look(books)


def test_a_changed_state_is_not_shown_and_is_found(books) -> None:
    """The excerpt stands in the signed statement: a look at it reads nothing of the changed cell."""
    fill(books)
    before = look(books)
    books.sql("UPDATE snapshot SET state = replace(state, 'many-4', 'many-5')")
    assert look(books) == before
    with pytest.raises(AccountantRefused, match="no signature holds over the last entry"):
        look(books, latest=3)
    assert "no signature holds over the last entry" in " ".join(books.findings())
    with pytest.raises(AccountantRefused, match="no signature holds over the last entry"):
        books.charge("next")


CHANGED: dict[str, tuple[tuple[str, ...], str]] = {
    "a changed body": (
        ("UPDATE entry SET body = replace(body, 'census', 'homes') WHERE release_id = 'place-2'",),
        "is missing or changed",
    ),
    "two bodies swapped": (
        (
            "UPDATE entry SET body = (SELECT body FROM entry AS other WHERE other.position = 20 - entry.position) "
            "WHERE position IN (9, 11)",
        ),
        "is missing or changed",
    ),
    "two rows swapped": (
        (
            "UPDATE entry SET position = -position WHERE release_id IN ('place-1', 'place-2')",
            "UPDATE entry SET position = (SELECT -position FROM entry WHERE release_id = 'place-1') "
            "WHERE release_id = 'place-2'",
        ),
        "is missing or changed",
    ),
    "a row missing": (("DELETE FROM entry WHERE release_id = 'place-2'",), "is missing or changed"),
    "the last row missing": (
        ("DELETE FROM entry WHERE position = (SELECT max(position) FROM entry)",),
        "no signature holds over the last entry",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_row_that_was_changed_past_the_ledger_is_refused_where_it_is_shown(
    sqlite_books, forge_past_guards, name: str
) -> None:
    books, (statements, told) = sqlite_books, CHANGED[name]
    fill(books)
    look(books)
    loosen = ("PRAGMA ignore_check_constraints = ON",)
    forge_past_guards(books, *loosen, *statements)
    with pytest.raises(AccountantRefused, match=told):
        look(books)
    assert books.findings()


def test_an_earlier_snapshot_is_refused(books) -> None:
    fill(books)
    earlier = stored(books)
    books.charge("next", dataset="few")
    books.sql("UPDATE snapshot SET state = :state, statement = :statement", **earlier)
    with pytest.raises(AccountantRefused, match="no signature holds over the last entry"):
        look(books)
    assert "no signature holds over the last entry" in " ".join(books.findings())


def test_an_excerpt_that_a_stranger_signed_is_found_and_pays_nothing(books) -> None:
    """Whoever only looks asks for no key of his own: the verification and the next charge tell it."""
    fill(books)
    sign_anew(books, lambda fields: fields["excerpt"]["counts"].update(series=2))
    assert look(books).series_count == 2
    assert books.findings() == ["the signed excerpt of the state is not what follows from the entries"]
    with pytest.raises(AccountantRefused, match="isn't of this private store"):
        books.charge("next", dataset="few")


def test_an_excerpt_that_leaves_out_what_was_charged_gives_no_estimate(sqlite_books) -> None:
    books = sqlite_books
    fill(books)
    sign_anew(books, lambda fields: fields["excerpt"]["counts"]["own"].update(few=2))
    assert [known.epsilon_estimate for known in look(books).datasets if known.state.name == "few"] == [None]


def places(document: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Give the way to each value of a document, itself included."""
    yield path
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from places(document[key], *path, key)


def test_a_value_of_another_form_that_a_stranger_signed_is_told_or_shown_and_never_an_error(sqlite_books) -> None:
    books = sqlite_books
    fill(books)
    sound = stored(books)
    counts = stated(books)["excerpt"]["counts"]
    ways = [("excerpt",), ("excerpt", "state"), *(("excerpt", "counts", *way) for way in places(counts))]
    told = 0
    for way in ways:
        for other in OTHERS:

            def change(fields: dict[str, Any], way: tuple[Any, ...] = way, other: Any = other) -> None:
                place = fields
                for key in way[:-1]:
                    place = place[key]
                place[way[-1]] = other

            sign_anew(books, change)
            try:
                look(books)
            except Refusal:
                told += 1
            books.sql("UPDATE snapshot SET statement = :statement", statement=sound["statement"])
    assert told > len(ways)


def test_a_snapshot_without_an_excerpt_is_read_whole_and_the_next_write_adds_one(books, monkeypatch) -> None:
    """As earlier versions left it; they go on with a ledger that has one, since they read the state alone."""
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "LARGE", 1_000)
        fill(books)
    assert "excerpt" not in stated(books)
    before = look(books)
    assert books.findings() == []
    books.charge("next", dataset="few")
    fields = stated(books)
    state = snapshot.state_of_bytes(stored(books)["state"].encode())
    assert fields["excerpt"] == json.loads(json.dumps(snapshot.excerpt_of(state)))
    assert look(books).release_count == before.release_count + 1
    assert books.findings() == []
    monkeypatch.setattr(snapshot, "LARGE", 1_000)
    books.charge("after", dataset="few")
    assert "excerpt" not in stated(books)
    assert books.findings() == []
