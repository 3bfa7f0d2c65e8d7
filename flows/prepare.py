"""Everything that happens before a release is charged: the checks, in the one order that protects people.

First the specification and its hierarchies, then the signing key, the ledger's anchor and a read-only look at the
budget with the source unopened, then metadata of the source alone. Whatever is refused here has cost nothing. A run
and a dry run do the same, but that the run holds the release and its output's place until it ends, and that what the
ledger's rules refuse it is recorded.

The ledger is opened once here, for looking. It is opened for writing where a refusal is to be recorded, and where a
killed process has left secrets that are to be destroyed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..accounting.kernel.keys.private_store import PrivateStore, ReleaseFolder, require_private
from ..accounting.kernel.ledger.entries import ChargedPrice
from ..accounting.keys.store_upkeep import (
    open_private_store,
    other_names_of_source,
    releases_with_secrets,
    require_not_held,
    require_output_not_held,
)
from ..accounting.ledger.charge_request import charged_price
from ..accounting.ledger.lookup import DatasetState, ReleaseState, needs_no_secrets
from ..accounting.ledger.reader import LedgerReader
from ..mechanisms.kernel.amounts import amount_shown
from ..mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal, ReleaseFailed
from ..tasks.destinations import Output
from ..tasks.request import Request
from .charged_request import as_charged, request_of_series, series_and_part
from .columns import pays_for_any_draw
from .configured_kinds import switch_on_configured_kinds
from .metadata_remarks import metadata_remarks
from .output_place import check_output, output_name, require_apart, require_plain_name
from .paths import StatePaths, reader_of
from .releases.release_kind import release_kind
from .spec import read_spec

if TYPE_CHECKING:
    from ..tasks.inputs.source import SourceLayout

RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class PreparedRelease:
    """A release that may be charged: what a run goes on with, and what a dry run shows.

    Args:
        release_id: the release's id, given or made here; empty for a new release of a dry run, which has none.
        request: what is asked for.
        state_paths: where the ledger and the private store lie.
        reader: the ledger, open for looking until the block of `prepare` ends.
        held: the release's own folder in the private store, locked while that block lasts; None for a dry run, which
            holds nothing.
        state: what the ledger knows of this id; None where it is new.
        series: the series that has paid for the release, None for one that pays for itself.
        dataset: whose budget pays, with its account now.
        layout: the files of the records with their headers; None where the release is published already.
        other_names: names of data sets under which the same source was released before; for a warning alone.
        remarks: what seems wrong by the source's metadata; for a warning alone.
    """

    release_id: str
    request: Request
    state_paths: StatePaths
    reader: LedgerReader
    held: ReleaseFolder | None
    state: ReleaseState | None
    series: str | None
    dataset: DatasetState
    layout: SourceLayout | None
    other_names: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def folder(self) -> ReleaseFolder:
        """Return the release's own folder in the private store.

        Raises:
            ReleaseFailed: it is not held, so that nothing may be charged.
        """
        if self.held is None:
            raise ReleaseFailed("a dry run holds no release.")
        return self.held

    @property
    def charge(self) -> ChargedPrice | None:
        """Return what would be charged now; None where it is paid already, by itself or by its series."""
        paid = self.state is not None or self.series is not None
        return None if paid else charged_price(self.request.price)

    def __repr__(self) -> str:
        """Return what would be charged, in short."""
        amounts = (0, 0) if self.charge is None else (self.charge.epsilon, self.charge.delta)
        epsilon, delta = map(amount_shown, amounts)
        return f"PreparedRelease(dataset={self.dataset.name!r}, epsilon_charged={epsilon}, delta_charged={delta})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduled:
    """What a schedule says of a release's delivery.

    Args:
        day: of the scheduled time, by the schedule's clock; a source whose name has parts of a day is that day's.
        allow_unchanged: whether the delivery may be the last published one's.
    """

    day: date
    allow_unchanged: bool


@contextmanager
def prepare(
    spec: Path,
    *,
    state_paths: StatePaths,
    output: Output | None,
    release_id: str | None,
    series: str | None = None,
    new: bool = False,
    scheduled: Scheduled | None = None,
    rehearse: bool = False,
    dry: bool = False,
) -> Iterator[PreparedRelease]:
    """Check a release up to the charge and hold its lock until the block ends.

    Args:
        release_id: id to run, resume or look up; None for a new release.
        series: the series whose next release this is, as NAME, or NAME:PART for a part of a series of different
            mechanisms; None for a release that pays for itself.
        new: whether a release may begin beside an unfinished one of the same specification.
        dry: whether nothing is left behind: no lock, no folder, no entry, and a refusal isn't recorded either, since
            nobody tried to charge anything.

    Raises:
        InputRefused: the specification, its hierarchies, the source's metadata or the output is wrong, there is no
            signing key, the ledger has no such series, a release of the same specification is unfinished, or a
            scheduled release's delivery is the last one's.
        AccountantRefused: the ledger is behind its anchor, the budget or the series does not allow it, the id is
            taken, or a live process holds it.
    """
    _check_release_id(release_id)
    _require_clock()
    switch_on_configured_kinds()
    series, part = (None, None) if series is None else series_and_part(series)
    ad_hoc = read_spec(spec, output=output, rehearse=rehearse) if series is None else None
    with reader_of(state_paths) as reader, ExitStack() as held:
        store = _private_store(state_paths.home, dry=dry)
        # Asked for its refusal: without a signing key a charge could be neither signed nor anchored.
        state_paths.anchoring.keys.current()
        # Before any state is believed: a ledger that was set back may have forgotten a charge or a sample.
        reader.require_anchored(state_paths.anchoring)
        if store is not None:
            destroy_what_is_left(reader, state_paths)
        state = None if release_id is None else reader.release(release_id)
        if ad_hoc is None:
            own = reader.series(str(series))
            request = request_of_series(spec, output=output, series=own, part=part, state=state)
        else:
            request = ad_hoc if state is None else as_charged(ad_hoc, state, spec=spec, output=output)
        require_plain_name(request.output)
        request = _of_its_day(request, state, reader=reader, home=state_paths.home, scheduled=scheduled)
        require_apart(request)
        if not new:
            _require_none_cut_off(
                request, spec=spec, output=output, release_id=release_id, reader=reader, state_paths=state_paths
            )
        name, folder = release_id or "", None
        if store is not None:
            name = name or f"{series or request.label}-{secrets.token_hex(6)}"
            folder = held.enter_context(store.hold(ledger_id=reader.ledger_id, release_id=name))
        elif name:
            require_not_held(state_paths.home, ledger_id=reader.ledger_id, release_id=name)
        # Read again under the lock. Between the first look and the lock another process may have finished or abandoned
        # the release.
        state = reader.release(name)  # of a run nobody else can change it from here on
        if (violation := release_violation(reader, request, state=state, series=series)) is not None:
            asked = request.dataset if series is None else reader.series(series).registered.dataset
            dataset = asked if state is None else state.charge.dataset
            _refuse(violation, state_paths=state_paths, release_id=name, dataset=None if dry else dataset)
        if request.rehearsal and state is None:
            _require_more_releases(reader.dataset(request.dataset))
        layout: SourceLayout | None = None
        other_names: tuple[str, ...] = ()
        # A published release needs neither its records nor a place: it is looked up, and nothing is charged.
        if state is None or state.stage != "published":
            layout = _layout_as_charged(request, state, folder, reader=reader, home=state_paths.home)
            # Two releases on their way to one folder would find out after both were charged.
            held.enter_context(_held_output(store, state_paths.home, output_name(request.output)))
            check_output(request.output, own=None if state is None else name, keys=state_paths.anchoring.keys)
            if state is None:
                _require_ready(request, spec, state_paths)
            other_names = _other_names(layout, folder, dataset=request.dataset, reader=reader, home=state_paths.home)
            if scheduled is not None and not scheduled.allow_unchanged and state is None and folder is not None:
                _require_new_delivery(layout, folder, series=str(series), reader=reader, home=state_paths.home)
        elif folder is not None:
            folder.destroy_key()  # a crash may have come between the close and the end of the key
        yield PreparedRelease(
            release_id=name,
            request=request,
            state_paths=state_paths,
            reader=reader,
            held=folder,
            state=state,
            series=series,
            dataset=reader.dataset(request.dataset),
            layout=layout,
            other_names=other_names,
            remarks=() if layout is None else metadata_remarks(layout, request),
        )


def _private_store(home: Path, *, dry: bool) -> PrivateStore | None:
    """Open the private store, made where there is none; a dry run only sees that nobody else can look into it."""
    if not dry:
        return open_private_store(home)
    if os.path.exists(home):
        require_private(home)
    return None


def _require_more_releases(dataset: DatasetState) -> None:
    """Refuse to rehearse a release of a survey: the rehearsal would be the one release that it has.

    Raises:
        InputRefused: the data set is itself a sample.
    """
    if dataset.survey:
        raise InputRefused(
            f"data set '{dataset.name}' is itself a sample and can be released once, and a rehearsal would be that "
            "release.",
            where="--rehearse",
            remedy="Leave it out, and run the release itself. `crowdblend preview` with public records of the same "
            "format tells beforehand what becomes *.",
        )


def _require_ready(request: Request, spec: Path, state_paths: StatePaths) -> None:
    """Look at what is left before a new charge: what could fail after it, and a second person's approval.

    Raises:
        InputRefused: something would fail, or an approval is needed and there is none that counts.
    """
    request.rehearse()
    if state_paths.approvers is not None:
        from .approvals import require_approved  # where a second person has to approve

        require_approved(request, spec, state_paths)


def destroy_what_is_left(reader: LedgerReader, state_paths: StatePaths) -> None:
    """Destroy keys and copies of records that a killed process has left of releases which need none any more.

    Raises:
        InputRefused: the private store can't be used.
    """
    with_secrets = releases_with_secrets(state_paths.home, ledger_id=reader.ledger_id)
    if waiting := [name for name in with_secrets if needs_no_secrets(reader.release(name))]:
        from ..tasks.stages.charge import destroy_secrets  # most runs find nothing

        url, anchoring = state_paths.ledger_url, state_paths.anchoring
        store = PrivateStore(state_paths.home)
        destroy_secrets(waiting, ledger_url=url, anchoring=anchoring, reader=reader, store=store)


def _of_its_day(
    request: Request, state: ReleaseState | None, *, reader: LedgerReader, home: Path, scheduled: Scheduled | None
) -> Request:
    """Return the request with the source of its day: that of the charge, else of the schedule, else today."""
    today = datetime.now(UTC).date() if scheduled is None else scheduled.day
    dated = request.on_day(today)
    if dated is request or state is None:
        return dated
    from ..accounting.keys.store_upkeep import remembered_facts  # of dated sources alone

    # A release that was cut off yesterday reads yesterday's file: today's would be another delivery under one charge.
    charged = remembered_facts(home, ledger_id=reader.ledger_id, release_id=state.release_id).get("source_day")
    return dated if charged is None else request.on_day(date.fromisoformat(charged))


def _require_new_delivery(
    layout: SourceLayout, folder: ReleaseFolder, *, series: str, reader: LedgerReader, home: Path
) -> None:
    """Refuse a delivery that the release of a series that was published last was made of.

    PRIVACY: that a release is missing is seen in public, so this follows from what was delivered when and from no
    record (docs/decisions/0025-deliveries.md).
    """
    from ..accounting.keys.store_upkeep import remembered_facts  # of schedules alone
    from ..tasks.inputs.source import delivery_bytes

    delivery, last = delivery_bytes(layout.source), reader.last_published_of_series(series)
    if delivery is None or last is None:
        return
    # Keyed, and in the private store: that two deliveries are equal must not be seen in the ledger.
    known = remembered_facts(home, ledger_id=reader.ledger_id, release_id=last).get("delivery")
    if known == folder.fingerprint(delivery):
        raise InputRefused(
            f"nothing was delivered since release '{last}': no file was written since.",
            where=layout.source.files[0].path,
            remedy="Deliver the records, or serve with --allow-unchanged to release the same ones again.",
            cause="source-unchanged",
        )


def _require_none_cut_off(
    request: Request,
    *,
    spec: Path,
    output: Output | None,
    release_id: str | None,
    reader: LedgerReader,
    state_paths: StatePaths,
) -> None:
    """Refuse to begin a release where another one of the same specification was cut off, which can be finished."""

    def digest_as_charged(state: ReleaseState) -> str:
        if pays_for_any_draw(request.mechanism):
            return request.digest
        charged = as_charged(request, state, spec=spec, output=output)
        return (charged if request.source_day is None else charged.on_day(request.source_day)).digest

    same = [
        state
        for state in reader.open_releases(dataset=request.dataset)
        # By the digest of the specification as it was charged, which may differ from today's in what a draw or a date
        # has fixed.
        if state.release_id != release_id and state.charge.spec_digest == digest_as_charged(state)
    ]
    if same:
        from .unfinished import require_all_held  # most runs begin where nothing is unfinished

        require_all_held(same, request, spec=spec, output=output, reader=reader, state_paths=state_paths)


def _check_release_id(release_id: str | None) -> None:
    """Refuse an id of another form; None is the id that a new release is given."""
    if release_id is not None and not RELEASE_ID.fullmatch(release_id):
        raise InputRefused("a release id is 1 to 128 letters, digits and any of . _ : + @ -.", where="--release-id")


def _require_clock() -> None:
    """Refuse a clock that is not set: days of entries come from it, and Prefect knows no time before 1970."""
    now = datetime.now(UTC)
    if now.timestamp() < 0:
        raise InputRefused(
            f"this machine's clock says {now:%Y-%m-%d}, before 1970.",
            where="clock",
            remedy="Set it, for example by NTP.",
        )


def layout_of_source(request: Request) -> SourceLayout:
    """Return the files of the records with their headers, or a database's columns; no record is read.

    Raises:
        InputRefused: there are none, or they are not what is asked for.
    """
    return release_kind(request.kind).layout(request)


def layout_of_copy(request: Request, copy: Path) -> SourceLayout:
    """Return the private copy of a database's records with its footer; no record is read.

    Raises:
        InputRefused: it is gone or damaged.
    """
    own = dataclasses.replace(request, source=str(copy), query=None)
    try:
        found = release_kind(request.kind).layout(own)
    except InputRefused:
        raise InputRefused(
            "the private copy of the database's records is gone or damaged, and they are never copied again.",
            where=str(copy),
            not_done="Nothing was read; what was charged stays charged.",
            remedy="Give the release up: `crowdblend abandon`.",
        ) from None
    return dataclasses.replace(found, source=dataclasses.replace(found.source, query=request.query))


def release_violation(
    reader: LedgerReader, request: Request, *, state: ReleaseState | None, series: str | None
) -> Refusal | None:
    """Return what the ledger's rules have against a release now, its source unopened; None where nothing."""
    if state is not None:
        return _resume_violation(state, request, series=series)
    if series is None:
        return reader.check_charge(
            dataset=request.dataset, mechanism=request.mechanism, price=request.price, unit=request.unit
        )
    return reader.look_at_series(
        name=series,
        dataset=request.dataset,
        spec_digest=request.series_digest,
        mechanism=request.mechanism,
        unit=request.unit,
        part=request.part,
    )


def _resume_violation(state: ReleaseState, request: Request, *, series: str | None) -> Refusal | None:
    """Return what speaks against a known id: anything but exactly this release, still open or published."""
    if state.stage == "abandoned":
        return AccountantRefused(
            f"release id '{state.release_id}' was abandoned.",
            cause="release-abandoned",
            remedy="Run again with another release id.",
        )
    paid_by = None if state.charge.series is None else state.charge.series.name
    if paid_by != series:
        return AccountantRefused(
            f"release id '{state.release_id}' belongs to "
            + ("no series." if paid_by is None else f"the series '{paid_by}'."),
            cause="other-series",
            remedy="Run it as it was charged, or run with another release id.",
        )
    if state.charge.spec_digest != request.digest:
        return AccountantRefused(
            f"release id '{state.release_id}' belongs to another specification.",
            cause="other-specification",
            remedy="Restore that specification, or run with another release id.",
        )
    return None


def _refuse(refusal: Refusal, *, state_paths: StatePaths, release_id: str, dataset: str | None) -> NoReturn:
    """Refuse, with a record of it where a data set's budget was asked to pay."""
    if dataset is None:
        raise refusal
    from ..tasks.stages.charge import open_writer, refuse  # what writes to the ledger is loaded where it writes

    refuse(
        refusal,
        opened=partial(open_writer, state_paths.ledger_url, anchoring=state_paths.anchoring),
        release_id=release_id,
        dataset=dataset,
        today=datetime.now(UTC).date(),
    )


def _held_output(store: PrivateStore | None, home: Path, output: str) -> AbstractContextManager[None]:
    """Hold an output's place; a dry run only sees that no process has it."""
    if store is not None:
        return store.hold_output(output)
    require_output_not_held(home, output)
    return nullcontext()


def _layout_as_charged(
    request: Request, state: ReleaseState | None, folder: ReleaseFolder | None, *, reader: LedgerReader, home: Path
) -> SourceLayout:
    """Return the source; of a charged release with the version of a lake table and the copied records of then."""
    if state is None:
        return layout_of_source(request)
    if folder is not None:
        charged, copy = folder.remembered(), folder.copy
    else:
        from ..accounting.keys.store_upkeep import copy_of_release, remembered_facts

        known = {"ledger_id": reader.ledger_id, "release_id": state.release_id}
        charged, copy = remembered_facts(home, **known), copy_of_release(home, **known)
    # A lake table may have newer versions by now. A retry that read another one could compare two samples of different
    # records.
    if charged.get("table_version") is not None:
        request = dataclasses.replace(request, version=charged["table_version"])
    return layout_of_source(request) if charged.get("copy") is None else layout_of_copy(request, copy)


def _other_names(
    layout: SourceLayout, folder: ReleaseFolder | None, *, dataset: str, reader: LedgerReader, home: Path
) -> tuple[str, ...]:
    """Return the other names that a source goes by; a run notes that it goes by this one too."""
    from ..tasks.inputs.source import source_metadata_bytes  # what reads files is loaded where they are looked at

    metadata = source_metadata_bytes(layout)
    if folder is not None:
        own = folder.fingerprint(metadata)
        return other_names_of_source(home, fingerprint=own, ledger_id=reader.ledger_id, dataset=dataset)
    from ..accounting.keys.store_upkeep import known_names_of_source

    return tuple(name for name in known_names_of_source(home, metadata) if name != f"'{dataset}'")
