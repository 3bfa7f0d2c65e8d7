"""What releases of true records are worth beside other ways of publishing, at equal (ε, δ).

    make utility                                        # the grid; goes on where it stopped; writes docs/utility.md
    python -m benchmarks.utility.compare --quick        # some cells, in seconds
    python -m benchmarks.utility.compare --nist FOLDER --adult FOLDER   # with records that the project does not ship

Every draw's measures are a line of `results.jsonl` in the folder of --work as soon as it is made; what is there is not
made again. Ours and the histograms are seeded by the cell and the draw, so that their figures come out again; the
synthesizers and all clocks aren't. AIM and MST run in an environment that is made in the same folder with the versions
of `peers.txt`, or in one that is named (--peers PYTHON); --no-peers leaves them out. They are asked for fewer draws, at
the price that is shown; MST at other prices too, for one number of records. A synthesizer that has not answered within
--minutes is stopped, and what it did not do is not on the page.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
import tracemalloc
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
from crowdblend.accounting.charts import Axis, Legend, dot, line, line_chart, linear_axis
from rich.progress import Progress

from audit.statistics.draws import shown_progress

from ..generated_pages import write_between
from .measures import Truth
from .pairs import chosen_labels, chosen_pairs
from .peers import INDEPENDENT, ROUNDED, Asked, answers, peer_name, peers_environment
from .tables import Table, adult, census, nist
from .ways import WAYS as OTHER_WAYS
from .ways import Released, of_values

__all__ = [
    "BY",
    "Cell",
    "Grid",
    "Page",
    "Results",
    "main",
    "picture",
    "synthesized",
    "ticked",
]

BY = "benchmarks/utility/compare.py"
WAYS = {**OTHER_WAYS, "deletion, chosen pairs": chosen_pairs, "deletion, chosen pairs and labels": chosen_labels}
PROJECT = Path(__file__).resolve().parents[2]
PICTURES = PROJECT / "docs" / "benchmarks"
EPSILONS = tuple(map(Decimal, ("0.2", "0.5", "1", "2", "4")))
NUMBERS = {"census": (7_000, 29_501, 300_000, 3_000_000), "nist": (7_634, 27_253), "adult": (30_162,)}
SHOWN_EPSILON = Decimal(1)
PEERS = ("MST", "AIM")
AT_ALL_PRICES = ("MST", 29_501)  # the synthesizer and the number of records; each price takes minutes
DRAWS, PEER_DRAWS, LEAST_DRAWS = 10, 3, 2
SHIPPED = "census"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One way of publishing one table of one size at one price."""

    table: str
    number: int
    epsilon: Decimal
    way: str

    @property
    def name(self) -> str:
        """In the raw results."""
        return f"{self.table}/{self.number}/{self.epsilon}/{self.way}"


@dataclass(frozen=True, kw_only=True)
class Results:
    """The raw results: a line a draw, as soon as it is made.

    Args:
        file: of lines of JSON; a last line that was cut off doesn't count.
    """

    file: Path
    _found: dict[str, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        """Read what is there."""
        text = self.file.read_text(encoding="utf-8") if self.file.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.file.write_text(whole, encoding="utf-8")
        for one in map(json.loads, whole.splitlines()):
            self._found[one["cell"]].append(one["measures"])

    def of(self, cell: Cell) -> list[dict[str, float]]:
        """The draws of a cell."""
        return self._found.get(cell.name, [])

    def add(self, cell: Cell, measures: Mapping[str, float]) -> None:
        """Keep a draw."""
        known = {name: value for name, value in measures.items() if not math.isnan(value)}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cell": cell.name, "measures": known}) + "\n")
        self._found[cell.name].append(known)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is compared.

    Args:
        tables: by their names.
        numbers: of records, by the tables' names.
        epsilons: prices, at `deletion.DELTA`.
        ways: ours and the simple ones.
        peers: synthesizers.
        draws: of each cell of ours and of the simple ones.
        peer_draws: of each cell of a synthesizer.
    """

    tables: Mapping[str, Table]
    numbers: Mapping[str, Sequence[int]]
    epsilons: Sequence[Decimal]
    ways: Sequence[str]
    peers: Sequence[str]
    draws: int
    peer_draws: int = PEER_DRAWS

    @property
    def shown(self) -> list[str]:
        """Ours, the simple ones, and the synthesizers with both kinds of records."""
        methods = (ROUNDED, INDEPENDENT)
        return [*self.ways, *(peer_name(peer, method) for peer in self.peers for method in methods)]

    def cells(self, ways: Sequence[str]) -> Iterator[Cell]:
        """The cells of some ways; those of one table and size together, and the price that is shown first of all."""
        for table in self.tables:
            for number in self.numbers[table]:
                for epsilon in sorted(self.epsilons, key=lambda one: (one != SHOWN_EPSILON, one)):
                    for way in ways:
                        yield Cell(table=table, number=number, epsilon=epsilon, way=way)

    def peer_cells(self) -> Iterator[Cell]:
        """The cells in which synthesizers are run."""
        for cell in self.cells(self.peers):
            if cell.epsilon == SHOWN_EPSILON or (cell.way, cell.number) == AT_ALL_PRICES:
                yield cell

    def run(self, results: Results, *, python: Path | None, minutes: float, progress: Progress) -> None:
        """Make the draws that are missing.

        Args:
            results: where they go.
            python: of the synthesizers' environment; None leaves them out.
            minutes: that a synthesizer may take for a cell.
            progress: told of every draw.
        """
        asked = [(cell, self.draws) for cell in self.cells(self.ways)]
        asked += [(cell, self.peer_draws) for cell in self.peer_cells() if python is not None]
        bar = progress.add_task("draws", total=sum(draws for _, draws in asked))
        truths: dict[tuple[str, int], Truth] = {}
        for cell, draws in asked:
            done = len(results.of(cell))
            progress.update(bar, description=cell.name, advance=min(done, draws))
            if done >= draws:
                continue
            if (cell.table, cell.number) not in truths:
                truths.clear()
                table = self.tables[cell.table]
                truths[cell.table, cell.number] = Truth(table=table, records=table.resized(cell.number))
            truth = truths[cell.table, cell.number]
            if cell.way in WAYS:
                for draw in range(done, draws):
                    results.add(cell, drawn(cell, truth, draw=draw))
                    progress.advance(bar)
            elif python is not None:
                for method, released, spent in synthesized(
                    cell, truth, python=python, draws=draws - done, minutes=minutes
                ):
                    results.add(replace(cell, way=peer_name(cell.way, method)), truth.measured(released) | spent)
                    progress.advance(bar, method == ROUNDED)


def drawn(cell: Cell, truth: Truth, *, draw: int) -> dict[str, float]:
    """One draw's measures, its time, and the first one's memory.

    Args:
        cell: which; its name and the draw are the seed.
        truth: the records.
        draw: number, from 0.
    """
    coins = np.random.default_rng([zlib.crc32(cell.name.encode()), draw])
    if draw == 0:  # parameters are found once, and memory is traced
        WAYS[cell.way](truth.table, truth.records, cell.epsilon, np.random.default_rng(0))
        tracemalloc.start()
    started = time.perf_counter()
    released = WAYS[cell.way](truth.table, truth.records, cell.epsilon, coins)
    seconds = time.perf_counter() - started
    spent = {"seconds": seconds}
    if draw == 0:
        spent = {"mebibytes": tracemalloc.get_traced_memory()[1] / 2**20}
        tracemalloc.stop()
    return truth.measured(released) | spent


def synthesized(
    cell: Cell, truth: Truth, *, python: Path, draws: int, minutes: float
) -> Iterator[tuple[str, Released, dict[str, float]]]:
    """Synthetic records with how they were drawn and what that took, draw after draw; as many as are made in time.

    Raises:
        RuntimeError: the synthesizer failed.
    """
    asked = Asked(algorithm=cell.way, epsilon=cell.epsilon, draws=draws, minutes=minutes)
    for answer in answers(asked, truth.records, truth.table.sizes, python=python):
        weights = np.ones(answer.numbers.size)
        yield (
            answer.method,
            of_values(truth.table, answer.codes, rows=answer.numbers, weights=weights, real=0),
            answer.spent,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A measure on the page.

    Args:
        key: in the raw results.
        name: in the table's head.
        form: of the median, as `format` takes it.
        spread: whether the least and the largest draw stand beside it.
    """

    key: str
    name: str
    form: str
    spread: bool = False

    def of(self, draws: Sequence[Mapping[str, float]]) -> str:
        """The median over draws."""
        values = [one[self.key] for one in draws if self.key in one]
        if not values:
            return "–"
        told = format(float(np.median(values)), self.form)
        if self.spread and len(values) > 1:
            told += f" ({format(min(values), self.form)}–{format(max(values), self.form)})"
        return told


FIGURES = (
    Figure(key="k-marginal", name="k-marginal", form=".0f", spread=True),
    Figure(key="counts", name="counts", form=".1%"),
    Figure(key="counts, unweighted", name="… unweighted", form=".1%"),
    Figure(key="means", name="means", form=".1%"),
    Figure(key="means, unweighted", name="… unweighted", form=".1%"),
    Figure(key="model", name="model", form=".3f"),
    Figure(key="coverage, one column", name="95% intervals, one column", form=".0%"),
    Figure(key="coverage, two columns", name="… two columns", form=".0%"),
    Figure(key="width, one column", name="… how wide, one column", form=".1%"),
    Figure(key="records kept", name="records kept", form=".1%"),
    Figure(key="small groups kept", name="small groups", form=".0%"),
    Figure(key="invented", name="invented", form=".0%"),
    Figure(key="seconds", name="seconds", form=".2g"),
    Figure(key="mebibytes", name="MiB", form=".0f"),
)


PURPOSES = (
    ("all pairs of columns by their values (k-marginal)", FIGURES[0], max),
    ("counts by two columns' usual labels (error)", FIGURES[1], min),
    ("means within a label (error)", FIGURES[3], min),
    ("a model (area under the curve)", FIGURES[5], max),
    ("small groups shown", FIGURES[10], max),
)
"""What somebody wants, its measure, and which value is best."""

TRUTHFUL = (
    "sampled",
    "sampled, coarse map",
    "deletion",
    "deletion, three stages",
    "deletion, calibrated",
    "deletion, chosen pairs",
    "deletion, chosen pairs and labels",
)
"""Ours that publish people's records."""

UNPROVED = ("ARX's method", "subsample of 10%, no guarantee")
"""Ways that are no choice: a claim that isn't proved, and no claim."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """The tables and pictures of the results."""

    grid: Grid
    results: Results

    def lines(self) -> list[str]:
        """The page's lines between its marks."""
        found = []
        for name, table in self.grid.tables.items():
            extra = "" if name == SHIPPED else " (extra: these records are not shipped)"
            found += [f"### {table.title}{extra}", "", *self._marginals(name), ""]
            if name == SHIPPED and len(self.grid.epsilons) > 1:  # they show several prices
                found += [
                    "![k-marginal against ε, MST with records drawn independently](benchmarks/utility-k-marginal.svg)",
                    "",
                ]
                found += ["![Error of counts against the number of records](benchmarks/utility-counts.svg)", ""]
            for number in self.grid.numbers[name]:
                found += [
                    f"{table.title}, {number:,} records, ε = {SHOWN_EPSILON}:",
                    "",
                    *self._measures(name, number),
                    "",
                ]
        return [*found, *self._left_out()]

    def _left_out(self) -> list[str]:
        """What was not run, and where fewer draws were made than asked for."""
        left, few = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for way in self.grid.shown:
            cells = list(self.grid.cells([way]))
            prices, places = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
            for cell in cells:
                if not self._enough(cell):
                    prices[f"{self.grid.tables[cell.table].short} {cell.number:,}"].append(str(cell.epsilon))
            for place, some in prices.items():
                places[", ".join(sorted(some))].append(place)
            for missing, some in places.items():
                left[f"at ε = {missing} for {'; '.join(some)}"].append(f"*{way}*")
            draws = [len(self.results.of(cell)) for cell in cells if self._enough(cell)]
            if draws and min(draws) < self.grid.draws:
                few[" to ".join(str(one) for one in sorted({min(draws), max(draws)}))].append(f"*{way}*")
        said = [f"Not run: {', '.join(ways)} {where}." for where, ways in left.items()]
        said += [
            f"Medians are over {many} draws for {', '.join(ways)}, and over {self.grid.draws} for others."
            for many, ways in few.items()
        ]
        return [" ".join(said)] if said else []

    def _enough(self, cell: Cell) -> bool:
        return len(self.results.of(cell)) >= min(LEAST_DRAWS, self.grid.draws)

    def _marginals(self, table: str) -> list[str]:
        numbers = self.grid.numbers[table]
        figure = FIGURES[0]
        lines = [
            f"| k-marginal, by ε | records | {' | '.join(str(one) for one in sorted(self.grid.epsilons))} |",
            "|---|---|" + "---|" * len(self.grid.epsilons),
        ]
        for way in self.grid.shown:
            for number in numbers:
                cells = [Cell(table=table, number=number, epsilon=one, way=way) for one in sorted(self.grid.epsilons)]
                if any(map(self._enough, cells)):
                    told = [figure.of(self.results.of(cell)) if self._enough(cell) else "–" for cell in cells]
                    lines.append(f"| {way} | {number:,} | {' | '.join(told)} |")
        return lines

    def _measures(self, table: str, number: int) -> list[str]:
        lines = [
            f"| | {' | '.join(one.name for one in FIGURES[1:])} |",
            "|---|" + "---|" * (len(FIGURES) - 1),
        ]
        for way in self.grid.shown:
            cell = Cell(table=table, number=number, epsilon=SHOWN_EPSILON, way=way)
            if self._enough(cell):
                draws = self.results.of(cell)
                lines.append(f"| {way} | {' | '.join(one.of(draws) for one in FIGURES[1:])} |")
        return lines

    def choice(self) -> list[str]:
        """For each purpose and number of records the best way at the price that is shown, and the best truthful one."""
        places = [(name, number) for name in self.grid.tables for number in self.grid.numbers[name]]
        shown = [f"{self.grid.tables[name].short} {number:,}" for name, number in places]
        lines = [f"| at ε = {SHOWN_EPSILON} | {' | '.join(shown)} |", "|---|" + "---|" * len(places)]
        private = [way for way in self.grid.shown if way not in UNPROVED]
        for purpose, figure, best_of in PURPOSES:
            told = []
            for name, number in places:
                medians = {
                    way: value
                    for way in private
                    if (value := self.median(_shown(name, number, way), figure.key)) is not None
                }
                ours = {way: value for way, value in medians.items() if way in TRUTHFUL}
                best, truthful = (best_of(some, key=some.__getitem__, default=None) for some in (medians, ours))
                words = [f"{one} {format(medians[one], figure.form)}" for one in dict.fromkeys((best, truthful)) if one]
                told.append("; ".join(words) or "–")
            lines.append(f"| {purpose} | {' | '.join(told)} |")
        unseen = [
            f"{place} {peer}"
            for (name, number), place in zip(places, shown, strict=True)
            for peer in self.grid.peers
            if not self._enough(_shown(name, number, peer))
        ]
        return [*lines, *(["", f"Not run, and so not among them: {'; '.join(unseen)}."] if unseen else [])]

    def median(self, cell: Cell, key: str) -> float | None:
        """Of a measure; None where it wasn't made."""
        values = [one[key] for one in self.results.of(cell) if key in one]
        return float(np.median(values)) if values and self._enough(cell) else None

    def pictures(self, folder: Path) -> None:
        """Draw what the page shows: of several prices two pictures of the shipped table, of one price all tables."""
        if len(self.grid.epsilons) > 1:
            self._against_price_and_number(folder)
        else:
            self._rows_and_synthesizers(folder)

    def _against_price_and_number(self, folder: Path) -> None:
        """The shipped table's k-marginal against ε, and its error of counts against the number of records."""
        epsilons, numbers = sorted(self.grid.epsilons), self.grid.numbers[SHIPPED]
        number = 29_501 if 29_501 in numbers else numbers[0]
        by_epsilon = {
            way: [
                (math.log10(one), value)
                for one in epsilons
                if (value := self.median(Cell(table=SHIPPED, number=number, epsilon=one, way=way), "k-marginal"))
                is not None
            ]
            for way in STYLES
        }
        picture(
            folder / "utility-k-marginal.svg",
            by_epsilon,
            x=ticked("ε, δ = 1e-6", {math.log10(one): str(one) for one in epsilons}),
            y=linear_axis(200, 1000, name="k-marginal", across=False),
            title=f"k-marginal of {number:,} records against ε",
        )
        by_number = {
            way: [
                (math.log10(one), max(math.log10(value), -3.5))
                for one in numbers
                if (value := self.median(Cell(table=SHIPPED, number=one, epsilon=SHOWN_EPSILON, way=way), "counts"))
            ]
            for way in STYLES
        }
        percents = {-3.0: "0.1%", -2.0: "1%", -1.0: "10%", 0.0: "100%"}
        picture(
            folder / "utility-counts.svg",
            by_number,
            x=ticked("records", {math.log10(one): f"{one:,}" for one in numbers}),
            y=Axis(
                low=-3.5,
                high=0.0,
                start=274,
                end=40,
                logarithmic=False,
                ticks=tuple(percents.items()),
                name="error of a count",
            ),
            title=f"median error of counts by two columns at ε = {SHOWN_EPSILON}",
        )

    def _rows_and_synthesizers(self, folder: Path) -> None:
        """The k-marginal of ways with true rows and of synthesizers, for each table and number of records."""
        places = [(name, number) for name in self.grid.tables for number in self.grid.numbers[name]]
        scores = {
            way: [
                (float(place), value)
                for place, (name, number) in enumerate(places)
                if (value := self.median(_shown(name, number, way), "k-marginal")) is not None
            ]
            for way in ROWS_AND_SYNTHESIZERS
        }
        picture(
            folder / "utility-rows.svg",
            scores,
            x=ticked(
                "data and number of records",
                {
                    float(place): f"{self.grid.tables[name].short} {number:,}"
                    for place, (name, number) in enumerate(places)
                },
            ),
            y=linear_axis(840, 1000, name="k-marginal", across=False),
            title=f"true rows (chosen pairs, calibrated) and synthetic records (AIM, MST) at ε = {SHOWN_EPSILON}",
            styles=ROWS_AND_SYNTHESIZERS,
            lines=False,
        )


def _shown(table: str, number: int, way: str) -> Cell:
    return Cell(table=table, number=number, epsilon=SHOWN_EPSILON, way=way)


STYLES = {
    "deletion, chosen pairs and labels": ("#7B2D8E", ""),
    "deletion, calibrated": ("#D55E00", ""),
    "deletion": ("#D55E00", "7 4"),
    "sampled": ("#0072B2", ""),
    "ARX's method": ("#0072B2", "2 3"),
    "noisy histogram": ("#009E73", ""),
    "MST, drawn independently": ("#777", ""),
}
"""Way → colour and dashes."""


def ticked(name: str, ticks: Mapping[float, str]) -> Axis:
    """A scale across that ends a little beyond its ticks."""
    low, high = min(ticks), max(ticks)
    room = (high - low or 1.0) * 0.04
    return Axis(
        low=low - room, high=high + room, start=66, end=664, logarithmic=False, ticks=tuple(ticks.items()), name=name
    )


def picture(
    file: Path,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: Axis,
    y: Axis,
    title: str,
    styles: Mapping[str, tuple[str, str]] = STYLES,
    lines: bool = True,
) -> None:
    """Lines with their points, as a picture that stands for itself.

    Args:
        file: of the picture.
        series: points by way.
        x: across.
        y: up.
        title: what it shows.
        styles: way → colour and dashes.
        lines: whether points of a way are joined.
    """
    shown = {way: points for way, points in series.items() if points}
    names = {way: f"w{place}" for place, way in enumerate(styles)}
    parts = [
        part
        for way, points in shown.items()
        for part in (
            *((line(points, x=x, y=y, style=names[way]),) if lines else ()),
            *(dot(*one, x=x, y=y, radius=3 if lines else 5, style=f"dot {names[way]}") for one in points),
        )
    ]
    said = (f"{way}: {', '.join(f'{up:.3g}' for _, up in points)}" for way, points in shown.items())
    legends = [Legend(style=names[way], text=SHORT.get(way, way)) for way in shown]
    drawn_chart = line_chart(parts, x=x, y=y, legends=legends, key="u", title=title, description="; ".join(said))
    looks = "".join(
        f".line.{names[way]}{{stroke:{colour};stroke-dasharray:{dashes or 'none'}}}.dot.{names[way]}{{fill:{colour}}}"
        for way, (colour, dashes) in styles.items()
    )
    style = (
        "<style>text{font:11.5px 'DejaVu Sans',sans-serif;fill:#222}.legend{font-size:10px}.grid{stroke:#ddd}"
        f".axis{{stroke:#777}}.line{{fill:none;stroke-width:2}}{looks}</style>"
    )
    head, _, rest = str(drawn_chart).partition("<desc")
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    description, _, rest = rest.partition("</desc>")
    file.write_text(f"{head}<desc{description}</desc>{style}{ground}{rest}\n", encoding="utf-8")


ROWS_AND_SYNTHESIZERS = {
    "deletion, chosen pairs and labels": ("#7B2D8E", ""),
    "deletion, calibrated": ("#D55E00", ""),
    "AIM, drawn independently": ("#009E73", ""),
    "MST, drawn independently": ("#777", ""),
}
"""Ways with true rows, and those with records that nobody has."""


SHORT = {
    "subsample of 10%, no guarantee": "subsample",
    "deletion, calibrated": "calibrated",
    "deletion, chosen pairs and labels": "pairs",
    "noisy histogram": "noisy",
    "ARX's method": "ARX",
    "MST, drawn independently": "MST",
    "AIM, drawn independently": "AIM",
}
"""Way → its name in a picture: seven of them fit beside each other."""


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "crowdblend-utility")
    parser.add_argument("--nist", type=Path, help="folder of ma2019.csv")
    parser.add_argument("--adult", type=Path, help="folder of adult.csv and its hierarchies")
    parser.add_argument("--quick", action="store_true", help="two draws of ours on the smallest table, no page")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--peer-draws", type=int, default=PEER_DRAWS, help="of each synthesizer")
    parser.add_argument("--epsilons", type=Decimal, nargs="+", default=EPSILONS)
    parser.add_argument("--numbers", type=int, nargs="+", help="of records, some of those of the grid")
    parser.add_argument("--ways", nargs="+", choices=(*WAYS, *PEERS), default=(*WAYS, *PEERS))
    parser.add_argument("--peers", type=Path, help="a Python that has what peers.txt names")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--minutes", type=float, default=10.0, help="for a synthesizer's cell")
    parser.add_argument("--no-run", action="store_true", help="write the page of what is there")
    parser.add_argument("--write", type=Path, help="the page with all figures, docs/utility.md")
    parser.add_argument("--choice", type=Path, help="the page with the best of each purpose, docs/choosing.md")
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    asked = parser.parse_args(argv)
    tables = {"census": census()}
    if asked.nist:
        tables["nist"] = nist(asked.nist)
    if asked.adult:
        tables["adult"] = adult(asked.adult)
    numbers = {name: [one for one in NUMBERS[name] if not asked.numbers or one in asked.numbers] for name in tables}
    grid = Grid(
        tables=tables,
        numbers={name: some[:1] for name, some in numbers.items()} if asked.quick else numbers,
        epsilons=(SHOWN_EPSILON,) if asked.quick else asked.epsilons,
        ways=[way for way in WAYS if way in asked.ways],
        peers=[] if asked.quick or asked.no_peers else [way for way in PEERS if way in asked.ways],
        draws=2 if asked.quick else asked.draws,
        peer_draws=asked.peer_draws,
    )
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary) if asked.quick else asked.work
        work.mkdir(parents=True, exist_ok=True)
        results = Results(file=work / "results.jsonl")
        if not asked.no_run:
            python = (asked.peers or peers_environment(work)) if grid.peers else None
            with shown_progress() as progress:
                grid.run(results, python=python, minutes=asked.minutes, progress=progress)
        told = Page(grid=grid, results=results)
        print("\n".join(told.lines()))
    if asked.write is not None:
        write_between(asked.write, told.lines(), by=BY)
        told.pictures(asked.pictures)
    if asked.choice is not None:
        write_between(asked.choice, told.choice(), by=BY)


if __name__ == "__main__":
    main()
