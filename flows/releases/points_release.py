"""Releases of synthetic points: the centres of a grid's cells, each as often as its published count says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.histogram import NoisyHistogram
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ...mechanisms.kinds.points import PointsProtection, SyntheticPoints
from ...mechanisms.map_selection.choice import Levels
from ...mechanisms.synthetic_points import PointAxis, axis_steps, centres, sides_of_codes, stated_moved_share
from ...tasks.request import Request
from ..columns import require_cells
from ..spec_tables import Exact, SpecTable
from .release_kind import (
    K_MEANS,
    NOISE_MEANS,
    RATE_MEANS,
    WITHOUT_DOCUMENTS,
    GivenSpec,
    ReleaseKind,
    count_records,
    record_layout,
)

if TYPE_CHECKING:
    from ...tasks.stages.table import Publication

COUNTED = ("suppressed", "noisy")


class PointsTable(SpecTable):
    """[points]: synthetic points in the cells of a grid, instead of the records."""

    kind: str
    noise: str = "two-sided-geometric"
    k: int = Field(ge=1, le=10**9)
    epsilon: Exact | None = Field(default=None, gt=0, le=100)
    cells_per_side: int = Field(ge=1, le=10**6)
    confidence: Exact = Field(default=Decimal("0.95"), gt=0, lt=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class PointsRequest(Request):
    """Synthetic points of a declared grid, from the specification alone.

    Args:
        recoding: the columns cut into the grid's cells.
        axes: the same columns, scaled by their bounds.
        confidence: of the stated bound on the error where counts are noisy, between 0 and 1.
    """

    kind: ClassVar[str] = "points"
    domain: ClassVar[bytes] = b"crowdblend points 1\n"

    mechanism: SyntheticPoints
    recoding: GeneralizationMap
    axes: tuple[PointAxis, ...]
    confidence: Decimal

    @property
    def own_terms(self) -> Mapping[str, object]:
        """Return the axes' bounds, and the confidence."""
        return {
            "axes": [[axis.name, str(axis.lower), str(axis.upper), str(axis.missing)] for axis in self.axes],
            "confidence": str(self.confidence),
        }


def _request(given: GivenSpec) -> PointsRequest:
    shared, table, axes = given.shared, given.own, tuple(_axes(given))
    thinning = given.drawn_rates()
    mechanism = _mechanism(given, dimensions=len(axes))
    recoding = _recoding(given, axes)
    require_cells(given.path, recoding)
    charged = given.priced(mechanism)
    return PointsRequest(
        **shared,
        thinning=thinning,
        price=charged,
        mechanism=mechanism,
        axes=axes,
        recoding=recoding,
        confidence=table.confidence,
    )


def _axes(given: GivenSpec) -> list[PointAxis]:
    axes = []
    for name, column in given.columns.items():
        where = f"{given.path}: [columns.{name}]"
        others = sorted(column.model_fields_set - {"bounds"})
        if others:
            raise InputRefused(
                "a column of [points] has bounds and nothing else.", where=f"{where}.{others[0]}", remedy="Remove it."
            )
        if column.bounds is None:
            raise InputRefused(
                "this is required and missing.",
                where=f"{where}.bounds",
                remedy="Declare it as { lower = …, upper = … }; bounds may not come from the records.",
            )
        lower, upper, missing = column.bounds.lower, column.bounds.upper, column.bounds.missing
        try:
            axes.append(PointAxis(name=name, lower=lower, upper=upper, missing=lower if missing is None else missing))
        except ValueError as error:
            raise InputRefused(f"{error}.", where=f"{where}.bounds") from None
    return axes


def _recoding(given: GivenSpec, axes: tuple[PointAxis, ...]) -> GeneralizationMap:
    cells: int = given.own.cells_per_side
    try:
        columns = [MappedColumn(name=axis.name, hierarchy=axis_steps(axis, cells=cells), level=0) for axis in axes]
    except ValueError:
        raise InputRefused(
            f"the bounds of a column are too close to be parted into {cells} cells.",
            where=f"{given.path}: [points].cells_per_side",
            remedy="Take fewer cells, or measure the column from another origin.",
        ) from None
    return GeneralizationMap(columns=tuple(columns))


def _mechanism(given: GivenSpec, *, dimensions: int) -> SyntheticPoints:
    table: PointsTable = given.own
    where = f"{given.path}: [points]"
    given.require_kind(COUNTED)
    given.require_parameters(("epsilon",) if table.kind == "noisy" else (), of=("epsilon",))
    rate = given.sampling_rate
    if rate is None:
        raise InputRefused(
            "the counts that points are made of have a price on a fresh sample only.",
            where=f"{given.path}: [sampling].rate",
            remedy="Give a sampling rate.",
        )
    try:
        counts: StronglySafeRelease | NoisyHistogram = StronglySafeRelease(k=table.k, sampling_rate=rate)
        if table.epsilon is not None:
            counts = NoisyHistogram(k=table.k, epsilon=table.epsilon, sampling_rate=rate)
        return SyntheticPoints(dimensions=dimensions, cells_per_side=table.cells_per_side, counts=counts)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=where) from None


def _protection(request: PointsRequest, levels: Levels | None) -> PointsProtection:
    del levels
    grid = request.mechanism
    sides = tuple(sides_of_codes(axis, cells=grid.cells_per_side) for axis in request.axes)
    return PointsProtection(mechanism=grid, layout=request.recoding.layout, sides=sides)


def _publication(request: PointsRequest, _: GeneralizationMap, counts: tuple[int, ...]) -> Publication:
    """Return every cell's centre as often as its published count says; counts below 1 give none."""
    from ...tasks.readers.column_codes import arrow_of
    from ...tasks.stages.table import Publication, PublishedTable, TableColumn

    grid, published = request.mechanism, np.array(counts, dtype=np.int64)
    shown = np.flatnonzero(published > 0)
    columns = tuple(
        TableColumn(name=axis.name, values=arrow_of(places), shown=repr)
        for axis, places in zip(request.axes, centres(request.axes, shown, cells=grid.cells_per_side), strict=True)
    )
    return Publication(
        table=PublishedTable(columns=columns, times=published[shown]),
        file_format=request.file_format,
        groups=grid.cells,
        records=int(published[shown].sum()),
        form="points",
        details=_facts(request, published),
    )


def _facts(request: PointsRequest, published: NDArray[np.int64]) -> dict[str, str | int]:
    """Return what is said of the points' error, rounded up.

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


def _explained(request: PointsRequest) -> dict[str, Any]:
    return {"maps": 1, "selection": None, "cells": request.mechanism.cells}


KIND = ReleaseKind(
    name=PointsRequest.kind,
    model=PointsTable,
    allows=frozenset({"sampling", "privacy", "columns"}),
    mechanisms=(SyntheticPoints,),
    series=False,
    forms=False,
    limits=True,
    unequal_rates=lambda _: frozenset({"column"}),
    request=_request,
    layout=record_layout,
    count=count_records,
    protection=_protection,
    finish=_publication,
    explain=_explained,
    meanings={
        "k": K_MEANS,
        "epsilon": NOISE_MEANS,
        "sampling_rate": RATE_MEANS,
        "dimensions": "d: how many columns are the axes of the grid",
        "cells_per_side": "r: into how many cells each column is cut",
    },
    sheet=lambda *_: WITHOUT_DOCUMENTS,
    preview=lambda _: WITHOUT_DOCUMENTS,
    figures=None,
)
