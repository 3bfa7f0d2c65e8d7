"""A ledger at a glance: every budget, the latest of what grows, and beside each account a composed estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, func, select

from ...mechanisms.errors import InputRefused
from ..theory.arithmetic import decimal_up, float_down
from .chain.signed_state import ForgedState, Place, SignedState, head_of, rows_in
from .database.schema import DERIVED_TABLES, entry, release, release_stage, series, series_release
from .entries.kinds import Fields, ReleaseCharged, SeriesRegistered
from .entries.values import Account
from .queries import (
    DatasetState,
    ReleaseState,
    SeriesState,
    Stage,
    all_series,
    datasets_of,
    recorded,
    releases_of,
    was_refunded,
)

if TYPE_CHECKING:
    from ..theory.composition.loss_distribution import Part

__all__ = ["ESTIMATE_NOTE", "DatasetOverview", "Overview", "composed_estimate", "overview_of"]

ESTIMATE_NOTE = (
    "The estimate composes all that was charged at the δ spent, as if every parameter had been fixed beforehand; "
    "what counts against the budget is the sum."
)
# The work grows with the different mechanisms times all their runs; past this (about a second) nothing is shown.
MOST_WORK = 5_000


def composed_estimate(charged: Counter[Fields], *, account: Account, rows_per_person: int) -> Decimal | None:
    """ε of everything charged to a data set together, at the δ that it has spent.

    Composition by privacy-loss distributions is proved for parameters fixed beforehand. Here they may have been
    chosen after seeing earlier outputs, so this is an estimate; it decides nothing.

    Args:
        charged: mechanism's record → how many releases of it were charged and not given back; those that a series
            reserved count with it.
        account: what was spent on them.
        rows_per_person: the most records of one person that the data set may hold.

    Returns:
        At most the ε spent; None where it can't be computed, where a person may have several records, or only with too
        much work.
    """
    if not charged:
        return Decimal(0)
    if rows_per_person != 1:
        return None  # losses are composed for one record
    from ..theory.composition.loss_distribution import (  # numerics, for an estimate alone
        COMPOSED_FLOOR,
        epsilon_composed,
    )
    from ..theory.kinds.registry import kind_of, mechanism_of_record

    delta = account.delta_spent
    if len(charged) * charged.total() > MOST_WORK or not COMPOSED_FLOOR <= delta < 1:
        return None
    parts: dict[Part, int] = {}
    try:
        for mechanism, times in charged.items():
            run = mechanism_of_record(dict(mechanism))
            whole = getattr(run, "releases", 1)  # the losses of a series of different mechanisms are those of all
            for part in kind_of(run).losses(run):
                parts[part] = parts.get(part, 0) + times // whole
        composed = epsilon_composed(parts, delta=float_down(delta))
    except (ArithmeticError, InputRefused, ValueError):
        return None
    return None if composed is None else min(decimal_up(composed), account.epsilon_spent)


# Different mechanisms times their runs, for the estimates of all data sets together, unless everything is asked for.
MOST_WORK_AT_A_GLANCE = 1_000
OUTCOMES = ("charged", "reading", "published", "abandoned", "refunded")


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetOverview:
    """A data set, and what everything charged to it costs when composed tightly.

    Args:
        state: the data set and its account.
        epsilon_estimate: composed ε, None where it can't be computed, or only with too much work; and in a filter data
            set, whose budget is composed itself.
    """

    state: DatasetState
    epsilon_estimate: Decimal | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """One state of a ledger.

    Args:
        datasets: all of them, by name.
        series: the latest, in the order of their registration.
        series_count: how many there are in all.
        releases: the latest, in the order of their charges.
        release_counts: stage → how many releases are there.
        head: the last entry's place.
    """

    datasets: tuple[DatasetOverview, ...]
    series: tuple[SeriesState, ...]
    series_count: int
    releases: tuple[ReleaseState, ...]
    release_counts: Mapping[Stage, int]
    head: Place

    @property
    def release_count(self) -> int:
        """How many releases there are in all."""
        return sum(self.release_counts.values())


def overview_of(connection: Connection, *, latest: int | None) -> Overview:
    """Look at a whole ledger.

    Args:
        connection: a connection in a reading transaction.
        latest: how many series and releases to list; None for all, and for estimates that take their time.
    """
    states = datasets_of(connection)
    return Overview(
        datasets=tuple(_with_estimates(connection, states, most=None if latest is None else MOST_WORK_AT_A_GLANCE)),
        series=all_series(connection, latest=latest),
        series_count=connection.execute(select(func.count()).select_from(series)).scalar_one(),
        releases=releases_of(connection, latest=latest),
        release_counts=_counts(connection),
        head=head_of(connection),
    )


def _counts(connection: Connection) -> dict[Stage, int]:
    """How many releases are at each stage.

    Raises:
        ForgedState: the tables say otherwise than the signed chain.
    """
    grouped = select(release_stage.c.outcome, func.count()).group_by(release_stage.c.outcome)
    passed, state = dict(connection.execute(grouped).tuples().all()), SignedState(connection)
    for outcome in OUTCOMES:
        if passed.get(outcome, 0) != (expected := state.count("outcome", outcome)):
            raise ForgedState(
                f"{passed.get(outcome, 0)} releases are {outcome} by the tables, {expected} by the signed chain"
            )
    for table in DERIVED_TABLES:
        state.require_rows(table, connection.execute(select(func.count()).select_from(table)).scalar_one())
    charged, published = passed.get("charged", 0), passed.get("published", 0)
    abandoned, refunded = passed.get("abandoned", 0), passed.get("refunded", 0)
    reading = passed.get("reading", 0) - published - abandoned
    return {
        "charged": charged - refunded - published - abandoned - reading,
        "reading": reading,
        "published": published,
        "abandoned": abandoned + refunded,
    }


def _with_estimates(
    connection: Connection, states: tuple[DatasetState, ...], *, most: int | None
) -> Iterator[DatasetOverview]:
    """Each data set with its estimate; with a limit, the data sets with the fewest releases have theirs first."""
    added_up = [state for state in states if state.filter_budget is None]
    counts = {state.name: _count_of(connection, state.name) for state in added_up}
    left, estimates = most, {}
    for state in sorted(added_up, key=lambda state: counts[state.name]):
        if left is not None and counts[state.name] > left:
            break  # those that follow have as many
        charged = _charged(connection, state.name)
        work = len(charged) * charged.total()
        if left is not None and work > left:
            continue
        left = None if left is None else left - work
        estimates[state.name] = composed_estimate(charged, account=state.account, rows_per_person=state.rows_per_person)
    for state in states:
        yield DatasetOverview(state=state, epsilon_estimate=estimates.get(state.name))


def _pays_for_itself(name: str) -> tuple[ColumnElement[bool], ...]:
    """Releases of a data set that no series paid for and whose cost was not given back."""
    in_series = select(series_release.c.release_id).where(series_release.c.release_id == release.c.release_id)
    return release.c.dataset == name, ~in_series.exists(), ~was_refunded(release)


def _count_of(connection: Connection, name: str) -> int:
    """How many mechanisms `_charged` would look up."""
    alone = connection.execute(select(func.count()).select_from(release).where(*_pays_for_itself(name))).scalar_one()
    registered = select(func.count()).select_from(series).where(series.c.dataset == name)
    return alone + connection.execute(registered).scalar_one()


def _charged(connection: Connection, name: str) -> Counter[Fields]:
    """Mechanism → how many releases of it were charged to a data set and not given back; series count whole."""
    charged: Counter[Fields] = Counter()
    releases = select(entry).join(release, release.c.position == entry.c.position).where(*_pays_for_itself(name))
    registrations = select(entry).join(series, series.c.position == entry.c.position).where(series.c.dataset == name)
    paid, registered = (rows_in(connection, query) for query in (releases, registrations))
    SignedState(connection).require(entry, [*paid, *registered], what=f"an entry of data set '{name}'")
    for row in paid:
        charged[recorded(row["body"], ReleaseCharged).mechanism] += 1
    for row in registered:
        whole = recorded(row["body"], SeriesRegistered)
        charged[whole.mechanism] += whole.price.releases
    return charged
