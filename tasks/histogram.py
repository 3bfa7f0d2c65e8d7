"""The stage that makes a histogram: exact counts of every declared cell, noise drawn once, stored, then used."""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.event import Histogram
from ..mechanisms.histogram import (
    NoisyHistogram,
    OutlierPrivateHistogram,
    SuppressedHistogram,
    noisy_counts,
    outlier_private_counts,
    suppressed_counts,
)
from ..mechanisms.source_event import fresh_sample_rate
from .executors import Advanced, Executor
from .publication import Publication
from .request import HistogramRequest
from .settled_numbers import settle_numbers, settled_numbers
from .source import SourceLayout
from .stage import stage
from .table import PublishedGroups, write_table
from .whole_counts import exact_counts

__all__ = ["published_histogram"]


@stage("count")
def published_histogram(
    *,
    receipt: Receipt,
    request: HistogramRequest,
    layout: SourceLayout,
    folder: ReleaseFolder,
    executor: Executor,
    advanced: Advanced,
) -> Publication:
    """Count, add the noise and store the result, or take the one that an earlier attempt has stored.

    PRIVACY: the stored numbers are those that are published. An attempt that ends before they are stored has given
    nothing away, so that the next one may draw.

    Args:
        receipt: proof that the release is paid for; the sample is the one that it names.
        request: what is asked for.
        layout: the files of the records.
        folder: the release's folder in the private store.
        executor: where the counting is done.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the draw can't be stored.
    """
    cells = request.recoding.cells
    numbers = settled_numbers(count=cells, request=request, folder=folder, sample_id=receipt.sample_id)
    if numbers is None:
        counts = exact_counts(
            receipt=receipt,
            request=request,
            rate=fresh_sample_rate(request.mechanism),
            layout=layout,
            folder=folder,
            executor=executor,
            advanced=advanced,
        )
        exact = np.zeros(cells, dtype=np.int64)
        exact[counts.keys[0]] = counts.counts
        numbers = _drawn(exact, request.mechanism).tolist()
        # INVARIANT: durable before it is used.
        settle_numbers(numbers, request=request, folder=folder, sample_id=receipt.sample_id)
    groups = PublishedGroups.of_cells(np.array(numbers, dtype=np.int64), generalization=request.recoding)
    return Publication(
        write=lambda place: write_table(groups, folder=place, form="counts", file_format=request.file_format),
        groups=cells,
        records=groups.records,
        form="histogram",
        details={},
    )


def _drawn(counts: NDArray[np.int64], histogram: Histogram) -> NDArray[np.int64]:
    match histogram:
        case SuppressedHistogram():
            return suppressed_counts(counts, histogram)
        case NoisyHistogram():
            return noisy_counts(counts, histogram)
        case OutlierPrivateHistogram():
            return outlier_private_counts(counts, histogram)
        case _:
            assert_never(histogram)
