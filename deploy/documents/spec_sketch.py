"""The text of a new specification, from the names and types of a source's columns."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import assert_never

from ...tasks.inputs.schema import NamedColumn, SourceNames
from ..python.hierarchies import NamedHierarchy
from .schema_file import DeclaredDomain, SchemaFile

__all__ = ["FILL_IN", "sketched_spec"]

FILL_IN = "FILL IN"
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
NO_LABEL = re.compile(r"[^A-Za-z0-9._-]+")
HEAD = """\
## Begun by `crowdblend spec new` from the names and types of the columns alone; no value was read.
## What is yours to write is marked FILL IN. Write it from what is public: a code list, a law, a census, an earlier
## release. What is chosen by looking at these records is not covered by the guarantee.
"""
DECLARED_HEAD = """\
## Begun by `crowdblend spec new` from a schema; no record was read. Values and bounds stand here as the schema declares
## them, and they are published with the release: leave only those that are public, and none that were computed from
## these records, such as the least and the greatest value that somebody has. What is yours to write is marked FILL IN.
"""
COLUMNS = """\
## Only the columns named below are released. Remove the single # before the lines of those that may leave, and leave
## the others: names, numbers and addresses of people are never needed. Each has one of
##   values = ["…", "…"]         the values that there are; everything else is published as *
##   interval = { lower = …, upper = …, widths = [5, 20] }         whole numbers, 5 and 20 wide
##   hierarchy = "file.csv"      labels level by level; `crowdblend hierarchy build` makes the file
## and a level, 0 being the value itself. Rows can't be filtered nor columns computed here:
## docs/starting-from-a-file.md. All keys are in docs/specification.md.
"""


def sketched_spec(
    names: SourceNames,
    *,
    schema: str,
    label: str,
    dataset: str,
    source: str,
    released: Collection[str] = (),
    hierarchies: Mapping[str, NamedHierarchy] | None = None,
    declared: SchemaFile | None = None,
) -> str:
    """The text of a specification that is complete but for its columns.

    Args:
        names: of the source's columns.
        schema: name of the file beside it by which editors complete and check keys.
        label: of the release; what a label can't have is left out.
        dataset: name of the data set in the ledger.
        source: as it is to stand in the specification.
        released: names of the columns that are to be released; the others stand there as comments.
        hierarchies: those that there are already, by column.
        declared: what a schema file says of the records, where the specification is begun from one.
    """
    plain = NO_LABEL.sub("-", label).strip("-.")[:80] or "release"
    lines = [
        f"#:schema ./{schema}",
        HEAD if declared is None else DECLARED_HEAD,
        *(f"## {remark}" for remark in (() if declared is None else declared.remarks)),
        "[release]",
        f"name = {_text(plain)}",
        'form = "microdata"            # one row a published person; "counts" gives one row a group',
        'format = "parquet"            # or "csv"',
        f"output = {_text(f'out/{plain}')}",
        "",
        "[data]",
        "## its name in the ledger: crowdblend dataset add",
        f"dataset = {_text(dataset)}",
        f"source = {_text(source)}",
    ]
    if names.separator is not None:
        lines.append(f"separator = {_text(names.separator)}")
    lines += () if declared is None else declared.data
    lines += [
        "",
        "[sampling]",
        "rate = 0.1                    # a habit, as k = 20: crowdblend plan --group-sizes finds what publishes most",
        "",
        "[suppression]",
        "k = 20",
        "",
        "[privacy]",
        "delta = 1e-6                  # at most one in the number of people; crowdblend plan tells what it costs",
        "",
        COLUMNS,
    ]
    for column in names.columns:
        mark = "" if column.name in released else "# "
        domain = None if declared is None else declared.domains.get(column.name)
        lines += [f"{mark}{line}".rstrip() for line in _column(column, (hierarchies or {}).get(column.name), domain)]
        lines.append("")
    return "\n".join(lines)


def _column(column: NamedColumn, declared: NamedHierarchy | None, domain: DeclaredDomain | None) -> Iterator[str]:
    """A column's table; INVARIANT: each line is TOML, so that taking away the mark before it is all that is needed."""
    yield f"[columns.{_key(column.name)}]"
    if declared is not None:
        labels = ", ".join(f"{count:,}" for count in declared.labels_per_level)
        yield f"hierarchy = {_text(declared.location)}"
        last = len(declared.labels_per_level) - 1
        yield f"level = {declared.level}            # of 0 to {last}, with {labels} labels"
        return
    if domain is not None:
        yield from (f"## {remark}" for remark in domain.remarks)
        if domain.line is not None:
            yield from (domain.line, "level = 0            # the value itself")
            return
    file = f"{NO_LABEL.sub('-', column.name).strip('-.') or 'column'}.csv"
    match column.kind:
        case "boolean":
            yield 'values = ["false", "true"]'
        case "integer":
            yield f'interval = {{ lower = "{FILL_IN}", upper = "{FILL_IN}", widths = [] }}'
        case "date":
            yield f"hierarchy = {_text(file)}            # {FILL_IN}: crowdblend hierarchy build dates"
        case "number":
            yield f"hierarchy = {_text(file)}            # {FILL_IN}: only whole numbers are read"
        case "unmapped":
            yield f"# {FILL_IN}: no hierarchy maps this column's type; store it as text or integers"
        case "text" | "unknown":
            yield f'values = ["{FILL_IN}"]            # or: hierarchy = {_text(file)}'
        case _:
            assert_never(column.kind)
    yield f'level = "{FILL_IN}"' if column.kind != "boolean" else "level = 0"


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    """A basic string of TOML: JSON's, but that DEL must be escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
