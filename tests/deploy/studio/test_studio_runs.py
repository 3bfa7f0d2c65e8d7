"""What a run costs is what the ledger says: begun once, stopped, finished, given up, of either kind."""

from __future__ import annotations

import json
import os
import signal
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor

import pytest
from crowdblend.accounting.ledger.reader import open_reader
from crowdblend.deploy.api import verify
from crowdblend.deploy.studio.studio_runs import RunState
from crowdblend.deploy.studio.studio_server import read_texts
from crowdblend.mechanisms.kernel.amounts import amount_shown


def ended(client) -> str:
    """The page of the run, once that has ended."""
    for _ in range(600):
        text = client.get("/run").text
        if "data-running" not in text:
            return text
        time.sleep(0.1)
    raise AssertionError(text)


def current(studio) -> str:
    return json.loads((studio.place / "studio.json").read_text())["run"]


def charged(studio) -> list[str]:
    with open_reader(studio.ledger) as reader:
        return [state.release_id for state in reader.releases()]


def test_what_it_would_cost_to_stop_follows_from_the_ledger() -> None:
    known = {None: "cancel_free", "charged": "cancel_reserved", "reading": "cancel_spent", "unknown": "cancel_help"}
    texts = read_texts()
    for stage, key in known.items():
        run = RunState(
            release_id="x", running=True, ended=(), stage="start", result=None, refusal="", cost="", in_ledger=stage
        )
        assert run.stopping == key
        assert all(texts[language]["run"][key] for language in texts)


def test_a_sampled_release_of_persons_by_forms_without_a_script(studio, entered, people, declare, whole) -> None:
    declare(entered, people)
    add = {"new_dataset": "persons", "budget_epsilon": "5", "budget_delta": "1e-4", "rows_per_person": "2"}
    entered.post("/dataset", data=add | {"do": "add", "unit": "person", "unit_column": "person_id"})
    entered.post("/price", data={"do": "kind", "kind": "sampled"})
    draft = tomllib.loads(studio.draft.read_text())
    assert (draft["data"]["person"], draft["data"]["rows_per_person"]) == ("person_id", 2)
    assert "levels" not in draft["columns"]["age"]
    assert {"deletion", "margins"} & draft.keys() == set()
    price = {"do": "save", "rate": "0.2", "k": "20", "delta": "1e-5"}
    assert entered.post("/price", data=price).headers["location"] == "/review"
    shown = whole(entered, "/price")
    assert "svg" in shown
    assert entered.post("/run", data={"do": "begin", "after": ""}).status_code == 303
    assert "/result" in ended(entered)
    release_id = current(studio)
    with open_reader(studio.ledger) as reader:
        charge = reader.release(release_id).charge
    # What the page said is what is charged.
    assert amount_shown(charge.price.epsilon) in shown
    assert verify(studio.folder / "out" / "people").findings == ()
    assert "It verifies" in whole(entered, "/result")
    sheet = entered.get("/result/sheet")
    assert sheet.status_code == 200
    assert "sandbox" in sheet.headers["content-security-policy"]


def test_a_form_that_is_sent_twice_charges_once(studio, entered, people, declare) -> None:
    declare(entered, people)
    with ThreadPoolExecutor(6) as pool:
        answers = pool.map(lambda _: entered.post("/run", data={"do": "begin", "after": ""}).status_code, range(6))
        assert {*answers} == {303}
    ended(entered)
    entered.post("/run", data={"do": "begin", "after": ""})  # a page that was left open
    ended(entered)
    assert charged(studio) == [current(studio)]


def test_a_published_run_that_was_killed_before_it_said_so_shows_its_result(
    studio, entered, people, declare, whole
) -> None:
    declare(entered, people)
    entered.post("/run", data={"do": "begin", "after": ""})
    assert "/result" in ended(entered)
    (studio.place / "runs" / current(studio) / "stdout").write_bytes(b"")
    shown = entered.get("/run").text
    assert "It is published." in shown
    assert "There is no release" not in shown
    assert 'name="reason"' not in shown  # nothing to give up
    entered.post("/run", data={"do": "finish"})
    assert "/result" in ended(entered)
    assert "It verifies" in whole(entered, "/result")
    with open_reader(studio.ledger) as reader:
        assert [state.stage for state in reader.releases()] == ["published"]


@pytest.mark.slow
def test_a_run_is_stopped_and_finished_or_given_up(studio, entered, people, declare, whole) -> None:
    declare(entered, people)
    entered.post("/run", data={"do": "begin", "after": ""})
    entered.post("/run", data={"do": "cancel"})
    ended(entered)
    # Killed after the charge, whose price is reserved: it can be finished at no new charge, or given up.
    entered.post("/run", data={"do": "begin", "after": current(studio)})
    release_id = current(studio)
    for _ in range(2_000):
        if release_id in charged(studio):
            break
        time.sleep(0.005)
    os.kill(int((studio.place / "runs" / release_id / "pid").read_text()), signal.SIGKILL)
    text = ended(entered)
    with open_reader(studio.ledger) as reader:
        stage = reader.release(release_id).stage
    if stage in ("charged", "reading"):
        assert "The program was stopped." in text
        assert "at no new charge" in text
        assert "is reserved" in text or "is spent" in text
        refused = entered.post("/run", data={"do": "abandon", "reason": ""})
        assert refused.status_code == 422
        assert "wrong-reason-1" in refused.text
    if "at no new charge" in text:  # also where it was published, and killed before it said so
        assert entered.post("/run", data={"do": "finish"}).status_code == 303
        ended(entered)
    with open_reader(studio.ledger) as reader:
        assert reader.release(release_id).stage == "published"
        assert reader.verify() == ()
    assert "It verifies" in whole(entered, "/result")
