"""All texts stand in one file, complete in each language, and each page is shown in the one that is chosen."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import crowdblend.deploy.studio.studio_server as server
from crowdblend.deploy.studio.draft import toml_lines, toml_text
from crowdblend.deploy.studio.studio_server import LANGUAGES, Said, read_refusals, read_texts

FOLDER = Path(server.__file__).parent


def test_each_text_is_there_in_each_language_with_the_same_blanks() -> None:
    read = tomllib.loads((FOLDER / "texts.toml").read_text(encoding="utf-8"))
    for page, texts in read.items():
        for key, by in texts.items():
            assert by.keys() == LANGUAGES.keys(), (page, key)
            blanks = {tuple(sorted(re.findall(r"\{(\w+)\}", text))) for text in by.values()}
            assert len(blanks) == 1, (page, key)
            assert len({bool(text) for text in by.values()}) == 1, (page, key)
            assert not hasattr(dict, key), (page, key)  # a template would show the method


def test_refusals_are_said_in_each_other_language_with_blanks_that_there_are() -> None:
    for sentences in read_refusals().values():
        for sentence, other in sentences.items():
            assert {*re.findall(r"\{(\w+)\}", other)} <= {*re.findall(r"\{(\w+)\}", sentence)}, sentence


def test_what_is_known_of_a_refusal_is_said_in_the_language_and_the_rest_stays() -> None:
    german = Said({}, read_refusals()["de"])
    told = "/data/x.csv: the file can't be read (Permission denied). Ask somebody. Remove it."
    expected = "/data/x.csv: Die Datei lässt sich nicht lesen (Permission denied). Ask somebody. Lassen Sie sie weg."
    assert german(told) == expected
    assert german("this must be at least {least}{0}.") == "Das muss mindestens {least}{0} sein."  # typed, and no blank
    assert german("this must be odd. Take this or that.") == "this must be odd. Take this or that."
    assert Said({}, {})(told) == told


def test_no_template_says_anything_by_itself() -> None:
    for path in (FOLDER / "templates").glob("*.html"):
        text = re.sub(
            r"\{[%#{].*?[%#}]\}|<[^>]*>|aria-[a-z]+=\"[^\"]*\"|(hint|wrong)-",
            " ",
            path.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        assert {*re.findall(r"[^\W\d_]{3,}", text)} <= {"crowdblend"}, path.name


def test_pages_are_in_the_language_that_is_chosen(studio, entered) -> None:
    texts = read_texts()
    english = entered.get("/dataset", headers={"accept-language": "fr, en;q=0.5"})
    german = entered.get("/dataset", headers={"accept-language": "de-CH, en;q=0.5"})
    assert '<html lang="en">' in english.text
    assert '<html lang="de">' in german.text
    assert texts["de"]["dataset"]["title"] in german.text
    assert entered.get("/file?lang=de").headers["location"] == "/file"
    for path in ("/dataset", "/file", "/columns", "/matters", "/price", "/review", "/run", "/result"):
        text = entered.get(path, headers={"accept-language": "en"}).text
        assert texts["de"][path[1:]]["title"] in text
        assert texts["en"]["frame"]["skip"] not in text


def test_a_draft_is_read_back_as_it_was_written() -> None:
    tables = {
        "data": {"source": 'a "quoted"\\ name\x7f', "null": ["", "NA"], "rows_per_person": 3},
        "deletion": {},
        "blocks": {"pinned": ["a.b"], "work": {"columns": ["a.b", "é"]}},
        "columns": {"a.b": {"interval": {"lower": 0, "upper": 9, "widths": []}}, "é": {"values": ["]", "x\ty"]}},
    }
    assert tomllib.loads(toml_text(tables)) == tables
    assert all("\n" not in line for _, line in toml_lines(tables))


def test_keys_that_have_no_field_stay_where_somebody_wrote_them(studio, entered, people, declare) -> None:
    declare(entered, people)
    text = studio.draft.read_text(encoding="utf-8")
    text = text.replace("[data]", "[data]\ntrim = true").replace(
        "[columns.colour]", "[columns.colour]\nfold_case = true"
    )
    text = text.replace("[release]", '[release]\nmetadata = { license = "CC-BY-4.0" }')
    studio.draft.write_text(text, encoding="utf-8")
    entered.post("/file", data={"source": str(people), "records": "6000"})
    entered.post("/columns", data={"role-0": "release", "role-1": "release", "role-2": "leave"})
    entered.post("/columns/0", data={"form": "values", "text": "blue\ngreen\nred"})
    review = {
        "release_name": "people",
        "output": "out/x",
        "form": "microdata",
        "format": "csv",
        "title_field": "People",
    }
    entered.post("/review", data=review)
    draft = tomllib.loads(studio.draft.read_text(encoding="utf-8"))
    assert draft["data"]["trim"] is True
    assert draft["columns"]["colour"]["fold_case"] is True
    assert draft["release"]["metadata"] == {"license": "CC-BY-4.0", "title": "People"}
