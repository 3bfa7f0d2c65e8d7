"""Hierarchies of ARX, labels of SPSS and Stata, codes and survey weights: brought in and written as `spec new` does."""

from __future__ import annotations

import tomllib

import pandas as pd
import pyreadstat
import pytest
from crowdblend.deploy.studio.studio_server import read_texts
from lxml import html

ADD = {"do": "add", "new_dataset": "paint", "budget_epsilon": "5", "budget_delta": "1e-4"}
LABELS = {1.0: "red", 2.0: "green", 3.0: "blue"}
WRITERS = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta}


def write_people(path) -> None:
    people = pd.DataFrame(
        {"colour": [1.0, 2.0, 3.0] * 40, "age": [20.0, 30.0, 40.0] * 40, "final": [1.5, 20.0, 80.0] * 40}
    )
    label = {"sav": {"colour": LABELS}, "dta": {"colour": {int(code): text for code, text in LABELS.items()}}}
    WRITERS[path.suffix[1:]](people, path, variable_value_labels=label[path.suffix[1:]])


def drafted(studio) -> dict:
    return tomllib.loads(studio.draft.read_text(encoding="utf-8"))


@pytest.mark.parametrize("suffix", WRITERS)
def test_value_labels_become_values_and_codes_on_the_columns_own_page(studio, entered, whole, suffix) -> None:
    """With a survey weight beside them; the draft is what the command line would run, the dry run included."""
    write_people(studio.folder / f"people.{suffix}")
    entered.post("/dataset", data=ADD)
    assert (
        entered.post("/file", data={"source": f"people.{suffix}", "records": "3000"}).headers["location"] == "/columns"
    )
    roles = {"role-0": "release", "role-1": "release", "role-2": "weight"}
    assert entered.post("/columns", data=roles).headers["location"] == "/matters"
    assert drafted(studio)["columns"]["colour"] == {"levels": "auto"}
    page = html.fromstring(entered.get("/columns/0").text)
    assert read_texts()["en"]["told"]["value_labels"] in page.text_content()
    assert page.get_element_by_id("field-form").value == "values"
    shown = {name: page.get_element_by_id(f"field-{name}").value.strip() for name in ("text", "codes")}
    assert shown == {"text": "red\ngreen\nblue", "codes": "red = 1\ngreen = 2\nblue = 3"}
    entered.post("/columns/0", data={"form": "values", **shown})
    assert drafted(studio)["columns"]["colour"]["values"] == ["red", "green", "blue"]
    assert drafted(studio)["columns"]["colour"]["codes"] == {"red": 1, "green": 2, "blue": 3}
    page = html.fromstring(entered.get("/columns/0").text)
    assert read_texts()["en"]["told"]["value_labels"] not in page.text_content()
    # Codes that were taken away stay away.
    entered.post("/columns/0", data={"form": "values", "text": shown["text"], "codes": ""})
    assert html.fromstring(entered.get("/columns/0").text).get_element_by_id("field-codes").value.strip() == ""
    entered.post("/columns/1", data={"form": "interval", "lower": "0", "upper": "100", "widths": "10, 50"})
    assert "wrong-weight_bounds-1" in whole(entered, "/matters")
    matters = {"blocks": "one", "weight_bounds": "1, 20, 50, 100"}
    assert entered.post("/matters", data=matters).headers["location"] == "/price"
    assert drafted(studio)["data"]["weight_classes"] == {"bounds": [1, 20, 50, 100]}
    text = whole(entered, "/review")
    assert 'section class="good"' in text, text[text.find("<main") :][:2_000]
    # The labels become a tree, with codes of the groups too.
    tree = {"form": "tree", "text": "warm\n  red\ncold\n  green\n  blue", "codes": "red = 1\ngreen = 2\nwarm = 7"}
    assert entered.post("/columns/0", data=tree).headers["location"] == "/columns"
    assert drafted(studio)["columns"]["colour"]["codes"] == {"red": 1, "green": 2, "warm": 7}
    assert 'section class="good"' in whole(entered, "/review")


def test_labels_that_pandas_made_of_the_records_are_not_proposed(studio, entered, command_line) -> None:
    """By no button, as `spec new` doesn't; who releases the column declares it on its own page."""
    rare = "rare disease of Mr X"
    people = pd.DataFrame({"disease": pd.Categorical(["flu", "cold", rare] * 40), "age": [20, 30, 40] * 40})
    people.to_stata(studio.folder / "people.dta", write_index=False)
    entered.post("/dataset", data=ADD)
    entered.post("/file", data={"source": "people.dta", "records": "3000"})
    assert drafted(studio).get("columns", {}).keys() <= {"age"}
    entered.post("/columns", data={"do": "all", "role-0": "leave", "role-1": "leave"})
    assert drafted(studio)["columns"].keys() == {"age"}
    for language, texts in read_texts().items():
        page = html.fromstring(entered.get("/columns", headers={"accept-language": language}).text)
        assert page.text_content().count(texts["told"]["value_labels"]) == 1
    entered.post("/columns", data={"role-0": "release", "role-1": "release"})
    entered.post("/columns", data={"do": "all", "role-0": "release", "role-1": "release"})
    assert drafted(studio)["columns"]["disease"] == {"levels": "auto"}
    assert rare not in studio.draft.read_text(encoding="utf-8")
    assert "declared yet" in entered.get("/columns").text
    entered.post("/columns/0", data={"form": "values", "text": "cold\nflu", "codes": ""})
    assert drafted(studio)["columns"]["disease"]["values"] == ["cold", "flu"]
    command_line("spec", "new", "--from", "people.dta", "--records", "3000", "--output", "new.toml")
    assert "disease" not in tomllib.loads((studio.folder / "new.toml").read_text(encoding="utf-8")).get("columns", {})


def test_a_hierarchy_of_arx_is_brought_in_and_changed_as_a_tree(studio, entered) -> None:
    (studio.folder / "paint.csv").write_text("colour,age\n", encoding="utf-8")
    (studio.folder / "arx.csv").write_text("red;warm;*\norange;warm;*\nblue;cold;*\n", encoding="utf-8")
    entered.post("/dataset", data=ADD)
    entered.post("/file", data={"source": "paint.csv", "records": "3000"})
    entered.post("/columns", data={"role-0": "release", "role-1": "release"})
    wrong = entered.post("/columns/0", data={"form": "file", "file": "nowhere.csv"})
    assert wrong.headers["location"] == "/columns/0"
    assert entered.post("/columns/0", data={"form": "file", "file": "arx.csv"}).headers["location"] == "/columns"
    place = studio.place / drafted(studio)["columns"]["colour"]["hierarchy"]
    assert place.read_text(encoding="utf-8") == "red;warm;*\norange;warm;*\nblue;cold;*\n"
    assert "warm\n  red\n  orange\ncold\n  blue" in entered.get("/columns/0").text
    moved = {"form": "tree", "text": "warm\n  red\ncold\n  blue\n  orange"}
    assert entered.post("/columns/0", data=moved).headers["location"] == "/columns"
    assert place.read_text(encoding="utf-8") == "red;warm;*\nblue;cold;*\norange;cold;*\n"


def test_a_hierarchy_that_somebody_wrote_is_kept_until_its_tree_is_changed(studio, entered) -> None:
    (studio.folder / "paint.csv").write_text("colour,age\n", encoding="utf-8")
    entered.post("/dataset", data=ADD)
    entered.post("/file", data={"source": "paint.csv", "records": "3000"})
    entered.post("/columns", data={"role-0": "release", "role-1": "release"})
    own = studio.place / "hierarchies" / "mine.csv"
    own.write_text("1;1;all;*\nb;few;all;*\n2;few;all;*\n", encoding="utf-8")
    text = studio.draft.read_text(encoding="utf-8")
    studio.draft.write_text(
        text.replace("[columns.colour]", '[columns.colour]\nhierarchy = "hierarchies/mine.csv"'), encoding="utf-8"
    )
    shown = "all\n  1\n  few\n    b\n    2"
    assert shown in entered.get("/columns/0").text
    entered.post("/columns/0", data={"form": "kept", "text": shown.replace("\n", "\r\n") + "\r\n"})
    assert drafted(studio)["columns"]["colour"]["hierarchy"] == "hierarchies/mine.csv"
    entered.post("/columns/0", data={"form": "kept", "text": shown.replace("    2", "  2")})
    assert drafted(studio)["columns"]["colour"]["hierarchy"] != "hierarchies/mine.csv"
    assert own.read_text(encoding="utf-8") == "1;1;all;*\nb;few;all;*\n2;few;all;*\n"


def test_case_codes_and_levels_have_fields_and_their_mistakes_are_told_there(studio, entered, people, declare) -> None:
    declare(entered, people)
    values = {"form": "values", "text": "blue\ngreen\nred"}
    entered.post("/columns/0", data=values | {"fold_case": "yes", "codes": "blue = 3\nred=1", "margin_level": "0"})
    column = drafted(studio)["columns"]["colour"]
    assert column["fold_case"] is True
    assert column["codes"] == {"blue": 3, "red": 1}
    assert column["margin_level"] == 0
    for wrong in ("pink = 3", "blue = 1\nred = 1", "blue"):
        answer = entered.post("/columns/0", data=values | {"codes": wrong})
        assert answer.headers["location"] == "/columns/0", wrong
        assert "wrong-codes-1" in entered.get("/columns/0").text, wrong
    entered.post("/columns/0", data=values | {"fold_case": "no", "codes": "", "margin_level": "x"})
    assert "wrong-margin_level-1" in entered.get("/columns/0").text
    entered.post("/columns/0", data=values | {"fold_case": "no", "codes": "", "margin_level": ""})
    assert drafted(studio)["columns"]["colour"].keys() == {"values", "levels"}


def test_tables_by_theme_are_written_beside_the_columns(studio, entered, people, declare, whole) -> None:
    declare(entered, people)
    assert "no_themes" not in entered.post("/matters", data={"blocks": "themes"}).text
    assert entered.post("/matters", data={"blocks": "themes"}).status_code == 422
    themes = {"blocks": "themes", "theme-0": "work, home", "theme-1": "work"}
    assert entered.post("/matters", data=themes).headers["location"] == "/price"
    assert drafted(studio)["blocks"] == {"work": {"columns": ["colour", "age"]}, "home": {"columns": ["colour"]}}
    assert 'value="work, home"' in entered.get("/matters").text
    assert 'section class="good"' in whole(entered, "/review")
    entered.post("/matters", data=themes | {"theme-1": ""})
    assert "stands in no block" in whole(entered, "/review")
    entered.post("/matters", data={"blocks": "themes", "theme-0": "work", "theme-1": "", "pinned-1": "yes"})
    assert drafted(studio)["blocks"] == {"pinned": ["age"], "work": {"columns": ["colour"]}}


def test_tables_that_are_written_are_taken_whatever_else_is_chosen(studio, entered, people, declare) -> None:
    declare(entered, people)
    entered.post("/matters", data={"blocks": "one", "theme-0": "work", "theme-1": "work"})
    assert drafted(studio)["blocks"] == {"work": {"columns": ["colour", "age"]}}
    entered.post("/matters", data={"blocks": "one", "theme-0": "work", "theme-1": "work"})
    assert "blocks" not in drafted(studio)


def test_all_that_seem_harmless_are_released_at_once(studio, entered, people) -> None:
    entered.post("/dataset", data=ADD)
    entered.post("/file", data={"source": str(people), "records": "3000"})
    answer = entered.post("/columns", data={"do": "all", "role-0": "leave", "role-1": "leave", "role-2": "leave"})
    assert answer.headers["location"] == "/columns"
    assert drafted(studio)["columns"].keys() == {"colour", "age"}


def test_how_texts_are_read_and_other_files_have_fields(studio, entered, people, declare, whole) -> None:
    declare(entered, people)
    entered.post("/file", data={"source": str(people), "records": "6000", "trim": "yes", "whole_floats": "yes"})
    review = {"release_name": "people", "output": "out/x", "form": "microdata", "format": "csv", "also": "sav dta"}
    entered.post("/review", data=review)
    assert drafted(studio)["data"]["trim"] is True
    assert drafted(studio)["data"]["whole_floats"] is True
    assert drafted(studio)["release"]["also"] == ["sav", "dta"]
    assert 'section class="good"' in whole(entered, "/review")
    entered.post("/file", data={"source": str(people), "records": "6000", "trim": "no", "whole_floats": "no"})
    entered.post("/review", data=review | {"also": ""})
    assert not {"trim", "whole_floats"} & drafted(studio)["data"].keys()
    assert "also" not in drafted(studio)["release"]
