"""One cause is one finding, however much follows from it."""

from __future__ import annotations

import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.ledger.chain.hashing import Finding
from crowdblend.accounting.ledger.entries.kinds import ReleasePublished, ReleaseReading
from crowdblend.accounting.ledger.rules.audit import NAMED, Replay, _Gap

pytestmark = pytest.mark.slow

DAY = date(2026, 3, 5)
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


@pytest.fixture
def rich(three):
    """Releases that were published, abandoned and given back, of a survey too, a series, a look, a raise."""
    three.register()
    three.add("survey", survey_rate=Decimal("0.1"))
    with three.writer() as writer:
        writer.mark_reading(three.charge("of-survey", dataset="survey"))
        receipt = writer.charge(three.of_series("first"))
        writer.mark_reading(receipt)
        writer.mark_published(receipt, FILES)
        writer.charge(three.of_series("second"))
        three.charge("four")
        three.abandon("four")
        three.charge("five")
        writer.record_look(dataset="census", what="its length", by="steward", day=DAY)
        writer.raise_budget(name="census", epsilon=Decimal(20), delta=Decimal("0.002"), reason="more", by="us", day=DAY)
    assert three.findings() == []
    return three


def test_a_missing_entry_is_one_finding_with_what_follows_from_it(rich, forge_past_guards) -> None:
    """Each entry in turn, also the first and the last, with the rows that it has left in the tables."""
    file = Path(rich.url.removeprefix("sqlite:///"))
    kept = shutil.copy(file, file.with_suffix(".kept"))
    kinds = rich.kinds()
    for position, kind in enumerate(kinds):
        forge_past_guards(rich, f"DELETE FROM entry WHERE position = {position}")
        found = rich.findings()
        assert len(found) == 1, (position, kind, found)
        if position < len(kinds) - 1:
            assert f"entry {position + 1}: entry {position} is missing" in found[0]
        shutil.copy(kept, file)
    assert rich.findings() == []


def test_the_tables_where_rows_are_left_behind_the_end_are_named_and_no_others(rich, forge_past_guards) -> None:
    """A release, a look and a raise are missing; of series and data sets nothing is."""
    forge_past_guards(rich, f"DELETE FROM entry WHERE position >= {len(rich.kinds()) - 3}")
    (found,) = rich.findings()
    assert found.endswith(
        "5 rows of this place or later ones are left in the tables account, release, sample, release_stage"
    )


def test_of_many_entries_that_build_on_a_missing_one_some_are_listed_and_the_others_counted() -> None:
    missing = Finding(position=3, what="entry 2 is missing")
    for more, told in ((-1, ""), (0, ""), (5, " and 5 more")):
        gap = _Gap(rows=(), groundless=list(range(100, 100 + NAMED + more)))
        listed = ", ".join(str(100 + number) for number in range(min(NAMED, NAMED + more)))
        assert f"what builds on it (entries {listed}{told}) can't be checked" in gap.reported(missing).what


def test_a_missing_entry_hides_no_other_cause(rich, forge_past_guards) -> None:
    """What was changed besides is a finding of its own, and what can't be checked is named."""
    forge_past_guards(
        rich,
        "DELETE FROM entry WHERE position = 2",
        "UPDATE account SET epsilon_spent = '0' WHERE sequence = 3",
        "DELETE FROM sample WHERE release_id = 'five'",
    )
    found = rich.findings()
    assert len(found) == 3, found
    missing = (
        "its rows in account, release, release_stage, sample and what builds on it (entries 3, 4) can't be checked"
    )
    assert missing in found[0]
    assert "account" in found[1]
    assert "sample" in found[2]


def test_a_release_that_was_never_charged_is_told_once() -> None:
    replay = Replay()
    [fault] = replay.apply(ReleaseReading(release_id="one"), position=1)
    assert "never charged" in fault
    assert replay.apply(ReleasePublished(release_id="one", output_hashes=FILES), position=2) == ()
