"""Make one static site of the project's pages: links as they are, all pages listed, nothing from elsewhere."""

from __future__ import annotations

import argparse
import html
import posixpath
import re
import shutil
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

__all__ = ["build", "heading_anchor"]

PROJECT = Path(__file__).resolve().parents[2]
START = "docs/README.md"
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>{style}</style></head>
<body>
<a class="skip" href="#content">To the text</a>
<nav aria-label="All pages"><details open><summary>crowdblend</summary>
{navigation}
</details></nav>
<main id="content">
{body}
</main>
</body>
</html>
"""


def build(folder: Path) -> list[Path]:
    """Write the site: a page for each Markdown file of the repository's documents, and what these link to.

    Args:
        folder: of the site; its files are replaced, others stay.

    Returns:
        The pages written.
    """
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    written, wanted = [], set[Path]()
    for source in sorted(_sources()):
        place = source.relative_to(PROJECT).as_posix()
        body, linked = _page_body(source.read_text(encoding="utf-8"), place)
        wanted |= linked
        written.append(_write(folder, place, body, style))
    for path in sorted(wanted):
        target = folder / path.relative_to(PROJECT)
        if path.is_dir():
            written.append(_write(folder, f"{path.relative_to(PROJECT).as_posix()}/index.md", _listing(path), style))
        elif path.is_file():  # a dead link is told by the tests of the pages
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    first = _site_name(START)
    (folder / "index.html").write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>crowdblend</title>'
        f'<meta http-equiv="refresh" content="0; url={first}"></head>'
        f'<body><a href="{first}">Documentation</a></body></html>\n',
        encoding="utf-8",
    )
    return written


def heading_anchor(words: str, taken: dict[str, int]) -> str:
    """The anchor that GitHub gives a heading.

    Args:
        words: its text, without marks.
        taken: how often each anchor was given on this page; counted on.
    """
    name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    number = taken.get(name, 0)
    taken[name] = number + 1
    return name if number == 0 else f"{name}-{number}"


def _write(folder: Path, place: str, body: str, style: str) -> Path:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
    title = re.sub(r"<[^>]+>", "", found[1]) if found else html.escape(place)
    target = folder / _site_name(place)
    target.parent.mkdir(parents=True, exist_ok=True)
    page = PAGE.format(title=title, style=style, navigation=_navigation(place), body=body)
    target.write_text(page, encoding="utf-8")
    return target


def _page_body(text: str, place: str) -> tuple[str, set[Path]]:
    """A page's HTML, and the files and folders of the repository that it leads to and that are no pages."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    tokens = parser.parse(text)
    taken: dict[str, int] = {}
    linked: set[Path] = set()
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            words = "".join(part.content for part in tokens[number + 1].children or [] if part.content)
            token.attrSet("id", heading_anchor(words, taken))
        for part in token.children or []:
            _turn_link(part, place, linked)
    shown = str(parser.renderer.render(tokens, parser.options, {}))
    return shown.replace("<table>", '<div class="wide" tabindex="0"><table>').replace(
        "</table>", "</table></div>"
    ), linked


def _turn_link(part: Token, place: str, linked: set[Path]) -> None:
    name = {"link_open": "href", "image": "src"}.get(part.type)
    target = urlsplit(str(part.attrGet(name))) if name else None
    if name is None or target is None or target.scheme or not target.path:
        return
    path = (PROJECT / posixpath.dirname(place) / unquote(target.path)).resolve()
    if path not in _sources():
        linked.add(path)
    shown = f"{target.path.rstrip('/')}/index.html" if path.is_dir() else target.path
    shown = _site_name(shown) if path in _sources() else shown
    part.attrSet(name, f"{shown}#{target.fragment}" if target.fragment else shown)


def _listing(folder: Path) -> str:
    items = []
    for path in sorted(folder.glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        items.append(f'<li><a href="{_site_name(path.name)}">{html.escape(title)}</a></li>')
    return f"<h1>{html.escape(folder.name.capitalize())}</h1>\n<ul>\n" + "\n".join(items) + "\n</ul>"


def _navigation(place: str) -> str:
    """The list of START, as seen from a page."""
    text = (PROJECT / START).read_text(encoding="utf-8")
    up = posixpath.relpath(posixpath.dirname(START), posixpath.dirname(place) or ".")
    lines = [f'<a href="{posixpath.normpath(f"{up}/../README.html")}">What it is</a>']
    for line in text.splitlines():
        if line.startswith("## "):
            lines.append(f"<b>{html.escape(line.removeprefix('## '))}</b>")
        elif line.startswith("- "):
            for words, link in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", line):
                target = PROJECT / posixpath.dirname(START) / link
                shown = f"{link}/index.html" if target.is_dir() else _site_name(link)
                here = ' aria-current="page"' if _site_name(place) == posixpath.normpath(f"docs/{shown}") else ""
                name = html.escape(words[0].upper() + words[1:])
                lines.append(f'<a href="{posixpath.normpath(f"{up}/{shown}")}"{here}>{name}</a>')
    reference = posixpath.normpath(f"{up}/../reference/index.html")
    return "\n".join([*lines, f'<a href="{reference}">Reference of every module</a>'])


@cache
def _sources() -> frozenset[Path]:
    """The files that become pages."""
    return frozenset([PROJECT / "README.md", *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("examples/**/*.md")])


def _site_name(place: str) -> str:
    return re.sub(r"\.md$", ".html", place)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, help="of the site")
    made = build(arguments.parse_args().folder)
    print(f"{len(made)} pages")
