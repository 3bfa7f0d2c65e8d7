"""The ledger's rules: what an entry breaks, given the entries before it; the same for who writes and who verifies.

A violation has its cause, one sentence and its numbers. What a person reads, and what would fit instead, is made of
these elsewhere, after the writer's transaction has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, TypeVar

from ....mechanisms.kernel.errors import AccountantRefused, InputRefused
from ..field_forms import Fields, differ
from ..prices.mechanism_kind import Price
from ..prices.registry import kind_of, mechanism_of_record, not_covered, paper_price, recorded_price
from .entries import (
    RECORD,
    BudgetRaised,
    ChargedPrice,
    DataAccess,
    DatasetAdded,
    DatasetUnit,
    Entry,
    FilterCharge,
    FilterDatasetAdded,
    FreeSeriesRegistered,
    LedgerCreated,
    ReleaseAbandoned,
    ReleaseCharged,
    ReleasePublished,
    ReleaseReading,
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)
from .filter_budget import FilterBudget, accounting_faults, charge_faults, filter_charge
from .ledger_state import Dataset, LedgerState, amounts_of, enforced_unit, is_exclusive, released_once

Known = TypeVar("Known")
Named = Literal["dataset", "series", "release", "token"]
BY_PRICE = "it is charged by ε and δ to a filter budget, which pays divergences alone"
UNKNOWN: Mapping[Named, str] = {
    "dataset": "dataset '{}' is not in the ledger",
    "series": "series '{}' has not paid for this release: nothing of that name",
    "release": "release '{}' was never charged",
    "token": "token {} was never added",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A rule that an entry breaks.

    Args:
        cause: short name of the rule; a refusal by the accountant is recorded under it.
        fault: what a verification says of a recorded entry, a sentence without its end.
        where: what it concerns, such as "dataset 'census'".
        mistake: whether it is the caller's mistake, which isn't recorded, and not a refusal by the accountant.
        numbers: what a person must know beside the fault, by name.
    """

    cause: str
    fault: str
    where: str = ""
    mistake: bool = False
    numbers: Mapping[str, Any] = field(default_factory=dict)


def _violation(cause: str, fault: str, where: str, *, mistake: bool = False, **numbers: Any) -> Violation:  # noqa: ANN401
    return Violation(cause=cause, fault=fault, where=where, mistake=mistake, numbers=numbers)


class RuleBroken(AccountantRefused):
    """An entry would break a rule, so nothing was appended.

    Args:
        violation: of the weightiest rule that it would break.
    """

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.fault}.", where=violation.where, cause=violation.cause)
        self.violation = violation


def violations(entry: Entry, state: LedgerState) -> Iterator[Violation]:
    """Give every rule that an entry would break after those that made a state, the weightiest first.

    INVARIANT: the writer refuses for the first, and the verification tells all of them: there is no second list.
    """
    for kind, rules in RULES.items():
        if isinstance(entry, kind):
            for rule in rules:
                yield from rule(entry, state)


def unknown(of: Named, name: str, *, known: Mapping[str, object] | None = None) -> Violation:
    """Return that the ledger has nothing of a name; `known` are the names that there are."""
    fault, where = UNKNOWN[of].format(name), f"{of} '{name}'"
    return _violation("unknown", fault, where, mistake=True, of=of, known=sorted(known or ()))


def known_by_name(of: Named, name: str, known: Mapping[str, Known]) -> Known:
    """Return what the ledger has under a name; raise `RuleBroken` where it has nothing."""
    if name not in known:
        raise RuleBroken(unknown(of, name, known=known))
    return known[name]


def _first(entry: Entry, state: LedgerState) -> Iterator[Violation]:
    if (state.head.position < 0) is not isinstance(entry, LedgerCreated):
        once, never = "a ledger is created once, by its first entry", "the first entry does not create the ledger"
        yield _violation("first-entry", never if state.head.position < 0 else once, "ledger")


def _of_dataset(entry: DatasetAdded, state: LedgerState) -> Iterator[Violation]:
    where = f"dataset '{entry.dataset}'"
    if entry.dataset in state.datasets:
        yield _violation("dataset-known", f"{where} is added a second time", where, mistake=True)
    if isinstance(entry, FilterDatasetAdded):
        for fault in accounting_faults(FilterBudget.of(entry)):
            yield _violation("filter-terms", fault, where, mistake=True)


def _of_raise(entry: BudgetRaised, state: LedgerState) -> Iterator[Violation]:
    if (dataset := state.datasets.get(entry.dataset)) is None:
        yield unknown("dataset", entry.dataset)
        return
    where = f"dataset '{entry.dataset}'"
    if isinstance(dataset.added, FilterDatasetAdded):
        # The proof of a filter holds for terms that were fixed before the first release.
        yield _violation("filter-raised", "a filter budget is raised", where, mistake=True)
        return
    before, after = (dataset.account.epsilon_budget, dataset.account.delta_budget), (entry.epsilon, entry.delta)
    lowered = after[0] < before[0] or after[1] < before[1]
    if lowered or after == before:
        fault = "a budget is lowered" if lowered else "a budget is raised to what it was"
        yield _violation("budget-not-raised", fault, where, mistake=True, before=before, after=after)


def _known_dataset(entry: SeriesRegistered | ReleaseCharged | DataAccess, state: LedgerState) -> Iterator[Violation]:
    if entry.dataset not in state.datasets:
        yield unknown("dataset", entry.dataset)


def _of_release(entry: ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """Find a release whose id, or one of whose samples, served before, or that has other samples than it reads."""
    where = f"release '{entry.release_id}'"
    if (earlier := state.releases.get(entry.release_id)) is not None:
        fault = f"release id '{entry.release_id}' is charged a second time"
        yield _violation("release-known", fault, where, stage=earlier.stage)
    taken = [sample for _, sample in entry.samples]
    for sample in taken:
        if (other := state.samples.get(sample)) is not None:
            yield _violation("sample-used", f"its sample was used by release '{other}'", where)
    try:
        mechanism = entry.decoded_mechanism
    except InputRefused:
        return  # which has no price either, and that is said
    # One that reads every record takes a sample too, and draws nothing from it: its id ties charge, draws and output
    # together (docs/decisions/0009-releases-without-a-sample.md).
    needed = kind_of(mechanism).samples(mechanism)
    if not needed:
        fault = "its mechanism is a series of several, and a release runs one of them"
        yield _violation("samples-differ", fault, where)
    elif len(taken) != needed:
        yield _violation("samples-differ", f"its mechanism reads {needed} samples, and {len(taken)} are taken", where)
    # The price holds for a choice that the release's own sample has no part in (docs/proofs/selection.md).
    elif len(set(taken)) != needed:
        yield _violation("samples-differ", "its map would be chosen on the release's own sample", where)


def _of_population(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    if (dataset := state.datasets.get(entry.dataset)) is not None:
        yield from survey_violations(entry.mechanism, dataset.added)


def survey_violations(mechanism: Fields, dataset: DatasetAdded) -> Iterator[Violation]:
    """Find a price that leans on another sampling of the population than was registered."""
    try:
        decoded = mechanism_of_record(dict(mechanism))
    except InputRefused:
        return  # which has no price either, and that is said
    rate_of, registered, where = kind_of(decoded).survey_rate, dataset.survey_rate, f"dataset '{dataset.dataset}'"
    if rate_of is None:
        return
    # Coins that the data were drawn with protect one release. A data set that is registered as a sample has no second.
    if registered is None:
        fault = "its price leans on the data having been sampled, and the data set is not registered as a sample"
        yield _violation("survey-differs", fault, where)
    elif registered > (rate := rate_of(decoded)):
        fault = f"it says that no record was sampled at a rate above {rate}, and the data set is registered as "
        yield _violation("survey-differs", f"{fault}sampled at {registered}", where)


def rows_violations(dataset: Dataset, rows_per_person: int) -> Iterator[Violation]:
    """Find a price for another number of records of a person than its data set was registered with.

    The number is in no entry of a charge: a verification prices by the registered one.

    Args:
        dataset: the data set.
        rows_per_person: the most records of one person that the price was computed for.
    """
    if rows_per_person != (registered := dataset.added.rows_per_person):
        fault = f"its price is for {rows_per_person} records of a person, and its data set's number is {registered}"
        where = f"dataset '{dataset.added.dataset}'"
        yield _violation("rows-per-person", fault, where, asked=rows_per_person, registered=registered)


def _of_unit(entry: ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """Find a release whose records were limited for another unit than its data set was registered with."""
    dataset = state.datasets.get(entry.dataset)
    fixed = dataset and dataset.added.fixed_unit
    name = enforced_unit(entry.sampler_layout) or RECORD
    if fixed and name != fixed.name:
        yield _other_unit(entry.dataset, asked=name, known=str(fixed), fixed=fixed)


def unit_violations(name: str, unit: DatasetUnit, state: LedgerState) -> Iterator[Violation]:
    """Give what speaks against hiding a unit's presence, before anything is charged: all charges of a budget hide one.

    Releases of different units cost each of them more than the sum of their prices (docs/proofs/persons.md). A data set
    that an earlier version added has no unit, so the one that its releases have is the only one from now on; entries
    that are there aren't asked, since earlier versions didn't ask, and no entry of such a data set has the column.

    Args:
        name: of the data set.
        unit: whose presence what is charged would hide.
        state: the ledger now.
    """
    dataset = state.datasets.get(name)
    if dataset is None:
        return
    if (fixed := dataset.added.fixed_unit) is not None:
        if unit != fixed:
            yield _other_unit(name, asked=str(unit), known=str(fixed), fixed=fixed)
        return
    released = {state.releases[release_id].unit for release_id in dataset.unrefunded}
    if released - {unit.name}:
        yield _other_unit(name, asked=unit.name, known=" and ".join(sorted(released)), fixed=None)


def _other_unit(dataset: str, *, asked: str, known: str, fixed: DatasetUnit | None) -> Violation:
    fault, where = f"its unit is '{asked}', and that of dataset '{dataset}' is '{known}'", f"dataset '{dataset}'"
    return _violation("unit-differs", fault, where, asked=asked, known=known, fixed=fixed)


def _of_price(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """Find a price that is not the mechanism's."""
    dataset, mechanism = state.datasets.get(entry.dataset), entry.mechanism
    where = f"release '{entry.release_id}'" if isinstance(entry, ReleaseCharged) else f"series '{entry.series}'"
    if isinstance(entry, ReleaseCharged) and entry.series is not None:
        series = state.series.get(entry.series.name)
        if series is not None and isinstance(series.registered, FreeSeriesRegistered):
            mechanism = series.registered.mechanism  # which the price of all its releases is of
    rows, paper = 1 if dataset is None else dataset.added.rows_per_person, entry.epsilon_paper
    for fault in price_faults(mechanism=mechanism, price=entry.price, epsilon_paper=paper, rows_per_person=rows):
        yield _violation("price-differs", fault, where)


def price_faults(
    *, mechanism: Fields, price: ChargedPrice, epsilon_paper: Decimal | None, rows_per_person: int
) -> tuple[str, ...]:
    """Return what is wrong with a recorded price, in sentences; nothing where it is its mechanism's.

    Its δ and its number of releases are taken as recorded, and its rule where earlier versions charged by it.
    """
    try:
        exact, paper = _prices(mechanism, price.rule, price.delta, price.releases, rows_per_person)
    except InputRefused as error:
        return (f"the mechanism can't be priced: {error.what}",)
    except (ArithmeticError, ValueError):
        return ("the mechanism can't be priced: its numbers are too large or too small to compute with",)
    due = None if paper is None else paper.epsilon
    compared = (
        ("the rule", f"'{price.rule}'", f"'{exact.rule}'", price.rule != exact.rule),
        ("the neighbouring relation", f"'{price.relation}'", f"'{exact.relation}'", price.relation != exact.relation),
        ("ε", price.epsilon, exact.epsilon, differ(price.epsilon, exact.epsilon)),
        ("the paper's ε", epsilon_paper, "none" if due is None else due, differ(epsilon_paper, due)),
    )
    return tuple(
        f"{name} is recorded as {recorded}, but its mechanism's is {expected}"
        for name, recorded, expected, differs in compared
        if differs
    )


@lru_cache(maxsize=1024)  # a writer asks before its lock and within; a verification asks again for equal charges
def _prices(
    record: Fields, rule: str, delta: Decimal, releases: int, rows_per_person: int
) -> tuple[Price, Price | None]:
    mechanism = mechanism_of_record(dict(record))
    return (
        recorded_price(mechanism, rule=rule, delta=delta, releases=releases, rows_per_person=rows_per_person),
        paper_price(mechanism, delta=delta, releases=releases, rows_per_person=rows_per_person),
    )


def _of_payment(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """Find a charge that its data set's budget doesn't pay, or beside which another one may not stand."""
    if (dataset := state.datasets.get(entry.dataset)) is None:
        return
    if isinstance(entry, ReleaseCharged) and entry.series is not None:  # which has paid for it
        yield from lone_violations(entry.mechanism, dataset)
        return
    yield from _of_accounting(entry, dataset.added)
    yield from account_violations(entry.price, entry.of_filter, entry.mechanism, dataset)


def taken_of_filter(mechanism: Fields, price: ChargedPrice, dataset: FilterDatasetAdded) -> FilterCharge | Violation:
    """Return what releases would take of a filter budget, or that it can't pay for them."""
    budget, rows = FilterBudget.of(dataset), dataset.rows_per_person
    try:
        return filter_charge(mechanism, budget=budget, releases=price.releases, rows_per_person=rows)
    except InputRefused as error:
        why = error.what
    except (ArithmeticError, ValueError) as error:
        why = f"{error}."
    kind, where = dict(mechanism).get("kind"), f"dataset '{dataset.dataset}'"
    return _violation("no-divergence", BY_PRICE, where, kind=kind, why=why)


def _of_accounting(entry: SeriesRegistered | ReleaseCharged, dataset: DatasetAdded) -> Iterator[Violation]:
    """Find a charge that isn't of its budget's kind: a filter budget pays divergences of its order, another ε and δ."""
    taken, where = entry.of_filter, f"dataset '{dataset.dataset}'"
    if not isinstance(dataset, FilterDatasetAdded):
        if taken is not None:
            yield _violation("accounting-differs", "it takes a divergence of a budget that adds up ε and δ", where)
    elif isinstance(entry, FreeSeriesRegistered):
        # Each release of it may have columns without a divergence of their own.
        yield _violation("accounting-differs", BY_PRICE, where, free_columns=True)
    elif taken is None:
        due = taken_of_filter(entry.mechanism, entry.price, dataset)
        yield due if isinstance(due, Violation) else _violation("accounting-differs", BY_PRICE, where)
    else:
        terms = {"releases": entry.price.releases, "rows_per_person": dataset.rows_per_person}
        for fault in charge_faults(entry.mechanism, taken, budget=FilterBudget.of(dataset), **terms):
            yield _violation("divergence-differs", fault, where)


def account_violations(
    price: ChargedPrice, taken: FilterCharge | None, mechanism: Fields, dataset: Dataset
) -> Iterator[Violation]:
    """Find a price of another relation, one beside a release that stands alone, and one past the budget."""
    added, where = dataset.added, f"dataset '{dataset.added.dataset}'"
    if price.relation != added.relation:
        fault = "the price and the budget hold for different neighbouring relations"
        yield _violation("relation-mismatch", fault, where, price=price.relation, budget=added.relation)
    if added.survey_rate is not None and price.releases > 1:
        yield _violation("survey-released", f"{where} is itself a sample and has a series", where)
    yield from lone_violations(mechanism, dataset)
    epsilon, delta = amounts_of(price, taken)
    if not (after := dataset.account.charged(epsilon=epsilon, delta=delta)).within_budget:
        charged: dict[str, Any] = {"price": price, "taken": taken, "mechanism": mechanism, "dataset": added}
        fault = f"the budget of {where} is exceeded"
        yield _violation("over-budget", fault, where, before=dataset.account, after=after, **charged)


def lone_violations(mechanism: Fields, dataset: Dataset) -> Iterator[Violation]:
    """Find a release beside another one of its data set, where one of them must stand alone."""
    # INVARIANT: a release that must stand alone is charged where the data set has no other, and none is charged after
    # it, by itself or as one of a series. So any one release tells, at a cost that does not grow with the ledger.
    added, where = dataset.added, f"dataset '{dataset.added.dataset}'"
    others = dataset.unrefunded if released_once(added, mechanism) else dataset.exclusive
    if (other := next(iter(others), None)) is not None:
        again = f"{where} is itself a sample and is released a second time"
        alone = f"a price of {where} holds for outcome counts alone, and something else is released"
        cause, fault = ("counts-not-alone", alone) if added.survey_rate is None else ("survey-released", again)
        yield _violation(cause, fault, where, other=other, exclusive=is_exclusive(mechanism))


def _of_registration(entry: SeriesRegistered, state: LedgerState) -> Iterator[Violation]:
    if entry.series in state.series:
        where = f"series '{entry.series}'"
        yield _violation("series-known", f"{where} is registered a second time", where, mistake=True)


def _of_place(entry: ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """Find a release that its series hasn't paid for: of other parameters, past its number, or at a place taken."""
    if (place := entry.series) is None:
        return
    series = state.series.get(place.name)
    if series is None:
        yield unknown("series", place.name)
        return
    registered = series.registered
    if parts := unpaid_parts(entry, registered):
        reason = None
        fault = f"series '{place.name}' has not paid for this release: {', '.join(parts)}"
        if parts == ("mechanism",) and isinstance(registered, FreeSeriesRegistered):
            reason = uncovered(entry.mechanism, registered, place.number)
            fault = f"{fault}: {reason}"
        yield series_changed(registered, fault=fault, parts=parts, reason=reason, number=place.number)
    if place.number > (paid := registered.price.releases):
        fault = f"series '{place.name}' has paid for {paid} releases, and this is one more"
        yield all_releases_taken(registered, number=place.number, fault=fault)
    if place.number in series.held:
        fault = f"release '{series.holders[place.number][-1]}' has this place in series '{place.name}'"
        yield all_releases_taken(registered, number=place.number, fault=fault)


def unpaid_parts(charge: ReleaseCharged, registered: SeriesRegistered) -> tuple[str, ...]:
    """Return in what a release differs from the series that is to pay for it; nothing where it is of its releases."""
    place, free = charge.series, isinstance(registered, FreeSeriesRegistered)
    differences = {
        "data set": charge.dataset != registered.dataset,
        "mechanism": uncovered(charge.mechanism, registered, None if place is None else place.number) is not None,
        "generalization map": not free and charge.map_digest != registered.map_digest,
        "price": charge.price != registered.price,
        "specification": place is None or place.spec_digest != registered.spec_digest,
    }
    return tuple(part for part, differs in differences.items() if differs)


def uncovered(mechanism: Fields, registered: SeriesRegistered, number: int | None) -> str | None:
    """Return why a series' price doesn't hold for a mechanism, in words; None where it does."""
    if mechanism == registered.mechanism:
        return None
    if not isinstance(registered, FreeSeriesRegistered):
        return "another mechanism"
    try:
        run, priced = (mechanism_of_record(dict(record)) for record in (mechanism, registered.mechanism))
        return not_covered(run, priced, number=number or 1)
    except (InputRefused, ValueError):
        return "another mechanism"


def series_changed(
    series: SeriesRegistered, *, fault: str, parts: tuple[str, ...], reason: str | None, number: int
) -> Violation:
    """Return that a series' price holds for other releases; `reason` is why not for a mechanism that may differ."""
    where = f"series '{series.series}'"
    return _violation("series-changed", fault, where, series=series, parts=parts, reason=reason, number=number)


def all_releases_taken(
    series: SeriesRegistered, *, number: int, fault: str = "all its releases are taken"
) -> Violation:
    """Return that a series, or its part that a number is of, has no place for one more release."""
    return _violation("series-finished", fault, f"series '{series.series}'", series=series, number=number)


def _of_step(entry: ReleaseReading | ReleasePublished | ReleaseAbandoned, state: LedgerState) -> Iterator[Violation]:
    """Find a step out of order: a release is read once, then published, and closed once; unread, it is refunded."""
    release, name = state.releases.get(entry.release_id), entry.release_id
    if release is None:
        yield unknown("release", name)
        return
    faults = [] if release.open else [f"release '{name}' was closed before"]
    read = release.stage != "charged" and not release.refunded
    match entry:
        case ReleaseReading() if read:
            faults.append(f"release '{name}' begins to read a second time")
        case ReleasePublished() if not read:
            faults.append(f"release '{name}' is published without reading")
        case ReleaseAbandoned(refunded=refunded) if refunded is read:
            faults.append("a cost is given back exactly where nothing was read, and here it is not so")
    for fault in faults:
        yield _violation("stage", fault, f"release '{name}'", stage=release.stage)


def _of_new_token(entry: TokenAdded, state: LedgerState) -> Iterator[Violation]:
    if entry.token_id in state.tokens:
        fault, where = f"token {entry.token_id} is added a second time", f"token '{entry.token_id}'"
        yield _violation("token-known", fault, where, mistake=True)


def _of_revocation(entry: TokenRevoked, state: LedgerState) -> Iterator[Violation]:
    known = state.tokens.get(entry.token_id)
    if known is None:
        yield unknown("token", entry.token_id)
    elif known.revoked is not None:
        fault, where = f"token {entry.token_id} is revoked a second time", f"token '{entry.token_id}'"
        yield _violation("unknown", fault, where, mistake=True, of="token", known=[])


Rule = Callable[[Any, LedgerState], Iterator[Violation]]
RULES: dict[type | UnionType, tuple[Rule, ...]] = {
    object: (_first,),
    DatasetAdded: (_of_dataset,),
    BudgetRaised: (_of_raise,),
    DataAccess: (_known_dataset,),
    SeriesRegistered: (_known_dataset, _of_registration, _of_population, _of_price, _of_payment),
    ReleaseCharged: (_known_dataset, _of_release, _of_population, _of_unit, _of_place, _of_price, _of_payment),
    ReleaseReading | ReleasePublished | ReleaseAbandoned: (_of_step,),
    TokenAdded: (_of_new_token,),
    TokenRevoked: (_of_revocation,),
}
"""Kind of entry → its rules, the weightiest first. A new rule is one function, and its name in one line here."""
