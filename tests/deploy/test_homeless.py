"""Users without a home folder, or with one that can't be written: commands that load Prefect, warnings as errors."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from crowdblend.deploy.prefect_environment import configure_lasting_prefect, configure_prefect, configure_prefect_home
from crowdblend.flows.paths import resolve_paths
from crowdblend.mechanisms.kernel.errors import InputRefused

HOMES = ["absent", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("a file", "unwritable"))]


def home_of(kind: str, folder: Path) -> str:
    """A home folder in which nothing can be made, whoever asks."""
    if kind == "a file":
        (folder / "no-folder").write_text("")
        return str(folder / "no-folder")
    return "/proc" if kind == "unwritable" else "/nonexistent/of/nobody"


def run(desk, *words: str | Path, home: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, each warning an error."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "XDG_"))}
    environment |= {"HOME": home, "CROWDBLEND_LEDGER": desk.ledger, "CROWDBLEND_HOME": str(desk.home), **more}
    command = [sys.executable, "-W", "error", "-m", "crowdblend.deploy", *map(str, words)]
    return subprocess.run(command, env=environment, cwd=desk.folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOMES)
def test_commands_that_load_prefect_need_no_home_folder(desk, kind) -> None:
    home = home_of(kind, desk.folder)
    desk.write_people(6_000)
    desk.add_dataset(epsilon="0.001")
    spec = desk.write_spec()
    refused = run(desk, "run", spec, home=home)
    assert refused.returncode == 3, refused
    assert "past the budget" in refused.stderr
    abandoned = run(desk, "abandon", "nothing", "--reason", "a test", home=home)
    assert abandoned.returncode == 2, abandoned
    assert "the ledger has no such release" in abandoned.stderr
    for answer in (refused, abandoned):
        assert "Internal fault" not in answer.stderr
        assert "Prefect home" not in answer.stderr
    assert not list(desk.home.glob("prefect-*")), "Prefect's folder goes with the process"


@pytest.mark.slow
def test_a_run_on_ones_own_server_needs_no_home_folder(desk) -> None:
    """The server isn't there, which is told as that."""
    desk.write_people(6_000)
    desk.add_dataset()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/api"
        answer = run(desk, "run", desk.write_spec(), home="/nonexistent", PREFECT_API_URL=url)
    assert answer.returncode == 2, answer
    assert "Prefect's server can't be reached" in answer.stderr


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PREFECT_HOME", "")  # so that it is put back
    monkeypatch.delenv("PREFECT_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return tmp_path / "private"


def test_the_users_own_folder_is_used_where_it_is_there(forgotten, tmp_path) -> None:
    (tmp_path / "user" / ".prefect").mkdir(parents=True)
    configure_prefect_home(forgotten)
    assert "PREFECT_HOME" not in os.environ
    configure_prefect_home(forgotten, whatever_is_there=True)
    assert Path(os.environ["PREFECT_HOME"]).parent == forgotten


@pytest.mark.parametrize("settle", [configure_prefect, configure_lasting_prefect])
def test_a_server_of_ones_own_comes_with_a_folder_too(forgotten, monkeypatch, settle) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    settle(forgotten)
    assert Path(os.environ["PREFECT_HOME"]).parent == forgotten


def test_nothing_is_made_in_a_home_folder(forgotten, tmp_path) -> None:
    (tmp_path / "user").mkdir()
    configure_prefect_home(forgotten)
    first = os.environ["PREFECT_HOME"]
    configure_prefect_home(forgotten)
    assert os.environ["PREFECT_HOME"] == first
    assert not list((tmp_path / "user").iterdir())


def test_a_folder_that_cannot_be_made_is_refused(forgotten, tmp_path, monkeypatch) -> None:
    (tmp_path / "private").write_text("")
    with pytest.raises(InputRefused, match="can't be made"):
        configure_prefect_home(forgotten)
    monkeypatch.setenv("PREFECT_HOME", "/proc/prefect")
    with pytest.raises(InputRefused, match="can't be made") as refused:
        configure_prefect_home(tmp_path)
    assert refused.value.where == "PREFECT_HOME"


def test_an_account_without_a_home_folder_names_its_private_store(tmp_path, monkeypatch) -> None:
    """As that of a service whose account is made as it starts, and is in no list."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "XDG_DATA_HOME", "CROWDBLEND_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputRefused) as refused:
        resolve_paths()
    assert "CROWDBLEND_HOME" in str(refused.value.remedy)
    monkeypatch.setenv("CROWDBLEND_HOME", str(tmp_path / "private"))
    assert resolve_paths().home == tmp_path / "private"
