"""What a specification would do and cost, from its public parts alone: rows for `--json`, tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
from rich.console import Console
from rich.table import Table

from ...accounting.kernel.prices.registry import mechanism_of_record, mechanism_record
from ...flows.releases.release_kind import kind_of_mechanism, release_kind
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.hierarchies.declare import Hierarchy
from ...mechanisms.kernel.amounts import amount_shown, counted
from ...mechanisms.map_selection.choice import MapChoice, information_kept
from ...tasks.request import Request
from .stages import console as own_console

if TYPE_CHECKING:
    from ...mechanisms.inclusion import InclusionColumn
    from ...mechanisms.kernel.contributions import ContributionLimit
    from ..schemas.outputs import ExplainedColumn, ExplainedLevel, Included, Limit


MOST_EXAMPLES = 3


def explanation(request: Request, *, records: int | None = None) -> dict[str, Any]:
    """Return what `explain --json` prints.

    PRIVACY: nothing here is of the records: the source is not opened, and there need be none.

    Args:
        request: what is asked for.
        records: about how many there are, as somebody says; None where nobody does.
    """
    mechanism, charged, paper = request.mechanism, request.price, request.paper_price
    of_kind = dict(release_kind(request.kind).explain(request))
    if "told" in of_kind:
        of_kind["told"] = with_shares(of_kind["told"], records=records)
    return {
        "dataset": request.dataset,
        "mechanism": mechanism_record(mechanism),
        "epsilon": float(charged.epsilon),
        "delta": float(charged.delta),
        "epsilon_paper": None if paper is None else float(paper.epsilon),
        "rule": charged.rule,
        "releases": charged.releases,
        "limit": limit_facts(request),
        **inclusion_facts(request.thinning),
        "columns": list(
            _columns(
                request.recoding,
                stages=[one["levels"] for one in of_kind.get("stages", [])],
                bounds=of_kind.get("chosen_levels", {}).get("columns", {}),
            )
        ),
        **of_kind,
    }


def with_shares(told: Mapping[str, Any], *, records: int | None) -> dict[str, Any]:
    """Return what will be told of each column with its standard error as a share of so many records."""
    columns = [
        {**column, "share": None if records is None else column["standard_error"] / records}
        for column in told["columns"]
    ]
    return {**told, "columns": columns, "records": records}


def limit_facts(request: Request) -> Limit | None:
    """Whose records are limited, by which column and to how many, or make one; None where nothing limits them."""
    limit, rule = request.limit, request.unit_rule
    if limit is None:
        return None
    found: Limit = {"unit": limit.unit, "column": limit.column, "records": limit.records}
    return found if rule is None else {**found, "derived": rule.in_words()}


def inclusion_facts(thinning: InclusionColumn | None) -> Included:
    """Return the column of rates that sampled records are kept by, as an entry; none where all have one rate."""
    if thinning is None:
        return {}
    return {"inclusion": {"column": thinning.column.name, "rates": [str(rate) for rate in thinning.declared]}}


def limit_in_words(limit: ContributionLimit) -> str:
    """Whose presence is hidden, and how many records count, in a sentence's words."""
    if limit.together:
        return f"each {limit.unit} of the column '{limit.column}', all of whose records make one record"
    few = "one record" if limit.records == 1 else f"{limit.records} records"
    return f"each {limit.unit} of the column '{limit.column}', of which at most {few} of all files together counts"


def _columns(
    recoding: GeneralizationMap | MapChoice,
    *,
    stages: Sequence[Mapping[str, int]],
    bounds: Mapping[str, Mapping[str, Any]],
) -> Iterator[ExplainedColumn]:
    match recoding:
        case GeneralizationMap(columns=fixed):
            for column in fixed:
                possible, weight = {column.level, *(levels[column.name] for levels in stages)}, None
                if (found := bounds.get(column.name)) is not None:
                    possible = set(range(found["min_level"], found["max_level"] + 1))
                    weight = Decimal(found["weight"])
                yield _column(column.name, column.hierarchy, possible, weight=weight)
        case MapChoice(lattice=lattice):
            for place, candidate in enumerate(lattice.columns):
                possible = set(range(candidate.min_level, candidate.max_level + 1))
                if lattice.candidates is not None:
                    possible = {stage[place] for one in lattice.candidates for stage in lattice.by_stage(one)}
                yield _column(candidate.name, candidate.hierarchy, possible, weight=candidate.weight)
        case _:
            assert_never(recoding)


def _column(name: str, hierarchy: Hierarchy, possible: set[int], *, weight: Decimal | None) -> ExplainedColumn:
    levels: list[ExplainedLevel] = []
    for level in range(hierarchy.levels):
        sizes = hierarchy.label_sizes(level) or {0: 0}
        levels.append(
            {
                "level": level,
                "labels": sum(sizes.values()),
                "values_per_label": (min(sizes), max(sizes)),
                "information_kept": float(information_kept(hierarchy, level)),
                "examples": _examples(hierarchy, level),
                "possible": level in possible,
            }
        )
    return {
        "column": name,
        "weight": None if weight is None else float(weight),
        "min_level": min(possible),
        "max_level": max(possible),
        "levels": levels,
    }


def _examples(hierarchy: Hierarchy, level: int) -> list[str]:
    """Return a few labels: the first, the middle and the last, but for the bucket where there is another."""
    size = hierarchy.size(level)
    codes = sorted({code for code in (1, (size + 1) // 2, size - 1) if 0 < code < size}) or [0]
    return hierarchy.labels(np.array(codes[:MOST_EXAMPLES], dtype=np.int64), level)


def print_explanation(explained: Mapping[str, Any], console: Console | None = None) -> None:
    """Write the tables to the console (standard output where none is given)."""
    out = console or own_console()
    out.print(_costs(explained))
    if "told" in explained:
        out.print(_told(explained))
    out.print(_levels(explained))


def _costs(explained: Mapping[str, Any]) -> Table:
    selection, releases = explained["selection"], explained["releases"]
    table = Table("", "value", "meaning", title="What this would do and cost", title_justify="left")
    many = "" if releases == 1 else f", all {releases} releases together"
    rows: list[tuple[str, object, str]] = list(_parameters(explained))
    if selection is not None:
        on = "all records" if selection["rate"] is None else f"a fresh sample at rate {selection['rate']}, spent too"
        steps = "" if selection["steps"] is None else f" of {selection['steps']} steps"
        rows += [
            ("draw", f"{selection['draw']}{steps}", f"made on {on}"),
            ("k′", selection["threshold"], "groups below this size there count nothing for a map"),
            ("ε of one choice", amount_shown(selection["epsilon_of_choice"]), "of drawing the map"),
            ("ε of the release", amount_shown(selection["epsilon_of_release"]), f"with the map drawn{many}"),
        ]
    paper = "none" if explained["epsilon_paper"] is None else amount_shown(explained["epsilon_paper"])
    rows += [
        ("ε", amount_shown(explained["epsilon"]), f"what would be charged{many}"),
        ("δ", amount_shown(explained["delta"]), f"what would be charged{many}"),
        ("ε by the paper", paper, "the same by the published bound"),
    ]
    if (inclusion := explained.get("inclusion")) is not None:
        rates = inclusion["rates"]
        rows.append(("rates", f"{rates[0]} to {rates[-1]}", f"each record's own, by the column {inclusion['column']}"))
    if (limit := explained["limit"]) is not None:
        few = f"of each at most {limit['records']} count, chosen at random"
        derived = limit.get("derived", {})
        rows.append((limit["unit"], limit["column"], "of each all records make one record" if derived else few))
        rows += [(f"column {name}", "derived", words) for name, words in derived.items()]
    for name, value, meaning in rows:
        table.add_row(name, str(value), meaning)
    return table


def _parameters(explained: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Yield what the mechanism has, with a meaning for each."""
    mechanism, selection = explained["mechanism"], explained["selection"]
    if "cells" not in explained and "sampling_rate" in mechanism:
        yield "maps", explained["maps"], "fixed beforehand" if selection is None else "candidates for the draw"
        yield "k", mechanism["k"], "groups with fewer sampled records are dropped"
        yield "sampling rate", mechanism["sampling_rate"], "probability that a record is sampled"
        yield from _margins(explained)
        return
    yield "mechanism", mechanism["kind"], "docs/mechanisms says what it publishes and guarantees"
    if "cells" in explained:
        yield "cells", explained["cells"], "declared, and all of them published"
    if selection is not None:
        yield "maps", explained["maps"], "candidates for the draw; where they have several stages, chains of maps"
    meanings = kind_of_mechanism(mechanism_of_record(mechanism)).meanings
    for name, value in mechanism.items():
        if name in meanings:
            yield name, value, meanings[name]
    if "half_width" in explained:
        width, share = explained["half_width"], explained["confidence"]
        yield "accuracy", f"± {width:.6g}", f"of each answer before any scaling up, with confidence {share:g}"
    if "largest_deletion" in explained:
        yield "expected deletion", f"{explained['expected_deletion']:.1f}", "records that a group loses at a stage"
        yield "largest deletion", explained["largest_deletion"], "records that a group loses at a stage"
        for number, stage in enumerate(explained["stages"], start=1):
            yield f"stage {number}", *_published_at(stage)
    yield from _margins(explained)
    yield from _chosen(explained)
    yield from _members(explained)
    if "people_for_1_percent" in explained:
        people = explained["people_for_1_percent"]
        yield "people", f"{people:,}", "so many reports make every standard error at most 1% of them"


def _chosen(explained: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Yield what a release chooses while it runs, and the blocks that are written."""
    if pairs := explained.get("pairs"):
        counts, draws = _alone(pairs["epsilon_alone"]), _alone(pairs["draws_epsilon_alone"])
        yield "pairs alone", counts, "what their counts would cost at the same δ"
        yield "choosing alone", draws, "what the draws of the pairs would cost at the same δ"
        yield (
            "pairs' noise",
            f"± {pairs['standard_error']:.1f}",
            f"standard error of each of their counts, in records; which {pairs['number']} of "
            f"{pairs['candidates']} candidates are counted, is drawn while the release runs",
        )
    if chosen := explained.get("chosen_levels"):
        yield (
            "levels",
            "to be found",
            f"of each stage, between the bounds below, from the noisy counts alone: {chosen['rule']}, at no cost",
        )
    for block in explained.get("blocks", ()):
        yield f"block {block['name']}", ", ".join(block["columns"]), "the columns of this table of rows"
    if chosen := explained.get("chosen_blocks"):
        pinned = f"; in each: {', '.join(chosen['pinned'])}" if chosen["pinned"] else ""
        yield "blocks", "to be found", f"from the noisy counts alone: {chosen['rule']}, at no cost{pinned}"


def _published_at(stage: Mapping[str, Any]) -> tuple[str, str]:
    levels = ", ".join(f"{column} {level}" for column, level in stage["levels"].items())
    return levels, "the levels of what it publishes"


def _alone(epsilon: float | None) -> str:
    """Return what a part of a release would cost alone; None where no ε has its δ."""
    return "none" if epsilon is None else f"ε = {amount_shown(epsilon)}"


def _margins(explained: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Yield what the margins beside the rows are and cost; nothing where there are none."""
    margins = explained.get("margins")
    if margins is None:
        return
    rows, beside = _alone(margins["rows_epsilon_alone"]), _alone(margins["epsilon_alone"])
    yield (
        "rows alone",
        rows,
        "what they would cost at the same δ; together with what is beside them it is less than the sum",
    )
    yield "margins alone", beside, f"{counted(margins['cells'], 'noisy count')} in a file of their own"
    yield (
        "margins' noise",
        f"± {margins['standard_error']:.1f}",
        "standard error of each of their counts, in records",
    )
    if (weights := explained.get("survey_weights")) is not None:
        least, *_, most = weights["bounds"]
        yield (
            "survey weights",
            weights["column"],
            f"by {counted(len(weights['bounds']) - 1, 'class', 'classes')} from {least:g} to {most:g}; every column is "
            "counted with them, and totals of weights are in a file of their own",
        )


def _members(explained: Mapping[str, Any]) -> Iterator[tuple[str, object, str]]:
    """Yield what the table of members has, loses and would cost; nothing where there is none."""
    members = explained.get("members")
    if members is None:
        return
    units, alone = _alone(members["units_epsilon_alone"]), _alone(members["epsilon_alone"])
    yield "members", f"at most {members['most']}", f"in a table of their own: {members['in_words']}"
    yield (
        "members' deletion",
        f"{members['expected_deletion']:.1f}",
        f"members that a group of that table loses at a stage, {members['largest_deletion']} at most",
    )
    for number, stage in enumerate(members["stages"], start=1):
        yield f"members' stage {number}", *_published_at(stage)
    yield "units alone", units, "what they would cost at the same δ; both tables together cost less than the sum"
    yield "members alone", alone, "what their table would cost at the same δ"


TOLD_HEADERS = ("column", "level", "counts", "such as", "± of each", "may be paired with", "tables of rows")


def told_rows(explained: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield for each column its level, counts and labels, their error, with which columns it may be paired, its tables.

    Args:
        explained: what `explanation` returned, of a release that chooses pairs.
    """
    levels = {column["column"]: column["levels"] for column in explained["columns"]}
    for column in explained["told"]["columns"]:
        coarser = column["pairs_by_coarser_labels"]
        least, most = column["least_tables"], column["most_tables"]
        # The classes of survey weights are no declared column.
        own = levels.get(column["column"], ())
        examples = own[column["level"]]["examples"] if own else []
        yield (
            column["column"],
            str(column["level"]),
            str(column["labels"]),
            examples[len(examples) // 2] if examples else "",
            f"{column['standard_error']:.1f}" + ("" if column["share"] is None else f" ({column['share']:.2%})"),
            f"{column['pairs']}" + (f", {coarser} by coarser labels" if coarser else ""),
            f"{least}" if least == most else f"{least} to {most}",
        )


def told_in_words(told: Mapping[str, Any]) -> str:
    """Return how what will be told is to be read, and what won't be."""
    together = (
        "Three columns and more are told together in rows alone"
        if told["tables"] == 1
        else f"Rows are in {told['tables']} tables, which can't be linked: three columns and more are told together "
        "only by rows of a table that has them all"
    )
    share = "" if told["records"] is None else " and its share of the records"
    return (
        f"Each column is counted by all labels of its level, with the standard error of each count{share}; finer "
        "labels are told nowhere, and values that aren't declared are *. Which pairs are counted is found on the way. "
        f"At a stage a group of rows that {told['likely_group']} people share is shown in 19 of 20 releases, from "
        f"{told['certain_group']} on in each; what isn't shown goes on to coarser labels, and at the last stage it is "
        f"missing. {together}."
    )


def _told(explained: Mapping[str, Any]) -> Table:
    table = Table(*TOLD_HEADERS, title="What will be told of each column", title_justify="left")
    for row in told_rows(explained):
        table.add_row(*row)
    table.caption, table.caption_justify = told_in_words(explained["told"]), "left"
    return table


def _levels(explained: Mapping[str, Any]) -> Table:
    table = Table(
        "column", "level", "labels", "values a label", "kept", "for example", title="Columns and their levels"
    )
    table.title_justify = "left"
    for column in explained["columns"]:
        name = column["column"] if column["weight"] is None else f"{column['column']} (weight {column['weight']:g})"
        for row in column["levels"]:
            low, high = row["values_per_label"]
            table.add_row(
                name,
                f"{row['level']} {'•' if row['possible'] else ' '}",
                str(row["labels"]),
                str(low) if low == high else f"{low}–{high}",
                f"{row['information_kept']:.0%}",
                ", ".join(row["examples"]),
                style="" if row["possible"] else "dim",
            )
            name = ""
        table.add_section()
    table.caption = "• a level that the release may have; kept: share of the value's information that the label keeps"
    return table
