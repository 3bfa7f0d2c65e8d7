"""A schedule releases each delivery once, reads the file of its day, and means the clock of its time zone."""

from __future__ import annotations

import json
import os
import secrets
import signal
from datetime import UTC, date, datetime

import pytest
from crowdblend.deploy.prefect.scheduled import _day_of
from crowdblend.deploy.run import run_release
from crowdblend.deploy.serving.serve_settings import Schedule, require_timezone
from crowdblend.flows.paths import resolve_paths
from crowdblend.flows.prepare import Scheduled
from crowdblend.flows.spec import read_spec
from crowdblend.mechanisms.kernel.errors import InputRefused

DAY = date(2026, 3, 1)


@pytest.fixture
def scheduled(desk):
    """Run a release of the series `monthly` as a schedule does; its id."""
    desk.add_dataset()
    desk.prefect()

    def run(number: int, *, day: date = DAY, allow_unchanged: bool = False) -> str:
        result = run_release(
            desk.folder / "spec.toml",
            state_paths=resolve_paths(),
            output=str(desk.folder / f"out-{number}"),
            scheduler=None,
            release_id=f"monthly-{number}",
            series="monthly",
            new=True,
            scheduled=Scheduled(day=day, allow_unchanged=allow_unchanged),
            randomness=secrets.token_bytes,
        )
        return str(result["release_id"])

    return run


def taken(desk) -> int:
    return int(desk("series", "list", "--json").json["series"][0]["taken"])


def deliver_again(path) -> None:
    """The same bytes, written anew."""
    before = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_nothing_new_is_released_by_nobody_and_takes_no_place(desk, scheduled) -> None:
    desk.succeed("series", "add", "monthly", desk.write_spec(), "--releases", "5")
    people = desk.folder / "people.csv"
    assert scheduled(1) == "monthly-1"
    for _ in range(2):
        with pytest.raises(InputRefused, match="nothing was delivered since release 'monthly-1'") as refused:
            scheduled(2)
        assert refused.value.cause == "source-unchanged"
        assert "--allow-unchanged" in refused.value.message
    assert taken(desk) == 1
    deliver_again(people)
    assert scheduled(2) == "monthly-2"
    with pytest.raises(InputRefused, match="'monthly-2'"):
        scheduled(3)
    assert scheduled(3, allow_unchanged=True) == "monthly-3"
    assert scheduled(3) == "monthly-3", "what is published is looked up"
    assert taken(desk) == 3


def test_it_follows_from_times_and_names_and_from_no_record(desk, scheduled) -> None:
    """A missing release is seen in public: it may not tell whether one record was changed, added or left out."""
    desk.succeed("series", "add", "monthly", desk.write_spec(), "--releases", "5")
    people = desk.folder / "people.csv"
    scheduled(1)
    times = people.stat().st_mtime_ns
    lines = people.read_text().splitlines(keepends=True)
    people.write_text("".join(lines[:-1]))
    os.utime(people, ns=(times, times))
    with pytest.raises(InputRefused, match="nothing was delivered"):
        scheduled(2)
    people.write_text("".join(lines))
    os.utime(people, ns=(times + 1, times + 1))
    assert scheduled(2) == "monthly-2", "the very same bytes, delivered anew"


def test_what_is_kept_of_a_delivery_is_keyed_and_in_no_ledger(desk, scheduled) -> None:
    desk.succeed("series", "add", "monthly", desk.write_spec(), "--releases", "5")
    scheduled(1)
    [record] = [json.loads(path.read_text()) for path in desk.home.glob("releases/*/monthly-1/record.json")]
    assert len(record["delivery"]) == 64
    assert record["delivery"] not in desk("ledger", "export").out
    assert record["delivery"] not in (desk.folder / "out-1" / "certificate.json").read_text()
    (desk.home / "fingerprint.key").write_bytes(bytes(32))
    assert scheduled(2) == "monthly-2", "under another key it says nothing"


def test_a_dated_source_is_the_file_of_its_day_and_one_specification(desk, scheduled) -> None:
    march, april = desk.folder / "people-2026-03.csv", desk.folder / "people-2026-04.csv"
    desk.write_people(2_400, file=march.name)
    spec = desk.write_spec(source="people-{year}-{month}.csv")
    desk.succeed("series", "add", "monthly", spec, "--releases", "5")
    assert scheduled(1) == "monthly-1"
    with pytest.raises(InputRefused, match=r"people-2026-04\.csv") as refused:
        scheduled(2, day=date(2026, 4, 1))
    assert refused.value.cause == "source-missing"
    desk.write_people(2_400, file=april.name)
    assert scheduled(2, day=date(2026, 4, 1)) == "monthly-2"
    request = read_spec(spec, output=None)
    assert request.on_day(DAY).source == march.name
    assert request.on_day(DAY).on_day(date(2026, 4, 1)).source == april.name
    assert len({request.digest, request.on_day(DAY).digest, request.on_day(date(2026, 4, 1)).digest}) == 1
    assert request.source_of_any_day == "people-*-*.csv"
    today = datetime.now(UTC)
    assert f"people-{today:%Y-%m}.csv" in desk("run", spec, "--dry-run").err
    with pytest.raises(InputRefused, match="nothing was delivered since release 'monthly-2'"):
        scheduled(3, day=date(2026, 4, 30))


def test_a_release_of_a_dated_source_is_finished_with_the_file_of_its_charge(desk, scheduled, monkeypatch) -> None:
    desk.write_people(4_800, file="people-2026-03.csv")  # with 2,400 one release in 8,000 has no group
    desk.succeed("series", "add", "monthly", desk.write_spec(source="people-{year}-{month}.csv"), "--releases", "5")
    with monkeypatch.context() as broken:
        broken.setattr("crowdblend.tasks.stages.count.block_counts", lambda *_, **__: 1 / 0)
        with pytest.raises(Exception, match=r"by zero|failed|fault"):
            scheduled(1)
    assert taken(desk) == 1
    finish = ("run", "spec.toml", "--series", "monthly", "--release-id", "monthly-1", "--output", "out-1")
    assert desk.succeed(*finish, "--json").json["published_records"] > 0


def test_times_are_those_of_the_clock_that_is_named() -> None:
    after = datetime(2026, 3, 20, tzinfo=UTC)
    times = Schedule(cron="0 3 28,30 * *", timezone="Europe/Paris").next_times(count=2, after=after)
    assert times == (datetime(2026, 3, 28, 2, tzinfo=UTC), datetime(2026, 3, 30, 1, tzinfo=UTC))
    assert Schedule(cron="0 3 28 * *").next_times(count=1, after=after) == (datetime(2026, 3, 28, 3, tzinfo=UTC),)
    assert _day_of("monthly@20251231T233000Z", "Europe/Paris") == date(2026, 1, 1)
    assert _day_of("monthly@20251231T233000Z", "UTC") == date(2025, 12, 31)
    assert require_timezone("Europe/Paris") == "Europe/Paris"
    with pytest.raises(InputRefused, match="Did you mean 'Europe/Paris'"):
        require_timezone("Europe/Pari")


@pytest.mark.slow
def test_serve_waits_for_the_next_delivery_and_shows_its_own_clock(desk, serve, prefect) -> None:
    desk.add_dataset()
    spec = desk.write_spec(source="people-{year}.csv")
    desk.succeed("series", "add", "monthly", spec, "--releases", "9")
    delivered = desk.folder / f"people-{datetime.now(UTC):%Y}.csv"
    (desk.folder / "people.csv").rename(delivered)
    options = ("--retry-for", "120s", "--timezone", "Africa/Nairobi")
    serving = serve("monthly", *options, environment=prefect.environment)
    assert "(Africa/Nairobi) comes next at 20" in serving.await_line("comes next at")
    assert "T00:00:00Z" in serving.await_line("Next run at")
    prefect.trigger("monthly")
    serving.await_line("Published release monthly@")
    serving.await_line("Next run at")
    prefect.trigger("monthly")
    assert "nothing was delivered since release 'monthly@" in serving.await_line("Waiting")
    deliver_again(delivered)
    serving.await_line("Published release monthly@")
    serving.await_line("Next run at")
    assert serving.end(signal.SIGINT) == 0
    assert taken(desk) == 2


@pytest.mark.slow
def test_a_late_run_is_made_as_serve_is_told_now(desk, serve, prefect) -> None:
    """Prefect keeps the parameters that a run was made with; they may be those that were mistaken."""
    desk.add_dataset()
    desk.succeed("series", "add", "late", desk.write_spec(), "--releases", "9")
    before = serve("late", "--allow-unchanged", environment=prefect.environment)
    before.await_line("Next run at")
    assert before.end(signal.SIGTERM) == 0
    late = prefect.trigger("late")
    serving = serve("late", "--output", "elsewhere", environment=prefect.environment)
    told = serving.await_line("Published release late@")
    assert str(desk.folder / "elsewhere") in told
    assert not (desk.folder / "published").exists()
    serving.await_line("Next run at")
    assert serving.end(signal.SIGTERM) == 0
    assert prefect.flow_run(late)["parameters"]["allow_unchanged"] is False
