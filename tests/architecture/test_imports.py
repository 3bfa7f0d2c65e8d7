"""Imports between modules: no circle, and nothing that is installed imports what is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
INSTALLED = ("mechanisms", "accounting", "tasks", "flows", "analysis", "deploy")
BESIDE = ("audit", "benchmarks")


def sources(*roots: str) -> dict[str, Path]:
    """Every module below these folders by its name from the project's folder."""
    paths = (path for root in roots for path in (PROJECT / root).rglob("*.py"))
    return {".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imported(module: str, path: Path) -> Iterator[str]:
    """Names that a module imports anywhere, also for its types alone; `crowdblend.` is left out."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("crowdblend.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])]).removeprefix("crowdblend.")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def graph(modules: dict[str, Path]) -> dict[str, set[str]]:
    """What each of the modules imports of the others; a package's own modules are not imported by it."""
    found = {}
    for module, path in modules.items():
        names = {name if name in modules else name.rpartition(".")[0] for name in imported(module, path)}
        found[module] = {name for name in names if name in modules and name != module}
    return found


@pytest.mark.parametrize("roots", [INSTALLED, BESIDE], ids=" ".join)
def test_no_modules_import_each_other_in_a_circle(roots) -> None:
    try:
        TopologicalSorter(graph(sources(*roots))).prepare()
    except CycleError as error:
        pytest.fail(" ".join(error.args[1]))


def test_what_is_installed_imports_nothing_that_is_not() -> None:
    modules = sources(*INSTALLED)
    names = {name.partition(".")[0] for module, path in modules.items() for name in imported(module, path)}
    assert names & {"accounting", "pyarrow"} == {"accounting", "pyarrow"}
    assert names.isdisjoint({*BESIDE, "tests", "support", "pytest", "hypothesis"})
