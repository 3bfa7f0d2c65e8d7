"""Releases that must stay a data set's only one: a survey's, and counts of local reports at a price of their own."""

from __future__ import annotations

from sqlalchemy import Connection

from ..theory.shuffling import holds_alone
from .queries import DatasetState, unrefunded_release
from .release_entries import ChargedPrice

__all__ = ["released_before", "released_once"]


def released_once(dataset: DatasetState, price: ChargedPrice) -> bool:
    """Whether a release at this price uses up what protects the data set, so that it has no other."""
    return dataset.survey or holds_alone(price.rule)


def released_before(connection: Connection, dataset: DatasetState, price: ChargedPrice) -> str | None:
    """A release beside which one at this price may not stand; None where nothing is in its way.

    INVARIANT: a release that stands alone is charged where the data set has no other, and none is charged after it. So
    any one release tells, at a cost that does not grow with the ledger.

    Args:
        connection: a connection to the ledger.
        dataset: the data set.
        price: what would be charged.

    Returns:
        The id of a release whose cost was not given back.

    Raises:
        ForgedState: the tables lack a release that the signed chain has.
    """
    return unrefunded_release(connection, dataset.name, alone=not released_once(dataset, price))
