"""Every recorded price is computed again from its mechanism; what differs is found."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from ....mechanisms.errors import InputRefused
from ...theory.cost import Price
from ...theory.kinds.registry import mechanism_of_record
from ...theory.price import paper_price, recorded_price
from ..entries.kinds import ChargedPrice, Fields

__all__ = ["price_faults"]

# Prices are computed in binary floating point and rounded up to 12 digits: another processor or library may
# differ in the last ones. What could be gained within this tolerance is a billionth of a price.
TOLERANCE = Decimal("1e-9")


def price_faults(
    *, mechanism: Fields, price: ChargedPrice, epsilon_paper: Decimal | None, rows_per_person: int
) -> tuple[str, ...]:
    """What is wrong with a recorded price, in sentences; nothing where it is its mechanism's.

    Args:
        mechanism: the mechanism's versioned record.
        price: as recorded; its δ and its number of releases are taken as given, and its rule where earlier versions
            charged by it.
        epsilon_paper: the published bound's ε as recorded, None where it was said to give no guarantee.
        rows_per_person: the most records of one person in a delivery, as declared of the data set.
    """
    try:
        exact, paper = _prices(mechanism, price.rule, price.delta, price.releases, rows_per_person)
    except InputRefused as error:
        return (f"the mechanism can't be priced: {error.what}",)
    except ValueError as error:
        return (f"the mechanism can't be priced: {error}",)
    except ArithmeticError:
        return ("the mechanism can't be priced: its numbers are too large or too small to compute with",)
    faults = []
    for name, found, expected in (
        ("rule", price.rule, exact.rule),
        ("neighbouring relation", price.relation, exact.relation),
    ):
        if found != expected:
            faults.append(f"the {name} is recorded as '{found}', but its mechanism's is '{expected}'")
    if _differ(price.epsilon, exact.epsilon):
        faults.append(f"ε is recorded as {price.epsilon}, but its mechanism's is {exact.epsilon}")
    if _differ(epsilon_paper, None if paper is None else paper.epsilon):
        shown = "none" if paper is None else str(paper.epsilon)
        faults.append(f"the paper's ε is recorded as {epsilon_paper}, but its mechanism's is {shown}")
    return tuple(faults)


@lru_cache(maxsize=1024)
def _prices(
    record: Fields, rule: str, delta: Decimal, releases: int, rows_per_person: int
) -> tuple[Price, Price | None]:
    mechanism = mechanism_of_record(dict(record))
    return (
        recorded_price(mechanism, rule=rule, delta=delta, releases=releases, rows_per_person=rows_per_person),
        paper_price(mechanism, delta=delta, releases=releases, rows_per_person=rows_per_person),
    )


def _differ(recorded: Decimal | None, expected: Decimal | None) -> bool:
    if recorded is None or expected is None:
        return recorded is not expected
    return abs(recorded - expected) > TOLERANCE * max(recorded, expected)
