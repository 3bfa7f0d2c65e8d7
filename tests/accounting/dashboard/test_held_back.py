"""Pages that are held back show nothing before its interval has ended, wherever one looks."""

from __future__ import annotations

import time

import pytest
from crowdblend.accounting.dashboard.views.state import PublicationDelay

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


@pytest.mark.slow
def test_who_asks_first_in_an_interval_sees_the_ledger_of_its_begin(opened, copied) -> None:
    """Else whoever asks would choose at which time they see the ledger, to the second."""
    seconds = 10.0
    with opened(copied.ledger, hold_back_minutes=seconds / 60) as running:
        for number in range(5):
            time.sleep(seconds - time.time() % seconds + 1)
            interval = time.time() // seconds
            copied.charge(f"people-{number}")
            told = running.get("/releases").text
            if time.time() // seconds == interval:  # not on a machine that was too busy
                assert f"people-{number}" not in told
                break
        else:
            pytest.fail("the machine is too busy")
        time.sleep(seconds - time.time() % seconds + 1)
        assert f"people-{number}" in running.get("/releases").text
