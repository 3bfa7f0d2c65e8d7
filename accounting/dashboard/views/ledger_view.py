"""What a page may see of the ledger: one state of it, in which every row follows from the signed chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, Table, func, select

from ...ledger.chain.append import Place, head_of
from ...ledger.chain.signed_state import ForgedState, SignedState, rows_in
from ...ledger.database.schema import (
    DERIVED_TABLES,
    account,
    dataset,
    release,
    release_stage,
    sample,
    series,
    series_release,
)
from ...ledger.database.schema import entry as entry_table
from ...ledger.entries.codec import entry_of_bytes
from ...ledger.entries.kinds import Entry
from ...ledger.entries.values import Account
from ...ledger.rules.ledger_state import account_of_row

__all__ = ["AccountChange", "LedgerView", "Stored"]

Kind = TypeVar("Kind", bound=Entry)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One entry as stored.

    Args:
        position: its place.
        previous: hash of the entry before it.
        hash: its own hash.
        body: its bytes as text.
        entry: what it records.
    """

    position: int
    previous: str
    hash: str
    body: str
    entry: Entry


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountChange:
    """A data set's account after one change.

    Args:
        sequence: how many changes came before.
        position: the entry that changed it.
        account: the account.
    """

    sequence: int
    position: int
    account: Account


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """The ledger up to a head, in one reading transaction whose signed state is vouched for.

    INVARIANT: nothing is given out that does not follow from the signed chain; a question raises ForgedState instead.

    PRIVACY: every question is bounded by the head, so that pages that are held back show nothing newer.

    Args:
        connection: in a reading transaction, and unable to write.
        head: the last entry that pages may show.
    """

    connection: Connection
    head: Place

    @cached_property
    def _signed(self) -> SignedState:
        return SignedState(self.connection)

    def require_all_rows(self) -> None:
        """Require that every table has as many rows, at places of the chain, as follow from the entries.

        Raises:
            ForgedState: rows were added or removed, or the place of one is damaged.
        """
        last = head_of(self.connection).position
        for table in DERIVED_TABLES:
            within = table.c.position.between(0, last)
            rows = self.connection.execute(select(func.count()).select_from(table).where(within)).scalar_one()
            self._signed.require_rows(table, rows)

    def entries(self, positions: Iterable[int]) -> dict[int, Stored]:
        """Entries by their places up to the head, in their order."""
        wanted = {position for position in positions if 0 <= position <= self.head.position}
        query = select(entry_table).where(entry_table.c.position.in_(wanted)).order_by(entry_table.c.position)
        found = self._rows(entry_table, query)
        if missing := wanted - {row["position"] for row in found}:
            raise ForgedState(f"entry {min(missing)} is missing")
        return {
            row["position"]: Stored(
                position=row["position"],
                previous=row["previous"],
                hash=row["hash"],
                body=row["body"],
                entry=entry_of_bytes(row["body"].encode("ascii")),
            )
            for row in found
        }

    def entries_of(self, kind: type[Kind], positions: Iterable[int]) -> dict[int, Kind]:
        """Entries of one kind by their places, in their order."""
        found: dict[int, Kind] = {}
        for position, stored in self.entries(positions).items():
            if not isinstance(stored.entry, kind):
                raise ForgedState(f"entry {position} is of another kind than a table says")
            found[position] = stored.entry
        return found

    def _rows(self, table: Table, query: Select[Any]) -> list[dict[str, Any]]:
        """Whole rows of a table, each of them required to be one of the signed state."""
        rows = rows_in(self.connection, query)
        self._signed.require(table, rows, what="what this page would show")
        return rows

    def count(self, table: str) -> int:
        """How many rows follow from the entries: of "release", "sample" or "dataset"."""
        known = {"release": release, "sample": sample, "dataset": dataset}[table]
        counted = select(func.count()).select_from(known).where(known.c.position <= self.head.position)
        return self.connection.execute(counted).scalar_one()

    def datasets(self, *, after: int, limit: int) -> tuple[tuple[str, int], ...]:
        """Names of data sets and the places of their registrations, in the order of these, past a place."""
        query = select(dataset).where(dataset.c.position > after, dataset.c.position <= self.head.position)
        rows = self._rows(dataset, query.order_by(dataset.c.position).limit(limit))
        return tuple((row["name"], row["position"]) for row in rows)

    def places_of_datasets(self, names: Iterable[str]) -> dict[str, int]:
        """Where data sets are registered, by name."""
        query = select(dataset).where(dataset.c.name.in_(set(names)), dataset.c.position <= self.head.position)
        return {row["name"]: row["position"] for row in self._rows(dataset, query)}

    def last_change(self, name: str) -> AccountChange:
        """The latest change of a data set's account."""
        query = select(account).where(account.c.dataset == name, account.c.position <= self.head.position)
        rows = self._rows(account, query.order_by(account.c.sequence.desc()).limit(1))
        if not rows:
            raise ForgedState("the account of a data set is missing")
        return _change(rows[0])

    def changes(self, name: str, *, last: AccountChange, most: int) -> tuple[AccountChange, ...]:
        """Changes of a data set's account up to its last: all, or as many spread evenly, with first and last.

        Args:
            name: of the data set.
            last: the latest.
            most: how many.
        """
        step = max(1, -(-last.sequence // max(1, most - 1)))
        wanted = {*range(0, last.sequence + 1, step), last.sequence}
        query = select(account).where(account.c.dataset == name, account.c.sequence.in_(wanted))
        rows = self._rows(account, query.order_by(account.c.sequence))
        if len(rows) != len(wanted):
            raise ForgedState("changes of an account are missing")
        return tuple(_change(row) for row in rows)

    def releases(self, *, name: str | None, before: int | None, limit: int) -> tuple[int, ...]:
        """Places of charges, the latest first; of one data set, or of all."""
        query = select(release).where(release.c.position <= self._last(before))
        if name is not None:
            query = query.where(release.c.dataset == name)
        rows = self._rows(release, query.order_by(release.c.position.desc()).limit(limit))
        return tuple(row["position"] for row in rows)

    def place_of_release(self, release_id: str) -> int | None:
        """Where a release is charged, None where the ledger has none of this id."""
        rows = self._rows(release, select(release).where(release.c.release_id == release_id))
        place = next((int(row["position"]) for row in rows), None)
        return place if place is not None and place <= self.head.position else None

    def samples(self, *, before: int | None, limit: int) -> tuple[tuple[str, str, str, int], ...]:
        """Samples with their purposes, their releases and their places, the latest first."""
        query = select(sample).where(sample.c.position <= self._last(before))
        rows = self._rows(sample, query.order_by(sample.c.position.desc(), sample.c.purpose).limit(limit))
        return tuple((row["sample_id"], row["purpose"], row["release_id"], row["position"]) for row in rows)

    def outcomes(self, release_ids: Iterable[str]) -> dict[str, Mapping[str, int]]:
        """What became of releases: release id → outcome → place of its entry."""
        query = select(release_stage).where(
            release_stage.c.release_id.in_(set(release_ids)), release_stage.c.position <= self.head.position
        )
        found: dict[str, dict[str, int]] = {}
        for row in self._rows(release_stage, query):
            found.setdefault(row["release_id"], {})[row["outcome"]] = row["position"]
        return dict(found)

    def series_of(self, name: str, *, limit: int) -> tuple[tuple[str, int, int], ...]:
        """Series of a data set, the latest first: name, place of its registration, places taken in it."""
        given_back = (
            select(release_stage.c.release_id)
            .where(
                release_stage.c.release_id == series_release.c.release_id,
                release_stage.c.outcome == "refunded",
                release_stage.c.position <= self.head.position,
            )
            .exists()
        )
        taken = (
            select(func.count())
            .select_from(series_release)
            .where(
                series_release.c.series == series.c.name,
                series_release.c.position <= self.head.position,
                ~given_back,
            )
            .scalar_subquery()
        )
        rows = rows_in(
            self.connection,
            select(series, taken.label("taken"))
            .where(series.c.dataset == name, series.c.position <= self.head.position)
            .order_by(series.c.position.desc())
            .limit(limit),
        )
        self._signed.require(series, rows, what="what this page would show")
        if self.head == head_of(self.connection) and any(
            row["taken"] != self._signed.count("held", row["name"]) for row in rows
        ):
            raise ForgedState("the places taken in a series don't follow from the signed chain")
        return tuple((row["name"], row["position"], row["taken"]) for row in rows)

    def _last(self, before: int | None) -> int:
        return self.head.position if before is None else min(self.head.position, before - 1)


def _change(row: Mapping[str, Any]) -> AccountChange:
    return AccountChange(sequence=row["sequence"], position=row["position"], account=account_of_row(row).account)
