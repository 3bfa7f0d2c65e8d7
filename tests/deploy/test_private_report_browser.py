"""The private report in a real browser: marked on every sheet, nothing cut or overlapping, nothing asked for."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from crowdblend.deploy.documents.private_report import MARK, PrivateReport, report_page
from crowdblend.mechanisms.generalization_map import GeneralizationMap, MappedColumn
from crowdblend.mechanisms.hierarchies.declare import IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, count_keys
from crowdblend.mechanisms.kinds.microdata import suppress
from crowdblend.mechanisms.measures.counted_records import CountedRecords
from crowdblend.mechanisms.measures.risk import attacks_of, sampling_losses
from crowdblend.mechanisms.measures.utility import utility_of

KEEP = "CROWDBLEND_SCREENSHOTS"
FAULTS_OF_PICTURES = """() => {
  const faults = [];
  for (const picture of document.querySelectorAll('svg.picture')) {
    const frame = picture.getBoundingClientRect();
    const texts = [...picture.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
    for (const [words, box] of texts) {
      const beside = box.left < frame.left - 1 || box.right > frame.right + 1;
      if (beside || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) faults.push('cut: ' + words);
    }
    texts.forEach(([words, box], place) => {
      for (const [others, other] of texts.slice(place + 1)) {
        const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        const covered = across > 1 && down > 0.3 * Math.min(box.height, other.height);
        if (covered) faults.push('overlap: ' + words + ' / ' + others);
      }
    });
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory) -> Path:
    """A report on 200,000 invented people, with long names, many labels, and a text that would be a tag."""
    draw = np.random.default_rng(3)
    words = [f"a rather long label of a trade that nobody has shortened yet, number {n}" for n in range(30)]
    trades = ValueHierarchy.from_rows([(word, f"{word[:20]} {n % 40}", "*") for n, word in enumerate(words)])
    colours = ValueHierarchy.from_values(["<script>alert(1)</script>", "blue & green", "red"])
    ages = IntervalHierarchy(lower=0, upper=100, widths=(10, 50))
    hierarchies = {
        "colour": (colours, 0),
        "age": (ages, 1),
        "main trade of the household's oldest member": (trades, 1),
        "income": (IntervalHierarchy(lower=0, upper=200_000, widths=(50_000,)), 1),
    }

    def at(levels) -> GeneralizationMap:
        return GeneralizationMap(
            columns=tuple(
                MappedColumn(name=name, hierarchy=hierarchy, level=level)
                for (name, (hierarchy, _)), level in zip(hierarchies.items(), levels, strict=True)
            )
        )

    finest = at((0, 0, 0, 0))
    codes = [
        draw.integers(0, 4, 200_000),
        ages.codes_of_integers(draw.integers(15, 99, 200_000), 0),
        draw.zipf(1.5, 200_000) % 31,
        hierarchies["income"][0].codes_of_integers(draw.integers(0, 150_000, 200_000), 0),
    ]
    before = CountedRecords(map=finest, groups=count_keys(finest.keys(codes), cells=finest.cells))
    coarse = before.recoded(at((0, 1, 1, 1)))
    sampled = draw.binomial(coarse.groups.counts, 0.3)
    released = CountedRecords(map=coarse.map, groups=GroupCounts(*suppress(coarse.groups.keys, sampled, 20)))
    report = PrivateReport(
        release_id="a-release-with-a-rather-long-name-2026-11",
        dataset="people",
        released_on="2026-01-01",
        epsilon="0.731",
        delta="0.000001",
        day=date(2026, 1, 2).isoformat(),
        by="steward",
        look=12,
        measures=utility_of(before, released, k=20, sampling_rate=Decimal("0.3")),
        attacks=attacks_of(before, [released], told=partial(sampling_losses, rate=0.3, k=20)),
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report_page(report), encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("width", [320, pytest.param(1280, marks=pytest.mark.slow)])
def test_it_fits_and_nothing_is_cut_or_overlaps(browser, page_file: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(FAULTS_OF_PICTURES) == []
    assert page.locator("svg.picture").count() == 9
    assert page.locator("script").count() == 0
    assert asked == [page_file.as_uri()]
    if (width, scheme) == (1280, "light") and (folder := os.environ.get(KEEP)):
        page.set_viewport_size({"width": 1000, "height": 900})
        page.screenshot(path=Path(folder) / "private-report.png", full_page=True)
    mark = page.locator(".mark")
    page.mouse.wheel(0, 3000)
    assert mark.is_visible()
    assert mark.bounding_box()["y"] < 200  # it stays in sight
    page.set_content(
        '<svg class="picture" viewBox="0 0 50 20" width="50" height="20"><text x="0" y="12">one long text</text>'
        '<text x="4" y="12">another</text></svg>'
    )
    control = page.evaluate(FAULTS_OF_PICTURES)
    assert any(fault.startswith("cut") for fault in control)
    assert any(fault.startswith("overlap") for fault in control)
    context.close()


@pytest.mark.slow
def test_every_printed_sheet_says_what_it_is(browser, page_file: Path, tmp_path: Path) -> None:
    from pypdf import PdfReader

    context = browser.new_context(viewport={"width": 794, "height": 1123})
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate(FAULTS_OF_PICTURES) == []
    page.pdf(path=tmp_path / "report.pdf", format="A4")
    sheets = [sheet.extract_text() for sheet in PdfReader(tmp_path / "report.pdf").pages]
    assert len(sheets) > 3
    assert all(MARK in sheet for sheet in sheets)
    page.locator("thead .mark").evaluate("mark => mark.remove()")
    page.pdf(path=tmp_path / "unmarked.pdf", format="A4")
    assert not all(MARK in sheet.extract_text() for sheet in PdfReader(tmp_path / "unmarked.pdf").pages)
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_no_violation(browser, page_file: Path, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(page_file.as_uri())
    found = Axe().run(page).response["violations"]
    assert not found, [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found]
    context.close()
