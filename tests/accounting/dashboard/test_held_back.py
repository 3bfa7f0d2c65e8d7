"""Pages that are held back show nothing before its interval has ended, wherever one looks."""

from __future__ import annotations

import time

import pytest
from crowdblend.accounting.dashboard.views.state import Follower, IntervalWatch, PublicationDelay
from crowdblend.accounting.ledger.opening import open_store

MINUTES = 5.0
SECONDS = 60 * MINUTES


def test_nothing_newer_is_taken_over_until_the_interval_ends(monkeypatch) -> None:
    clock = [100 * SECONDS]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    held, control = PublicationDelay(minutes=MINUTES), PublicationDelay(minutes=0.0)
    assert held.over
    held.begin()
    control.begin()
    clock[0] += SECONDS - 1
    assert (held.over, control.over) == (False, True)
    clock[0] += 1
    assert held.over
    clock[0] += SECONDS / 2
    held.begin()
    clock[0] += SECONDS / 2
    assert held.over, "intervals end at whole multiples of their length"


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [pytest.param("0", marks=pytest.mark.slow), "1440"])
def test_a_new_release_is_nowhere_before_its_time(serve, copied, minutes) -> None:
    """A day's interval ends within this test once in some thousand runs; without one the release is everywhere."""
    with serve(copied, "--hold-back", minutes) as running:
        before = running.get("/api/v1/overview").json()["frame"]
        copied.charge("people-new", sample="9" * 64)
        shown = minutes == "0"
        for path in ("/", "/datasets/1", "/releases", "/samples", "/verification", "/csv/releases", "/api/v1/samples"):
            answer = running.get(path)
            assert answer.status_code == 200, path
            told = "people-new" in answer.text or before["head"] not in answer.text
            assert told == shown or path.startswith("/csv"), path
            assert shown or "people-new" not in answer.text, path
        assert running.get("/releases/people-new").status_code == (200 if shown else 404)
        assert running.get(f"/entries/{before['entries']}").status_code == (200 if shown else 404)
        frame = running.get("/api/v1/overview").json()["frame"]
        assert (frame["entries"] > before["entries"]) == shown
        assert f"crowdblend_ledger_entries {frame['entries']}" in running.get("/metrics").text


def test_what_was_verified_tells_of_no_entry_that_is_held_back(opened, copied) -> None:
    """A verification sees the whole chain: where it ended would tell when an entry was written."""
    pages = opened(copied.ledger, hold_back_minutes=1440.0)
    copied.charge("people-new", sample="9" * 64)
    with pages as running:
        chain = running.verified()
        frame = running.get("/api/v1/overview").json()["frame"]
        assert (chain["verified_to"], chain["head_hash"]) == (frame["entries"] - 1, frame["head"])
        assert f"crowdblend_chain_verified_to {chain['verified_to']}\n" in running.get("/metrics").text
        assert chain["verdict"] == "sound"


def test_the_ledger_of_an_intervals_begin_is_taken_over_though_nobody_asks(copied, monkeypatch) -> None:
    """Else whoever asks first in an interval would choose at which time they see the ledger, to the second."""
    clock = [100 * SECONDS]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    follower, store = Follower(PublicationDelay(minutes=MINUTES)), open_store(copied.ledger, read_only=True)
    watch = IntervalWatch(store, follower)

    def await_interval() -> None:
        latest = time.monotonic() + 60
        while not follower.rest:
            assert time.monotonic() < latest, "no interval begins by itself"
            time.sleep(0.01)

    watch.start()
    await_interval()
    copied.charge("people-before")
    clock[0] += SECONDS
    await_interval()
    copied.charge("people-after", sample="9" * 64)
    with store.reading() as connection:
        shown = follower.follow(connection).own
    assert ("people-before" in shown, "people-after" in shown) == (True, False)
    watch.close()
    store.close()
