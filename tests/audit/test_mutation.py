"""The mutation runner can tell a mutant that is noticed from one that is not, and from a test that always fails."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from audit.mutation import run
from audit.mutation.mutants import DECISIVE, SCOPE, all_mutants
from audit.mutation.outcomes import why_of

PROJECT = Path(__file__).parents[2]
EXPLAINED = PROJECT / "audit" / "mutation" / "explained.toml"


def test_every_explanation_is_of_a_line_that_stands() -> None:
    for entry in tomllib.loads(EXPLAINED.read_text("utf-8"))["mutant"]:
        assert entry["before"] in {line.strip() for line in (PROJECT / entry["path"]).read_text("utf-8").splitlines()}
        assert entry["before"] != entry["after"]


def test_every_module_that_is_named_is_there() -> None:
    """A module that was renamed must not fall out of the scope in silence."""
    assert {path.parts[0] for path in SCOPE} == {"mechanisms", "accounting", "tasks"}
    assert [str(path) for path in (*SCOPE, *DECISIVE) if not (PROJECT / path).is_file()] == []
    assert set(SCOPE) >= DECISIVE


@pytest.mark.parametrize(
    ("path", "fragment", "there"),
    [
        ("mechanisms/kernel/sampling.py", "if not 0 < rate < 1:", True),
        ("mechanisms/kernel/sampling.py", "limit >> 56", True),
        ("mechanisms/kernel/contributions.py", "field(repr=False)", True),
        ("accounting/kernel/prices/arithmetic.py", "if holds(middle):", True),
        ("mechanisms/kernel/sampling.py", "_BLOCK_RECORDS = 1 << 17", False),
    ],
)
def test_what_may_show_a_key_or_move_a_bound_stays_among_the_mutants(path, fragment, there) -> None:
    """Left out by its form is what is rounding, batches, messages or remembered."""
    lines = (PROJECT / path).read_text("utf-8").splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if fragment in line]
    assert (number in {one.line for one in all_mutants((Path(path),))}) is there


@pytest.mark.parametrize("noticed", [True, False])
def test_a_survivor_meets_every_test_of_its_line_however_long_tests_took(noticed, tmp_path, monkeypatch) -> None:
    [mutant, *_] = all_mutants((Path("mechanisms/kernel/sampling.py"),))
    assert why_of(mutant) is None
    long, short = "tests/kernel/test_sampling.py::test_long", "tests/kernel/test_sampling.py::test_short"
    known = run.Tests({str(mutant.path): {mutant.line: [long, short]}}, {long: 61.0, short: 1.0}, more=[], most=60)
    met_by: list[str] = []

    def tried(changed, chosen, *, seconds, log):
        met_by.extend(name for name in chosen if "::" in name)
        return ("killed", long) if noticed and long in chosen else ("survived", None)

    monkeypatch.setattr(run, "_tested", tried)
    assert run.met(mutant, known, folder=tmp_path) == (("killed", long) if noticed else ("survived", None))
    assert met_by == [short, long]
