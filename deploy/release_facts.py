"""What is known of a release: its cost by the ledger, what finishes it or gives it up, and what it published.

What it published is read from public files alone: output, levels and groups.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..flows.paths import StatePaths
from ..mechanisms.amounts import amount_shown
from ..mechanisms.errors import InputRefused

if TYPE_CHECKING:
    from ..accounting.ledger.queries import ReleaseState, Stage
    from .schemas.outputs import ListedRelease
    from .terminal.tables import FactTable

__all__ = [
    "LargestGroups",
    "commands_for",
    "cost_so_far",
    "facts_of_release",
    "largest_groups",
    "listed_release",
    "run_command",
]

CERTIFICATE = "certificate.json"
TABLES = ("data.parquet", "data.csv")


def cost_so_far(release_id: str, state_paths: StatePaths) -> tuple[Stage | None, str]:
    """How far the ledger has a release, None where it was never charged, and what that has cost, as a sentence.

    Args:
        release_id: the release.
        state_paths: where the ledger lies.
    """
    from ..accounting.ledger.reader import open_reader  # with it comes the ledger, which a command's help doesn't need

    with open_reader(state_paths.ledger_url) as reader:
        state = reader.release(release_id)
    if state is None:
        return None, "Nothing was charged."
    price = state.charge.price
    amount = f"ε = {amount_shown(price.epsilon)}, δ = {amount_shown(price.delta)}"
    if state.charge.series is not None:
        amount = f"A place in the series '{state.charge.series.name}'"
    match state.stage:
        case "charged":
            return state.stage, f"{amount} is reserved and nothing was read."
        case "reading":
            return state.stage, f"{amount} is spent, since reading had begun."
        case "published":
            return state.stage, f"{amount} is spent, and the release is published."
        case _:
            return (
                state.stage,
                f"{amount} was charged, and given back only if nothing was read. The release was abandoned.",
            )


def commands_for(release_id: str, stage: Stage | None, *, finish: str, ledger: str | None = None) -> tuple[str, ...]:
    """The commands that finish an open release or give it up, each with what it does; none for another release.

    Args:
        release_id: the release.
        stage: how far the ledger has it.
        finish: the command that finishes it.
        ledger: the ledger's URL where it was given as an option.
    """
    if stage not in ("charged", "reading"):
        return ()
    kept = "what it reserved is free again" if stage == "charged" else "its cost stays spent"
    give_up = f"crowdblend abandon {release_id} --reason TEXT{_ledger_option(ledger)}"
    return (f"Finish it at no new charge: {finish}", f"Or give it up ({kept}): {give_up}")


def run_command(
    spec: Path,
    *,
    release_id: str,
    output: str | None = None,
    scheduler: str | None = None,
    series: str | None = None,
    ledger: str | None = None,
) -> str:
    """The command line that runs or resumes a release, as a shell takes it.

    PRIVACY: a password in the ledger's URL is replaced by stars.

    Args:
        spec: the specification's file.
        release_id: the release.
        output: its place, where one was given as an option.
        scheduler: the scheduler's address, where one was given.
        series: the series that pays for it, if any.
        ledger: the ledger's URL where it was given as an option.
    """
    argv = ["crowdblend", "run", str(spec), "--release-id", release_id]
    for option, value in (("--series", series), ("--output", output), ("--scheduler", scheduler)):
        argv += [] if value is None else [option, value]
    return shlex.join(argv) + _ledger_option(ledger)


def _ledger_option(ledger: str | None) -> str:
    if ledger is None:
        return ""
    from sqlalchemy import make_url

    return f" --ledger {shlex.quote(make_url(ledger).render_as_string(hide_password=True))}"


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
