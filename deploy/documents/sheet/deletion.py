"""What a researcher needs to know of a deletion release: stages, weights, small groups, and what may be counted by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa

from ....mechanisms.deletion import (
    WEIGHT_TOTAL,
    DeletionRelease,
    deletion_variance,
    deletion_weights,
    expected_deletion,
    largest_deletion,
)
from ....mechanisms.hierarchies.build import described_hierarchy

__all__ = [
    "Counted",
    "DeletionFacts",
    "GroupBounds",
    "PublishedStage",
    "SmallGroup",
    "deletion_facts",
]

COUNTS = (1, 2, 5, 10, 20, 50, 100, 1_000)
SHARES = (Fraction(1, 5), Fraction(7, 20), Fraction(1, 2), Fraction(13, 20), Fraction(4, 5), Fraction(1))
SMALL = 5
MOST_MERGED = 40
MOST_LABELS = 10_000
OUTSIDE = Fraction(1, 40)


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedStage:
    """One stage.

    Args:
        number: 1 for the finest.
        levels: of each column.
        groups: that it published.
        records: that it published.
    """

    number: int
    levels: Mapping[str, int]
    groups: int
    records: int


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupBounds:
    """What a group of the last stage may have, by what is published of it.

    Args:
        published: J, its records in the table.
        weight: of each.
        people: what the weights add up to.
        low: the least that it may have.
        high: the most; both hold in 19 of 20 draws in which the group is published, whatever its size.
    """

    published: int
    weight: float
    people: float
    low: int
    high: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallGroup:
    """A group that is small.

    Args:
        people: that it has in truth.
        published: the probability that it is in the table at all.
        estimate: what its weights add up to in the mean where it is.
    """

    people: int
    published: float
    estimate: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionFacts:
    """What the noise of a release means for its table; from the integer weights that it was drawn by.

    Args:
        stages: the chain, the finest first.
        k: the smallest number of records that is published of a group.
        expected: E[Z], records.
        deviation: sd(Z), records.
        largest: the largest Z.
        bounds: of groups of the last stage.
        small: what becomes of small groups.
        counted: the column that the code counts by; None where it counts by stage.
        calibrated: whether the weights were raked to noisy margins afterwards.
    """

    stages: tuple[PublishedStage, ...]
    k: int
    expected: float
    deviation: float
    largest: int
    bounds: tuple[GroupBounds, ...]
    small: tuple[SmallGroup, ...]
    counted: Counted | None
    calibrated: bool

    @property
    def unbiased_from(self) -> int:
        """So many records of a group are published for certain, and estimated without bias."""
        return self.largest + self.k


def deletion_facts(mechanism: DeletionRelease, certificate: Mapping[str, Any], table: pa.Table) -> DeletionFacts:
    """Read what concerns the deletion from a certificate that verifies, and its table.

    Args:
        mechanism: the certificate's.
        certificate: its fields.
        table: the published rows, labels as texts.
    """
    noise, k = mechanism.noise, mechanism.k
    weights, expected, largest = deletion_weights(noise), expected_deletion(noise), largest_deletion(noise)
    sizes = {max(k, round(share * (largest + k))) for share in SHARES} | ({SMALL} if k <= SMALL < largest else set())
    stages = tuple(
        PublishedStage(
            number=number,
            levels=stage["levels"],
            groups=stage["published_groups"],
            records=stage["published_records"],
        )
        for number, stage in enumerate(certificate["published"]["stages"], start=1)
    )
    return DeletionFacts(
        stages=stages,
        k=k,
        expected=float(expected),
        deviation=sqrt(deletion_variance(noise)),
        largest=largest,
        bounds=tuple(_bounds(mechanism)),
        small=tuple(_small(weights, size, k=k, expected=expected) for size in sorted(sizes)),
        counted=_counted(certificate, table, stages),
        calibrated="margins" in certificate["published"],
    )


def _bounds(mechanism: DeletionRelease) -> list[GroupBounds]:
    """Exact intervals given that a group is published: docs/decisions/0020-intervals-that-hold.md."""
    reached = list(accumulate(deletion_weights(mechanism.noise)))
    expected = float(expected_deletion(mechanism.noise))
    counts = sorted({mechanism.k, *(count for count in COUNTS if count >= mechanism.k)})
    return [
        GroupBounds(
            published=count,
            weight=1.0 + expected / count,
            people=count + expected,
            low=count + _fewest(reached, spare=count - mechanism.k),
            high=count + next(z for z, below in enumerate(reached) if below >= (1 - OUTSIDE) * WEIGHT_TOTAL),
        )
        for count in counts
    ]


def _fewest(reached: Sequence[int], *, spare: int) -> int:
    """The least z with Pr[Z ≤ z | Z ≤ z + spare] > 1/40: a group of J + z is published where Z ≤ z + J − k."""
    last = len(reached) - 1
    return next(z for z, below in enumerate(reached) if below > OUTSIDE * reached[min(z + spare, last)])


def _small(weights: Sequence[int], size: int, *, k: int, expected: Fraction) -> SmallGroup:
    """A group of `size` is published where Z ≤ size − k, and then estimated at size − Z + E[Z]."""
    reached = weights[: size - k + 1]
    chance = sum(reached)
    kept = Fraction(sum((size - z) * weight for z, weight in enumerate(reached)), chance)
    return SmallGroup(people=size, published=chance / WEIGHT_TOTAL, estimate=float(kept + expected))


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """The column that the code counts by, at the levels of the last stage.

    Args:
        column: its name.
        merged: stage and label → the label of the last stage that it belongs to; those that aren't the same alone.
    """

    column: str
    merged: Mapping[tuple[int, str], str]


def _counted(certificate: Mapping[str, Any], table: pa.Table, stages: Sequence[PublishedStage]) -> Counted | None:
    """The first column whose labels need not be merged; else the first with few to merge into several."""
    columns = certificate["map"]["columns"]
    for column in columns:
        if len({stage.levels[column["column"]] for stage in stages}) == 1:
            return Counted(column=column["column"], merged={})
    found = (_merging(column, table, stages) for column in columns)
    return next((one for one in found if one is not None), None)


def _merging(column: Mapping[str, Any], table: pa.Table, stages: Sequence[PublishedStage]) -> Counted | None:
    """The labels that the table has, and those of the last stage that they belong to.

    None where they are many, or all become one.
    """
    name, last = column["column"], stages[-1].levels[column["column"]]
    if column["hierarchy"] is None:
        return None
    hierarchy = described_hierarchy(column["hierarchy"])
    if hierarchy.size(last) == 1:
        return None
    merged: dict[tuple[int, str], str] = {}
    for stage in stages[:-1]:
        level = stage.levels[name]
        if hierarchy.size(level) > MOST_LABELS:
            return None
        codes = np.arange(hierarchy.size(level), dtype=np.int64)
        becomes = hierarchy.labels(hierarchy.coarser(codes, level=level, to=last), last)
        merged |= {
            (stage.number, label): coarse
            for label, coarse in zip(hierarchy.labels(codes, level), becomes, strict=True)
            if label != coarse
        }
    pairs = pa.table({"stage": table["stage"], "label": table[name].cast(pa.string())}).group_by(["stage", "label"])
    there = sorted((int(row["stage"]), row["label"]) for row in pairs.aggregate([]).to_pylist())
    few = {pair: merged[pair] for pair in there if pair in merged}
    return Counted(column=name, merged=few) if len(few) <= MOST_MERGED else None
