"""The bench's command line: runs parts, keeps what each has found, and gathers one report."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .sources import bench_digest, sources_digest
from .spent import counted_time

__all__ = ["main"]

PROJECT = Path(__file__).resolve().parents[1]
Part = Callable[[argparse.Namespace], dict[str, Any]]


def _statistics(words: argparse.Namespace) -> dict[str, Any]:
    from .statistics.verdicts import statistics

    return statistics(words.results, scale=words.scale, processes=words.processes, only=words.only)


def _exhibits(words: argparse.Namespace) -> dict[str, Any]:
    from .exhibits.shown import exhibits

    return exhibits(only=words.only)


def _faults(words: argparse.Namespace) -> dict[str, Any]:
    from .faults.detection import planted_faults

    return planted_faults(words.results, processes=words.processes, only=words.only)


PARTS: dict[str, Part] = {"statistics": _statistics, "exhibits": _exhibits, "faults": _faults}


def main() -> None:
    """Run parts, or write the report from what the parts have left."""
    parser = argparse.ArgumentParser(prog="python -m audit", description=__doc__)
    parser.add_argument("action", choices=["run", "report"])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them where none is named")
    parser.add_argument("--results", type=Path, default=PROJECT / "audit-results")
    parser.add_argument("--pages", type=Path, default=PROJECT / "docs", help="where report and summary are written")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies all draws; 1 for the stated goals")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    arguments = parser.parse_args()
    state = arguments.results / "state"
    state.mkdir(parents=True, exist_ok=True)
    if arguments.action == "report":
        from .report.write import write_report

        sys.exit(0 if write_report(arguments.results, arguments.pages) else 1)
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was drawn until then is kept
    well = True
    for name in arguments.parts or PARTS:
        about = f"{bench_digest()}/{arguments.scale}/{arguments.only}"
        with counted_time(state / f"spent-{name}.json", about=about) as spent:
            result = PARTS[name](arguments)
        result |= spent
        result |= {
            "day": datetime.now(UTC).date().isoformat(),
            "version": version("crowdblend"),
            "audited_sources": sources_digest(),
        }
        if not arguments.only:  # a part of a part is for looking into something, not for the report
            (arguments.results / f"{name}.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
        well &= result["outcome"] == "passed"
        print(
            f"{name}: {result['outcome']} in {spent['seconds']:.0f} s, {spent['processor_seconds']:.0f} s of processors"
        )
        for finding in result["findings"]:
            print(f"  {finding}")
    sys.exit(0 if well else 1)
