"""In a real browser: preview and sheet read well at any width, dark, and printed in grey; nothing is fetched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.commands import Commands

NAMES = ("preview", "sheet", "preview-of-deletion", "sheet-of-deletion")
WIDE = 1100
PRINTED = 687
"""Pixels between the margins of A4."""
KEEP = "CROWDBLEND_DOCUMENT_PICTURES"
CUT = """() => [...document.querySelectorAll('th, td, dd, dt, p, li, pre, caption, figcaption, h1, h2, h3')]
    .filter(one => one.offsetParent && !(one.closest('thead') && one.closest('thead').clientWidth <= 1))
    .filter(one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')
    .map(one => one.textContent.trim().slice(0, 60))"""
OVERLAP = """() => [...document.querySelectorAll('svg.picture')].flatMap(picture => {
    const boxes = [...picture.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
    const frame = picture.getBoundingClientRect(), found = [];
    boxes.forEach(([said, a], place) => {
        const across = a.left >= frame.left - 1 && a.right <= frame.right + 1;
        if (!across || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
            found.push('outside: ' + said);
        boxes.slice(place + 1).forEach(([other, b]) => {
            if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
                found.push(said + ' / ' + other);
        });
    });
    return found;
})"""


@pytest.fixture(scope="module")
def documents(tmp_path_factory, fork_server, prefect_server) -> dict[str, Path]:
    """Both documents of the demonstration's sampled release, and of its deletion release."""
    place = tmp_path_factory.mktemp("documents")
    processes = Commands(fork_server)

    def run(*words: str) -> None:
        ended = processes.run(
            *words, folder=place, environment=os.environ | {"PREFECT_API_URL": prefect_server.api_url}
        )
        assert ended.returncode == 0, ended.stderr

    run("demo", "--output", "demo")
    run("preview", "demo/census2000.toml", "--release", "demo/release", "--html", "preview.html")
    run("sheet", "demo/release", "--publisher", "A statistics office")
    run("preview", "demo/census2000-deletion.toml", "--release", "demo/release", "--html", "preview-of-deletion.html")
    run("sheet", "demo/deletion", "--output", "of-deletion")
    return {
        "preview": place / "preview.html",
        "sheet": next(place.glob("*-sheet.html")),
        "preview-of-deletion": place / "preview-of-deletion.html",
        "sheet-of-deletion": next(place.glob("of-deletion/*-sheet.html")),
    }


def keep(page, name: str) -> None:
    folder = os.environ.get(KEEP)
    if folder is not None:
        page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("width", "scheme"),
    [(320, "light"), *(pytest.param(1100, scheme, marks=pytest.mark.slow) for scheme in ("light", "dark"))],
)
def test_it_fits_and_fetches_nothing(browser, documents, name: str, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 1_400}, color_scheme=scheme)
    page = context.new_page()
    asked, faults = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda said: faults.append(said.text))
    page.goto(documents[name].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT) == []
    assert page.evaluate(OVERLAP) == []
    assert (asked, faults) == ([documents[name].as_uri()], [])
    assert page.locator("script").count() == 0
    if scheme == "light" and (width == WIDE or "deletion" not in name) and name != "sheet-of-deletion":
        keep(page, f"{name}-{width}")
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("preview", marks=pytest.mark.slow), "sheet"])
def test_printed_in_grey_kept_and_suppressed_are_told_apart(browser, documents, name: str) -> None:
    context = browser.new_context(viewport={"width": 794, "height": 1123})
    page = context.new_page()
    page.goto(documents[name].as_uri())
    page.emulate_media(media="print")
    page.add_style_tag(content="html { filter: grayscale(1) }")
    assert page.evaluate(CUT) == []
    fills = [
        page.evaluate(f"getComputedStyle(document.querySelector('.bar .{part}')).{paint}")
        for part, paint in (("track", "fill"), ("fill", "fill"), ("hatch", "stroke"))
    ]
    grey = [int(fill.removeprefix("rgb(").split(",")[0]) for fill in fills]
    assert abs(grey[0] - grey[1]) > 40
    assert grey[2] < 40, "the hatching is black"
    keep(page, f"{name}-print")
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "media"), [(320, "screen"), (700, "screen"), (1100, "screen"), (PRINTED, "print")])
def test_a_sheet_of_nineteen_columns_in_four_stages_fits(browser, office, wide, tmp_path, width, media) -> None:
    """No table is wider than the page, and the codebook is a single one."""
    answer = json.loads(office("sheet", str(wide), "--output", str(tmp_path / "sheet"), "--json"))
    context = browser.new_context(viewport={"width": width, "height": 1_123})
    page = context.new_page()
    page.goto(Path(answer["html"]).as_uri())
    page.emulate_media(media=media)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT) == []
    assert page.locator("table.codebook").count() == 1
    assert page.locator("table.codebook tbody tr").count() > 19
    assert page.locator("h3").count() == 5, "the kit in two languages, the rows in three"
    keep(page, f"sheet-of-nineteen-columns-{width}-{media}")
    context.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_is_accessible(browser, documents, name: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport={"width": 1100, "height": 900})
    page = context.new_page()
    page.goto(documents[name].as_uri())
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    context.close()


@pytest.mark.slow
def test_the_checks_would_find_a_cut_label_and_an_overlap(browser) -> None:
    """The control of the tests above: a page with both."""
    page = browser.new_context(viewport={"width": 320, "height": 300}).new_page()
    page.set_content(
        "<p style='width:50px;white-space:nowrap'>a text that is too long</p>"
        "<svg class='picture' viewBox='0 0 100 50'><text x='5' y='20'>one</text><text x='8' y='22'>two</text></svg>"
    )
    assert page.evaluate(CUT)
    assert page.evaluate(OVERLAP)
