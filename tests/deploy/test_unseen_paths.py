"""A path that can't be looked at is refused before the charge, with its name and the operating system's reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from crowdblend.deploy.release_paths import make_folder_elsewhere, require_elsewhere
from crowdblend.mechanisms.kernel.errors import InputRefused

LONG = "y" * 300
"""No file system has a name of that length, whosever it is; a closed folder, on the other hand, is open to root."""
TOO_LONG = "File name too long"
CIRCLE = "Too many levels of symbolic links"
PROGRAM = "import sys; from crowdblend.deploy import cli; cli.main(sys.argv[1:])"


@pytest.fixture
def dry(desk, monkeypatch):
    """Make a desk with a budget and a specification, for runs that end before they need Prefect's server."""
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9")
    desk.add_dataset()
    (desk.folder / "loop").symlink_to("loop")
    desk.write_spec()
    return desk


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (LONG, TOO_LONG),
        (f"{LONG}/below", TOO_LONG),
        ("loop/below", CIRCLE),
        ("loop", "the output exists already"),
    ],
)
def test_an_output(dry, output: str, why: str) -> None:
    dry.write_spec(output=output)
    given = ("--output", output)
    for words in (("--dry-run", *given), given, ("--dry-run",)):
        answer = dry.refuse("run", "spec.toml", *words, said=(f"{dry.folder / output}: ", why))
        assert "Nothing was read, written or charged." in answer.err
    assert dry.releases() == []


def test_records(dry) -> None:
    dry.write_spec(source="loop")
    dry.refuse("run", "spec.toml", "--dry-run", said=(f"{dry.folder / 'loop'} ", CIRCLE))


@pytest.mark.parametrize("command", ["verify", "sheet", "registry"])
def test_a_release_that_is_named(dry, command: str) -> None:
    dry.refuse(command, LONG, said=f"{LONG}: the certificate can't be read ({TOO_LONG}).")


def test_a_place_for_documents(dry) -> None:
    with pytest.raises(InputRefused, match=TOO_LONG):
        require_elsewhere(Path(LONG) / "page.html")
    with pytest.raises(InputRefused, match=TOO_LONG):
        make_folder_elsewhere(Path(LONG))
    with pytest.raises(InputRefused, match="its folder doesn't exist"):
        require_elsewhere(Path("loop") / "page.html")


def test_a_demonstration(dry) -> None:
    dry.refuse("demo", "--output", LONG, said=f"{dry.folder / LONG}: the folder can't be written ({TOO_LONG}).")
    dry.refuse("demo", "--output", "loop", said=f"{dry.folder / 'loop'}: this exists already.")


def test_a_ledger(dry) -> None:
    """Nobody is told to create a ledger where there may be one."""
    url = f"sqlite:///{LONG}/ledger.db"
    budget = ("--epsilon", "1", "--delta", "1e-5")
    for words in (("dataset", "list"), ("ledger", "verify"), ("dataset", "add", "others", *budget)):
        answer = dry.refuse(*words, "--ledger", url, said=f"the ledger's place can't be looked at ({TOO_LONG}).")
        assert "no ledger here" not in answer.err


def test_a_private_store(dry, monkeypatch) -> None:
    monkeypatch.setenv("CROWDBLEND_HOME", LONG)
    budget = ("--epsilon", "1", "--delta", "1e-5", "--ledger", "sqlite:///new.db")
    said = f"{dry.folder / LONG}: the private store can't be used ({TOO_LONG})."
    dry.refuse("dataset", "add", "others", *budget, said=said)
    assert not (dry.folder / "new.db").exists()


def test_a_folder_that_is_closed_to_this_account(dry) -> None:
    """Drop root's capabilities, which no other account has."""
    closed = dry.folder / "closed"
    (closed / "release").mkdir(parents=True)
    closed.chmod(0)
    plain = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.getuid() == 0 else []
    denied = "Permission denied"

    def refused(*words: str) -> tuple[str, str]:
        program = [*plain, sys.executable, "-c", PROGRAM, *words]
        ended = subprocess.run(program, cwd=dry.folder, capture_output=True, text=True, check=False)
        assert ended.returncode == 2, ended.stderr
        return ended.stdout, ended.stderr

    try:
        _, told = refused("run", "spec.toml", "--output", "closed/out")
        assert f"{closed / 'out'}: the output can't be looked at ({denied}). Nothing was read, written or" in told
        out, _ = refused("verify", "closed/release", "--json")
        error = json.loads(out)["error"]
        assert error["message"].startswith(f"closed/release: the certificate can't be read ({denied}).")
        _, told = refused("dataset", "list", "--ledger", "sqlite:///closed/ledger.db")
        assert f"the ledger's place can't be looked at ({denied})" in told
    finally:
        closed.chmod(0o700)
