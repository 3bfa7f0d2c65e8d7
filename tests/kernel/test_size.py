"""The kernel stays as small as it became: an expert reads it in a day."""

from __future__ import annotations

import pytest

from audit.kernel_size import FOLDERS, kernel_files, kinds, lines_of, shared_files

MOST = {"mechanisms/kernel": (9, 1122), "accounting/kernel": (16, 4588), "tasks/kernel": (5, 1526)}
"""Files and lines of each folder."""
MOST_OF_A_KIND = 476
MOST_SHARED = 3737


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_the_kernel_does_not_grow(folder: str) -> None:
    files, lines = MOST[folder]
    assert len(kernel_files(folder)) <= files
    assert lines_of(kernel_files(folder)) <= lines


def test_no_kind_is_longer_than_an_hour() -> None:
    assert {kind: lines_of(files) for kind, files in kinds().items() if lines_of(files) > MOST_OF_A_KIND} == {}
    assert all(path.is_file() for files in kinds().values() for path in files)
    assert lines_of(shared_files()) <= MOST_SHARED
