"""What each version left opens, verifies and goes on with this one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from crowdblend.analysis import load
from support.desk import Desk
from support.kept_versions import KEPT, TABLES, unpack

PROJECT = Path(__file__).resolve().parents[2]
VERSIONS = sorted(path.name.removesuffix(".tar.xz") for path in KEPT.glob("*.tar.xz"))


def test_every_tagged_version_keeps_something() -> None:
    if shutil.which("git") is None or not (PROJECT / ".git").exists():
        pytest.skip("no checkout of the repository")
    told = subprocess.run(["git", "tag", "--list", "v[0-9]*"], cwd=PROJECT, capture_output=True, text=True, check=True)
    missing = {tag.removeprefix("v") for tag in told.stdout.split()} - set(VERSIONS)
    assert not missing, "run python tests/support/kept_versions.py at these versions"
    assert VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ledger_of_an_earlier_version_verifies_and_pays_for_a_further_release(version: str, desk: Desk) -> None:
    unpack(KEPT / f"{version}.tar.xz", desk.folder)
    desk.succeed("ledger", "migrate")
    assert desk.succeed("ledger", "verify", "--json").json["ok"] is True
    before = desk.succeed("ledger", "show", "--json").json
    assert {release["stage"] for release in before["releases"]} == {"published"}
    assert len(before["releases"]) == len(TABLES)

    certified = json.loads((desk.folder / "microdata" / "certificate.json").read_text(encoding="utf-8"))
    further = desk.succeed("run", "microdata.toml", "--json", "--output", "further").json
    assert (further["looked_up"], further["mechanism"]) == (False, certified["mechanism"])
    [dataset] = desk.succeed("dataset", "list", "--json").json["datasets"]
    [earlier] = before["datasets"]
    assert dataset["epsilon_spent"] == pytest.approx(earlier["epsilon_spent"] + further["epsilon"], abs=1e-9)
    assert desk.succeed("ledger", "verify", "--json").json["ok"] is True
    assert desk.succeed("verify", "further", "--public-key", "publisher.pem", "--json").json["ok"] is True


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", TABLES)
def test_a_release_of_an_earlier_version_verifies_and_is_read(version: str, kind: str, desk: Desk) -> None:
    unpack(KEPT / f"{version}.tar.xz", desk.folder)
    shutil.rmtree(desk.home)
    told = desk.succeed("verify", kind, "--public-key", "publisher.pem", "--json").json
    assert (told["ok"], told["findings"]) == (True, [])
    if kind in ("microdata", "deletion"):
        assert load(desk.folder / kind).count({"colour": "blue"}).estimate > 0
    (desk.folder / kind / "data.parquet").write_bytes(b"something else")
    assert desk("verify", kind, "--public-key", "publisher.pem").code == 1
