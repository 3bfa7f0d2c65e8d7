"""What the studio proposes: all of it is what `spec new` proposes of the same file, kind and price."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from ...mechanisms.hierarchies.build import Rows, outline_rows, prefix_rows
from ...mechanisms.hierarchies.declare import BUCKET_LABEL, HierarchyError, ValueHierarchy
from ...mechanisms.kernel.errors import InputRefused
from ...tasks.inputs.hierarchy_files import hierarchy_text, read_peer_rows
from ...tasks.inputs.schema import read_names
from ...tasks.inputs.source_formats import foreign_source
from ...tasks.readers.file_formats import NamedColumn, SourceNames
from ...tasks.readers.source_files import is_url
from ...tasks.readers.values import RecordReading
from ..documents.preview.reference_population import OwnRecords
from ..proposals.begun_spec import FEWEST_COLUMNS, BegunSpec, ReleaseSize, begun_spec
from ..proposals.column_roles import NOT_RELEASED, column_role
from ..proposals.public_records import PublicRecords, read_public
from .draft import Draft, StudioFolder, Tables, file_stem, typed_number

USUAL_RECORDS = 10_000
USUAL_EPSILON = Decimal(1)
USUAL_DELTA = Decimal("1e-6")
USUAL_RATE = Decimal("0.1")
USUAL_K = 20
KIND_TABLES = ("sampling", "suppression", "deletion", "margins", "blocks", "histogram", "synthetic", "privacy")
"""Tables that decide the kind and its price."""
FIXED_KINDS: dict[str, Tables] = {
    "sampled": {"sampling": {"rate": USUAL_RATE}, "suppression": {"k": USUAL_K}, "privacy": {}},
    "calibrated": {
        "sampling": {"rate": USUAL_RATE},
        "margins": {"share": Decimal("0.5")},
        "privacy": {"epsilon": USUAL_EPSILON},
    },
    "histogram": {
        "sampling": {"rate": USUAL_RATE},
        "histogram": {"kind": "noisy", "k": USUAL_K, "epsilon": Decimal("0.5")},
        "privacy": {},
    },
    "synthetic": {"synthetic": {"method": "mst"}, "privacy": {"epsilon": USUAL_EPSILON}},
}
"""Kinds whose columns have each one level, with the tables that they begin with."""
FORMLESS = ("histogram", "synthetic")
"""Kinds that publish in a form of their own."""
MOST_OUTLINED = 3_000
BY_ROLE = ("person", "household", "weight")
VALUE_LABELS = "value_labels"
"""The key of the text on columns with value labels."""
DECLARATIONS = ("hierarchy", "values", "interval", "dates")


def source_names(draft: Draft) -> SourceNames:
    """Return the names and types of the file's columns; no record is read.

    Raises:
        InputRefused: no file is named, or it can't be read.
    """
    source = str(draft.data.get("source", ""))
    if not source:
        raise InputRefused("no file is named yet.", not_done="")
    foreign = foreign_source(source)
    if foreign is not None:
        raise foreign
    separator = draft.data.get("separator")
    return read_names(source, base=Path.cwd(), separator=separator if isinstance(separator, str) else None)


def known_names(draft: Draft) -> tuple[str, ...]:
    """Return the names of the file's columns; none where it can't be read now."""
    try:
        return tuple(column.name for column in source_names(draft).columns)
    except InputRefused:
        return ()


def absolute_source(text: str) -> str:
    """Return a source as a specification in any folder has to name it."""
    return text if not text or is_url(text) else str(Path.cwd() / Path(text).expanduser())


def propose_columns(studio: StudioFolder, draft: Draft, names: SourceNames) -> None:
    """Begin the draft's columns, kind and shares anew, as `spec new --records` begins them.

    Raises:
        InputRefused: the public records can't be used.
    """
    public = None
    if draft.notes.get("public"):
        own = OwnRecords(
            source=draft.data["source"],
            of_any_day=draft.data["source"],
            base=studio.folder,
            version=None,
            reading=RecordReading(separator=names.separator or ","),
        )
        public = read_public(draft.notes["public"], names=[column.name for column in names.columns], own=own)
    begun = _begun(draft, names, released=(), public=public, size=_size(draft))
    found = tomllib.loads(begun.text, parse_float=Decimal)
    for file, rows in begun.hierarchies.items():
        studio.write(file, hierarchy_text(rows))
    for name in {*draft.tables} - {"release", "data", "privacy"}:
        del draft.tables[name]
    draft.columns.update(found.get("columns", {}))
    draft.builders.clear()
    for name in BY_ROLE:
        draft.data.pop(name, None)
    draft.data.pop("weight_classes", None)
    draft.put("data", "separator", names.separator)
    make_paired(draft)


def proposed_blocks(draft: Draft, names: SourceNames) -> Tables | None:
    """Return blocks as `spec new` proposes them of the released columns; None where one table holds them well."""
    found = None
    if len(draft.columns) >= FEWEST_COLUMNS:
        found = _size(draft).blocks([column for column in names.columns if column.name in draft.columns])
    if found is None:
        return None
    pinned = {"pinned": list(found.pinned)} if found.pinned else {}
    number = {} if found.themes else {"number": found.number}
    return number | pinned | {name: {"columns": list(columns)} for name, columns in found.themes.items()}


def _size(draft: Draft) -> ReleaseSize:
    privacy = draft.tables.get("privacy", {})
    epsilon, delta = privacy.get("epsilon"), privacy.get("delta")
    records = draft.notes.get("records")
    return ReleaseSize(
        records=records if isinstance(records, int) and records > 0 else USUAL_RECORDS,
        epsilon=Decimal(epsilon) if isinstance(epsilon, int | Decimal) and epsilon > 0 else USUAL_EPSILON,
        delta=Decimal(delta) if isinstance(delta, Decimal) and 0 < delta < 1 else USUAL_DELTA,
    )


def _begun(
    draft: Draft,
    names: SourceNames,
    *,
    released: Collection[str],
    public: PublicRecords | None,
    size: ReleaseSize | None,
) -> BegunSpec:
    return begun_spec(
        names,
        schema="specification.json",
        label="release",
        dataset="",
        source=str(draft.data.get("source", "")),
        released=released,
        public=public,
        size=size,
        priced=False,
    )


def remark_of(column: NamedColumn) -> str:
    """Return why `spec new` leaves a column out, or the key of a text that says it; empty where it doesn't."""
    return NOT_RELEASED.get(column_role(column.name, column.kind), VALUE_LABELS if column.labels else "")


def release_columns(draft: Draft, names: SourceNames, chosen: Sequence[str]) -> None:
    """Let columns be released, as `spec new --columns` declares them; what isn't known is left to be declared.

    PRIVACY: so are value labels. Some programs make them from the records, and nothing here would say so.
    """
    labelled = {column.name for column in names.columns if column.labels}
    begun = _begun(draft, names, released=chosen, public=None, size=None)
    tables = tomllib.loads(begun.text, parse_float=Decimal).get("columns", {})
    for name in chosen:
        table = {} if name in labelled else tables.get(name, {})
        declared = {key: table[key] for key in DECLARATIONS if key in table and "FILL IN" not in str(table[key])}
        level = table.get("level")
        level = level if isinstance(level, int) else 0
        draft.columns[name] = declared | ({"levels": "auto"} if draft.paired else {"level": level})


def make_paired(draft: Draft) -> None:
    """Turn the draft into a release that finds its own pairs of columns and labels."""
    from ...accounting.theory.planning.paired_planning import PairShares

    shares = PairShares()
    for name in {*KIND_TABLES} - {"blocks", "privacy"}:
        draft.tables.pop(name, None)
    draft.tables["deletion"] = {}
    draft.tables["margins"] = {
        "pairs": "auto", "share": shares.margins, "pair_share": shares.pairs, "draw_share": shares.draws,
    }  # fmt: skip
    draft.tables["privacy"] = {"epsilon": USUAL_EPSILON, "delta": USUAL_DELTA} | draft.tables.get("privacy", {})
    for column in draft.columns.values():
        column.pop("level", None)
        column["levels"] = "auto"


def make_fixed(draft: Draft, kind: str, levels: dict[str, int]) -> None:
    """Turn the draft into a release of another kind, whose columns have each one level.

    Args:
        draft: is changed.
        kind: of `FIXED_KINDS`.
        levels: how many levels each column has.
    """
    delta = draft.tables.get("privacy", {}).get("delta", USUAL_DELTA)
    for name in KIND_TABLES:
        draft.tables.pop(name, None)
    for name, table in FIXED_KINDS[kind].items():
        draft.tables[name] = dict(table)
    draft.tables["privacy"]["delta"] = delta
    if kind in FORMLESS:
        draft.tables.get("release", {}).pop("form", None)
    for key in ("weight", "weight_classes"):
        draft.data.pop(key, None)
    for name, column in draft.columns.items():
        for key in ("levels", "min_level", "max_level", "weight"):
            column.pop(key, None)
        column.setdefault("level", levels.get(name, 0) // 2 if levels.get(name, 0) > 2 else 0)


def build_hierarchy(studio: StudioFolder, draft: Draft, name: str, number: int) -> str:
    """Write a column's hierarchy from what its builder was given.

    Args:
        studio: where it is written.
        draft: names it afterwards, whether it could be built or not.
        name: of the column.
        number: of the column, from 0.

    Returns:
        What is wrong; empty where it is written.
    """
    builder = draft.builders[name]
    file = f"hierarchies/{file_stem(name, number)}.csv"
    draft.columns[name]["hierarchy"] = file
    try:
        rows = _rows(builder)
        ValueHierarchy.from_rows(rows)
    except HierarchyError as error:
        (studio.folder / file).unlink(missing_ok=True)
        line = "" if error.row is None else f" ({error.row + 1})"
        return f"{error.what[:1].upper()}{error.what[1:]}{line}."
    except InputRefused as refusal:
        (studio.folder / file).unlink(missing_ok=True)
        return f"{refusal.what} {refusal.remedy}".strip()
    studio.write(file, hierarchy_text(rows))
    return ""


def _rows(builder: dict[str, Any]) -> Rows:
    match builder["form"]:
        case "tree":
            return outline_rows([line.rstrip() for line in builder["text"].splitlines()])
        case "prefixes":
            lengths = [typed_number(part) for part in builder["keep"].replace(",", " ").split()]
            whole = [length for length in lengths if isinstance(length, int)]
            if len(whole) != len(lengths):
                raise InputRefused("the lengths must be whole numbers, such as 3, 2, 1.")
            codes = [line.strip() for line in builder["text"].splitlines() if line.strip()]
            return prefix_rows(codes, whole, mark="_")
        case _:
            if not builder["file"].strip():
                raise InputRefused("no file is named.")
            rows = [tuple(row) for row in read_peer_rows(Path.cwd() / Path(builder["file"].strip()).expanduser()).rows]
            return rows if {row[-1] for row in rows} == {"*"} else [(*row, "*") for row in rows]


def outline_of(studio: StudioFolder, column: Tables) -> str:
    """Return a column's hierarchy as an indented tree, which gives the same rows; empty where there is none."""
    if not isinstance(column.get("hierarchy"), str):
        return ""
    try:
        rows = [tuple(row) for row in read_peer_rows(studio.folder / column["hierarchy"]).rows]
        text = _outline(rows) if len(rows) <= MOST_OUTLINED else ""
        return text if text and {*outline_rows(text.splitlines())} == {*rows} else ""
    except (InputRefused, HierarchyError):
        return ""


def _outline(rows: Rows) -> str:
    tree: dict[str, Any] = {}
    for row in rows:
        path = [*reversed(row)]
        path = path[1:] if path[0] == BUCKET_LABEL else path
        # A value that lies less deep than others has its own name at each level up to its group.
        while len(path) > 1 and path[-1] == path[-2]:
            path.pop()
        place = tree
        for label in path:
            place = place.setdefault(label, {})
    return "\n".join(_outline_lines(tree, ""))


def _outline_lines(tree: dict[str, Any], indent: str) -> Iterator[str]:
    for label, below in tree.items():
        yield f"{indent}{label}"
        yield from _outline_lines(below, f"{indent}  ")
