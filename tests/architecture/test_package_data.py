"""Each file that lies beside the modules is in the wheel, or is named here as one that isn't read by them."""

from __future__ import annotations

import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("accounting", "analysis", "deploy", "flows", "mechanisms", "tasks")
NOT_READ = ("deploy/docker/", "deploy/kubernetes/", "deploy/systemd/", "deploy/slurm/", "deploy/prefect.yaml")
BUILT = (".py", ".pyc", ".c", ".h", ".so", ".pyd")


def test_what_lies_beside_the_modules_is_in_the_wheel() -> None:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    data = declared["tool"]["setuptools"]["package-data"]
    shipped = {
        file
        for package, patterns in data.items()
        for pattern in patterns
        for file in PROJECT.joinpath(*package.split(".")[1:]).glob(pattern)
    }
    there = {file for package in PACKAGES for file in (PROJECT / package).rglob("*") if file.is_file()}
    names = {file.relative_to(PROJECT).as_posix() for file in there - shipped if file.suffix not in BUILT}
    assert {name for name in names if not name.startswith(NOT_READ)} == set()
