"""A fixed specification, data set and key give the bytes, prices, entries and certificates that they always gave."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import Commands

PROGRAM = Path(__file__).with_name("release_vectors.py")
VECTORS = Path(__file__).parents[1] / "vectors" / "releases.json"


def vectors_in(folder: Path, fork_server: Path, *share: int) -> Any:
    """What this version makes of the same input, or of a share of it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    done = Commands(fork_server).run(*share, folder=folder, environment=environment, script=PROGRAM.read_text("utf-8"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made(fork_server: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return vectors_in(tmp_path_factory.mktemp("vectors"), fork_server)


@pytest.fixture(scope="module")
def known() -> Any:
    """What it has always been."""
    return json.loads(VECTORS.read_text("utf-8"))


def differences(known: Any, made: Any, where: str = "") -> Iterator[str]:
    """Where two values of JSON differ, by path."""
    if isinstance(known, dict) and isinstance(made, dict):
        for name in known.keys() | made.keys():
            yield from differences(known.get(name), made.get(name), f"{where}/{name}")
    elif isinstance(known, list) and isinstance(made, list) and len(known) == len(made):
        for place, (before, after) in enumerate(zip(known, made, strict=True)):
            yield from differences(before, after, f"{where}/{place}")
    elif known != made:
        yield f"{where}: {known} became {made}"


def test_the_first_plans_and_releases_have_not_changed(known, fork_server, tmp_path) -> None:
    made = vectors_in(tmp_path, fork_server, 3)
    for part in ("plans", "releases"):
        assert len(made[part]) == 3
        assert sorted(differences({name: known[part][name] for name in made[part]}, made[part])) == []
    assert len(made["ledger"]) > 3 * len(made["releases"])
    assert sorted(differences(known["ledger"][: len(made["ledger"])], made["ledger"])) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", ["plans", "releases", "datasets", "ledger", "anchor", "kept"])
def test_nothing_has_changed(known, made, part) -> None:
    assert sorted(differences(known[part], made[part])) == []


def test_every_mechanism_that_a_charge_knows_is_among_them(known) -> None:
    kinds = {line["entry"].get("mechanism", {}).get("kind") for line in known["ledger"]} - {None}
    assert len(kinds) >= 14, sorted(kinds)
