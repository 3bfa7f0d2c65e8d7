"""A command's start: no library is loaded that the ordinary release does without."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"scipy.signal", "scipy.stats", "scipy.optimize", "distributed", "fastapi", "matplotlib", "opendp"}


@pytest.mark.parametrize(
    "module",
    [
        "crowdblend.deploy.run",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("crowdblend.deploy.cli", "crowdblend.flows.releases.microdata")
        ),
    ],
)
def test_a_release_starts_without_heavy_libraries(module: str) -> None:
    program = f"import sys, json; import {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, capture_output=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert module in loaded  # the control: what is loaded is seen
    assert not HEAVY & loaded
