"""The ledger's rules: what an entry breaks, given the entries before it; the same for who writes and who verifies."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import replace
from decimal import Decimal
from typing import assert_never

from ....mechanisms.amounts import amount_shown
from ....mechanisms.errors import InputRefused
from ...theory.kinds.registry import kind_of, mechanism_of_record
from ..chain.append import amounts_of, is_exclusive, released_once
from ..charge import enforced_unit, price_faults, what_fits
from ..entries.kinds import (
    RECORD,
    BudgetRaised,
    ChargedPrice,
    DataAccess,
    DatasetAdded,
    DatasetUnit,
    Entry,
    Fields,
    FilterCharge,
    FilterDatasetAdded,
    FreeSeriesRegistered,
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
from ..entries.values import Account
from ..queries import stage_of
from .rule import LedgerState, StoredState, Violation, unknown
from .series import place_violations, registration_violations

__all__ = [
    "budget_violations",
    "sample_faults",
    "survey_fault",
    "unit_violations",
    "violations",
]

CLOSED = frozenset({"published", "abandoned", "refunded"})


def violations(entry: Entry, state: LedgerState, *, rows_per_person: int | None = None) -> Iterator[Violation]:
    """Every rule that an entry would break as the next one, the weightiest first; none for one that may be written.

    INVARIANT: the writer refuses for the first, and the verification tells all of them, each from its own knowledge
    of the entries before (`StoredState`, `Replay`): there is no second list of rules.

    Args:
        entry: the entry.
        state: the ledger before it.
        rows_per_person: the most records of one person that its price was computed for, as the writer knows it; None
            where nothing but the entry is known: then what its data set was registered with.
    """
    match entry:
        case LedgerCreated() | ReleaseRefused():
            pass
        case DatasetAdded():
            yield from _of_dataset(entry, state)
        case BudgetRaised():
            yield from _of_raise(entry, state)
        case DataAccess():
            if state.dataset(entry.dataset) is None:
                yield unknown("dataset", entry.dataset)
        case SeriesRegistered() | ReleaseCharged():
            yield from _of_charge(entry, state, rows_per_person)
        case ReleaseReading() | ReleasePublished() | ReleaseAbandoned():
            yield from _of_step(entry, state)
        case TokenAdded() | TokenRevoked():
            yield from _of_token(entry, state)
        case _:
            assert_never(entry)
    if (state.position == 0) is not isinstance(entry, LedgerCreated):
        once, never = "a ledger is created once, by its first entry", "the first entry does not create the ledger"
        fault = once if state.position else never
        yield Violation(cause="first-entry", fault=fault, what=f"{fault}.", where="ledger", remedy="")


def _of_dataset(entry: DatasetAdded, state: LedgerState) -> Iterator[Violation]:
    if state.dataset(entry.dataset) is not None:
        yield Violation(
            fault=f"dataset '{entry.dataset}' is added a second time",
            what="a data set of this name is in the ledger already.",
            where=f"dataset '{entry.dataset}'",
            remedy="A new delivery of its records keeps the name and the budget; "
            "a larger budget is `crowdblend dataset raise`.",
            mistake=True,
        )
    if isinstance(entry, FilterDatasetAdded):
        from ..filter_budget import FilterBudget, accounting_faults  # numerics that an additive data set does without

        for fault in accounting_faults(FilterBudget.of(entry)):
            where = f"dataset '{entry.dataset}'"
            yield Violation(fault=fault, what=f"{fault}.", where=where, remedy="", mistake=True)


def _of_raise(entry: BudgetRaised, state: LedgerState) -> Iterator[Violation]:
    before = state.account(entry.dataset)
    if before is None:
        yield unknown("dataset", entry.dataset)
        return
    if isinstance(state.dataset(entry.dataset), FilterDatasetAdded):
        yield Violation(
            fault="a filter budget is raised",
            what="it has a filter budget, which can't be raised: the proof holds for a budget, an order and a share of "
            "δ that were fixed before the first release.",
            where=f"dataset '{entry.dataset}'",
            remedy="Use what is left of it.",
            mistake=True,
        )
        return
    epsilon, delta = before.account.epsilon_budget, before.account.delta_budget
    lowered = entry.epsilon < epsilon or entry.delta < delta
    if lowered or (entry.epsilon, entry.delta) == (epsilon, delta):
        yield Violation(
            fault="a budget is lowered" if lowered else "a budget is raised to what it was",
            what=f"the budget is (ε, δ) = ({epsilon}, {delta}) and can only be raised, not set to "
            f"({entry.epsilon}, {entry.delta}).",
            where=f"dataset '{entry.dataset}'",
            remedy="",
            mistake=True,
        )


def _of_charge(
    entry: SeriesRegistered | ReleaseCharged, state: LedgerState, rows_per_person: int | None
) -> Iterator[Violation]:
    """What speaks against a release or a series that is charged; the price of one that a series paid for was charged
    with the series.
    """
    dataset, before = state.dataset(entry.dataset), state.account(entry.dataset)
    if dataset is None or before is None:
        yield unknown("dataset", entry.dataset)
    place, registered = None, 1 if dataset is None else dataset.rows_per_person
    claimed = registered if rows_per_person is None else rows_per_person
    match entry:
        case SeriesRegistered():
            where = f"series '{entry.series}'"
            yield from registration_violations(entry, state)
        case ReleaseCharged():
            where, place = f"release '{entry.release_id}'", entry.series
            yield from _of_release(entry, state)
        case _:
            assert_never(entry)
    if dataset is not None:
        yield from _of_population(entry.mechanism, claimed, dataset)
        fixed = dataset.fixed_unit
        if fixed is not None and isinstance(entry, ReleaseCharged):
            name = enforced_unit(entry.sampler_layout) or RECORD
            if name != fixed.name:
                yield _other_unit(dataset.dataset, asked=name, known=str(fixed), remedy=_unit_remedy(fixed))
    if isinstance(entry, ReleaseCharged) and place is not None:
        yield from place_violations(entry, place, state)
    for fault in price_faults(
        mechanism=_priced_mechanism(entry, state),
        price=entry.price,
        epsilon_paper=entry.epsilon_paper,
        rows_per_person=claimed,
    ):
        remedy = "Charge what the mechanism costs."
        yield Violation(cause="price-differs", fault=fault, what=f"{fault}.", where=where, remedy=remedy)
    if dataset is not None and before is not None and place is None:
        yield from _of_accounting(entry, claimed, dataset)
        yield from _of_budget(entry.price, entry.of_filter, entry.mechanism, claimed, dataset, before.account, state)


def _priced_mechanism(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Fields:
    """The mechanism that an entry's price is of: for a release of a series with free columns the registered one."""
    if isinstance(entry, ReleaseCharged) and entry.series is not None:
        series = state.series(entry.series.name)
        if isinstance(series, FreeSeriesRegistered):
            return series.mechanism
    return entry.mechanism


def _of_release(entry: ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """A release's id and its samples serve once."""
    where, remedy = f"release '{entry.release_id}'", "Draw a fresh sample: run again with a new release id."
    if state.payment(entry.release_id) is not None:
        yield Violation(
            cause="release-known",
            fault=f"release id '{entry.release_id}' is charged a second time",
            what=f"this release id is in the ledger already ({stage_of(state.outcomes(entry.release_id))}).",
            where=where,
            remedy="Resume that release, or use another id.",
        )
    for _, taken in entry.samples:
        if (other := state.release_of_sample(taken)) is not None:
            fault = f"its sample was used by release '{other}'"
            what = f"{fault}, and a sample serves one release."
            yield Violation(cause="sample-used", fault=fault, what=what, where=where, remedy=remedy)
    for fault in sample_faults(entry):
        yield Violation(cause="samples-differ", fault=fault, what=f"{fault}.", where=where, remedy=remedy)


def sample_faults(charge: ReleaseCharged) -> tuple[str, ...]:
    """What is wrong with a charge's samples, in sentences; nothing where they are what its mechanism reads.

    A release reads a sample of its own. A map that is chosen on a fresh sample is chosen on another one, since the
    release's price holds for a choice that its own sample has no part in (docs/proofs/selection.md). One that reads
    every record takes a sample all the same, and draws nothing from it: the sample's id ties charge, draws and output
    together (docs/decisions/0009-releases-without-a-sample.md).
    """
    try:
        mechanism = mechanism_of_record(dict(charge.mechanism))
    except InputRefused:
        return ()  # which has no price either, and that is said
    needed = kind_of(mechanism).samples(mechanism)
    if needed == 0:
        return ("its mechanism is a series of several, and a release runs one of them",)
    taken = [sample for _, sample in charge.samples]
    if len(taken) != needed:
        return (f"its mechanism reads {needed} samples, and {len(taken)} are taken",)
    if len(set(taken)) != needed:
        return ("its map would be chosen on the release's own sample",)
    return ()


def _of_population(mechanism: Fields, claimed: int, dataset: DatasetAdded) -> Iterator[Violation]:
    """A price holds for the population as it was registered: how it was sampled, and how many records a person has."""
    where = f"dataset '{dataset.dataset}'"
    fault = survey_fault(mechanism, dataset.survey_rate)
    if fault is not None:
        yield Violation(
            cause="survey-differs",
            fault=fault,
            what=f"{fault}.",
            where=where,
            remedy="Register the data under a name of their own with `crowdblend dataset add NAME --survey-rate RATE`, "
            "RATE being the largest; or draw a fresh sample with [sampling].rate.",
        )
    if claimed != dataset.rows_per_person:
        yield Violation(
            cause="rows-per-person",
            what=f"it was added with at most {_records(dataset.rows_per_person)} of a person in a delivery, and this "
            f"price covers {_records(claimed)}.",
            where=where,
            remedy=f"Write rows_per_person = {dataset.rows_per_person} below [data].",
        )


def unit_violations(name: str, unit: DatasetUnit, state: StoredState) -> Iterator[Violation]:
    """What speaks against hiding a unit's presence, before anything is charged: all charges of a budget hide one unit.

    Releases of different units cost each of them more than the sum of their prices (docs/proofs/persons.md). A data set
    that an earlier version added has no unit, so the one that its releases have is the only one from now on; entries
    that are there aren't asked, since earlier versions didn't ask, and no entry of such a data set has the column.

    Args:
        name: of the data set.
        unit: whose presence what is charged would hide.
        state: the ledger now.
    """
    dataset = state.dataset(name)
    if dataset is None:
        return
    if (fixed := dataset.fixed_unit) is not None:
        if unit != fixed:
            yield _other_unit(name, asked=str(unit), known=str(fixed), remedy=_unit_remedy(fixed))
        return
    if state.units_released(name) - {unit.name}:
        known = " and ".join(sorted(state.units_released(name)))
        remedy = (
            "Register the records under another name with `crowdblend dataset add NAME --unit UNIT`, and at most what "
            "is left of this budget: what both spend adds up."
        )
        yield _other_unit(name, asked=unit.name, known=known, remedy=remedy)


def _other_unit(dataset: str, *, asked: str, known: str, remedy: str) -> Violation:
    return Violation(
        cause="unit-differs",
        fault=f"its unit is '{asked}', and that of dataset '{dataset}' is '{known}'",
        what=f"the unit of all its releases is '{known}', and of this one it would be '{asked}': a budget covers no "
        "unit if its releases have different ones.",
        where=f"dataset '{dataset}'",
        remedy=remedy,
    )


def _unit_remedy(fixed: DatasetUnit) -> str:
    """Return what makes a specification one of a data set's unit."""
    if fixed.column is not None:
        return f'Write {fixed.name} = "{fixed.column}" below [data].'
    return (
        "Leave person and household out of [data]. To limit records by a column, register them under another name with "
        "`crowdblend dataset add NAME --unit person:COLUMN`; what both spend adds up."
    )


def survey_fault(mechanism: Fields, survey_rate: Decimal | None) -> str | None:
    """What is wrong with a data set's own sampling as protection, in a sentence; None where nothing is.

    A mechanism that draws no coins of its own, and leans on those that the data were drawn with, is sound once: so
    its data set must be registered as a sample, which the ledger lets be released once, and its rates must not be
    below what was registered.

    Args:
        mechanism: the mechanism's versioned record.
        survey_rate: as registered; None for a data set that is no sample.
    """
    try:
        found = mechanism_of_record(dict(mechanism))
    except InputRefused:
        return None  # which has no price either, and that is said
    rate_of = kind_of(found).survey_rate
    if rate_of is None:
        return None
    if survey_rate is None:
        return "its price leans on the data having been sampled, and the data set is not registered as a sample"
    if survey_rate > rate_of(found):
        return (
            f"it says that no record was sampled at a rate above {rate_of(found)}, and the data set is registered "
            f"as sampled at {survey_rate}"
        )
    return None


def budget_violations(
    price: ChargedPrice, *, mechanism: Fields, rows_per_person: int, dataset: str, state: LedgerState
) -> Iterator[Violation]:
    """What speaks against charging a price to a data set, whatever the release: what can be known before its charge.

    Args:
        price: what would be charged.
        mechanism: the mechanism's versioned record.
        rows_per_person: the most records of one person in a delivery that the price covers.
        dataset: whose budget would pay.
        state: the ledger now.
    """
    known, before = state.dataset(dataset), state.account(dataset)
    if known is None or before is None:
        yield unknown("dataset", dataset)
        return
    yield from _of_population(mechanism, rows_per_person, known)
    taken = _taken(mechanism, price, known, rows_per_person) if isinstance(known, FilterDatasetAdded) else None
    if isinstance(taken, Violation):
        yield taken
        return
    yield from _of_budget(price, taken, mechanism, rows_per_person, known, before.account, state)


def _taken(
    mechanism: Fields, price: ChargedPrice, dataset: FilterDatasetAdded, claimed: int
) -> FilterCharge | Violation:
    """What releases would take of a filter budget, or that it can't pay for them."""
    from ..filter_budget import FilterBudget, filter_charge  # numerics that an additive data set does without

    try:
        return filter_charge(
            mechanism, budget=FilterBudget.of(dataset), releases=price.releases, rows_per_person=claimed
        )
    except InputRefused as error:
        why = error.what
    except (ArithmeticError, ValueError) as error:
        why = f"{error}."
    return Violation(
        cause="no-divergence",
        fault=BY_PRICE,
        what=f"it has a filter budget, which can't pay for {dict(mechanism).get('kind')}: {why}",
        where=f"dataset '{dataset.dataset}'",
        remedy="Use another mechanism, or a data set whose prices are added up.",
    )


BY_PRICE = "it is charged by ε and δ to a filter budget, which pays divergences alone"


def _of_accounting(
    entry: SeriesRegistered | ReleaseCharged, claimed: int, dataset: DatasetAdded
) -> Iterator[Violation]:
    """A filter budget pays divergences of its own order, computed from the mechanism; an additive one ε and δ."""
    taken, where = entry.of_filter, f"dataset '{dataset.dataset}'"
    if not isinstance(dataset, FilterDatasetAdded):
        if taken is not None:
            fault = "it takes a divergence of a budget that adds up ε and δ"
            yield Violation(cause="accounting-differs", fault=fault, what=f"{fault}.", where=where, remedy="")
        return
    if isinstance(entry, FreeSeriesRegistered):
        yield Violation(
            cause="accounting-differs",
            fault=BY_PRICE,
            what="it has a filter budget, which pays for no series with free columns: there each release may have "
            "columns of its own without one.",
            where=where,
            remedy="Run each release for itself, or leave --free-columns out.",
        )
        return
    if taken is None:
        due = _taken(entry.mechanism, entry.price, dataset, claimed)
        plain = Violation(cause="accounting-differs", fault=BY_PRICE, what=f"{BY_PRICE}.", where=where, remedy="")
        yield due if isinstance(due, Violation) else plain
        return
    from ..filter_budget import FilterBudget, charge_faults  # numerics that an additive data set does without

    for fault in charge_faults(
        entry.mechanism,
        taken,
        budget=FilterBudget.of(dataset),
        releases=entry.price.releases,
        rows_per_person=claimed,
    ):
        remedy = "Charge what the mechanism takes."
        yield Violation(cause="divergence-differs", fault=fault, what=f"{fault}.", where=where, remedy=remedy)


def _of_budget(
    price: ChargedPrice,
    taken: FilterCharge | None,
    mechanism: Fields,
    claimed: int,
    dataset: DatasetAdded,
    account: Account,
    state: LedgerState,
) -> Iterator[Violation]:
    """A budget pays for prices of its own relation, once where that is all that is proved, and as far as it goes."""
    name, where = dataset.dataset, f"dataset '{dataset.dataset}'"
    if price.relation != dataset.relation:
        yield Violation(
            cause="relation-mismatch",
            fault="the price and the budget hold for different neighbouring relations",
            what=f"this price holds for the neighbouring relation {price.relation}, the budget's is "
            f"{dataset.relation}.",
            where=where,
            remedy="Use a mechanism that is priced for the budget's relation.",
        )
    if dataset.survey_rate is not None and price.releases > 1:
        yield Violation(
            cause="survey-released",
            fault=f"dataset '{name}' is itself a sample and has a series",
            what="it is itself a sample and can be released once, so it can have no series.",
            where=where,
            remedy="Release it once, without a series.",
        )
    # INVARIANT: a release that must stand alone is charged where the data set has no other, and none is charged after
    # it. So any one release tells, at a cost that does not grow with the ledger.
    other = state.standing(name, exclusive=not released_once(dataset, mechanism))
    if other is not None:
        yield _beside(mechanism, dataset=dataset, other=other)
    epsilon, delta = amounts_of(price, taken)
    after = account.charged(epsilon=epsilon, delta=delta)
    if not after.within_budget:
        asked = "this release" if price.releases == 1 else f"this series of {price.releases} releases"
        symbols = ("ε", "δ") if taken is None else (f"the divergence of order {taken.order:f}", "the tails")
        yield Violation(
            cause="over-budget",
            fault=f"the budget of dataset '{name}' is exceeded",
            what=f"{asked} would bring {_excess(account, after, symbols=symbols)}.",
            where=where,
            remedy=lambda: _what_fits(account, price, mechanism=mechanism, dataset=dataset, claimed=claimed),
        )


def _what_fits(account: Account, price: ChargedPrice, *, mechanism: Fields, dataset: DatasetAdded, claimed: int) -> str:
    """What is left of a budget, and what would fit into that."""
    if not isinstance(dataset, FilterDatasetAdded):
        return what_fits(account, price, mechanism=mechanism, rows_per_person=claimed)
    from ..filter_budget import FilterBudget, what_fits_filter  # numerics that an additive data set does without

    budget = FilterBudget.of(dataset)
    return what_fits_filter(
        account, mechanism=mechanism, budget=budget, releases=price.releases, rows_per_person=claimed
    )


def _beside(mechanism: Fields, *, dataset: DatasetAdded, other: str) -> Violation:
    """A release that may not stand beside another one."""
    name, where = dataset.dataset, f"dataset '{dataset.dataset}'"
    if dataset.survey_rate is not None:
        return Violation(
            cause="survey-released",
            fault=f"dataset '{name}' is itself a sample and is released a second time",
            what="it is itself a sample, can be released once, and has been: its sampling was part of that "
            f"price (release '{other}').",
            where=where,
            remedy="Use what was published.",
        )
    return Violation(
        cause="counts-not-alone",
        fault=f"a price of dataset '{name}' holds for outcome counts alone, and something else is released",
        what="the price of outcome counts holds only while nothing else is published of their reports, and this "
        f"release would stand beside release '{other}'.",
        where=where,
        remedy="Use what was published; or, where that was at another price, leave out [privacy] and least_people: the "
        "reports themselves can be charged."
        if is_exclusive(mechanism)
        else "Use what was published.",
    )


def _of_step(entry: ReleaseReading | ReleasePublished | ReleaseAbandoned, state: LedgerState) -> Iterator[Violation]:
    """A release is read once, published after it was read, and closed once; unread, its cost is given back."""
    name, outcomes, paid = entry.release_id, state.outcomes(entry.release_id), state.payment(entry.release_id)
    if not outcomes:
        yield unknown("release", name)
        return
    if paid is not None and state.dataset(paid.dataset) is None:
        yield unknown("dataset", paid.dataset)
    if outcomes & CLOSED:
        yield _misstep(name, outcomes, fault=f"release '{name}' was closed before")
    read = "reading" in outcomes
    match entry:
        case ReleaseReading() if read:
            yield _misstep(name, outcomes, fault=f"release '{name}' begins to read a second time")
        case ReleasePublished() if not read:
            yield _misstep(name, outcomes, fault=f"release '{name}' is published without reading", lacking=True)
        case ReleaseAbandoned(refunded=refunded) if refunded is read:
            fault = "a cost is given back exactly where nothing was read, and here it is not so"
            yield _misstep(name, outcomes, fault=fault)
        case _:
            pass


def _misstep(release_id: str, outcomes: Set[str], *, fault: str, lacking: bool = False) -> Violation:
    """A step that a release's stage does not allow."""
    stage, where = stage_of(outcomes), f"release '{release_id}'"
    what, remedy = f"this release is {stage} and can't change any more.", "Use another release id."
    if stage == "charged":
        what, remedy = "nothing was read for this release, so nothing can be published.", ""
    return Violation(fault=fault, what=what, where=where, remedy=remedy, lacking=lacking)


def _of_token(entry: TokenAdded | TokenRevoked, state: LedgerState) -> Iterator[Violation]:
    revoked, name = state.revoked(entry.token_id), entry.token_id
    match entry:
        case TokenAdded() if revoked is not None:
            yield Violation(
                fault=f"token {name} is added a second time",
                what="a token of this id is in the ledger already.",
                where=f"token '{name}'",
                remedy="Add it again: another id is drawn.",
                mistake=True,
            )
        case TokenRevoked() if revoked is None:
            yield unknown("token", name)
        case TokenRevoked() if revoked:
            yield replace(unknown("token", name), fault=f"token {name} is revoked a second time", lacking=False)
        case _:
            pass


def _records(count: int) -> str:
    return "one record" if count == 1 else f"{count} records"


def _excess(before: Account, after: Account, *, symbols: tuple[str, str]) -> str:
    parts = []
    for symbol, old, new, budget in (
        (symbols[0], before.epsilon_spent, after.epsilon_spent, after.epsilon_budget),
        (symbols[1], before.delta_spent, after.delta_spent, after.delta_budget),
    ):
        if new > budget:
            shown = [amount_shown(amount) for amount in (old, new, budget)]
            parts.append(f"{symbol} from {shown[0]} to {shown[1]}, past the budget {shown[2]}")
    return " and ".join(parts)
