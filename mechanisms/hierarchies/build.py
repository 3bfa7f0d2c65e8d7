"""Hierarchies made from what is declared: cut points, days, prefixes, an outline, parents, a description."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .decimals import DecimalIntervals, NumberSteps, WeightClasses
from .declare import BUCKET_LABEL, Hierarchy, HierarchyError, IntervalHierarchy, ValueHierarchy

MOST_ROWS = 1_000_000
MOST_DAYS = 200_000
"""More than five centuries."""
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
DATE_PART = re.compile(r"(%-?.?)")
DAY_LEVELS = ("month", "quarter", "year", "decade")
"""What days may be merged into, each a part of the next."""

Rows = list[tuple[str, ...]]


def interval_rows(lower: int, upper: int, cuts: Sequence[Sequence[int]]) -> Rows:
    """Whole numbers lower ≤ v < upper, a level of half-open intervals for each list of cut points, then `*`.

    Unlike `IntervalHierarchy`, intervals of a level may differ in width; every number is a row.

    Args:
        lower: the least number.
        upper: the first number above.
        cuts: for each level, finest first, where an interval ends and the next begins.

    Raises:
        HierarchyError: an empty domain or one of more than a million numbers, cut points that don't ascend within
            it, or a level that cuts where the one below doesn't; `row` is the level's number from 0.
    """
    if not lower < upper:
        raise HierarchyError(f"the least number must be below the end, not {lower} and {upper}")
    if upper - lower > MOST_ROWS:
        raise HierarchyError(f"{upper - lower} numbers are more than the {MOST_ROWS} rows that a file is built with")
    columns: list[list[str]] = [[str(number) for number in range(lower, upper)]]
    finer: set[int] | None = None
    for level, points in enumerate(cuts):
        if any(left >= right for left, right in pairwise((lower, *points, upper))):
            raise HierarchyError(f"cut points must ascend between {lower} and {upper}, not {list(points)}", row=level)
        if finer is not None and not set(points) <= finer:
            more = sorted(set(points) - finer)[0]
            raise HierarchyError(f"the level below doesn't cut at {more}, so its intervals would be torn", row=level)
        finer = set(points)
        labels: list[str] = []
        for start, end in pairwise((lower, *points, upper)):
            labels += [f"[{start}, {end})"] * (end - start)
        columns.append(labels)
    return [(*row, BUCKET_LABEL) for row in zip(*columns, strict=True)]


def day_rows(days: Sequence[str], levels: Sequence[str]) -> Rows:
    """Days with the month, quarter, year or decade that each lies in, then `*`.

    Args:
        days: in the form 2026-03-31.
        levels: some of DAY_LEVELS, in their order.

    Raises:
        HierarchyError: an unknown level, or levels out of order (weeks, which no month holds whole, are none).
    """
    unknown = [level for level in levels if level not in DAY_LEVELS]
    if unknown:
        raise HierarchyError(f"there is no level {unknown[0]!r}; there are {', '.join(DAY_LEVELS)}")
    places = [DAY_LEVELS.index(level) for level in levels]
    if any(left >= right for left, right in pairwise(places)):
        raise HierarchyError(f"levels go from fine to coarse, each once: {', '.join(DAY_LEVELS)}")
    return [(day, *(_part_of_day(day, level) for level in levels), BUCKET_LABEL) for day in days]


def written_day(day: str, form: str) -> str:
    """Return a day as records write it, whatever the machine's language is.

    Args:
        day: in the form 2026-03-31.
        form: a text with %Y, %y, %m, %-m, %b, %B, %d and %-d as of strftime, in English; %% is a percent sign.

    Raises:
        HierarchyError: another % in the form.
    """
    year, month, number = day.split("-")
    name = MONTHS[int(month) - 1]
    # strftime isn't used: its names of months follow the machine's language, and the same command would build another
    # hierarchy elsewhere.
    parts = {"%Y": year, "%y": year[2:], "%m": month, "%-m": str(int(month)), "%b": name[:3], "%B": name}
    parts |= {"%d": number, "%-d": str(int(number)), "%%": "%"}
    pieces = DATE_PART.split(form)
    unknown = [piece for piece in pieces if piece.startswith("%") and piece not in parts]
    if unknown:
        raise HierarchyError(f"{unknown[0]!r} is no part of a day")
    return "".join(parts.get(piece, piece) for piece in pieces)


def _part_of_day(day: str, level: str) -> str:
    year, month = day[:4], int(day[5:7])
    match level:
        case "month":
            return day[:7]
        case "quarter":
            return f"{year}-Q{(month + 2) // 3}"
        case "year":
            return year
        case _:
            return f"{year[:3]}0s"


TIMESTAMP = re.compile(rb"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class DateHierarchy(ValueHierarchy):
    """The days from the first to the last, at levels: the day, each of `merged` in turn, `*`; build it with `of`.

    It differs from the same days in a file in two things. It is described by its bounds, however many days there are.
    And a time of day without a zone counts as its day, since tables often store days so; with a zone it depends on
    the reader which day it is, and it is `*`, as every other text and every day outside the bounds.

    Args:
        first: in the form 2026-03-31.
        last: likewise, none before the first.
        merged: some of DAY_LEVELS, in their order.
    """

    first: str
    last: str
    merged: tuple[str, ...]

    @staticmethod
    def of(*, first: str, last: str, merged: Sequence[str]) -> DateHierarchy:
        """Declare the days and what they are merged into.

        Raises:
            ValueError: a bound is no day, the last comes before the first, there are more than MOST_DAYS, or there are
                no such levels.
        """
        start, end = (_ordinal(day) for day in (first, last))
        if start > end:
            raise ValueError(f"the days would run from {first} to {last}, which comes before it")
        if end - start >= MOST_DAYS:
            raise ValueError(f"{end - start + 1} days are more than the {MOST_DAYS} that are declared by their bounds")
        days = [date.fromordinal(number).isoformat() for number in range(start, end + 1)]
        listed = ValueHierarchy.from_rows(day_rows(days, merged))
        return DateHierarchy(
            level_labels=listed.level_labels,
            level_codes=listed.level_codes,
            leaf_of_text=listed.leaf_of_text,
            leaf_of_integer=listed.leaf_of_integer,
            first=first,
            last=last,
            merged=tuple(merged),
        )

    @staticmethod
    def described(description: Mapping[str, Any]) -> DateHierarchy:
        """Return the days that were described.

        Raises:
            KeyError, TypeError, ValueError: it describes none.
        """
        first, last, merged = (description[name] for name in ("from", "to", "levels"))
        if not isinstance(merged, list) or not all(isinstance(text, str) for text in (first, last, *merged)):
            raise TypeError("the bounds of days and the names of levels are texts")
        return DateHierarchy.of(first=first, last=last, merged=merged)

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Return the code of each text at a level, the bucket's for None and what is no such day; shape (n,)."""
        days = [text if text is None or text in self.leaf_of_text else _day_of_timestamp(text) for text in texts]
        return ValueHierarchy.codes_of_texts(self, days, level)

    def description(self) -> dict[str, object]:
        """Return the bounds and the levels between the day and `*`."""
        return {"kind": "dates/1", "from": self.first, "to": self.last, "levels": list(self.merged)}

    def __repr__(self) -> str:
        """Return a short form."""
        return f"DateHierarchy(first={self.first!r}, last={self.last!r}, merged={self.merged!r})"


def _ordinal(day: str) -> int:
    """Return the number of a day from 0001-01-01 on, which is 1."""
    try:
        parsed = date.fromisoformat(day)
    except ValueError:
        raise ValueError(f"{day!r} is no day such as 2026-03-31") from None
    # fromisoformat also reads 20260331 and 2026-W14-2. One day must have one form, or two descriptions of the same days
    # would have different digests.
    if parsed.isoformat() != day:
        raise ValueError(f"{day!r} is no day such as 2026-03-31")
    return parsed.toordinal()


def _day_of_timestamp(text: bytes) -> bytes | None:
    timestamp = TIMESTAMP.fullmatch(text)
    return None if timestamp is None else timestamp[1]


def prefix_rows(values: Sequence[str], lengths: Sequence[int], *, mark: str) -> Rows:
    """Codes with shorter and shorter prefixes of themselves, then `*`: postal codes, codes of industries, of diseases.

    Args:
        values: the codes, by a public list.
        lengths: characters kept at each level, descending; a code that is no longer than that stays whole.
        mark: stands for each character left out, so that the length still shows (`751**`); may be empty (`751`).

    Raises:
        HierarchyError: lengths that don't descend to 1 or more.
    """
    if not lengths or any(left <= right for left, right in pairwise(lengths)) or lengths[-1] < 1:
        raise HierarchyError(f"the lengths of prefixes must descend, the last at least 1, not {list(lengths)}")
    return [
        (value, *(value[:length] + mark * (len(value) - length) for length in lengths), BUCKET_LABEL)
        for value in values
    ]


def outline_rows(lines: Sequence[str]) -> Rows:
    """Return an outline: what is indented below a line belongs to it; lines without anything below are the values.

    A value that lies less deep than others keeps its own name up to the level of its parent. Empty lines and lines
    that begin with # are passed over.

    Args:
        lines: without line breaks, indented by tabs or by spaces.

    Raises:
        HierarchyError: an indentation that belongs to no line above, tabs and spaces mixed, or no line at all; with
            the line's number from 0.
    """
    paths: list[tuple[str, ...]] = []
    above: list[tuple[int, str]] = []
    previous: tuple[str, ...] = ()
    kinds: set[str] = set()
    for number, line in enumerate(lines):
        text = line.strip(" \t")
        if not text or text.startswith("#"):
            continue
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        kinds |= set(indent)
        if len(kinds) > 1:
            raise HierarchyError("indent by tabs or by spaces, not by both", row=number)
        deeper = bool(above) and len(indent) > above[-1][0]
        left = len(indent) if deeper else 0
        while above and above[-1][0] >= len(indent):
            left = above.pop()[0]
        if left != len(indent):
            raise HierarchyError("this line is indented like none above it", row=number)
        if previous and not deeper:
            paths.append(previous)
        above.append((len(indent), text))
        previous = tuple(name for _, name in above)
    if not previous:
        raise HierarchyError("the outline has no line")
    return _padded([*paths, previous])


def parent_rows(parent_of: Mapping[str, str]) -> Rows:
    """Return codes with their parents, as code lists are published; codes that are no parent are the values.

    Args:
        parent_of: code → the code above it, empty at the top.

    Raises:
        HierarchyError: codes that are above themselves, or none at all.
    """
    parents = {parent for parent in parent_of.values() if parent}
    leaves = [code for code in parent_of if code not in parents]
    if not leaves:
        raise HierarchyError("no code is a value: each is a parent of another, or there is none")
    paths = []
    for leaf in leaves:
        path = [leaf]
        while parent := parent_of.get(path[-1], ""):
            if parent in path:
                raise HierarchyError(f"{parent!r} lies above itself")
            path.append(parent)
        paths.append(tuple(reversed(path)))
    reached = {code for path in paths for code in path}
    lost = [code for code in parent_of if code not in reached]
    if lost:
        raise HierarchyError(f"{lost[0]!r} lies above itself")
    return _padded(paths)


def _padded(paths: Sequence[tuple[str, ...]]) -> Rows:
    """Return paths from the root to the value as rows from the value to `*`, all of one length."""
    depth = max(len(path) for path in paths)
    rows = [(path[-1],) * (depth - len(path)) + tuple(reversed(path)) for path in paths]
    return [row if row[-1] == BUCKET_LABEL else (*row, BUCKET_LABEL) for row in rows]


MOST_LEVELS = 1_000
_INTERVAL = re.compile(r"\[(-?[0-9]{1,20}), -?[0-9]{1,20}\)")
_END = re.compile(r"(<|>=) (-?[0-9]{1,20})")
_NUMBER = re.compile(r"-?[0-9]{1,20}")


def described_hierarchy(description: Mapping[str, Any]) -> Hierarchy:
    """Return the hierarchy that was described; its own description may differ where this one is not canonical.

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
        case "dates/1":
            return DateHierarchy.described(description)
        case "decimal-interval/1":
            return DecimalIntervals.described(description)
        case "number-steps/1":
            return NumberSteps(cuts=tuple(float.fromhex(cut) for cut in description["cuts"]))
        case "weight-classes/1":
            return WeightClasses.described(description)
        case _:
            raise ValueError("this kind of hierarchy is unknown")


def labels_beyond(hierarchy: Hierarchy, labels: Iterable[str], *, level: int) -> frozenset[str]:
    """Return those of some labels that a hierarchy doesn't publish at a level; `*` is always published."""
    asked = frozenset(labels) - {BUCKET_LABEL}
    if isinstance(hierarchy, DecimalIntervals):
        return frozenset(label for label in asked if not hierarchy.publishes(label, level))
    # The label is accepted if the number that it names is put under this very label, whatever the number of labels.
    if isinstance(hierarchy, IntervalHierarchy):  # it may have too many labels to list
        return frozenset(label for label in asked if not _is_interval(hierarchy, label, level))
    return asked.difference(hierarchy.labels(np.arange(hierarchy.size(level), dtype=np.int64), level))


def _is_interval(hierarchy: IntervalHierarchy, label: str, level: int) -> bool:
    """Return whether the label is that of a number that lies in it."""
    number = _number_within(label)
    if number is None:
        return False
    return hierarchy.labels(hierarchy.codes_of_texts([str(number).encode()], level), level) == [label]


def _number_within(label: str) -> int | None:
    """Return a whole number that an interval's label stands for; None where it is no interval's."""
    if (interval := _INTERVAL.fullmatch(label)) is not None:
        return int(interval[1])
    if (end := _END.fullmatch(label)) is not None:
        return int(end[2]) - (end[1] == "<")
    return int(label) if _NUMBER.fullmatch(label) else None
