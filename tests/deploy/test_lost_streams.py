"""Standard error that can't be written ends no work; a lost result is told in a sentence, and takes nothing back."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

FULL = "os.dup2(os.open('/dev/full', os.O_WRONLY), {number})"
LEFT = "reads, writes = os.pipe(); os.close(reads); os.dup2(writes, {number})"
CLOSED = "os.close({number}); atexit.register(setattr, sys, '{name}', sys.{name}); sys.{name} = None"
AS_THE_PROGRAM = "import atexit, os, sys; {lost}; from crowdblend.deploy import cli; cli.main(sys.argv[1:])"
"""The command line, one of whose standard streams is lost in a way."""

WHY = {FULL: "No space left on device", LEFT: "Broken pipe", CLOSED: "it is closed"}
NAMES = {FULL: "full", LEFT: "left by its reader", CLOSED: "closed"}


def without(how: str, number: int) -> str:
    name = {1: "stdout", 2: "stderr"}[number]
    return AS_THE_PROGRAM.format(lost=how.format(number=number, name=name))


@pytest.mark.parametrize("how", WHY, ids=NAMES.get)
def test_a_release_whose_progress_nobody_can_read_is_made_and_told(desk, how) -> None:
    desk.add_dataset()
    desk.write_spec()
    code, out, _ = desk.start("run", "spec.toml", "--release-id", "unseen", "--json", script=without(how, 2)).finish()
    assert code == 0
    assert json.loads(out)["release_id"] == "unseen"
    assert [(one["release_id"], one["stage"]) for one in desk.releases()] == [("unseen", "published")]


def test_progress_that_is_read_no_longer_ends_no_release(desk) -> None:
    desk.add_dataset()
    desk.write_spec()
    running = desk.start("run", "spec.toml", "--json")
    assert running.stderr.readline().startswith("crowdblend: release ")
    running.stderr.close()
    code, out, _ = running.finish()
    assert code == 0
    assert json.loads(out)["release_id"] == desk.releases()[0]["release_id"]


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("how", WHY, ids=NAMES.get)
def test_a_release_whose_result_can_t_be_written_says_so_and_stays(desk, how, words) -> None:
    desk.add_dataset()
    desk.write_spec()
    asked = ("run", "spec.toml", "--release-id", "untold", "--quiet", *words)
    code, _, err = desk.start(*asked, script=without(how, 1)).finish()
    assert code == 1
    assert err.splitlines()[1:] == [
        f"crowdblend: The result can't be written to standard output ({WHY[how]}). What was done stays done: "
        "see `crowdblend ledger show`, or `crowdblend status` with the release's id."
    ]
    assert desk("status", "untold", "--json").json["state"] == "published"


PLAN = ("plan", "--k", "20", "--rate", "0.1", "--delta", "1e-6")


@pytest.mark.parametrize("how", WHY, ids=NAMES.get)
@pytest.mark.parametrize(
    ("words", "look"),
    [
        (PLAN, "."),
        ((*PLAN, "--json"), "."),
        (("dataset", "add", "more", "--epsilon", "1", "--delta", "1e-5"), ": see `crowdblend dataset list`."),
        (("ledger", "show", "--json"), ": see `crowdblend ledger show`."),
        (("--help",), "."),
    ],
    ids=["plan", "plan as json", "dataset add", "ledger show as json", "help"],
)
def test_no_command_shows_a_traceback_or_denies_its_work(desk, how, words, look) -> None:
    desk.add_dataset()
    code, _, err = desk.start(*words, script=without(how, 1)).finish()
    assert code == 1
    lost = f"The result can't be written to standard output ({WHY[how]})."
    assert err == f"crowdblend: {lost} What was done stays done{look}\n"
    known = [one["dataset"] for one in desk("dataset", "list", "--json").json["datasets"]]
    assert ("more" in known) == ("more" in words)


@pytest.mark.parametrize("how", WHY, ids=NAMES.get)
def test_a_refusal_keeps_its_exit_code_though_its_object_is_lost(desk, how) -> None:
    code, _, err = desk.start("run", "nowhere.toml", "--json", script=without(how, 1)).finish()
    assert code == 2
    refused, lost = err.splitlines()
    assert "nowhere.toml" in refused
    assert lost == f"crowdblend: The result can't be written to standard output ({WHY[how]})."


SAID = """
import atexit, os, sys
{lost}
from crowdblend.deploy.serving.serve_settings import say
from crowdblend.deploy.terminal.stages import escaped_streams
with escaped_streams():
    before = len(os.listdir("/proc/self/fd"))
    for number in range(9):
        say(f"event {{number}}")
    sys.stdout.flush()
    assert len(os.listdir("/proc/self/fd")) == before
"""


@pytest.mark.parametrize("how", WHY, ids=NAMES.get)
def test_what_serve_says_is_a_log_and_its_loss_ends_nothing(commands, tmp_path, how) -> None:
    lost = how.format(number=1, name="stdout")
    ended = commands.run(folder=tmp_path, script=SAID.format(lost=lost))
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("redirected", [">/dev/full", ">&-", "2>/dev/full >/dev/full", "2>&- >&-", "| true"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_shell_s_redirections_give_one_sentence(redirected, unbuffered) -> None:
    """CPython flushes its streams once more when it ends, which would be heard, and would change the exit code."""
    program = f'"$0" -W ignore -m crowdblend.deploy {" ".join(PLAN)} --json {redirected}'
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program}", sys.executable],
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert len(ended.stderr.splitlines()) == ("2>" not in redirected), ended.stderr
    assert "Traceback" not in ended.stderr
