"""Whether a series pays for a release: the same rules for a look, for a charge and for the replay."""

from __future__ import annotations

from .release_entries import ReleaseCharged, SeriesRegistered
from .rules import Objection
from .series import SeriesState

__all__ = ["objection_to_series_release", "objection_to_specification", "unpaid_parts"]


def unpaid_parts(charge: ReleaseCharged, registered: SeriesRegistered) -> tuple[str, ...]:
    """In what a release differs from the series that is to pay for it; nothing where it is one of its releases."""
    place = charge.series
    differences = {
        "data set": charge.dataset != registered.dataset,
        "mechanism": charge.mechanism != registered.mechanism,
        "generalization map": charge.map_digest != registered.map_digest,
        "price": charge.price != registered.price,
        "specification": place is None or place.spec_digest != registered.spec_digest,
    }
    return tuple(part for part, differs in differences.items() if differs)


def objection_to_series_release(charge: ReleaseCharged, state: SeriesState, *, full: bool) -> Objection | None:
    """What speaks against one more release of a series, None where nothing does.

    Args:
        charge: of the release.
        state: the series now.
        full: whether every place is taken.
    """
    if (parts := unpaid_parts(charge, state.registered)) and parts != ("specification",):
        return _changed(state, what=f"it has not paid for this release: another {' and another '.join(parts)}.")
    digest = None if charge.series is None else charge.series.spec_digest
    return objection_to_specification(state, dataset=charge.dataset, spec_digest=digest, full=full)


def objection_to_specification(
    state: SeriesState, *, dataset: str, spec_digest: str | None, full: bool
) -> Objection | None:
    """The same for a release of which only the specification is known yet.

    Args:
        state: the series now.
        dataset: the data set that would be released.
        spec_digest: SHA-256 (hex) of what the specifications of a series must have in common, None for none.
        full: whether every place is taken.
    """
    registered = state.registered
    if (dataset, spec_digest) != (registered.dataset, registered.spec_digest):
        return _changed(
            state,
            what="this specification differs from the one that was registered, and the price holds for parameters "
            "fixed then: data set, form, k, rate, delta, columns, hierarchies, levels, and how records are read.",
        )
    if full:
        return Objection(
            cause="series-finished",
            what=f"all its {registered.price.releases} releases are taken.",
            where=f"series '{registered.series}'",
            remedy="Register another series, which is charged anew.",
        )
    return None


def _changed(state: SeriesState, *, what: str) -> Objection:
    return Objection(
        cause="series-changed",
        what=what,
        where=f"series '{state.registered.series}'",
        remedy="Restore what was changed, or run without --series: a release of its own is charged for itself.",
    )
