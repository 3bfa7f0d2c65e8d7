"""Stages that write to the ledger: charge, reading, close. INVARIANT: no other task module writes to it.

A release opens the ledger for writing once, from its charge to its close."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import date
from decimal import Decimal
from typing import Any, NoReturn

from ...accounting.kernel.keys.private_store import PrivateStore, ReleaseFolder
from ...accounting.kernel.ledger.entries import ReleaseCharged, ReleaseChargedTwoSamples, SeriesPlace, sorted_fields
from ...accounting.kernel.prices.registry import mechanism_record
from ...accounting.keys.anchor import Anchoring
from ...accounting.ledger.charge_request import charged_price
from ...accounting.ledger.ledger_writer import LedgerWriter, open_writer, well_formed
from ...accounting.ledger.lookup import DatasetContext, ReleaseState, needs_no_secrets
from ...accounting.ledger.reader import LedgerReader
from ...accounting.ledger.refusals import worded
from ...mechanisms.kernel.errors import AccountantRefused, Refusal
from ..counting.workers import CSV_RECORDS, SAMPLER_LAYOUT
from ..kernel.gate import UNNAMED, Gate
from ..request import Request
from .stage import stage

__all__ = ["LedgerWriter", "begin_reading", "charge_of", "close", "destroy_secrets", "give_up", "open_writer"]
__all__ += ["refuse", "reserve"]


@stage("charge")
def reserve(
    *,
    gate: Gate,
    writer: LedgerWriter,
    reader: LedgerReader,
    state: ReleaseState | None,
    today: date,
) -> DatasetContext:
    """Reserve the cost and the sample in one transaction, or take up the reservation of a release cut off.

    Returns:
        What the ledger said of the data set at the charge.

    Raises:
        AccountantRefused: over budget, no place in the series, id or sample used, the ledger behind its anchor, or
            anything changed since the first attempt.
        InputRefused: there is no signing key.
        ReleaseFailed: the ledger failed, so that the charge may be in it.
    """
    # A release that the ledger doesn't know is charged; one that it knows was cut off, and is taken up at no new cost.
    if state is None:
        with writer.refusal_kept(gate.plan.entry):
            return reader.dataset_context(gate.charge())
    if changed := gate.resume():
        refuse(
            AccountantRefused(
                f"release id '{state.release_id}' was charged before, and since then this changed: "
                f"{', '.join(changed)}.",
                cause="changed-since-charge",
                remedy="Restore it and run again, or give the release up with `crowdblend abandon`.",
            ),
            opened=lambda: nullcontext(writer),
            release_id=state.release_id,
            dataset=state.charge.dataset,
            today=today,
        )
    return reader.dataset_context(gate.receipt)


def _sampler_layout(request: Request) -> str:
    """Return the rules by which its records are read and drawn, as ledger and certificate name them."""
    layout = SAMPLER_LAYOUT if request.limit is None else f"{request.limit.layout} {CSV_RECORDS}"
    return layout if request.thinning is None else f"{layout} {request.thinning.layout}"


def charge_of(
    request: Request,
    *,
    release_id: str,
    series: str | None,
    epsilon_paper: Decimal | None,
    code_version: str,
    day: date,
) -> ReleaseCharged:
    """Return the entry of a charge; the gate puts in the ids of the samples, and the ledger the number in a series.

    Args:
        series: the series that has paid for it, None for a release that pays for itself.
        epsilon_paper: the price by the paper's bound, None where the bound gives no guarantee.

    Raises:
        InputRefused: a value that the ledger can't hold.
    """
    place = None if series is None else SeriesPlace(name=series, number=1, spec_digest=request.series_digest)
    values: dict[str, Any] = {
        "release_id": release_id,
        "label": request.label,
        "dataset": request.dataset,
        "sample_id": UNNAMED,
        "mechanism": sorted_fields(mechanism_record(request.mechanism)),
        "price": charged_price(request.price),
        "epsilon_paper": epsilon_paper,
        "spec_digest": request.digest,
        "map_digest": request.map_digest,
        "code_version": code_version,
        "sampler_layout": _sampler_layout(request),
        "day": day,
        "series": place,
    }
    with well_formed():
        if request.selection_rate is None:
            return ReleaseCharged(**values)
        return ReleaseChargedTwoSamples(selection_sample_id=UNNAMED[::-1], **values)


@stage("reading")
def begin_reading(*, gate: Gate) -> None:
    """Make durable that records are about to be read, in the ledger and its anchor: the cost is spent for ever."""
    with worded():
        gate.read()


@stage("close")
def close(*, gate: Gate) -> None:
    """Record that the release is published, then destroy its sampling key."""
    with worded():
        gate.close()


def give_up(
    *,
    ledger_url: str,
    anchoring: Anchoring,
    release_id: str,
    reason: str,
    by: str,
    today: date,
    folder: ReleaseFolder,
) -> bool:
    """Abandon a release in the ledger, then destroy its keys and draws; whether its cost was given back."""
    with open_writer(ledger_url, anchoring=anchoring) as writer:
        refunded = writer.abandon(release_id=release_id, reason=reason, by=by, day=today)
    folder.destroy_key()
    folder.forget_draws()
    return refunded


def destroy_secrets(
    releases: Iterable[str], *, ledger_url: str, anchoring: Anchoring, reader: LedgerReader, store: PrivateStore
) -> None:
    """Destroy the secrets of releases that need none any more; one that a live process holds is left alone.

    INVARIANT: a release counts as never charged only where the writers' lock was taken and the ledger continues its
    anchor: by then a charge whose connection was lost in the middle of its commit is in the ledger or never will be,
    and a ledger that was set back has not forgotten it.
    """
    ledger_id = reader.ledger_id
    with suppress(Refusal), open_writer(ledger_url, anchoring=anchoring) as writer:
        for release_id in releases:
            with suppress(Refusal), store.hold(ledger_id=ledger_id, release_id=release_id) as folder:
                charged, state = writer.has_release(release_id), reader.release(release_id)
                if charged is (state is not None) and needs_no_secrets(state):
                    folder.destroy_key()
                    if state is None or state.stage == "abandoned":
                        folder.forget_draws()


def refuse(
    refusal: Refusal,
    *,
    opened: Callable[[], AbstractContextManager[LedgerWriter]],
    release_id: str,
    dataset: str,
    today: date,
) -> NoReturn:
    """Refuse for an objection that was found outside a charge, and keep the refusal as evidence in the ledger.

    Raises:
        AccountantRefused: always; it says so where the ledger could not be written.
    """
    try:
        with opened() as writer:
            writer.record_refusal(
                release_id=release_id,
                dataset=dataset,
                cause=refusal.cause,
                reason=refusal.message,
                day=today,
            )
    except Refusal:
        raise AccountantRefused(
            refusal.what,
            where=refusal.where,
            not_done=f"{refusal.not_done} This refusal could not be recorded: the ledger can't be written.",
            remedy=refusal.remedy,
            cause=refusal.cause,
        ) from None
    raise refusal
