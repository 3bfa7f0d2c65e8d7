"""What published labels stand for, from hierarchies alone: the codebook of a release's columns, and its labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np

from ..wording import grouped
from .build import DateHierarchy, described_hierarchy
from .decimals import DecimalIntervals, WeightClasses
from .declare import BUCKET_LABEL, Hierarchy, IntervalHierarchy, ValueHierarchy

MOST_LABELS = 40
MOST_VALUES = 24
MOST_LISTED = 20_000
"""Labels of a level that are listed where nobody has them."""
INTERVAL = re.compile(r"\[(?P<lower>[^,]+), (?P<upper>.+)\)|< (?P<below>.+)|>= (?P<above>.+)|(?P<single>-?\d+(\.\d+)?)")


@dataclass(frozen=True, kw_only=True, slots=True)
class CodebookLabel:
    """A label and what it stands for."""

    label: str
    values: tuple[str, ...]
    more: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnCodebook:
    """The codebook of one column.

    Args:
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
    """Return the codebook of a release's columns, at each level that a stage publishes them at.

    PRIVACY: from the hierarchies alone, which were declared before the records were read. The table has no part in
    it, so it doesn't tell which values anybody has.
    """
    stated = {column["column"]: column for column in certificate["map"]["columns"]}
    return tuple(
        _column(stated[name], level=level, stages=stages)
        for name in names
        for level, stages in published_levels(certificate, stated[name]).items()
    )


def published_levels(certificate: Mapping[str, Any], column: Mapping[str, Any]) -> dict[int, tuple[int, ...]]:
    """Return the levels of a column, finest first, each with the stages that publish it; none where there is one.

    Where several tables of rows have stages of their own, none are named.
    """
    if (blocks := certificate.get("published", {}).get("blocks")) is not None:
        levels_of_stages = (stage["levels"] for block in blocks for stage in block["stages"])
        return dict.fromkeys(sorted({own[column["column"]] for own in levels_of_stages if column["column"] in own}), ())
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
        digest = column["hierarchy_sha256"]
        rule = f"The certificate doesn't carry this hierarchy, only its SHA-256, {digest}: ask the publisher for it."
    else:
        hierarchy = described_hierarchy(description)
        rule = _rule(hierarchy, level)
        if isinstance(hierarchy, ValueHierarchy) and not isinstance(hierarchy, DateHierarchy):  # their rule says it all
            labels = [] if hierarchy.size(level) == 1 or _is_identity(hierarchy, level) else _labels(hierarchy, level)
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
        case DateHierarchy(first=first, last=last, merged=merged):
            part = ("day", *merged)[level]
            return f"The {part} of each day from {first} to {last}; all else is *."
        case ValueHierarchy():
            values = [row[0] for row in hierarchy.rows()]
            case = " Upper and lower case are read alike." if hierarchy.fold_case else ""
            if not _is_identity(hierarchy, level):
                noun = "declared value" if len(values) == 1 else "declared values"
                return f"Of {grouped(len(values))} {noun}; what was not declared is *.{case}"
            shown, more = ", ".join(values[:MOST_VALUES]), len(values) - MOST_VALUES
            rest = f" and {grouped(more)} more" if more > 0 else ""
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
        case WeightClasses(bounds=bounds):
            return (
                f"Classes of survey weights: [a, b) has those from a to below b. Weights below {bounds[0]} count as "
                f"{bounds[0]} and weights above {bounds[-1]} as {bounds[-1]}; what is no number is *."
            )
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
    """Return each label with its values, both in the order of their UTF-8 bytes; `*` first if values become it."""
    values: dict[str, list[str]] = {label: [] for label in hierarchy.level_labels[level]}
    for row in hierarchy.rows():
        values[row[level]].append(row[0])
    return [
        CodebookLabel(label=label, values=tuple(islice(own, MOST_VALUES)), more=max(0, len(own) - MOST_VALUES))
        for label, own in values.items()
        if own
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageLabel:
    """A label of a stage, and what it becomes where the labels of all stages are made alike.

    Args:
        stage: 1 for the finest.
        coarser: the label of the last stage that it belongs to; None where the hierarchy isn't known.
        lower: the least number that the label holds; empty where there is none.
        upper: the number that it ends before; likewise.
    """

    column: str
    stage: int
    label: str
    coarser: str | None
    lower: str
    upper: str


def stage_labels(
    certificate: Mapping[str, Any], *, published: Mapping[tuple[str, int], Sequence[str]]
) -> Iterator[StageLabel]:
    """Yield the declared labels of each column at each stage, each once.

    Of a level with very many labels, and of a hierarchy that isn't known, those that are published.

    Args:
        published: column and stage → the labels that the table has.
    """
    stated = {column["column"]: column for column in certificate["map"]["columns"]}
    for name in dict.fromkeys(name for name, _ in published):
        description = stated[name].get("hierarchy")
        hierarchy = None if description is None else described_hierarchy(description)
        levels = {
            stage: level
            for level, stages in published_levels(certificate, stated[name]).items()
            for stage in stages or (1,)
        }
        last = levels[max(levels)]
        for stage in sorted(levels):
            yield from _of_stage(
                name, stage, hierarchy, level=levels[stage], last=last, shown=published.get((name, stage), ())
            )


def _of_stage(
    column: str, stage: int, hierarchy: Hierarchy | None, *, level: int, last: int, shown: Sequence[str]
) -> Iterator[StageLabel]:
    if hierarchy is None:
        for label in sorted(shown):
            yield StageLabel(column=column, stage=stage, label=label, coarser=None, lower="", upper="")
        return
    if hierarchy.size(level) <= MOST_LISTED:
        codes = np.arange(hierarchy.size(level), dtype=np.int64)
    elif isinstance(hierarchy, ValueHierarchy):  # only the values themselves are so many
        codes = np.unique([0, *hierarchy.codes_of_texts([label.encode() for label in shown], level).tolist()])
    else:
        bounds = [label_bounds(label) for label in shown if label != BUCKET_LABEL]
        numbers = [lower or format(Decimal(upper) - 1, "f") for lower, upper in bounds]
        codes = np.unique([0, *hierarchy.codes_of_texts([number.encode() for number in numbers], level).tolist()])
    become = hierarchy.labels(hierarchy.coarser(codes, level=level, to=last), last)
    is_number = not isinstance(hierarchy, ValueHierarchy)
    for label, coarser in zip(hierarchy.labels(codes, level), become, strict=True):
        lower, upper = label_bounds(label) if is_number else ("", "")
        yield StageLabel(column=column, stage=stage, label=label, coarser=coarser, lower=lower, upper=upper)


def label_bounds(label: str) -> tuple[str, str]:
    """Return the numbers that an interval's label begins with and ends before, each empty where there is none."""
    interval = INTERVAL.fullmatch(label)
    if interval is None:
        return "", ""
    if (single := interval["single"]) is not None:
        number = Decimal(single)
        return single, format(number + Decimal((0, (1,), int(number.as_tuple().exponent))), "f")
    return interval["lower"] or interval["above"] or "", interval["upper"] or interval["below"] or ""
