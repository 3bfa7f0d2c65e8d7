"""The claims that are audited through the whole flow, and their twins, which choose group size and event."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.selected_microdata_prices import price_selected
from crowdblend.mechanisms.kinds.answers import CountAnswer, Tally, answered
from crowdblend.mechanisms.kinds.histogram import NoisyHistogram, noisy_counts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from numpy import array, full, int64, zeros

from .cases import Case, Draw, Pair
from .cases_of_counts import by_numpy, safe_case, suppressing
from .cases_of_deletion import STAGED_SIZES, staged_case
from .cases_of_noise import OUTLIER_SIZES, outlier_case, placed, sum_case

__all__ = ["SIZES", "flow_cases", "twin_cases"]

SAFE_SIZES = (5, 6, 7, 8, 9, 10, 15, 25)
NOISY_SIZES = (1, 2, 5, 7, 9, 11, 13, 16, 20, 25, 30)
SIZES: dict[str, tuple[int, ...]] = {
    "flow-twin-safe": SAFE_SIZES,
    "flow-twin-tight": SAFE_SIZES,
    "flow-twin-noisy": NOISY_SIZES,
    "flow-twin-count": (1,),
    "flow-twin-outlier": OUTLIER_SIZES,
    "flow-twin-sum": (1,),
    "flow-twin-deletion": STAGED_SIZES,
}
"""Records of t's group, for each pair of a twin."""

NOISY = NoisyHistogram(k=5, epsilon=Decimal("0.5"), sampling_rate=Decimal("0.2"))
COUNT = CountAnswer(epsilon=Decimal("0.8"), relation="add/remove", groups=50_000, sampling_rate=None)
OURS = "the software's, keys by the operating system; noise OpenDP's own"


def twin_cases(scale: float) -> list[Case]:
    """The twins: nothing is counted for them."""

    def times(draws: int) -> int:
        return max(2_000, round(draws * scale))

    safe = [safe_case(k=5, rate="0.2", delta=d, draws=0, scouts=times(4_000_000)) for d in ("1e-3", "3e-3")]
    sampler = by_numpy(0.2)
    noisy = price(NOISY, delta=Decimal("1e-3"))
    count = price(COUNT, delta=Decimal(0))
    outlier = outlier_case(draws=0, scouts=times(200_000), block=100_000)
    total = sum_case(draws=0, scouts=times(200_000), block=100_000)

    def noisy_draw(size: int) -> Draw:
        return lambda side, draws, rng: placed(noisy_counts(sampler(size - side, draws, rng), NOISY))

    def count_draw(side: int, draws: int, rng: object) -> object:
        tally = Tally(records=full(draws, 1 - side, dtype=int64), sums=zeros(draws, dtype=int64))
        return placed(array(answered(COUNT, tally), dtype=int64))

    return [
        *(
            replace(
                case,
                name=name,
                exact_outcomes=None,
                pairs=tuple(_pair(size, suppressing(sampler, size=size, k=5)) for size in SAFE_SIZES),
            )
            for name, case in zip(("flow-twin-safe", "flow-twin-tight"), safe, strict=True)
        ),
        Case(
            name="flow-twin-noisy",
            mechanism="histogram with noise below k, k = 5, ε of the noise 0.5, β = 0.2",
            claim=float(noisy.epsilon),
            delta=1e-3,
            rule=noisy.rule,
            exact=float(noisy.epsilon),
            pairs=tuple(_pair(size, noisy_draw(size)) for size in NOISY_SIZES),
            draws=0,
            scouts=times(200_000),
            block=100_000,
            coins=OURS,
        ),
        Case(
            name="flow-twin-count",
            mechanism="COUNT by group, ε = 0.8",
            claim=float(count.epsilon),
            delta=0.0,
            rule=count.rule,
            exact=0.8,
            pairs=(_pair(1, count_draw),),
            draws=0,
            scouts=times(200_000),
            block=50_000,
            coins=OURS,
        ),
        replace(outlier, name="flow-twin-outlier"),
        replace(total, name="flow-twin-sum", pairs=total.pairs[:1]),
        replace(staged_case(draws=0, scouts=times(1_000_000)), name="flow-twin-deletion"),
    ]


def flow_cases(scale: float) -> dict[str, Case]:
    """The claims of the flows, by the flow's name."""
    safe, tight, noisy, count, outlier, total, staged = (replace(case, goal=0.0) for case in twin_cases(scale))
    chosen = price_selected(
        StronglySafeRelease(k=5, sampling_rate=Decimal("0.2")),
        selection_epsilon=Decimal(1),
        selection_rate=None,
        delta=Decimal("1e-3"),
    )
    drawn = replace(
        safe,
        mechanism="ε-safe release, map drawn on the whole data with ε₁ = 1, k = 5, β = 0.2",
        claim=float(chosen.epsilon),
        rule=chosen.rule,
        exact=None,
    )
    flows = {
        "flow-safe-csv": (safe, "CSV"),
        "flow-safe-parquet": (replace(tight, goal=0.8), "Parquet"),
        "flow-epsilon-safe": (drawn, "Parquet"),
        "flow-noisy": (noisy, "Parquet"),
        "flow-count": (count, "CSV"),
        "flow-histogram": (replace(safe, mechanism="suppressed histogram on a sample, k = 5, β = 0.2"), "Parquet"),
        "flow-points": (replace(safe, mechanism="synthetic points, one dimension, k = 5, β = 0.2"), "Parquet"),
        "flow-outlier-private": (outlier, "Parquet"),
        "flow-sum": (total, "CSV"),
        "flow-deletion": (staged, "Parquet"),
    }
    return {
        name: replace(case, name=name, mechanism=f"whole flow from {source}: {case.mechanism}", coins=OURS)
        for name, (case, source) in flows.items()
    }


def _pair(size: int, draw: object) -> Pair:
    words = "one record against none" if size == 1 else f"group of {size} against {size - 1}"
    return Pair(name=words, draw=draw)  # type: ignore[arg-type]
