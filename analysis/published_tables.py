"""Read and verify what a release published: rows by stages, margins, pairs, and how rows count."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting.certificate.row_tables import DATA
from ..mechanisms.generalization_map import MappedColumn
from ..mechanisms.hierarchies.build import described_hierarchy
from ..mechanisms.kernel.errors import InputRefused
from .combined_counts import Amounts, Codes, PairCells

if TYPE_CHECKING:
    import pyarrow as pa

    from ..accounting.descriptions.kind_description import DeletedRecords
    from ..mechanisms.hierarchies.declare import Hierarchy

CERTIFICATE = "certificate.json"
NOT_DONE = "Nothing was read of its tables."
_MOST_LABELS = 1 << 20
_FIGURES = ("stage", "weight", "count")
_TABLE_FORMS = frozenset({"microdata", "counts", "histogram", "synthetic"})


@dataclass(frozen=True, kw_only=True, slots=True)
class RowReading:
    """State how rows count.

    Args:
        form: "microdata", "counts", "histogram" or "synthetic".
        rate: of the sample; None where all records were counted.
        k: the smallest number of records that is published of a group; None where there is none.
        noise: ε of the noise on counts; None where there is none.
        expected: E[Z] of the records that are deleted of each group of the last stage; 0 where none are.
        variance: Var[Z].
    """

    form: str
    rate: float | None = None
    k: int | None = None
    noise: float | None = None
    expected: float = 0.0
    variance: float = 0.0

    @property
    def are_records(self) -> bool:
        """Return whether each row is a record, another one for each row."""
        return self.noise is None and self.form != "synthetic"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowGroups:
    """The groups that a stage published.

    Args:
        levels: of each column of the table.
        codes: of each column, each group's label; each of shape (groups,).
        counts: published records, shape (groups,).
        mass: of how many records they stand for by their weights, shape (groups,).
    """

    levels: tuple[int, ...]
    codes: tuple[Codes, ...]
    counts: Amounts
    mass: Amounts


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RowTable:
    """A table of rows.

    Args:
        columns: places of its columns among the release's.
        stages: the finest first.
    """

    columns: tuple[int, ...]
    stages: tuple[RowGroups, ...]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PublishedTables:
    """All tables of a release.

    Args:
        columns: those whose hierarchies are known, at the level of the finest labels that may be counted by.
        rows: the tables of rows.
        reading: how they count.
        margins: noisy counts of each column, by the labels of `columns`; none where there are none.
        margin_deviation: standard error of each of them.
        pairs: counted pairs.
        total: a noisy number of all records, and its standard error; None where none was counted by itself.
        whole: whether the columns are all that the rows have, so that a group of them is a group of the release.
    """

    columns: tuple[MappedColumn, ...]
    rows: tuple[RowTable, ...]
    reading: RowReading
    margins: tuple[Amounts, ...] = ()
    margin_deviation: float = 0.0
    pairs: tuple[PairCells, ...] = ()
    total: tuple[float, float] | None = None
    whole: bool = True


def verified_certificate(path: Path, *, public_key: Path | None) -> tuple[Path, Mapping[str, Any]]:
    """Return a release's folder and its certificate, verified: the signature, every file's digest, the price.

    Args:
        path: the release's folder, or its certificate.
        public_key: PEM file of the publisher's public keys; without it whose key signed isn't checked.

    Raises:
        InputRefused: it can't be read, or doesn't verify.
    """
    from ..accounting.certificate.verify import read_certificate, verify_certificate
    from ..accounting.keys.signing_upkeep import read_public_keys

    # `Path.is_dir` would raise for a path that can't be looked at; the certificate's reader says why it can't.
    place = path / CERTIFICATE if os.path.isdir(path) else path
    trusted = None if public_key is None else read_public_keys(public_key)
    check = verify_certificate(place, trusted=trusted)
    if check.findings:
        raise InputRefused(
            f"this release does not verify: {'; '.join(check.findings)}.",
            where=str(place),
            not_done=NOT_DONE,
            remedy="Get it again from its publisher.",
        )
    return place.parent, read_certificate(place)


def read_tables(
    folder: Path,
    certificate: Mapping[str, Any],
    *,
    hierarchies: Mapping[str, Hierarchy] | None = None,
    stem: str = DATA,
) -> PublishedTables:
    """Read the tables of a release that was verified.

    Args:
        folder: where they lie.
        certificate: its fields; of a table of members as if there were no other table.
        hierarchies: of columns whose hierarchies are too large for the certificate.
        stem: the beginning of the names of its tables of rows.

    Raises:
        InputRefused: they can't be read, or are of a kind whose tables have no labels of records.
    """
    try:
        return _tables(folder, certificate, hierarchies or {}, stem)
    except (LookupError, TypeError, ValueError) as error:
        # A publisher's signature holds, so that only tables of another version come here.
        raise InputRefused(
            f"its tables are not those that its certificate tells of ({type(error).__name__}).",
            where=str(folder),
            not_done=NOT_DONE,
            remedy="Check it with `crowdblend verify`.",
        ) from None


def _tables(folder: Path, certificate: Mapping[str, Any], given: Mapping[str, Hierarchy], stem: str) -> PublishedTables:
    reading = _reading(certificate, where=str(folder))
    known = [
        MappedColumn(name=one["column"], hierarchy=hierarchy, level=one["level"])
        for one in certificate["map"]["columns"]
        if (hierarchy := _hierarchy(one, given)) is not None
    ]
    columns = tuple(column for column in known if column.size <= _MOST_LABELS)
    published = certificate["published"]
    margins, deviation, pairs, total = _margins(folder, certificate, columns)
    return PublishedTables(
        columns=columns,
        rows=tuple(_row_tables(folder, certificate, columns, weight_of_row=1.0 / (reading.rate or 1.0), stem=stem)),
        reading=reading,
        margins=margins,
        margin_deviation=deviation,
        pairs=pairs,
        total=total,
        whole=len(columns) == len(certificate["map"]["columns"]) and "blocks" not in published,
    )


def _hierarchy(column: Mapping[str, Any], given: Mapping[str, Hierarchy]) -> Hierarchy | None:
    if column.get("hierarchy") is not None:
        return described_hierarchy(column["hierarchy"])
    own = given.get(column["column"])
    if own is not None and own.digest() != column["hierarchy_sha256"]:
        raise InputRefused(
            f"the hierarchy that was given for column {column['column']!r} is not the one that the certificate names.",
            not_done=NOT_DONE,
            remedy="Ask the publisher for it.",
        )
    return own


def _reading(certificate: Mapping[str, Any], *, where: str) -> RowReading:
    """Return how rows count, by the mechanism that a certificate names."""
    from ..accounting.certificate.verify import certified_mechanism
    from ..accounting.descriptions.description_registry import description_of

    form, stated = certificate["published"]["form"], certificate["mechanism"]
    own_rates = "inclusion" in certificate or "lowest_rate" in stated
    if form not in _TABLE_FORMS or own_rates:
        named = {"points": "points", "answer": "answers", "estimates": "estimates of local reports"}
        what = "rows of records with rates of their own" if own_rates else named.get(form, f"{form} tables")
        raise InputRefused(
            f"this release has {what}, which don't count records by labels.",
            where=where,
            not_done=NOT_DONE,
            remedy="How its table is read is in docs/mechanisms.",
        )
    mechanism = certified_mechanism(certificate)
    deletion = description_of(mechanism).deletion
    if deletion is not None:
        deleted: DeletedRecords = deletion(mechanism)
        return RowReading(form=form, k=deleted.k, expected=float(deleted.expected), variance=float(deleted.variance))
    rate = stated.get("sampling_rate")
    noise = stated.get("epsilon") if form == "histogram" else None
    return RowReading(
        form=form,
        rate=None if rate in (None, "whole") or form == "synthetic" else float(rate),
        k=stated.get("k"),
        noise=None if noise is None else float(noise),
    )


def _row_tables(
    folder: Path, certificate: Mapping[str, Any], columns: Sequence[MappedColumn], *, weight_of_row: float, stem: str
) -> Iterator[RowTable]:
    published = certificate["published"]
    first = {one["column"]: one["level"] for one in certificate["map"]["columns"]}
    blocks = published.get("blocks")
    named = {one["name"]: one for one in blocks} if blocks else {"": published}
    for name, block in named.items():
        file = file_of(certificate, f"{stem}-{name}" if name else stem)
        if file is None:
            continue
        own = block.get("columns") if name else None
        places = tuple(place for place, one in enumerate(columns) if own is None or one.name in own)
        levels = [stage["levels"] for stage in block.get("stages", ())] or [first]
        figures = [name for name in _FIGURES if name not in first]
        own_columns = [columns[place] for place in places]
        yield _row_table(
            folder / file, own_columns, places, figures=figures, levels=levels, weight_of_row=weight_of_row
        )


def _row_table(
    path: Path,
    columns: Sequence[MappedColumn],
    places: tuple[int, ...],
    *,
    figures: Sequence[str],
    levels: Sequence[Mapping[str, int]],
    weight_of_row: float,
) -> RowTable:
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [column.name for column in columns]
    table = read_table(path, texts=names)
    there = [name for name in figures if name in table.column_names]
    labelled = table.select([*names, *there])
    for place, name in enumerate(labelled.column_names):
        if name in names:
            labelled = labelled.set_column(place, name, labelled[name].cast(pa.string()))
    counted = "count" in there
    keys = [*names, *(name for name in there if name != "count")]
    groups = labelled.group_by(keys).aggregate([("count", "sum") if counted else ([], "count_all")])
    counts = groups["count_sum" if counted else "count_all"]
    stages = []
    for number, stage in enumerate(levels, start=1):
        kept = pc.equal(groups["stage"], number) if "stage" in there else None
        own = groups if kept is None else groups.filter(kept)
        times = (counts if kept is None else counts.filter(kept)).to_numpy().astype(np.float64)
        weights = own["weight"].to_numpy() if "weight" in there else weight_of_row
        at = tuple(stage[name] for name in names)
        stages.append(
            RowGroups(
                levels=at,
                codes=tuple(_codes(own[column.name], column, level) for column, level in zip(columns, at, strict=True)),
                counts=times,
                mass=times * weights,
            )
        )
    return RowTable(columns=places, stages=tuple(stages))


def _codes(labels: pa.ChunkedArray, column: MappedColumn, level: int) -> Codes:
    """Return the code of each label; KeyError where the hierarchy doesn't have it."""
    encoded = labels.combine_chunks().dictionary_encode()
    known = _code_of_label(column, level)
    own = np.array([known[label] for label in encoded.dictionary.to_pylist()], dtype=np.int64)
    codes: Codes = own[encoded.indices.to_numpy()]
    return codes


def _code_of_label(column: MappedColumn, level: int) -> dict[str, int]:
    labels = column.hierarchy.labels(np.arange(column.hierarchy.size(level), dtype=np.int64), level)
    return {label: code for code, label in enumerate(labels)}


def _margins(
    folder: Path, certificate: Mapping[str, Any], columns: Sequence[MappedColumn]
) -> tuple[tuple[Amounts, ...], float, tuple[PairCells, ...], tuple[float, float] | None]:
    """Return margins, their standard error, pairs, and a total; margins of all columns or of none."""
    stated, file = certificate["published"].get("margins"), file_of(certificate, "margins")
    if stated is None or file is None:
        return (), 0.0, (), None
    table = read_table(folder / file, texts=("column", "label", "second_column", "second_label"))
    counts, deviation = table["count"].to_numpy().astype(np.float64), float(stated["standard_error"])
    every = np.full(counts.size, deviation)
    if "standard_error" in table.column_names:
        every = table["standard_error"].to_numpy().astype(np.float64)
    if not any(stated["columns"]):
        return (), 0.0, (), (float(counts[0]), deviation)
    levels = {one["column"]: one["level"] for one in certificate["map"]["columns"]}
    place_of = {column.name: place for place, column in enumerate(columns)}
    # Tables stand one after the other, each with all its cells in the order of its labels.
    named = [(tuple(names), tuple(levels[name] for name in names)) for names in stated["columns"]]
    named += [(tuple(one["columns"]), tuple(one["levels"])) for one in certificate["published"].get("pairs", ())]
    first, second = _texts(table, "label"), _texts(table, "second_label")
    margins: dict[int, Amounts] = {}
    pairs, begin = [], 0
    if len(columns) < len(levels):
        raise InputRefused(
            "the certificate lacks the hierarchy of a column, without which its margins can't be told apart.",
            where=str(folder),
            not_done=NOT_DONE,
            remedy="Give it as `hierarchies`; the publisher has it.",
        )
    for names, at in named:
        own = [columns[place_of[name]] for name in names]
        shape = tuple(column.hierarchy.size(level) for column, level in zip(own, at, strict=True))
        cells = counts[begin : begin + int(np.prod(shape))].reshape(shape)
        _require_labels(own, at, first[begin : begin + cells.size], second[begin : begin + cells.size])
        error = float(every[begin])
        begin += cells.size
        if len(names) == 1:
            margins[place_of[names[0]]] = cells
        else:
            pairs.append(pair_cells(own, (place_of[names[0]], place_of[names[1]]), (at[0], at[1]), cells, error))
    if begin != counts.size:
        raise ValueError("there are other cells than the certificate names")
    return tuple(margins[place] for place in range(len(columns))), deviation, tuple(pairs), None


def pair_cells(
    columns: Sequence[MappedColumn], places: tuple[int, int], levels: tuple[int, int], counts: Amounts, error: float
) -> PairCells:
    """Return a counted pair of two columns, at some levels."""
    first, second = (labels_to(column, level) for column, level in zip(columns, levels, strict=True))
    return PairCells(columns=places, levels=levels, labels=(first, second), counts=counts, deviation=error)


def labels_to(column: MappedColumn, level: int) -> Codes:
    """Return the label at a level of each of a column's finest labels; shape (labels,)."""
    return column.hierarchy.coarser(np.arange(column.size, dtype=np.int64), level=column.level, to=level)


def _require_labels(
    columns: Sequence[MappedColumn], levels: Sequence[int], first: Sequence[str | None], second: Sequence[str | None]
) -> None:
    """Raise ValueError unless the first and the last cell of a table have the labels that they must have."""
    for place, end in ((0, -1), (-1, 0)):
        told = [labels[place] for labels in (first, second)][: len(columns)]
        code = [0 if end else column.hierarchy.size(level) - 1 for column, level in zip(columns, levels, strict=True)]
        meant = [
            column.hierarchy.labels(np.array([one]), level)[0]
            for column, level, one in zip(columns, levels, code, strict=True)
        ]
        if told != meant:
            raise ValueError("its cells stand in another order")


def _texts(table: pa.Table, name: str) -> list[str | None]:
    import pyarrow as pa

    if name not in table.column_names:
        return [None] * table.num_rows
    texts: list[str | None] = table[name].cast(pa.string()).to_pylist()
    return texts


def file_of(certificate: Mapping[str, Any], stem: str) -> str | None:
    """Return the name of the table of a stem among a release's files; None where there is none."""
    files: Mapping[str, str] = certificate["files"]
    return next((name for name in (f"{stem}.parquet", f"{stem}.csv") if name in files), None)


def read_table(path: Path, *, texts: Sequence[str]) -> pa.Table:
    """Read a published table.

    Args:
        path: a file of Parquet or CSV.
        texts: columns that are texts also where they look like numbers.

    Raises:
        InputRefused: it can't be read.
    """
    import pyarrow as pa

    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            return pq.read_table(path)
        from pyarrow import csv

        options = csv.ConvertOptions(column_types=dict.fromkeys(texts, pa.string()))
        return csv.read_csv(path, convert_options=options)
    except (OSError, pa.ArrowException) as error:
        raise InputRefused(
            f"the table can't be read ({type(error).__name__}).", where=str(path), not_done=NOT_DONE
        ) from None
