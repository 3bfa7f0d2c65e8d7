"""In a real browser: every page reads well at any width, by keyboard and to assistive technology, from here alone."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest

KEEP = "CROWDBLEND_SCREENSHOTS"
KEPT = {
    "/": "overview",
    "/datasets/1": "data-set",
    "/datasets/1/forecast": "forecast",
    "/releases/people-spring": "release",
    "/samples": "samples",
    "/refusals": "refusals",
    "/verification": "chain",
    "/calculator?k=20&sampling_rate=0.1&delta=1e-6&releases=12": "calculator",
}


class Watched:
    """A page that remembers what it asked for, and what went wrong in it."""

    def __init__(self, browser, **options) -> None:
        self.context = browser.new_context(java_script_enabled=options.pop("script", True), **options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.faults: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on(
            "console", lambda said: self.faults.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))

    def open(self, url: str):
        answer = self.page.goto(url, wait_until="load")
        assert answer is not None
        assert answer.status == 200, url
        return self.page

    def check(self) -> None:
        assert not self.faults
        assert {urlsplit(url).hostname for url in self.requests} == {"127.0.0.1"}
        assert self.context.cookies() == []
        self.context.close()


def warm(served, paths) -> None:
    """Let curves and estimates be computed, so that pictures are whole."""
    import time

    for path in paths:
        for _ in range(50):
            text = served.get(path).text
            if "being computed" not in text:
                break
            time.sleep(0.2)
        else:
            pytest.fail(f"{path} is still being computed")


def test_every_page_opens_and_fits(browser, served, paths) -> None:
    """Each is loaded once, and then laid out at each width in each scheme of colours."""
    warm(served, paths)
    watched = Watched(browser)
    for path in paths:
        page = watched.open(served.url.rstrip("/") + path)
        for width, scheme in product((320, 1600), ("light", "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, (path, scheme, wide)
            size = page.evaluate("parseFloat(getComputedStyle(document.querySelector('main p, main dd')).fontSize)")
            assert size >= 14, path
            keep(page, path, f"{scheme}-{width}")
    watched.check()


def keep(page, path: str, how: str) -> None:
    """Keep a picture as documentation, where the surroundings ask for it."""
    folder, name = os.environ.get(KEEP), KEPT.get(path)
    wanted = {"light-1600", "dark-1600", "light-320", "print"}
    if folder and name and how in wanted and (how == "light-1600" or name in ("overview", "data-set", "release")):
        place = Path(folder) / f"{name}-{how}.png"
        page.set_viewport_size({"width": 320 if "320" in how else 1280, "height": 900})
        page.screenshot(path=str(place), full_page=True)


@pytest.mark.slow
def test_every_page_prints_without_navigation(browser, served, paths) -> None:
    warm(served, paths)
    watched = Watched(browser, viewport={"width": 794, "height": 1123})
    for path in paths:
        page = watched.open(served.url.rstrip("/") + ("/report/overview" if path == "/" else f"/report{path}"))
        page.emulate_media(media="print", color_scheme="light")
        assert page.locator("nav:visible").count() == 0, path
        assert page.locator("svg.picture:visible").count() == page.locator("svg.picture").count()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        keep(page, path, "print")
        assert len(page.pdf(format="A4")) > 5_000
    watched.check()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_axe_finds_no_violation(browser, served, paths, scheme) -> None:
    from axe_playwright_python.sync_playwright import Axe

    warm(served, paths)
    watched = Watched(browser, viewport={"width": 1280, "height": 900}, color_scheme=scheme, bypass_csp=True)
    axe = Axe()
    for path in paths:
        page = watched.open(served.url.rstrip("/") + path)
        page.wait_for_selector("meta[http-equiv=refresh]", state="detached")  # it loads itself until all is computed
        found = axe.run(page).response["violations"]
        assert not found, (path, [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in found])
    page.set_content('<html><body><img src="x"><p style="color:#eee;background:#fff">pale</p></body></html>')
    control = {one["id"] for one in axe.run(page).response["violations"]}
    assert {"image-alt", "color-contrast", "html-has-lang"} <= control
    watched.context.close()


@pytest.mark.slow
def test_pages_need_no_script(browser, served, paths) -> None:
    watched = Watched(browser, script=False)
    for path in paths:
        page = watched.open(served.url.rstrip("/") + path)
        assert page.locator("h1").count() == 1, path
        assert page.locator("script").count() == 0, path
        assert "<script" not in page.content()
    watched.check()


@pytest.mark.slow
def test_the_keyboard_reaches_everything_in_order(browser, served) -> None:
    watched = Watched(browser, viewport={"width": 1280, "height": 900})
    page = watched.open(served.url)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    seen = []
    page = watched.open(served.url)
    for _ in range(80):
        page.keyboard.press("Tab")
        place = page.evaluate(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
            " return [e.tagName, e.textContent, e.getAttribute('href'), s.outlineStyle, s.outlineWidth]; })()"
        )
        if place[0] == "BODY":
            break
        assert place[3] != "none", place
        assert place[4] != "0px", place
        seen.append(place[2])
    links = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert seen == links
    page = watched.open(served.url + "calculator")
    page.locator("#k").focus()
    for text in ("20", "0.1", "", "1e-6", "12"):
        page.keyboard.type(text)
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Compute the price"
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer")
    assert "0.361" in page.locator("section[aria-labelledby=answer]").inner_text()
    watched.check()


@pytest.mark.slow
def test_a_plain_browser_logs_in_with_a_token_as_password(browser, serve, town) -> None:
    from playwright.sync_api import Error

    with serve(town, "--require-token") as running:
        for given in ({}, {"http_credentials": {"username": "anybody", "password": "wrong"}}):
            stranger = Watched(browser, **given)
            try:
                answer = stranger.page.goto(running.url)
                assert answer is not None
                assert "people" not in answer.text()
                told = str(answer.status)
            except Error as fault:  # a newer Chromium shows a page of its own
                told = str(fault)
            assert told == "401" or "ERR_INVALID_AUTH_CREDENTIALS" in told
            stranger.context.close()
        auditor = Watched(browser, http_credentials={"username": "anybody", "password": town.token})
        auditor.open(running.url)
        auditor.page.click("text=Samples")
        assert auditor.page.locator("h1").inner_text().startswith("Samples")
        assert auditor.context.cookies() == []
        auditor.context.close()
