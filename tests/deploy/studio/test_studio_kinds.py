"""Each kind that the studio offers is priced, reviewed and run as it says; public records foretell what is shown."""

from __future__ import annotations

import json
import re
import time
import tomllib

import pytest
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy.api import verify
from crowdblend.deploy.studio.draft_proposals import FIXED_KINDS
from crowdblend.mechanisms.kernel.amounts import amount_shown

PRICES = {
    "sampled": {"rate": "0.3", "k": "10", "delta": "1e-5"},
    "calibrated": {"epsilon": "2", "delta": "1e-5", "rate": "0.3", "share": "0.5", "k": ""},
    "histogram": {"histogram_kind": "noisy", "rate": "0.3", "k": "10", "noise_epsilon": "0.5", "delta": "1e-4"},
    "synthetic": {"method": "mst", "epsilon": "1", "delta": "1e-5"},
}


def run(client, studio) -> str:
    before = json.loads((studio.place / "studio.json").read_text()).get("run", "")
    assert client.post("/run", data={"do": "begin", "after": before}).status_code == 303
    for _ in range(600):
        text = client.get("/run").text
        if "data-running" not in text:
            return text
        time.sleep(0.1)
    raise AssertionError(text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["calibrated", "histogram"])
def test_what_the_page_says_is_charged(studio, entered, people, declare, whole, kind) -> None:
    declare(entered, people)
    entered.post("/price", data={"do": "kind", "kind": kind})
    entered.post("/price", data={"do": "save", **PRICES[kind]})
    shown = whole(entered, "/price")
    assert 'id="ready"' in whole(entered, "/review")
    assert "/result" in run(entered, studio)
    release_id = json.loads((studio.place / "studio.json").read_text())["run"]
    with open_reader(studio.ledger) as reader:
        charge = reader.release(release_id).charge
    assert amount_shown(charge.price.epsilon) in shown
    assert dict(charge.mechanism)["kind"].startswith({"calibrated": "calibrated-sample", "histogram": "noisy"}[kind])
    folder = json.loads((studio.place / "runs" / release_id / "stdout").read_text())["output"]
    assert verify(folder).findings == ()
    assert "It verifies" in whole(entered, "/result")


def test_every_kind_can_be_taken_and_left_again(studio, entered, people, declare, whole) -> None:
    declare(entered, people)
    entered.post("/review", data={"release_name": "people", "output": "out/x", "form": "counts", "format": "csv"})
    for kind in (*FIXED_KINDS, *reversed(FIXED_KINDS), "paired"):
        assert entered.post("/price", data={"do": "kind", "kind": kind}).headers["location"] == "/price"
        if kind in PRICES:
            entered.post("/price", data={"do": "save", **PRICES[kind]})
        draft = tomllib.loads(studio.draft.read_text())
        own = FIXED_KINDS.get(kind, {"deletion", "margins", "privacy"})
        assert {*draft} - {"release", "data", "columns", "blocks"} <= {*own, "suppression"}
        assert all(("level" in column) is (kind != "paired") for column in draft["columns"].values())
        review = whole(entered, "/review")
        if kind == "synthetic" and 'id="ready"' not in review:
            assert "crowdblend[synthetic]" in review  # it isn't installed here
        else:
            assert 'id="ready"' in review, (kind, review)
        for path in ("/price", "/matters", "/columns/1", "/columns"):
            assert "no_page" not in whole(entered, path)
    assert entered.post("/price", data={"do": "kind", "kind": "nothing"}).status_code == 303
    assert "deletion" in tomllib.loads(studio.draft.read_text())


def figure(page: str, words: str) -> float:
    [found] = re.findall(rf"<dt>{words}</dt><dd>([\d,.]+)", page)
    return float(found.replace(",", ""))


def test_public_records_foretell_what_is_shown(studio, entered, people, declare, whole, command_line) -> None:
    public = studio.folder / "public.csv"
    lines = [f"{('blue', 'green')[i % 2]},{20 + 10 * (i % 2)}" for i in range(900)]
    public.write_text("\n".join(["colour,age", *lines]) + "\n")
    declare(entered, people)
    assert "On the public records" not in whole(entered, "/price")
    assert entered.get("/price/preview").status_code == 404
    entered.post("/price", data={"do": "kind", "kind": "sampled"})
    entered.post("/price", data={"do": "save", **PRICES["sampled"]})
    with_public = json.loads((studio.place / "studio.json").read_text()) | {"public": str(public)}
    (studio.place / "studio.json").write_text(json.dumps(with_public))
    page = whole(entered, "/price")
    # As the command line foretells it.
    facts = json.loads(command_line("preview", studio.draft, "--public", public, "--json"))
    assert abs(figure(page, "Published rows") - facts["estimate"]["records"]) <= 0.5
    assert "which stand for 900 people" in page
    whole_page = entered.get("/price/preview")
    assert whole_page.status_code == 200
    assert "sandbox" in whole_page.headers["content-security-policy"]
    # Killed meanwhile and begun again; another price is foretold anew.
    entered.post("/price", data={"do": "save", **PRICES["sampled"], "rate": "0.1", "k": "20"})
    entered.get("/price")
    studio.kill()
    studio.start()
    client = studio.client()
    assert figure(whole(client, "/price"), "Published rows") < figure(page, "Published rows")
    # The records themselves are none: refused as the command line refuses them.
    (studio.place / "studio.json").write_text(json.dumps(with_public | {"public": str(people)}))
    refused = whole(client, "/price")
    assert "private records" in refused
    assert client.get("/price/preview").status_code == 404
    client.close()


def test_the_slider_shows_what_it_means_while_it_is_moved(walk, studio, entered_walk, people, declare) -> None:
    declare(entered_walk, people)
    walk.open("/price")
    walk.until("#outlook svg.picture")
    page = walk.page
    before = page.locator("#outlook .means").inner_text()
    page.evaluate("window.stays = true")
    page.locator("#field-slider").fill("4")
    page.wait_for_function("before => document.querySelector('#outlook .means')?.innerText !== before", arg=before)
    page.wait_for_function("() => document.querySelector('#outlook svg.picture')")
    assert page.evaluate("window.stays") is True  # the page wasn't loaded again
    assert page.locator("#field-epsilon").input_value() == "4"
    assert tomllib.loads(studio.draft.read_text())["privacy"]["epsilon"] == 4
