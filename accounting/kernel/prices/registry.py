"""Register the kinds of mechanisms, each loaded when it is first asked for, and tell what is charged for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.mechanism import Mechanism
from .mechanism_kind import MechanismKind, Price, check_records, check_request


def price(mechanism: Mechanism, *, delta: Decimal, releases: int = 1, rows_per_person: int = 1) -> Price:
    """Return what is charged for `releases` releases of one mechanism with parameters fixed beforehand.

    docs/proofs/README.md names the proof of each kind. Where a person has several records, the prices for one record
    are carried over by group privacy, those of deletion releases exactly (docs/proofs/group-privacy.md).

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
    return kind.price(mechanism, delta, releases, rows_per_person)


def recorded_price(
    mechanism: Mechanism, *, rule: str, delta: Decimal, releases: int = 1, rows_per_person: int = 1
) -> Price:
    """Return the price that a record with a rule must have: by that rule if earlier versions charged by it, or `price`.

    Raises:
        InputRefused: as `price`.
    """
    # An earlier rule is proved as well, and charged more: what was charged by it stays right. The rule of several
    # records of a person has a prefix before "+".
    by_rule = kind_of(mechanism).earlier.get(rule.rpartition("+")[2])
    if by_rule is None:
        return price(mechanism, delta=delta, releases=releases, rows_per_person=rows_per_person)
    _checked_kind(mechanism, delta, releases, rows_per_person)
    return by_rule(mechanism, delta, releases, rows_per_person)


def _checked_kind(mechanism: Mechanism, delta: Decimal, releases: int, rows_per_person: int) -> MechanismKind[Any]:
    """Return the kind, if it has a price for so many releases and records at all."""
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
    """Return the price by the paper alone, which a charge records beside its own; None where the paper has none.

    Args:
        mechanism: the release.
        delta: δ over all releases together, 0 < δ < 1.
        releases: T ≥ 1.
        rows_per_person: M ≥ 1, the most records of one person in a delivery; the paper has a price for M = 1 alone.

    Raises:
        InputRefused: δ, the number of releases or of records is out of range.
    """
    kind = kind_of(mechanism)
    check_records(rows_per_person)
    if not kind.pure:
        check_request(delta, releases)
    if rows_per_person != 1 or kind.paper_price is None:
        return None
    return kind.paper_price(mechanism, delta, releases)


def not_covered(mechanism: Mechanism, registered: Mechanism, *, number: int = 1) -> str | None:
    """Return why the price of a series with free columns doesn't cover a release by a mechanism; None where it does.

    Args:
        mechanism: what the release would run.
        registered: what the series was registered with.
        number: the release's place in it, which says its part where the mechanisms of a series differ.

    Raises:
        ValueError: no part of the series has this number.
    """
    return kind_of(registered).not_covered(registered, mechanism, number)


def filter_rules() -> ModuleType:
    """Return the module of the rules of filter budgets, which other budgets do without."""
    return import_module(FILTER_RULES)


class RegisteredKind(NamedTuple):
    """Where a kind is found: the full names of two modules, in each of which it has its own name in capitals.

    Args:
        price_module: of its `MechanismKind`, which has all that decides its guarantee.
        description_module: of its `KindDescription`, which decides nothing.
        records: names of its records on disk.
    """

    price_module: str
    description_module: str
    records: tuple[str, ...]


_ACCOUNTING = __package__.removesuffix(".kernel.prices")
FILTER_RULES = f"{_ACCOUNTING}.kinds.composition.renyi_filter"
"""The module by whose rules a charge takes of a filter budget."""


def _own(prices: str, descriptions: str, records: tuple[str, ...]) -> RegisteredKind:
    """Return a kind whose modules lie in the package's own folders."""
    return RegisteredKind(f"{_ACCOUNTING}.kinds.{prices}", f"{_ACCOUNTING}.descriptions.{descriptions}", records)


MECHANISM_KINDS: dict[str, RegisteredKind] = {
    "strongly_safe": _own("microdata_prices", "microdata_description", ("strongly-safe-release/1",)),
    "epsilon_safe": _own(
        "selected_microdata_prices", "microdata_description", ("epsilon-safe-release/1", "epsilon-safe-release/2")
    ),
    "suppressed_histogram": _own("suppressed_histogram_prices", "histogram_description", ("suppressed-histogram/1",)),
    "noisy_histogram": _own("noisy_histogram_prices", "histogram_description", ("noisy-histogram/1",)),
    "outlier_histogram": _own("outlier_histogram_prices", "histogram_description", ("outlier-private-histogram/1",)),
    "survey_counts": _own("survey_prices", "biased_sampling_description", ("biased-sample-counts/1",)),
    "unequal_rates": _own("unequal_rates_prices", "biased_sampling_description", ("unequal-rates-histogram/1",)),
    "points": _own("point_prices", "histogram_description", ("synthetic-points/1", "synthetic-noisy-points/1")),
    "answers": _own("answer_prices", "answer_description", ("count-answer/1", "sum-answer/1", "mean-answer/1")),
    "moments": _own("answer_prices", "answer_description", ("moments-answer/1",)),
    "local_reports": _own(
        "local_report_prices", "local_report_description", ("count-mean-sketch/1", "k-randomization/1")
    ),
    "outcome_counts": _own("outcome_counts_prices", "local_report_description", ("outcome-counts/1",)),
    "mixed_series": _own("mixed_series_prices", "mixed_series_description", ("mixed-series/1",)),
    "selected_deletion": _own(
        "selected_deletion_prices",
        "deletion_description",
        ("selected-deletion-release/1", "selected-deletion-release/2"),
    ),
    "deletion": _own(
        "deletion_prices", "deletion_description", ("deletion-release/1", "calibrated-deletion-release/1")
    ),
    "calibrated_sample": _own(
        "calibrated_sample_prices", "calibrated_sample_description", ("calibrated-sample-release/1",)
    ),
    "paired_deletion": _own(
        "deletion_tables_prices",
        "deletion_description",
        ("paired-deletion-release/1", "blocked-deletion-release/1"),
    ),
    "members_deletion": _own(
        "deletion_tables_prices",
        "deletion_description",
        tuple(f"{one}members-deletion-release/1" for one in ("", "calibrated-", "paired-")),
    ),
    "synthetic_table": _own("synthetic_table_prices", "synthetic_table_description", ("synthetic-table/1",)),
}
"""The one list of kinds: a mechanism's `kind` → where it is found; a module is loaded when it is first asked for."""

_RECORD_OF_PACKAGE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*:[a-z0-9-]+/[1-9][0-9]*")

M = TypeVar("M", bound=Mechanism)


def add_kind(name: str, registered: RegisteredKind, *, package: str) -> None:
    """Register a kind of another distribution; from now on it can price and protect in this process.

    PRIVACY: whoever calls this vouches for the kind's price and protection as for the kernel (docs/kernel.md).

    Args:
        name: the kind's, as its mechanisms' `kind` has it.
        registered: where it is found.
        package: its distribution, by whose name each of its records begins, so that whoever meets a record without
            having the kind knows what to install.

    Raises:
        InputRefused: the name is another kind's, or a record's name doesn't begin with the package's.
    """
    if MECHANISM_KINDS.get(name, registered) != registered:
        raise InputRefused(f"there is another kind of mechanism {name!r} already.")
    if not registered.records or not all(
        _RECORD_OF_PACKAGE.fullmatch(record) and record.startswith(f"{package}:") for record in registered.records
    ):
        raise InputRefused(f"the records of the kind {name!r} must have names such as '{package}:name/1'.")
    MECHANISM_KINDS[name] = registered


def load_kind(name: str) -> MechanismKind[Any]:
    """Return a kind by its name; its module is loaded now if it wasn't."""
    kind: MechanismKind[Any] = getattr(import_module(MECHANISM_KINDS[name].price_module), name.upper())
    return kind


def kind_of(mechanism: M) -> MechanismKind[M]:
    """Return the kind of a mechanism."""
    return load_kind(mechanism.kind)


def kind_of_record(name: object) -> MechanismKind[Any]:
    """Return the kind whose record has a name.

    Raises:
        InputRefused: no kind has.
    """
    return load_kind(kind_name_of_record(name))


def kind_name_of_record(name: object) -> str:
    """Return which kind has records of a name.

    Raises:
        InputRefused: none has.
    """
    for kind, registered in MECHANISM_KINDS.items():
        if name in registered.records:
            return kind
    package = name.partition(":")[0] if isinstance(name, str) and _RECORD_OF_PACKAGE.fullmatch(name) else ""
    missing = f" (install {package}, and name its kind in crowdblend.toml below [extensions])" if package else ""
    raise InputRefused(f"unknown kind of mechanism: {name!r}{missing}.")


def mechanism_record(mechanism: Mechanism) -> dict[str, str | int]:
    """Return the mechanism as the ledger stores it: kind with version, and parameters, amounts as exact decimal texts.

    What is done on all records, a choice of the map or a whole mechanism, has the rate "whole".
    """
    records = kind_of(mechanism).records
    name = next(name for name, form in records.items() if form.describes(mechanism))
    return {"kind": name, **records[name].written(mechanism)}


def mechanism_of_record(record: Mapping[str, object]) -> Mechanism:
    """Return the mechanism that a stored record describes.

    Raises:
        InputRefused: an unknown kind, a missing or unknown field, or a value of the wrong form.
    """
    name = record.get("kind")
    mechanism: Mechanism = kind_of_record(name).records[str(name)].read(str(name), record)
    return mechanism
