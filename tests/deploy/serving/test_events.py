"""`serve` tells each event in a line: its times, what is published or refused and why, what it waits for, its end."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

HOOK = "import sys; open('hook.log', 'a').write(sys.stdin.read() + chr(10))"


def at(line: str) -> datetime:
    return datetime.fromisoformat(line.split(maxsplit=1)[0])


def test_what_would_refuse_every_release_is_refused_at_once(desk) -> None:
    desk.add_dataset()
    spec = desk.write_spec()
    words = ("serve", spec, "--output", "published", "--series")
    unknown = desk(*words, "none", "--cron", "0 3 1 * *")
    assert (unknown.code, "none" in unknown.err) == (2, True)
    desk.succeed("series", "add", "monthly", spec, "--releases", "2")
    for options, told in [
        (("--cron", "* * * * * *"), "'* * * * * *' has 6 fields, and a schedule has five"),
        (("--cron", "0 3 1 * *", "--retry-for", "soon"), "30m or 6h"),
        (("--cron", "0 3 1 * *", "--on-failure", "no-such-program"), "the command's program isn't there"),
    ]:
        refused = desk(*words, "monthly", *options)
        assert (refused.code, told in refused.err) == (2, True), refused.err
    desk.write_spec(k="21")
    changed = desk(*words, "monthly", "--cron", "0 3 1 * *")
    assert changed.code == 3
    assert "this specification differs from the one that was registered" in changed.err


@pytest.mark.slow
def test_a_series_that_has_no_release_left_ends_serve_with_its_own_exit(desk, prefect_server, monkeypatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", prefect_server.api_url)
    desk.add_dataset()
    spec = desk.write_spec()
    desk.succeed("series", "add", "once", spec, "--releases", "1")
    desk.succeed("run", spec, "--series", "once")
    ended = desk("serve", spec, "--series", "once", "--cron", "0 3 1 * *", "--output", "published")
    assert ended.code == 4, ended.err
    assert "Ended: all 1 releases of the series 'once' are taken and finished." in ended.out


@pytest.mark.slow
def test_a_schedule_fires_is_told_and_ends_with_its_series(desk, serve, scheduler) -> None:
    desk.add_dataset()
    desk.succeed("series", "add", "minutes", desk.write_spec(), "--releases", "1")
    serving = serve("minutes", environment=scheduler.environment, cron="* * * * *")
    assert "serves the series 'minutes': 0 of 1 releases are taken" in serving.await_line("serves the series")
    coming = serving.await_line("comes next at")
    times = [
        datetime.fromisoformat(f"{text}+00:00") for text in re.findall(r"(20\d\d-\d\d-\d\d \d\d:\d\d)[,.]", coming)
    ]
    assert times == [times[0] + timedelta(minutes=number) for number in range(3)]
    assert at(serving.lines[0]) < times[0]
    serving.await_line(r"Next run at .*: release minutes@20\d{6}T\d{4}00Z\.")
    running = serving.await_line("Running release minutes@")
    release_id = running.split()[-1].rstrip(".")
    scheduled = datetime.strptime(release_id, "minutes@%Y%m%dT%H%M%S%z")
    assert times[0] <= scheduled <= at(running)
    assert f"Published release {release_id} (1 of 1 of minutes): {desk.folder}" in serving.await_line("Published")
    assert serving.end() == 4
    assert "Ended: all 1 releases" in serving.lines[-1]
    ended = [run["state"]["message"] for run in scheduler.ask("flow_runs/filter") if run["state_type"] == "COMPLETED"]
    assert f"Release {release_id} is published." in ended
    assert scheduler.ask("deployments/filter", deployments={"name": {"any_": ["minutes"]}}) == []


@pytest.fixture
def hooked(desk, serve, prefect) -> Callable[[str, str], Any]:
    """Start `serve` for a series of nine releases, with a hook that keeps what it is told."""

    def start(series: str, retry_for: str) -> Any:
        desk.add_dataset()
        desk.succeed("series", "add", series, desk.write_spec(), "--releases", "9")
        hook = f'{sys.executable} -c "{HOOK}"'
        return serve(series, "--retry-for", retry_for, "--on-failure", hook, environment=prefect.environment)

    return start


@pytest.mark.slow
def test_it_waits_for_a_file_says_why_it_refuses_and_tells_the_hook(desk, hooked, prefect) -> None:
    records = desk.folder / "people.csv"
    records.rename(desk.folder / "kept.csv")
    serving = hooked("daily", "40s")
    serving.await_line("Next run at")
    prefect.trigger("daily")
    waiting = serving.await_line("Waiting")
    assert re.search(
        r"release daily@\S+: \S+people.csv: the file cannot be found .* Tried again until 20\S+Z\.", waiting
    )
    (desk.folder / "kept.csv").rename(records)
    serving.await_line("Published release daily@")
    desk.write_spec(k="21")
    serving.await_line("Next run at")
    number = prefect.trigger("daily")
    changed = serving.await_line("Refused: release daily@")
    assert "differs from the one that was registered" in changed
    serving.await_line("Next run at")
    assert serving.end(signal.SIGINT) == 0
    assert "Stopped by Ctrl-C. Nothing was running" in serving.lines[-1]
    [told] = [json.loads(line) for line in (desk.folder / "hook.log").read_text().splitlines()]
    assert f"release {told.pop('release_id')}:" in changed
    assert told == {"dataset": "people", "series": "daily", "exit_code": 3, "cause": "series-changed"}
    assert prefect.flow_run(number)["state_name"] == "Refused"
    assert desk("series", "list", "--json").json["series"][0]["taken"] == 1


@pytest.mark.slow
def test_a_file_that_does_not_come_is_waited_for_until_its_time_is_over(desk, hooked, prefect) -> None:
    (desk.folder / "people.csv").unlink()
    serving = hooked("late", "10s")
    serving.await_line("Next run at")
    prefect.trigger("late")
    waiting = serving.await_line("Waiting")
    refused = serving.await_line("Refused: release late@")
    assert "people.csv: the file cannot be found" in refused
    assert at(refused) - at(waiting) > timedelta(seconds=5)
    serving.await_line("Next run at")
    assert serving.end(signal.SIGINT) == 0
    [told] = [json.loads(line) for line in (desk.folder / "hook.log").read_text().splitlines()]
    assert f"release {told.pop('release_id')}:" in refused
    assert told == {"dataset": "people", "series": "late", "exit_code": 2, "cause": "source-missing"}


@pytest.mark.long
def test_ctrl_c_within_a_release_tells_what_it_cost_and_it_is_finished_later(desk, serve, rig, prefect) -> None:
    rig.write_records(desk.folder / "many", 6_000_000)
    desk.add_dataset()
    desk.succeed("series", "add", "cut", desk.write_spec(source="many"), "--releases", "2")
    serving = serve("cut", environment=prefect.environment)
    serving.await_line("Next run at")
    number = prefect.trigger("cut")
    release_id = serving.await_line("Running release").split()[-1].rstrip(".")
    rig.await_stage(desk.folder / "ledger.db", release_id, "reading")
    assert serving.end(signal.SIGINT) == 1
    told = "".join(serving.lines)
    assert f"Stopped by Ctrl-C. Release {release_id} was cut off." in told
    assert "is spent, since reading had begun" in told
    assert f"crowdblend abandon {release_id} --reason TEXT" in told
    assert prefect.flow_run(number)["state_type"] == "CRASHED"
    again = serve("cut", environment=prefect.environment)
    again.await_line(f"Unfinished: release {release_id} was cut off")
    again.await_line(f"Published release {release_id}")


@pytest.mark.long
def test_one_series_is_served_by_one_process(desk, serve, prefect) -> None:
    desk.add_dataset()
    desk.succeed("series", "add", "alone", desk.write_spec(), "--releases", "2")
    serving = serve("alone", environment=prefect.environment)
    serving.await_line("Next run at")
    second = desk("serve", "spec.toml", "--series", "alone", "--cron", "0 3 1 1 *", "--output", "published")
    assert second.code == 3
    assert "a live process serves this series already" in second.err


@pytest.mark.long
def test_a_server_outside_that_goes_and_comes_back_is_waited_for(desk, serve, scheduler, own_prefect_server) -> None:
    desk.add_dataset()
    desk.succeed("series", "add", "patient", desk.write_spec(), "--releases", "1")
    serving = serve("patient", environment=scheduler.environment, cron="* * * * *")
    serving.await_line("Next run at")
    own_prefect_server.stop(signal.SIGKILL)
    serving.await_line("Prefect's server can't be reached")
    time.sleep(1)
    own_prefect_server.start()
    serving.await_line("Prefect's server answers again")
    serving.await_line("Published release patient@")
    assert serving.end() == 4


@pytest.mark.long
def test_one_machine_serves_a_series_by_itself(desk, serve, embedded) -> None:
    desk.add_dataset()
    desk.succeed("series", "add", "lone", desk.write_spec(), "--releases", "2")
    serving = serve("lone", environment=embedded, cron="* * * * *")
    serving.await_line(r"Published release lone@\S+ \(1 of 2 of lone\)")
    (desk.folder / "people.csv").touch()  # delivered anew: the same delivery is released once
    serving.await_line(r"Published release lone@\S+ \(2 of 2 of lone\)")
    assert serving.end() == 4
    desk.succeed("ledger", "verify")
