"""How long what is left of a budget lasts under a calendar of releases, by each way of paying for them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import ADD_REMOVE
from ....mechanisms.kinds.microdata import StronglySafeRelease
from ....mechanisms.wording import times_in
from ...kernel.prices.arithmetic import PRICE_DIGITS, multiply_up
from ...kinds.microdata_prices import price_fixed
from .inversion import MOST_RELEASES, Target, most_releases
from .searches import first_whole

if TYPE_CHECKING:
    from ...kinds.composition.renyi_filter import FilterTerms


CALENDARS = ("12/year", "52/year", "1/day")
"""What is compared where no calendar is given."""
K, RATE = 20, Decimal("0.1")
"""What is released where nothing is said."""

_PERIODS = {"day": 365, "week": 52, "month": 12, "quarter": 4, "year": 1}
"""Name of a period → how many make a year."""
_CALENDAR = re.compile(
    r"\s*(?P<releases>[0-9]{1,6})\s*/\s*(?P<period>[a-z]+)\s*"
    r"(?:of\s+k\s*=\s*(?P<k>[0-9]{1,7})\s*,\s*(?:sampling[_-])?rate\s*=\s*(?P<rate>[0-9.eE+-]{1,30})\s*)?"
)
_SHORTEST_GAME = 50
_DOWN = Context(prec=PRICE_DIGITS, rounding=ROUND_FLOOR)

Way = Literal["filter", "one by one", "series"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FilterLeft:
    """What is left of a filter budget.

    Args:
        terms: what its registration fixed.
        divergence: what D_α may still add up to.
        tail: what τ may still add up to.
    """

    terms: FilterTerms
    divergence: Decimal
    tail: Decimal

    @property
    def share(self) -> Decimal:
        """The smaller share that is left, of D_α or of τ; rounded down."""
        return min(_DOWN.divide(self.divergence, self.terms.allowance), _DOWN.divide(self.tail, self.terms.tail_delta))


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetLeft:
    """What is left of a data set's budget.

    Args:
        epsilon: ε, at least 0; in a filter data set, where nothing is an ε, the share of E that is left.
        delta: δ likewise.
        filtered: what is left of a filter budget; None of an additive one.
    """

    epsilon: Decimal
    delta: Decimal
    filtered: FilterLeft | None = None

    @classmethod
    def of_filter(cls, left: FilterLeft) -> BudgetLeft:
        """Return what is left of a filter budget, beside the same share of an additive one for comparison."""
        share = max(left.share, Decimal(0))
        epsilon, delta = (_DOWN.multiply(whole, share) for whole in (left.terms.epsilon, left.terms.delta))
        return cls(epsilon=epsilon, delta=delta, filtered=left)


@dataclass(frozen=True, kw_only=True, slots=True)
class Calendar:
    """So many releases of one mechanism in each period.

    Args:
        releases: how many, at least 1.
        period: "day", "week", "month", "quarter" or "year".
        mechanism: what each release runs.
    """

    releases: int
    period: str
    mechanism: StronglySafeRelease

    @property
    def text(self) -> str:
        """The calendar as it is written, without its mechanism."""
        return f"{self.releases}/{self.period}"

    @property
    def a_year(self) -> int:
        """Releases in a year of 365 days, 52 weeks, 12 months."""
        return self.releases * _PERIODS[self.period]

    def years(self, releases: int) -> Fraction:
        """Return how long so many releases last."""
        return Fraction(releases, self.a_year)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lasting:
    """How many releases fit into what is left, paid for in one way.

    Args:
        way: "one by one", each decided after the others and all prices added up, with δ shared out evenly;
            "series", fixed and paid for whole now; or "filter", each decided after the others and their divergences
            added up.
        releases: how many fit, at most a million; 0 where none does.
        epsilon: ε of all of them; None of a filter, whose charges are no ε.
        delta: δ of all of them; None likewise.
        epsilon_each: ε of one of them, where they are charged one by one.
        delta_each: δ that each states, likewise.
        share_each: of a filter budget that one of them takes.
        limited_by: what of a filter budget is used up first, "tails" where both are; None of other ways, and where
            such a release has no divergence.
    """

    way: Way
    releases: int
    epsilon: Decimal | None
    delta: Decimal | None
    epsilon_each: Decimal | None = None
    delta_each: Decimal | None = None
    share_each: Decimal | None = None
    limited_by: Literal["divergence", "tails"] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What another k or rate buys.

    Args:
        mechanism: with that k or rate.
        releases: way → about how many releases fit.
    """

    mechanism: StronglySafeRelease
    releases: dict[Way, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """How long a budget lasts.

    Args:
        left: what is left of it.
        calendars: those that were asked for.
        lasting: for each calendar what fits, by each way.
        changes: of the first calendar's k and rate, with itself first.
    """

    left: BudgetLeft
    calendars: tuple[Calendar, ...]
    lasting: tuple[tuple[Lasting, ...], ...]
    changes: tuple[Change, ...]


def read_calendar(text: str, *, k: int = K, sampling_rate: Decimal = RATE) -> Calendar:
    """Read a calendar from its text: "12/year", "1/day", "4/year of k=50,rate=0.05".

    Args:
        text: the calendar.
        k: of its releases, where the text says nothing.
        sampling_rate: likewise.

    Raises:
        InputRefused: the text is no calendar, or a value is out of range.
    """
    parts = _CALENDAR.fullmatch(text)
    period = "" if parts is None else parts["period"].removesuffix("s")
    if parts is None or period not in _PERIODS or int(parts["releases"]) < 1:
        raise InputRefused(
            "this is no calendar of releases.",
            where=f"calendar '{text[:60]}'",
            not_done="",
            remedy='Write for example "12/year", "1/day" or "4/year of k=50,rate=0.05"; periods are day, week, month, '
            "quarter and year.",
        )
    try:
        mechanism = StronglySafeRelease(
            k=k if parts["k"] is None else int(parts["k"]),
            sampling_rate=sampling_rate if parts["rate"] is None else Decimal(parts["rate"]),
        )
    except (ValueError, InvalidOperation) as fault:
        what = "the rate is no number" if isinstance(fault, InvalidOperation) else str(fault)
        raise InputRefused(f"{what}.", where=f"calendar '{text[:60]}'", not_done="") from None
    return Calendar(releases=int(parts["releases"]), period=period, mechanism=mechanism)


def forecast(left: BudgetLeft, calendars: Sequence[Calendar]) -> Forecast:
    """Forecast how long what is left lasts under each calendar, by the prices that would be charged.

    Args:
        left: what is left.
        calendars: at least one.

    Raises:
        InputRefused: a mechanism's parameters are beyond double precision.
    """
    found: dict[StronglySafeRelease, tuple[Lasting, ...]] = {}
    for calendar in calendars:
        if calendar.mechanism not in found:
            found[calendar.mechanism] = _lasting(left, calendar.mechanism)
    first = calendars[0].mechanism
    changes = [Change(mechanism=first, releases={one.way: one.releases for one in found[first]})]
    for other in (
        replace(first, k=2 * first.k),
        replace(first, sampling_rate=first.sampling_rate / 2),
    ):
        changes.append(Change(mechanism=other, releases=_about(left, other)))
    return Forecast(
        left=left,
        calendars=tuple(calendars),
        lasting=tuple(found[calendar.mechanism] for calendar in calendars),
        changes=tuple(changes),
    )


def require_forecast(*, relation: str, survey: bool, rows_per_person: int) -> None:
    """Refuse a data set for whose budget sampled releases can't be planned.

    Args:
        relation: the neighbouring relation of its prices.
        survey: whether it is itself a sample, so that it can be released once.
        rows_per_person: the most records of one person.

    Raises:
        InputRefused: it is not.
    """
    why = None
    if relation != ADD_REMOVE:
        why = "its prices hold by replacement, and those of sampled releases by adding and removing a person"
    elif survey:
        why = "it is itself a sample, and can be released once"
    elif rows_per_person > 1:
        why = "a person may have several records in it"
    if why is not None:
        raise InputRefused(
            f"nothing is forecast for this data set: {why}.",
            not_done="",
            remedy="`crowdblend explain SPEC` shows what one release costs and leaves.",
        )


def forecast_facts(found: Forecast) -> dict[str, Any]:
    """Return a forecast as it is in JSON; amounts are decimals."""
    return {
        "accounting": "additive" if found.left.filtered is None else "filter",
        "epsilon_left": found.left.epsilon,
        "delta_left": found.left.delta,
        "share_left": None if found.left.filtered is None else found.left.filtered.share,
        "calendars": [
            {
                "calendar": calendar.text,
                "k": calendar.mechanism.k,
                "sampling_rate": calendar.mechanism.sampling_rate,
                "releases_a_year": calendar.a_year,
                "ways": [_lasting_facts(calendar, one) for one in ways],
            }
            for calendar, ways in zip(found.calendars, found.lasting, strict=True)
        ],
        "changes": [
            {
                "k": change.mechanism.k,
                "sampling_rate": change.mechanism.sampling_rate,
                "releases": dict(change.releases),
            }
            for change in found.changes
        ],
    }


def _lasting_facts(calendar: Calendar, one: Lasting) -> dict[str, Any]:
    years = calendar.years(one.releases)
    return {
        "way": one.way,
        "releases": one.releases,
        "most": one.releases == MOST_RELEASES,
        "years": math.floor(years * 10_000) / 10_000,
        "lasts": span_shown(years),
        "epsilon": one.epsilon,
        "delta": one.delta,
        "epsilon_each": one.epsilon_each,
        "delta_each": one.delta_each,
        "share_each": one.share_each,
        "limited_by": one.limited_by,
    }


def _lasting(left: BudgetLeft, mechanism: StronglySafeRelease) -> tuple[Lasting, ...]:
    added_up = _one_by_one(left, mechanism), _as_series(left, mechanism)
    return added_up if left.filtered is None else (_by_filter(left.filtered, mechanism), *added_up)


def _about(left: BudgetLeft, mechanism: StronglySafeRelease) -> dict[Way, int]:
    """Estimate how many releases fit: no game of more than `_SHORTEST_GAME` releases is played."""
    about: dict[Way, int] = {}
    if left.filtered is not None:
        about["filter"] = _by_filter(left.filtered, mechanism).releases
    about["one by one"] = _one_by_one(left, mechanism).releases
    about["series"] = _most_in_series(left, mechanism, longest_game=_SHORTEST_GAME)
    return about


def _by_filter(left: FilterLeft, mechanism: StronglySafeRelease) -> Lasting:
    """Return how many releases fit that are charged one by one to a filter."""
    from ...kinds.composition.renyi_filter import filter_cost, spent_share, tail_for  # only a filter needs divergences

    none = Lasting(way="filter", releases=0, epsilon=None, delta=None)
    try:
        tail = tail_for(left.terms, mechanism)
        cost = filter_cost(mechanism, order=left.terms.order, tail=tail)
    except InputRefused:
        return none
    by_divergence, by_tails = (
        times_in(whole, each, most=MOST_RELEASES)
        for whole, each in ((left.divergence, cost.divergence), (left.tail, cost.tail))
    )
    return replace(
        none,
        releases=min(by_divergence, by_tails),
        share_each=spent_share(left.terms, [cost]),
        limited_by="tails" if by_tails <= min(by_divergence, MOST_RELEASES - 1) else "divergence",
    )


def _one_by_one(left: BudgetLeft, mechanism: StronglySafeRelease) -> Lasting:
    """Return how many releases fit that are charged each for itself, with an even share of δ each."""

    def each(releases: int) -> tuple[Decimal, Decimal] | None:
        delta = _DOWN.divide(left.delta, releases)
        try:
            return price_fixed(mechanism, delta=delta).epsilon, delta
        except InputRefused:
            return None

    def fits(releases: int) -> bool:
        price_each = each(releases)
        return price_each is not None and multiply_up(price_each[0], releases) <= left.epsilon

    # More releases cost more together, since each has a smaller share of δ and so a higher ε. The most that fit is thus
    # one less than the first number that doesn't.
    beyond = first_whole(lambda releases: float(fits(releases)), 0.5, largest=MOST_RELEASES)
    most = MOST_RELEASES if beyond is None else beyond - 1
    charged = each(most) if most else None
    if charged is None:
        return Lasting(way="one by one", releases=0, epsilon=Decimal(0), delta=Decimal(0))
    epsilon, delta = charged
    return Lasting(
        way="one by one",
        releases=most,
        epsilon=multiply_up(epsilon, most),
        delta=multiply_up(delta, most),
        epsilon_each=epsilon,
        delta_each=delta,
    )


def _as_series(left: BudgetLeft, mechanism: StronglySafeRelease) -> Lasting:
    """Return how many releases fit that are registered now as one series, with all of δ."""
    most = _most_in_series(left, mechanism)
    if most == 0:
        return Lasting(way="series", releases=0, epsilon=Decimal(0), delta=Decimal(0))
    price = price_fixed(mechanism, delta=_DOWN.plus(left.delta), releases=most)
    return Lasting(way="series", releases=most, epsilon=price.epsilon, delta=price.delta)


def _most_in_series(left: BudgetLeft, mechanism: StronglySafeRelease, *, longest_game: int | None = None) -> int:
    try:
        target = Target(epsilon=left.epsilon, delta=_DOWN.plus(left.delta))
        return most_releases(mechanism, target, longest_game=longest_game)
    except InputRefused:
        return 0


def span_shown(years: Fraction) -> str:
    """Write a time for people, rounded down: 8.5 years, 4.3 months, 12 days."""
    days = years * 365
    if years >= 1:
        return _counted(years, "year")
    if days >= 60:
        return _counted(years * 12, "month")
    return _counted(Fraction(math.floor(days)), "day")


def _counted(amount: Fraction, noun: str) -> str:
    tenths = math.floor(amount * 10)
    text = f"{tenths / 10:.1f}" if tenths % 10 and amount < 100 else f"{tenths // 10:,}"
    return f"{text} {noun if tenths == 10 else noun + 's'}"
