"""The pages of deletion releases: what a group loses, the levels of each stage, and that no sample was drawn."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest
from crowdblend.accounting.dashboard.views.rows import mechanism_label
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.mechanisms.kinds.deletion import DeletionRelease, SelectedDeletion
from crowdblend.mechanisms.kinds.deletion_noise import GeometricDeletion, OptimalDeletion

SPEC = """
[release]
name = "{name}"
form = "{form}"
output = "out/{name}"
[data]
dataset = "kept"
source = "people.csv"
separator = ";"
[deletion]
[privacy]
epsilon = 1
delta = 1e-6
[columns.colour]
values = ["blue", "green", "red"]
{colour}
[columns.town]
hierarchy = "towns.csv"
{town}
"""
CHAIN = {"colour": "levels = [0, 0, 1]", "town": "levels = [0, 1, 1]"}
KEEP = "CROWDBLEND_SCREENSHOTS"


@pytest.fixture(scope="module")
def kept(town, tmp_path_factory, prefect_server):
    """The common ledger with a release of three stages, and a series of single ones of which one is published."""
    copy = town.copy(tmp_path_factory.mktemp("kept"))
    for name, form, levels in (
        ("chain", "counts", CHAIN),
        ("monthly-kept", "microdata", {"colour": "level = 0", "town": "level = 1"}),
    ):
        (copy.folder / f"{name}.toml").write_text(SPEC.format(name=name, form=form, **levels), encoding="utf-8")
    for command in (
        "dataset add kept --epsilon 4 --delta 1e-4",
        "run chain.toml --release-id chain-1",
        "series add kept-monthly monthly-kept.toml --releases 3",
        "run monthly-kept.toml --series kept-monthly --release-id kept-1",
    ):
        copy.command(*command.split(), PREFECT_API_URL=prefect_server.api_url)
    return copy


@pytest.mark.slow
def test_they_tell_what_each_stage_published_and_that_no_sample_was_drawn(kept, opened) -> None:
    with opened(kept.ledger, releases=(kept.folder / "out",)) as pages:
        told = pages.get("/api/v1/releases/chain-1").json()
        certificate = json.loads((kept.folder / "out" / "chain" / "certificate.json").read_text(encoding="utf-8"))
        stages = certificate["published"]["stages"]
        assert len(stages) == 3
        found = [(one["groups"], one["records"]) for one in told["stages"]]
        assert found == [(one["published_groups"], one["published_records"]) for one in stages]
        assert [(one["name"], one["level"]) for one in told["columns"]] == [("colour", "0, 0, 1"), ("town", "0, 1, 1")]
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
def test_they_read_well_in_a_browser(kept, serve, browser) -> None:
    with serve(kept, "--releases", "out") as running:
        running.verified()
        position = next(
            row["position"] for row in running.get("/api/v1/overview").json()["datasets"] if row["dataset"] == "kept"
        )
        for width, scheme in ((1600, "light"), (320, "dark")):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            for path in (f"/datasets/{position}", "/samples", "/releases/kept-1", "/releases/chain-1"):
                page.goto(running.url.rstrip("/") + path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            folder = os.environ.get(KEEP)
            if folder and width > 1000:
                page.set_viewport_size({"width": 1280, "height": 900})
                page.screenshot(path=str(Path(folder) / f"deletion-{scheme}-{width}.png"), full_page=True)
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
