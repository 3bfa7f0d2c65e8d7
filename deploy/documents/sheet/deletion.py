"""What a researcher needs to know of a deletion release: stages, weights, small groups, and what may be counted by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import sqrt
from typing import Any

from ....mechanisms.kinds.deletion import (
    WEIGHT_TOTAL,
    DeletionRelease,
    deletion_weights,
    expected_deletion,
    largest_deletion,
)
from ....mechanisms.record_weights import deletion_variance

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


def deletion_facts(mechanism: DeletionRelease, certificate: Mapping[str, Any]) -> DeletionFacts:
    """Read what concerns the deletion from a certificate that verifies.

    Args:
        mechanism: the certificate's.
        certificate: its fields.
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
