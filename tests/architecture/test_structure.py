"""The structure of the code: its packages, which way their imports point, and what may not stand in it."""

from __future__ import annotations

import ast
import importlib.util
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

PACKAGES = ("mechanisms", "accounting", "tasks", "flows", "analysis", "deploy")
PROJECT = Path(__file__).resolve().parents[2]


def folder_of(name: str) -> Path:
    """Where a package's code lies, in a checkout or installed."""
    found = importlib.util.find_spec(f"crowdblend.{name}")
    # An editable installation that is older than the package doesn't find it, and the checkout has it.
    return PROJECT / name if found is None or found.origin is None else Path(found.origin).resolve().parent


def modules() -> list[Path]:
    return [path for name in PACKAGES for path in sorted(folder_of(name).rglob("*.py"))]


def test_every_package_is_listed() -> None:
    """A folder with code that the distribution doesn't list would be missing from the wheel."""
    listed = set(tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = set()
    for name in PACKAGES:
        root = folder_of(name)
        for init in root.rglob("__init__.py"):
            parts = init.parent.relative_to(root).parts
            found.add(".".join(("crowdblend", name, *parts)))
    assert found == listed


@pytest.mark.parametrize("path", modules(), ids=lambda path: "/".join(path.parts[-3:]))
def test_each_module_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), path


@pytest.mark.parametrize("path", modules(), ids=lambda path: "/".join(path.parts[-3:]))
def test_a_name_of_a_module_means_one_thing(path: Path) -> None:
    """What is bound twice has, in all functions, the later meaning; linters see it of functions, not of constants."""
    names = [
        target.id
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    ]
    assert len(names) == len({*names}), sorted({name for name in names if names.count(name) > 1})


def test_no_two_modules_have_one_name() -> None:
    names = Counter(path.name for path in modules() if path.name not in ("__init__.py", "__main__.py"))
    assert [name for name, times in names.items() if times > 1] == []


def test_no_module_is_longer_than_a_reader_bears() -> None:
    assert [path.name for path in modules() if len(path.read_text(encoding="utf-8").splitlines()) > 700] == []


def test_no_two_folders_beside_each_other_import_each_other() -> None:
    imported = defaultdict(set)
    for name in PACKAGES:
        for path in folder_of(name).rglob("*.py"):
            importer = (name, *path.relative_to(folder_of(name)).with_suffix("").parts)
            for target in relative_imports(path, importer):
                shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(importer, target, strict=False)))
                imported[importer[: shared + 1]].add(target[: shared + 1])
    folders = {place for place in imported if (folder_of(place[0]).joinpath(*place[1:])).is_dir()}
    mutual = [(one, other) for one in folders for other in imported[one] if other in folders and one in imported[other]]
    assert mutual == []


def relative_imports(path: Path, importer: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Give what a module imports of the project, as parts of a dotted name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = importer[: len(importer) - node.level]
            module = (*above, *(node.module or "").split(".")) if node.module else above
            yield from ((*module, imported.name) for imported in node.names)


def test_no_registry_is_named() -> None:
    hosts = ("py" + "pi.org", "python" + "hosted", "registry." + "npmjs", "deb." + "debian")
    for path in [
        *modules(),
        *PROJECT.glob("constraints*.txt"),
        *(PROJECT / name for name in ("pyproject.toml", "README.md")),
    ]:
        text = path.read_text(encoding="utf-8")
        assert not [host for host in hosts if host in text], path


def test_no_name_without_an_idea() -> None:
    vague = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
    assert not [path for path in modules() if path.name in vague]


def test_a_folder_can_be_looked_over() -> None:
    """At most some nineteen files lie in a folder, beside its subfolders; and there are not too many in all."""
    beside = [path for name in ("audit", "benchmarks") for path in (PROJECT / name).rglob("*.py")]
    for paths in (beside, modules()):
        folders: dict[Path, int] = {}
        for path in paths:
            folders[path.parent] = folders.get(path.parent, 0) + (path.name != "__init__.py")
        assert max(folders.values()) <= 19, {str(folder): files for folder, files in folders.items() if files > 19}
    assert sum(folders.values()) <= 345
    public = folder_of("analysis") / "__init__.py"  # the kit's names are those of its package
    inits = [path for path in modules() if path.name == "__init__.py" and path != public]
    assert not [path for path in inits if len(ast.parse(path.read_text(encoding="utf-8")).body) != 1], (
        "code not counted"
    )
