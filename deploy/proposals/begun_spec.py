"""The text of a specification that is begun: complete but for its columns, or with a proposal of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, assert_never

from ...mechanisms.hierarchies.declare import ValueHierarchy
from ...mechanisms.wording import FILL_IN
from .column_proposals import ProposedColumn, column_lines, proposed_column, weight_bounds
from .column_roles import NOT_RELEASED, Role, column_role, may_be_pinned
from .themes import MOST_TOGETHER, ProposedBlocks, most_blocks, most_pinned, proposed_blocks
from .unit_proposals import (
    MemberText,
    NamedUnit,
    ProposedUnits,
    domain_in_units,
    hierarchy_of_line,
    listed_values,
    member_column,
)

if TYPE_CHECKING:
    from ...accounting.theory.planning.deletion_planning import DeletionPlan
    from ...mechanisms.hierarchies.build import Rows
    from ...mechanisms.hierarchies.declare import Hierarchy
    from ...tasks.readers.file_formats import NamedColumn, SourceNames
    from ..documents.schema_file import DeclaredDomain, SchemaFile
    from ..python.hierarchies import NamedHierarchy
    from .public_records import PublicColumn, PublicRecords

FLOATS = "with whole bounds 30.0 is read as 30, and 30.5 is *; with decimal ones, 0.0, both are read"
MOST_VALUE_LABELS = 1_000
LINE = 116
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
NO_LABEL = re.compile(r"[^A-Za-z0-9._-]+")
HEAD = """\
## Begun by `crowdblend spec new` from the names and types of the columns alone; no value was read.
## What is yours to write is marked FILL IN. Write it from what is public: a code list, a law, a census, an earlier
## release. What is chosen by looking at these records is not covered by the guarantee.
"""
DECLARED_HEAD = """\
## Begun by `crowdblend spec new` from a schema; no record was read. Values and bounds stand here as the schema declares
## them, and they are published with the release: leave only those that are public, and none that were computed from
## these records, such as the least and the greatest value that somebody has. What is yours to write is marked FILL IN.
"""
PUBLIC_HEAD = """\
## Begun by `crowdblend spec new` from the names and types of the columns, and from records that somebody said are
## public ({origin}); no record of the release was read. Values, bounds and frequencies below are of the public records
## and are published with the release. What is yours to write is marked FILL IN. Change what you like, but not by
## looking at these records: that is not covered by the guarantee.
"""
ONLY_NAMED = """\
## Only the columns named below are released. Remove the single # before the lines of those that may leave, and leave
## the others: names, numbers and addresses of people are never needed. Each has one of
"""
PROPOSED_COLUMNS = """\
## The columns below are proposed to be released, but for those behind a #: a comment above each of these says why, and
## it is released once the single # before its lines and each FILL IN in it are gone. Put a # before the lines of what
## must not leave. Each has one of
"""
COLUMN_KEYS = """\
##   values = ["…", "…"]         the values that there are; everything else is published as *
##   interval = { lower = …, upper = …, widths = [5, 20] }         whole numbers, 5 and 20 wide
##   dates = { from = "…", to = "…", levels = ["month", "year"] }  days such as 2026-03-31, by month and year
##   hierarchy = "file.csv"      labels level by level; `crowdblend hierarchy build` makes the file
## and a level, 0 being the value itself. Rows can't be filtered nor columns computed here:
## docs/starting-from-a-file.md. All keys are in docs/specification.md.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class BegunSpec:
    """A specification that is begun.

    Args:
        text: of its file.
        hierarchies: rows of the hierarchies that it names and that are to be written, by file.
        released: names of the columns that it releases.
        asked: number of columns that stand there as questions.
    """

    text: str
    hierarchies: Mapping[str, Rows]
    released: tuple[str, ...]
    asked: int


def begun_spec(
    names: SourceNames,
    *,
    schema: str,
    label: str,
    dataset: str,
    source: str,
    released: Collection[str] = (),
    hierarchies: Mapping[str, NamedHierarchy] | None = None,
    declared: SchemaFile | None = None,
    public: PublicRecords | None = None,
    size: ReleaseSize | None = None,
    folder: str = "hierarchies",
    priced: bool = True,
    unit: NamedUnit | None = None,
) -> BegunSpec:
    """Return a specification that is complete but for its columns, or with a proposal of them.

    Args:
        names: of the source's columns.
        schema: name of the file beside it by which editors complete and check keys.
        label: of the release; what a label can't have is left out.
        dataset: name of the data set in the ledger.
        source: as it is to stand in the specification.
        released: names of the columns that are to be released; the others stand there as comments. Where none is named
            and there is a size, those are released whose values are declared and that seem harmless.
        hierarchies: those that there are already, by column.
        declared: what a schema file says of the records, where the specification is begun from one.
        public: public records of the columns; None where there are none.
        size: what a release that finds its pairs and labels is proposed for; None for a sampled release.
        folder: beside the specification, for the hierarchies that are to be written.
        priced: whether the tables of the release's kind and price stand there too, which of many columns takes seconds.
        unit: names the units that are released, whose columns are derived from those of the source; None for records.
    """
    columns = [
        _begun_column(
            column,
            (hierarchies or {}).get(column.name),
            None if declared is None else declared.domains.get(column.name),
            None if public is None else public.columns.get(column.name),
        )
        for column in names.columns
    ]
    files = _files(columns, folder=folder)
    units = None if unit is None else _units(columns, unit, files=files, wanted=released)
    chosen = list(released)
    if size is not None and not released:
        chosen = [column.name for column in columns if column.ready]
        chosen = chosen if len(chosen) >= FEWEST_COLUMNS else []
    proposed = [one.column for one in columns if not chosen or one.name in chosen] if units is None else units.released
    proposal = None if len(proposed) < FEWEST_COLUMNS else size
    who = "person" if unit is None else unit.kind
    plain = NO_LABEL.sub("-", label).strip("-.")[:80] or "release"
    lines = [
        f"#:schema ./{schema}",
        *_head(declared, public),
        "[release]",
        f"name = {_text(plain)}",
        f'form = "microdata"            # one row a published {who}; "counts" gives one row a group',
        'format = "parquet"            # or "csv"',
        f"output = {_text(f'out/{plain}')}",
        "",
        "[data]",
        "## its name in the ledger: crowdblend dataset add",
        f"dataset = {_text(dataset)}",
        f"source = {_text(source)}",
    ]
    if names.separator is not None:
        lines.append(f"separator = {_text(names.separator)}")
    given = () if declared is None else declared.data
    lines += given if unit is None else [line for line in given if not line.startswith(_OF_RECORDS)]
    lines += _questions_of_data(columns, answered=given, unit=unit)
    lines += () if units is None else ["", *units.members_text()]
    if priced:
        size_of = "record" if unit is None else unit.kind
        lines += [
            *([] if units else [""]),
            *(SAMPLED if proposal is None else proposal.text(proposed, who=size_of)),
            "",
        ]
    if units is not None:
        lines += units.columns_text(automatic=proposal is not None)
        text = "\n".join(lines)
        rows = {files[one.name]: one.proposal.rows for one in columns if one.proposal.rows is not None}
        return BegunSpec(
            text=text,
            hierarchies={file: own for file, own in rows.items() if _text(file) in text},
            released=tuple(one.name for one in units.released),
            asked=len(units.derived) - len(units.released),
        )
    lines.append((PROPOSED_COLUMNS if chosen and not released else ONLY_NAMED) + COLUMN_KEYS)
    for column in columns:
        mark = "" if column.name in chosen else "# "
        if mark:
            lines += [f"## {remark}" for remark in column.proposal.remarks]
        own = column.lines(
            file=files.get(column.name, f"{_file_stem(column.name)}.csv"), automatic=proposal is not None
        )
        lines += [f"{mark}{line}".rstrip() for line in own]
        lines.append("")
    return BegunSpec(
        text="\n".join(lines),
        hierarchies={files[one.name]: one.proposal.rows for one in columns if one.proposal.rows is not None},
        released=tuple(chosen),
        asked=len(columns) - len(chosen),
    )


def _head(declared: SchemaFile | None, public: PublicRecords | None) -> Iterator[str]:
    if public is not None:
        yield PUBLIC_HEAD.format(origin=_text(public.origin))
        if public.remark:
            yield f"## {public.remark}"
    if declared is not None:
        yield DECLARED_HEAD
        yield from (f"## {remark}" for remark in declared.remarks)
    elif public is None:
        yield HEAD


@dataclass(frozen=True, kw_only=True, slots=True)
class _BegunColumn:
    """A column, and what declares its values: a hierarchy that is there, a schema, value labels, or a rule.

    Args:
        column: as the source names it.
        role: what it seems to be.
        hierarchy: that is there under its name.
        domain: that a schema declares.
        proposal: what a rule makes of it; empty where something else declares its values.
        public: its values in public records; None where there are none.
    """

    column: NamedColumn
    role: Role
    hierarchy: NamedHierarchy | None
    domain: DeclaredDomain | None
    proposal: ProposedColumn
    public: PublicColumn | None

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def values(self) -> tuple[str, ...]:
        """Return the values that are listed for it; none where there is something else."""
        return () if (declared := self.declared) is None else listed_values(declared)

    @property
    def declared(self) -> Hierarchy | None:
        """Return its hierarchy, where the specification's own text or a file that is to be written declares one."""
        if self.hierarchy is not None:
            return None
        if self.domain is None and self.proposal.rows is not None:
            return ValueHierarchy.from_rows(self.proposal.rows)
        line = self.proposal.domain if self.domain is None or self.domain.line is None else self.domain.line
        return None if line is None else hierarchy_of_line(line)

    @property
    def ready(self) -> bool:
        """Whether it can be proposed as it stands. Value labels aren't: some programs make them from the records."""
        declared = self.domain is not None and self.domain.line is not None and self.role not in NOT_RELEASED
        return self.hierarchy is not None or declared or self.proposal.released

    def lines(self, *, file: str, automatic: bool) -> Iterator[str]:
        """Yield its table; INVARIANT: each line is TOML, so that taking away the mark before it is all that is needed.

        Args:
            file: for a hierarchy of it.
            automatic: whether the release finds its levels.
        """
        yield f"[columns.{_key(self.name)}]"
        level = 'levels = "auto"' if automatic else "level = 0            # the value itself"
        if self.hierarchy is not None:
            labels = ", ".join(f"{count:,}" for count in self.hierarchy.labels_per_level)
            yield f"hierarchy = {_text(self.hierarchy.location)}"
            last = len(self.hierarchy.labels_per_level) - 1
            own = level if automatic else f"level = {self.hierarchy.level}"
            yield f"{own}            # of 0 to {last}, with {labels} labels"
            return
        if self.domain is not None:
            yield from (f"## {remark}" for remark in self.domain.remarks)
            if self.domain.line is not None:
                yield from (self.domain.line, level)
                return
        if self.column.labels:
            yield from (*_of_value_labels(self.column), level.replace("the value", "the label"))
            return
        if self.proposal.complete:
            yield from column_lines(self.proposal, file=file, automatic=automatic)
            return
        yield from self._to_be_filled_in(file)
        yield level if automatic else f'level = "{FILL_IN}"'

    def _to_be_filled_in(self, file: str) -> Iterator[str]:
        bounds = f'interval = {{ lower = "{FILL_IN}", upper = "{FILL_IN}", widths = [] }}'
        match self.column.kind:
            case "integer":
                yield bounds
            case "date":
                levels = '["month", "quarter", "year", "decade"]'
                yield f'dates = {{ from = "{FILL_IN}", to = "{FILL_IN}", levels = {levels} }}'
            case "number":
                yield f"{bounds}            # {FLOATS}"
            case "unmapped":
                yield f"# {FILL_IN}: no hierarchy maps this column's type; store it as text or integers"
            case "boolean":
                yield 'values = ["false", "true"]'
            case "text" | "unknown":
                yield f'values = ["{FILL_IN}"]            # or: hierarchy = {_text(file)}'
            case _:
                assert_never(self.column.kind)


def _begun_column(
    column: NamedColumn, hierarchy: NamedHierarchy | None, domain: DeclaredDomain | None, public: PublicColumn | None
) -> _BegunColumn:
    role = column_role(column.name, column.kind)
    known = hierarchy is not None or (domain is not None and domain.line is not None) or bool(column.labels)
    proposal = (
        ProposedColumn() if known and role not in NOT_RELEASED else proposed_column(column.name, column.kind, public)
    )
    if hierarchy is not None:
        proposal = ProposedColumn()
    return _BegunColumn(column=column, role=role, hierarchy=hierarchy, domain=domain, proposal=proposal, public=public)


_OF_RECORDS = ("person", "household", "rows_per_person")
"""Keys of [data] about single records of a unit."""


def _units(
    columns: Sequence[_BegunColumn], unit: NamedUnit, *, files: Mapping[str, str], wanted: Collection[str]
) -> ProposedUnits:
    """Return what is proposed of units, by the columns of their members."""
    members = []
    for given in columns:
        if given.name == unit.name or given.role == "weight" or (wanted and given.name not in wanted):
            continue
        kind = given.column.kind
        domain = domain_in_units(given.name, kind, given.values, unit=unit.kind)
        own = given if domain is None else replace(given, domain=None, proposal=ProposedColumn(domain=domain, levels=2))
        file = files.get(own.name, f"{_file_stem(own.name)}.csv")
        lines = [line for line in own.lines(file=file, automatic=True) if not line.startswith(_NOT_OF_MEMBERS)]
        hierarchy = own.declared if own.ready or domain is not None else None
        read = None if own.hierarchy is None else own.hierarchy.labels_per_level
        member = member_column(
            given.name, kind, own.role, hierarchy=hierarchy, labels=read, min_level=own.proposal.min_level
        )
        members.append(MemberText(column=member, lines=lines[1:], remarks=own.proposal.remarks))
    return ProposedUnits.of(members, unit, weighed=any(one.role == "weight" for one in columns))


_NOT_OF_MEMBERS = ("level", "min_level", "codes")
"""Keys of a released column that one of the members doesn't have."""


def _questions_of_data(
    columns: Sequence[_BegunColumn], *, answered: Sequence[str], unit: NamedUnit | None
) -> Iterator[str]:
    """Yield what [data] has to know of ids and weights, each as a comment that can be made a key."""
    named = [(kind, one.name) for kind in ("person", "household") for one in columns if one.role == kind]
    if unit is None and not any(line.startswith(("person", "household")) for line in answered):
        for place, (kind, name) in enumerate(named):
            if place:
                yield f"## Instead, if {_text(name)} names {kind}s and these are to be hidden: {kind} = {_text(name)}"
                continue
            yield f"## {_text(name)} seems to name {kind}s. If a {kind} may have several records, remove both # below."
            yield f"## To release one record for each {kind} instead: spec new --unit {kind}:{name}"
            yield f"# {kind} = {_text(name)}"
            yield "# rows_per_person = 1          # at most so many of each count, drawn at random"
    weights = [one for one in columns if one.role == "weight"]
    also = "" if unit is None else ", and the one before weight in [unit]"
    for place, one in enumerate(weights):
        name = _text(one.name)
        if place:
            yield f"## Instead, if {name} is the survey weight: weight = {name}, and bounds of its classes"
            continue
        yield from _comment(
            f"{name} seems to be a survey weight: for how many people a record stands. If so, and if its classes may "
            f"be published (docs/mechanisms/survey-weights.md), remove both # below{also}. Check the "
            "bounds by the survey's documentation."
        )
        yield f"# weight = {name}"
        bounds = None if one.public is None else weight_bounds(one.public)
        listed = f'"{FILL_IN}"' if bounds is None else ", ".join(f"{bound:f}" for bound in bounds)
        yield f"# weight_classes = {{ bounds = [{listed}] }}"


def _files(columns: Sequence[_BegunColumn], *, folder: str) -> dict[str, str]:
    """Return the file of each hierarchy that is to be written, no two alike on any machine."""
    files: dict[str, str] = {}
    taken = set[str]()
    for one in columns:
        if one.proposal.rows is None:
            continue
        stem = _file_stem(one.name)
        while stem.lower() in taken:
            stem += "-"
        taken.add(stem.lower())
        files[one.name] = f"{folder}/{stem}.csv"
    return files


def _file_stem(name: str) -> str:
    return NO_LABEL.sub("-", name).strip("-.") or "column"


def _of_value_labels(column: NamedColumn) -> Iterator[str]:
    """Yield a column of a statistics package's file by its value labels, with their codes for files like it."""
    labels = _codes_by_label(column.labels[:MOST_VALUE_LABELS])
    yield "## The file's value labels: leave those that are public, and none that were made from these records."
    if len(labels) < len(column.labels):
        yield f"## Not all stand here: {len(column.labels):,} codes have {len(labels):,} labels. {FILL_IN} the others."
    yield f"values = [{', '.join(map(_text, labels))}]"
    if codes := label_codes(column.labels[:MOST_VALUE_LABELS]):
        yield f"codes = {{ {', '.join(f'{_key(label)} = {code}' for label, code in codes.items())} }}"


def _codes_by_label(labels: Sequence[tuple[float | str, str]]) -> dict[str, float | str]:
    found = {label.strip(): code for code, label in reversed(labels) if label.strip()}
    return dict(reversed(found.items()))


def label_codes(labels: Sequence[tuple[float | str, str]]) -> dict[str, int]:
    """Return the codes of value labels by these; none where some code can't be written to files like it."""
    from ...tasks.request import LARGEST_CODE

    found = _codes_by_label(labels)
    codes = {label: int(code) for label, code in found.items() if not isinstance(code, str) and code == int(code)}
    right = len(codes) == len(found) and all(-LARGEST_CODE <= code <= LARGEST_CODE for code in codes.values())
    return codes if right else {}


FEWEST_COLUMNS = 2
"""Of a release that counts pairs; of one column the release is sampled."""

SAMPLED = (
    "[sampling]",
    "rate = 0.1                    # a habit, as k = 20: crowdblend plan --group-sizes finds what publishes most, and",
    "#                             # spec new --records proposes another kind of release",
    "",
    "[suppression]",
    "k = 20",
    "",
    "[privacy]",
    "delta = 1e-6                  # at most one in the number of people; crowdblend plan tells what it costs",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseSize:
    """What a release is proposed for: about how many records, and its price."""

    records: int
    epsilon: Decimal
    delta: Decimal

    def text(self, columns: Sequence[NamedColumn], *, who: str = "record") -> Iterator[str]:
        """Yield the tables of a release of columns that finds its own pairs and labels, and why.

        Args:
            columns: that are released.
            who: what the size is a number of.
        """
        from ...accounting.kernel.prices.registry import mechanism_record
        from ...accounting.theory.planning.paired_planning import PairShares, proposed_pairs
        from ...flows.releases.paired_parts import STAGES, STAGES_OF_BLOCK

        pairs, shares = proposed_pairs(len(columns)), PairShares()
        blocks = self.blocks(columns)
        planned = self._planned(len(columns), stages=STAGES if blocks is None else STAGES_OF_BLOCK)
        plan = planned() if blocks is None else planned(blocks=blocks.number)
        record = mechanism_record(plan.mechanism)
        margin, pair = (f"± {record[key]}, {float(record[key]) / self.records:.2%} of the {who}s," for key in EXACT)
        yield from _comment(
            f"Proposed for about {self.records:,} {who}s by public facts alone: a release that counts each column, "
            f"finds about {pairs} pairs of columns worth counting, and finds the labels of its rows by what it has "
            "counted (docs/mechanisms/pairs.md). Of the kinds that publish true rows it kept pairs of columns best "
            "(docs/utility.md); docs/choosing.md says when to take another. At this price, for all columns below, a "
            f"count of a column is exact to {margin} of a pair to {pair} and each group of rows loses "
            f"{plan.expected_deletion:.0f} {who}s in expectation, at most {plan.largest_deletion}. k stays 1: a "
            "larger one loses records and saves nothing. Change what you like, but not by looking at the records: "
            "weights of columns, for example, or min_level and max_level."
        )
        yield "[deletion]"
        yield ""
        yield "[margins]"
        yield 'pairs = "auto"'
        yield f"share = {shares.margins}                   # counts of columns; all shares are of the privacy loss"
        yield f"pair_share = {shares.pairs}             # counts of pairs; the rows have what is left"
        yield f"draw_share = {shares.draws}             # finding the pairs"
        yield ""
        yield from () if blocks is None else _of_blocks(blocks)
        yield "[privacy]"
        yield f"epsilon = {self.epsilon}"
        yield f"delta = {self.delta}                  # at most one in the number of people"

    def _planned(self, columns: int, *, stages: int) -> Callable[..., DeletionPlan]:
        """Return what plans a release of so many columns, of one table of rows or of several."""
        from ...accounting.theory.planning.paired_planning import plan_paired, proposed_pairs

        return partial(
            plan_paired,
            epsilon=self.epsilon,
            delta=self.delta,
            stages=stages,
            columns=columns,
            pairs=proposed_pairs(columns),
        )

    def blocks(self, columns: Sequence[NamedColumn]) -> ProposedBlocks | None:
        """Return tables of rows, each with as many columns as the records allow; None where one holds them well."""
        from ...flows.releases.paired_parts import STAGES_OF_BLOCK

        if len(columns) <= MOST_TOGETHER:
            return None
        planned = self._planned(len(columns), stages=STAGES_OF_BLOCK)
        names = [column.name for column in columns]
        usual = [one.name for one in columns if may_be_pinned(one.name, column_role(one.name, one.kind))]
        most = most_blocks(records=self.records, expected_deletion=planned().expected_deletion)
        number = proposed_blocks(names, pinned=(), most=most).number
        pins = most_pinned(records=self.records, expected_deletion=planned(blocks=number).expected_deletion)
        return proposed_blocks(names, pinned=usual[:pins], most=most)


EXACT = ("margin_scale", "pair_scale")


def _of_blocks(blocks: ProposedBlocks) -> Iterator[str]:
    """Yield the tables of rows, and why there are several."""
    yield from _comment(
        "Hardly two people are alike in so many columns: no group would be large enough to be shown. So the "
        f"rows are published in {blocks.number} tables, each of some columns and of all records "
        "(docs/mechanisms/blocks.md). Rows of different tables can't be linked. What the rows have of the privacy loss "
        "is divided evenly among the tables: with fewer of them each group loses fewer records."
    )
    if blocks.too_few_records:
        yield from _comment(
            "There are few records for so many columns: more tables would lose too many of them, and in these many "
            "columns will be * in most rows. Single columns and pairs are told by their counts all the same. Release "
            "fewer columns, or raise epsilon, where rows are to tell more."
        )
    yield "[blocks]"
    if not blocks.themes:
        yield f"number = {blocks.number}                    # found by what was counted; or write [blocks.NAME]"
    if blocks.pinned:
        yield f"pinned = [{', '.join(map(_text, blocks.pinned))}]            # in each table; by their names"
    yield ""
    for name, columns in blocks.themes.items():
        yield f"[blocks.{name}]"
        yield from wrap(
            f"columns = [{', '.join(map(_text, columns))}]", LINE, subsequent_indent="    ", break_long_words=False
        )
        yield ""


def _comment(text: str) -> Iterator[str]:
    yield from wrap(text, LINE, initial_indent="## ", subsequent_indent="## ", break_on_hyphens=False)


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    """Return a basic string of TOML: JSON's, but that DEL must be escaped too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
