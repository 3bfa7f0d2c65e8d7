"""What the writer must find in the ledger before it writes, inside the same transaction."""

from __future__ import annotations

from sqlalchemy import Connection

from ...mechanisms.refusal import AccountantRefused, InputRefused
from .alone import released_before
from .charge import Receipt
from .queries import DatasetState, ReleaseState, dataset_of, release_of, release_of_sample
from .release_entries import ReleaseCharged, SeriesRegistered
from .rules import Objection, objection_to, price_differs, sample_faults, survey_differs, unit_differs
from .series import FreePlace, SeriesState, free_place, series_of
from .series_rules import objection_to_series_release
from .unknown import unknown_dataset, unknown_series

__all__ = [
    "closed_refusal",
    "known_dataset",
    "known_series",
    "objection_to_charge",
    "objection_to_registration",
    "paid_release",
]


def objection_to_charge(
    connection: Connection,
    entry: ReleaseCharged,
    *,
    rows_per_person: int,
    price_faults: tuple[str, ...],
    series: tuple[SeriesState, FreePlace | None] | None,
) -> Objection | None:
    """What speaks against a charge now, None where nothing does.

    Args:
        connection: a connection in a writing transaction.
        entry: the charge.
        rows_per_person: the most records of one person in a delivery that its price covers.
        price_faults: how its price differs from its mechanism's.
        series: the series that is to pay for it and its next free place, None for a release that pays for itself.

    Raises:
        InputRefused: the ledger has no such data set.
    """
    where = f"release '{entry.release_id}'"
    dataset = known_dataset(connection, entry.dataset)
    if (known := release_of(connection, entry.release_id)) is not None:
        return Objection(
            cause="release-known",
            what=f"this release id is in the ledger already ({known.stage}).",
            where=where,
            remedy="Resume that release, or use another id.",
        )
    if (objection := _objection_to_samples(connection, entry, where=where)) is not None:
        return objection
    if (objection := survey_differs(entry.mechanism, dataset)) is not None:
        return objection
    if series is not None:
        state, place = series
        unpaid = objection_to_series_release(entry, state, full=place is None)
        return unit_differs(rows_per_person, dataset) or unpaid or price_differs(price_faults, where=where)
    if (objection := price_differs(price_faults, where=where)) is not None:
        return objection
    before = released_before(connection, dataset, entry.price)
    return objection_to(
        entry.price,
        mechanism=entry.mechanism,
        rows_per_person=rows_per_person,
        dataset=dataset,
        released_before=before,
    )


def _objection_to_samples(connection: Connection, entry: ReleaseCharged, *, where: str) -> Objection | None:
    """What speaks against the samples that a charge takes."""
    remedy = "Draw a fresh sample: run again with a new release id."
    for _, sample in entry.samples:
        if (other := release_of_sample(connection, sample)) is not None:
            what = f"its sample was used by release '{other}', and a sample serves one release."
            return Objection(cause="sample-used", what=what, where=where, remedy=remedy)
    if faults := sample_faults(entry):
        return Objection(cause="samples-differ", what=f"{faults[0]}.", where=where, remedy=remedy)
    return None


def objection_to_registration(
    connection: Connection, entry: SeriesRegistered, *, rows_per_person: int, price_faults: tuple[str, ...]
) -> Objection | None:
    """What speaks against registering a series now, None where nothing does.

    Args:
        connection: a connection in a writing transaction.
        entry: the registration.
        rows_per_person: the most records of one person in a delivery that its price covers.
        price_faults: how its price differs from its mechanism's.

    Raises:
        InputRefused: the ledger has no such data set, or has a series of this name.
    """
    where, dataset = f"series '{entry.series}'", known_dataset(connection, entry.dataset)
    if series_of(connection, entry.series) is not None:
        raise InputRefused(
            "a series of this name is in the ledger already.",
            where=where,
            remedy="Run its releases, or register another under a new name.",
        )
    objection = (
        survey_differs(entry.mechanism, dataset)
        or unit_differs(rows_per_person, dataset)
        or price_differs(price_faults, where=where)
    )
    if objection is not None:
        return objection
    before = released_before(connection, dataset, entry.price)
    return objection_to(
        entry.price,
        mechanism=entry.mechanism,
        rows_per_person=rows_per_person,
        dataset=dataset,
        released_before=before,
    )


def known_series(connection: Connection, name: str) -> tuple[SeriesState, FreePlace | None]:
    """A series that must be in the ledger, and the place of its next release, None where none is left.

    Raises:
        InputRefused: it is not.
    """
    state = series_of(connection, name)
    if state is None:
        raise unknown_series(name)
    return state, free_place(connection, state)


def known_dataset(connection: Connection, name: str) -> DatasetState:
    """A data set that must be in the ledger.

    Raises:
        InputRefused: it is not.
    """
    dataset = dataset_of(connection, name)
    if dataset is None:
        raise unknown_dataset(name)
    return dataset


def paid_release(connection: Connection, receipt: Receipt) -> ReleaseState:
    """The release that a receipt pays for.

    Raises:
        AccountantRefused: the receipt was not given by this ledger.
    """
    state = release_of(connection, receipt.release_id)
    if state is None or state.receipt != receipt:
        raise AccountantRefused(
            "this receipt is not of this ledger.",
            where=f"release '{receipt.release_id}'",
            remedy="Charge the release to this ledger first.",
        )
    return state


def closed_refusal(state: ReleaseState) -> AccountantRefused:
    """The refusal for a step that a release's stage does not allow."""
    if state.stage == "charged":
        return AccountantRefused(
            "nothing was read for this release, so nothing can be published.",
            where=f"release '{state.release_id}'",
        )
    return AccountantRefused(
        f"this release is {state.stage} and can't change any more.",
        where=f"release '{state.release_id}'",
        remedy="Use another release id." if state.stage != "reading" else "",
    )
