"""Fuzzes every way into the product for some minutes each; writes audit-results/fuzz.json.

As a program: `python -m audit.fuzz.run --minutes 1 [--targets csv parquet] [--how shaped guided]`. The minutes
are for each target, half of them for each way of feeding it; as many targets are fed at once as there are processors.
`--grow` adds what reached something new to the corpus. `--add` keeps what the file has of other targets, so that a long
campaign can be run in parts.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .targets import CORPUS, TARGETS

__all__ = ["fed"]

PROJECT = Path(__file__).resolve().parents[2]
WAYS = ("shaped", "guided")
GRACE = 180
MOST_KEPT, LONGEST_KEPT = 25, 2048


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.5, help="For each target.")
    parser.add_argument("--targets", nargs="*", choices=sorted(TARGETS), default=sorted(TARGETS))
    parser.add_argument("--how", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--seed", type=int, default=None, help="Default: another one each time; it is reported.")
    parser.add_argument("--grow", action="store_true", help="Add inputs that reached something new to the corpus.")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="So many targets side by side.")
    parser.add_argument("--add", action="store_true", help="Keep what the output has of other targets.")
    parser.add_argument("--output", type=Path, default=Path("audit-results/fuzz.json"))
    arguments = parser.parse_args()
    begun = time.monotonic()
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    ways = [way for way in arguments.how if way == "shaped" or importlib.util.find_spec("atheris")]
    if missing := sorted(set(arguments.how) - set(ways)):
        print(f"not done: {', '.join(missing)} (atheris is not installed)")
    kept = arguments.output.with_suffix("")

    def fed_by_all(name: str) -> list[dict[str, Any]]:
        seconds = 60 * arguments.minutes / max(1, len(ways))
        found = [fed(name, way, seconds=seconds, seed=seed, keep=kept, grow=arguments.grow) for way in ways]
        for run in found:
            told = f"{run['inputs']} inputs in {run['seconds']} s, {len(run['faults'])} faults"
            print(f"{name}, {run['way']}: {told}", flush=True)
        return found

    with ThreadPoolExecutor(arguments.at_once) as threads:
        runs = [run for found in threads.map(fed_by_all, arguments.targets) for run in found]
    spent = round(time.monotonic() - begun, 1)
    if arguments.add and arguments.output.exists():
        before = json.loads(arguments.output.read_text(encoding="utf-8"))
        runs = [run for run in before["runs"] if run["target"] not in arguments.targets] + runs
        spent, arguments.minutes = spent + before["seconds"], min(arguments.minutes, before["minutes_each"])
    findings = [f"{run['target']}: {fault}" for run in runs for fault in run["faults"]]
    report = {
        "part": "fuzz",
        "outcome": "failed" if findings else "passed",
        "findings": findings,
        "seconds": spent,
        "minutes_each": arguments.minutes,
        "at_once": arguments.at_once,
        "seed": seed,
        "not_done": missing,
        "runs": runs,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"{len(findings)} faults; the inputs that show them are in {kept}" if findings else "no fault")
    for finding in findings:
        print(f"  {finding}")
    return 1 if findings else 0


def fed(name: str, way: str, *, seconds: float, seed: int, keep: Path, grow: bool) -> dict[str, Any]:
    """Feed one target in one way; what came of it.

    Args:
        name: the target.
        way: "shaped" or "guided".
        seconds: how long.
        seed: of the inputs.
        keep: folder for inputs that show a fault.
        grow: whether the corpus may take up what reached something new.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crowdblend-fuzz-") as place:
        folder = Path(place)
        words = [sys.executable, "-m", "audit.fuzz.worker", name, way, str(seconds), str(seed), str(folder)]
        try:
            done = subprocess.run(
                words,
                cwd=PROJECT,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=seconds + GRACE,
            )
            ended, said = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            ended, said = None, str(late.stderr or "")
        kinds = [path.read_text(encoding="utf-8") for path in sorted((folder / "faults").glob("*.txt"))]
        faults = [kind.split("\n", 1)[0] for kind in kinds]
        if ended != 0:
            faults.append(f"the process ended with {ended}: {said[-300:]}")
            (folder / "faults").mkdir(exist_ok=True)
            if (folder / "last").exists():  # else it ended before the first input
                shutil.copy(folder / "last", folder / "faults" / "last")
        if faults:
            shutil.copytree(folder / "faults", keep / f"{name}-{way}", dirs_exist_ok=True)
        told = folder / "inputs"
        inputs, processor = told.read_text(encoding="utf-8").split() if told.exists() else ("0", "0")
        features = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", said)
        if grow and way == "guided":
            _grow(name, folder / "corpus")
        return {
            "target": name,
            "way": way,
            "seconds": round(time.monotonic() - begun, 1),
            "processor_seconds": int(processor),
            "inputs": int(inputs),
            "coverage": int(features[-1][0]) if features else None,
            "corpus": int(features[-1][2]) if features else None,
            "faults": faults,
        }


def _grow(name: str, found: Path) -> None:
    """Take up some of the shortest inputs that reached something new."""
    known = CORPUS / name
    known.mkdir(parents=True, exist_ok=True)
    room = MOST_KEPT - len(list(known.iterdir()))
    fresh = sorted(found.iterdir(), key=lambda path: (path.stat().st_size, path.name)) if found.exists() else []
    fresh = [path for path in fresh if 8 < path.stat().st_size <= LONGEST_KEPT]
    chosen = fresh[:: max(1, len(fresh) // room)][:room] if room > 0 else []
    for path in chosen:
        content = path.read_bytes()
        (known / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
