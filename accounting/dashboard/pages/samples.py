"""Samples, each of which serves one release; and refusals: what the accountant said no to, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ...ledger.entries.kinds import ReleaseCharged, ReleaseRefused
from ..views.rows import Stage, draws_sample, stage_of
from ..views.state import LedgerView, PageHeader, PageRequest

__all__ = [
    "CauseRow",
    "RefusalRow",
    "RefusalsPage",
    "SampleRow",
    "SamplesPage",
    "refusal_rows",
    "refusals_page",
    "samples_page",
]

ROWS_A_PAGE = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalRow:
    """A refusal in a table.

    Args:
        position: of its entry.
        day: when.
        dataset: whose budget was asked.
        dataset_position: where that data set is registered, None where it isn't.
        release_id: the id asked for, None where there was none.
        cause: the rule that refused.
        reason: as the person who asked was told.
    """

    position: int
    day: str
    dataset: str
    dataset_position: int | None
    release_id: str | None
    cause: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CauseRow:
    """How often a rule refused.

    Args:
        cause: the rule.
        times: how often.
    """

    cause: str
    times: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusalsPage:
    """The refusals.

    Args:
        frame: of the ledger.
        cause: the rule that the page is about, None for all of them.
        causes: how often each rule refused.
        refusals: the latest first.
        refusals_in_all: how many there are of the cause asked for.
        older: what to ask for to see those before, None on the last page.
    """

    frame: PageHeader
    cause: str | None
    causes: tuple[CauseRow, ...]
    refusals: tuple[RefusalRow, ...]
    refusals_in_all: int
    older: int | None


def refusals_page(page_request: PageRequest, *, before: int | None, cause: str | None) -> RefusalsPage:
    """Build the page of refusals before a place in the chain, by one rule or by all."""
    known = tuple(page_request.dashboard.follower.refusals(up_to=page_request.view.head.position))
    wanted = [refusal.position for refusal in known if cause in (None, refusal.cause)]
    below = [position for position in wanted if before is None or position < before]
    counted = Counter(refusal.cause for refusal in known)
    return RefusalsPage(
        frame=page_request.frame(),
        cause=cause,
        causes=tuple(CauseRow(cause=name, times=times) for name, times in sorted(counted.items())[:ROWS_A_PAGE]),
        refusals=refusal_rows(page_request.view, below[:ROWS_A_PAGE]),
        refusals_in_all=len(wanted),
        older=below[ROWS_A_PAGE - 1] if len(below) > ROWS_A_PAGE else None,
    )


def refusal_rows(view: LedgerView, positions: Iterable[int]) -> tuple[RefusalRow, ...]:
    """The refusals at these places, the latest first."""
    found = view.entries_of(ReleaseRefused, positions)
    places = view.places_of_datasets(refused.dataset for refused in found.values())
    return tuple(
        RefusalRow(
            position=position,
            day=refused.day.isoformat(),
            dataset=refused.dataset,
            dataset_position=places.get(refused.dataset),
            release_id=refused.release_id,
            cause=refused.cause,
            reason=refused.reason,
        )
        for position, refused in sorted(found.items(), reverse=True)
    )


MOST_REFUSALS = 20
REUSE = "sample-used"

State = Literal["drawn", "consumed", "never read", "not drawn"]
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
        purpose: what it serves there: "release", or "selection" for the choice of the map; "none" where the release
            reads all records.
        release_id: the one release that it serves.
        state: "drawn" (reserved, nothing read), "consumed", or "never read" (given back, and never usable again); "not
            drawn" where the release reads all records.
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

    frame: PageHeader
    samples: tuple[SampleRow, ...]
    samples_in_all: int
    refused_reuse: tuple[RefusalRow, ...]
    refused_in_all: int
    older: int | None


def samples_page(page_request: PageRequest, *, before: int | None) -> SamplesPage:
    """Build the page of samples before a place in the chain."""
    view = page_request.view
    found = view.samples(before=before, limit=ROWS_A_PAGE + 1)
    # A release's two samples stand at one place, and on one page.
    cut = found[ROWS_A_PAGE][3] if len(found) > ROWS_A_PAGE else -1
    shown = [row for row in found[:ROWS_A_PAGE] if row[3] != cut]
    outcomes = view.outcomes(release_id for _, _, release_id, _ in shown)
    charges = view.entries_of(ReleaseCharged, {position for _, _, _, position in shown})
    whole = {position for position, charge in charges.items() if not draws_sample(dict(charge.mechanism))}
    rows = tuple(
        SampleRow(
            sample_id=sample_id,
            purpose="none" if position in whole and purpose == "release" else purpose,
            release_id=release_id,
            state="not drawn"
            if position in whole and purpose == "release"
            else STATES[stage_of(outcomes.get(release_id, {}))],
            stage=stage_of(outcomes.get(release_id, {})),
            position=position,
        )
        for sample_id, purpose, release_id, position in shown
    )
    refusals = page_request.dashboard.follower.refusals(up_to=view.head.position)
    reuse = [refusal.position for refusal in refusals if refusal.cause == REUSE]
    return SamplesPage(
        frame=page_request.frame(),
        samples=rows,
        samples_in_all=view.count("sample"),
        refused_reuse=refusal_rows(view, reuse[:MOST_REFUSALS]),
        refused_in_all=len(reuse),
        older=shown[-1][3] if len(found) > ROWS_A_PAGE else None,
    )
