"""The [reports] table of a specification: what the reports are, what is asked of them, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from ..accounting.theory.price import Price, price
from ..mechanisms.amount_format import amount_exact, amount_shown
from ..mechanisms.event import LocalReports
from ..mechanisms.hierarchy import HierarchyError, ValueHierarchy
from ..mechanisms.krandomization import KRandomization, OutcomeCounts
from ..mechanisms.recoding import GeneralizationMap, MappedColumn
from ..mechanisms.refusal import InputRefused
from ..mechanisms.report_design import QuestionDesign, ReportDesign, design_of_table
from ..tasks.objects import Output
from ..tasks.record_reading import RecordReading
from ..tasks.report_table import ESTIMATE_COLUMNS
from ..tasks.request import ReportsRequest
from .reading_spec import record_reading
from .spec_tables import ReportsTable, SpecTables

__all__ = ["reports_request"]


def reports_request(path: Path, spec: SpecTables, table: ReportsTable, *, base: Path, output: Output) -> ReportsRequest:
    """The estimates that a specification asks for; no report is touched.

    Args:
        path: the specification's file, for messages.
        spec: its tables.
        table: its [reports].
        base: folder that relative paths start from.
        output: where they will be published.

    Raises:
        InputRefused: anything that is wrong, or has no price; with file and key.
    """
    if "null" in spec.data.model_fields_set:
        raise InputRefused("a report has no missing values.", where=f"{path}: [data].null", remedy="Remove it.")
    try:
        design = design_of_table(table.model_dump(exclude_none=True))
        recoding = _published_columns(design)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=f"{path}: [reports]") from None
    mechanism, charged = _priced(path, spec, table, design)
    return ReportsRequest(
        label=spec.release.name,
        file_format=spec.release.format,
        output=output,
        dataset=spec.data.dataset,
        source=spec.data.source,
        base=base,
        reading=_reading(spec),
        price=charged,
        mechanism=mechanism,
        design=design,
        recoding=recoding,
        confidence=table.confidence,
    )


def _priced(path: Path, spec: SpecTables, table: ReportsTable, design: ReportDesign) -> tuple[LocalReports, Price]:
    """What is charged: the reports themselves, or the counts of at least so many people's."""
    privacy, rows = spec.privacy, spec.data.rows_per_person
    if (privacy is None) is not (table.least_people is None):
        missing = "[privacy].delta" if privacy is None else "[reports].least_people"
        raise InputRefused(
            "this is required and missing: the counts of all reports have a price at a δ and for a least number of "
            "people.",
            where=f"{path}: {missing}",
            remedy="Give both; or neither, to be charged for the reports themselves, with no δ.",
        )
    if privacy is None or table.least_people is None:
        mechanism: LocalReports = design.mechanism
        return mechanism, price(mechanism, delta=Decimal(0), rows_per_person=rows)
    if not isinstance(design.mechanism, KRandomization):
        raise InputRefused(
            "no price is proved here for the counts of a sketch's reports.",
            where=f"{path}: [privacy]",
            remedy="Remove the table and least_people: the reports themselves are charged.",
        )
    counts = OutcomeCounts(randomizer=design.mechanism, least_people=table.least_people)
    charged = price(counts, delta=privacy.delta, rows_per_person=rows)
    if privacy.epsilon is not None and charged.epsilon > privacy.epsilon:
        raise InputRefused(
            f"these counts cost ε = {amount_shown(charged.epsilon)} at δ = "
            f"{amount_exact(charged.delta)}, more than the ε = {amount_exact(privacy.epsilon)} "
            "asked for.",
            where=f"{path}: [privacy].epsilon",
            remedy="Ask more people, or have devices flip more bits.",
        )
    return counts, charged


def _published_columns(design: ReportDesign) -> GeneralizationMap:
    """The columns of the published table with their declared labels.

    Raises:
        ValueError: a label or a name that can't be published.
    """
    if not isinstance(design, QuestionDesign):
        declared = ValueHierarchy.from_values(design.values)
        return GeneralizationMap(columns=(MappedColumn(name="value", hierarchy=declared, level=0),))
    names = design.encoding.questions
    for name in names:
        if name in ESTIMATE_COLUMNS or not name or not name.isprintable():
            raise HierarchyError(f"a question can't be called {name!r}")
    digits = ValueHierarchy.from_values(["0", "1"])
    return GeneralizationMap(columns=tuple(MappedColumn(name=name, hierarchy=digits, level=0) for name in names))


def _reading(spec: SpecTables) -> RecordReading:
    """How reports are read: each line by itself, unless the specification says that they are quoted.

    PRIVACY: whoever sends a report may send any bytes. A quote in one of them must not swallow the reports after it.
    """
    reading = replace(record_reading(spec), null_values=())
    return reading if "quoting" in spec.data.model_fields_set else replace(reading, quoting="none")
