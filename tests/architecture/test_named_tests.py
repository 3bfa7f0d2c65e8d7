"""The tests that the mechanisms' page names are there: a renamed one must not leave a claim without its test."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = {"K": "kernel", "M": "mechanisms", "T": "accounting/theory", "F": "flows"}


def missing(page: str) -> list[str]:
    """Files, and fragments of names of test functions, that the page names and the tests don't have."""
    absent = []
    for room, name in re.findall(r"\b([KMTF])/(test_\w+)", page):
        if not (PROJECT / "tests" / ROOMS[room] / f"{name}.py").is_file():
            absent.append(f"{room}/{name}")
    for place in re.findall(r"\b((?:accounting/ledger|examples)/test_\w+)", page):
        if not (PROJECT / "tests" / f"{place}.py").is_file():
            absent.append(place)
    functions = [
        name
        for path in (PROJECT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    for named in re.findall(r"`(…[\w…\[\]]+|test_\w+…?)`", page):
        pattern = ".*".join(re.escape(part) for part in re.sub(r"\[\w+\]", "", named).split("…"))
        if not any(re.search(pattern, name) for name in functions):
            absent.append(named)
    return absent


def test_the_page_of_mechanisms_names_tests_that_are_there() -> None:
    page = (PROJECT / "docs" / "mechanisms" / "README.md").read_text(encoding="utf-8")
    assert len(re.findall("`…", page)) > 20
    assert missing(page) == []
    for control in ("M/test_no_such_file", "`…no_such_promise…`", "`test_no_such_promise`"):
        assert missing(page + control) == [control.strip("`")]
