"""Audits of what adds noise: noisy and outlier-private histograms, answers, coins, and local reports."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.mechanisms.kinds.answers import Answer, CountAnswer, MeanAnswer, SumAnswer, Tally, answered
from crowdblend.mechanisms.kinds.histogram import (
    NoisyHistogram,
    OutlierPrivateHistogram,
    noisy_counts,
    outlier_private_counts,
)
from crowdblend.mechanisms.kinds.krandomization import KRandomization, OutcomeCounts, flipped
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch, encode, hash_positions
from numpy.typing import NDArray

from ..theory.noise_ratio import CoinFlipNoise, coin_flip_draws, worst_ratio
from .cases import Case, Draw, Pair

__all__ = ["OUTLIER_SIZES", "SUM_WIDTH", "noise_cases", "outlier_case", "placed", "sum_case"]

OPENDP = "OpenDP's own, from the operating system: these draws can't be repeated"
CHACHA = "the audit's bytes, turned into coins by the software"
DELTA = Decimal("1e-3")
_FAR = 4_000
SUM_WIDTH = 5
OUTLIER_SIZES = (1, 2, 20, 39, 40, 41, 60)


def noise_cases(scale: float) -> list[Case]:
    """Every case of this module."""

    def times(draws: int) -> int:
        return max(2_000, round(draws * scale))

    slow = {"draws": times(1_000_000), "scouts": times(100_000), "block": 100_000}
    fast = {"draws": times(20_000_000), "scouts": times(500_000), "block": 500_000}
    return [
        _noisy(**slow),
        outlier_case(**slow),
        *_answers(slow),
        _coin_flips(**fast),
        _sketch(**slow),
        _local(**fast),
        _outcomes(draws=times(1_000_000), scouts=times(100_000), block=100_000),
    ]


def placed(values: NDArray[np.int64], width: int = 1) -> NDArray[np.int64]:
    """Published numbers of any sign as numbers of outcomes, `width` values to one."""
    return np.clip(values // width + _FAR // 2, 0, _FAR)


def _noisy(*, draws: int, scouts: int, block: int) -> Case:
    mechanism = NoisyHistogram(k=20, epsilon=Decimal("0.5"), sampling_rate=Decimal("0.2"))
    charged = price(mechanism, delta=DELTA)

    def draw(size: int) -> Draw:
        return lambda side, count, rng: placed(noisy_counts(rng.binomial(size - side, 0.2, count), mechanism))

    return Case(
        name="noisy-histogram",
        mechanism="histogram with noise below k, k = 20, ε of the noise 0.5, β = 0.2",
        claim=float(charged.epsilon),
        delta=float(DELTA),
        rule=charged.rule,
        exact=float(charged.epsilon),
        pairs=tuple(
            Pair(name=f"group of {n} against {n - 1}", draw=draw(n)) for n in (1, 2, 20, 40, 55, 65, 75, 90, 120)
        ),
        draws=draws,
        scouts=scouts,
        block=block,
        coins=OPENDP,
    )


def outlier_case(*, draws: int, scouts: int, block: int) -> Case:
    """The outlier-private histogram, on a group of each of `OUTLIER_SIZES`."""
    mechanism = OutlierPrivateHistogram(epsilon=Decimal("0.5"), horizon=60, margin=20)
    charged = price(mechanism, delta=DELTA)

    def draw(size: int) -> Draw:
        def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
            return placed(outlier_private_counts(np.full(count, size - side, dtype=np.int64), mechanism))

        return outcomes

    return Case(
        name="outlier-private-histogram",
        mechanism="outlier-private histogram, ε = 0.5, K = 60, t = 20",
        claim=float(charged.epsilon),
        delta=float(DELTA),
        rule=charged.rule,
        exact=float(charged.epsilon),
        pairs=tuple(Pair(name=f"group of {n} against {n - 1}", draw=draw(n)) for n in OUTLIER_SIZES),
        draws=draws,
        scouts=scouts,
        block=block,
        coins=OPENDP,
    )


def _answers(size: dict[str, int]) -> list[Case]:
    both = "add/remove"
    common = {"epsilon": Decimal("0.8"), "relation": both, "groups": 50_000}
    count = CountAnswer(**common, sampling_rate=None)
    sampled = CountAnswer(**common, sampling_rate=Decimal("0.2"))
    mean = MeanAnswer(**common, sampling_rate=None, lower=0, upper=100, least_records=10)
    swapped = CountAnswer(epsilon=Decimal("0.8"), relation="replacement", groups=50_000, sampling_rate=None)
    one = {"one record against empty data": ((1, 0), (0, 0)), "group of 1000 against 999": ((1000, 0), (999, 0))}
    return [
        _answer("count", "COUNT, ε = 0.8", count, one, size),
        _answer("count-on-a-sample", "COUNT on a sample, ε = 0.8, β = 0.2", sampled, one, size),
        sum_case(**size),
        _answer(
            "mean",
            "MEAN of values within 0 … 100, at least 10 records, ε = 0.8",
            mean,
            {
                "a value of 100 against empty data": ((1, 100), (0, 0)),
                "the tenth record, of value 100, beside zeros": ((10, 100), (9, 0)),
                "the eleventh, of value 100, beside zeros": ((11, 100), (10, 0)),
            },
            size,
            width=1 << 16,
        ),
        _answer(
            "count-of-replaced",
            "COUNT by group under replacement, ε = 0.8",
            swapped,
            {"a record moves to another group": ((1, 0), (0, 0))},
            size,
            moved=True,
        ),
    ]


def sum_case(*, draws: int, scouts: int, block: int) -> Case:
    """SUM of bounded values; the first pair is one record against none."""
    return _answer(
        "sum",
        "SUM of values within −30 … 100, ε = 0.8",
        SumAnswer(
            epsilon=Decimal("0.8"), relation="add/remove", groups=50_000, sampling_rate=None, lower=-30, upper=100
        ),
        {
            "a value of 100 against empty data": ((1, 100), (0, 0)),
            "a value of −30 against empty data": ((1, -30), (0, 0)),
            "a value of 10⁹, which counts as 100, beside 50 others": ((51, 1_100), (50, 1_000)),
        },
        {"draws": draws, "scouts": scouts, "block": block},
        width=SUM_WIDTH,
    )


def _answer(
    name: str,
    mechanism: str,
    answer: Answer,
    pairs: dict[str, tuple[tuple[int, int], tuple[int, int]]],
    size: dict[str, int],
    *,
    width: int = 1,
    moved: bool = False,
) -> Case:
    """A case of pure privacy; each pair has (records, sum) of t's group with t and without."""
    charged = price(answer, delta=Decimal(0))

    def noisy(records: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.array(answered(answer, Tally(records=records, sums=sums)), dtype=np.int64)

    def draw(neighbours: tuple[tuple[int, int], tuple[int, int]]) -> Draw:
        def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
            records, total = neighbours[side]
            exact = np.full(count, records, dtype=np.int64)
            if answer.sampling_rate is not None:
                exact = rng.binomial(records, float(answer.sampling_rate), count)
            found = noisy(exact, np.full(count, total, dtype=np.int64))
            if not moved:
                return placed(found, width)
            here = np.clip(found, -30, 30) + 30
            there = np.clip(noisy(1 - exact, np.zeros(count, dtype=np.int64)), -30, 30) + 30
            return here * 61 + there

        return outcomes

    return Case(
        name=name,
        mechanism=mechanism,
        claim=float(charged.epsilon),
        delta=0.0,
        rule=charged.rule,
        exact=float(charged.epsilon),
        pairs=tuple(Pair(name=words, draw=draw(neighbours)) for words, neighbours in pairs.items()),
        coins=OPENDP,
        **size,
    )


def _coin_flips(*, draws: int, scouts: int, block: int) -> Case:
    claimed = float(worst_ratio(CoinFlipNoise()).epsilon)

    def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        return placed(coin_flip_draws(count, randomness=rng.bytes) + 1 - side)

    return Case(
        name="coin-flip-count",
        mechanism="COUNT with noise by coin flips",
        claim=claimed,
        delta=0.0,
        rule="coin-flip-noise/1",
        exact=math.log(4.0),
        pairs=(Pair(name="one record against empty data", draw=outcomes),),
        draws=draws,
        scouts=scouts,
        block=block,
        coins=CHACHA,
    )


def _sketch(*, draws: int, scouts: int, block: int) -> Case:
    sketch = CountMeanSketch(epsilon=Decimal(2), hashes=2, bits=8, seed=b"audit")
    charged = price(sketch, delta=Decimal(0))
    words = [f"word {number}" for number in range(40)]
    apart = next(word for word in words if np.all(hash_positions(sketch, word) != hash_positions(sketch, words[0])))

    def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        reports = encode(sketch, [apart if side else words[0]] * count, randomness=rng.bytes)
        return reports.hash_numbers.astype(np.int64) * 256 + reports.packed_bits[:, 0]

    return Case(
        name="count-mean-sketch",
        mechanism="one report of a count mean sketch, ε = 2",
        claim=float(charged.epsilon),
        delta=0.0,
        rule=charged.rule,
        exact=2.0,
        pairs=(Pair(name="one value against another (replacement)", draw=outcomes),),
        draws=draws,
        scouts=scouts,
        block=block,
        coins=CHACHA,
    )


def _vectors(mechanism: KRandomization) -> Callable[[int, int, np.random.Generator], NDArray[np.int64]]:
    def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        ones = (1 << mechanism.bits) - 1
        vectors = np.full(count, 0 if side else ones, dtype=np.uint32)
        return flipped(mechanism, vectors, randomness=rng.bytes).astype(np.int64)

    return outcomes


def _local(*, draws: int, scouts: int, block: int) -> Case:
    mechanism = KRandomization(bits=3, flip_probability=Decimal("0.25"))
    charged = price(mechanism, delta=Decimal(0))
    return Case(
        name="k-randomization",
        mechanism="one report by K-randomization, L = 3, q = 0.25",
        claim=float(charged.epsilon),
        delta=0.0,
        rule=charged.rule,
        exact=3.0 * math.log(3.0),
        pairs=(Pair(name="all ones against no ones (replacement)", draw=_vectors(mechanism)),),
        draws=draws,
        scouts=scouts,
        block=block,
        coins=CHACHA,
    )


def _outcomes(*, draws: int, scouts: int, block: int) -> Case:
    mechanism = KRandomization(bits=1, flip_probability=Decimal("0.25"))
    people = 50
    counts = OutcomeCounts(randomizer=mechanism, least_people=people)
    charged = price(counts, delta=DELTA)

    def draw(ones: int) -> Draw:
        def outcomes(side: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
            vectors = np.zeros((count, people), dtype=np.uint32)
            vectors[:, : ones + 1 - side] = 1
            return flipped(mechanism, vectors.ravel(), randomness=rng.bytes).reshape(count, people).sum(axis=1)

        return lambda side, count, rng: outcomes(side, count, rng).astype(np.int64)

    return Case(
        name="outcome-counts",
        mechanism="published counts of 50 reports of one bit, q = 0.25",
        claim=float(charged.epsilon),
        delta=float(DELTA),
        rule=charged.rule,
        exact=float(charged.epsilon),
        pairs=tuple(
            Pair(name=f"{ones} of 49 others have a one (replacement)", draw=draw(ones)) for ones in (0, 12, 25, 37, 49)
        ),
        draws=draws,
        scouts=scouts,
        block=block,
        coins=CHACHA,
    )
