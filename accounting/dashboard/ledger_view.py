"""What a page may see of the ledger: one state of it, read without trusting what is stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Row, Select, Table, func, or_, select

from ..ledger.append import Place
from ..ledger.budget import Account
from ..ledger.canonical import entry_of_bytes
from ..ledger.chain import link_hash
from ..ledger.derive import account_of_row
from ..ledger.entry import Entry
from ..ledger.schema import account, as_stored, dataset, release, release_stage, sample, series, series_release
from ..ledger.schema import entry as entry_table

__all__ = ["AccountChange", "LedgerView", "Stored"]

LARGEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One entry as stored.

    Args:
        position: its place.
        previous: hash of the entry before it.
        hash: its own hash.
        body: its bytes as text.
        entry: what it records, None where it can't be read.
        fault: what is wrong with it alone, None where nothing is.
    """

    position: int
    previous: str
    hash: str
    body: str
    entry: Entry | None
    fault: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountChange:
    """A data set's account after one change.

    Args:
        sequence: how many changes came before.
        position: the entry that changed it, None where its row is missing or doesn't say.
        account: the account, None where its row is missing or damaged.
    """

    sequence: int
    position: int | None
    account: Account | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LedgerView:
    """The ledger up to a head, in one reading transaction.

    PRIVACY: every question is bounded by the head, so that pages that are held back show nothing newer.

    Args:
        connection: in a reading transaction, and unable to write.
        head: the last entry that pages may show.
    """

    connection: Connection
    head: Place

    def entries(self, positions: Iterable[int]) -> dict[int, Stored]:
        """Entries by their places up to the head; one that is missing there has that as its fault."""
        wanted = sorted({position for position in positions if 0 <= position <= self.head.position})
        rows = self.connection.execute(_raw(entry_table).where(entry_table.c.position.in_(wanted)))
        found = {row.position: _stored(row) for row in rows}
        return {position: found.get(position) or _missing(position) for position in wanted}

    def count(self, table: str) -> int:
        """How many rows follow from the entries: of "release", "sample" or "dataset"."""
        known = {"release": release, "sample": sample, "dataset": dataset}[table]
        counted = select(func.count()).select_from(known).where(known.c.position <= self.head.position)
        return self.connection.execute(counted).scalar_one()

    def datasets(self, *, after: int, limit: int) -> tuple[tuple[str, int], ...]:
        """Names of data sets and the places of their registrations, in the order of these, past a place."""
        rows = self.connection.execute(
            select(dataset.c.name, dataset.c.position)
            .where(dataset.c.position > after, dataset.c.position <= self.head.position)
            .order_by(dataset.c.position)
            .limit(limit)
        )
        return tuple((row.name, row.position) for row in rows)

    def places_of_datasets(self, names: Iterable[str]) -> dict[str, int]:
        """Where data sets are registered, by name."""
        rows = self.connection.execute(
            select(dataset.c.name, dataset.c.position).where(
                dataset.c.name.in_(set(names)), dataset.c.position <= self.head.position
            )
        )
        return {row.name: row.position for row in rows}

    def last_change(self, name: str) -> AccountChange | None:
        """The latest change of a data set's account, None where there is none or its place can't be read."""
        # SQLite sorts what is no number above all numbers: a damaged place is found, and not taken for a later one.
        seen = or_(account.c.position <= self.head.position, account.c.position > LARGEST)
        row = self.connection.execute(
            _raw(account).where(account.c.dataset == name, seen).order_by(account.c.sequence.desc()).limit(1)
        ).one_or_none()
        if row is None or not isinstance(row.sequence, int) or not isinstance(row.position, int):
            return None
        return _change(row)

    def changes(self, name: str, *, last: AccountChange, most: int, also: Collection[int]) -> tuple[AccountChange, ...]:
        """Changes of a data set's account up to its last: all, or as many spread evenly, with first and last.

        Args:
            name: of the data set.
            last: the latest.
            most: how many, but for those that are wanted besides.
            also: places of entries; a change by one of them is among the changes.
        """
        step = max(1, -(-last.sequence // max(1, most - 1)))
        wanted = {*range(0, last.sequence + 1, step), last.sequence}
        rows = self.connection.execute(
            _raw(account).where(
                account.c.dataset == name,
                account.c.sequence <= last.sequence,
                or_(account.c.sequence.in_(sorted(wanted)), account.c.position.in_(sorted(also))),
                account.c.position <= self.head.position,
            )
        )
        found = {change.sequence: change for change in map(_change, rows)}
        return tuple(
            found.get(sequence) or AccountChange(sequence=sequence, position=None, account=None)
            for sequence in sorted(wanted | found.keys())
        )

    def releases(self, *, name: str | None, before: int | None, limit: int) -> tuple[int, ...]:
        """Places of charges, the latest first; of one data set, or of all."""
        places = select(release.c.position).where(release.c.position <= self._last(before))
        if name is not None:
            places = places.where(release.c.dataset == name)
        return self._scalars(places.order_by(release.c.position.desc()).limit(limit))

    def place_of_release(self, release_id: str) -> int | None:
        """Where a release is charged, None where the ledger has none of this id."""
        query = select(release.c.position).where(release.c.release_id == release_id)
        found = self.connection.execute(query).scalar()
        return found if found is not None and found <= self.head.position else None

    def samples(self, *, before: int | None, limit: int) -> tuple[tuple[str, str, str, int], ...]:
        """Samples with their purposes, their releases and their places, the latest first."""
        rows = self.connection.execute(
            select(sample)
            .where(sample.c.position <= self._last(before))
            .order_by(sample.c.position.desc(), sample.c.purpose)
            .limit(limit)
        )
        return tuple((row.sample_id, row.purpose, row.release_id, row.position) for row in rows)

    def outcomes(self, release_ids: Iterable[str]) -> dict[str, Mapping[str, int]]:
        """What became of releases: release id → outcome → place of its entry."""
        rows = self.connection.execute(
            select(release_stage).where(
                release_stage.c.release_id.in_(set(release_ids)), release_stage.c.position <= self.head.position
            )
        )
        found: dict[str, dict[str, int]] = {}
        for row in rows:
            found.setdefault(row.release_id, {})[row.outcome] = row.position
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
        rows = self.connection.execute(
            select(series.c.name, series.c.position, taken.label("taken"))
            .where(series.c.dataset == name, series.c.position <= self.head.position)
            .order_by(series.c.position.desc())
            .limit(limit)
        )
        return tuple((row.name, row.position, row.taken) for row in rows)

    def _last(self, before: int | None) -> int:
        return self.head.position if before is None else min(self.head.position, before - 1)

    def _scalars(self, query: Select[tuple[int]]) -> tuple[int, ...]:
        return tuple(self.connection.execute(query).scalars())


def _raw(table: Table) -> Select[tuple[object, ...]]:
    """A table's cells as the file holds them, since one that is damaged must not hide the others."""
    return select(*(as_stored(column).label(column.name) for column in table.columns))


def _missing(position: int) -> Stored:
    return Stored(position=position, previous="", hash="", body="", entry=None, fault="this entry is missing")


def _stored(row: Row[tuple[object, ...]]) -> Stored:
    position, previous, own, kind, body = row.position, row.previous, row.hash, row.kind, row.body
    entry, fault = None, None
    try:
        if link_hash(previous=previous, position=position, body=body.encode("utf-8")) != own:
            fault = "the entry's content differs from its hash"
        entry = entry_of_bytes(body.encode("ascii"))
        if kind != entry.KIND:
            fault = "the entry's kind differs from its content"
    except (AttributeError, TypeError, ValueError):
        fault = "the entry can't be read"
    return Stored(
        position=position, previous=_text(previous), hash=_text(own), body=_text(body), entry=entry, fault=fault
    )


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else ""


def _change(row: Row[tuple[object, ...]]) -> AccountChange:
    known: Account | None
    try:
        known = account_of_row(row._asdict()).account
    except ValueError:
        known = None
    return AccountChange(sequence=row.sequence, position=row.position, account=known)
