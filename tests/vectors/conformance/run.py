"""Run as a program: any verifier over the conformance cases, by the protocol of docs/formats.

python tests/vectors/conformance/run.py [--only PART] COMMAND ...
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def fault(command: list[str], case: Path) -> str | None:
    """In what a verifier judges a case otherwise, or breaks the protocol; None where it agrees."""
    holds = json.loads((case / "case.json").read_bytes())["holds"]
    done = subprocess.run([*command, str(case)], capture_output=True, text=True, check=False)
    try:
        [line] = done.stdout.splitlines()
        said = json.loads(line)
        found = said["findings"]
        answered = isinstance(found, list) and said["holds"] is (found == [])
    except (KeyError, TypeError, ValueError):
        answered = False
    if not answered or done.returncode != (0 if said["holds"] else 1):
        return f"no answer by the protocol (exit code {done.returncode})"
    if said["holds"] is holds:
        return None
    return f"refused: {said['findings'][0]}" if holds else "accepted, and must be refused"


def main() -> int:
    """Judge all cases; gives the exit code."""
    parser = argparse.ArgumentParser(description="Run a verifier over the conformance cases.")
    parser.add_argument("--only", default="", help="cases whose folder's name has this in it")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    cases = [case for case in sorted(HERE.glob("*/*/")) if (case / "case.json").is_file()]
    chosen = [case for case in cases if arguments.only in str(case.relative_to(HERE))]
    found = {case: what for case in chosen if (what := fault(arguments.command, case)) is not None}
    for case, what in found.items():
        print(f"{case.relative_to(HERE)}: {what}")
    print(f"{len(chosen) - len(found)} of {len(chosen)} cases as they must be")
    return 1 if found or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
