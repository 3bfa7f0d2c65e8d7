"""CSVW: tables in CSV described in JSON-LD. Source: W3C, Metadata Vocabulary for Tabular Data, 2015-12-17."""

from __future__ import annotations

import json
import re
from typing import Any

from .description import DescribedColumn, DescribedRelease, DescribedTable

__all__ = ["csvw_text"]

_DATATYPES = {"text": "string", "integer": "integer", "number": "number"}
_NOT_IN_NAMES = re.compile(rb"[^A-Za-z0-9_]|^_")


def csvw_text(described: DescribedRelease) -> str | None:
    """The description of a release's tables in CSV; None where it has none."""
    tables = [_table(table) for table in described.tables if table.files[0].name.endswith(".csv")]
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


def _table(table: DescribedTable) -> dict[str, Any]:
    return {
        "url": f"../{table.files[0].name}",
        "dialect": {"encoding": "utf-8", "header": True, "delimiter": ",", "quoteChar": '"', "doubleQuote": True},
        "tableSchema": {"columns": [_column(column) for column in table.columns]},
    }


def _column(column: DescribedColumn) -> dict[str, Any]:
    # An empty field is null to CSVW; only the second column of margins has some.
    return {
        "name": _NOT_IN_NAMES.sub(lambda found: b"%%%02X" % found[0][0], column.name.encode("utf-8")).decode("ascii"),
        "titles": column.name,
        "datatype": _DATATYPES[column.datatype],
        "dc:description": column.meaning,
    }
