"""The chain's pages: its entries and what their verification found, samples, and what the accountant refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

from fastapi import Query

from ....mechanisms.kernel.errors import InputRefused
from ...kernel.ledger.entries import ReleaseCharged, ReleaseRefused
from ...kernel.ledger.ledger_state import Release
from ..views.rows import Page, ReleaseStage, Row, described, draws_sample, stage_of
from ..views.state import Before, OneState, PageRequest, Position

ROWS_A_PAGE = 50
Cause = Annotated[str | None, Query(min_length=1, max_length=200, description="The rule that refused.")]


class EntryRow(Row):
    """An entry in a table."""

    position: int
    hash: str
    what: str


class EntryPage(Page):
    """An entry."""

    position: int
    kind: str
    day: str | None
    what: str
    previous: str  # hash of the entry before it
    hash: str
    body: str  # its bytes, which are ASCII
    release_id: str | None
    before: int | None  # the place before it, None for the first
    after: int | None  # the place after it, None for the last

    @property
    def table(self) -> tuple[dict[str, object], ...]:
        """The entry itself."""
        return ({name: getattr(self, name) for name in ("position", "kind", "previous", "hash", "body", "what")},)


def entry_page(page_request: OneState, position: Position) -> EntryPage:
    """One entry, with its bytes."""
    stored = page_request.entries([position]).get(position)
    if stored is None:
        raise InputRefused("The ledger has no such entry.", where=f"entry {position}", not_done="")
    entry = stored.entry
    return EntryPage.of(
        stored,
        frame=page_request.frame(),
        kind=entry.KIND,
        day=getattr(entry, "day", None),
        what=described(entry),
        release_id=entry.release_id if isinstance(entry, ReleaseCharged) else None,
        before=position - 1 if position > 0 else None,
        after=position + 1 if position < page_request.state.head.position else None,
    )


ENTRIES_A_PAGE = 40


class KindRow(Row):
    """How many entries of a kind there are."""

    kind: str
    entries: int  # how many


class VerificationPage(Page):
    """The verification, whose state is in the frame."""

    TABLE = "entries"
    kinds: tuple[KindRow, ...]  # the entries by kind
    entries: tuple[EntryRow, ...]  # entries of the chain, the latest first
    older: int | None


def verification_page(page_request: OneState, before: Before = None) -> VerificationPage:
    """What the last verification of the chain found, and its entries."""
    head = page_request.state.head.position
    first = head if before is None else min(head, before - 1)
    wanted = range(first, max(-1, first - ENTRIES_A_PAGE), -1)
    stored = page_request.entries(wanted)
    return VerificationPage(
        frame=page_request.frame(),
        kinds=tuple(KindRow(kind=kind, entries=n) for kind, n in sorted(page_request.state.kinds.items())[:100]),
        entries=tuple(EntryRow.of(stored[place], what=described(stored[place].entry)) for place in wanted),
        older=wanted[-1] if len(wanted) == ENTRIES_A_PAGE and wanted[-1] > 0 else None,
    )


class RefusalRow(Row):
    """A refusal in a table, with the id that was asked for."""

    position: int
    day: str
    dataset: str
    dataset_position: int | None
    release_id: str | None
    cause: str
    reason: str


class CauseRow(Row):
    """How often a rule refused."""

    cause: str
    times: int  # how often


class RefusalsPage(Page):
    """The refusals, by the rule that the page is about, or by all of them."""

    TABLE = "refusals"
    cause: str | None
    causes: tuple[CauseRow, ...]  # how often each rule refused
    refusals: tuple[RefusalRow, ...]
    refusals_in_all: int  # how many there are of the cause asked for
    older: int | None


def refusals_page(page_request: OneState, before: Before = None, cause: Cause = None) -> RefusalsPage:
    """All refusals, the latest first."""
    known = page_request.refusals()
    wanted = [position for position, rule in known if cause in (None, rule)]
    below = [position for position in wanted if before is None or position < before]
    counted = Counter(rule for _, rule in known)
    return RefusalsPage(
        frame=page_request.frame(),
        cause=cause,
        causes=tuple(CauseRow(cause=name, times=times) for name, times in sorted(counted.items())[:ROWS_A_PAGE]),
        refusals=refusal_rows(page_request, below[:ROWS_A_PAGE]),
        refusals_in_all=len(wanted),
        older=below[ROWS_A_PAGE - 1] if len(below) > ROWS_A_PAGE else None,
    )


def refusal_rows(page_request: PageRequest, positions: Iterable[int]) -> tuple[RefusalRow, ...]:
    """Return the refusals at these places, the latest first."""
    found, known = page_request.entries_of(ReleaseRefused, positions), page_request.state.datasets
    places = {name: dataset.position for name, dataset in known.items()}
    return tuple(
        RefusalRow.of(refused, position=position, dataset_position=places.get(refused.dataset))
        for position, refused in sorted(found.items(), reverse=True)
    )


MOST_REFUSALS = 20
REUSE = "sample-used"

SampleState = Literal["drawn", "consumed", "never read", "not drawn"]
STATES: dict[ReleaseStage, SampleState] = {
    "charged": "drawn",
    **dict.fromkeys(("reading", "published", "abandoned"), "consumed"),
    "given back": "never read",
}


class SampleRow(Row):
    """A sample in a table, with the one release that it serves."""

    sample_id: str
    # what it serves there: "release", or "selection" for the choice of the map; "none" where the release reads all
    # records
    purpose: str
    release_id: str
    # "drawn" (reserved, nothing read), "consumed", or "never read" (given back, and never usable again); "not drawn"
    # where the release reads all records
    state: SampleState
    stage: ReleaseStage
    position: int


class SamplesPage(Page):
    """The samples."""

    TABLE = "samples"
    samples: tuple[SampleRow, ...]  # the latest first
    samples_in_all: int  # how many there are
    refused_reuse: tuple[RefusalRow, ...]  # the latest attempts to use a sample again
    refused_in_all: int  # how many there were
    older: int | None


def samples_page(page_request: OneState, before: Before = None) -> SamplesPage:
    """All samples, the latest first."""
    shown: list[tuple[Release, str, str]] = []
    found = page_request.releases(before=before, limit=ROWS_A_PAGE + 1)
    for release in found:
        samples = tuple(zip(release.samples, ("release", "selection"), strict=False))
        if len(shown) + len(samples) > ROWS_A_PAGE:
            break  # a release's two samples stand on one page
        shown += [(release, sample, purpose) for sample, purpose in samples]
    charges = page_request.entries_of(ReleaseCharged, [release.position for release, *_ in shown])
    drawn = {place: draws_sample(dict(charge.mechanism)) for place, charge in charges.items()}
    reuse = [position for position, cause in page_request.refusals() if cause == REUSE]
    return SamplesPage(
        frame=page_request.frame(),
        samples=tuple(
            SampleRow.of(
                release,
                sample_id=sample,
                purpose=purpose if drawn[release.position] or purpose != "release" else "none",
                state=STATES[stage_of(release)] if drawn[release.position] or purpose != "release" else "not drawn",
                stage=stage_of(release),
            )
            for release, sample, purpose in shown
        ),
        samples_in_all=len(page_request.state.samples),
        refused_reuse=refusal_rows(page_request, reuse[:MOST_REFUSALS]),
        refused_in_all=len(reuse),
        older=shown[-1][0].position if shown and shown[-1][0] is not found[-1] else None,
    )
