"""The released columns as declared, with their levels or the candidates of a map; and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..accounting.kernel.prices.registry import kind_of
from ..mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ..mechanisms.hierarchies.build import DateHierarchy, labels_beyond
from ..mechanisms.hierarchies.decimals import DecimalIntervals, WeightClasses
from ..mechanisms.hierarchies.declare import Hierarchy, IntervalHierarchy, ValueHierarchy
from ..mechanisms.kernel.amounts import counted
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.map_selection.choice import (
    LARGEST_ENUMERATED,
    Draw,
    Lattice,
    LatticeColumn,
    MapChoice,
    epsilon_shares,
)
from ..mechanisms.wording import refused_together
from ..tasks.inputs.hierarchy_files import read_hierarchy
from ..tasks.inputs.source_formats import database_at
from ..tasks.readers.values import RecordReading
from ..tasks.request import AlsoFormat
from .spec_tables import (
    ColumnTable,
    DatesTable,
    DeclaredTable,
    DerivedColumn,
    IntervalTable,
    SelectionTable,
    SpecTables,
    WeightColumn,
)

if TYPE_CHECKING:
    from ..mechanisms.kernel.contributions import ContributionLimit
    from ..mechanisms.kernel.mechanism import Mechanism
    from ..tasks.inputs.source import DatabaseQuery

MOST_CELLS = 1_000_000
DEFAULT_DRAW: Draw = "exponential"
"""Its losses have a bounded range, so that it costs less wherever several things are composed."""
EARLIER_DEFAULT: Draw = "permute-and-flip"
"""What earlier versions drew by where a specification doesn't say: of releases and series that they recorded."""
ONLY_WITH_SELECTION = ("min_level", "max_level", "weight")


def declared_map(
    path: Path, columns: Mapping[str, ColumnTable], *, base: Path, refused: Sequence[str] = ()
) -> GeneralizationMap:
    """Return the map of a specification that fixes a level for each column; none may have one of the refused names.

    Raises:
        InputRefused: a column's hierarchy or level is wrong, with file and key.
    """
    mapped = []
    for where, name, column, hierarchy in _declared(path, columns, base, refused=refused):
        _refuse_bounds(column, where=where)
        _refuse_stages(column, where=where)
        if column.level is None:
            raise InputRefused("this is required and missing.", where=f"{where}.level")
        _require_level(hierarchy, column.level, where=f"{where}.level")
        mapped.append(MappedColumn(name=name, hierarchy=hierarchy, level=column.level))
    return GeneralizationMap(columns=tuple(mapped))


def declared_chain(
    path: Path, columns: Mapping[str, ColumnTable], *, base: Path, refused: Sequence[str], pairs: bool = False
) -> tuple[GeneralizationMap, ...]:
    """Return the maps of a chain, each a coarsening of the one before: of each column one level, or one for each stage.

    `pairs` says whether pairs are chosen, so that margins may have a level of their own.

    INVARIANT: a column's levels never fall. Hierarchies are monotone, so that a label at a stage, `*` of unseen values
    among them, is a function of the label at the stage before.

    Raises:
        InputRefused: a column's name, hierarchy or levels are wrong, or columns differ in their number of stages; with
            file and key.
    """
    chained: list[tuple[str, Hierarchy, list[int]]] = []
    for where, name, column, hierarchy in _declared(path, columns, base, refused=refused):
        _refuse_bounds(column, where=where)
        _refuse_margin_level(column, where=where, pairs=pairs)
        if (column.level is None) is (column.levels is None):
            both = column.level is not None
            raise InputRefused(
                "level and levels exclude each other." if both else "this is required and missing.",
                where=f"{where}.{'levels' if both else 'level'}",
                remedy="Give a level for a single stage, or levels, one for each stage.",
            )
        if column.levels == "auto":
            raise InputRefused(
                "levels that follow from published figures must be those of all columns.",
                where=f"{where}.levels",
                remedy='Write levels = "auto" for every column, and [margins] pairs = "auto"; or give levels.',
            )
        levels = [column.level] if column.level is not None else list(column.levels or ())
        key = f"{where}.{'level' if column.levels is None else 'levels'}"
        for level in levels:
            _require_level(hierarchy, level, where=key)
        for before, level in pairwise(levels):
            if level < before:
                raise InputRefused(
                    f"level {level} comes after level {before} and is finer: a label of a stage must follow from the "
                    "label of the stage before.",
                    where=key,
                    remedy="Give the levels in ascending order, the finest stage first.",
                )
        if chained and len(levels) != len(chained[0][2]):
            raise InputRefused(
                f"this column has {counted(len(levels), 'stage')}, and {chained[0][0]!r} has {len(chained[0][2])}.",
                where=key,
                remedy="Give every column as many levels as there are stages.",
            )
        chained.append((name, hierarchy, levels))
    return tuple(
        GeneralizationMap(
            columns=tuple(
                MappedColumn(name=name, hierarchy=hierarchy, level=levels[stage]) for name, hierarchy, levels in chained
            )
        )
        for stage in range(len(chained[0][2]))
    )


MOST_MARGIN_LABELS = 1_000
"""Of a column that is counted by itself, where its level isn't given."""
MOST_LABELS = 6_000
"""Of all these columns together, as far as levels aren't given: the model's tables of all pairs have as many cells as
half of its square at most, 18 million."""


def margin_map(
    path: Path, columns: Mapping[str, ColumnTable], bounds: Sequence[tuple[str, Hierarchy, int]]
) -> GeneralizationMap:
    """Return the map of the margins and pairs: the level that a column names, or its finest of not too many labels.

    Args:
        path: of the specification.
        columns: as they are written.
        bounds: of each column its name, its hierarchy and the coarsest level that its margin may have.

    Raises:
        InputRefused: a level that the hierarchy doesn't have, or above the bound.
    """
    mapped = []
    own = {name: one.margin_level if one.min_level is None else one.min_level for name, one in columns.items()}
    for (name, hierarchy, coarsest), low in zip(bounds, _levels_together(bounds, own), strict=True):
        given, where = columns[name].margin_level, f"{path}: [columns.{name}].margin_level"
        level = low if given is None else given
        _require_level(hierarchy, level, where=where)
        if level > coarsest:
            raise InputRefused(
                f"margins are counted at level {level}, and rows are published at level {coarsest}, which is finer.",
                where=where,
                remedy=f"Give a level of at most {coarsest}, or leave it out.",
            )
        mapped.append(MappedColumn(name=name, hierarchy=hierarchy, level=level))
    return GeneralizationMap(columns=tuple(mapped))


def _levels_together(bounds: Sequence[tuple[str, Hierarchy, int]], given: Mapping[str, int | None]) -> list[int]:
    """Return each column's finest level with few enough labels, for itself and for all columns together.

    Args:
        bounds: as of `margin_map`.
        given: the level of each column that names one, which counts for all columns together.
    """
    fixed = sum(
        one.size(level) for name, one, _ in bounds if (level := given[name]) is not None and 0 <= level < one.levels
    )
    room, most = max(MOST_LABELS - fixed, MOST_LABELS // 2), MOST_MARGIN_LABELS
    levels = [_finest_of(one, coarsest, most) for _, one, coarsest in bounds]
    while True:
        sizes = [one.size(level) for (name, one, _), level in zip(bounds, levels, strict=True) if given[name] is None]
        # The columns with most labels become coarser, as far as they have coarser ones that tell something.
        most = max((size for size in sizes if size <= most), default=0) - 1
        if sum(sizes) <= room or most < 2:
            return levels
        lower = [_finest_of(one, coarsest, most) for _, one, coarsest in bounds]
        levels = [
            new if one.size(new) > 1 else level for (_, one, _), level, new in zip(bounds, levels, lower, strict=True)
        ]


def _finest_of(hierarchy: Hierarchy, coarsest: int, most: int) -> int:
    """Return the finest level that has at most so many labels; the coarsest that is possible where none has."""
    return next((level for level in range(coarsest) if hierarchy.size(level) <= most), coarsest)


def automatic_levels(
    path: Path, columns: Mapping[str, ColumnTable], *, base: Path, refused: Sequence[str]
) -> tuple[LatticeColumn, ...] | None:
    """Return the columns with the bounds of their levels, where levels follow from published figures; None elsewhere.

    Raises:
        InputRefused: some columns' levels do and others' don't, or bounds leave none; with file and key.
    """
    if not any(column.levels == "auto" for column in columns.values()):
        return None
    declared = list(_declared(path, columns, base, refused=refused))
    for where, _, column, _ in declared:
        if column.levels != "auto" or column.level is not None:
            raise InputRefused(
                "other columns' levels follow from published figures, and this one's don't.",
                where=f"{where}.level",
                remedy='Write levels = "auto"; min_level and max_level bound it, and may be the same.',
            )
        if column.margin_level is not None:
            raise InputRefused(
                "the finest level that rows may have is that of the margins too.",
                where=f"{where}.margin_level",
                remedy="Write min_level instead.",
            )
    finest = margin_map(path, columns, [(name, one, one.levels - 1) for _, name, _, one in declared])
    return tuple(
        _bounded(name, hierarchy, column, low=own.level, where=where)
        for (where, name, column, hierarchy), own in zip(declared, finest.columns, strict=True)
    )


def _bounded(name: str, hierarchy: Hierarchy, column: ColumnTable, *, low: int, where: str) -> LatticeColumn:
    """Return a column with the bounds of its levels, where `low` is the finest if it names none."""
    low = low if column.min_level is None else column.min_level
    high = hierarchy.levels - 1 if column.max_level is None else column.max_level
    _require_level(hierarchy, low, where=f"{where}.min_level")
    _require_level(hierarchy, high, where=f"{where}.max_level")
    if low > high:
        raise InputRefused(
            f"no candidate is left: the levels would run from {low} to {high}.", where=f"{where}.min_level"
        )
    weight = Decimal(1) if column.weight is None else column.weight
    try:
        return LatticeColumn(name=name, hierarchy=hierarchy, min_level=low, max_level=high, weight=weight)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=f"{where}.weight") from None


def _refuse_margin_level(column: ColumnTable, *, where: str, pairs: bool) -> None:
    if column.margin_level is not None and not pairs:
        raise InputRefused(
            "this is the level of margins beside chosen pairs, and no pairs are chosen.",
            where=f"{where}.margin_level",
            remedy='Remove it, or write pairs = "auto" in [margins].',
        )


def _refuse_bounds(column: ColumnTable, *, where: str) -> None:
    for key in ONLY_WITH_SELECTION:
        if getattr(column, key) is not None:
            raise InputRefused(
                "this goes with a choice of the map, and there is no [selection].",
                where=f"{where}.{key}",
                remedy="Give a level, or add [selection].",
            )


def _refuse_stages(column: ColumnTable, *, where: str) -> None:
    _refuse_margin_level(column, where=where, pairs=False)
    if column.levels is not None:
        raise InputRefused(
            "levels are the stages of a deletion release, and there is no [deletion].",
            where=f"{where}.levels",
            remedy="Give a level, or add [deletion].",
        )


def declared_choice(
    path: Path,
    columns: Mapping[str, ColumnTable],
    selection: SelectionTable,
    *,
    base: Path,
    refused: Sequence[str] = (),
    chains: bool = False,
    recorded: Mechanism | None = None,
) -> MapChoice:
    """Return the candidates of a specification with [selection], and how one of them is drawn.

    Args:
        chains: whether a candidate may be a chain of maps.
        recorded: what the ledger has of the release or its series, as `GivenSpec`.

    Raises:
        InputRefused: bounds that leave no candidate, a level beside them, candidates that are none, or more maps
            than are enumerated and no number of steps; with file and key.
    """
    bounded = []
    for where, name, column, hierarchy in _declared(path, columns, base, refused=refused):
        if not chains:
            _refuse_stages(column, where=where)
        for key in ("level", "levels"):
            if getattr(column, key) is not None:
                listed = ", or list the chains as candidates" if chains else ""
                raise InputRefused(
                    f"a fixed {key.removesuffix('s')} and [selection] exclude each other.",
                    where=f"{where}.{key}",
                    remedy=f"Remove it, or bound the choice with min_level and max_level{listed}.",
                )
        _refuse_margin_level(column, where=where, pairs=False)
        bounded.append(_bounded(name, hierarchy, column, low=0, where=where))
    if not any(column.weight for column in bounded):
        raise InputRefused(
            "every column has the weight 0, so no map would be better than another.",
            where=f"{path}: [columns.{bounded[0].name}].weight",
        )
    lattice = Lattice(columns=tuple(bounded))
    if selection.candidates is not None:
        stages, candidates = _candidates(path, selection.candidates, tuple(bounded), chains=chains)
        lattice = Lattice(columns=tuple(bounded), candidates=candidates, stages=stages)
    if selection.steps is not None:
        return _walk(path, lattice, selection, selection.steps)
    if not lattice.enumerable:
        raise InputRefused(
            f"there are {lattice.size} maps to choose from, more than the {LARGEST_ENUMERATED} that are scored one "
            "by one.",
            where=f"{path}: [selection].steps",
            remedy="Bound the columns' levels, list the candidates, or give the number of steps of a walk.",
        )
    return MapChoice(lattice=lattice, draw=_draw(selection, recorded), steps=None)


def _draw(selection: SelectionTable, recorded: Mechanism | None) -> Draw:
    return selection.draw or (EARLIER_DEFAULT if pays_for_any_draw(recorded) else DEFAULT_DRAW)


def pays_for_any_draw(recorded: Mechanism | None) -> bool:
    """Return whether a recorded mechanism is one whose map may be drawn by any ε₁-private choice."""
    if recorded is None:
        return False
    selection = kind_of(recorded).selection
    return selection is not None and selection(recorded).draws is None


def exponential_draws(selection: SelectionTable, recorded: Mechanism | None) -> int | None:
    """Return how many draws of the exponential mechanism share ε₁; None where the choice has no bounded range.

    A walk on a fresh sample has none: its draws are all from one sample, which the person is in or not. What was
    recorded without a bounded range keeps its record and its price, whatever it draws by.
    """
    if pays_for_any_draw(recorded):
        return None
    if selection.steps is not None:
        return selection.steps if selection.rate is None else None
    return 1 if _draw(selection, recorded) == "exponential" else None


def _walk(path: Path, lattice: Lattice, selection: SelectionTable, steps: int) -> MapChoice:
    if selection.draw == "permute-and-flip":
        raise InputRefused(
            "the steps of a walk are draws of the exponential mechanism.",
            where=f"{path}: [selection].draw",
            remedy="Leave it out, or leave out steps.",
        )
    if lattice.candidates is not None:
        raise InputRefused(
            "a walk goes through all combinations of levels, not through a list of candidates.",
            where=f"{path}: [selection].steps",
            remedy="Leave out steps, or the candidates.",
        )
    try:
        epsilon_shares(selection.epsilon, steps)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=f"{path}: [selection].steps") from None
    return MapChoice(lattice=lattice, draw="walk", steps=steps)


def _candidates(
    path: Path, listed: list[dict[str, int | list[int]]], columns: tuple[LatticeColumn, ...], *, chains: bool
) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Return how many maps each listed candidate has, and their levels: map after map, in the order of the columns."""
    names = [column.name for column in columns]
    taken: list[tuple[int, ...]] = []
    stages = 0
    for number, candidate in enumerate(listed, start=1):
        where = f"{path}: [selection].candidates, number {number}"
        if set(candidate) != set(names):
            wrong = sorted(set(candidate) ^ set(names))[0]
            raise InputRefused(f"a candidate gives a level for each column; see {wrong!r}.", where=where)
        by_column = {name: [own] if isinstance(own := candidate[name], int) else own for name in names}
        if not chains and any(isinstance(own, list) for own in candidate.values()):
            raise InputRefused(
                "levels of several stages belong to a deletion release, and there is no [deletion].",
                where=where,
                remedy="Give one level for each column, or add [deletion].",
            )
        stages = stages or max(1, len(by_column[names[0]]))
        for column in columns:
            own = by_column[column.name]
            if len(own) != stages:
                raise InputRefused(
                    f"{column.name!r} has {counted(len(own), 'level')} here, and the candidates have "
                    f"{counted(stages, 'stage')}.",
                    where=where,
                    remedy="Give every column of every candidate as many levels as there are stages.",
                )
            for level in own:
                if not column.min_level <= level <= column.max_level:
                    raise InputRefused(
                        f"level {level} of {column.name!r} is not one of {column.min_level} to {column.max_level}.",
                        where=where,
                    )
            if own != sorted(own):
                raise InputRefused(
                    f"the levels of {column.name!r} fall: a label of a stage must follow from the label of the stage "
                    "before.",
                    where=where,
                    remedy="Give the levels in ascending order, the finest stage first.",
                )
        levels = tuple(by_column[name][stage] for stage in range(stages) for name in names)
        if levels in taken:
            raise InputRefused(f"this candidate is number {taken.index(levels) + 1} already.", where=where)
        taken.append(levels)
    return stages, tuple(sorted(taken))


def _require_level(hierarchy: Hierarchy, level: int, *, where: str) -> None:
    if level >= hierarchy.levels:
        raise InputRefused(f"level {level} does not exist; the levels are 0 to {hierarchy.levels - 1}.", where=where)


def _declared(
    path: Path, columns: Mapping[str, ColumnTable], base: Path, *, refused: Sequence[str] = ()
) -> Iterator[tuple[str, str, ColumnTable, Hierarchy]]:
    """Yield each column: where it stands, its name, its table, its hierarchy.

    Raises:
        InputRefused: all columns that are declared wrongly.
    """
    declared, faults = [], []
    for name, column in columns.items():
        where = f"{path}: [{'data.weight_classes' if isinstance(column, WeightColumn) else f'columns.{name}'}]"
        try:
            hierarchy = _hierarchy(where, name, column, base, refused=refused)
            _require_codes(hierarchy, column.codes or {}, where=f"{where}.codes")
            declared.append((where, name, column, hierarchy))
        except InputRefused as fault:
            faults.append(fault)
    if faults:
        raise refused_together(faults, where=str(path))
    yield from declared


def _require_codes(hierarchy: Hierarchy, codes: Mapping[str, int], *, where: str) -> None:
    """Refuse codes of labels that are never published, and a code of two labels."""
    unknown = frozenset(codes)
    for level in range(hierarchy.levels):
        unknown = labels_beyond(hierarchy, unknown, level=level)
    if unknown:
        raise InputRefused(
            f"the column has no label {min(unknown)!r} at any level.",
            where=where,
            remedy="Name its labels as they are published; those that aren't named get the next codes.",
        )
    if len({*codes.values()}) != len(codes):
        raise InputRefused("two labels have the same code.", where=where, remedy="Give each label its own.")


def declared_hierarchies(
    path: Path, columns: Mapping[str, DeclaredTable], base: Path, *, table: str
) -> dict[str, Hierarchy]:
    """Return the hierarchy of each column of a table of columns that aren't released.

    Raises:
        InputRefused: all columns that are declared wrongly.
    """
    found, faults = {}, []
    for name, column in columns.items():
        try:
            found[name] = _of_table(f"{path}: [{table}.{name}]", column, base)
        except InputRefused as fault:
            faults.append(fault)
    if faults:
        raise refused_together(faults, where=str(path))
    return found


def _hierarchy(where: str, name: str, column: ColumnTable, base: Path, *, refused: Sequence[str]) -> Hierarchy:
    """Return the column's declared hierarchy: exactly one of a file, values, intervals or dates."""
    if name in ("count", *refused):
        raise InputRefused(f"a released column can't be called {name}.", where=where, remedy="Rename it.")
    if column.bounds is not None:
        raise InputRefused("bounds belong to a column of [points] alone.", where=f"{where}.bounds")
    if isinstance(column, DerivedColumn) and column.hierarchy is None:
        derived: Hierarchy = column.derived.hierarchy
        return derived
    found = _of_table(where, column, base)
    if isinstance(column, DerivedColumn):
        _require_labels(found, column.derived.hierarchy, where=f"{where}.hierarchy")
    return found


def _require_labels(hierarchy: Hierarchy, derived: Hierarchy, *, where: str) -> None:
    """Refuse a hierarchy above a rule's labels that lacks one: units with it would become `*` in silence."""
    if derived.size(0) > MOST_CELLS:
        raise InputRefused("the rule has too many labels for a hierarchy of its own.", where=where, remedy="Remove it.")
    labels = derived.labels(np.arange(derived.size(0), dtype=np.int64), 0)
    missing = labels_beyond(hierarchy, frozenset(labels), level=0)
    if missing:
        raise InputRefused(
            f"the rule gives the label {min(missing)!r}, which the hierarchy doesn't have.",
            where=where,
            remedy="Write a row for each label of the rule; without a hierarchy `crowdblend explain` shows them.",
        )


def _of_table(where: str, column: DeclaredTable, base: Path) -> Hierarchy:
    """Return the hierarchy that a table declares: exactly one of a file, values, intervals or dates."""
    if column.fold_case and (column.interval is not None or column.dates is not None):
        raise InputRefused("numbers and days have no case.", where=f"{where}.fold_case", remedy="Remove it.")
    try:
        if isinstance(column, WeightColumn):
            return WeightClasses.of(column.weight_bounds)
        match (column.hierarchy, column.values, column.interval, column.dates):
            case (str() as location, None, None, None):
                read = read_hierarchy(location if "://" in location else str(base / location))
                return read.folded() if column.fold_case else read
            case (None, list() as values, None, None):
                declared = ValueHierarchy.from_values(values)
                return declared.folded() if column.fold_case else declared
            case (None, None, IntervalTable() as interval, None):
                return _intervals(interval)
            case (None, None, None, DatesTable() as dates):
                return DateHierarchy.of(first=dates.first, last=dates.last, merged=dates.levels)
            case _:
                raise InputRefused("name exactly one of hierarchy, values, interval and dates.", where=where)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=where) from None


def _intervals(interval: IntervalTable) -> Hierarchy:
    """Intervals of whole numbers; where any bound or width is written with decimals, of decimal numbers."""
    numbers = (interval.lower, interval.upper, *interval.widths)
    if any(not number.is_finite() or number.as_tuple().exponent != 0 for number in numbers):
        return DecimalIntervals.of(lower=interval.lower, upper=interval.upper, widths=interval.widths)
    lower, upper, *widths = map(int, numbers)
    return IntervalHierarchy(lower=lower, upper=upper, widths=tuple(widths))


_MOST_BYTES = {"sav": 64, "dta": 32}
_NAME = re.compile(r"[^\W\d_]\w*")
_RESERVED = {
    "sav": frozenset(["all", "and", "by", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "to", "with"]),
    "dta": frozenset(["byte", "double", "float", "if", "in", "int", "long", "using", "with"]),
}
_STATA_STRING = re.compile(r"str[0-9L]+")


def require_statistics_names(names: Sequence[str], *, formats: Sequence[AlsoFormat], where: str) -> None:
    """Refuse names of columns that such a file can't have, and an installation that can't write one."""
    if not formats:
        return
    if find_spec("pyreadstat") is None:
        raise InputRefused(
            "the package that writes files of statistics packages isn't installed.",
            where=where,
            remedy="Install it: pip install 'crowdblend[statistics]'.",
        )
    for format_ in formats:
        for name in names:
            if (
                _NAME.fullmatch(name) is None
                or len(name.encode()) > _MOST_BYTES[format_]
                or name.lower() in _RESERVED[format_]
                or (format_ == "dta" and _STATA_STRING.fullmatch(name))
            ):
                raise InputRefused(
                    f"the column {name!r} has no name that a .{format_} file may have: a letter, then letters, digits "
                    f"and underscores, at most {_MOST_BYTES[format_]} bytes, and no reserved word.",
                    where=where,
                    remedy="Rename the column in the source, or leave this format out.",
                )
    if len({name.lower() for name in names}) != len(names):
        raise InputRefused(
            "two columns have names that differ in upper and lower case alone, which these files don't tell apart.",
            where=where,
            remedy="Rename one in the source, or leave these formats out.",
        )


def require_cells(path: Path, recoding: GeneralizationMap) -> None:
    """Refuse more cells than are published."""
    if recoding.cells > MOST_CELLS:
        raise InputRefused(
            f"these columns have {recoding.cells} combinations of labels, more than the {MOST_CELLS} that one release "
            "publishes.",
            where=f"{path}: [columns]",
            remedy="Use coarser levels or fewer columns.",
        )


def record_reading(spec: SpecTables) -> RecordReading:
    """Return how the specification's records are read."""
    table = spec.data
    return RecordReading(
        separator=table.separator,
        quoting=table.quoting,
        encoding=table.encoding,
        null_values=tuple(sorted(set(table.null))),
        trim=table.trim,
        decimal=table.decimal,
        whole_floats=table.whole_floats,
    )


def read_query(path: Path, spec: SpecTables) -> DatabaseQuery | None:
    """Return what is read of a database; None where the source is files.

    Raises:
        InputRefused: the address, the table or the query is wrong, or one is given for files.
    """
    data = spec.data
    database = database_at(data.source)
    if database is None:
        if data.table is None and data.query is None:
            return None
        raise InputRefused(
            "a table or a query is read from a database alone, and the source is no database.",
            where=f"{path}: [data].{'query' if data.table is None else 'table'}",
            remedy="Rows of files are chosen beforehand, record by record: docs/starting-from-a-file.md.",
        )
    for key, given in (("version", data.version), ("cluster", spec.cluster)):
        if given is not None:
            raise InputRefused(
                "a database's records are copied onto this machine, where no cluster's workers read them."
                if key == "cluster"
                else "only a table of Delta Lake or Iceberg has versions, and the source is none.",
                where=f"{path}: [cluster]" if key == "cluster" else f"{path}: [data].version",
                remedy="Remove it.",
            )
    return database.query(data.source, table=data.table, query=data.query, where=f"{path}: [data]")


def contribution_limit(path: Path, spec: SpecTables) -> ContributionLimit | None:
    """Return how many records of a person or household count, by a column that names it; None where none is named.

    Raises:
        InputRefused: two columns are named, or one that is released or decides the rates.
    """
    data = spec.data
    if data.person is None and data.household is None and spec.unit is None:
        return None
    from ..mechanisms.kernel.contributions import ContributionLimit  # of releases with such a column alone

    if spec.unit is not None:
        return ContributionLimit(unit=spec.unit.kind, column=spec.unit.by, records=1, together=True)

    if data.person is not None and data.household is not None:
        raise InputRefused(
            "person and household exclude each other: a release hides one of the two.",
            where=f"{path}: [data].household",
            remedy="Keep the household's column where people of a household share a record or could be identified "
            "by one another, else the person's.",
        )
    unit, column = ("person", data.person) if data.person is not None else ("household", str(data.household))
    where = f"{path}: [data].{unit}"
    if column in spec.columns:
        raise InputRefused(
            f"the column {column!r} names the {unit}s, and it is among the released columns.",
            where=where,
            remedy=f"Remove [columns.{column}]: an id is never published.",
        )
    return ContributionLimit(
        unit="person" if unit == "person" else "household", column=column, records=data.rows_per_person
    )


def check_declared_values(path: Path, columns: Sequence[MappedColumn | LatticeColumn], reading: RecordReading) -> None:
    """Refuse declared values that no record can have, the way its texts are read."""
    plain = reading.of_unicode
    if not plain.rewrites:
        return
    for column in columns:
        if not isinstance(column.hierarchy, ValueHierarchy):
            continue
        for value, *_ in column.hierarchy.rows():
            if value not in plain.null_values and plain.meant(value.encode()) != value.encode():
                raise InputRefused(
                    f"no record can have the declared value {value!r}: a text is read otherwise by trim, decimal or "
                    "whole_floats.",
                    where=f"{path}: [columns.{column.name}]",
                    remedy="Declare the value as it is read, or remove the key from [data].",
                )
