"""One cause is one finding, however much follows from it."""

from __future__ import annotations

import pytest

FILES = (("data.csv", "c" * 64),)
CAUSES = {
    "an account": ("UPDATE account SET epsilon_spent = '0' WHERE sequence = 1",),
    "an entry's ε": ("""UPDATE entry SET body = replace(body, '"epsilon":"0', '"epsilon":"1') WHERE position = 2""",),
    "an entry's mechanism": ("""UPDATE entry SET body = replace(body, '"k":20', '"k":40') WHERE position = 2""",),
    "an entry's hash": (f"UPDATE entry SET hash = '{'e' * 64}' WHERE position = 2",),
    "an entry's place in the chain": (f"UPDATE entry SET previous = '{'e' * 64}' WHERE position = 2",),
    "a stage": ("DELETE FROM release_stage WHERE release_id = 'one' AND stage = 'closed'",),
    "a root": (f"UPDATE signed_state SET root = '{'e' * 64}'",),
    "a node": ("UPDATE state_node SET children = ',' WHERE path = ''",),
    "a signature": ("UPDATE signed_state SET statement = ''",),
}


@pytest.fixture
def three(sqlite_books):
    sqlite_books.add()
    for release_id in ("one", "two", "three"):
        receipt = sqlite_books.charge(release_id)
        with sqlite_books.writer() as writer:
            writer.mark_reading(receipt)
            writer.mark_published(receipt, FILES)
    return sqlite_books


@pytest.mark.parametrize("cause", CAUSES)
def test_one_cause_is_one_finding(three, forge_past_guards, cause) -> None:
    assert three.findings() == []
    forge_past_guards(three, *(one.replace('":', '"\\:') for one in CAUSES[cause]))
    found = three.findings()
    assert len(found) == 1, found
