"""`crowdblend spec` begins a specification from a source's schema alone; `crowdblend schema` prints JSON Schemas."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.wording import FILL_IN
from .options import FILE, CommandGroup, ExactNumber

if TYPE_CHECKING:
    from ...tasks.readers.file_formats import SourceNames
    from ..documents.schema_file import SchemaFile
    from ..proposals.begun_spec import BegunSpec
    from ..proposals.public_records import PublicRecords
    from ..proposals.unit_proposals import NamedUnit


FOLDER = Path(__file__).resolve().parents[1] / "schemas"
OUTPUTS = json.loads((FOLDER / "outputs.json").read_text(encoding="utf-8"))
DOCUMENTS = ("certificate", "ledger-export", "specification")
NAMES = sorted((*DOCUMENTS, *OUTPUTS["outputs"]))
REFERENCE = re.compile(r'"\$ref": "#/\$defs/(\w+)')


@click.group(cls=CommandGroup)
def spec() -> None:
    """Begin a specification, or print its schema."""


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
@click.option(
    "--public",
    help="Public records with such columns (CSV or Parquet): values, bounds and frequencies are taken from them.",
)
@click.option(
    "--records",
    type=click.IntRange(min=1),
    help="About how many there are: proposes a release of that many, columns too. With --unit, how many units.",
)
@click.option(
    "--unit",
    metavar="[KIND:]COLUMN",
    help="Column that names households or persons: proposes one record for each, of columns derived from its records.",
)
@click.option("--epsilon", type=ExactNumber(), default="1", show_default=True, help="With --records, of the release.")
@click.option("--delta", type=ExactNumber(), default="1e-6", show_default=True, help="With --records, of the release.")
def new(
    source: str,
    output: Path | None,
    dataset: str | None,
    separator: str | None,
    columns: str | None,
    hierarchies: Path | None,
    public: str | None,
    records: int | None,
    unit: str | None,
    epsilon: Decimal,
    delta: Decimal,
) -> None:
    """Write a specification from the names and types of the columns; no value is read, nothing is charged.

    From a schema (a frictionless Table Schema or CSVW, also with CSVW-EO) it takes the declared values and bounds too;
    with --public it makes hierarchies of the values of public records. What seems to be an identifier, a free text or
    a weight isn't proposed; a comment beside it says so.

    Without --records every column stands there as a comment, and those that may leave are released by removing the
    comment signs. What is left to write of them is marked FILL IN, and `explain` refuses the file until it is written.
    With --records it proposes a release that finds its own pairs of columns and labels at that price, of all columns
    whose values are declared; give a round number that is public. The schema by which editors complete and check the
    keys is written beside it.

    With --unit (household:COLUMN, person:COLUMN, or a column whose name tells which) and --records it proposes one
    record for each household, or for each person over waves, and which columns to derive from the members' records.
    """
    from ...mechanisms.kernel.amounts import counted
    from ...tasks.inputs.schema import read_names
    from ...tasks.inputs.source_formats import foreign_source
    from ...tasks.readers.source_files import is_url
    from ..documents.schema_file import is_schema_file, read_schema_file
    from ..proposals.begun_spec import ReleaseSize, begun_spec
    from ..python.hierarchies import named_hierarchies
    from ..release_paths import require_elsewhere

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
    named_unit = None if unit is None else _named_unit(unit, names, sized=records is not None)
    found = {}
    if hierarchies is not None:
        found = named_hierarchies(hierarchies, columns=[column.name for column in names.columns], seen_from=place)
    folder = f"{place.stem}-hierarchies"
    begun = begun_spec(
        names,
        schema=_schema_beside(place),
        label=stem,
        dataset=dataset or stem,
        source=named,
        released=released,
        hierarchies=found,
        declared=declared,
        public=None if public is None else _public_records(public, names, source=named, place=place),
        size=None if records is None else ReleaseSize(records=records, epsilon=epsilon, delta=delta),
        folder=folder,
        unit=named_unit,
    )
    _write_begun(begun, place, folder=place.parent / folder)
    columns_named = counted(len(names.columns), "column is", "columns are")
    click.echo(f"{columns_named} named in {place}; what is yours to write is marked {FILL_IN}.")
    if begun.released and (not released or named_unit is not None):
        asked = counted(begun.asked, "column stands", "columns stand")
        click.echo(f"Proposed to be released: {counted(len(begun.released), 'column')}; {asked} there as a question.")
    if begun.hierarchies:
        click.echo(f"Hierarchies made from {public} are in {place.parent / folder}.")
    if hierarchies is not None:
        click.echo(
            f"With a hierarchy from {hierarchies}: {', '.join(found) or 'none'}. Their levels are a beginning, chosen "
            "without looking at the records: choose them likewise."
        )
    click.echo(_what_was_taken(source, names, declared), nl=declared is not None or names.separator is not None)
    if named_unit is not None:
        spelled = shlex.join(["--unit", f"{named_unit.kind}:{named_unit.name}"])
        click.echo(f"The data set must hide the same unit: crowdblend dataset add with {spelled}.")
    click.echo(f"Then: crowdblend explain {shlex.quote(str(place))}")


def _named_unit(given: str, names: SourceNames, *, sized: bool) -> NamedUnit:
    """Return the column that names units, and what it names: as it is spelled out, or by its name.

    Raises:
        InputRefused: there is no such column, or nobody has said about how many units there are.
    """
    from ..proposals.column_roles import column_role
    from ..proposals.unit_proposals import NamedUnit

    if not sized:
        raise InputRefused(
            "a release of units is proposed for a number of them.",
            where="--unit",
            remedy="Give --records: about how many households or persons there are, as a round number that is public.",
        )
    kinds = {column.name: column.kind for column in names.columns}
    spelled, _, rest = given.partition(":")
    if spelled in ("household", "person") and rest in kinds:
        return NamedUnit(name=rest, kind="household" if spelled == "household" else "person")
    if given not in kinds:
        raise InputRefused(
            f"there is no column {rest or given!r}.", where="--unit", remedy="Write household:COLUMN or person:COLUMN."
        )
    person = column_role(given, kinds[given]) == "person"
    return NamedUnit(name=given, kind="person" if person else "household")


def _write_begun(begun: BegunSpec, place: Path, *, folder: Path) -> None:
    """Write a specification and the hierarchies that it names, or nothing.

    Raises:
        InputRefused: something can't be written, or is there already.
    """
    from ..python.hierarchies import write_hierarchy
    from ..release_paths import write_new

    write_new(place, begun.text)
    try:
        if begun.hierarchies:
            folder.expanduser().mkdir(exist_ok=True)
        for file, rows in begun.hierarchies.items():
            write_hierarchy(rows, place.parent / file)
    except (InputRefused, OSError) as error:
        place.expanduser().unlink()  # it names hierarchies that aren't there
        if isinstance(error, OSError):
            raise InputRefused(f"the folder can't be made ({error.strerror}).", where=str(folder)) from None
        raise


def _what_was_taken(source: str, names: SourceNames, declared: SchemaFile | None) -> str:
    """Return what to check of what was taken from a schema or a first line; nothing of typed records."""
    if declared is not None:
        taken = [name for name, domain in declared.domains.items() if domain.line is not None]
        return f"With values or bounds of {source}: {', '.join(taken) or 'none'}. Release those alone that are public."
    if names.separator is not None:
        return "The names are the first line of the file: if that is a record and no header, delete what was written."
    return ""


def _public_records(public: str, names: SourceNames, *, source: str, place: Path) -> PublicRecords:
    """Return what public records tell of a specification's columns, where they aren't the records of its source."""
    from ...tasks.readers.values import RecordReading
    from ..documents.preview.reference_population import OwnRecords
    from ..proposals.public_records import read_public

    own = OwnRecords(
        source=source,
        of_any_day=source,
        base=place.expanduser().absolute().parent,
        version=None,
        reading=RecordReading(separator=names.separator or ","),
    )
    return read_public(public, names=[column.name for column in names.columns], own=own)


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


@spec.command("schema")
def spec_schema() -> None:
    """Print the JSON Schema of a specification, as `crowdblend schema specification` does."""
    click.echo(schema_text("specification"), nl=False)


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
