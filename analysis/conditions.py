"""Which labels a researcher means: labels, values and ranges of numbers, as sets of a column's finest labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..mechanisms.generalization_map import MappedColumn
from ..mechanisms.hierarchies.codebook import label_bounds
from ..mechanisms.hierarchies.declare import BUCKET_LABEL, IntervalHierarchy, ValueHierarchy
from ..mechanisms.kernel.errors import InputRefused
from .combined_counts import Amounts

Where = Mapping[str, object]
"""Column → a label, a value, a `range`, or several of them."""
Mask = NDArray[np.bool_]
NOTHING_COUNTED = "Nothing was counted."
_SHOWN = 6
_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?"
_CAPPED = re.compile(rf">= ?({_NUMBER})|({_NUMBER})(?:\+| (?:or|and) (?:more|over|older|above))")
_BELOW_THE_CAP = "Ask for counts or shares of its labels, or by `where` for those below it."


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Edges:
    """The numbers that labels stand for; NaN where a label has none, such as `*` and what lies outside the range.

    Args:
        lower: the least, shape (labels,).
        upper: the largest, or where numbers have decimals the one that they end before.
    """

    lower: Amounts
    upper: Amounts

    @property
    def middle(self) -> Amounts:
        """Return the middle of each label."""
        return (self.lower + self.upper) / 2.0

    @property
    def known(self) -> Mask:
        """Return which labels have numbers."""
        return np.isfinite(self.lower)


def labels_of(column: MappedColumn, level: int) -> list[str]:
    """Return the labels of a level, in the order of their codes."""
    return column.hierarchy.labels(np.arange(column.hierarchy.size(level), dtype=np.int64), level)


def edges_of(column: MappedColumn, level: int) -> Edges:
    """Return the numbers that the labels of a level stand for.

    Raises:
        InputRefused: they stand for no numbers.
    """
    labels = labels_of(column, level)
    lower, upper = np.full(len(labels), np.nan), np.full(len(labels), np.nan)
    whole = isinstance(column.hierarchy, IntervalHierarchy)
    for code, label in enumerate(labels):
        if label == BUCKET_LABEL:
            continue
        if isinstance(column.hierarchy, ValueHierarchy):
            lower[code] = upper[code] = _number(label)
            continue
        first, beyond = label_bounds(label)
        if first and beyond:
            lower[code] = float(first)
            upper[code] = float(beyond) - 1.0 if whole else float(beyond)
    if not np.isfinite(lower).any():
        raise InputRefused(
            f"the labels of column {column.name!r} stand for no numbers.",
            not_done=NOTHING_COUNTED,
            remedy="Ask for shares of its labels instead.",
        )
    return Edges(lower=lower, upper=upper)


def require_no_cap(column: MappedColumn, selection: Mapping[int, Mask], place: int) -> None:
    """Refuse the mean or quantile of numbers one of whose labels, such as `4 or more`, has no largest one.

    Units above the cap would be left out, which are another choice of units.

    Args:
        column: of the numbers.
        selection: of the records; one that has no such label is taken.
        place: of the column.

    Raises:
        InputRefused: there is such a label.
    """
    mask = selection.get(place)
    for code in caps_of(column, column.level):
        if mask is None or mask[code]:
            raise refused_cap(column, labels_of(column, column.level)[code], remedy=_BELOW_THE_CAP)


def caps_of(column: MappedColumn, level: int) -> dict[int, float]:
    """Return the code of each listed label that has no largest number, such as `4 or more`, with its least one.

    The labels beyond an interval hierarchy's range are none of them: what is there counts as outside of the range.
    """
    if not isinstance(column.hierarchy, ValueHierarchy):
        return {}
    found = {code: _CAPPED.fullmatch(label) for code, label in enumerate(labels_of(column, level))}
    return {code: float(cap[1] or cap[2]) for code, cap in found.items() if cap is not None}


def refused_cap(column: MappedColumn, label: str, *, remedy: str) -> InputRefused:
    """Return what is said where a label has no largest number."""
    return InputRefused(
        f"column {column.name!r} has the label {label!r}, which has no largest number.",
        not_done=NOTHING_COUNTED,
        remedy=remedy,
    )


def _number(label: str) -> float:
    try:
        return float(label)
    except ValueError:
        return float("nan")


def place_of(name: str, columns: Sequence[MappedColumn]) -> int:
    """Return a column's place; InputRefused where there is none of this name."""
    for place, column in enumerate(columns):
        if column.name == name:
            return place
    names = ", ".join(column.name for column in columns)
    raise InputRefused(
        f"there is no column {name!r} whose labels are known.",
        not_done=NOTHING_COUNTED,
        remedy=f"There are {names}.",
    )


def selection_of(where: Where, columns: Sequence[MappedColumn]) -> dict[int, Mask]:
    """Return per column that a condition names the finest labels that fulfil it, each of shape (labels,).

    Columns of which every label is asked for are left out.

    Raises:
        InputRefused: no condition; a column or a label that there isn't, or that is finer than what is published.
    """
    if not isinstance(where, Mapping):
        raise InputRefused(
            "a condition names columns and what is asked of each.",
            where="where",
            not_done=NOTHING_COUNTED,
            remedy='Write it as {"column": "label"}.',
        )
    found = {}
    for name, asked in where.items():
        place = place_of(name, columns)
        mask = _mask(columns[place], asked)
        if not mask.all():
            found[place] = mask
    return found


def _mask(column: MappedColumn, asked: object) -> Mask:
    if isinstance(asked, range):
        return _within(column, asked)
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        return _labelled(column, asked)
    mask = np.zeros(column.size, dtype=np.bool_)
    for one in asked:
        mask |= _mask(column, one)
    return mask


def _labelled(column: MappedColumn, asked: object) -> Mask:
    """Return the finest labels below a label of any level, the finest level that has it; or those of an interval."""
    text = str(int(asked)) if isinstance(asked, float) and asked.is_integer() else str(asked)
    for level in range(column.level, column.hierarchy.levels):
        labels = labels_of(column, level)
        if text in labels:
            codes = column.hierarchy.coarser(np.arange(column.size, dtype=np.int64), level=column.level, to=level)
            found: Mask = codes == labels.index(text)
            return found
    if not isinstance(column.hierarchy, ValueHierarchy):
        lower, upper = label_bounds(text)
        if lower or upper:
            return _between(column, text, float(lower or "-inf"), float(upper or "inf"))
    raise _refused(column, text)


def _within(column: MappedColumn, asked: range) -> Mask:
    if asked.step != 1:
        raise _refused(column, str(asked))
    return _between(column, str(asked), float(asked.start), float(asked.stop))


def _between(column: MappedColumn, text: str, lower: float, upper: float) -> Mask:
    """Return the labels whose numbers are at least the lower and below the upper; none may lie across an end."""
    if isinstance(column.hierarchy, ValueHierarchy):
        numbers = edges_of(column, column.level).lower
        for code, least in caps_of(column, column.level).items():
            if upper > least:
                raise refused_cap(
                    column,
                    labels_of(column, column.level)[code],
                    remedy=f"{text} reaches into it: ask for a list of labels, or for a range that ends at {least:g}.",
                )
        with np.errstate(invalid="ignore"):
            return np.asarray((numbers >= lower) & (numbers < upper))
    mask = np.zeros(column.size, dtype=np.bool_)
    for code, label in enumerate(labels_of(column, column.level)):
        first, beyond = label_bounds(label)
        if not (first or beyond):
            continue
        own = float(first or "-inf"), float(beyond or "inf")
        inside, outside = lower <= own[0] and own[1] <= upper, own[1] <= lower or own[0] >= upper
        if not inside and not outside:
            raise _refused(column, text)
        mask[code] = inside
    return mask


def _refused(column: MappedColumn, text: str) -> InputRefused:
    labels = labels_of(column, column.level)
    shown = ", ".join(labels[:_SHOWN]) + (", …" if len(labels) > _SHOWN else "")
    return InputRefused(
        f"{text!r} is no label of column {column.name!r}, nor made of its labels, which can't be counted finer.",
        not_done=NOTHING_COUNTED,
        remedy=f"The finest labels are {shown}",
    )
