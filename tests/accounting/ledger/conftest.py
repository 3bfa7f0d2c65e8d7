"""Ledgers to test with, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.ledger_books import *  # noqa: F403 - its fixtures
from support.ledger_books import leave_repeats_to_check


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to `make check` what repeats on PostgreSQL what SQLite's copy of a test keeps."""
    leave_repeats_to_check(items, Path(__file__).parent)
