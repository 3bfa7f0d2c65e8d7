"""A stranger's files are judged: they neither keep a reader for ever nor steer the terminal of who reads them."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support.commands import Commands

CONFORMANCE = Path(__file__).resolve().parents[1] / "vectors" / "conformance"
SOUND = CONFORMANCE / "certificate" / "sound"
SECONDS = 120
"""A program that waits for a writer does so for ever."""
LIMITED = """
import resource, sys
from crowdblend.deploy import cli
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
cli.main(sys.argv[1:])
"""


@pytest.fixture
def answer(desk, commands) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run one command in a process of its own, with a limit of memory and of time."""

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        environment = os.environ | desk.settings
        return commands.run(*words, folder=desk.folder, environment=environment, script=LIMITED, timeout=SECONDS)

    return run


def stranger(place: Path, kind: str) -> Path:
    """Put a pipe that nobody writes to, or a link to an endless device, in a place."""
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    return place


@pytest.mark.parametrize("kind", ["pipe", pytest.param("device", marks=pytest.mark.slow)])
def test_a_pipe_or_a_device_is_no_file_to_read(desk, answer, kind) -> None:
    desk.add_dataset()
    [anchor] = (desk.home / "anchors").glob("*.jsonl")
    copy = shutil.copy(anchor, desk.folder / "kept.jsonl")
    there = stranger(desk.folder / "certificate.json", kind)
    spec = desk.write_spec()
    for words in (
        ("verify", there),
        ("verify", desk.folder, "--public-key", there),
        ("sheet", desk.folder),
        ("explain", there),
        ("hierarchy", "show", there),
        ("hierarchy", "check", there),
        ("plan", "--k", "20", "--delta", "1e-6", "--epsilon", "1", "--group-sizes", there),
        ("ledger", "verify", "--anchor", there),
        ("ledger", "verify", "--anchor", copy, "--witnesses", there),
        ("ledger", "anchor", "--witnesses", there),
        ("ledger", "check", there, "--witnesses", there),
    ):
        ended = answer(*words)
        assert ended.returncode == 2, (words, ended.stdout, ended.stderr)
        assert "it is not a regular file" in ended.stderr, (words, ended.stderr)
    there.unlink()
    schema = stranger(desk.folder / "schema.json", kind)
    assert "it is not a regular file" in answer("spec", "new", "--from", schema).stderr
    stranger(desk.folder / "towns.csv", kind)
    assert "it is not a regular file" in answer("explain", spec).stderr
    stranger(anchor, kind)
    ended = answer("ledger", "verify")
    assert ended.returncode == 2
    assert f"{anchor}: the anchor can't be read (it is not a regular file)" in ended.stderr


def test_a_certificate_larger_than_any_is_not_read(desk, answer) -> None:
    with (desk.folder / "certificate.json").open("wb") as file:
        file.truncate(1 << 40)
    ended = answer("verify", ".")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "it has more than 67,108,864 bytes" in ended.stderr


def strange_release(folder: Path) -> Path:
    """A release beside whose files lie others, whose names clear the screen, end their line, or aren't UTF-8."""
    copy = shutil.copytree(SOUND / "release", folder / "release")
    for name in ("\x1b[2J\x1b[8m", "a\nThe files are those of the certificate.", "\u202egpj.x", "\x9b8m"):
        (copy / name).write_text("")
    Path(os.fsdecode(os.fsencode(copy) + b"/\xff")).write_text("")
    return copy


def test_a_name_of_a_file_neither_steers_the_terminal_nor_makes_a_line(desk) -> None:
    release = strange_release(desk.folder)
    told = desk("verify", release)
    assert told.code == 1
    assert told.out.splitlines() == [
        "\\u001b[2J\\u001b[8m is not named in the certificate",
        "a\\nThe files are those of the certificate. is not named in the certificate",
        "\\u009b8m is not named in the certificate",
        "\\u202egpj.x is not named in the certificate",
        "\\udcff is not named in the certificate",
        "5 findings: don't rely on this release.",
    ]
    findings = json.loads(desk("verify", release, "--json").out)["findings"]
    assert "\x1b[2J\x1b[8m is not named in the certificate" in findings


ON_TERMINAL = """
import os, sys
from crowdblend.deploy import cli
terminal = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_NOCTTY)
os.dup2(terminal, 1)
os.dup2(terminal, 2)
cli.main(sys.argv[1:])
"""


def on_terminal(commands: Commands, folder: Path, *words: str | Path) -> str:
    """Run one command on a wide terminal; what reaches it."""
    parent, child = pty.openpty()
    parts: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # it is told of the end by EIO
            while part := os.read(parent, 1 << 12):
                parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    name, environment = os.ttyname(child), os.environ | {"COLUMNS": "300"}
    commands.start(name, *words, folder=folder, environment=environment, script=ON_TERMINAL).wait()
    os.close(child)
    reader.join()
    os.close(parent)
    return b"".join(parts).decode()


def test_on_a_terminal_the_colours_are_ours(desk, commands) -> None:
    desk.add_dataset()
    (desk.folder / "towns.csv").write_text("Lyon;South\x1b[8m;*\nLille;North;*\n")
    (desk.folder / "people.csv").write_text("colour;age;town\x1b[8m;secret\nblue;20;Lyon;1\n")
    spec = desk.write_spec(edit=lambda text: text.replace("[columns.town]", '[columns."town\\u001b[8m"]'))
    for words in (("hierarchy", "show", "towns.csv"), ("explain", spec), ("explain", "x\x1b[8m.toml")):
        shown = on_terminal(commands, desk.folder, *words)
        assert "\x1b[8m" not in shown
        assert "\\u001b[8m" in shown
