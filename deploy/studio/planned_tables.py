"""Plan the tables of rows beside the pages: of many columns that takes seconds, and no page waits for it."""

from __future__ import annotations

import secrets
from contextlib import suppress

from ...mechanisms.kernel.errors import Refusal
from ..proposals.themes import MOST_TOGETHER
from .draft import Draft, StudioFolder
from .draft_problems import Remembered
from .draft_proposals import proposed_blocks, source_names

WANTED = "tables_wanted"
PINNED = "pinned_wanted"
"""Columns that were chosen for every table while these were still being planned."""
PLANNED: Remembered[None] = Remembered()


def want_tables(draft: Draft) -> None:
    """Let the tables be proposed anew, as `spec new` proposes them; until they are, the draft has none."""
    draft.tables.pop("blocks", None)
    draft.notes.pop(WANTED, None)
    draft.notes.pop(PINNED, None)
    if len(draft.columns) > MOST_TOGETHER:
        draft.notes[WANTED] = secrets.token_hex(8)


def tables_wanted(draft: Draft) -> bool:
    """Return whether the draft's tables aren't planned yet."""
    return WANTED in draft.notes


def plan_tables(folder: StudioFolder, draft: Draft) -> None:
    """Plan them where they are wanted and nobody is at it yet; also after a studio that was killed meanwhile."""
    if tables_wanted(draft):
        PLANNED.get((folder.folder, draft.notes[WANTED]), lambda: _plan(folder, draft), wait=0)


def _plan(folder: StudioFolder, draft: Draft) -> None:
    found = None
    # What can't be planned at this price is refused where the price is looked at.
    with suppress(Refusal, ValueError):
        found = proposed_blocks(draft, source_names(draft))
    with folder.changing() as now:
        # The columns may have been changed, or other tables chosen.
        if now.notes.get(WANTED) == draft.notes[WANTED]:
            del now.notes[WANTED]
            pinned = now.notes.pop(PINNED, None)
            if found is not None:
                now.tables["blocks"] = found
                if pinned is not None:
                    now.put("blocks", "pinned", [name for name in pinned if name in now.columns])
