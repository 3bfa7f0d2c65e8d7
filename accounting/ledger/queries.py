"""What the ledger knows now, by look-ups whose cost does not grow with it; series and their next free place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, func, or_, select

from ...mechanisms.errors import ReleaseFailed
from .chain.signed_state import ForgedState, SignedState, rows_in
from .charge import Receipt
from .database.schema import account, dataset, entry, release, release_stage, series, series_release
from .entries.codec import entry_of_bytes
from .entries.kinds import (
    BudgetRaised,
    DataAccess,
    DatasetAdded,
    DatasetUnit,
    FilterDatasetAdded,
    LedgerCreated,
    OutputHashes,
    ReleaseCharged,
    ReleasePublished,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)
from .entries.values import Account, AccountAt, account_of_row

__all__ = [
    "DatasetState",
    "RecordedLook",
    "ReleaseState",
    "SeriesState",
    "Stage",
    "account_of",
    "all_series",
    "dataset_of",
    "datasets_of",
    "entries_of",
    "entry_at",
    "free_number",
    "holders_of",
    "last_published_of_series",
    "ledger_id_of",
    "names_of",
    "needs_no_secrets",
    "open_releases_of_dataset",
    "open_releases_of_series",
    "places_of",
    "private_looks",
    "recorded",
    "registration_of",
    "release_of",
    "releases_of",
    "series_of",
    "stage_of",
    "standing_of",
    "was_refunded",
]

Recorded = TypeVar(
    "Recorded",
    bound=LedgerCreated
    | DatasetAdded
    | BudgetRaised
    | DataAccess
    | ReleaseCharged
    | ReleasePublished
    | SeriesRegistered
    | TokenAdded
    | TokenRevoked,
)
Stage = Literal["charged", "reading", "published", "abandoned"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetState:
    """A data set as registered, and its account now.

    Args:
        name: its name.
        relation: the one neighbouring relation of its prices.
        survey_rate: rate of its own sampling where it is itself a sample, so that it can be released once; else None.
        rows_per_person: the most records that one person has in a delivery.
        unit: whose presence all its releases hide; None where an earlier version added it, which fixed none.
        account: what is spent and what may be.
        filter_budget: its registration where its budget is a filter's: then the account has divergences and tails.
    """

    name: str
    relation: str
    survey_rate: Decimal | None
    rows_per_person: int
    unit: DatasetUnit | None
    account: Account
    filter_budget: FilterDatasetAdded | None = None

    def __repr__(self) -> str:
        """The name and what is spent of the budget."""
        if self.filter_budget is not None:
            budget, share = float(self.filter_budget.epsilon), float(self.account.spent_share)
            return f"DatasetState(name={self.name!r}, spent_share={share:.6g}, epsilon_budget={budget:.6g})"
        spent, budget = float(self.account.epsilon_spent), float(self.account.epsilon_budget)
        return f"DatasetState(name={self.name!r}, epsilon_spent={spent:.6g}, epsilon_budget={budget:.6g})"

    @property
    def survey(self) -> bool:
        """Whether it is itself a sample, so that it can be released once."""
        return self.survey_rate is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseState:
    """A release as the ledger knows it.

    Args:
        release_id: its id.
        stage: "charged" (paid, nothing read), "reading", "published" or "abandoned".
        refunded: whether its cost was given back.
        charge: what was charged, for which mechanism.
        receipt: proof of the payment, as it was given when the release was charged.
        output_hashes: name and SHA-256 (hex) of the published files; empty before publication.
    """

    release_id: str
    stage: Stage
    refunded: bool
    charge: ReleaseCharged
    receipt: Receipt
    output_hashes: tuple[tuple[str, str], ...]

    @property
    def outcomes(self) -> Set[str]:
        """What it has passed of "charged", "reading", "published", "abandoned" and "refunded"."""
        if self.refunded:
            return {"charged", "refunded"}
        return {"charged"} if self.stage == "charged" else {"charged", "reading", self.stage}


def needs_no_secrets(release: ReleaseState | None) -> bool:
    """Return whether a release's keys and copies of records serve nothing: it is closed, or was never charged."""
    return release is None or release.stage in ("published", "abandoned")


def stage_of(outcomes: Set[str]) -> Stage:
    """The stage of a release that has passed what `ReleaseState.outcomes` names."""
    if "published" in outcomes:
        return "published"
    if outcomes & {"abandoned", "refunded"}:
        return "abandoned"
    return "reading" if "reading" in outcomes else "charged"


def ledger_id_of(connection: Connection) -> str:
    """The ledger's id, from its first entry.

    Raises:
        ReleaseFailed: the first entry is not what it must be.
    """
    first = connection.execute(select(entry.c.body).where(entry.c.position == 0)).scalar()
    return recorded(first, LedgerCreated).ledger_id


def datasets_of(connection: Connection) -> tuple[DatasetState, ...]:
    """All data sets with their accounts, by name.

    Raises:
        ForgedState: they are not those of the signed state.
    """
    names = sorted(connection.execute(select(dataset.c.name)).scalars())
    SignedState(connection).require_rows(dataset, len(names))
    states = [dataset_of(connection, name) for name in names]
    return tuple(state for state in states if state is not None)


def dataset_of(connection: Connection, name: str) -> DatasetState | None:
    """A data set and its account, None where the ledger has none of this name.

    Raises:
        ForgedState: what is stored of it does not follow from the signed chain.
    """
    added = registration_of(connection, name)
    if added is None:
        return None
    return DatasetState(
        name=name,
        relation=added.relation,
        survey_rate=added.survey_rate,
        rows_per_person=added.rows_per_person,
        unit=added.fixed_unit,
        account=account_of(connection, name).account,
        filter_budget=added if isinstance(added, FilterDatasetAdded) else None,
    )


def names_of(connection: Connection, table: Table) -> tuple[str, ...]:
    """The names in a table of data sets or of series, sorted; for advice alone, so nothing vouches for them."""
    return tuple(sorted(connection.execute(select(table.c.name)).scalars()))


def registration_of(connection: Connection, name: str) -> DatasetAdded | None:
    """A data set as registered, None where the ledger has none of this name.

    Raises:
        ForgedState: what is stored of it does not follow from the signed chain.
    """
    state, what = SignedState(connection), f"data set '{name}'"
    row = state.row(dataset, name, what=what)
    return None if row is None else entry_at(state, row["position"], DatasetAdded, what=what)


def account_of(connection: Connection, name: str) -> AccountAt:
    """The latest account of a data set that is known to exist.

    Raises:
        ForgedState: what is stored of it does not follow from the signed chain.
    """
    state, what = SignedState(connection), f"the account of data set '{name}'"
    query = select(account).where(account.c.dataset == name).order_by(account.c.sequence.desc()).limit(1)
    row = next(iter(rows_in(connection, query)), None)
    if row is None:
        raise ForgedState(f"{what} is missing, and the signed chain has it")
    state.require(account, [row], what=what)
    state.require_absent(account, (name, row["sequence"] + 1), what=f"a later change of {what}")
    return account_of_row(row)


def release_of(connection: Connection, release_id: str) -> ReleaseState | None:
    """A release, None where the ledger has none of this id.

    Raises:
        ForgedState: what is stored of it does not follow from the signed chain.
    """
    known = SignedState(connection).row(release, release_id, what=f"release '{release_id}'")
    return None if known is None else _states(connection, release.c.release_id == release_id)[0]


def releases_of(connection: Connection, *, latest: int | None = None) -> tuple[ReleaseState, ...]:
    """Releases in the order of their charges: the latest so many, or all.

    Raises:
        ForgedState: what is stored of one does not follow from the signed chain, or one was added or removed.
    """
    return _states(connection, *_of_the_latest(connection, release, latest))


def standing_of(connection: Connection, name: str) -> tuple[ReleaseState, ...]:
    """Releases of a data set whose cost was not given back, in the order of their charges.

    Raises:
        ForgedState: what is stored of one does not follow from the signed chain, or one was added or removed.
    """
    if (expected := SignedState(connection).count("released", name)) == 0:
        return ()
    standing = tuple(state for state in _states(connection, release.c.dataset == name) if not state.refunded)
    if len(standing) != expected:
        raise ForgedState(
            f"{len(standing)} releases of data set '{name}' are there, and the signed chain has {expected}"
        )
    return standing


def _of_the_latest(connection: Connection, table: Table, latest: int | None) -> tuple[ColumnElement[bool], ...]:
    """The condition for a table's latest so many rows, none for all; no row may have been added or removed."""
    rows = connection.execute(select(func.count()).select_from(table)).scalar_one()
    SignedState(connection).require_rows(table, rows)
    if latest is None:
        return ()
    places = select(table.c.position).order_by(table.c.position.desc()).limit(latest)
    return (table.c.position >= min(connection.execute(places).scalars(), default=0),)


def _states(connection: Connection, *conditions: ColumnElement[bool]) -> tuple[ReleaseState, ...]:
    """The releases for which some conditions on the table `release` hold."""
    known = rows_in(connection, select(release).where(*conditions).order_by(release.c.position))
    of_release = release_stage.c.release_id == release.c.release_id
    passed = rows_in(connection, select(release_stage).join(release, of_release).where(*conditions))
    reported = or_(release_stage.c.stage == "charged", release_stage.c.outcome == "published")
    bodies = (
        select(entry)
        .join(release_stage, release_stage.c.position == entry.c.position)
        .join(release, of_release)
        .where(reported, *conditions)
    )
    links = {row["position"]: row for row in rows_in(connection, bodies)}
    state, outcomes = SignedState(connection), dict[str, dict[str, Mapping[str, Any]]]()
    for row in passed:
        outcomes.setdefault(row["release_id"], {})[row["stage"]] = row
    state.require(release, known, what="a release")
    state.require(entry, links.values(), what="an entry of a release")
    state.require(release_stage, passed, what="what became of a release")
    missing = [
        (row["release_id"], stage)
        for row in known
        for stage in ("charged", "reading", "closed")
        if stage not in outcomes.get(row["release_id"], {})
    ]
    state.require_absent(release_stage, *missing, what="what became of a release")
    ledger_id = ledger_id_of(connection)
    return tuple(_state(row, outcomes.get(row["release_id"], {}), links, ledger_id) for row in known)


def _state(
    row: Mapping[str, Any],
    passed: Mapping[str, Mapping[str, Any]],
    links: Mapping[int, Mapping[str, Any]],
    ledger_id: str,
) -> ReleaseState:
    link, outcome = links[row["position"]], passed["closed"]["outcome"] if "closed" in passed else ""
    charge = recorded(link["body"], ReleaseCharged)
    files: OutputHashes = ()
    if outcome == "published":
        files = recorded(links[passed["closed"]["position"]]["body"], ReleasePublished).output_hashes
    return ReleaseState(
        release_id=row["release_id"],
        stage=stage_of({*passed, outcome}),
        refunded=outcome == "refunded",
        charge=charge,
        receipt=Receipt.of(charge, ledger_id=ledger_id, position=row["position"], link=link["hash"]),
        output_hashes=files,
    )


def was_refunded(table: Table) -> ColumnElement[bool]:
    """Whether the release of a table's row had its cost given back."""
    passed = release_stage.c.release_id == table.c.release_id, release_stage.c.outcome == "refunded"
    return select(release_stage.c.release_id).where(*passed).exists()


def entries_of(connection: Connection, *kinds: type[Recorded]) -> tuple[tuple[int, Recorded], ...]:
    """All entries of some kinds with their places, in their order.

    Raises:
        ForgedState: they are not those of the signed chain.
        ReleaseFailed: one is damaged.
    """
    names = {kind.KIND: kind for kind in kinds}
    query = select(entry).where(entry.c.kind.in_(names)).order_by(entry.c.position)
    rows = rows_in(connection, query)
    state = SignedState(connection)
    state.require(entry, rows, what="an entry")
    if len(rows) != (expected := sum(state.count("entries", name) for name in names)):
        raise ForgedState(f"{len(rows)} entries are of a kind of which the signed chain has {expected}")
    return tuple((row["position"], recorded(row["body"], names[row["kind"]])) for row in rows)


def entry_at(state: SignedState, position: int, kind: type[Recorded], *, what: str) -> Recorded:
    """The entry at a place, held against the signed state.

    Raises:
        ForgedState: it is another one, or missing.
        ReleaseFailed: it is of another kind.
    """
    row = state.row(entry, position, what=what)
    return recorded(None if row is None else row["body"], kind)


def recorded(body: object, kind: type[Recorded]) -> Recorded:
    """The entry of a body that must be of one kind; a damaged SQLite file may hold something else than text.

    Raises:
        ReleaseFailed: it is damaged, or of another kind.
    """
    try:
        found = entry_of_bytes((body if isinstance(body, str) else "").encode("ascii"))
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise ReleaseFailed(
            f"an entry of kind {kind.KIND} is damaged.", not_done="", remedy="Run `crowdblend ledger verify`."
        )
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesState:
    """A series and how much of it is left.

    Args:
        registered: the series as registered: its mechanism, its price, and how many releases that covers.
        position: place of its registration in the chain.
        taken: releases that hold a place in it; one given up unread holds none.
        taken_of_parts: the same of each part; empty for a series of one mechanism.
    """

    registered: SeriesRegistered
    position: int
    taken: int
    taken_of_parts: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """The name and how many releases are taken."""
        registered = self.registered
        return f"SeriesState(series={registered.series!r}, taken={self.taken}, releases={registered.price.releases})"

    @property
    def remaining(self) -> int:
        """How many releases are left."""
        return self.registered.price.releases - self.taken


def series_of(connection: Connection, name: str) -> SeriesState | None:
    """A series, None where the ledger has none of this name.

    Raises:
        ForgedState: what is stored of it does not follow from the signed chain.
    """
    known = SignedState(connection).row(series, name, what=f"series '{name}'")
    return None if known is None else _series_states(connection, series.c.name == name)[0]


def all_series(connection: Connection, *, latest: int | None = None) -> tuple[SeriesState, ...]:
    """Series in the order of their registration: the latest so many, or all.

    Raises:
        ForgedState: what is stored of one does not follow from the signed chain, or one was added or removed.
    """
    return _series_states(connection, *_of_the_latest(connection, series, latest))


def places_of(registered: SeriesRegistered, part: int | None) -> range:
    """The numbers of a series' places, or of those of one of its parts.

    Args:
        registered: the series.
        part: from 1; None for all places.
    """
    if part is None:
        return range(1, registered.price.releases + 1)
    if (mixed := registered.mixed) is None:
        raise ValueError("a series of one mechanism has no parts")
    return mixed.numbers(part)


def free_number(connection: Connection, state: SeriesState, *, part: int | None = None) -> int | None:
    """The place of the next release, None where none is left; `holders_of` shows that it is free.

    Numbers are given in their order; those that were given back come when all have been used.

    Args:
        connection: a connection in a transaction whose signed state is checked.
        state: the series.
        part: the part that the release is of, from 1; None for a series of one mechanism.

    Raises:
        ForgedState: the last place that was taken is not the signed chain's, or places are left by that and none by the
            tables.
    """
    name, places = state.registered.series, places_of(state.registered, part)
    of_series = select(series_release.c.number).where(series_release.c.series == name)
    numbers = of_series.where(series_release.c.number.between(places[0], places[-1]))
    highest, last = (
        connection.execute(query.order_by(series_release.c.number.desc()).limit(1)).scalar()
        for query in (of_series, numbers)
    )
    for taken in {highest, last}:
        if taken is not None:
            holders_of(connection, name, taken)
    if state.remaining < 1:
        return None
    if last is None or last < places[-1]:
        return places[0] if last is None else last + 1
    given_back = numbers.where(series_release.c.number.not_in(_held(name))).order_by(series_release.c.number).limit(1)
    number: int | None = connection.execute(given_back).scalar()
    if number is None and part is None:
        raise ForgedState(f"series '{name}' has a place left by the signed chain, and none by the tables")
    return number


def holders_of(connection: Connection, name: str, number: int) -> tuple[str, ...]:
    """The releases that took a place of a series, one after the other; each but the last gave it back.

    Raises:
        ForgedState: they are not those of the signed chain.
    """
    place = (series_release.c.series == name, series_release.c.number == number)
    rows = rows_in(connection, select(series_release).where(*place).order_by(series_release.c.turn))
    signed, what = SignedState(connection), f"a place in series '{name}'"
    signed.require(series_release, rows, what=what)
    signed.require_absent(series_release, (name, number, len(rows)), what=what)
    return tuple(row["release_id"] for row in rows)


def open_releases_of_series(connection: Connection, name: str) -> tuple[ReleaseState, ...]:
    """Releases of a series that are charged and neither published nor abandoned, by their numbers."""
    of_series = select(series_release.c.release_id).where(series_release.c.series == name, ~_ended(series_release))
    return _each_state(connection, of_series.order_by(series_release.c.number, series_release.c.turn))


def open_releases_of_dataset(connection: Connection, name: str) -> tuple[ReleaseState, ...]:
    """Releases of a data set that are charged and neither published nor abandoned, in the order of their charges."""
    of_dataset = select(release.c.release_id).where(release.c.dataset == name, ~_ended(release))
    return _each_state(connection, of_dataset.order_by(release.c.position))


def last_published_of_series(connection: Connection, name: str) -> str | None:
    """The release of a series that was published last; for a refusal that costs nothing, so nothing vouches for it."""
    passed = release_stage.c.release_id == series_release.c.release_id, release_stage.c.outcome == "published"
    published = select(release_stage.c.release_id).where(*passed).exists()
    of_series = select(series_release.c.release_id).where(series_release.c.series == name, published)
    last: str | None = connection.execute(of_series.order_by(series_release.c.position.desc()).limit(1)).scalar()
    return last


def _ended(table: Table) -> ColumnElement[bool]:
    """Return whether the release of a table's row is published or abandoned."""
    passed = release_stage.c.release_id == table.c.release_id, release_stage.c.stage == "closed"
    return select(release_stage.c.release_id).where(*passed).exists()


def _each_state(connection: Connection, names: Select[tuple[str]]) -> tuple[ReleaseState, ...]:
    states = [release_of(connection, name) for name in connection.execute(names).scalars()]
    return tuple(state for state in states if state is not None)


def _held(name: str) -> Select[tuple[int]]:
    """Numbers of places of a series that a release holds now."""
    return select(series_release.c.number).where(series_release.c.series == name, ~was_refunded(series_release))


def _series_states(connection: Connection, *conditions: ColumnElement[bool]) -> tuple[SeriesState, ...]:
    signed, states = SignedState(connection), []
    rows = rows_in(connection, select(series).where(*conditions).order_by(series.c.position))
    signed.require(series, rows, what="a series")
    for row in rows:
        name, what = row["name"], f"series '{row['name']}'"
        taken = connection.execute(select(func.count()).select_from(_held(name).subquery())).scalar_one()
        if taken != (expected := signed.count("held", name)):
            raise ForgedState(f"{what} has {taken} places taken by the tables, and {expected} by the signed chain")
        registered = entry_at(signed, row["position"], SeriesRegistered, what=what)
        of_parts = _taken_of_parts(connection, registered)
        state = SeriesState(registered=registered, position=row["position"], taken=taken, taken_of_parts=of_parts)
        states.append(state)
    return tuple(states)


def _taken_of_parts(connection: Connection, registered: SeriesRegistered) -> tuple[int, ...]:
    if (mixed := registered.mixed) is None:
        return ()
    held = Counter(mixed.part_of(number) for number in connection.execute(_held(registered.series)).scalars())
    return tuple(held[part] for part in range(1, len(mixed.each) + 1))


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
