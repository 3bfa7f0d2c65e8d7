"""The kinds of mechanisms: a line for each, loaded when it is first asked for, and what is charged for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ....mechanisms.kernel.amounts import counted
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import ADD_REMOVE, Mechanism
from .mechanism_kind import MechanismKind, Price, Published, check_records, check_request

if TYPE_CHECKING:
    from ....mechanisms.kinds.mixed_series import MixedSeries

__all__ = [
    "KINDS",
    "KindLine",
    "kind_module",
    "kind_of",
    "kind_of_record",
    "load_kind",
    "mechanism_of_record",
    "mechanism_record",
    "not_covered",
    "paper_price",
    "price",
    "published_text",
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
    if releases != 1 and kind.statements.series is None:
        raise InputRefused(
            f"{releases} releases of this mechanism have no price as a series.", remedy="Charge each for itself."
        )
    if kind.pure and delta != 0:
        raise InputRefused(f"the price of an answer or of local reports has delta 0, not {delta}.")
    return kind


def paper_price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price | None:
    """The price by the paper alone: δ split evenly over the releases, ε added up; None where it has none.

    It prices releases of groups of at least k, not those with noise, and for one record: there is none where a person
    has several.

    Source: LQS, arXiv:1101.2604v2, Theorem 3.9; with a choice of the map Theorem 3.11.

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
        return None if kind.paper_price is None else kind.paper_price(mechanism, delta, releases)
    if not kind.pure:
        check_request(delta, releases)
    return None


FREER_KINDS = frozenset({"strongly_safe", "epsilon_safe", "deletion", "selected_deletion"})
"""Kinds whose groups of fewer than k are dropped, so that a higher k is another processing of what is published."""


def not_covered(mechanism: Mechanism, registered: Mechanism, *, number: int = 1) -> str | None:
    """Why the price of a series with free columns doesn't cover a release by a mechanism, in words; None where it does.

    It covers the registered mechanism with a higher k (post-processing), with a lower sampling rate (the same on
    records that coins have thinned beforehand), or both. That a privacy profile is smaller is not enough: the price is
    that of a game in which an adversary picks sizes of groups, and a smaller profile need not be below that of any one
    size (docs/proofs/composition.md, "What may change within a series").

    Args:
        mechanism: what the release would run.
        registered: what the series was registered with.
        number: the release's place in it, which says its part where the mechanisms of a series differ.

    Raises:
        ValueError: no part of the series has this number.
    """
    if registered.kind == "mixed_series":
        return _not_covered_by_part(mechanism, cast("MixedSeries", registered), number)
    covered: tuple[type | None, ...] = (type(mechanism),)
    if hasattr(mechanism, "selection_draws"):  # an exponential draw is one that any private choice pays for
        covered += (type(mechanism).__base__,)
    if type(registered) not in covered or registered.kind not in FREER_KINDS:
        return None if mechanism == registered else "another kind of mechanism"
    for one in fields(registered):  # type: ignore[arg-type]  # every mechanism is a dataclass
        mine, own = getattr(mechanism, one.name), getattr(registered, one.name)
        if one.name == "k" and mine < own:
            return f"k = {mine} is below the registered {own}"
        if one.name == "sampling_rate" and mine > own:
            return f"the sampling rate {mine} is above the registered {own}"
        if one.name not in ("k", "sampling_rate") and mine != own:
            return f"{one.name.replace('_', ' ')} differs from what was registered"
    return None


def _not_covered_by_part(mechanism: Mechanism, series: MixedSeries, number: int) -> str | None:
    """The same for a part: a sampled release, or any answer whose price has no δ and at most an ε."""
    measure = series.each[series.part_of(number) - 1].measure
    if not isinstance(measure, Decimal):
        return not_covered(mechanism, measure)
    if mechanism.kind not in PURE_ANSWERS:
        return "no answer whose price has no delta"
    costs = price(mechanism, delta=Decimal(0))
    if costs.relation != ADD_REMOVE:
        return f"its price is for the neighbouring relation {costs.relation}"
    return None if costs.epsilon <= measure else f"its epsilon {costs.epsilon} is above the registered {measure}"


PURE_ANSWERS = frozenset({"answers"})
"""Kinds that a part with an ε alone pays for."""


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
    "epsilon_safe": KindLine("microdata_prices", ("epsilon-safe-release/1", "epsilon-safe-release/2")),
    "suppressed_histogram": KindLine("histogram_prices", ("suppressed-histogram/1",)),
    "noisy_histogram": KindLine("histogram_prices", ("noisy-histogram/1",)),
    "outlier_histogram": KindLine("histogram_prices", ("outlier-private-histogram/1",)),
    "survey_counts": KindLine("biased_sampling_prices", ("biased-sample-counts/1",)),
    "unequal_rates": KindLine("biased_sampling_prices", ("unequal-rates-histogram/1",)),
    "points": KindLine("point_prices", ("synthetic-points/1", "synthetic-noisy-points/1")),
    "answers": KindLine("answer_prices", ("count-answer/1", "sum-answer/1", "mean-answer/1")),
    "local_reports": KindLine("local_report_prices", ("count-mean-sketch/1", "k-randomization/1")),
    "outcome_counts": KindLine("local_report_prices", ("outcome-counts/1",)),
    "mixed_series": KindLine("mixed_series_prices", ("mixed-series/1",)),
    "selected_deletion": KindLine("deletion_prices", ("selected-deletion-release/1", "selected-deletion-release/2")),
    "deletion": KindLine("deletion_prices", ("deletion-release/1", "calibrated-deletion-release/1")),
    "synthetic_table": KindLine("synthetic_table_prices", ("synthetic-table/1",)),
}
"""Kind, as its mechanisms' `kind` has it → its place."""
_KINDS = f"{__package__.removesuffix('.kernel.prices')}.kinds"

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


def published_text(kind: str, *, groups: int, records: int | None) -> str:
    """Say what a release published: `875 records in 48 groups`, or `48 noisy counts`, whose sum counts no records.

    Args:
        kind: name of the mechanism's record, such as `noisy-histogram/1`, also of a later version.
        groups: rows of the table without repetitions.
        records: their records; None where what is published counts none.
    """
    try:
        noun = kind_of_record(kind).statements.published
    except InputRefused:  # of a later version
        noun = Published("row", "rows", "" if records is None else "record")
    shown = counted(groups, noun.group, noun.groups)
    return f"{counted(records, noun.record)} in {shown}" if noun.record and records is not None else shown
