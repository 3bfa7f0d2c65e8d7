"""An output appears whole or not at all, and only as the bytes that were prepared."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from crowdblend.mechanisms.kernel.errors import ReleaseFailed
from crowdblend.tasks.kernel.publication import (
    Staged,
    StagedRelease,
    bring_into_view,
    digest_of_file,
    staging_folder,
    try_staging,
    write_staged,
)

DAY = date(2026, 3, 1)


def prepared(tmp_path: Path) -> tuple[Staged, Path]:
    output = tmp_path / "deep" / "out"
    folder = staging_folder(output, sample_id="ab" * 32, private=tmp_path)

    def write(place: Path) -> None:
        (place / "data.csv").write_text("x\n1\n")
        (place / "certificate.json").write_text("{}")

    return write_staged(folder, day=DAY, write=write), output


def test_it_comes_into_view_in_one_step_with_the_time_of_its_day(tmp_path: Path) -> None:
    staged, output = prepared(tmp_path)
    assert not output.exists()
    assert staged.intact
    for _ in range(2):  # a second time changes nothing
        bring_into_view(staged, output)
        assert sorted(path.name for path in output.iterdir()) == ["certificate.json", "data.csv"]
        assert not staged.folder.exists()
    assert {path.stat().st_mtime for path in [output, *output.iterdir()]} == {1772323200.0}
    assert output.stat().st_mode & 0o777 == 0o755


def test_what_lies_in_the_way_is_left_alone(tmp_path: Path) -> None:
    staged, output = prepared(tmp_path)
    output.mkdir()
    (output / "mine").write_text("keep")
    with pytest.raises(ReleaseFailed):
        bring_into_view(staged, output)
    assert (output / "mine").read_text() == "keep"
    assert staged.intact


def test_other_bytes_are_found_whatever_their_digest_is(tmp_path: Path) -> None:
    staged, output = prepared(tmp_path)
    recorded = dict(staged.hashes)["data.csv"]
    data, smaller = staged.folder / "data.csv", set()
    for content in range(8):
        data.write_text(f"x\n{content + 2}\n")
        smaller.add(digest_of_file(data) < recorded)
        assert not staged.intact
        with pytest.raises(ReleaseFailed, match="not what was written"):
            bring_into_view(staged, output)
    assert smaller == {True, False}
    data.write_text("x\n1\n")
    assert staged.intact


def test_what_an_unfinished_attempt_left_is_replaced(tmp_path: Path) -> None:
    folder = staging_folder(tmp_path / "out", sample_id="ab" * 32, private=tmp_path)
    folder.mkdir()
    (folder / "half").write_text("written")
    staged, _ = prepared(tmp_path)
    assert [name for name, _ in staged.hashes] == ["certificate.json", "data.csv"]


def test_a_place_that_could_not_be_written_is_found_before_the_charge(tmp_path: Path) -> None:
    for output in (tmp_path / "out", tmp_path / "new" / "folders" / "out"):
        try_staging(output)
        assert [*tmp_path.iterdir()] == []
    with pytest.raises(OSError, match="too long"):
        try_staging(tmp_path / ("o" * 230))
    assert [*tmp_path.iterdir()] == []


class Store:
    """A place elsewhere, which gives back what it was brought."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.hashes: object = None

    def holds(self, hashes: object) -> bool:
        """Tell whether they are there."""
        return self.hashes == hashes

    def bring(self, folder: Path, hashes: object) -> None:
        """Take them."""
        assert self.hashes is None
        self.files, self.hashes = {path.name: path.read_bytes() for path in folder.rglob("*.csv")}, hashes


def test_a_place_elsewhere_has_the_files_once_and_the_folder_goes(tmp_path: Path) -> None:
    store = Store()
    folder = staging_folder(store, sample_id="ab" * 32, private=tmp_path)

    def write(place: Path) -> None:
        (place / "tables").mkdir()
        (place / "tables" / "data.csv").write_text("x\n1\n")

    staged = write_staged(folder, day=DAY, write=write)
    release = StagedRelease(sample_id="ab" * 32, output=store, groups=1, records=1, staged=staged, details={})
    assert not release.in_view
    (folder / "more").write_text("")
    with pytest.raises(ReleaseFailed, match="not what was written"):
        bring_into_view(staged, store)
    (folder / "more").unlink()
    bring_into_view(staged, store)
    bring_into_view(staged, store)
    assert (store.files, release.in_view, folder.exists()) == ({"data.csv": b"x\n1\n"}, True, False)
