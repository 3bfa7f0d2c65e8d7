"""Wide files: releases in blocks beside synthesizers, at equal (ε, δ); NIST's excerpt with 21 columns, Adult with 14.

    python -m benchmarks.wide.wide_comparison --nist FOLDER --adult FILE --write docs/benchmarks/wide-files.md

The records are not shipped. Draws are kept, line by line, in `results.jsonl` in the folder of --work, and what is there
is not made again. Synthesizers run as in `compare.py`; one that has not answered within --minutes is stopped.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import tracemalloc
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

import numpy as np
from crowdblend.accounting.charts import linear_axis
from crowdblend.accounting.theory.planning.paired_planning import plan_paired, proposed_pairs
from crowdblend.flows.releases.paired_parts import STAGES, STAGES_OF_BLOCK, PairedResult, paired_plan
from crowdblend.mechanisms.kinds.paired_deletion import PairedDeletion
from crowdblend.mechanisms.map_selection.choice import LatticeColumn
from crowdblend.mechanisms.pair_model.blocks import Block, BlockChoice
from numpy.typing import NDArray
from rich.progress import Progress

from audit.statistics.draws import shown_progress

from ..generated_pages import write_between
from ..utility.compare import Cell, Figure, Results, picture, ticked
from ..utility.deletion import DELTA
from ..utility.peers import INDEPENDENT, Asked, answers, peer_name, peers_environment
from ..utility.ways import counted
from .wide_measures import Weighted, WideTruth, completed
from .wide_tables import WideTable, adult_wide, nist_wide

__all__ = ["NUMBERS", "main", "released"]

BY = "benchmarks/wide/wide_comparison.py"
PICTURE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "wide-triples.svg"
EPSILON = Decimal(1)
NUMBERS = {"nist21": (7_634, 27_253, 305_360), "adult14": (32_561,)}
DRAWS = 5
SUBJECTS, FOUND, ONE = "blocks by subject", "blocks found", "one table"
PEERS = ("MST", "MST of its paper", "AIM")
FIGURES = (
    Figure(key="pairs", name="pairs", form=".1f", spread=True),
    Figure(key="triples", name="triples", form=".1f", spread=True),
    Figure(key="triples by pairs alone", name="triples by pairs alone", form=".1f"),
    Figure(key="records kept", name="records kept, mean block", form=".0%"),
    Figure(key="least kept", name="… least block", form=".0%"),
    Figure(key="columns told", name="columns told", form=".0%"),
    Figure(key="seconds", name="seconds", form=".2g"),
    Figure(key="mebibytes", name="MiB", form=".0f"),
)


@lru_cache
def _planned(columns: int, stages: int, blocks: int | None) -> PairedDeletion:
    plan = plan_paired(
        epsilon=EPSILON, delta=DELTA, stages=stages, columns=columns, pairs=proposed_pairs(columns), blocks=blocks
    )
    if not isinstance(plan.mechanism, PairedDeletion):
        raise TypeError("this is no plan of a paired release")
    return plan.mechanism


def released(wide: WideTable, records: NDArray[np.int64], way: str, coins: np.random.Generator) -> PairedResult:
    """Return a release by what is proposed for it; draws of pairs are never seeded.

    Args:
        wide: the columns.
        records: their values, shape (columns, records).
        way: SUBJECTS, FOUND (as many as by subject) or ONE.
        coins: of the noise.
    """
    table = wide.table
    names = list(wide.blocks)
    by_subject = tuple(Block(name, tuple(sorted(own))) for name, own in zip(names, wide.places(), strict=True))
    blocks = {SUBJECTS: by_subject, FOUND: BlockChoice(number=len(names)), ONE: None}[way]
    columns = tuple(
        LatticeColumn(name=name, hierarchy=one, min_level=0, max_level=one.levels - 1, weight=Decimal(1))
        for name, one in zip(table.names, table.hierarchies, strict=True)
    )
    stages, number = (STAGES, None) if way == ONE else (STAGES_OF_BLOCK, len(names))
    mechanism = _planned(len(columns), stages, number)
    plan = paired_plan(mechanism, table.map_of(0), columns, blocks)
    return PairedResult(plan, plan.protection().protect(counted(table, records, 0), randomness=coins.bytes))


def measured(result: PairedResult, truth: WideTruth, coins: np.random.Generator) -> dict[str, float]:
    """Return what a release is worth."""
    pairs = {pair: counts[1:, 1:] for pair, counts in result.final.tables.items()}  # 0 is *, which nobody has
    rows = completed(result, coins=coins)
    kept, told = [], []
    for one in result.rows:
        counts = [int(stage.counts.sum()) for stage in one.stages]
        # Code 0 is `*` at every level: a column is told where two labels or more are left beside it.
        columns = [sum(column.hierarchy.size(column.level) > 2 for column in own.columns) for own in one.maps]
        kept.append(sum(n for n, informative in zip(counts, columns, strict=True) if informative))
        told.append(sum(n * some for n, some in zip(counts, columns, strict=True)) / len(one.block.columns))
    number = truth.records.shape[1]
    return {
        "pairs": truth.pair_score({pair: counts / counts.sum() for pair, counts in pairs.items()}),
        "triples": truth.triple_score(truth.triples_by_rows(rows, pairs)),
        "triples by pairs alone": truth.triple_score(truth.triples_by_rows([], pairs)),
        "records kept": float(np.mean(kept)) / number,
        "least kept": min(kept) / number,
        "columns told": sum(told) / max(1, sum(kept)),
    }


def drawn(cell: Cell, truth: WideTruth, *, draw: int) -> dict[str, float]:
    """Return one draw's measures and time, and the first one's memory instead."""
    coins = np.random.default_rng([zlib.crc32(cell.name.encode()), draw])
    if draw == 0:  # parameters are found once, and memory is traced
        _ = released(truth.wide, truth.records[:, :100], cell.way, coins)
        tracemalloc.start()
    started = time.perf_counter()
    result = released(truth.wide, truth.records, cell.way, coins)
    _ = result.final  # weights and fitted counts are part of a release
    spent = {"seconds": time.perf_counter() - started}
    if draw == 0:
        spent = {"mebibytes": tracemalloc.get_traced_memory()[1] / 2**20}
        tracemalloc.stop()
    return measured(result, truth, coins) | spent


def synthetic(truth: WideTruth, asked: Asked, python: Path, add: Callable[[str, dict[str, float]], None]) -> None:
    """Make draws of a synthesizer and add each one's measures, by its name."""
    columns = tuple(range(len(truth.records)))
    for answer in answers(asked, truth.records, truth.wide.table.sizes, python=python):
        people = Weighted(columns=columns, codes=answer.codes, weights=answer.numbers)
        scores = {
            "pairs": truth.pair_score(truth.pairs_of(people)),
            "triples": truth.triple_score(lambda triple, told=people: truth.triples_of(told, triple)[triple]),
        }
        add(peer_name(asked.algorithm, answer.method), scores | answer.spent)


@dataclass(frozen=True, kw_only=True)
class WideGrid:
    """What is compared.

    Args:
        tables: by their names.
        numbers: of records, by the tables' names.
        ways: ours.
        peers: synthesizers.
        draws: of ours.
        peer_draws: of each synthesizer.
    """

    tables: Mapping[str, WideTable]
    numbers: Mapping[str, Sequence[int]]
    ways: Sequence[str]
    peers: Sequence[str]
    draws: int
    peer_draws: int

    def run(self, results: Results, *, python: Path | None, minutes: float, progress: Progress) -> None:
        """Make the draws that are missing."""
        for name, wide in self.tables.items():
            for number in self.numbers[name]:
                truth = WideTruth(wide=wide, records=wide.table.resized(number))
                for way in self.ways:
                    cell = _cell(name, number, way)
                    bar = progress.add_task(cell.name, total=self.draws)
                    for draw in range(self.draws):
                        if draw >= len(results.of(cell)):
                            results.add(cell, drawn(cell, truth, draw=draw))
                        progress.advance(bar)
                for peer in self.peers if python is not None else ():
                    self._peer(results, name, number, peer, truth, python, minutes)

    def _peer(
        self, results: Results, name: str, number: int, peer: str, truth: WideTruth, python: Path | None, minutes: float
    ) -> None:
        missing = self.peer_draws - len(results.of(_cell(name, number, peer)))
        if missing > 0 and python is not None:
            asked = Asked(algorithm=peer, epsilon=EPSILON, draws=missing, minutes=minutes)
            synthetic(truth, asked, python, lambda way, found: results.add(_cell(name, number, way), found))

    def shown(self) -> list[str]:
        """Ours, and each synthesizer as it is and with records drawn independently."""
        return [*self.ways, *(name for peer in self.peers for name in (peer, peer_name(peer, INDEPENDENT)))]

    def lines(self, results: Results) -> list[str]:
        """Return the page's tables."""
        lines: list[str] = []
        for name, wide in self.tables.items():
            for number in self.numbers[name]:
                made = {way: results.of(_cell(name, number, way)) for way in self.shown()}
                lines += [
                    f"### {wide.table.title}, {number:,} records",
                    "",
                    f"| | {' | '.join(one.name for one in FIGURES)} | draws |",
                    "|---|" + "---|" * (len(FIGURES) + 1),
                    *(
                        f"| {way} | {' | '.join(one.of(draws) for one in FIGURES)} | {len(draws)} |"
                        for way, draws in made.items()
                        if draws
                    ),
                    "",
                ]
                missing = [way for way in self.peers if not made[way]]
                lines += [f"Not run, or not finished: {', '.join(missing)}.", ""] if missing else []
        return lines[:-1]

    def picture(self, results: Results, file: Path) -> None:
        """Draw the scores of triples against the number of records."""
        name = next(iter(self.tables))
        numbers = self.numbers[name]
        scores: dict[str, list[tuple[float, float]]] = {}
        for shown, (way, key) in SERIES.items():
            for number in numbers:
                values = [one[key] for one in results.of(_cell(name, number, way)) if key in one]
                if values:
                    scores.setdefault(shown, []).append((math.log10(number), float(np.median(values))))
        picture(
            file,
            scores,
            x=ticked("records", {math.log10(one): f"{one:,}" for one in numbers}),
            y=linear_axis(880, 1000, name="score of triples", across=False),
            title=f"{self.tables[name].table.short}: triples of columns in three blocks, ε = {EPSILON}",
            styles=STYLES,
        )


SERIES = {
    "rows in blocks": (SUBJECTS, "triples"),
    "pairs alone": (SUBJECTS, "triples by pairs alone"),
    "MST (OpenDP)": ("MST, drawn independently", "triples"),
    "MST (its paper)": ("MST of its paper, drawn independently", "triples"),
    "AIM": ("AIM, drawn independently", "triples"),
}
"""In the picture: which way's which measure."""
STYLES = {
    "rows in blocks": ("#7B2D8E", ""),
    "pairs alone": ("#7B2D8E", "7 4"),
    "MST (OpenDP)": ("#777", ""),
    "MST (its paper)": ("#777", "2 3"),
    "AIM": ("#009E73", ""),
}


def _cell(table: str, number: int, way: str) -> Cell:
    return Cell(table=table, number=number, epsilon=EPSILON, way=way)


def main(argv: Sequence[str] | None = None) -> None:
    """Make what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "crowdblend-wide")
    parser.add_argument("--nist", type=Path, help="folder of ma2019.csv")
    parser.add_argument("--adult", type=Path, help="UCI's adult.data with a head, separated by commas")
    parser.add_argument("--numbers", type=int, nargs="+", help="of records, some of those of the grid")
    parser.add_argument("--ways", nargs="+", choices=(SUBJECTS, FOUND, ONE), default=(SUBJECTS, FOUND, ONE))
    parser.add_argument("--synthesizers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--peers", type=Path, help="a Python that has what peers.txt names")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--peer-draws", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=40.0, help="for a synthesizer's cell")
    parser.add_argument("--no-run", action="store_true", help="write the page of what is there")
    parser.add_argument("--write", type=Path, help="docs/benchmarks/wide-files.md")
    asked = parser.parse_args(argv)
    tables: dict[str, WideTable] = {}
    if asked.nist:
        tables["nist21"] = nist_wide(asked.nist)
    if asked.adult:
        tables["adult14"] = adult_wide(asked.adult)
    if not tables:
        parser.error("no records: name the folder of NIST's excerpt or Adult's file")
    grid = WideGrid(
        tables=tables,
        numbers={name: [one for one in NUMBERS[name] if one in (asked.numbers or NUMBERS[name])] for name in tables},
        ways=asked.ways,
        peers=asked.synthesizers,
        draws=asked.draws,
        peer_draws=asked.peer_draws,
    )
    asked.work.mkdir(parents=True, exist_ok=True)
    results = Results(file=asked.work / "results.jsonl")
    if not asked.no_run:
        python = (asked.peers or peers_environment(asked.work)) if grid.peers else None
        with shown_progress() as progress:
            grid.run(results, python=python, minutes=asked.minutes, progress=progress)
    lines = grid.lines(results)
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)
        grid.picture(results, PICTURE)


if __name__ == "__main__":
    main()
