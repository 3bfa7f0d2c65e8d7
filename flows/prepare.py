"""Everything that happens before a release is charged: the checks, in the order that protects people.

First the specification and its hierarchies, then the signing key, the ledger's anchor and a read-only look at the
budget with the source unopened, then metadata of the source alone. Whatever is refused here has cost nothing.
What seems wrong by the metadata and may be right gives a warning alone. A release's output and its records lie
apart: neither may be inside of the other."""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NoReturn

from ..accounting.kernel.keys.private_store import ReleaseFolder, require_private
from ..accounting.kernel.keys.signing import SigningKeys
from ..accounting.kernel.ledger.charge import charged_price
from ..accounting.kernel.ledger.entry_types import ChargedPrice, FreeSeriesRegistered
from ..accounting.kernel.prices.registry import mechanism_of_record, not_covered
from ..accounting.keys.store_upkeep import (
    open_private_store,
    other_names_of_source,
    releases_with_secrets,
    require_not_held,
    require_output_not_held,
)
from ..accounting.ledger.lookup import DatasetState, needs_no_secrets
from ..accounting.ledger.reader import LedgerReader, ReleaseState, SeriesState, open_reader
from ..mechanisms.hierarchies.build import DateHierarchy
from ..mechanisms.hierarchies.declare import BUCKET_CODE, Hierarchy, IntervalHierarchy, ValueHierarchy
from ..mechanisms.kernel.amounts import amount_exact, amount_shown
from ..mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal
from ..mechanisms.map_selection.choice import MapChoice
from ..tasks.inputs.files import is_url
from ..tasks.request import ObjectPrefix, Output, Request, digest_of_mixed
from ..tasks.stages.publish import INSIDE_RELEASE, require_free, try_staging
from .columns import pays_for_any_draw
from .paths import StatePaths
from .releases.kind import release_kind
from .spec import read_spec

if TYPE_CHECKING:
    import pyarrow as pa

    from ..mechanisms.kinds.mixed_series import MixedSeries
    from ..tasks.inputs.list import SourceLayout
    from ..tasks.inputs.statistics_files import StoredLabels

__all__ = [
    "DryRun",
    "PreparedRelease",
    "Scheduled",
    "check_output",
    "dry_run",
    "layout_of_copy",
    "layout_of_source",
    "metadata_remarks",
    "prepared_release",
    "release_violation",
    "request_of_series",
    "require_apart",
]

TABLES = ("data.csv", "data.parquet", "margins.csv", "margins.parquet")
MARKS = "*?["


def require_apart(request: Request) -> None:
    """Refuse an output among the records, or records inside of the output.

    PRIVACY: a table that lies among the records is read as records by the next release, and a folder of a release that
    has private records in it gives them away. Nothing is opened: the names alone decide.

    Args:
        request: the release.

    Raises:
        InputRefused: they are not apart.
    """
    output, source = request.output, str(request.source)
    if isinstance(output, ObjectPrefix):
        inside = is_url(source) and _below(output.url, _fixed(source))
        around = is_url(source) and _below(_fixed(source), output.url)
    elif is_url(source):
        return
    else:
        whole = (request.base / source).absolute()
        records, place = Path(_fixed(str(whole))).resolve(), output.resolve()
        recursive = not any(mark in source for mark in MARKS) or "**" in source
        inside = recursive and records in (place, *place.parents)
        inside = inside or any(PurePath(output / name).match(str(whole)) for name in TABLES)
        around = place in (records, *records.parents) and records != Path(records.anchor)
    if inside:
        raise InputRefused(
            "the output lies among the records, so that the next release would read it as records.",
            where=str(output),
            remedy="Name a folder elsewhere.",
        )
    if around:
        raise InputRefused(
            "the records lie inside of the output, whose folder holds what is published and nothing else.",
            where=str(output),
            remedy="Name a folder elsewhere.",
        )


def _fixed(source: str) -> str:
    """What comes before the first folder or name with a wildcard."""
    parts = source.split("/")
    wild = next((place for place, part in enumerate(parts) if any(mark in part for mark in MARKS)), len(parts))
    return "/".join(parts[:wild]) or "/"


def _below(inner: str, outer: str) -> bool:
    return f"{inner.rstrip('/')}/".startswith(f"{outer.rstrip('/')}/")


RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class PreparedRelease:
    """A release that may be charged, held by this process alone.

    Args:
        release_id: the release's id, given or made here.
        request: what is asked for.
        state_paths: where the ledger and the private store lie.
        folder: the release's own folder in the private store, locked while this object is in use.
        state: what the ledger knows of this id; None where it is new.
        layout: the files of the records with their headers; None where the release is published already.
        series: the series that has paid for the release, None for one that pays for itself.
        other_names: names of data sets under which the same source was released before; for a warning alone.
        remarks: what seems wrong by the source's metadata; for a warning alone.
    """

    release_id: str
    request: Request
    state_paths: StatePaths
    folder: ReleaseFolder
    state: ReleaseState | None
    layout: SourceLayout | None
    series: str | None
    other_names: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


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
def prepared_release(
    spec: Path,
    *,
    state_paths: StatePaths,
    output: Output | None,
    release_id: str | None,
    series: str | None = None,
    new: bool = False,
    scheduled: Scheduled | None = None,
    rehearse: bool = False,
) -> Iterator[PreparedRelease]:
    """Check a release up to the charge and hold its lock until the block ends.

    Args:
        spec: the specification's file.
        state_paths: where the ledger and the private store lie.
        output: the release's place, instead of the specification's.
        release_id: id to run, resume or look up; None for a new release.
        series: the series whose next release this is, as NAME, or NAME:PART for a part of a series of different
            mechanisms; None for a release that pays for itself.
        new: whether a release may begin beside an unfinished one of the same specification.
        scheduled: what a schedule says of the delivery; None where nothing is scheduled.
        rehearse: whether it is the release's rehearsal; not of a series.

    Raises:
        InputRefused: the specification, its hierarchies, the source's metadata or the output is wrong, there is no
            signing key, the ledger has no such series, a release of the same specification is unfinished, or a
            scheduled release's delivery is the last one's.
        AccountantRefused: the ledger is behind its anchor, the budget or the series does not allow it, the id is
            taken, or a live process holds it. What the ledger's rules refuse is recorded in it.
    """
    check_release_id(release_id)
    _require_clock()
    series, part = series_and_part(series)
    ad_hoc = read_spec(spec, output=output, rehearse=rehearse) if series is None else None
    reader = open_reader(state_paths.ledger_url)
    open_private_store(state_paths.home)
    state_paths.anchoring.keys.current()
    reader.require_anchored(state_paths.anchoring)
    _destroy_what_is_left(reader, state_paths)
    if ad_hoc is None:
        own = reader.series(str(series))
        request = request_of_series(spec, output=output, series=own, part=part, state=_known(reader, release_id))
    else:
        request = _as_charged(ad_hoc, _known(reader, release_id), spec=spec, output=output)
    _require_plain_name(request.output)
    request = _of_its_day(request, release_id, reader=reader, home=state_paths.home, scheduled=scheduled)
    require_apart(request)
    if not new:
        _require_none_cut_off(
            request, spec=spec, output=output, release_id=release_id, reader=reader, state_paths=state_paths
        )
    name = release_id or f"{series or request.label}-{secrets.token_hex(6)}"
    private = open_private_store(state_paths.home)
    with private.hold(ledger_id=reader.ledger_id, release_id=name) as folder, ExitStack() as held:
        state = reader.release(name)
        if (violation := release_violation(reader, request, state=state, series=series)) is not None:
            _refuse(violation, state_paths=state_paths, release_id=name, dataset=_payer(reader, request, state, series))
        published = state is not None and state.stage == "published"
        if published:
            folder.destroy_key()  # a crash may have come between the close and the end of the key
        layout = None
        other_names: tuple[str, ...] = ()
        remarks: tuple[str, ...] = ()
        if not published:
            from ..tasks.inputs.list import source_metadata_bytes  # what reads files is loaded where they are looked at

            charged = folder.remembered() if state is not None else None
            layout = layout_of_source(request, charged=charged, copy=folder.copy)
            held.enter_context(private.hold_output(_place_of(request.output)))
            check_output(request.output, own=name if state is not None else None, keys=state_paths.anchoring.keys)
            if state is None:
                request.rehearse()
            other_names = other_names_of_source(
                state_paths.home,
                fingerprint=folder.fingerprint(source_metadata_bytes(layout)),
                ledger_id=reader.ledger_id,
                dataset=request.dataset,
            )
            remarks = metadata_remarks(layout, request)
            if scheduled is not None and not scheduled.allow_unchanged and state is None:
                _require_new_delivery(layout, folder, series=str(series), reader=reader, home=state_paths.home)
        yield PreparedRelease(
            release_id=name,
            request=request,
            state_paths=state_paths,
            folder=folder,
            state=state,
            layout=layout,
            series=series,
            other_names=other_names,
            remarks=remarks,
        )


def _of_its_day(
    request: Request, release_id: str | None, *, reader: LedgerReader, home: Path, scheduled: Scheduled | None
) -> Request:
    """The request with its day's source: of the charge, where it is charged already, of the schedule, or of today."""
    today = datetime.now(UTC).date() if scheduled is None else scheduled.day
    dated = request.on_day(today)
    if dated is request or release_id is None or reader.release(release_id) is None:
        return dated
    from ..accounting.keys.store_upkeep import remembered_facts  # of dated sources alone

    charged = remembered_facts(home, ledger_id=reader.ledger_id, release_id=release_id).get("source_day")
    return dated if charged is None else request.on_day(date.fromisoformat(charged))


def _known(reader: LedgerReader, release_id: str | None) -> ReleaseState | None:
    return None if release_id is None else reader.release(release_id)


def _as_charged(request: Request, state: ReleaseState | None, *, spec: Path, output: Output | None) -> Request:
    """The request as it was charged, where the record of its draw is another than a new release's would be.

    Earlier versions drew maps by another mechanism where the specification doesn't say by which, and recorded walks
    and exponential draws without their bounded range.
    """
    recorded = None if state is None else mechanism_of_record(dict(state.charge.mechanism))
    if pays_for_any_draw(recorded) and isinstance(request.recoding, MapChoice):
        with suppress(InputRefused):  # it is another specification's, as its digest will tell
            return read_spec(spec, output=output, rehearse=request.rehearsal, recorded=recorded)
    return request


def _require_new_delivery(
    layout: SourceLayout, folder: ReleaseFolder, *, series: str, reader: LedgerReader, home: Path
) -> None:
    """Refuse a delivery that the release of a series that was published last was made of.

    PRIVACY: that a release is missing is seen in public, so this follows from what was delivered when and from no
    record (docs/decisions/0025-deliveries.md).
    """
    from ..accounting.keys.store_upkeep import remembered_facts  # of schedules alone
    from ..tasks.inputs.list import delivery_bytes

    delivery, last = delivery_bytes(layout.source), reader.last_published_of_series(series)
    if delivery is None or last is None:
        return
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
        as_charged = _as_charged(request, state, spec=spec, output=output)
        return (as_charged if request.source_day is None else as_charged.on_day(request.source_day)).digest

    same = [
        state
        for state in reader.open_releases(dataset=request.dataset)
        if state.release_id != release_id and state.charge.spec_digest == digest_as_charged(state)
    ]
    if same:
        from .unfinished import require_all_held  # most runs begin where nothing is unfinished

        require_all_held(same, request, spec=spec, output=output, reader=reader, state_paths=state_paths)


def check_release_id(release_id: str | None) -> None:
    """Refuse an id of another form; None is the id that a new release is given.

    Raises:
        InputRefused: it has another form.
    """
    if release_id is not None and not RELEASE_ID.fullmatch(release_id):
        raise InputRefused("a release id is 1 to 128 letters, digits and any of . _ : + @ -.", where="--release-id")


def _destroy_what_is_left(reader: LedgerReader, state_paths: StatePaths) -> None:
    """Destroy keys and copies of records that a killed process has left of releases which need none any more."""
    waiting = [
        name
        for name in releases_with_secrets(state_paths.home, ledger_id=reader.ledger_id)
        if needs_no_secrets(reader.release(name))
    ]
    if waiting:
        from ..tasks.stages.charge import destroy_secrets  # most runs find nothing

        destroy_secrets(
            waiting,
            ledger_url=state_paths.ledger_url,
            anchoring=state_paths.anchoring,
            ledger_id=reader.ledger_id,
            store=open_private_store(state_paths.home),
        )


def _require_clock() -> None:
    """Refuse a clock that is not set: days of entries come from it, and Prefect knows no time before 1970.

    Raises:
        InputRefused: it says a time before 1970.
    """
    now = datetime.now(UTC)
    if now.timestamp() < 0:
        raise InputRefused(
            f"this machine's clock says {now:%Y-%m-%d}, before 1970.",
            where="clock",
            remedy="Set it, for example by NTP.",
        )


def layout_of_source(
    request: Request, *, charged: Mapping[str, Any] | None = None, copy: Path | None = None
) -> SourceLayout:
    """The files of the records with their headers, or a database's columns; no record is read.

    Args:
        request: what is asked for.
        charged: what the private store remembers of the release once it is charged, the version of a lake table too,
            which is read again whatever the table is now, and whether a database's records are copied; None before.
        copy: where these lie.

    Raises:
        InputRefused: there are none, or they are not what is asked for.
    """
    if charged and charged.get("table_version") is not None:
        request = dataclasses.replace(request, version=charged["table_version"])
    if charged and charged.get("copy") is not None and copy is not None:
        return layout_of_copy(request, copy)
    return release_kind(request.kind).layout(request)


def layout_of_copy(request: Request, copy: Path) -> SourceLayout:
    """The private copy of a database's records with its footer; no record is read.

    Args:
        request: what is asked for, of a database.
        copy: the copy's file.

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


def series_and_part(series: str | None) -> tuple[str | None, int | None]:
    """A series' name and the part that is asked for, of NAME or NAME:PART.

    Raises:
        InputRefused: the part is no number from 1.
    """
    if series is None or ":" not in series:
        return series, None
    name, _, part = series.partition(":")
    if not re.fullmatch(r"[1-9][0-9]{0,3}", part):
        raise InputRefused("a part of a series is a number from 1.", where=f"--series {series}")
    return name, int(part)


def request_of_series(
    spec: Path,
    *,
    output: Output | None,
    series: SeriesState,
    part: int | None = None,
    state: ReleaseState | None = None,
) -> Request:
    """A release of a series as asked for, with the price that was reserved when the series was registered.

    Args:
        spec: the specification's file.
        output: the release's place, instead of the specification's.
        series: the series.
        part: of a series of different mechanisms, from 1; None finds the one that the release is of.
        state: what the ledger knows of the release; None where it is new.

    Raises:
        InputRefused: the specification is wrong, there is no such part, or several would pay for the release.
    """
    if (mixed := series.registered.mixed) is not None:
        return _request_of_part(spec, output=output, series=series, mixed=mixed, part=part, state=state)
    if part is not None:
        raise InputRefused(
            "this series is of one mechanism and has no parts.",
            where=f"--series {series.registered.series}:{part}",
            remedy=f"Write --series {series.registered.series}.",
        )
    reserved = series.registered.price
    registered = mechanism_of_record(dict(series.registered.mechanism))
    recorded = registered if state is None else mechanism_of_record(dict(state.charge.mechanism))
    request = read_spec(spec, output=output, releases=reserved.releases, recorded=recorded)
    if isinstance(series.registered, FreeSeriesRegistered):
        request = dataclasses.replace(request, registered=registered)
    if request.price.delta != reserved.delta:
        return request  # refused below, as another specification
    price = dataclasses.replace(request.price, epsilon=reserved.epsilon, rule=reserved.rule)
    return dataclasses.replace(request, price=price)


def _request_of_part(
    spec: Path,
    *,
    output: Output | None,
    series: SeriesState,
    mixed: MixedSeries,
    part: int | None,
    state: ReleaseState | None,
) -> Request:
    reserved, where = series.registered.price, f"--series {series.registered.series}"
    request = _as_charged(read_spec(spec, output=output), state, spec=spec, output=output)
    own = request.price
    if own.delta not in (0, reserved.delta):
        raise InputRefused(
            f"the series has δ = {amount_exact(reserved.delta)} for all its releases together.",
            where=f"{spec}: [privacy].delta",
            remedy=f"Write delta = {amount_exact(reserved.delta)}.",
        )
    parts = range(1, len(mixed.each) + 1)
    if part is None:
        paid = [one for one in parts if not_covered(request.mechanism, mixed, number=mixed.numbers(one)[0]) is None]
        alike = [one for one in paid if mixed.each[one - 1].measure in (request.mechanism, own.epsilon)]
        if len(paid) > 1 and len(alike) != 1:
            raise InputRefused(
                f"several parts of this series would pay for this release: {', '.join(map(str, paid))}.",
                where=where,
                remedy=f"Name one, such as {where}:{paid[0]}.",
            )
        nearest = [one for one in parts if isinstance(mixed.each[one - 1].measure, Decimal) is (own.delta == 0)]
        part = (alike or paid or nearest or [1])[0]
    if part not in parts:
        raise InputRefused(f"this series has {len(parts)} parts: {mixed.parts}.", where=f"{where}:{part}")
    charged = dataclasses.replace(
        own, epsilon=reserved.epsilon, delta=reserved.delta, rule=reserved.rule, releases=reserved.releases
    )
    older = digest_of_mixed(mixed, dataset=series.registered.dataset, delta=reserved.delta, unit=None)
    binds_unit = series.registered.spec_digest != older
    return dataclasses.replace(request, price=charged, registered=mixed, part=part, binds_unit=binds_unit)


def release_violation(
    reader: LedgerReader, request: Request, *, state: ReleaseState | None, series: str | None
) -> Refusal | None:
    """What the ledger's rules say against a release now, with its source unopened; None where they say nothing."""
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


def _payer(reader: LedgerReader, request: Request, state: ReleaseState | None, series: str | None) -> str:
    """The data set whose budget was asked."""
    if state is not None:
        return state.charge.dataset
    return request.dataset if series is None else reader.series(series).registered.dataset


def _refuse(refusal: Refusal, *, state_paths: StatePaths, release_id: str, dataset: str) -> NoReturn:
    """Refuse, with a record of it."""
    from ..tasks.stages.charge import refuse  # what writes to the ledger is loaded where it writes

    refuse(
        ledger_url=state_paths.ledger_url,
        anchoring=state_paths.anchoring,
        refusal=refusal,
        release_id=release_id,
        dataset=dataset,
        today=datetime.now(UTC).date(),
    )


def _resume_violation(state: ReleaseState, request: Request, *, series: str | None) -> Refusal | None:
    """What speaks against a known id: anything but exactly this release, still open or published."""
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


def check_output(output: Output, *, own: str | None, keys: SigningKeys) -> None:
    """Refuse an output that exists, unless it is the complete one of the release `own`, cut off before its close.

    Whatever could keep a charged release from ever being published is looked for here: the name, the store, and the
    very folder that the output is staged in, which is made and removed.

    Raises:
        InputRefused: something else lies there, or nothing can be written there.
    """
    _require_plain_name(output)
    if isinstance(output, ObjectPrefix):
        if own is None:
            require_free(output)
        return  # what a resumed release finds there is compared when it is published
    from ..accounting.certificate.verify import check_certificate, read_certificate

    certificate = output / "certificate.json"
    if own is not None and certificate.is_file() and read_certificate(certificate).get("release_id") == own:
        if not check_certificate(certificate, trusted=keys.public_keys()):
            return
        raise InputRefused("the output is this release's, but it has been changed.", where=str(output))
    if output.exists() or output.is_symlink():
        raise InputRefused("the output exists already.", where=str(output), remedy="Name a folder that doesn't exist.")
    above = {*output.parents, *output.resolve().parents}
    if any((folder / "certificate.json").exists() for folder in above):
        raise InputRefused(INSIDE_RELEASE, where=str(output), remedy="Name a folder elsewhere.")
    if keys.home.resolve() in (output.resolve(), *output.resolve().parents):
        raise InputRefused(
            "the output lies inside of the private store, which nobody but its owner may look into.",
            where=str(output),
            remedy="Name a folder elsewhere.",
        )
    try:
        try_staging(output)
    except OSError as error:
        raise InputRefused(f"the output can't be written ({error.strerror}).", where=str(output)) from None


def _require_plain_name(output: Output) -> None:
    """Refuse a name that a certificate, a record or a terminal can't hold."""
    name = str(output)
    try:
        plain = "\0" not in name and bool(name.encode("utf-8"))
    except UnicodeEncodeError:
        plain = False
    if not plain:
        raise InputRefused("the output's name is not UTF-8 text.", where=ascii(name), remedy="Name another folder.")


def _place_of(output: Output) -> str:
    """An output's one name, by which its place is held."""
    return output.url if isinstance(output, ObjectPrefix) else str(output.resolve())


_DAY = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(_DAY.pattern + rb" [0-9:.]+")
_TRUTHS = (b"true", b"false")


def metadata_remarks(layout: SourceLayout, request: Request) -> tuple[str, ...]:
    """Sentences about headers that look like records, columns whose type has no declared value, and no records at all.

    PRIVACY: headers, Parquet footers and sizes alone are looked at, and nothing of a header is quoted. That there are
    no records is a warning and no refusal: if a table of one record were released and an empty one not, a release
    would tell that the one person is in the table. So a release of no records is charged and published as any other.

    Args:
        layout: the source's metadata.
        request: what is asked for.
    """
    from ..tasks.inputs.csv_header import CsvLayout  # what reads files is loaded where they are looked at
    from ..tasks.inputs.parquet_footer import ParquetLayout

    found: list[str] = []
    for file, part in zip(layout.source.files, layout.layouts, strict=True):
        match part:
            case CsvLayout(remarks=remarks):
                found.extend(f"{file.path}, line 1: {remark}." for remark in remarks)
            case ParquetLayout(types=types, labels=labels) if request.source_columns:
                found.extend(f"{file.path}: {remark}." for remark in _impossible_columns(types, labels, request))
                found.extend(f"{file.path}: {remark}." for remark in _other_codes(labels, request))
    if layout.without_records:
        found.append(f"{request.source}: no record follows the header, and a release is charged all the same.")
    return tuple(found)


def _impossible_columns(types: tuple[pa.DataType, ...], labels: Collection[str], request: Request) -> Iterator[str]:
    for column, type_ in zip(request.source_columns, types, strict=False):  # a column of ids may come after them
        if column.name in labels:  # its values may be read as value labels
            continue
        if _unseen(type_, column.hierarchy) or _has_places(type_, column.hierarchy, request):
            yield f"the column {column.name!r} has the type {type_}, and no value of it is declared: all would be `*`"


def _other_codes(labels: Mapping[str, StoredLabels], request: Request) -> Iterator[str]:
    """Columns whose labels would have other codes in a file for the same package than they have in the source."""
    from ..tasks.inputs.statistics_files import labels_are_meant

    for column in request.source_columns if request.also else ():
        own = labels.get(column.name, {})
        if own and labels_are_meant(column.hierarchy, own):
            declared = request.codes.get(column.name, {})
            if any(declared.get(label.strip()) not in (None, code) for code, label in own.items()):
                yield f"the codes that [columns.{column.name}] declares are not those of the file's value labels"
            elif not declared:
                yield (
                    f"[columns.{column.name}] declares no codes, so in {' and '.join(request.also)} its labels have "
                    "other codes than here, and programs that were written for these would run and be wrong: declare "
                    "codes, as crowdblend spec new writes them"
                )


def _has_places(type_: pa.DataType, hierarchy: Hierarchy, request: Request) -> bool:
    """Whether values are decimals such as 30.0, where whole numbers are declared and aren't read of them."""
    import pyarrow as pa

    places = pa.types.is_decimal(type_) and type_.scale > 0
    return places and not request.reading.whole_floats and isinstance(hierarchy, IntervalHierarchy)


def _unseen(type_: pa.DataType, hierarchy: Hierarchy) -> bool:
    """Whether every value of a type has the bucket's code."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return _unseen(type_.value_type, hierarchy)
    if pa.types.is_null(type_):
        return True
    if pa.types.is_boolean(type_):
        return bool((hierarchy.codes_of_texts(_TRUTHS, 0) == BUCKET_CODE).all())
    if pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and not isinstance(hierarchy, DateHierarchy)):
        form = _DAY if pa.types.is_date(type_) else _TIME
        return not isinstance(hierarchy, ValueHierarchy) or not any(map(form.fullmatch, hierarchy.leaf_of_text))
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return isinstance(hierarchy, ValueHierarchy) and hierarchy.leaf_of_integer.numbers.size == 0
    return False


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a run would begin with.

    Args:
        release_id: the id that was asked for; None where the run would be given a new one.
        request: what is asked for.
        state: what the ledger knows of this id; None where it is new.
        series: the series that has paid for it, None for a release that pays for itself.
        dataset: whose budget pays, with its account now.
        charge: what would be charged now; None where it is paid already, by itself or by its series.
        layout: the files of the records with their headers; None where the release is published already.
        other_names: names of data sets under which the same source was released before; for a warning alone.
        remarks: what seems wrong by the source's metadata; for a warning alone.
    """

    release_id: str | None
    request: Request
    state: ReleaseState | None
    series: str | None
    dataset: DatasetState
    charge: ChargedPrice | None
    layout: SourceLayout | None
    other_names: tuple[str, ...]
    remarks: tuple[str, ...]

    def __repr__(self) -> str:
        """What would be charged, in short."""
        amounts = (0, 0) if self.charge is None else (self.charge.epsilon, self.charge.delta)
        epsilon, delta = map(amount_shown, amounts)
        return f"DryRun(dataset={self.dataset.name!r}, epsilon_charged={epsilon}, delta_charged={delta})"


def dry_run(
    spec: Path,
    *,
    state_paths: StatePaths,
    output: Output | None,
    release_id: str | None,
    series: str | None = None,
    new: bool = False,
    rehearse: bool = False,
) -> DryRun:
    """Do what `prepared_release` does, in its order, but leave nothing: no lock, no folder, no entry.

    A refusal is not recorded in the ledger either, since nobody tried to charge anything.

    Args:
        spec: the specification's file.
        state_paths: where the ledger and the private store lie.
        output: the release's place, instead of the specification's.
        release_id: id to run, resume or look up; None for a new release.
        series: the series whose next release this is, None for a release that pays for itself.
        new: as of `prepared_release`.
        rehearse: as of `prepared_release`.

    Raises:
        InputRefused: as `prepared_release`.
        AccountantRefused: as `prepared_release`.
    """
    from ..accounting.keys.store_upkeep import copy_of_release, known_names_of_source, remembered_facts

    check_release_id(release_id)
    _require_clock()
    series, part = series_and_part(series)
    ad_hoc = read_spec(spec, output=output, rehearse=rehearse) if series is None else None
    reader = open_reader(state_paths.ledger_url)
    if os.path.exists(state_paths.home):
        require_private(state_paths.home)
    keys = state_paths.anchoring.keys
    keys.current()
    reader.require_anchored(state_paths.anchoring)
    if ad_hoc is None:
        own = reader.series(str(series))
        request = request_of_series(spec, output=output, series=own, part=part, state=_known(reader, release_id))
    else:
        request = _as_charged(ad_hoc, _known(reader, release_id), spec=spec, output=output)
    _require_plain_name(request.output)
    request = _of_its_day(request, release_id, reader=reader, home=state_paths.home, scheduled=None)
    require_apart(request)
    if not new:
        _require_none_cut_off(
            request, spec=spec, output=output, release_id=release_id, reader=reader, state_paths=state_paths
        )
    state = None
    if release_id is not None:
        require_not_held(state_paths.home, ledger_id=reader.ledger_id, release_id=release_id)
        state = reader.release(release_id)
    if (violation := release_violation(reader, request, state=state, series=series)) is not None:
        raise violation
    layout = None
    other_names: tuple[str, ...] = ()
    if state is None or state.stage != "published":
        charged = copy = None
        if state is not None:
            charged = remembered_facts(state_paths.home, ledger_id=reader.ledger_id, release_id=state.release_id)
            copy = copy_of_release(state_paths.home, ledger_id=reader.ledger_id, release_id=state.release_id)
        layout = layout_of_source(request, charged=charged, copy=copy)
        require_output_not_held(state_paths.home, _place_of(request.output))
        check_output(request.output, own=None if state is None else release_id, keys=keys)
        from ..tasks.inputs.list import source_metadata_bytes  # what reads files is loaded where they are looked at

        names = known_names_of_source(state_paths.home, source_metadata_bytes(layout))
        other_names = tuple(name for name in names if name != f"'{request.dataset}'")
    paid = state is not None or series is not None
    return DryRun(
        release_id=release_id,
        request=request,
        state=state,
        series=series,
        dataset=reader.dataset(request.dataset),
        charge=None if paid else charged_price(request.price),
        layout=layout,
        other_names=other_names,
        remarks=() if layout is None else metadata_remarks(layout, request),
    )
