"""Line and branch coverage of mechanisms and accounting by the ordinary tests; writes audit-results/coverage.json.

As a program: `python -m audit.coverage_check`; leaves with 1 where a package has less than 98%. All packages are
measured by the tests of all of them, and by those of other packages that try a module of theirs as its users do. A
process that is killed while it computes leaves no record of what it ran.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
LEAST = 98.0
PACKAGES = (
    "mechanisms",
    "accounting/kernel",
    "accounting/kinds",
    "accounting/theory",
    "accounting/keys",
    "accounting/ledger",
    "accounting/certificate",
    "accounting/dashboard",
    "accounting/descriptions",
    "accounting",
)
"""Folders with all below them, and the modules of `accounting` that lie in none."""

TESTS = (
    "tests/mechanisms",
    "tests/accounting",
    "tests/kernel",
    "tests/architecture/test_surface.py",
    "tests/tasks/test_record_sources.py",
    "tests/tasks/test_person_counts.py",
    "tests/flows/test_calibrated_sample.py",
    "tests/flows/test_filter_budget.py",
    "tests/flows/test_own_rates.py",
    "tests/flows/test_pairs.py",
    "tests/flows/test_series.py",
    "tests/flows/test_unit_members.py",
    "tests/flows/test_unit_releases.py",
    "tests/deploy/documents/test_codebook.py",
    "tests/deploy/documents/test_intervals.py",
    "tests/deploy/documents/test_sheet_of_blocks.py",
    "tests/deploy/test_dry_run.py",
    "tests/deploy/test_forecast.py",
    "tests/deploy/test_key_custody.py",
    "tests/deploy/test_ledger_administration.py",
    "tests/deploy/test_plan.py",
    "tests/deploy/test_private_report.py",
    "tests/deploy/test_release_inspection.py",
    "tests/deploy/test_witness.py",
)
"""Those of the packages, and those of commands and flows that are the first to try some module of them."""
UNMEASURED = "tests/accounting/ledger/test_ledger_migration.py::test_a_migration_that_is_interrupted_can_be_repeated"
"""Leaves no file that tells of the lines that were run: its reads and writes are made to fail."""


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("audit-results/coverage.json"))
    parser.add_argument("--processes", default="auto", help="How many run the tests, as pytest-xdist's -n.")
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crowdblend-coverage-") as folder:
        data = f"--data-file={folder}/data"
        parallel = ["-n", str(arguments.processes), "--dist", "loadfile"]
        words = ["run", data, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long and not extra", *parallel]
        words += ["--deselect", UNMEASURED]
        tested = _coverage(*words, *TESTS, shown=True).returncode
        _coverage("combine", "--quiet", data, folder)
        told = Path(folder, "report.json")
        _coverage("json", data, "-o", str(told))
        report = reported(json.loads(told.read_text(encoding="utf-8")))
    findings = [f"{name}: {found['percent']}%" for name, found in report.items() if found["percent"] < LEAST]
    if tested:
        findings.append(f"the tests ended with {tested}")
    result = {
        "part": "coverage",
        "outcome": "failed" if findings else "passed",
        "findings": findings,
        "seconds": round(time.monotonic() - begun, 1),
        "packages": report,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, found in report.items():
        print(f"{name}: {found['percent']}% of {found['lines']} lines and {found['branches']} branches")
        for file, missing in found["missing"].items():
            print(f"  {file}: {missing}")
    return 1 if findings else 0


def _coverage(*words: str, shown: bool = False) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "coverage", *words]
    return subprocess.run(command, cwd=PROJECT, check=False, stdout=None if shown else subprocess.DEVNULL)


def _package_of(file: str) -> str:
    return max((package for package in PACKAGES if file.startswith(f"{package}/")), key=len)


def reported(told: dict[str, Any]) -> dict[str, Any]:
    """Return the coverage of each package, and what of it no test ran."""
    result = {}
    for package in PACKAGES:
        files = {name: file for name, file in told["files"].items() if _package_of(name) == package}
        sums = [file["summary"] for file in files.values()]
        of = sum(one["num_statements"] + one["num_branches"] for one in sums)
        ran = sum(one["covered_lines"] + one["covered_branches"] for one in sums)
        result[package] = {
            "percent": round(100 * ran / max(1, of), 2),
            "lines": sum(one["num_statements"] for one in sums),
            "branches": sum(one["num_branches"] for one in sums),
            "missing": {
                name: file["missing_lines"] + [f"{start}->{end}" for start, end in file["missing_branches"]]
                for name, file in sorted(files.items())
                if file["missing_lines"] or file["missing_branches"]
            },
        }
    return result


if __name__ == "__main__":
    sys.exit(main())
