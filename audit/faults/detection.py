"""The part "faults": plants each fault in a copy of the sources and sees which part of bench and tests catches it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..sources import detectors_digest
from .catalogue import FAULTS, Fault

__all__ = ["PACKAGE_NAMES", "copied", "detected", "planted_faults"]

PROJECT = Path(__file__).resolve().parents[2]
PACKAGE_NAMES = ("mechanisms", "accounting", "tasks", "flows", "deploy", "analysis")
LONGEST = 400.0
SOUND = ""


@contextmanager
def copied(fault: Fault | None) -> Iterator[Path]:
    """A folder from which `crowdblend` is imported with the fault in it; as it is, where there is none.

    Raises:
        ValueError: the text that the fault changes is not in its file exactly once.
    """
    with tempfile.TemporaryDirectory(prefix="crowdblend-fault-") as name:
        package = Path(name) / "crowdblend"
        package.mkdir()
        changed = None if fault is None else fault.file.split("/")[0]
        for package_name in PACKAGE_NAMES:
            if package_name == changed:
                shutil.copytree(
                    PROJECT / package_name, package / package_name, ignore=shutil.ignore_patterns("__pycache__")
                )
            else:
                (package / package_name).symlink_to(PROJECT / package_name)
        if fault is not None:
            path = package / fault.file
            text = path.read_text(encoding="utf-8")
            if text.count(fault.old) != 1:
                raise ValueError(f"{fault.name}: its text is {text.count(fault.old)} times in {fault.file}")
            path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        yield Path(name)


def detected(detector: str, sources: Path) -> str:
    """What a detector says of some sources: "caught", "passed", or why it came to no end."""
    kind, *words = detector.split()
    environment = os.environ | {"PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"CROWDBLEND_TEST_POSTGRES": "off"}
    with tempfile.TemporaryDirectory(prefix="crowdblend-detector-") as results:
        if kind == "audit":
            part, only, *scale = words
            command = ["-m", "audit", "run", part, "--only", only, "--results", results, "--processes", "1"]
            command += ["--scale", scale[0]] if scale else []
        else:
            command = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not long and not extra", *words]
        try:
            done = subprocess.run(
                [sys.executable, *command],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "came to no end"
    if done.returncode == 0:
        return "passed"
    # A detector that can't run at all has caught nothing: pytest says 1 for failed tests, the bench names its part.
    failed = f"{words[0]}: failed" in done.stdout if kind == "audit" else done.returncode == 1
    return "caught" if failed else f"could not run: {(done.stderr or done.stdout)[-300:]}"


class Answers:
    """What detectors have said before an interruption; those that came to no end or could not run are asked again.

    Args:
        path: where they are kept.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._about, self._lock = path, detectors_digest(), Lock()
        kept = json.loads(path.read_text()) if path.exists() else {}
        self._said: dict[str, str] = kept.get("said", {}) if kept.get("about") == self._about else {}

    @staticmethod
    def _key(fault: Fault | None, detector: str) -> str:
        change = "" if fault is None else f"{fault.file}\0{fault.old}\0{fault.new}"
        whole = hashlib.sha256(f"{change}\0{detector}".encode())
        for word in detector.split():
            if (PROJECT / word).is_file():  # the tests that it runs
                whole.update((PROJECT / word).read_bytes())
        return whole.hexdigest()

    def of(self, fault: Fault | None, detector: str) -> str | None:
        """What it said, if it did."""
        return self._said.get(self._key(fault, detector))

    def keep(self, fault: Fault | None, detector: str, said: str) -> None:
        """Remember what it said, durably."""
        if said not in ("caught", "passed"):
            return
        with self._lock:
            self._said[self._key(fault, detector)] = said
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside = self._path.with_suffix(".new")
            beside.write_text(json.dumps({"about": self._about, "said": self._said}))
            os.replace(beside, self._path)


def planted_faults(results: Path, *, processes: int, only: str = "") -> dict[str, Any]:
    """Plant all faults, each by itself, and judge: every one must be caught, and sound sources by nothing.

    Args:
        results: folder of the state, where each answer is kept, to be used again for the same sources and tests.
        processes: how many detectors run at a time.
        only: part of the names of the faults.
    """
    began = time.monotonic()
    faults = [fault for fault in FAULTS if only in fault.name]
    detectors = sorted({detector for fault in faults for detector in fault.detectors})
    found: dict[str, dict[str, str]] = {SOUND: {}} | {fault.name: {} for fault in faults}
    known = Answers(results / "state" / "faults.json")
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, transient=True) as progress, ThreadPoolExecutor(processes) as pool:
        task = progress.add_task("faults", total=len(detectors) + sum(len(fault.detectors) for fault in faults))

        def look(fault: Fault | None, detector: str) -> None:
            said = known.of(fault, detector)
            if said is None:
                with copied(fault) as sources:
                    said = detected(detector, sources)
                known.keep(fault, detector, said)
            found[SOUND if fault is None else fault.name][detector] = said
            progress.advance(task)

        jobs = [pool.submit(look, None, detector) for detector in detectors]
        jobs += [pool.submit(look, fault, detector) for fault in faults for detector in fault.detectors]
        for job in jobs:
            job.result()
    findings = [f"sound sources: {detector}: {said}" for detector, said in found[SOUND].items() if said != "passed"]
    findings += [
        f"{fault.name} is not caught: {found[fault.name]}"
        for fault in faults
        if "caught" not in found[fault.name].values()
    ]
    return {
        "part": "faults",
        "outcome": "failed" if findings else "passed",
        "seconds": round(time.monotonic() - began, 1),
        "faults": [
            {
                "name": fault.name,
                "what": fault.what,
                "file": fault.file,
                "written_first": fault.written_first,
                "detectors": [{"name": name, "says": found[fault.name][name]} for name in fault.detectors],
            }
            for fault in faults
        ],
        "control": [{"name": name, "says": said} for name, said in sorted(found[SOUND].items())],
        "findings": findings,
    }
