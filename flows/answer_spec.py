"""The [answer] table of a specification: which number of which groups, how noisy, and what it costs."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import assert_never

from ..accounting.theory.price import price
from ..mechanisms.answers import Answer, CountAnswer, MeanAnswer, SumAnswer
from ..mechanisms.intervals import IntervalHierarchy
from ..mechanisms.recoding import GeneralizationMap, MappedColumn
from ..mechanisms.refusal import InputRefused
from ..tasks.answer_table import ANSWER_COLUMNS
from ..tasks.objects import Output
from ..tasks.request import AnswerRequest
from .declared_columns import declared_map
from .histogram_spec import require_cells, require_safe
from .reading_spec import record_reading
from .spec_tables import AnswerTable, SpecTables

__all__ = ["answer_request"]


def answer_request(path: Path, spec: SpecTables, table: AnswerTable, *, base: Path, output: Output) -> AnswerRequest:
    """The answer that a specification asks for; no record is touched.

    Args:
        path: the specification's file, for messages.
        spec: its tables.
        table: its [answer].
        base: folder that relative paths start from.
        output: where it will be published.

    Raises:
        InputRefused: anything that is wrong, or has no price; with file and key.
    """
    require_safe(path, table.noise, table="answer")
    groups = _groups(path, spec, table, base=base)
    try:
        mechanism = _mechanism(path, spec, table, groups=1 if groups is None else groups.cells)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=f"{path}: [answer]") from None
    return AnswerRequest(
        label=spec.release.name,
        file_format=spec.release.format,
        output=output,
        dataset=spec.data.dataset,
        source=spec.data.source,
        base=base,
        reading=record_reading(spec),
        price=price(mechanism, delta=Decimal(0), rows_per_person=spec.data.rows_per_person),
        mechanism=mechanism,
        groups=groups,
        recoding=_read_columns(path, table, mechanism, groups),
        missing=_missing(path, table, mechanism),
        confidence=table.confidence,
    )


def _groups(path: Path, spec: SpecTables, table: AnswerTable, *, base: Path) -> GeneralizationMap | None:
    """The declared groups, in the order of `by`; None where there are none."""
    for name in table.by:
        if name not in spec.columns or name in ANSWER_COLUMNS or table.by.count(name) > 1:
            raise InputRefused(
                f"{name!r} can't be grouped by: a group's columns are declared, each once, and none is called "
                f"{' or '.join(ANSWER_COLUMNS)}.",
                where=f"{path}: [answer].by",
            )
    for name in spec.columns:
        if name not in table.by:
            raise InputRefused(
                "this column is declared and not grouped by.", where=f"{path}: [columns.{name}]", remedy="Remove it."
            )
    if not table.by:
        return None
    groups = declared_map(path, {name: spec.columns[name] for name in table.by}, base=base)
    require_cells(path, groups)
    return groups


def _mechanism(path: Path, spec: SpecTables, table: AnswerTable, *, groups: int) -> Answer:
    """What is asked; a key that its kind doesn't have is refused.

    Raises:
        ValueError: values that don't go together.
    """
    needed = {"count": (), "sum": ("lower", "upper"), "mean": ("lower", "upper", "least_records")}[table.kind]
    for name in ("lower", "upper", "least_records"):
        given = getattr(table, name) is not None
        if given is not (name in needed):
            what = f"is not a parameter of a {table.kind}" if given else "is required and missing"
            raise InputRefused(
                f"this {what}.",
                where=f"{path}: [answer].{name}",
                remedy="Remove it." if given else "Declare it; it may not come from the records.",
            )
    rate = None if spec.sampling is None else spec.sampling.rate
    if table.kind == "count":
        return CountAnswer(epsilon=table.epsilon, relation=table.relation, groups=groups, sampling_rate=rate)
    lower, upper = table.lower or 0, table.upper or 0
    if table.kind == "sum":
        return SumAnswer(
            epsilon=table.epsilon,
            relation=table.relation,
            groups=groups,
            sampling_rate=rate,
            lower=lower,
            upper=upper,
        )
    return MeanAnswer(
        epsilon=table.epsilon,
        relation=table.relation,
        groups=groups,
        sampling_rate=rate,
        lower=lower,
        upper=upper,
        least_records=table.least_records or 0,
    )


def _read_columns(
    path: Path, table: AnswerTable, mechanism: Answer, groups: GeneralizationMap | None
) -> GeneralizationMap:
    """The columns that are read: those of the groups, then the one that is added up.

    A count of all records has no column of its own; one that is named is read as a single group.
    """
    grouped = () if groups is None else groups.columns
    match mechanism:
        case CountAnswer():
            if groups is not None and table.column is None:
                return groups
            lower, upper, level = 0, 1, 1
        case SumAnswer() | MeanAnswer():
            lower, upper, level = mechanism.lower, mechanism.upper + 1, 0
        case _:
            assert_never(mechanism)
    where = f"{path}: [answer].column"
    if table.column is None:
        raise InputRefused(
            "this is required and missing.",
            where=where,
            remedy="A count of all records names any column of the table; what is in it decides nothing.",
        )
    if isinstance(mechanism, CountAnswer) and groups is not None:
        raise InputRefused("a count by group has no column of its own.", where=where, remedy="Remove it.")
    if table.column in table.by:
        raise InputRefused("a column is added up or grouped by, not both.", where=where)
    hierarchy = IntervalHierarchy(lower=lower, upper=upper, widths=())
    return GeneralizationMap(columns=(*grouped, MappedColumn(name=table.column, hierarchy=hierarchy, level=level)))


def _missing(path: Path, table: AnswerTable, mechanism: Answer) -> int:
    """What a value that is no whole number counts as: as declared, or the number in the bounds that is nearest to 0."""
    where = f"{path}: [answer].missing"
    match mechanism:
        case CountAnswer():
            if table.missing is not None:
                raise InputRefused("a count has no values.", where=where, remedy="Remove it.")
            return 0
        case SumAnswer(lower=lower, upper=upper) | MeanAnswer(lower=lower, upper=upper):
            missing = min(max(0, lower), upper) if table.missing is None else table.missing
            if not lower <= missing <= upper:
                raise InputRefused(f"{missing} does not lie within the bounds {lower} and {upper}.", where=where)
            return missing
        case _:
            assert_never(mechanism)
