"""A certificate's digest of the sources changes with any of them, and with nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

from crowdblend.flows.release import ROOMS, code_sources, digest_of_sources


def copied(folder: Path) -> dict[str, Path]:
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    return {name: Path(shutil.copytree(room, folder / name, ignore=ignored)) for name, room in ROOMS.items()}


def test_the_digest_is_that_of_any_place_with_the_same_sources(tmp_path) -> None:
    assert digest_of_sources(copied(tmp_path)) == code_sources()


def test_any_change_of_a_source_changes_it(tmp_path) -> None:
    rooms = copied(tmp_path)
    seen = {code_sources()}
    for name, room in rooms.items():
        path = next(path for path in sorted(room.rglob("*.py")) if path.stat().st_size)
        path.write_bytes(path.read_bytes() + b"\n")
        seen.add(digest_of_sources(rooms))
        path.rename(path.with_name("renamed_" + path.name))
        seen.add(digest_of_sources(rooms))
        (room / "__pycache__").mkdir(exist_ok=True)
        (room / "notes.txt").write_text(name)
        assert digest_of_sources(rooms) in seen, "what is no source doesn't count"
    assert len(seen) == 1 + 2 * len(rooms)
