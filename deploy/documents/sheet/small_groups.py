"""What becomes of small groups, and what the guarantee leaves to somebody who looks for a person; exact figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from ....accounting.descriptions.kind_description import DeletedRecords
from ....accounting.theory.count_bounds import Chance, CountInterval, published_intervals
from ....accounting.theory.survival import record_survival

COUNTS = (1, 2, 5, 10)
"""Times k: of larger groups luck is no part."""
TIMES = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
FALSE_ALARMS = (0.01, 0.05, 0.2, 0.5)
DELETION_COUNTS = (1, 2, 5, 10, 20, 50)
SHARES = (Fraction(1, 5), Fraction(7, 20), Fraction(1, 2), Fraction(13, 20), Fraction(4, 5), Fraction(1))
SMALL = 5
OUTSIDE = Fraction(1, 40)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What the release can do for somebody who wants to find out whether a person's records are in it.

    Args:
        false_alarms: share of absent people of whom a method says that they are there.
        found: share of those present that it can find at the most.
    """

    false_alarms: float
    found: float


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


def sampled_intervals(rate: float, k: int) -> tuple[CountInterval, ...]:
    """Return how many people a combination has of which some records are in the table of a sample."""
    return tuple(published_intervals([times * k for times in COUNTS], k=k, rate=rate))


def sampled_chances(rate: float, k: int) -> list[Chance]:
    """Return for groups around the size k/β the chance of being published, and the estimate where they are."""
    found = []
    for times in TIMES:
        size = max(1, round(times * k / rate))
        sizes = np.array([float(size)])
        published = float(record_survival(sizes + 1.0, k=k + 1, rate=rate)[0])
        kept = float(record_survival(sizes, k=k, rate=rate)[0])
        found.append(
            Chance(people=size, published=published, estimate=size * kept / published if published > 0 else math.nan)
        )
    return found


def attempts(epsilon: float, delta: float) -> list[Attempt]:
    """Return what both directions of (ε, δ) leave: found ≤ e^ε·α + δ, and 1 − found ≥ e^−ε·(1 − α − δ)."""
    found = []
    for alarms in FALSE_ALARMS:
        most = min(math.exp(epsilon) * alarms + delta, 1.0 - math.exp(-epsilon) * (1.0 - alarms - delta), 1.0)
        found.append(Attempt(false_alarms=alarms, found=most))
    return found


def deletion_facts(deleted: DeletedRecords, certificate: Mapping[str, Any]) -> DeletionFacts:
    """Return what concerns the deletion, by a certificate that verifies.

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
        deviation=math.sqrt(deleted.variance),
        largest=largest,
        bounds=tuple(_group_intervals(deleted)),
        small=tuple(_small(size, deleted) for size in sorted(sizes)),
        calibrated="margins" in certificate["published"],
    )


def _group_intervals(deleted: DeletedRecords) -> list[CountInterval]:
    """Return exact intervals given that a group is published: docs/decisions/0020-intervals-that-hold.md."""
    reached = list(accumulate(deleted.weights))
    counts = sorted({deleted.k, *(count for count in DELETION_COUNTS if count >= deleted.k)})
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
    """Return the chance of a group of a size: it is published where Z ≤ size − k, and estimated at size − Z + E[Z]."""
    reached = deleted.weights[: size - deleted.k + 1]
    chance = sum(reached)
    kept = Fraction(sum((size - z) * weight for z, weight in enumerate(reached)), chance)
    return Chance(people=size, published=chance / deleted.total, estimate=float(kept + deleted.expected))
