"""Twelve published analyses: the truth, and what ours, synthesizers and a noisy histogram give, at equal (ε, δ).

    python -m benchmarks.analysis_comparison --adult FILE --nist FOLDER --peers PYTHON --write

The Census 2000 is bundled; Adult and NIST's excerpt aren't. What is drawn is kept in the folder of --work, and what is
there isn't drawn again.

- *chosen pairs*: a deletion release that chooses its pairs and labels, answered by `crowdblend.analysis`.
- *named pairs*: a deletion release whose steward knows the analyses beforehand and names their pairs.
- *noisy histogram*: two-sided geometric noise of ε in every combination of labels of the columns that the analyses
  need. Its intervals have the exact variance of the noise.
- *synthesizers*: records drawn from their models of the labels that the analyses need, with the interval of a textbook
  as if these were the records.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import numpy as np
from crowdblend.analysis.combined_counts import CombinedCounts, LinearCount
from crowdblend.analysis.loaded_release import LoadedRelease
from crowdblend.analysis.published_tables import PublishedTables, RowReading, pair_cells
from numpy.typing import NDArray

from .analysis_asked import Analysis, Answer, Records
from .analysis_files import Study, adult, census, nist
from .analysis_pictures import Shown, write_pictures
from .analysis_releases import chosen_pairs, map_at, named_pairs
from .generated_pages import write_between
from .utility.peers import INDEPENDENT, Asked, answers, peers_environment
from .utility.ways import drawn_noise

__all__ = ["HistogramCounts", "main", "noisy_histogram"]

BY = "benchmarks/analysis_comparison.py"
DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "benchmarks" / "analyses.md"
PICTURES = DOCS / "benchmarks"
EPSILON = Decimal(1)
OURS, NAMED, HISTOGRAM = "chosen pairs", "named pairs", "noisy histogram"
PEERS = ("MST", "AIM")

Amounts = NDArray[np.float64]
Codes = NDArray[np.int64]


class HistogramCounts(CombinedCounts):
    """Counts by all columns together with independent noise, of which every other count is a sum.

    Args:
        cells: noisy, one axis a column.
        deviation: of each.
        pairs: all pairs of columns, with their sums of cells.
    """

    def __init__(self, cells: Amounts, *, deviation: float, published: PublishedTables) -> None:
        self.pairs = published.pairs
        self.records = float(cells.sum())
        self._cells, self._deviation = cells, deviation

    def of_pair(self, number: int, coefficients: Amounts) -> LinearCount:
        """Return a weighted sum of the cells of a pair."""
        return LinearCount(interactions={number: coefficients})

    def narrowest(self, asked: Sequence[LinearCount]) -> LinearCount:
        """Return the estimate: all of them are the same sum of cells."""
        return asked[0]

    def value(self, asked: LinearCount) -> float:
        """Return the estimate of a weighted sum of counts."""
        return float((self._weights(asked) * self._cells).sum())

    def covariance(self, one: LinearCount, other: LinearCount) -> float:
        """Return the covariance of two estimates."""
        return self._deviation**2 * float((self._weights(one) * self._weights(other)).sum())

    def _weights(self, asked: LinearCount) -> Amounts:
        """Return the coefficient of each cell."""
        weights = np.full(self._cells.shape, asked.records)
        parts = [((place,), own) for place, own in asked.mains.items()]
        for places, own in [*parts, *((self.pairs[n].columns, own) for n, own in asked.interactions.items())]:
            shape = [own.shape[places.index(axis)] if axis in places else 1 for axis in range(weights.ndim)]
            weights += own.reshape(shape)
        return weights


def noisy_histogram(study: Study, coins: np.random.Generator) -> LoadedRelease:
    """Return a noisy histogram of the columns that the analyses need, to be asked as a release is."""
    levels = [
        level if (place,) in study.needed else one.levels - 1
        for place, (one, level) in enumerate(zip(study.hierarchies.values(), study.levels, strict=True))
    ]
    columns = map_at(study.hierarchies, levels).columns
    places = [
        column.hierarchy.coarser(codes, level=level, to=column.level)
        for column, codes, level in zip(columns, study.codes, study.levels, strict=True)
    ]
    exact = np.zeros([column.size for column in columns])
    np.add.at(exact, tuple(places), 1.0)
    cells = exact + drawn_noise(EPSILON, exact.size, coins).reshape(exact.shape)
    alpha = float(np.exp(-float(EPSILON)))
    deviation = (2.0 * alpha) ** 0.5 / (1.0 - alpha)

    def sums(*kept: int) -> Amounts:
        return np.asarray(cells.sum(axis=tuple(axis for axis in range(cells.ndim) if axis not in kept)))

    pairs = [
        pair_cells([columns[i], columns[j]], (i, j), (columns[i].level, columns[j].level), sums(i, j), deviation)
        for i, j in combinations(range(len(columns)), 2)
    ]
    published = PublishedTables(
        columns=tuple(columns),
        rows=(),
        reading=RowReading(form="histogram"),
        margins=tuple(sums(place) for place in range(len(columns))),
        margin_deviation=deviation,
        pairs=tuple(pairs),
    )
    release = LoadedRelease(published)
    release.counts.__dict__["combined"] = HistogramCounts(cells, deviation=deviation, published=published)
    return release


def with_chosen_pairs(study: Study, coins: np.random.Generator) -> LoadedRelease:
    """Return a release whose pairs and labels were chosen by itself."""
    return LoadedRelease(chosen_pairs(study.hierarchies, study.records.codes, epsilon=EPSILON, coins=coins))


def with_named_pairs(study: Study, coins: np.random.Generator) -> LoadedRelease:
    """Return a release that counts the pairs of the analyses."""
    coarser = [
        min(level + 1, one.levels - 1) for one, level in zip(study.hierarchies.values(), study.levels, strict=True)
    ]
    maps = [map_at(study.hierarchies, levels) for levels in (study.levels, coarser)]
    pairs = [(places[0], places[1]) for places in study.needed if len(places) == 2]
    return LoadedRelease(named_pairs(maps, study.records.codes, pairs, epsilon=EPSILON, coins=coins))


WAYS: Mapping[str, Callable[[Study, np.random.Generator], LoadedRelease]] = {
    OURS: with_chosen_pairs,
    NAMED: with_named_pairs,
    HISTOGRAM: noisy_histogram,
}


@dataclass(frozen=True, kw_only=True)
class Draws:
    """Hold what has been drawn.

    Args:
        folder: where it is kept.
    """

    folder: Path

    def of(self, study: Study, way: str) -> list[dict[str, Answer]]:
        """Return the answers of each draw, by analysis and figure; what has none is left out."""
        if way in WAYS:
            file = self._file(study, way)
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            return [{name: Answer(**own) for name, own in json.loads(line).items()} for line in lines]
        found = []
        for file in sorted(self.folder.glob(f"{study.name}-{way}-*.npz")):
            with np.load(file) as kept:
                records = Records.of_codes(study.columns, [*kept["codes"]], kept["times"].astype(np.int64))
            found.append(
                {
                    _key(analysis, place): asked.of_records(records)
                    for analysis in study.analyses
                    for place, asked in enumerate(analysis.asked)
                }
            )
        return found

    def draw(self, study: Study, way: str, number: int) -> None:
        """Draw releases until there are so many."""
        coins = np.random.default_rng()
        for _ in range(number - len(self.of(study, way))):
            release = WAYS[way](study, coins)
            told = {
                _key(analysis, place): {"estimate": own.estimate, "lower": own.lower, "upper": own.upper}
                for analysis in study.analyses
                for place, asked in enumerate(analysis.asked)
                if (own := asked.of_release(release)) is not None
            }
            with self._file(study, way).open("a", encoding="utf-8") as file:
                file.write(json.dumps(told) + "\n")

    def synthesize(self, study: Study, peer: str, number: int, *, python: Path, minutes: float) -> None:
        """Have a synthesizer make records until there are so many files of them, or the time is over."""
        there = len([*self.folder.glob(f"{study.name}-{peer}-*.npz")])
        if there >= number:
            return
        # Its domain has no code for `*`, which nobody here has.
        sizes = [column.size - 1 for column in study.columns]
        codes = np.array([own - 1 for own in study.codes])
        asked = Asked(algorithm=peer, epsilon=EPSILON, draws=number - there, minutes=minutes)
        for answer in answers(asked, codes, sizes, python=python):
            if answer.method == INDEPENDENT:
                file = self.folder / f"{study.name}-{peer}-{there:02}.npz"
                np.savez_compressed(file, codes=np.maximum(answer.codes + 1, 0), times=answer.numbers)
                there += 1

    def _file(self, study: Study, way: str) -> Path:
        return self.folder / f"{study.name}-{way.replace(' ', '-')}.jsonl"


def _key(analysis: Analysis, place: int) -> str:
    return f"{analysis.title}/{place}"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A figure of a way, over its draws.

    Args:
        truth: of the records.
        answers: of the draws that have one.
        draws: of them all.
    """

    truth: float
    answers: Sequence[Answer]
    draws: int

    @property
    def with_interval(self) -> list[Answer]:
        """Return the answers that have an interval."""
        return [one for one in self.answers if one.lower is not None and one.upper is not None]

    @property
    def held(self) -> int:
        """Return how many intervals hold the truth."""
        return sum((one.lower or 0.0) <= self.truth <= (one.upper or 0.0) for one in self.with_interval)

    @property
    def error(self) -> float:
        """Return the median absolute error, as a share of the truth; not a number where nothing was answered."""
        errors = [abs(one.estimate - self.truth) for one in self.answers if np.isfinite(one.estimate)]
        return float(np.median(errors)) / abs(self.truth) if errors else float("nan")

    @property
    def shown(self) -> Answer | None:
        """Return the medians of the estimates and of the ends of the intervals."""
        finite = [one.estimate for one in self.answers if np.isfinite(one.estimate)]
        if not finite:
            return None
        ends = [(one.lower, one.upper) for one in self.with_interval]
        if len(ends) * 2 < self.draws:
            return Answer(estimate=float(np.median(finite)))
        lower, upper = (float(np.median([one[place] for one in ends])) for place in (0, 1))
        return Answer(estimate=float(np.median(finite)), lower=lower, upper=upper)


def compared(study: Study, draws: Mapping[str, Sequence[dict[str, Answer]]]) -> dict[tuple[str, int, str], Compared]:
    """Return each figure of each way, by analysis, place and way."""
    return {
        (analysis.title, place, way): Compared(
            truth=asked.of_records(study.records).estimate,
            answers=[one[_key(analysis, place)] for one in own if _key(analysis, place) in one],
            draws=len(own),
        )
        for analysis in study.analyses
        for place, asked in enumerate(analysis.asked)
        for way, own in draws.items()
    }


def lines_of(study: Study, draws: Mapping[str, Sequence[dict[str, Answer]]]) -> Iterator[str]:
    """Yield a file's part of the page: a table for each analysis."""
    found = compared(study, draws)
    there = {way: len(own) for way, own in draws.items() if own}
    yield f"### {study.title}"
    yield ""
    yield f"![The first figure of each analysis, with intervals, around the records' own](analyses-{study.name}.svg)"
    yield ""
    yield "Draws: " + ", ".join(f"{way} {number}" for way, number in there.items()) + "."
    missing = [way for way in draws if way not in there]
    if missing:
        yield f"Not finished: {', '.join(missing)}."
    for analysis in study.analyses:
        yield ""
        yield f"**{analysis.title.capitalize()}** ({analysis.source})"
        yield ""
        yield "| | the records | " + " | ".join(there) + " |"
        yield "|---|" + "---|" * (len(there) + 1)
        for place, asked in enumerate(analysis.asked):
            own = [found[analysis.title, place, way] for way in there]
            yield f"| {asked.name} | {_number(own[0].truth)} | " + " | ".join(map(_cell, own)) + " |"


def _cell(one: Compared) -> str:
    shown = one.shown
    if shown is None:
        return "no answer"
    interval = "none"
    if shown.lower is not None and shown.upper is not None:
        interval = f"{_number(shown.lower)} to {_number(shown.upper)}"
    held = f"{one.held} of {len(one.with_interval)}" if one.with_interval else "–"
    return f"{_number(shown.estimate)} ({interval}); {held}; {one.error:.1%}"


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def summary(studies: Sequence[Study], made: Mapping[str, Mapping[str, Sequence[dict[str, Answer]]]]) -> Iterator[str]:
    """Yield a line for each analysis: the median error of its figures, and the share of intervals that hold."""
    ways = [way for way in next(iter(made.values())) if any(own[way] for own in made.values())]
    yield "| analysis | " + " | ".join(ways) + " |"
    yield "|---|" + "---|" * len(ways)
    for study in studies:
        found = compared(study, made[study.name])
        for analysis in study.analyses:
            cells = []
            for way in ways:
                own = [found[analysis.title, place, way] for place in range(len(analysis.asked))]
                answered = [one.error for one in own if one.answers]
                intervals = sum(len(one.with_interval) for one in own)
                held = f"{sum(one.held for one in own) / intervals:.0%}" if intervals else "no interval"
                cells.append(f"{np.median(answered):.1%}, {held}" if answered else "–")
            yield f"| {study.title.partition(',')[0]}: {analysis.title} | " + " | ".join(cells) + " |"


def main(argv: Sequence[str] | None = None) -> None:
    """Draw what is missing, print the tables, and write them with the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "crowdblend-analyses")
    parser.add_argument("--adult", type=Path, help="UCI's adult.data with a head, separated by commas")
    parser.add_argument("--nist", type=Path, help="folder of ma2019.csv")
    parser.add_argument("--peers", type=Path, help="a Python that has what utility/peers.txt names")
    parser.add_argument("--synthesizers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--draws", type=int, default=100, help="of releases and of the histogram")
    parser.add_argument("--peer-draws", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=40.0, help="for a synthesizer's draws of a file")
    parser.add_argument("--write", action="store_true", help="into docs")
    asked = parser.parse_args(argv)
    studies = [census()]
    if asked.adult:
        studies.append(adult(asked.adult))
    if asked.nist:
        studies.append(nist(asked.nist))
    asked.work.mkdir(parents=True, exist_ok=True)
    draws, made = Draws(folder=asked.work), {}
    for study in studies:
        for way in WAYS:
            draws.draw(study, way, asked.draws)
        if asked.synthesizers:
            python = asked.peers or peers_environment(asked.work)
            for peer in asked.synthesizers:
                draws.synthesize(study, peer, asked.peer_draws, python=python, minutes=asked.minutes)
        made[study.name] = {way: draws.of(study, way) for way in (OURS, NAMED, *PEERS, HISTOGRAM)}
        print("\n".join(lines_of(study, made[study.name])), flush=True)
    overview = [*summary(studies, made)]
    print("\n".join(overview))
    if asked.write:
        lines = [line for study in studies for line in (*lines_of(study, made[study.name]), "")]
        write_between(PAGE, lines, by=BY)
        write_between(DOCS / "analysis.md", overview, by=BY)
        for study in studies:
            found = compared(study, made[study.name])
            panels = [
                Shown(
                    title=analysis.title,
                    figure=analysis.asked[0].name,
                    truth=found[analysis.title, 0, OURS].truth,
                    answers={way: found[analysis.title, 0, way].shown for way, own in made[study.name].items() if own},
                )
                for analysis in study.analyses
            ]
            write_pictures(PICTURES / f"analyses-{study.name}.svg", panels, title=study.title)


if __name__ == "__main__":
    main()
