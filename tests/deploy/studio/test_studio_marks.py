"""A form is taken only where its page still shows what is there: the same columns in their order, the same draft."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy.studio.studio_server import read_texts
from crowdblend.mechanisms.kernel.amounts import amount_shown
from lxml import html

ROLES = {"role-0": "release", "role-1": "release", "role-2": "leave"}
FORMS = {
    "/columns": ROLES | {"role-0": "leave"},
    "/columns/0": {"form": "values", "text": "blue\ngreen"},
    "/matters": {"blocks": "one", "weight-0": "3", "theme-1": "work", "pinned-0": "yes"},
}
PRICE = {"do": "save", "delta": "1e-6", "share": "0.3", "pair_share": "0.45", "draw_share": "0.05"}
TOLD = read_texts()["en"]["told"]


def charged(studio) -> list[str]:
    with open_reader(studio.ledger) as reader:
        return [amount_shown(state.charge.price.epsilon) for state in reader.releases()]


def price_in(text: str) -> str:
    found = re.search(r"A run will charge ε = ([0-9.]+) and", text)
    assert found is not None, text
    return found[1]


def said(answer) -> str:
    return " ".join(html.fromstring(answer.text).text_content().split())


def turn(people: Path) -> None:
    """Give the columns another order, in a file of the same name."""
    lines = [line.split(",") for line in people.read_text(encoding="utf-8").splitlines()]
    people.write_text("".join(",".join(reversed(line)) + "\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize("path", FORMS)
def test_a_form_of_columns_in_another_order_is_not_taken(studio, entered, people, declare, path) -> None:
    declare(entered, people)
    form = entered.hidden(path) | FORMS[path]
    before = studio.draft.read_bytes()
    turn(people)
    refused = entered.send_form(path, form)
    assert refused.status_code == 422
    assert TOLD["other_columns"] in said(refused)
    assert studio.draft.read_bytes() == before
    # What is shown anew is what is stored and not what was typed, so that sending it on changes nothing.
    page = html.fromstring(refused.text)
    anew = {name: value for name, value in page.forms[0].fields.items() if value is not None}
    if path == "/columns":
        assert [anew[f"role-{number}"] for number in range(3)] == ["leave", "release", "release"]
    assert entered.send_form(path, anew).status_code == 303
    assert "person_id" not in tomllib.loads(studio.draft.read_text())["columns"] or path == "/columns/0"


@pytest.mark.parametrize("path", FORMS)
def test_a_form_without_the_mark_of_its_page_is_not_taken(studio, entered, people, declare, path) -> None:
    declare(entered, people)
    before = studio.draft.read_bytes()
    for mark in ({}, {"mark": ""}, {"mark": "0" * 32}):
        assert entered.send_form(path, FORMS[path] | mark).status_code == 422
    assert studio.draft.read_bytes() == before
    assert entered.post(path, data=FORMS[path]).status_code == 303


def test_a_form_of_another_file_with_such_columns_is_not_taken(studio, entered, people, declare) -> None:
    declare(entered, people)
    form = entered.hidden("/columns") | ROLES | {"role-2": "release"}
    other = studio.folder / "other.csv"
    other.write_bytes(people.read_bytes())
    entered.post("/file", data={"source": str(other), "records": "6000"})
    assert TOLD["other_columns"] in said(entered.send_form("/columns", form))
    assert "person_id" not in tomllib.loads(studio.draft.read_text()).get("columns", {})


def test_a_browser_shows_that_the_columns_are_others(walk, studio, entered_walk, people, declare) -> None:
    declare(entered_walk, people)
    walk.open("/columns")
    walk.fill(**{"role-0": "leave"})
    before = studio.draft.read_bytes()
    turn(people)
    walk.press("Go on")
    assert walk.path == "/columns"
    assert TOLD["other_columns"] in walk.page.get_by_role("alert").inner_text()
    assert studio.draft.read_bytes() == before
    assert walk.page.locator("#field-role-0").input_value() == "leave"
    assert walk.page.locator("#field-role-2").input_value() == "release"


def other_price(client) -> None:
    client.post("/price", data=PRICE | {"epsilon": "4"})


def other_groups(client) -> None:
    """The draft's text stays as it is: it names the file of the groups."""
    client.post("/columns/0", data={"form": "tree", "text": "warm\n  red\n  blue\ncold\n  green"})


@pytest.mark.parametrize("change", [other_price, other_groups])
def test_a_run_charges_what_its_page_has_shown(
    studio, entered, people, declare, whole, change: Callable[..., None]
) -> None:
    declare(entered, people)
    entered.post("/columns/0", data={"form": "tree", "text": "warm\n  red\ncold\n  blue\n  green"})
    entered.post("/price", data=PRICE | {"epsilon": "1"})
    assert 0.9 < float(price_in(whole(entered, "/run"))) <= 1
    form = entered.hidden("/run") | {"do": "begin"}
    change(entered)
    assert entered.send_form("/run", form).status_code == 422
    assert TOLD["other_draft"] in said(entered.send_form("/run", form))
    assert "run" not in json.loads((studio.place / "studio.json").read_text())
    assert charged(studio) == []


@pytest.mark.slow
def test_a_browser_charges_no_price_that_it_has_not_shown(walk, studio, entered_walk, people, declare) -> None:
    declare(entered_walk, people)
    entered_walk.post("/price", data=PRICE | {"epsilon": "1"})
    walk.open("/run")
    walk.until("text=Charge it and run")
    assert 0.9 < float(price_in(walk.page.inner_text("main"))) <= 1
    other_price(entered_walk)
    walk.press("Charge it and run")
    assert TOLD["other_draft"] in walk.page.get_by_role("alert").inner_text()
    assert charged(studio) == []
    walk.until("text=Charge it and run")
    shown = price_in(walk.page.inner_text("main"))
    assert 3.5 < float(shown) <= 4
    walk.press("Charge it and run")
    walk.until("a.button[href='/result']", seconds=600)
    assert charged(studio) == [shown]
