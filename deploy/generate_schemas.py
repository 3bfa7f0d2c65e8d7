"""All schemas (JSON Schema, draft 2020-12), from models and types; run as a program it writes them into this folder.

python -m crowdblend.deploy.generate_schemas
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
from decimal import Decimal
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ..accounting.theory.planning.planner import Plan
from ..flows.spec import PAGE, keys_of, spec_model, spec_schema
from ..mechanisms.measures.risk import Attacks
from ..mechanisms.measures.utility import UtilityMeasures
from .commands.doctor import Check
from .commands.spec_commands import DOCUMENTS, FOLDER
from .documents.preview.deletion_forecast import DeletionForecast
from .documents.preview.suppression_forecast import Forecast, Suggestion
from .schemas.document_forms import Certificate, ExportedEntry, ToldBeforehand
from .schemas.outputs import (
    BudgetForecast,
    DatasetList,
    DeletionPlan,
    DocumentWritten,
    DryRun,
    Explanation,
    HierarchyChecked,
    HierarchyTree,
    JobBegun,
    JobStatus,
    KeysShown,
    LedgerMigrated,
    LedgerShown,
    LedgerVerified,
    Refused,
    ReleaseList,
    ReleaseVerified,
    RunResult,
    SeriesList,
    SeriesRow,
    SheetWritten,
    ShownRelease,
    TokenList,
    TokenMade,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PLAIN: Mapping[object, Mapping[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "number"},
    date: {"type": "string", "format": "date"},
    NoneType: {"type": "null"},
    Any: {},
}
AMOUNT = {"type": "string", "pattern": r"^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$"}
Schema = dict[str, Any]

VERSIONS = {"certificate": 5}
"""Of a schema; 1 where it isn't here. It rises when a key goes, or gets another type or meaning; not when one comes."""
HEADING = re.compile(r"^#+ (?:`\[(.+)\]`|Top level)$")
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]+) \|$")
WIDTH = 120
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedPlan(Plan):
    """A priced point; null where a quantity does not exist or was not asked for."""

    survival_share: Annotated[
        float | None,
        "Expected share of the sampled records that would be published, for the group sizes that were given.",
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class SuppressionPreview(Forecast):
    """What a release would suppress."""

    suggestions: Annotated[list[Suggestion], "Changes that would lose less."]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionPreview(DeletionForecast):
    """What a deletion release would delete."""

    suggestions: Annotated[list[Suggestion], "Always empty."]
    told: Annotated[ToldBeforehand | None, "What will be told of each column; null where no pairs are chosen."]


class PrivateReport(TypedDict):
    """A private report. Not for publication: it has exact figures of the private records."""

    release_id: Annotated[str, "Id of the release that the report is about."]
    report: Annotated[str, "File of the report."]
    look: Annotated[int, "Position of the ledger's entry that records the look."]
    measures: Annotated[UtilityMeasures, "The figures of the report."]
    attacks: Annotated[Attacks | None, "What attacks reach; null where none were asked for."]


class Examined(TypedDict):
    """What `doctor` found."""

    ok: Annotated[bool, "Whether all is well."]
    checks: Annotated[list[Check], "What was examined."]


OUTPUTS: dict[str, Any] = {
    "answer": RunResult | DryRun | Refused,
    "cancel": RunResult | JobStatus | Refused,
    "dataset list": DatasetList | Refused,
    "doctor": Examined | Refused,
    "explain": Explanation | Refused,
    "hierarchy check": HierarchyChecked | Refused,
    "hierarchy show": HierarchyTree | Refused,
    "key show": KeysShown | Refused,
    "ledger migrate": LedgerMigrated | Refused,
    "ledger show": LedgerShown | Refused,
    "ledger verify": LedgerVerified | Refused,
    "plan": PricedPlan | DeletionPlan | BudgetForecast | Explanation | Refused,
    "preview": SuppressionPreview | DeletionPreview | Refused,
    "release list": ReleaseList | Refused,
    "release show": ShownRelease | Refused,
    "report private": PrivateReport | Refused,
    "run": RunResult | DryRun | Refused,
    "series add": SeriesRow | Refused,
    "series list": SeriesList | Refused,
    "report write": DocumentWritten | Refused,
    "sheet": SheetWritten | Refused,
    "status": JobStatus | Refused,
    "submit": RunResult | JobBegun | Refused,
    "token add": TokenMade | Refused,
    "token list": TokenList | Refused,
    "verify": ReleaseVerified | Refused,
}
"""Words of a command → what it prints with `--json`."""


def schemas(page: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each schema, and the schema.

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


def _named(name: str, title: str, schema: dict[str, Any]) -> dict[str, Any]:
    head = {"$schema": DIALECT, "$id": f"urn:crowdblend:{name}:{VERSIONS.get(name, 1)}", "title": title}
    return head | {key: value for key, value in schema.items() if key not in head}


def _explained(schema: dict[str, Any], page: str) -> dict[str, Any]:
    """Return the schema of specifications with the page's meaning of each key."""
    meanings = dict(_meanings(page))
    for key in keys_of(spec_model()):
        table = schema if not key.table else schema["$defs"][key.model.__name__]
        # The columns of a unit's members are declared as released ones are, and explained there.
        named = key.table if (key.table, key.name) in meanings else key.table.removeprefix("unit.")
        table["properties"][key.name].setdefault("description", meanings[named, key.name])
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


def schema_of_type(hint: Any, *, exact: bool = False) -> Schema:  # noqa: ANN401 - a type hint
    """Return the schema of a type's values; the classes in it stand below `$defs`.

    A class is a dataclass or a TypedDict. Its object has the keys of its fields and no other. In `Annotated` a text is
    the description, a pair a keyword with its value, and a check of the ledger's nothing; a dataclass's fields are
    described by the docstring's `Args`.

    Args:
        hint: the type.
        exact: as the ledger writes it: amounts as decimal texts, and pairs of a name and a value as an object.

    Raises:
        TypeError: JSON has no form for the type, or two classes have one name.
    """
    found = _Found(exact=exact)
    schema = found.schema(hint)
    return schema | {"$defs": dict(sorted(found.definitions.items()))} if found.definitions else schema


class _Found:
    """Classes that were met on the way, with their schemas."""

    def __init__(self, *, exact: bool) -> None:
        self.exact = exact
        self.definitions: dict[str, Schema] = {}
        self._classes: dict[str, type] = {}

    def schema(self, hint: Any) -> Schema:  # noqa: ANN401 - a type hint
        """Return the schema of a type."""
        origin, parts = get_origin(hint), get_args(hint)
        if isinstance(hint, type) and (is_dataclass(hint) or is_typeddict(hint)):
            return self._reference(hint)
        if origin is None and hint in PLAIN:
            return dict(AMOUNT if self.exact and hint is Decimal else PLAIN[hint])
        forms: Mapping[object, Callable[[], Schema]] = {
            Annotated: lambda: self.schema(parts[0]) | dict(_keyword(said) for said in parts[1:] if not callable(said)),
            Literal: lambda: {"enum": list(parts)},
            Union: lambda: _either([self.schema(part) for part in parts]),
            UnionType: lambda: _either([self.schema(part) for part in parts]),
            dict: lambda: {"type": "object", "additionalProperties": self.schema(parts[1])},
            list: lambda: {"type": "array", "items": self.schema(parts[0])},
            tuple: lambda: self._tuple(parts),
        }
        if origin not in forms:
            raise TypeError(f"JSON has no form for {hint}")
        return forms[origin]()

    def _tuple(self, parts: tuple[Any, ...]) -> Schema:
        if parts[-1] is not Ellipsis:
            members = [self.schema(part) for part in parts]
            return {"type": "array", "prefixItems": members, "minItems": len(members), "maxItems": len(members)}
        if self.exact:  # of pairs of a name and a value
            return {"type": "object", "additionalProperties": self.schema(get_args(parts[0])[1])}
        return {"type": "array", "items": self.schema(parts[0])}

    def _reference(self, cls: type) -> Schema:
        if self._classes.setdefault(cls.__name__, cls) is not cls:
            raise TypeError(f"two classes are called {cls.__name__}")
        if cls.__name__ not in self.definitions:
            self.definitions[cls.__name__] = {}  # for one that holds itself
            self.definitions[cls.__name__] = self._object(cls)
        return {"$ref": f"#/$defs/{cls.__name__}"}

    def _object(self, cls: type) -> Schema:
        hints = get_type_hints(cls, include_extras=True)
        names = [field.name for field in fields(cls)] if is_dataclass(cls) else list(hints)
        said = _described(cls)
        properties, required = {}, []
        for name in names:
            hint = hints[name]
            if get_origin(hint) is NotRequired:
                [hint] = get_args(hint)
            else:
                required.append(name)
            properties[name] = self.schema(hint) | ({"description": said[name]} if name in said else {})
        if hasattr(cls, "KIND"):  # an entry of the ledger
            properties, required = {"kind": {"const": cls.KIND}} | properties, ["kind", *required]
        first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
        return {
            "type": "object",
            "description": _plain(first),
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }


def _keyword(said: str | tuple[str, Any]) -> tuple[str, Any]:
    return ("description", said) if isinstance(said, str) else said


def _either(options: list[Schema]) -> Schema:
    """Return the schema of one of several; types without anything else to say are put into one list."""
    if all(option.keys() == {"type"} for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


ARGUMENT = re.compile(r"^    (\w+): (.*)$")


def _described(cls: type) -> dict[str, str]:
    """Return what the docstrings of a class and of those that it is made from say of each field."""
    said: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        said |= dict(_arguments(inspect.cleandoc(one.__dict__.get("__doc__") or "")))
    return said


def _arguments(docstring: str) -> Iterator[tuple[str, str]]:
    _, _, listed = docstring.partition("\nArgs:\n")
    name, lines = "", list[str]()
    for line in listed.splitlines():
        if not line.startswith("    "):
            break
        if found := ARGUMENT.match(line):
            if name:
                yield name, _plain(" ".join(lines))
            name, lines = found[1], [found[2]]
        else:
            lines.append(line.strip())
    if name:
        yield name, _plain(" ".join(lines))


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("`", "")


def main() -> None:
    """Write the documents' schemas beside this module, and those of outputs in one file, what they share once."""
    definitions, outputs = dict[str, Any](), dict[str, Any]()
    for name, schema in schemas((FOLDER.parents[1] / PAGE).read_text(encoding="utf-8")):
        if name in DOCUMENTS:
            (FOLDER / f"{name}.json").write_text(_stored(schema) + "\n", encoding="utf-8")
        else:
            definitions |= schema.pop("$defs")
            outputs[name] = schema
    together = {"outputs": outputs, "$defs": dict(sorted(definitions.items()))}
    (FOLDER / "outputs.json").write_text(_stored(together) + "\n", encoding="utf-8")


def _stored(value: object, *, depth: int = 0) -> str:
    """JSON whose objects and arrays take one line where they fit into it, so that a key is a line of a change."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + depth <= WIDTH or not isinstance(value, dict | list):
        return flat
    inner = " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_stored(part, depth=depth + 1)}" for key, part in value.items()]
    else:
        parts = [_stored(part, depth=depth + 1) for part in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{inner[1:]}{end}"


if __name__ == "__main__":
    main()
