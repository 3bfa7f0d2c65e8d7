"""A DDI codebook, as data archives keep it, in XML. Source: DDI Alliance, DDI-Codebook 2.5, 2012-01-17."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from ...mechanisms.hierarchies.declare import BUCKET_LABEL
from .description import DescribedColumn, DescribedRelease, DescribedTable

__all__ = ["ddi_text"]

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no form for: production 2."""
_TYPES = {
    "csv": "Comma-separated values",
    "parquet": "Apache Parquet",
    "sav": "SPSS system file",
    "dta": "Stata data file",
}
_BUCKET = "Any value that was not declared, and missing values"


def ddi_text(described: DescribedRelease) -> str:
    """The codebook: the study's citation and guarantee, each file, and each column as a variable."""
    book = ET.Element("codeBook", {"version": "2.5", "xmlns": "ddi:codebook:2_5", "xml:lang": "en"})
    _study(_under(book, "stdyDscr"), described)
    for table in described.tables:
        _file(_under(book, "fileDscr", ID=f"F-{table.stem}", URI=f"../{table.files[0].name}"), table)
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


def _file(file: ET.Element, table: DescribedTable) -> None:
    own = table.files[0]
    about = _under(file, "fileTxt")
    _under(about, "fileName", own.name)
    size = _under(about, "dimensns")
    _under(size, "caseQnty", str(table.rows))
    _under(size, "varQnty", str(len(table.columns)))
    _under(about, "fileType", _TYPES[own.name.rpartition(".")[2]])
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
    """An element below another; what XML has no form for becomes U+FFFD."""
    element = ET.SubElement(parent, tag, {key: _NO_XML.sub("\ufffd", value) for key, value in attributes.items()})
    element.text = None if text is None else _NO_XML.sub("\ufffd", text)
    return element
