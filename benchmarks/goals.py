"""What the project has promised to be quick at, each goal measured and judged.

    python -m benchmarks.goals                                     # all goals that need no large data: three minutes
    python -m benchmarks.goals --entries 1000000                   # with a ledger of that size: ten minutes more
    python -m benchmarks.goals --ledger sqlite:///ledger.db        # with one that is there, which is only read
    python -m benchmarks.goals --write docs/benchmarks/goals.md    # and into that page

Times are processor seconds of one thread, imports left out, the shortest of some rounds: who else computes on the same
machine, or beside a virtual one, makes them longer. The exit code is 1 where a goal is missed."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import NamedTuple

# Before NumPy loads, as the command line does; threads that wait for one another would count as processor time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from crowdblend.accounting.kernel.keys.signing import SigningKeys
from crowdblend.accounting.kernel.ledger.entries import FilterAccounting, sorted_fields
from crowdblend.accounting.kernel.ledger.filter_budget import FilterBudget, filter_charge
from crowdblend.accounting.kernel.ledger.ledger_state import Account
from crowdblend.accounting.kernel.prices.registry import mechanism_record
from crowdblend.accounting.keys.anchor import Anchoring
from crowdblend.accounting.keys.signing_upkeep import create_where_none
from crowdblend.accounting.kinds import deletion_prices
from crowdblend.accounting.kinds.composition import renyi_divergence
from crowdblend.accounting.kinds.composition.renyi_filter import RULE
from crowdblend.accounting.kinds.survey_prices import price_biased_counts
from crowdblend.accounting.ledger.creation import create_ledger
from crowdblend.accounting.ledger.reader import LedgerReader, open_reader
from crowdblend.accounting.ledger.refusals import what_fits_filter
from crowdblend.accounting.theory.planning import price_estimates
from crowdblend.accounting.theory.planning.deletion_planning import plan_deletion
from crowdblend.accounting.theory.planning.filter_terms import least_terms
from crowdblend.mechanisms.kinds.biased_sampling import BiasedSampleCounts
from crowdblend.mechanisms.kinds.deletion_noise import deletion_weights
from crowdblend.mechanisms.kinds.microdata import StronglySafeRelease

from .ledger.of_size import grow
from .whole_run import machine, write_between

__all__ = ["Goal", "goals", "main"]

BY = "python -m benchmarks.goals"
DELTA = Decimal("1e-6")
ROUNDS = 12
LEAST_ENTRIES = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """A goal, what was measured, and the most that it may be.

    Args:
        name: what is measured.
        measured: processor seconds.
        most: processor seconds.
    """

    name: str
    measured: float
    most: float

    @property
    def met(self) -> bool:
        """Whether the measured time is within the goal."""
        return self.measured <= self.most


class Work(NamedTuple):
    """What is done for a goal, and the most processor seconds that it may take."""

    goal: str
    most: float
    run: Callable[[], object]


def goals(*, entries: int, ledger: str | None = None, rounds: int = ROUNDS) -> Iterator[Goal]:
    """Measure all goals in turns, so that the rounds of each are spread over minutes.

    Args:
        entries: of the ledger that is made and shown.
        ledger: SQLAlchemy URL of one that is shown instead; None for none.
        rounds: how often each is measured; the shortest counts.
    """
    with (
        tempfile.TemporaryDirectory(prefix="crowdblend-goals-") as folder,
        open_reader(ledger or _grown(Path(folder), entries)) as reader,
    ):
        works = list(_works(reader))
        shortest = np.min([[_seconds(work) for work in works] for _ in range(rounds)], axis=0)
    longest: dict[tuple[str, float], float] = {}
    for work, seconds in zip(works, shortest, strict=True):
        goal = work.goal, work.most
        longest[goal] = max(longest.get(goal, 0.0), float(seconds))
    for (name, most), seconds in longest.items():
        yield Goal(name=name, measured=seconds, most=most)


def _seconds(work: Work) -> float:
    """Return the processor seconds of some work, after nothing of an earlier one is remembered."""
    for remembered in REMEMBERED:
        remembered.cache_clear()
    begun = time.process_time()
    work.run()
    return time.process_time() - begun


REMEMBERED = (
    filter_charge,
    renyi_divergence.step_divergence,
    renyi_divergence._covers,
    deletion_weights,
    deletion_prices._losses,
    price_estimates._epsilon_of_step,
)
SURVEYS = ((40, "0.02", "0.2"), (200, "0.02", "0.2"), (1000, "0.1", "0.5"))
"""Of surveys: k, the rate of all but the exceptions, and the exceptions' rate. In the first two it isn't the largest
number of exceptions that costs most."""


def _works(reader: LedgerReader) -> Iterator[Work]:
    """Give what is measured; of several works of one goal the longest counts."""
    shown = f"what `ledger show` looks up in {reader.head().position + 1:,} entries"
    yield Work(shown, 0.5, lambda: reader.overview(latest=50))
    for advice in _advice():
        yield Work("what fits into a filter budget that is nearly used up, the longest of some", 1.0, advice)
    four = partial(plan_deletion, epsilon=Decimal("1e-4"), delta=Decimal("1e-3"), margins=4)
    yield Work("a plan with 4 margins at ε = 1e-4 and δ = 1e-3", 1.0, four)
    one = partial(plan_deletion, epsilon=Decimal("1e-4"), delta=Decimal("1e-4"), margins=1)
    yield Work("a plan with 1 margin at ε = δ = 1e-4", 1.0, one)
    for survey in SURVEYS:
        price = partial(_survey_price, *survey)
        yield Work("the price of a survey with 1,000 exceptions, the longest of some", 5.0, price)


def _survey_price(k: int, rate: str, top: str) -> None:
    survey = BiasedSampleCounts(
        k=k, lowest_rate=Decimal(0), highest_rate=Decimal(rate), largest_rate=Decimal(top), exceptions=1000
    )
    price_biased_counts(survey, delta=DELTA)


def _advice() -> Iterator[Callable[[], object]]:
    """Give the work of saying what fits of twelve releases into filter budgets, of which shares are spent."""
    release = StronglySafeRelease(k=20, sampling_rate=Decimal("0.1"))
    terms = least_terms(DELTA, [(release, 12)])
    fixed = {name: getattr(terms, name) for name in ("order", "tail_delta", "tail_each", "allowance")}
    budget = FilterBudget(
        epsilon=terms.epsilon, delta=DELTA, relation="add/remove", accounting=FilterAccounting(rule=RULE, **fixed)
    )
    record = sorted_fields(mechanism_record(release))
    for spent in map(Decimal, ("0.5", "0.99", "1")):
        account = Account(
            epsilon_spent=terms.allowance * spent,
            delta_spent=terms.tail_delta * spent,
            epsilon_budget=terms.allowance,
            delta_budget=terms.tail_delta,
        )
        yield partial(what_fits_filter, account, mechanism=record, budget=budget, releases=12, rows_per_person=1)


def _grown(folder: Path, entries: int) -> str:
    """Make a ledger of so many entries and return its URL."""
    home, url = folder / "home", f"sqlite:///{folder}/ledger.db"
    create_where_none(SigningKeys(home=home), os.urandom)
    anchoring = Anchoring(home=home, file=None)
    create_ledger(url, anchoring=anchoring)
    grow(url, anchoring=anchoring, entries=entries)
    return url


def table(measured: Sequence[Goal]) -> Iterator[str]:
    """The lines of a page's table."""
    yield "| goal | processor s | at most | met |"
    yield "|---|---|---|---|"
    for goal in measured:
        yield f"| {goal.name} | {goal.measured:.2f} | {goal.most:g} | {'yes' if goal.met else 'no'} |"


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write the table into a page, and return 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=LEAST_ENTRIES, help="of the ledger that is made and shown")
    parser.add_argument("--ledger", help="SQLAlchemy URL of a ledger that is shown instead")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", type=Path, help="page with a place for the table: docs/benchmarks/goals.md")
    arguments = parser.parse_args(argv)
    measured = list(goals(entries=arguments.entries, ledger=arguments.ledger, rounds=arguments.rounds))
    lines = [f"On {machine()}.\n", *table(measured)]
    print("\n".join(lines))
    if arguments.write is not None:
        write_between(arguments.write, lines, by=BY)
    return 0 if all(goal.met for goal in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
