"""What can't be read of a ledger stands in its place on every page, in words, in JSON and in CSV: nothing drops out."""

from __future__ import annotations

import csv
import io

import pytest

VERIFY = "Run crowdblend ledger verify."
CHARGE = "(SELECT position FROM release WHERE release_id = 'people-summer')"
NO_JSON = "UPDATE entry SET body = '{{\"kind\":' WHERE position = {place}"
NO_TEXT = "UPDATE entry SET body = x'00ff' WHERE position = {place}"
NO_KIND = "UPDATE entry SET kind = x'00ff' WHERE position = {place}"
GONE = "DELETE FROM entry WHERE position = {place}"
LAST_OF_PEOPLE = "(SELECT max(position) FROM account WHERE dataset = 'people')"
ACCOUNTS = {
    "amount in another form": "UPDATE account SET epsilon_spent = '1e-1' WHERE position = {place}",
    "amount that is no text": "UPDATE account SET epsilon_spent = x'00ff' WHERE position = {place}",
    "place that is no number": "UPDATE account SET position = x'00ff' WHERE position = {place}",
    "row that is gone": "DELETE FROM account WHERE position = {place}",
}


def sheet(pages, path: str) -> list[dict[str, str]]:
    answer = pages.get(f"/csv{path}")
    assert answer.status_code == 200, path
    return list(csv.DictReader(io.StringIO(answer.text)))


def place_of(pages, release_id: str) -> int:
    rows = pages.get("/api/v1/releases").json()["releases"]
    return next(row["position"] for row in rows if row["release_id"] == release_id)


def said_everywhere(pages, path: str, table: str, unread: dict) -> None:
    """A row says the same in the page, in its report, in JSON and, where the table is the page's main one, in CSV."""
    words = unread["unreadable"]
    assert words.endswith(VERIFY)
    assert unread in pages.get(f"/api/v1{path}").json()[table]
    for form in ("", "/report"):
        html = pages.get(form + path).text
        assert words.replace("'", "&#39;") in html, form
        assert "Traceback" not in html
        assert "00ff" not in html


@pytest.mark.slow
@pytest.mark.parametrize("statement", ACCOUNTS.values(), ids=ACCOUNTS)
def test_an_account_that_cant_be_read_stands_in_its_place_on_the_timeline(opened, copied, statement) -> None:
    with opened(copied.url) as control:
        place = place_of(control, "people-summer")
        whole = control.get("/api/v1/datasets/1").json()["timeline"]
        assert not any("unreadable" in one for one in whole)
        assert "unreadable" not in sheet(control, "/datasets/1")[0]
    copied.past_the_guards(statement.format(place=place))
    with opened(copied.url) as pages:
        answer = pages.get("/api/v1/datasets/1").json()
        shown = answer["timeline"]
        assert [one["change"] for one in shown] == [one["change"] for one in whole]
        [unread] = [one for one in shown if "unreadable" in one]
        lost = next(one for one in whole if one["position"] == place)
        assert unread["change"] == lost["change"]
        said_everywhere(pages, "/datasets/1", "timeline", unread)
        assert [row["change"] for row in sheet(pages, "/datasets/1") if row["unreadable"]] == [str(lost["change"])]
        assert unread["unreadable"] in {one["what"] for one in answer["frame"]["faults"]}
        html = pages.get("/datasets/1").text
        assert "This ledger does not hold." in html
        assert "line unread" in html
        assert "Not all of this account can be read." in html


@pytest.mark.slow
@pytest.mark.parametrize("damage", [NO_JSON, NO_TEXT, GONE], ids=["no JSON", "no text", "gone"])
def test_a_charge_that_cant_be_read_stands_in_its_place_and_no_estimate_leaves_it_out(opened, copied, damage) -> None:
    with opened(copied.url) as control:
        place = place_of(control, "people-summer")
        order = [row["position"] for row in control.get("/api/v1/releases").json()["releases"]]
    copied.past_the_guards(damage.format(place=place))
    with opened(copied.url) as pages:
        for path in ("/releases", "/datasets/1"):
            answer = pages.get(f"/api/v1{path}").json()
            [unread] = [row for row in answer["releases"] if "unreadable" in row]
            assert unread["unreadable"].startswith(f"Entry {place} can't be read: ")
            said_everywhere(pages, path, "releases", unread)
            assert place in {one["position"] for one in answer["frame"]["faults"]}
        assert [row["position"] for row in pages.get("/api/v1/releases").json()["releases"]] == order
        assert [row["position"] for row in sheet(pages, "/releases") if row["unreadable"]] == [str(place)]
        page = pages.get("/api/v1/datasets/1").json()
        vouched_for_up_to(page, place)
        [unread] = [one for one in page["timeline"] if "unreadable" in one]
        said_everywhere(pages, "/datasets/1", "timeline", unread)
        assert pages.get(f"/entries/{place}").status_code == 200


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (NO_JSON.format(place=LAST_OF_PEOPLE), "given back"),
        (NO_JSON.format(place="(SELECT position FROM entry WHERE kind = 'budget-raised/1')"), "raised"),
        (NO_KIND.format(place=CHARGE), "kind"),
    ],
    ids=["given back", "raised", "kind that is no text"],
)
def test_no_estimate_is_shown_from_an_entry_on_that_tells_nothing(opened, copied, damage, what) -> None:
    copied.past_the_guards(damage)
    with opened(copied.url) as pages:
        page = pages.get("/api/v1/datasets/1").json()
        [unread] = [one for one in page["timeline"] if "unreadable" in one]
        vouched_for_up_to(page, unread["position"])
        assert unread["position"] in {one["position"] for one in page["frame"]["faults"]}, what
        assert "This ledger does not hold." in pages.get("/datasets/1").text


def vouched_for_up_to(page: dict, place: int) -> None:
    """The account is told at every change, its estimates before a place alone."""
    assert page["epsilon_estimate"] is None
    points = [one for one in page["timeline"] if "unreadable" not in one]
    assert place in {one["position"] for one in points}
    assert points[-1]["epsilon_spent"] == page["budget"]["epsilon_spent"]
    assert all((one["epsilon_paper"] is not None) == (one["position"] < place) for one in points)
    assert all(one["epsilon_composed"] is None for one in points if one["position"] >= place)


@pytest.mark.slow
def test_refusals_looks_and_publications_that_cant_be_read_stand_in_their_places(opened, copied) -> None:
    copied.command("dataset", "looked", "people", "--what", "a histogram")
    refused = "(SELECT min(position) FROM entry WHERE kind = 'release-refused/1')"
    looked = "(SELECT max(position) FROM entry WHERE kind = 'private-look/1')"
    published = "(SELECT position FROM release_stage WHERE release_id = 'people-summer' AND stage = 'closed')"
    with opened(copied.url) as control:
        assert control.get("/api/v1/datasets/1").json()["private_looks_in_all"] == 1
        assert control.get("/api/v1/datasets/1").json()["unreadable_looks"] == []
    copied.past_the_guards(*(NO_JSON.format(place=place) for place in (refused, looked, published)))
    copied.charge("people-later")
    with opened(copied.url) as pages:
        for path in ("/refusals", "/refusals?cause=sample-used"):
            page = pages.get(f"/api/v1{path}").json()
            assert page["refusals_in_all"] == len(page["refusals"]) == 2
            [unread] = [row for row in page["refusals"] if "unreadable" in row]
            said_everywhere(pages, path, "refusals", unread)
            assert len(sheet(pages, path)) == 2
        [unread] = pages.get("/api/v1/datasets/1").json()["unreadable_looks"]
        said_everywhere(pages, "/datasets/1", "unreadable_looks", unread)
        assert pages.get("/api/v1/releases/people-spring").json()["limits"] != ""
        assert pages.get("/api/v1/releases/people-later").json()["limits"] == "", "a look before it may concern it"
        html = pages.get("/releases/people-summer").text
        assert "The entry that tells what was published can't be read." in html
        assert "Nothing was published." not in html
        steps = pages.get("/api/v1/releases/people-summer").json()["steps"]
        assert sum(VERIFY in step["what"] for step in steps) == 1


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["epsilon_spent", "position"])
def test_a_data_set_whose_account_now_cant_be_read_stands_in_its_place(opened, copied, cell) -> None:
    copied.past_the_guards(f"UPDATE account SET {cell} = x'00ff' WHERE position = {LAST_OF_PEOPLE}")
    with opened(copied.url) as pages:
        page = pages.get("/api/v1/overview").json()
        assert len(page["datasets"]) == page["datasets_in_all"]
        assert [row["position"] for row in page["datasets"] if "unreadable" in row] == [1]
        said_everywhere(pages, "/overview", "datasets", page["datasets"][0])
        assert [row["position"] for row in sheet(pages, "/overview") if row["unreadable"]] == ["1"]
        refused = pages.get("/datasets/1")
        assert refused.status_code == 404
        assert "The account of this data set can&#39;t be read." in refused.text
