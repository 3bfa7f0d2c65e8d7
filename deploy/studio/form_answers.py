"""What a form that was sent changes in the draft; what is typed is stored as it is, and looked at as it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from ...flows.approvals import approval_file, check_approval
from ...flows.paths import StatePaths, reader_of
from ...flows.spec import read_spec
from ...flows.unfinished import abandon_release
from ...mechanisms.kernel.errors import InputRefused, Refusal
from ...mechanisms.kernel.mechanism import ADD_REMOVE, REPLACEMENT
from ...mechanisms.wording import FILL_IN
from ..python.ledger import add_dataset
from .draft import (
    MARK,
    Draft,
    StudioFolder,
    Tables,
    columns_mark,
    draft_mark,
    shown,
    toml_text,
    typed_number,
    typed_numbers,
)
from .draft_problems import checked_column
from .draft_proposals import (
    BY_ROLE,
    DECLARATIONS,
    FIXED_KINDS,
    FORMLESS,
    absolute_source,
    build_hierarchy,
    known_names,
    make_fixed,
    make_paired,
    outline_of,
    propose_columns,
    release_columns,
    remark_of,
    source_names,
)
from .planned_tables import PINNED, WANTED, tables_wanted, want_tables
from .public_previews import PublicPreviews
from .studio_runs import Runs

Form = Mapping[str, str]
MOST_PEOPLE = 10**12
EPSILON, DELTA = {"epsilon": ("privacy", "epsilon")}, {"delta": ("privacy", "delta")}
RATE, SHARE = {"rate": ("sampling", "rate")}, {"share": ("margins", "share")}
PRICE_KEYS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "paired": EPSILON
    | DELTA
    | SHARE
    | {"pair_share": ("margins", "pair_share"), "draw_share": ("margins", "draw_share")},
    "sampled": RATE | {"k": ("suppression", "k")} | DELTA,
    "calibrated": EPSILON | DELTA | RATE | SHARE | {"k": ("suppression", "k")},
    "histogram": {"histogram_kind": ("histogram", "kind"), **RATE, "k": ("histogram", "k")}
    | {"noise_epsilon": ("histogram", "epsilon"), **DELTA},
    "synthetic": {"method": ("synthetic", "method"), **EPSILON, **DELTA},
}
"""The fields of the price by the kind, each with its table and key."""
CHOICES: Mapping[str, tuple[str, ...]] = {"histogram_kind": ("noisy", "suppressed"), "method": ("mst", "aim")}
"""Fields of the price that are chosen from these."""
FIELD_OF_WORD = {
    "--expect": "expect", "--accounting": "accounting", "survey_rate": "survey_rate", "survey rate": "survey_rate",
    "own sampling": "survey_rate",
    "epsilon": "budget_epsilon", "ε": "budget_epsilon", "delta": "budget_delta", "δ": "budget_delta",
    "unit": "unit_column", "rows": "rows_per_person",
}  # fmt: skip
"""Words of a refused data set, and the field that they are about; the first that is found counts."""


@dataclass(frozen=True, kw_only=True)
class Studio:
    """What the pages work on.

    Args:
        folder: the draft's.
        state_paths: where the ledger and the private store lie.
        runs: those that were begun here.
        previews: on public records.
    """

    folder: StudioFolder
    state_paths: StatePaths
    runs: Runs
    previews: PublicPreviews


class NotStored(Exception):
    """What was typed is not stored, since nothing in the draft could hold it.

    Args:
        field: that it is about.
        text: what is wrong and what to do.
    """

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field, self.text = field, text


class Outdated(NotStored):
    """Tell that what was typed is of another state than there is now: the page is shown without what was typed.

    Args:
        text: what has changed.
    """

    def __init__(self, text: str) -> None:
        super().__init__("", text)


def _require_mark(form: Form, mark: str, text: str) -> None:
    if form.get(MARK) != mark:
        raise Outdated(text)


def _said(refusal: Refusal) -> str:
    return f"{refusal.what} {refusal.remedy}".strip()


def take_dataset(studio: Studio, form: Form) -> str:
    """Choose the data set whose budget pays, or add one."""
    name = form.get("dataset", "").strip()
    if form.get("do") == "add":
        name = form.get("new_dataset", "").strip()
        unit = form.get("unit", "record")
        column = form.get("unit_column", "").strip()
        rows = typed_number(form.get("rows_per_person", "") or "1")
        if not isinstance(rows, int):
            raise NotStored("rows_per_person", "whole_number")
        try:
            add_dataset(
                name,
                epsilon=form.get("budget_epsilon", ""),
                delta=form.get("budget_delta", ""),
                rows_per_person=rows,
                unit=unit if unit == "record" else f"{unit}:{column}",
                survey_rate=form.get("survey_rate", "").strip() or None,
                relation=REPLACEMENT if form.get("relation") == REPLACEMENT else ADD_REMOVE,
                accounting="filter" if form.get("accounting") == "filter" else "additive",
                expect=[line.strip() for line in form.get("expect", "").splitlines() if line.strip()],
                ledger_url=studio.state_paths.ledger_url,
                home=studio.state_paths.home,
            )
        except Refusal as refusal:
            about = f"{refusal.where} {refusal.what}"
            field = next((field for word, field in FIELD_OF_WORD.items() if word in about), "new_dataset")
            raise NotStored(field, _said(refusal)) from None
    if not name:
        raise NotStored("dataset", "no_dataset")
    try:
        with reader_of(studio.state_paths) as reader:
            state = reader.dataset(name)
    except Refusal as refusal:
        raise NotStored("dataset", _said(refusal)) from None
    with studio.folder.changing() as draft:
        draft.data["dataset"] = state.name
        draft.put("data", "rows_per_person", None if state.rows_per_person == 1 else state.rows_per_person)
        for unit in ("person", "household"):
            draft.data.pop(unit, None)
        if state.unit is not None and state.unit.column is not None:
            draft.data[state.unit.name] = state.unit.column
            draft.columns.pop(state.unit.column, None)
    return "/file"


def take_file(studio: Studio, form: Form) -> str:
    """Name the file, and begin the columns where it is another one."""
    with studio.folder.changing() as draft:
        draft.put("data", "source", absolute_source(form.get("source", "").strip()))
        separator = form.get("separator", "").strip("\r\n")
        draft.put("data", "separator", {"\\t": "\t"}.get(separator, separator))
        draft.put("data", "encoding", form.get("encoding", ""))
        draft.put("data", "null", [] if not (null := form.get("null", "")) else ["", *null.split()])
        draft.put("data", "decimal", form.get("decimal", "").replace(".", ""))
        for key in {"trim", "whole_floats"} & form.keys():
            draft.put("data", key, form[key] == "yes" or None)
        records = typed_number(form.get("records", ""))
        draft.notes["records"] = records if isinstance(records, int) else form.get("records", "").strip()
        draft.notes["public"] = absolute_source(form.get("public", "").strip())
        if "name" not in draft.tables.get("release", {}):
            stem = "".join(
                one if one.isascii() and one.isalnum() else "-" for one in Path(draft.data.get("source", "")).stem
            )
            name = stem.strip("-")[:60] or "release"
            draft.tables["release"] = {
                "name": name, "form": "microdata", "format": "parquet", "output": str(Path.cwd() / "out" / name),
            }  # fmt: skip
        if _records_problem(draft):
            return "/file"
        try:
            names = source_names(draft)
            if draft.notes.get("columns_of") != _origin(draft):
                kept: dict[str, str] = {
                    unit: draft.data[unit] for unit in ("person", "household") if unit in draft.data
                }
                propose_columns(studio.folder, draft, names)
                want_tables(draft)
                draft.data.update(kept)
                for name in kept.values():
                    draft.columns.pop(name, None)
                draft.notes["columns_of"] = _origin(draft)
        except InputRefused as refusal:
            draft.notes["file_problem"] = [
                "public" if draft.notes["public"] and draft.notes["public"] in str(refusal.where) else "source",
                _said(refusal),
            ]
            return "/file"
        draft.notes.pop("file_problem", None)
    return "/columns"


def _origin(draft: Draft) -> list[object]:
    return [draft.data.get("source"), draft.notes.get("public", "")]


def _records_problem(draft: Draft) -> bool:
    records = draft.notes.get("records")
    return not (isinstance(records, int) and 0 < records < MOST_PEOPLE)


def take_columns(studio: Studio, form: Form) -> str:
    """Give each column its role."""
    with studio.folder.changing() as draft:
        names = source_names(draft)
        _require_mark(form, columns_mark(draft, (column.name for column in names.columns)), "other_columns")
        roles = {column.name: form.get(f"role-{number}", "") for number, column in enumerate(names.columns)}
        if form.get("do") == "all":
            harmless = [one.name for one in names.columns if not remark_of(one)]
            roles |= {name: "release" for name in harmless if roles[name] in ("", "leave")}
        _require_roles([*roles.values()])
        order = {name: number for number, name in enumerate(roles)}
        for name, role in roles.items():
            if role != "release":
                draft.columns.pop(name, None)
        if chosen := [name for name, role in roles.items() if role == "release" and name not in draft.columns]:
            release_columns(draft, names, chosen)
        for role in BY_ROLE:
            draft.put("data", role, next((name for name, given in roles.items() if given == role), None))
        if "weight" not in draft.data:
            draft.data.pop("weight_classes", None)
        elif "weight_classes" not in draft.data:
            draft.data["weight_classes"] = {"bounds": FILL_IN}
        draft.tables["columns"] = dict(sorted(draft.columns.items(), key=lambda one: order.get(one[0], len(order))))
        if draft.paired:
            _fit_blocks(draft)
    if form.get("do") == "all":
        return "/columns"
    if form.get("do", "").startswith("open-"):
        return f"/columns/{form['do'].removeprefix('open-')}"
    return "/matters"


def _require_roles(roles: list[str]) -> None:
    for role in BY_ROLE:
        if roles.count(role) > 1:
            raise NotStored(f"role-{roles.index(role, roles.index(role) + 1)}", "role_taken")
    if {"person", "household"} <= {*roles}:
        raise NotStored(f"role-{roles.index('household')}", "two_units")


def _fit_blocks(draft: Draft) -> None:
    """Keep the blocks where they fit the released columns; else let them be proposed anew."""
    blocks = draft.tables.get("blocks")
    themes = {name for table in (blocks or {}).values() if isinstance(table, dict) for name in table.get("columns", [])}
    pinned = {*(blocks or {}).get("pinned", [])}
    if blocks is None or not pinned <= {*draft.columns} or (themes and themes | pinned != {*draft.columns}):
        want_tables(draft)


def take_column(studio: Studio, form: Form, *, number: int) -> str:
    """Declare how a column's values become labels."""
    with studio.folder.changing() as draft:
        names = known_names(draft)
        _require_mark(form, columns_mark(draft, names), "other_columns")
        name = names[number]
        column = draft.columns.setdefault(name, {"levels": "auto"} if draft.paired else {"level": 0})
        kind, text = form.get("form", ""), form.get("text", "").replace("\r\n", "\n")
        if kind == "kept" and "text" in form and _lines(text) != _lines(outline_of(studio.folder, column)):
            kind = "tree"
        for key in DECLARATIONS:
            if not (key == "hierarchy" and kind == "kept"):
                column.pop(key, None)
        if kind != "kept":
            draft.builders.pop(name, None)
        if kind in ("tree", "prefixes", "file"):
            draft.builders[name] = {
                "form": kind, "text": "" if kind == "file" else text,
                "keep": form.get("keep", ""), "file": form.get("file", ""),
            }  # fmt: skip
            draft.builders[name]["wrong"] = build_hierarchy(studio.folder, draft, name, number)
        else:
            _declare(column, kind, text, form)
        _take_comparison(column, kind, form)
        for key in ("min_level", "max_level", "margin_level") if draft.paired else ("level",):
            if key in form or key != "margin_level":
                _put_typed(column, key, form)
        checked = checked_column(studio.folder, draft, name, names)
        wrong = bool(checked.problems or draft.builders.get(name, {}).get("wrong"))
        listed = [names.index(one) for one in draft.columns if one in names]
    later = [one for one in listed if one > number]
    if wrong or form.get("do") == "stay":
        return f"/columns/{number}"
    return f"/columns/{later[0]}" if form.get("do") == "next" and later else "/columns"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def _put_typed(column: Tables, key: str, form: Form) -> None:
    value = typed_number(form.get(key, ""))
    column.pop(key, None)
    if value is not None:
        column[key] = value


def _declare(column: Tables, kind: str, text: str, form: Form) -> None:
    """Declare values that need no file."""
    match kind:
        case "values":
            column["values"] = [line.strip() for line in _lines(text)]
        case "interval":
            numbers = {key: typed_number(form.get(key, "")) for key in ("lower", "upper")}
            column["interval"] = {key: value for key, value in numbers.items() if value is not None}
            column["interval"]["widths"] = typed_numbers(form.get("widths", ""))
        case "dates":
            days = {key: form.get(key, "").strip() for key in ("from", "to")}
            column["dates"] = {key: day for key, day in days.items() if day}
            column["dates"]["levels"] = form.get("day_levels", "").replace(",", " ").split()
        case _:
            pass


def _take_comparison(column: Tables, kind: str, form: Form) -> None:
    """Say how values are compared with labels, and which numbers labels have in files of statistics packages."""
    if kind in ("interval", "dates"):
        column.pop("codes", None)
        column.pop("fold_case", None)
        return
    if "fold_case" in form:
        column.pop("fold_case", None)
        if form["fold_case"] == "yes":
            column["fold_case"] = True
    if "codes" in form:
        column.pop("codes", None)
        pairs = [line.rpartition("=") for line in _lines(form["codes"].replace("\r\n", "\n"))]
        if pairs:
            column["codes"] = {label.strip() or code.strip(): _code(code) for label, _, code in pairs}


def _code(text: str) -> int | Decimal | str:
    number = typed_number(text)
    return "" if number is None else number


def take_matters(studio: Studio, form: Form) -> str:
    """Say which columns matter most, and how they are divided."""
    with studio.folder.changing() as draft:
        names = known_names(draft)
        _require_mark(form, columns_mark(draft, names), "other_columns")
        for name, column in draft.columns.items():
            weight = typed_number(form.get(f"weight-{names.index(name) if name in names else 0}", ""))
            column.pop("weight", None)
            if weight is not None:
                column["weight"] = weight
        if "weight" in draft.data:
            draft.data["weight_classes"] = {"bounds": typed_numbers(form.get("weight_bounds", ""))}
        pinned = [name for number, name in enumerate(names) if name in draft.columns and f"pinned-{number}" in form]
        draft.put("margins", "number", typed_number(form.get("pairs", "")))
        way, themes = form.get("blocks"), _typed_themes(draft, names, form)
        if themes and way != "propose" and _sets(themes) != _sets(draft.tables.get("blocks", {})):
            way = "themes"  # whoever writes tables beside the columns wants these
        if way != "wanted":
            draft.notes.pop(WANTED, None)
        match way:
            case "wanted" if tables_wanted(draft):
                draft.notes[PINNED] = pinned
            case "one":
                draft.tables.pop("blocks", None)
            case "found":
                number = typed_number(form.get("number", ""))
                own = {"number": number} if number is not None else {}
                draft.tables["blocks"] = own | ({"pinned": pinned} if pinned else {})
            case "propose":
                want_tables(draft)
            case "themes":
                if not themes:
                    raise NotStored("blocks", "no_themes")
                draft.tables["blocks"] = ({"pinned": pinned} if pinned else {}) | themes
            case _ if "blocks" in draft.tables:
                draft.put("blocks", "pinned", pinned)
    return "/matters" if way == "propose" else "/price"


def _sets(blocks: Tables) -> dict[str, set[str]]:
    return {theme: {*table["columns"]} for theme, table in blocks.items() if isinstance(table, dict)}


def _typed_themes(draft: Draft, names: tuple[str, ...], form: Form) -> Tables:
    """Return the tables that are named beside the columns, in the order in which they are named first."""
    themes: dict[str, list[str]] = {}
    for number, name in enumerate(names):
        for theme in form.get(f"theme-{number}", "").replace(",", " ").split():
            if name in draft.columns and name not in themes.setdefault(theme, []):
                themes[theme].append(name)
    return {theme: {"columns": columns} for theme, columns in themes.items()}


def take_price(studio: Studio, form: Form) -> str:
    """Choose the kind of release and its price."""
    stay = form.get("do") in ("look", "slider", "kind")
    with studio.folder.changing() as draft:
        if form.get("do") == "slider":
            draft.put("privacy", "epsilon", typed_number(form.get("slider", "")))
            return "/price"
        if form.get("do") == "kind":
            kind = form.get("kind", "")
            if kind in FIXED_KINDS and kind != draft.kind:
                names = known_names(draft)
                levels = {name: len(checked_column(studio.folder, draft, name, names).levels) for name in draft.columns}
                make_fixed(draft, kind, levels)
            elif kind == "paired" and not draft.paired:
                make_paired(draft)
                _fit_blocks(draft)
            return "/price"
        for field, (table, key) in PRICE_KEYS[draft.kind].items():
            text = form.get(field, "")
            draft.put(table, key, text if field in CHOICES else typed_number(text))
    return "/price" if stay else "/review"


def take_review(studio: Studio, form: Form) -> str:
    """Name the release and its place."""
    with studio.folder.changing() as draft:
        release = draft.tables.setdefault("release", {})
        release["name"] = form.get("release_name", "").strip()
        draft.put("release", "output", absolute_source(form.get("output", "").strip()))
        for key in ("format",) if draft.kind in FORMLESS else ("form", "format"):
            draft.put("release", key, form.get(key, ""))
        if "also" in form:
            draft.put("release", "also", form["also"].split())
        title = form.get("title_field", "").strip()
        metadata = release.get("metadata")
        others = {key: one for key, one in metadata.items() if key != "title"} if isinstance(metadata, dict) else {}
        draft.put("release", "metadata", others | ({"title": title} if title else {}) or None)
    return "/review"


def take_approval(studio: Studio, form: Form) -> str:
    """Keep a second person's approval beside the draft."""
    content = form.get("approval", "").strip().encode()
    try:
        request = read_spec(studio.folder.draft_path, output=None)
        check_approval(content, request, where="", state_paths=studio.state_paths)
    except Refusal as refusal:
        raise NotStored("approval", _said(refusal)) from None
    studio.folder.write(approval_file(studio.folder.draft_path).name, content.decode() + "\n")
    return "/approval"


def take_run(studio: Studio, form: Form) -> str:
    """Begin, stop, finish or give up a release."""
    current = str(studio.folder.draft().notes.get("run", ""))
    match form.get("do"):
        case "begin":
            with studio.folder.changing() as draft:
                # Inside: of a form that is sent twice the second finds the first one's run, and charges nothing.
                if tables_wanted(draft):
                    raise NotStored("", "tables_wanted")
                before = draft.notes.get("run")
                state = studio.runs.state(before) if before else None
                if state is None or not (state.running or state.can_be_finished or form.get("after") != before):
                    _require_mark(form, draft_mark(studio.folder, draft), "other_draft")
                    label = shown(draft.tables.get("release", {}).get("name")) or "release"
                    approval = approval_file(studio.folder.draft_path)
                    given = approval.read_bytes() if approval.is_file() else None
                    draft.notes["run"] = studio.runs.begin(label, toml_text(draft.tables), approval=given)
        case "cancel" if current:
            studio.runs.cancel(current)
        case "finish" if current:
            try:
                studio.runs.start(current)
            except InputRefused as refusal:
                raise NotStored("reason", _said(refusal)) from None
        case "abandon" if current:
            try:
                abandon_release(current, reason=form.get("reason", ""), state_paths=studio.state_paths)
            except Refusal as refusal:
                raise NotStored("reason", _said(refusal)) from None
        case _:
            pass
    return "/run"


def take_result(studio: Studio, form: Form) -> str:
    """Begin the private report, once it is said that it is a look that stays."""
    if form.get("understood") != "yes":
        raise NotStored("understood", "not_understood")
    with studio.folder.changing() as draft:  # one form after the other
        current = str(draft.notes.get("run", ""))
        run = studio.runs.state(current) if current else None
        if run is not None and run.result is not None:
            studio.runs.begin_report(current, Path(str(run.result["output"])))
    return "/result#report"


TAKE: Mapping[str, Callable[[Studio, Form], str]] = {
    "dataset": take_dataset,
    "file": take_file,
    "columns": take_columns,
    "matters": take_matters,
    "price": take_price,
    "review": take_review,
    "approval": take_approval,
    "run": take_run,
    "result": take_result,
}
