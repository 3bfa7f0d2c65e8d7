"""Pages of a damaged ledger show what can be read, say what can't, and vouch for nothing that hangs on it."""

from __future__ import annotations

import os
import shutil
import time

import pytest
from crowdblend.accounting.dashboard.chain_watch import WITHOUT_ANCHOR
from crowdblend.accounting.dashboard.curve import WITHOUT_REGISTRATION
from crowdblend.accounting.dashboard.release_page import UNSAID
from crowdblend.accounting.ledger.creation import create_ledger

NO_AMOUNT = "UPDATE account SET epsilon_spent = '1e-1' WHERE dataset = '{dataset}' AND sequence = {sequence}"
NO_JSON = "UPDATE entry SET body = '{{\"kind\":' WHERE position = (SELECT position FROM {table} WHERE name = '{name}')"
OTHER_MECHANISM = """UPDATE entry SET body = replace(body, 'strongly-safe-release/1', 'strongly-safe-release/9')
    WHERE position = (SELECT position FROM release WHERE release_id = 'people-summer')"""
NO_MECHANISM = """UPDATE entry SET body = json_set(body, '$.mechanism', 'none')
    WHERE position = (SELECT position FROM release WHERE release_id = 'families-spring')"""
OTHER_KIND = "UPDATE entry SET kind = 'token-revoked/1' WHERE kind = 'budget-raised/1'"


def places(pages) -> dict[str, int]:
    rows = pages.get("/api/v1/overview").json()["datasets"]
    return {row["dataset"]: row["position"] for row in rows if "unreadable" not in row}


def faults(answer) -> set[tuple[int, str]]:
    return {(one["position"], one["what"]) for one in answer.json()["frame"]["faults"]}


def verified(pages) -> dict:
    """Wait until the first verification has ended."""
    for _ in range(600):
        chain = pages.get("/api/v1/verification").json()["frame"]["chain"]
        if chain["ended"] is not None:
            return chain
        time.sleep(0.1)
    pytest.fail("no verification ended in a minute")


@pytest.mark.slow
def test_an_account_that_cant_be_read_is_said_to_be_so_and_hides_no_other(opened, copied) -> None:
    with opened(copied.url) as control:
        known = places(control)
        whole = control.get("/api/v1/datasets/1").json()["timeline"]
    last = "(SELECT max(sequence) FROM account WHERE dataset = 'schools,north')"
    copied.past_the_guards(
        NO_AMOUNT.format(dataset="schools,north", sequence=last), NO_AMOUNT.format(dataset="people", sequence=1)
    )
    with opened(copied.url) as pages:
        answer = pages.get("/api/v1/overview")
        place = known["schools,north"]
        assert (place, "the account of data set 'schools,north' can't be read") in faults(answer)
        assert places(pages) == {name: at for name, at in known.items() if name != "schools,north"}
        assert "This ledger does not hold." in pages.get("/").text
        refused = pages.get(f"/datasets/{place}")
        assert refused.status_code == 404
        assert "The account of this data set can&#39;t be read." in refused.text
        shown = pages.get("/api/v1/datasets/1").json()["timeline"]
        assert [one["change"] for one in shown] == [one["change"] for one in whole]
        assert [one["change"] for one in shown if "unreadable" in one] == [1]


@pytest.mark.slow
def test_a_damaged_registration_vouches_for_nothing(opened, copied) -> None:
    with opened(copied.url) as control:
        known = places(control)
        assert control.get("/api/v1/datasets/1").json()["series"][0]["series"] == "monthly"
        assert UNSAID not in control.get("/api/v1/releases/words-of-phones").json()["guarantee"]
    copied.past_the_guards(
        NO_JSON.format(table="dataset", name="words"), NO_JSON.format(table="series", name="monthly")
    )
    with opened(copied.url) as pages:
        refused = pages.get(f"/datasets/{known['words']}")
        assert refused.status_code == 404
        assert "This entry registers no data set." in refused.text
        release = pages.get("/api/v1/releases/words-of-phones").json()
        assert (release["guarantee"], release["limits"]) == (UNSAID, "")
        assert release["curve"]["why_not"] == WITHOUT_REGISTRATION
        dataset = pages.get("/api/v1/datasets/1")
        assert [set(row) for row in dataset.json()["series"]] == [{"position", "unreadable"}]
        assert {what for _, what in faults(dataset)} == {"the entry can't be read"}


@pytest.mark.slow
def test_a_mechanism_that_nobody_knows_is_vouched_for_by_nobody(opened, copied) -> None:
    copied.past_the_guards(OTHER_MECHANISM, NO_MECHANISM)
    with opened(copied.url) as pages:
        known = pages.get("/api/v1/releases/people-summer").json()
        assert (known["guarantee"], known["limits"]) == (UNSAID, "")
        assert known["curve"]["why_not"] == "No curve is known for this kind of mechanism."
        assert pages.get("/releases/families-spring").status_code == 404
        families = pages.get(f"/api/v1/datasets/{places(pages)['families']}")
        assert families.status_code == 200
        assert [set(row) for row in families.json()["releases"]] == [{"position", "unreadable"}]
        assert {what for _, what in faults(families)} == {"the entry can't be read"}
        assert families.json()["timeline"][0]["epsilon_paper"]["exact"] == "0"
        assert families.json()["timeline"][-1]["epsilon_paper"] is None


def test_an_entry_counts_by_its_content_and_not_by_the_kind_beside_it(opened, copied) -> None:
    copied.past_the_guards(OTHER_KIND)
    with opened(copied.url, require_token=True) as pages:
        headers = {"authorization": f"Bearer {copied.token}"}
        entries = pages.get("/api/v1/verification", headers=headers).json()["entries"]
        place = next(row["position"] for row in entries if "budget of 'people' was raised" in row["what"])
        answer = pages.get(f"/api/v1/entries/{place}", headers=headers)
        assert faults(answer) == {(place, "the entry's kind differs from its content")}
        assert pages.get("/").status_code == 401


@pytest.mark.slow
def test_another_chain_in_the_place_of_the_old_is_read_from_its_beginning(opened, copied, tmp_path) -> None:
    other = type(copied)(folder=tmp_path / "other", processes=copied.processes)
    shutil.copytree(copied.folder / "home", other.folder / "home")
    create_ledger(other.url, anchoring=other.anchoring)
    with opened(copied.url) as pages:
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
    with opened(copied.url) as blind:
        chain = verified(blind)
        assert (chain["verdict"], chain["unchecked"]) == ("sound", [WITHOUT_ANCHOR])
    with opened(copied.url, anchor=anchor, anchor_keys=keys) as pages:
        chain = verified(pages)
        assert chain["verdict"] == "broken"
        assert {one["position"] for one in chain["findings"]} == {None}
        assert WITHOUT_ANCHOR not in chain["unchecked"]
        assert "This ledger does not hold." in pages.get("/").text


def test_a_ledger_that_cant_be_verified_is_neither_sound_nor_broken(opened, copied) -> None:
    """As where another version migrates it between the pages' start and the verification."""
    pages = opened(copied.url)
    copied.past_the_guards("UPDATE ledger_version SET version_num = '9999'")
    with pages:
        chain = verified(pages)
        assert (chain["verdict"], chain["verified_to"], chain["findings_in_all"]) == ("failed", None, 1)
        assert "this ledger has schema revision 9999" in chain["findings"][0]["what"]
        assert "could not be verified" in pages.get("/verification").text
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
            assert answer.status_code == 503, path
            assert "the ledger can" in answer.text, path
            assert "psycopg" not in answer.text, path
        assert "unreadable" in {event["event"] for event in everybody.events}
        answer = guarded.get("/overview", headers=headers)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert answer.text == "The ledger can't be read.\n"
