"""What a researcher needs to know of a deletion release: stages, weights, small groups, and what may be counted by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import sqrt
from typing import Any

from ....accounting.descriptions.kind_description import DeletedRecords

__all__ = [
    "DeletionFacts",
    "GroupBounds",
    "PublishedStage",
    "SmallGroup",
    "deletion_facts",
]

COUNTS = (1, 2, 5, 10, 20, 50, 100, 1_000)
SHARES = (Fraction(1, 5), Fraction(7, 20), Fraction(1, 2), Fraction(13, 20), Fraction(4, 5), Fraction(1))
SMALL = 5
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
        calibrated: whether the weights were raked to noisy margins afterwards.
    """

    stages: tuple[PublishedStage, ...]
    k: int
    expected: float
    deviation: float
    largest: int
    bounds: tuple[GroupBounds, ...]
    small: tuple[SmallGroup, ...]
    calibrated: bool

    @property
    def unbiased_from(self) -> int:
        """So many records of a group are published for certain, and estimated without bias."""
        return self.largest + self.k


def deletion_facts(deleted: DeletedRecords, certificate: Mapping[str, Any]) -> DeletionFacts:
    """Read what concerns the deletion from a certificate that verifies.

    Args:
        deleted: what the certificate's mechanism deletes.
        certificate: its fields.
    """
    k, weights, expected, largest = deleted.k, deleted.weights, deleted.expected, deleted.largest
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
        deviation=sqrt(deleted.variance),
        largest=largest,
        bounds=tuple(_bounds(deleted)),
        small=tuple(_small(weights, size, deleted=deleted) for size in sorted(sizes)),
        calibrated="margins" in certificate["published"],
    )


def _bounds(deleted: DeletedRecords) -> list[GroupBounds]:
    """Exact intervals given that a group is published: docs/decisions/0020-intervals-that-hold.md."""
    reached = list(accumulate(deleted.weights))
    expected = float(deleted.expected)
    counts = sorted({deleted.k, *(count for count in COUNTS if count >= deleted.k)})
    return [
        GroupBounds(
            published=count,
            weight=1.0 + expected / count,
            people=count + expected,
            low=count + _fewest(reached, spare=count - deleted.k),
            high=count + next(z for z, below in enumerate(reached) if below >= (1 - OUTSIDE) * deleted.total),
        )
        for count in counts
    ]


def _fewest(reached: Sequence[int], *, spare: int) -> int:
    """The least z with Pr[Z ≤ z | Z ≤ z + spare] > 1/40: a group of J + z is published where Z ≤ z + J − k."""
    last = len(reached) - 1
    return next(z for z, below in enumerate(reached) if below > OUTSIDE * reached[min(z + spare, last)])


def _small(weights: Sequence[int], size: int, *, deleted: DeletedRecords) -> SmallGroup:
    """A group of `size` is published where Z ≤ size − k, and then estimated at size − Z + E[Z]."""
    reached = weights[: size - deleted.k + 1]
    chance = sum(reached)
    kept = Fraction(sum((size - z) * weight for z, weight in enumerate(reached)), chance)
    return SmallGroup(people=size, published=chance / deleted.total, estimate=float(kept + deleted.expected))
