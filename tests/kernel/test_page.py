"""The page of the kernel names what is there, and every file of the kernel."""

from __future__ import annotations

import re
from pathlib import Path

from audit.kernel_size import FOLDERS, kernel_files

PROJECT = Path(__file__).resolve().parents[2]
PAGE = (PROJECT / "docs" / "kernel.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`((?:accounting|docs|mechanisms|tasks|tests)/[\w/.-]+\.\w+)`", PAGE))


def test_every_file_that_the_page_names_is_there() -> None:
    assert len(NAMED) > 60
    assert [name for name in sorted(NAMED) if not (PROJECT / name).is_file()] == []


def test_every_file_of_the_kernel_is_named() -> None:
    files = {path.relative_to(PROJECT).as_posix() for folder in FOLDERS for path in kernel_files(folder)}
    assert sorted(files - NAMED) == []
