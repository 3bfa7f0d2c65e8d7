"""The tree of the ledger's state has one root for each set of facts, and no stored node is believed against it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import pytest
from crowdblend.accounting.ledger.chain import signed_state
from crowdblend.accounting.ledger.chain.hashing import (
    EMPTY_NODE,
    EMPTY_ROOT,
    NodeForged,
    StateTree,
    node_digest,
    nodes_of,
)
from crowdblend.accounting.ledger.chain.signed_state import ForgedState, SignedState
from crowdblend.accounting.ledger.database.schema import entry, sample
from crowdblend.accounting.ledger.database.store import open_store
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, event

# Keys that share long beginnings too, as no digests do.
KEYS = st.one_of(
    st.integers(0, 40).map(lambda number: hashlib.sha256(b"%d" % number).hexdigest()),
    st.integers(0, 20).map(lambda number: f"{'a' * 60}{number:04x}"),
)
FACTS = st.dictionaries(KEYS, st.integers(0, 3).map(lambda number: f"{number:064x}"), max_size=30)


def by_the_definition(facts: Mapping[str, str], path: str = "") -> str:
    """The topmost node, straight from what a node is: 16 children, each nothing, one fact, or a node's digest."""
    children = []
    for digit in "0123456789abcdef":
        below = {key: value for key, value in facts.items() if key.startswith(path + digit)}
        if len(below) > 1:
            children.append(node_digest(by_the_definition(below, path + digit)))
        else:
            children.append("".join(key + value for key, value in below.items()))
    return ",".join(children)


def stored(facts: Mapping[str, str], order: list[str] | None = None) -> tuple[str, dict[str, str]]:
    """The root and the nodes after putting facts one by one, each into what the ones before have stored."""
    root, nodes = EMPTY_ROOT, {"": EMPTY_NODE}
    for key in order or sorted(facts):
        tree = StateTree(root, lambda paths, nodes=nodes: {path: nodes[path] for path in paths if path in nodes})
        tree.put(key, facts[key])
        root, nodes = tree.root, nodes | tree.changed
    return root, nodes


def parts_of(facts: Mapping[str, str]) -> list[list[bytes]]:
    """The facts by the first byte of their keys, from the last to the first."""
    whole = sorted(bytes.fromhex(key + value) for key, value in facts.items())
    return [[fact for fact in whole if fact[0] == first] for first in reversed(range(256))]


@settings(max_examples=60, deadline=None)
@given(facts=FACTS, data=st.data())
def test_the_root_is_that_of_the_set_in_whatever_order(facts, data) -> None:
    root, nodes = stored(facts, data.draw(st.permutations(sorted(facts))))
    assert root == node_digest(by_the_definition(facts))
    whole = list(nodes_of(parts_of(facts)))
    assert dict(whole) == nodes
    assert [path for path, _ in whole] == sorted(nodes, reverse=True)
    tree = StateTree(root, lambda paths: {path: nodes[path] for path in paths if path in nodes})
    for key in {*facts, *(data.draw(st.lists(KEYS, max_size=5)))}:
        assert tree.value(key) == facts.get(key)


@settings(max_examples=60, deadline=None)
@given(facts=FACTS, other=FACTS)
def test_another_set_has_another_root(facts, other) -> None:
    assert (stored(facts)[0] == stored(other)[0]) == (facts == other)


@settings(max_examples=60, deadline=None)
@given(facts=FACTS.filter(lambda facts: len(facts) > 1), data=st.data())
def test_no_forged_node_is_believed(facts, data) -> None:
    """Whatever one node is changed to: a look-up gives what was put, or says that a node is forged."""
    root, nodes = stored(facts)
    path = data.draw(st.sampled_from(sorted(nodes)))
    without = {key: value for key, value in facts.items() if key != max(facts)}
    changed = data.draw(
        st.sampled_from([None, "", EMPTY_NODE, nodes[path] + ",", by_the_definition(without), nodes[path].upper()])
    )
    if changed == nodes[path]:
        return
    forged = {place: text for place, text in (nodes | {path: changed}).items() if text is not None}
    for key in facts:
        tree = StateTree(root, lambda paths: {place: forged[place] for place in paths if place in forged})
        tree.fetch([key], depth=3)
        try:
            assert tree.value(key) == facts[key]
        except NodeForged:
            continue


def test_a_node_of_another_form_is_refused_though_the_root_is_its_digest() -> None:
    for text in ("", "x" + EMPTY_NODE, EMPTY_NODE + ",", "," * 14):
        tree = StateTree(node_digest(text), lambda _, text=text: {"": text})
        with pytest.raises(NodeForged, match="another form"):
            tree.value("0" * 64)


def test_nodes_are_loaded_in_one_go_and_no_node_twice() -> None:
    facts = {f"{'a' * 3}{number:061x}": "0" * 64 for number in range(2)}
    root, nodes = stored(facts)
    asked: list[list[str]] = []

    def load(paths) -> dict[str, str]:
        asked.append(sorted(paths))
        return {path: nodes[path] for path in paths if path in nodes}

    tree, key = StateTree(root, load), min(facts)
    tree.fetch([key, max(facts)], depth=3)
    tree.fetch([key], depth=2)
    assert asked == [["", "a", "aa"]]
    assert tree.value(key) == "0" * 64
    assert asked[1:] == [[key[:length]] for length in range(3, 64)]
    tree.fetch([max(facts)], depth=4)
    assert tree.value(max(facts)) == "0" * 64
    assert len(asked) == 62


def test_paths_are_looked_up_by_the_five_hundred() -> None:
    """A database takes so many values in one statement."""
    for number, parts in ((0, []), (1, [1]), (500, [500]), (501, [500, 1]), (1000, [500, 500])):
        paths = [str(path) for path in range(number)]
        assert [len(part) for part in signed_state._parts(paths)] == parts
        assert [path for part in signed_state._parts(paths) for path in part] == paths


def test_a_fact_is_looked_up_by_one_statement_of_six_paths(sqlite_books) -> None:
    """Enough for a ledger of millions of facts, at 16 children a node."""
    asked: list[int] = []
    store = open_store(sqlite_books.url, anchoring=None)
    with store.looking() as connection:
        event.listen(connection, "before_cursor_execute", lambda *call: asked.append(len(call[3])))
        assert SignedState(connection).count("rows", "sample") == 0
    store.close()
    assert asked == [6]


def test_facts_of_rows_and_counts_are_those_of_the_first_version() -> None:
    """SHA-256 of the domain line and the JSON of the parts; a count's value is the number itself."""

    def digest(*parts: object) -> str:
        text = json.dumps(parts, separators=(",", ":"))
        return hashlib.sha256(b"crowdblend ledger fact 1\n" + text.encode()).hexdigest()

    row = {"sample_id": "5" * 64, "release_id": "two", "purpose": "release", "position": 9}
    cells = [row[column.name] for column in sample.columns]
    expected = (digest("key", "sample", "5" * 64), digest("row", "sample", *cells))
    assert signed_state.row_fact(sample, row) == expected
    assert signed_state.count_fact("rows", "sample", 12) == (digest("count", "rows", "sample"), "0" * 62 + "12")


def test_a_chain_ends_before_its_first_entry_where_it_has_none() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        entry.create(connection)
        assert signed_state.head_of(connection) == signed_state.Place(position=-1, hash="0" * 64)
        for position in (1, 0):
            own, previous = f"{position:064x}", f"{position + 8:064x}"
            connection.execute(
                entry.insert().values(position=position, previous=previous, hash=own, kind="k", body="{}")
            )
        assert signed_state.head_of(connection) == signed_state.Place(position=1, hash=f"{1:064x}")
    engine.dispose()


def test_a_row_that_the_signed_state_has_is_not_written_again_though_its_table_lost_it(sqlite_books) -> None:
    """The last guard, behind the rules that look it up: else a sample that was taken out would serve once more."""
    sqlite_books.add()
    receipt = sqlite_books.charge("one")
    row = {"sample_id": receipt.sample_id, "release_id": "two", "purpose": "release", "position": 9}
    fresh = row | {"sample_id": "5" * 64}
    store = open_store(sqlite_books.url, anchoring=sqlite_books.anchoring)
    with store.looking() as connection, pytest.raises(ForgedState, match="missing in its table, and the signed chain"):
        SignedState(connection).add([(sample, fresh), (sample, row)], {})
    store.close()


def test_nothing_is_looked_up_where_nothing_vouches_for_the_tables(sqlite_books) -> None:
    store = open_store(sqlite_books.url, anchoring=None)
    with store.reading() as connection, pytest.raises(ForgedState, match="nothing vouches for the ledger's tables"):
        SignedState(connection)
    with store.looking() as connection:
        assert SignedState(connection).count("entries", "ledger-created/1") == 1
    store.close()
