"""A release that was cut off is named before its specification is charged again, with what finishes it for nothing."""

from __future__ import annotations

import os
import re
import shlex
import signal

import pytest
from crowdblend.accounting.keys.store_upkeep import open_private_store
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy import api

KILLED = """
import os, signal, sys
from crowdblend.accounting.kernel.ledger.writer import ReleaseWriter
from crowdblend.deploy import cli
from crowdblend.tasks.stages import count
def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if os.environ["KILLED_AT"] == "charged":
    ReleaseWriter.mark_reading = killed
else:
    count.block_counts = killed
cli.main(sys.argv[1:])
"""
"""A run that is killed before the reading is recorded, or once it is."""


def cut_off(desk, *words: str, stage: str = "reading") -> str:
    """Run a specification up to its death; the release's id."""
    ended = desk.start("run", *words, script=KILLED, KILLED_AT=stage)
    code, _, err = ended.finish()
    assert code == -signal.SIGKILL, err
    [unfinished] = [row for row in desk.releases() if row["stage"] not in ("published", "abandoned")]
    assert unfinished["stage"] == stage
    return str(unfinished["release_id"])


def finish_command(told: str) -> list[str]:
    [command] = re.findall(r"Finish it at no new charge: crowdblend (.*?)(?: Or |$)", told)
    return shlex.split(command)


@pytest.mark.parametrize("stage", ["reading", pytest.param("charged", marks=pytest.mark.slow)])
def test_a_run_names_the_release_that_was_cut_off_and_charges_nothing(desk, stage: str) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    release_id = cut_off(desk, spec.name, stage=stage)
    number = desk.entries()
    told = desk("run", "spec.toml", "--json")
    assert told.code == 2
    assert f"release '{release_id}'" in told.err
    assert "--new" in told.err
    assert told.json["error"]["exit_code"] == 2
    assert desk("run", "spec.toml", "--dry-run").code == 2
    assert desk.entries() == number, "nothing was charged, and no refusal was recorded"
    finish = finish_command(told.err)
    assert finish == ["run", "spec.toml", "--release-id", release_id]
    desk.succeed(*finish)
    [released] = desk.releases()
    assert (released["release_id"], released["stage"]) == (release_id, "published")
    desk.succeed("run", "spec.toml", "--output", "again")
    assert len(desk.releases()) == 2, "where nothing is unfinished, a run is a new release as ever"


def test_new_begins_another_all_the_same(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    release_id = cut_off(desk, "spec.toml")
    desk.succeed("run", "spec.toml", "--new", "--dry-run")
    desk.succeed("run", "spec.toml", "--new")
    stages = {row["release_id"]: row["stage"] for row in desk.releases()}
    assert stages.pop(release_id) == "reading"
    assert list(stages.values()) == ["published"]
    told = desk("run", "spec.toml", "--new", "--release-id", release_id)
    assert told.code == 2
    assert "--new" in told.err


def test_the_command_names_output_ledger_and_series_where_they_were_options(desk, monkeypatch) -> None:
    desk.add_dataset()
    desk.write_spec()
    desk.succeed("series", "add", "monthly", "spec.toml", "--releases", "2")
    release_id = cut_off(desk, "spec.toml", "--series", "monthly", "--output", "else where")
    monkeypatch.delenv("CROWDBLEND_LEDGER")
    told = desk("run", "spec.toml", "--series", "monthly", "--ledger", desk.ledger)
    assert told.code == 2
    finish = finish_command(told.err)
    place = str(desk.folder / "else where")
    assert finish == [
        *("run", "spec.toml", "--release-id", release_id, "--series", "monthly", "--output", place),
        *("--ledger", desk.ledger),
    ]
    desk.succeed(*finish)
    monkeypatch.setenv("CROWDBLEND_LEDGER", desk.ledger)
    [released] = desk.releases()
    assert released["stage"] == "published"


def test_a_release_that_lives_or_is_given_up_stands_in_nobodys_way(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    release_id = cut_off(desk, "spec.toml")
    with open_reader(desk.ledger) as reader:
        ledger_id = reader.ledger_id
    with open_private_store(desk.home).hold(ledger_id=ledger_id, release_id=release_id):
        desk.succeed("run", "spec.toml", "--dry-run")
    assert desk("run", "spec.toml", "--dry-run").code == 2
    desk.succeed("abandon", release_id, "--reason", "cut off")
    desk.succeed("run", "spec.toml", "--dry-run")


def test_one_of_another_private_store_is_named_with_that(desk, tmp_path) -> None:
    desk.add_dataset()
    desk.write_spec()
    release_id = cut_off(desk, "spec.toml")
    [folder] = (desk.home / "releases").iterdir()
    os.rename(folder, tmp_path / "moved")
    told = desk("run", "spec.toml")
    assert told.code == 2
    assert release_id in told.err
    assert "CROWDBLEND_HOME" in told.err
    assert "Finish it at no new charge" not in told.err


def test_submit_names_it_too(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    release_id = cut_off(desk, "spec.toml")
    code, _, err = desk.start("submit", "spec.toml").finish()
    assert code == 2, err
    assert release_id in err
    assert len(desk.releases()) == 1
    code, _, err = desk.start("submit", "spec.toml", "--new").finish()
    assert code == 0, err
    code, _, err = desk.start("submit", "spec.toml", "--release-id", release_id, "--output", "out").finish()
    assert code == 2, err  # its output is taken by now
    assert len(desk.releases()) == 2


def test_python_names_it_too(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    release_id = cut_off(desk, "spec.toml")
    desk.prefect()
    with pytest.raises(api.InputRefused, match=release_id):
        api.release(spec)
    with pytest.raises(api.InputRefused, match=release_id):
        api.dry_run(spec)
    assert api.dry_run(spec, new=True).state is None
    assert api.release(spec, release_id=release_id).release_id == release_id
    assert len(desk.releases()) == 1
    cut_off(desk, "spec.toml", "--output", "second")
    assert api.release(spec, release_id="mine", output="mine").release_id == "mine"
    api.release(spec, new=True, output="third")
    assert len(desk.releases()) == 4
