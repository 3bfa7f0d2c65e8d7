"""What pages say is what the command line and the certificates say, and the ledger can't be written through them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import time
from urllib.parse import urlencode

import pytest
from crowdblend.accounting.ledger.opening import open_store
from crowdblend.mechanisms.wording import share_shown
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
        own = [None if row[part] is None else float(row[part]["exact"]) for part in ("epsilon", "delta")]
        assert own == [known["epsilon"], known["delta"]]
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
        if row["series"] is None:
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
        assert {known["epsilon"], known["delta"]} - {None} <= figures_of(html)
        assert page["certificate"] in html
    assert with_certificate == 7


@pytest.mark.slow
def test_a_series_shows_its_price_once_and_its_releases_show_none(served, town) -> None:
    """Whoever adds up what the releases say must not count the series for each of them."""
    shown = json.loads(town.command("ledger", "show", "--json"))
    [series] = shown["series"]
    [known] = [one for one in shown["releases"] if one["series"] is not None]
    place = ("monthly", 1)
    assert (known["series"], known["series_number"]) == (series["series"], 1) == place
    assert (known["epsilon"], known["delta"]) == (None, None)
    assert all(one["epsilon"] is not None for one in shown["releases"] if one["series"] is None)
    priced = [
        line for line in town.command("ledger", "show").splitlines() if "monthly" in line and "spring" not in line
    ]
    assert [line.split()[0] for line in priced] == ["monthly", "monthly-1"]
    assert priced[1].split()[1:-1] == ["people", "published", "monthly,", "1"]
    listed = json.loads(town.command("release", "list", "--json"))["releases"]
    assert [one["epsilon"] for one in listed if one["series"] is not None] == [None]

    for path, rows in (("/overview", "releases"), ("/datasets/1", "releases"), ("/releases", "releases")):
        [row] = [one for one in served.get(f"/api/v1{path}").json()[rows] if one["series"] is not None]
        assert (row["series"], row["series_number"]) == place, path
        assert (row["epsilon"], row["delta"], row["epsilon_paper"]) == (None, None, None), path
    row = served.get("/api/v1/releases/monthly-1").json()["release"]
    assert (row["series"], row["series_number"], row["epsilon"], row["delta"], row["epsilon_paper"]) == (
        *place,
        *(None, None, None),
    )
    for path in ("/csv/releases", "/csv/releases/monthly-1"):
        sheet = csv.DictReader(io.StringIO(served.get(path).text))
        [cells] = [one for one in sheet if one["series"] != ""]
        assert (cells["series"], cells["series_number"]) == ("monthly", "1"), path
        assert (cells["epsilon"], cells["delta"], cells["epsilon_paper"]) == ("", "", ""), path
    for path in ("/releases", "/releases/monthly-1", "/report/releases", "/report/releases/monthly-1"):
        assert series["epsilon"] not in figures_of(served.get(path).text), path
    html = served.get("/datasets/1").text
    assert html.count(f'<td data-label="ε" class="n"><data value="{series["epsilon"]!r}') == 1
    [row] = served.get("/api/v1/datasets/1").json()["series"]
    assert float(row["epsilon"]["exact"]) == series["epsilon"]


def test_a_raise_stands_on_the_data_sets_page(served, town) -> None:
    shown = json.loads(town.command("dataset", "list", "--json"))
    [raised] = next(one for one in shown["datasets"] if one["dataset"] == "people")["raises"]
    page = served.get("/api/v1/datasets/1").json()
    [row] = page["raises"]
    assert (float(row["epsilon"]["exact"]), float(row["delta"]["exact"])) == (raised["epsilon"], raised["delta"])
    assert [row[part] for part in ("reason", "by", "day", "position")] == [
        raised[part] for part in ("reason", "by", "day", "position")
    ]
    html = served.get("/datasets/1").text
    budget, told, promise = (html.index(text) for text in ("ε spent", "The budget was raised to ε", 'id="promise"'))
    assert budget < told < promise
    assert f"by {raised['by']}: Agreed" in html
    other = served.get("/datasets/2")
    assert "raised" not in other.text


def computed_page(served, path: str) -> dict:
    """A page's JSON once nothing on it is being computed any more."""
    for _ in range(150):
        page = served.get(f"/api/v1{path}").json()
        if not page["curve"]["computing"]:
            return page
        time.sleep(0.2)
    pytest.fail(f"{path} is still being computed")


def test_a_curve_passes_through_the_price_and_the_paper_lies_above_it(served) -> None:
    for release_id, theorem in (("people-spring", "Theorem 3.9"), ("people-chosen", "Theorem 3.11")):
        page = computed_page(served, f"/releases/{release_id}")
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
    page = computed_page(served, "/releases/families-spring")
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


@pytest.mark.slow
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
        "words-of-phones": "not drawn",
        "votes-counted": "not drawn",
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


def forecast_of(pages, position: int, asked: dict[str, str]) -> dict:
    """The page's JSON, once it has been computed."""
    for _ in range(600):
        page = pages.get(f"/api/v1/datasets/{position}/forecast?{urlencode(asked)}").json()
        if not page["computing"]:
            break
        time.sleep(0.2)
    assert page["why_not"] is None
    return page


def assert_told_alike(page: dict, planned: dict) -> None:
    """Whether every figure of the page is the command's."""
    told = [(calendar, way) for calendar in planned["calendars"] for way in calendar["ways"]]
    assert len(told) == len(page["rows"])
    for row, (calendar, way) in zip(page["rows"], told, strict=True):
        point = tuple(calendar[name] for name in ("calendar", "k", "sampling_rate"))
        assert (row["calendar"], row["k"], float(row["sampling_rate"])) == point
        plain = ("way", "releases", "most", "years", "lasts")
        assert [row[name] for name in plain] == [way[name] for name in plain]
        for name in ("epsilon", "delta", "epsilon_each", "delta_each"):
            assert (None if row[name] is None else float(row[name]["exact"])) == way[name]
        assert row["share_each"] == (None if way["share_each"] is None else share_shown(way["share_each"]))
    assert [row["releases"] for row in page["changes"]] == [row["releases"] for row in planned["changes"]]


def test_the_forecast_says_what_plan_says(served, town) -> None:
    words = ("12/year", "2/week of k=20,rate=0.4")
    calendars = (word for one in words for word in ("--calendar", one))
    planned = json.loads(town.command("plan", "--budget", "people", "--k", "12", "--rate", "0.3", *calendars, "--json"))
    asked = {"calendars": ";".join(words), "k": "12", "sampling_rate": "0.3"}
    page = forecast_of(served, 1, asked)
    assert_told_alike(page, planned)
    assert len(page["rows"]) == 4
    assert float(page["epsilon_left"]["exact"]) == planned["epsilon_left"]
    html = served.get(f"/datasets/1/forecast?{urlencode(asked)}").text
    assert all(row["lasts"] in html for row in page["rows"])
    assert '<a href="/datasets/1/forecast">' in served.get("/datasets/1").text


@pytest.mark.slow
def test_the_forecast_of_a_filter_budget_says_what_plan_says_and_calls_nothing_an_epsilon(opened, copied) -> None:
    words = ("--epsilon", "0.4", "--delta", "1e-6", "--accounting", "filter")
    copied.command("dataset", "add", "freely", *words)
    with opened(copied.ledger) as pages:
        position = pages.verified()["verified_to"]
        page = forecast_of(pages, position, {"calendars": "12/year"})
        linked = pages.get(f"/datasets/{position}").text
    planned = json.loads(copied.command("plan", "--budget", "freely", "--calendar", "12/year", "--json"))
    assert_told_alike(page, planned)
    assert [row["way"] for row in page["rows"]] == ["filter", "one by one", "series"]
    assert (page["epsilon_left"], page["delta_left"], page["share_left"]) == (None, None, "100 %")
    assert page["rows"][0]["epsilon"] is page["rows"][0]["delta"] is None
    assert f'<a href="/datasets/{position}/forecast">' in linked


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"k": "0"}, "k must be a number"),
        ({"k": "2.5"}, "whole number"),
        ({"k": "nan"}, "k must be a number"),
        ({"sampling_rate": "1"}, "The sampling rate must be"),
        ({"calendars": "now and then"}, "no calendar of releases"),
        ({"calendars": "1/day of k=99999,rate=0.1"}, "k must be a number"),
        ({"calendars": "1/day;2/day;3/day;4/day;5/day;6/day"}, "at most 5 calendars"),
    ],
)
def test_the_forecast_takes_only_what_it_can_compute(served, asked, told) -> None:
    page = served.get(f"/api/v1/datasets/1/forecast?{urlencode(asked)}").json()
    assert told in page["why_not"]
    assert page["rows"] == page["changes"] == []
    assert served.get("/api/v1/datasets/0/forecast").status_code == 404


def test_the_dashboards_own_connection_writes_nothing_on_sqlite(copied) -> None:
    refused_everywhere(copied.ledger)


@pytest.mark.slow
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
    store = open_store(url, read_only=True)
    statements = (
        "INSERT INTO snapshot VALUES (1, 'x', 'y')",
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
    control = open_store(url, read_only=True)
    with control.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM entry")).scalar_one() >= 1
    control.close()
