"""What the kernel's tests work with: ledgers on both databases, goodness of fit, and brute force by definition."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brute_force import *  # noqa: F403 - its fixtures
from support.goodness_of_fit import *  # noqa: F403
from support.kernel_bench import Bench
from support.ledger_books import *  # noqa: F403
from support.ledger_books import leave_repeats_to_check


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make check` what repeats on PostgreSQL what SQLite's copy of a test keeps."""
    leave_repeats_to_check(items, Path(__file__).parent)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A fresh ledger and private store."""
    return Bench(tmp_path)
