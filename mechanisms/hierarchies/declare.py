"""Declared generalization hierarchies: the label of a value at each level, fixed before data are read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..integers import INT64_MAX, INT64_MIN, IntegerIndex, canonical_integer

__all__ = ["BUCKET_CODE", "BUCKET_LABEL", "Hierarchy", "HierarchyError", "ValueHierarchy", "description_digest"]

BUCKET_CODE = 0
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
        """Number of levels."""
        ...

    def size(self, level: int) -> int:
        """Number of codes at a level, the bucket included."""
        ...

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Code of each UTF-8 text at a level; None (null) and unseen texts have the bucket's; shape (n,)."""
        ...

    def codes_of_integers(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Code of each integer at a level; shape (n,)."""
        ...

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Codes at level `to` of codes at a level that is not above it; shape as given."""
        ...

    def label_sizes(self, level: int) -> dict[int, int]:
        """How many labels of a level cover how many declared values: {values: labels}; no unseen values."""
        ...

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """How many declared values each code of a level may stand for; shape (n,).

        The bucket, and labels of what lies outside the domain, count as the whole domain: they tell nothing of it.
        """
        ...

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Published label of each code of a level."""
        ...

    def description(self) -> dict[str, object]:
        """All that was declared, in JSON's terms."""
        ...

    def digest(self) -> str:
        """SHA-256 of the description in canonical form, 64 hexadecimal digits."""
        ...


def description_digest(description: Mapping[str, object]) -> str:
    """SHA-256 (hex) of a description as JSON with sorted names, without spaces, in ASCII."""
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
        _check_shape(rows)
        _check_monotone(rows)
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
        """The same values, compared without regard to case; published as they are declared.

        Raises:
            HierarchyError: two values differ in case alone.
        """
        leaf_of_text: dict[bytes, int] = {}
        for text, leaf in self.leaf_of_text.items():
            if leaf_of_text.setdefault(_folded(text) or b"", leaf) != leaf:
                raise HierarchyError(f"the value {text.decode()!r} and another differ in case alone")
        return replace(self, leaf_of_text=leaf_of_text, fold_case=True)

    @property
    def levels(self) -> int:
        """Number of levels, level 0 (the value itself) included."""
        return len(self.level_labels)

    def size(self, level: int) -> int:
        """Number of codes at a level, the bucket included."""
        return len(self.level_labels[level])

    def codes_of_texts(self, texts: Sequence[bytes | None], level: int) -> NDArray[np.int64]:
        """Code of each text at a level; None and unseen texts have the bucket's; shape (n,)."""
        leaf_of = self.leaf_of_text
        compared = [_folded(text) for text in texts] if self.fold_case else texts
        leaves = [0 if text is None else leaf_of.get(text, 0) for text in compared]
        return self.level_codes[level][np.array(leaves, dtype=np.int64)]

    def codes_of_integers(self, values: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Code of each integer at a level, by its canonical decimal text; shape (n,)."""
        return self.level_codes[level][self.leaf_of_integer.lookup(values)]

    def coarser(self, codes: NDArray[np.int64], *, level: int, to: int) -> NDArray[np.int64]:
        """Codes at level `to` of codes at a level that is not above it; shape as given.

        Raises:
            ValueError: `to` lies below the level.
        """
        if to < level:
            raise ValueError(f"level {to} is finer than level {level}")
        table = np.zeros(self.size(level), dtype=np.int64)
        table[self.level_codes[level]] = self.level_codes[to]  # monotone: all leaves of a label agree
        return table[codes]

    def label_sizes(self, level: int) -> dict[int, int]:
        """How many labels of a level cover how many declared values: {values: labels}."""
        covered = np.bincount(self.level_codes[level][1:], minlength=self.size(level))
        sizes, labels = np.unique(covered[covered > 0], return_counts=True)
        return dict(zip(sizes.tolist(), labels.tolist(), strict=True))

    def values_covered(self, codes: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """How many declared values each code of a level may stand for, the bucket all of them; shape (n,)."""
        covered = np.bincount(self.level_codes[level][1:], minlength=self.size(level))
        covered[BUCKET_CODE] = len(self.level_codes[level]) - 1
        counts: NDArray[np.int64] = covered[codes]
        return counts

    def labels(self, codes: NDArray[np.int64], level: int) -> list[str]:
        """Published label of each code of a level."""
        names = self.level_labels[level]
        return [names[code] for code in codes.tolist()]

    def rows(self) -> list[list[str]]:
        """The declared rows without the bucket's, ordered by the UTF-8 bytes of the value."""
        return [
            [names[codes[leaf]] for names, codes in zip(self.level_labels, self.level_codes, strict=True)]
            for leaf in range(1, len(self.level_codes[0]))
        ]

    def description(self) -> dict[str, object]:
        """The declared rows in canonical order, and whether case is folded."""
        description: dict[str, object] = {"kind": "values/1", "levels": self.levels, "rows": self.rows()}
        return description | {"fold_case": True} if self.fold_case else description

    def digest(self) -> str:
        """SHA-256 of the declared rows in canonical order, 64 hexadecimal digits."""
        return description_digest(self.description())

    def __repr__(self) -> str:
        """A short form; a hierarchy may have a hundred thousand leaves."""
        return f"ValueHierarchy(values={len(self.leaf_of_text)}, levels={self.levels})"


def _folded(text: bytes | None) -> bytes | None:
    """A text without regard to case; what is not UTF-8 stays as it is."""
    if text is None:
        return None
    try:
        return text.decode().casefold().encode()
    except UnicodeDecodeError:
        return text


def _check_shape(rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        raise HierarchyError("the hierarchy declares no value")
    width = len(rows[0])
    row_of_value: dict[str, int] = {}
    for number, row in enumerate(rows):
        if len(row) != width:
            raise HierarchyError(f"this row has {len(row)} levels where the first has {width}", row=number)
        if not row:
            raise HierarchyError("this row is empty", row=number)
        for level, label in enumerate(row):
            if label == "":
                raise HierarchyError(f"the label at level {level} is empty", row=number)
            if any(mark in label for mark in _FORBIDDEN) or not _is_utf8(label):
                raise HierarchyError(
                    f"the label at level {level} has a line break, a NUL or a character outside Unicode",
                    row=number,
                )
        if row[0] in row_of_value:
            raise HierarchyError(
                f"the value {row[0]!r} is declared twice, first in row {row_of_value[row[0]] + 1}", row=number
            )
        row_of_value[row[0]] = number


def _check_monotone(rows: Sequence[Sequence[str]]) -> None:
    # The bucket counts as a value that is `*` everywhere, so `*` may only be followed by `*`.
    for level in range(len(rows[0]) - 1):
        parent_of = {BUCKET_LABEL: BUCKET_LABEL}
        for number, row in enumerate(rows):
            parent = parent_of.setdefault(row[level], row[level + 1])
            if parent != row[level + 1]:
                raise HierarchyError(
                    f"{row[level]!r} at level {level} becomes {row[level + 1]!r} at level {level + 1}, but"
                    f" {parent!r} elsewhere: equal labels must stay equal at the levels above",
                    row=number,
                )


def _is_utf8(label: str) -> bool:
    try:
        label.encode()
    except UnicodeEncodeError:
        return False
    return True
