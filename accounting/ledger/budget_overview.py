"""A ledger at a glance: every budget, the latest of what grows, and beside each account a composed estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from ...mechanisms.kernel.errors import InputRefused
from ..kernel.field_forms import Fields
from ..kernel.keys.signing import Statement, canonical_bytes
from ..kernel.ledger.entries import BudgetRaised, SeriesRegistered
from ..kernel.ledger.ledger_state import Account, LedgerState, Place, Release, Series, Stage
from ..kernel.ledger.snapshot import ESTIMATED, LISTED, Counts, ForgedState, counts_of, state_of_bytes
from ..kernel.ledger.transactions import Look, stored_state, stored_statement
from ..kernel.prices.arithmetic import decimal_up, float_down
from .lookup import DatasetState, RecordedLook, ReleaseState, SeriesState, release_states

if TYPE_CHECKING:
    from ..kinds.composition.composed import Part

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
    from ..descriptions.description_registry import description_of
    from ..kernel.prices.registry import mechanism_of_record
    from ..kinds.composition.composed import COMPOSED_FLOOR, epsilon_composed  # numerics, for an estimate alone

    delta = account.delta_spent
    if len(charged) * charged.total() > MOST_WORK or not COMPOSED_FLOOR <= delta < 1:
        return None
    parts: dict[Part, int] = {}
    try:
        for mechanism, times in charged.items():
            run = mechanism_of_record(dict(mechanism))
            whole = getattr(run, "releases", 1)  # the losses of a series of different mechanisms are those of all
            for part in description_of(run).losses(run):
                parts[part] = parts.get(part, 0) + times // whole
        composed = epsilon_composed(parts, delta=float_down(delta))
    except (ArithmeticError, InputRefused, ValueError):
        return None
    return None if composed is None else min(decimal_up(composed), account.epsilon_spent)


# Different mechanisms times their runs, for the estimates of all data sets together, unless everything is asked for.
MOST_WORK_AT_A_GLANCE = ESTIMATED
STAGES: tuple[Stage, ...] = ("charged", "reading", "published", "abandoned")


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
        looks: all private looks, in their order.
        raises: all raises of budgets with their places, in their order.
        head: the last entry's place.
    """

    datasets: tuple[DatasetOverview, ...]
    series: tuple[SeriesState, ...]
    series_count: int
    releases: tuple[ReleaseState, ...]
    release_counts: Mapping[Stage, int]
    looks: tuple[RecordedLook, ...]
    raises: tuple[tuple[int, BudgetRaised], ...]
    head: Place

    @property
    def release_count(self) -> int:
        """How many releases there are in all."""
        return sum(self.release_counts.values())


def overview_of(connection: Connection, *, latest: int | None) -> Overview:
    """Look at a whole ledger.

    Args:
        connection: in a reading transaction.
        latest: how many series and releases to list; None for all, and for estimates that take their time.

    Raises:
        ForgedState: no signature holds over the last entry and what is shown, or an entry was changed.
        NewerLedger: the ledger has entries of kinds that this version doesn't know.
    """
    # The state of a large ledger takes seconds to read, so an excerpt is signed with it.
    excerpt = latest is not None and latest <= LISTED and _signed_excerpt(stored_statement(connection))
    if excerpt:
        state, counts = excerpt
    else:
        state, _ = stored_state(connection)
        counts = counts_of(state)
    ledger = Look(connection=connection, state=state)
    some = slice(None if latest is None else max(0, len(state.releases) - latest), None)
    some_series = slice(None if latest is None else max(0, len(state.series) - latest), None)
    return Overview(
        datasets=tuple(_with_estimates(ledger, counts.own, most=None if latest is None else MOST_WORK_AT_A_GLANCE)),
        series=tuple(_series_of(state.series[name], counts.taken[name]) for name in [*state.series][some_series]),
        series_count=counts.series,
        releases=release_states(ledger, list(state.releases.values())[some]),
        release_counts={stage: counts.stages.get(stage, 0) for stage in STAGES},
        looks=RecordedLook.all_of(state),
        raises=tuple(state.raises),
        head=state.head,
    )


def _series_of(known: Series, taken: Sequence[int]) -> SeriesState:
    """Return what is shown of a series, not all of whose releases an excerpt has."""
    return replace(SeriesState.of(known), taken=taken[0], taken_of_parts=tuple(taken[1:]))


def _signed_excerpt(statement: Statement) -> tuple[LedgerState, Counts] | None:
    """Return the excerpt of a large state that a statement has, with the counts over the whole; None without one."""
    if (excerpt := statement.fields.get("excerpt")) is None:
        return None
    # Anybody can sign by some key: nothing is believed to have its form.
    try:
        state, counts = state_of_bytes(canonical_bytes(excerpt["state"])), Counts(**excerpt["counts"])
        numbers = {*map(type, (counts.series, *counts.stages.values(), *counts.own.values()))}
        numbers.update(map(type, chain(*counts.taken.values())))
        named = (counts.own.keys(), counts.taken.keys()) == (state.datasets.keys(), state.series.keys())
    except (AttributeError, KeyError, TypeError):
        named = False
    if not named or numbers != {int} or not all(counts.taken.values()):
        raise ForgedState("the signed excerpt of the state is damaged")
    stated = {"ledger_id": state.ledger_id, "position": state.head.position, "hash": state.head.hash}
    if not stated.items() <= statement.fields.items():
        raise ForgedState("the signed excerpt of the state is of another ledger")
    return state, counts


def _with_estimates(ledger: Look, counts: Mapping[str, int], *, most: int | None) -> Iterator[DatasetOverview]:
    """Give each data set with its estimate; with a limit, those with the fewest releases have theirs first.

    Args:
        ledger: whose state has all own charges of a data set, or some; with some there is no estimate.
        counts: data set → how many own charges it has.
        most: work to do in all.
    """
    state, left, estimates = ledger.state, most, {}
    paid: dict[str, list[Release]] = {name: [] for name in state.datasets}
    registered: dict[str, list[SeriesRegistered]] = {name: [] for name in state.datasets}
    for release in state.releases.values():
        if release.own:
            paid[release.dataset].append(release)
    for series in state.series.values():
        registered[series.registered.dataset].append(series.registered)
    views = {name: DatasetState.of(known) for name, known in sorted(state.datasets.items())}
    for name in sorted(counts, key=counts.__getitem__):
        if views[name].filter_budget is not None:
            continue
        if left is not None and counts[name] > left:
            break  # those that follow have as many
        if len(paid[name]) + len(registered[name]) != counts[name]:
            continue
        charged = Counter(one.charge.mechanism for one in release_states(ledger, paid[name]))
        for whole in registered[name]:
            charged[whole.mechanism] += whole.price.releases
        work = len(charged) * charged.total()
        if left is not None and work > left:
            continue
        left = None if left is None else left - work
        view = views[name]
        estimates[name] = composed_estimate(charged, account=view.account, rows_per_person=view.rows_per_person)
    for name, view in views.items():
        yield DatasetOverview(state=view, epsilon_estimate=estimates.get(name))
