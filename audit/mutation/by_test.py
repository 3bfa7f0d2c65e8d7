"""A plugin of pytest: tells coverage which test runs, whatever calls it, and writes down how long each takes."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage

SECONDS: dict[str, float] = defaultdict(float)


def address(node: str) -> str:
    """A test's address without its parameters."""
    return node.split("[", 1)[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """All that a test runs is its own, its fixtures' set-up included."""
    running = Coverage.current()
    if running is not None:
        running.switch_context(address(item.nodeid))
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up set-up, call and tear-down."""
    SECONDS[address(report.nodeid)] += report.duration


def pytest_sessionfinish() -> None:
    """Write the seconds down."""
    Path(os.environ["CROWDBLEND_SECONDS"]).write_text(json.dumps(SECONDS), encoding="utf-8")
