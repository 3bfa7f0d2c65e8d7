"""Making a private report: checks, then the look in the ledger, then the records, then one file for the steward.

The file is a page of HTML that needs nothing else and says on every sheet what it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting.certificate.verify import certified_mechanism, check_certificate, read_certificate
from ...accounting.certificate.write_certificate import has_own_rates
from ...accounting.descriptions.description_registry import description_of
from ...accounting.kernel.keys.private_files import private_folder, replace_private
from ...accounting.kernel.ledger.ledger_state import enforced_unit
from ...accounting.keys.store_upkeep import (
    datasets_of_source,
    known_names_of_source,
    open_private_store,
    remembered_facts,
)
from ...accounting.ledger.ledger_writer import open_writer
from ...flows.paths import StatePaths, reader_of
from ...flows.spec import read_spec
from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.kernel.contributions import ContributionLimit
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.kernel.group_counts import sum_counts
from ...mechanisms.measures.counted_records import CountedRecords
from ...mechanisms.measures.risk import CERTAINTIES, Attacks, ToldLosses, attacks_of
from ...mechanisms.measures.utility import NotOfTheseRecordsError, StageUtility, UtilityMeasures, utility_of
from ...tasks.counting.executors import LocalThreads, OnProgress
from ...tasks.counting.private_counts import private_counts, records_left_out
from ...tasks.counting.released_groups import read_released_table, released_groups
from ...tasks.inputs.list import list_source
from ...tasks.inputs.source import SourceLayout, check_metadata, source_metadata_bytes
from ...tasks.request import Request
from ..release_paths import CERTIFICATE, require_elsewhere
from . import report_pictures
from .document_registry import Document
from .rendering import page

MARK = "NOT FOR PUBLICATION"
NOT_REPORTED = "a private report is about a microdata or a deletion release, and about none with a column of rates."
NOT_WRITTEN = "No report was written; the look stays recorded."
NOT_WRITTEN_AT_ALL = "No report was written, and no look recorded."


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeReport:
    """A report that was written.

    PRIVACY: what a notebook shows of it, and keeps, is the file's place alone.

    Args:
        path: its file.
        look: the look's place in the ledger's chain.
        release_id: the release that it is about.
        measures: what it tells.
        attacks: what attacks on the release reach; None where none were asked for.
        also: other data sets that the same source was released as, for which the look is recorded too.
    """

    path: Path
    look: int
    release_id: str
    measures: UtilityMeasures = field(repr=False)
    attacks: Attacks | None = field(repr=False, default=None)
    also: tuple[str, ...] = field(repr=False, default=())

    def _repr_html_(self) -> str:
        """Return the file's place, for a notebook."""
        return f"<p>{MARK}: {escape(str(self.path))}</p>"


def run_private_report(
    spec: Path,
    *,
    release: Path,
    output: Path | None,
    target: str | None,
    state_paths: StatePaths,
    by: str,
    today: date,
    attacks: bool = False,
    on_progress: OnProgress | None = None,
) -> MadeReport:
    """Measure a published release against its records, and write the report.

    PRIVACY: the look is durable in the ledger before the first record is read. Nothing runs in Prefect. The report
    lies where no release is, readable by its owner alone.

    Args:
        spec: the release's specification.
        release: its folder, on this machine.
        output: the report's file; None is `reports/RELEASE_ID.html` in the private store.
        target: column that classifiers predict; None chooses one by the release alone.
        state_paths: where the ledger and the private store lie.
        by: who looks.
        today: day of the look.
        attacks: whether attacks on the release are tried.
        on_progress: called with the progress of counting, then of the attacks; for the steward's terminal alone.

    Raises:
        InputRefused: the specification, the release or the place of the report is wrong; nothing was read, unless
            the message says that the look stays recorded.
        AccountantRefused: the ledger is behind its anchor.
        ReleaseFailed: the records can't be read, or the report can't be written; the look stays recorded.
    """
    request = read_spec(spec, output=release)
    certificate, mechanism, told = _released(spec, release, request, state_paths)
    maps = _maps_of(certificate, request)
    generalization = maps[-1]
    if target is not None and target not in generalization.names:
        raise InputRefused(f"the release has no column '{target}'.", where="--target")
    release_id = str(certificate["release_id"])
    path = _place(output, release_id=release_id, request=request, state_paths=state_paths)
    request = _as_charged(request, release_id, state_paths)
    source = list_source(request.source, base=request.base, version=request.version)
    columns = tuple(column.name for column in request.source_columns)
    layout = check_metadata(source, columns=columns, reading=request.reading)
    also = _other_datasets(layout, spec, request, state_paths)
    limit = _limit_of(certificate, request)
    if request.unit_rule is None and attacks and limit is not None:
        raise InputRefused(
            "attacks take each record for another person's, and this release has a limit on the records of a person.",
            where="--attacks",
            not_done=NOT_WRITTEN_AT_ALL,
            remedy="Leave --attacks out.",
        )
    with_ids = None
    if limit is not None:
        from ...tasks.inputs.source import with_person_column  # of releases with such a column alone

        with_ids = with_person_column(source, columns=columns, reading=request.reading, limit=limit)
    deleted = description_of(mechanism).deletion is not None
    # Everything that can be refused is looked at before the look is recorded, since a recorded look can't be taken
    # back.
    calibrated = "margins" in certificate["published"]
    numbers = ("stage", "weight", "survey_weight") if deleted else ("weight",) if calibrated else ()
    table = read_released_table(release, figures=numbers)
    if calibrated and not deleted:  # its records are compared, as they were sampled
        table = table.drop_columns(["weight"])
    # Recorded before a record is read, and whatever becomes of the report: who has begun to look may have seen
    # something.
    with open_writer(state_paths.ledger_url, anchoring=state_paths.anchoring) as writer:
        for dataset in (*also, request.dataset):
            look = writer.record_look(
                dataset=dataset, what=f"private utility report of release {release_id}", by=by, day=today
            )
    try:
        before = private_counts(
            look=look,
            request=request,
            generalization=generalization,
            layout=layout if request.unit_rule is None or with_ids is None else with_ids,
            executor=LocalThreads(),
            randomness=os.urandom,
            on_progress=on_progress,
        )
        left_out = None
        if request.unit_rule is None and limit is not None and with_ids is not None:
            left_out = records_left_out(
                look=look,
                request=request,
                limit=limit,
                before=before,
                layout=with_ids,
                randomness=os.urandom,
                on_progress=on_progress,
            )
    except ReleaseFailed as failure:
        again = "Run the command again when the cause is removed; that is another look."
        raise ReleaseFailed(failure.what, where=failure.where, not_done=NOT_WRITTEN, remedy=again) from None
    measures = _measures(mechanism, before, table, maps, left_out=left_out, target=target)
    if measures is None:
        raise InputRefused(
            "the release has groups that are larger than in the source now.",
            where=f"{spec}: [data].source",
            not_done=NOT_WRITTEN,
            remedy="Name the records that the release was made from.",
        )
    tried = None
    if attacks:
        tried = attacks_of(before, _published(before, table, maps), told=told, on_progress=on_progress)
    report = PrivateReport(
        release_id=release_id,
        dataset=request.dataset,
        released_on=str(certificate["day"]),
        epsilon=str(certificate["guarantee"]["epsilon"]),
        delta=str(certificate["guarantee"]["delta"]),
        day=today.isoformat(),
        by=by,
        look=look.position,
        measures=measures,
        attacks=tried,
    )
    _write(path, report_page(report))
    return MadeReport(path=path, look=look.position, release_id=release_id, measures=measures, attacks=tried, also=also)


def _other_datasets(layout: SourceLayout, spec: Path, request: Request, state_paths: StatePaths) -> tuple[str, ...]:
    """Return the other data sets of the ledger that a source was released as, by what the private store noted.

    Raises:
        InputRefused: it was released, and never as the specification's data set.
    """
    metadata = source_metadata_bytes(layout)
    with reader_of(state_paths) as reader:
        known = datasets_of_source(
            state_paths.home,
            metadata,
            ledger_id=reader.ledger_id,
            datasets=[dataset.name for dataset in reader.datasets()],
        )
    names = known_names_of_source(state_paths.home, metadata)
    if names and request.dataset not in known:
        raise InputRefused(
            f"this source was released as the data set {', '.join(names)}, and never as '{request.dataset}' of this "
            "ledger.",
            where=f"{spec}: [data].source",
            not_done=NOT_WRITTEN_AT_ALL,
            remedy="Name the records that the release was made from.",
        )
    return tuple(name for name in known if name != request.dataset)


def _released(
    spec: Path, release: Path, request: Request, state_paths: StatePaths
) -> tuple[Mapping[str, Any], Any, ToldLosses]:
    """Return the certificate of a release that can be reported on, its mechanism, and what that tells of one record."""
    if request.query is not None:
        raise InputRefused(
            "the records of a database were copied for the release and destroyed with it; read again they would be "
            "others.",
            where=f"{spec}: [data].source",
            not_done=NOT_WRITTEN,
            remedy="Write them to Parquet first where a private report is wanted, and release that file.",
        )
    if description_of(request.mechanism).told is None or request.thinning is not None:
        raise InputRefused(NOT_REPORTED, where=str(spec))
    certificate = _certificate(release, request, state_paths)
    mechanism = certified_mechanism(certificate)
    told = description_of(mechanism).told
    if told is None or has_own_rates(certificate["sampler_layout"]):
        raise InputRefused(NOT_REPORTED, where=str(release))
    return certificate, mechanism, told(mechanism)


def _measures(
    mechanism: Any,  # noqa: ANN401 - of any kind that a report can be written of
    before: CountedRecords,
    table: pa.Table,
    maps: Sequence[GeneralizationMap],
    *,
    left_out: int | None,
    target: str | None,
) -> UtilityMeasures | None:
    """Return the measures of a release; None where it has more records of a group than there are."""
    try:
        if description_of(mechanism).deletion is not None:
            return _of_stages(before, table, maps, k=mechanism.k, left_out=left_out, target=target)
        return utility_of(
            before,
            released_groups(table, before.recoded(maps[-1])),
            k=mechanism.k,
            sampling_rate=mechanism.sampling_rate,
            left_out=left_out,
            target=target,
        )
    except NotOfTheseRecordsError:
        return None


def _certificate(release: Path, request: Request, state_paths: StatePaths) -> Mapping[str, Any]:
    """Return the certificate of a release that this ledger has published and this store has signed."""
    path = release / CERTIFICATE
    certificate = read_certificate(path)
    if check_certificate(path, trusted=state_paths.anchoring.keys.public_keys()):
        raise InputRefused(
            "the release does not verify.", where=str(path), remedy="`crowdblend verify` says what does not hold."
        )
    with reader_of(state_paths) as reader:
        reader.require_anchored(state_paths.anchoring)
        state = reader.release(str(certificate["release_id"]))
    if state is None or state.stage != "published":
        raise InputRefused(
            "the ledger has published no release of this id.",
            where=str(path),
            remedy="Use the ledger that the release was charged to.",
        )
    if certificate["dataset"] != request.dataset:
        raise InputRefused(
            f"the release is of the data set '{certificate['dataset']}', the specification of '{request.dataset}'.",
            where=str(path),
        )
    return certificate


def _as_charged(request: Request, release_id: str, state_paths: StatePaths) -> Request:
    """Return the request with the version of a lake table and the day of a source that the release was made from."""
    with reader_of(state_paths) as reader:
        charged = remembered_facts(state_paths.home, ledger_id=reader.ledger_id, release_id=release_id)
    if (day := charged.get("source_day")) is not None:
        request = request.on_day(date.fromisoformat(day))
    version: int | None = charged.get("table_version")
    return request if version is None else replace(request, version=version)


def _of_stages(
    before: CountedRecords,
    table: pa.Table,
    maps: Sequence[GeneralizationMap],
    *,
    k: int,
    left_out: int | None,
    target: str | None,
) -> UtilityMeasures:
    """Measure a deletion release: all its records at the levels of the last stage, and each stage by itself.

    Args:
        before: all records at level 0.
        table: the published groups of all stages, with `weight`, and with `stage` where there are several.
        maps: of the stages.
        k: the smallest number of records that is published of a group.
        left_out: as of `utility_of`.
        target: as of `utility_of`.

    Raises:
        InputRefused: the release has labels that no record has.
        NotOfTheseRecordsError: it has more records of a group than there are.
    """
    left, stages = before.records - (left_out or 0), []
    released: list[CountedRecords] = []
    weighted: list[CountedRecords] = []
    for number, (own, counted) in enumerate(zip(maps, _published(before, table, maps), strict=True), start=1):
        rows = _rows_of(table, number, maps)
        all_records = before.recoded(own)
        sums = pc.round(pc.multiply(rows["weight"], rows["count"].cast(pa.float64()))).cast(pa.int64())
        labels = [column.name for column in own.columns]
        adding_up = released_groups(rows.select(labels).append_column("count", sums), all_records)
        stages.append(
            StageUtility(
                levels=tuple(column.level for column in own.columns),
                found=left,
                published=counted.records,
                groups=int(all_records.class_sizes.size),
                published_groups=int(counted.class_sizes.size),
            )
        )
        left -= counted.records
        released.append(counted.recoded(maps[-1]))
        weighted.append(adding_up.recoded(maps[-1]))
    return utility_of(
        before,
        _together(released),
        k=k,
        sampling_rate=None,
        weighted=_together(weighted),
        stages=tuple(stages),
        left_out=left_out,
        target=target,
    )


def _rows_of(table: pa.Table, number: int, maps: Sequence[GeneralizationMap]) -> pa.Table:
    """Return the published groups of one stage, from 1."""
    return table.filter(pc.equal(table["stage"], number)) if len(maps) > 1 else table


def _published(before: CountedRecords, table: pa.Table, maps: Sequence[GeneralizationMap]) -> list[CountedRecords]:
    """Return what each stage published; of a sampled release all.

    Raises:
        InputRefused: the release has labels that no record has.
    """
    return [
        released_groups(_rows_of(table, number, maps).select([*own.names, "count"]), before.recoded(own))
        for number, own in enumerate(maps, start=1)
    ]


def _together(parts: Sequence[CountedRecords]) -> CountedRecords:
    """Return the records of all parts, which have one map."""
    keys = np.concatenate([part.groups.keys for part in parts], axis=1)
    counts = np.concatenate([part.groups.counts for part in parts])
    return CountedRecords(map=parts[0].map, groups=sum_counts(keys, counts))


def _maps_of(certificate: Mapping[str, Any], request: Request) -> tuple[GeneralizationMap, ...]:
    """Return the release's map, or that of each stage, with the specification's hierarchies, which must be its own."""
    declared, stated = request.recoding.columns, certificate["map"]["columns"]
    own = [(column.name, column.hierarchy.digest()) for column in declared]
    if own != [(column["column"], column["hierarchy_sha256"]) for column in stated]:
        raise InputRefused(
            "the release was made with other columns or hierarchies than the specification has now.",
            where="[columns]",
            remedy="Restore the specification and the hierarchies that it was made with.",
        )
    single = {column["column"]: column["level"] for column in stated}
    return tuple(
        GeneralizationMap(
            columns=tuple(
                MappedColumn(name=column.name, hierarchy=column.hierarchy, level=int(levels[column.name]))
                for column in declared
            )
        )
        for levels in [stage["levels"] for stage in certificate["published"].get("stages", ())] or [single]
    )


def _limit_of(certificate: Mapping[str, Any], request: Request) -> ContributionLimit | None:
    """Return what limited the records of a person in the release; the specification must say the same."""
    limit, guarantee = request.limit, certificate["guarantee"]
    said = None if limit is None else (limit.column, limit.records, limit.unit)
    unit = enforced_unit(certificate["sampler_layout"])
    made = None if unit is None else (guarantee["enforced_by"], guarantee["rows_per_person"], unit)
    rule = None if request.unit_rule is None else request.unit_rule.facts()
    if said != made or rule != certificate.get("unit_records"):
        raise InputRefused(
            "the release was made with another limit on the records of a person than the specification has now.",
            where="[data]",
            remedy="Restore the specification that it was made with.",
        )
    return limit


def _place(output: Path | None, *, release_id: str, request: Request, state_paths: StatePaths) -> Path:
    """Return where the report goes: never where a release lies or would be looked for."""
    if output is None:
        open_private_store(state_paths.home)
        return state_paths.home / "reports" / f"{release_id}.html"
    if output.suffix != ".html":
        raise InputRefused("a report is a file that ends in .html.", where="--output")
    require_elsewhere(output, request=request)
    return output.absolute()


def _write(path: Path, page: str) -> None:
    try:
        private_folder(path.parent)
        replace_private(path, page.encode("utf-8"))
    except OSError as error:
        raise ReleaseFailed(
            f"the report can't be written ({error.strerror}).", where=str(path), not_done=NOT_WRITTEN
        ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivateReport:
    """What the page tells.

    PRIVACY: exact figures of the private records. It is for the steward, and nothing of it leaves.

    Args:
        release_id: the release.
        dataset: its data set.
        released_on: day of the release's charge.
        epsilon: the release's price, as its certificate has it.
        delta: likewise.
        day: day of the report.
        by: who had it made.
        look: the look's place in the ledger's chain.
        measures: all of them.
        attacks: what attacks reach; None where none were tried.
    """

    release_id: str
    dataset: str
    released_on: str
    epsilon: str
    delta: str
    day: str
    by: str
    look: int
    measures: UtilityMeasures
    attacks: Attacks | None = None

    @property
    def allowed(self) -> float:
        """How sure ε lets an attacker be who held it to be even."""
        return 1.0 / (1.0 + math.exp(-float(self.epsilon)))


def report_page(report: PrivateReport) -> str:
    """Return the page; nothing in it is asked from elsewhere, and no script runs."""
    return page(
        "private_report.html",
        style="private_report.css",
        report=report,
        measures=report.measures,
        mark=MARK,
        pictures=report_pictures,
        certainties=CERTAINTIES,
    )


REPORT_PAGE = Document(about=PrivateReport, texts=lambda report: {".html": report_page(report)})
