"""The stage that sees records: what comes back from the workers is counts, and what leaves it may be published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from ...accounting.ledger.charge import Receipt
from ...accounting.ledger.private_store.keys import KeyRef, ReleaseFolder
from ...mechanisms.mechanism import Randomness
from ...mechanisms.recoding import GeneralizationMap
from ...mechanisms.suppression import GroupCounts
from ..counting.chunks import plan_chunks
from ..counting.executors import DaskCluster, Executor, OnProgress
from ..counting.group_counts import KeySource, count_job, group_counts
from ..inputs.list import SourceLayout
from ..readers.values import RecordReading
from .draw_once import StoredDraw, draw_once
from .stage import stage
from .table import Publication

__all__ = ["ReleaseWork", "count_stage", "exact_counts", "key_source_at"]

Exact = TypeVar("Exact")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseWork:
    """A release that is paid for, and what its stages work with.

    Args:
        receipt: proof that it is paid for; the samples are those that it names.
        layout: the files of the records.
        folder: the release's folder in the private store.
        executor: where the work is done.
        randomness: n to n secret bytes, for coins that aren't of the sampling; OpenDP draws noise by itself.
        on_progress: told of the progress; for the steward's terminal alone.
    """

    receipt: Receipt
    layout: SourceLayout
    folder: ReleaseFolder
    executor: Executor
    randomness: Randomness
    on_progress: OnProgress


@stage("count")
def count_stage(
    *,
    work: ReleaseWork,
    count: Callable[[], Exact],
    protect: Callable[[Exact], Any],
    draw: StoredDraw | None,
    finish: Callable[[Any], Publication],
) -> Publication:
    """Count, protect the counts, and give what may be published, whatever the kind of the release.

    PRIVACY: exact counts go from `count` to `protect` and nowhere else. Where noise is drawn its result is stored
    before it is used, and a retry takes it: it is what is published. An attempt that ends before has given nothing
    away.

    Args:
        work: the release.
        count: counts the records exactly.
        protect: gives of exact counts what may be published: suppressed, or with noise.
        draw: where the noisy numbers stand; None where nothing is drawn, so that a retry gives the same.
        finish: makes the table.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the draw can't be stored.
    """
    if draw is None:
        return finish(protect(count()))
    return finish(draw_once(draw, lambda: protect(count()), folder=work.folder))


def exact_counts(
    work: ReleaseWork,
    *,
    generalization: GeneralizationMap,
    reading: RecordReading,
    rate: Decimal | None,
    key: KeyRef,
    sample_id: str | None,
) -> GroupCounts:
    """Count the records of every group that has any: of a fresh sample, or all.

    PRIVACY: the result has every small group.

    Args:
        work: the release.
        generalization: the map that gives a record its group.
        reading: how the records are read.
        rate: of the sample; None counts every record, and uses no key.
        key: the sample's key in the private store.
        sample_id: commitment to the sample, as the receipt names it.

    Raises:
        ReleaseFailed: the records can't be read, or the workers were lost.
    """
    with key_source_at(None if rate is None else key, work.executor) as key_source:
        job = count_job(
            release_id=work.receipt.release_id,
            sample_id=None if rate is None else sample_id,
            generalization=generalization,
            rate=rate,
            reading=reading,
            key_source=key_source,
        )
        return group_counts(plan_chunks(work.layout), job=job, executor=work.executor, on_progress=work.on_progress)


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
    from ..counting.key_delivery import delivered_key  # it loads `distributed`, which one machine alone does without

    with delivered_key(executor.client, key) as delivered:
        yield delivered
