"""The page on the architecture, its picture and the index of the proofs name files that there are."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = ("mechanisms", "accounting", "tasks", "flows", "deploy")
NAMED = re.compile(rf"`((?:{'|'.join(ROOMS)}|tests|audit|benchmarks)/[\w./]*)")
DRAWN = re.compile(r"[\w/]+(?:\.py|/)")


def missing_of_page(page: str) -> list[str]:
    """What the page names by its place in the project, and isn't there; a NAME is the reader's own."""
    return [name for name in NAMED.findall(page) if "NAME" not in name and not (PROJECT / name).exists()]


def missing(names: list[str]) -> list[str]:
    """Files and folders named by the end of their place, that neither a room nor the audit has."""
    paths = [path for room in (*ROOMS, "audit") for path in (PROJECT / room, *(PROJECT / room).rglob("*"))]
    known = [f"/{path.relative_to(PROJECT)}{'/' if path.is_dir() else ''}" for path in paths]
    return [name for name in names if not any(path.endswith(f"/{name}") for path in known)]


def missing_of_picture(picture: str) -> list[str]:
    """What the picture names without its room, and no room has."""
    texts = re.findall(r">([^<]+)</text>", picture)
    return missing([name for text in texts for name in DRAWN.findall(text)])


def test_every_file_that_the_page_and_its_picture_name_is_there() -> None:
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = (PROJECT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    assert len(NAMED.findall(page)) > 20
    assert missing_of_page(page) == []
    assert missing_of_picture(picture) == []
    assert {*missing_of_page(page.replace("flows/spec.py", "flows/specs.py"))} == {"flows/specs.py"}
    assert missing_of_picture(picture.replace("stages/charge.py", "stages/pay.py")) != []


def test_code_that_is_named_by_the_end_of_its_place_is_there() -> None:
    for place in ("docs/architecture.md", "docs/proofs/README.md"):
        page = (PROJECT / place).read_text(encoding="utf-8")
        named = [name for name in re.findall(r"`([\w/]+\.py)`", page) if not name.startswith("tests/")]
        assert len(named) > 15
        assert missing([name for name in named if "NAME" not in name]) == []
    assert missing(["composition/releases.py", "composition/renyi_filter.py"]) == ["composition/releases.py"]
