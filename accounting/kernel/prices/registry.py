"""The kinds of mechanisms: a line for each, loaded when it is first asked for, and what is charged for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from .mechanism_kind import MechanismKind, Price, check_records, check_request

__all__ = [
    "FILTER_RULES",
    "KINDS",
    "KindLine",
    "filter_rules",
    "kind_module",
    "kind_of",
    "kind_of_record",
    "load_kind",
    "mechanism_of_record",
    "mechanism_record",
    "not_covered",
    "paper_price",
    "price",
    "recorded_price",
]


def price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price:
    """What is charged for `releases` fresh-sample releases of one mechanism with parameters fixed beforehand.

    Strongly-safe releases: docs/proofs/exact-profile.md and docs/proofs/composition.md. ε-safe releases, each with
    a choice of its own: docs/proofs/selection.md. Histograms: docs/proofs/noisy-histogram.md and
    docs/proofs/outlier-privacy.md, with unequal rates docs/proofs/robust-sampling.md; points cost what their counts do:
    docs/proofs/points.md; answers, whose δ is 0: docs/proofs/answers.md; local reports, whose δ is 0, and their counts:
    docs/proofs/local.md and docs/proofs/outcome-counts.md; deletion releases: docs/proofs/deletion.md; synthetic
    tables: docs/proofs/synthetic-table.md.
    Where a person has several records, the same prices for one record are carried over by group privacy, those of
    deletion releases exactly: docs/proofs/group-privacy.md.

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1; 0 for an answer or local reports.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: δ, T or M is out of range, no finite ε has this δ, the parameters are beyond double precision, or
            no price is proved for M (a survey's own sampling, the counts of local reports).
    """
    kind = _checked_kind(mechanism, delta, releases, rows_per_person)
    if rows_per_person == 1:
        return kind.price(mechanism, delta, releases)
    return kind.group_price(mechanism, delta, releases, rows_per_person)


def recorded_price(
    mechanism: Mechanism, *, rule: str, delta: Decimal, releases: int = 1, rows_per_person: int = 1
) -> Price:
    """The price that a record with this rule must have: by that rule if earlier versions charged by it, else `price`.

    An earlier rule is proved as well, and charged more.

    Args:
        mechanism: the release.
        rule: the versioned rule that the record names, for several records of a person with its prefix.
        delta: δ over all releases together, 0 < δ < 1; 0 for an answer or local reports.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: as `price`.
    """
    by_rule = kind_of(mechanism).earlier.get(rule.rpartition("+")[2])
    if by_rule is None:
        return price(mechanism, delta=delta, releases=releases, rows_per_person=rows_per_person)
    _checked_kind(mechanism, delta, releases, rows_per_person)
    return by_rule(mechanism, delta, releases, rows_per_person)


def _checked_kind(mechanism: Mechanism, delta: Decimal, releases: int, rows_per_person: int) -> MechanismKind[Any]:
    """The kind, if it has a price for so many releases and records at all."""
    kind = kind_of(mechanism)
    check_records(rows_per_person)
    if releases != 1 and not kind.series:
        raise InputRefused(
            f"{releases} releases of this mechanism have no price as a series.", remedy="Charge each for itself."
        )
    if kind.pure and delta != 0:
        raise InputRefused(f"the price of an answer or of local reports has delta 0, not {delta}.")
    return kind


def paper_price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price | None:
    """The price by the paper alone, which a charge records beside its own; None where it has none.

    There is none where a person has several records.

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery.

    Raises:
        InputRefused: δ, the number of releases or of records is out of range.
    """
    kind = kind_of(mechanism)
    check_records(rows_per_person)
    if rows_per_person == 1:
        by_kind: Mapping[str, Callable[[Any, Decimal, int], Price | None]]
        by_kind = import_module(f"{_KINDS}.paper_prices").PAPER_PRICES
        return by_kind[mechanism.kind](mechanism, delta, releases) if mechanism.kind in by_kind else None
    if not kind.pure:
        check_request(delta, releases)
    return None


def not_covered(mechanism: Mechanism, registered: Mechanism, *, number: int = 1) -> str | None:
    """Why the price of a series with free columns doesn't cover a release by a mechanism, in words; None where it does.

    Args:
        mechanism: what the release would run.
        registered: what the series was registered with.
        number: the release's place in it, which says its part where the mechanisms of a series differ.

    Raises:
        ValueError: no part of the series has this number.
    """
    return kind_of(registered).not_covered(registered, mechanism, number)


def filter_rules() -> ModuleType:
    """The module of the rules of filter budgets, which other budgets do without; it is loaded now if it wasn't."""
    return import_module(FILTER_RULES)


class KindLine(NamedTuple):
    """Where a kind is found.

    Args:
        module: its module here, which has the kind under the kind's name in capitals.
        records: the names of its records on disk.
    """

    module: str
    records: tuple[str, ...]


KINDS: dict[str, KindLine] = {
    "strongly_safe": KindLine("microdata_prices", ("strongly-safe-release/1",)),
    "epsilon_safe": KindLine("selected_microdata_prices", ("epsilon-safe-release/1", "epsilon-safe-release/2")),
    "suppressed_histogram": KindLine("suppressed_histogram_prices", ("suppressed-histogram/1",)),
    "noisy_histogram": KindLine("noisy_histogram_prices", ("noisy-histogram/1",)),
    "outlier_histogram": KindLine("outlier_histogram_prices", ("outlier-private-histogram/1",)),
    "survey_counts": KindLine("survey_prices", ("biased-sample-counts/1",)),
    "unequal_rates": KindLine("unequal_rates_prices", ("unequal-rates-histogram/1",)),
    "points": KindLine("point_prices", ("synthetic-points/1", "synthetic-noisy-points/1")),
    "answers": KindLine("answer_prices", ("count-answer/1", "sum-answer/1", "mean-answer/1")),
    "local_reports": KindLine("local_report_prices", ("count-mean-sketch/1", "k-randomization/1")),
    "outcome_counts": KindLine("outcome_counts_prices", ("outcome-counts/1",)),
    "mixed_series": KindLine("mixed_series_prices", ("mixed-series/1",)),
    "selected_deletion": KindLine(
        "selected_deletion_prices", ("selected-deletion-release/1", "selected-deletion-release/2")
    ),
    "deletion": KindLine("deletion_prices", ("deletion-release/1", "calibrated-deletion-release/1")),
    "synthetic_table": KindLine("synthetic_table_prices", ("synthetic-table/1",)),
}
"""Kind, as its mechanisms' `kind` has it → its place."""
_KINDS = f"{__package__.removesuffix('.kernel.prices')}.kinds"

FILTER_RULES = f"{_KINDS}.composition.renyi_filter"
"""The module by whose rules a charge takes of a filter budget."""

M = TypeVar("M", bound=Mechanism)


def kind_module(name: str) -> str:
    """Return the full name of the module that prices a kind."""
    return f"{_KINDS}.{KINDS[name].module}"


def load_kind(name: str) -> MechanismKind[Any]:
    """A kind by its name; its module is loaded now if it wasn't."""
    found: MechanismKind[Any] = getattr(import_module(kind_module(name)), name.upper())
    return found


def kind_of(mechanism: M) -> MechanismKind[M]:
    """The kind of a mechanism."""
    return load_kind(mechanism.kind)


def kind_of_record(name: object) -> MechanismKind[Any]:
    """The kind whose record has a name.

    Raises:
        InputRefused: no kind has.
    """
    for kind, line in KINDS.items():
        if name in line.records:
            return load_kind(kind)
    raise InputRefused(f"unknown kind of mechanism: {name!r}.")


def mechanism_record(mechanism: Mechanism) -> dict[str, str | int]:
    """The mechanism as the ledger stores it: kind with version, and its parameters, amounts as exact decimal texts.

    What is done on all records, a choice of the map or a whole mechanism, has the rate "whole".
    """
    records = kind_of(mechanism).records
    name = next(name for name, form in records.items() if form.describes(mechanism))
    return {"kind": name, **records[name].written(mechanism)}


def mechanism_of_record(record: Mapping[str, object]) -> Mechanism:
    """The mechanism that a stored record describes.

    Raises:
        InputRefused: an unknown kind, a missing or unknown field, or a value of the wrong form.
    """
    name = record.get("kind")
    found: Mechanism = kind_of_record(name).records[str(name)].read(str(name), record)
    return found
