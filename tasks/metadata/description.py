"""What the metadata of a release say, whatever their format: from its certificate and the form of its tables alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ...accounting.certificate.row_tables import MEMBERS, members_view, row_tables
from ...accounting.certificate.verify import certified_mechanism
from ...accounting.certificate.write_certificate import sha256_of_file
from ...accounting.descriptions.description_registry import description_of
from ...accounting.descriptions.kind_description import DeletedRecords
from ...mechanisms.hierarchies.build import described_hierarchy
from ...mechanisms.hierarchies.codebook import ColumnCodebook, codebook
from ..request import MetadataTexts

Datatype = Literal["text", "integer", "number"]
MOST_LABELS = 1_000
"""Labels of a column that are listed."""

_FIGURES = {
    "stage": "The stage that published the row; 1 is the finest.",
    "answer": "The noisy answer.",
    "estimate": "How many people have this answer, estimated from randomized reports.",
    "interval_low": "Lower end of an interval for the exact figure, with the confidence that the certificate names.",
    "interval_high": "Upper end of that interval.",
    "standard_error": "Standard error of the figure.",
}
_PRODUCTS = {
    "column": "The first column that is multiplied; empty where records are counted.",
    "label": "The label of that column that counts as 1; empty for a number.",
    "second_column": "The second column that is multiplied; empty where one column is added up alone.",
    "second_label": "The label of the second column; empty for a number.",
}
_COUNTS = {
    "counts": "How many records of the group are published.",
    "histogram": "The published count of the cell: counted in the sample, then suppressed or noisy.",
    "margins": "The noisy count of the cell; it can be negative.",
}
_MARGINS = {
    "column": "The released column that is counted; empty where all records are.",
    "label": "The label of that column; empty where all records are counted.",
    "second_column": "The second column of a pair; empty where one column is counted alone.",
    "second_label": "The label of the second column; empty where there is none.",
    "pair": "The pair's place in the order in which pairs were chosen; 0 where one column is counted alone.",
    "standard_error": "Standard error of the count or total by its noise.",
    "total": "Total of the survey weights, a record counting as the middle of its class; it has noise and may be "
    "negative.",
    "interval_low": "Lower end of an interval of 95 % for the total of the weights themselves, clipped at the bounds: "
    "by the noise, and by all that the weights may be within their classes.",
    "interval_high": "Upper end of that interval.",
    "fitted": "The count or total that the model of margins, pairs and rows gives: never negative, nearer on average; "
    "no error of it is stated.",
}
_SURVEY_WEIGHT = (
    "For how many people of the population each record that the row stands for stands, by the middle of its class of "
    "survey weights: for sums of the population multiply it by the column weight."
)
_SAMPLED_WEIGHT = (
    "For sums of rows: 1 divided by the sampling rate, raked to the margins, which count all records. Combinations of "
    "which too few records were sampled are missing."
)
_POINT = "Coordinate of a synthetic point: the centre of its cell of the grid."
_OTHER = "A figure that the mechanism publishes."


@dataclass(frozen=True, kw_only=True, slots=True)
class TableOutline:
    """A published table without its values."""

    columns: tuple[tuple[str, Datatype], ...]
    rows: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedFile:
    """A published file."""

    name: str
    sha256: str
    n_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedColumn:
    """A published column.

    Args:
        datatype: of its values in the file.
        labels: every label that was declared for it, whoever has it; empty for figures, and where they are too many.
        is_weight: whether its values are weights of the rows.
    """

    name: str
    datatype: Datatype
    meaning: str
    labels: tuple[str, ...]
    is_weight: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedTable:
    """A published table."""

    stem: str
    columns: tuple[DescribedColumn, ...]
    rows: int
    files: tuple[DescribedFile, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DescribedRelease:
    """A release as its metadata describe it.

    Args:
        day: of the charge, ISO 8601.
        book: which declared values the labels stand for.
    """

    texts: MetadataTexts
    label: str
    release_id: str
    dataset: str
    day: str
    software: str
    mechanism: str
    epsilon: str
    delta: str
    guarantee: str
    limits: str
    tables: tuple[DescribedTable, ...]
    book: tuple[ColumnCodebook, ...]

    @property
    def title(self) -> str:
        """Return the title, or the release's label."""
        return self.texts.title or self.label

    @property
    def description(self) -> str:
        """Return the publisher's description, and how the data were made."""
        made = (
            f"Published with differential privacy, (ε, δ) = ({self.epsilon}, {self.delta}), by the mechanism "
            f"{self.mechanism}. {self.guarantee}"
        )
        return f"{self.texts.description} {made}" if self.texts.description else made

    @property
    def citation(self) -> str:
        """Return one sentence that names the release so that it can be told from any other."""
        who = f"{self.texts.publisher.rstrip('.')}. " if self.texts.publisher else ""
        where = f" {self.texts.url}" if self.texts.url else ""
        return f"{who}{self.title} [data set]. Release {self.release_id}, {self.day}, {self.software}.{where}"


def outline_of(schema: pa.Schema, rows: int) -> TableOutline:
    """Return the outline of a published table with so many rows."""
    return TableOutline(columns=tuple((field.name, _datatype(field.type)) for field in schema), rows=rows)


def _datatype(type_: pa.DataType) -> Datatype:
    if pa.types.is_integer(type_):
        return "integer"
    return "number" if pa.types.is_floating(type_) else "text"


def described_release(
    folder: Path, *, certificate: Mapping[str, Any], tables: Mapping[str, TableOutline], texts: MetadataTexts
) -> DescribedRelease:
    """Return what is said of a release.

    PRIVACY: the certificate's fields, what was declared before the records were read, the tables' form, and digests
    and sizes of the published files. No record, private store, source or clock is within reach.

    Args:
        certificate: its fields but the files' digests and the signature's value.

    Raises:
        OSError: a file can't be read.
    """
    guarantee, views = certificate["guarantee"], row_tables(certificate)
    if (members := members_view(certificate)) is not None:
        views[MEMBERS] = members
    described, books = [], dict[ColumnCodebook, None]()
    for stem, outline in tables.items():
        view = views.get(stem, certificate)
        stated = {column["column"] for column in view["map"]["columns"]}
        names = [name for name, datatype in outline.columns if datatype == "text" and name in stated]
        book = codebook(view, names=names) if stem in views else ()
        books |= dict.fromkeys(book)
        files = sorted(folder.glob(f"{stem}.*"), key=lambda path: (path.suffix not in (".csv", ".parquet"), path.name))
        columns = tuple(
            _column(name, datatype, of_rows=stem in views, certificate=view, book=book)
            for name, datatype in outline.columns
        )
        named = tuple(
            DescribedFile(name=path.name, sha256=sha256_of_file(path), n_bytes=path.stat().st_size) for path in files
        )
        described.append(DescribedTable(stem=stem, columns=columns, rows=outline.rows, files=named))
    return DescribedRelease(
        texts=texts,
        label=certificate["name"],
        release_id=certificate["release_id"],
        dataset=certificate["dataset"],
        day=certificate["day"],
        software=f"crowdblend {certificate['code_version']}",
        mechanism=certificate["mechanism"]["kind"],
        epsilon=guarantee["epsilon"],
        delta=guarantee["delta"],
        guarantee=guarantee["in_words"],
        limits=guarantee["limits"],
        tables=tuple(described),
        book=tuple(books),
    )


def _column(
    name: str, datatype: Datatype, *, of_rows: bool, certificate: Mapping[str, Any], book: tuple[ColumnCodebook, ...]
) -> DescribedColumn:
    own = [one for one in book if one.name == name]
    if own:
        rules = [f"{_of_stages(one)}{one.rule}" for one in own]
        [stated] = [column for column in certificate["map"]["columns"] if column["column"] == name]
        labels = _labels(stated, [one.level for one in own])
        if (made := certificate.get("unit_records")) is not None:
            rules.insert(0, f"Of each unit: {made['in_words'][name]}.")
        return DescribedColumn(name=name, datatype=datatype, meaning=" ".join(rules), labels=labels)
    weight = _weight_meaning(certificate) if of_rows and name == "weight" else None
    if of_rows and name == "survey_weight" and "survey_weights" in certificate["published"]:
        weight = _SURVEY_WEIGHT
    meaning, is_weight = weight or _figure(name, of_rows=of_rows, certificate=certificate), weight is not None
    return DescribedColumn(name=name, datatype=datatype, meaning=meaning, labels=(), is_weight=is_weight)


def _figure(name: str, *, of_rows: bool, certificate: Mapping[str, Any]) -> str:
    form = certificate["published"]["form"]
    if not of_rows:
        return _COUNTS["margins"] if name == "count" else _MARGINS.get(name, _OTHER)
    if form == "points":
        return _POINT
    if "moments" in certificate["published"] and name in _PRODUCTS:
        return _PRODUCTS[name]
    return _COUNTS.get(form, "The published count.") if name == "count" else _FIGURES.get(name, _OTHER)


def _weight_meaning(certificate: Mapping[str, Any]) -> str | None:
    """Return what the weights of rows are made of; None where rows have none."""
    mechanism = certified_mechanism(certificate)
    of_mechanism = description_of(mechanism).deletion
    if of_mechanism is not None:
        return _weight(of_mechanism(mechanism))
    return _SAMPLED_WEIGHT if "margins" in certificate["published"] else None


def _weight(deleted: DeletedRecords) -> str:
    """Return what weights add up to; only where no part is left to luck is it the number of people on average."""
    expected, certain = float(deleted.expected), deleted.largest + deleted.k
    first, left = ("1 before the last stage, and there ", "left for it ") if deleted.stages > 1 else ("", "")
    raked = " Then all weights were raked to the margins." if deleted.margins else ""
    return (
        f"For sums of rows: {first}(J + {expected:.4g})/J where J records of the row's combination are published; "
        f"{expected:.4g} are left out on average. Over the random deletion the weights of a combination with at least "
        f"{certain} people {left}add up to their number on average. A smaller one is missing, or overstated where it "
        f"is in the table, since it is there only by luck.{raked}"
    )


def _of_stages(one: ColumnCodebook) -> str:
    if not one.stages:
        return ""
    noun = "stage" if len(one.stages) == 1 else "stages"
    return f"In {noun} {', '.join(str(stage) for stage in one.stages)}: "


def _labels(stated: Mapping[str, Any], levels: list[int]) -> tuple[str, ...]:
    """The declared labels at some levels, each once; none where they are too many, or the certificate has none."""
    if stated["hierarchy"] is None:
        return ()
    hierarchy = described_hierarchy(stated["hierarchy"])
    if sum(hierarchy.size(level) for level in levels) > MOST_LABELS:
        return ()
    listed = (hierarchy.labels(np.arange(hierarchy.size(level), dtype=np.int64), level) for level in levels)
    return tuple(dict.fromkeys(chain.from_iterable(listed)))
