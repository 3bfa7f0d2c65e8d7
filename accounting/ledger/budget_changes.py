"""How a data set gets its budget, and a larger one."""

from __future__ import annotations

from ...mechanisms.refusal import InputRefused
from .append import append_entry
from .derive import rows_of
from .entry import BudgetRaised, DatasetAdded
from .permission import known_dataset
from .queries import account_of, dataset_of
from .store import Store

__all__ = ["add_dataset", "raise_budget"]


def add_dataset(store: Store, added: DatasetAdded) -> None:
    """Append a data set with its budget.

    Raises:
        InputRefused: the name exists.
    """
    with store.writing() as connection:
        if dataset_of(connection, added.dataset) is not None:
            raise InputRefused(
                "a data set of this name is in the ledger already.",
                where=f"dataset '{added.dataset}'",
                remedy="A new delivery of its records keeps the name and the budget; "
                "a larger budget is `crowdblend dataset raise`.",
            )
        append_entry(connection, added, rows=rows_of(added, before=None, charge=None, survey=False))


def raise_budget(store: Store, raised: BudgetRaised) -> None:
    """Append a larger budget.

    Raises:
        InputRefused: unknown data set, or a budget that is not larger.
    """
    with store.writing() as connection:
        known_dataset(connection, raised.dataset)
        before = account_of(connection, raised.dataset)
        old = (before.account.epsilon_budget, before.account.delta_budget)
        if raised.epsilon < old[0] or raised.delta < old[1] or (raised.epsilon, raised.delta) == old:
            raise InputRefused(
                f"the budget is (ε, δ) = ({old[0]}, {old[1]}) and can only be raised, not set to "
                f"({raised.epsilon}, {raised.delta}).",
                where=f"dataset '{raised.dataset}'",
            )
        append_entry(connection, raised, rows=rows_of(raised, before=before, charge=None, survey=False))
