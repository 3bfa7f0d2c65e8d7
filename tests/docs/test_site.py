"""The site that `make docs` writes: every page, no dead link or anchor in it, and nothing asked of the network."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

PROJECT = Path(__file__).resolve().parents[2]


class Links(HTMLParser):
    """The targets of a page and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(str(given["id"]))
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        if given.get("src") or tag in ("link", "script"):
            self.loaded.append(str(given.get("src") or given.get("href")))


def read(page: Path) -> Links:
    links = Links()
    links.feed(page.read_text(encoding="utf-8"))
    return links


def dead(page: Path, site: Path) -> list[str]:
    """What a page leads to or loads that isn't in the site; other sites and the reference are not asked."""
    found, own = [], read(page)
    for link in [*own.links, *own.loaded]:
        target = urlsplit(link)
        if target.scheme in ("http", "https", "mailto") and link not in own.loaded:
            continue
        place = page if not target.path else (page.parent / unquote(target.path)).resolve()
        if place.is_relative_to(site / "reference"):
            continue
        there = not target.scheme and place.is_file() and place.is_relative_to(site)
        if not there or (target.fragment and target.fragment not in read(place).anchors):
            found.append(link)
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Made by the Makefile's rule with this environment's programs; `-o` takes its own environment for ready."""
    folder = tmp_path_factory.mktemp("docs").resolve() / "site"
    programs = f"BIN={Path(sys.executable).parent}"
    words = ["make", "-o", ".venv/.ready", "site", programs, f"SITE={folder}"]
    made = subprocess.run(words, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    return folder


def page_of(source: Path) -> str:
    """Where a page of the repository lies in the site."""
    place = source.relative_to(PROJECT)
    return str(place.with_name("index.html") if place.name == "README.md" else place.with_suffix(".html"))


def test_every_page_is_in_the_site_and_no_link_of_it_is_dead(site: Path) -> None:
    sources = [*PROJECT.glob("docs/**/*.md"), PROJECT / "README.md"]
    assert all((site / page_of(source)).is_file() for source in sources)
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    assert not {str(page.relative_to(site)): faults for page in pages if (faults := dead(page, site))}
