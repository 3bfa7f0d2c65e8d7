"""Which sources a part of the bench has run against, as a digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

from crowdblend.flows.software import PACKAGES, digest_of_sources
from crowdblend.flows.software import sources_digest as digest_of_packages

__all__ = ["bench_digest", "detectors_digest", "sources_digest"]


def sources_digest() -> str:
    """Return the digest of the packages that decide what a release is."""
    return digest_of_packages()


def bench_digest() -> str:
    """The same for what decides what the statistical audits draw: all packages but the accounts, and the cases."""
    packages = {name: folder for name, folder in PACKAGES.items() if name != "accounting"}
    whole = hashlib.sha256(digest_of_sources(packages).encode())
    for path in sorted(Path(__file__).parent.glob("statistics/cases*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()


def detectors_digest() -> str:
    """The same for what all detectors of planted faults share: sources, bench without faults, fixtures."""
    tests = Path(__file__).parents[1] / "tests"
    whole = hashlib.sha256(sources_digest().encode())
    bench = [path for path in Path(__file__).parent.rglob("*.py") if path.name != "catalogue.py"]
    for path in sorted([*bench, *tests.rglob("conftest.py"), *tests.glob("support/*.py")]):
        whole.update(path.read_bytes())
    return whole.hexdigest()
