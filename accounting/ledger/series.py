"""Series of releases as the ledger knows them, and the next free place in one."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, func, select

from .chain.signed_state import ForgedState, SignedState, rows_in
from .database.schema import release_stage, series, series_release
from .entries.releases import SeriesRegistered
from .queries import ReleaseState, entry_at, release_of, was_refunded

__all__ = ["SeriesState", "all_series", "free_number", "holders_of", "open_releases", "series_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesState:
    """A series and how much of it is left.

    Args:
        registered: the series as registered: its mechanism, its price, and how many releases that covers.
        position: place of its registration in the chain.
        taken: releases that hold a place in it; one given up unread holds none.
    """

    registered: SeriesRegistered
    position: int
    taken: int

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
    return None if known is None else _states(connection, series.c.name == name)[0]


def all_series(connection: Connection, *, latest: int | None = None) -> tuple[SeriesState, ...]:
    """Series in the order of their registration: the latest so many, or all.

    Raises:
        ForgedState: what is stored of one does not follow from the signed chain, or one was added or removed.
    """
    SignedState(connection).require_rows(
        series, connection.execute(select(func.count()).select_from(series)).scalar_one()
    )
    if latest is None:
        return _states(connection)
    places = select(series.c.position).order_by(series.c.position.desc()).limit(latest)
    first = min(connection.execute(places).scalars(), default=0)
    return _states(connection, series.c.position >= first)


def free_number(connection: Connection, state: SeriesState) -> int | None:
    """The place of the next release, None where none is left; `holders_of` shows that it is free.

    Numbers are given in their order; those that were given back come when all have been used.

    Raises:
        ForgedState: the last place that was taken is not the signed chain's, or places are left by that and none by the
            tables.
    """
    name = state.registered.series
    numbers = select(series_release.c.number).where(series_release.c.series == name)
    last = connection.execute(numbers.order_by(series_release.c.number.desc()).limit(1)).scalar() or 0
    if last:
        holders_of(connection, name, last)
    if state.remaining < 1:
        return None
    if last < state.registered.price.releases:
        return last + 1
    given_back = numbers.where(series_release.c.number.not_in(_held(name))).order_by(series_release.c.number).limit(1)
    number: int | None = connection.execute(given_back).scalar()
    if number is None:
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


def open_releases(connection: Connection, name: str) -> tuple[ReleaseState, ...]:
    """Releases of a series that are charged and neither published nor abandoned, by their numbers."""
    ended = (
        select(release_stage.c.release_id)
        .where(
            release_stage.c.release_id == series_release.c.release_id,
            release_stage.c.outcome.in_(("published", "abandoned", "refunded")),
        )
        .exists()
    )
    found = select(series_release.c.release_id).where(series_release.c.series == name, ~ended)
    ordered = found.order_by(series_release.c.number, series_release.c.turn)
    states = [release_of(connection, release_id) for release_id in connection.execute(ordered).scalars()]
    return tuple(state for state in states if state is not None)


def _held(name: str) -> Select[tuple[int]]:
    """Numbers of places of a series that a release holds now."""
    return select(series_release.c.number).where(series_release.c.series == name, ~was_refunded(series_release))


def _states(connection: Connection, *conditions: ColumnElement[bool]) -> tuple[SeriesState, ...]:
    signed, states = SignedState(connection), []
    rows = rows_in(connection, select(series).where(*conditions).order_by(series.c.position))
    signed.require(series, rows, what="a series")
    for row in rows:
        name, what = row["name"], f"series '{row['name']}'"
        taken = connection.execute(select(func.count()).select_from(_held(name).subquery())).scalar_one()
        if taken != (expected := signed.count("held", name)):
            raise ForgedState(f"{what} has {taken} places taken by the tables, and {expected} by the signed chain")
        registered = entry_at(signed, row["position"], SeriesRegistered, what=what)
        states.append(SeriesState(registered=registered, position=row["position"], taken=taken))
    return tuple(states)
