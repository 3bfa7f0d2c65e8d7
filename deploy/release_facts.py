"""What is known of a release: what the ledger has of it, and what it published.

What it published is read from public files alone: output, levels and groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..accounting.descriptions.description_registry import has_sampled_rows
from ..mechanisms.generalization_map import first_levels
from ..mechanisms.kernel.amounts import amount_shown
from ..mechanisms.kernel.errors import AccountantRefused, InputRefused, Refusal, ReleaseFailed
from .release_paths import CERTIFICATE

if TYPE_CHECKING:
    from ..accounting.kernel.ledger.ledger_state import Stage
    from ..accounting.ledger.lookup import ReleaseState
    from ..flows.paths import StatePaths
    from ..flows.prepare import PreparedRelease
    from .schemas.outputs import ListedRelease
    from .terminal.stages import Stages
    from .terminal.tables import FactTable


TABLES = ("data.parquet", "data.csv")


RUN_AGAIN = "Run again with the same release id: it is finished at no new charge."
CHANGED = "changed-since-charge"
NOT_STARTED = "prefect-not-started"


@contextmanager
def charge_boundary(
    release_id: str | None, *, state_paths: StatePaths, stages: Stages
) -> Iterator[Callable[[PreparedRelease], None]]:
    """Tell what breaks off a release by what the ledger and the output's place have of it, not by where it broke.

    INVARIANT: this is the one boundary behind which the charge may be committed. Whatever goes wrong there of a charged
    release is a failure, whose words follow from the ledger and the output's place; and what can't be looked up is said
    not to be known. A release that the ledger doesn't have keeps its refusal: nothing was charged. Only refusals and
    interruptions leave it.

    PRIVACY: of an unknown fault the kind and the place in the code alone are shown; its text could hold a value of the
    records.

    Yields:
        What is called with the release once it is prepared, before it can be charged.

    Raises:
        InputRefused: as raised inside; nothing was charged.
        AccountantRefused: as raised inside; nothing was charged, or a resumed release isn't as it was charged.
        ReleaseFailed: everything else.
        KeyboardInterrupt: a fault that an interruption made.
    """
    charging: list[PreparedRelease] = []
    try:
        yield charging.append
    except Exception as fault:
        if _follows_interruption(fault):
            raise KeyboardInterrupt from None
        if not charging and isinstance(fault, Refusal):
            raise
        prepared = charging[0] if charging else None
        name = prepared.release_id if prepared else release_id
        raise _refusal_for(fault, name, prepared, state_paths=state_paths, stages=stages) from None


def _follows_interruption(fault: BaseException) -> bool:
    """Return whether a fault came of an interruption: Prefect fails where a task has no state yet."""
    behind: BaseException | None = fault
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        # Prefect wraps an interruption of a task in an exception of its own, sometimes twice.
        behind = behind.__cause__ or behind.__context__
    return behind is not None


def _refusal_for(
    fault: Exception,
    release_id: str | None,
    prepared: PreparedRelease | None,
    *,
    state_paths: StatePaths,
    stages: Stages,
) -> Refusal:
    """Return what a fault means for the release that it broke off; `prepared` is None where that wasn't yet."""
    refused = fault if isinstance(fault, InputRefused | AccountantRefused) else None
    if refused is not None and refused.cause == CHANGED:
        return refused
    from ..flows.unfinished import cost_so_far  # a release that goes well needs none of it

    stage, cost = (None, "") if release_id is None else cost_so_far(release_id, state_paths)
    if stage is None and refused is None and prepared is not None:
        stage, cost = _cost_once_settled(prepared)
    # Prefect's own files lie in the private store: where it takes none, that is what went wrong.
    own = prepared is not None and (not isinstance(fault, Refusal) or fault.cause == NOT_STARTED)
    full = _unwritable_store(state_paths.home) if own else None
    cause = full or fault
    where = cause.where if isinstance(cause, Refusal) else ""
    what, remedy = _what_broke(cause)
    match stage:
        case None if full is not None:
            return full
        case None if refused is not None:
            return refused
        case None if _is_of_prefect(fault):
            return InputRefused(
                "Prefect's server can't be reached.",
                where="PREFECT_API_URL",
                remedy="Start the server, or unset the variable: each run then has a server of its own.",
            )
        case None:
            not_done = "Nothing was charged, read or published."
        case "reading" if prepared is not None:
            not_done = f"{cost} {_output_in_view(prepared)}"
        case "unknown" if prepared is not None:
            not_done = _known_without_ledger(prepared, stages)
            remedy = f"{remedy} {RUN_AGAIN[:-1].replace('finished', 'charged once and finished')}."
        case _:
            not_done = cost
    if stage == "published":
        remedy = "Run again with the same release id: it shows the result."
    elif stage in ("charged", "reading") and (refused is not None or not remedy):
        remedy = f"{remedy} {RUN_AGAIN}".strip()
    return ReleaseFailed(what, where=where, not_done=not_done, remedy=remedy)


def _cost_once_settled(prepared: PreparedRelease) -> tuple[Stage | Literal["unknown"] | None, str]:
    """As `cost_so_far`, after every other writer has ended, such as a lost connection's commit."""
    from ..accounting.ledger.ledger_writer import open_writer
    from ..flows.unfinished import cost_so_far

    try:
        # Taking the writer's lock waits for a commit that was under way when the connection was lost; only then does
        # the ledger say whether it was charged.
        open_writer(prepared.state_paths.ledger_url, anchoring=prepared.state_paths.anchoring).close()
    except Refusal:
        return "unknown", ""
    return cost_so_far(prepared.release_id, prepared.state_paths)


def _output_in_view(prepared: PreparedRelease) -> str:
    """Return the sentence on whether the output of a release that isn't closed is in its place."""
    from ..tasks.destinations import output_named
    from ..tasks.kernel.publication import remembered_release

    try:
        release = remembered_release(prepared.folder, place_of=output_named)
        if release is not None and release.in_view:
            return f"Its output is in view at {release.output}; the ledger doesn't have it as published yet."
    except (Refusal, OSError):
        return f"Whether its output is in view at {prepared.request.output} isn't known: that can't be looked at."
    return "Nothing was published."


def _known_without_ledger(prepared: PreparedRelease, stages: Stages) -> str:
    """Return what is known of a release where the ledger can't be asked: by the stages that have ended."""
    asked = "the ledger can't be read now"
    if "close" in stages.ended:
        return f"It is charged, its cost is spent, and the release is published; {asked}."
    begun = "charge" in stages.ended or (prepared.state is not None and prepared.state.stage == "reading")
    if begun:
        return f"It is charged, and its cost is spent, since reading had begun; {asked}. {_output_in_view(prepared)}"
    if prepared.state is not None:
        return f"It is charged; whether its reading was recorded isn't known: {asked}. Nothing was published."
    return f"Whether it was charged isn't known: {asked}. Nothing was published."


PREFECT_ABSENT = "Failed to reach API"
"""How the RuntimeError begins by which Prefect tells that its server doesn't answer at all."""


def _unwritable_store(home: Path) -> InputRefused | None:
    from ..accounting.keys.store_upkeep import require_writable

    try:
        require_writable(home)
    except InputRefused as refusal:
        return refusal
    return None


def _is_of_prefect(fault: Exception) -> bool:
    """Return whether a fault is that Prefect's server doesn't answer, or answers that it failed."""
    import httpx

    absent = isinstance(fault, RuntimeError) and str(fault).startswith(PREFECT_ABSENT)
    return absent or isinstance(fault, httpx.HTTPError)


def _what_broke(fault: Exception) -> tuple[str, str]:
    """Return a fault as a sentence, and its own remedy."""
    if isinstance(fault, Refusal):
        return fault.what, fault.remedy
    if _is_of_prefect(fault):
        answer = getattr(fault, "response", None)
        how = type(fault).__name__ if answer is None else f"it answered {answer.status_code}"
        return f"Prefect's server was lost on the way ({how}).", ""
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}" if trace else ""
    return f"Internal fault ({type(fault).__name__}{place}).", ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LargestGroups:
    """The largest groups of a published table, as rows of its columns, and how many groups it has."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]
    groups: int


def listed_release(state: ReleaseState, *, home: Path, ledger_id: str) -> ListedRelease:
    """Return the ledger's row of a release with its output, its levels and what it published.

    PRIVACY: of the private store only the place of the output is read; levels and sizes are those of the certificate.
    """
    from ..accounting.certificate.verify import read_certificate
    from ..accounting.keys.store_upkeep import remembered_facts
    from ..tasks.readers.source_files import is_url
    from .terminal.tables import release_rows

    [ledger_row] = release_rows([state])
    row: ListedRelease = {
        **ledger_row,
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
        first = {column["column"]: column["level"] for column in certificate["map"]["columns"]}
        published = certificate["published"]
        row["levels"] = first_levels(published) if {"blocks", "stages"} & published.keys() else first
        row["levels_drawn"] = "selection" in certificate["map"]
        row["published_groups"] = certificate["published"]["groups"]
        row["published_records"] = certificate["published"]["records"]
    except (InputRefused, KeyError, TypeError):
        return row  # moved, or no longer what was published: `crowdblend verify` tells
    return row


def largest_groups(row: Mapping[str, Any], state: ReleaseState, *, most: int) -> LargestGroups | None:
    """Return the largest published groups; None where there is no table of groups, or it isn't what was published.

    PRIVACY: nothing is shown of a table whose digest is not the one in the ledger.

    Raises:
        InputRefused: the table can't be read.
    """
    from ..tasks.counting.released_groups import read_released_table  # loads pyarrow
    from ..tasks.kernel.publication import digest_of_file

    if row["levels"] is None or not has_sampled_rows(row["mechanism"]["kind"]):
        return None
    folder, hashes = Path(row["output"]), dict(state.output_hashes)
    name = next((name for name in TABLES if name in hashes), None)
    # A table that somebody changed is not shown as if it were the published one.
    if name is None or not (folder / name).is_file() or digest_of_file(folder / name) != hashes[name]:
        return None
    table = read_released_table(folder)
    labels = [(column, "ascending") for column in table.column_names if column != "count"]
    shown = table.sort_by([("count", "descending"), *labels]).slice(0, most)
    rows = tuple(tuple(values) for values in zip(*(column.to_pylist() for column in shown.columns), strict=True))
    return LargestGroups(columns=tuple(table.column_names), rows=rows, groups=table.num_rows)


def levels_text(levels: dict[str, int], *, drawn: bool) -> str:
    """Return the level of each column: `age 2, town 1 (drawn privately)`."""
    named = ", ".join(f"{column} {level}" for column, level in levels.items())
    return f"{named} (drawn privately)" if drawn else named


def facts_of_release(row: Mapping[str, Any], *, stage: str, cost: str) -> FactTable:
    """Return a release, a row of `listed_release`, in a few lines."""
    from ..accounting.descriptions.description_registry import published_text
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
