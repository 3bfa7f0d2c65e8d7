"""How long it takes to import `crowdblend.analysis`, beside Python and NumPy alone; each in processes of its own.

python -m benchmarks.analysis_import --write
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from .generated_pages import machine, write_between

__all__ = ["main", "processor_seconds"]

BY = "benchmarks/analysis_import.py"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "analysis.md"
PROGRAMS = {"Python alone": "pass", "NumPy": "import numpy", "`crowdblend.analysis`": "import crowdblend.analysis"}


def processor_seconds(program: str) -> float:
    """Return the processor time of a Python process that runs a program, its start and end among it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(argv: list[str] | None = None) -> None:
    """Measure, print, and write the table into docs/analysis.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="into docs/analysis.md")
    asked = parser.parse_args(argv)
    lines = [f"Medians of {asked.rounds} processes, {machine()}.", "", "| | processor seconds |", "|---|---|"]
    for name, program in PROGRAMS.items():
        processor_seconds(program)  # which reads the files once
        times = [processor_seconds(program) for _ in range(asked.rounds)]
        lines.append(f"| {name} | {statistics.median(times):.2f} |")
    print("\n".join(lines))
    if asked.write:
        write_between(PAGE, lines, by=BY)


if __name__ == "__main__":
    main()
