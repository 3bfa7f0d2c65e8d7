"""Every link of the documents leads somewhere: to a file of the repository, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

PROJECT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
PAGES = sorted(
    [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("examples/**/*.md")],
    key=str,
)


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    found: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#{1,6} (.+?) *#*$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        names.add(slug if number == 0 else f"{slug}-{number}")
    return names


def faults(text: str, page: Path) -> list[str]:
    """The links of a page that lead nowhere; other sites are not asked."""
    found = []
    for link in LINK.findall(FENCE.sub("", text)):
        target = urlsplit(link)
        if target.scheme in ("http", "https", "mailto"):
            continue
        place = page if not target.path else (page.parent / unquote(target.path)).resolve()
        if not place.exists() or not place.is_relative_to(PROJECT):
            found.append(f"{link}: there is no such file")
        elif target.fragment and target.fragment not in anchors(place.read_text(encoding="utf-8")):
            found.append(f"{link}: there is no such heading")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert not faults(page.read_text(encoding="utf-8"), page)


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [PROJECT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        links = [urlsplit(link) for link in LINK.findall(page.read_text(encoding="utf-8"))]
        for link in links:
            place = (page.parent / unquote(link.path)).resolve() if link.path and not link.scheme else page
            pages = sorted(place.glob("*.md")) if place.is_dir() else [place]
            waiting += [one for one in pages if one.suffix == ".md" and one.exists()]
    assert not [str(page.relative_to(PROJECT)) for page in PAGES if page not in reached and page.name != "CHANGELOG.md"]


def test_every_page_beside_the_index_is_in_it() -> None:
    index = (PROJECT / "docs" / "README.md").read_text(encoding="utf-8")
    named = {urlsplit(link).path for link in LINK.findall(index)}
    assert {page.name for page in PROJECT.glob("docs/*.md")} - {"README.md"} <= named


def test_a_dead_link_is_seen() -> None:
    page = PROJECT / "docs" / "tutorial.md"
    text = "# One\n[a](nothing.md) [b](tutorial.md#no-such) [c](#one) [d](../../outside.md) ![e](python.md)"
    assert len(faults(text, page)) == 4  # the fourth is #one, a heading of this text and not of the page
