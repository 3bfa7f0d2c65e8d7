"""All schemas, from the models; run as a program in a checkout it writes them into this folder.

python -m crowdblend.deploy.schemas.generate
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from ...accounting.theory.planning.planner import Plan
from ...flows.spec import PAGE, keys_of, spec_model, spec_schema
from ...mechanisms.measures.utility import UtilityMeasures
from ..commands.doctor import Check
from ..documents.preview.deletion import DeletionForecast
from ..documents.preview.forecast import Forecast, Suggestion
from .documents import Certificate, ExportedEntry
from .outputs import (
    BudgetForecast,
    DatasetList,
    DeletionPlan,
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
from .type_schemas import DIALECT, schema_of_type

__all__ = ["VERSIONS", "schemas", "text_of_schema"]

VERSIONS = {"certificate": 5}
"""Of a schema; 1 where it isn't here. It rises when a key goes, or gets another type or meaning; not when one comes."""
HEADING = re.compile(r"^#+ (?:`\[(.+)\]`|Top level)$")
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]+) \|$")
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedPlan(Plan):
    """A priced point; null where a quantity does not exist or was not asked for."""

    survival_share: Annotated[float | None, "of the sampled records, for the group sizes that were given."]


@dataclass(frozen=True, kw_only=True, slots=True)
class SuppressionPreview(Forecast):
    """What a release would suppress."""

    suggestions: Annotated[list[Suggestion], "what would lose less."]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionPreview(DeletionForecast):
    """What a deletion release would delete."""

    suggestions: Annotated[list[Suggestion], "none."]


class PrivateReport(TypedDict):
    """A private report. Not for publication: it has exact figures of the private records."""

    release_id: Annotated[str, "that it is about."]
    report: Annotated[str, "its file."]
    look: Annotated[int, "entry of the ledger that records it."]
    measures: Annotated[UtilityMeasures, "the figures."]


class Examined(TypedDict):
    """What `doctor` found."""

    ok: Annotated[bool, "whether all is well."]
    checks: Annotated[list[Check], "what was looked at."]


OUTPUTS: dict[str, Any] = {
    "cancel": RunResult | Refused,
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
    "sheet": SheetWritten | Refused,
    "status": JobStatus | Refused,
    "submit": RunResult | JobBegun | Refused,
    "token add": TokenMade | Refused,
    "token list": TokenList | Refused,
    "verify": ReleaseVerified | Refused,
}
"""Words of a command → what it prints with `--json`."""


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
