"""What the pages show on which the steward decides: of the draft and the ledger; looking changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

from ...accounting.kernel.prices.registry import price
from ...accounting.ledger.creation import ledger_exists
from ...accounting.ledger.lookup import DatasetState
from ...accounting.theory.planning.paired_planning import proposed_pairs
from ...flows.paths import PASSWORD, reader_of
from ...flows.spec import read_spec
from ...mechanisms.kernel.errors import InputRefused, Refusal
from ...mechanisms.kernel.mechanism import ADD_REMOVE, REPLACEMENT
from ...mechanisms.kinds.microdata import StronglySafeRelease
from ..proposals.begun_spec import label_codes
from ..proposals.column_proposals import proposed_column
from .draft import Draft, StudioFolder, columns_mark, shown, toml_text
from .draft_problems import Problem, Remembered, checked_column
from .draft_proposals import (
    DECLARATIONS,
    KIND_TABLES,
    VALUE_LABELS,
    known_names,
    outline_of,
    remark_of,
    source_names,
)
from .form_answers import CHOICES, PRICE_KEYS, Form, NotStored, Studio
from .page_contexts import (
    ColumnPage,
    ColumnRow,
    ColumnsPage,
    DatasetPage,
    Field,
    FilePage,
    MattersPage,
    PricePage,
)
from .planned_tables import PINNED, tables_wanted
from .release_outlook import Outlook, fixed_outlook, paired_outlook, sampled_outlook

WAIT = 0.12
USUAL_FORMS = {"integer": "interval", "number": "interval", "date": "dates"}
ENCODINGS = ("", "latin-1", "iso-8859-2", "iso-8859-15", "cp1250", "cp1251", "cp1252")
OUTLOOKS: Remembered[Outlook | str] = Remembered()


class Fields:
    """Makes the fields of a page: what was typed and not stored, else what is stored, with what is wrong at each.

    Args:
        page: the page's path.
        typed: the form that was not stored; None where the page is looked at.
        problems: of the draft.
        said: says in the page's language what is wrong.
    """

    def __init__(self, page: str, *, typed: Form | None, refused: NotStored | None, said: Callable[[str], str]) -> None:
        self._page, self._typed, self._refused, self._said = page, typed, refused, said
        self._problems: list[Problem] = []
        self._made: dict[str, Field] = {}

    def add_problems(self, problems: list[Problem]) -> None:
        """Take note of problems; those of other pages are passed over."""
        self._problems += [problem for problem in problems if problem.page == self._page]

    def add(self, name: str, value: object = "", *options: tuple[str, str]) -> Field:
        """Make a field of a value, or of options to choose from."""
        wrong = [self._said(one.text) for one in self._problems if one.field == name]
        if self._refused is not None and self._refused.field == name:
            wrong.insert(0, self._said(self._refused.text))
        text = shown(value) if self._typed is None else self._typed.get(name, "")
        self._made[name] = Field(name=name, value=text, problems=tuple(dict.fromkeys(wrong)), options=options)
        return self._made[name]

    @property
    def made(self) -> Mapping[str, Field]:
        """All fields by their names."""
        return self._made

    @property
    def others(self) -> tuple[str, ...]:
        """Problems of the page that are about no field of it."""
        found = [self._said(one.text) for one in self._problems if one.field not in self._made]
        return tuple(dict.fromkeys(found))


def dataset_state(studio: Studio, draft: Draft) -> DatasetState | None:
    """Return the chosen data set, None where there is none."""
    name = draft.data.get("dataset")
    if not name or not ledger_exists(studio.state_paths.ledger_url):
        return None
    with suppress(Refusal), reader_of(studio.state_paths) as reader:
        return reader.dataset(str(name))
    return None


def dataset_page(studio: Studio, draft: Draft, fields: Fields) -> DatasetPage:
    """Which budget pays."""
    known: tuple[DatasetState, ...] = ()
    if ledger_exists(studio.state_paths.ledger_url):
        with reader_of(studio.state_paths) as reader:
            known = reader.datasets()
    fields.add("dataset", draft.data.get("dataset", ""))
    fields.add("new_dataset")
    fields.add("budget_epsilon", "1")
    fields.add("budget_delta", "1e-5")
    fields.add("rows_per_person", "1")
    fields.add("unit", "record", ("record", "record"), ("person", "person"), ("household", "household"))
    fields.add("unit_column")
    fields.add("relation", ADD_REMOVE, (ADD_REMOVE, "add_remove"), (REPLACEMENT, REPLACEMENT))
    fields.add("accounting", "additive", ("additive", "additive"), ("filter", "filter"))
    fields.add("expect")
    fields.add("survey_rate")
    state, epsilon = dataset_state(studio, draft), draft.tables.get("privacy", {}).get("epsilon")
    lasts = None
    if state is not None and state.filter_budget is None and isinstance(epsilon, int | Decimal) and epsilon > 0:
        lasts = int((state.account.epsilon_budget - state.account.epsilon_spent) / epsilon)
    return DatasetPage(
        fields=fields.made,
        known=known,
        chosen=str(draft.data.get("dataset", "")),
        pays_for=lasts,
        ledger=PASSWORD.sub("…@", studio.state_paths.ledger_url),
    )


def file_page(studio: Studio, draft: Draft, fields: Fields) -> FilePage:
    """Which records."""
    if (told := draft.notes.get("file_problem")) is not None:
        fields.add_problems([Problem(text=told[1], page="file", field=told[0])])
    records = draft.notes.get("records", "")
    if "records" in draft.notes and not (isinstance(records, int) and records > 0):
        fields.add_problems([Problem(text="records", page="file", field="records")])
    columns: tuple[tuple[str, str, int], ...] = ()
    headers = False
    if draft.data.get("source"):
        try:
            names = source_names(draft)
            columns = tuple((column.name, column.kind, len(column.labels)) for column in names.columns)
            headers = names.separator is not None
        except InputRefused as refusal:
            text = f"{refusal.what} {refusal.remedy}".strip()
            fields.add_problems([Problem(text=text, page="file", field="source")])
    data = draft.data
    fields.add("source", data.get("source", ""))
    fields.add("records", records)
    fields.add("public", draft.notes.get("public", ""))
    fields.add("separator", {"\t": "\\t"}.get(data.get("separator", ""), data.get("separator", "")))
    fields.add("encoding", data.get("encoding", ""), *((one, one or "utf-8") for one in ENCODINGS))
    fields.add("decimal", data.get("decimal", "."), (".", "."), (",", ","))
    for key in ("trim", "whole_floats"):
        fields.add(key, "yes" if data.get(key) is True else "no", ("no", "no"), ("yes", "yes"))
    fields.add("null", " ".join(one for one in data.get("null", []) if one))
    del studio
    return FilePage(fields=fields.made, columns=columns, headers=headers)


def columns_page(studio: Studio, draft: Draft, fields: Fields) -> ColumnsPage:
    """Which columns leave."""
    del studio
    rows: list[ColumnRow] = []
    data = draft.data
    names: tuple[Any, ...] = ()
    with suppress(InputRefused):
        names = source_names(draft).columns
    problems = problems_of_columns(draft)
    for number, column in enumerate(names):
        role = "release" if column.name in draft.columns else "leave"
        role = next((one for one in ("person", "household", "weight") if data.get(one) == column.name), role)
        declared = next((key for key in DECLARATIONS if key in draft.columns.get(column.name, {})), "")
        rows.append(
            ColumnRow(
                number=number,
                name=column.name,
                kind=column.kind,
                role=fields.add(
                    f"role-{number}",
                    role,
                    *((one, one) for one in ("release", "leave", "person", "household", "weight")),
                ),
                remark=remark_of(column),
                declared=declared,
                problems=tuple(problem.text for problem in problems if problem.page == f"columns/{number}"),
            )
        )
    return ColumnsPage(rows=tuple(rows), mark=columns_mark(draft, (column.name for column in names)))


def problems_of_columns(draft: Draft) -> list[Problem]:
    """Return what is wrong with single values, and hierarchies that their builders couldn't make."""
    names = known_names(draft)
    return [
        Problem(
            text=builder["wrong"],
            page=f"columns/{names.index(name)}",
            field="text",
            place=f"[columns.{name}].hierarchy",
        )
        for name, builder in draft.builders.items()
        if builder.get("wrong") and name in names and name in draft.columns
    ] + [
        Problem(text="undeclared", page=f"columns/{names.index(name)}", field="form", place=f"[columns.{name}]")
        for name, column in draft.columns.items()
        if name in names and not any(key in column for key in DECLARATIONS)
    ]


def column_page(studio: Studio, draft: Draft, fields: Fields, *, number: int) -> ColumnPage:
    """How a column's values become labels."""
    names = source_names(draft)
    column = names.columns[number]
    own = draft.columns.get(column.name, {})
    listed = known_names(draft)
    checked = checked_column(studio.folder, draft, column.name, listed) if own else None
    builder = draft.builders.get(column.name)
    wrong = bool(builder and builder.get("wrong"))
    declared = builder is not None or any(key in own for key in DECLARATIONS)
    labelled = bool(column.labels) and not declared
    # That nothing is declared yet is no mistake of who has come to declare it.
    fields.add_problems([one for one in problems_of_columns(draft) if one.text != "undeclared"])
    if checked is not None and not wrong and any(key in own for key in DECLARATIONS):
        fields.add_problems(list(checked.problems))
    if builder is not None:
        form = builder["form"]
    else:
        usual = "values" if labelled else USUAL_FORMS.get(column.kind, "values")
        form = next((key for key in DECLARATIONS if key in own), usual)
        form = {"hierarchy": "kept"}.get(form, form)
    ways = (*(("kept",) if form == "kept" else ()), "values", "interval", "dates", "tree", "prefixes", "file")
    fields.add("form", form, *((one, {"values": "list", "file": "file_way"}.get(one, one)) for one in ways))
    text = builder["text"] if builder else "\n".join(map(str, own.get("values", [])))
    if not text:
        text = outline_of(studio.folder, own)
    if not text and column.labels:
        text = "\n".join(dict.fromkeys(label.strip() for _, label in column.labels if label.strip()))
    fields.add("text", text)
    fields.add("keep", builder["keep"] if builder else "")
    fields.add("file", builder["file"] if builder else "")
    interval = own.get("interval") if isinstance(own.get("interval"), dict) else {}
    dates = own.get("dates") if isinstance(own.get("dates"), dict) else {}
    for key in ("lower", "upper", "widths"):
        fields.add(key, interval.get(key))
    for key in ("from", "to"):
        fields.add(key, dates.get(key))
    fields.add("day_levels", ", ".join(dates.get("levels", ["month", "year"])))
    for key in ("min_level", "max_level", "margin_level") if draft.paired else ("level",):
        fields.add(key, own.get(key))
    codes = own.get("codes") if isinstance(own.get("codes"), dict) else {}
    codes = label_codes(column.labels) if labelled else codes
    fields.add("codes", "\n".join(f"{label} = {shown(code)}" for label, code in codes.items()))
    fields.add("fold_case", "yes" if own.get("fold_case") is True else "no", ("no", "no"), ("yes", "yes"))
    later = [listed.index(name) for name in draft.columns if name in listed and listed.index(name) > number]
    return ColumnPage(
        number=number,
        name=column.name,
        remarks=(
            *((VALUE_LABELS,) if labelled else ()),
            *(() if builder or "values" in own else proposed_column(column.name, column.kind, None).remarks),
        ),
        fields=fields.made,
        levels=() if checked is None else checked.levels,
        paired=draft.paired,
        next_number=later[0] if later else None,
        mark=columns_mark(draft, listed),
    )


def matters_page(studio: Studio, draft: Draft, fields: Fields) -> MattersPage:
    """Which columns matter most."""
    del studio
    names = known_names(draft)
    blocks = draft.tables.get("blocks")
    themes = {name: table["columns"] for name, table in (blocks or {}).items() if isinstance(table, dict)}
    pinned = draft.notes.get(PINNED, []) if blocks is None else blocks.get("pinned", [])
    planning = tables_wanted(draft)
    way = "wanted" if planning else "one" if blocks is None else "themes" if themes else "found"
    options = (*(("wanted",) if planning else ()), "one", "found", "themes", "propose")
    fields.add("blocks", way, *((one, one) for one in options))
    fields.add("number", (blocks or {}).get("number"))
    fields.add("pairs", draft.tables.get("margins", {}).get("number"))
    if "weight" in draft.data:
        bounds = draft.data.get("weight_classes", {}).get("bounds")
        fields.add("weight_bounds", "" if bounds == "FILL IN" else bounds)
    columns = []
    for name, column in draft.columns.items():
        number = names.index(name) if name in names else 0
        weight = fields.add(f"weight-{number}", column.get("weight"))
        own = [theme for theme, listed in themes.items() if name in listed]
        theme = fields.add(f"theme-{number}", ", ".join(own))
        columns.append((name, weight, fields.add(f"pinned-{number}", "yes" if name in pinned else ""), theme))
    return MattersPage(
        paired=draft.paired,
        fields=fields.made,
        columns=tuple(columns),
        themes=tuple((name, ", ".join(listed)) for name, listed in themes.items()),
        computing=planning,
        mark=columns_mark(draft, names),
    )


def price_page(studio: Studio, draft: Draft, fields: Fields) -> PricePage:
    """The kind of release and its price."""
    privacy = draft.tables.get("privacy", {})
    state = dataset_state(studio, draft)
    planning = tables_wanted(draft)
    made = None if planning else _outlook_of(studio, draft, state)
    outlook = OUTLOOKS.get(repr(made), made, wait=WAIT) if made is not None else None
    if outlook and isinstance(outlook, str):
        words = {"delta": "delta", "the shares": "share", "sampling": "rate", "k ": "k"}
        about = next((field for word, field in words.items() if outlook.startswith(word)), "")
        fields.add_problems(
            [Problem(text=outlook, page="price", field=about or ("k" if draft.kind == "sampled" else "epsilon"))]
        )
    fields.add("kind", draft.kind, *((one, one) for one in PRICE_KEYS))
    for field, (table, key) in PRICE_KEYS[draft.kind].items():
        fields.add(field, draft.tables.get(table, {}).get(key), *((one, one) for one in CHOICES.get(field, ())))
    epsilon = privacy.get("epsilon")
    records = draft.notes.get("records")
    left = None
    if state is not None and state.filter_budget is None:
        left = float(state.account.epsilon_budget - state.account.epsilon_spent)
    return PricePage(
        kind=draft.kind,
        fields=fields.made,
        slider=shown(epsilon) if isinstance(epsilon, int | Decimal) else "1",
        outlook=outlook if isinstance(outlook, Outlook) else None,
        computing=planning or (made is not None and outlook is None),
        records=records if isinstance(records, int) else None,
        left=left,
        public=None if planning or not draft.columns else studio.previews.of(draft),
    )


def _outlook_of(studio: Studio, draft: Draft, state: DatasetState | None) -> Callable[[], Outlook | str] | None:
    """Return what computes the outlook, printed by its arguments; None where some of them is no number."""
    privacy, margins = draft.tables.get("privacy", {}), draft.tables.get("margins", {})
    rows = 1 if state is None else state.rows_per_person
    delta = privacy.get("delta")
    if draft.kind not in ("paired", "sampled"):
        return partial(_of_draft, studio.folder, toml_text(draft.tables))
    if not draft.paired:
        rate, k = draft.tables["sampling"].get("rate"), draft.tables.get("suppression", {}).get("k")
        if not (isinstance(rate, Decimal) and isinstance(k, int) and isinstance(delta, Decimal)):
            return None
        return partial(_computed, _sampled, k=k, rate=rate, delta=delta, rows_per_person=rows)
    epsilon = privacy.get("epsilon")
    shares = [margins.get(key) for key in ("share", "pair_share", "draw_share")]
    numbers = (epsilon, delta, *shares)
    if len(draft.columns) < 2 or not all(isinstance(one, int | Decimal) for one in numbers):
        return None
    blocks = draft.tables.get("blocks")
    found = None
    if blocks is not None:
        themes = sum(isinstance(table, dict) for table in blocks.values())
        number = blocks.get("number")
        found = themes or (number if isinstance(number, int) else None) or max(2, len(draft.columns) // 6)
    pairs, weighted = margins.get("number"), "weight" in draft.data
    # Each column is counted with the classes of the survey weight besides.
    pairs = pairs if isinstance(pairs, int) and pairs > 0 else proposed_pairs(len(draft.columns))
    pairs += weighted * len(draft.columns)
    return partial(
        _computed,
        paired_outlook,
        epsilon=Decimal(epsilon),
        delta=Decimal(delta),
        columns=len(draft.columns) + weighted,
        blocks=found,
        rows_per_person=rows,
        k=1,
        shares=tuple(map(Decimal, shares)),
        pairs=pairs,
    )


def _computed(compute: Callable[..., Outlook], **of: Any) -> Outlook | str:  # noqa: ANN401 - of the outlook
    try:
        return compute(**of)
    except Refusal as refusal:
        return f"{refusal.what} {refusal.remedy}".strip()
    except ValueError as error:
        return f"{error}."


def _of_draft(folder: StudioFolder, text: str) -> Outlook | str:
    """Return what a release would tell whose columns have each one level; in words what is wrong with its price."""
    with folder.written(text) as path:
        try:
            return fixed_outlook(read_spec(path, output=folder.folder))
        except Refusal as refusal:
            of_price = any(f"[{table}]" in refusal.where for table in KIND_TABLES)
            return f"{refusal.what} {refusal.remedy}".strip() if of_price else ""


def _sampled(*, k: int, rate: Decimal, delta: Decimal, rows_per_person: int) -> Outlook:
    charged = price(StronglySafeRelease(k=k, sampling_rate=rate), delta=delta, rows_per_person=rows_per_person)
    return sampled_outlook(k=k, rate=rate, epsilon=charged.epsilon, delta=charged.delta)


DECISIONS: Mapping[str, Callable[[Studio, Draft, Fields], Any]] = {
    "dataset": dataset_page,
    "file": file_page,
    "columns": columns_page,
    "matters": matters_page,
    "price": price_page,
}
