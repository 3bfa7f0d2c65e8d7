"""Declared generalization hierarchies: the label of a value at each level, fixed before data are read.

Values are listed, or whole numbers lie in intervals of equal widths in closed form, so that a domain may be very large.
Numbers with decimals are in `decimals.py`."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import nan
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..kernel.recoding import BUCKET_CODE

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1

_CANONICAL = re.compile(rb"-?[1-9][0-9]*|0")
_NUMBER = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SAFE_DIGITS = 40
_BEYOND: int = 10**_SAFE_DIGITS
_DENSE_SLACK = 1 << 12


def canonical_integer(text: bytes) -> int | None:
    """Return the whole number that a text writes in canonical decimal (no sign +, no leading zeros, no -0), or None.

    Numbers of more than 40 characters are answered by ±10**40: far outside every domain here, and Python
    limits how long a text it converts.
    """
    if _CANONICAL.fullmatch(text) is None:
        return None
    if len(text) > _SAFE_DIGITS:
        return -_BEYOND if text.startswith(b"-") else _BEYOND
    return int(text)


def number_of_text(text: bytes | None) -> float:
    """Return the double nearest to the decimal number that a text writes; not a number for other texts and None."""
    return nan if text is None or _NUMBER.fullmatch(text) is None else float(text)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class IntegerIndex:
    """A finite map from 64-bit integers to codes, 0 for every other integer.

    Args:
        numbers: ascending, distinct; shape (n,).
        codes: the code of each number; shape (n,).
        dense: where the numbers lie close together, the code of numbers[0] + i at place i + 1 with a 0 at
            either end; otherwise empty.
    """

    numbers: NDArray[np.int64]
    codes: NDArray[np.int64]
    dense: NDArray[np.int64]

    @staticmethod
    def of(pairs: Sequence[tuple[int, int]]) -> IntegerIndex:
        """Build the index from (number, code) pairs of distinct numbers within 64 bits."""
        ordered = sorted(pairs)
        numbers = np.array([number for number, _ in ordered], dtype=np.int64)
        codes = np.array([code for _, code in ordered], dtype=np.int64)
        dense = np.empty(0, dtype=np.int64)
        if ordered:
            first, last = ordered[0][0], ordered[-1][0]
            # A place before the first and one after the last number must exist in 64 bits, for all that lies outside.
            inside = first > INT64_MIN and last < INT64_MAX
            # A table is several times as fast as a binary search for each record. It is made where it takes at most
            # about four times the memory of the list; the slack of a few thousand is for short lists.
            if inside and last - first < _DENSE_SLACK + 4 * len(ordered):
                dense = np.zeros(last - first + 3, dtype=np.int64)
                dense[numbers - first + 1] = codes
        return IntegerIndex(numbers=numbers, codes=codes, dense=dense)

    def lookup(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the code of every value; shape as given."""
        if self.numbers.size == 0:
            return np.zeros(values.shape, dtype=np.int64)
        if self.dense.size:
            first, last = int(self.numbers[0]), int(self.numbers[-1])
            return self.dense[np.clip(values, first - 1, last + 1) - (first - 1)]
        # A value above all numbers is given the place after the last; cut down, it differs from the number there and
        # has code 0.
        places = np.minimum(np.searchsorted(self.numbers, values), self.numbers.size - 1)
        return np.where(self.numbers[places] == values, self.codes[places], 0)


BUCKET_LABEL = "*"

_FORBIDDEN = "\0\r\n"


class Hierarchy(Protocol):
    """A total map of a column's values to labels, at levels 0 … levels - 1, coarser as the level rises.

    INVARIANT: total (every text and every integer has a code at every level, unseen ones the bucket's),
    monotone (equal codes at a level are equal at all later ones), and declared, never derived from records.
    Code 0 is the bucket `*` at every level; codes of one level run without gaps in the order in which their
    labels are published. A text that is an integer in canonical decimal has the code of that integer.
    """

    @property
    def levels(self) -> int:
        """Return the number of levels."""
        ...

    def size(self, level: int) -> int:
        """Return the number of codes at a level, the bucket included."""
        ...

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Return the code of each UTF-8 text at a level; None (null) and unseen texts have the bucket's; shape (n,)."""
        ...

    def codes_of_integers(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return the code of each integer at a level; shape (n,)."""
        ...

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Return codes at level `to` of codes at a level that is not above it; shape as given."""
        ...

    def label_sizes(self, level: int) -> dict[int, int]:
        """Return how many labels of a level cover how many declared values: {values: labels}; no unseen values."""
        ...

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return how many declared values each code of a level may stand for; shape (n,).

        The bucket, and labels of what lies outside the domain, count as the whole domain: they tell nothing of it.
        """
        ...

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Return the published label of each code of a level."""
        ...

    def description(self) -> dict[str, object]:
        """Return all that was declared, in JSON's terms."""
        ...

    def digest(self) -> str:
        """Return the SHA-256 of the description in canonical form, 64 hexadecimal digits."""
        ...

    def __hash__(self) -> int:
        """Hierarchies never change, so that what is computed of one can be kept by it."""
        ...


def description_digest(description: Mapping[str, object]) -> str:
    """Return the SHA-256 (hex) of a description as JSON with sorted names, without spaces, in ASCII."""
    text = json.dumps(description, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class HierarchyError(ValueError):
    """A declared hierarchy breaks a rule.

    Args:
        what: the fault, in words.
        row: the row at fault, from 0, or None where none is.
    """

    def __init__(self, what: str, *, row: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.row = row


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ValueHierarchy:
    """A finite domain of texts with a label per level; build it with `from_rows` or `from_values`.

    Within a level, codes follow the UTF-8 bytes of the labels, after the bucket.

    Args:
        level_labels: per level, the label of every code; `*` first.
        level_codes: per level, the code of every leaf; the bucket is leaf 0.
        leaf_of_text: leaf number of every declared text.
        leaf_of_integer: the same for the texts that are integers in canonical decimal.
        fold_case: whether texts are compared without regard to case, by Unicode's case folding; then the texts of
            `leaf_of_text` are folded.
    """

    level_labels: tuple[tuple[str, ...], ...]
    level_codes: tuple[NDArray[np.int64], ...]
    leaf_of_text: dict[bytes, int] = field(repr=False)
    leaf_of_integer: IntegerIndex = field(repr=False)
    fold_case: bool = False

    @staticmethod
    def from_rows(rows: Sequence[Sequence[str]]) -> ValueHierarchy:
        """Build from rows that run from the value to its most general label, all of one length.

        A label `*` at any level is the bucket of that level. The last level need not be a single label.

        Raises:
            HierarchyError: no rows, rows of unequal length, an empty or unprintable label, a value declared
                twice, or labels that are not monotone; with the number of the row.
        """
        if not _is_sound(rows):
            fault = hierarchy_faults(rows)[0]
            first = "" if fault.first is None else f", first in row {fault.first + 1}"
            raise HierarchyError(f"{fault.what}{first}", row=fault.row)
        ordered = sorted((row for row in rows if row[0] != BUCKET_LABEL), key=lambda row: row[0].encode())
        level_labels: list[tuple[str, ...]] = []
        level_codes: list[NDArray[np.int64]] = []
        for level in range(len(rows[0])):
            others = {row[level] for row in ordered} - {BUCKET_LABEL}
            names = (BUCKET_LABEL, *sorted(others, key=str.encode))
            code_of = {name: code for code, name in enumerate(names)}
            level_labels.append(names)
            level_codes.append(np.array([0] + [code_of[row[level]] for row in ordered], dtype=np.int64))
        leaf_of_text = {row[0].encode(): leaf for leaf, row in enumerate(ordered, start=1)}
        numbered = [(canonical_integer(text), leaf) for text, leaf in leaf_of_text.items()]
        pairs = [(n, leaf) for n, leaf in numbered if n is not None and INT64_MIN <= n <= INT64_MAX]
        return ValueHierarchy(
            level_labels=tuple(level_labels),
            level_codes=tuple(level_codes),
            leaf_of_text=leaf_of_text,
            leaf_of_integer=IntegerIndex.of(pairs),
        )

    @staticmethod
    def from_values(values: Sequence[str]) -> ValueHierarchy:
        """Build a declared domain: level 0 the value, level 1 `*`.

        Raises:
            HierarchyError: as `from_rows`.
        """
        return ValueHierarchy.from_rows([(value, BUCKET_LABEL) for value in values])

    def folded(self) -> ValueHierarchy:
        """Return the same values, compared without regard to case; published as they are declared.

        Raises:
            HierarchyError: two values differ in case alone.
        """
        leaf_of_text: dict[bytes, int] = {}
        for text, leaf in self.leaf_of_text.items():
            folded = _folded(text)
            if folded in leaf_of_text:
                raise HierarchyError(f"the value {text.decode()!r} and another differ in case alone")
            leaf_of_text[folded] = leaf
        return replace(self, leaf_of_text=leaf_of_text, fold_case=True)

    @property
    def levels(self) -> int:
        """Return the number of levels, level 0 (the value itself) included."""
        return len(self.level_labels)

    def size(self, level: int) -> int:
        """Return the number of codes at a level, the bucket included."""
        return len(self.level_labels[level])

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Return the code of each text at a level; None and unseen texts have the bucket's; shape (n,)."""
        leaf_of = self.leaf_of_text
        compared = [text and _folded(text) for text in texts] if self.fold_case else texts
        leaves = [0 if text is None else leaf_of.get(text, 0) for text in compared]
        return self.level_codes[level][np.array(leaves, dtype=np.int64)]

    def codes_of_integers(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return the code of each integer at a level, by its canonical decimal text; shape (n,)."""
        return self.level_codes[level][self.leaf_of_integer.lookup(values)]

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Return the codes at level `to`, which may not lie below the level; shape as given."""
        if to < level:
            raise ValueError(f"level {to} is finer than level {level}")
        table = np.zeros(self.size(level), dtype=np.int64)
        table[self.level_codes[level]] = self.level_codes[to]  # monotone: all leaves of a label agree
        return table[codes]

    def label_sizes(self, level: int) -> dict[int, int]:
        """Return how many labels of a level cover how many declared values: {values: labels}."""
        covered = np.bincount(self.level_codes[level][1:], minlength=self.size(level))
        sizes, labels = np.unique(covered[covered > 0], return_counts=True)
        return dict(zip(sizes.tolist(), labels.tolist(), strict=True))

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return how many declared values each code of a level may stand for, the bucket all of them; shape (n,)."""
        covered = np.bincount(self.level_codes[level][1:], minlength=self.size(level))
        covered[BUCKET_CODE] = len(self.level_codes[level]) - 1
        counts: NDArray[np.int64] = covered[codes]
        return counts

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Return the published label of each code of a level."""
        names = self.level_labels[level]
        return [names[code] for code in codes.tolist()]

    def rows(self) -> list[list[str]]:
        """Return the declared rows without the bucket's, ordered by the UTF-8 bytes of the value."""
        return [
            [names[codes[leaf]] for names, codes in zip(self.level_labels, self.level_codes, strict=True)]
            for leaf in range(1, len(self.level_codes[0]))
        ]

    def description(self) -> dict[str, object]:
        """Return the declared rows in canonical order, and whether case is folded."""
        description: dict[str, object] = {"kind": "values/1", "levels": self.levels, "rows": self.rows()}
        return description | {"fold_case": True} if self.fold_case else description

    def digest(self) -> str:
        """Return the SHA-256 of the declared rows in canonical order, 64 hexadecimal digits."""
        return description_digest(self.description())

    def __repr__(self) -> str:
        """Return a short form; a hierarchy may have a hundred thousand leaves."""
        return f"ValueHierarchy(values={len(self.leaf_of_text)}, levels={self.levels})"


def _folded(text: bytes) -> bytes:
    """Return a text without regard to case; what is not UTF-8 stays as it is."""
    try:
        return text.decode().casefold().encode()
    except UnicodeDecodeError:
        return text


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


def _is_sound(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether `hierarchy_faults` finds nothing; several times as fast, since there may be a million rows."""
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows) or len({row[0] for row in rows}) < len(rows):
        return False
    if not all(map(_is_label, {label for row in rows for label in row})):
        return False
    for level in range(width - 1):
        parent_of = {BUCKET_LABEL: BUCKET_LABEL}  # the bucket counts as a value that is `*` everywhere
        if any(parent_of.setdefault(row[level], row[level + 1]) != row[level + 1] for row in rows):
            return False
    return True


def _is_label(text: str) -> bool:
    return (
        text != "" and not any(mark in text for mark in _FORBIDDEN) and not any("\ud800" <= c <= "\udfff" for c in text)
    )


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
            elif not _is_label(label):
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


_BOTTOM_CODE = 1
_FIRST_CODE = 2
_BOUND = 1 << 60


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalHierarchy:
    """Whole numbers lower ≤ v < upper at levels: the value, each width in turn, `*`.

    Intervals are anchored at `lower`; the last of a level is cut off at `upper`. At every level but the last
    a smaller number has the bottom code (`< lower`), a larger one the top code (`>= upper`), and whatever is
    not an integer in canonical decimal has the bucket's. Codes ascend: bucket, bottom, intervals, top.

    Args:
        lower: least number of the domain.
        upper: first number above the domain.
        widths: ascending, each dividing the next; may be empty.

    Raises:
        ValueError: an empty or too large domain, or widths that are not nested.
    """

    lower: int
    upper: int
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not -_BOUND <= self.lower < self.upper <= _BOUND:
            raise ValueError(f"an interval needs lower < upper, both within ±2**60, not {self.lower} and {self.upper}")
        if any(width < 1 for width in self.widths):
            raise ValueError(f"interval widths must be at least 1, not {list(self.widths)}")
        if any(finer >= coarser or coarser % finer for finer, coarser in pairwise(self.widths)):
            raise ValueError(f"interval widths must ascend, each dividing the next, not {list(self.widths)}")
        if any(width > 2 * _BOUND for width in self.widths):
            raise ValueError(f"interval widths must be at most 2**61, not {list(self.widths)}")

    @property
    def levels(self) -> int:
        """Return the number of levels: the value, the widths, `*`."""
        return len(self.widths) + 2

    def size(self, level: int) -> int:
        """Return the number of codes at a level, the bucket included."""
        width = self._width(level)
        return 1 if width is None else _FIRST_CODE + -(-(self.upper - self.lower) // width) + 1

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Return the code of each text at a level; None and texts that are no canonical integer have the bucket's."""
        numbers = [None if text is None else canonical_integer(text) for text in texts]
        clipped = [self.lower if n is None else min(max(n, INT64_MIN), INT64_MAX) for n in numbers]
        codes = self.codes_of_integers(np.array(clipped, dtype=np.int64), level)
        codes[np.array([n is None for n in numbers], dtype=np.bool_)] = BUCKET_CODE
        return codes

    def codes_of_integers(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return the code of each integer at a level; shape (n,)."""
        width = self._width(level)
        if width is None:
            return np.zeros(values.shape, dtype=np.int64)
        offsets = np.clip(values, self.lower - 1, self.upper) - self.lower
        codes = offsets // width + _FIRST_CODE  # one below the domain gives the bottom code
        codes[offsets == self.upper - self.lower] = self.size(level) - 1
        return codes

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Return the codes at level `to`, which may not lie below the level; shape as given."""
        if to < level:
            raise ValueError(f"level {to} is finer than level {level}")
        width, coarse = self._width(level), self._width(to)
        if coarse is None or width is None:
            return np.zeros(codes.shape, dtype=np.int64)
        merged = (codes - _FIRST_CODE) // (coarse // width) + _FIRST_CODE  # the bottom code stays what it is
        merged[codes == BUCKET_CODE] = BUCKET_CODE
        merged[codes == self.size(level) - 1] = self.size(to) - 1
        return merged

    def label_sizes(self, level: int) -> dict[int, int]:
        """Return how many labels of a level cover how many declared values: {values: labels}; no bottom or top."""
        domain = self.upper - self.lower
        width = min(self._width(level) or domain, domain)
        whole, rest = divmod(domain, width)
        return {width: whole} | ({rest: 1} if rest else {})

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return how many declared numbers each code may stand for; bucket, bottom and top: all; shape (n,)."""
        width, domain = self._width(level), self.upper - self.lower
        covered = np.full(codes.shape, domain, dtype=np.int64)
        if width is None:
            return covered
        inside = (codes >= _FIRST_CODE) & (codes < self.size(level) - 1)
        starts = (codes[inside] - _FIRST_CODE) * width
        covered[inside] = np.minimum(width, domain - starts)
        return covered

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Return the published label of each code of a level, for example `[0, 5000)`, `< 0` or `>= 200000`."""
        return [self.label(code, level) for code in codes.tolist()]

    def label(self, code: int, level: int, *, shown: Callable[[int], str] | None = None) -> str:
        """Return the label of a code; where numbers are units that are `shown` so, level 0 has intervals too."""
        width = self._width(level)
        if not 0 <= code < self.size(level):
            raise IndexError(f"code {code} at level {level}")
        if width is None or code == BUCKET_CODE:
            return BUCKET_LABEL
        text = shown or str
        if code == _BOTTOM_CODE:
            return f"< {text(self.lower)}"
        if code == self.size(level) - 1:
            return f">= {text(self.upper)}"
        start = self.lower + (code - _FIRST_CODE) * width
        if level == 0 and shown is None:
            return text(start)
        return f"[{text(start)}, {text(min(start + width, self.upper))})"

    def description(self) -> dict[str, object]:
        """Return the bounds and widths."""
        return {"kind": "interval/1", "lower": self.lower, "upper": self.upper, "widths": list(self.widths)}

    def digest(self) -> str:
        """Return the SHA-256 of the bounds and widths in canonical form, 64 hexadecimal digits."""
        return description_digest(self.description())

    def _width(self, level: int) -> int | None:
        if not 0 <= level < self.levels:
            raise IndexError(f"level {level} of {self.levels}")
        if level == self.levels - 1:
            return None
        return 1 if level == 0 else self.widths[level - 1]
