"""Releases of estimates from local reports, which devices have randomized: added up, then post-processed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from ...accounting.kernel.prices.mechanism_kind import Price
from ...accounting.kernel.prices.registry import price
from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.hierarchies.declare import HierarchyError, ValueHierarchy
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kinds.krandomization import KRandomization, OutcomeCounts
from ...mechanisms.kinds.local_reports import ReportsProtection, Totals, reports_added_up
from ...mechanisms.kinds.sketch import CountMeanSketch
from ...mechanisms.local_reports.design import (
    QuestionDesign,
    ReportDesign,
    SketchDesign,
    answer_labels,
    design_of_table,
    design_record,
    estimated,
    largest_standard_error,
)
from ...mechanisms.map_selection.choice import LatticeColumn, Levels
from ...tasks.readers.values import RecordReading
from ...tasks.request import Request
from ..spec_tables import Exact, SpecTable
from .release_kind import NOISE_MEANS, WITHOUT_DOCUMENTS, GivenSpec, ReleaseKind

if TYPE_CHECKING:
    from ...tasks.inputs.source import SourceLayout
    from ...tasks.kernel.protected import ExactCounts
    from ...tasks.stages.count import ReleaseWork
    from ...tasks.stages.table import Publication

LocalReports = CountMeanSketch | KRandomization | OutcomeCounts

FIGURES = ("estimate", "interval_low", "interval_high", "standard_error")


class _BloomTable(SpecTable):
    bits: int
    hashes: int
    seed: str


class ReportsTable(SpecTable):
    """[reports]: estimates from reports that devices have randomized, instead of the records."""

    kind: str
    epsilon: Exact | None = Field(default=None, gt=0, le=40)
    hashes: int | None = None
    bits: int | None = None
    seed: str | None = None
    flip_probability: Exact | None = None
    values: list[str] | None = None
    questions: list[str] | None = None
    bloom: _BloomTable | None = None
    least_people: int | None = Field(default=None, ge=1, le=10**12)
    confidence: Exact = Field(default=Decimal("0.95"), gt=0, lt=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportsRequest(Request):
    """Estimates from many people's local reports, from the specification alone.

    Args:
        mechanism: what is priced: what each device did, or the counts of all reports.
        recoding: the published columns with their declared labels; no record is recoded.
        design: what the reports are and what is asked of them.
        confidence: of the intervals beside the estimates, between 0 and 1.
    """

    kind: ClassVar[str] = "reports"
    domain: ClassVar[bytes] = b"crowdblend reports 1\n"

    mechanism: LocalReports
    recoding: GeneralizationMap
    design: ReportDesign
    confidence: Decimal

    @property
    def source_columns(self) -> tuple[MappedColumn | LatticeColumn, ...]:
        """Return none of the published columns: a report has columns of its own."""
        return ()

    @property
    def own_terms(self) -> Mapping[str, object]:
        """Return the design, and the confidence."""
        return {"design": design_record(self.design), "confidence": str(self.confidence)}

    @property
    def least_reports(self) -> int:
        """Return how many reports there must be at least."""
        return _protection(self, None).least_reports


def _request(given: GivenSpec) -> ReportsRequest:
    shared, table = given.shared, given.own
    if "null" in given.tables.data.model_fields_set:
        raise InputRefused("a report has no missing values.", where=f"{given.path}: [data].null", remedy="Remove it.")
    if shared["query"] is not None:
        raise InputRefused(
            "reports are read from files as the devices sent them, and not from a database.",
            where=f"{given.path}: [data].source",
            remedy="Write them to files.",
        )
    try:
        design = design_of_table(table.model_dump(exclude_none=True))
        recoding = _published_columns(design)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=f"{given.path}: [reports]") from None
    mechanism, charged = _priced(given, design)
    shared["reading"] = _reading(given, shared["reading"])
    return ReportsRequest(
        **shared,
        price=charged,
        mechanism=mechanism,
        design=design,
        recoding=recoding,
        confidence=table.confidence,
    )


def _priced(given: GivenSpec, design: ReportDesign) -> tuple[LocalReports, Price]:
    """Return what is charged: the reports themselves, or the counts of at least so many people's."""
    path, least = given.path, given.own.least_people
    privacy, rows = given.tables.privacy, given.tables.data.rows_per_person
    if (privacy is None) is not (least is None):
        missing = "[privacy].delta" if privacy is None else "[reports].least_people"
        raise InputRefused(
            "this is required and missing: the counts of all reports have a price at a δ and for a least number of "
            "people.",
            where=f"{path}: {missing}",
            remedy="Give both; or neither, to be charged for the reports themselves, with no δ.",
        )
    if privacy is None or least is None:
        mechanism: LocalReports = design.mechanism
        return mechanism, price(mechanism, delta=Decimal(0), rows_per_person=rows)
    if not isinstance(design.mechanism, KRandomization):
        raise InputRefused(
            "no price is proved here for the counts of a sketch's reports.",
            where=f"{path}: [privacy]",
            remedy="Remove the table and least_people: the reports themselves are charged.",
        )
    counts = OutcomeCounts(randomizer=design.mechanism, least_people=least)
    remedy = "Ask more people, or have devices flip more bits."
    return counts, given.priced(counts, costs="these counts cost", remedy=remedy)


def _published_columns(design: ReportDesign) -> GeneralizationMap:
    """Return the columns of the published table with their declared labels.

    Raises:
        ValueError: a label or a name that can't be published.
    """
    if not isinstance(design, QuestionDesign):
        declared = ValueHierarchy.from_values(design.values)
        return GeneralizationMap(columns=(MappedColumn(name="value", hierarchy=declared, level=0),))
    names = design.questions
    for name in names:
        if name in FIGURES or not name or not name.isprintable():
            raise HierarchyError(f"a question can't be called {name!r}")
    digits = ValueHierarchy.from_values(["0", "1"])
    return GeneralizationMap(columns=tuple(MappedColumn(name=name, hierarchy=digits, level=0) for name in names))


def _reading(given: GivenSpec, reading: RecordReading) -> RecordReading:
    """Return how reports are read: each line by itself, unless the specification says that they are quoted.

    PRIVACY: whoever sends a report may send any bytes. A quote in one of them must not swallow the reports after it.
    """
    reading = replace(reading, null_values=())
    return reading if "quoting" in given.tables.data.model_fields_set else replace(reading, quoting="none")


def _layout(request: ReportsRequest) -> SourceLayout:
    """Return the files of the reports.

    Raises:
        InputRefused: they aren't reports of this design, or are too few.
    """
    from ...tasks.counting.report_counts import report_layout
    from ...tasks.inputs.list import list_records

    source = list_records(request.source, base=request.base, version=request.version)
    if source.table is not None:
        raise InputRefused(
            "local reports aren't read from a lake table.",
            where=request.source,
            remedy="Write them to Parquet first.",
        )
    layout = report_layout(source, collection=request.design.mechanism, reading=request.reading)
    if layout.records is not None and layout.records < request.least_reports:
        raise InputRefused(
            f"there are {layout.records} reports, and the release needs {request.least_reports}.",
            where=request.source,
            remedy="Wait for more reports, or charge them with another price.",
        )
    return layout


def _totals(request: ReportsRequest, work: ReleaseWork, _: GeneralizationMap) -> ExactCounts:
    """Return the reports, added up on the workers."""
    from ...tasks.counting.report_counts import outcome_totals, report_tasks, sketch_totals

    design = request.design
    tasks = report_tasks(work.layout, collection=design.mechanism)

    def added_up() -> Totals:
        executor, on_progress = work.executor, work.on_progress
        if isinstance(design, SketchDesign):
            return sketch_totals(tasks, sketch=design.mechanism, executor=executor, on_progress=on_progress)
        return outcome_totals(tasks, mechanism=design.mechanism, executor=executor, on_progress=on_progress)

    return work.gate.totals(added_up)


def _protection(request: ReportsRequest, levels: Levels | None) -> ReportsProtection:
    del levels
    return ReportsProtection(mechanism=request.mechanism)


def _publication(request: ReportsRequest, _: GeneralizationMap, totals: Totals) -> Publication:
    """Return one row for each answer that was asked for, in order, with intervals by normal approximation."""
    from ...tasks.readers.column_codes import texts_of
    from ...tasks.stages.table import Publication, PublishedTable, TableColumn, figure_columns

    design, estimates = request.design, estimated(request.design, totals)
    errors = estimates.standard_errors.tolist()
    quantile = NormalDist().inv_cdf((1.0 + float(request.confidence)) / 2.0)
    widths = [quantile * error for error in errors]
    labels = zip(*answer_labels(design), strict=True)
    columns = tuple(
        TableColumn(name=name, values=texts_of(texts))
        for name, texts in zip(request.recoding.names, labels, strict=True)
    )
    figures = figure_columns(FIGURES, estimates.counts.tolist(), widths, errors, shown=repr)
    return Publication(
        table=PublishedTable(columns=(*columns, *figures), times=None),
        file_format=request.file_format,
        groups=design.answers,
        records=None,
        form="estimates",
        details={
            "confidence": str(request.confidence),
            "reports": reports_added_up(totals),
            **{name: value for name, value in design_record(design).items() if isinstance(value, str | int)},
        },
    )


def _explained(request: ReportsRequest) -> dict[str, Any]:
    """Return how many people's reports make a standard error of at most a hundredth of them."""
    unit = largest_standard_error(request.design)
    return {
        "maps": 1,
        "selection": None,
        "cells": request.design.answers,
        "relation": request.price.relation,
        "confidence": float(request.confidence),
        "people_for_1_percent": math.ceil((100.0 * unit) ** 2),
    }


KIND = ReleaseKind(
    name=ReportsRequest.kind,
    model=ReportsTable,
    allows=frozenset({"privacy"}),
    mechanisms=(CountMeanSketch, KRandomization, OutcomeCounts),
    series=False,
    forms=False,
    limits=False,
    unequal_rates=lambda _: frozenset(),
    request=_request,
    layout=_layout,
    count=_totals,
    protection=_protection,
    finish=_publication,
    explain=_explained,
    meanings={
        "epsilon": NOISE_MEANS,
        "bits": "of each report",
        "hashes": "hash functions that devices choose among",
        "flip_probability": "with which a device flips each bit",
        "least_people": "n: the price is for the counts of at least so many people's reports",
    },
    sheet=lambda *_: WITHOUT_DOCUMENTS,
    preview=lambda _: WITHOUT_DOCUMENTS,
    figures=None,
)
