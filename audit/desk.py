"""A steward's folder for real releases by the whole flow: data sets, specifications, ledger and private store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Desk", "Job", "temporary_desk"]

DRIVER = Path(__file__).with_name("release_driver.py")


@dataclass(frozen=True, kw_only=True)
class Job:
    """One release to run.

    Args:
        spec: text of its specification.
        output: its folder, below the desk's.
        release_id: its id.
        key: the sampling key in place of a random one; for a comparison under equal coins.
    """

    spec: str
    output: str
    release_id: str
    key: bytes | None = None


@dataclass(frozen=True)
class Desk:
    """A folder of its own, removed afterwards."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """With which commands use this desk's ledger and private store."""
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        return surroundings | {
            "CROWDBLEND_LEDGER": f"sqlite:///{self.folder / 'ledger.db'}",
            "CROWDBLEND_HOME": str(self.folder / "home"),
        }

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the software at this desk."""
        return subprocess.run(
            [sys.executable, "-m", "crowdblend.deploy", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def add_dataset(self, name: str, *, relation: str = "add/remove") -> None:
        """A data set with a budget that is never in the way."""
        budget = ["--epsilon", "1000", "--delta", "0.9"]
        done = self.command("dataset", "add", name, *budget, "--relation", relation)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)

    def release(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """Run releases; each one's result, or that and why it was refused.

        Raises:
            RuntimeError: the process failed otherwise.
        """
        words = []
        for job in jobs:
            spec = self.folder / f"{job.release_id}.toml"
            spec.write_text(job.spec, encoding="utf-8")
            key = None if job.key is None else job.key.hex()
            words.append({"spec": str(spec), "output": job.output, "release_id": job.release_id, "key": key})
        (self.folder / "jobs.json").write_text(json.dumps(words))
        out, log = self.folder / "results.jsonl", self.folder / "driver.log"
        # Files and no pipes: a server that outlives the driver would keep a pipe open.
        with out.open("wb") as results, log.open("wb") as errors:
            done = subprocess.run(
                [sys.executable, "-P", str(DRIVER), "jobs.json"],  # else `statistics` would be the folder beside it
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=results,
                stderr=errors,
                timeout=1200,
                check=False,
            )
        lines = out.read_text().splitlines()
        if done.returncode != 0 or len(lines) != len(jobs):
            raise RuntimeError(f"the releases failed: {log.read_text()[-2000:]}")
        found: list[dict[str, Any]] = [json.loads(line) for line in lines]
        for job, result in zip(jobs, found, strict=True):
            if (
                result.get("refused") == "ReleaseFailed"
            ):  # as from a server that came to no start: no answer to an attack
                raise RuntimeError(f"release {job.release_id} failed: {result['why']}")
        return found


@contextmanager
def temporary_desk() -> Iterator[Desk]:
    """A desk that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="crowdblend-audit-"))
    try:
        yield Desk(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
