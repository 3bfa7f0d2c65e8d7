"""Exact counts of all records for a private report: read after the look is recorded, and outside Prefect."""

from __future__ import annotations

from ...accounting.ledger.queries import RecordedLook
from ...mechanisms.errors import ReleaseFailed
from ...mechanisms.measures.counting import CountedRecords
from ...mechanisms.recoding import GeneralizationMap, MappedColumn
from ..inputs.list import SourceLayout
from ..request import Request
from .chunks import plan_chunks
from .executors import Executor, OnProgress
from .group_counts import count_job, group_counts
from .workers import telling_kinds_only

__all__ = ["finest_map", "private_counts"]


def finest_map(generalization: GeneralizationMap) -> GeneralizationMap:
    """The same columns at level 0."""
    return GeneralizationMap(
        columns=tuple(
            MappedColumn(name=column.name, hierarchy=column.hierarchy, level=0) for column in generalization.columns
        )
    )


@telling_kinds_only
def private_counts(
    *,
    look: RecordedLook,
    request: Request,
    generalization: GeneralizationMap,
    layout: SourceLayout,
    executor: Executor,
    on_progress: OnProgress | None,
) -> CountedRecords:
    """Count every distinct record of the released columns, with its values at level 0.

    PRIVACY: these are the private records themselves but for their order. They go into a private report and nowhere
    else. It is no task of Prefect, so Prefect has nothing to record.

    Args:
        look: proof that the look is in the ledger, of the request's data set.
        request: the release, whose source is read.
        generalization: the release's map.
        layout: the files of the records.
        executor: where the counting is done.
        on_progress: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the look is of another data set; of an
            unknown fault only the kind is told.
    """
    if look.look.dataset != request.dataset:
        raise ReleaseFailed("the recorded look is of another data set.", where="the ledger")
    finest = finest_map(generalization)
    job = count_job(
        release_id=f"look-{look.position}",
        sample_id=None,
        generalization=finest,
        rate=None,
        reading=request.reading,
        key_source=None,
    )
    groups = group_counts(plan_chunks(layout), job=job, executor=executor, on_progress=on_progress)
    return CountedRecords(map=finest, groups=groups)
