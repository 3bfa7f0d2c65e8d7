"""How a new filter budget is accounted, by what is expected of it, and what share of one a charge takes."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal

from ...mechanisms.kernel.mechanism import Mechanism
from ..kernel.ledger.entries import FilterAccounting, FilterCharge


def propose_accounting(
    *, epsilon: Decimal, delta: Decimal, expected: Sequence[tuple[Mechanism, int]]
) -> FilterAccounting:
    """Return how a new budget is accounted by the mechanisms and numbers of releases that are expected of it.

    Nothing expected is what the planner expects then.

    Raises:
        InputRefused: with no order and no share of δ they fit, or anything at all.
    """
    from ..kinds.composition.renyi_filter import RULE  # numerics of a search, for a registration alone
    from ..theory.planning.filter_terms import EXPECTED, propose_terms

    return FilterAccounting.of(propose_terms(epsilon, delta, expected or EXPECTED), rule=RULE)


def share_of(taken: FilterCharge, accounting: FilterAccounting) -> Decimal:
    """Return the share of a filter budget that a charge takes, of divergence or tail, rounded up to 6 digits."""
    up = Context(prec=6, rounding=ROUND_CEILING)
    return max(up.divide(taken.divergence, accounting.allowance), up.divide(taken.tail, accounting.tail_delta))
