"""`crowdblend spec` begins a specification from a source's schema alone; `crowdblend schema` prints JSON Schemas."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import click

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.wording import FILL_IN
from .options import FILE, CommandGroup, ExactNumber

if TYPE_CHECKING:
    from ...tasks.readers.file_formats import NamedColumn, SourceNames
    from ..documents.schema_file import DeclaredDomain, SchemaFile
    from ..python.hierarchies import NamedHierarchy


FOLDER = Path(__file__).resolve().parents[1] / "schemas"
OUTPUTS = json.loads((FOLDER / "outputs.json").read_text(encoding="utf-8"))
DOCUMENTS = ("certificate", "ledger-export", "specification")
NAMES = sorted((*DOCUMENTS, *OUTPUTS["outputs"]))
REFERENCE = re.compile(r'"\$ref": "#/\$defs/(\w+)')


@click.group(cls=CommandGroup)
def spec() -> None:
    """Begin a specification."""


@spec.command()
@click.option(
    "--from", "source", required=True, help="The records (a file, folder, glob or URL), or a schema of them: FILE.json."
)
@click.option("--output", type=FILE, help="The specification's new file; default: the source's name with .toml, here.")
@click.option("--dataset", help="Name of the data set in the ledger; default: the source's name.")
@click.option("--separator", help="Of CSV; default: the one that splits the first line into most fields.")
@click.option("--columns", help="Columns to release, separated by commas; the others stand there as comments.")
@click.option(
    "--hierarchies", type=FILE, help="Folder of hierarchies called by their columns: age.csv or NAME_hierarchy_age.csv."
)
@click.option("--records", type=click.IntRange(min=1), help="About how many there are: proposes stages for that many.")
@click.option("--epsilon", type=ExactNumber(), default="1", show_default=True, help="With --records, of the release.")
@click.option("--delta", type=ExactNumber(), default="1e-6", show_default=True, help="With --records, of the release.")
def new(
    source: str,
    output: Path | None,
    dataset: str | None,
    separator: str | None,
    columns: str | None,
    hierarchies: Path | None,
    records: int | None,
    epsilon: Decimal,
    delta: Decimal,
) -> None:
    """Write a specification from the names and types of the columns; no value is read, nothing is charged.

    From a schema (a frictionless Table Schema or CSVW, also with CSVW-EO) it takes the declared values and bounds too.

    Every column stands there as a comment, and those that may leave are released by removing the comment signs: a
    column that has a hierarchy in --hierarchies is then complete. What is left to write of the others is marked FILL
    IN, and `explain` refuses the file until it is written. With --records it proposes a release that finds its own
    pairs of columns and labels at that price; give a round number that is public. The schema by which editors complete
    and check the keys is written beside it.
    """
    from ...mechanisms.kernel.amounts import counted
    from ...tasks.inputs.schema import read_names
    from ...tasks.inputs.source_formats import foreign_source
    from ...tasks.readers.source_files import is_url
    from ..documents.schema_file import is_schema_file, read_schema_file
    from ..python.hierarchies import named_hierarchies
    from ..release_paths import require_elsewhere, write_new

    stem = Path(source.rstrip("/")).name.split(".")[0].strip("*?[]") or "release"
    place = output or Path(f"{stem}.toml")
    declared = None
    if is_schema_file(source):
        require_elsewhere(place)
        declared = read_schema_file(Path(source))
        names = declared.names
        named = FILL_IN if declared.source is None else _described_records(place, source, declared.source)
    else:
        foreign = foreign_source(source)
        if foreign is not None:
            raise foreign
        require_elsewhere(place)
        names = read_names(source, base=Path.cwd(), separator="\t" if separator == "\\t" else separator)
        named = source if is_url(source) else _seen_from(place, source)
    known = {column.name for column in names.columns}
    released = [] if columns is None else columns.split(",")
    unknown = [name for name in released if name not in known]
    if unknown:
        raise InputRefused(f"there is no column {unknown[0]!r}.", where="--columns")
    found = {}
    if hierarchies is not None:
        found = named_hierarchies(hierarchies, columns=[column.name for column in names.columns], seen_from=place)
    text = sketched_spec(
        names,
        schema=_schema_beside(place),
        label=stem,
        dataset=dataset or stem,
        source=named,
        released=released,
        hierarchies=found,
        declared=declared,
        size=None if records is None else _Size(records=records, epsilon=epsilon, delta=delta),
    )
    write_new(place, text)
    columns_named = counted(len(names.columns), "column is", "columns are")
    click.echo(f"{columns_named} named in {place}; what is yours to write is marked {FILL_IN}.")
    if hierarchies is not None:
        click.echo(
            f"With a hierarchy from {hierarchies}: {', '.join(found) or 'none'}. Their levels are a beginning, chosen "
            "without looking at the records: choose them likewise."
        )
    if declared is not None:
        taken = [name for name, domain in declared.domains.items() if domain.line is not None]
        click.echo(
            f"With values or bounds of {source}: {', '.join(taken) or 'none'}. Release those alone that are public."
        )
    elif names.separator is not None:
        click.echo(
            "The names are the first line of the file: if that is a record and no header, delete what was written."
        )
    click.echo(f"Then: crowdblend explain {place}")


def _described_records(place: Path, schema: str, named: str) -> str:
    """Return the records that a schema names, beside it, as a specification at some place has to name them."""
    from ...tasks.readers.source_files import is_url

    return named if is_url(named) else _seen_from(place, str(Path(schema).parent / named))


def _schema_beside(place: Path) -> str:
    """Write the schema of specifications beside one, where it isn't there yet; its name.

    The name has the schema's version, and nothing that is there is ever replaced.

    Raises:
        InputRefused: it can't be written.
    """
    from ..release_paths import write_new

    text = schema_text("specification")
    version = json.loads(text)["$id"].rpartition(":")[2]
    file = place.parent / f"crowdblend-specification-{version}.json"
    if not file.expanduser().exists():
        write_new(file, text)
    elif file.expanduser().read_text(encoding="utf-8", errors="replace") != text:
        click.echo(
            f"crowdblend: {file} is not this version's schema; it is left as it is. Replace it with: "
            f"crowdblend schema specification > {file}",
            err=True,
        )
    return file.name


def _seen_from(place: Path, source: str) -> str:
    """Return the source as a specification at some place has to name it."""
    if Path(source).is_absolute():
        return source
    return os.path.relpath(Path.cwd() / source, place.expanduser().absolute().parent)


def schema_text(name: str) -> str:
    """Return the text of a schema, as it came with this version."""
    if name in DOCUMENTS:
        return text_of_schema(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))
    schema, found = OUTPUTS["outputs"][name], set[str]()
    left = [schema]
    while left:
        new = set(REFERENCE.findall(json.dumps(left.pop()))) - found
        found |= new
        left += [OUTPUTS["$defs"][one] for one in new]
    return text_of_schema(schema | {"$defs": {one: OUTPUTS["$defs"][one] for one in sorted(found)}})


def text_of_schema(schema: Mapping[str, Any]) -> str:
    """Return a schema as it is printed."""
    return json.dumps(schema, ensure_ascii=False, indent=1) + "\n"


@click.command()
@click.argument("name", required=False, metavar="[NAME]", type=click.Choice(NAMES))
def schema(name: str | None) -> None:
    """Print the JSON Schema of a document or of a command's --json; without a NAME list them.

    NAME is specification, certificate, ledger-export (of one line), or the words of a command: release-list.
    """
    if name is not None:
        click.echo(schema_text(name), nl=False)
        return
    for one in NAMES:
        click.echo(f"{one:{max(map(len, NAMES))}}  {json.loads(schema_text(one))['title']}")


FLOATS = "with whole bounds 30.0 is read as 30, and 30.5 is *; with decimal ones, 0.0, both are read"
MOST_VALUE_LABELS = 1_000
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
##   dates = { from = "…", to = "…", levels = ["month", "year"] }  days such as 2026-03-31, by month and year
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
    size: _Size | None = None,
) -> str:
    """Return the text of a specification that is complete but for its columns.

    Args:
        names: of the source's columns.
        schema: name of the file beside it by which editors complete and check keys.
        label: of the release; what a label can't have is left out.
        dataset: name of the data set in the ledger.
        source: as it is to stand in the specification.
        released: names of the columns that are to be released; the others stand there as comments.
        hierarchies: those that there are already, by column.
        declared: what a schema file says of the records, where the specification is begun from one.
        size: what a release that finds its pairs and labels is proposed for; None for a sampled release.
    """
    columns = len(released or names.columns)
    proposed = None if columns < FEWEST_COLUMNS else size
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
    lines += ["", *(SAMPLED if proposed is None else proposed.text(columns)), "", COLUMNS]
    for column in names.columns:
        mark = "" if column.name in released else "# "
        domain = None if declared is None else declared.domains.get(column.name)
        text = _column(column, (hierarchies or {}).get(column.name), domain)
        if proposed is not None:
            text = proposed.levels(text)
        lines += [f"{mark}{line}".rstrip() for line in text]
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
    if column.labels:
        yield from _of_value_labels(column)
        return
    file = f"{NO_LABEL.sub('-', column.name).strip('-.') or 'column'}.csv"
    match column.kind:
        case "boolean":
            yield 'values = ["false", "true"]'
        case "integer":
            yield f'interval = {{ lower = "{FILL_IN}", upper = "{FILL_IN}", widths = [] }}'
        case "date":
            yield f'dates = {{ from = "{FILL_IN}", to = "{FILL_IN}", levels = ["month", "quarter", "year", "decade"] }}'
        case "number":
            yield f'interval = {{ lower = "{FILL_IN}", upper = "{FILL_IN}", widths = [] }}            # {FLOATS}'
        case "unmapped":
            yield f"# {FILL_IN}: no hierarchy maps this column's type; store it as text or integers"
        case "text" | "unknown":
            yield f'values = ["{FILL_IN}"]            # or: hierarchy = {_text(file)}'
        case _:
            assert_never(column.kind)
    yield f'level = "{FILL_IN}"' if column.kind != "boolean" else "level = 0"


def _of_value_labels(column: NamedColumn) -> Iterator[str]:
    """Yield a column of a statistics package's file by its value labels, with their codes for files like it."""
    from ...tasks.request import LARGEST_CODE

    labels = {label.strip(): code for code, label in reversed(column.labels[:MOST_VALUE_LABELS]) if label.strip()}
    labels = dict(reversed(labels.items()))
    yield "## The file's value labels: leave those that are public, and none that were made from these records."
    if len(labels) < len(column.labels):
        yield f"## Not all stand here: {len(column.labels):,} codes have {len(labels):,} labels. {FILL_IN} the others."
    yield f"values = [{', '.join(map(_text, labels))}]"
    codes = {label: int(code) for label, code in labels.items() if not isinstance(code, str) and code == int(code)}
    if len(codes) == len(labels) and all(-LARGEST_CODE <= code <= LARGEST_CODE for code in codes.values()):
        yield f"codes = {{ {', '.join(f'{_key(label)} = {code}' for label, code in codes.items())} }}"
    yield "level = 0            # the label itself"


FEWEST_COLUMNS = 2
"""Of a release that counts pairs; of one column the release is sampled."""

SAMPLED = (
    "[sampling]",
    "rate = 0.1                    # a habit, as k = 20: crowdblend plan --group-sizes finds what publishes most, and",
    "#                             # spec new --records proposes another kind of release",
    "",
    "[suppression]",
    "k = 20",
    "",
    "[privacy]",
    "delta = 1e-6                  # at most one in the number of people; crowdblend plan tells what it costs",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Size:
    """What a release is proposed for: about how many records, and its price."""

    records: int
    epsilon: Decimal
    delta: Decimal

    def text(self, columns: int) -> Iterator[str]:
        """Yield the tables of a release of so many columns that finds its own pairs and labels, and why."""
        from ...accounting.kernel.prices.registry import mechanism_record
        from ...accounting.theory.planning.paired_planning import PairShares, plan_paired, proposed_pairs
        from ...flows.releases.paired_parts import STAGES

        pairs, shares = proposed_pairs(columns), PairShares()
        plan = plan_paired(epsilon=self.epsilon, delta=self.delta, stages=STAGES, columns=columns, pairs=pairs)
        record = mechanism_record(plan.mechanism)
        lost = f"{plan.expected_deletion:.0f} records in expectation, at most {plan.largest_deletion}"
        yield f"## Proposed for about {self.records:,} records by public facts alone: a release that counts each"
        yield f"## column, finds about {pairs} pairs of columns worth counting, and finds the labels of its rows by"
        yield "## what it has counted (docs/mechanisms/pairs.md). Of the kinds that publish true rows it kept pairs of"
        yield "## columns best (docs/utility.md); docs/choosing.md says when to take another. At this price, for all"
        yield f"## columns below, a count of a column is exact to ± {record['margin_scale']} records, of a pair to"
        yield f"## ± {record['pair_scale']}, and each group of rows loses {lost}."
        yield "## k stays 1: a larger one loses records and saves nothing. Change what you like, but not by looking at"
        yield "## the records: weights of columns, for example, or min_level and max_level."
        yield "[deletion]"
        yield ""
        yield "[margins]"
        yield 'pairs = "auto"'
        yield f"share = {shares.margins}                   # counts of columns; all shares are of the privacy loss"
        yield f"pair_share = {shares.pairs}             # counts of pairs; the rows have what is left"
        yield f"draw_share = {shares.draws}             # finding the pairs"
        yield ""
        yield "[privacy]"
        yield f"epsilon = {self.epsilon}"
        yield f"delta = {self.delta}                  # at most one in the number of people"

    def levels(self, lines: Iterator[str]) -> Iterator[str]:
        """Yield a column's lines with levels that the release finds in place of its level."""
        for line in lines:
            yield 'levels = "auto"' if line.startswith("level = ") else line


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    """Return a basic string of TOML: JSON's, but that DEL must be escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
