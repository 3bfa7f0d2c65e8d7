"""The pages of a filter data set: its spent share, what one more release would take, and how many more fit."""

from __future__ import annotations

import html
import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.ledger.filter_accounting import propose_accounting
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

KEEP = "CROWDBLEND_SCREENSHOTS"
TWELVE = ((StronglySafeRelease(k=20, sampling_rate=Decimal("0.1")), 12),)
CHARGE = "(SELECT position FROM entry WHERE release_id = 'filtered-2')"
REGISTERED = """(SELECT position FROM entry WHERE body LIKE '%"dataset":"filtered"%"kind":"dataset-added/%')"""
FORGERIES = {
    "divergence": f"""UPDATE entry SET body = replace(body, '"divergence":"0.0117', '"divergence":"0.0017')
    WHERE position = {CHARGE}""",
    "tail": f"""UPDATE entry SET body = replace(body, '"tail":"0.000', '"tail":"0.0000') WHERE position = {CHARGE}""",
    "order": f"""UPDATE entry SET body = replace(body, '"order":"37"', '"order":"30"') WHERE position = {REGISTERED}""",
    "account": "UPDATE snapshot SET state = replace(state, '0.0117', '0.0017')",
}


@pytest.fixture(scope="module")
def filtered(town, tmp_path_factory):
    """The common ledger with a filter data set of seven charges."""
    copy = town.copy(tmp_path_factory.mktemp("filtered"))
    epsilon, delta = Decimal("0.48"), Decimal("1e-6")
    with copy.writer() as writer:
        writer.add_dataset(
            name="filtered",
            epsilon=epsilon,
            delta=delta,
            relation="add/remove",
            survey_rate=None,
            rows_per_person=1,
            by="steward",
            day=datetime.now(UTC).date(),
            accounting=propose_accounting(epsilon=epsilon, delta=delta, expected=TWELVE),
        )
    for number in range(7):
        copy.charge(f"filtered-{number}", dataset="filtered", label="monthly")
    return copy


def place_of(pages) -> int:
    rows = pages.get("/api/v1/overview").json()["datasets"]
    return next(row["position"] for row in rows if row["dataset"] == "filtered")


@pytest.mark.slow
def test_they_show_the_spent_share_and_how_many_more_fit(filtered, opened) -> None:
    with opened(filtered.ledger) as pages:
        place = place_of(pages)
        told = pages.get(f"/api/v1/datasets/{place}").json()
        row, following = told["budget"], told["next_release"]
        assert (row["accounting"], row["order"], row["epsilon_spent"], row["delta_left"]) == (
            "filter",
            "37",
            None,
            None,
        )
        assert (row["epsilon_budget"]["exact"], row["delta_budget"]["exact"]) == ("0.48", "0.000001")
        each = Decimal(following["divergence"]["exact"])
        assert Decimal(row["divergence_spent"]["exact"]) == 7 * each
        assert row["spent_share"] == pytest.approx(7 * following["share"])
        assert following["fit"] == 11
        assert following["mechanism"] == "k = 20, rate 0.1"
        assert [point["share"] for point in told["shares"]] == pytest.approx([n * following["share"] for n in range(8)])
        assert (told["timeline"], told["epsilon_estimate"], told["computing"]) == ([], None, False)
        page = pages.get(f"/datasets/{place}").text
        for text in ("37.3 %", "11 more", "Divergence of order 37", "can't be raised"):
            assert text in page, text
        assert "ε spent" not in page
        release = pages.get("/releases/filtered-1").text
        assert "took 5.32 % of it" in release
        assert "ε charged" not in release
        assert "filter of order 37" in pages.get("/").text
        assert pages.get(f"/csv/datasets/{place}").text.splitlines()[0].startswith("change,position,day,divergence")
        plain = pages.get("/api/v1/overview").json()["datasets"][0]
        assert (plain["accounting"], plain["order"], plain["divergence_spent"]) == ("additive", None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        pytest.param(statement, id=name, marks=() if name == "divergence" else pytest.mark.slow)
        for name, statement in FORGERIES.items()
    ],
)
def test_a_forged_figure_is_shown_as_a_finding_and_no_figure_is(filtered, opened, tmp_path, statement) -> None:
    copy = filtered.copy(tmp_path / "forged")
    copy.past_the_guards(statement)
    with opened(copy.ledger) as pages:
        chain = pages.verified()
        assert chain["verdict"] == "broken"
        for path in ("/", "/releases/filtered-2"):
            answer = pages.get(path)
            assert answer.status_code == 409
            assert chain["findings"][0]["what"] in html.unescape(answer.text)
            assert "<data value" not in answer.text


@pytest.mark.slow
def test_they_read_well_in_a_browser(filtered, serve, browser) -> None:
    with serve(filtered) as running:
        running.verified()
        place = place_of(running)
        for width, scheme in ((1600, "light"), (320, "dark")):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            for path, name in (("/", "filters"), (f"/datasets/{place}", "filter")):
                page.goto(running.url.rstrip("/") + path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                if (folder := os.environ.get(KEEP)) and (name, width) == ("filter", 1600):
                    page.screenshot(path=str(Path(folder) / f"{name}-{scheme}-{width}.png"), full_page=True)
            context.close()
