"""Every link of the documents leads somewhere, and the files and the commands that they name are there."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest
from crowdblend.deploy.cli import crowdblend

PROJECT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FILE = re.compile(r"`([\w/]+\.py)`")
NAMED_ROOTS = ("mechanisms", "accounting", "tasks", "flows", "analysis", "deploy", "tests", "audit", "benchmarks")
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


def test_every_file_that_the_architecture_and_the_proofs_name_is_there() -> None:
    """By its place in the project, or by the end of it."""
    known = [f"/{path.relative_to(PROJECT)}" for root in NAMED_ROOTS for path in (PROJECT / root).rglob("*")]
    for page in ("docs/architecture.md", "docs/kernel.md", "docs/proofs/README.md", "docs/testing.md"):
        named = {name for name in FILE.findall((PROJECT / page).read_text(encoding="utf-8")) if "NAME" not in name}
        assert named
        assert not [name for name in named if not any(path.endswith(f"/{name}") for path in known)], page


GUIDES = [page for page in PAGES if page.parent.name in ("docs", "guide", "operations") or page.parent == PROJECT]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    context = click.Context(crowdblend)
    for name, below in re.findall(
        r"`crowdblend ([a-z]+)(?: ([a-z-]+))?(?=[ `])(?! [0-9])", page.read_text(encoding="utf-8")
    ):
        command = crowdblend.get_command(context, name)
        assert command is not None, name
        assert not below or not isinstance(command, click.Group) or below in command.commands, (name, below)
