"""The image of `deploy/docker`, built without a registry or a daemon, and what runs in containers of it.

What was built is kept for the next time: `podman rmi --all` removes it.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ["DOCKER", "IMAGE", "container_image", "container_tools", "debian_base", "host_packages", "limits", "said"]

DOCKER = Path(__file__).parents[2] / "deploy" / "docker"
IMAGE = "localhost/crowdblend:tests"
TOOLS = ("podman", "runc", "debootstrap")


def said(*words: object, code: int = 0, text: str | None = None) -> str:
    """Run a program that must end with this code; what it says on standard output."""
    given = [str(word) for word in words]
    done = subprocess.run(given, capture_output=True, text=True, check=False, input=text)
    assert done.returncode == code, f"{given}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def limits(more: Iterable[str] = ()) -> list[str]:
    """The options for a container's limits: podman's own are higher than some machines allow."""
    given = list(more)
    for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        most = min(4096, resource.getrlimit(kind)[1] % (1 << 63))  # -1 is no limit
        given.append(f"{name}={most}:{most}")
    return [f"--ulimit={limit}" for limit in given]


def host_packages() -> list[str]:
    """The options that let pip in a container find packages as this machine does."""
    certificates, settings = Path("/etc/ssl/certs"), Path("/etc/pip.conf")
    return [f"--volume={path}:{path}:ro" for path in (certificates, settings) if path.exists()]


def debian_base(suite: str) -> str:
    """The image of a smallest Debian of a suite, made where there is none."""
    name = f"localhost/crowdblend-debian:{suite}"
    if subprocess.run(["podman", "image", "exists", name], check=False).returncode:
        with tempfile.TemporaryDirectory() as folder:
            said("debootstrap", "--variant=minbase", suite, f"{folder}/base")
            said("tar", "-C", f"{folder}/base", "-c", "-f", f"{folder}/base.tar", ".")
            said("podman", "import", "--quiet", f"{folder}/base.tar", name)
    return name


@pytest.fixture(scope="session")
def container_tools(needs) -> None:
    """What builds images and starts containers without a daemon."""
    there = os.getuid() == 0 and all(map(shutil.which, TOOLS))
    needs(there, f"root, {', '.join(TOOLS)} (Debian: packages of these names)", "CROWDBLEND_TEST_CONTAINERS")


@pytest.fixture(scope="session")
def container_image(container_tools: None) -> str:
    """The name of the image of `deploy/docker`."""
    said(DOCKER / "build_offline.sh", IMAGE)
    return IMAGE
