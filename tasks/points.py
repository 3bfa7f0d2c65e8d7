"""The stage that makes synthetic points: exact counts of a grid's cells, noise drawn once, stored, then used."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..accounting.ledger.charge import Receipt
from ..accounting.ledger.keystore import ReleaseFolder
from ..mechanisms.histogram import NoisyHistogram, SuppressedHistogram, noisy_counts, suppressed_counts
from ..mechanisms.point_axes import cells_of_codes
from ..mechanisms.points import SyntheticPoints, stated_moved_share
from ..mechanisms.source_event import fresh_sample_rate
from ..mechanisms.suppression import GroupCounts
from .executors import Advanced, Executor
from .point_table import PublishedPoints, write_points
from .publication import Publication
from .request import PointsRequest
from .settled_numbers import settle_numbers, settled_numbers
from .source import SourceLayout
from .stage import stage
from .whole_counts import exact_counts

__all__ = ["counts_of_grid", "published_points"]


@stage("count")
def published_points(
    *,
    receipt: Receipt,
    request: PointsRequest,
    layout: SourceLayout,
    folder: ReleaseFolder,
    executor: Executor,
    advanced: Advanced,
) -> Publication:
    """Count, drop or add noise to small counts and store the result, or take what an earlier attempt has stored.

    PRIVACY: as for a histogram: what is stored is what the points are a function of, and an attempt that ends before
    it is stored has given nothing away.

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
    grid = request.mechanism
    numbers = settled_numbers(count=grid.cells, request=request, folder=folder, sample_id=receipt.sample_id)
    if numbers is None:
        counts = exact_counts(
            receipt=receipt,
            request=request,
            rate=fresh_sample_rate(grid),
            layout=layout,
            folder=folder,
            executor=executor,
            advanced=advanced,
        )
        numbers = _drawn(counts_of_grid(counts, request), grid).tolist()
        # INVARIANT: durable before it is used.
        settle_numbers(numbers, request=request, folder=folder, sample_id=receipt.sample_id)
    published = np.array(numbers, dtype=np.int64)
    points = PublishedPoints.of_cells(published, axes=request.axes, cells_per_side=grid.cells_per_side)
    return Publication(
        write=lambda place: write_points(points, folder=place, file_format=request.file_format),
        groups=grid.cells,
        records=points.count,
        form="points",
        details=_facts(request, published),
    )


def counts_of_grid(counts: GroupCounts, request: PointsRequest) -> NDArray[np.int64]:
    """The count of every cell of the grid, from how many records have which codes; shape (cells,)."""
    grid = request.mechanism
    cells = cells_of_codes(request.axes, request.recoding.decode(counts.keys), cells=grid.cells_per_side)
    totals = np.zeros(grid.cells, dtype=np.int64)
    np.add.at(totals, cells, counts.counts)
    return totals


def _drawn(counts: NDArray[np.int64], grid: SyntheticPoints) -> NDArray[np.int64]:
    if isinstance(grid.counts, NoisyHistogram):
        return noisy_counts(counts, grid.counts)
    return suppressed_counts(counts, SuppressedHistogram(k=grid.counts.k, sampling_rate=grid.counts.sampling_rate))


def _facts(request: PointsRequest, published: NDArray[np.int64]) -> dict[str, str | int]:
    """What is said of the points' error, rounded up.

    PRIVACY: a function of the published counts and of what was declared.
    """
    grid = request.mechanism
    radius = _rounded_up(grid.radius)
    share = _rounded_up(stated_moved_share(grid, published, confidence=float(request.confidence)))
    certain = f"with confidence {request.confidence}" if isinstance(grid.counts, NoisyHistogram) else "for certain"
    bounds = ", ".join(f"{axis.name} from {axis.lower} to {axis.upper}" for axis in request.axes)
    return {
        "cells_per_side": grid.cells_per_side,
        "bounds": bounds,
        "radius": radius,
        "moved_share": share,
        "error_bound": "For every function f of the columns, each scaled so that its bounds become 0 and 1, the mean "
        f"of f over these points is within w({radius}) + {share}*(sup f - inf f) of its mean over the sampled records, "
        f"moved into the bounds; {certain}. Here w(r) bounds the difference of f at any two places at most r apart. "
        "The sampling adds an error of its own.",
    }


def _rounded_up(number: float) -> str:
    return f"{math.ceil(number * 1e6 * (1 - 1e-12)) / 1e6:.6f}"
