"""The folder of metadata of a release: one file for each standard, and the data dictionary, which people read.

The standards are those of catalogues: Croissant, CSVW for tables in CSV, and a DDI codebook. Sources: MLCommons,
Croissant 1.0, 2024-03-01; W3C, Metadata Vocabulary for Tabular Data, 2015-12-17; DDI Alliance, DDI-Codebook 2.5,
2012-01-17, as data archives keep it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from ...mechanisms.hierarchies.codebook import CodebookLabel, ColumnCodebook
from ...mechanisms.hierarchies.declare import BUCKET_LABEL
from ...mechanisms.wording import grouped
from .description import DescribedColumn, DescribedFile, DescribedRelease, DescribedTable

_FORMATS = {
    "csv": "text/csv",
    "parquet": "application/x-parquet",
    "sav": "application/x-spss-sav",
    "dta": "application/x-stata-dta",
}
_DATATYPES = {"text": "sc:Text", "integer": "sc:Integer", "number": "sc:Float"}
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_CSVW_TYPES = {"text": "string", "integer": "integer", "number": "number"}
_NOT_IN_NAMES = re.compile(rb"[^A-Za-z0-9_]|^_")
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no form for: production 2."""
_DDI_FORMATS = {
    "csv": "Comma-separated values",
    "parquet": "Apache Parquet",
    "sav": "SPSS system file",
    "dta": "Stata data file",
}
_BUCKET = "Any value that was not declared, and missing values"


def croissant_text(described: DescribedRelease) -> str:
    """Return the description of a release: every file with its digest, every column of each table as a field."""
    texts = described.texts
    stated: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": described.label,
        "alternateName": texts.title,
        "description": f"{described.description} {described.limits}",
        "identifier": described.release_id,
        "citeAs": described.citation,
        "creator": None if texts.publisher is None else {"@type": "sc:Organization", "name": texts.publisher},
        "license": texts.license,
        "url": texts.url,
        "datePublished": described.day,
        "isLiveDataset": False,
        "distribution": [_file(file) for table in described.tables for file in table.files],
        "recordSet": [_record_set(table) for table in described.tables],
    }
    said = {name: value for name, value in stated.items() if value is not None}
    return json.dumps(said, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def _file(file: DescribedFile) -> dict[str, str]:
    return {
        "@type": "cr:FileObject",
        "@id": file.name,
        "name": file.name,
        "contentUrl": f"../{file.name}",
        "contentSize": f"{file.n_bytes} B",
        "encodingFormat": _FORMATS[file.name.rpartition(".")[2]],
        "sha256": file.sha256,
    }


def _record_set(table: DescribedTable) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": table.stem,
        "name": table.stem,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{table.stem}/{quote(column.name, safe='')}",
                "name": column.name,
                "description": column.meaning,
                "dataType": _DATATYPES[column.datatype],
                "source": {"fileObject": {"@id": table.files[0].name}, "extract": {"column": column.name}},
            }
            for column in table.columns
        ],
    }


def csvw_text(described: DescribedRelease) -> str | None:
    """Return the description of a release's tables in CSV; None where it has none."""
    tables = [_csvw_table(table) for table in described.tables if table.files[0].name.endswith(".csv")]
    if not tables:
        return None
    texts = described.texts
    stated: dict[str, Any] = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "dc:title": described.title,
        "dc:description": described.description,
        "dc:identifier": described.release_id,
        "dc:issued": {"@value": described.day, "@type": "xsd:date"},
        "dc:bibliographicCitation": described.citation,
        "dc:publisher": texts.publisher,
        "dc:license": texts.license,
        "dc:source": described.dataset,
        "tables": tables,
    }
    if texts.url is not None:
        stated["schema:url"] = {"@id": texts.url}
    said = {name: value for name, value in stated.items() if value is not None}
    return json.dumps(said, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def _csvw_table(table: DescribedTable) -> dict[str, Any]:
    return {
        "url": f"../{table.files[0].name}",
        "dialect": {"encoding": "utf-8", "header": True, "delimiter": ",", "quoteChar": '"', "doubleQuote": True},
        "tableSchema": {"columns": [_csvw_column(column) for column in table.columns]},
    }


def _csvw_column(column: DescribedColumn) -> dict[str, Any]:
    # An empty field is null to CSVW; only the columns of margins have some, where one or none is counted.
    return {
        "name": _NOT_IN_NAMES.sub(lambda found: b"%%%02X" % found[0][0], column.name.encode("utf-8")).decode("ascii"),
        "titles": column.name,
        "datatype": _CSVW_TYPES[column.datatype],
        "dc:description": column.meaning,
    }


def ddi_text(described: DescribedRelease) -> str:
    """Return the codebook: the study's citation and guarantee, each file, and each column as a variable."""
    book = ET.Element("codeBook", {"version": "2.5", "xmlns": "ddi:codebook:2_5", "xml:lang": "en"})
    _study(_under(book, "stdyDscr"), described)
    for table in described.tables:
        _ddi_file(_under(book, "fileDscr", ID=f"F-{table.stem}", URI=f"../{table.files[0].name}"), table)
    data = _under(book, "dataDscr")
    for table in described.tables:
        for number, column in enumerate(table.columns, start=1):
            _variable(data, column, table=table, number=number)
    ET.indent(book)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(book, encoding="unicode") + "\n"


def _study(study: ET.Element, described: DescribedRelease) -> None:
    texts = described.texts
    citation = _under(study, "citation")
    title = _under(citation, "titlStmt")
    _under(title, "titl", described.title)
    _under(title, "IDNo", described.release_id, agency="crowdblend")
    if texts.publisher is not None:
        _under(_under(citation, "rspStmt"), "AuthEnty", texts.publisher)
    _under(_under(citation, "prodStmt"), "software", described.software)
    distributed = _under(citation, "distStmt")
    if texts.publisher is not None:
        _under(distributed, "distrbtr", texts.publisher, **({} if texts.url is None else {"URI": texts.url}))
    _under(distributed, "distDate", described.day, date=described.day)
    _under(citation, "biblCit", described.citation)
    about = _under(study, "stdyInfo")
    _under(about, "abstract", described.description)
    _under(_under(about, "qualityStatement"), "otherQualityStatement", described.limits)
    use = _under(_under(study, "dataAccs"), "useStmt")
    _under(use, "citReq", described.citation)
    if texts.license is not None:
        _under(use, "conditions", texts.license)


def _ddi_file(file: ET.Element, table: DescribedTable) -> None:
    own = table.files[0]
    about = _under(file, "fileTxt")
    _under(about, "fileName", own.name)
    size = _under(about, "dimensns")
    _under(size, "caseQnty", str(table.rows))
    _under(size, "varQnty", str(len(table.columns)))
    _under(about, "fileType", _DDI_FORMATS[own.name.rpartition(".")[2]])
    for one in table.files:
        _under(file, "notes", f"SHA-256 of {one.name}: {one.sha256}", type="digest")


def _variable(data: ET.Element, column: DescribedColumn, *, table: DescribedTable, number: int) -> None:
    variable = _under(
        data,
        "var",
        ID=f"V-{table.stem}-{number}",
        name=column.name,
        files=f"F-{table.stem}",
        intrvl="contin" if column.datatype == "number" else "discrete",
        wgt="wgt" if column.is_weight else "not-wgt",
    )
    _under(variable, "labl", column.name)
    _under(variable, "txt", column.meaning)
    for label in column.labels:
        category = _under(variable, "catgry", missing="Y" if label == BUCKET_LABEL else "N")
        _under(category, "catValu", label)
        _under(category, "labl", _BUCKET if label == BUCKET_LABEL else label)
    _under(variable, "varFormat", type="character" if column.datatype == "text" else "numeric")


def _under(parent: ET.Element, tag: str, text: str | None = None, /, **attributes: str) -> ET.Element:
    """Return an element below another; what XML has no form for becomes U+FFFD."""
    element = ET.SubElement(parent, tag, {key: _NO_XML.sub("\ufffd", value) for key, value in attributes.items()})
    element.text = None if text is None else _NO_XML.sub("\ufffd", text)
    return element


FOLDER = "metadata"
_SPECIAL = re.compile(r"([\\`*_<>\[\]|&#~$])")


def write_metadata(place: Path, described: DescribedRelease) -> None:
    """Write the folder `metadata` into a release's folder.

    CSVW describes CSV alone: of tables in Parquet there is no such file, and the dictionary says so.

    PRIVACY: a function of what is described; the same bytes however often it is written.

    Raises:
        OSError: the folder can't be written.
    """
    texts = {
        "data-dictionary.md": dictionary_text(described),
        "csvw.json": csvw_text(described),
        "croissant.json": croissant_text(described),
        "ddi-codebook.xml": ddi_text(described),
    }
    folder = place / FOLDER
    folder.mkdir()
    for name, text in texts.items():
        if text is not None:
            (folder / name).write_bytes(text.encode("utf-8"))


def dictionary_text(described: DescribedRelease) -> str:
    """Return the data dictionary: each column with its type and meaning, the codebook, and the guarantee."""
    return "\n".join(_lines(described)) + "\n"


def _lines(described: DescribedRelease) -> Iterator[str]:
    texts = described.texts
    yield f"# {_plain(described.title)}"
    yield ""
    if texts.description:
        yield from (_plain(texts.description), "")
    facts = {
        "release": described.release_id,
        "of the data set": described.dataset,
        "day": described.day,
        "publisher": texts.publisher,
        "license": texts.license,
        "published at": texts.url,
        "mechanism": described.mechanism,
        "(ε, δ)": f"({described.epsilon}, {described.delta})",
        "made with": described.software,
        "cite as": described.citation,
    }
    yield from ("| | |", "|---|---|")
    yield from (f"| {name} | {_plain(value)} |" for name, value in facts.items() if value is not None)
    for table in described.tables:
        yield from _table(table)
    if described.book:
        yield from _codebook(described.book)
    yield from ("", "## Guarantee", "", _plain(described.guarantee), "", _plain(described.limits))
    yield from ("", "## Other files", "")
    yield "- `certificate.json`: what was done, its price, and the digest of every file here, signed."
    yield "- `metadata/croissant.json`: these files and columns for programs that read Croissant (machine learning)."
    yield "- `metadata/ddi-codebook.xml`: the same for data archives (DDI-Codebook 2.5)."
    if described.tables[0].files[0].name.endswith(".csv"):
        yield "- `metadata/csvw.json`: these tables for programs that read CSVW."
    else:
        yield "- There is no description in CSVW, which is for CSV alone."


def _table(table: DescribedTable) -> Iterator[str]:
    yield from ("", f"## {_plain(table.files[0].name)}", "", f"Rows: {grouped(table.rows)}.", "")
    yield from ("| file | bytes | SHA-256 |", "|---|---|---|")
    yield from (f"| {_plain(file.name)} | {grouped(file.n_bytes)} | {file.sha256} |" for file in table.files)
    yield from ("", "| column | type | meaning |", "|---|---|---|")
    for column in table.columns:
        yield f"| {_plain(column.name)} | {column.datatype} | {_plain(column.meaning)} |"


def _codebook(book: tuple[ColumnCodebook, ...]) -> Iterator[str]:
    """Yield which declared values each label stands for."""
    yield from ("", "## Codebook", "")
    yield "The labels as they were declared before the records were read, with values that perhaps nobody has."
    yield from (
        "",
        "| column | level | labels and what they stand for | SHA-256 of the hierarchy |",
        "|---|---|---|---|",
    )
    for one in book:
        of = "" if not one.stages else f", stage {', '.join(str(stage) for stage in one.stages)}"
        texts = [_plain(one.rule), *(_label(label) for label in one.labels)]
        texts += [f"And {grouped(one.more)} more labels."] if one.more else []
        yield f"| {_plain(one.name)} | {one.level}{of} | {' '.join(texts)} | {one.digest} |"


def _label(label: CodebookLabel) -> str:
    rest = f" and {grouped(label.more)} more" if label.more else ""
    return f"**{_plain(label.label)}**: {_plain(', '.join(label.values))}{rest}."


def _plain(text: str) -> str:
    """Return a text as Markdown shows it, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()) if not text.isprintable() else text)
