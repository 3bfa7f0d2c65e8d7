"""The command line's own manners: help in whole sentences, quickly; -v, -q; completion; close names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from crowdblend.deploy.cli import crowdblend, main
from crowdblend.deploy.commands.command_registry import COMMANDS, SECTIONS
from crowdblend.deploy.commands.options import first_sentence

HEAVY = {"alembic", "cryptography", "dask", "distributed", "fastapi", "fsspec", "httpx", "jinja2", "numpy", "opendp"}
HEAVY |= {"pandas", "prefect", "pyarrow", "pydantic", "scipy", "sqlalchemy"}

EVERY_HELP = """
import contextlib, io, json, sys
from crowdblend.deploy.cli import crowdblend
import click

def paths(group, above):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from paths(command, (*above, name))

found = [(), *paths(crowdblend, ())]
with contextlib.redirect_stdout(io.StringIO()):
    for path in found:
        crowdblend.main([*path, "--help"], standalone_mode=False)
print(json.dumps({"helped": len(found), "modules": sorted(sys.modules)}))
"""


def loaded(program: str, *words: str, cwd: Path | None = None) -> set[str]:
    """The packages that a program has loaded when it prints its modules as its last line."""
    told = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False, cwd=cwd)
    if told.returncode:
        pytest.fail(f"{words} ended with {told.returncode}:\n{told.stderr}")
    modules = json.loads(told.stdout.splitlines()[-1])["modules"]
    return {name.partition(".")[0] for name in modules}


def every_command(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*above, name), command
        if isinstance(command, click.Group):
            yield from every_command(command, (*above, name))


def test_no_help_loads_what_only_work_needs() -> None:
    packages = loaded(EVERY_HELP)
    assert "click" in packages
    assert packages & HEAVY == set()


def test_help_has_every_command_with_its_whole_first_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "..." not in page.replace("[ARGS]...", "")
    for title in SECTIONS:
        assert f"{title}:" in page
    for name in COMMANDS:
        command = crowdblend.get_command(click.Context(crowdblend), name)
        assert command is not None
        assert f"{name} {first_sentence(command)}" in page


def test_a_misspelled_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["laddger"])
    assert left.value.code == 2
    assert "Did you mean 'ledger'?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_commands_without_loading_them(shell: str) -> None:
    """What the shell's own completion function asks of the program."""
    program = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps({'modules': sorted(sys.modules)})))\n"
        "from crowdblend.deploy.cli import main\n"
        "main([])\n"
    )
    asked = os.environ | {"_CROWDBLEND_COMPLETE": f"{shell}_complete"}
    asked |= {
        "COMP_WORDS": "da" if shell == "fish" else "crowdblend da",
        "COMP_CWORD": "da" if shell == "fish" else "1",
    }
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=asked)
    *names, modules = done.stdout.splitlines()
    assert any("dashboard" in name for name in names)
    assert any("dataset" in name for name in names)
    assert not any("verify" in name for name in names)
    found = set(json.loads(modules)["modules"])
    assert {name.partition(".")[0] for name in found} & HEAVY == set()
    assert "crowdblend.deploy.commands.ledger_commands" not in found


def test_verbose_says_where_things_lie_and_hides_the_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = (
        "from crowdblend.deploy.cli import main\n"
        "main(['run', '-v', 'none.toml', '--ledger', 'postgresql+psycopg://writer:sesame@host/ledger'])"
    )
    environment = os.environ | {"CROWDBLEND_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 2
    assert "crowdblend: ledger postgresql+psycopg://…@host/ledger" in done.stderr
    assert str(tmp_path / "home") in done.stderr
    assert "sesame" not in done.stderr


def test_quiet_leaves_the_progress_out(capsys: pytest.CaptureFixture[str]) -> None:
    from crowdblend.deploy.terminal.stages import Stages, add_verbosity

    @click.command()
    def work() -> None:
        """Work."""
        with Stages().shown("count"):
            click.echo("result")

    command = add_verbosity(work)
    command.main([], standalone_mode=False)
    assert capsys.readouterr() == ("result\n", "crowdblend: count\n")
    command.main(["-q"], standalone_mode=False)
    assert capsys.readouterr() == ("result\n", "")


def test_a_fault_shows_its_frames_when_asked_and_never_a_value(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a record's value")

    monkeypatch.setattr(click.Group, "invoke", broken)
    for words, frames in ((["key", "show"], 0), (["key", "show", "-v"], 1)):
        with pytest.raises(SystemExit):
            main(words)
        told = capsys.readouterr().err
        assert "a record's value" not in told
        assert told.count("test_command_line.py") == frames


AFTER_A_COMMAND = (
    "import atexit, json, sys\n"
    "atexit.register(lambda: print(json.dumps({'modules': sorted(sys.modules)})))\n"
    "from crowdblend.deploy.cli import main\n"
    "try:\n    main(sys.argv[1:])\nexcept SystemExit as left:\n    assert left.code == 0, left.code"
)
PROJECT = Path(__file__).parents[2]
FRAMEWORKS = {"alembic", "dask", "distributed", "fastapi", "httpx", "opendp", "pandas", "prefect"}
FILES = {"fsspec", "pyarrow"}


def test_a_plan_loads_neither_files_nor_ledger_nor_frameworks() -> None:
    packages = loaded(AFTER_A_COMMAND, "plan", "--k", "20", "--sampling-rate", "0.1", "--delta", "1e-6")
    assert packages & (FRAMEWORKS | FILES | {"pydantic", "sqlalchemy"}) == set()


def test_a_look_at_the_ledger_loads_neither_prices_nor_files_nor_frameworks(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("CROWDBLEND_HOME", str(tmp_path / "home"))
    for words in (
        ("dataset", "add", "people", "--epsilon", "1", "--delta", "1e-5"),
        ("dataset", "list"),
        ("ledger", "show"),
        ("token", "list"),
    ):
        found = loaded(AFTER_A_COMMAND, *words, cwd=tmp_path)
        assert "sqlalchemy" in found
        not_needed = FRAMEWORKS - {"alembic"} if words[1] == "add" else FRAMEWORKS
        assert found & (not_needed | FILES | {"pydantic", "scipy"}) == set(), words


def test_verifying_a_certificate_loads_neither_ledger_nor_frameworks(tmp_path: Path) -> None:
    seed = PROJECT / "audit" / "fuzz" / "corpus" / "certificate" / "columns-number"
    certificate = tmp_path / "certificate.json"
    certificate.write_bytes(seed.read_bytes()[1:])  # a seed's first byte tells the fuzzer its kind
    program = AFTER_A_COMMAND.replace("left.code == 0", "left.code == 1")  # its files are not beside it
    packages = loaded(program, "verify", str(certificate), cwd=tmp_path)
    assert packages & (FRAMEWORKS | FILES | {"pydantic", "sqlalchemy"}) == set()


@pytest.mark.parametrize("before", [None, "2"])
def test_prices_are_computed_with_one_thread_unless_more_are_asked_for(monkeypatch, before: str | None) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", before or "")
    if before is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    with pytest.raises(SystemExit):
        main(["--version"])
    assert os.environ["OPENBLAS_NUM_THREADS"] == (before or "1")
