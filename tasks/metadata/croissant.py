"""Croissant: a data set described for machine learning in JSON-LD. Source: MLCommons, Croissant 1.0, 2024-03-01."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from .description import DescribedFile, DescribedRelease, DescribedTable

__all__ = ["croissant_text"]

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


def croissant_text(described: DescribedRelease) -> str:
    """The description of a release: every file with its digest, every column of each table as a field."""
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
