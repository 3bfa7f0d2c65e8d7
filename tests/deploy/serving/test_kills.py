"""`serve` and its release are killed at each step; served again, the release is finished, once, and Prefect is told."""

from __future__ import annotations

import os
import signal
import time

import pytest

SELECTION = """
[selection]
epsilon = 0.1
on = "whole"
candidates = [{ colour = 0, age = 1, town = 2 }, { colour = 1, age = 1, town = 1 }]

[columns.colour]"""
LEFT = {"charge": "not charged", "charged": "charged"}


def chosen(text: str) -> str:
    """A specification whose map is drawn, so that there is a step that draws it."""
    lines = [line for line in text.splitlines() if not line.startswith("level")]
    return "\n".join(lines).replace("[columns.colour]", SELECTION)


def killed_and_finished(desk, serve, environment, *, series: str, step: str, cron: str, begin) -> str:
    """Kill a release at a step, serve again with another output until it is published where it was charged; its id."""
    desk.add_dataset()
    spec = desk.write_spec(edit=chosen if step == "select" else lambda text: text)
    desk.succeed("series", "add", series, spec, "--releases", "9")
    first = serve(series, environment=environment, cron=cron, kill_at=step)
    first.await_line("Next run at")
    begin()
    release_id = first.await_line("Running release").split()[-1].rstrip(".")
    assert first.end() == -signal.SIGKILL
    before = {shown["release_id"]: shown for shown in desk("ledger", "show", "--json").json["releases"]}
    assert (release_id in before) == (step != "charge")
    assert (desk.folder / "published" / release_id).exists() == (step == "close")
    again = serve(series, "--output", "elsewhere", environment=environment, cron=cron)
    place = desk.folder / ("elsewhere" if step == "charge" else "published") / release_id
    left = LEFT.get(step, "reading")
    assert f"release {release_id} was cut off ({left}); it is finished now" in again.await_line("Unfinished")
    published = again.await_line("Published")
    assert f"Published release {release_id} (1 of 9 of {series}): {place}\n" in published
    again.await_line("Next run at")
    assert again.end(signal.SIGTERM) in (0, 1)  # 1 where the next release had come due meanwhile
    assert any("Stopped by SIGTERM" in line for line in again.lines)
    shown = desk("ledger", "show", "--json").json
    [finished] = [row for row in shown["releases"] if row["release_id"] == release_id]
    assert finished["stage"] == "published"
    if step != "charge":
        assert finished["sample_id"] == before[release_id]["sample_id"]
    desk.succeed("verify", place / "certificate.json")
    desk.succeed("ledger", "verify")
    return release_id


def test_a_release_that_came_due_is_finished_after_a_kill_once_its_file_is_there(desk, serve, prefect) -> None:
    """It is killed within its charge, and the next `serve` waits for its file, publishes it and ends."""
    desk.add_dataset()
    desk.succeed("series", "add", "minutes", desk.write_spec(), "--releases", "1")
    first = serve("minutes", environment=prefect.environment, kill_at="charge")
    first.await_line("Next run at")
    prefect.trigger("minutes")  # a minute of cron would have to be waited for
    release_id = first.await_line("Running release minutes@").split()[-1].rstrip(".")
    assert first.end() == -signal.SIGKILL
    assert desk("ledger", "show", "--json").json["releases"] == []
    records = desk.folder / "people.csv"
    records.rename(desk.folder / "late.csv")
    again = serve("minutes", "--retry-for", "40s", environment=prefect.environment)
    assert f"release {release_id} was cut off (not charged); it is finished now" in again.await_line("Unfinished")
    assert "people.csv: the file cannot be found" in again.await_line("Waiting")
    (desk.folder / "late.csv").rename(records)
    assert f"Published release {release_id} (1 of 1 of minutes)" in again.await_line("Published")
    assert again.end() == 4
    assert "Ended: all 1 releases" in again.lines[-1]
    latest = prefect.ask("flow_runs/filter", sort="EXPECTED_START_TIME_DESC")
    ended = [(run["state_type"], run["state"]["message"] or "") for run in latest]
    assert ("COMPLETED", f"Release {release_id} is published.") in ended
    assert [told for state, told in ended if state == "CRASHED" and f"can finish release {release_id}" in told]
    desk.succeed("ledger", "verify")


@pytest.mark.long
@pytest.mark.parametrize("step", ["charge", "charged", "select", "count", "publish", "close"])
def test_killed_at_a_step_with_a_server_outside(desk, serve, scheduler, step: str) -> None:
    series, runs = f"outside-{step}", []
    release_id = killed_and_finished(
        desk,
        serve,
        scheduler.environment,
        series=series,
        step=step,
        cron="0 3 1 1 *",
        begin=lambda: runs.append(scheduler.trigger(series)),
    )
    stale = scheduler.flow_run(runs[0])
    assert stale["state_type"] == "CRASHED"
    assert f"another flow run can finish release {release_id}" in stale["state"]["message"]
    [finishing] = [run for run in scheduler.runs_of(series) if run["parameters"].get("release_id") == release_id]
    assert finishing["state_type"] == "COMPLETED"
    deadline = time.monotonic() + 900
    while live := scheduler.live():  # its server learns of tasks a little later
        assert time.monotonic() < deadline, live
        time.sleep(1)


@pytest.mark.long
@pytest.mark.parametrize("step", ["charge", "charged", "select", "count", "publish", "close"])
def test_killed_at_a_step_with_a_server_of_its_own(desk, serve, embedded, step: str) -> None:
    series = f"embedded-{step}"
    killed_and_finished(desk, serve, embedded, series=series, step=step, cron="* * * * *", begin=lambda: None)


@pytest.mark.long
def test_a_release_ends_with_the_serve_that_was_killed_alone(desk, serve, rig, prefect) -> None:
    rig.write_records(desk.folder / "many", 6_000_000)
    desk.add_dataset()
    desk.succeed("series", "add", "orphan", desk.write_spec(source="many"), "--releases", "2")
    first = serve("orphan", environment=prefect.environment)
    first.await_line("Next run at")
    prefect.trigger("orphan")
    release_id = first.await_line("Running release").split()[-1].rstrip(".")
    rig.await_stage(desk.folder / "ledger.db", release_id, "reading")
    os.kill(first.process.pid, signal.SIGKILL)
    first.end()
    again = serve("orphan", environment=prefect.environment)
    again.await_line(f"Unfinished: release {release_id} was cut off .reading.")
    again.await_line(f"Published release {release_id}")
