"""What a privately drawn map keeps, against one fixed in the middle, at equal (ε, δ), on the UCI Adult records.

    python -m benchmarks.utility.selection --adult FOLDER

The folder holds adult.csv and adult_hierarchy_<column>.csv, separated by semicolons; the project does not ship them.
For each ε and rate, k is the least that the price allows: without a selection for the fixed map, with ε₁ for the drawn
one. Every figure is the median of some runs: published records, and the average share of information that the levels
keep (`information_kept`, all weights equal).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.selected_microdata_prices import price_selected
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kernel.group_counts import GroupCounts, sum_counts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.map_selection.choice import (
    Lattice,
    LatticeColumn,
    Levels,
    draw_map,
    group_threshold,
    information_kept,
)
from crowdblend.mechanisms.map_selection.rollup import scores
from crowdblend.tasks.counting.executors import LocalThreads
from crowdblend.tasks.counting.group_counting import count_job, group_counts
from crowdblend.tasks.inputs.hierarchy_files import read_hierarchy
from crowdblend.tasks.inputs.list import list_source
from crowdblend.tasks.inputs.source import check_metadata, plan_chunks
from crowdblend.tasks.readers.values import RecordReading

__all__ = ["Comparison", "adult_counts", "adult_lattice", "compare"]

MIDDLE = {
    "sex": 1, "age": 2, "race": 1, "marital-status": 1, "education": 2, "native-country": 1, "workclass": 1,
    "occupation": 1, "salary-class": 0,
}  # fmt: skip
DELTA = Decimal("1e-6")
SHARE = Decimal("0.1")
RUNS = 20
POINTS = tuple(
    (Decimal(epsilon), Decimal(rate))
    for epsilon, rates in (("0.5", ("0.1", "0.39")), ("1", ("0.1", "0.63")), ("2", ("0.1", "0.86")))
    for rate in rates
)
"""Per ε a tenth of the records, and the rate 1 − e^(−ε) of LQS, Theorem 3.9's least ε."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One line of the table; medians over the runs.

    Args:
        epsilon: ε of both.
        rate: sampling rate of both.
        k: thresholds of the fixed and of the drawn map.
        records: published records of the fixed and of the drawn map.
        information: share of information kept by the fixed and by the drawn map's levels.
        levels: the levels drawn most often.
    """

    epsilon: Decimal
    rate: Decimal
    k: tuple[int, int]
    records: tuple[float, float]
    information: tuple[float, float]
    levels: Levels


def adult_lattice(folder: Path) -> Lattice:
    """All levels of the nine columns: 12,960 maps."""
    columns: list[LatticeColumn] = []
    for name in MIDDLE:
        tree = read_hierarchy(str(folder / f"adult_hierarchy_{name}.csv"))
        columns.append(
            LatticeColumn(name=name, hierarchy=tree, min_level=0, max_level=tree.levels - 1, weight=Decimal(1))
        )
    return Lattice(columns=tuple(columns))


def adult_counts(source: Path, lattice: Lattice) -> GroupCounts:
    """Counts at the finest map, over all records."""
    layout = check_metadata(
        list_source(str(source), base=source.parent), columns=lattice.names, reading=RecordReading(separator=";")
    )
    job = count_job(
        release_id="benchmark",
        sample_id=None,
        generalization=lattice.map_of(lattice.finest),
        rate=None,
        reading=RecordReading(),
        key_source=None,
    )
    return group_counts(plan_chunks(layout), job=job, executor=LocalThreads())


def compare(lattice: Lattice, counts: GroupCounts, *, epsilon: Decimal, rate: Decimal, runs: int) -> Comparison:
    """Release with the fixed map and with drawn ones."""
    fixed_k = _least_k(lambda k: price(StronglySafeRelease(k=k, sampling_rate=rate), delta=DELTA).epsilon, epsilon)
    selection_epsilon = epsilon * SHARE

    def priced(k: int) -> Decimal:
        release = StronglySafeRelease(k=k, sampling_rate=rate)
        return price_selected(release, selection_epsilon=selection_epsilon, selection_rate=None, delta=DELTA).epsilon

    drawn_k = _least_k(priced, epsilon)
    threshold = group_threshold(drawn_k, rate, None)
    qualities = scores(counts, lattice=lattice, threshold=threshold, threads=2)
    rng = np.random.default_rng(1)
    middle = tuple(MIDDLE.values())
    fixed = [_published(lattice, counts, middle, fixed_k, float(rate), rng) for _ in range(runs)]
    drawn = [
        lattice.levels_of(draw_map(qualities, epsilon=selection_epsilon, rule="permute-and-flip")) for _ in range(runs)
    ]
    return Comparison(
        epsilon=epsilon,
        rate=rate,
        k=(fixed_k, drawn_k),
        records=(
            statistics.median(fixed),
            statistics.median(_published(lattice, counts, levels, drawn_k, float(rate), rng) for levels in drawn),
        ),
        information=(
            _information(lattice, middle),
            statistics.median(_information(lattice, levels) for levels in drawn),
        ),
        levels=statistics.mode(drawn),
    )


def _published(
    lattice: Lattice, counts: GroupCounts, levels: Levels, k: int, rate: float, rng: np.random.Generator
) -> int:
    map_ = lattice.map_of(levels)
    codes = [
        column.hierarchy.coarser(values, level=finest, to=level)
        for column, values, finest, level in zip(
            lattice.columns, lattice.map_of(lattice.finest).decode(counts.keys), lattice.finest, levels, strict=True
        )
    ]
    sampled = rng.binomial(sum_counts(map_.keys(codes), counts.counts).counts, rate)
    return int(sampled[sampled >= k].sum())


def _information(lattice: Lattice, levels: Levels) -> float:
    kept = [information_kept(column.hierarchy, level) for column, level in zip(lattice.columns, levels, strict=True)]
    return float(sum(kept, Fraction(0)) / len(kept))


def _least_k(priced: Callable[[int], Decimal], epsilon: Decimal) -> int:
    """The least k whose price is at most ε; prices fall with k."""

    def fits(k: int) -> bool:
        try:
            return priced(k) <= epsilon
        except InputRefused:
            return False

    high = 2
    while not fits(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--adult", type=Path, required=True, help="folder of the records and hierarchies")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    lattice = adult_lattice(arguments.adult)
    counts = adult_counts(arguments.adult / "adult.csv", lattice)
    print(
        f"{lattice.size} maps, {counts.counts.sum()} records, δ = {DELTA}, ε₁ = {SHARE}·ε, medians of {arguments.runs}"
    )
    print(
        f"{'ε':>4} {'rate':>5}  {'k':>9}  {'published records':>19}  {'information kept':>16}  levels drawn most often"
    )
    print(f"{'':>4} {'':>5}  {'fix':>4} {'drawn':>4} {'fix':>9} {'drawn':>9}  {'fix':>7} {'drawn':>8}")
    for epsilon, rate in POINTS:
        line = compare(lattice, counts, epsilon=epsilon, rate=rate, runs=arguments.runs)
        print(
            f"{line.epsilon:>4} {line.rate:>5}  {line.k[0]:>4} {line.k[1]:>4}  {line.records[0]:>9g} "
            f"{line.records[1]:>9g}  {line.information[0]:>7.3f} {line.information[1]:>8.3f}  {line.levels}",
            flush=True,
        )


if __name__ == "__main__":
    main()
