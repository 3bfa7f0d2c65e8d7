"""Pages of a ledger that was replaced, that can't be verified, or that is lost, say so."""

from __future__ import annotations

import html
import os
import shutil

import pytest
from crowdblend.accounting.dashboard.jobs.chain_watch import WITHOUT_ANCHOR
from crowdblend.accounting.ledger.database.creation import create_ledger


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
def test_a_lost_database_is_told_as_lost_and_lets_nobody_in(postgresql_server, opened, copied) -> None:
    from datetime import UTC, datetime, timedelta

    from crowdblend.accounting.ledger.writer import open_writer
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
    with opened(url) as everybody, opened(url, require_token=True) as guarded:
        assert everybody.get("/overview").status_code == 200
        assert guarded.get("/overview", headers=headers).status_code == 200
        with server.connect() as connection:
            connection.execute(text("DROP DATABASE pages_lose WITH (FORCE)"))
        for path in ("/overview", "/health", "/metrics", "/csv/overview", "/api/v1/releases"):
            answer = everybody.get(path)
            if answer.status_code == 409:  # the verification has met the lost database before
                assert "could not be verified" in answer.text or "could not be done" in answer.text, path
            else:
                assert answer.status_code == 503, path
                assert "the ledger can" in answer.text, path
            assert "psycopg" not in answer.text, path
        assert {"unreadable", "not sound"} & {event["event"] for event in everybody.events}
        answer = guarded.get("/overview", headers=headers)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert answer.text == "The ledger can't be read.\n"
