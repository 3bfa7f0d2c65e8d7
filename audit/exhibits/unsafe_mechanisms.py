"""Runs what is refused on invented records, to show how it betrays a person: clustering, local recoding, bad noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from crowdblend.accounting.theory.refused_mechanisms import REFUSED
from crowdblend.mechanisms.noise import LaplaceNoise, TwoSidedGeometricNoise

from ..theory.noise_ratio import GaussianNoise, OneSidedGeometricNoise, worst_ratio

__all__ = ["INCOMES", "RICH", "clustered", "local_recoding", "main"]

K = 5
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


def main() -> None:
    """Print what each publishes with the rich person and without."""
    print(f"{len(INCOMES)} people, and perhaps one more, with an income of {RICH:,}; k = {K}.\n")
    for name, publish in (("mondrian", local_recoding), ("clustering", clustered)):
        without, with_rich = publish(INCOMES, K), publish([*INCOMES, RICH], K)
        print(f"{name}, last group without the person: {without[-1]}")
        print(f"{name}, last group with the person:    {with_rich[-1]}")
        print("  The second is impossible without the person: k-anonymous, and delta is 1.")
        print(f"  Refused: {REFUSED[name][0]}.\n")
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
