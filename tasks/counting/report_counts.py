"""Adding up local reports: a Dask dataframe of partial sums over files, merged in a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

import numpy as np
from numpy.typing import NDArray

from ...mechanisms.kinds.krandomization import KRandomization, outcome_counts
from ...mechanisms.kinds.sketch import CountMeanSketch, SketchSums, empty_sums, summed
from ..readers.report_files import Collection, ReportTask, sketch_batches, vector_batches
from .chunks import with_quote_states
from .executors import Executor, OnProgress, computed

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["added_up", "outcome_totals", "sketch_totals"]

_SPLIT_EVERY = 4
_COLUMN = "count"


def sketch_totals(
    groups: Sequence[ReportTask],
    *,
    sketch: CountMeanSketch,
    executor: Executor,
    on_progress: OnProgress | None = None,
) -> SketchSums:
    """Add up the reports of a count mean sketch; memory is a few megabytes a thread and a few tables of k·m counts.

    Args:
        groups: as `check_report_files`.
        sketch: the collection's parameters.
        executor: where the work is done.
        on_progress: called with the progress.

    Raises:
        ReleaseFailed: reports cannot be read, or the workers were lost.
    """
    flat = _totals(groups, collection=sketch, executor=executor, on_progress=on_progress)
    return SketchSums(reports=flat[: sketch.hashes], ones=flat[sketch.hashes :].reshape(sketch.hashes, sketch.bits))


def outcome_totals(
    groups: Sequence[ReportTask],
    *,
    mechanism: KRandomization,
    executor: Executor,
    on_progress: OnProgress | None = None,
) -> NDArray[np.int64]:
    """Count K-randomized vectors; shape (2^L,). Args and errors as in `sketch_totals`."""
    return _totals(groups, collection=mechanism, executor=executor, on_progress=on_progress)


def added_up(group: ReportTask, *, collection: Collection) -> pd.DataFrame:
    """What a worker does: the partial sums of one group of reports, as one column of whole numbers."""
    match collection:
        case CountMeanSketch():
            sums = empty_sums(collection)
            for batch in sketch_batches(group, collection):
                more = summed(collection, batch)
                np.add(sums.reports, more.reports, out=sums.reports)
                np.add(sums.ones, more.ones, out=sums.ones)
            return _frame(np.concatenate((sums.reports, sums.ones.ravel())))
        case KRandomization():
            counts = np.zeros(1 << collection.bits, dtype=np.int64)
            for vectors in vector_batches(group, collection):
                counts += outcome_counts(collection, vectors)
            return _frame(counts)
        case _:
            assert_never(collection)


def _totals(
    groups: Sequence[ReportTask], *, collection: Collection, executor: Executor, on_progress: OnProgress | None
) -> NDArray[np.int64]:
    import dask
    import dask.dataframe as dd

    size = _size(collection)
    if not groups:
        return np.zeros(size, dtype=np.int64)
    groups = with_quote_states(groups, executor=executor, on_progress=on_progress)
    meta = _frame(np.empty(0, dtype=np.int64))
    with dask.config.set({"dataframe.convert-string": False}):
        partial = dd.from_map(
            added_up, list(groups), collection=collection, meta=meta, label="reports", enforce_metadata=False
        )
        whole = partial.reduction(
            chunk=_unchanged,
            combine=_added,
            aggregate=_added,
            meta=meta,
            split_every=_SPLIT_EVERY,
            combine_kwargs={"size": size},
            aggregate_kwargs={"size": size},
        )
    total = computed(whole, executor=executor, on_progress=on_progress)[_COLUMN]
    return np.asarray(total, dtype=np.int64)


def _size(collection: Collection) -> int:
    match collection:
        case CountMeanSketch(hashes=hashes, bits=bits):
            return hashes * (bits + 1)
        case KRandomization(bits=bits):
            return 1 << bits
        case _:
            assert_never(collection)


def _unchanged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def _added(frame: pd.DataFrame, *, size: int) -> pd.DataFrame:
    """Add up partial sums that stand one below the other."""
    return _frame(frame[_COLUMN].to_numpy(dtype=np.int64).reshape(-1, size).sum(axis=0))


def _frame(counts: NDArray[np.int64]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({_COLUMN: counts})
