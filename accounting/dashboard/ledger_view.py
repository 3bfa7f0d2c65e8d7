"""What a page may see of the ledger: one state of it, read without trusting what is stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, func, or_, select

from ...mechanisms.refusal import Refusal
from ..ledger.append import Place, head_of
from ..ledger.budget import Account
from ..ledger.canonical import entry_of_bytes
from ..ledger.chain import Finding, link_hash
from ..ledger.derive import account_of_row
from ..ledger.entry import Entry
from ..ledger.schema import (
    DERIVED_TABLES,
    account,
    as_stored,
    dataset,
    release,
    release_stage,
    sample,
    series,
    series_release,
)
from ..ledger.schema import entry as entry_table
from ..ledger.signed_state import SignedState, signer_of
from ..ledger.store import present_head

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


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """The ledger up to a head, in one reading transaction.

    PRIVACY: every question is bounded by the head, so that pages that are held back show nothing newer.

    Args:
        connection: in a reading transaction, and unable to write.
        head: the last entry that pages may show.
        found: what was looked up so far and does not follow from the signed chain.
    """

    connection: Connection
    head: Place
    found: list[Finding] = field(default_factory=list)

    @cached_property
    def _signed(self) -> SignedState | None:
        """The state under the head's signature, None where no signature holds."""
        try:
            signer_of(self.connection, present_head(self.connection))
            return SignedState(self.connection)
        except Refusal as refusal:
            self.found.append(Finding(position=None, what=refusal.what))
            return None

    def doubts(self) -> tuple[Finding, ...]:
        """What the pages' questions so far have shown to be forged; and whether rows were added or removed at all."""
        signed = self._signed
        if signed is None:
            return tuple(self.found)
        for table in DERIVED_TABLES:
            rows = self.connection.execute(select(func.count()).select_from(table)).scalar_one()
            try:
                signed.require_rows(table, rows)
            except Refusal as refusal:
                self.found.append(Finding(position=None, what=refusal.what))
        return tuple(dict.fromkeys(self.found))

    def _held(self, table: Table, rows: Iterable[Row[Any]]) -> list[Row[Any]]:
        """Rows as they were read, each held against the signed state."""
        read = list(rows)
        self._check(table, [row._asdict() for row in read])
        return read

    def _check(self, table: Table, cells: list[dict[str, Any]]) -> None:
        if self._signed is not None and cells:
            for values, follows in zip(cells, self._signed.follow(table, cells), strict=True):
                if not follows:
                    place = values["position"]
                    what = f"its row in the table {table.name} is missing or changed"
                    self.found.append(Finding(position=place if type(place) is int else None, what=what))

    def entries(self, positions: Iterable[int]) -> dict[int, Stored]:
        """Entries by their places up to the head; one that is missing there has that as its fault."""
        wanted = sorted({position for position in positions if 0 <= position <= self.head.position})
        rows = self.connection.execute(_raw(entry_table).where(entry_table.c.position.in_(wanted))).all()
        found = {row.position: _stored(row) for row in rows}
        sound = [row._asdict() for row in rows if found[row.position].fault is None]
        follow = () if self._signed is None else self._signed.follow(entry_table, sound)
        for row, follows in zip(sound, follow, strict=self._signed is not None):
            if not follows:
                self.found.append(Finding(position=row["position"], what="this entry is not one of the signed chain"))
        return {position: found.get(position) or _missing(position) for position in wanted}

    def count(self, table: str) -> int:
        """How many rows follow from the entries: of "release", "sample" or "dataset"."""
        known = {"release": release, "sample": sample, "dataset": dataset}[table]
        counted = select(func.count()).select_from(known).where(known.c.position <= self.head.position)
        return self.connection.execute(counted).scalar_one()

    def datasets(self, *, after: int, limit: int) -> tuple[tuple[str, int], ...]:
        """Names of data sets and the places of their registrations, in the order of these, past a place."""
        rows = self.connection.execute(
            select(dataset)
            .where(dataset.c.position > after, dataset.c.position <= self.head.position)
            .order_by(dataset.c.position)
            .limit(limit)
        )
        return tuple((row.name, row.position) for row in self._held(dataset, rows))

    def places_of_datasets(self, names: Iterable[str]) -> dict[str, int]:
        """Where data sets are registered, by name."""
        rows = self.connection.execute(
            select(dataset).where(dataset.c.name.in_(set(names)), dataset.c.position <= self.head.position)
        )
        return {row.name: row.position for row in self._held(dataset, rows)}

    def last_change(self, name: str) -> AccountChange | None:
        """The latest change of a data set's account, None where there is none or its place can't be read."""
        # SQLite sorts what is no number above all numbers: a damaged place is found, and not taken for a later one.
        seen = or_(account.c.position <= self.head.position, account.c.position > LARGEST)
        row = self.connection.execute(
            _raw(account).where(account.c.dataset == name, seen).order_by(account.c.sequence.desc()).limit(1)
        ).one_or_none()
        self._held(account, [] if row is None else [row])
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
        found = {change.sequence: change for change in map(_change, self._held(account, rows))}
        return tuple(
            found.get(sequence) or AccountChange(sequence=sequence, position=None, account=None)
            for sequence in sorted(wanted | found.keys())
        )

    def releases(self, *, name: str | None, before: int | None, limit: int) -> tuple[int, ...]:
        """Places of charges, the latest first; of one data set, or of all."""
        query = select(release).where(release.c.position <= self._last(before))
        if name is not None:
            query = query.where(release.c.dataset == name)
        rows = self.connection.execute(query.order_by(release.c.position.desc()).limit(limit))
        return tuple(row.position for row in self._held(release, rows))

    def place_of_release(self, release_id: str) -> int | None:
        """Where a release is charged, None where the ledger has none of this id."""
        rows = self.connection.execute(select(release).where(release.c.release_id == release_id))
        place = next((row.position for row in self._held(release, rows)), None)
        return place if place is not None and place <= self.head.position else None

    def samples(self, *, before: int | None, limit: int) -> tuple[tuple[str, str, str, int], ...]:
        """Samples with their purposes, their releases and their places, the latest first."""
        rows = self.connection.execute(
            select(sample)
            .where(sample.c.position <= self._last(before))
            .order_by(sample.c.position.desc(), sample.c.purpose)
            .limit(limit)
        )
        return tuple((row.sample_id, row.purpose, row.release_id, row.position) for row in self._held(sample, rows))

    def outcomes(self, release_ids: Iterable[str]) -> dict[str, Mapping[str, int]]:
        """What became of releases: release id → outcome → place of its entry."""
        rows = self.connection.execute(
            select(release_stage).where(
                release_stage.c.release_id.in_(set(release_ids)), release_stage.c.position <= self.head.position
            )
        )
        found: dict[str, dict[str, int]] = {}
        for row in self._held(release_stage, rows):
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
            select(series, taken.label("taken"))
            .where(series.c.dataset == name, series.c.position <= self.head.position)
            .order_by(series.c.position.desc())
            .limit(limit)
        )
        found = [(row, row.taken) for row in rows]
        names = [column.name for column in series.columns]
        self._check(series, [{name: getattr(row, name) for name in names} for row, _ in found])
        if self._signed is not None and self.head == head_of(self.connection):
            for row, taken in found:
                if taken != self._signed.count("held", row.name):
                    what = "the places taken in this series don't follow from the signed chain"
                    self.found.append(Finding(position=row.position, what=what))
        return tuple((row.name, row.position, taken) for row, taken in found)

    def _last(self, before: int | None) -> int:
        return self.head.position if before is None else min(self.head.position, before - 1)


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
