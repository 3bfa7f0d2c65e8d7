"""A public crowd: groups of people who stand for those of the private records, at the finest levels known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...accounting.theory.survival import record_survival
from ...mechanisms.hierarchy import Hierarchy
from ...mechanisms.lattice import Levels
from ...mechanisms.recoding import GeneralizationMap, MappedColumn
from ...mechanisms.suppression import sum_counts

__all__ = ["Crowd", "Groups", "Outlook"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """The groups of a map.

    Args:
        columns: places of the columns that the groups are of.
        codes: for each of them the groups' codes at the map's level; each of shape (groups,).
        counts: records of each group as they were counted; shape (groups,).
    """

    columns: tuple[int, ...]
    codes: tuple[NDArray[np.int64], ...]
    counts: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What a threshold and a rate would do to groups, in expectation.

    Args:
        suppressed: share of the sampled records that would be left out, 0 … 1.
        records: records that would be published.
        groups: groups that would be published.
    """

    suppressed: float
    records: float
    groups: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Crowd:
    """People as counted, and for how many each stands.

    Args:
        names: of the columns.
        hierarchies: one for each column.
        base: the level of each column at which they were counted.
        codes: for each column the groups' codes at that level; each of shape (groups,).
        counts: records of each group; shape (groups,).
        scale: how many people a counted record stands for.
        told: what this is, in words.
        remarks: what has to be borne in mind, a sentence each.
    """

    names: tuple[str, ...]
    hierarchies: tuple[Hierarchy, ...]
    base: Levels
    codes: tuple[NDArray[np.int64], ...]
    counts: NDArray[np.int64]
    scale: float
    told: str
    remarks: tuple[str, ...]

    @property
    def people(self) -> float:
        """How many people it stands for."""
        return float(self.counts.sum()) * self.scale

    def at(self, levels: Levels, *, columns: Sequence[int] | None = None) -> Groups:
        """The groups of a map that is nowhere finer than the base.

        Args:
            levels: one for each column.
            columns: places of the columns that the map has; None is all.
        """
        chosen = tuple(range(len(self.names))) if columns is None else tuple(columns)
        if not chosen:
            total = np.array([self.counts.sum()], dtype=np.int64)
            return Groups(columns=(), codes=(), counts=total[total > 0])
        mapped = GeneralizationMap(
            columns=tuple(
                MappedColumn(name=self.names[place], hierarchy=self.hierarchies[place], level=levels[place])
                for place in chosen
            )
        )
        codes = [
            self.hierarchies[place].coarser(self.codes[place], level=self.base[place], to=levels[place])
            for place in chosen
        ]
        merged = sum_counts(mapped.keys(codes), self.counts)
        return Groups(columns=chosen, codes=tuple(mapped.decode(merged.keys)), counts=merged.counts)

    def survival(self, counts: NDArray[np.int64], *, k: int, rate: float) -> NDArray[np.float64]:
        """For a sampled record of a group of each size the probability of being published; shape as given.

        Where a counted record stands for less than one person, its group is thinned: Bin(c, scale·β) of its c records
        are sampled. Where it stands for more, the group is taken to be that much larger.
        """
        sizes, own_rate = self._sampled(counts, rate)
        return record_survival(sizes, k=k, rate=own_rate)

    def outlook(self, groups: Groups, *, k: int, rate: float) -> Outlook:
        """What would happen to the records of some groups, in expectation; exact binomial tails, no simulation."""
        records = groups.counts.astype(np.float64) * self.scale
        total = float(records.sum())
        if total == 0.0:
            return Outlook(suppressed=0.0, records=0.0, groups=0.0)
        survives = self.survival(groups.counts, k=k, rate=rate)
        # Pr[Bin(n, β) ≥ k] is the survival of one more record, of a threshold higher by one.
        sizes, own_rate = self._sampled(groups.counts, rate)
        reaches = record_survival(sizes + 1.0, k=k + 1, rate=own_rate)
        published = float(records @ survives)
        return Outlook(
            suppressed=min(1.0, max(0.0, 1.0 - published / total)),
            records=published * rate,
            groups=float(reaches.sum()),
        )

    def _sampled(self, counts: NDArray[np.int64], rate: float) -> tuple[NDArray[np.float64], float]:
        """Sizes and the rate at which they are sampled."""
        sizes = counts.astype(np.float64)
        return (sizes, rate * self.scale) if self.scale <= 1.0 else (sizes * self.scale, rate)
