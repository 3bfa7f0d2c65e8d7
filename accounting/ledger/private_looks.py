"""Private looks at a data set's records, and what they mean for the releases that were charged after them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from .charge import DatasetContext, Receipt
from .entries.kinds import DataAccess
from .queries import entries_of, registration_of
from .rules.violations import unknown_dataset

__all__ = ["RecordedLook", "circumstances_of", "private_looks"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedLook:
    """A private look and its place in the chain.

    Args:
        position: from 0.
        look: what was recorded.
    """

    position: int
    look: DataAccess


def private_looks(connection: Connection) -> tuple[RecordedLook, ...]:
    """All private looks, in their order.

    Raises:
        ForgedState: they are not those of the signed chain.
    """
    return tuple(RecordedLook(position=position, look=look) for position, look in entries_of(connection, DataAccess))


def circumstances_of(connection: Connection, receipt: Receipt) -> DatasetContext:
    """What was known of a release's data set at its charge: the same whenever it is asked.

    Raises:
        InputRefused: the receipt is not of this ledger.
    """
    days = [
        known.look.day
        for known in private_looks(connection)
        if known.look.dataset == receipt.dataset and known.position < receipt.position
    ]
    dataset = registration_of(connection, receipt.dataset)
    if dataset is None:
        raise unknown_dataset(receipt.dataset).refusal
    return DatasetContext(rows_per_person=dataset.rows_per_person, look_days=tuple(days))
