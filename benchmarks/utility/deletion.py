"""What deletion releases publish of the UCI Adult records, against sampled ones at equal (ε, δ), by real releases.

    python -m benchmarks.utility.deletion --adult FOLDER

The folder holds adult.csv and adult_hierarchy_<column>.csv, separated by semicolons; the project does not ship them.
Every figure is of one release, charged to a ledger and read back from the published table. The exact expectation of
each comes from the groups' sizes, counted here by dictionaries; a figure more than four standard errors off is an error
(false alarm: 1e-3 for all together). "Best sampled" knows these sizes: no steward could choose as well.
"""

from __future__ import annotations

import argparse
import csv
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pyarrow.parquet as pq
from crowdblend.accounting.theory.planning.deletion_planning import DeletionShape, plan_deletion
from crowdblend.accounting.theory.planning.inversion import Target, least_k
from crowdblend.deploy.api import add_dataset, add_series, release
from crowdblend.mechanisms.kernel.errors import InputRefused
from crowdblend.mechanisms.kinds.deletion_noise import DeletionNoise, deletion_weights
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import binom

from ..generated_pages import write_between
from ..mechanism_pictures import BLUE, GREEN, ORANGE, SETTINGS

__all__ = ["BY", "Adult", "Expected", "Sampling", "deleted", "main", "sampled"]

BY = "benchmarks/utility/deletion.py"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "deletion-utility.svg"
COLUMNS = (
    "sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation", "salary-class",
)  # fmt: skip
Levels = tuple[int, ...]
USUAL, FINER, COARSE = (1, 2, 1, 1, 2, 1, 1, 1, 0), (0, 1, 0, 1, 1, 1, 1, 0, 0), (1, 3, 1, 1, 3, 2, 2, 2, 0)
"""The middle of the lattice, ages by tens; a finer map; and ages by twenties, marital status and salary alone."""

DELTA = Decimal("1e-6")
EPSILONS = tuple(map(Decimal, ("0.183", "0.438", "1", "2")))
RATES = tuple(Decimal(tenths) / 10 for tenths in range(1, 10))
SERIES_EPSILON, SERIES_RELEASES, LEAST_LOSS = Decimal("0.4216"), 12, 175
STAGES_EPSILON = Decimal(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """A sampled release's parameters."""

    k: int
    rate: Decimal

    def __str__(self) -> str:
        return f"k = {self.k}, β = {self.rate}"


USUAL_CHOICE = {
    Decimal("0.183"): Sampling(k=20, rate=Decimal("0.1")),
    Decimal("0.438"): Sampling(k=20, rate=Decimal("0.2")),
    Decimal(1): Sampling(k=12, rate=Decimal("0.2")),
}
"""ε → what a steward might choose for it without a look at the records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """Published records and groups, each with its standard deviation: exactly, from the groups' sizes."""

    records: float
    groups: float
    records_sd: float
    groups_sd: float

    def fits(self, records: int, groups: int) -> bool:
        """Whether a release of so many is within four standard deviations."""
        return (
            abs(records - self.records) <= 4 * self.records_sd + 0.5
            and abs(groups - self.groups) <= 4 * self.groups_sd + 0.5
        )


def sampled(sizes: NDArray[np.int64], sampling: Sampling) -> Expected:
    """What a sampled release of groups of these sizes publishes."""
    laws = []
    for size in sizes[sizes >= sampling.k].tolist():
        kept = np.arange(sampling.k, size + 1)
        laws.append((kept, binom.pmf(kept, size, float(sampling.rate))))
    return _expected(laws)


def deleted(sizes: NDArray[np.int64], noise: DeletionNoise) -> Expected:
    """What a deletion release with one stage publishes of groups of these sizes."""
    weights = np.array(deletion_weights(noise), dtype=float)
    chances = weights / weights.sum()
    return _expected(
        (size - np.arange(min(size, weights.size)), chances[: min(size, weights.size)]) for size in sizes.tolist()
    )


def _expected(laws: Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> Expected:
    """Sums over independent groups, each with its published sizes of at least 1 and their chances."""
    records = groups = records_variance = groups_variance = 0.0
    for kept, chances in laws:
        there, mean = float(chances.sum()), float(kept @ chances)
        records, groups = records + mean, groups + there
        records_variance += float((kept * kept) @ chances) - mean**2
        groups_variance += there * (1 - there)
    return Expected(
        records=records,
        groups=groups,
        records_sd=math.sqrt(max(records_variance, 0.0)),
        groups_sd=math.sqrt(max(groups_variance, 0.0)),
    )


@dataclass(frozen=True, kw_only=True)
class Adult:
    """The records and hierarchies in their folder, and a folder with a ledger to release them in.

    Args:
        folder: where the records lie.
        work: where ledger and releases go; temporary.
    """

    folder: Path
    work: Path
    _made: list[Path] = field(default_factory=list)

    def sizes(self, levels: Levels) -> dict[tuple[str, ...], int]:
        """Records of every group, by its labels: by Python's own csv reader, nothing of the product."""
        maps = self._labels
        return Counter(
            tuple(maps[name][row[name]][level] for name, level in zip(COLUMNS, levels, strict=True))
            for row in self._rows
        )

    def counts(self, levels: Levels) -> NDArray[np.int64]:
        """The same without the labels, shape (groups,)."""
        return np.array(list(self.sizes(levels).values()), dtype=np.int64)

    @cached_property
    def _rows(self) -> list[dict[str, str]]:
        with (self.folder / "adult.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file, delimiter=";"))

    @cached_property
    def _labels(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        found = {}
        for name in COLUMNS:
            with (self.folder / f"adult_hierarchy_{name}.csv").open(newline="", encoding="utf-8") as file:
                found[name] = {row[0]: row for row in csv.reader(file, delimiter=";")}
        return found

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self._rows)

    @property
    def ledger(self) -> str:
        """The URL of the ledger."""
        return f"sqlite:///{self.work / 'ledger.db'}"

    @property
    def private_store(self) -> Path:
        """Where its keys lie."""
        return self.work / "private"

    def add(self) -> None:
        """Register the data set, with a budget for all that is measured."""
        add_dataset("adult", epsilon=1000, delta="0.1", ledger_url=self.ledger, home=self.private_store)

    def spec(self, tables: str, maps: Sequence[Levels], *, epsilon: Decimal) -> Path:
        """A specification with these tables, of one map or of a chain."""
        columns = "".join(
            f'[columns.{name}]\nhierarchy = "{self.folder}/adult_hierarchy_{name}.csv"\n'
            + (f"levels = {[levels[place] for levels in maps]}\n" if len(maps) > 1 else f"level = {maps[0][place]}\n")
            for place, name in enumerate(COLUMNS)
        )
        path = self.work / f"{len(self._made)}.toml"
        path.write_text(
            '[release]\nname = "adult"\nform = "counts"\n[data]\ndataset = "adult"\n'
            f'source = "{self.folder}/adult.csv"\nseparator = ";"\n'
            f"[privacy]\nepsilon = {epsilon}\ndelta = {DELTA}\n{tables}{columns}",
            encoding="utf-8",
        )
        self._made.append(path)
        return path

    def published(self, spec: Path, *, series: str | None = None) -> list[dict[str, object]]:
        """Release, and the rows of the published table."""
        output = self.work / f"out-{len(self._made)}"
        self._made.append(output)
        release(spec, output=output, series=series, ledger_url=self.ledger, home=self.private_store)
        rows: list[dict[str, object]] = pq.read_table(output / "data.parquet").to_pylist()
        return rows

    def measured(self, tables: str, levels: Levels, *, epsilon: Decimal, expected: Expected) -> tuple[int, int]:
        """Records and groups of one release.

        Raises:
            RuntimeError: they aren't what they should be.
        """
        rows = self.published(self.spec(tables, [levels], epsilon=epsilon))
        found = sum(int(str(row["count"])) for row in rows), len(rows)
        if not expected.fits(*found):
            raise RuntimeError(f"{found} published at ε = {epsilon}, and {expected} were expected")
        return found


def best_sampling(sizes: NDArray[np.int64], *, epsilon: Decimal) -> Sampling:
    """The rate, a multiple of a tenth, and the least k for it that publish most records at a price."""
    tried = []
    for rate in RATES:
        try:
            tried.append(Sampling(k=least_k(rate, Target(epsilon=epsilon, delta=DELTA)), rate=rate))
        except InputRefused:
            continue
    return max(tried, key=lambda one: sampled(sizes, one).records)


def comparison(adult: Adult, *, shape: DeletionShape | None) -> list[str]:
    """The table's rows: for each ε, one release of each kind of each map."""
    lines = [
        "| ε | sampled, a usual choice | best sampled | deletion | best sampled, finer map | deletion, finer map |",
        "|---|---|---|---|---|---|",
    ]
    table = "[deletion]\n" if shape is None else f'[deletion]\nshape = "{shape}"\n'
    for epsilon in EPSILONS:
        cells = [str(epsilon)]
        noise = plan_deletion(epsilon=epsilon, delta=DELTA, shape=shape).mechanism.noise
        for levels in (USUAL, FINER):
            sizes = adult.counts(levels)
            choices = [USUAL_CHOICE.get(epsilon)] if levels == USUAL else []
            for sampling in (*choices, best_sampling(sizes, epsilon=epsilon)):
                if sampling is None:
                    cells.append("–")
                    continue
                own = f"[sampling]\nrate = {sampling.rate}\n[suppression]\nk = {sampling.k}\n"
                found = adult.measured(own, levels, epsilon=epsilon, expected=sampled(sizes, sampling))
                cells.append(f"{found[0]:,} / {found[1]} ({sampling})")
            found = adult.measured(table, levels, epsilon=epsilon, expected=deleted(sizes, noise))
            cells.append(f"**{found[0]:,} / {found[1]}**")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def staged(adult: Adult) -> str:
    """What a release in three stages publishes, and what one of the finest map alone does."""
    rows = adult.published(adult.spec("[deletion]\n", [FINER, USUAL, COARSE], epsilon=STAGES_EPSILON))
    stages = [sum(int(str(row["count"])) for row in rows if row["stage"] == number) for number in (1, 2, 3)]
    groups = ", ".join(f"{len(adult.sizes(levels)):,}" for levels in (FINER, USUAL, COARSE))
    each = ", ".join(f"{records:,}" for records in stages)
    return (
        f"In three stages at ε = {STAGES_EPSILON} ({groups} groups) **{sum(stages):,}** of {adult.records:,} records "
        f"are published: {each}."
    )


def series(adult: Adult) -> str:
    """What groups lose in a series.

    Raises:
        RuntimeError: a group lost more than it can, or the mean loss is off by more than four standard errors.
    """
    plan = plan_deletion(epsilon=SERIES_EPSILON, delta=DELTA, releases=SERIES_RELEASES)
    spec = adult.spec("[deletion]\n", [USUAL], epsilon=SERIES_EPSILON)
    add_series("series", spec, releases=SERIES_RELEASES, ledger_url=adult.ledger, home=adult.private_store)
    large = {labels: size for labels, size in adult.sizes(USUAL).items() if size > plan.largest_deletion}
    lost: list[int] = []
    for _ in range(SERIES_RELEASES):
        rows = adult.published(spec, series="series")
        kept = {tuple(str(row[name]) for name in COLUMNS): int(str(row["count"])) for row in rows}
        lost += [size - kept[labels] for labels, size in large.items()]
    weights = np.array(deletion_weights(plan.mechanism.noise), dtype=float)
    spread = math.sqrt(float(weights @ (np.arange(weights.size) - plan.expected_deletion) ** 2) / float(weights.sum()))
    mean = sum(lost) / len(lost)
    if max(lost) > plan.largest_deletion or abs(mean - plan.expected_deletion) > 4 * spread / math.sqrt(len(lost)):
        raise RuntimeError(f"{mean:.1f} lost in the mean, {plan.expected_deletion:.1f} expected, {max(lost)} at most")
    return (
        f"In a series of {SERIES_RELEASES} deletion releases at ε = {SERIES_EPSILON} for all of them, a group loses "
        f"{plan.expected_deletion:.1f} records in expectation in each, and at most {plan.largest_deletion}. The "
        f"{len(large)} groups with more records than that lost {mean:.1f} in the mean, and {max(lost)} at most."
    )


def draw(adult: Adult, file: Path, *, shape: DeletionShape | None) -> None:
    """Expected records and groups against ε, by the exact laws: two maps, sampled and deletion."""
    epsilons = [Decimal(str(round(value, 3))) for value in np.geomspace(0.1, 2.0, 15)]
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(8.0, 3.4), layout="constrained")
        records, groups = figure.subplots(1, 2)
        for levels, style, name in ((USUAL, "-", "usual map"), (FINER, "--", "finer map")):
            sizes = adult.counts(levels)
            best = [sampled(sizes, best_sampling(sizes, epsilon=epsilon)) for epsilon in epsilons]
            noises = [plan_deletion(epsilon=one, delta=DELTA, shape=shape).mechanism.noise for one in epsilons]
            ours = [deleted(sizes, noise) for noise in noises]
            for found, colour, kind in ((ours, ORANGE, "deletion"), (best, BLUE, "best sampled")):
                look = {"color": colour, "linestyle": style, "label": f"{kind}, {name}"}
                records.plot(epsilons, [one.records for one in found], **look)
                groups.plot(epsilons, [one.groups for one in found], **look)
        sizes = adult.counts(USUAL)
        usual = [(epsilon, sampled(sizes, choice)) for epsilon, choice in USUAL_CHOICE.items()]
        for axes, values in ((records, [one.records for _, one in usual]), (groups, [one.groups for _, one in usual])):
            axes.plot([one for one, _ in usual], values, "o", color=GREEN, label="sampled, a usual choice, usual map")
            axes.set(xlabel="ε at δ = 1e-6", xscale="log", ylim=(0, None))
            axes.set_xticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.minorticks_off()
        records.axhline(adult.records, color="0.6", linewidth=0.8)
        records.annotate(f"all {adult.records:,} records", (0.1, adult.records), (0, 3), textcoords="offset points")
        records.set(ylabel="published records, expected", ylim=(0, 1.1 * adult.records))
        groups.set(ylabel="published groups, expected")
        groups.legend(frameon=False, fontsize=8)
        figure.savefig(file, metadata={"Date": None, "Title": "deletion-utility"})


def main(argv: Sequence[str] | None = None) -> None:
    """Release, print, and write the table into a page with its picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, required=True)
    parser.add_argument("--shape", choices=("optimal", "geometric", "gaussian"), help="of the table's noise; the best")
    parser.add_argument("--write", type=Path, help="page with the table, such as docs/benchmarks/deletion.md")
    parser.add_argument("--picture", type=Path, help=f"where the picture goes; with --write {PICTURE.name}")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="deletion-utility-") as temporary:
        adult = Adult(folder=asked.adult.resolve(), work=Path(temporary))
        adult.add()
        heading = (
            f"Published records / groups of {adult.records:,} records at δ = {DELTA:e}, one release each: "
            f"{len(adult.sizes(USUAL)):,} groups in the usual map, {len(adult.sizes(FINER)):,} in the finer one."
        )
        lines = [heading, "", *comparison(adult, shape=asked.shape), "", staged(adult), "", series(adult)]
        print("\n".join(lines))
        picture = asked.picture or (None if asked.write is None else PICTURE)
        if picture is not None:
            draw(adult, picture, shape=asked.shape)
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)


if __name__ == "__main__":
    main()
