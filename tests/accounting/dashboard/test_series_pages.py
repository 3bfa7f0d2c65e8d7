"""The pages of series with free columns and of series of different mechanisms: what was registered, and which part."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

KEEP = "CROWDBLEND_SCREENSHOTS"

SPEC = """
[release]
name = "{name}"
output = "out/{name}"
[data]
dataset = "year"
source = "people.csv"
separator = ";"
[sampling]
rate = {rate}
[suppression]
k = {k}
[privacy]
delta = 1e-6
[columns.town]
hierarchy = "towns.csv"
level = 1
"""
COLOUR = '[columns.colour]\nvalues = ["blue", "green", "red"]\nlevel = 0\n'


@pytest.fixture(scope="module")
def year(town, tmp_path_factory, prefect_server):
    """The common ledger with a series of each sort, and a release of each."""
    copy = town.copy(tmp_path_factory.mktemp("year"))
    for name, k, rate, more in (("free", 20, "0.1", COLOUR), ("freer", 25, "0.08", ""), ("rare", 50, "0.05", "")):
        (copy.folder / f"{name}.toml").write_text(SPEC.format(name=name, k=k, rate=rate) + more, encoding="utf-8")
    parts = ["--part", "2 x k=20,rate=0.1", "--part", "3 x k=50,rate=0.05"]
    for command in (
        ["dataset", "add", "year", "--epsilon", "4", "--delta", "1e-4"],
        ["series", "add", "freely", "free.toml", "--releases", "3", "--free-columns"],
        ["series", "add", "mixed", *parts, "--dataset", "year", "--delta", "1e-6"],
        ["run", "freer.toml", "--series", "freely", "--release-id", "freely-1"],
        ["run", "rare.toml", "--series", "mixed", "--release-id", "mixed-1"],
    ):
        copy.command(*command, PREFECT_API_URL=prefect_server.api_url)
    return copy


@pytest.mark.slow
def test_they_tell_what_was_registered_and_which_part_paid(year, opened) -> None:
    with opened(year.ledger, releases=(year.folder / "out",)) as pages:
        for release_id, name, words in (
            ("freely-1", "freer", "could be chosen by what was published before"),
            ("mixed-1", "rare", "parts, which are named in this certificate"),
        ):
            told = pages.get(f"/api/v1/releases/{release_id}").json()
            certificate = json.loads((year.folder / "out" / name / "certificate.json").read_text(encoding="utf-8"))
            assert told["guarantee"] == certificate["guarantee"]["in_words"]
            assert told["theorem"] == certificate["guarantee"]["theorem"]
            assert words in told["guarantee"]
        assert told["part"] == "part 2 (3 x k=50,rate=0.05)"
        assert "place 3, part 2 (3 x k=50,rate=0.05)" in pages.get("/releases/mixed-1").text
        assert pages.get("/api/v1/releases/freely-1").json()["part"] is None
        overview = pages.get("/api/v1/overview").json()["datasets"]
        position = next(row["position"] for row in overview if row["dataset"] == "year")
        rows = {row["series"]: row for row in pages.get(f"/api/v1/datasets/{position}").json()["series"]}
        assert rows["mixed"]["mechanism"] == "2 x k=20,rate=0.1; 3 x k=50,rate=0.05"
        assert (rows["mixed"]["taken"], rows["mixed"]["remaining"]) == (1, 4)
        assert rows["freely"]["mechanism"].startswith("k = 20, rate 0.1; each has its own columns")
        assert "with columns of its own" in pages.get(f"/entries/{rows['freely']['position']}").text


@pytest.mark.slow
def test_the_data_sets_page_tells_how_many_places_of_each_part_are_taken(year, opened) -> None:
    with opened(year.ledger) as pages:
        known = pages.get("/api/v1/overview").json()["datasets"]
        [position] = [one["position"] for one in known if one["dataset"] == "year"]
        rows = {row["series"]: row for row in pages.get(f"/api/v1/datasets/{position}").json()["series"]}
        parts = ["part 1: 2 x k=20,rate=0.1, 0 of 2 taken", "part 2: 3 x k=50,rate=0.05, 1 of 3 taken"]
        assert rows["mixed"]["parts"] == parts
        assert rows["freely"]["parts"] == []
        assert all(part in pages.get(f"/datasets/{position}").text for part in parts)
        assert "(2 x k=20,rate=0.1; 3 x k=50,rate=0.05)" in pages.get(f"/entries/{rows['mixed']['position']}").text


@pytest.mark.slow
def test_they_read_well_in_a_browser(year, serve, browser) -> None:
    with serve(year, "--releases", "out") as running:
        running.verified()
        overview = running.get("/api/v1/overview").json()["datasets"]
        position = next(row["position"] for row in overview if row["dataset"] == "year")
        for width, scheme in ((1600, "light"), (320, "dark")):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            for number, path in enumerate((f"/datasets/{position}", "/releases/mixed-1", "/releases/freely-1")):
                page.goto(running.url.rstrip("/") + path)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                if folder := os.environ.get(KEEP):
                    page.screenshot(path=str(Path(folder) / f"series-{number}-{width}.png"), full_page=True)
            context.close()
