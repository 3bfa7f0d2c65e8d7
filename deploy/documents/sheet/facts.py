"""What a researcher needs to know of a release, from its folder alone: facts, codebook, citation."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ....accounting.certificate.row_tables import DATA, row_tables
from ....accounting.descriptions.description_registry import description_of
from ....accounting.descriptions.kind_description import DeletedRecords
from ....accounting.theory.count_bounds import (
    BinomialBounds,
    Chance,
    CountBounds,
    CountInterval,
    NormalBounds,
    TotalBounds,
    deletion_bounds,
    geometric_deviation,
    published_intervals,
)
from ....accounting.theory.survival import record_survival
from ....flows.releases.release_kind import NoDocument, Shape, kind_of_mechanism
from ....mechanisms.generalization_map import told_sentences
from ....mechanisms.hierarchies.build import described_hierarchy
from ....mechanisms.hierarchies.codebook import ColumnCodebook, StageLabel, codebook, published_levels, stage_labels
from ....mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ....mechanisms.wording import grouped
from ....tasks.stages.table import ROWS_OF_LABELS, labels_told
from ..document_registry import NOT_DONE, VerifiedRelease, file_stem
from ..report_pictures import MOST_PAIR_COLUMNS

LABELS = "-labels.csv"
COUNTS = (1, 2, 5, 10, 100, 1_000, 10_000)
"""Times k."""
TIMES = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
FALSE_ALARMS = (0.01, 0.05, 0.2, 0.5)
DELETION_COUNTS = (1, 2, 5, 10, 20, 50, 100, 1_000)
SHARES = (Fraction(1, 5), Fraction(7, 20), Fraction(1, 2), Fraction(13, 20), Fraction(4, 5), Fraction(1))
SMALL = 5
OUTSIDE = Fraction(1, 40)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """What the release can do for somebody who wants to find out whether a person's records are in it.

    Args:
        false_alarms: share of absent people of whom a method says that they are there.
        found: share of those present that it can find at the most.
    """

    false_alarms: float
    found: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionFacts:
    """What the noise of a release means for its table; from the integer weights that it was drawn by.

    Args:
        stages: the chain as the certificate has it, the finest first.
        k: the smallest number of records that is published of a group.
        expected: E[Z], records.
        deviation: sd(Z), records.
        largest: the largest Z.
        bounds: of groups of the last stage.
        small: what becomes of small groups.
        calibrated: whether the weights were raked to noisy margins afterwards.
    """

    stages: tuple[Mapping[str, Any], ...]
    k: int
    expected: float
    deviation: float
    largest: int
    bounds: tuple[CountInterval, ...]
    small: tuple[Chance, ...]
    calibrated: bool

    @property
    def unbiased_from(self) -> int:
        """So many records of a group are published for certain, and estimated without bias."""
        return self.largest + self.k


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
        bounds: of what the code counts; None where there are none.
        cross: the columns of a cross table; empty where there aren't two.
        cross_bounds: of what it counts; None where there are none.
        margins: the name of the file of noisy counts that is read instead of the table; None where there is none.
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
    bounds: CountBounds | None
    cross: tuple[str, ...]
    cross_bounds: CountBounds | None
    margins: str | None
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

    @property
    def each_table(self) -> tuple[SheetFacts, ...]:
        """The tables of rows, each by itself."""
        return self.tables or (self,)

    @property
    def of_cross(self) -> SheetFacts:
        """The table of rows that the code for a cross table counts: the first of which one tells something."""
        return next((one for one in self.each_table if one.cross), self.each_table[0])

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
    def comparable(self) -> tuple[str, ...]:
        """The columns that tell something once the labels of all stages are made alike."""
        alike = [
            column.name
            for column in self.columns
            if column.labels > 1
            and (len({*column.levels}) == 1 or (declared_sizes(self.certificate)[column.name] or 1) > 1)
        ]
        return tuple(alike)

    @property
    def counted_by(self) -> str:
        """The column that the code counts by, or `stage`."""
        if self.stages == 1 or self.margins is not None:
            return self.columns[0].name
        return self.comparable[0] if self.comparable else "stage"

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
        """The counted pair that the code counts by: that which tells most; None where no pair was chosen."""
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
        return _table_facts(release, release.certificate, stem=DATA)
    margins = release.folder / _margins_file(release.certificate)
    pairs = tuple(_pairs(margins, release.certificate))
    counted = frozenset(frozenset(pair.columns) for pair in pairs)
    blocks = release.certificate["published"]["blocks"]
    tables = tuple(
        replace(
            # Of the pairs nothing is of one table alone.
            _table_facts(
                release, {**view, "published": {**view["published"], "pairs": []}}, stem=stem, counted=counted
            ),
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
        cross=(),
        cross_bounds=None,
        pairs=pairs,
        distances=_distances(release.folder, certificate),
        blocks={table.block: tuple(column.name for column in table.columns) for table in tables},
        told=(),
        block="",
        theme="",
        tables=tables,
    )


def _table_facts(
    release: VerifiedRelease, certificate: Mapping[str, Any], *, stem: str, counted: Collection[frozenset[str]] = ()
) -> SheetFacts:
    """Return what a release with one table tells, or what one of several tables does.

    Args:
        release: the release.
        certificate: as if there were no other table.
        stem: the table's name without its ending.
        counted: pairs of columns that were counted besides those of the certificate.
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
    facts = SheetFacts(
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
        intervals=_intervals(rate, k) if rate is not None and k is not None and reading.suppresses else (),
        labels=_labels(table, certificate, columns),
        bounds=None,
        cross=(),
        cross_bounds=None,
        margins=margins if by_column else None,
        pairs=() if margins is None else tuple(_pairs(folder / margins, certificate)),
        distances=_distances(folder, certificate),
        blocks={},
        total=None if margins is None or by_column else _noisy_total(folder / margins, certificate),
        chances=tuple(_chances(rate, k)) if rate is not None and k is not None and reading.suppresses else (),
        attempts=tuple(_attempts(float(certificate["guarantee"]["epsilon"]), float(certificate["guarantee"]["delta"]))),
        deletion=None if deleted is None else _deletion_facts(deleted, certificate),
        told=_told(table, certificate, columns, shape=reading.shape),
    )
    if not columns or reading.shape in ("answers", "synthetic"):
        return facts
    own = facts.margins is not None
    bounds: CountBounds | None
    bounds = _margin_bounds(facts) if own else _bounds(facts, deleted, by=(facts.counted_by,))
    counted_pairs = {*counted, *(frozenset(pair.columns) for pair in facts.pairs)}
    not_counted = (pair for pair in combinations(facts.comparable, 2) if frozenset(pair) not in counted_pairs)
    cross = next(not_counted, facts.comparable[:2] if len(facts.comparable) > 1 else ())
    cross_bounds = None if own or not cross else _bounds(facts, deleted, by=cross)
    return replace(facts, bounds=bounds, cross=cross, cross_bounds=cross_bounds)


def _margins_file(certificate: Mapping[str, Any]) -> str:
    files: Mapping[str, str] = certificate["files"]
    return next(name for name in files if Path(name).stem == "margins")


def _noisy_total(path: Path, certificate: Mapping[str, Any]) -> NoisyTotal:
    error = float(certificate["published"]["margins"]["standard_error"])
    return NoisyTotal(records=float(_read(path, pa.csv.ConvertOptions())["count"][0].as_py()), error=error)


def _margin_bounds(facts: SheetFacts) -> CountBounds:
    """Return the bounds of counts that are read from margins."""
    error = float(facts.certificate["published"]["margins"]["standard_error"])
    return NormalBounds(deviation=error, once=0.0, absent=0.0, combinations=1)


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


def _bounds(facts: SheetFacts, deleted: DeletedRecords | None, *, by: tuple[str, ...]) -> CountBounds | None:
    """Return the bounds of counts by some columns."""
    if facts.total is not None:
        return TotalBounds(
            rate=facts.rate, total=facts.total.records, deviation=facts.total.error, records=facts.records or 0
        )
    combinations = _combinations(facts.certificate, by)
    if deleted is not None:
        return deletion_bounds(deleted, combinations=combinations)
    if facts.rate is None:
        return None
    return BinomialBounds.of(facts.rate, k=facts.k, noise=facts.noise, combinations=combinations)


def _intervals(rate: float, k: int) -> tuple[CountInterval, ...]:
    return tuple(published_intervals([times * k for times in COUNTS], k=k, rate=rate))


def declared_sizes(certificate: Mapping[str, Any]) -> dict[str, int | None]:
    """Return how many labels each column has, `*` among them, at the levels of the last stage.

    None where its hierarchy isn't in the certificate.
    """
    return {
        column["column"]: None
        if column.get("hierarchy") is None
        else int(described_hierarchy(column["hierarchy"]).size(list(published_levels(certificate, column))[-1]))
        for column in certificate["map"]["columns"]
    }


def _combinations(certificate: Mapping[str, Any], by: tuple[str, ...]) -> int | None:
    """Return how many combinations of labels those of some columns have part in; None where that isn't known."""
    sizes = declared_sizes(certificate)
    others = [size for name, size in sizes.items() if name not in by]
    if not sizes.keys() >= set(by) or None in others:
        return None
    return math.prod(size for size in others if size is not None)


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
        drawn="selection" in certificate["map"],
        number=grouped,
    )


def _chances(rate: float, k: int) -> list[Chance]:
    """For groups around the size k/β the chance of being published, and the estimate where they are."""
    found = []
    for times in TIMES:
        size = max(1, round(times * k / rate))
        sizes = np.array([float(size)])
        published = float(record_survival(sizes + 1.0, k=k + 1, rate=rate)[0])
        kept = float(record_survival(sizes, k=k, rate=rate)[0])
        found.append(
            Chance(people=size, published=published, estimate=size * kept / published if published > 0 else math.nan)
        )
    return found


def _attempts(epsilon: float, delta: float) -> list[Attempt]:
    """Both directions of (ε, δ): found ≤ e^ε·α + δ, and 1 − found ≥ e^−ε·(1 − α − δ)."""
    found = []
    for alarms in FALSE_ALARMS:
        most = min(math.exp(epsilon) * alarms + delta, 1.0 - math.exp(-epsilon) * (1.0 - alarms - delta), 1.0)
        found.append(Attempt(false_alarms=alarms, found=most))
    return found


def _deletion_facts(deleted: DeletedRecords, certificate: Mapping[str, Any]) -> DeletionFacts:
    """Read what concerns the deletion from a certificate that verifies.

    Args:
        deleted: what the certificate's mechanism deletes.
        certificate: its fields.
    """
    k, largest = deleted.k, deleted.largest
    sizes = {max(k, round(share * (largest + k))) for share in SHARES} | ({SMALL} if k <= SMALL < largest else set())
    return DeletionFacts(
        stages=tuple(certificate["published"]["stages"]),
        k=k,
        expected=float(deleted.expected),
        deviation=math.sqrt(deleted.variance),
        largest=largest,
        bounds=tuple(_group_intervals(deleted)),
        small=tuple(_small(size, deleted) for size in sorted(sizes)),
        calibrated="margins" in certificate["published"],
    )


def _group_intervals(deleted: DeletedRecords) -> list[CountInterval]:
    """Return exact intervals given that a group is published: docs/decisions/0020-intervals-that-hold.md."""
    reached = list(accumulate(deleted.weights))
    counts = sorted({deleted.k, *(count for count in DELETION_COUNTS if count >= deleted.k)})
    return [
        CountInterval(
            published=count,
            people=count + float(deleted.expected),
            low=count + _fewest(reached, spare=count - deleted.k),
            high=count + next(z for z, below in enumerate(reached) if below >= (1 - OUTSIDE) * deleted.total),
        )
        for count in counts
    ]


def _fewest(reached: Sequence[int], *, spare: int) -> int:
    """Return the least z with Pr[Z ≤ z | Z ≤ z + spare] > 1/40.

    A group of J + z is published where Z ≤ z + J − k.
    """
    last = len(reached) - 1
    return next(z for z, below in enumerate(reached) if below > OUTSIDE * reached[min(z + spare, last)])


def _small(size: int, deleted: DeletedRecords) -> Chance:
    """Return the chance of a group of a size: it is published where Z ≤ size − k, and estimated at size − Z + E[Z]."""
    reached = deleted.weights[: size - deleted.k + 1]
    chance = sum(reached)
    kept = Fraction(sum((size - z) * weight for z, weight in enumerate(reached)), chance)
    return Chance(people=size, published=chance / deleted.total, estimate=float(kept + deleted.expected))
