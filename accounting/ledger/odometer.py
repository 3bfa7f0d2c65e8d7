"""What everything charged to a data set costs when composed tightly: an estimate beside the account, never a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from ...mechanisms.refusal import InputRefused
from ..theory.composition import COMPOSED_FLOOR, epsilon_composed
from ..theory.kinds.registry import kind_of, mechanism_of_record
from ..theory.loss_curves import Part
from ..theory.rounding import decimal_up, float_down
from .budget import Account
from .queries import DatasetState, ReleaseState
from .release_entries import Fields
from .series import SeriesState

__all__ = ["ESTIMATE_NOTE", "composed_estimate", "epsilon_estimate"]

ESTIMATE_NOTE = (
    "The estimate composes all that was charged at the δ spent, as if every parameter had been fixed beforehand; "
    "what counts against the budget is the sum."
)
# The work grows with the different mechanisms times all their runs; past this (about a second) nothing is shown.
MOST_WORK = 5_000


def epsilon_estimate(
    dataset: DatasetState, *, releases: Iterable[ReleaseState], series: Iterable[SeriesState]
) -> Decimal | None:
    """ε of everything charged to a data set together, at the δ that it has spent.

    Composition by privacy-loss distributions is proved for parameters fixed beforehand. Here they may have been
    chosen after seeing earlier outputs, so this is an estimate; it decides nothing.

    Args:
        dataset: the data set.
        releases: releases, of it and of others; one that a series pays for, or whose cost was given back, is
            not counted.
        series: series, of it and of others; each counts with all the releases that it reserved.

    Returns:
        At most the ε spent; None where it can't be computed, where a person may have several records, or only with too
        much work.
    """
    charged: Counter[Fields] = Counter()
    for state in releases:
        if state.charge.dataset == dataset.name and state.charge.series is None and not state.refunded:
            charged[state.charge.mechanism] += 1
    for known in series:
        if known.registered.dataset == dataset.name:
            charged[known.registered.mechanism] += known.registered.price.releases
    return composed_estimate(charged, account=dataset.account, rows_per_person=dataset.rows_per_person)


def composed_estimate(charged: Counter[Fields], *, account: Account, rows_per_person: int) -> Decimal | None:
    """The same for mechanisms that are counted already.

    Args:
        charged: mechanism's record → how many releases of it were charged and not given back.
        account: what was spent on them.
        rows_per_person: the most records of one person that the data set may hold.
    """
    if not charged:
        return Decimal(0)
    if rows_per_person != 1:
        return None  # losses are composed for one record
    delta = account.delta_spent
    if len(charged) * charged.total() > MOST_WORK or not COMPOSED_FLOOR <= delta < 1:
        return None
    parts: dict[Part, int] = {}
    try:
        for mechanism, times in charged.items():
            run = mechanism_of_record(dict(mechanism))
            for part in kind_of(run).losses(run):
                parts[part] = parts.get(part, 0) + times
        composed = epsilon_composed(parts, delta=float_down(delta))
    except (ArithmeticError, InputRefused, ValueError):
        return None
    return None if composed is None else min(decimal_up(composed), account.epsilon_spent)
