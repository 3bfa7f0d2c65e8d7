"""A hierarchy made again from its description, and which published labels are none of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .hierarchy import BUCKET_LABEL, Hierarchy, ValueHierarchy
from .intervals import IntervalHierarchy
from .number_steps import NumberSteps

__all__ = ["described_hierarchy", "labels_beyond"]

MOST_LEVELS = 1_000
_INTERVAL = re.compile(r"\[(-?[0-9]{1,20}), -?[0-9]{1,20}\)")
_END = re.compile(r"(<|>=) (-?[0-9]{1,20})")
_NUMBER = re.compile(r"-?[0-9]{1,20}")


def described_hierarchy(description: Mapping[str, Any]) -> Hierarchy:
    """The hierarchy that was described; its own description may differ where this one is not canonical.

    Args:
        description: as `Hierarchy.description` gives it, or whatever somebody says is one.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it describes none.
    """
    match description["kind"]:
        case "values/1":
            rows, levels = description["rows"], description["levels"]
            if type(levels) is not int or not 1 <= levels <= MOST_LEVELS:
                raise ValueError(f"a hierarchy has 1 … {MOST_LEVELS} levels")
            values = ValueHierarchy.from_rows(rows or [[BUCKET_LABEL] * levels])
            return values.folded() if description.get("fold_case") is True else values
        case "interval/1":
            lower, upper, widths = (description[name] for name in ("lower", "upper", "widths"))
            if any(type(number) is not int for number in (lower, upper, *widths)):
                raise TypeError("an interval has whole numbers")
            return IntervalHierarchy(lower=lower, upper=upper, widths=tuple(widths))
        case "number-steps/1":
            return NumberSteps(cuts=tuple(float.fromhex(cut) for cut in description["cuts"]))
        case _:
            raise ValueError("this kind of hierarchy is unknown")


def labels_beyond(hierarchy: Hierarchy, labels: Iterable[str], *, level: int) -> frozenset[str]:
    """Those of some labels that a hierarchy doesn't publish at a level; `*` is always published.

    Args:
        hierarchy: one of those that `described_hierarchy` makes.
        labels: texts.
        level: one of the hierarchy's own.
    """
    asked = frozenset(labels) - {BUCKET_LABEL}
    if isinstance(hierarchy, IntervalHierarchy):  # it may have too many labels to list
        return frozenset(label for label in asked if not _is_interval(hierarchy, label, level))
    return asked.difference(hierarchy.labels(np.arange(hierarchy.size(level), dtype=np.int64), level))


def _is_interval(hierarchy: IntervalHierarchy, label: str, level: int) -> bool:
    """Whether the label is that of a number that lies in it."""
    number = _number_within(label)
    if number is None:
        return False
    return hierarchy.labels(hierarchy.codes_of_texts([str(number).encode()], level), level) == [label]


def _number_within(label: str) -> int | None:
    """A whole number that an interval's label stands for; None where it is no interval's."""
    if (interval := _INTERVAL.fullmatch(label)) is not None:
        return int(interval[1])
    if (end := _END.fullmatch(label)) is not None:
        return int(end[2]) - (end[1] == "<")
    return int(label) if _NUMBER.fullmatch(label) else None
