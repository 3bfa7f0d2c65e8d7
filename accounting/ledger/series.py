"""Series of releases as the ledger knows them, and the next free place in one."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, func, select

from .queries import ReleaseState, entry_at, release_of
from .release_entries import SeriesRegistered
from .schema import release_stage, series, series_release
from .signed_state import ForgedState, SignedState, rows_in

__all__ = ["FreePlace", "SeriesState", "all_series", "free_place", "open_releases", "series_of"]


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


def free_place(connection: Connection, state: SeriesState) -> FreePlace | None:
    """The place of the next release, None where none is left.

    Numbers are given in their order; those that were given back come when all have been used.

    Raises:
        ForgedState: what is stored of the places does not follow from the signed chain.
    """
    name, signed = state.registered.series, SignedState(connection)
    what = f"a place in series '{name}'"
    numbers = select(series_release.c.number).where(series_release.c.series == name)
    last = connection.execute(numbers.order_by(series_release.c.number.desc()).limit(1)).scalar() or 0
    if last:
        signed.row(series_release, name, last, 0, what=what)
    if last < state.registered.price.releases:
        signed.require_absent(series_release, (name, last + 1, 0), what=what)
        return FreePlace(number=last + 1, turn=0)
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
    number, turn = connection.execute(turns).one_or_none() or (0, 0)
    before = signed.row(series_release, name, number, turn - 1, what=what)
    closed = None if before is None else signed.row(release_stage, before["release_id"], "closed", what=what)
    if closed is None or closed["outcome"] != "refunded":
        raise ForgedState(f"{what} is free by the tables, and not by the signed chain")
    signed.require_absent(series_release, (name, number, turn), what=what)
    return FreePlace(number=number, turn=turn)


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


def _held() -> Select[tuple[int]]:
    """Numbers of places that a release holds now."""
    given_back = (
        select(release_stage.c.release_id)
        .where(release_stage.c.release_id == series_release.c.release_id, release_stage.c.outcome == "refunded")
        .exists()
    )
    return select(series_release.c.number).where(~given_back)


def _states(connection: Connection, *conditions: ColumnElement[bool]) -> tuple[SeriesState, ...]:
    signed, states = SignedState(connection), []
    rows = rows_in(connection, select(series).where(*conditions).order_by(series.c.position))
    signed.require(series, rows, what="a series")
    for row in rows:
        name, what = row["name"], f"series '{row['name']}'"
        held = _held().where(series_release.c.series == name)
        taken = connection.execute(select(func.count()).select_from(held.subquery())).scalar_one()
        if taken != (expected := signed.count("held", name)):
            raise ForgedState(f"{what} has {taken} places taken by the tables, and {expected} by the signed chain")
        registered = entry_at(signed, row["position"], SeriesRegistered, what=what)
        states.append(SeriesState(registered=registered, position=row["position"], taken=taken))
    return tuple(states)
