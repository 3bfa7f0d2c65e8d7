"""Mutation testing on an even sample: which changes of the code no test notices; writes audit-results/mutation.json.

As a program: `python tests/audit/mutation/mutation.py --minutes 20 [--seed 1] [--most 400]`. It goes on where it was
interrupted. Which tests run a line is found out once, under coverage; each mutant is then met by those tests alone, in
a fork of a process that has imported all but the product, the quickest tests first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from mutants import PROJECT, Mutant, sampled, version_of

ROOMS = ("tests/mechanisms", "tests/accounting/theory", "tests/accounting/ledger")
EXPLAINED = Path(__file__).with_name("explained.toml")
MOST_SECONDS_OF_TESTS = 90.0
DURATION = re.compile(r"^ *([\d.]+)s (?:call|setup|teardown) +(\S+?)(?:\[.*)?$", re.MULTILINE)
KILLED_AT = {1: "killed", 2: "killed at import", 3: "killed", 4: "killed at import"}


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=10**9, help="At most so many mutants.")
    parser.add_argument("--again", action="store_true", help="Meet survivors anew, after tests were added.")
    parser.add_argument("--state", type=Path, default=Path("audit-results/mutation"))
    parser.add_argument("--output", type=Path, default=Path("audit-results/mutation.json"))
    given = parser.parse_args()
    begun = time.monotonic()
    given.state.mkdir(parents=True, exist_ok=True)
    tests = Tests.known(given.state)
    order = sampled(given.seed)
    done = _done(given.state / "met.jsonl", version=version_of(), again=given.again)
    _import_all_but_the_product()
    with (given.state / "met.jsonl").open("a", encoding="utf-8") as log:
        for number, mutant in enumerate(order[: given.most]):
            if time.monotonic() > begun + 60 * given.minutes:
                break
            if mutant.name in done:
                continue
            outcome = met(mutant, tests, folder=given.state)
            done[mutant.name] = outcome
            log.write(json.dumps({"version": version_of(), "name": mutant.name, "outcome": outcome}) + "\n")
            log.flush()
            print(f"{number + 1}: {mutant.name}: {outcome}", flush=True)
    report = _report([mutant for mutant in order if mutant.name in done], done, of=len(order), seed=given.seed)
    report["seconds"] = round(time.monotonic() - begun, 1)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(
        f"{report['met']} of {report['mutants']} mutants: {report['outcomes']}; unexplained: {len(report['findings'])}"
    )
    return 0 if report["outcome"] == "passed" else 1


class Tests:
    """Which tests run which line, and how long each takes.

    Args:
        of_line: file → line → tests.
        seconds: test → seconds.
    """

    def __init__(self, of_line: dict[str, dict[int, list[str]]], seconds: dict[str, float]) -> None:
        self.of_line, self.seconds = of_line, seconds

    @classmethod
    def known(cls, state: Path) -> Tests:
        """What was found out before, or is found out now, which takes some minutes."""
        file = state / "tests.json"
        if not file.exists():
            file.write_text(json.dumps(_covered(state)), encoding="utf-8")
        told = json.loads(file.read_text(encoding="utf-8"))
        lines = {path: {int(line): names for line, names in lines.items()} for path, lines in told["lines"].items()}
        return cls(lines, told["seconds"])

    def of(self, mutant: Mutant) -> list[str]:
        """Tests that run a mutant's line, quickest first; where the line runs at import, those of the whole file."""
        lines = self.of_line.get(str(mutant.path), {})
        names = lines.get(mutant.line) or sorted({name for tests in lines.values() for name in tests})
        chosen, total = [], 0.0
        for name in sorted(names, key=lambda name: (self.seconds.get(name, 0.0), name)):
            total += self.seconds.get(name, 0.02)
            if chosen and total > MOST_SECONDS_OF_TESTS:
                break
            chosen.append(name)
        return chosen


def _covered(state: Path) -> dict[str, Any]:
    """Run the ordinary tests under coverage, each line with the tests that ran it."""
    from coverage import CoverageData

    data = state / "coverage"
    settings = state / "coverage.ini"
    settings.write_text(
        f"[run]\nsource = mechanisms,accounting\ndata_file = {data.resolve()}\ndynamic_context = test_function\n"
    )
    words = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings.resolve()}", "-m", "pytest", "-q"]
    words += ["-p", "no:cacheprovider", "-m", "not long and not extra", "--durations=0", "--durations-min=0.01", *ROOMS]
    said = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False).stdout
    return covered_lines(CoverageData(str(data)), said)


def covered_lines(data: Any, said: str) -> dict[str, Any]:
    """What coverage's data and pytest's durations tell.

    Args:
        data: coverage's, with a context for each test.
        said: what pytest printed.
    """
    data.read()
    seconds: dict[str, float] = defaultdict(float)
    for amount, name in DURATION.findall(said):
        seconds[name] += float(amount)
    lines: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        path = Path(file)
        if path.is_relative_to(PROJECT):
            found = data.contexts_by_lineno(file)
            lines[str(path.relative_to(PROJECT))] = {
                line: sorted({_node(context) for context in contexts if context}) for line, contexts in found.items()
            }
    return {"lines": lines, "seconds": dict(seconds)}


def _node(context: str) -> str:
    """A test's address from coverage's name for it: tests.room.test_file.test_name."""
    *folders, file, name = context.split(".")
    return f"{'/'.join((*folders, file))}.py::{name}"


def _import_all_but_the_product() -> None:
    """What tests need is imported once, before the forks; the product itself is each fork's own."""
    import cryptography.hazmat.primitives.asymmetric.ed25519
    import hypothesis
    import mpmath
    import opendp.prelude
    import pytest
    import scipy.signal
    import scipy.special
    import sqlalchemy.dialects.sqlite

    assert cryptography, (hypothesis, mpmath, opendp, pytest, scipy, sqlalchemy)
    if found := [name for name in sys.modules if name.startswith("crowdblend.")]:
        raise RuntimeError(f"the product is imported already: {found[:3]}")


def met(mutant: Mutant, tests: Tests, *, folder: Path) -> str:
    """What becomes of a mutant: "no change", "not covered", "killed", "killed at import", "too slow" or "survived"."""
    source = mutant.source()
    if source is None:
        return "no change"
    chosen = tests.of(mutant)
    if not chosen:
        return "not covered"
    allowed = int(20 + 4 * sum(tests.seconds.get(name, 0.02) for name in chosen))
    number = os.fork()
    if number == 0:
        _in_fork(mutant.module, source, chosen, seconds=allowed, log=folder / "last-run")
    _, status = os.waitpid(number, 0)
    if os.WIFSIGNALED(status):
        return "too slow"
    code = os.waitstatus_to_exitcode(status)
    return "survived" if code == 0 else KILLED_AT.get(code, f"pytest left with {code}")


def _in_fork(module: str, source: str, chosen: list[str], *, seconds: int, log: Path) -> None:
    """Run the tests on the mutant and end this process with pytest's code; processor time is limited, not the clock."""
    import resource

    code = 70
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.chdir(PROJECT)
        from fork_imports import put_in_place

        put_in_place(module, source)
        import pytest

        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *chosen])
    finally:
        os._exit(int(code))


def _done(log: Path, *, version: str, again: bool) -> dict[str, str]:
    """Outcomes of this version of the sources; with `again` without the survivors."""
    if not log.exists():
        return {}
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    found = {row["name"]: row["outcome"] for row in rows if row["version"] == version}
    return {name: outcome for name, outcome in found.items() if not again or outcome not in SURVIVING}


SURVIVING = ("survived", "not covered")


def _report(mutants: list[Mutant], done: dict[str, str], *, of: int, seed: int) -> dict[str, Any]:
    """The sample's outcomes, and each survivor with its explanation."""
    known = {(one["path"], one["before"], one["after"]): one["why"] for one in explanations()}
    outcomes = Counter(done[mutant.name] for mutant in mutants)
    survivors, findings = [], []
    for mutant in mutants:
        if done[mutant.name] not in SURVIVING:
            continue
        before, after = mutant.change()
        why = known.get((str(mutant.path), before, after))
        survivors.append({"name": mutant.name, "before": before, "after": after, "why": why})
        if why is None:
            findings.append(f"{mutant.name}: {before!r} -> {after!r} {done[mutant.name]}")
    counted = len(mutants) - outcomes["no change"]
    at_import = outcomes["killed at import"]
    unexplained = len(findings) / max(1, counted - at_import)
    return {
        "part": "mutation",
        "outcome": "passed" if unexplained < 0.05 else "failed",
        "findings": findings,
        "seed": seed,
        "mutants": of,
        "met": len(mutants),
        "outcomes": dict(outcomes),
        "surviving_share": round(len(survivors) / max(1, counted - at_import), 4),
        "surviving_share_unexplained": round(unexplained, 4),
        "survivors": survivors,
    }


def explanations() -> list[dict[str, str]]:
    """Survivors that were looked at and change nothing that is promised, each with the reason."""
    found: list[dict[str, str]] = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["mutant"]
    return found


if __name__ == "__main__":
    sys.exit(main())
