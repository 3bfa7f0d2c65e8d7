"""The generalization map of a release, one number per combination of labels, and how much published labels tell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .hierarchies.declare import Hierarchy
from .kernel.amounts import counted

__all__ = [
    "TOLD_KEYS",
    "ColumnsTold",
    "GeneralizationMap",
    "MappedColumn",
    "Placement",
    "coarsened",
    "columns_told",
    "told_sentences",
]

_WORD_CELLS = 1 << 63
_RECODED_AT_ONCE = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class MappedColumn:
    """One released column.

    Args:
        name: the column's name in the input and in the output.
        hierarchy: its declared hierarchy.
        level: the level at which it is published.

    Raises:
        ValueError: a level that the hierarchy does not have.
    """

    name: str
    hierarchy: Hierarchy
    level: int

    def __post_init__(self) -> None:
        if not 0 <= self.level < self.hierarchy.levels:
            raise ValueError(f"column {self.name!r} has levels 0 … {self.hierarchy.levels - 1}, not level {self.level}")

    @property
    def size(self) -> int:
        """Number of codes that the column can take."""
        return self.hierarchy.size(self.level)


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where a column's code stands in a key: code · stride is added to word number `word`.

    Args:
        word: number of the key's 64-bit word, from 0.
        stride: what one step of the code adds to it, at least 1.
    """

    word: int
    stride: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneralizationMap:
    """A total map from records to groups, fixed before the records are read.

    A group's key is the mixed-radix number of its codes, the first column the most significant. Columns
    whose sizes multiply to less than 2**63 share a word; keys have shape (words, n), so that comparing keys
    word by word compares codes column by column, in the order of the columns.

    Args:
        columns: the released columns, at least one, no name twice.

    Raises:
        ValueError: no columns, or a name twice.
    """

    columns: tuple[MappedColumn, ...]
    placements: tuple[Placement, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise ValueError("a map needs at least one column")
        if len(set(names)) != len(names):
            raise ValueError(f"a map names each column once, not {names}")
        object.__setattr__(self, "placements", _place([column.size for column in self.columns]))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def key_words(self) -> int:
        """Number of 64-bit words of a key."""
        return self.placements[-1].word + 1

    @property
    def cells(self) -> int:
        """Number of possible groups (may exceed 64 bits)."""
        product = 1
        for column in self.columns:
            product *= column.size
        return product

    def keys(self, codes: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Keys of n records.

        Args:
            codes: per column, the records' codes at the column's level; each of shape (n,).

        Returns:
            Shape (words, n).
        """
        keys = np.zeros((self.key_words, codes[0].size), dtype=np.int64)
        for place, column_codes in zip(self.placements, codes, strict=True):
            keys[place.word] += column_codes * place.stride
        return keys

    def decode(self, keys: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Codes per column of keys of shape (words, n); the inverse of `keys`."""
        return [self.codes_of(keys, number) for number in range(len(self.columns))]

    def codes_of(self, keys: NDArray[np.int64], number: int) -> NDArray[np.int64]:
        """Codes of one column, by its number from 0, of keys of shape (words, n); shape (n,)."""
        place = self.placements[number]
        codes: NDArray[np.int64] = (keys[place.word] // place.stride) % self.columns[number].size
        return codes

    def holds(self, keys: NDArray[np.int64]) -> bool:
        """Whether every one of some keys, shape (words, n), is of a group."""
        cells = [0] * self.key_words
        for place, column in zip(self.placements, self.columns, strict=True):
            cells[place.word] = max(cells[place.word], place.stride * column.size)
        return keys.size == 0 or all(
            int(word.min()) >= 0 and int(word.max()) < most for word, most in zip(keys, cells, strict=True)
        )

    def digest(self) -> str:
        """SHA-256 of the names, hierarchies and levels in canonical form, 64 hexadecimal digits."""
        columns = [[column.name, column.hierarchy.digest(), column.level] for column in self.columns]
        text = json.dumps({"kind": "map/1", "columns": columns}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def coarsened(
    keys: NDArray[np.int64], *, finer: GeneralizationMap, coarser: GeneralizationMap
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The groups of a coarser map that some groups become part of; recoded some at a time, in little memory.

    Args:
        keys: groups of the finer map, shape (words, n).
        finer: the map that they are keys of.
        coarser: one of the same columns, none at a lower level.

    Returns:
        The keys of the coarser groups, distinct and ascending, shape (words, m); and for each group that was given
        the place of its own among them, shape (n,).

    Raises:
        ValueError: a column has a lower level.
    """
    blocks = [slice(first, first + _RECODED_AT_ONCE) for first in range(0, keys.shape[1], _RECODED_AT_ONCE)]
    places = np.empty(keys.shape[1], dtype=np.int64)
    parts = [np.empty((coarser.key_words, 0), dtype=np.int64)]
    for block in blocks:
        codes = [
            before.hierarchy.coarser(column_codes, level=before.level, to=after.level)
            for before, after, column_codes in zip(
                finer.columns, coarser.columns, finer.decode(keys[:, block]), strict=True
            )
        ]
        above, places[block] = _distinct(coarser.keys(codes))
        parts.append(above)
    whole, of_parts = _distinct(np.concatenate(parts, axis=1))
    end = 0
    for block, above in zip(blocks, parts[1:], strict=True):
        begin, end = end, end + above.shape[1]
        places[block] = of_parts[begin:end][places[block]]
    return whole, places


def _distinct(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct ones of some keys, ascending, and the place of each key among them."""
    if keys.shape[0] == 1:
        single, inverse = np.unique(keys[0], return_inverse=True)
        return single.reshape(1, -1), inverse.reshape(-1)
    order = np.lexsort(keys[::-1])
    ordered = keys[:, order]
    first = np.ones(order.size, dtype=np.bool_)
    first[1:] = np.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    places = np.empty(order.size, dtype=np.int64)
    places[order] = np.cumsum(first) - 1
    return ordered[:, first], places


def _place(sizes: Sequence[int]) -> tuple[Placement, ...]:
    """Fill words from the first column on; within a word the last column has stride 1."""
    key_words: list[list[int]] = [[]]
    cells = 1
    for size in sizes:
        if cells * size >= _WORD_CELLS:
            key_words.append([])
            cells = 1
        key_words[-1].append(size)
        cells *= size
    placements: list[Placement] = []
    for word, members in enumerate(key_words):
        stride = 1
        strides: list[int] = []
        for size in reversed(members):
            strides.append(stride)
            stride *= size
        placements.extend(Placement(word=word, stride=stride) for stride in reversed(strides))
    return tuple(placements)


TOLD_KEYS = ("informative_records", "median_columns_told", "columns_at_star")
"""The keys of `ColumnsTold.facts`."""

MOST_NAMED = 5
WHAT_TO_CHECK = (
    "Check, on a public file of the same format with `crowdblend preview`, that values are written as they are "
    "declared: spelling and case, whole numbers (5000.0 is one with whole_floats alone), decimal sign, encoding, and "
    "the rows of the hierarchy. Where they are, too few records share finer labels: release fewer columns, or coarser "
    "ones."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnsTold:
    """How much some records tell. A column is told by a record whose label there isn't `*`.

    Args:
        records: how many there are; expected ones need not be whole.
        informative: those that tell at least one column.
        labels: labels that aren't `*`, of all records and columns.
        median: the most columns that at least half of the records tell.
        at_star: columns that no record tells; none where there are no records.
    """

    records: float
    informative: float
    labels: float
    median: int
    at_star: tuple[str, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """What a certificate and `run --json` say of whole records."""
        values = (round(self.informative), self.median, list(self.at_star))
        return dict(zip(TOLD_KEYS, values, strict=True))


def columns_told(stars: Mapping[str, NDArray[np.bool_]], times: NDArray[Any]) -> ColumnsTold:
    """Count what some groups of records tell.

    Args:
        stars: of each column, whether a group's label there is `*`; each of shape (groups,).
        times: how many records each group has, at least 0; shape (groups,).
    """
    told = np.zeros(times.size, dtype=np.int64)
    for starred in stars.values():
        told += ~starred
    # Records by the number of columns that they tell; sums of whole numbers below 2**53 are exact in doubles.
    records_by_told = np.bincount(told, weights=times, minlength=len(stars) + 1)
    at_least = records_by_told[::-1].cumsum()[::-1]
    total = float(at_least[0])
    there = times > 0
    return ColumnsTold(
        records=total,
        informative=total - float(records_by_told[0]),
        labels=float(records_by_told @ np.arange(len(stars) + 1)),
        median=int(np.flatnonzero(2.0 * at_least >= total)[-1]) if total else 0,
        at_star=tuple(name for name, starred in stars.items() if starred[there].all()) if there.any() else (),
    )


def told_sentences(
    published: Mapping[str, Any],
    *,
    levels: Mapping[str, int],
    hierarchies: Mapping[str, Hierarchy | None],
    drawn: bool,
    number: Callable[[int], str] = "{:,}".format,
) -> tuple[str, ...]:
    """Say how much a release's published records tell, and what to check of a column that none of them tells.

    Args:
        published: what the certificate says of what is published; of one without `TOLD_KEYS` nothing is said.
        levels: of the columns, at the first stage.
        hierarchies: of the columns; None where it isn't known.
        drawn: whether the levels were drawn.
        number: how a number of records is written.
    """
    if not published.keys() >= set(TOLD_KEYS) or not published["records"]:
        return ()
    noun = "record" if published["records"] == 1 else "records"
    records, at_star = f"{number(published['records'])} {noun}", published["columns_at_star"]
    if published["informative_records"]:
        informative = number(published["informative_records"])
        sentences = [
            f"Informative, with a label that isn't *: {informative} of {records}; at least half "
            f"of all tell {published['median_columns_told']} of {counted(len(levels), 'column')} or more."
        ]
    else:
        sentences = [f"Of {records} none tells anything: every label is *."]
    stages = [stage["levels"] for stage in published.get("stages", ()) if stage["published_groups"]] or [levels]
    by_level: list[str] = []
    unread: list[str] = []
    for name in at_star:
        hierarchy, own = hierarchies.get(name), {stage[name] for stage in stages}
        alone = hierarchy is not None and all(hierarchy.size(level) == 1 for level in own)
        (by_level if alone else unread).append(name)
    if by_level:
        how = "was drawn" if drawn else "is specified"
        sentences.append(f"Every published {_listed(by_level)} is *: the level that {how} has no other label.")
    if unread:
        sentences.append(f"Every published {_listed(unread)} is *. {WHAT_TO_CHECK}")
    return tuple(sentences)


def _listed(names: Sequence[str]) -> str:
    """Some names in words, not more than a few of them."""
    shown, more = list(names[:MOST_NAMED]), len(names) - MOST_NAMED
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
