"""Each mistake is told at its field, in the command line's words, and what was typed stays in the form."""

from __future__ import annotations

from crowdblend.deploy.studio.studio_server import LANGUAGES, pattern_of, read_refusals
from lxml import html

ADD = {"do": "add", "new_dataset": "second", "budget_epsilon": "1", "budget_delta": "1e-5", "rows_per_person": "1"}
FILE = {"source": "people.csv", "records": "6000"}
ROLES = {"role-0": "release", "role-1": "release", "role-2": "leave"}
PRICE = {
    "do": "save", "epsilon": "1", "delta": "1e-6", "share": "0.3", "pair_share": "0.45", "draw_share": "0.05",
}  # fmt: skip
INTERVAL = {"form": "interval", "lower": "0", "upper": "100", "widths": "10"}
DATES = {"form": "dates", "from": "2000-01-01", "to": "2010-12-31", "day_levels": "month year"}
REVIEW = {"release_name": "people", "output": "out/people", "form": "microdata", "format": "parquet"}

MISTAKES = (
    ("/dataset", ADD | {"new_dataset": ""}, "new_dataset", "name"),
    ("/dataset", ADD | {"new_dataset": "people"}, "new_dataset", "already"),
    ("/dataset", ADD | {"budget_epsilon": "much"}, "budget_epsilon", "number"),
    ("/dataset", ADD | {"budget_epsilon": "-1"}, "budget_epsilon", "from 0"),
    ("/dataset", ADD | {"budget_delta": "2"}, "budget_delta", "below 1"),
    ("/dataset", ADD | {"rows_per_person": "many"}, "rows_per_person", "whole number"),
    ("/dataset", ADD | {"unit": "person", "unit_column": ""}, "unit_column", "person"),
    ("/dataset", ADD | {"survey_rate": "half"}, "survey_rate", "number"),
    ("/dataset", ADD | {"survey_rate": "2"}, "survey_rate", "rate"),
    ("/dataset", ADD | {"survey_rate": "0.1", "rows_per_person": "3"}, "survey_rate", "no price is proved"),
    ("/dataset", ADD | {"accounting": "additive", "expect": "24 x epsilon=0.05"}, "expect", "filter"),
    ("/dataset", ADD | {"accounting": "filter", "expect": "many"}, "expect", "Write for example"),
    ("/dataset", ADD | {"accounting": "filter", "survey_rate": "0.1"}, "accounting", "released once"),
    ("/dataset", {"do": "choose"}, "dataset", "Choose a data set"),
    ("/file", FILE | {"source": ""}, "source", "no file is named"),
    ("/file", FILE | {"source": "nowhere.csv"}, "source", "cannot be found"),
    ("/file", FILE | {"source": "people.xlsx"}, "source", "Parquet"),
    ("/file", FILE | {"records": "some"}, "records", "whole number"),
    ("/file", FILE | {"public": "nowhere.csv"}, "public", "cannot be found"),
    ("/columns", ROLES | {"role-0": "person", "role-2": "person"}, "role-2", "Another column has this role"),
    ("/columns", ROLES | {"role-0": "person", "role-2": "household"}, "role-2", "not both"),
    ("/columns/0", {"form": "values", "text": ""}, "text", "no value"),
    ("/columns/0", {"form": "values", "text": "blue\nblue"}, "text", "blue"),
    ("/columns/0", {"form": "tree", "text": "  blue\n red"}, "text", "indent"),
    ("/columns/0", {"form": "prefixes", "text": "101\n102", "keep": "1, 2"}, "text", "descend"),
    ("/columns/0", {"form": "prefixes", "text": "101\n102", "keep": "two"}, "text", "whole numbers"),
    ("/columns/0", {"form": "file", "file": "nowhere.csv"}, "text", "read"),
    ("/columns/1", INTERVAL | {"lower": "low"}, "lower", "number"),
    ("/columns/1", INTERVAL | {"lower": "100", "upper": "0"}, "lower", "lower"),
    ("/columns/1", INTERVAL | {"widths": "10, 25"}, "lower", "divi"),
    ("/columns/1", INTERVAL | {"upper": ""}, "upper", "missing"),
    ("/columns/1", DATES | {"from": "1.1.2000"}, "from", "2026-03-31"),
    ("/columns/1", DATES | {"day_levels": "week"}, "day_levels", "month"),
    ("/columns/1", DATES | {"to": "1990-01-01"}, "from", "day"),
    ("/columns/1", INTERVAL | {"min_level": "9"}, "min_level", "level"),
    ("/matters", {"weight-0": "heavy", "blocks": "one"}, "weight-0", "number"),
    ("/matters", {"blocks": "found", "number": "0"}, "number", "1"),
    ("/matters", {"blocks": "one", "pairs": "0"}, "pairs", "1"),
    ("/price", PRICE | {"epsilon": "-1"}, "epsilon", "epsilon"),
    ("/price", PRICE | {"epsilon": ""}, "epsilon", "missing"),
    ("/price", PRICE | {"delta": "2"}, "delta", "1"),
    ("/price", PRICE | {"delta": "none"}, "delta", "number"),
    ("/price", PRICE | {"share": "0.9"}, "share", "share"),
    ("/price", PRICE | {"epsilon": "9"}, "dataset", "budget"),
    ("/review", REVIEW | {"release_name": "a b"}, "release_name", "letters"),
    ("/review", REVIEW | {"output": ""}, "output", "output"),
    ("/review", REVIEW | {"output": "taken"}, "output", "exists"),
    ("/review", REVIEW | {"title_field": "x" * 300}, "title_field", "200"),
)  # fmt: skip
SAMPLED = {"rate": "0.3", "k": "10", "delta": "1e-5"}
CALIBRATED = {"epsilon": "2", "delta": "1e-5", "rate": "0.3", "share": "0.5", "k": ""}
HISTOGRAM = {"histogram_kind": "noisy", "rate": "0.3", "k": "10", "noise_epsilon": "0.5", "delta": "1e-4"}
SYNTHETIC = {"method": "mst", "epsilon": "1", "delta": "1e-5"}
OF_KINDS = (
    ("sampled", SAMPLED | {"rate": "2"}, "rate", "1"),
    ("sampled", SAMPLED | {"rate": ""}, "rate", "missing"),
    ("sampled", SAMPLED | {"k": "few"}, "k", "number"),
    ("sampled", SAMPLED | {"k": "2", "delta": "1e-9"}, "k", "no epsilon is enough"),
    ("calibrated", CALIBRATED | {"epsilon": "-1"}, "epsilon", "0"),
    ("calibrated", CALIBRATED | {"share": "2"}, "share", "1"),
    ("calibrated", CALIBRATED | {"rate": ""}, "rate", "missing"),
    ("calibrated", CALIBRATED | {"k": "0"}, "k", "1"),
    ("histogram", HISTOGRAM | {"histogram_kind": "loud"}, "histogram_kind", "noisy"),
    ("histogram", HISTOGRAM | {"noise_epsilon": ""}, "noise_epsilon", "missing"),
    ("histogram", HISTOGRAM | {"noise_epsilon": "500"}, "noise_epsilon", "100"),
    ("histogram", HISTOGRAM | {"histogram_kind": "suppressed"}, "noise_epsilon", "not a parameter"),
    ("histogram", HISTOGRAM | {"k": "0"}, "k", "1"),
    ("synthetic", SYNTHETIC | {"method": "gan"}, "method", "mst"),
    ("synthetic", SYNTHETIC | {"epsilon": "0"}, "epsilon", "0"),
    ("synthetic", SYNTHETIC | {"delta": ""}, "delta", "missing"),
)
RIGHT = {
    "/dataset": {"do": "choose", "dataset": "people"}, "/file": FILE, "/columns": ROLES,
    "/columns/0": {"form": "values", "text": "blue\ngreen\nred"}, "/columns/1": INTERVAL,
    "/matters": {"blocks": "one"}, "/price": PRICE, "/review": REVIEW,
}  # fmt: skip


def told_at(page: html.HtmlElement, field: str) -> str:
    """What assistive technology finds to be wrong at a field; a group of choices has it in itself."""
    [place] = page.xpath("//*[@id=$id]", id=f"field-{field}")
    ids = [one for one in (place.get("aria-describedby") or "").split() if one.startswith("wrong-")]
    return " ".join(" ".join(one.text_content().split()) for name in ids for one in page.xpath("//*[@id=$id]", id=name))


class Mistaken:
    """Makes mistakes, and looks at what is told at their fields in each language."""

    def __init__(self, client, whole) -> None:
        self.client, self.whole = client, whole
        self.missed: list[object] = []
        self.told: list[str] = []

    def page(self, path: str, language: str) -> html.HtmlElement:
        self.client.headers["accept-language"] = language
        return html.fromstring(self.whole(self.client, path))

    def make(self, path: str, form: dict[str, str], field: str, words: str) -> None:
        pages = []
        for language in LANGUAGES:
            self.client.headers["accept-language"] = language
            answer = self.client.post(path, data=form)
            assert answer.status_code in (303, 422), (path, form, answer.text)
            # What the draft can't hold is told at once; all else as the draft stands, here and by the review.
            if answer.status_code == 422:
                page = html.fromstring(answer.text)
                typed = page.xpath("//*[@id=$id]/@value", id="field-new_dataset")
                assert not typed or typed == [form.get("new_dataset", "")]
            else:
                links = self.page("/review", language).xpath("//section//a/@href")
                links = [link for link in links if link.endswith(f"#field-{field}")]
                page = self.page(links[0].partition("#")[0] if links else path, language)
            pages.append(page)
        english, german = (told_at(page, field) for page in pages)
        if words not in english:
            others = [" ".join(one.text_content().split()) for one in pages[0].xpath("//*[contains(@class,'wrong')]")]
            self.missed.append((path, form, field, english, others))
        # Each is told in each language, sentence by sentence.
        left = [one for one in english.removeprefix("To mend: ").split(". ") if len(one) > 12 and one in german]
        if left or not german:
            self.missed.append((path, form, field, "in German", german))
        self.told.append(english)


def test_each_mistake_is_told_at_its_field(studio, entered, people, declare, whole) -> None:
    declare(entered, people)
    (studio.folder / "taken").mkdir()
    mistaken = Mistaken(entered, whole)
    for path, form, field, words in MISTAKES:
        mistaken.make(path, form, field, words)
        for right, again in RIGHT.items():
            if right.startswith(path) or path in ("/file", "/columns"):
                entered.post(right, data=again)
    for kind, form, field, words in OF_KINDS:
        entered.post("/price", data={"do": "kind", "kind": kind})
        mistaken.make("/price", {"do": "save", **form}, field, words)
    assert mistaken.missed == [], "\n".join(map(repr, mistaken.missed))
    # None of the sentences of the file of refusals outlives the command line's.
    told = "\n".join(mistaken.told)
    sentences = read_refusals()["de"]
    unused = [one for one in sentences if not pattern_of(one).search(told) and "approv" not in one]
    assert unused == []
