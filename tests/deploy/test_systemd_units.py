"""The units for systemd: what they start is a command that exists with these options, and systemd takes them."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from crowdblend.deploy.cli import crowdblend

UNITS = sorted((Path(__file__).resolve().parents[2] / "deploy" / "systemd").glob("*.service"))


def service(unit: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read_string(unit.read_text(encoding="utf-8"))
    return parser["Service"]


def parsed(words: list[str]) -> click.Context:
    command = crowdblend.get_command(click.Context(crowdblend), words[0])
    assert command is not None
    return command.make_context(words[0], words[1:])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_what_it_starts_is_a_command_with_these_options(unit: Path, tmp_path: Path) -> None:
    program, *words = shlex.split(service(unit)["ExecStart"])
    assert Path(program).name == "crowdblend"
    words = [str(tmp_path) if word == "/srv/published" else word for word in words]  # a folder that must be there
    assert parsed(words).params
    with pytest.raises(click.UsageError):
        parsed([*words, "--no-such-option"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_it(unit: Path, tmp_path: Path, needs) -> None:
    needs(shutil.which("systemd-analyze") is not None, "systemd-analyze (Debian: systemd)", "CROWDBLEND_TEST_SYSTEMD")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/crowdblend/bin/crowdblend", sys.executable))
    checked = verified(copy)
    assert checked.returncode == 0, checked.stderr
    assert copy.name not in checked.stderr
    copy.write_text(copy.read_text().replace("[Install]", "NoSuchKey=yes\n[Install]"))
    assert "NoSuchKey" in verified(copy).stderr


def verified(unit: Path) -> subprocess.CompletedProcess[str]:
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    return subprocess.run(words, capture_output=True, text=True, check=False)
