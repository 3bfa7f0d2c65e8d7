"""The mutation runner can tell a mutant that is noticed from one that is not, and from a test that always fails."""

from __future__ import annotations

import tomllib
from pathlib import Path

<<<<<<< HEAD
from audit.mutation.mutants import DECISIVE, SCOPE

PROJECT = Path(__file__).parents[2]
EXPLAINED = PROJECT / "audit" / "mutation" / "explained.toml"
=======
import pytest

from audit.mutation.mutants import DECISIVE, SCOPE, all_mutants

PROJECT = Path(__file__).parents[2]
EXPLAINED = PROJECT / "audit" / "mutation" / "explained.toml"
NOTICES = "tests/kernel/test_group_counts.py::test_suppression_is_a_function_of_what_it_publishes"
LOOKS_AWAY = "tests/kernel/test_group_counts.py::test_k_below_one_and_nothing_to_merge_are_refused"
SCRIPT = """
import json, sys
from pathlib import Path
from audit.mutation import run as mutation
from audit.mutation.mutants import all_mutants, version_of
path = Path("mechanisms/kinds/microdata.py")
[mutant] = [
    one for one in all_mutants((path,))
    if one.operator == "core/ReplaceComparisonOperator_GtE_Gt" and "k)" in one.change()[0]
]
assert mutant.change() == ("large = np.flatnonzero(counts >= k)", "large = np.flatnonzero(counts > k)"), mutant.change()
mutation._import_all_but_the_product()
state, failing = Path(sys.argv[1]), sys.argv[2]
told = {}
for name, tests in {"noticed": [NOTICES], "looked away": [LOOKS_AWAY], "broken": [failing], "none": []}.items():
    known = mutation.Tests({str(path): {mutant.line: tests}}, dict.fromkeys(tests, 5.0), [], most=90)
    told[name] = mutation.met(mutant, known, folder=state)
told["unsound"] = sorted(mutation._unsound(state, {NOTICES, failing}))
row = {"version": version_of(path), "name": mutant.name, "outcome": "survived", "by": None}
older = row | {"version": "0" * 64, "outcome": "killed"}
(state / "met.jsonl").write_text(json.dumps(row) + "\\n" + json.dumps(older) + "\\n")
told["taken up"] = [mutation._done(state / "met.jsonl", [mutant], again=again) for again in (False, True)]
told["report"] = mutation.reported([mutant], {mutant.name: "survived"}, of=[mutant], seed=1)
print("TOLD" + json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What becomes of one mutant (a group of exactly k is suppressed) before several tests."""
    folder = tmp_path_factory.mktemp("mutation")
    name = "audit/mutation/always_fails.py::test_that_always_fails"
    code = SCRIPT.replace("NOTICES", repr(NOTICES)).replace("LOOKS_AWAY", repr(LOOKS_AWAY))
    words = [sys.executable, "-c", code, str(folder), name]
    done = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.split("TOLD")[-1]) | {"failing": name}


@pytest.mark.slow
def test_a_mutant_is_killed_by_a_test_that_notices_it_and_survives_another(told) -> None:
    assert told["noticed"] == ["killed", NOTICES]
    assert told["looked away"] == ["survived", None]
    assert told["none"] == ["not covered", None]


@pytest.mark.slow
def test_a_test_that_fails_on_the_product_itself_kills_nothing(told) -> None:
    assert told["broken"][1] == told["failing"]
    assert told["unsound"] == [told["failing"]]


@pytest.mark.slow
def test_results_of_another_version_are_not_taken_up_and_survivors_can_be_met_again(told) -> None:
    [first], then = told["taken up"]
    assert told["taken up"][0][first] == ["survived", None]
    assert then == {}


@pytest.mark.slow
def test_an_unexplained_survivor_is_a_finding(told) -> None:
    report = told["report"]
    assert report["outcome"] == "failed"
    assert len(report["findings"]) == 1
    assert report["others"] == {"met": 1, "survived": 1, "surviving_share": 1.0, "unexplained": 1}
>>>>>>> 36257737 (Fewer single explanations of mutants, each of one that no form leaves out; the page says what is in scope)


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
        ("accounting/kernel/prices/privacy_profile.py", "if holds(middle):", True),
        ("mechanisms/kernel/sampling.py", "_BLOCK_RECORDS = 1 << 17", False),
    ],
)
def test_what_may_show_a_key_or_move_a_bound_stays_among_the_mutants(path, fragment, there) -> None:
    """Left out by its form is what is rounding, batches, messages or remembered."""
    lines = (PROJECT / path).read_text("utf-8").splitlines()
    [number] = [number for number, line in enumerate(lines, 1) if fragment in line]
    assert (number in {one.line for one in all_mutants((Path(path),))}) is there
