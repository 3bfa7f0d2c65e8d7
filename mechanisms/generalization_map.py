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
from .kernel.recoding import CodeTable, KeyLayout

MOST_CODES = 1 << 26
"""Of a column that is put together to coarser labels."""


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
        """Return the number of codes that the column can take."""
        return self.hierarchy.size(self.level)


@dataclass(frozen=True, kw_only=True, slots=True)
class GeneralizationMap(KeyLayout):
    """A total map from records to groups, fixed before the records are read.

    Args:
        columns: the released columns, at least one, no name twice.

    Raises:
        ValueError: no columns, or a name twice.
    """

    columns: tuple[MappedColumn, ...]
    sizes: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise ValueError("a map needs at least one column")
        if len(set(names)) != len(names):
            raise ValueError(f"a map names each column once, not {names}")
        object.__setattr__(self, "sizes", tuple(column.size for column in self.columns))
        KeyLayout.__post_init__(self)  # super() knows no dataclass with slots

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def layout(self) -> KeyLayout:
        """Return how its codes make keys, without the columns' names and labels."""
        return KeyLayout(sizes=self.sizes)

    def tables_to(self, coarser: GeneralizationMap) -> tuple[CodeTable | None, ...]:
        """Return per column the code at its level in a coarser map of each code here; None where its level stays.

        Raises:
            ValueError: a column has a lower level there, or more codes here than a table may have.
        """
        return tuple(
            None if own.level == target.level else _table(own, target.level)
            for own, target in zip(self.columns, coarser.columns, strict=True)
        )

    def digest(self) -> str:
        """Return the SHA-256 of the names, hierarchies and levels in canonical form, 64 hexadecimal digits."""
        columns = [[column.name, column.hierarchy.digest(), column.level] for column in self.columns]
        text = json.dumps({"kind": "map/1", "columns": columns}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def _table(column: MappedColumn, level: int) -> CodeTable:
    if column.size > MOST_CODES:
        raise ValueError(f"column {column.name!r} has more than {MOST_CODES:,} labels at level {column.level}")
    return column.hierarchy.coarser(np.arange(column.size, dtype=np.int64), level=column.level, to=level)


_GROUPS_AT_ONCE = 1 << 18
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
        """Return what a certificate and `run --json` say of whole records."""
        values = (round(self.informative), self.median, list(self.at_star))
        return dict(zip(TOLD_KEYS, values, strict=True))


def columns_told(stars: Mapping[str, NDArray[np.bool_]], times: NDArray[Any]) -> ColumnsTold:
    """Count what some groups of records tell.

    Args:
        stars: of each column, whether a group's label there is `*`; each of shape (groups,).
        times: how many records each group has, at least 0; shape (groups,).
    """
    # Records by the number of columns that they tell; sums of whole numbers below 2**53 are exact in doubles.
    records_by_told = np.zeros(len(stars) + 1)
    for first in range(0, times.size, _GROUPS_AT_ONCE):
        block = slice(first, first + _GROUPS_AT_ONCE)
        told = np.zeros(times[block].size, dtype=np.int64)
        for starred in stars.values():
            told += ~starred[block]
        records_by_told += np.bincount(told, weights=times[block], minlength=len(stars) + 1)
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


def first_levels(published: Mapping[str, Any]) -> dict[str, int]:
    """Return each column's level at the first stage of a deletion release, of several blocks its finest one."""
    levels: dict[str, int] = {}
    for stages in [one["stages"] for one in published["blocks"]] if "blocks" in published else [published["stages"]]:
        for name, level in stages[0]["levels"].items():
            levels[name] = min(level, levels.get(name, level))
    return levels


def told_sentences(
    published: Mapping[str, Any],
    *,
    levels: Mapping[str, int],
    hierarchies: Mapping[str, Hierarchy | None],
    number: Callable[[int], str] = "{:,}".format,
) -> tuple[str, ...]:
    """Say how much a release's published records tell, and what to check of a column that none of them tells.

    Args:
        published: what the certificate says of what is published; of one without `TOLD_KEYS` nothing is said.
        levels: of the columns, at the first stage.
    """
    if "blocks" in published:
        return tuple(
            f"Block {block['name']}: {sentence}"
            for block in published["blocks"]
            for sentence in told_sentences(
                block, levels=block["stages"][0]["levels"], hierarchies=hierarchies, number=number
            )
        )
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
        sentences.append(f"Every published {_listed(by_level)} is *: its level in this release has no other label.")
    if unread:
        sentences.append(f"Every published {_listed(unread)} is *. {WHAT_TO_CHECK}")
    return tuple(sentences)


def _listed(names: Sequence[str]) -> str:
    """Return some names in words, not more than a few of them."""
    shown, more = list(names[:MOST_NAMED]), len(names) - MOST_NAMED
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
