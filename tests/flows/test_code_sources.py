"""Digests of the software: of the kernel with a kind for certificates, of everything for a release that goes on."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.flows import software
from crowdblend.flows.software import PACKAGES, digest_of_sources, kernel_digest, kernel_files, sources_digest
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

MECHANISM = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))


def copied(folder: Path) -> dict[str, Path]:
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    return {name: Path(shutil.copytree(package, folder / name, ignore=ignored)) for name, package in PACKAGES.items()}


def test_the_digest_is_that_of_any_place_with_the_same_sources(tmp_path) -> None:
    assert digest_of_sources(copied(tmp_path)) == sources_digest()


def test_any_change_of_a_source_changes_it(tmp_path) -> None:
    packages = copied(tmp_path)
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
    "accounting/certificate/write.py",
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


@pytest.mark.parametrize(
    ("changed", "same"), [*((name, True) for name in OUTSIDE), *((name, False) for name in INSIDE)]
)
def test_a_certificate_names_the_kernel_and_the_kind_and_nothing_else(tmp_path, monkeypatch, changed, same) -> None:
    """A changed page, document, reader or other kind leaves the digest as it is."""
    before = kernel_digest(MECHANISM)
    packages = copied(tmp_path)
    monkeypatch.setattr(software, "PACKAGES", packages)
    name, _, rest = changed.partition("/")
    with (packages[name] / rest).open("a", encoding="utf-8") as file:
        file.write("# another line\n")
    assert (kernel_digest.__wrapped__(MECHANISM) == before) is same


def test_the_kernel_of_a_kind_has_what_prices_and_protects_it() -> None:
    names = kernel_files(MECHANISM).keys()
    assert names >= set(INSIDE)
    assert not names & set(OUTSIDE)
    assert kernel_files(None).keys() < names
