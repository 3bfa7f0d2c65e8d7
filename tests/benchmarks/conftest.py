"""The benchmarks as programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
HANGS = 3_600
"""Seconds; no promise: on a busy machine the whole run's takes more than ten minutes."""


@pytest.fixture(scope="session")
def benchmark() -> Callable[..., str]:
    """What a benchmark prints, by its name and its words."""

    def run(name: str, *words: object) -> str:
        command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, words)]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=HANGS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
