"""The stage that sees records: sample, recode and count on the workers; what comes back is counts alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import KeyRef
from ..mechanisms.recoding import GeneralizationMap
from ..mechanisms.suppression import GroupCounts, suppress
from .chunk_counts import KeySource
from .chunks import plan_chunks
from .count import count_job, group_counts
from .executors import Advanced, DaskCluster, Executor
from .request import MicrodataRequest
from .source import SourceLayout
from .stage import stage

__all__ = ["key_source_at", "surviving_groups"]


@stage("count")
def surviving_groups(
    *,
    receipt: Receipt,
    request: MicrodataRequest,
    generalization: GeneralizationMap,
    layout: SourceLayout,
    key: KeyRef,
    executor: Executor,
    advanced: Advanced,
) -> GroupCounts:
    """Draw the sample, count its groups and keep those of at least k records.

    Args:
        receipt: proof that the release is paid for; the sample is the one that it names.
        request: what is asked for.
        generalization: the map.
        layout: the files of the records.
        key: the sampling key in the private store.
        executor: where the work is done.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records can't be read, or the workers were lost.
    """
    with key_source_at(key, executor) as key_source:
        job = count_job(
            release_id=receipt.release_id,
            sample_id=receipt.sample_id,
            generalization=generalization,
            rate=request.mechanism.sampling_rate,
            reading=request.reading,
            key_source=key_source,
        )
        counts = group_counts(plan_chunks(layout), job=job, executor=executor, advanced=advanced)
    return suppress(counts.keys, counts.counts, request.mechanism.k)


@contextmanager
def key_source_at(key: KeyRef | None, executor: Executor) -> Iterator[KeySource | None]:
    """Where tasks find a key: in the private store, or where there are other machines, in their memory.

    Args:
        key: in the private store; None where every record is counted, for which there is no key.
        executor: where the tasks run.
    """
    if key is None or not isinstance(executor, DaskCluster):
        yield key
        return
    from .key_delivery import delivered_key  # it loads `distributed`, which one machine alone does without

    with delivered_key(executor.client, key) as delivered:
        yield delivered
