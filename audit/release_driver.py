"""Runs releases one after the other in one process, with one Prefect server; started by `desk.Desk`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from crowdblend.deploy.run import run_release
from crowdblend.flows.paths import resolve_paths
from crowdblend.mechanisms.kernel.errors import Refusal


def main() -> None:
    """Do the jobs of a JSON file; answer with one line of JSON for each."""
    for job in json.loads(Path(sys.argv[1]).read_text()):
        key = bytes.fromhex(job["key"]) if job["key"] else None
        try:
            result = run_release(
                Path(job["spec"]),
                state_paths=resolve_paths(),
                output=job["output"],
                scheduler=None,
                release_id=job["release_id"],
                randomness=os.urandom if key is None else lambda size, key=key: key[:size],
            )
        except Refusal as refusal:
            result = {"refused": type(refusal).__name__, "why": str(refusal)}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
