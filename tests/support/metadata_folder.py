"""A release's folder of metadata: written again from what is published, and checked by each format's validator."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq
from crowdblend.tasks.metadata.description import TableOutline, described_release
from crowdblend.tasks.metadata.write_metadata import write_metadata
from crowdblend.tasks.request import MetadataTexts
from lxml import etree

ALWAYS = {"croissant.json", "data-dictionary.md", "ddi-codebook.xml"}
SCHEMA = Path(__file__).resolve().parents[1] / "vectors" / "ddi_codebook_part.xsd"
TYPES = {"string": "text", "int64": "integer", "double": "number"}
DDI = "{ddi:codebook:2_5}"


def written_again(release: Path, place: Path, *, texts: MetadataTexts) -> dict[str, bytes]:
    """The folder's files made from certificate and tables alone, in another place."""
    certificate = json.loads((release / "certificate.json").read_text())
    del certificate["files"], certificate["signature"]
    outlines = {}
    place.mkdir()
    for path in sorted(release.glob("*.*"), key=lambda path: path.stem != "data"):
        if path.suffix == ".json":
            continue
        shutil.copy(path, place)
        if path.suffix in (".csv", ".parquet"):
            table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
            columns = tuple((field.name, TYPES[str(field.type)]) for field in table.schema)
            outlines[path.stem] = TableOutline(columns=columns, rows=table.num_rows)
    write_metadata(place, described_release(place, certificate=certificate, tables=outlines, texts=texts))
    return files_of(place / "metadata")


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_formats(release: Path) -> None:
    """Each file of the folder is valid, and says what the tables are."""
    folder = release / "metadata"
    in_csv = (release / "data.csv").exists()
    assert {path.name for path in folder.iterdir()} == ALWAYS | ({"csvw.json"} if in_csv else set())
    tables = {path.stem: path for path in release.iterdir() if path.suffix == (".csv" if in_csv else ".parquet")}
    names = {stem: _names(path) for stem, path in tables.items()}
    check_croissant(folder / "croissant.json", names)
    check_codebook(folder / "ddi-codebook.xml", names)
    if in_csv:
        check_csvw(folder / "csvw.json", names)
    dictionary = (folder / "data-dictionary.md").read_text(encoding="utf-8")
    for stem, columns in names.items():
        assert f"## {tables[stem].name}\n" in dictionary
        for column in columns:
            assert re.sub(r"([\\`*_<>\[\]|&#~$])", r"\\\1", column) in dictionary


def _names(path: Path) -> list[str]:
    return pq.read_schema(path).names if path.suffix == ".parquet" else pyarrow.csv.read_csv(path).column_names


def check_croissant(path: Path, names: dict[str, list[str]]) -> list[dict[str, Any]]:
    """It loads without an error, and the main table is read through it, its digest compared; the first rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rdflib's own
        import absl.logging
        import mlcroissant

        absl.logging.set_verbosity(absl.logging.ERROR)
        data_set = mlcroissant.Dataset(jsonld=path)
        assert set() == set(data_set.metadata.ctx.issues.errors)
        found = {one.name: [field.name for field in one.fields] for one in data_set.metadata.record_sets}
        assert found == names
        rows = []
        for row, _ in zip(data_set.records("data"), range(3), strict=False):
            rows.append(row)
    return rows


def check_csvw(path: Path, names: dict[str, list[str]]) -> list[Any]:
    """It is valid, and every cell of every table has its column's type."""
    from csvw import CSVW

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # csvw warns of what it passes over
        described = CSVW(str(path), validate=True)
        assert described.is_valid, [str(one.message) for one in described.warnings]
    found = {
        Path(table.url.string).stem: [str(column.titles) for column in table.tableSchema.columns]
        for table in described.tables
    }
    assert found == names
    return [row for table in described.tables for row in table]


def check_codebook(path: Path, names: dict[str, list[str]]) -> None:
    """It is valid, with a variable for each column."""
    schema = etree.XMLSchema(etree.parse(SCHEMA))
    book = etree.parse(path)
    schema.assertValid(book)
    files = {file.get("ID") for file in book.iter(f"{DDI}fileDscr")}
    assert {variable.get("files") for variable in book.iter(f"{DDI}var")} == files
    found: dict[str, list[str]] = {}
    for variable in book.iter(f"{DDI}var"):
        found.setdefault(variable.get("files").removeprefix("F-"), []).append(variable.get("name"))
    assert found == names
