"""Digests of the software: of the kernel and a kind, which certificates name; and of all that a release depends on."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dis import get_instructions
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

from .. import accounting, mechanisms, tasks
from ..accounting.kernel.prices.registry import FILTER_RULES, MECHANISM_KINDS
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.kernel.mechanism import Mechanism

PACKAGES: Mapping[str, Path] = {
    "accounting": Path(str(accounting.__file__)).parent,
    "flows": Path(__file__).parent,
    "mechanisms": Path(str(mechanisms.__file__)).parent,
    "tasks": Path(str(tasks.__file__)).parent,
}
"""The packages that decide what a release is and what it costs, and where they lie."""
KERNEL = ("accounting/kernel", "mechanisms/kernel", "tasks/kernel")
KINDS = ("accounting/kinds", "mechanisms/kinds")
_OWN = f"{__package__.rpartition('.')[0]}."


@cache
def kernel_digest(mechanism: Mechanism) -> str:
    """Return the digest of the kernel and of the kind of a mechanism, by which certificates name the software.

    PRIVACY: a function of the installed software alone.
    """
    return _digest(kernel_files(mechanism))


def kernel_files(mechanism: Mechanism | None) -> dict[str, Path]:
    """Return the files of the kernel, and those of the kind of a mechanism with all that they import of kinds.

    The rules of filter budgets are among them, which the kernel finds by name.

    Args:
        mechanism: None for the kernel alone.
    """
    files = {name: path for folder in KERNEL for name, path in _sources(folder)}
    if mechanism is None:
        return files
    kinds = {name: path for folder in KINDS for name, path in _sources(folder)}
    price_module = MECHANISM_KINDS[mechanism.kind].price_module
    if not price_module.startswith(_OWN):  # of another distribution: the whole package that has it
        files |= _package_files(price_module.partition(".")[0])
    # Imports are followed from the kind's two modules, so that a certificate names what its release used and no more.
    modules = [type(mechanism).__module__, price_module, FILTER_RULES]
    waiting = [_name_of(module) for module in modules]
    while waiting:
        name = waiting.pop()
        if name in kinds and name not in files:
            files[name] = kinds[name]
            waiting.extend(_imported(name, kinds[name]))
    return files


def _sources(folder: str) -> Iterator[tuple[str, Path]]:
    package, _, inner = folder.partition("/")
    root = PACKAGES[package] / inner
    for path in sorted(root.rglob("*.py")):
        yield f"{folder}/{path.relative_to(root).as_posix()}", path


def _package_files(package: str) -> dict[str, Path]:
    """Return the Python files of another distribution's package, which must be a folder.

    Raises:
        InputRefused: it is no folder of files.
    """
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise InputRefused(
            f"the package {package} isn't a folder of Python files, so that certificates can't name them."
        )
    return {
        f"{package}/{path.relative_to(root).as_posix()}": path
        for root in map(Path, found.submodule_search_locations)
        for path in root.rglob("*.py")
    }


def _name_of(module: str) -> str:
    return f"{module.partition('.')[2].replace('.', '/')}.py"


def _imported(name: str, path: Path) -> Iterator[str]:
    """Give the names of the files that a file imports from its own packages."""
    folders = name.split("/")[:-1]
    # Compiled, not parsed: before Python 3.11.8 a syntax tree can't be made while another thread makes one.
    codes = [compile(path.read_bytes(), path, "exec", dont_inherit=True)]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        steps = [step for step in get_instructions(code) if step.opname != "EXTENDED_ARG"]
        for level, imported, step in zip(steps, steps[1:], steps[2:], strict=False):
            if step.opname == "IMPORT_NAME" and level.argval:
                above = folders[: len(folders) - level.argval + 1]
                module = [*above, *step.argval.split(".")] if step.argval else above
                yield f"{'/'.join(module)}.py"
                yield from (f"{'/'.join([*module, one])}.py" for one in imported.argval)


@cache
def sources_digest() -> str:
    """Return the digest of all the packages.

    PRIVACY: a function of the installed software alone.
    """
    return digest_of_sources(PACKAGES)


LIBRARIES = ("dask", "numpy", "opendp", "pyarrow", "scipy")
"""Libraries that decide how records are read, drawn, counted and written."""


def software_digest(*, reader: str) -> str:
    """Return the digest of all that a resumed release depends on: the sources, these libraries' versions and Python's.

    PRIVACY: a release that goes on with another sampler, another cut into blocks, or other noise would mix two draws.
    Two installations of one version's name may differ in each. Packages of other distributions that read or price count
    with their files.

    Args:
        reader: full name of the module that reads the records.

    Raises:
        InputRefused: such a package is no folder of files.
    """
    versions = ",".join(f"{name} {_version_of(name)}" for name in LIBRARIES)
    modules = (reader, *(kind.price_module for kind in MECHANISM_KINDS.values()))
    added = {module.partition(".")[0] for module in modules if not module.startswith(_OWN)}
    versions += "".join(f",{package} {_digest(_package_files(package))}" for package in sorted(added))
    python = ".".join(map(str, sys.version_info[:2]))
    return hashlib.sha256(f"{sources_digest()}\n{versions}\npython {python}\n".encode()).hexdigest()


def _version_of(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "-"


def digest_of_sources(packages: Mapping[str, Path]) -> str:
    """Return the SHA-256 (hex) over names and contents of the Python files of some packages, by package and path."""
    files = {
        f"{package}/{path.relative_to(root).as_posix()}": path
        for package, root in packages.items()
        for path in root.rglob("*.py")
    }
    return _digest(files)


def _digest(files: Mapping[str, Path]) -> str:
    whole = hashlib.sha256()
    for name in sorted(files):
        content = hashlib.sha256(files[name].read_bytes()).hexdigest()
        whole.update(f"{name}\0{content}\n".encode())
    return whole.hexdigest()
