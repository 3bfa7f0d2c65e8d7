"""Exact counts of a release's records, all of them or its sample's: what noise is added to, and nothing else."""

from __future__ import annotations

from decimal import Decimal

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.suppression import GroupCounts
from .chunks import plan_chunks
from .count import count_job, group_counts
from .executors import Advanced, Executor
from .request import AnswerRequest, HistogramRequest, PointsRequest
from .sampled_counts import key_source_at
from .source import SourceLayout

__all__ = ["exact_counts"]


def exact_counts(
    *,
    receipt: Receipt,
    request: HistogramRequest | AnswerRequest | PointsRequest,
    rate: Decimal | None,
    layout: SourceLayout,
    folder: ReleaseFolder,
    executor: Executor,
    advanced: Advanced,
) -> GroupCounts:
    """Count the records of every group that has any.

    PRIVACY: exact counts stay in this process and are kept nowhere.

    Args:
        receipt: proof that the release is paid for; the sample is the one that it names.
        request: what is asked for.
        rate: rate of the release's sample; None reads every record, for which no key is used.
        layout: the files of the records.
        folder: the release's folder in the private store.
        executor: where the work is done.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records can't be read, or the workers were lost.
    """
    with key_source_at(None if rate is None else folder.key, executor) as key_source:
        job = count_job(
            release_id=receipt.release_id,
            sample_id=None if rate is None else receipt.sample_id,
            generalization=request.recoding,
            rate=rate,
            reading=request.reading,
            key_source=key_source,
        )
        return group_counts(plan_chunks(layout), job=job, executor=executor, advanced=advanced)
