"""Audits of deletion releases: one stage, chains of stages, series, and several records of a person.

Their worst neighbours are known: t's group has so many records that Z alone decides what each stage publishes of it.
There the losses are those of Z against Z + 1, so that the bounds can come close to what is charged.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kinds.deletion import DeletionRelease, delete_records
from crowdblend.mechanisms.kinds.deletion_noise import (
    DeletionNoise,
    GaussianDeletion,
    GeometricDeletion,
    OptimalDeletion,
    draw_deletions,
    largest_deletion,
)
from numpy.typing import NDArray

from .cases import Case, Draw, Pair

__all__ = [
    "STAGED",
    "STAGED_SIZES",
    "deletion_cases",
    "exact_epsilon",
    "kept_back",
    "log_ratios",
    "staged_case",
    "staged_outcomes",
]

COINS = "the audit's bytes, turned into Z by the software's integer weights"
MILLIONTH, THOUSANDTH = Decimal("1e-6"), Decimal("1e-3")
STAGED = DeletionRelease(stages=2, k=10, noise=OptimalDeletion(epsilon=Decimal("0.5"), delta=Decimal("0.0005")))
STAGED_SIZES = (1, 20, 35, 40)
_STAGED_BASE = 64  # above any group of `STAGED_SIZES`
_FAR = 30.0
_MIDDLE = 2_000

Counts = NDArray[np.int64]
Law = NDArray[np.float64]


def deletion_cases(scale: float) -> list[Case]:
    """Every case of this module."""

    def times(draws: int) -> int:
        return max(2_000, round(draws * scale))

    fast = {"draws": times(20_000_000), "scouts": times(500_000)}
    slow = {"draws": times(40_000_000), "scouts": times(4_000_000)}
    optimal = OptimalDeletion(epsilon=Decimal(1), delta=MILLIONTH)
    half = GeometricDeletion(epsilon=Decimal("0.5"), width=13)
    third = GeometricDeletion(epsilon=Decimal("0.333333333333"), width=40)
    bell, flat = (GaussianDeletion(scale=Decimal(s), width=m) for s, m in (("4.771", 17), ("9.542", 36)))
    return [
        _one_stage(optimal, **fast),
        staged_case(**fast),
        _composed("deletion-three-stages", "of three stages, σ = 4.771, m = 17", bell, stages=3, **slow),
        _composed(
            "deletion-three-geometric",
            "of three stages, geometric noise, ε = 1/3 each, m = 40",
            third,
            stages=3,
            delta=MILLIONTH,
            **fast,
        ),
        _composed("deletion-series-of-12", "in a series of 12, σ = 9.542, m = 36", flat, releases=12, **slow),
        _composed(
            "deletion-two-records", "of one stage, geometric noise, two records a person", half, records=2, **fast
        ),
    ]


def law(noise: DeletionNoise) -> Law:
    """Probabilities of Z = 0, 1, …; in floating point, not by the audited weights."""
    match noise:
        case OptimalDeletion(epsilon=epsilon, delta=delta):
            growth, share, below = np.exp(float(epsilon)), float(delta), [0.0]
            while below[-1] < 1.0:
                below.append(min(growth * below[-1] + share, 1.0 - (1.0 - below[-1] - share) / growth, 1.0))
            return np.diff(below)
        case GeometricDeletion(epsilon=epsilon, width=width):
            masses = np.exp(-float(epsilon) * np.abs(np.arange(-width, width + 1)))
        case GaussianDeletion(scale=scale, width=width):
            masses = np.exp(-(np.arange(-width, width + 1) ** 2) / (2.0 * float(scale) ** 2))
    return np.asarray(masses / masses.sum())


def _both(noise: DeletionNoise, records: int) -> tuple[Law, Law]:
    """Probabilities of Z and of Z + M, from 0 to the largest Z + M."""
    masses = law(noise)
    return np.pad(masses, (0, records)), np.pad(masses, (records, 0))


def log_ratios(noise: DeletionNoise, records: int) -> Law:
    """How much likelier each Z is with t's M records than without."""
    here, there = _both(noise, records)
    with np.errstate(divide="ignore"):
        return np.clip(np.log(here) - np.log(there), -_FAR, _FAR)


def exact_epsilon(noise: DeletionNoise, *, times: int, records: int, delta: float) -> float:
    """The exact ε of so many draws of Z against Z + M, by enumeration of the sums of their losses."""
    here, there = _both(noise, records)
    each = log_ratios(noise, records)
    losses, p, q = each, here, there
    for _ in range(times - 1):
        losses, place = np.unique(np.round(losses[:, None] + each, 9).ravel(), return_inverse=True)
        p = np.bincount(place, (p[:, None] * here).ravel())
        q = np.bincount(place, (q[:, None] * there).ravel())
    order = np.argsort(-losses, kind="stable")
    found = []
    for likelier, other in (
        (np.cumsum(p[order]), np.cumsum(q[order])),
        (q[order[::-1]].cumsum(), p[order[::-1]].cumsum()),
    ):
        enough = likelier > delta
        found.append(float(np.max(np.log((likelier[enough] - delta) / other[enough]))))
    return max(found)


def _one_stage(noise: DeletionNoise, *, draws: int, scouts: int) -> Case:
    """One stage; an outcome is what is published of t's group."""
    release = DeletionRelease(stages=1, k=14, noise=noise)
    charged = price(release, delta=MILLIONTH)
    largest, masses = largest_deletion(noise), law(noise)
    sizes = (1, release.k, largest, largest + 1, largest + release.k, 2 * largest)

    def draw(size: int) -> Draw:
        def outcomes(side: int, count: int, rng: np.random.Generator) -> Counts:
            counts = np.full(count, size - side, dtype=np.int64)
            deletions = draw_deletions(noise, count, randomness=rng.bytes)
            return delete_records(counts, release=release, parents=[], deletions=[deletions])[0]

        return outcomes

    def exact_outcomes(pair: int, side: int) -> Law:
        records = sizes[pair] - side
        published = np.zeros(records + 1)
        left = records - np.arange(masses.size)
        np.add.at(published, np.where(left >= release.k, left, 0), masses)
        return published

    return Case(
        name="deletion-one-stage",
        mechanism="deletion release of one stage, optimal noise",
        claim=float(charged.epsilon),
        delta=float(MILLIONTH),
        rule=charged.rule,
        exact=float(charged.epsilon),
        pairs=tuple(Pair(name=f"group of {n} against {n - 1}", draw=draw(n)) for n in sizes),
        draws=draws,
        scouts=scouts,
        block=1_000_000,
        coins=COINS,
        goal=0.95,
        exact_outcomes=exact_outcomes,
    )


def kept_back(release: DeletionRelease) -> int:
    """How many groups of k − 1 records, which no stage publishes, leave more than Z deletes and k."""
    return -(-(largest_deletion(release.noise) + release.k) // (release.k - 1))


def _draws_of_z(
    release: DeletionRelease, *, size: int, side: int, count: int, rng: np.random.Generator
) -> list[Counts]:
    """What someone who knows all records but t's takes for Z, at each stage of so many releases.

    At each later stage t's group has `kept_back` more groups in it. Those are below k whatever is deleted, so that Z is
    drawn for t's group alone.

    Args:
        release: the mechanism.
        size: records of t's group at the first stage, t's among them.
        side: how many of them are missing.
        count: releases.
        rng: the audit's randomness.
    """
    more, last = (kept_back(release), release.stages - 1) if release.stages > 1 else (0, 0)
    counts = np.full((count, 1 + more * last), release.k - 1, dtype=np.int64)
    counts[:, 0] = size - side
    parents, deletions = [], []
    for stage in range(release.stages):
        width = 1 + more * (last - stage)
        drawn = np.zeros((count, width), dtype=np.int64)
        drawn[:, 0] = draw_deletions(release.noise, count, randomness=rng.bytes)
        deletions.append(drawn.ravel())
        if stage < last:
            places = np.maximum(np.arange(width) - more, 0)
            parents.append((np.arange(count)[:, None] * (width - more) + places).ravel())
    published = delete_records(counts.ravel(), release=release, parents=parents, deletions=deletions)
    left, found = np.full(count, size, dtype=np.int64), []
    for shown in published:
        left = left - shown.reshape(count, -1)[:, 0]
        found.append(left)
        left = left + more * (release.k - 1)
    return found


def _composed(
    name: str,
    words: str,
    noise: DeletionNoise,
    *,
    draws: int,
    scouts: int,
    stages: int = 1,
    releases: int = 1,
    records: int = 1,
    delta: Decimal = THOUSANDTH,
) -> Case:
    """Several draws of Z; an outcome is the sum of their losses, of which 200 make 1."""
    largest = largest_deletion(noise)
    release = DeletionRelease(stages=stages, k=largest + 2, noise=noise)
    charged = price(release, delta=delta, releases=releases, rows_per_person=records)
    ratios = log_ratios(noise, records)

    def draw(size: int) -> Draw:
        def outcomes(side: int, count: int, rng: np.random.Generator) -> Counts:
            loss = np.zeros(count)
            for _ in range(releases):
                for drawn in _draws_of_z(release, size=size, side=side * records, count=count, rng=rng):
                    loss += ratios[np.clip(drawn, 0, largest + records)]
            return np.clip(np.rint(loss * 200.0) + _MIDDLE, 0, 2 * _MIDDLE).astype(np.int64)

        return outcomes

    sizes = (records, largest + 2, 2 * largest + 2 + records)
    return Case(
        name=name,
        mechanism=f"deletion release {words}",
        claim=float(charged.epsilon),
        delta=float(delta),
        rule=charged.rule,
        exact=exact_epsilon(noise, times=stages * releases, records=records, delta=float(delta)),
        pairs=tuple(Pair(name=f"group of {n} against {n - records}", draw=draw(n)) for n in sizes),
        draws=draws,
        scouts=scouts,
        block=500_000,
        coins=COINS,
        goal=0.95,
    )


def staged_outcomes(drawn: list[Counts]) -> Counts:
    """Both of what is taken for Z as one number; modulo 64, so that what can't be Z shows too."""
    first, second = (one % _STAGED_BASE for one in drawn)
    return np.asarray(first + _STAGED_BASE * second)


def staged_case(*, draws: int, scouts: int) -> Case:
    """The release `STAGED` on a group of each of `STAGED_SIZES`; for the whole flow."""
    charged = price(STAGED, delta=THOUSANDTH)

    def draw(size: int) -> Draw:
        return lambda side, count, rng: staged_outcomes(_draws_of_z(STAGED, size=size, side=side, count=count, rng=rng))

    return Case(
        name="deletion-two-stages",
        mechanism="deletion release of two stages, optimal noise, ε = 0.5 each",
        claim=float(charged.epsilon),
        delta=float(THOUSANDTH),
        rule=charged.rule,
        exact=exact_epsilon(STAGED.noise, times=2, records=1, delta=float(THOUSANDTH)),
        pairs=tuple(Pair(name=f"group of {n} against {n - 1}", draw=draw(n)) for n in STAGED_SIZES),
        draws=draws,
        scouts=scouts,
        block=500_000,
        coins=COINS,
        goal=0.95,
    )
