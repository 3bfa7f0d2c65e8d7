"""All releases, the latest first."""

from __future__ import annotations

from dataclasses import dataclass

from .rows import ReleaseRow, release_rows
from .surroundings import Frame, Seen

__all__ = ["ReleasesPage", "releases_page"]

ROWS_A_PAGE = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasesPage:
    """The releases.

    Args:
        frame: of the ledger.
        releases: the latest first.
        releases_in_all: how many there are.
        older: what to ask for to see those before, None on the last page.
    """

    frame: Frame
    releases: tuple[ReleaseRow, ...]
    releases_in_all: int
    older: int | None


def releases_page(seen: Seen, *, before: int | None) -> ReleasesPage:
    """Build the page of releases charged before a place in the chain."""
    found = seen.view.releases(name=None, before=before, limit=ROWS_A_PAGE + 1)
    return ReleasesPage(
        frame=seen.frame(),
        releases=release_rows(seen.view, found[:ROWS_A_PAGE]),
        releases_in_all=seen.view.count("release"),
        older=found[ROWS_A_PAGE - 1] if len(found) > ROWS_A_PAGE else None,
    )
