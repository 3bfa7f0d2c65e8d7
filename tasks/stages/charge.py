"""Stages that write to the ledger: charge, reading, close. INVARIANT: no other task module writes to it.

A release opens the ledger for writing once, from its charge to its close."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import date
from decimal import Decimal
from typing import NoReturn

from ...accounting.kernel.keys.anchor import Anchoring
from ...accounting.kernel.keys.private_store import KeyRef, PrivateStore, ReleaseFolder
from ...accounting.kernel.ledger.charge import Receipt, ReleaseCharge
from ...accounting.kernel.ledger.entry_types import ReleaseCharged
from ...accounting.ledger.ledger_writer import LedgerWriter, open_writer
from ...accounting.ledger.lookup import DatasetContext, needs_no_secrets
from ...accounting.ledger.reader import LedgerReader, ReleaseState
from ...mechanisms.kernel.errors import AccountantRefused, Refusal, ReleaseFailed
from ...mechanisms.kernel.sampling import sample_commitment
from ..counting.workers import CSV_RECORDS, SAMPLER_LAYOUT
from ..request import Request
from .stage import stage

__all__ = ["LedgerWriter", "begin_reading", "close", "destroy_secrets", "give_up", "open_writer", "refuse", "reserve"]


@stage("charge")
def reserve(
    *,
    writer: LedgerWriter,
    reader: LedgerReader,
    request: Request,
    release_id: str,
    folder: ReleaseFolder,
    state: ReleaseState | None,
    series: str | None,
    epsilon_paper: Decimal | None,
    inputs: bytes,
    table_version: int | None,
    delivery: bytes | None,
    code_version: str,
    software: str,
    today: date,
    randomness: Callable[[int], bytes],
) -> tuple[Receipt, ReleaseCharged, DatasetContext]:
    """Reserve the cost and the sample in one transaction, or take up the reservation of a release cut off.

    The key is durable in the private store before the ledger knows the sample. A key whose release was never
    charged drew nothing, so a new one takes its place.

    Args:
        writer: the ledger, open for writing.
        reader: the same ledger, open for looking.
        request: what is asked for.
        release_id: its id, locked by this process.
        folder: its folder in the private store.
        state: what the ledger knows of the id.
        series: the series that has paid for it, None for a release that pays for itself.
        epsilon_paper: the price by the paper's bound, None where the bound gives no guarantee.
        inputs: canonical list of the input files; kept as a keyed fingerprint, privately.
        table_version: of the lake table that is read, which a retry reads again; None for files.
        delivery: what was delivered when; kept as a keyed fingerprint, privately. None where that isn't known.
        code_version: version of the software; a retry by another is refused.
        software: digest of all that the rest of the work depends on; as long as something is to be computed, a retry by
            another is refused, whatever its version is called.
        today: day of the charge.
        randomness: source of the sampling keys, n to n bytes.

    Returns:
        The receipt, the charge as the ledger has it, and what the ledger said of the data set then.

    Raises:
        AccountantRefused: over budget, no place in the series, id or sample used, the ledger behind its anchor, or
            anything changed since the first attempt.
        InputRefused: there is no signing key.
        ReleaseFailed: the ledger failed, so that the charge may be in it.
    """
    binding = {"inputs": folder.fingerprint(inputs), "output": str(request.output), "software": software}
    if state is not None:
        changed = _unchanged(state, folder, binding=binding, code_version=code_version, layout=_sampler_layout(request))
        if changed is not None:
            refuse(
                changed,
                opened=lambda: nullcontext(writer),
                release_id=release_id,
                dataset=state.charge.dataset,
                today=today,
            )
        return state.receipt, state.charge, reader.dataset_context(state.receipt)
    # INVARIANT: this holds the ledger against its anchor: one that was set back may have forgotten that this sample was
    # read, so no key is destroyed before. It takes the writers' lock too: a charge of this id whose connection was lost
    # in the middle of its commit is in the ledger by now, or never will be.
    if writer.has_release(release_id):
        raise ReleaseFailed("this release was charged meanwhile, by an attempt that lost the database.", not_done="")
    folder.destroy_key()
    folder.forget_draws()
    key = folder.key.create(randomness)
    selection_sample_id = None
    if request.selection_rate is not None:
        selection_sample_id = sample_commitment(folder.selection_key.create(randomness).load())
    day = None if request.source_day is None else request.source_day.isoformat()
    of_delivery = {"delivery": None if delivery is None else folder.fingerprint(delivery), "source_day": day}
    folder.remember({**binding, **of_delivery, "table_version": table_version, "copy": None})
    charge = _charge_of(
        request,
        release_id=release_id,
        sample_id=sample_commitment(key.load()),
        selection_sample_id=selection_sample_id,
        code_version=code_version,
        today=today,
        series=series,
        epsilon_paper=epsilon_paper,
    )
    try:
        receipt = writer.charge(charge)
    except AccountantRefused:
        folder.destroy_key()
        raise
    return receipt, writer.charged(receipt), reader.dataset_context(receipt)


def _sampler_layout(request: Request) -> str:
    """The rules by which its records are read and drawn, as ledger and certificate name them."""
    layout = SAMPLER_LAYOUT if request.limit is None else f"{request.limit.layout} {CSV_RECORDS}"
    return layout if request.thinning is None else f"{layout} {request.thinning.layout}"


def _charge_of(
    request: Request,
    *,
    release_id: str,
    sample_id: str,
    selection_sample_id: str | None,
    code_version: str,
    today: date,
    series: str | None,
    epsilon_paper: Decimal | None,
) -> ReleaseCharge:
    return ReleaseCharge(
        release_id=release_id,
        label=request.label,
        dataset=request.dataset,
        sample_id=sample_id,
        mechanism=request.mechanism,
        price=request.price,
        epsilon_paper=epsilon_paper,
        spec_digest=request.digest,
        map_digest=request.map_digest,
        code_version=code_version,
        sampler_layout=_sampler_layout(request),
        day=today,
        series=series,
        series_digest=request.series_digest,
        selection_sample_id=selection_sample_id,
        part=request.part,
        unit=request.unit,
    )


def _lost(key: KeyRef, sample_id: str | None) -> bool:
    """Whether the key of a sample that was taken is gone, or another one."""
    return sample_id is not None and (not key.exists() or sample_commitment(key.load()) != sample_id)


def _unchanged(
    state: ReleaseState, folder: ReleaseFolder, *, binding: dict[str, str], code_version: str, layout: str
) -> AccountantRefused | None:
    """What speaks against resuming: anything that is not as it was at the charge."""
    remembered = folder.remembered()
    changes = {
        "the software's version": state.charge.code_version != code_version,
        "the software or a library of it": "published" not in remembered
        and remembered.get("software") != binding["software"],
        "the sampler's layout": state.charge.sampler_layout != layout,
        "the input files": remembered.get("inputs") != binding["inputs"],
        "the output's place": remembered.get("output") != binding["output"],
        "the sampling key": _lost(folder.key, state.receipt.sample_id),
        "the selection's sampling key": _lost(folder.selection_key, state.receipt.selection_sample_id),
    }
    changed = [what for what, differs in changes.items() if differs]
    if not changed:
        return None
    return AccountantRefused(
        f"release id '{state.release_id}' was charged before, and since then this changed: {', '.join(changed)}.",
        cause="changed-since-charge",
        remedy="Restore it and run again, or give the release up with `crowdblend abandon`.",
    )


@stage("reading")
def begin_reading(*, writer: LedgerWriter, receipt: Receipt) -> None:
    """Make durable that records are about to be read, in the ledger and its anchor: the cost is spent for ever."""
    writer.mark_reading(receipt)


@stage("close")
def close(
    *, writer: LedgerWriter, receipt: Receipt, folder: ReleaseFolder, hashes: tuple[tuple[str, str], ...]
) -> None:
    """Record that the release is published, then destroy its sampling key."""
    writer.mark_published(receipt, hashes)
    folder.destroy_key()


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

    Args:
        releases: their ids, of each of which the private store has a secret.
        ledger_url: the ledger.
        anchoring: who signs the chain's heads, and where they are copied to.
        reader: the same ledger, open for looking.
        store: the private store.
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

    Args:
        refusal: the objection.
        opened: opens the ledger for writing.
        release_id: the release.
        dataset: whose budget was asked.
        today: day of the refusal.

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
