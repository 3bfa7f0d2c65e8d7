"""From a fresh ledger to a verified release by clicks and typing alone, and what is written is the command line's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

import pytest
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy.api import verify
from crowdblend.deploy.demonstration import lay_out
from crowdblend.deploy.studio.draft_proposals import FIXED_KINDS
from crowdblend.deploy.studio.page_contexts import STEPS
from crowdblend.flows.spec import read_spec

DRAWN = (".hash", ".ledger_id", ".sample_id", ".day")
KEEP = "CROWDBLEND_SCREENSHOTS"
SCHOOLING = "\n".join(
    ["below a diploma", *(f"  {years}" for years in range(12)), "diploma", *(f"  {years}" for years in range(12, 21))]
)


def keep(page, name: str, *, at: str = "h1") -> None:
    """Keep a picture for the documentation, from some place of the page on, where the surroundings ask for it."""
    if folder := os.environ.get(KEEP):
        page.set_viewport_size({"width": 960, "height": 720})
        page.locator(at).first.evaluate("one => window.scrollTo(0, one.getBoundingClientRect().top + scrollY - 12)")
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def same_ledger(studio, release_id: str, dataset: tuple[str, ...]) -> None:
    """Do by commands what the session did, on a ledger of its own: both have the same entries but for what is drawn."""
    other = studio.folder / "other"
    settings = {"CROWDBLEND_LEDGER": f"sqlite:///{other}.db", "CROWDBLEND_HOME": str(other)}

    def command(*words: str | Path, **environment: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "crowdblend.deploy", *map(str, words)],
            cwd=studio.folder,
            env=studio.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    command("dataset", "add", *dataset, **settings)
    spec = studio.place / f"{release_id}.toml"
    command("run", spec, "--release-id", release_id, "--output", "third", **settings)
    session, commands = (
        [leaves(json.loads(line)) for line in command("ledger", "export", **environment).splitlines()]
        for environment in ({}, settings)
    )
    assert session == commands


def leaves(value: object, at: str = "") -> dict[str, object]:
    """Return the values of an entry by their places; of what is drawn, hashed or of a day, that it is there."""
    if isinstance(value, dict):
        return {place: leaf for key, one in value.items() for place, leaf in leaves(one, f"{at}.{key}").items()}
    return {at: "" if at.endswith(DRAWN) or ".output_hashes." in at else value}


@pytest.mark.slow
def test_the_census_is_released_by_clicks_and_typing(walk, studio, command_line) -> None:
    lay_out(studio.folder)
    page = walk.page
    walk.enter()
    walk.fill(new_dataset="census-2000", budget_epsilon="3", budget_delta="1e-5")
    walk.press("Add it and use it")
    walk.fill(source="census2000.parquet", records="29500")
    walk.press("Read the names and go on")
    for number in (0, 2, 3, 4):
        walk.fill(**{f"role-{number}": "release"})
    keep(page, "columns")
    walk.press("Save, and declare state")
    walk.fill(form="file")
    walk.fill(file="states.csv", min_level="1")
    walk.press("Save, next column")
    walk.fill(form="tree")
    walk.fill(text=SCHOOLING)
    walk.press("Save and look")
    keep(page, "tree", at="#outline")
    walk.press("Save, next column")
    walk.fill(form="interval", lower="0", upper="60", widths="10, 20")
    walk.press("Save, next column")
    walk.fill(form="interval", lower="0", upper="3000", widths="250, 500")
    walk.press("Save, all columns")
    walk.press("Go on")
    walk.fill(**{"weight-4": "2"})
    walk.press("Go on")
    walk.until("svg.picture")
    keep(page, "price", at="#means")
    walk.press("Go on")
    walk.until("section.good")
    page.get_by_role("link", name="To the run").click()
    walk.press("Charge it and run")
    walk.until("a.button[href='/result']", seconds=600)
    page.get_by_role("link", name="To the result").click()
    walk.until("text=It verifies", seconds=300)
    keep(page, "result", at="#tables")

    folder = studio.folder / "out" / "census2000"
    assert verify(folder).findings == ()
    release_id = json.loads((studio.place / "studio.json").read_text())["run"]
    same_ledger(studio, release_id, ("census-2000", "--epsilon", "3", "--delta", "1e-5"))
    # The draft is a specification like any other: run by the command line it asks for the same at the same price.
    by_command = command_line("run", studio.draft, "--output", "again", "--release-id", "by-command", "--json")
    with open_reader(studio.ledger) as reader:
        made, again = (reader.release(one).charge for one in (release_id, "by-command"))
    assert made.spec_digest == again.spec_digest == read_spec(studio.draft, output=None).digest
    assert (made.mechanism, made.price, made.label, made.dataset) == (
        again.mechanism, again.price, again.label, again.dataset,
    )  # fmt: skip
    assert json.loads(by_command)["output"] == str(studio.folder / "again")
    assert tomllib.loads(studio.draft.read_text())["columns"]["weekly_income"]["weight"] == 2
    command_line("ledger", "verify")


def test_the_pages_are_light_for_eyes_and_tools(walk, studio, entered_walk, people, declare) -> None:
    """Each page at phone and desktop width, light and dark, without a fault in the browser and within this machine."""
    page = walk.page
    faults, asked = [], []
    page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    declare(entered_walk, people)
    for path in (*STEPS, "columns/0", "columns/1"):
        walk.open(f"/{path}")
        page.wait_for_selector("[data-computing]", state="detached")  # it is loaded again by itself until then
        for width, scheme in product((320, 1600), ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    assert faults == []
    assert all(url.startswith(studio.url) for url in asked)
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "locale"), [*product(("light", "dark"), ("en-GB", "de-DE"))])
def test_axe_finds_no_violation(browser, studio, people, declare, scheme, locale) -> None:
    from axe_playwright_python.sync_playwright import Axe

    window = {"viewport": {"width": 1280, "height": 900}, "color_scheme": scheme, "locale": locale}
    context = browser.new_context(**window, bypass_csp=True)
    page = context.new_page()
    page.goto(studio.address)
    page.wait_for_url("**/dataset")
    client = studio.client_of(context)
    axe = Axe()

    def look(path: str) -> None:
        page.goto(f"{studio.url}/{path}")
        page.wait_for_selector("[data-computing]", state="detached")
        found = axe.run(page).response["violations"]
        assert not found, (path, [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found])

    look("dataset")
    declare(client, people)
    for path in (*STEPS, "columns/0", "columns/1"):
        look(path)
    # With something wrong at every kind of field, and a tree with groups.
    client.post("/columns/0", data={"form": "tree", "text": "warm\n  red\ncold\n  blue\n  green", "codes": "red"})
    client.post("/columns/1", data={"form": "interval", "lower": "x", "upper": "y"})
    client.post("/price", data={"epsilon": "-1", "delta": "x", "share": "2"})
    for path in (*STEPS, "columns/0", "columns/1"):
        look(path)
    for kind in FIXED_KINDS:
        client.post("/price", data={"do": "kind", "kind": kind})
        look("price")
    client.close()
    context.close()


def test_a_page_that_is_being_left_is_not_loaded_again(walk, studio, entered_walk, people, declare) -> None:
    """What it waited for is there before the next page is."""
    page = walk.page
    held = {}

    def hold(route) -> None:
        if route.request.resource_type == "document" and "/review" in route.request.url:
            answer = route.fetch()
            route.fulfill(response=answer, body=answer.text().replace("</h1>", "</h1><p data-computing>waits</p>", 1))
        else:
            held[route.request.url.removeprefix(studio.url)] = route

    declare(entered_walk, people)
    page.route("**/review", hold)
    page.route("**/columns", hold)
    with page.expect_request(lambda asked: asked.url.endswith("/review") and asked.resource_type == "fetch"):
        walk.open("/review")
    with page.expect_request("**/columns"):
        page.get_by_role("link", name="columns", exact=False).first.click(no_wait_after=True)
    with page.expect_response("**/review"):
        held["/review"].fulfill(body="computed")
    page.wait_for_timeout(200)  # for what comes of it
    held["/columns"].continue_()
    page.wait_for_url("**/columns", timeout=20_000)


def test_the_keyboard_alone_is_enough(walk, studio) -> None:
    """Every control of a page is reached by Tab, and a form is filled in and sent without a mouse."""
    page = walk.page
    walk.enter()
    walk.until("#field-new_dataset")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.innerText"))
        if reached[-1] == "field-new_dataset":
            break
    assert reached[0] == "Skip to the content"
    page.keyboard.type("typed")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == "Add it and use it":
            break
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert walk.path == "/file"
    assert tomllib.loads(studio.draft.read_text())["data"]["dataset"] == "typed"


def test_the_address_in_a_file_opens_the_studio(walk, studio) -> None:
    """As the command opens it in the browser: from another site, whose strict cookie would not be sent at once."""
    place = studio.place / "open.html"
    place.write_text(f'<meta http-equiv="refresh" content="0;url={studio.address}">\n', encoding="utf-8")
    walk.page.goto(place.as_uri())
    walk.until("#field-new_dataset")
    assert walk.path == "/dataset"
    assert studio.token not in walk.page.evaluate("location.href + document.referrer")


def test_every_page_works_without_a_script(browser, studio, people, declare) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(studio.address)
    page.wait_for_url("**/dataset")
    client = studio.client_of(context)
    declare(client, people)
    client.close()
    page.goto(f"{studio.url}/price")
    page.locator("#field-slider").fill("2.5")
    page.get_by_role("button", name="Show what this ε means").click()
    assert page.locator("#field-epsilon").input_value() == "2.5"
    for path in STEPS:
        page.goto(f"{studio.url}/{path}")
        assert page.locator("h1").count() == 1
    context.close()


def test_killed_at_each_page_it_goes_on(studio, people, declare) -> None:
    client = studio.client()
    declare(client, people)
    before = studio.draft.read_bytes()
    for path in (*STEPS, "columns/1"):
        assert client.get(f"/{path}").status_code == 200
        client.close()
        studio.kill()
        studio.start()
        client = studio.client()
        assert client.get(f"/{path}").status_code == 200
        assert studio.draft.read_bytes() == before
    client.close()


@pytest.mark.slow
def test_a_run_goes_on_when_the_studio_is_killed(studio, people, declare, whole) -> None:
    import time

    client = studio.client()
    declare(client, people)
    assert client.post("/run", data={"do": "begin"}).status_code == 303
    client.close()
    studio.kill()
    studio.start()
    client = studio.client()
    for _ in range(120):
        text = client.get("/run").text
        if "data-running" not in text:
            break
        time.sleep(0.5)
    assert "/result" in text
    assert "It verifies" in whole(client, "/result")
    client.close()


def test_a_second_window_sees_what_the_first_has_stored(studio, entered, people, declare) -> None:
    declare(entered, people)
    entered.post("/price", data={"do": "save", "epsilon": "0.7", "delta": "1e-6", "share": "0.3"})
    assert 'value="0.7"' in entered.get("/price").text
    kept = tomllib.loads(studio.draft.read_text())
    entered.post("/matters", data={"blocks": "one", "weight-0": "3"})
    now = tomllib.loads(studio.draft.read_text())
    assert now["privacy"] == kept["privacy"]
    assert now["columns"]["colour"]["weight"] == 3
