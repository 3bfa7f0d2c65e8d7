"""What is known of a release: what the ledger has of it, and what it published.

What it published is read from public files alone: output, levels and groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..mechanisms.amounts import amount_shown
from ..mechanisms.errors import InputRefused

if TYPE_CHECKING:
    from ..accounting.ledger.queries import ReleaseState
    from .schemas.outputs import ListedRelease
    from .terminal.tables import FactTable

__all__ = [
    "LargestGroups",
    "facts_of_release",
    "largest_groups",
    "listed_release",
]

CERTIFICATE = "certificate.json"
TABLES = ("data.parquet", "data.csv")


@dataclass(frozen=True, kw_only=True, slots=True)
class LargestGroups:
    """The largest published groups of a release.

    Args:
        columns: the released columns, then `count`.
        rows: labels and number of records of each, the largest first.
        groups: how many were published.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]
    groups: int


def listed_release(state: ReleaseState, *, home: Path, ledger_id: str) -> ListedRelease:
    """A release as `release list --json` shows it: the ledger's row with its output, its levels and what it published.

    PRIVACY: of the private store only the place of the output is read; levels and sizes are those of the certificate.

    Args:
        state: the release as the ledger knows it.
        home: the private store, which knows where the release was published.
        ledger_id: the ledger's id.
    """
    from ..accounting.ledger.certificate.verify import read_certificate
    from ..accounting.ledger.private_store.inspection import remembered_facts
    from ..tasks.inputs.files import is_url
    from .terminal.tables import release_rows

    [known] = release_rows([state])
    row: ListedRelease = {
        **known,
        "output": None,
        "levels": None,
        "levels_drawn": None,
        "published_groups": None,
        "published_records": None,
    }
    if state.stage != "published":
        return row
    remembered = remembered_facts(home, ledger_id=ledger_id, release_id=state.release_id).get("published", {})
    output = remembered.get("output")
    row["output"] = output
    if output is None or is_url(output):
        return row
    try:
        certificate = read_certificate(Path(output) / CERTIFICATE)
        if certificate["release_id"] != state.release_id:
            return row
        row["levels"] = {column["column"]: column["level"] for column in certificate["map"]["columns"]}
        row["levels_drawn"] = "selection" in certificate["map"]
        row["published_groups"] = certificate["published"]["groups"]
        row["published_records"] = certificate["published"]["records"]
    except (InputRefused, KeyError, TypeError):
        return row  # moved, or no longer what was published: `crowdblend verify` tells
    return row


def largest_groups(row: Mapping[str, Any], state: ReleaseState, *, most: int) -> LargestGroups | None:
    """The largest published groups; None where there is no table of groups here, or it is not what was published.

    PRIVACY: nothing is shown of a table whose digest is not the one in the ledger.

    Args:
        row: of `listed_release`.
        state: the release as the ledger knows it.
        most: how many groups to show.

    Raises:
        InputRefused: the table can't be read.
    """
    from ..tasks.readers.released_groups import read_released_table  # loads pyarrow
    from ..tasks.stages.publish import digest_of_file

    if row["levels"] is None or not row["mechanism"]["kind"].startswith(("strongly-safe-", "epsilon-safe-")):
        return None
    folder, hashes = Path(row["output"]), dict(state.output_hashes)
    name = next((name for name in TABLES if name in hashes), None)
    if name is None or not (folder / name).is_file() or digest_of_file(folder / name) != hashes[name]:
        return None
    table = read_released_table(folder)
    labels = [(column, "ascending") for column in table.column_names if column != "count"]
    shown = table.sort_by([("count", "descending"), *labels]).slice(0, most)
    rows = tuple(tuple(values) for values in zip(*(column.to_pylist() for column in shown.columns), strict=True))
    return LargestGroups(columns=tuple(table.column_names), rows=rows, groups=table.num_rows)


def facts_of_release(row: Mapping[str, Any], *, stage: str, cost: str) -> FactTable:
    """A release in a few lines.

    Args:
        row: of `listed_release`.
        stage: how far it is, for people.
        cost: what it has cost, as a sentence.
    """
    from ..accounting.ledger.entries.kinds import published_text
    from .run import levels_text
    from .terminal.tables import FactTable

    mechanism = row["mechanism"]
    parameters = ", ".join(f"{name} {value}" for name, value in mechanism.items() if name != "kind")
    rows = [
        ("label", row["label"]),
        ("data set", row["dataset"]),
        ("stage", stage),
        ("charged on", row["day"]),
        ("mechanism", f"{mechanism['kind']}: {parameters}"),
    ]
    if row["series"] is None:
        rows += [("ε", amount_shown(row["epsilon"])), ("δ", amount_shown(row["delta"]))]
    else:
        rows.append(("paid by", f"series {row['series']}, release {row['series_number']}"))
    rows.append(("cost", cost))
    if row["levels"] is not None:
        rows.append(("levels", levels_text(row["levels"], drawn=row["levels_drawn"])))
        groups, records = row["published_groups"], row["published_records"]
        rows.append(("published", published_text(mechanism["kind"], groups=groups, records=records)))
    if row["stage"] == "published":
        rows.append(("output", row["output"] or "this private store doesn't know: it was made with another"))
    return FactTable(title=f"Release {row['release_id']}", headers=("", ""), rows=tuple(rows))
