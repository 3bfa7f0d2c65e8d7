"""Settings: argument before environment before `crowdblend.toml` before default, each with its origin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from crowdblend.flows.configured_kinds import switch_on_configured_kinds
from crowdblend.flows.paths import DEFAULTS, EXTENSIONS, PLACES, resolve_paths, resolved_settings
from crowdblend.mechanisms.kernel.errors import InputRefused

WHOLE = """
ledger = "budget/ledger.db"
home = "private"
anchor = "heads"
approvers = "approvers.pem"

[defaults]
scheduler = "tls://scheduler:8786"
publisher = "The Office"
"""


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder two levels below the one that may have settings; no variable is set."""
    for name in PLACES:
        monkeypatch.delenv(f"CROWDBLEND_{name.upper()}", raising=False)
    folder = tmp_path / "surveys" / "spring"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_each_setting_comes_from_the_first_that_names_it(below: Path, tmp_path: Path, monkeypatch) -> None:
    assert {one.origin for one in resolved_settings().settings} == {"default"}
    assert resolved_settings()["ledger"].value == "sqlite:///crowdblend-ledger.db"
    file = tmp_path / "crowdblend.toml"
    file.write_text(WHOLE)
    found = resolved_settings()
    assert found.file == file
    assert {one.name: one.value for one in found.settings} == {
        "ledger": f"sqlite:///{tmp_path}/budget/ledger.db",
        "home": f"{tmp_path}/private",
        "anchor": f"{tmp_path}/heads",
        "approvers": f"{tmp_path}/approvers.pem",
        "scheduler": "tls://scheduler:8786",
        "publisher": "The Office",
    }
    assert {one.origin for one in found.settings} == {str(file)}
    monkeypatch.setenv("CROWDBLEND_LEDGER", "sqlite:///other.db")
    monkeypatch.setenv("CROWDBLEND_HOME", "")
    found = resolved_settings(home=Path("mine"))
    assert (found["ledger"].value, found["ledger"].origin) == ("sqlite:///other.db", "CROWDBLEND_LEDGER")
    assert (found["home"].value, found["home"].origin) == ("mine", "argument")
    assert resolved_settings()["home"].origin == str(file), "an empty variable is as none"
    found = resolved_settings(ledger_url="sqlite:///third.db")
    assert (found["ledger"].value, found["ledger"].origin) == ("sqlite:///third.db", "argument")
    places = resolve_paths(home=Path("mine"))
    assert places.home == below / "mine"
    assert places.anchor == tmp_path / "heads"


def test_the_nearest_file_alone_is_read(below: Path, tmp_path: Path) -> None:
    (tmp_path / "crowdblend.toml").write_text(WHOLE)
    (below / "crowdblend.toml").write_text('home = "here"\n')
    found = resolved_settings()
    assert found.file == below / "crowdblend.toml"
    assert found["home"].value == f"{below}/here"
    assert found["ledger"].origin == "default"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ledger.db", "sqlite:///{folder}/ledger.db"),
        ("sqlite:///ledger.db", "sqlite:///{folder}/ledger.db"),
        ("sqlite:////var/ledger.db", "sqlite:////var/ledger.db"),
        ("/var/ledger.db", "sqlite:////var/ledger.db"),
        ("postgresql://office@db/ledger", "postgresql://office@db/ledger"),
        ("postgresql+psycopg:///ledger", "postgresql+psycopg:///ledger"),
    ],
)
def test_a_ledgers_path_starts_from_the_files_folder(below: Path, tmp_path: Path, written: str, meant: str) -> None:
    (tmp_path / "crowdblend.toml").write_text(f'ledger = "{written}"\n')
    assert resolved_settings()["ledger"].value == meant.format(folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('leger = "x"', "leger: there is no such key. Nothing was read, written or charged. Did you mean ledger?"),
        ('scheduler = "x"', "It belongs in [defaults]."),
        ('[defaults]\nledger = "x"', "It belongs at the top level."),
        ("[defaults]\nepsilon = 1", "[defaults].epsilon: there is no such key"),
        ("ledger = 3", "this must be a text in quotes"),
        ('ledger = ""', "this must be a text in quotes"),
        ("defaults = 3", "this must be a table"),
        ('[defaults]\npublic_key = "office.pem"', "there is no such key"),
        ("extensions = 3", "this must be a table"),
        ('[extensions]\nkind = ["x"]', "[extensions].kind: there is no such key"),
        ('[extensions]\nkinds = "x"', "this must be a list of names"),
        ('[extensions]\nkinds = ["x"]', "no installed distribution has a kind of mechanism 'x'"),
        ("ledger = ", "this is not TOML"),
        ('[release]\nname = "x"', "Give the specification another name."),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(below: Path, tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "crowdblend.toml").write_text(text)
    with pytest.raises(InputRefused) as refused:
        switch_on_configured_kinds()
    assert told in refused.value.message
    assert "crowdblend.toml" in refused.value.where


def test_a_file_that_others_can_write_is_refused(below: Path, tmp_path: Path) -> None:
    file = tmp_path / "crowdblend.toml"
    file.write_text(WHOLE)
    file.chmod(0o666)
    with pytest.raises(InputRefused, match="everybody can write"):
        resolve_paths()


def test_a_file_of_another_account_is_refused(below: Path, tmp_path: Path, monkeypatch) -> None:
    """Root gives the file away for real; any other account can only be told to be another one."""
    file = tmp_path / "crowdblend.toml"
    file.write_text(WHOLE)
    if os.getuid() == 0:
        os.chown(file, 12_345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: file.stat().st_uid + 1)
    with pytest.raises(InputRefused, match="another account"):
        resolve_paths()
    monkeypatch.setattr(os, "getuid", lambda: file.stat().st_uid)
    assert resolve_paths().home == tmp_path / "private"


@pytest.mark.parametrize(
    ("put", "why"),
    [
        (lambda place: place.symlink_to("nowhere"), "it is a link that leads nowhere"),
        (lambda place: place.symlink_to(place), "Too many levels of symbolic links"),
        (lambda place: place.mkdir(), "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
    ],
    ids=["a link to nowhere", "a link to itself", "a folder", "a pipe"],
)
def test_what_is_no_file_is_refused_and_not_passed_over(below: Path, tmp_path: Path, put, why: str) -> None:
    """Passed over, it would let the default ledger be charged."""
    put(tmp_path / "crowdblend.toml")
    with pytest.raises(InputRefused, match=why) as refused:
        resolve_paths()
    assert refused.value.where == str(tmp_path / "crowdblend.toml")


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_argument_is_no_ledger(below: Path, monkeypatch, empty: str) -> None:
    """Refuse what an unset variable of a shell gives; an empty variable of the environment is as none."""
    with pytest.raises(InputRefused, match="the ledger's address is empty") as refused:
        resolve_paths(ledger_url=empty)
    assert refused.value.where == "--ledger"
    monkeypatch.setenv("CROWDBLEND_LEDGER", "")
    assert resolved_settings()["ledger"].origin == "default"


def test_no_password_is_shown(below: Path) -> None:
    found = resolved_settings(ledger_url="postgresql://office:secret@db/ledger")
    assert "secret" not in repr(found) + found["ledger"].shown
    assert found["ledger"].shown == "postgresql://…@db/ledger"
    assert "secret" not in repr(found.state_paths)


def test_every_key_is_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "operations" / "environment.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    keys = {line.split(" = ")[0] for line in example.splitlines() if " = " in line}
    assert keys == {*PLACES, *DEFAULTS, *EXTENSIONS}


def test_commands_use_the_file_and_its_ledger_from_every_folder_below(desk, monkeypatch) -> None:
    monkeypatch.delenv("CROWDBLEND_LEDGER")
    monkeypatch.delenv("CROWDBLEND_HOME")
    (desk.folder / "crowdblend.toml").write_text('ledger = "ledger.db"\nhome = "home"\n')
    desk.add_dataset()
    assert (desk.folder / "ledger.db").is_file()
    (desk.folder / "below").mkdir()
    monkeypatch.chdir(desk.folder / "below")
    listed = desk.succeed("dataset", "list", "--json")
    assert "people" in listed.out
    assert not list((desk.folder / "below").iterdir())


def test_a_folder_without_a_ledger_asks_first_whether_it_is_elsewhere(desk) -> None:
    answer = desk.refuse("dataset", "list")
    assert answer.err.index("Is the ledger elsewhere?") < answer.err.index("dataset add")
    assert "second budget" in answer.err
    first = desk("dataset", "add", "people", "--epsilon", "1", "--delta", "1e-5")
    assert "If the ledger is elsewhere" in first.err
    second = desk("dataset", "add", "others", "--epsilon", "1", "--delta", "1e-5")
    assert "elsewhere" not in second.err
