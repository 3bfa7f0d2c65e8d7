"""One preview: what is asked for is checked, the population counted, and what it predicts shown and written."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
from rich.table import Table
from rich.text import Text

from ....accounting.descriptions.description_registry import description_of
from ....accounting.theory.planning.deletion_proposal import propose_deletion, stage_levels
from ....flows.paths import resolve_paths
from ....flows.releases.deletion_request import DeletionRequest
from ....flows.releases.release_kind import WITHOUT_DOCUMENTS, NoDocument, Suppressing, release_kind
from ....flows.spec import parse_spec, read_spec
from ....mechanisms.generalization_map import GeneralizationMap
from ....mechanisms.kernel.amounts import amount_shown, counted
from ....mechanisms.kernel.errors import InputRefused
from ....mechanisms.kernel.group_counts import GroupCounts
from ....mechanisms.kinds.deletion import DeletionRelease
from ....mechanisms.map_selection.choice import Levels, MapChoice
from ....mechanisms.pair_model.blocks import Block, BlockChoice
from ....mechanisms.pair_model.paired_plan import RowMaps
from ....mechanisms.wording import grouped
from ....tasks.request import Request
from ...release_paths import require_elsewhere, write_new
from ...terminal.explanation import TOLD_HEADERS, explanation, told_in_words, told_rows
from ...terminal.stages import console as own_console
from ..document_registry import Document, verified_release
from ..rendering import page, percent
from .changes import TellingRecords
from .deletion_forecast import DeletionForecast, StageForecast, forecast_deletion, forecast_tables
from .reference_population import REMEDY, WHY, ReferencePopulation, reference_of_records, reference_of_release
from .suppression_forecast import MOST_MAPS, ByPrice, Forecast, Lost, Suggestion, best_levels, forecast, suggestions

BAR = 16
MOST_WITH_BARS = 5
LONGEST_VALUE = 40
LEAST_TOLD = 0.0005
FOUND = (
    "Levels, and blocks where they aren't written, are those that the release's rule finds on these records without "
    "noise; a release finds its own."
)
Write = Callable[[float], str]
"""How a number, or a share that is not drawn as a bar, is written."""


class PreviewRow(NamedTuple):
    """A row of a table: texts, and shares that would be lost, drawn as bars; whether it is what is specified."""

    cells: tuple[str | float, ...]
    chosen: bool = False


class PreviewTable(NamedTuple):
    """A table of a preview; its note says how it is to be read, and is empty where the title says it."""

    title: str
    note: str
    headers: tuple[str, ...]
    rows: list[PreviewRow]


def preview_tables(
    prediction: Forecast | DeletionForecast, helpful: Sequence[Suggestion], *, number: Write, percent: Write
) -> dict[str, PreviewTable]:
    """Return the tables that have rows, by a word for each, in their order."""
    tables = _column_tables(prediction, number=number, percent=percent)
    if isinstance(prediction, DeletionForecast):
        tables |= _deletion_tables(prediction, number, percent)
    else:
        tables |= _suppression_tables(prediction, helpful, number=number, percent=percent)
    return {name: table for name, table in tables.items() if table.rows}


def _column_tables(
    prediction: Forecast | DeletionForecast, *, number: Write, percent: Write
) -> dict[str, PreviewTable]:
    """Return values that aren't declared, and what leaving out or coarsening columns would bring back."""

    def told(telling: TellingRecords) -> tuple[str, ...]:
        return (number(telling.informative), f"{telling.columns_told}", percent(telling.information))

    figures = ("informative", "columns told", "information")
    kept = [PreviewRow((one.column, ", ".join(map(str, one.levels)), *told(one.telling))) for one in prediction.kept]
    if kept:
        kept.append(PreviewRow(("all, as specified •", "–", *told(prediction.telling)), chosen=True))
    undeclared = [
        PreviewRow((one.column, ", ".join(map(_quoted, one.values)) or "missing values", one.share))
        for one in prediction.undeclared
    ]
    changes = [PreviewRow((one.column, one.change, *told(one.telling))) for one in prediction.changes]
    return {
        "undeclared": PreviewTable(
            "Published as * already at the finest level",
            "Shares of these public records, and the first values that aren't declared. Declare them, or say how they "
            "are written: docs/starting-from-a-file.md, messy values.",
            ("column", "for example", "become *"),
            undeclared,
        ),
        "kept": PreviewTable(
            "The columns that are worth keeping",
            "Begun with no column, each adds most of all to those above it, at its own or coarser levels; the others "
            "would take away more than they tell. Information: of what the finest values of all columns would tell of "
            "everybody. The noise is as specified; with fewer margins it would be less.",
            ("column", "level at each stage", *figures),
            kept,
        ),
        "changes": PreviewTable(
            "One column left out, or a level coarser",
            "Each alone, the others as they are; those with most information come first.",
            ("column", "change", *figures),
            changes,
        ),
    }


def _suppression_tables(
    prediction: Forecast, helpful: Sequence[Suggestion], *, number: Write, percent: Write
) -> dict[str, PreviewTable]:
    suggested = [
        PreviewRow((one.what, one.suppressed, number(one.records), percent(one.information), amount_shown(one.epsilon)))
        for one in helpful
    ]
    columns = [
        PreviewRow((one.column, one.suppressed, f"{100 * one.saved:.1f} points")) for one in prediction.by_column
    ]
    levels = [
        PreviewRow((one.column, _marked(f"{one.level}", one.chosen), percent(one.kept), one.suppressed), one.chosen)
        for one in prediction.by_level
    ]
    return {
        "columns": PreviewTable(
            "Which columns cost most",
            "What would be suppressed if the column were left out of the release.",
            ("column", "suppressed without it", "saves"),
            columns,
        ),
        "levels": PreviewTable(
            "Level by level",
            "One column at another level, the others as they are; • marks the level that is previewed.",
            ("column", "level", "information kept", "suppressed"),
            levels,
        ),
        "lost": PreviewTable(
            "Who is lost more than others",
            "Labels, and pairs of labels, whose people are suppressed more often than all people together; those who "
            "lose most people first.",
            ("people with", "people", "suppressed"),
            _lost_rows((*prediction.by_label, *prediction.by_pair), number),
        ),
        "by_k": _priced("Other thresholds at this rate", prediction.by_k, number),
        "by_rate": _priced("Other rates at this threshold", prediction.by_rate, number),
        "same_price": _priced(
            "Other rates at no higher price, each with its least threshold", prediction.same_price, number
        ),
        "suggested": PreviewTable(
            "Worth a thought",
            "Each tried alone on the same people. Information: what the map keeps of that at the finest levels that "
            "are known, by the columns' weights.",
            ("change", "suppressed", "published", "information", "ε"),
            suggested,
        ),
    }


def _deletion_tables(prediction: DeletionForecast, number: Write, percent: Write) -> dict[str, PreviewTable]:
    several = len(prediction.stages) > 1
    tables = [
        PreviewRow(
            (
                one.block,
                ", ".join(one.columns),
                *map(number, (one.groups, one.published)),
                f"{one.telling.columns_told} of {len(one.columns)}",
                percent(one.telling.information),
                one.deleted,
            )
        )
        for one in prediction.tables
    ]
    stages = [_stage_row(stage, number) for stage in prediction.stages]
    own = ("deletion, as specified •", f"{prediction.k}", "–", number(prediction.published), number(prediction.groups))
    sampled = [PreviewRow((*own, "–", prediction.deleted), chosen=True)] if prediction.sampled else []
    for one in prediction.sampled:
        release = f"sampled, map of stage {one.stage}" if several else "sampled, same map"
        published = (number(one.records), number(one.groups), f"{one.suppressed:.1%}")
        lost = 1.0 - one.records / prediction.people
        sampled.append(PreviewRow((release, f"{one.k}", f"{one.rate:g}", *published, lost)))
    prices = []
    for point in prediction.by_epsilon:
        noise = (f"{point.expected_deletion:.1f}", f"{point.largest_deletion}")
        epsilon, counts = _marked(amount_shown(point.epsilon), point.chosen), (point.published, point.groups)
        prices.append(PreviewRow((epsilon, *noise, *map(number, counts), point.deleted), point.chosen))
    return {
        "tables": PreviewTable(
            "Table by table",
            "Each is of all records. Columns told: of at least half of its records. Information: of what the finest "
            "values of its columns would tell of everybody.",
            ("table", "columns", "groups", "records", "columns told", "information", "deleted"),
            tables,
        ),
        "stages": PreviewTable(
            "Stage by stage",
            "What a stage withholds goes on to the next; at the last it is deleted for good. Groups: combinations of "
            "labels that somebody has.",
            ("stage", "levels", "groups", "of them published", "records", "published", "withheld"),
            stages,
        ),
        "members": PreviewTable(
            "The table of members, stage by stage",
            "Of each unit the members that may be in it.",
            ("stage", "levels", "groups", "of them published", "members", "published", "withheld"),
            [_stage_row(stage, number) for stage in prediction.members],
        ),
        "sampled": PreviewTable(
            "What sampling would publish at the same price",
            "By the map of each stage, at the rate that publishes most, with the least threshold that costs no more. "
            "Suppressed: of the sampled records.",
            ("release", "k", "rate", "records", "groups", "suppressed", "not published"),
            sampled,
        ),
        "by_epsilon": PreviewTable(
            "Other prices at the same δ",
            "With the noise that follows from each; • marks the specification's.",
            ("ε", "expected deletion", "at most", "records", "groups", "deleted"),
            prices,
        ),
        "lost": PreviewTable(
            "Who is lost more than others",
            "Labels of the last stage whose people are deleted more often than all people together; those who lose "
            "most people first.",
            ("people with", "people", "deleted"),
            _lost_rows(prediction.by_label, number),
        ),
    }


def _stage_row(stage: StageForecast, number: Write) -> PreviewRow:
    levels = ", ".join(f"{name} {level}" for name, level in stage.levels.items())
    records = map(number, (stage.groups, stage.published_groups, stage.left, stage.published))
    named = f"{stage.block}, {stage.stage}" if stage.block else f"{stage.stage}"
    return PreviewRow((named, levels, *records, stage.withheld))


def _lost_rows(found: Iterable[Lost], number: Write) -> list[PreviewRow]:
    return [
        PreviewRow(
            (", ".join(map(" ".join, zip(one.columns, one.labels, strict=True))), number(one.people), one.suppressed)
        )
        for one in found
    ]


def _priced(title: str, points: Iterable[ByPrice], number: Write) -> PreviewTable:
    rows = []
    for one in points:
        epsilon = "none" if one.epsilon is None else amount_shown(one.epsilon)
        price = (_marked(f"k = {one.k}", one.chosen), f"{one.rate:g}", epsilon)
        rows.append(PreviewRow((*price, one.suppressed, number(one.records)), one.chosen))
    return PreviewTable(title, "", ("threshold", "rate", "ε", "suppressed", "published"), rows)


def _marked(text: str, chosen: bool) -> str:
    return f"{text} •" if chosen else text


def _quoted(value: str) -> str:
    """Return a value of public records on one line, cut where it is long."""
    return json.dumps(value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}…", ensure_ascii=False)


def told_words(prediction: Forecast | DeletionForecast) -> str:
    """Return how much the published records would tell."""
    told, columns = prediction.telling, counted(prediction.columns, "column")
    if isinstance(prediction, DeletionForecast) and prediction.tables:
        return (
            f"About {told.informative:,.0f} of the {prediction.published:,.0f} published rows of "
            f"{len(prediction.tables)} tables would be informative, with a label that isn't *; in each table at least "
            f"half would tell {told.columns_told} columns or more."
        )
    return (
        f"About {told.informative:,.0f} of the {prediction.published:,.0f} published records would be informative, "
        f"with a label that isn't *; at least half would tell {told.columns_told} of {columns} or more."
    )


def lost_words(prediction: Forecast | DeletionForecast) -> str:
    """Return what share of the records would be lost; records that tell nothing in any column among them."""
    if isinstance(prediction, Forecast):
        return f"Of the sampled records {prediction.estimate.suppressed:.1%} would be suppressed."
    deleted = f"{prediction.deleted:.1%} would be deleted"
    starred = (prediction.published - prediction.telling.informative) / prediction.people if prediction.people else 0.0
    if starred < LEAST_TOLD:
        return f"Of the records {deleted}."
    nothing = min(1.0, prediction.deleted + starred)
    return f"Of the records {nothing:.1%} would tell nothing: {deleted}, {starred:.1%} published as * in every column."


def print_preview(made: Preview) -> None:
    """Write a preview to standard output."""
    prediction, helpful = made.forecast, made.suggestions
    out = own_console(highlight=False)
    out.print(Text(lost_words(prediction), style="bold"))
    said = (
        f"Looked at: {prediction.crowd}, standing for {prediction.people:,.0f} people. About "
        f"{prediction.published:,.0f} records in {prediction.published_groups:,.0f} groups would be published, for "
        f"ε = {amount_shown(prediction.epsilon)} at δ = {amount_shown(prediction.delta)}."
    )
    if isinstance(prediction, DeletionForecast):
        said += (
            f" A group loses {prediction.expected_deletion:.1f} records at a stage in expectation, and "
            f"{prediction.largest_deletion} at most."
        )
    out.print(Text(said))
    out.print(Text(told_words(prediction)))
    for remark in prediction.remarks:
        out.print(Text(remark, style="dim"))
    tables = preview_tables(prediction, helpful, number="{:,.0f}".format, percent="{:.1%}".format)
    for table in (*made.told_table.values(), *tables.values()):
        shown = Table(*table.headers, title=table.title, title_justify="left", title_style="bold")
        for row in table.rows:
            shown.add_row(*(_cell(cell, narrow=len(row.cells) > MOST_WITH_BARS) for cell in row.cells))
        if table.headers == TOLD_HEADERS:
            shown.caption, shown.caption_justify = table.note, "left"
        out.print()
        out.print(shown)
    if isinstance(prediction, Forecast) and not helpful:
        out.print("No single step would help clearly.")
    out.print("The private records were not read, and nothing was charged.")


def _cell(cell: str | float, *, narrow: bool) -> Text:
    """Return a text, or a share as blocks with its percentage."""
    if isinstance(cell, str):
        return Text(cell, overflow="fold")
    filled = round(cell * BAR)
    return Text(f"{cell:.1%}" if narrow else f"{'█' * filled}{'░' * (BAR - filled)} {cell:6.1%}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """What a release would suppress or delete, predicted on records that may be looked at.

    Args:
        forecast: what would be published and lost, by column, level, label, threshold and rate; of a deletion release
            by stage, label and price.
        suggestions: what would lose less, each with its price; none for a deletion release.
        request: the specification.
    """

    forecast: Forecast | DeletionForecast
    suggestions: tuple[Suggestion, ...]
    request: Request

    def __repr__(self) -> str:
        """Return what would be suppressed, or deleted, in short."""
        if isinstance(self.forecast, DeletionForecast):
            return f"Preview(label={self.request.label!r}, deleted={self.forecast.deleted:.3f})"
        return f"Preview(label={self.request.label!r}, suppressed={self.forecast.estimate.suppressed:.3f})"

    @property
    def facts(self) -> dict[str, Any]:
        """What `crowdblend preview --json` prints."""
        facts = dataclasses.asdict(self.forecast) | {
            "suggestions": [dataclasses.asdict(one) for one in self.suggestions]
        }
        return facts | ({"told": self.told} if isinstance(self.forecast, DeletionForecast) else {})

    @property
    def told(self) -> dict[str, Any] | None:
        """What will be told of each column, and how exactly; None where no pairs are chosen."""
        return explanation(self.request, records=max(1, round(self.forecast.people))).get("told")

    @property
    def told_table(self) -> dict[str, PreviewTable]:
        """The same as a table; none where there is nothing to be told."""
        explained = explanation(self.request, records=max(1, round(self.forecast.people)))
        if "told" not in explained:
            return {}
        rows = [PreviewRow(row) for row in told_rows(explained)]
        return {
            "told": PreviewTable(
                "What will be told of each column", told_in_words(explained["told"]), TOLD_HEADERS, rows
            )
        }

    def write_page(self, path: Path | str) -> None:
        """Write the page with pictures into a new file.

        Args:
            path: the new file (.html).

        Raises:
            InputRefused: nothing may be written there.
        """
        write_new(Path(path), preview_texts(self)[".html"], request=self.request)


def preview_texts(made: Preview) -> dict[str, str]:
    """Return the page with pictures."""
    prediction = made.forecast
    template = "preview_deletion.html" if isinstance(prediction, DeletionForecast) else "preview.html"
    return {
        ".html": page(
            template,
            prediction=prediction,
            name=made.request.label,
            lost=lost_words(prediction),
            told=told_words(prediction),
            tables={
                **made.told_table,
                **preview_tables(prediction, made.suggestions, number=grouped, percent=percent),
            },
        )
    }


PREVIEW_PAGE = Document(about=Preview, texts=preview_texts)


def preview(
    spec: Path | str,
    *,
    public: Path | str | None = None,
    release: Path | str | None = None,
    separator: str | None = None,
    population: int | None = None,
    levels: Mapping[str, int] | None = None,
) -> Preview:
    """Foretell what a release would suppress or delete; never on the private records, and nothing is charged.

    Args:
        spec: the specification's file.
        public: public or synthetic records with the specification's columns: file, folder, glob or URL.
        release: folder of a past release, or of a charged noisy histogram, instead of public records.
        separator: of public CSV records; None takes the specification's.
        population: how many people the private records are of, if that is public.
        levels: other levels, by column, than the specification's.

    Raises:
        InputRefused: the specification, the records or a level is wrong; or the records are the private ones.
    """
    request = _request(Path(spec))
    mechanism = _predicted(request)
    if (public is None) is (release is None):
        _refuse_without_crowd(request, both=public is not None)
    if release is not None:
        if population is not None:
            raise InputRefused(
                "with --release the number of people follows from the release itself.", where="--population"
            )
        reference = reference_of_release(request, verified_release(Path(release)))
    else:
        home = resolve_paths().home
        reference = reference_of_records(request, str(public), separator=separator, population=population, home=home)
        reference = dataclasses.replace(reference, remarks=(*reference.remarks, *_proposal(request, reference)))
    if description_of(mechanism).deletion is not None:
        return _of_deletion(request, reference, levels or {})
    mechanism = cast("Suppressing", mechanism)
    prediction = forecast(request, mechanism, reference, levels=_levels(request, mechanism, reference, levels or {}))
    return Preview(
        forecast=prediction, suggestions=tuple(suggestions(request, mechanism, reference, prediction)), request=request
    )


def require_place(html: Path, *, spec: Path) -> None:
    """Refuse a place for a preview's page, before anything is predicted.

    Args:
        html: the new file.
        spec: the specification's file.

    Raises:
        InputRefused: nothing may be written there, or the specification is wrong.
    """
    require_elsewhere(html, request=_request(spec))


def not_a_level() -> InputRefused:
    """Return the refusal of a level that names no column, or isn't written as one."""
    return InputRefused("levels are given as column=level, for columns of the specification.", where="--level")


def _proposal(request: Request, reference: ReferencePopulation) -> Iterator[str]:
    """What is proposed for about so many people, these columns and this price, from nothing else; a sentence or none.

    None where a price is for several releases, or for several records of a person.
    """
    charged, people = request.price, round(reference.people)
    if isinstance(request, DeletionRequest) and request.paired is not None:
        return  # it chooses pairs itself, which what is proposed doesn't
    if charged.releases != 1 or charged.rows_per_person != 1 or people < 1:
        return
    about = round(people, 1 - len(str(people)))
    columns = [[max(1, one.size(level) - 1) for level in range(one.levels)] for one in reference.hierarchies]
    try:
        proposal = propose_deletion(columns, records=about, epsilon=charged.epsilon, delta=charged.delta)
    except InputRefused:
        return
    chains = (
        f"{name} {[stage_levels(labels, records=about)[place] for place in proposal.stages]}"
        for name, labels in zip(reference.names, columns, strict=True)
    )
    yield (
        f"For about {about:,} people, these labels and ε = {amount_shown(charged.epsilon)}, pairs of columns are "
        f"expected to be kept best by [deletion] with levels {', '.join(chains)} and [margins] "
        f"share = {proposal.margin_share}: docs/starting-from-a-file.md says by what "
        "measure, and docs/choosing.md when another kind is better."
    )
    if not proposal.enough:
        yield (
            f"These columns are too many for so few people: the coarsest labels have {proposal.combinations:,} "
            f"combinations, and there are people enough for those of {proposal.fitting} columns. Most records would be "
            "deleted for good, or tell next to nothing."
        )


def _request(spec: Path) -> Request:
    """Return what the specification asks for; a preview needs no output, so one that names none has one of its own."""
    return read_spec(spec, output=spec.parent / "preview" if parse_spec(spec).release.output is None else None)


def _predicted(request: Request) -> Suppressing | DeletionRelease:
    predicted = release_kind(request.kind).preview(request.mechanism)
    if request.thinning is not None:
        predicted = WITHOUT_DOCUMENTS
    if isinstance(predicted, NoDocument):
        raise InputRefused(
            f"there is no preview of {predicted.named('of')}.",
            where=request.label,
            remedy="`crowdblend explain` shows what it costs.",
        )
    if predicted is None:
        raise InputRefused(
            "this release suppresses nothing: its noise is what it costs, and that is known beforehand.",
            where=request.label,
            remedy="`crowdblend explain` shows how accurate it will be.",
        )
    return predicted


def _refuse_without_crowd(request: Request, *, both: bool) -> NoReturn:
    if both:
        raise InputRefused(
            "a preview is on one reference population.", where="--public, --release", remedy="Leave one of them out."
        )
    raise InputRefused(
        f"the records of '{request.dataset}' themselves aren't looked at for a preview. {WHY}",
        where="--public, --release",
        remedy=REMEDY,
    )


def _of_deletion(request: Request, reference: ReferencePopulation, wanted: Mapping[str, int]) -> Preview:
    """By the levels of each stage; others can be asked for where there is a single one."""
    if not isinstance(request, DeletionRequest):
        raise TypeError("another kind of release was charged as a deletion")
    if wanted and request.mechanism.stages > 1:
        raise InputRefused(
            "a release with several stages is previewed as it is specified.",
            where="--level",
            remedy="Change the levels of its columns in the specification.",
        )
    if request.blocks is not None or request.free:
        rows = _found_rows(request, reference)
        if request.free or isinstance(request.blocks, BlockChoice):
            reference = dataclasses.replace(reference, remarks=(*reference.remarks, FOUND))
    else:
        rows = (RowMaps(Block("", tuple(range(len(reference.names)))), request.maps),)
    tables = {}
    for block, maps in rows:
        some = reference if len(block.columns) == len(reference.names) else reference.of_columns(block.columns)
        levels = (_previewed([column.level for column in one.columns], some, wanted) for one in maps)
        tables[block.name] = (some, tuple(levels))
    if request.blocks is not None:
        made = forecast_tables(request, reference, tables=tables)
    else:
        [(reference, chain)] = tables.values()
        made = forecast_deletion(request, reference, chain=chain)
    return Preview(forecast=made, suggestions=(), request=request)


def _found_rows(request: DeletionRequest, reference: ReferencePopulation) -> tuple[RowMaps, ...]:
    """Return the tables of rows that the release's own rule finds from exact counts of the reference population."""
    plan = request.paired
    if plan is None:
        raise TypeError("rows that follow from what is published, without pairs")
    levels = tuple(column.level for column in plan.counted.columns)
    if any(level < known for level, known in zip(levels, reference.base, strict=True)):
        raise InputRefused(
            "levels are found by counts of the finest labels, and this release has coarser ones.",
            where="--release",
            remedy="Name public records by --public, or give the columns' levels.",
        )
    groups = reference.at(levels)
    counts = np.rint(groups.counts * reference.scale).astype(np.int64)
    keys = plan.counted.keys(list(groups.codes))
    order = np.lexsort(keys[::-1])
    return plan.rows_of_public_records(GroupCounts(keys[:, order], counts[order]))


def _levels(
    request: Request, mechanism: Suppressing, reference: ReferencePopulation, wanted: Mapping[str, int]
) -> Levels:
    """The levels of the previewed map: the specification's, or the best that a draw could give; or those asked for."""
    match request.recoding:
        case GeneralizationMap(columns=fixed):
            levels = [column.level for column in fixed]
        case MapChoice(lattice=lattice):
            best = best_levels(request, mechanism, reference) if not wanted else None
            if best is None and not wanted:
                raise InputRefused(
                    f"there are more than {MOST_MAPS} maps to draw from, and none of them is named for the preview.",
                    where="--level",
                    remedy="Name levels, for example --level age=2; columns that are not named have their coarsest.",
                )
            levels = list(best or lattice.coarsest)
    return _previewed(levels, reference, wanted)


def _previewed(levels: list[int], reference: ReferencePopulation, wanted: Mapping[str, int]) -> Levels:
    """Return the levels with those that are asked for; refused where they can't be previewed."""
    for name, level in wanted.items():
        if name not in reference.names or level < 0:
            raise not_a_level()
        place = reference.names.index(name)
        if level >= reference.hierarchies[place].levels:
            raise InputRefused(f"the column {name!r} has no level {level}.", where="--level")
        levels[place] = level
    for name, level, least in zip(reference.names, levels, reference.base, strict=True):
        if level < least:
            raise InputRefused(
                f"the column {name!r} is known at level {least} and coarser alone, not at level {level}.",
                where="--release" if reference.scale > 1 else "--level",
                remedy=f"Try --level {name}={least}.",
            )
    return tuple(levels)
