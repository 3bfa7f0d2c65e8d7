"""A source that was released under one name is known under it, whatever became of the notes; looking writes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.keys.private_store import ReleaseFolder
from crowdblend.accounting.keys.store_upkeep import (
    datasets_of_source,
    known_names_of_source,
    open_private_store,
    other_names_of_source,
)

LEDGER, OTHER = "a" * 64, "b" * 64
METADATA = b"census.csv, 3 columns"
DAMAGE = [b"", b"{", b"[]", b"{}", b"\xff", b"7"]


@pytest.fixture
def folder(tmp_path) -> ReleaseFolder:
    return open_private_store(tmp_path / "home").release_folder(ledger_id=LEDGER, release_id="one")


def noted(home: Path, folder: ReleaseFolder, dataset: str, ledger_id: str = LEDGER) -> tuple[str, ...]:
    return other_names_of_source(home, fingerprint=folder.fingerprint(METADATA), ledger_id=ledger_id, dataset=dataset)


def test_a_source_is_known_by_every_name_that_it_was_released_under(folder, tmp_path) -> None:
    home = tmp_path / "home"
    assert known_names_of_source(home, METADATA) == ()
    assert noted(home, folder, "census") == ()
    assert noted(home, folder, "census") == ()
    assert noted(home, folder, "people") == ("'census'",)
    assert noted(home, folder, "census", OTHER) == ("'census' in another ledger", "'people' in another ledger")
    assert known_names_of_source(home, METADATA) == ("'census'", "'people'")
    assert known_names_of_source(home, METADATA + b"!") == ()


def test_looking_for_names_makes_no_store(tmp_path) -> None:
    assert known_names_of_source(tmp_path / "home", METADATA) == ()
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_note_still_says_that_the_source_was_released(folder, tmp_path, damage) -> None:
    """Else a preview would take released records for public ones."""
    home = tmp_path / "home"
    noted(home, folder, "census")
    [note] = (home / "sources" / folder.fingerprint(METADATA)).iterdir()
    note.write_bytes(damage)
    assert known_names_of_source(home, METADATA) == ("of a damaged note",)
    noted(home, folder, "people")
    assert known_names_of_source(home, METADATA) == ("'people'", "of a damaged note")
    asked = {"ledger_id": LEDGER, "datasets": ["census", "other", "people"]}
    assert datasets_of_source(home, METADATA, **asked) == ("census", "people")
    assert datasets_of_source(home, METADATA, **asked | {"ledger_id": OTHER}) == ()
    assert datasets_of_source(home, METADATA + b"!", **asked) == ()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_warning_that_can_not_be_had_stops_nothing(folder, tmp_path, damage) -> None:
    home = tmp_path / "home"
    noted(home, folder, "census")
    [note] = (home / "sources" / folder.fingerprint(METADATA)).iterdir()
    note.write_bytes(damage)
    assert noted(home, folder, "people") == ()


def test_a_note_that_can_not_be_written_stops_nothing(folder, tmp_path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    assert noted(tmp_path / "home", folder, "census") == ()
    monkeypatch.undo()
    assert known_names_of_source(tmp_path / "home", METADATA) == ()
