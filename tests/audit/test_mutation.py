"""The mutation runner can tell a mutant that is noticed from one that is not, and from a test that always fails."""

from __future__ import annotations

import tomllib
from pathlib import Path

from audit.mutation.mutants import DECISIVE, SCOPE

PROJECT = Path(__file__).parents[2]
EXPLAINED = PROJECT / "audit" / "mutation" / "explained.toml"


def test_every_explanation_is_of_a_line_that_stands() -> None:
    for entry in tomllib.loads(EXPLAINED.read_text("utf-8"))["mutant"]:
        assert entry["before"] in {line.strip() for line in (PROJECT / entry["path"]).read_text("utf-8").splitlines()}
        assert entry["before"] != entry["after"]


def test_every_module_that_is_named_is_there() -> None:
    """A module that was renamed must not fall out of the scope in silence."""
    assert {path.parts[0] for path in SCOPE} == {"mechanisms", "accounting"}
    assert [str(path) for path in (*SCOPE, *DECISIVE) if not (PROJECT / path).is_file()] == []
    assert set(SCOPE) >= DECISIVE
