"""Exact counts of all records for a private report: read after the look is recorded, and outside Prefect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...accounting.ledger.lookup import RecordedLook
from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.kernel.errors import ReleaseFailed
from ...mechanisms.kernel.sampling import KEY_BYTES, sample_commitment
from ...mechanisms.measures.counted_records import CountedRecords
from ..inputs.source import SourceLayout, plan_chunks
from ..kernel.counting import naming_kinds_only
from ..request import Request
from .executors import Executor, LocalThreads, OnProgress
from .group_counting import count_job, group_counts

if TYPE_CHECKING:
    from ...mechanisms.kernel.contributions import ContributionLimit


def finest_map(generalization: GeneralizationMap) -> GeneralizationMap:
    """Return the same columns at level 0."""
    return GeneralizationMap(
        columns=tuple(
            MappedColumn(name=column.name, hierarchy=column.hierarchy, level=0) for column in generalization.columns
        )
    )


@naming_kinds_only
def private_counts(
    *,
    look: RecordedLook,
    request: Request,
    generalization: GeneralizationMap,
    layout: SourceLayout,
    executor: Executor,
    randomness: Callable[[int], bytes],
    on_progress: OnProgress | None,
) -> CountedRecords:
    """Count every distinct record of the released columns, with its values at level 0; of units, what each makes.

    PRIVACY: these are the private records themselves but for their order. They go into a private report and nowhere
    else. It is no task of Prefect, so Prefect has nothing to record.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the look is of another data set; of an
            unknown fault only the kind is reported.
    """
    _require_own(look, request)
    finest = finest_map(generalization)
    key = None if request.unit_rule is None else OwnKey(randomness(KEY_BYTES))
    job = count_job(
        release_id=f"look-{look.position}",
        sample_id=None if key is None else sample_commitment(key.load()),
        generalization=finest,
        rate=None,
        reading=request.reading,
        key_source=key,
        limit=None if key is None else request.limit,
        unit_rule=request.unit_rule,
    )
    groups = group_counts(plan_chunks(layout), job=job, executor=executor, on_progress=on_progress)
    return CountedRecords(map=finest, groups=groups)


@naming_kinds_only
def records_left_out(
    *,
    look: RecordedLook,
    request: Request,
    limit: ContributionLimit,
    before: CountedRecords,
    layout: SourceLayout,
    randomness: Callable[[int], bytes],
    on_progress: OnProgress | None,
) -> int:
    """Return how many records don't count where so many of a person do; whichever are chosen, it is the same number.

    PRIVACY: as `private_counts`. Ids are hashed under a key of this look's own, which is nowhere kept.

    Raises:
        ReleaseFailed: as `private_counts`.
    """
    _require_own(look, request)
    key = OwnKey(randomness(KEY_BYTES))
    job = count_job(
        release_id=f"look-{look.position}",
        sample_id=sample_commitment(key.load()),
        generalization=before.map,
        rate=None,
        reading=request.reading,
        key_source=key,
        limit=limit,
    )
    counted = group_counts(plan_chunks(layout), job=job, executor=LocalThreads(), on_progress=on_progress)
    # Which records are kept depends on the key, but how many of each person does not: the difference needs no key that
    # was used for a release.
    return before.records - int(counted.counts.sum())


def _require_own(look: RecordedLook, request: Request) -> None:
    if look.look.dataset != request.dataset:
        raise ReleaseFailed("the recorded look is of another data set.", where="the ledger")


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A key in the memory of this process, whose threads alone use it."""

    secret: bytes = field(repr=False)

    def load(self) -> bytes:
        """Return the key."""
        return self.secret
