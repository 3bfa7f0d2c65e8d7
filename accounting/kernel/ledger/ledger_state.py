"""The state of a ledger: what follows from its entries, by one pure fold.

Rules, writer, verification, commands and pages ask a `LedgerState`, and nothing else folds entries. The fold knows no
database and no clock; what it needs of an entry is in the entry.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Rounded
from typing import Literal, NamedTuple, assert_never

from ....mechanisms.kernel.errors import InputRefused
from ..field_forms import Fields, amount_text
from ..prices.registry import kind_of_record
from .entries import (
    GENESIS,
    RECORD,
    BudgetRaised,
    ChargedPrice,
    DataAccess,
    DatasetAdded,
    Entry,
    FilterCharge,
    FilterDatasetAdded,
    LedgerCreated,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    ReleaseRefused,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)

Stage = Literal["charged", "reading", "published", "abandoned"]
PRECISION = 200  # room for a sum of 10^90 amounts: exact, or an exception


def _sum(left: Decimal, right: Decimal) -> Decimal:
    """Add exactly; INVARIANT: an inexact sum raises instead of rounding (a bare minus sign would round)."""
    exact = Context(prec=PRECISION, traps=[Inexact, InvalidOperation, Overflow, Rounded])
    return exact.add(left, right)


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """What a data set has spent and may spend: two exact sums, and the most that each may become.

    In an additive data set they are ε and δ: between releases these add up, which is valid though each is chosen after
    seeing the earlier ones (Rogers, Roth, Ullman, Vadhan, arXiv:1605.08294v3, Theorem 3.6 covers basic composition as a
    filter). In a filter data set they are D_α against its allowance, and τ against D_τ (`FilterAccounting`): there
    neither is an ε or a δ of anything, and no page may show it as one. What was refunded is not spent.
    """

    epsilon_spent: Decimal
    delta_spent: Decimal
    epsilon_budget: Decimal
    delta_budget: Decimal

    def charged(self, *, epsilon: Decimal, delta: Decimal) -> Account:
        """Return the account after a charge, whether or not the budget allows it."""
        spent = _sum(self.epsilon_spent, epsilon), _sum(self.delta_spent, delta)
        return replace(self, epsilon_spent=spent[0], delta_spent=spent[1])

    def refunded(self, *, epsilon: Decimal, delta: Decimal) -> Account:
        """Return the account after the refund of a charge; ValueError where more would be refunded than was spent."""
        account = self.charged(epsilon=epsilon.copy_negate(), delta=delta.copy_negate())
        if account.epsilon_spent < 0 or account.delta_spent < 0:
            raise ValueError("more would be refunded than was spent")
        return account

    @property
    def epsilon_left(self) -> Decimal:
        """What is left of ε, exactly; 0 where the budget is passed."""
        return max(Decimal(0), _sum(self.epsilon_budget, self.epsilon_spent.copy_negate()))

    @property
    def delta_left(self) -> Decimal:
        """What is left of δ, exactly; 0 where the budget is passed."""
        return max(Decimal(0), _sum(self.delta_budget, self.delta_spent.copy_negate()))

    @property
    def spent_share(self) -> Decimal:
        """The larger share that is spent, from 0 to 1; above 1 where the budget is passed."""
        # What is spent of a budget of 0 passes it, so it counts as 2.
        sums = ((self.epsilon_spent, self.epsilon_budget), (self.delta_spent, self.delta_budget))
        return max(spent / budget if budget else Decimal(bool(spent)) * 2 for spent, budget in sums)

    @property
    def within_budget(self) -> bool:
        """Tell whether neither sum is past its budget; equal is within."""
        return self.epsilon_spent <= self.epsilon_budget and self.delta_spent <= self.delta_budget


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where an entry stands in the chain.

    Args:
        position: from 0; -1 before the first entry.
        hash: of its link, 64 hexadecimal digits.
    """

    position: int
    hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Receipt:
    """Proof of payment: a release is charged, and its sample is its own; counting needs one.

    Args:
        ledger_id: which ledger, 64 hexadecimal digits.
        position: place of the charge in the chain.
        hash: hash of the charge's link, 64 hexadecimal digits.
        release_id: the release that is paid for.
        dataset: whose budget paid.
        sample_id: the one sample that may be read for it.
        selection_sample_id: the one sample that its map may be chosen on; None where there is none.
    """

    ledger_id: str
    position: int
    hash: str
    release_id: str
    dataset: str
    sample_id: str
    selection_sample_id: str | None = None


class Release(NamedTuple):
    """A charged release: what rules and look-ups need of it. The entries at its places say the rest.

    Args:
        release_id: its id.
        dataset: whose budget paid.
        position: of its charge in the chain.
        link: hash of its charge's link.
        sample: its sample's id.
        selection_sample: id of the sample that its map is chosen on, None where there is none.
        series: the series that paid, None for a release that paid for itself.
        number: its place in that series, None without one.
        epsilon: what it added to the account's first sum, as text; "0" where a series paid.
        delta: the same of the second sum.
        exclusive: whether its price holds only while nothing else is published of the same records.
        unit: whose records were limited by a column: "person" or "household"; else "record".
        stage: what it has reached.
        refunded: whether its cost, or its place in its series, was given back.
        closed: position of its publication or abandonment, None before.
        closing: hash of that link, None before.
    """

    release_id: str
    dataset: str
    position: int
    link: str
    sample: str
    selection_sample: str | None
    series: str | None
    number: int | None
    epsilon: str
    delta: str
    exclusive: bool
    unit: str
    stage: Stage = "charged"
    refunded: bool = False
    closed: int | None = None
    closing: str | None = None

    @property
    def open(self) -> bool:
        """Tell whether it is neither published nor abandoned."""
        return self.closed is None

    @property
    def own(self) -> bool:
        """Tell whether it paid for itself, and its cost was not given back."""
        return self.series is None and not self.refunded

    @property
    def samples(self) -> tuple[str, ...]:
        """The ids of its samples."""
        return (self.sample,) if self.selection_sample is None else (self.sample, self.selection_sample)

    def receipt(self, ledger_id: str) -> Receipt:
        """Return the receipt that was given for its charge."""
        return Receipt(
            ledger_id=ledger_id,
            position=self.position,
            hash=self.link,
            release_id=self.release_id,
            dataset=self.dataset,
            sample_id=self.sample,
            selection_sample_id=self.selection_sample,
        )


@dataclass(kw_only=True, slots=True)
class Dataset:
    """A data set.

    Args:
        added: its registration.
        position: of that entry.
        account: what is spent and what may be.
        releases: ids of its releases in the order of their charges.
        unrefunded: ids of those whose cost was not given back, in the same order.
        exclusive: ids of those of them that must stand alone.
    """

    added: DatasetAdded
    position: int
    account: Account
    releases: list[str] = field(default_factory=list)
    unrefunded: dict[str, None] = field(default_factory=dict)
    exclusive: dict[str, None] = field(default_factory=dict)


@dataclass(kw_only=True, slots=True)
class Series:
    """A series of releases that was paid for whole.

    Args:
        registered: its registration.
        position: of that entry.
        holders: number of a place → the releases that took it, in their order; all but the last gave it back.
        held: numbers of the places that a release holds.
    """

    registered: SeriesRegistered
    position: int
    holders: dict[int, list[str]] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)

    @property
    def taken(self) -> tuple[int, ...]:
        """Count the places that releases hold: in all, then of each part of a series of different mechanisms."""
        mixed = self.registered.mixed
        parts = range(1, 1 if mixed is None else len(mixed.each) + 1)
        return len(self.held), *(len(self.held.intersection(self.places(part))) for part in parts)

    def places(self, part: int | None) -> range:
        """Return the numbers of all places, or of those of one part, which counts from 1."""
        if part is None:
            return range(1, self.registered.price.releases + 1)
        if (mixed := self.registered.mixed) is None:
            raise ValueError("a series of one mechanism has no parts")
        numbers: range = mixed.numbers(part)
        return numbers

    def free_number(self, part: int | None = None) -> int | None:
        """Return the place of the next release; None where none is left.

        Places are taken in their order; those that were given back come when all have been used.
        """
        places = self.places(part)
        last = max((number for number in self.holders if number in places), default=places[0] - 1)
        if last < places[-1]:
            return last + 1
        return next((number for number in places if number not in self.held), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A token for the auditors' pages.

    Args:
        added: its entry.
        position: of that entry.
        revoked: the day of its revocation, None where there was none.
    """

    added: TokenAdded
    position: int
    revoked: date | None = None

    def opens(self, today: date) -> bool:
        """Return whether it lets somebody in on a day."""
        return self.revoked is None and today < self.added.expires


@dataclass(kw_only=True, slots=True)
class LedgerState:
    """All that follows from a ledger's entries up to one of them, each kind of thing in the order of its entries.

    Args:
        head: the last entry's place.
        ledger_id: which ledger; empty before its first entry.
        kinds: kind → how many entries of it there are.
        datasets: by name.
        series: by name.
        releases: by id.
        samples: sample's id → id of the release that it serves.
        tokens: by id.
        looks: private looks at records, with their positions.
        raises: raises of budgets, with their positions.
    """

    head: Place = Place(position=-1, hash=GENESIS)
    ledger_id: str = ""
    kinds: Counter[str] = field(default_factory=Counter)
    datasets: dict[str, Dataset] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    looks: list[tuple[int, DataAccess]] = field(default_factory=list)
    raises: list[tuple[int, BudgetRaised]] = field(default_factory=list)

    def apply(self, entry: Entry, link: str) -> None:
        """Fold the next entry into the state, with the hash of its link, whether or not the rules allow it.

        Raises:
            ValueError: it can't follow from the entries before it; then nothing of it is taken over but its place.
        """
        # A verification folds entries that break rules too, since it tells everything that is wrong with a ledger.
        self.head = place = Place(position=self.head.position + 1, hash=link)
        self.kinds[entry.KIND] += 1
        match entry:
            case LedgerCreated():
                self.ledger_id = entry.ledger_id
            case DatasetAdded() | BudgetRaised() | SeriesRegistered():
                self._take_budget(entry, place)
            case ReleaseCharged():
                self._take_charge(entry, place)
            case ReleaseReading() | ReleasePublished() | ReleaseAbandoned():
                self._take_step(entry, place)
            case DataAccess():
                self.looks.append((place.position, entry))
            case TokenAdded() | TokenRevoked():
                self._take_token(entry, place)
            case ReleaseRefused():
                pass
            case _:
                assert_never(entry)

    def add_release(self, release: Release) -> None:
        """Take over a release with what look-ups need to find it by; its amounts are not added to its account."""
        dataset = self._dataset(release.dataset)
        if release.release_id in self.releases:
            raise ValueError("the entry's release was charged before")
        if release.series is not None and release.number is not None:
            series = self.series.get(release.series)
            if series is None:
                raise ValueError("the series that paid for the release is missing")
            series.holders.setdefault(release.number, []).append(release.release_id)
            if not release.refunded:
                series.held.add(release.number)
        dataset.releases.append(release.release_id)
        if not release.refunded:
            dataset.unrefunded[release.release_id] = None
            if release.exclusive:
                dataset.exclusive[release.release_id] = None
        self.releases[release.release_id] = release
        self.samples[release.sample] = release.release_id
        if release.selection_sample is not None:
            self.samples[release.selection_sample] = release.release_id

    def _take_budget(self, entry: DatasetAdded | BudgetRaised | SeriesRegistered, place: Place) -> None:
        if isinstance(entry, DatasetAdded):
            if entry.dataset in self.datasets:
                raise ValueError("the entry's data set was added before")
            added = Dataset(added=entry, position=place.position, account=_empty_account(entry))
            self.datasets[entry.dataset] = added
            return
        known = self._dataset(entry.dataset)
        if isinstance(entry, BudgetRaised):
            known.account = replace(known.account, epsilon_budget=entry.epsilon, delta_budget=entry.delta)
            self.raises.append((place.position, entry))
            return
        if entry.series in self.series:
            raise ValueError("the entry's series was registered before")
        epsilon, delta = amounts_of(entry.price, entry.of_filter)
        known.account = known.account.charged(epsilon=epsilon, delta=delta)
        self.series[entry.series] = Series(registered=entry, position=place.position)

    def _take_charge(self, entry: ReleaseCharged, place: Place) -> None:
        dataset = self._dataset(entry.dataset)
        # INVARIANT: a release of a series costs nothing more, since the series was paid for whole; it takes a place.
        epsilon, delta = (Decimal(0), Decimal(0)) if entry.series else amounts_of(entry.price, entry.of_filter)
        self.add_release(
            Release(
                release_id=entry.release_id,
                dataset=entry.dataset,
                position=place.position,
                link=place.hash,
                sample=entry.sample_id,
                selection_sample=dict(entry.samples).get("selection"),
                series=entry.series.name if entry.series else None,
                number=entry.series.number if entry.series else None,
                epsilon=amount_text(epsilon),
                delta=amount_text(delta),
                exclusive=is_exclusive(entry.mechanism),
                unit=enforced_unit(entry.sampler_layout) or RECORD,
            )
        )
        dataset.account = dataset.account.charged(epsilon=epsilon, delta=delta)

    def _take_step(self, entry: ReleaseReading | ReleasePublished | ReleaseAbandoned, place: Place) -> None:
        if (release := self.releases.get(entry.release_id)) is None:
            raise ValueError("the entry's release is missing")
        if isinstance(entry, ReleaseReading):
            self.releases[entry.release_id] = release._replace(stage="reading")
            return
        stage: Stage = "published" if isinstance(entry, ReleasePublished) else "abandoned"
        refunded = isinstance(entry, ReleaseAbandoned) and entry.refunded
        if refunded and not release.refunded:  # a second refund, in a ledger that breaks the rules, gives nothing back
            self._give_back(release)
        closed = release._replace(stage=stage, refunded=refunded, closed=place.position, closing=place.hash)
        self.releases[entry.release_id] = closed

    def _give_back(self, release: Release) -> None:
        dataset = self._dataset(release.dataset)
        epsilon, delta = Decimal(release.epsilon), Decimal(release.delta)
        dataset.account = dataset.account.refunded(epsilon=epsilon, delta=delta)
        dataset.unrefunded.pop(release.release_id, None)
        dataset.exclusive.pop(release.release_id, None)
        if release.series is not None and release.number is not None:
            self.series[release.series].held.discard(release.number)

    def _take_token(self, entry: TokenAdded | TokenRevoked, place: Place) -> None:
        known = self.tokens.get(entry.token_id)
        if isinstance(entry, TokenAdded):
            # INVARIANT: a token that was revoked stays so, whatever is added after it.
            self.tokens.setdefault(entry.token_id, Token(added=entry, position=place.position))
        elif known is None:
            raise ValueError("the entry revokes a token that was never added")
        else:
            self.tokens[entry.token_id] = replace(known, revoked=known.revoked or entry.day)

    def _dataset(self, name: str) -> Dataset:
        if name not in self.datasets:
            raise ValueError("the entry's data set is missing")
        return self.datasets[name]


def _empty_account(added: DatasetAdded) -> Account:
    epsilon, delta = added.epsilon, added.delta
    if isinstance(added, FilterDatasetAdded):
        epsilon, delta = added.accounting.allowance, added.accounting.tail_delta
    return Account(epsilon_spent=Decimal(0), delta_spent=Decimal(0), epsilon_budget=epsilon, delta_budget=delta)


def enforced_unit(sampler_layout: object) -> str | None:
    """Return whose records a sampler's layout limits by a column, "person" or "household"; None for nobody's."""
    if not str(sampler_layout).startswith(("aes-contributions-", "aes-units-")):
        return None
    from ....mechanisms.kernel.contributions import LAYOUTS, UNIT_LAYOUTS  # of releases with such a column alone

    named = str(sampler_layout).partition(" ")[0]
    return next((unit for one in (LAYOUTS, UNIT_LAYOUTS) for unit, layout in one.items() if layout == named), None)


def is_exclusive(mechanism: Fields) -> bool:
    """Return whether a mechanism's price holds only while nothing else is published of the same records."""
    try:
        return kind_of_record(dict(mechanism).get("kind")).exclusive
    except InputRefused:
        return False  # an unknown kind has no price at all


def released_once(dataset: DatasetAdded, mechanism: Fields) -> bool:
    """Return whether a release by this mechanism uses up what protects the data set, so that it has no other."""
    return dataset.survey_rate is not None or is_exclusive(mechanism)


def amounts_of(price: ChargedPrice, of_filter: FilterCharge | None) -> tuple[Decimal, Decimal]:
    """Return what a charge adds to the two sums of an account: ε and δ, or D_α and τ in a filter data set."""
    return (price.epsilon, price.delta) if of_filter is None else (of_filter.divergence, of_filter.tail)
