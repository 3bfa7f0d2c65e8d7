"""What releases decided one after the other cost: added up, in a filter budget, and as one series fixed beforehand.

`python -m benchmarks.ledger.filter_budgets --write docs/filter-budgets.md` writes the table of that page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path

from crowdblend.accounting.kernel.prices.registry import price
from crowdblend.accounting.kinds.composition.renyi_filter import filter_cost, tail_for
from crowdblend.accounting.theory.planning.filter_terms import least_terms
from crowdblend.mechanisms.kernel.amounts import amount_exact
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

from ..generated_pages import write_between

__all__ = ["main", "table"]

BY = "benchmarks.ledger.filter_budgets"
DELTA = Decimal("1e-6")
_UP = Context(prec=3, rounding=ROUND_CEILING)
ROWS = ((20, "0.1", 12), (20, "0.1", 52), (20, "0.1", 365), (50, "0.05", 52))


def table() -> Iterator[str]:
    """The lines of the table."""
    yield "| k, rate | releases | added up | filter budget | as one series | order α | D_α of a release | its tail τ |"
    yield "|---|---|---|---|---|---|---|---|"
    for k, rate, releases in ROWS:
        release = StronglySafeRelease(k=k, sampling_rate=Decimal(rate))
        summed = releases * price(release, delta=DELTA / releases).epsilon
        terms = least_terms(DELTA, [(release, releases)])
        cost = filter_cost(release, order=terms.order, tail=tail_for(terms, release))
        series = price(release, delta=DELTA, releases=releases).epsilon
        figures = (summed, terms.epsilon, series, terms.order, cost.divergence)
        shown = " | ".join(amount_exact(_UP.plus(figure)) for figure in figures)
        yield f"| {k}, {rate} | {releases} | {shown} | {amount_exact(_UP.plus(cost.tail))} |"


def main(argv: list[str] | None = None) -> None:
    """Compute, print, and write the table into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="page with a place for the table, such as docs/filter-budgets.md")
    arguments = parser.parse_args(argv)
    lines = list(table())
    print("\n".join(lines))
    if arguments.write is not None:
        write_between(arguments.write, lines, by=BY)


if __name__ == "__main__":
    main()
