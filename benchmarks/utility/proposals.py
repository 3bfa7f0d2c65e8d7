"""What `propose_deletion` proposes from public facts, against the best of a grid, in NIST's k-marginal.

    python -m benchmarks.utility.proposals --write docs/starting-from-a-file.md

The bundled Census 2000 at several numbers of records and prices. The grid: deletion by seven chains of one to three
maps, none of which is of `*` alone, without margins and with three shares of them, and sampled releases by the usual
and the coarse map with the best k and β. Medians over draws; draws are seeded by their number. Ends with 1 where a
proposal is more than 5% below the best.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
from crowdblend.accounting.theory.planning.deletion_planning import propose_deletion, stage_levels

from ..whole_run import write_between
from .deletion import DELTA
from .measures import Truth
from .tables import Table, census
from .ways import deleted, sampled, sampled_coarse

__all__ = ["Choice", "best_of", "grid", "main", "proposed", "score"]

BY = "benchmarks/utility/proposals.py"
NUMBERS = (7_000, 29_501, 300_000)
EPSILONS = tuple(map(Decimal, ("0.2", "1", "4")))
CHAINS = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
SHARES = tuple(map(Decimal, ("0.2", "0.35", "0.5")))
WORST = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A deletion release: the level of all columns at each stage, and the margins' share; None without margins."""

    levels: tuple[int, ...]
    share: Decimal | None

    def __str__(self) -> str:
        names = ("values", "usual", "coarse")
        margins = "no margins" if self.share is None else f"share {self.share}"
        return f"{', '.join(names[level] for level in self.levels)}; {margins}"


def grid() -> Iterator[Choice]:
    """What a proposal is held against."""
    for levels in CHAINS:
        for share in (None, *SHARES):
            yield Choice(levels=levels, share=share)


def proposed(table: Table, *, records: int, epsilon: Decimal) -> Choice:
    """What is proposed, by the labels that are declared and the number of records.

    Raises:
        ValueError: columns have different levels, which this benchmark doesn't publish.
    """
    columns = [[one.size(level) - 1 for level in range(3)] + [1] for one in table.hierarchies]
    proposal = propose_deletion(columns, records=records, epsilon=epsilon, delta=DELTA)
    chains = {tuple(stage_levels(labels, records=records)[place] for place in proposal.stages) for labels in columns}
    if len(chains) > 1:
        raise ValueError(f"levels of several kinds: {sorted(chains)}")
    return Choice(levels=chains.pop(), share=proposal.margin_share)


def score(truth: Truth, choice: Choice, *, epsilon: Decimal, draws: int) -> float:
    """The median k-marginal."""
    margins = 0 if choice.share is None else len(truth.table.names)
    found = []
    for draw in range(draws):
        coins = np.random.default_rng(draw)
        share = {} if choice.share is None else {"share": choice.share}
        released = deleted(truth.table, truth.records, epsilon, coins, levels=choice.levels, margins=margins, **share)
        found.append(truth.k_marginal(released))
    return float(np.median(found))


def best_of(truth: Truth, choices: Sequence[Choice], *, epsilon: Decimal, draws: int) -> tuple[str, float]:
    """The best of some and of the sampled releases, and its score."""
    found = {str(one): score(truth, one, epsilon=epsilon, draws=draws) for one in choices}
    for name, way in (("sampled", sampled), ("sampled, coarse map", sampled_coarse)):
        released = (way(truth.table, truth.records, epsilon, np.random.default_rng(draw)) for draw in range(draws))
        found[name] = float(np.median([truth.k_marginal(one) for one in released]))
    best = max(found, key=found.__getitem__)
    return best, found[best]


def main(argv: Sequence[str] | None = None) -> None:
    """Hold each proposal against the grid, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=int, nargs="+", default=NUMBERS)
    parser.add_argument("--epsilons", type=Decimal, nargs="+", default=EPSILONS)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--write", type=Path, help="the page with the table")
    asked = parser.parse_args(argv)
    table, worst = census(), 1.0
    lines = ["| records | ε | proposed | k-marginal | best of the grid | k-marginal |", "|---|---|---|---|---|---|"]
    for number in asked.numbers:
        truth = Truth(table=table, records=table.resized(number))
        for epsilon in asked.epsilons:
            choice = proposed(table, records=number, epsilon=epsilon)
            own = score(truth, choice, epsilon=epsilon, draws=asked.draws)
            name, best = best_of(truth, list(grid()), epsilon=epsilon, draws=asked.draws)
            worst = min(worst, own / best)
            lines.append(f"| {number:,} | {epsilon} | {choice} | {own:.0f} | {name} | {best:.0f} |")
            print(lines[-1], flush=True)
    if asked.write is not None:
        write_between(asked.write, lines, by=BY)
    print(f"The worst proposal has {worst:.1%} of the best.")
    if worst < WORST:
        sys.exit(1)


if __name__ == "__main__":
    main()
