"""Private looks at a data set's records, and what they mean for the releases that were charged after them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection

from .append import append_entry
from .charge import Receipt
from .circumstances import Circumstances
from .entry import PrivateLook
from .permission import known_dataset
from .queries import entries_of
from .refusals import malformed
from .store import Store

__all__ = ["RecordedLook", "circumstances_of", "private_looks", "record_look"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedLook:
    """A private look and its place in the chain.

    Args:
        position: from 0.
        look: what was recorded.
    """

    position: int
    look: PrivateLook


def record_look(store: Store, *, dataset: str, what: str, by: str, day: date) -> RecordedLook:
    """Append a private look.

    Args:
        store: the ledger.
        dataset: whose records were looked at.
        what: what was looked at, in one line; never a value of the records.
        by: who looked.
        day: today.

    Returns:
        The look with its place: the proof that it is recorded, for whoever reads records by it.

    Raises:
        InputRefused: unknown data set, or a value that the ledger can't hold.
    """
    try:
        look = PrivateLook(dataset=dataset, what=what, by=by, day=day)
    except ValueError as error:
        raise malformed(error) from None
    with store.writing() as connection:
        known_dataset(connection, look.dataset)
        place = append_entry(connection, look, rows=())
    return RecordedLook(position=place.position, look=look)


def private_looks(connection: Connection) -> tuple[RecordedLook, ...]:
    """All private looks, in their order.

    Raises:
        ForgedState: they are not those of the signed chain.
    """
    return tuple(RecordedLook(position=position, look=look) for position, look in entries_of(connection, PrivateLook))


def circumstances_of(connection: Connection, receipt: Receipt) -> Circumstances:
    """What was known of a release's data set at its charge: the same whenever it is asked.

    Raises:
        InputRefused: the receipt is not of this ledger.
    """
    days = [
        known.look.day
        for known in private_looks(connection)
        if known.look.dataset == receipt.dataset and known.position < receipt.position
    ]
    return Circumstances(
        rows_per_person=known_dataset(connection, receipt.dataset).rows_per_person, look_days=tuple(days)
    )
