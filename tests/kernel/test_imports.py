"""The kernel and its kinds import themselves, the standard library and five libraries."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from audit.kernel_size import FOLDERS, kernel_files, kinds, shared_files

PROJECT = Path(__file__).resolve().parents[2]
KINDS = ("accounting/kinds", "mechanisms/kinds")
OF_DRAWN_MAPS = "mechanisms/map_selection/choice"
"""How a map is drawn: prices of drawn maps are made from it, and docs/kernel.md says that it is read with its kind."""
LIBRARIES = {"cryptography", "numpy", "opendp", "scipy", "sqlalchemy"}


def imported(source: str, place: Path) -> Iterator[str]:
    """Tell what a file at a place in the project imports: a library's name, or the path of a module of the product."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            yield place.parents[node.level - 1].joinpath(*(node.module or "").split(".")).as_posix()


def forbidden_imports(source: str, place: Path, *, own: tuple[str, ...]) -> list[str]:
    """Return what a file imports that is neither of these folders nor an allowed library."""
    return [
        name
        for name in imported(source, place)
        if name not in LIBRARIES | sys.stdlib_module_names
        and not any(name == folder or name.startswith(folder + "/") for folder in own)
    ]


def test_the_kernel_imports_itself_and_its_kinds_import_the_two() -> None:
    of_kernel = {path for folder in FOLDERS for path in kernel_files(folder)}
    of_kinds = {path for files in kinds().values() for path in files} | set(shared_files())
    assert len(of_kernel) > 20
    assert len(of_kinds) > 20
    found = {}
    for path in sorted(of_kernel | of_kinds):
        place = path.relative_to(PROJECT)
        own = FOLDERS if path in of_kernel else (*FOLDERS, *KINDS, OF_DRAWN_MAPS)
        found[place.as_posix()] = forbidden_imports(path.read_text(encoding="utf-8"), place, own=tuple(own))
    assert {name: names for name, names in found.items() if names} == {}


def test_a_forbidden_import_is_found() -> None:
    source = (
        "import numpy.linalg, pandas\nfrom ..stages import count\nfrom .gate import Gate\nfrom ...mechanisms import x"
    )
    place = Path("tasks/kernel/example.py")
    assert forbidden_imports(source, place, own=tuple(FOLDERS)) == ["pandas", "tasks/stages", "mechanisms"]
