"""What a budget has left, and which rate or threshold would bring a refused release within it."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

from ...mechanisms.amount_format import amount_left
from ...mechanisms.epsilon_safe import EpsilonSafeRelease
from ...mechanisms.refusal import InputRefused
from ...mechanisms.strongly_safe import StronglySafeRelease
from ..theory.price import mechanism_of_record
from .budget import Account
from .release_entries import ChargedPrice, Fields

__all__ = ["what_fits"]

ASK = "Lower the rate, raise k, or ask the data owner."


def what_fits(account: Account, price: ChargedPrice, *, mechanism: Fields | None, rows_per_person: int) -> str:
    """What to do about a price that is past a budget, in sentences: what is left, and what would fit.

    Args:
        account: before the charge.
        price: what would be charged.
        mechanism: the mechanism's versioned record, None where it isn't known.
        rows_per_person: the most records of one person that the price covers.
    """
    epsilon, delta = account.epsilon_left, account.delta_left
    left = f"Left are ε = {amount_left(epsilon)} and δ = {amount_left(delta)}."
    found = None if mechanism is None or rows_per_person != 1 else mechanism_of_record(dict(mechanism))
    if not isinstance(found, StronglySafeRelease | EpsilonSafeRelease):
        return f"{left} {ASK}"
    at = min(price.delta, delta)
    ways = _ways(found, epsilon=epsilon, delta=at, releases=price.releases)
    if not ways:
        return f"{left} No rate and no k would fit. Ask the data owner."
    lower = "" if at == price.delta else f"[privacy].delta = {amount_left(at)} and "
    return f"{left} With all else as it is, {lower}{' or '.join(ways)} would fit. Or ask the data owner."


def _ways(
    mechanism: StronglySafeRelease | EpsilonSafeRelease, *, epsilon: Decimal, delta: Decimal, releases: int
) -> list[str]:
    """The largest rate and the least k that fit, as far as there are such."""
    from ..theory.inversion import Target, largest_sampling_rate, least_k  # numerics, for a refusal alone

    ways: list[str] = []
    choice = mechanism if isinstance(mechanism, EpsilonSafeRelease) else None
    try:
        target = Target(
            epsilon=epsilon,
            delta=delta,
            releases=releases,
            selection_epsilon=None if choice is None else choice.selection_epsilon,
            selection_rate=None if choice is None else choice.selection_rate,
        )
    except InputRefused:
        return ways
    with suppress(InputRefused):
        ways.append(f"a sampling rate of at most {largest_sampling_rate(mechanism.k, target)}")
    with suppress(InputRefused):
        ways.append(f"k of at least {least_k(mechanism.sampling_rate, target)}")
    return ways
