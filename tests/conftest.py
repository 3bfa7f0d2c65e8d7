"""How all tests run, and the fixtures that tests of every room use, from `tests/support`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

# Before NumPy loads: where tests run side by side, threads of its linear algebra only wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from crowdblend.deploy.prefect_environment import QUIET
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "support.balance",
    "support.browser",
    "support.commands",
    "support.containers",
    "support.desk",
    "support.needs",
    "support.postgresql",
    "support.prefect_servers",
]

os.environ.update(QUIET)  # before anything imports Prefect
# The tests' Prefect servers have no TLS, but each of Prefect's clients reads the authorities, of which there are 140.
os.environ.setdefault("PREFECT_API_SSL_CERT_FILE", str(Path(__file__).with_name("support") / "authority.pem"))
# The tests' releases go to a server of this process's own, never to one that the surroundings name.
os.environ.pop("PREFECT_API_URL", None)
os.environ.pop("PREFECT_HOME", None)
# Ledgers and key stores synchronise each file that they write, thousands of times: memory doesn't wait for a disk.
MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of the user's own in it
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
# No verdict depends on how busy the machine is; what a property may take is the whole suite's affair.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def _own_settings() -> Iterator[None]:
    """`serve` names its ledger in the environment of its process: where that is a test's, no other test finds it."""
    before = {name: value for name, value in os.environ.items() if name.startswith("CROWDBLEND_")}
    yield
    for name in [name for name in os.environ if name.startswith("CROWDBLEND_")]:
        del os.environ[name]
    os.environ.update(before)
