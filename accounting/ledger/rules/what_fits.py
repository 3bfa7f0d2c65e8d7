"""What a budget has left, and which rate or threshold would bring a refused release within it."""

from __future__ import annotations

from ....mechanisms.amounts import amount_left
from ...theory.kinds.registry import kind_of, mechanism_of_record
from ..entries.kinds import ChargedPrice, Fields
from ..entries.values import Account

__all__ = ["what_fits"]

ASK = "Lower the rate, raise k, or ask the data owner."


def what_fits(account: Account, price: ChargedPrice, *, mechanism: Fields, rows_per_person: int) -> str:
    """What to do about a price that is past a budget, in sentences: what is left, and what would fit.

    Args:
        account: before the charge.
        price: what would be charged.
        mechanism: the mechanism's versioned record.
        rows_per_person: the most records of one person that the price covers.
    """
    epsilon, delta = account.epsilon_left, account.delta_left
    left = f"Left are ε = {amount_left(epsilon)} and δ = {amount_left(delta)}."
    found = mechanism_of_record(dict(mechanism))
    tunable = kind_of(found).tunable if rows_per_person == 1 else None
    if tunable is None:
        return f"{left} {ASK}"
    at = min(price.delta, delta)
    from ...theory.planning.inversion import changes_that_fit  # numerics, for a refusal alone

    changes = changes_that_fit(tunable(found), epsilon=epsilon, delta=at, releases=price.releases)
    if not changes:
        return f"{left} No rate and no k would fit. Ask the data owner."
    lower = "" if at == price.delta else f"[privacy].delta = {amount_left(at)} and "
    return f"{left} With all else as it is, {lower}{' or '.join(changes)} would fit. Or ask the data owner."
