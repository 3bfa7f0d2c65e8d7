"""The stage that sees records: sample, recode and count on the workers; what comes back is counts alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import KeyRef
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.refusal import ReleaseFailed
from ..mechanisms.suppression import GroupCounts, suppress
from .chunks import plan_chunks
from .count import count_job, group_counts
from .executors import Advanced, DaskCluster, Executor, LocalThreads
from .request import MicrodataRequest
from .source import SourceLayout
from .stage import stage

__all__ = ["executor_at", "surviving_groups"]


@stage("count")
def surviving_groups(
    *,
    receipt: Receipt,
    request: MicrodataRequest,
    generalization: GeneralizationMap,
    layout: SourceLayout,
    key: KeyRef,
    scheduler: str | None,
    advanced: Advanced,
) -> GroupCounts:
    """Draw the sample, count its groups and keep those of at least k records.

    Args:
        receipt: proof that the release is paid for; the sample is the one that it names.
        request: what is asked for.
        generalization: the map.
        layout: the files of the records.
        key: where workers read the sampling key.
        scheduler: address of a Dask scheduler, None for this machine's threads.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records can't be read, or the workers were lost.
    """
    job = count_job(
        release_id=receipt.release_id,
        sample_id=receipt.sample_id,
        generalization=generalization,
        rate=request.mechanism.sampling_rate,
        null_values=request.null_values,
        key_source=key,
    )
    with executor_at(scheduler) as executor:
        counts = group_counts(plan_chunks(layout), job=job, executor=executor, advanced=advanced)
    return suppress(counts.keys, counts.counts, request.mechanism.k)


@contextmanager
def executor_at(scheduler: str | None) -> Iterator[Executor]:
    """Where the counting runs while the block lasts.

    Args:
        scheduler: address of a Dask scheduler, None for this machine's threads.

    Raises:
        ReleaseFailed: the scheduler can't be reached.
    """
    if scheduler is None:
        yield LocalThreads()
        return
    from distributed import Client

    try:
        client = Client(scheduler, set_as_default=False, timeout=20)
    except (OSError, ValueError) as error:
        raise ReleaseFailed(
            f"the scheduler can't be reached ({type(error).__name__}).",
            where=scheduler,
            remedy="Start it and run again with the same release id: it is not charged twice.",
        ) from None
    with client:
        yield DaskCluster(client=client)
