"""A file with a hundred columns: its pages, their times as figures, and names that no page or file may stumble over."""

from __future__ import annotations

import contextlib
import json
import time
import tomllib

import pytest
from crowdblend.deploy.studio.page_contexts import STEPS

START, EACH = 6.0, 0.6
WAL = {"ledger.db-shm", "ledger.db-wal"}
ODD = (
    "a.b",
    'quo"ted',
    "a]b",
    "[x].y",
    "columns",
    "<b>",
    "käse,1",
    "a b",
    "data",
    "../up",
    "weight-3",
    "{{ 1 }}",
    "%s",
)


def test_a_hundred_columns(tmp_path) -> None:
    """By processor time, with room for slow machines: a page that plans or checks by itself takes seconds."""
    from benchmarks.wide.studio_pages import measured

    start, _, pages = measured(2)
    assert start.processor < START
    assert {*STEPS} < pages.keys()
    assert {name: taken for name, taken in pages.items() if taken.processor > EACH} == {}


def test_tables_are_planned_beside_the_pages(studio, entered, whole) -> None:
    """Also by a studio that was killed meanwhile; nothing is run before, and what is chosen meanwhile stays."""
    source = studio.folder / "wide.csv"
    source.write_text(",".join(f"t{n // 10}_item{n}" for n in range(40)) + "\n", encoding="utf-8")
    entered.post("/dataset", data={"do": "add", "new_dataset": "wide", "budget_epsilon": "5", "budget_delta": "1e-4"})
    entered.post("/file", data={"source": str(source), "records": "100000"})
    roles = {f"role-{n}": "release" for n in range(40)}
    assert entered.post("/columns", data=roles).headers["location"] == "/matters"
    entered.close()
    studio.kill()
    notes = json.loads((studio.place / "studio.json").read_text(encoding="utf-8"))
    assert "tables_wanted" in notes
    assert "blocks" not in tomllib.loads(studio.draft.read_text(encoding="utf-8"))
    studio.start()
    with contextlib.closing(studio.client()) as again:
        refused = again.send_form("/run", {"do": "begin", "after": ""})
        assert refused.status_code == 422
        assert "still being planned" in refused.text or "The draft has changed" in refused.text
        # A column that is chosen for every table meanwhile stays so.
        again.post("/matters", data={"blocks": "wanted", "pinned-3": "yes"})
        whole(again, "/matters")
        planned = tomllib.loads(studio.draft.read_text(encoding="utf-8"))["blocks"]
        assert planned.pop("pinned") == ["t0_item3"]
        assert {name for table in planned.values() for name in table["columns"]} == {*notes_columns(source)}
        assert "tables_wanted" not in json.loads((studio.place / "studio.json").read_text(encoding="utf-8"))
        again.post("/matters", data={"blocks": "propose"})
        again.post("/matters", data={"blocks": "one"})
        whole(again, "/review")
        assert "blocks" not in tomllib.loads(studio.draft.read_text(encoding="utf-8"))


def notes_columns(source) -> list[str]:
    """The names of a CSV's columns."""
    return source.read_text(encoding="utf-8").strip().split(",")


def test_columns_of_any_name_are_declared_and_their_mistakes_found(studio, entered) -> None:
    import csv

    source = studio.folder / "odd.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(ODD)
    entered.post("/dataset", data={"do": "add", "new_dataset": "odd", "budget_epsilon": "5", "budget_delta": "1e-4"})
    assert entered.post("/file", data={"source": str(source), "records": "1000"}).headers["location"] == "/columns"
    entered.post("/columns", data={f"role-{n}": "release" for n in range(len(ODD))})
    for number, name in enumerate(ODD):
        wrong = {"form": "interval", "lower": "x", "upper": "9", "widths": ""}
        assert entered.post(f"/columns/{number}", data=wrong).headers["location"] == f"/columns/{number}"
        page = entered.get(f"/columns/{number}").text
        assert 'aria-invalid="true"' in page
        assert "wrong-lower-1" in page, name
        for form in ({"form": "tree", "text": "all\n  1\n  2"}, {"form": "values", "text": "1\n2"}):
            assert entered.post(f"/columns/{number}", data=form).headers["location"] == "/columns", name
    assert tuple(tomllib.loads(studio.draft.read_text(encoding="utf-8"))["columns"]) == ODD
    text = entered.get("/columns").text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert {path.name for path in studio.folder.iterdir()} <= {"home", "ledger.db", "odd.csv", "studio"} | WAL


@pytest.mark.parametrize("name", ["../../up", "/up", "a b", "..", ""])
def test_no_name_of_a_release_leads_out_of_the_folder(studio, entered, people, declare, name) -> None:
    declare(entered, people)
    before = {*studio.folder.iterdir(), *studio.folder.parent.iterdir()}
    entered.post("/review", data={"release_name": name, "output": "out", "form": "microdata", "format": "csv"})
    assert entered.post("/run", data={"do": "begin", "after": ""}).status_code == 303
    for _ in range(200):
        text = entered.get("/run").text
        if "data-running" not in text:
            break
        time.sleep(0.1)
    assert "There is no release" in text
    assert {*studio.folder.iterdir(), *studio.folder.parent.iterdir()} <= before


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "[data]\nsource = 5\n",
        "data = 5\n",
        "columns = 5\n",
        "[columns]\nage = 5\n",
        '[columns.age]\ninterval = 5\nvalues = 5\nweight = "x"\n',
        "[blocks]\npinned = 5\n[blocks.a]\n",
        '[margins]\nshare = "x"\n[privacy]\nepsilon = []\n',
        "[sampling]\n[suppression]\nk = 1.5\n[privacy]\ndelta = 5\n",
        "[release]\nname = 5\noutput = 5\nmetadata = 5\n",
    ],
)
def test_a_draft_that_somebody_has_broken_is_told_on_each_page(studio, entered, people, text) -> None:
    studio.draft.write_text(text, encoding="utf-8")
    for path in (*STEPS, "columns/0", "run/state", "result/sheet"):
        assert entered.get(f"/{path}").status_code in (200, 404, 409), path


def test_what_is_proposed_is_what_spec_new_proposes(studio, entered, command_line, whole) -> None:
    """With public records, of more columns than one table holds: columns, hierarchies, tables and price."""
    names = [f"t{n // 6}_item{n}" for n in range(11)] + ["age", "person_id"]
    for name, rows in (("own", 0), ("public", 400)):
        lines = [",".join([*(str((i * n) % 30) for n in range(11)), str(i % 90), f"p{i}"]) for i in range(rows)]
        (studio.folder / f"{name}.csv").write_text("\n".join([",".join(names), *lines]) + "\n", encoding="utf-8")
    words = ("spec", "new", "--from", "own.csv", "--public", "public.csv", "--records", "50000", "--output", "new.toml")
    command_line(*words)
    entered.post("/dataset", data={"do": "add", "new_dataset": "own", "budget_epsilon": "5", "budget_delta": "1e-4"})
    answer = entered.post("/file", data={"source": "own.csv", "public": "public.csv", "records": "50000"})
    assert answer.headers["location"] == "/columns"
    whole(entered, "/matters")
    proposed = tomllib.loads((studio.folder / "new.toml").read_text(encoding="utf-8"))
    draft = tomllib.loads(studio.draft.read_text(encoding="utf-8"))
    for table in ("deletion", "margins", "privacy", "blocks"):
        assert draft[table] == proposed[table], table
    assert draft["columns"].keys() == proposed["columns"].keys()
    assert "person_id" not in draft["columns"]
    written = 0
    for name, column in draft["columns"].items():
        own, other = column.pop("hierarchy", None), proposed["columns"][name].pop("hierarchy", None)
        assert column == proposed["columns"][name], name
        if own is not None:
            written += 1
            assert (studio.place / own).read_text(encoding="utf-8") == (studio.folder / other).read_text(
                encoding="utf-8"
            )
    assert written
    refused = entered.post("/file", data={"source": "own.csv", "public": "own.csv", "records": "50000"})
    assert refused.headers["location"] == "/file"
    assert "wrong-public-1" in entered.get("/file").text
