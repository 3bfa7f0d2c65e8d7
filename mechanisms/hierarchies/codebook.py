"""What published labels stand for, from hierarchies alone: the codebook of a release's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..amounts import counted
from .build import described_hierarchy
from .decimals import DecimalIntervals
from .declare import Hierarchy, IntervalHierarchy, ValueHierarchy

__all__ = ["MOST_LABELS", "MOST_VALUES", "CodebookLabel", "ColumnCodebook", "codebook", "published_levels"]

MOST_LABELS = 40
MOST_VALUES = 24


@dataclass(frozen=True, kw_only=True, slots=True)
class CodebookLabel:
    """A label and what it stands for.

    Args:
        label: as it is published.
        values: the first declared values that become it.
        more: how many others do.
    """

    label: str
    values: tuple[str, ...]
    more: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnCodebook:
    """The codebook of one column.

    Args:
        name: the column's.
        level: at which it is published.
        stages: that publish it at this level, where there are several.
        rule: how labels come of values, in words.
        labels: the first labels with their values; empty where the rule says all.
        more: how many other labels there are.
        digest: SHA-256 (hex) of the whole hierarchy.
    """

    name: str
    level: int
    stages: tuple[int, ...]
    rule: str
    labels: tuple[CodebookLabel, ...]
    more: int
    digest: str


def codebook(certificate: Mapping[str, Any], *, names: Sequence[str]) -> tuple[ColumnCodebook, ...]:
    """The codebook of a release's columns, at each level that a stage publishes them at.

    PRIVACY: from the hierarchies alone, which were declared before the records were read. The table has no part in
    it, so it doesn't tell which values anybody has.

    Args:
        certificate: the fields of one that verifies, of any format.
        names: the columns to be described.
    """
    stated = {column["column"]: column for column in certificate["map"]["columns"]}
    return tuple(
        _column(stated[name], level=level, stages=stages)
        for name in names
        for level, stages in published_levels(certificate, stated[name]).items()
    )


def published_levels(certificate: Mapping[str, Any], column: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    """The levels of a column, finest first, each with the stages that publish it; none where there is a single one."""
    stages = certificate.get("published", {}).get("stages", ())
    if len(stages) < 2:
        return {column["level"]: ()}
    levels = [stage["levels"][column["column"]] for stage in stages]
    return {
        level: tuple(number for number, own in enumerate(levels, start=1) if own == level)
        for level in sorted({*levels})
    }


def _column(column: Mapping[str, Any], *, level: int, stages: tuple[int, ...]) -> ColumnCodebook:
    description = column.get("hierarchy")
    labels: list[CodebookLabel] = []
    if description is None:
        rule = "The certificate doesn't carry this hierarchy, only its SHA-256: ask the publisher for it."
    else:
        hierarchy = described_hierarchy(description)
        rule = _rule(hierarchy, level)
        if isinstance(hierarchy, ValueHierarchy) and hierarchy.size(level) > 1 and not _is_identity(hierarchy, level):
            labels = _labels(hierarchy, level)
    return ColumnCodebook(
        name=column["column"],
        level=level,
        stages=stages,
        rule=rule,
        labels=tuple(labels[:MOST_LABELS]),
        more=max(0, len(labels) - MOST_LABELS),
        digest=column["hierarchy_sha256"],
    )


def _rule(hierarchy: Hierarchy, level: int) -> str:  # noqa: PLR0911 - a sentence for each kind
    if hierarchy.size(level) == 1:
        return "Every value is *."
    match hierarchy:
        case ValueHierarchy():
            values = [row[0] for row in hierarchy.rows()]
            case = " Upper and lower case are read alike." if hierarchy.fold_case else ""
            if not _is_identity(hierarchy, level):
                return f"Of {counted(len(values), 'declared value')}; what was not declared is *.{case}"
            shown, more = ", ".join(values[:MOST_VALUES]), len(values) - MOST_VALUES
            rest = f" and {more:,} more" if more > 0 else ""
            return f"Each declared value is its own label: {shown}{rest}; what was not declared is *.{case}"
        case IntervalHierarchy(lower=lower, upper=upper, widths=widths):
            low, high = f"smaller numbers are < {lower}", f"larger ones >= {upper}"
            if level == 0:
                return f"Each whole number from {lower} to {upper - 1} is its own label; {low}, {high}; all else is *."
            width = widths[level - 1]
            return (
                f"Intervals of width {width} from {lower} to below {upper}: [a, b) has the whole numbers from a to "
                f"below b; {low}, {high}; all else is *."
            )
        case DecimalIntervals():
            return _decimal_rule(hierarchy, level)
        case _:
            return "Numbers between declared cuts: [a, b) has those from a to below b; what is no number is *."


def _decimal_rule(hierarchy: DecimalIntervals, level: int) -> str:
    units = hierarchy.units
    low, high = hierarchy.shown(units.lower), hierarchy.shown(units.upper)
    width = hierarchy.shown(1 if level == 0 else units.widths[level - 1])
    return (
        f"Intervals of width {width} from {low} to below {high}: [a, b) has the numbers from a to below b; smaller "
        f"numbers are < {low}, larger ones >= {high}; what is no number is *."
    )


def _is_identity(hierarchy: ValueHierarchy, level: int) -> bool:
    return all(row[0] == row[level] for row in hierarchy.rows())


def _labels(hierarchy: ValueHierarchy, level: int) -> list[CodebookLabel]:
    """Each label with its values, both in the order of their UTF-8 bytes; `*` first where declared values become it."""
    values: dict[str, list[str]] = {label: [] for label in hierarchy.level_labels[level]}
    for row in hierarchy.rows():
        values[row[level]].append(row[0])
    return [
        CodebookLabel(label=label, values=tuple(islice(own, MOST_VALUES)), more=max(0, len(own) - MOST_VALUES))
        for label, own in values.items()
        if own
    ]
