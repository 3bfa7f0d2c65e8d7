"""Runs what is refused on invented records, to show how it betrays a person.

Clustering, local recoding, a ladder of levels on one suppressed sample, and bad noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from crowdblend.flows.spec_tables import REFUSED
from crowdblend.mechanisms.kernel.noise import TwoSidedGeometricNoise

from ..theory.noise_ratio import GaussianNoise, LaplaceNoise, OneSidedGeometricNoise, worst_ratio

__all__ = [
    "INCOMES",
    "LADDER_K",
    "LADDER_RATE",
    "LADDER_SIBLINGS",
    "RICH",
    "clustered",
    "ladder_delta",
    "ladder_of_sample",
    "local_recoding",
    "main",
]

K = 5
LADDER_K, LADDER_RATE, LADDER_SIBLINGS = 20, Fraction(1, 10), 190
INCOMES = tuple(18_000 + 1_700 * i + 90 * (i * i % 7) for i in range(40))
RICH = 9_000_000


def local_recoding(incomes: Sequence[int], k: int) -> list[tuple[int, int, int]]:
    """Mondrian on one column: cut at the median while both halves keep k; publish (least, greatest, count) of each."""
    ordered = sorted(incomes)
    middle = len(ordered) // 2
    if middle < k:
        return [(ordered[0], ordered[-1], len(ordered))]
    return local_recoding(ordered[:middle], k) + local_recoding(ordered[middle:], k)


def clustered(incomes: Sequence[int], k: int) -> list[tuple[int, int]]:
    """Clusters of k neighbours, the last takes the rest; publish (mean, count) of each."""
    ordered = sorted(incomes)
    starts = range(0, len(ordered) - k + 1, k)
    parts = [ordered[start : start + k] for start in starts]
    parts[-1] = ordered[starts[-1] :]
    return [(round(sum(part) / len(part)), len(part)) for part in parts]


def ladder_of_sample(sampled: Sequence[int], k: int) -> tuple[list[int], int]:
    """Two levels on one suppressed sample: a fine group is published from k records on, the rest at its parent.

    Args:
        sampled: the sampled records of each fine group of one parent.
        k: suppression threshold of both levels.

    Returns:
        Published records of each fine group and of the parent, 0 where there are none.
    """
    fine = [records if records >= k else 0 for records in sampled]
    rest = sum(sampled) - sum(fine)
    return fine, rest if rest >= k else 0


def ladder_delta(*, k: int, rate: Fraction, siblings: int) -> Fraction:
    """δ of that ladder at every ε, exactly: the person alone in a group, beside one of `siblings` people.

    β·Pr[Y = k − 1], Y the siblings' sampled count: then the parent shows k records if the person is sampled, which
    nothing but the person can make it show. Everything else looks the same with the person and without.
    """
    chance = math.comb(siblings, k - 1) * rate ** (k - 1) * (1 - rate) ** (siblings - k + 1)
    return rate * chance


def main() -> None:
    """Print what each publishes with the rich person and without."""
    print(f"{len(INCOMES)} people, and perhaps one more, with an income of {RICH:,}; k = {K}.\n")
    for name, publish in (("mondrian", local_recoding), ("clustering", clustered)):
        without, with_rich = publish(INCOMES, K), publish([*INCOMES, RICH], K)
        print(f"{name}, last group without the person: {without[-1]}")
        print(f"{name}, last group with the person:    {with_rich[-1]}")
        print("  The second is impossible without the person: k-anonymous, and delta is 1.")
        print(f"  Refused: {REFUSED[name][0]}.\n")
    k, rate, siblings = LADDER_K, LADDER_RATE, LADDER_SIBLINGS
    print(
        f"a ladder of two levels on one sample at rate {float(rate)}, k = {k}: a person alone, {siblings} in a sibling."
    )
    print(f"  With {k - 1} siblings and the person in the sample: {ladder_of_sample([1, k - 1], k)}")
    print(f"  With {k - 1} siblings, without the person:          {ladder_of_sample([0, k - 1], k)}")
    delta = ladder_delta(k=k, rate=rate, siblings=siblings)
    print("  The parent shows nothing without the person. This happens with a chance of rate * Pr[Y = k - 1], so that")
    print(f"  delta is {float(delta):.6f} at every epsilon, exactly. A deletion release may have such a ladder.\n")
    noises = {
        "two-sided geometric": TwoSidedGeometricNoise(epsilon=Decimal("0.5")),
        "Laplace": LaplaceNoise(scale=2.0),
        "Gaussian": GaussianNoise(standard_deviation=2.0),
        "one-sided geometric": OneSidedGeometricNoise(epsilon=Decimal("0.5")),
    }
    for name, noise in noises.items():
        found = worst_ratio(noise)
        losses = ", ".join(
            f"{witness.log_ratio:g} at {witness.output:g}" if math.isfinite(witness.log_ratio) else
            f"certainty at {witness.output:g}" for witness in found.witnesses
        )  # fmt: skip
        least = "no epsilon is enough" if found.epsilon is None else f"epsilon = {found.epsilon}"
        print(f"{name}: {least}. Loss {losses}: {found.explanation}")


if __name__ == "__main__":
    main()
