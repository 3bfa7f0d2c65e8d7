"""Whether the record path is slower beside DuckDB, or publishing beside pyarrow, than when that was last recorded.

`python -m benchmarks.record_path.check` compares, `--record` writes the ratios. Processor time of both, in turn and in
one run, is compared: other work on the machine stretches wall times, and both contestants' processor times alike.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from ..publishing import measure as measure_publishing
from .__main__ import PROJECT, RATE, measure
from .census_data import ROW_GROUP, SMALL_ROW_GROUP, generate

__all__ = ["ALLOWED", "KINDS", "RECORDED", "main", "slower"]

ALLOWED = 1.2
"""So many times slower than recorded, beside DuckDB, fails."""
RECORDED = PROJECT / "docs" / "benchmarks" / "recorded-ratios.json"
ROUNDS = 5
_OURS, _PEER = "ours", "DuckDB"
CASES: Mapping[str, tuple[int, str, int, float | None]] = {
    "row groups of 1,000,000": (10_000_000, "parquet", ROW_GROUP, RATE),
    "row groups of 65,536": (10_000_000, "parquet", SMALL_ROW_GROUP, RATE),
    "every record": (10_000_000, "parquet", ROW_GROUP, None),
    "CSV": (5_000_000, "csv", ROW_GROUP, RATE),
}
"""Records, their form, records of a row group, and the rate; None counts every record."""
KINDS: Mapping[str, tuple[str, ...]] = dict.fromkeys(CASES, ("warm", "whole")) | {"publishing": ("Parquet",)}
"""Of each case, what is compared. How long the system takes to write a large CSV file varies too much."""
PUBLISHED_ROWS = 10_000_000


def slower(found: Mapping[str, float], recorded: Mapping[str, float]) -> list[str]:
    """What is too slow, in words; nothing where all is as it was.

    Args:
        found: per case, the other's time over ours.
        recorded: the same when it was last recorded.
    """
    told = [f"{name} was recorded and not measured" for name in recorded if name not in found]
    for name, ratio in found.items():
        if name not in recorded:
            told.append(f"{name} was never recorded")
        elif not ratio * ALLOWED > recorded[name]:
            told.append(f"{name}: the other's time is {ratio:.2f} times ours, and was {recorded[name]:.2f} times")
    return told


def _ratios(case: str, *, data: Path, rounds: int) -> dict[str, float]:
    """The other's processor time over ours; DuckDB's in a process that has answered before, and as a whole process."""
    if case not in CASES:
        with tempfile.TemporaryDirectory(prefix="publishing-") as folder:
            ours_alone, writer = measure_publishing(PUBLISHED_ROWS, folder=Path(folder), rounds=rounds)["parquet"]
        return {f"{case}, Parquet": round(writer / ours_alone, 3)}
    rows, form, row_group, rate = CASES[case]
    records = generate(data, rows=rows, row_group=row_group, form=form)
    with tempfile.TemporaryDirectory(prefix="record-path-") as answers:
        times = measure(records, names=(_OURS, _PEER), rounds=rounds, folder=Path(answers), rate=rate)
    ours, peer = times[_OURS], times[_PEER]
    return {
        f"{case}, warm": round(peer.warm_processor / ours.warm_processor, 3),
        f"{case}, whole": round(peer.whole_processor / ours.whole_processor, 3),
    }


def main(argv: list[str] | None = None) -> None:
    """Measure, and compare or record; a case that seems slow is measured once more, and its better ratio counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help=f"write {RECORDED.relative_to(PROJECT)} anew")
    parser.add_argument("--cases", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--data", type=Path, default=PROJECT / "build" / "benchmark-data", help="generated data, kept")
    arguments = parser.parse_args(argv)
    found: dict[str, float] = {}
    versions = {_PEER: version("duckdb"), "pyarrow": version("pyarrow"), "machine": platform.machine()}
    kept = json.loads(RECORDED.read_text(encoding="utf-8"))
    if kept["with"] != versions:
        if not arguments.record:
            sys.exit(f"recorded with {kept['with']}, and this is {versions}: record the ratios anew (--record)")
        kept["ratios"] = {}
    recorded = {name: ratio for name, ratio in kept["ratios"].items() if name.rpartition(",")[0] in arguments.cases}
    for case in arguments.cases:
        ratios = _ratios(case, data=arguments.data, rounds=ROUNDS)
        expected = {name: recorded[name] for name in ratios if name in recorded}
        if not arguments.record and slower(ratios, expected):
            again = _ratios(case, data=arguments.data, rounds=2 * ROUNDS)
            ratios = {name: max(ratio, again[name]) for name, ratio in ratios.items()}
        for name, ratio in ratios.items():
            before = f", recorded {recorded[name]:.2f}" if name in recorded else ""
            print(f"{name}: the other's processor time is {ratio:.2f} times ours{before}", flush=True)
        found |= ratios
    if arguments.record:
        told = {"with": versions, "ratios": kept["ratios"] | found}
        RECORDED.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        return
    faults = slower(found, recorded)
    if faults:
        sys.exit("slower than recorded by more than a fifth:\n" + "\n".join(faults))


if __name__ == "__main__":
    main()
