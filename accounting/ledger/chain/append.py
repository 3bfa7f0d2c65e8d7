"""Appending one entry and the rows that follow from it: the same when written and when checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar, assert_never

from sqlalchemy import Connection, Table, insert

from ....mechanisms.errors import InputRefused
from ..database.schema import account, dataset, release, release_stage, sample, series, series_release, survey_use
from ..database.schema import entry as entry_table
from ..entries.codec import bytes_of_entry
from ..entries.kinds import (
    BudgetRaised,
    ChargedPrice,
    DataAccess,
    DatasetAdded,
    Entry,
    Fields,
    FilterCharge,
    FilterDatasetAdded,
    LedgerCreated,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)
from ..entries.values import Account, amount_text
from ..rules.rule import LedgerState, Payment
from .hashing import link_hash
from .signed_state import Count, Place, SignedState, Vouched, vouch, vouched

__all__ = ["Row", "amounts_of", "append_entry", "counts_of", "is_exclusive", "released_once", "rows_of", "standing"]


def append_entry(connection: Connection, entry: Entry, state: LedgerState) -> Place:
    """Append an entry to the chain, with what follows from it; the cost hardly grows with the ledger.

    Args:
        connection: a connection in a writing transaction.
        entry: what is recorded; whether it may be isn't asked here.
        state: the ledger before it.

    Returns:
        The new head, which is signed with the state at the end of the transaction.

    Raises:
        ForgedState: what is to be written is in the signed state, or that is damaged.
        ValueError: an account or a charge that the entry needs is not there.
    """
    head, rows = vouched(connection), rows_of(entry, state)
    counts = counts_of(entry, rows=rows, state=state)
    position, previous = head.position + 1, head.hash
    body = bytes_of_entry(entry)
    own = link_hash(previous=previous, position=position, body=body)
    link = {"position": position, "previous": previous, "hash": own, "kind": entry.KIND, "body": body.decode("ascii")}
    written: list[tuple[Table, dict[str, Any]]] = [
        (entry_table, link),
        *((row.table, {"position": position, **row.values}) for row in rows),
    ]
    for table, values in written:
        connection.execute(insert(table).values(**values))
    root = SignedState(connection).add(written, counts)
    vouch(connection, Vouched(position=position, hash=own, root=root))
    return Place(position=position, hash=own)


Fact = TypeVar("Fact")


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a derived table, but for its position, which is its entry's.

    Args:
        table: the derived table.
        values: column → value.
    """

    table: Table
    values: Mapping[str, str | int]


def is_exclusive(mechanism: Fields) -> bool:
    """Whether a mechanism's price holds only while nothing else is published of the same records.

    Args:
        mechanism: its versioned record; one of an unknown kind has no price at all.
    """
    from ...theory.kinds.registry import kind_of_record  # with it come numerics, which creating a ledger does without

    try:
        return kind_of_record(dict(mechanism).get("kind")).exclusive
    except InputRefused:
        return False


def released_once(dataset: DatasetAdded, mechanism: Fields) -> bool:
    """Whether a release by this mechanism uses up what protects the data set, so that it has no other."""
    return dataset.survey_rate is not None or is_exclusive(mechanism)


def amounts_of(price: ChargedPrice, of_filter: FilterCharge | None) -> tuple[Decimal, Decimal]:
    """What a charge adds to the two sums of an account: ε and δ, or D_α and τ in a filter data set."""
    return (price.epsilon, price.delta) if of_filter is None else (of_filter.divergence, of_filter.tail)


def rows_of(entry: Entry, state: LedgerState) -> tuple[Row, ...]:
    """The rows that an entry brings.

    Args:
        entry: the entry.
        state: the ledger before it.

    Raises:
        ValueError: an account or a charge that the entry needs is not there.
    """
    match entry:
        case LedgerCreated() | DataAccess() | ReleaseRefused() | TokenAdded() | TokenRevoked():
            rows: tuple[Row, ...] = ()
        case DatasetAdded():
            rows = _rows_of_dataset(entry)
        case BudgetRaised():
            known = _known(state.account(entry.dataset))
            raised = known.account.raised(epsilon=entry.epsilon, delta=entry.delta)
            rows = (_account_row(entry.dataset, known.sequence + 1, raised),)
        case SeriesRegistered():
            registered: dict[str, str | int] = {
                "name": entry.series,
                "dataset": entry.dataset,
                "releases": entry.price.releases,
            }
            rows = (Row(table=series, values=registered), _charged_row(entry, state))
        case ReleaseCharged():
            rows = _rows_of_charge(entry, state)
        case ReleaseReading(release_id=release_id):
            rows = (_stage_row(release_id, "reading", "reading"), *_rows_of_use(release_id, state))
        case ReleasePublished(release_id=release_id):
            rows = (_stage_row(release_id, "closed", "published"),)
        case ReleaseAbandoned():
            rows = _rows_of_end(entry, state)
        case _:
            assert_never(entry)
    return rows


def counts_of(entry: Entry, *, rows: tuple[Row, ...], state: LedgerState) -> Mapping[tuple[Count, str], int]:
    """How an entry changes the counts of the ledger's state.

    Args:
        entry: the entry.
        rows: that it brings.
        state: the ledger before it.

    Raises:
        ValueError: a refund without its charge.
    """
    counts: Counter[tuple[Count, str]] = Counter({("entries", entry.KIND): 1})
    for row in rows:
        counts["rows", row.table.name] += 1
        if row.table is release_stage:
            counts["outcome", str(row.values["outcome"])] += 1
    match entry:
        case ReleaseCharged():
            counts.update(standing(Payment.by(entry), 1))
        case ReleaseAbandoned(refunded=True):
            counts.update(standing(_known(state.payment(entry.release_id)), -1))
        case _:
            pass
    return counts


def standing(paid: Payment, change: int) -> dict[tuple[Count, str], int]:
    """What a release takes by its charge, and gives back by a refund: counts and how they change.

    Args:
        paid: its payment.
        change: how many more such releases there are.
    """
    counts: dict[tuple[Count, str], int] = {("released", paid.dataset): change}
    if is_exclusive(paid.mechanism):
        counts["alone", paid.dataset] = change
    if paid.series is not None:
        counts["held", paid.series] = change
    return counts


def _rows_of_dataset(entry: DatasetAdded) -> tuple[Row, ...]:
    epsilon, delta = entry.epsilon, entry.delta
    if isinstance(entry, FilterDatasetAdded):
        epsilon, delta = entry.accounting.allowance, entry.accounting.tail_delta
    empty = Account(epsilon_spent=Decimal(0), delta_spent=Decimal(0), epsilon_budget=epsilon, delta_budget=delta)
    return (Row(table=dataset, values={"name": entry.dataset}), _account_row(entry.dataset, 0, empty))


def _rows_of_charge(entry: ReleaseCharged, state: LedgerState) -> tuple[Row, ...]:
    rows = (
        Row(table=release, values={"release_id": entry.release_id, "dataset": entry.dataset}),
        *(
            Row(table=sample, values={"sample_id": taken, "release_id": entry.release_id, "purpose": purpose})
            for purpose, taken in entry.samples
        ),
        _stage_row(entry.release_id, "charged", "charged"),
    )
    if entry.series is None:
        return (*rows, _charged_row(entry, state))
    # INVARIANT: a release of a series costs nothing more, since the series was paid for whole; it takes a place.
    place = entry.series
    taken: dict[str, str | int] = {
        "series": place.name,
        "number": place.number,
        "turn": state.turn(place.name, place.number),
        "release_id": entry.release_id,
    }
    return (*rows, Row(table=series_release, values=taken))


def _rows_of_use(release_id: str, state: LedgerState) -> tuple[Row, ...]:
    """What a release uses up by being read, where its data set can have no other."""
    paid = state.payment(release_id)
    registered = None if paid is None else state.dataset(paid.dataset)
    if paid is None or registered is None or not released_once(registered, paid.mechanism):
        return ()
    return (Row(table=survey_use, values={"dataset": paid.dataset, "release_id": release_id}),)


def _rows_of_end(entry: ReleaseAbandoned, state: LedgerState) -> tuple[Row, ...]:
    end = _stage_row(entry.release_id, "closed", "refunded" if entry.refunded else "abandoned")
    if not entry.refunded:
        return (end,)
    paid = _known(state.payment(entry.release_id))
    if paid.series is not None:
        return (end,)
    known = _known(state.account(paid.dataset))
    epsilon, delta = amounts_of(paid.price, paid.of_filter)
    after = known.account.refunded(epsilon=epsilon, delta=delta)
    return (end, _account_row(paid.dataset, known.sequence + 1, after))


def _charged_row(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Row:
    known = _known(state.account(entry.dataset))
    epsilon, delta = amounts_of(entry.price, entry.of_filter)
    after = known.account.charged(epsilon=epsilon, delta=delta)
    return _account_row(entry.dataset, known.sequence + 1, after)


def _account_row(name: str, sequence: int, after: Account) -> Row:
    return Row(
        table=account,
        values={
            "dataset": name,
            "sequence": sequence,
            "epsilon_spent": amount_text(after.epsilon_spent),
            "delta_spent": amount_text(after.delta_spent),
            "epsilon_budget": amount_text(after.epsilon_budget),
            "delta_budget": amount_text(after.delta_budget),
        },
    )


def _stage_row(release_id: str, stage: str, outcome: str) -> Row:
    return Row(table=release_stage, values={"release_id": release_id, "stage": stage, "outcome": outcome})


def _known(fact: Fact | None) -> Fact:
    if fact is None:
        raise ValueError("the entry follows from none before it")
    return fact
