"""Series of releases as the ledger knows them, and the next free place in one."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Select, func, select

from .queries import recorded
from .release_entries import SeriesRegistered
from .schema import entry, release_stage, series, series_release

__all__ = ["FreePlace", "SeriesState", "all_series", "free_place", "series_of"]


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

    @property
    def remaining(self) -> int:
        """How many releases are left."""
        return self.registered.price.releases - self.taken


@dataclass(frozen=True, kw_only=True, slots=True)
class FreePlace:
    """A place that a release may take.

    Args:
        number: from 1 to the series' number of releases.
        turn: how many releases had it before and gave it back.
    """

    number: int
    turn: int


def series_of(connection: Connection, name: str) -> SeriesState | None:
    """A series, None where the ledger has none of this name."""
    return next(iter(_states(connection, _registrations().where(series.c.name == name))), None)


def all_series(connection: Connection, *, latest: int | None = None) -> tuple[SeriesState, ...]:
    """Series in the order of their registration: the latest so many, or all."""
    if latest is None:
        return _states(connection, _registrations())
    places = select(series.c.position).order_by(series.c.position.desc()).limit(latest)
    first = min(connection.execute(places).scalars(), default=0)
    return _states(connection, _registrations().where(series.c.position >= first))


def free_place(connection: Connection, state: SeriesState) -> FreePlace | None:
    """The place of the next release, None where none is left.

    Numbers are given in their order; those that were given back come when all have been used.
    """
    name = state.registered.series
    numbers = select(series_release.c.number).where(series_release.c.series == name)
    last = connection.execute(numbers.order_by(series_release.c.number.desc()).limit(1)).scalar()
    if (last or 0) < state.registered.price.releases:
        return FreePlace(number=(last or 0) + 1, turn=0)
    if state.remaining < 1:
        return None
    held = _held().where(series_release.c.series == name)
    turns = (
        select(series_release.c.number, func.count())
        .where(series_release.c.series == name, series_release.c.number.not_in(held))
        .group_by(series_release.c.number)
        .order_by(series_release.c.number)
        .limit(1)
    )
    number, turn = connection.execute(turns).one()
    return FreePlace(number=number, turn=turn)


def _registrations() -> Select[tuple[int, str]]:
    return select(entry.c.position, entry.c.body).join(series, series.c.position == entry.c.position)


def _held() -> Select[tuple[int]]:
    """Numbers of places that a release holds now."""
    given_back = (
        select(release_stage.c.release_id)
        .where(release_stage.c.release_id == series_release.c.release_id, release_stage.c.outcome == "refunded")
        .exists()
    )
    return select(series_release.c.number).where(~given_back)


def _states(connection: Connection, registrations: Select[tuple[int, str]]) -> tuple[SeriesState, ...]:
    states = []
    for row in connection.execute(registrations.order_by(entry.c.position)):
        registered = recorded(row.body, SeriesRegistered)
        held = _held().where(series_release.c.series == registered.series)
        taken = connection.execute(select(func.count()).select_from(held.subquery())).scalar_one()
        states.append(SeriesState(registered=registered, position=row.position, taken=taken))
    return tuple(states)
