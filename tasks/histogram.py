"""The stage that makes a histogram: exact counts of every declared cell, noise drawn once, stored, then used."""

from __future__ import annotations

from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram, thinned_counts
from ..mechanisms.event import Histogram
from ..mechanisms.histogram import (
    NoisyHistogram,
    OutlierPrivateHistogram,
    SuppressedHistogram,
    noisy_counts,
    outlier_private_counts,
    suppressed_counts,
)
from ..mechanisms.neighbours import Randomness
from ..mechanisms.refusal import ReleaseFailed
from ..mechanisms.source_event import fresh_sample_rate
from ..mechanisms.suppression import GroupCounts
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
    randomness: Randomness,
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
        randomness: n to n secret bytes, for coins at unequal rates; OpenDP draws noise by itself.
        advanced: told of the progress; for the steward's terminal alone.

    Raises:
        ReleaseFailed: the records can't be read, the workers were lost, or the draw can't be stored.
    """
    cells = request.partition.cells
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
        numbers = _drawn(counts_of_cells(counts, request, randomness=randomness), request.mechanism).tolist()
        # INVARIANT: durable before it is used.
        settle_numbers(numbers, request=request, folder=folder, sample_id=receipt.sample_id)
    groups = PublishedGroups.of_cells(np.array(numbers, dtype=np.int64), generalization=request.partition)
    return Publication(
        write=lambda place: write_table(groups, folder=place, form="counts", file_format=request.file_format),
        groups=cells,
        records=groups.records,
        form="histogram",
        details={},
    )


def counts_of_cells(counts: GroupCounts, request: HistogramRequest, *, randomness: Randomness) -> NDArray[np.int64]:
    """How many records of each cell count, from how many have which codes.

    Args:
        counts: of `request.recoding`.
        request: what is asked for.
        randomness: n to n secret bytes, for coins at unequal rates.

    Returns:
        Shape (cells,).

    Raises:
        ReleaseFailed: rates that the mechanism has no use for.
    """
    codes = request.recoding.decode(counts.keys)
    kept = counts.counts
    if request.inclusion is not None:
        match request.mechanism:
            case BiasedSampleCounts():
                kept = np.where(request.inclusion.counted(codes[-1]), kept, 0)
            case UnequalRatesHistogram(sampling_rate=highest):
                rates = request.inclusion.rates_of(codes[-1])
                kept = thinned_counts(kept, rates, highest=highest, randomness=randomness)
            case SuppressedHistogram() | NoisyHistogram() | OutlierPrivateHistogram():
                raise ReleaseFailed("inclusion rates were named for a mechanism that has none.")
            case _:
                assert_never(request.mechanism)
    cells = np.zeros(request.partition.cells, dtype=np.int64)
    np.add.at(cells, request.partition.keys(codes[: len(request.partition.columns)])[0], kept)
    return cells


def _drawn(counts: NDArray[np.int64], histogram: Histogram) -> NDArray[np.int64]:
    match histogram:
        case SuppressedHistogram():
            return suppressed_counts(counts, histogram)
        case NoisyHistogram():
            return noisy_counts(counts, histogram)
        case OutlierPrivateHistogram():
            return outlier_private_counts(counts, histogram)
        case BiasedSampleCounts(k=k) | UnequalRatesHistogram(k=k):
            return suppressed_counts(counts, SuppressedHistogram(k=k, sampling_rate=None))
        case _:
            assert_never(histogram)
