"""Everything that is wrong with a declared hierarchy at once, and what looks like a slip though it breaks no rule."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..kernel.amounts import counted
from .declare import BUCKET_LABEL, canonical_integer

_FORBIDDEN = "\0\r\n"
_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class HierarchyFault:
    """One thing found.

    Args:
        what: in words; it may quote declared labels, which are public.
        row: the row where it shows, from 0; None where it is of the whole.
        first: the row with which it doesn't go together, from 0, where there is one.
    """

    what: str
    row: int | None = None
    first: int | None = None


def hierarchy_faults(rows: Sequence[Sequence[str]]) -> list[HierarchyFault]:
    """Return all breaks of the rules of `ValueHierarchy.from_rows`, by row; none exactly where that succeeds."""
    if not rows:
        return [HierarchyFault(what="the hierarchy declares no value")]
    faults = [*_root_first(rows), *_shape(rows), *_twice(rows)]
    if all(len(row) == len(rows[0]) for row in rows):
        faults += _not_monotone(rows)
    return sorted(faults, key=lambda fault: fault.row or 0)


def hierarchy_remarks(rows: Sequence[Sequence[str]]) -> list[HierarchyFault]:
    """Return what breaks no rule but is seldom meant."""
    found = [*_header_like(rows), *_stray_spaces(rows), *_same_but_for_spelling(rows), *_unread_integers(rows)]
    sizes = [len({row[level] for row in rows}) for level in range(len(rows[0]))]
    for level in range(1, len(sizes)):
        if sizes[level] == sizes[level - 1]:
            found.append(
                HierarchyFault(what=f"level {level} merges nothing: it has as many labels as level {level - 1}")
            )
    if {row[-1] for row in rows} != {BUCKET_LABEL}:
        found.append(
            HierarchyFault(
                what=f"the last level has {sizes[-1]} labels and not `*` alone, so the column can't be left blank"
            )
        )
    return found


def domain_faults(rows: Sequence[Sequence[str]], domain: Iterable[str]) -> list[HierarchyFault]:
    """Declared values that the hierarchy doesn't have: each would be published as `*` at every level."""
    known = {row[0] for row in rows}
    missing = [value for value in dict.fromkeys(domain) if value not in known]
    if not missing:
        return []
    lost = counted(len(missing), "value of the domain is", "values of the domain are")
    what = f"{lost} not in the hierarchy and would be published as `*`: {_some(missing)}"
    return [HierarchyFault(what=what)]


def domain_remarks(rows: Sequence[Sequence[str]], domain: Iterable[str]) -> list[HierarchyFault]:
    """Values of the hierarchy that the domain doesn't have; arguments as of `domain_faults`."""
    declared = set(domain)
    more = [(number, row[0]) for number, row in enumerate(rows) if row[0] not in declared and row[0] != BUCKET_LABEL]
    if not more:
        return []
    unused = counted(len(more), "value of the hierarchy is", "values of the hierarchy are")
    what = f"{unused} not in the domain: {_some([value for _, value in more])}"
    return [HierarchyFault(what=what, row=more[0][0])]


def _shape(rows: Sequence[Sequence[str]]) -> Iterator[HierarchyFault]:
    width = len(rows[0])
    for number, row in enumerate(rows):
        if not row:
            yield HierarchyFault(what="this row is empty", row=number)
        elif len(row) != width:
            yield HierarchyFault(what=f"this row has {len(row)} levels where the first has {width}", row=number)
        for level, label in enumerate(row):
            if label == "":
                yield HierarchyFault(what=f"the label at level {level} is empty", row=number)
            elif any(mark in label for mark in _FORBIDDEN) or any(0xD800 <= ord(mark) <= 0xDFFF for mark in label):
                what = f"the label at level {level} has a line break, a NUL or a character outside Unicode"
                yield HierarchyFault(what=what, row=number)


def _root_first(rows: Sequence[Sequence[str]]) -> Iterator[HierarchyFault]:
    if all(rows) and len({row[0] for row in rows}) == 1 < len({row[-1] for row in rows}):
        yield HierarchyFault(what="every row begins with the same label, as if the rows were written root first")


def _twice(rows: Sequence[Sequence[str]]) -> Iterator[HierarchyFault]:
    first: dict[str, int] = {}
    for number, row in enumerate(rows):
        if row and row[0] in first:
            yield HierarchyFault(what=f"the value {row[0]!r} is declared twice", row=number, first=first[row[0]])
        elif row:
            first[row[0]] = number


def _not_monotone(rows: Sequence[Sequence[str]]) -> Iterator[HierarchyFault]:
    """Equal labels that part at the next level; what most rows say is taken for right."""
    for level in range(len(rows[0]) - 1):
        votes: dict[str, Counter[str]] = {}
        for row in rows:
            votes.setdefault(row[level], Counter())[row[level + 1]] += 1
        usual = {label: counted.most_common(1)[0][0] for label, counted in votes.items()}
        usual[BUCKET_LABEL] = BUCKET_LABEL
        for number, row in enumerate(rows):
            if row[level + 1] != usual[row[level]]:
                what = (
                    f"{row[level]!r} at level {level} becomes {row[level + 1]!r} at level {level + 1}, but "
                    f"{usual[row[level]]!r} elsewhere: equal labels must stay equal at the levels above"
                )
                yield HierarchyFault(what=what, row=number)


def _stray_spaces(rows: Sequence[Sequence[str]]) -> Iterator[HierarchyFault]:
    strayed = [number for number, row in enumerate(rows) if any(label != label.strip() for label in row)]
    if strayed:
        what = (
            f"{counted(len(strayed), 'row has', 'rows have')} labels that begin or end with a "
            f"space; values are compared as they are written"
        )
        yield HierarchyFault(what=what, row=strayed[0])


def _same_but_for_spelling(rows: Sequence[Sequence[str]]) -> Iterator[HierarchyFault]:
    for level in range(len(rows[0])):
        first: dict[str, str] = {}
        reported: set[str] = set()
        for number, row in enumerate(rows):
            plain = " ".join(unicodedata.normalize("NFKC", row[level]).casefold().split())
            other = first.setdefault(plain, row[level])
            if other != row[level] and plain not in reported:
                reported.add(plain)
                what = f"{row[level]!r} and {other!r} at level {level} differ in case, spaces or composition alone"
                yield HierarchyFault(what=what, row=number)


def _header_like(rows: Sequence[Sequence[str]]) -> Iterator[HierarchyFault]:
    """Yield a first row that does not end in `*` as all others do."""
    if len(rows) > 2 and {row[-1] for row in rows[1:]} == {BUCKET_LABEL} != {rows[0][-1]}:
        yield HierarchyFault(what="no other row ends as the first does: if it names the levels, it is a header", row=0)


def _unread_integers(rows: Sequence[Sequence[str]]) -> Iterator[HierarchyFault]:
    """Numbers that a column of integers never matches, since those are compared in canonical decimal."""
    odd = [
        number
        for number, row in enumerate(rows)
        if row[0].strip().lstrip("+-").isdecimal() and canonical_integer(row[0].encode()) is None
    ]
    if odd:
        what = (
            f"{counted(len(odd), 'value is a number', 'values are numbers')} in another form than "
            f"7, 0 or -7, such as {rows[odd[0]][0]!r}: texts match "
            "them, integers of a Parquet column don't"
        )
        yield HierarchyFault(what=what, row=odd[0])


def _some(values: Sequence[str]) -> str:
    named = ", ".join(repr(value) for value in values[:_MOST_NAMED])
    return named if len(values) <= _MOST_NAMED else f"{named} and {len(values) - _MOST_NAMED} more"
