"""The ledger's rules: what an entry breaks, given the entries before it; the same for who writes and who verifies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from types import UnionType
from typing import Any

from ....mechanisms.kernel.amounts import amount_shown
from ....mechanisms.kernel.errors import InputRefused
from ..prices.registry import kind_of, mechanism_of_record
from .charge import enforced_unit, price_faults, what_fits
from .entry_types import (
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
    SeriesRegistered,
    TokenAdded,
    TokenRevoked,
)
from .entry_values import Account
from .ledger_state import Dataset, LedgerState, Release, amounts_of, is_exclusive, released_once
from .series_rules import place_violations, registration_violations
from .violation import Violation, unknown

__all__ = [
    "RULES",
    "budget_violations",
    "rows_violations",
    "survey_fault",
    "unit_violations",
    "violations",
]

Rule = Callable[[Any, LedgerState], Iterator[Violation]]


def violations(entry: Entry, state: LedgerState) -> Iterator[Violation]:
    """Give every rule that an entry would break as the next one, the weightiest first.

    INVARIANT: the writer refuses for the first, and the verification tells all of them: there is no second list.

    Args:
        entry: the entry.
        state: the ledger before it.
    """
    for kind, rules in RULES.items():
        if isinstance(entry, kind):
            for rule in rules:
                yield from rule(entry, state)


def _first(entry: Entry, state: LedgerState) -> Iterator[Violation]:
    if (state.head.position < 0) is not isinstance(entry, LedgerCreated):
        once, never = "a ledger is created once, by its first entry", "the first entry does not create the ledger"
        yield Violation(cause="first-entry", fault=never if state.head.position < 0 else once, where="ledger")


def _of_dataset(entry: DatasetAdded, state: LedgerState) -> Iterator[Violation]:
    where = f"dataset '{entry.dataset}'"
    if entry.dataset in state.datasets:
        yield Violation(
            fault=f"{where} is added a second time",
            what="a data set of this name is in the ledger already.",
            where=where,
            remedy="A new delivery of its records keeps the name and the budget; "
            "a larger budget is `crowdblend dataset raise`.",
            mistake=True,
        )
    if isinstance(entry, FilterDatasetAdded):
        from .filter_budget import FilterBudget, accounting_faults  # numerics that an additive data set does without

        for fault in accounting_faults(FilterBudget.of(entry)):
            yield Violation(fault=fault, where=where, mistake=True)


def _of_raise(entry: BudgetRaised, state: LedgerState) -> Iterator[Violation]:
    known = state.datasets.get(entry.dataset)
    if known is None:
        yield unknown("dataset", entry.dataset)
        return
    if isinstance(known.added, FilterDatasetAdded):
        yield Violation(
            fault="a filter budget is raised",
            what="it has a filter budget, which can't be raised: the proof holds for a budget, an order and a share of "
            "δ that were fixed before the first release.",
            where=f"dataset '{entry.dataset}'",
            remedy="Use what is left of it.",
            mistake=True,
        )
        return
    epsilon, delta = known.account.epsilon_budget, known.account.delta_budget
    lowered = entry.epsilon < epsilon or entry.delta < delta
    if lowered or (entry.epsilon, entry.delta) == (epsilon, delta):
        yield Violation(
            fault="a budget is lowered" if lowered else "a budget is raised to what it was",
            what=f"the budget is (ε, δ) = ({epsilon}, {delta}) and can only be raised, not set to "
            f"({entry.epsilon}, {entry.delta}).",
            where=f"dataset '{entry.dataset}'",
            mistake=True,
        )


def _known_dataset(entry: SeriesRegistered | ReleaseCharged | DataAccess, state: LedgerState) -> Iterator[Violation]:
    if entry.dataset not in state.datasets:
        yield unknown("dataset", entry.dataset)


def _of_unit(entry: ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """Find a release whose records were limited for another unit than its data set was registered with."""
    known = state.datasets.get(entry.dataset)
    fixed = known and known.added.fixed_unit
    name = enforced_unit(entry.sampler_layout) or RECORD
    if fixed and name != fixed.name:
        yield _other_unit(entry.dataset, asked=name, known=str(fixed), remedy=_unit_remedy(fixed))


def _of_price(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """Find a price that is not the mechanism's."""
    known = state.datasets.get(entry.dataset)
    where = f"release '{entry.release_id}'" if isinstance(entry, ReleaseCharged) else f"series '{entry.series}'"
    for fault in price_faults(
        mechanism=_priced_mechanism(entry, state),
        price=entry.price,
        epsilon_paper=entry.epsilon_paper,
        rows_per_person=1 if known is None else known.added.rows_per_person,
    ):
        yield Violation(cause="price-differs", fault=fault, where=where, remedy="Charge what the mechanism costs.")


def _of_payment(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """Find a charge that its data set's budget doesn't pay; a release of a series was paid for with the series."""
    known = state.datasets.get(entry.dataset)
    if known is None or (isinstance(entry, ReleaseCharged) and entry.series is not None):
        return
    yield from _of_accounting(entry, known.added)
    yield from _of_budget(entry.price, entry.of_filter, entry.mechanism, known)


def _priced_mechanism(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Fields:
    """The mechanism that an entry's price is of: for a release of a series with free columns the registered one."""
    if isinstance(entry, ReleaseCharged) and entry.series is not None:
        series = state.series.get(entry.series.name)
        if series is not None and isinstance(series.registered, FreeSeriesRegistered):
            return series.registered.mechanism
    return entry.mechanism


def _of_release(entry: ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """A release's id and its samples serve once."""
    where, remedy = f"release '{entry.release_id}'", "Draw a fresh sample: run again with a new release id."
    if (known := state.releases.get(entry.release_id)) is not None:
        yield Violation(
            cause="release-known",
            fault=f"release id '{entry.release_id}' is charged a second time",
            what=f"this release id is in the ledger already ({known.stage}).",
            where=where,
            remedy="Resume that release, or use another id.",
        )
    for _, taken in entry.samples:
        if (other := state.samples.get(taken)) is not None:
            fault = f"its sample was used by release '{other}'"
            what = f"{fault}, and a sample serves one release."
            yield Violation(cause="sample-used", fault=fault, what=what, where=where, remedy=remedy)
    for fault in _sample_faults(entry):
        yield Violation(cause="samples-differ", fault=fault, where=where, remedy=remedy)


def _sample_faults(charge: ReleaseCharged) -> tuple[str, ...]:
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


def _of_population(entry: SeriesRegistered | ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    if (known := state.datasets.get(entry.dataset)) is not None:
        yield from _of_survey(entry.mechanism, known.added)


def _of_survey(mechanism: Fields, dataset: DatasetAdded) -> Iterator[Violation]:
    """A price holds for the population as it was registered."""
    if (fault := survey_fault(mechanism, dataset.survey_rate)) is not None:
        yield Violation(
            cause="survey-differs",
            fault=fault,
            where=f"dataset '{dataset.dataset}'",
            remedy="Register the data under a name of their own with `crowdblend dataset add NAME --survey-rate RATE`, "
            "RATE being the largest; or draw a fresh sample with [sampling].rate.",
        )


def survey_fault(mechanism: Fields, survey_rate: Decimal | None) -> str | None:
    """What is wrong with a data set's own sampling as protection, in a sentence; None where nothing is.

    A mechanism that draws no coins of its own, and leans on those that the data were drawn with, is sound once: so
    its data set must be registered as a sample, which the ledger lets be released once, and its rates must not be
    below what was registered.
    """
    try:
        found = mechanism_of_record(dict(mechanism))
    except InputRefused:
        return None  # which has no price either, and that is said
    if (rate_of := kind_of(found).survey_rate) is None:
        return None
    if survey_rate is None:
        return "its price leans on the data having been sampled, and the data set is not registered as a sample"
    if survey_rate <= rate_of(found):
        return None
    return (
        f"it says that no record was sampled at a rate above {rate_of(found)}, and the data set is registered as "
        f"sampled at {survey_rate}"
    )


def rows_violations(known: Dataset, rows_per_person: int) -> Iterator[Violation]:
    """Find a price for another number of records of a person than its data set was registered with.

    The number is in no entry of a charge: a verification prices by the registered one.

    Args:
        known: the data set.
        rows_per_person: the most records of one person that the price was computed for.
    """
    if rows_per_person != (registered := known.added.rows_per_person):
        yield Violation(
            cause="rows-per-person",
            what=f"it was added with at most {_records(registered)} of a person in a delivery, and this price covers "
            f"{_records(rows_per_person)}.",
            where=f"dataset '{known.added.dataset}'",
            remedy=f"Write rows_per_person = {registered} below [data].",
        )


def unit_violations(name: str, unit: DatasetUnit, state: LedgerState) -> Iterator[Violation]:
    """What speaks against hiding a unit's presence, before anything is charged: all charges of a budget hide one unit.

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
            yield _other_unit(name, asked=str(unit), known=str(fixed), remedy=_unit_remedy(fixed))
        return
    released = {state.releases[release_id].unit for release_id in dataset.standing}
    if released - {unit.name}:
        known = " and ".join(sorted(released))
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


def budget_violations(
    price: ChargedPrice, *, mechanism: Fields, rows_per_person: int, known: Dataset
) -> Iterator[Violation]:
    """Give what speaks against charging a price to a data set, as far as it is known before the charge.

    Args:
        price: what would be charged.
        mechanism: the mechanism's versioned record.
        rows_per_person: the most records of one person in a delivery that the price covers.
        known: the data set whose budget would pay, as it is now.
    """
    yield from _of_survey(mechanism, known.added)
    yield from rows_violations(known, rows_per_person)
    taken = _taken(mechanism, price, known.added) if isinstance(known.added, FilterDatasetAdded) else None
    if isinstance(taken, Violation):
        yield taken
        return
    yield from _of_budget(price, taken, mechanism, known)


def _taken(mechanism: Fields, price: ChargedPrice, dataset: FilterDatasetAdded) -> FilterCharge | Violation:
    """What releases would take of a filter budget, or that it can't pay for them."""
    from .filter_budget import FilterBudget, filter_charge  # numerics that an additive data set does without

    try:
        budget, rows = FilterBudget.of(dataset), dataset.rows_per_person
        return filter_charge(mechanism, budget=budget, releases=price.releases, rows_per_person=rows)
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


def _of_accounting(entry: SeriesRegistered | ReleaseCharged, dataset: DatasetAdded) -> Iterator[Violation]:
    """A filter budget pays divergences of its own order, computed from the mechanism; an additive one ε and δ."""
    taken, where = entry.of_filter, f"dataset '{dataset.dataset}'"
    if not isinstance(dataset, FilterDatasetAdded):
        if taken is not None:
            fault = "it takes a divergence of a budget that adds up ε and δ"
            yield Violation(cause="accounting-differs", fault=fault, where=where)
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
        due = _taken(entry.mechanism, entry.price, dataset)
        plain = Violation(cause="accounting-differs", fault=BY_PRICE, where=where)
        yield due if isinstance(due, Violation) else plain
        return
    from .filter_budget import FilterBudget, charge_faults  # numerics that an additive data set does without

    terms = {"releases": entry.price.releases, "rows_per_person": dataset.rows_per_person}
    for fault in charge_faults(entry.mechanism, taken, budget=FilterBudget.of(dataset), **terms):
        remedy = "Charge what the mechanism takes."
        yield Violation(cause="divergence-differs", fault=fault, where=where, remedy=remedy)


def _of_budget(
    price: ChargedPrice, taken: FilterCharge | None, mechanism: Fields, known: Dataset
) -> Iterator[Violation]:
    """A budget pays for prices of its own relation, once where that is all that is proved, and as far as it goes."""
    dataset, account, where = known.added, known.account, f"dataset '{known.added.dataset}'"
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
            fault=f"{where} is itself a sample and has a series",
            what="it is itself a sample and can be released once, so it can have no series.",
            where=where,
            remedy="Release it once, without a series.",
        )
    # INVARIANT: a release that must stand alone is charged where the data set has no other, and none is charged after
    # it. So any one release tells, at a cost that does not grow with the ledger.
    others = known.standing if released_once(dataset, mechanism) else known.exclusive
    if (other := next(iter(others), None)) is not None:
        yield _beside(mechanism, dataset=dataset, other=other)
    epsilon, delta = amounts_of(price, taken)
    if not (after := account.charged(epsilon=epsilon, delta=delta)).within_budget:
        asked = "this release" if price.releases == 1 else f"this series of {price.releases} releases"
        symbols = ("ε", "δ") if taken is None else (f"the divergence of order {taken.order:f}", "the tails")
        yield Violation(
            cause="over-budget",
            fault=f"the budget of {where} is exceeded",
            what=f"{asked} would bring {_excess(account, after, symbols=symbols)}.",
            where=where,
            remedy=lambda: _what_fits(account, price, mechanism=mechanism, dataset=dataset),
        )


def _what_fits(account: Account, price: ChargedPrice, *, mechanism: Fields, dataset: DatasetAdded) -> str:
    """Return what is left of a budget, and what would fit into that."""
    claimed = dataset.rows_per_person
    if not isinstance(dataset, FilterDatasetAdded):
        return what_fits(account, price, mechanism=mechanism, rows_per_person=claimed)
    from .filter_budget import FilterBudget, what_fits_filter  # numerics that an additive data set does without

    terms = {"releases": price.releases, "rows_per_person": claimed}
    return what_fits_filter(account, mechanism=mechanism, budget=FilterBudget.of(dataset), **terms)


def _beside(mechanism: Fields, *, dataset: DatasetAdded, other: str) -> Violation:
    """A release that may not stand beside another one."""
    where = f"dataset '{dataset.dataset}'"
    if dataset.survey_rate is not None:
        return Violation(
            cause="survey-released",
            fault=f"{where} is itself a sample and is released a second time",
            what="it is itself a sample, can be released once, and has been: its sampling was part of that "
            f"price (release '{other}').",
            where=where,
            remedy="Use what was published.",
        )
    return Violation(
        cause="counts-not-alone",
        fault=f"a price of {where} holds for outcome counts alone, and something else is released",
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
    release, name = state.releases.get(entry.release_id), entry.release_id
    if release is None:
        yield unknown("release", name)
        return
    if not release.open:
        yield _misstep(release, fault=f"release '{name}' was closed before")
    read = release.stage != "charged" and not release.refunded
    match entry:
        case ReleaseReading() if read:
            yield _misstep(release, fault=f"release '{name}' begins to read a second time")
        case ReleasePublished() if not read:
            yield _misstep(release, fault=f"release '{name}' is published without reading")
        case ReleaseAbandoned(refunded=refunded) if refunded is read:
            fault = "a cost is given back exactly where nothing was read, and here it is not so"
            yield _misstep(release, fault=fault)
        case _:
            pass


def _misstep(release: Release, *, fault: str) -> Violation:
    """A step that a release's stage does not allow."""
    what, remedy = f"this release is {release.stage} and can't change any more.", "Use another release id."
    if release.stage == "charged":
        what, remedy = "nothing was read for this release, so nothing can be published.", ""
    return Violation(fault=fault, what=what, where=f"release '{release.release_id}'", remedy=remedy)


def _of_new_token(entry: TokenAdded, state: LedgerState) -> Iterator[Violation]:
    if entry.token_id in state.tokens:
        fault, remedy = f"token {entry.token_id} is added a second time", "Add it again: another id is drawn."
        yield Violation(fault=fault, where=f"token '{entry.token_id}'", remedy=remedy, mistake=True)


def _of_revocation(entry: TokenRevoked, state: LedgerState) -> Iterator[Violation]:
    known = state.tokens.get(entry.token_id)
    if known is None:
        yield unknown("token", entry.token_id)
    elif known.revoked is not None:
        yield replace(unknown("token", entry.token_id), fault=f"token {entry.token_id} is revoked a second time")


def _records(count: int) -> str:
    return "one record" if count == 1 else f"{count} records"


def _excess(before: Account, after: Account, *, symbols: tuple[str, str]) -> str:
    sums = (
        (symbols[0], before.epsilon_spent, after.epsilon_spent, after.epsilon_budget),
        (symbols[1], before.delta_spent, after.delta_spent, after.delta_budget),
    )
    return " and ".join(
        f"{symbol} from {amount_shown(old)} to {amount_shown(new)}, past the budget {amount_shown(budget)}"
        for symbol, old, new, budget in sums
        if new > budget
    )


RULES: dict[type | UnionType, tuple[Rule, ...]] = {
    object: (_first,),
    DatasetAdded: (_of_dataset,),
    BudgetRaised: (_of_raise,),
    DataAccess: (_known_dataset,),
    SeriesRegistered: (_known_dataset, registration_violations, _of_population, _of_price, _of_payment),
    ReleaseCharged: (_known_dataset, _of_release, _of_population, _of_unit, place_violations, _of_price, _of_payment),
    ReleaseReading | ReleasePublished | ReleaseAbandoned: (_of_step,),
    TokenAdded: (_of_new_token,),
    TokenRevoked: (_of_revocation,),
}
"""Kind of entry → its rules, the weightiest first. A new rule is one function, and its name in one line here."""
