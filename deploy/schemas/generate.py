"""All schemas, from the models; run as a program in a checkout it writes them into this folder.

python -m crowdblend.deploy.schemas.generate
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...flows.spec import PAGE, keys_of, spec_model, spec_schema
from .documents import Certificate, ExportedEntry
from .outputs import OUTPUTS
from .type_schemas import DIALECT, schema_of_type

__all__ = ["VERSIONS", "schemas", "text_of_schema"]

VERSIONS = {"certificate": 5}
"""Of a schema; 1 where it isn't here. It rises when a key goes, or gets another type or meaning; not when one comes."""
HEADING = re.compile(r"^#+ (?:`\[(.+)\]`|Top level)$")
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]+) \|$")
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def schemas(page: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each schema, and the schema.

    Args:
        page: text of the page of all keys of a specification, whose words the schema has.
    """
    yield "specification", _named("specification", "A release's specification", _explained(spec_schema(), page))
    yield "certificate", _named("certificate", "A release's certificate", schema_of_type(Certificate))
    exported = schema_of_type(ExportedEntry, exact=True)
    yield "ledger-export", _named("ledger-export", "A line of crowdblend ledger export", exported)
    for words, hint in OUTPUTS.items():
        name = words.replace(" ", "-")
        yield name, _named(name, f"What crowdblend {words} --json prints", schema_of_type(hint))


def text_of_schema(schema: Mapping[str, Any]) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


def _named(name: str, title: str, schema: dict[str, Any]) -> dict[str, Any]:
    head = {"$schema": DIALECT, "$id": f"urn:crowdblend:{name}:{VERSIONS.get(name, 1)}", "title": title}
    return head | {key: value for key, value in schema.items() if key not in head}


def _explained(schema: dict[str, Any], page: str) -> dict[str, Any]:
    """The schema of specifications with the page's meaning of each key."""
    meanings = dict(_meanings(page))
    for key in keys_of(spec_model()):
        table = schema if not key.table else schema["$defs"][key.model.__name__]
        table["properties"][key.name].setdefault("description", meanings[key.table, key.name])
    return schema


def _meanings(page: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Table and name of each key on the page, and what it says of it."""
    table = None
    for line in page.splitlines():
        if line.startswith("#"):
            heading = HEADING.match(line)
            table = None if heading is None else heading[1] or ""
        elif table is not None and (row := ROW.match(line)):
            yield (table, row[1]), LINK.sub(r"\1", row[2]).replace(" (more)", "").replace("`", "")


def main() -> None:
    """Write every schema beside this module."""
    folder = Path(__file__).resolve().parent
    for name, schema in schemas((folder.parents[1] / PAGE).read_text(encoding="utf-8")):
        (folder / f"{name}.json").write_text(text_of_schema(schema), encoding="utf-8")


if __name__ == "__main__":
    main()
