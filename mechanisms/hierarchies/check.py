"""What looks like a slip in a declared hierarchy though it breaks no rule, and what a public list of values lacks."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from ..kernel.amounts import counted
from .declare import BUCKET_LABEL, HierarchyFault, canonical_integer

_MOST_NAMED = 5


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
    """Return values of the hierarchy that the domain doesn't have; arguments as of `domain_faults`."""
    declared = set(domain)
    more = [(number, row[0]) for number, row in enumerate(rows) if row[0] not in declared and row[0] != BUCKET_LABEL]
    if not more:
        return []
    unused = counted(len(more), "value of the hierarchy is", "values of the hierarchy are")
    what = f"{unused} not in the domain: {_some([value for _, value in more])}"
    return [HierarchyFault(what=what, row=more[0][0])]


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
    """Yield numbers that a column of integers never matches, since those are compared in canonical decimal."""
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
