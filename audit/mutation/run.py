"""Mutation testing on an even sample: which changes of the code no test notices; writes audit-results/mutation.json.

As a program: `python -m audit.mutation.run --minutes 20 [--seed 1] [--most 400]`. It goes on where it was
interrupted. Which tests run a line is found out once, under coverage; each mutant is then met by those tests alone, in
a fork of a process that has imported all but the product, first by the tests that run little else. Control: every test
that failed on a mutant is run on the unchanged product too, and what it noticed counts only if it passes there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .mutants import PROJECT, SCOPE, Mutant, lines_of_functions, sampled, version_of
from .outcomes import DEAD, reported, why_of

if TYPE_CHECKING:
    from coverage import CoverageData

TEST_FOLDERS = ("tests/mechanisms", "tests/accounting/theory", "tests/accounting/ledger", "tests/kernel", "tests/tasks")
NOT_NEEDED = ("schemathesis", "xdist", "anyio")  # plugins that cost each fork half a second
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::[^\s\[]+)", re.MULTILINE)
LOOKING_ON = "tests/architecture/test_records.py"  # and runs what runs at import, which no test's lines tell
OF_DECLARATIONS = ("core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue", "core/ReplaceBinaryOperator_Mul_Div")
KILLED_AT = {1: "killed", 2: "killed at import"}
USAGE_ERROR = 4
NOT_THERE = "ERROR: not found"
PATIENCE = 900
NOT_TIMED = 120  # seconds for each of the tests that are newer than the list


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=10**9, help="At most so many mutants.")
    parser.add_argument(
        "--files", nargs="*", type=Path, default=[], help="Only mutants of these, from the project's folder."
    )
    parser.add_argument("--tests", nargs="*", default=list(TEST_FOLDERS), help="Where tests are looked for.")
    parser.add_argument(
        "--seconds-of-tests", type=float, default=60, help="A mutant meets tests of its line up to these."
    )
    parser.add_argument("--again", action="store_true", help="Meet survivors anew, after tests were added.")
    parser.add_argument(
        "--more-tests", nargs="*", default=[], help="Also these, which are newer than the list of tests."
    )
    parser.add_argument("--state", type=Path, default=Path("audit-results/mutation"))
    parser.add_argument("--output", type=Path, default=Path("audit-results/mutation.json"))
    arguments = parser.parse_args()
    begun = time.monotonic()
    arguments.state.mkdir(parents=True, exist_ok=True)
    tests = Tests.known(
        arguments.state, folders=arguments.tests, more=arguments.more_tests, most=arguments.seconds_of_tests
    )
    order = sampled(arguments.seed, tuple(arguments.files) or SCOPE)
    done = _done(arguments.state / "met.jsonl", order, again=arguments.again)
    _import_all_but_the_product()
    with (arguments.state / "met.jsonl").open("a", encoding="utf-8") as log:
        for number, mutant in enumerate(order[: arguments.most]):
            if time.monotonic() > begun + 60 * arguments.minutes:
                break
            if mutant.name in done:
                continue
            outcome, by = met(mutant, tests, folder=arguments.state)
            if outcome == "late":
                continue
            done[mutant.name] = (outcome, by)
            row = {"version": version_of(mutant.path), "name": mutant.name, "outcome": outcome, "by": by}
            log.write(json.dumps(row) + "\n")
            log.flush()
            print(f"{number + 1}: {mutant.name}: {outcome}", flush=True)
    unsound = _unsound(arguments.state, {by for _, by in done.values() if by})
    outcomes = {name: "unclear" if by in unsound else outcome for name, (outcome, by) in done.items()}
    report = reported([mutant for mutant in order if mutant.name in done], outcomes, of=order, seed=arguments.seed)
    report["seconds"] = round(time.monotonic() - begun, 1)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(
        f"{report['met']} of {report['mutants']} mutants: {report['outcomes']}\n"
        f"unexplained: {len(report['findings'])}\ndecisive modules: {report['decisive']}; others: {report['others']}"
    )
    return 0 if report["outcome"] == "passed" else 1


class Tests:
    """Which tests run which line, and how long each takes.

    Args:
        of_line: file → line → tests.
        seconds: test → seconds.
        more: tests that every mutant meets besides.
        most: seconds of tests that a mutant meets.
    """

    def __init__(
        self, of_line: dict[str, dict[int, list[str]]], seconds: dict[str, float], more: list[str], *, most: float
    ) -> None:
        self.of_line, self.seconds, self.more, self.most = of_line, seconds, more, most
        self.breadth = Counter(name for lines in of_line.values() for names in lines.values() for name in names)

    @classmethod
    def known(cls, state: Path, *, folders: list[str], more: list[str], most: float) -> Tests:
        """What was found out before, or is found out now, which takes some minutes."""
        file = state / "tests.json"
        if not file.exists():
            file.write_text(json.dumps(_covered(state, folders)), encoding="utf-8")
        told = json.loads(file.read_text(encoding="utf-8"))
        lines = {path: {int(line): names for line, names in lines.items()} for path, lines in told["lines"].items()}
        return cls(lines, told["seconds"], more, most=most)

    def of(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """Tests that run a mutant's line, those first that run little else; at import, those of the whole file.

        How a data class is made, and which arguments are named, is met by tests that look at all of them and run none.

        Returns:
            those that a mutant meets first, by the seconds that they take; and the others.
        """
        declares = mutant.operator in OF_DECLARATIONS and mutant.change()[0].startswith(("@dataclass", "def ", "*,"))
        looking = [LOOKING_ON] if declares or mutant.operator == "core/RemoveDecorator" else []
        lines = self.of_line.get(str(mutant.path), {})
        # What runs at import was run by the test that came first, and is met by all of the file.
        own = lines.get(mutant.line) if mutant.line in lines_of_functions(mutant.path) else None
        names = own or sorted({name for tests in lines.values() for name in tests})
        narrowest = sorted(names, key=lambda name: (self.breadth[name], name))
        chosen, total = set(), 0.0
        for name in sorted(narrowest, key=self._seconds_of):  # as many tests as possible
            total += self._seconds_of(name)
            if total > self.most:
                break
            chosen.add(name)
        ordered = [name for name in narrowest if name in chosen] or narrowest[:1]
        return [*self.more, *looking, *ordered], [name for name in narrowest if name not in ordered]

    def _seconds_of(self, name: str) -> float:
        return self.seconds.get(name, 0.02)


def _covered(state: Path, folders: list[str]) -> dict[str, Any]:
    """Run the ordinary tests under coverage, each line with the tests that ran it."""
    from coverage import CoverageData

    data, seconds = state / "coverage", state / "seconds.json"
    settings = state / "coverage.ini"
    settings.write_text(f"[run]\nsource = mechanisms,accounting,tasks\ndata_file = {data.resolve()}\nbranch = true\n")
    words = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings.resolve()}", "-m", "pytest", "-q"]
    words += ["-p", "no:cacheprovider", "-p", "audit.mutation.by_test", "-m", "not long and not extra", *folders]
    own = {"PYTHONPATH": str(PROJECT), "CROWDBLEND_SECONDS": str(seconds.resolve())}
    with (state / "said").open("wb") as said:
        subprocess.run(words, cwd=PROJECT, env=os.environ | own, stdout=said, stderr=said, check=False)
    return covered_lines(CoverageData(str(data)), json.loads(seconds.read_text(encoding="utf-8")))


def covered_lines(data: CoverageData, seconds: dict[str, float]) -> dict[str, Any]:
    """Which tests ran which line.

    Args:
        data: coverage's, with a context for each test.
        seconds: test → seconds.

    Raises:
        RuntimeError: no line of the product was run by a test.
    """
    data.read()
    lines: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        path = Path(file)
        if path.is_relative_to(PROJECT):
            found = data.contexts_by_lineno(file)
            lines[str(path.relative_to(PROJECT))] = {
                line: sorted(context for context in contexts if context) for line, contexts in found.items()
            }
    if not any(tests for of_file in lines.values() for tests in of_file.values()):
        raise RuntimeError("no line of the product was run by a test")
    return {"lines": lines, "seconds": seconds}


def _import_all_but_the_product() -> None:
    """What tests need is imported once, before the forks; the product itself is each fork's own."""
    import click.testing
    import cryptography.hazmat.primitives.asymmetric.ed25519
    import httpx
    import hypothesis
    import jsonschema
    import mpmath
    import opendp.prelude
    import pytest
    import rich.progress
    import scipy.optimize
    import scipy.signal
    import scipy.stats
    import sqlalchemy.dialects.sqlite

    assert cryptography, (click, httpx, hypothesis, jsonschema, mpmath, opendp, pytest, rich, scipy, sqlalchemy)
    if found := [name for name in sys.modules if name.startswith("crowdblend.")]:
        raise RuntimeError(f"the product is imported already: {found[:3]}")


def met(mutant: Mutant, tests: Tests, *, folder: Path) -> tuple[str, str | None]:
    """What becomes of a mutant, and the test that failed on it.

    It is "no change", "not covered", "killed", "killed at import", "too slow", "survived", or "late" where the clock
    ran out rather than the processor's time: then it is met again another time.
    """
    source = mutant.source()
    if source is None:
        return "no change", None
    chosen, others = tests.of(mutant)
    if not chosen:
        return "not covered", None

    def tried(names: list[str], more: float) -> tuple[str, str | None]:
        allowed = int(20 + 4 * sum(tests.seconds.get(name, 0.02) for name in names) + more)
        return _tested((mutant.module, source), [*names, LOOKING_ON], seconds=allowed, log=folder / "last-run")

    outcome = tried(chosen, NOT_TIMED * len(tests.more))
    if outcome[0] == "survived" and others and why_of(mutant) is None:
        return tried(others, 0)  # how long tests took, and so which came first, must not decide who survives
    return outcome


def _tested(changed: tuple[str, str] | None, chosen: list[str], *, seconds: int, log: Path) -> tuple[str, str | None]:
    number = os.fork()
    if number == 0:
        _in_fork(changed, chosen, seconds=seconds, log=log)
    _, status = os.waitpid(number, 0)
    if os.WIFSIGNALED(status):
        return ("late" if os.WTERMSIG(status) == signal.SIGALRM else "too slow"), None
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return "survived", None
    said = log.read_text(encoding="utf-8", errors="replace")
    if code == USAGE_ERROR and NOT_THERE not in said:
        return "killed at import", None
    by = FAILED.findall(said)
    return KILLED_AT.get(code, f"pytest left with {code}"), by[0] if by else None


def _unsound(state: Path, killers: set[str]) -> set[str]:
    """Which of these tests fail on the unchanged product as well; each is run once."""
    file = state / "sound.json"
    known: dict[str, bool] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    fresh = sorted(killers - known.keys())
    while fresh:
        outcome, by = _tested(None, fresh, seconds=3600, log=state / "last-control")
        if outcome != "survived" and by not in fresh:
            raise RuntimeError(f"the control ended with {outcome}: {state / 'last-control'}")
        known |= dict.fromkeys(fresh, True) if by is None else {by: False}
        fresh = [name for name in fresh if name not in known]
    file.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
    return {name for name in killers if not known[name]}


def _in_fork(changed: tuple[str, str] | None, chosen: list[str], *, seconds: int, log: Path) -> None:
    """Run the tests on the mutant, a module's name and source, and end this process with pytest's code."""
    import resource
    import traceback

    code = 70
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.alarm(PATIENCE + seconds)
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.chdir(PROJECT)
        from .fork_imports import put_in_place

        if changed is not None:
            put_in_place(*changed)
        import pytest

        own = ["-c", str(PROJECT / "pyproject.toml"), "--rootdir", str(PROJECT)]
        own += ["-W", "ignore:Module already imported"]  # Hypothesis is, before the fork
        own += [word for name in NOT_NEEDED for word in ("-p", f"no:{name}")]
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *own, *chosen])
    except BaseException:  # noqa: BLE001 - SystemExit too: a fork that came back would be a second parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(code))


Known = dict[str, tuple[str, str | None]]
"""A mutant's name → its outcome, and the test that failed."""


def _done(log: Path, order: list[Mutant], *, again: bool) -> Known:
    """Outcomes of these versions of the sources; with `again` without the survivors."""
    if not log.exists():
        return {}
    versions = {mutant.name: version_of(mutant.path) for mutant in order}
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    found = {row["name"]: (row["outcome"], row["by"]) for row in rows if versions.get(row["name"]) == row["version"]}
    return {name: known for name, known in found.items() if not again or known[0] in (*DEAD, "no change")}


if __name__ == "__main__":
    sys.exit(main())
