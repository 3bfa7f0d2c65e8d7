"""The one pass over the records that a private choice of the map needs: counts at the finest candidate levels."""

from __future__ import annotations

from collections.abc import Sequence

from ..mechanisms.suppression import GroupCounts
from .chunk_counts import CountJob
from .chunks import Chunk
from .count import group_counts
from .executors import Advanced, Executor

__all__ = ["joint_counts"]


def joint_counts(
    chunks: Sequence[Chunk], *, job: CountJob, executor: Executor, advanced: Advanced | None = None
) -> GroupCounts:
    """Count the records of every group of the finest map.

    PRIVACY: the result has every small group; it goes to the scores and nowhere else. The records are all of them,
    or a fresh sample that serves nothing else; never the release's own sample (docs/proofs/selection.md).

    Args:
        chunks: as `plan_chunks`.
        job: as `count_job`, with the map of `lattice.finest`; its rate None, or the fresh sample's with its key.
        executor: where the work is done.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records cannot be read, or the workers were lost.
    """
    return group_counts(chunks, job=job, executor=executor, advanced=advanced)
