"""The [points] table of a specification: which grid, how its counts are released, and what they cost."""

from __future__ import annotations

from pathlib import Path

from ..accounting.theory.price import price
from ..accounting.theory.refused_mechanisms import refuse_unsafe
from ..mechanisms.histogram import NoisyHistogram
from ..mechanisms.point_axes import PointAxis, axis_steps
from ..mechanisms.points import SyntheticPoints
from ..mechanisms.recoding import GeneralizationMap, MappedColumn
from ..mechanisms.refusal import InputRefused
from ..mechanisms.strongly_safe import StronglySafeRelease
from ..tasks.objects import Output
from ..tasks.request import PointsRequest
from .histogram_spec import require_affordable, require_cells, require_safe
from .reading_spec import record_reading
from .spec_tables import PointsTable, PrivacyTable, SpecTables

__all__ = ["points_request"]

KINDS = ("suppressed", "noisy")


def points_request(
    path: Path, spec: SpecTables, table: PointsTable, privacy: PrivacyTable, *, base: Path, output: Output
) -> PointsRequest:
    """The points that a specification asks for; no record is touched.

    Args:
        path: the specification's file, for messages.
        spec: its tables.
        table: its [points].
        privacy: its [privacy].
        base: folder that relative paths start from.
        output: where they will be published.

    Raises:
        InputRefused: anything that is wrong, or has no price; with file and key.
    """
    axes = tuple(_axes(path, spec))
    mechanism = _mechanism(path, spec, table, dimensions=len(axes))
    recoding = _recoding(path, axes, cells=table.cells_per_side)
    require_cells(path, recoding)
    charged = price(mechanism, delta=privacy.delta, rows_per_person=spec.data.rows_per_person)
    require_affordable(path, charged, privacy)
    return PointsRequest(
        label=spec.release.name,
        file_format=spec.release.format,
        output=output,
        dataset=spec.data.dataset,
        source=spec.data.source,
        base=base,
        reading=record_reading(spec),
        price=charged,
        mechanism=mechanism,
        axes=axes,
        recoding=recoding,
        confidence=table.confidence,
    )


def _axes(path: Path, spec: SpecTables) -> list[PointAxis]:
    axes = []
    for name, column in spec.columns.items():
        where = f"{path}: [columns.{name}]"
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


def _recoding(path: Path, axes: tuple[PointAxis, ...], *, cells: int) -> GeneralizationMap:
    try:
        columns = [MappedColumn(name=axis.name, hierarchy=axis_steps(axis, cells=cells), level=0) for axis in axes]
    except ValueError:
        raise InputRefused(
            f"the bounds of a column are too close to be parted into {cells} cells.",
            where=f"{path}: [points].cells_per_side",
            remedy="Take fewer cells, or measure the column from another origin.",
        ) from None
    return GeneralizationMap(columns=tuple(columns))


def _mechanism(path: Path, spec: SpecTables, table: PointsTable, *, dimensions: int) -> SyntheticPoints:
    where = f"{path}: [points]"
    refuse_unsafe(table.kind, where=f"{where}.kind")
    if table.kind not in KINDS:
        raise InputRefused(
            f"there is no kind {table.kind!r}.", where=f"{where}.kind", remedy=f"Name one of {', '.join(KINDS)}."
        )
    require_safe(path, table.noise, table="points")
    if (table.epsilon is not None) is not (table.kind == "noisy"):
        given = table.epsilon is not None
        what = "is not a parameter of this kind" if given else "is required and missing"
        raise InputRefused(f"this {what}.", where=f"{where}.epsilon", remedy="Remove it." if given else "")
    rate = None if spec.sampling is None else spec.sampling.rate
    if rate is None:
        raise InputRefused(
            "the counts that points are made of have a price on a fresh sample only.",
            where=f"{path}: [sampling].rate",
            remedy="Give a sampling rate.",
        )
    try:
        counts: StronglySafeRelease | NoisyHistogram = StronglySafeRelease(k=table.k, sampling_rate=rate)
        if table.epsilon is not None:
            counts = NoisyHistogram(k=table.k, epsilon=table.epsilon, sampling_rate=rate)
        return SyntheticPoints(dimensions=dimensions, cells_per_side=table.cells_per_side, counts=counts)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=where) from None
