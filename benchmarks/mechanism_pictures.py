"""Draws what comes out of each mechanism into docs/mechanisms, from invented data with a fixed seed.

OpenDP draws its noise by itself, so the noisy pictures differ from run to run.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import matplotlib as mpl
import numpy as np
from crowdblend.accounting.kinds.survey_prices import price_biased_counts
from crowdblend.mechanisms.answer_errors import estimates, half_width
from crowdblend.mechanisms.kernel.mechanism import ADD_REMOVE
from crowdblend.mechanisms.kinds.answers import CountAnswer, answered, tallied
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts
from crowdblend.mechanisms.kinds.deletion_noise import OptimalDeletion, deletion_weights
from crowdblend.mechanisms.kinds.histogram import (
    NoisyHistogram,
    OutlierPrivateHistogram,
    SuppressedHistogram,
    noisy_counts,
    outlier_private_counts,
    suppressed_counts,
)
from crowdblend.mechanisms.kinds.krandomization import KRandomization, flipped, outcome_counts
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease
from crowdblend.mechanisms.kinds.points import SyntheticPoints
from crowdblend.mechanisms.kinds.sketch import CountMeanSketch, encode, summed
from crowdblend.mechanisms.local_reports.design import QuestionDesign, answer_labels, estimated
from crowdblend.mechanisms.local_reports.estimates import estimated_counts, standard_error
from crowdblend.mechanisms.synthetic_points import cell_numbers, points_of_counts
from matplotlib.figure import Figure
from scipy import stats

from audit.exhibits.unsafe_mechanisms import LADDER_K, LADDER_RATE, ladder_delta
from audit.theory.noise_ratio import GaussianNoise, LaplaceNoise, OneSidedGeometricNoise, log_probability

from .generated_pages import record

__all__ = ["PICTURES", "main"]

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "mechanisms"
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "0.75"
SETTINGS = {"svg.hashsalt": "crowdblend", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 9.0}


def histograms(figure: Figure) -> None:
    """Favourite colours (40, 46, 7, 2 with k = 20) and two empty cells, three ways."""
    names = ["red", "blue", "green", "mauve", "puce", "ecru"]
    counts = np.array([40, 46, 7, 2, 0, 0])
    published = {
        "suppressed,\nk = 20": suppressed_counts(counts, SuppressedHistogram(k=20, sampling_rate=None)),
        "noisy below k = 20,\nε = 0.5": noisy_counts(
            counts, NoisyHistogram(k=20, epsilon=Decimal("0.5"), sampling_rate=None)
        ),
        "outlier-private, ε = 0.2,\nK = 15, t = 5": outlier_private_counts(
            counts, OutlierPrivateHistogram(epsilon=Decimal("0.2"), horizon=15, margin=5)
        ),
    }
    places = np.arange(len(names))
    for axes, (title, shown) in zip(figure.subplots(1, 3, sharey=True), published.items(), strict=True):
        axes.bar(places, counts, color=GREY, width=0.8, label="in the data")
        axes.scatter(places, shown, color=ORANGE, zorder=3, label="published")
        axes.set_xticks(places, names, rotation=45)
        axes.set_title(title, fontsize=9)
        axes.axhline(0, color="0.3", linewidth=0.7)
    figure.axes[0].set_ylabel("people")
    figure.axes[0].legend(frameon=False)


def answers(figure: Figure) -> None:
    """COUNT by group over the whole declared domain with 95% intervals; the last two groups are empty."""
    draws = np.random.default_rng(7)
    answer = CountAnswer(epsilon=Decimal("0.2"), relation=ADD_REMOVE, groups=12, sampling_rate=None)
    groups = np.minimum(draws.poisson(4, 600), 9)
    tally = tallied(answer, groups=groups, values=None)
    shown = [float(value) for value in estimates(answer, answered(answer, tally))]
    axes = figure.subplots()
    axes.bar(range(12), tally.records, color=GREY, label="in the data")
    width = float(half_width(answer, confidence=0.95))
    axes.errorbar(range(12), shown, yerr=width, fmt="o", color=ORANGE, capsize=3, label="answer, 95% interval")
    axes.set(xlabel="declared group", ylabel="people", xticks=range(12))
    axes.axhline(0, color="0.3", linewidth=0.7)
    axes.legend(frameon=False)


def local_reports(figure: Figure) -> None:
    """Estimates from local reports with two standard errors: a count mean sketch and K-randomization."""
    draws = np.random.default_rng(8)
    left, right = figure.subplots(1, 2)
    sketch = CountMeanSketch(epsilon=Decimal(4), hashes=256, bits=1024, seed=b"picture")
    people = [f"word {min(int(n), 15)}" for n in draws.geometric(0.25, 20_000)]
    words = [f"word {n}" for n in range(1, 16)]
    found = estimated_counts(sketch, summed(sketch, encode(sketch, people, randomness=draws.bytes)), words)
    error = 2 * standard_error(sketch, reports=len(people))
    left.bar(range(15), [people.count(word) for word in words], color=GREY)
    left.errorbar(range(15), found, yerr=error, fmt="o", color=ORANGE, capsize=2, markersize=3)
    left.set(title="count mean sketch, ε = 4, 20,000 people", xlabel="word", ylabel="people", xticks=range(0, 15, 2))
    mechanism = KRandomization(bits=3, flip_probability=Decimal("0.25"))
    design = QuestionDesign(mechanism=mechanism, questions=("smokes", "cycles", "votes"))
    labels = ["".join(label) for label in answer_labels(design)]
    order = [design.vector_of([digit == "1" for digit in label]) for label in labels]
    vectors = draws.choice(8, 20_000, p=[0.05, 0.02, 0.28, 0.06, 0.33, 0.1, 0.15, 0.01]).astype(np.uint32)
    outcomes = outcome_counts(mechanism, flipped(mechanism, vectors, randomness=draws.bytes))
    estimates = estimated(design, outcomes)
    right.bar(range(8), np.bincount(vectors, minlength=8)[order], color=GREY, label="true answers")
    right.scatter(range(8), outcomes[order], color=BLUE, marker="x", label="reported")
    right.errorbar(
        range(8), estimates.counts, yerr=2 * estimates.standard_errors,
        fmt="o", color=ORANGE, capsize=2, markersize=3, label="estimate",
    )  # fmt: skip
    right.set_xticks(range(8), labels, rotation=45)
    right.set(title="K-randomization of 3 questions, q = 0.25", xlabel="smokes, cycles, votes")
    right.legend(frameon=False)


def deletion(figure: Figure) -> None:
    """A group of each size at one price: the chance that it appears, and how many of its records are published."""
    epsilon, k, rate = Decimal("0.182989"), 20, 0.1
    weights = np.array(deletion_weights(OptimalDeletion(epsilon=epsilon, delta=Decimal("1e-6"))), dtype=float)
    deleted = weights / weights.sum()
    sizes = np.arange(1, 401)
    left = np.maximum(sizes[:, np.newaxis] - np.arange(deleted.size), 0)
    sampled = [stats.binom.pmf(np.arange(n + 1), n, rate)[k:] for n in sizes]
    appears, published = figure.subplots(1, 2)
    appears.plot(sizes, (left > 0) @ deleted, color=ORANGE, label="deletion")
    appears.plot(sizes, [part.sum() for part in sampled], color=BLUE, label="sampled, k = 20, β = 0.1")
    appears.set(xlabel="records of a group", ylabel="chance that the group appears")
    published.plot(sizes, left @ deleted, color=ORANGE)
    published.plot(sizes, [part @ np.arange(k, k + part.size) for part in sampled], color=BLUE)
    published.plot(sizes, sizes, color=GREY, linestyle="--", label="all")
    published.set(xlabel="records of a group", ylabel="published records, expected")
    appears.set_title("both at ε = 0.183, δ = 1e-6", fontsize=9)
    appears.legend(frameon=False, loc="lower right")
    published.legend(frameon=False)


def points(figure: Figure) -> None:
    """700 points of the unit square, and the synthetic ones of a sample's suppressed counts."""
    draws = np.random.default_rng(9)
    grid = SyntheticPoints(
        dimensions=2, cells_per_side=10, counts=StronglySafeRelease(k=3, sampling_rate=Decimal("0.5"))
    )
    original = draws.beta([2, 3], [4, 2], (700, 2))
    sampled = original[draws.random(700) < 0.5]
    counts = np.bincount(cell_numbers(grid, sampled), minlength=grid.cells)
    synthetic = points_of_counts(grid, np.where(counts >= 3, counts, 0))
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    left.scatter(*original.T, s=3, color=BLUE)
    left.set_title("in the data")
    centres, repeats = np.unique(synthetic, axis=0, return_counts=True)
    right.scatter(*centres.T, s=4 * repeats, color=ORANGE)
    right.set_title("published: cell centres, as often as counted")
    for axes in (left, right):
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")


def biased_samples(figure: Figure) -> None:
    """What a sample with unequal rates publishes, and its cost at δ = 1e-6 by the highest rate, with exceptions too."""
    shown, axes = figure.subplots(1, 2)
    draws = np.random.default_rng(10)
    names = ["North\nmonthly", "North\nweekly", "Island\nmonthly", "Island\nweekly", "Island\nnever"]
    people, rates = np.array([4300, 2100, 640, 430, 90]), np.array([0.1, 0.1, 0.2, 0.2, 0.2])
    event = SuppressedHistogram(k=40, sampling_rate=None)
    shown.bar(range(5), people * rates, color=GREY, label="people in the data, times their rate")
    shown.scatter(
        range(5),
        suppressed_counts(draws.binomial(people, rates), event),
        color=ORANGE,
        zorder=3,
        label="published, k = 40",
    )
    shown.set_xticks(range(5), names, fontsize=7)
    shown.set(ylabel="records", title="rates 0.1 and 0.2", ylim=(0, 560))
    shown.legend(frameon=False)
    highest = np.linspace(0.1, 0.2, 6)
    for k, colour, mark in ((20, BLUE, "o"), (40, ORANGE, "s"), (80, GREEN, "^")):
        for few, line in ((0, "-"), (2, ":")):
            prices = [_biased_price(k, rate, few) for rate in highest]
            label = f"k = {k}" if few == 0 else None
            axes.plot(highest, prices, color=colour, marker=mark, markersize=4, linestyle=line, label=label)
    axes.set(title="the price", xlabel="p′, the highest rate", ylabel="ε at δ = 1e-6", ylim=(0, 1.25))
    axes.plot([], [], color="0.4", linestyle=":", label="up to 2p′ for 3 of a group")
    axes.legend(frameon=False)


def _biased_price(k: int, rate: float, exceptions: int) -> float:
    highest = Decimal(str(round(rate, 3)))
    event = BiasedSampleCounts(
        k=k,
        lowest_rate=Decimal(0),
        highest_rate=highest,
        largest_rate=2 * highest if exceptions else highest,
        exceptions=exceptions,
    )
    return float(price_biased_counts(event, delta=Decimal("1e-6")).epsilon)


def not_to_be_used(figure: Figure) -> None:
    """The loss of three kinds of noise, the neighbours' exact answers 0 and 1; δ of levels on one sample."""
    axes, ladder = figure.subplots(1, 2, width_ratios=(3, 2))
    kinds = (
        ("Laplace, b = 2", LaplaceNoise(scale=2.0), BLUE),
        ("Gauss, σ = 2", GaussianNoise(standard_deviation=2.0), ORANGE),
        ("one-sided geometric, ε = 0.5", OneSidedGeometricNoise(epsilon=Decimal("0.5")), GREEN),
    )
    outputs = np.arange(-12, 13)
    for name, noise, colour in kinds:
        losses = [_loss(noise, float(x)) for x in outputs]
        axes.plot(outputs, losses, color=colour, marker="o", markersize=3, label=name)
    axes.annotate("certainty", (0, 3.5), (1.2, 3.42))
    axes.plot([0], [3.5], color=GREEN, marker="^")
    axes.set(xlabel="output", ylabel="loss ln(P/Q), absolute", ylim=(0, 5.6))
    axes.legend(frameon=False, loc="upper center")
    siblings = np.arange(LADDER_K, 501)
    deltas = [float(ladder_delta(k=LADDER_K, rate=LADDER_RATE, siblings=int(people))) for people in siblings]
    ladder.plot(siblings, deltas, color=PURPLE)
    ladder.axhline(1e-6, color="0.3", linewidth=0.7, linestyle="--")
    ladder.annotate("δ claimed", (230, 1e-6), (0, 4), textcoords="offset points", ha="center")
    ladder.set(xlabel="people in the sibling group", ylabel="δ at every ε", yscale="log", ylim=(1e-12, 1))
    ladder.set_title(f"a ladder of levels on one sample,\nk = {LADDER_K}, β = {float(LADDER_RATE):g}", fontsize=9)


def _loss(noise: LaplaceNoise | GaussianNoise | OneSidedGeometricNoise, output: float) -> float:
    here, there = log_probability(noise, output), log_probability(noise, output - 1)
    return abs(here - there) if math.isfinite(here) and math.isfinite(there) else math.nan


PICTURES: dict[str, Callable[[Figure], None]] = {
    "histograms": histograms,
    "answers": answers,
    "local-reports": local_reports,
    "points": points,
    "deletion": deletion,
    "biased-samples": biased_samples,
    "not-to-be-used": not_to_be_used,
}
"""Name of a page of docs/mechanisms → what draws its picture."""


def main() -> None:
    """Draw all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=FOLDER)
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        with mpl.rc_context(SETTINGS):
            figure = Figure(figsize=(8.0, 3.2), layout="constrained")
            draw(figure)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Title": name})
    record(folder / "*.svg")


if __name__ == "__main__":
    main()
