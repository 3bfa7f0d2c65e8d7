"""The rules of series: what a registered series pays for, and where a release of it differs from that."""

from __future__ import annotations

from collections.abc import Iterator

from ....mechanisms.kernel.errors import InputRefused
from ..prices.registry import mechanism_of_record, not_covered
from .entry_types import Fields, FreeSeriesRegistered, ReleaseCharged, SeriesRegistered
from .ledger_state import LedgerState
from .violation import Violation, unknown

__all__ = [
    "all_releases_taken",
    "other_specification",
    "place_violations",
    "registration_violations",
    "unpaid_parts",
]


def registration_violations(entry: SeriesRegistered, state: LedgerState) -> Iterator[Violation]:
    """A series is registered once."""
    if entry.series in state.series:
        yield Violation(
            fault=f"series '{entry.series}' is registered a second time",
            what="a series of this name is in the ledger already.",
            where=f"series '{entry.series}'",
            remedy="Run its releases, or register another under a new name.",
            mistake=True,
        )


def place_violations(entry: ReleaseCharged, state: LedgerState) -> Iterator[Violation]:
    """A series pays for releases that are as it was registered, so many as it was priced for."""
    if (place := entry.series) is None:
        return
    known = state.series.get(place.name)
    if known is None:
        yield unknown("series", place.name)
        return
    series = known.registered
    if parts := unpaid_parts(entry, series):
        fault = f"series '{place.name}' has not paid for this release: {', '.join(parts)}"
        if parts == ("specification",):
            yield _specification_differs(series, fault=fault)
        elif parts == ("mechanism",) and isinstance(series, FreeSeriesRegistered):
            reason = _uncovered(entry.mechanism, series, place.number) or ""
            yield _not_paid(series, reason=reason, number=place.number, fault=f"{fault}: {reason}")
        else:
            what = f"it has not paid for this release: another {' and another '.join(parts)}."
            yield _series_differs(series, what=what, fault=fault)
    if place.number > (paid := series.price.releases):
        fault = f"series '{place.name}' has paid for {paid} releases, and this is one more"
        yield all_releases_taken(series, number=place.number, fault=fault)
    if place.number in known.held:
        fault = f"release '{known.holders[place.number][-1]}' has this place in series '{place.name}'"
        yield all_releases_taken(series, number=place.number, fault=fault)


def unpaid_parts(charge: ReleaseCharged, registered: SeriesRegistered) -> tuple[str, ...]:
    """In what a release differs from the series that is to pay for it; nothing where it is one of its releases."""
    place, free = charge.series, isinstance(registered, FreeSeriesRegistered)
    differences = {
        "data set": charge.dataset != registered.dataset,
        "mechanism": _uncovered(charge.mechanism, registered, None if place is None else place.number) is not None,
        "generalization map": not free and charge.map_digest != registered.map_digest,
        "price": charge.price != registered.price,
        "specification": place is None or place.spec_digest != registered.spec_digest,
    }
    return tuple(part for part, differs in differences.items() if differs)


def _uncovered(mechanism: Fields, registered: SeriesRegistered, number: int | None) -> str | None:
    """Why a series' price doesn't hold for a mechanism, in words; None where it does."""
    if mechanism == registered.mechanism:
        return None
    if not isinstance(registered, FreeSeriesRegistered):
        return "another mechanism"
    try:
        run, priced = (mechanism_of_record(dict(record)) for record in (mechanism, registered.mechanism))
        return not_covered(run, priced, number=number or 1)
    except (InputRefused, ValueError):
        return "another mechanism"


def other_specification(
    registered: SeriesRegistered, *, dataset: str, spec_digest: str, mechanism: Fields, number: int
) -> Violation | None:
    """What speaks against a release of a series of which only the specification is known yet, None where nothing does.

    Args:
        registered: the series.
        dataset: the data set that would be released.
        spec_digest: SHA-256 (hex) of what the specifications of a series must have in common.
        mechanism: record of what would be run. A series without free columns has it in its digest.
        number: of a place of the part that it is of.
    """
    if (dataset, spec_digest) != (registered.dataset, registered.spec_digest):
        return _specification_differs(registered)
    reason = _uncovered(mechanism, registered, number)
    return None if reason is None else _not_paid(registered, reason=reason, number=number)


def _specification_differs(series: SeriesRegistered, *, fault: str = "") -> Violation:
    what = (
        "this specification differs from the one that was registered, and the price holds for parameters fixed then: "
        "data set, form, k, rate, delta, columns, hierarchies, levels, and how records are read."
    )
    if series.mixed is not None:
        what = "another data set, another delta or another unit than was registered."
    elif isinstance(series, FreeSeriesRegistered):
        what = (
            "this specification differs from the one that was registered in more than columns, hierarchies, levels, a "
            "higher k or a lower rate: the same are data set, kind and form, delta, how records are read, "
            "rows_per_person, how a map is drawn, and every other parameter of the mechanism."
        )
    return _series_differs(series, what=what, fault=fault)


def _not_paid(series: SeriesRegistered, *, reason: str, number: int, fault: str = "") -> Violation:
    mixed = series.mixed
    if mixed is not None and number <= mixed.releases:
        part = mixed.part_of(number)
        reason = f"{reason}, in part {part} ({mixed.each[part - 1]})"
    what = (
        f"it has not paid for this mechanism: {reason}. With free columns a release may have a higher k or a lower "
        "rate than was registered, and nothing else differs."
    )
    return _series_differs(series, what=what, fault=fault)


def _series_differs(series: SeriesRegistered, *, what: str, fault: str) -> Violation:
    return Violation(
        cause="series-changed",
        fault=fault,
        what=what,
        where=f"series '{series.series}'",
        remedy="Restore what was changed, or run without --series: a release of its own is charged for itself.",
    )


def all_releases_taken(series: SeriesRegistered, *, number: int, fault: str = "") -> Violation:
    """What speaks against one more release of a series, or of the part that a number is of, that has no free place."""
    taken = f"{series.price.releases} releases"
    if (mixed := series.mixed) is not None and number <= mixed.releases:
        part = mixed.part_of(number)
        taken = f"{mixed.each[part - 1].releases} releases of part {part} ({mixed.each[part - 1]})"
    return Violation(
        cause="series-finished",
        fault=fault,
        what=f"all its {taken} are taken.",
        where=f"series '{series.series}'",
        remedy="Register another series, which is charged anew.",
    )
