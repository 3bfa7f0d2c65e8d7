"""A release opens its ledger twice: for looking until it is prepared, and for writing from its charge to its close."""

from __future__ import annotations

from typing import Any

import pytest
from crowdblend.accounting.kernel.ledger.database import Store


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the ledger is opened for, in order."""
    real, found = Store.__init__, []

    def made(self: Store, *given: Any, read_only: bool, **named: Any) -> None:
        found.append("looking" if read_only else "writing")
        real(self, *given, read_only=read_only, **named)

    monkeypatch.setattr(Store, "__init__", made)
    return found


def opened(openings: list[str]) -> list[str]:
    found = openings.copy()
    openings.clear()
    return found


def test_a_release_opens_the_ledger_for_looking_and_for_writing(desk, cut_off, openings) -> None:
    desk.add_dataset(epsilon="2")
    spec = desk.write_spec()
    desk.succeed("series", "add", "monthly", spec, "--releases", "2")
    opened(openings)
    desk.succeed("run", spec, "--release-id", "first")
    assert opened(openings) == ["looking", "writing"]
    desk.succeed("run", spec, "--series", "monthly", "--output", "of-series")
    assert opened(openings) == ["looking", "writing"]
    cut_off(spec, "--output", "resumed", stage="write_output")
    opened(openings)
    desk.succeed("run", spec, "--release-id", "one", "--output", "resumed")
    assert opened(openings) == ["looking", "writing"]


def test_what_charges_nothing_opens_it_for_looking_and_a_record_of_a_refusal_for_writing(desk, openings) -> None:
    desk.add_dataset(epsilon="0.2")
    spec = desk.write_spec()
    opened(openings)
    desk.succeed("run", spec, "--dry-run")
    assert opened(openings) == ["looking"]
    desk.succeed("run", spec, "--release-id", "one")
    opened(openings)
    desk.succeed("run", spec, "--release-id", "one")  # which looks the published release up
    assert opened(openings) == ["looking"]
    assert desk("run", spec, "--output", "two").code == 3
    assert opened(openings) == ["looking", "writing"]
    assert desk("run", spec, "--output", "two", "--dry-run").code == 3
    assert opened(openings) == ["looking"]
    (desk.folder / "people.csv").unlink()
    assert desk("run", spec, "--release-id", "none", "--output", "two").code == 3  # the budget is asked first
    assert opened(openings) == ["looking", "writing"]
