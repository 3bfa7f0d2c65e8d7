"""The image, built from its file without a registry or a daemon, and a release made in it and verified outside.

What was built before is used again. The base is Debian with its own Python, in place of the one that the file pins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from support.containers import DOCKER, limits, said

USER = 10001
Run = Callable[..., str]


def confined() -> list[str]:
    """The options by which the compose file confines every service, and no network."""
    service = yaml.safe_load((DOCKER / "compose.yaml").read_text())["x-crowdblend"]
    assert service["read_only"]
    words = ["--read-only", "--network", "none"]
    for option, key in (("--tmpfs", "tmpfs"), ("--cap-drop", "cap_drop"), ("--security-opt", "security_opt")):
        for value in service[key]:
            words += [option, value]
    return words + limits(f"{name}={value}:{value}" for name, value in service["ulimits"].items())


@pytest.fixture
def image(container_image: str) -> Run:
    """Run something in a confined container of the image."""

    def run(*words: object, options: tuple[str, ...] = ()) -> str:
        return said("podman", "run", "--rm", "--runtime", "runc", *confined(), *options, container_image, *words)

    return run


@pytest.mark.long
def test_a_release_made_in_the_image_is_verified_outside(image: Run, tmp_path: Path) -> None:
    published = tmp_path / "published"
    published.mkdir()
    os.chown(published, USER, USER)
    told = image("demo", "--output", "/srv/published/demo", options=(f"--volume={published}:/srv/published",))
    assert "Published" in told
    demo = published / "demo"
    for kind in ("release", "deletion"):
        assert pq.read_table(demo / kind / "data.parquet").num_rows > 0
        certificate = demo / kind / "certificate.json"
        assert certificate.stat().st_uid == USER
        verify = (sys.executable, "-m", "crowdblend.deploy", "verify", certificate, "--public-key")
        assert said(*verify, demo / "public-key.pem")
    # What was changed outside is found outside.
    (demo / "deletion" / "data.parquet").write_bytes((demo / "release" / "data.parquet").read_bytes())
    said(*verify, demo / "public-key.pem", code=1)


@pytest.mark.long
def test_the_image_has_the_compiled_readers_and_neither_compiler_nor_this_machines_settings(image: Run) -> None:
    def python(program: str) -> str:
        return image("-c", program, options=("--entrypoint=python",))

    python("from crowdblend.tasks.readers import csv_decoder, page_decoder")
    assert python("import glob, shutil; print([shutil.which('gcc'), *glob.glob('/src/*')])") == "[None]\n"
    # An empty file may be left where this machine's settings were mounted while the image was built.
    assert (
        python("import pathlib; print(sum(p.stat().st_size for p in pathlib.Path('/etc').glob('pip.conf')))") == "0\n"
    )
    assert python("import os; print(os.getuid(), os.access('/opt/crowdblend', os.W_OK))") == f"{USER} False\n"
    assert image("--help").startswith("Usage: crowdblend")


@pytest.mark.long
def test_every_command_of_the_compose_file_is_in_the_image(image: Run) -> None:
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    programs = {name: service["entrypoint"] for name, service in services.items() if "entrypoint" in service}
    assert set(programs) == {"prefect-server", "scheduler", "worker", "releases"}
    for program, *words in programs.values():
        commands = words[: next((place for place, word in enumerate(words) if word.startswith(("-", "tls:"))), None)]
        assert "Usage" in image(*commands, "--help", options=(f"--entrypoint={program}",))
