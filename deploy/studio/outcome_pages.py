"""What the studio shows once all is decided: the review, a second person's approval, the run and its result."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq

from ...flows.approvals import Approval, approval_file, require_approved
from ...flows.prepare import prepare
from ...mechanisms.kernel.errors import InputRefused, Refusal, ReleaseFailed
from ...tasks.request import Request
from ..readiness import dry_run_facts
from ..release_check import verify_release
from ..release_paths import CERTIFICATE
from ..run import two_names_warning
from .draft import Draft, draft_mark, toml_lines, toml_text
from .draft_problems import Problem, Remembered, draft_problems, problem_of
from .draft_proposals import FORMLESS, known_names
from .form_answers import Studio
from .page_contexts import (
    ApprovalPage,
    ResultPage,
    ReviewPage,
    RunPage,
)
from .planned_tables import tables_wanted
from .studio_pages import DECISIONS, WAIT, Fields, dataset_state, problems_of_columns
from .studio_runs import STAGES

FIRST_ROWS, READ_ROWS = 8, 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class Review:
    """What the command line says of the draft.

    Args:
        problems: what it would refuse.
        facts: of the dry run; None where there is none.
        warnings: of the dry run.
        request: what a run would be of; None where there is none.
    """

    problems: tuple[Problem, ...]
    facts: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    request: Request | None = None


REVIEWED: Remembered[Review] = Remembered()
CHECKED: Remembered[tuple[tuple[str, ...], tuple[str, ...], str]] = Remembered()


def review_page(studio: Studio, draft: Draft, fields: Fields) -> ReviewPage:
    """The specification, and what a run would begin with."""
    answer = review_of(studio, draft)
    fields.add_problems([] if answer is None else list(answer.problems))
    release = draft.tables.get("release", {})
    fields.add("release_name", release.get("name"))
    fields.add("output", release.get("output"))
    if draft.kind not in FORMLESS:
        fields.add("form", release.get("form", "microdata"), ("microdata", "microdata"), ("counts", "counts"))
    fields.add("format", release.get("format", "parquet"), ("parquet", "parquet"), ("csv", "csv"))
    also = release.get("also")
    also = " ".join(also) if isinstance(also, list) and all(isinstance(one, str) for one in also) else ""
    fields.add("also", also, *((one, one or "none") for one in ("", "sav", "dta", "sav dta")))
    metadata = release.get("metadata")
    fields.add("title_field", metadata.get("title") if isinstance(metadata, dict) else "")
    return ReviewPage(
        fields=fields.made,
        lines=[(place, line) for place, line in toml_lines(draft.tables)],
        found=None if answer is None else answer.problems,
        facts=None if answer is None else answer.facts,
        warnings=() if answer is None else answer.warnings,
        command=f"crowdblend run {studio.folder.draft_path}",
        waits=waits_for_approval(studio, answer),
    )


def review_of(studio: Studio, draft: Draft) -> Review | None:
    """Return what the command line says of the draft; None while it is computed, or its tables are planned."""
    if tables_wanted(draft):
        return None
    return REVIEWED.get(_state_of(studio, draft), lambda: _reviewed(studio, draft), wait=WAIT)


def approval_of(studio: Studio, review: Review | None) -> Approval | Refusal | None:
    """Return the approval of the draft, or why there is none that counts; None where nothing can be approved."""
    if review is None or review.request is None:
        return None
    try:
        return require_approved(review.request, studio.folder.draft_path, studio.state_paths)
    except InputRefused as refusal:
        return refusal


def waits_for_approval(studio: Studio, review: Review | None) -> bool:
    """Return whether a run would be refused for want of an approval."""
    return isinstance(approval_of(studio, review), Refusal)


def approval_page(studio: Studio, draft: Draft, fields: Fields) -> ApprovalPage:
    """Whether a second person approves it."""
    review = review_of(studio, draft)
    found = approval_of(studio, review)
    place = studio.folder.draft_path
    if isinstance(found, Refusal) and approval_file(place).exists():
        fields.add_problems([Problem(text=f"{found.what} {found.remedy}", page="approval", field="approval")])
    fields.add("approval")
    return ApprovalPage(
        fields=fields.made,
        approvers=str(studio.state_paths.approvers or ""),
        digest="" if review is None or review.request is None else review.request.digest,
        computing=review is None,
        given=found if isinstance(found, Approval) else None,
        command=f"crowdblend approve {place.name} --folder {shlex.quote(str(place.parent))}",
    )


def _state_of(studio: Studio, draft: Draft) -> tuple[object, ...]:
    """Return all that a review depends on: what it reads is another one where this is."""
    path, folder = studio.folder.draft_path, studio.folder.folder / "hierarchies"
    state, source = dataset_state(studio, draft), Path(str(draft.data.get("source", "")))
    output = Path(str(draft.tables.get("release", {}).get("output", "")))
    return (
        path.read_bytes() if path.exists() else b"",
        *((file.name, file.stat().st_mtime_ns) for file in sorted(folder.iterdir())),
        source.stat().st_mtime_ns if source.is_file() else 0,
        repr(None if state is None else state.account),
        output.exists(),
        repr(draft.builders),
    )


def known_problems(studio: Studio, draft: Draft) -> list[Problem]:
    """Return what a page can know at once: what is wrong with single values, and what the last review has found."""
    reviewed = REVIEWED.known(_state_of(studio, draft))
    found = draft_problems(studio.folder.draft_path, draft, known_names(draft), values_alone=True)
    return found + ([] if reviewed is None else list(reviewed.problems))


def _reviewed(studio: Studio, draft: Draft) -> Review:
    """Read the draft as the command line does, and try the run as `run --dry-run` does."""
    names = known_names(draft)
    # A copy of its own: the draft may be changed meanwhile.
    path = studio.folder.folder / "review.toml"
    studio.folder.write(path.name, toml_text(draft.tables))
    problems = problems_of_columns(draft) + draft_problems(path, draft, names, values_alone=False)
    # What is said of a column here in a few words, the command line says of it once more.
    undeclared = {problem.page for problem in problems if problem.text == "undeclared"}
    problems = [one for one in problems if one.page not in undeclared or one.text == "undeclared"]
    if problems:
        return Review(problems=tuple(dict.fromkeys(problems)))
    # A second person approves what is reviewed, and not before: whether they have is looked at for itself.
    state_paths = replace(studio.state_paths, approvers=None)
    try:
        with prepare(path, state_paths=state_paths, output=None, release_id=None, new=True, dry=True) as found:
            facts: dict[str, Any] = json.loads(json.dumps(dry_run_facts(found)))
            other = found.other_names
            warnings = [two_names_warning(other, dataset=found.request.dataset)] if other else []
            return Review(problems=(), facts=facts, warnings=(*warnings, *found.remarks), request=found.request)
    except Refusal as refusal:
        return Review(problems=(problem_of(refusal, draft=draft, path=path, names=names),))


def run_page(studio: Studio, draft: Draft, fields: Fields) -> RunPage:
    """How far the run is."""
    current = draft.notes.get("run")
    fields.add("reason")
    run = studio.runs.state(current) if current else None
    begins = run is None or not (run.running or run.can_be_finished)
    review = review_of(studio, draft) if begins else None
    spec = shlex.quote(str(studio.folder.draft_path))
    commands = {
        "submit": f"crowdblend submit {spec}",
        "rehearse": f"crowdblend run {spec} --rehearse",
        "series": f"crowdblend series add NAME {spec} --releases 12\ncrowdblend run {spec} --series NAME",
        "schedule": f'crowdblend serve {spec} --series NAME --cron "0 3 1 * *" --output FOLDER',
        "cluster": f"crowdblend run {spec} --scheduler tls://HOST:8786",
    }
    return RunPage(
        run=run,
        fields=fields.made,
        stages=STAGES,
        waits=waits_for_approval(studio, review),
        commands=commands,
        facts=None if review is None else review.facts,
        computing=begins and review is None,
        mark=draft_mark(studio.folder, draft),
    )


def result_page(studio: Studio, draft: Draft, fields: Fields) -> ResultPage:
    """What was published, and that it verifies."""
    fields.add("understood")
    current = draft.notes.get("run")
    run = studio.runs.state(current) if current else None
    if run is None or run.result is None:
        return ResultPage(
            run=None, folder="", findings=(), unchecked=(), tables=(), files=(), said=(), sheet="", commands=(),
            fields=fields.made,
        )  # fmt: skip
    folder = Path(str(run.result["output"]))
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    stamps = tuple((name, (folder / name).stat().st_mtime_ns) for name in files)
    place = studio.runs.folder_of(run.release_id) / "sheet"
    checked = CHECKED.get((run.release_id, stamps), lambda: _checked(studio, folder, place), wait=WAIT)
    findings, unchecked, sheet = checked or ((), (), "")
    return ResultPage(
        run=run,
        folder=str(folder),
        findings=findings,
        unchecked=unchecked,
        tables=tuple(
            _first_rows(folder / name) for name in files if name.startswith(("data", "members", "margins", "totals"))
        ),
        files=tuple(files),
        said=tuple(run.result.get("in_words", ())),
        sheet=sheet,
        computing=checked is None,
        fields=fields.made,
        report=studio.runs.report(run.release_id),
        commands=(
            f"crowdblend verify {folder / CERTIFICATE}",
            f"crowdblend sheet {folder}",
            f"crowdblend run {studio.runs.spec_of(run.release_id)}",
            f"crowdblend report private {studio.runs.spec_of(run.release_id)} {folder}",
        ),
    )


def _checked(studio: Studio, folder: Path, place: Path) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Verify a release as `verify` does, and write its sheet: what doesn't hold, what isn't shown, the sheet's path."""
    try:
        check = verify_release(folder / CERTIFICATE, trusted=studio.state_paths.anchoring.keys.public_keys())
    except Refusal as refusal:
        return (refusal.what,), (), ""
    return check.findings, check.unchecked, "" if check.findings else _sheet(folder, place)


def _first_rows(path: Path) -> tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return the first rows of a published table that differ: rows of one group are alike, and stand together."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            batch = next(file.iter_batches(batch_size=READ_ROWS), None)
    else:
        with pc.open_csv(path, convert_options=pc.ConvertOptions(strings_can_be_null=False)) as reader:
            names, batch = reader.schema.names, next(iter(reader), None)
    rows = [] if batch is None else batch.slice(0, READ_ROWS).to_pylist()
    differing = dict.fromkeys(tuple(map(_cell, row.values())) for row in rows)
    return path.name, tuple(names), tuple(islice(differing, FIRST_ROWS))


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _sheet(folder: Path, place: Path) -> str:
    """Write the sheet for researchers where it isn't yet; its path, empty where it couldn't be made."""
    from ..documents.sheet.render_sheet import write_sheet

    if not place.is_dir():
        try:
            place.mkdir(mode=0o700)
            write_sheet(folder, output=place)
        except (Refusal, ReleaseFailed, OSError):
            return ""
    return next((str(file) for file in place.glob("*.html")), "")


PAGES: Mapping[str, Callable[[Studio, Draft, Fields], Any]] = {
    **DECISIONS,
    "review": review_page,
    "approval": approval_page,
    "run": run_page,
    "result": result_page,
}
