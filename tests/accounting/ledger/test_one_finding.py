"""One cause is one finding, however much follows from it; past a broken link one more says what isn't checked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

FILES = (("data.csv", "c" * 64),)
CHANGED = "entry {0}: the entry's content differs from its hash"
UNCHECKED = "entry {0}: prices and rules of this entry and those after it can't be checked, since the chain is broken"
UNSIGNED = "no signature holds over the last entry, "
OTHER_COLUMNS = "what it takes for itself alone differs from what its columns say"
CAUSES = {
    "ε": ("""UPDATE entry SET body = replace(body, '"epsilon"\\:"0', '"epsilon"\\:"1') WHERE position = 2""", CHANGED),
    "mechanism": ("""UPDATE entry SET body = replace(body, '"k"\\:20', '"k"\\:40') WHERE position = 2""", CHANGED),
    "no ASCII": ("UPDATE entry SET body = body || 'é' WHERE position = 2", CHANGED),
    "hash": (f"UPDATE entry SET hash = '{'e' * 64}' WHERE position = 2", CHANGED),
    "previous": (
        f"UPDATE entry SET previous = '{'e' * 64}' WHERE position = 2",
        "entry {0}: the entry does not continue",
    ),
    "release id": ("UPDATE entry SET release_id = 'other' WHERE position = 2", OTHER_COLUMNS),
    "sample": ("UPDATE entry SET sample_id = NULL WHERE position = 2", OTHER_COLUMNS),
    "second sample": ("UPDATE entry SET selection_sample_id = 'x' WHERE position = 3", OTHER_COLUMNS),
    "state": ("""UPDATE snapshot SET state = replace(state, '"one"', '"two"')""", UNSIGNED),
    "signature": ("UPDATE snapshot SET statement = ''", UNSIGNED),
    "snapshot": ("DELETE FROM snapshot", UNSIGNED),
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
    statement, told = CAUSES[cause]
    forge_past_guards(three, statement)
    first, *more = three.findings()
    assert told.format(2) in first
    broken = told == CHANGED or cause == "previous"
    assert [one.startswith(UNCHECKED.format(2)) for one in more] == [True] * broken


def test_a_missing_entry_is_told_by_the_next_one_or_by_the_head(three, forge_past_guards) -> None:
    """Each entry in turn, also the first and the last."""
    file = Path(three.url.removeprefix("sqlite:///"))
    kept = shutil.copy(file, file.with_suffix(".kept"))
    last = len(three.kinds()) - 1
    for position in range(last + 1):
        forge_past_guards(three, f"DELETE FROM entry WHERE position = {position}")
        first, *more = three.findings()
        if position == last:
            assert (first.startswith(UNSIGNED), more) == (True, [])
        else:
            after = position + 1
            assert first == f"entry {after}: entry {position} is missing: the next entry has position {after}"
            assert [one.startswith(UNCHECKED.format(after)) for one in more] == [True]
        shutil.copy(kept, file)
    assert three.findings() == []


def test_a_broken_link_hides_no_other_one(three, forge_past_guards) -> None:
    forge_past_guards(three, *(f"UPDATE entry SET body = 'x' WHERE position = {place}" for place in (2, 5, 7)))
    found = three.findings()
    assert [one for one in found if not one.startswith(UNCHECKED.format(2))] == [CHANGED.format(n) for n in (2, 5, 7)]
    assert len(found) == 4
