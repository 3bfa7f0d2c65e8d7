"""Samples: each serves one release; what was drawn, what was consumed, whose reuse was refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .refusals_page import RefusalRow, refusal_rows
from .rows import Stage, stage_of
from .surroundings import Frame, Seen

__all__ = ["SampleRow", "SamplesPage", "samples_page"]

ROWS_A_PAGE = 50
MOST_REFUSALS = 20
REUSE = "sample-used"

State = Literal["drawn", "consumed", "never read"]
STATES: dict[Stage, State] = {
    "charged": "drawn",
    "reading": "consumed",
    "published": "consumed",
    "abandoned": "consumed",
    "given back": "never read",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRow:
    """A sample in a table.

    Args:
        sample_id: commitment to the key that its coins come from.
        purpose: what it serves there: "release", or "selection" for the choice of the map.
        release_id: the one release that it serves.
        state: "drawn" (reserved, nothing read), "consumed", or "never read" (given back, and never usable again).
        stage: what became of the release.
        position: of the entry that reserved it.
    """

    sample_id: str
    purpose: str
    release_id: str
    state: State
    stage: Stage
    position: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplesPage:
    """The samples.

    Args:
        frame: of the ledger.
        samples: the latest first.
        samples_in_all: how many there are.
        refused_reuse: the latest attempts to use a sample again.
        refused_in_all: how many there were.
        older: what to ask for to see those before, None on the last page.
    """

    frame: Frame
    samples: tuple[SampleRow, ...]
    samples_in_all: int
    refused_reuse: tuple[RefusalRow, ...]
    refused_in_all: int
    older: int | None


def samples_page(seen: Seen, *, before: int | None) -> SamplesPage:
    """Build the page of samples before a place in the chain."""
    view = seen.view
    found = view.samples(before=before, limit=ROWS_A_PAGE + 1)
    # A release's two samples stand at one place, and on one page.
    cut = found[ROWS_A_PAGE][3] if len(found) > ROWS_A_PAGE else -1
    shown = [row for row in found[:ROWS_A_PAGE] if row[3] != cut]
    outcomes = view.outcomes(release_id for _, _, release_id, _ in shown)
    rows = tuple(
        SampleRow(
            sample_id=sample_id,
            purpose=purpose,
            release_id=release_id,
            state=STATES[stage_of(outcomes.get(release_id, {}))],
            stage=stage_of(outcomes.get(release_id, {})),
            position=position,
        )
        for sample_id, purpose, release_id, position in shown
    )
    refusals = seen.around.follower.refusals(up_to=view.head.position)
    reuse = [refusal.position for refusal in refusals if refusal.cause == REUSE]
    return SamplesPage(
        frame=seen.frame(),
        samples=rows,
        samples_in_all=view.count("sample"),
        refused_reuse=refusal_rows(view, reuse[:MOST_REFUSALS]),
        refused_in_all=len(reuse),
        older=shown[-1][3] if len(found) > ROWS_A_PAGE else None,
    )
