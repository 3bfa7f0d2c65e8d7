"""What a researcher needs to know of a deletion release: stages, weights, small groups, and what may be counted by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import sqrt
from typing import Any

from ....accounting.descriptions.kind_description import DeletedRecords
from .bounds import Chance, CountInterval

COUNTS = (1, 2, 5, 10, 20, 50, 100, 1_000)
SHARES = (Fraction(1, 5), Fraction(7, 20), Fraction(1, 2), Fraction(13, 20), Fraction(4, 5), Fraction(1))
SMALL = 5
OUTSIDE = Fraction(1, 40)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionFacts:
    """What the noise of a release means for its table; from the integer weights that it was drawn by.

    Args:
        stages: the chain as the certificate has it, the finest first.
        k: the smallest number of records that is published of a group.
        expected: E[Z], records.
        deviation: sd(Z), records.
        largest: the largest Z.
        bounds: of groups of the last stage.
        small: what becomes of small groups.
        calibrated: whether the weights were raked to noisy margins afterwards.
    """

    stages: tuple[Mapping[str, Any], ...]
    k: int
    expected: float
    deviation: float
    largest: int
    bounds: tuple[CountInterval, ...]
    small: tuple[Chance, ...]
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
    k, largest = deleted.k, deleted.largest
    sizes = {max(k, round(share * (largest + k))) for share in SHARES} | ({SMALL} if k <= SMALL < largest else set())
    return DeletionFacts(
        stages=tuple(certificate["published"]["stages"]),
        k=k,
        expected=float(deleted.expected),
        deviation=sqrt(deleted.variance),
        largest=largest,
        bounds=tuple(_bounds(deleted)),
        small=tuple(_small(size, deleted) for size in sorted(sizes)),
        calibrated="margins" in certificate["published"],
    )


def _bounds(deleted: DeletedRecords) -> list[CountInterval]:
    """Return exact intervals given that a group is published: docs/decisions/0020-intervals-that-hold.md."""
    reached = list(accumulate(deleted.weights))
    counts = sorted({deleted.k, *(count for count in COUNTS if count >= deleted.k)})
    return [
        CountInterval(
            published=count,
            people=count + float(deleted.expected),
            low=count + _fewest(reached, spare=count - deleted.k),
            high=count + next(z for z, below in enumerate(reached) if below >= (1 - OUTSIDE) * deleted.total),
        )
        for count in counts
    ]


def _fewest(reached: Sequence[int], *, spare: int) -> int:
    """Return the least z with Pr[Z ≤ z | Z ≤ z + spare] > 1/40.

    A group of J + z is published where Z ≤ z + J − k.
    """
    last = len(reached) - 1
    return next(z for z, below in enumerate(reached) if below > OUTSIDE * reached[min(z + spare, last)])


def _small(size: int, deleted: DeletedRecords) -> Chance:
    """A group of `size` is published where Z ≤ size − k, and then estimated at size − Z + E[Z]."""
    reached = deleted.weights[: size - deleted.k + 1]
    chance = sum(reached)
    kept = Fraction(sum((size - z) * weight for z, weight in enumerate(reached)), chance)
    return Chance(people=size, published=chance / deleted.total, estimate=float(kept + deleted.expected))
