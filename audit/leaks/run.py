"""The leak audit: real releases of neighbouring data, searched and compared; writes audit-results/leaks.json.

As a program: `python -m audit.leaks.run [--scenes fixed cluster] [--output audit-results/leaks.json]`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .controls import BROKEN, BROKEN_DELETIONS
from .differential import differences
from .scan import scan
from .scenes import SCENES, Stand, published_records, records_of_d, secrets_of, without_hierarchies
from .traces import Traces

RUNS_A_SIDE = 2
BOTH = BROKEN | BROKEN_DELETIONS


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", nargs="*", choices=sorted(SCENES), default=sorted(SCENES))
    parser.add_argument("--controls", nargs="*", choices=sorted(BOTH), default=sorted(BOTH))
    parser.add_argument("--output", type=Path, default=Path("audit-results/leaks.json"))
    arguments = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crowdblend-leaks-") as folder:
        scenes = {name: audited(Stand(Path(folder) / name, SCENES[name])) for name in arguments.scenes}
        controls = controlled(Stand(Path(folder) / "controls", SCENES["fixed"]), arguments.controls)
        controls |= controlled(Stand(Path(folder) / "kept", SCENES["deletion"]), arguments.controls)
    findings = [f"{name}: {finding}" for name, scene in scenes.items() for finding in scene["findings"]]
    findings += [f"control not found: {name}" for name, found in controls.items() if not found]
    report = {
        "part": "leaks",
        "outcome": "failed" if findings else "passed",
        "findings": findings,
        "seconds": round(time.monotonic() - begun, 1),
        "scenes": scenes,
        "controls": controls,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"{len(scenes)} scenes, {len(controls)} controls, {len(findings)} findings: {arguments.output}")
    for finding in findings:
        print(f"  {finding}")
    return 1 if findings else 0


def audited(stand: Stand) -> dict[str, Any]:
    """Runs on both of the neighbouring data sets: what the search finds in each, and what sets them apart."""
    stand.prepare()
    sides: tuple[list[Traces], list[Traces]] = ([], [])
    findings: list[str] = []
    for number in range(RUNS_A_SIDE):
        for side in (0, 1):
            traces = stand.run(f"run-{side}-{number}", with_t=bool(side))
            sides[side].append(traces)
            findings += [f"{what} in {', '.join(places)}" for what, places in found_in(stand, traces).items()]
    apart = differences(*sides)
    findings += [f"neighbours differ in {one.place}: {one.what}" for one in apart if one.reason is None]
    explained = Counter(one.reason for one in apart if one.reason is not None)
    print(f"{stand.scene.name}: {len(findings)} findings, {sum(explained.values())} explained differences", flush=True)
    return {
        "runs": 2 * RUNS_A_SIDE,
        "places": len(sides[0][0].lines),
        "published_records": published_records(sides[0][0]),
        "findings": findings,
        "explained": dict(explained),
    }


def found_in(stand: Stand, traces: Traces) -> dict[str, list[str]]:
    """What the search finds of either neighbour's secrets."""
    published, traces = published_records(traces), without_hierarchies(traces)
    found: dict[str, list[str]] = {}
    for records in (records_of_d(), records_of_d() + 1):
        found |= scan(traces, secrets_of(stand.scene, records=records, published=published))
    return found


def controlled(stand: Stand, names: Sequence[str]) -> dict[str, list[str]]:
    """For each broken product of the stand's kind by what it was found: the search, the comparison, or nothing."""
    products = BROKEN_DELETIONS if stand.scene.deleting else BROKEN
    names = [name for name in names if name in products]
    if not names:
        return {}
    stand.prepare()
    result = {}
    for number, name in enumerate(names):
        broken = stand.broken(products[name])
        sides = [stand.run(f"control-{number}-{side}", with_t=bool(side), scene=broken) for side in (0, 1)]
        by = ["search"] if found_in(stand, sides[1]) else []
        by += ["comparison"] if any(one.reason is None for one in differences(sides[:1], sides[1:])) else []
        result[name] = by
        print(f"control: {name}: found by {' and '.join(by) or 'nothing'}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
