"""A resumed verification finds what a whole one finds, before and after the entry from which it goes on."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, nullcontext, suppress
from typing import Any

import pytest
from crowdblend.accounting.ledger.chain import check
from crowdblend.accounting.ledger.chain.anchor import head_of_line, line_of_head
from crowdblend.accounting.ledger.chain.check import KeptVerification, Reached, verify_resumable
from crowdblend.accounting.ledger.chain.hashing import Head, node_digest
from crowdblend.accounting.ledger.database.schema import APPEND_ONLY, entry, signed_state, state_node
from crowdblend.accounting.ledger.entries.codec import entry_of_bytes
from crowdblend.accounting.ledger.private_store.signing import SigningKey
from crowdblend.accounting.ledger.queries import ledger_id_of
from crowdblend.accounting.ledger.rules.audit import Replay
from crowdblend.accounting.ledger.rules.state_tree import WholeState, _LaterFacts
from sqlalchemy import and_, delete, literal_column, update
from sqlalchemy.exc import DBAPIError
from support.guards import past_guards

KEY = SigningKey(seed=bytes(32))
LOOK_UPS = ("datasets", "accounts", "registered", "payments", "unrefunded", "samples", "stages", "places", "tokens")


@pytest.fixture(scope="module")
def links(victim) -> list[dict[str, Any]]:
    return sorted(victim.rows(entry), key=lambda link: link["position"])


def followed(links: list[dict[str, Any]]) -> tuple[Replay, Counter, str]:
    """What follows from entries: what the rules need to know, the counts, and the state's root."""
    replay, counts = Replay(), Counter()
    with closing(WholeState()) as whole:
        for link in links:
            assert not replay.apply(entry_of_bytes(link["body"].encode()), position=link["position"])
            whole.take(link, rows=replay.rows, counts=replay.counts)
            counts.update(replay.counts)
        *_, (_, topmost) = whole.nodes()
    return replay, counts, node_digest(topmost)


def kept_at(victim, links: list[dict[str, Any]], position: int) -> KeptVerification:
    """What would have been kept of the ledger when it ended there."""
    with victim.connection.begin():
        rows = check.RowDigests(victim.connection)
        rows.read_all(after=None, upto=position)
        head = Head(ledger_id=ledger_id_of(victim.connection), position=position, hash=links[position]["hash"])
    reached = Reached(head=head, root=followed(links[: position + 1])[2], tables=rows.digests)
    return KeptVerification(reached=reached, anchored=head_of_line(line_of_head(head, KEY)), version="1")


def found_after(victim, kept: KeptVerification, *statements) -> list[str]:
    """What a resumed verification finds after a forgery past the guards, which is then undone."""
    found = ["the database refuses it"]
    with victim.connection.begin() as transaction:
        with suppress(DBAPIError), past_guards(victim.connection):
            for statement in statements:
                victim.connection.execute(statement)
            found = []
        if not found:
            there = lambda: nullcontext(victim.connection)  # noqa: E731 - the transaction that is undone
            found = [str(one) for one in verify_resumable(kept, connect=there)[0]]
        transaction.rollback()
    return found


def test_what_is_rebuilt_of_earlier_entries_is_what_their_replay_gives(victim, links, thorough) -> None:
    for position in victim.some(range(len(links)), thorough=thorough):
        kept = kept_at(victim, links, position)
        replay, counts, _ = followed(links[: position + 1])
        with victim.connection.begin():
            findings, earlier = check._earlier(victim.connection, kept.reached, check.RowDigests(victim.connection))
        assert findings == ()
        assert [getattr(earlier.replay, name) for name in LOOK_UPS] == [getattr(replay, name) for name in LOOK_UPS]
        assert dict(earlier.counts) == dict(counts)
        assert found_after(victim, kept) == []


@pytest.mark.parametrize("table", [*APPEND_ONLY, state_node, signed_state], ids=lambda table: table.name)
def test_a_changed_cell_and_a_removed_row_are_found_on_both_sides(victim, links, table, thorough) -> None:
    kept = kept_at(victim, links, len(links) // 2)
    for number, row in enumerate(victim.some(victim.rows(table), thorough=thorough)):
        this = and_(*(column == row[column.name] for column in table.primary_key))
        assert found_after(victim, kept, delete(table).where(this)), row
        names = list(row) if thorough else [list(row)[number % len(row)]]
        for name in names:
            if name not in table.primary_key or thorough:
                other = row[name] + 1000 if isinstance(row[name], int) else f"{row[name]}0"
                assert found_after(victim, kept, update(table).where(this).values({name: other})), (row, name)


@pytest.mark.parametrize("children", ["", "x", "," * 14, "," * 16])
def test_a_node_of_another_form_is_found(victim, links, children) -> None:
    kept = kept_at(victim, links, len(links) // 2)
    found = found_after(victim, kept, update(state_node).where(state_node.c.path == "").values(children=children))
    assert "state doesn't follow from the one that was verified before" in found[0]


def test_a_node_that_is_no_text_is_found(victim, links) -> None:
    kept = kept_at(victim, links, len(links) // 2)
    blob = update(state_node).where(state_node.c.path == "").values(children=literal_column("X'2c'"))
    (found,) = found_after(victim, kept, blob)
    assert found == "the database refuses it" or "state doesn't follow from the one that was verified" in found


@pytest.mark.parametrize("missing", ["ff", "80", "00"])
def test_a_later_fact_that_no_node_has_is_missed(missing) -> None:
    facts = {first: (first + "0" * 62, "1" * 64) for first in ("ff", "80", "00")}
    with closing(WholeState()) as whole:
        for fact in facts.values():
            whole._take(fact)
        complete, later = _LaterFacts(whole, {}), _LaterFacts(whole, {})
        for first, fact in facts.items():
            assert complete.before(first, "".join(fact)) == ""
            if first != missing:
                assert later.before(first, "".join(fact)) == ""
        assert complete.all_taken()
        assert not later.all_taken()


def test_a_ledger_that_was_cut_back_is_found(victim, links) -> None:
    middle = len(links) // 2
    kept = kept_at(victim, links, middle)
    for end in (middle - 1, middle, len(links) - 2):
        cut = [delete(table).where(table.c.position > end) for table in reversed(APPEND_ONLY)]
        found = found_after(victim, kept, *cut)
        assert found
        assert (f"the ledger ends at entry {end}" in found[0]) == (end < middle)


def test_a_ledger_that_was_written_anew_is_found(victim, links) -> None:
    """Every hash, row and node is made to fit, and signed by some key: the head at the kept place is another one."""
    middle = len(links) // 2
    kept = kept_at(victim, links, middle)
    documents = victim.documents()
    changed = [*documents[:1], {**documents[1], "day": "2020-02-02"}, *documents[2:]]
    with victim.connection.begin() as transaction:
        with past_guards(victim.connection):
            victim.rewritten(changed)(victim.connection)
        there = lambda: nullcontext(victim.connection)  # noqa: E731
        whole = verify_resumable(None, connect=there)[0]
        found = verify_resumable(kept, connect=there)[0]
        transaction.rollback()
    assert whole == ()  # that takes the anchor
    assert [str(one) for one in found] == [
        f"entry {middle}: the entry is not the one that was verified: the chain was written anew"
    ]


def test_a_rule_that_a_later_entry_breaks_is_found_from_the_rebuilt_state(victim, links) -> None:
    """A second charge of a release that was charged before the kept entry, all else made to fit."""
    documents = victim.documents()
    first = next(number for number, one in enumerate(documents) if one["kind"].startswith("release-charged/"))
    kept = kept_at(victim, links, len(links) - 1)
    with victim.connection.begin() as transaction:
        with past_guards(victim.connection):
            victim.rewritten([*documents, documents[first]])(victim.connection)
        there = lambda: nullcontext(victim.connection)  # noqa: E731
        found = [str(one) for one in verify_resumable(kept, connect=there)[0]]
        transaction.rollback()
    assert any("charged a second time" in what for what in found)
    assert any("its sample was used" in what for what in found)
