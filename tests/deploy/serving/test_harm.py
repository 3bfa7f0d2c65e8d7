"""`serve` tries a charged release again whatever came in its way, and says of each attempt what is so."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from crowdblend.accounting.kernel.keys.private_store import ReleaseFolder
from crowdblend.deploy.prefect.scheduled import scheduled_release
from crowdblend.deploy.prefect_environment import configured_api

KILL_AT = Path(__file__).parents[2] / "support" / "kill_at"


def test_an_attempt_that_is_refused_says_what_the_release_has_cost(desk, monkeypatch) -> None:
    """Nothing was charged by that attempt, but by the one before."""
    desk.add_dataset()
    spec, prefect = desk.write_spec(), desk.prefect()
    desk.succeed("series", "add", "harmed", spec, "--releases", "2")
    monkeypatch.setenv("PREFECT_API_URL", prefect)
    people, ledger = desk.folder / "people.csv", desk.folder / "ledger.db"

    def attempt() -> str:
        with configured_api():
            state = scheduled_release(str(spec), "harmed", "published", release_id="one", return_state=True)
        assert state.is_failed()
        return state.message

    def attempt_without(file: Path) -> str:
        file.rename(f"{file}.elsewhere")
        said = attempt()
        Path(f"{file}.elsewhere").rename(file)
        return said

    assert (
        "people.csv: the file cannot be found (No such file or directory). Nothing was read, written or charged."
        in attempt_without(people)
    )
    with monkeypatch.context() as broken:
        broken.setattr("crowdblend.tasks.stages.count.block_counts", lambda *_, **__: 1 / 0)
        spent = "A place in the series 'harmed' is spent, since reading had begun."
        assert spent in attempt()
    refused = attempt_without(people)
    assert f"people.csv: the file cannot be found (No such file or directory). {spent}" in refused
    unknown = attempt_without(ledger)
    assert "there is no ledger here. What it has cost isn't known: the ledger can't be read now." in unknown
    for said in (refused, unknown):
        assert "Nothing was" not in said


@pytest.mark.slow
def test_an_anchor_that_is_gone_at_the_close_is_waited_for(desk, serve, prefect) -> None:
    desk.add_dataset()
    desk.succeed("series", "add", "harmed", desk.write_spec(), "--releases", "2")
    [anchor] = (desk.home / "anchors").glob("*.jsonl")
    elsewhere = Path(f"{anchor}.elsewhere")
    harm = {
        "TEST_HARM_AT": "close",
        "TEST_HARM": f"test -e {desk.folder}/harmed || mv {anchor} {elsewhere}; touch {desk.folder}/harmed",
    }
    serving = serve(
        "harmed", "--retry-for", "100s", environment=prefect.environment | harm | {"PYTHONPATH": str(KILL_AT)}
    )
    serving.await_line("Next run at")
    prefect.trigger("harmed")
    first = serving.await_line("Waiting")
    assert "this ledger's anchor is missing" in first
    assert "is spent, since reading had begun. Its output is in view at" in first
    again = serving.await_line("Waiting")
    assert "this ledger's anchor is missing. A place in the series 'harmed' is spent" in again
    elsewhere.rename(anchor)
    serving.await_line("Published release")
    assert serving.end(signal.SIGTERM) in (0, 1)  # 1 where its process had not ended yet
    desk.succeed("ledger", "verify")


def test_serve_destroys_the_key_of_a_last_release_that_was_killed(desk, monkeypatch) -> None:
    """No run may come that would do it."""
    desk.add_dataset()
    spec = desk.write_spec()
    desk.succeed("series", "add", "once", spec, "--releases", "1")
    with monkeypatch.context() as killed:
        killed.setattr(ReleaseFolder, "destroy_key", lambda _: None)
        desk.succeed("run", spec, "--series", "once")
    assert list(desk.home.glob("releases/**/*.key"))
    assert desk("serve", spec, "--series", "once", "--cron", "0 3 1 * *", "--output", "published").code == 4
    assert not list(desk.home.glob("releases/**/*.key"))


@pytest.mark.slow
def test_serve_destroys_the_key_of_a_release_whose_process_died(desk, serve, prefect) -> None:
    desk.add_dataset()
    desk.succeed("series", "add", "once", desk.write_spec(), "--releases", "1")
    # Keys are destroyed before the charge too, where an earlier attempt has left some.
    after_the_close = "! test -e published/*/certificate.json || kill -9 $PPID"
    harm = {"TEST_HARM_AT": "closed", "TEST_HARM": after_the_close}
    serving = serve("once", environment=prefect.environment | harm | {"PYTHONPATH": str(KILL_AT)})
    serving.await_line("Next run at")
    prefect.trigger("once")
    assert "its process died (signal 9)" in serving.await_line("Failed")
    assert serving.end() == 4
    assert not list(desk.home.glob("releases/**/*.key"))
