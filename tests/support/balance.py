"""How tests are shared out among processes: by files; those that wait or take longest go first, some one by one."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Generator

import pytest

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
# jsonschema, which loads after this, would build grammars for seconds, for a format that no schema here has.

FIRST: dict[str, tuple[str, ...] | None] = {
    "tests/deploy/serving/test_events.py": None,
    "tests/deploy/serving/test_kills.py": None,
    "tests/deploy/test_interruptions.py": None,
    "tests/flows/test_crash_matrix.py": ("drawn", "noisy", "deletion", "series", "postgresql", "sqlite"),
    "tests/audit/test_leaks.py": ("fixed", "drawn", "points", "deletion"),
    "tests/accounting/ledger/forgery/test_entry_mutations.py": ("sqlite", "postgresql"),
    "tests/accounting/ledger/forgery/test_forgeries.py": ("sqlite", "postgresql"),
    "tests/accounting/ledger/test_charge_crashes.py": (),
    "tests/accounting/ledger/test_ledger_races.py": None,
    "tests/deploy/test_jobs.py": (),
    "tests/flows/test_races.py": (),
    "tests/docs/test_tutorial.py": (),
    "tests/accounting/dashboard/test_tampered.py": None,
    "tests/integration/test_release_vectors.py": None,
}
"""Files that go first: those that wait for a clock, then those that take longest.

The tests of a file with a tuple go to whichever process is free, one by one but for those with the same of these
parameters; those of any other file go to one process.
"""

PAGES = "tests/accounting/dashboard/"
"""The files of one process, whose server and browser they share."""


def unit_of(test: str) -> str:
    """The tests of one unit run in one process, one after the other."""
    file, _, name = test.partition("::")
    if file.startswith(PAGES):
        return PAGES
    together = FIRST.get(file)
    if together is None:
        return file
    parameters = re.split(r"[\[\]-]", name)
    return f"{file}::{next((word for word in together if word in parameters), name)}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: nobody looks for garbage meanwhile, nor ever among it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process has it left when the others are done."""
    if hasattr(config, "workerinput"):
        order = {file: number for number, file in enumerate(FIRST)}
        items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: one process more than there are processors, since some tests wait for a clock; at most four.

    Each loads all tests and what they need, which takes what a further process gains.
    """
    return min((os.cpu_count() or 1) + 1, 4)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """For `--dist loadfile`: units in the order of the tests."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class Balanced(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False
    return Balanced(config, log)
