"""What a researcher needs to know of a release, from its folder alone: facts, codebook, citation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ....accounting.certificate.row_tables import DATA, MEMBERS, members_view, row_tables
from ....accounting.descriptions.description_registry import description_of
from ....accounting.kernel.ledger.ledger_state import enforced_unit
from ....accounting.theory.count_bounds import BinomialBounds, Chance, CountInterval, geometric_deviation
from ....flows.releases.release_kind import NoDocument, Shape, kind_of_mechanism
from ....mechanisms.generalization_map import told_sentences
from ....mechanisms.hierarchies.build import described_hierarchy
from ....mechanisms.hierarchies.codebook import ColumnCodebook, StageLabel, codebook, stage_labels
from ....mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ....mechanisms.wording import grouped
from ....tasks.stages.table import ROWS_OF_LABELS, labels_told
from ..document_registry import NOT_DONE, VerifiedRelease, file_stem
from ..report_pictures import MOST_PAIR_COLUMNS
from .kit_calls import KitCalls, kit_calls
from .small_groups import Attempt, DeletionFacts, attempts, deletion_facts, sampled_chances, sampled_intervals

LABELS = "-labels.csv"
MOST_EXAMPLES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedColumn:
    """One column of labels.

    Args:
        name: its name.
        levels: at which it is published, of each stage.
        labels: how many different labels the table has.
        examples: a few of them.
        starred: whether `*` is among them.
    """

    name: str
    levels: tuple[int, ...]
    labels: int
    examples: tuple[str, ...]
    starred: bool


class NoisyTotal(NamedTuple):
    """A noisy number of all records, and its standard error."""

    records: float
    error: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SheetPair:
    """A pair of columns that was chosen and counted.

    Args:
        number: its place in the order of the draws, from 1, as in the margins' column `pair`.
        columns: the two columns.
        levels: by whose labels each of them was counted.
        cells: how many counts there are.
        deviation: standard error of each count.
        distance: how far its fitted counts are from those of independent columns; the share of records that would
            have to be other ones, 0 to 1.
    """

    number: int
    columns: tuple[str, str]
    levels: tuple[int, int]
    cells: int
    deviation: float
    distance: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SheetFacts:
    """All that is on a sheet; every part is published, or a function of what is.

    Args:
        certificate: the certificate's fields.
        shape: how the table is to be read.
        file: the table's name.
        digest: its SHA-256.
        rate: sampling rate; None where every record was counted.
        k: suppression threshold; None where nothing is suppressed.
        noise: ε of the noise on counts; None where there is none.
        columns: those that have labels.
        codebook: which declared values their labels stand for.
        rows: of the table.
        records: that it shows, as certified; None where it counts none.
        groups: how many groups, cells or answers, as certified.
        intervals: of combinations that are in the table of a sample.
        labels: those of each column and stage, with what they become at the last one.
        kit: what is asked by the researcher's kit; None where it can't read the release.
        margins: the name of the file of noisy counts by columns; None where there is none.
        margin_error: the standard error of the noisy counts of single columns; None where there are none.
        pairs: that were chosen and counted, in the order of their draws; none where no pair was chosen.
        distances: of every two columns how far they are from independence, by the counted pairs; empty where no pair
            was chosen.
        blocks: tables of rows by name, with their columns; empty where there is one table.
        total: the noisy number of all records, where nothing else is published beside the rows.
        chances: of small groups.
        attempts: what the guarantee leaves to somebody who looks for a person.
        deletion: what was deleted, and what that means for counts; None where nothing was.
        told: how much the records tell, and what to check of columns that are `*`; sentences.
        block: the name of its table of rows; empty where there is one table, and of all tables together.
        theme: what the block is about; empty where nobody says.
        tables: what each table of rows tells by itself; none where there is one. What is said of rows here is then of
            the first, and of labels nothing.
        members: what the table of members beside a table of units tells; None where there is none.
    """

    certificate: Mapping[str, Any]
    shape: Shape
    file: str
    digest: str
    rate: float | None
    k: int | None
    noise: float | None
    columns: tuple[PublishedColumn, ...]
    codebook: tuple[ColumnCodebook, ...]
    rows: int
    records: int | None
    groups: int
    intervals: tuple[CountInterval, ...]
    labels: tuple[StageLabel, ...]
    kit: KitCalls | None
    margins: str | None
    margin_error: float | None
    pairs: tuple[SheetPair, ...]
    distances: Mapping[tuple[str, str], float]
    blocks: Mapping[str, tuple[str, ...]]
    total: NoisyTotal | None
    chances: tuple[Chance, ...]
    attempts: tuple[Attempt, ...]
    deletion: DeletionFacts | None
    told: tuple[str, ...]
    block: str = ""
    theme: str = ""
    tables: tuple[SheetFacts, ...] = ()
    members: SheetFacts | None = None

    @property
    def each_table(self) -> tuple[SheetFacts, ...]:
        """The tables of rows, each by itself."""
        return self.tables or (self,)

    @property
    def digests(self) -> str:
        """The SHA-256 of each table of rows, in words."""
        return ", ".join(f"{one.file}: {one.digest}" for one in self.each_table)

    @property
    def labels_file(self) -> str:
        """The name of the lookup file of labels."""
        return f"{file_stem(self.certificate)}{LABELS}"

    @property
    def totals(self) -> str | None:
        """The name of the file of totals of survey weights; None where there are no such weights."""
        if "survey_weights" not in self.certificate["published"]:
            return None
        files: Mapping[str, str] = self.certificate["files"]
        return next(name for name in files if Path(name).stem == "totals")

    @property
    def weighted(self) -> bool:
        """Whether the rows have weights of their own."""
        return self.deletion is not None or self.margins is not None or self.total is not None

    @property
    def stages(self) -> int:
        """How many stages published the rows."""
        return 1 if self.deletion is None else len(self.deletion.stages)

    @property
    def texts(self) -> list[str]:
        """The columns of labels, which are read as texts."""
        return [column.name for column in self.columns]

    @property
    def noise_deviation(self) -> float | None:
        """Standard deviation of the noise on counts."""
        return None if self.noise is None else geometric_deviation(self.noise)

    @property
    def most_absent(self) -> int | None:
        """The most people that a combination may have which isn't in the table of a sample; 19 of 20 times."""
        if not self.intervals or self.rate is None:
            return None
        bounds = BinomialBounds.of(self.rate, k=self.k, noise=None, combinations=1)
        return int(bounds.at_most(np.float64(0), np.float64(0)))

    @property
    def mapped(self) -> bool:
        """Whether pairs are shown as a map of all: of many columns, or of several tables of rows."""
        return bool(self.blocks) or len(self.columns) > MOST_PAIR_COLUMNS

    @property
    def shown_pair(self) -> SheetPair | None:
        """The counted pair that tells most; None where no pair was chosen."""
        return max(self.pairs, key=lambda pair: (pair.distance, -pair.cells), default=None)

    @property
    def weight(self) -> float:
        """How many people a record stands for."""
        return 1.0 if self.rate is None else 1.0 / self.rate


def sheet_facts(release: VerifiedRelease) -> SheetFacts:
    """Read what a sheet says from a release's certificate and table.

    PRIVACY: ledger, private store and source are not opened.

    Args:
        release: the release.

    Raises:
        InputRefused: there is no sheet of this kind of release.
        ReleaseFailed: the table can't be read.
    """
    views = row_tables(release.certificate)
    if DATA in views:
        found = _table_facts(release, release.certificate, stem=DATA)
        if (view := members_view(release.certificate)) is None:
            return found
        members = _table_facts(replace(release, certificate=view), view, stem=MEMBERS)
        return replace(found, members=replace(members, block=MEMBERS))
    margins = release.folder / _margins_file(release.certificate)
    pairs = tuple(_pairs(margins, release.certificate))
    blocks = release.certificate["published"]["blocks"]
    tables = tuple(
        replace(
            # Of the pairs nothing is of one table alone.
            _table_facts(release, {**view, "published": {**view["published"], "pairs": []}}, stem=stem),
            block=block["name"],
            theme=block.get("theme", ""),
        )
        for block, (stem, view) in zip(blocks, views.items(), strict=True)
    )
    return _together(release, tables, pairs)


def _together(release: VerifiedRelease, tables: tuple[SheetFacts, ...], pairs: tuple[SheetPair, ...]) -> SheetFacts:
    """Return what several tables of rows tell together."""
    certificate = release.certificate
    columns = {column.name: column for table in reversed(tables) for column in table.columns}
    names = [column["column"] for column in certificate["map"]["columns"] if column["column"] in columns]
    return replace(
        tables[0],
        certificate=certificate,
        columns=tuple(columns[name] for name in names),
        codebook=codebook(certificate, names=names),
        rows=sum(table.rows for table in tables),
        records=certificate["published"]["records"],
        groups=certificate["published"]["groups"],
        labels=(),
        kit=kit_calls(release, preferred=_telling(pairs)),
        pairs=pairs,
        distances=_distances(release.folder, certificate),
        blocks={table.block: tuple(column.name for column in table.columns) for table in tables},
        told=_of_units(certificate, list(columns)),
        block="",
        theme="",
        tables=tables,
    )


def _table_facts(release: VerifiedRelease, certificate: Mapping[str, Any], *, stem: str) -> SheetFacts:
    """Return what a release with one table tells, or what one of several tables does.

    Args:
        release: the release.
        certificate: as if there were no other table.
        stem: the table's name without its ending.
    """
    folder, mechanism = release.folder, release.mechanism
    kind = kind_of_mechanism(mechanism)
    reading = release.table_reading()
    if isinstance(reading, NoDocument):
        raise InputRefused(
            f"there is no sheet of {reading.named('of')}.",
            where=str(folder),
            not_done=NOT_DONE,
            remedy="Its certificate says what it guarantees, and docs/mechanisms how to read its table.",
        )
    file, table = _table(folder, certificate, stem=stem)
    columns = tuple(_columns(table, certificate, figures=kind.figures or frozenset()))
    rate = None if reading.rate is None else float(reading.rate)
    k = reading.k
    noise = None if reading.noise is None else float(reading.noise)
    of_deletion = description_of(mechanism).deletion
    deleted = None if of_deletion is None else of_deletion(mechanism)
    beside = certificate["published"].get("margins")
    by_column = beside is not None and any(beside["columns"])
    margins = None if beside is None else _margins_file(certificate)
    pairs = () if margins is None else tuple(_pairs(folder / margins, certificate))
    return SheetFacts(
        certificate=certificate,
        shape=reading.shape,
        file=file,
        digest=certificate["files"][file],
        rate=rate,
        k=k,
        noise=noise,
        columns=columns,
        codebook=codebook(certificate, names=[column.name for column in columns]),
        rows=table.num_rows,
        records=certificate["published"]["records"],
        groups=certificate["published"]["groups"],
        intervals=sampled_intervals(rate, k) if rate is not None and k is not None and reading.suppresses else (),
        labels=_labels(table, certificate, columns),
        kit=kit_calls(release, preferred=_telling(pairs)) if stem == DATA else None,
        margins=margins if by_column else None,
        margin_error=float(beside["standard_error"]) if by_column else None,
        pairs=pairs,
        distances=_distances(folder, certificate),
        blocks={},
        total=None if margins is None or by_column else _noisy_total(folder / margins, certificate),
        chances=tuple(sampled_chances(rate, k)) if rate is not None and k is not None and reading.suppresses else (),
        attempts=tuple(attempts(float(certificate["guarantee"]["epsilon"]), float(certificate["guarantee"]["delta"]))),
        deletion=None if deleted is None else deletion_facts(deleted, certificate),
        told=(
            *_of_units(certificate, [column.name for column in columns]),
            *_told(table, certificate, columns, shape=reading.shape),
        ),
    )


def _telling(pairs: Sequence[SheetPair]) -> list[tuple[str, str]]:
    """Return the columns of counted pairs, those furthest from independence first."""
    return [pair.columns for pair in sorted(pairs, key=lambda pair: (-pair.distance, pair.cells))]


def _margins_file(certificate: Mapping[str, Any]) -> str:
    files: Mapping[str, str] = certificate["files"]
    return next(name for name in ("margins.parquet", "margins.csv") if name in files)


def _noisy_total(path: Path, certificate: Mapping[str, Any]) -> NoisyTotal:
    error = float(certificate["published"]["margins"]["standard_error"])
    return NoisyTotal(records=float(_read(path, pa.csv.ConvertOptions())["count"][0].as_py()), error=error)


_TEXTS = pa.csv.ConvertOptions(
    column_types=dict.fromkeys(("column", "label", "second_column", "second_label"), pa.string())
)


def _distances(folder: Path, certificate: Mapping[str, Any]) -> Mapping[tuple[str, str], float]:
    """Return how far all pairs of columns are from independence; empty where none was chosen and counted."""
    if not certificate["published"].get("pairs"):
        return {}
    from .pair_distances import pair_distances  # of releases that choose pairs alone

    return pair_distances(_read(folder / _margins_file(certificate), _TEXTS), certificate)


def _pairs(path: Path, certificate: Mapping[str, Any]) -> Iterator[SheetPair]:
    """The pairs that a release chose, with what their published fitted counts tell."""
    stated = certificate["published"].get("pairs", [])
    if not stated:
        return
    table = _read(path, _TEXTS)
    for number, pair in enumerate(stated, start=1):
        own = table.filter(pc.equal(table["pair"], number))
        sides = [own[name].combine_chunks().dictionary_encode() for name in ("label", "second_label")]
        counts = np.zeros([len(side.dictionary) for side in sides])
        np.add.at(counts, tuple(side.indices.to_numpy() for side in sides), own["fitted"].to_numpy())
        total = float(counts.sum()) or 1.0
        independent = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
        yield SheetPair(
            number=number,
            columns=(pair["columns"][0], pair["columns"][1]),
            levels=(pair["levels"][0], pair["levels"][1]),
            cells=pair["cells"],
            deviation=pair["standard_error"],
            distance=float(np.abs(counts - independent).sum()) / (2.0 * total),
        )


def _table(folder: Path, certificate: Mapping[str, Any], *, stem: str) -> tuple[str, pa.Table]:
    name = next((name for name in (f"{stem}.parquet", f"{stem}.csv") if name in certificate["files"]), None)
    if name is None:
        raise InputRefused("this release has no table.", where=str(folder))
    names = [column["column"] for column in certificate["map"]["columns"]]
    return name, _read(folder / name, pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())))


def _read(path: Path, options: pa.csv.ConvertOptions) -> pa.Table:
    try:
        return pq.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path, convert_options=options)
    except (OSError, pa.ArrowException) as error:
        raise ReleaseFailed(
            f"the table can't be read ({type(error).__name__}).", where=str(path), not_done=NOT_DONE
        ) from None


def _columns(table: pa.Table, certificate: Mapping[str, Any], *, figures: frozenset[str]) -> list[PublishedColumn]:
    stages = certificate["published"].get("stages") or [{}]
    levels = {
        column["column"]: tuple(stage.get("levels", {}).get(column["column"], column["level"]) for stage in stages)
        for column in certificate["map"]["columns"]
    }
    found = []
    for name in table.column_names:
        if name in figures or name not in levels:
            continue
        labels = table.column(name).cast(pa.string()).unique().to_pylist()
        plain = [label for label in labels if label != "*"]
        places = sorted({0, 1, len(plain) // 2, len(plain) - 1} & set(range(len(plain))))
        found.append(
            PublishedColumn(
                name=name,
                levels=levels[name],
                labels=len(labels),
                examples=tuple(plain[place] for place in places)[:MOST_EXAMPLES],
                starred="*" in labels,
            )
        )
    return found


def _labels(
    table: pa.Table, certificate: Mapping[str, Any], columns: Sequence[PublishedColumn]
) -> tuple[StageLabel, ...]:
    stage = table["stage"] if "stage" in table.column_names and "stage" not in {one.name for one in columns} else None
    published: dict[tuple[str, int], list[str]] = {}
    for column in columns:
        pairs = pa.table(
            {
                "stage": pa.chunked_array([pa.array([1] * table.num_rows)]) if stage is None else stage,
                "label": table[column.name].cast(pa.string()),
            }
        )
        for row in pairs.group_by(["stage", "label"]).aggregate([]).to_pylist():
            published.setdefault((column.name, int(row["stage"])), []).append(row["label"])
    return tuple(stage_labels(certificate, published=published))


def _of_units(certificate: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    """Say what a record is where all records of a unit made one, and what caps leave out; nothing elsewhere."""
    made = certificate.get("unit_records")
    if made is None:
        return ()
    unit = enforced_unit(certificate["sampler_layout"])
    named = [name for name in columns if name in made["columns"]]
    words = "; ".join(f"{name}: {made['in_words'][name]}" for name in named)
    lost = "; ".join(text for name in named if (text := _left_out(name, made["columns"][name])))
    told = (
        f"A record is one {unit} here, made of all records of its members: what is said of a person or of people below "
        f"is about a {unit}. {words}.",
    )
    return (*told, f"What caps leave out of a {unit}, by what was declared of them alone: {lost}.") if lost else told


def _left_out(name: str, rule: Mapping[str, Any]) -> str:
    """Return what a rule's cap leaves out; empty where it has none."""
    match rule:
        case {"count_members": {"cap": cap}}:
            return f"{name} doesn't tell how many more than {cap} there are"
        case {"composition": {"most": most}}:
            return f"{name} names {most} members at most, those that come first in the order of the labels"
        case {"waves": {"in": waves}}:
            return f"{name} has one label of each of {', '.join(waves)}, and none of other waves"
        case _:
            return ""


def _told(
    table: pa.Table, certificate: Mapping[str, Any], columns: Sequence[PublishedColumn], *, shape: Shape
) -> tuple[str, ...]:
    """By the table itself, since certificates of earlier versions don't say it."""
    if shape not in ROWS_OF_LABELS:
        return ()
    labels = {
        column.name: table.column(column.name).cast(pa.string()).combine_chunks().dictionary_encode()
        for column in columns
    }
    times = table.column("count").to_numpy() if shape == "counts" else np.ones(table.num_rows, dtype=np.int64)
    described = {column["column"]: column for column in certificate["map"]["columns"]}
    return told_sentences(
        {**certificate["published"], **labels_told(labels, times).facts},
        levels={column.name: described[column.name]["level"] for column in columns},
        hierarchies={
            column.name: None
            if (description := described[column.name].get("hierarchy")) is None
            else described_hierarchy(description)
            for column in columns
        },
        number=grouped,
    )
