"""Digests of the software: of the kernel with a kind for certificates, of everything for a release that goes on."""

from __future__ import annotations

import ast
import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.flows import software
from crowdblend.flows.software import (
    PACKAGES,
    digest_of_sources,
    kernel_digest,
    kernel_files,
    software_digest,
    sources_digest,
)
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


def copied(folder: Path) -> dict[str, Path]:
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    return {name: Path(shutil.copytree(package, folder / name, ignore=ignored)) for name, package in PACKAGES.items()}


def test_any_change_of_a_source_changes_it(tmp_path) -> None:
    packages = copied(tmp_path)
    assert digest_of_sources(packages) == sources_digest(), "wherever they lie"
    seen = {sources_digest()}
    for name, package in packages.items():
        path = next(path for path in sorted(package.rglob("*.py")) if path.stat().st_size)
        path.write_bytes(path.read_bytes() + b"\n")
        seen.add(digest_of_sources(packages))
        path.rename(path.with_name("renamed_" + path.name))
        seen.add(digest_of_sources(packages))
        (package / "__pycache__").mkdir(exist_ok=True)
        (package / "notes.txt").write_text(name)
        assert digest_of_sources(packages) in seen, "what is no source doesn't count"
    assert len(seen) == 1 + 2 * len(packages)


OUTSIDE = (
    "accounting/dashboard/pages/overview.py",
    "accounting/certificate/write_certificate.py",
    "accounting/kinds/deletion_prices.py",
    "flows/release.py",
    "mechanisms/kinds/points.py",
    "tasks/readers/csv_records.py",
    "tasks/stages/table.py",
)
INSIDE = (
    "accounting/kernel/ledger/rules.py",
    "accounting/kinds/microdata_prices.py",
    "mechanisms/kernel/sampling.py",
    "mechanisms/kinds/microdata.py",
    "tasks/kernel/gate.py",
)


def test_a_certificate_names_the_kernel_and_the_kind_and_nothing_else(tmp_path, monkeypatch) -> None:
    """A changed page, document, reader or other kind leaves the digest as it is."""
    monkeypatch.setattr(software, "PACKAGES", copied(tmp_path))
    for names, same in ((OUTSIDE, True), (INSIDE, False)):
        for name in names:
            before = kernel_digest.__wrapped__(MECHANISM)
            with (tmp_path / name).open("a", encoding="utf-8") as file:
                file.write("# another line\n")
            assert (kernel_digest.__wrapped__(MECHANISM) == before) is same, name
    assert kernel_files(None).keys() < kernel_files(MECHANISM).keys()


def imports_by_the_syntax_tree(name: str, source: str) -> set[str]:
    folders, found = name.split("/")[:-1], set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = folders[: len(folders) - node.level + 1]
            module = "/".join([*above, *(node.module or "").split(".")]).rstrip("/")
            found |= {f"{module}.py", *(f"{module}/{one.name}.py" for one in node.names)}
    return found


MANY_CONSTANTS = "\n".join(f"a{n} = {n + 0.5}" for n in range(300))
"""Beyond 256 constants and names an instruction takes several units."""
ODD_SOURCE = f"""
import os
from os import path
from . import first
from ..kernel import second, third as other
if TYPE_CHECKING:
    from .fourth import Fourth
{MANY_CONSTANTS}
from ..kernel.prices.fifth import fifth, sixth
class Inner:
    def method(self):
        def deeper():
            from ...mechanisms.kinds import seventh
"""


def test_imports_are_found_wherever_they_stand(tmp_path) -> None:
    """Else a certificate would not name a file that its release used."""
    kinds = {name: path for folder in software.KINDS for name, path in software._sources(folder)}
    odd = tmp_path / "odd.py"
    odd.write_text(ODD_SOURCE)
    for name, path in {**kinds, "accounting/kinds/odd.py": odd}.items():
        assert set(software._imported(name, path)) == imports_by_the_syntax_tree(name, path.read_text("utf-8")), name
    assert "mechanisms/kinds/seventh.py" in set(software._imported("accounting/kinds/odd.py", odd))


def test_the_digest_needs_no_syntax_tree(monkeypatch) -> None:
    """Before Python 3.11.8 making one fails while another thread makes one too, as Prefect's may."""

    def fails(*_: object, **__: object) -> None:
        raise SystemError("AST constructor recursion depth mismatch")

    expected = kernel_digest.__wrapped__(MECHANISM)
    with monkeypatch.context() as patched:
        patched.setattr(ast, "parse", fails)
        assert kernel_digest.__wrapped__(MECHANISM) == expected


def other_sources(monkeypatch, folder) -> None:
    packages = copied(folder)
    with (packages["mechanisms"] / "kernel" / "sampling.py").open("a", encoding="utf-8") as file:
        file.write("# another line\n")
    monkeypatch.setattr(software, "PACKAGES", packages)


def other_library(monkeypatch, _) -> None:
    real = software.version
    monkeypatch.setattr(software, "version", lambda name: "99" if name == "pyarrow" else real(name))


@pytest.mark.parametrize("changed", [other_sources, other_library])
def test_a_release_goes_on_with_the_software_that_began_it(
    desk, cut_off, monkeypatch, tmp_path_factory, changed
) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    cut_off(spec)
    with monkeypatch.context() as other:
        software.sources_digest.cache_clear()
        changed(other, tmp_path_factory.mktemp("other"))
        answer = desk("run", spec, "--release-id", "one")
    software.sources_digest.cache_clear()
    assert answer.code == 3, answer.err
    assert "since then this changed: the software or a library of it." in answer.err
    desk.succeed("run", spec, "--release-id", "one")


def test_packages_of_others_that_read_the_records_count_too(tmp_path, monkeypatch) -> None:
    """A reader's package that was changed may cut files into other blocks, whose coins would be others."""
    package = tmp_path / "others_reader"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    own = software_digest(reader="crowdblend.tasks.readers.csv_records")
    assert software_digest(reader="crowdblend.tasks.readers.parquet_records") == own
    before = software_digest(reader="others_reader")
    (package / "__init__.py").write_text("# another cut\n")
    assert len({own, before, software_digest(reader="others_reader")}) == 3


def test_once_its_bytes_are_final_a_release_depends_on_no_code(desk, cut_off, monkeypatch) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    cut_off(spec, stage="publish")
    other_library(monkeypatch, None)
    desk.succeed("run", spec, "--release-id", "one")
