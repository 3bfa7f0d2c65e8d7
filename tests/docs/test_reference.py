"""The reference that `make docs` writes has every public name, and asks nothing of the network."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from crowdblend.deploy import api

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_reference_has_every_public_name(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "pdoc", "--docformat", "google", "--output-directory", str(tmp_path)]
    run = subprocess.run([*words, "crowdblend.deploy.api"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "crowdblend" / "deploy" / "api.html").read_text(encoding="utf-8")
    missing = [name for name in (*api.__all__, "no_such_name") if f'id="{name}"' not in page]
    assert missing == ["no_such_name"]
    assert not re.findall(r"(?:src|href)=\"https?://[^\"]+\.(?:js|css)", page)


def test_make_docs_is_of_all_rooms() -> None:
    made = (PROJECT / "Makefile").read_text(encoding="utf-8")
    rule = made.partition("\ndocs:")[2].partition("\n\n")[0]
    packages = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    for room in {".".join(name.split(".")[:2]) for name in packages}:
        assert re.search(rf"{re.escape(room)}(?= |$)", rule, re.MULTILINE), room
    left_out = re.findall(r"'!crowdblend\.([\w.]+)'", rule)
    places = [PROJECT / name.replace(".", "/") for name in left_out]
    assert left_out
    assert [place for place in places if not (place.is_dir() or place.with_suffix(".py").is_file())] == []
    envs = [path for room in ("accounting", "deploy") for path in (PROJECT / room).rglob("migrations/env.py")]
    assert envs
    assert all(any(place in env.parents for place in places) for env in envs), "it runs when it is imported"
