"""What pages say is what the command line and the certificates say, and the ledger can't be written through them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import time

import pytest
from crowdblend.accounting.ledger.store import open_store
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError


def figures_of(html: str) -> set[float]:
    """Every figure of a page, by its exact value."""
    return {float(value) for value in re.findall(r'<data value="([^"]+)">', html)}


def test_budgets_equal_those_of_ledger_show(served, town) -> None:
    shown = json.loads(town.command("ledger", "show", "--json"))
    page = served.get("/api/v1/overview").json()
    html = figures_of(served.get("/").text)
    assert len(page["datasets"]) == len(shown["datasets"]) == page["datasets_in_all"]
    for row in page["datasets"]:
        known = next(one for one in shown["datasets"] if one["dataset"] == row["dataset"])
        for part in ("epsilon_spent", "epsilon_budget", "delta_spent", "delta_budget"):
            assert float(row[part]["exact"]) == known[part]
            assert known[part] in html
    assert page["frame"]["head"] == shown["chain"]["head"]
    assert page["frame"]["entries"] == shown["chain"]["entries"]
    sheet = list(csv.DictReader(io.StringIO(served.get("/csv/overview").text)))
    assert {row["dataset"]: float(row["epsilon_spent"]) for row in sheet} == {
        row["dataset"]: row["epsilon_spent"] for row in shown["datasets"]
    }


@pytest.mark.slow
def test_a_data_sets_page_equals_ledger_show(served, town) -> None:
    shown = json.loads(town.command("ledger", "show", "--json"))
    known = next(one for one in shown["datasets"] if one["dataset"] == "people")
    for _ in range(100):
        page = served.get("/api/v1/datasets/1").json()
        if not page["computing"]:
            break
        time.sleep(0.2)
    assert float(page["epsilon_estimate"]["exact"]) == known["epsilon_estimate"]
    last = page["timeline"][-1]
    assert float(last["epsilon_spent"]["exact"]) == known["epsilon_spent"]
    assert float(last["epsilon_composed"]["exact"]) == known["epsilon_estimate"]
    series = [one for one in shown["series"] if one["dataset"] == "people"]
    assert [
        (row["series"], row["taken"], row["remaining"], float(row["epsilon"]["exact"])) for row in page["series"]
    ] == [(one["series"], one["taken"], one["remaining"], one["epsilon"]) for one in reversed(series)]


def test_every_release_equals_ledger_show_and_its_certificate(served, town) -> None:
    shown = json.loads(town.command("ledger", "show", "--json"))
    with_certificate = 0
    for known in shown["releases"]:
        page = served.get(f"/api/v1/releases/{known['release_id']}").json()
        row = page["release"]
        for part in ("release_id", "dataset", "label", "series", "series_number", "sample_id", "day", "position"):
            assert row[part] == known[part], part
        assert (float(row["epsilon"]["exact"]), float(row["delta"]["exact"])) == (known["epsilon"], known["delta"])
        assert {one["name"]: one["value"] for one in page["parameters"]} == {
            name: str(value) for name, value in known["mechanism"].items()
        }
        assert page["rule"] == known["rule"]
        answer = served.get(f"/releases/{known['release_id']}/certificate.json")
        if known["stage"] != "published":
            assert answer.status_code == 404
            continue
        with_certificate += 1
        assert hashlib.sha256(answer.content).hexdigest() == page["certificate"]
        certificate = answer.json()
        guarantee = certificate["guarantee"]
        assert (row["epsilon"]["exact"], row["delta"]["exact"]) == (guarantee["epsilon"], guarantee["delta"])
        paper = row["epsilon_paper"]
        assert (None if paper is None else paper["exact"]) == guarantee["epsilon_paper"]
        assert (page["guarantee"], page["limits"]) == (guarantee["in_words"], guarantee["limits"])
        assert page["theorem"] == guarantee["theorem"]
        assert certificate["ledger"] == {"position": page["steps"][0]["position"], "hash": page["steps"][0]["hash"]}
        assert [(one["name"], one["hierarchy_sha256"]) for one in page["columns"]] == [
            (one["column"], one["hierarchy_sha256"]) for one in certificate["map"]["columns"]
        ]
        html = served.get(f"/releases/{known['release_id']}").text
        assert {known["epsilon"], known["delta"]} <= figures_of(html)
        assert page["certificate"] in html
    assert with_certificate == 7


def settled(served, path: str) -> dict:
    """A page's JSON once nothing on it is being computed any more."""
    for _ in range(150):
        page = served.get(f"/api/v1{path}").json()
        if not page["curve"]["computing"]:
            return page
        time.sleep(0.2)
    pytest.fail(f"{path} is still being computed")


def test_a_curve_passes_through_the_price_and_the_paper_lies_above_it(served) -> None:
    for release_id, theorem in (("people-spring", "Theorem 3.9"), ("people-chosen", "Theorem 3.11")):
        page = settled(served, f"/releases/{release_id}")
        curve, row = page["curve"], page["release"]
        assert (curve["theorem"], curve["why_not"]) == (theorem, None)
        points = curve["points"]
        deltas = [point["delta_exact"] for point in points]
        assert deltas == sorted(deltas, reverse=True)
        assert all(one["delta_paper"] is None or one["delta_paper"] >= one["delta_exact"] for one in points)
        for figure, part in ((row["epsilon"], "delta_exact"), (row["epsilon_paper"], "delta_paper")):
            epsilon, delta = float(figure["exact"]), float(row["delta"]["exact"])
            before = min(one[part] for one in points if one[part] is not None and one["epsilon"] <= epsilon)
            behind = max(one[part] for one in points if one[part] is not None and one["epsilon"] >= epsilon)
            assert behind <= delta <= before, (release_id, part)


def test_no_curve_of_one_record_stands_for_several(served) -> None:
    page = settled(served, "/releases/families-spring")
    assert page["curve"]["points"] == []
    assert "several records" in page["curve"]["why_not"]
    assert "at most 3" in page["guarantee"]
    assert "several records" in served.get("/releases/families-spring").text


def test_local_reports_say_who_need_not_be_trusted_and_what_their_counts_cost(served) -> None:
    words, votes = (served.get(f"/releases/{name}").text for name in ("words-of-phones", "votes-counted"))
    assert "Each report is 4-locally private" in words
    assert "nobody, the collector included, need be trusted" in words
    assert "docs/proofs/local.md" in words
    assert "nothing else is ever published of these reports" in votes
    for page in (words, votes):
        assert "<dd>replacement</dd>" in page
        assert "No curve is known for this kind of mechanism." in page
    account = served.get("/api/v1/overview").json()["datasets"]
    spent = {row["dataset"]: (row["epsilon_spent"]["exact"], row["delta_spent"]["exact"]) for row in account}
    assert spent["words"] == ("4", "0")
    assert 0 < float(spent["votes"][0]) < 0.2
    assert spent["votes"][1] == "0.000001"


def test_an_entrys_hash_can_be_computed_from_its_page(served) -> None:
    """As the page tells it, in a few lines of nobody's software."""
    previous = "0" * 64
    for position in range(served.get("/api/v1/overview").json()["frame"]["entries"]):
        page = served.get(f"/api/v1/entries/{position}").json()
        content = b"crowdblend ledger entry 1\n" + bytes.fromhex(previous) + position.to_bytes(8, "big")
        assert hashlib.sha256(content + page["body"].encode("ascii")).hexdigest() == page["hash"]
        previous = page["hash"]


def test_samples_and_refusals_are_all_told(served, town) -> None:
    samples = served.get("/api/v1/samples").json()
    states = {row["release_id"]: row["state"] for row in samples["samples"]}
    assert [row["purpose"] for row in samples["samples"] if row["release_id"] == "people-chosen"] == ["release"]
    assert states == {
        "people-chosen": "consumed",
        "families-spring": "consumed",
        "people-spring": "consumed",
        "people-summer": "consumed",
        "monthly-1": "consumed",
        "people-autumn": "never read",
        "words-of-phones": "consumed",
        "votes-counted": "consumed",
    }
    assert [row["release_id"] for row in samples["refused_reuse"]] == ["people-again"]
    causes = {row["cause"]: row["times"] for row in served.get("/api/v1/refusals").json()["causes"]}
    assert causes == {"over-budget": 1, "sample-used": 1}
    only = served.get("/api/v1/refusals?cause=over-budget").json()
    assert [row["release_id"] for row in only["refusals"]] == ["people-greedy"]


@pytest.mark.slow
def test_the_calculator_says_what_plan_says(served, town) -> None:
    planned = json.loads(
        town.command("plan", "--k", "20", "--sampling-rate", "0.1", "--delta", "1e-6", "--releases", "12", "--json")
    )
    page = {"computing": True, "prices": []}
    for _ in range(40):
        page = served.get("/api/v1/calculator?k=20&sampling_rate=0.1&delta=1e-6&releases=12").json()
        if page["prices"]:
            break
        time.sleep(0.2)
    first = page["prices"][0]
    assert float(first["exact"]["exact"]) == planned["epsilon"]
    assert float(first["paper"]["exact"]) == planned["epsilon_paper"]


def test_the_dashboards_own_connection_writes_nothing_on_sqlite(copied) -> None:
    refused_everywhere(copied.url)


def test_the_dashboards_own_connection_writes_nothing_on_postgresql(postgresql_server, copied, tmp_path) -> None:
    from crowdblend.accounting.ledger.creation import create_ledger
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    engine = create_engine(postgresql_server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("CREATE DATABASE dashboard_writes"))
    url = postgresql_server.replace("/postgres?", "/dashboard_writes?")
    create_ledger(url, anchoring=copied.anchoring)
    refused_everywhere(url)


def refused_everywhere(url: str) -> None:
    """The very store that the dashboard opens; inside its transactions and beside them."""
    store = open_store(url, anchoring=None)
    statements = (
        "INSERT INTO dataset VALUES ('x', 0)",
        "UPDATE entry SET body = 'x'",
        "DELETE FROM entry",
        "DROP TABLE entry",
        "CREATE TABLE other (x integer)",
    )
    for statement in statements:
        with pytest.raises(DatabaseError, match=r"(?i)read-?only|append-only"), store.engine.begin() as connection:
            connection.exec_driver_sql(statement)
    if store.dialect == "sqlite":
        with store.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA query_only = OFF")
            with pytest.raises(DatabaseError, match="readonly"):
                connection.exec_driver_sql("CREATE TABLE other (x integer)")
    store.close()
    control = open_store(url, anchoring=None)
    with control.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM entry")).scalar_one() >= 1
    control.close()
