"""Pages of a ledger that was replaced, that can't be verified, or that is lost, say so."""

from __future__ import annotations

import html
import os
import shutil

import pytest
from crowdblend.accounting.dashboard import work
from crowdblend.accounting.dashboard.work import WITHOUT_ANCHOR
from crowdblend.accounting.ledger.creation import create_ledger

CANT_BE_READ = "the ledger can't be read (OperationalError). Run crowdblend ledger verify."
FAULTS = {"unreadable", "not sound", "fault"}


@pytest.mark.slow
def test_another_chain_in_the_place_of_the_old_is_read_from_its_beginning(opened, copied, tmp_path) -> None:
    other = type(copied)(folder=tmp_path / "other", processes=copied.processes)
    shutil.copytree(copied.folder / "home", other.folder / "home")
    create_ledger(other.ledger, anchoring=other.anchoring)
    with opened(copied.ledger) as pages:
        assert pages.get("/api/v1/refusals").json()["refusals_in_all"] == 2
        os.replace(other.folder / "ledger.db", copied.folder / "ledger.db")
        assert pages.get("/api/v1/refusals").json()["refusals_in_all"] == 0
        kinds = pages.get("/api/v1/verification").json()["kinds"]
        assert kinds == [{"kind": "ledger-created/1", "entries": 1}]


@pytest.mark.slow
def test_an_older_copy_put_back_is_found_by_an_anchor_alone(opened, copied, tmp_path) -> None:
    shutil.copy(copied.folder / "ledger.db", tmp_path / "older.db")
    copied.charge("people-later")
    os.replace(tmp_path / "older.db", copied.folder / "ledger.db")
    [anchor] = (copied.folder / "home" / "anchors").iterdir()
    keys = copied.anchoring.keys.public_keys()
    with opened(copied.ledger) as blind:
        chain = blind.verified()
        assert (chain["verdict"], chain["unchecked"]) == ("sound", [WITHOUT_ANCHOR])
    with opened(copied.ledger, anchor=anchor, anchor_keys=keys) as pages:
        chain = pages.verified()
        assert chain["verdict"] == "broken"
        assert {one["position"] for one in chain["findings"]} == {None}
        assert WITHOUT_ANCHOR not in chain["unchecked"]
        assert "This ledger does not hold." in pages.get("/").text


@pytest.mark.slow
def test_a_ledger_that_cant_be_verified_shows_why_and_no_figure(opened, copied, paths) -> None:
    """As where another version migrates it between the pages' start and the verification."""
    pages = opened(copied.ledger)
    copied.past_the_guards("UPDATE ledger_version SET version_num = '9999'")
    with pages:
        chain = pages.verified()
        assert (chain["verdict"], chain["verified_to"], chain["findings_in_all"]) == ("failed", None, 1)
        assert "this ledger has schema revision 9999" in chain["findings"][0]["what"]
        for path in paths:
            answer = pages.get(path)
            assert answer.status_code == 409, path
            assert "This ledger could not be verified." in answer.text
            assert chain["findings"][0]["what"] in html.unescape(answer.text)
            assert "<data value" not in answer.text
        assert "crowdblend_chain_sound 0" in pages.get("/metrics").text


@pytest.mark.slow
def test_a_lost_database_is_told_as_lost_and_lets_nobody_in(postgresql_server, opened, copied, monkeypatch) -> None:
    """Until a verification has met the lost database a page can't be read; then the ledger can't be verified."""
    from datetime import UTC, datetime, timedelta

    from crowdblend.accounting.ledger.ledger_writer import open_writer
    from sqlalchemy import create_engine, text
    from sqlalchemy.pool import NullPool

    server = create_engine(postgresql_server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text("CREATE DATABASE pages_lose"))
    url = postgresql_server.replace("/postgres?", "/pages_lose?")
    create_ledger(url, anchoring=copied.anchoring)
    today = datetime.now(UTC).date()
    with open_writer(url, anchoring=copied.anchoring) as writer:
        token = writer.add_token(name="a", expires=today + timedelta(days=2), by="b", day=today, randomness=os.urandom)
    headers = {"authorization": f"Bearer {token}"}
    monkeypatch.setattr(work, "LEAST_BETWEEN", 2.0)
    monkeypatch.setattr(work, "SHARE_OF_TIME", 0.0)
    with opened(url) as unverified, opened(url) as verified, opened(url, require_token=True) as guarded:
        assert unverified.verified()["verdict"] == "sound"
        unverified.pages._inner.state.dashboard.watch.close()
        ended = verified.verified()["ended"]
        assert guarded.get("/overview", headers=headers).status_code == 200
        with server.connect() as connection:
            connection.execute(text("DROP DATABASE pages_lose WITH (FORCE)"))
        for path in ("/overview", "/health", "/metrics", "/csv/overview", "/api/v1/releases"):
            answer = unverified.get(path)
            assert answer.status_code == 503, path
            assert CANT_BE_READ in html.unescape(answer.text), path
            assert "psycopg" not in answer.text, path
        assert {"unreadable"} == {event["event"] for event in unverified.events if event["event"] in FAULTS}
        answer = guarded.get("/overview", headers=headers)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert answer.text == "The ledger can't be read.\n"

        assert verified.get("/health").status_code == 503
        chain = verified.verified(past=ended)
        assert chain["verdict"] == "failed"
        assert "the ledger can't be opened (OperationalError)." in chain["findings"][0]["what"]
        for path, why in (
            ("/overview", "This ledger could not be verified."),
            ("/csv/overview", "The last verification could not be done."),
            ("/api/v1/releases", "The last verification could not be done."),
        ):
            answer = verified.get(path)
            assert answer.status_code == 409, path
            assert why in answer.text, path
            assert chain["findings"][0]["what"] in html.unescape(answer.text), path
            assert "psycopg" not in answer.text, path
        assert verified.get("/health").status_code == 503
        metrics = verified.get("/metrics")
        assert (metrics.status_code, "crowdblend_chain_sound 0" in metrics.text) == (200, True)
        assert "not sound" in {event["event"] for event in verified.events}
