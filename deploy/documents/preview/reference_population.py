"""The reference population: groups of people who stand for those of the private records, and where they come from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ....accounting.descriptions.description_registry import description_of
from ....accounting.keys.store_upkeep import known_names_of_source
from ....accounting.theory.survival import record_survival
from ....flows.releases.release_kind import NoDocument, TableReading
from ....mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ....mechanisms.hierarchies.declare import Hierarchy
from ....mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ....mechanisms.kernel.group_counts import GroupCounts, sum_counts
from ....mechanisms.kernel.recoding import BUCKET_CODE
from ....mechanisms.kernel.sampling import KEY_BYTES, sample_commitment
from ....mechanisms.kinds.member_deletion import counts_of_tables
from ....mechanisms.map_selection.choice import Levels, MapChoice
from ....tasks.counting.executors import LocalThreads
from ....tasks.counting.group_counting import count_job, group_counts
from ....tasks.counting.private_counts import OwnKey
from ....tasks.counting.quote_states import with_quote_states
from ....tasks.counting.released_groups import read_released_table
from ....tasks.inputs.list import list_source
from ....tasks.inputs.source import SourceLayout, check_metadata, plan_chunks, source_metadata_bytes, with_person_column
from ....tasks.kernel.counting import BlockCoins
from ....tasks.readers.column_codes import UndeclaredValues
from ....tasks.readers.file_source import keys_of_chunks
from ....tasks.readers.source_files import is_url
from ....tasks.readers.values import RecordReading
from ....tasks.request import Request
from ..document_registry import VerifiedRelease


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """The groups of a map.

    Args:
        columns: places of the columns that the groups are of.
        codes: for each of them the groups' codes at the map's level; each of shape (groups,).
        counts: records of each group as they were counted; shape (groups,).
    """

    columns: tuple[int, ...]
    codes: tuple[NDArray[np.int64], ...]
    counts: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class SuppressionEstimate:
    """What a threshold and a rate would do to groups, in expectation.

    Args:
        suppressed: Share of the sampled records that would be left out, from 0 to 1.
        records: Expected number of published records.
        groups: Expected number of published groups.
    """

    suppressed: float
    records: float
    groups: float


@dataclass(frozen=True, kw_only=True, slots=True)
class UndeclaredColumn:
    """A column in which some public records have `*` at the finest level that is asked about.

    Args:
        column: Name of the column.
        share: Share of the records that have such a value.
        values: The first values that aren't declared; empty where they are missing, or declared to become `*`.
    """

    column: str
    share: float
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferencePopulation:
    """People as counted, and for how many each stands.

    Args:
        names: of the columns.
        hierarchies: one for each column.
        base: the level of each column at which they were counted.
        codes: for each column the groups' codes at that level; each of shape (groups,).
        counts: records of each group; shape (groups,).
        scale: how many people a counted record stands for.
        origin: what this is, in words.
        remarks: what readers must know, a sentence each.
        undeclared: columns with values that become `*`, the most of them first.
        members: of units those members that may be in a table of their own; None where there is none, or where nobody
            knows them.
    """

    names: tuple[str, ...]
    hierarchies: tuple[Hierarchy, ...]
    base: Levels
    codes: tuple[NDArray[np.int64], ...]
    counts: NDArray[np.int64]
    scale: float
    origin: str
    remarks: tuple[str, ...]
    undeclared: tuple[UndeclaredColumn, ...] = ()
    members: ReferencePopulation | None = None

    @property
    def people(self) -> float:
        """How many people it stands for."""
        return float(self.counts.sum()) * self.scale

    def at(self, levels: Levels, *, columns: Sequence[int] | None = None) -> Groups:
        """Return the groups of a map that is nowhere finer than the base.

        Args:
            levels: one for each column.
            columns: places of the columns that the map has; None is all.
        """
        chosen = tuple(range(len(self.names))) if columns is None else tuple(columns)
        if not chosen:
            total = np.array([self.counts.sum()], dtype=np.int64)
            return Groups(columns=(), codes=(), counts=total[total > 0])
        mapped = GeneralizationMap(
            columns=tuple(
                MappedColumn(name=self.names[place], hierarchy=self.hierarchies[place], level=levels[place])
                for place in chosen
            )
        )
        codes = [
            self.hierarchies[place].coarser(self.codes[place], level=self.base[place], to=levels[place])
            for place in chosen
        ]
        merged = sum_counts(mapped.keys(codes), self.counts)
        return Groups(columns=chosen, codes=tuple(mapped.decode(merged.keys)), counts=merged.counts)

    def of_columns(self, columns: Sequence[int]) -> ReferencePopulation:
        """Return the same people with some of the columns, given by their places."""
        groups = self.at(self.base, columns=columns)
        return replace(
            self,
            names=tuple(self.names[place] for place in columns),
            hierarchies=tuple(self.hierarchies[place] for place in columns),
            base=tuple(self.base[place] for place in columns),
            codes=groups.codes,
            counts=groups.counts,
        )

    def survival(self, counts: NDArray[np.int64], *, k: int, rate: float) -> NDArray[np.float64]:
        """For a sampled record of a group of each size the probability of being published; shape as given.

        Where a counted record stands for less than one person, its group is thinned: Bin(c, scale·β) of its c records
        are sampled. Where it stands for more, the group is taken to be that much larger.
        """
        sizes, own_rate = self._sampled(counts, rate)
        return record_survival(sizes, k=k, rate=own_rate)

    def suppression_estimate(self, groups: Groups, *, k: int, rate: float) -> SuppressionEstimate:
        """What would happen to the records of some groups, in expectation; exact binomial tails, no simulation."""
        records = groups.counts.astype(np.float64) * self.scale
        total = float(records.sum())
        if total == 0.0:
            return SuppressionEstimate(suppressed=0.0, records=0.0, groups=0.0)
        survives = self.survival(groups.counts, k=k, rate=rate)
        # Pr[Bin(n, β) ≥ k] is the survival of one more record, of a threshold higher by one.
        sizes, own_rate = self._sampled(groups.counts, rate)
        reaches = record_survival(sizes + 1.0, k=k + 1, rate=own_rate)
        published = float(records @ survives)
        return SuppressionEstimate(
            suppressed=min(1.0, max(0.0, 1.0 - published / total)),
            records=published * rate,
            groups=float(reaches.sum()),
        )

    def _sampled(self, counts: NDArray[np.int64], rate: float) -> tuple[NDArray[np.float64], float]:
        """Sizes and the rate at which they are sampled."""
        sizes = counts.astype(np.float64)
        # A rate above 1 doesn't exist: where a record stands for more than one person, the group is enlarged instead.
        return (sizes, rate * self.scale) if self.scale <= 1.0 else (sizes * self.scale, rate)


WHY = (
    "Levels, k and rates that are chosen by looking at the private records are a choice that the guarantee doesn't "
    "cover: what was looked at decides what is published, and nobody has paid for that."
)
REMEDY = (
    "Preview on public or synthetic records, a past release, or a charged noisy histogram; or let the levels be drawn "
    "privately with [selection]."
)
UNCOMPARED = "The specification's own records can't be listed, so these were not compared with them."


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRecords:
    """The records that a specification is of, as it names them; they are never opened but for their metadata.

    Args:
        source: file, folder, pattern, URL or table.
        of_any_day: the same with a wildcard for each part that is of a day.
        base: the folder from which they are named.
        version: of a table.
        reading: how they are read.
    """

    source: str
    of_any_day: str
    base: Path
    version: int | None
    reading: RecordReading

    @staticmethod
    def of(request: Request) -> OwnRecords:
        """Return a specification's own records."""
        return OwnRecords(
            source=request.source,
            of_any_day=request.source_of_any_day,
            base=request.base,
            version=request.version,
            reading=request.reading,
        )


def require_public(given: SourceLayout, own: OwnRecords | None, *, home: Path) -> str:
    """Refuse records that are, by what metadata tell, the specification's own or a source that was released.

    Neither the private records nor those given are read for this: names, places, sizes, headers and footers decide.
    A part of the private records, or a copy that was changed, isn't recognized.

    Args:
        given: what somebody says is public.
        own: the specification's; None where nobody knows them yet.
        home: the private store, which knows keyed fingerprints of what was released.

    Returns:
        A remark where nothing could be compared; else empty.

    Raises:
        InputRefused: the records are private.
    """
    for file in given.source.files:
        folder = PurePosixPath(file.path).parent
        if (Path(folder) / "certificate.json").exists():
            raise InputRefused(
                "this is the table of a release.", where=file.path, remedy=f"Preview on it with --release {folder}."
            )
    names = known_names_of_source(home, source_metadata_bytes(given))
    if names:
        raise _private(given, f"this source was released as the data set {', '.join(names)}")
    if own is None:
        return UNCOMPARED
    if _of_one_table(given, own):
        raise _private(given, "this is a version of the specification's own source")
    try:
        listed = list_source(own.of_any_day, base=own.base, version=own.version)
    except InputRefused:
        return UNCOMPARED
    _require_other_files([file.path for file in given.source.files], [file.path for file in listed.files], given)
    try:
        layout = check_metadata(listed, columns=(), reading=own.reading)
    except InputRefused:
        return UNCOMPARED
    # A copy under another name has the same size and header. Two files of equal outline by chance are refused too,
    # which costs nobody a guarantee.
    if _outlines(given) & _outlines(layout):
        raise _private(given, "a file of it has the size and the header or row groups of the specification's records")
    return ""


def _require_other_files(given: Sequence[str], own: Sequence[str], layout: SourceLayout) -> None:
    private = {_identity(path) for path in own}
    if any(_identity(path) in private for path in given):
        raise _private(layout, "this is the specification's own source")


def _of_one_table(given: SourceLayout, own: OwnRecords) -> bool:
    """Return whether both are a version of one lake table, whose versions may have no file in common."""
    table = given.source.table
    if table is None:
        return False
    source = own.source.removeprefix("file://").removeprefix("local://")
    place = source if is_url(source) else os.path.realpath(own.base / source)
    return f"{place}/".startswith(f"{table.folder}/")


def _identity(path: str) -> tuple[int, int] | str:
    """Return a file of this machine by its inode, so that links are seen through."""
    try:
        state = os.stat(path)
    except OSError:
        return path
    # Paths would miss hard links, symbolic links and bind mounts.
    return (state.st_dev, state.st_ino)


def _outlines(layout: SourceLayout) -> set[tuple[object, ...]]:
    """Return what a copy of each file would share with it, whatever it is called; empty files say nothing."""
    files = zip(layout.source.files, layout.layouts, strict=True)
    return {(file.size, *part.outline) for file, part in files if not part.empty}


def _private(layout: SourceLayout, what: str) -> InputRefused:
    return InputRefused(
        f"{what}. {WHY}",
        where=layout.source.files[0].path,
        not_done="No record was read, and nothing was written.",
        remedy=REMEDY,
    )


MOST_LABELS = 5_000_000
MOST_UNDECLARED = 3
NOT_DONE = "Nothing was previewed."


def reference_of_records(
    request: Request, source: str, *, separator: str | None, population: int | None, home: Path
) -> ReferencePopulation:
    """Count public or synthetic records.

    Args:
        request: the specification whose release is predicted.
        source: file, folder, glob or URL of the records, seen from the working folder.
        separator: of CSV; None is the specification's.
        population: how many people the private records are of, where that is public; None takes these for as many.
        home: the private store, which knows what was released.

    Raises:
        InputRefused: the records are private by what metadata tell, or can't be read, or there are none.
    """
    reading = request.reading if separator is None else replace(request.reading, separator=separator)
    names, hierarchies, base = _columns(request)
    files, rule = list_source(source, base=Path.cwd()), request.unit_rule
    asked = names if rule is None else tuple(column.name for column in rule.members)
    layout = check_metadata(files, columns=asked, reading=reading)
    key = None
    if rule is not None and request.limit is not None:
        layout = with_person_column(files, columns=asked, reading=reading, limit=request.limit)
        key = OwnKey(os.urandom(KEY_BYTES))
    remark = require_public(layout, OwnRecords.of(request), home=home)
    mapped = _map(names, hierarchies, base)
    job = count_job(
        release_id="preview",
        sample_id=None if key is None else sample_commitment(key.load()),
        generalization=mapped,
        rate=None,
        reading=reading,
        key_source=key,
        limit=None if rule is None else request.limit,
        unit_rule=rule,
        with_members=True,
    )
    try:
        counts = group_counts(plan_chunks(layout), job=job, executor=LocalThreads())
    except ReleaseFailed as failed:
        raise InputRefused(failed.what, where=failed.where, not_done=NOT_DONE) from None
    records = int(counts.counts.sum())
    if records == 0:
        raise InputRefused("there are no records.", where=source, not_done=NOT_DONE)
    members = None
    if rule is not None and rule.table is not None:
        first = rule.table.maps[0]
        counts, found = counts_of_tables(counts, layout=job.layout, units=mapped.layout, members=first.layout)
        members = ReferencePopulation(
            names=first.names,
            hierarchies=tuple(column.hierarchy for column in first.columns),
            base=tuple(column.level for column in first.columns),
            codes=tuple(first.decode(found.keys)),
            counts=found.counts,
            scale=1.0 if population is None else population / records,
            origin="",
            remarks=(),
        )
    scale = 1.0 if population is None else population / records
    remarks = [remark] if remark else []
    if scale > 1.0:
        remarks.append(
            f"Each record stands for {scale:.3g} people. Combinations that these records happen not to have are "
            "missing, so more will be suppressed than is predicted here."
        )
    return ReferencePopulation(
        names=names,
        hierarchies=hierarchies,
        base=base,
        codes=tuple(mapped.decode(counts.keys)),
        counts=counts.counts,
        scale=scale,
        origin=f"{records:,} public or synthetic records ({source})",
        remarks=tuple(remarks),
        undeclared=_undeclared(layout, mapped, counts, reading=reading, stored=rule is None),
        members=members,
    )


def _undeclared(
    layout: SourceLayout, mapped: GeneralizationMap, counts: GroupCounts, *, reading: RecordReading, stored: bool
) -> tuple[UndeclaredColumn, ...]:
    """The columns in which public records have `*`, though their level has other labels, with what they have instead.

    Args:
        stored: whether the files have these columns; those of units are derived, and have no values.

    Raises:
        InputRefused: the records can't be read again.
    """
    shares: dict[str, float] = {}
    for column, codes in zip(mapped.columns, mapped.decode(counts.keys), strict=True):
        starred = int(counts.counts[codes == BUCKET_CODE].sum())
        if starred and column.size > 1:
            shares[column.name] = starred / int(counts.counts.sum())
    read = [replace(column, level=0) for column in mapped.columns if column.name in shares]
    values = _first_undeclared(layout, read, reading=reading) if read and stored else {}
    return tuple(
        UndeclaredColumn(column=name, share=share, values=values.get(name, ()))
        for name, share in sorted(shares.items(), key=lambda pair: -pair[1])
    )


def _first_undeclared(
    layout: SourceLayout, columns: Sequence[MappedColumn], *, reading: RecordReading
) -> dict[str, tuple[str, ...]]:
    """The first values of public records that aren't declared; none of a column that stands in folders' names."""
    folders = {name for file in layout.source.files for name, _ in file.partition}
    stored = tuple(column for column in columns if column.name not in folders)
    if not stored:
        return {}
    # A layout has the places of the columns that it was asked for, in their order.
    chunks = plan_chunks(check_metadata(layout.source, columns=[column.name for column in stored], reading=reading))
    mapped = GeneralizationMap(columns=stored)
    own = layout.source.file_format.reading(reading)
    coders = [
        UndeclaredValues(column=column, placement=placement, reading=own, most=MOST_UNDECLARED)
        for column, placement in zip(mapped.columns, mapped.placements, strict=True)
    ]
    followed = with_quote_states(chunks, executor=LocalThreads())
    try:
        for _ in keys_of_chunks(followed, coders=coders, key_words=mapped.key_words, coins=lambda _: BlockCoins(None)):
            if all(coder.complete for coder in coders):
                break
    except ReleaseFailed as failed:
        raise InputRefused(failed.what, where=failed.where, not_done=NOT_DONE) from None
    return {coder.name: coder.first for coder in coders}


def reference_of_release(request: Request, release: VerifiedRelease) -> ReferencePopulation:
    """Take the groups of a release that was published, a noisy histogram's too, at its levels.

    Args:
        request: the specification whose release is predicted.
        release: the release.

    Raises:
        InputRefused: it is of answers, has other columns or hierarchies, or publishes nothing.
    """
    folder, certificate, mechanism = release.folder, release.certificate, release.mechanism
    reading = release.table_reading()
    if isinstance(reading, NoDocument):
        raise InputRefused(f"nothing is predicted from {reading.named()}.", where=str(folder), not_done=NOT_DONE)
    if reading.shape == "synthetic":
        raise InputRefused(
            "nothing is predicted from synthetic rows, which are nobody's records.",
            where=str(folder),
            not_done=NOT_DONE,
        )
    if reading.shape == "answers":
        raise InputRefused("answers have no groups to look at.", where=str(folder), not_done=NOT_DONE)
    names, hierarchies, finest = _columns(request)
    base = _levels_of_release(names, hierarchies, certificate, folder)
    if description_of(mechanism).deletion is not None:
        base, codes, counts = _weighted(folder, names, hierarchies, certificate)
    else:
        table = _table(folder, names)
        codes = _all_codes(table, _map(names, hierarchies, base), folder)
        # Noisy counts may be negative; no group has fewer than no people.
        counts = np.maximum(table.column("count").to_numpy(), 0).astype(np.int64)
    if not counts.sum():
        raise InputRefused("this release publishes no record.", where=str(folder), not_done=NOT_DONE)
    scale = 1.0 if reading.rate is None else 1.0 / float(reading.rate)
    return ReferencePopulation(
        names=names,
        hierarchies=hierarchies,
        base=base,
        codes=tuple(codes),
        counts=counts,
        scale=scale,
        origin=f"the release {certificate['release_id']} ({certificate['name']}), "
        f"{certificate['published']['records'] or counts.sum():,} published records",
        remarks=tuple(_remarks(reading, finest=finest, base=base)),
    )


def limit_remarks(request: Request) -> tuple[str, ...]:
    """Return the remark that a limit on the records of a person isn't predicted; empty where there is no limit."""
    limit = request.limit
    if limit is None or limit.together:
        return ()
    few = "1 record" if limit.records == 1 else f"{limit.records} records"
    return (
        f"The release counts at most {few} of each {limit.unit}. Here every record counts as it is: look at records of "
        f"which no {limit.unit} has more, or take the published figures for too high.",
    )


def _remarks(reading: TableReading, *, finest: Levels, base: Levels) -> list[str]:
    origin = []
    if reading.noise is not None:
        origin.append("Its counts have noise; those below 0 were taken for 0.")
    else:
        origin.append(
            "What that release suppressed is missing here, so more will be suppressed than is predicted, above all at "
            "its own levels."
        )
    if any(published > wanted for published, wanted in zip(base, finest, strict=True)):
        origin.append("Levels finer than that release's can't be predicted from it.")
    return origin


def _columns(request: Request) -> tuple[tuple[str, ...], tuple[Hierarchy, ...], Levels]:
    """Return names, hierarchies, and the finest levels that are asked about."""
    recoding = request.recoding
    hierarchies = tuple(column.hierarchy for column in recoding.columns)
    finest = recoding.lattice.finest if isinstance(recoding, MapChoice) else tuple(0 for _ in hierarchies)
    return recoding.names, hierarchies, finest


def _map(names: tuple[str, ...], hierarchies: tuple[Hierarchy, ...], levels: Levels) -> GeneralizationMap:
    return GeneralizationMap(
        columns=tuple(
            MappedColumn(name=name, hierarchy=hierarchy, level=level)
            for name, hierarchy, level in zip(names, hierarchies, levels, strict=True)
        )
    )


def _levels_of_release(
    names: tuple[str, ...], hierarchies: tuple[Hierarchy, ...], certificate: Mapping[str, Any], folder: Path
) -> Levels:
    published = {column["column"]: column for column in certificate["map"]["columns"]}
    levels = []
    for name, hierarchy in zip(names, hierarchies, strict=True):
        column = published.get(name)
        if column is None:
            raise InputRefused(f"that release has no column {name!r}.", where=str(folder), not_done=NOT_DONE)
        if column["hierarchy_sha256"] != hierarchy.digest():
            raise InputRefused(
                f"the column {name!r} has another hierarchy there, so its labels mean something else.",
                where=str(folder),
                not_done=NOT_DONE,
            )
        levels.append(int(column["level"]))
    return tuple(levels)


def _table(folder: Path, names: tuple[str, ...]) -> pa.Table:
    """Return each published group of some columns with its count."""
    try:
        if (folder / "data.parquet").exists():
            table = pq.read_table(folder / "data.parquet")
        else:
            table = pa.csv.read_csv(
                folder / "data.csv",
                convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
    except (OSError, pa.ArrowException) as error:
        raise InputRefused(f"its table can't be read ({type(error).__name__}).", where=str(folder)) from None
    if "count" not in table.column_names:
        table = table.append_column("count", pa.array(np.ones(table.num_rows, dtype=np.int64)))
    columns = [table.column(name).cast(pa.string()).combine_chunks() for name in names]
    plain = pa.table([*columns, table.column("count").cast(pa.int64())], names=[*names, "count"])
    return plain.group_by(list(names)).aggregate([("count", "sum")]).rename_columns([*names, "count"])


def _weighted(
    folder: Path, names: tuple[str, ...], hierarchies: tuple[Hierarchy, ...], certificate: Mapping[str, Any]
) -> tuple[Levels, list[NDArray[np.int64]], NDArray[np.int64]]:
    """The groups of a deletion release at the levels of its last stage, each with what its records' weights add up to.

    Returns:
        These levels, the groups' codes of each column, and the counts, rounded.
    """
    table = read_released_table(folder, figures=("stage", "weight", "survey_weight"))
    stages = [tuple(int(stage["levels"][name]) for name in names) for stage in certificate["published"]["stages"]]
    last, keys, counts = _map(names, hierarchies, stages[-1]), [], []
    for number, levels in enumerate(stages, start=1):
        rows = table.filter(pc.equal(table["stage"], number)) if len(stages) > 1 else table
        codes = [
            hierarchy.coarser(column_codes, level=level, to=to)
            for hierarchy, column_codes, level, to in zip(
                hierarchies,
                _all_codes(rows, _map(names, hierarchies, levels), folder),
                levels,
                stages[-1],
                strict=True,
            )
        ]
        keys.append(last.keys(codes))
        # Rounded to whole people, as everything below counts them; the sum is off by half a person a group at most.
        counts.append(np.rint(rows["weight"].to_numpy() * rows["count"].to_numpy()).astype(np.int64))
    merged = sum_counts(np.concatenate(keys, axis=1), np.concatenate(counts))
    return stages[-1], last.decode(merged.keys), merged.counts


def _all_codes(table: pa.Table, mapped: GeneralizationMap, folder: Path) -> list[NDArray[np.int64]]:
    return [_codes(table.column(column.name), column, folder) for column in mapped.columns]


def _codes(labels: pa.ChunkedArray, column: MappedColumn, folder: Path) -> np.ndarray[Any, np.dtype[np.int64]]:
    if column.size > MOST_LABELS:
        raise InputRefused(f"the column {column.name!r} has more than {MOST_LABELS} labels.", where=str(folder))
    known = column.hierarchy.labels(np.arange(column.size, dtype=np.int64), column.level)
    code_of = {label: code for code, label in enumerate(known)}
    try:
        return np.array([code_of[label] for label in labels.to_pylist()], dtype=np.int64)
    except KeyError:
        raise InputRefused(
            f"the column {column.name!r} has labels that are not of its hierarchy.", where=str(folder)
        ) from None
