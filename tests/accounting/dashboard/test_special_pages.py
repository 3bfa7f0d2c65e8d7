"""The pages of deletion releases, of filter budgets, and of series whose releases differ: what is told of each."""

from __future__ import annotations

import html
import json
import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.dashboard.views.rows import mechanism_label
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.accounting.ledger.filter_accounting import propose_accounting
from crowdblend.accounting.ledger.ledger_writer import dataset_entry
from crowdblend.mechanisms.kinds.deletion import DeletionRelease, SelectedDeletion
from crowdblend.mechanisms.kinds.deletion_noise import GeometricDeletion, OptimalDeletion
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

SPEC = """
[release]
name = "{name}"
form = "{form}"
output = "out/{name}"
[data]
dataset = "{dataset}"
source = "people.csv"
separator = ";"
{mechanism}
[privacy]
{privacy}
delta = 1e-6
[columns.town]
hierarchy = "towns.csv"
{town}
{colour}
"""
COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\n'
LEVEL = {"form": "microdata", "dataset": "year", "privacy": "", "town": "level = 1", "colour": ""}
DELETED = LEVEL | {"dataset": "kept", "mechanism": "[deletion]", "privacy": "epsilon = 1"}
CHAIN = {"form": "counts", "town": "levels = [0, 1, 1]", "colour": COLOUR + "levels = [0, 0, 1]"}
SPECS = {
    "free": LEVEL | {"mechanism": "[sampling]\nrate = 0.1\n[suppression]\nk = 20", "colour": COLOUR + "level = 0"},
    "freer": LEVEL | {"mechanism": "[sampling]\nrate = 0.08\n[suppression]\nk = 25"},
    "rare": LEVEL | {"mechanism": "[sampling]\nrate = 0.05\n[suppression]\nk = 50"},
    "chain": DELETED | CHAIN,
    "monthly-kept": DELETED | {"colour": COLOUR + "level = 0"},
}
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
def special(town, tmp_path_factory, prefect_server):
    """The common ledger with a release of three stages, series of each sort, and a filter data set of seven charges."""
    copy = town.copy(tmp_path_factory.mktemp("special"))
    for name, tables in SPECS.items():
        (copy.folder / f"{name}.toml").write_text(SPEC.format(name=name, **tables), encoding="utf-8")
    parts = "--part|2 x k=20,rate=0.1|--part|3 x k=50,rate=0.05"
    for command in (
        "dataset|add|kept|--epsilon|4|--delta|1e-4",
        "run|chain.toml|--release-id|chain-1",
        "series|add|kept-monthly|monthly-kept.toml|--releases|3",
        "run|monthly-kept.toml|--series|kept-monthly|--release-id|kept-1",
        "dataset|add|year|--epsilon|4|--delta|1e-4",
        "series|add|freely|free.toml|--releases|3|--free-columns",
        f"series|add|mixed|{parts}|--dataset|year|--delta|1e-6",
        "run|freer.toml|--series|freely|--release-id|freely-1",
        "run|rare.toml|--series|mixed|--release-id|mixed-1",
    ):
        copy.command(*command.split("|"), PREFECT_API_URL=prefect_server.api_url)
    epsilon, delta = Decimal("0.48"), Decimal("1e-6")
    with copy.writer() as writer:
        writer.add_dataset(
            dataset_entry(
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
        )
    for number in range(7):
        copy.charge(f"filtered-{number}", dataset="filtered", label="monthly")
    return copy


def place_of(pages, dataset: str) -> int:
    rows = pages.get("/api/v1/overview").json()["datasets"]
    return next(row["position"] for row in rows if row["dataset"] == dataset)


@pytest.mark.slow
def test_they_tell_what_was_registered_and_which_part_paid(special, opened) -> None:
    with opened(special.ledger, releases=(special.folder / "out",)) as pages:
        for release_id, name, words in (
            ("freely-1", "freer", "could be chosen by what was published before"),
            ("mixed-1", "rare", "parts, which are named in this certificate"),
        ):
            told = pages.get(f"/api/v1/releases/{release_id}").json()
            certificate = json.loads((special.folder / "out" / name / "certificate.json").read_text(encoding="utf-8"))
            assert told["guarantee"] == certificate["guarantee"]["in_words"]
            assert told["theorem"] == certificate["guarantee"]["theorem"]
            assert words in told["guarantee"]
        assert told["part"] == "part 2 (3 x k=50,rate=0.05)"
        assert "place 3, part 2 (3 x k=50,rate=0.05)" in pages.get("/releases/mixed-1").text
        assert pages.get("/api/v1/releases/freely-1").json()["part"] is None
        position = place_of(pages, "year")
        rows = {row["series"]: row for row in pages.get(f"/api/v1/datasets/{position}").json()["series"]}
        assert rows["mixed"]["mechanism"] == "2 x k=20,rate=0.1; 3 x k=50,rate=0.05"
        assert (rows["mixed"]["taken"], rows["mixed"]["remaining"]) == (1, 4)
        assert rows["freely"]["mechanism"].startswith("k = 20, rate 0.1; each has its own columns")
        assert "with columns of its own" in pages.get(f"/entries/{rows['freely']['position']}").text
        own = ["part 1: 2 x k=20,rate=0.1, 0 of 2 taken", "part 2: 3 x k=50,rate=0.05, 1 of 3 taken"]
        assert (rows["mixed"]["parts"], rows["freely"]["parts"]) == (own, [])
        assert all(part in pages.get(f"/datasets/{position}").text for part in own)
        assert "(2 x k=20,rate=0.1; 3 x k=50,rate=0.05)" in pages.get(f"/entries/{rows['mixed']['position']}").text


@pytest.mark.slow
def test_they_tell_what_each_stage_published_and_that_no_sample_was_drawn(special, opened) -> None:
    with opened(special.ledger, releases=(special.folder / "out",)) as pages:
        told = pages.get("/api/v1/releases/chain-1").json()
        certificate = json.loads((special.folder / "out" / "chain" / "certificate.json").read_text(encoding="utf-8"))
        stages = certificate["published"]["stages"]
        assert len(stages) == 3
        found = [(one["groups"], one["records"]) for one in told["stages"]]
        assert found == [(one["published_groups"], one["published_records"]) for one in stages]
        assert [(one["name"], one["level"]) for one in told["columns"]] == [("town", "0, 1, 1"), ("colour", "0, 0, 1")]
        # The reference figures of three stages at ε = 1, δ = 1e-6: m = 39, σ a little below 7.8.
        assert told["deleted"] == {"expected": "39", "deviation": "7.633", "largest": 78}
        assert told["release"]["mechanism"] == "deletion in 3 stages, k = 1, gaussian noise of σ 7.633, m = 39"
        assert (told["sampled"], told["release"]["epsilon_paper"]) == (False, None)
        informative, records = certificate["published"]["informative_records"], certificate["published"]["records"]
        assert told["told"][0].startswith(f"Informative, with a label that isn't *: {informative:,} of {records:,} ")
        page = pages.get("/releases/chain-1").text
        for text in (
            "none was drawn",
            "at most 78",
            "Level at each stage",
            "Every record was read; no sample was drawn.",
            "Informative, with a label that isn&#39;t *: ",
        ):
            assert text in page, text
        assert "sample reserved" not in page
        sampled = pages.get("/releases/people-spring")
        assert "none was drawn" not in sampled.text
        assert "sample reserved" in sampled.text
        assert pages.get("/api/v1/releases/people-spring").json()["deleted"] is None
        rows = {row["release_id"]: row for row in pages.get("/api/v1/samples").json()["samples"]}
        assert (rows["chain-1"]["state"], rows["chain-1"]["purpose"]) == ("not drawn", "none")
        assert (rows["people-spring"]["state"], rows["people-spring"]["purpose"]) == ("consumed", "release")
        assert pages.get("/api/v1/releases/kept-1").json()["release"]["series"] == "kept-monthly"


@pytest.mark.slow
def test_they_show_the_spent_share_and_how_many_more_fit(special, opened) -> None:
    with opened(special.ledger) as pages:
        place = place_of(pages, "filtered")
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
@pytest.mark.parametrize("statement", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_figure_is_shown_as_a_finding_and_no_figure_is(special, opened, tmp_path, statement) -> None:
    copy = special.copy(tmp_path / "forged")
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
def test_they_read_well_in_a_browser(special, serve, browser) -> None:
    with serve(special, "--releases", "out") as running:
        running.verified()
        kept = {"/releases/chain-1": "deletion", f"/datasets/{place_of(running, 'filtered')}": "filter"}
        others = [f"/datasets/{place_of(running, name)}" for name in ("kept", "year")]
        others += ["/", "/samples", "/releases/kept-1", "/releases/mixed-1", "/releases/freely-1"]
        for width, scheme in ((1600, "light"), (320, "dark")):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            for path in (*kept, *others):
                page.goto(running.url.rstrip("/") + path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                if (folder := os.environ.get(KEEP)) and path in kept and width > 1000:
                    page.set_viewport_size({"width": 1280, "height": 900})
                    page.screenshot(path=str(Path(folder) / f"{kept[path]}-{scheme}-{width}.png"), full_page=True)
                    page.set_viewport_size({"width": width, "height": 900})
            context.close()


def test_a_private_choice_of_the_levels_is_named() -> None:
    noise = OptimalDeletion(epsilon=Decimal("0.9"), delta=Decimal("1e-6"))
    chosen = SelectedDeletion(stages=2, k=3, noise=noise, selection_epsilon=Decimal("0.1"))
    assert mechanism_label(mechanism_record(chosen)) == (
        "deletion in 2 stages, k = 3, optimal noise for ε 0.9 and δ 0.000001 a stage, levels chosen at ε 0.1 on all "
        "records"
    )
    fixed = DeletionRelease(stages=1, k=1, noise=GeometricDeletion(epsilon=Decimal("0.5"), width=30))
    assert mechanism_label(mechanism_record(fixed)) == "deletion in 1 stage, k = 1, geometric noise of ε 0.5, m = 30"
