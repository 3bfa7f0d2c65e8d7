"""Say to whoever breaks one of the ledger's rules what is wrong, with its numbers, and what can be done.

Advice on what would fit a budget takes a search, so it is made here, after the writer's transaction has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from ...mechanisms.kernel.amounts import amount_shown
from ...mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal
from ...mechanisms.wording import did_you_mean
from ..kernel.field_forms import Fields
from ..kernel.ledger.entries import ChargedPrice, FilterDatasetAdded, FreeSeriesRegistered, sorted_fields
from ..kernel.ledger.filter_budget import FilterBudget, filter_charge
from ..kernel.ledger.ledger_state import Account
from ..kernel.ledger.rules import RuleBroken, Violation
from ..kernel.prices.registry import filter_rules, mechanism_of_record

USE_IT = "Use what was published."
FRESH = "Draw a fresh sample: run again with a new release id."
RESTORE = "Restore what was changed, or run without --series: a release of its own is charged for itself."


def refusal_of(violation: Violation) -> Refusal:
    """Return the refusal that a person reads for a broken rule."""
    words = WORDS.get(violation.cause, ("", ""))
    if callable(words):
        what, remedy = words(violation)
    else:
        what, remedy = (part.format_map({**violation.numbers, "fault": violation.fault}) for part in words)
    refused, cause = (InputRefused, "") if violation.mistake else (AccountantRefused, violation.cause)
    # Programs know a step that a release's stage doesn't allow by no cause of its own.
    cause = "" if cause == "stage" else cause
    return refused(what or f"{violation.fault}.", where=violation.where, remedy=remedy, cause=cause)


@contextmanager
def worded() -> Iterator[None]:
    """Turn a broken rule into the refusal that a person reads."""
    try:
        yield
    except RuleBroken as broken:
        raise refusal_of(broken.violation) from None


UNKNOWN = {
    "dataset": (
        "the ledger has no data set of this name.",
        "Register it and its budget with `crowdblend dataset add`; with --unit where [data] has person or household.",
    ),
    "series": ("the ledger has no series of this name.", "Register it with `crowdblend series add`."),
    "release": ("the ledger has no such release.", "`crowdblend ledger show` lists them."),
    "token": ("there is no such token, or it was revoked before.", "`crowdblend token list` shows them."),
}


def _unknown(violation: Violation) -> Words:
    """Name a similar one before anything new is proposed: a second name of a data set would be a second budget."""
    what, remedy = UNKNOWN[violation.numbers["of"]]
    name = violation.where.partition("'")[2].removesuffix("'")
    if similar := did_you_mean([name], violation.numbers["known"]):
        remedy = f"{similar} If it is another one: {remedy[0].lower()}{remedy[1:]}"
    return what, remedy


def _unit_differs(violation: Violation) -> Words:
    """Say what makes a specification one of a data set's unit; of a data set that fixes none, where it would be."""
    known, asked, fixed = (violation.numbers[name] for name in ("known", "asked", "fixed"))
    what = (
        f"the unit of all its releases is '{known}', and of this one it would be '{asked}': a budget covers no unit if "
        "its releases have different ones."
    )
    if fixed is None:
        return what, (
            "Register the records under another name with `crowdblend dataset add NAME --unit UNIT`, and at most what "
            "is left of this budget: what both spend adds up."
        )
    if fixed.column is not None:
        return what, f'Write {fixed.name} = "{fixed.column}" below [data].'
    return what, (
        "Leave person and household out of [data]. To limit records by a column, register them under another name with "
        "`crowdblend dataset add NAME --unit person:COLUMN`; what both spend adds up."
    )


def _rows_per_person(violation: Violation) -> Words:
    registered, asked = (
        "one record" if count == 1 else f"{count} records"
        for count in (violation.numbers["registered"], violation.numbers["asked"])
    )
    what = f"it was added with at most {registered} of a person in a delivery, and this price covers {asked}."
    return what, f"Write rows_per_person = {violation.numbers['registered']} below [data]."


def _accounting_differs(violation: Violation) -> Words:
    if "free_columns" not in violation.numbers:
        return "", ""
    what = (
        "it has a filter budget, which pays for no series with free columns: there each release may have columns of "
        "its own without one."
    )
    return what, "Run each release for itself, or leave --free-columns out."


def _survey_released(violation: Violation) -> Words:
    if "other" not in violation.numbers:
        what = "it is itself a sample and can be released once, so it can have no series."
        return what, "Release it once, without a series."
    what = "it is itself a sample, can be released once, and has been: its sampling was part of that price (release "
    return f"{what}'{violation.numbers['other']}').", USE_IT


def _counts_not_alone(violation: Violation) -> Words:
    what = (
        "the price of outcome counts holds only while nothing else is published of their reports, and this release "
        f"would stand beside release '{violation.numbers['other']}'."
    )
    if not violation.numbers["exclusive"]:
        return what, USE_IT
    return what, (
        "Use what was published; or, where that was at another price, leave out [privacy] and least_people: the "
        "reports themselves can be charged."
    )


def _over_budget(violation: Violation) -> Words:
    numbers = violation.numbers
    price, taken, before, after = (numbers[name] for name in ("price", "taken", "before", "after"))
    asked = "this release" if price.releases == 1 else f"this series of {price.releases} releases"
    symbols = ("ε", "δ") if taken is None else (f"the divergence of order {taken.order:f}", "the tails")
    sums = (
        (symbols[0], before.epsilon_spent, after.epsilon_spent, after.epsilon_budget),
        (symbols[1], before.delta_spent, after.delta_spent, after.delta_budget),
    )
    excess = " and ".join(
        f"{symbol} from {amount_shown(old)} to {amount_shown(new)}, past the budget {amount_shown(budget)}"
        for symbol, old, new, budget in sums
        if new > budget
    )
    return f"{asked} would bring {excess}.", _what_fits(numbers)


def _what_fits(numbers: Mapping[str, Any]) -> str:
    price, mechanism, dataset = numbers["price"], numbers["mechanism"], numbers["dataset"]
    rows = dataset.rows_per_person
    if not isinstance(dataset, FilterDatasetAdded):
        return what_fits(numbers["before"], price, mechanism=mechanism, rows_per_person=rows)
    terms = {"releases": price.releases, "rows_per_person": rows}
    return what_fits_filter(numbers["before"], mechanism=mechanism, budget=FilterBudget.of(dataset), **terms)


def what_fits(account: Account, price: ChargedPrice, *, mechanism: Fields, rows_per_person: int) -> str:
    """Return what to do about a price that is past a budget: what is left before it, and what would fit."""
    from ..theory.planning.inversion import advice_for_price  # numerics, for a refusal alone

    return advice_for_price(
        mechanism_of_record(dict(mechanism)),
        epsilon=account.epsilon_left,
        delta=account.delta_left,
        stated_delta=price.delta,
        releases=price.releases,
        rows_per_person=rows_per_person,
    )


_MORE_THAN_ALL = math.nextafter(1.0, 2.0)


def what_fits_filter(
    account: Account, *, mechanism: Fields, budget: FilterBudget, releases: int, rows_per_person: int
) -> str:
    """Return what to do about a charge that is past a filter budget: what is left, and what would fit."""
    from ..theory.planning.inversion import advice_for_filter

    rules = filter_rules()
    terms, of_all = budget.terms, {"releases": releases, "rows_per_person": rows_per_person}

    def share(k: int, rate: Decimal) -> float:
        changed = sorted_fields(dict(mechanism) | {"k": k, "sampling_rate": str(rate)})
        try:
            # What takes time is a divergence, which rises as a tail falls. So it is known by one or none that a charge
            # doesn't fit with whatever tail it has.
            decoded = mechanism_of_record(dict(changed))
            tails = rules.tails_of(terms, decoded, **of_all)
            if (least := min(tails)) > account.delta_left:
                return _share(least, account.delta_left)
            least = rules.filter_cost(decoded, order=terms.order, tail=max(tails), **of_all).divergence
            if least > account.epsilon_left:
                return _share(least, account.epsilon_left)
            taken = filter_charge(changed, budget=budget, **of_all)
        except (ArithmeticError, InputRefused, ValueError):
            return math.inf
        of_both = max(_share(taken.divergence, account.epsilon_left), _share(taken.tail, account.delta_left))
        fits = account.charged(epsilon=taken.divergence, delta=taken.tail).within_budget
        return min(of_both, 1.0) if fits else max(of_both, _MORE_THAN_ALL)

    left = {"divergence": account.epsilon_left, "tail": account.delta_left}
    found = mechanism_of_record(dict(mechanism))
    return advice_for_filter(found, order=budget.accounting.order, **left, share=share)


def _share(taken: Decimal, left: Decimal) -> float:
    return float(taken / left) if left else math.inf if taken else 0.0


def _series_changed(violation: Violation) -> Words:
    series, parts, reason = (violation.numbers[name] for name in ("series", "parts", "reason"))
    if parts == ("specification",):
        if series.mixed is not None:
            return "another data set, another delta or another unit than was registered.", RESTORE
        if isinstance(series, FreeSeriesRegistered):
            what = (
                "this specification differs from the one that was registered in more than columns, hierarchies, "
                "levels, a higher k or a lower rate: the same are data set, kind and form, delta, how records are "
                "read, rows_per_person, how a map is drawn, and every other parameter of the mechanism."
            )
            return what, RESTORE
        what = (
            "this specification differs from the one that was registered, and the price holds for parameters fixed "
            "then: data set, form, k, rate, delta, columns, hierarchies, levels, and how records are read."
        )
        return what, RESTORE
    if reason is None:
        return f"it has not paid for this release: another {' and another '.join(parts)}.", RESTORE
    mixed, number = series.mixed, violation.numbers["number"]
    if mixed is not None and number <= mixed.releases:
        part = mixed.part_of(number)
        reason = f"{reason}, in part {part} ({mixed.each[part - 1]})"
    what = (
        f"it has not paid for this mechanism: {reason}. With free columns a release may have a higher k or a lower "
        "rate than was registered, and nothing else differs."
    )
    return what, RESTORE


def _series_finished(violation: Violation) -> Words:
    series, number = violation.numbers["series"], violation.numbers["number"]
    taken = f"{series.price.releases} releases"
    if (mixed := series.mixed) is not None and number <= mixed.releases:
        part = mixed.part_of(number)
        taken = f"{mixed.each[part - 1].releases} releases of part {part} ({mixed.each[part - 1]})"
    return f"all its {taken} are taken.", "Register another series, which is charged anew."


def _stage(violation: Violation) -> Words:
    stage = violation.numbers["stage"]
    if stage == "charged":
        return "nothing was read for this release, so nothing can be published.", ""
    return f"this release is {stage} and can't change any more.", "Use another release id."


Words = tuple[str, str]
"""What is wrong, empty where the fault says it; and what can be done: of a violation's numbers, and its fault."""
WORDS: Mapping[str, Words | Callable[[Violation], Words]] = {
    "accounting-differs": _accounting_differs,
    "budget-not-raised": (
        "the budget is (ε, δ) = ({before[0]}, {before[1]}) and can only be raised, not set to "
        "({after[0]}, {after[1]}).",
        "",
    ),
    "counts-not-alone": _counts_not_alone,
    "dataset-known": (
        "a data set of this name is in the ledger already.",
        "A new delivery of its records keeps the name and the budget; a larger budget is `crowdblend dataset raise`.",
    ),
    "divergence-differs": ("", "Charge what the mechanism takes."),
    "filter-raised": (
        "it has a filter budget, which can't be raised: the proof holds for a budget, an order and a share of δ that "
        "were fixed before the first release.",
        "Use what is left of it.",
    ),
    "no-divergence": (
        "it has a filter budget, which can't pay for {kind}: {why}",
        "Use another mechanism, or a data set whose prices are added up.",
    ),
    "over-budget": _over_budget,
    "price-differs": ("", "Charge what the mechanism costs."),
    "relation-mismatch": (
        "this price holds for the neighbouring relation {price}, the budget's is {budget}.",
        "Use a mechanism that is priced for the budget's relation.",
    ),
    "release-known": (
        "this release id is in the ledger already ({stage}).",
        "Resume that release, or use another id.",
    ),
    "rows-per-person": _rows_per_person,
    "sample-used": ("{fault}, and a sample serves one release.", FRESH),
    "samples-differ": ("", FRESH),
    "series-changed": _series_changed,
    "series-finished": _series_finished,
    "series-known": (
        "a series of this name is in the ledger already.",
        "Run its releases, or register another under a new name.",
    ),
    "stage": _stage,
    "survey-differs": (
        "",
        "Register the data under a name of their own with `crowdblend dataset add NAME --survey-rate RATE`, RATE being "
        "the largest; or draw a fresh sample with [sampling].rate.",
    ),
    "survey-released": _survey_released,
    "token-known": ("", "Add it again: another id is drawn."),
    "unit-differs": _unit_differs,
    "unknown": _unknown,
}
"""Cause → the words for it; a cause that is not here is described by its fault alone."""
