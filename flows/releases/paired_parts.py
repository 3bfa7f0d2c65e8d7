"""[margins] pairs = "auto": what a deletion release publishes beside its rows that chooses pairs of columns itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...accounting.kernel.prices.mechanism_kind import Price
from ...accounting.kernel.prices.registry import mechanism_of_record
from ...accounting.theory.planning.paired_planning import PairShares, plan_paired, proposed_pairs
from ...accounting.theory.planning.parts_beside import AskedMembers, price_pairs
from ...mechanisms.generalization_map import GeneralizationMap, MappedColumn
from ...mechanisms.hierarchies.declare import Hierarchy
from ...mechanisms.kernel.amounts import counted
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.group_counts import GroupCounts
from ...mechanisms.kernel.protection import Numbers
from ...mechanisms.kinds.deletion_noise import expected_deletion
from ...mechanisms.kinds.margins import Margin
from ...mechanisms.kinds.paired_deletion import CountedPair, PairedDeletion
from ...mechanisms.map_selection.choice import LatticeColumn
from ...mechanisms.pair_model.blocks import RULE as BLOCKS_RULE
from ...mechanisms.pair_model.blocks import Block, BlockChoice
from ...mechanisms.pair_model.chosen_levels import RULE, LevelChoice
from ...mechanisms.pair_model.model import Pair, PairModel
from ...mechanisms.pair_model.paired_plan import (
    PairedPlan,
    pair_candidates,
    part_of,
    weight_candidates,
)
from ...mechanisms.pair_model.shrinkage import Amounts
from ...mechanisms.record_weights import Raked, record_weights
from ..block_specs import Blocks
from ..margin_specs import (
    cell_columns,
    deletion_margin_facts,
    epsilon_alone,
    margin_error,
    raked_weights,
    row_stages,
)
from ..spec_tables import MarginsTable
from ..survey_weights import SurveyWeights

if TYPE_CHECKING:
    from ...tasks.stages.table import PublishedTable

MOST_PAIR_CELLS = 50_000
"""Of a pair that is counted; a pair with more is counted by coarser labels or not at all."""
Cells = NDArray[np.int64]
STAGES, STAGES_OF_BLOCK = 3, 2
"""Maps of the rows, and of each of several blocks, where levels follow from published figures and nothing is said."""


Stages = tuple[GeneralizationMap, ...] | tuple[LatticeColumn, ...]
"""Maps of the rows, the finest first; or the columns whose levels follow from what is published before."""


def pair_details(counted: GeneralizationMap, stages: Stages) -> tuple[GeneralizationMap, ...]:
    """Return the maps by whose labels pairs may be counted, the map of the margins first.

    Where some pair has too many cells by all of them, the last map has few labels of every column.
    """
    coarser = _coarser_detail(counted, stages)
    details = (counted,) if coarser is None else (counted, coarser)
    few = GeneralizationMap(columns=tuple(_with_few_labels(column) for column in counted.columns))
    uncounted = any(
        min(few.sizes[first], few.sizes[second]) > 1
        and all(one.sizes[first] * one.sizes[second] > MOST_PAIR_CELLS for one in details)
        for first, second in combinations(range(len(few.sizes)), 2)
    )
    return (*details, few) if uncounted else details


def _with_few_labels(column: MappedColumn) -> MappedColumn:
    """Return a column at its finest level by which it can be counted with any other; as it is where it has none."""
    few = (
        level
        for level in range(column.level, column.hierarchy.levels)
        if 1 < column.hierarchy.size(level) <= math.isqrt(MOST_PAIR_CELLS)
    )
    return replace(column, level=next(few, column.level))


@lru_cache(maxsize=4)  # what a plan has computed of a release's figures serves each of its steps
def paired_plan(
    mechanism: PairedDeletion, counted: GeneralizationMap, stages: Stages, blocks: Blocks | None = None
) -> PairedPlan:
    """Return the public side of a paired release whose margins are of a map."""
    threshold = math.ceil(expected_deletion(mechanism.noise)) + mechanism.k
    fixed = tuple(one for one in stages if isinstance(one, GeneralizationMap))
    free = tuple(one for one in stages if isinstance(one, LatticeColumn))
    details = pair_details(counted, stages)
    return PairedPlan(
        mechanism=mechanism,
        details=details,
        candidates=pair_candidates(details, most_cells=MOST_PAIR_CELLS),
        stages=LevelChoice(columns=free, stages=mechanism.stages, threshold=threshold) if free else fixed,
        blocks=blocks,
    )


def _coarser_detail(counted: GeneralizationMap, stages: Stages) -> GeneralizationMap | None:
    """Return the map by whose labels pairs may be counted instead of the finest ones; None where there is none.

    It is that of the first stage that is coarser; of levels that aren't known, those one coarser than the finest.
    """
    for one in stages:
        if isinstance(one, GeneralizationMap) and one != counted:
            return one
    free = [one for one in stages if isinstance(one, LatticeColumn)]
    if not free:
        return None
    levels = tuple(_one_coarser(column) for column in free)
    lattice = LevelChoice(columns=tuple(free), stages=1, threshold=1).lattice
    coarser = lattice.map_of(levels)
    return coarser if coarser != counted else None


def _one_coarser(column: LatticeColumn) -> int:
    level = min(column.min_level + 1, column.max_level)
    return level if column.hierarchy.size(level) > 1 else column.min_level


def planned_pairs(
    table: MarginsTable,
    *,
    epsilon: Decimal,
    delta: Decimal,
    stages: int,
    details: Sequence[GeneralizationMap],
    releases: int,
    rows_per_person: int,
    k: int,
    blocks: Blocks | None,
    members: AskedMembers | None = None,
) -> tuple[PairedDeletion, Price]:
    """Return the mechanism of a paired release by what [margins] says, and its price.

    With `members` it has a table of members beside the table of units.

    Raises:
        InputRefused: as `plan_paired`; or more pairs are asked for than can be counted.
    """
    columns, every = len(details[0].columns), pair_candidates(details, most_cells=MOST_PAIR_CELLS)
    weighted, usual = len(weight_candidates(details[0], every)), PairShares()
    candidates = len(every) - weighted
    number = table.number or min(proposed_pairs(columns - (weighted > 0)), max(1, candidates))
    if columns < 2 or not candidates:
        raise InputRefused(
            "pairs are of two columns that have several labels each, and fewer are released.",
            remedy="Release more columns, or remove pairs.",
        )
    if candidates < number:
        raise InputRefused(
            f"{counted(number, 'pair')} of columns are to be counted, and these columns have {candidates} that can be.",
            remedy="Lower the number, or release more columns.",
        )
    plan = plan_paired(
        epsilon=epsilon,
        delta=delta,
        stages=stages,
        columns=columns,
        pairs=number + weighted,
        releases=releases,
        rows_per_person=rows_per_person,
        k=k,
        shares=PairShares(
            margins=table.share or usual.margins,
            pairs=table.pair_share or usual.pairs,
            draws=table.draw_share or usual.draws,
        ),
        blocks=blocks.number if isinstance(blocks, BlockChoice) else len(blocks) if blocks else None,
        members=members,
    )
    if not isinstance(plan.mechanism, PairedDeletion):
        raise TypeError("this is no plan of a paired release")
    return plan.mechanism, plan.price


class BlockRows(NamedTuple):
    """What a table of rows has.

    Args:
        block: its columns.
        maps: of its stages.
        stages: the groups of each.
    """

    block: Block
    maps: tuple[GeneralizationMap, ...]
    stages: list[GroupCounts]


class PairedResult:
    """What a paired release published, and what follows from it: weights, fitted counts and the tables beside the rows.

    Args:
        plan: its public side.
        numbers: what its protection gave.

    Raises:
        ValueError: the numbers are nothing that this release can publish.
    """

    def __init__(self, plan: PairedPlan, numbers: Numbers) -> None:
        self.plan = plan
        self.margins, self.pairs, _, stages = plan.protection().published(numbers)
        self.rows = [BlockRows(*one, own) for one, own in zip(plan.rows(self.margins, self.pairs), stages, strict=True)]

    @cached_property
    def raked(self) -> list[Raked]:
        """Return the weights of each table of rows, raked by the labels of its last stage to what is known beside it.

        That is all that was counted, and of two columns that stand together in several tables what the model says. The
        columns that stand in several tables are raked to once more at the end, since not all of that can be met where
        combinations have no row: so all tables give the same figures by each column that they share.
        """
        model = self.plan.model(self.margins, self.pairs)
        often = Counter(chain.from_iterable(_margins_of(one.block.columns) for one in self.rows))
        shared = {margin for margin, times in often.items() if times > 1}
        missing = [(margin[0], margin[1]) for margin in sorted(shared) if len(margin) == 2]
        known = {**model.estimates(missing), **model.tables}
        found = []
        for one in self.rows:
            weights = np.concatenate(
                [
                    record_weights(stage.counts, release=self.plan.mechanism.rows, stage=number)
                    for number, stage in enumerate(one.stages, start=1)
                ]
            )
            margins = [margin for margin in _margins_of(one.block.columns) if len(margin) == 1 or margin in known]
            raked = self._raked(one, weights, margins, known)
            if again := [margin for margin in margins if len(margin) == 1 and margin in shared]:
                raked = replace(
                    self._raked(one, raked.weights, again, known), largest_difference=raked.largest_difference
                )
            found.append(raked)
        return found

    def _raked(
        self, rows: BlockRows, weights: NDArray[np.float64], margins: Sequence[Margin], known: Mapping[Pair, Amounts]
    ) -> Raked:
        """Return the weights of a table's rows, raked to some columns' margins and to some pairs as they are known."""
        model, columns = self.plan.model(self.margins, self.pairs), rows.block.columns
        return raked_weights(
            weights,
            rows.stages,
            maps=rows.maps,
            margins=[tuple(columns.index(column) for column in margin) for margin in margins],
            noisy=[
                (model.margins[margin[0]] if len(margin) == 1 else known[margin[0], margin[1]]).reshape(-1)
                for margin in margins
            ],
            counted=part_of(self.plan.counted, columns),
        )

    @cached_property
    def final(self) -> PairModel:
        """Return the model of everything that is published."""
        rows = []
        for one, raked in zip(self.rows, self.raked, strict=True):
            own = part_of(self.plan.counted, one.block.columns)
            stages = row_stages(raked.weights, one.stages, maps=one.maps, counted=own)
            rows.append((one.block, stages))
        return self.plan.final_model(self.margins, self.pairs, rows)

    def table(self) -> PublishedTable:
        """Return a row for each cell: columns and labels, the pair, the noisy count and its error, the fitted count.

        A pair is named by its place in the order of draws, since one may be counted twice, by different labels.
        """
        from ...tasks.stages.table import PublishedTable, figure_column

        chosen = [self.plan.candidates[pair.number] for pair in self.pairs]
        columns = cell_columns(
            [
                *((self.plan.counted, margin) for margin in self._singles),
                *((self.plan.details[one.detail], (one.first, one.second)) for one in chosen),
            ],
            missing=None,
        )
        tables = (self.plan.cells_by_labels(self.final.tables[one.first, one.second], one) for one in chosen)
        fitted = [*self.final.margins, *tables]
        counts = [*self.margins, *(pair.cells for pair in self.pairs)]
        sizes = [sum(cells.size for cells in self.margins), *(pair.cells.size for pair in self.pairs)]
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        errors = np.where(numbers == 0, margin_error(self.plan.mechanism), self.plan.deviation)
        figures = (
            figure_column("pair", numbers),
            figure_column("count", np.concatenate(counts)),
            figure_column("standard_error", errors),
            figure_column("fitted", np.concatenate(fitted).round(3)),
        )
        return PublishedTable(columns=(*columns, *figures), times=None)

    @cached_property
    def survey(self) -> SurveyWeights | None:
        """Return what follows of survey weights; None where there are none."""
        return SurveyWeights.of(self.plan.counted, self.margins, deviation=margin_error(self.plan.mechanism))

    def totals(self, survey: SurveyWeights) -> PublishedTable:
        """Return the totals of survey weights by each column that was counted together with their classes."""
        fitted = dict(survey.by_class(pair, cells) for pair, cells in self.final.tables.items() if survey.place in pair)
        candidates, tables = self.plan.candidates, dict[int, Cells]()
        for pair in self.pairs:
            first, second, detail = candidates[pair.number]
            if detail == 0 and survey.place in (first, second):
                place, cells = survey.by_class((first, second), pair.cells)
                tables[place] = cells
        return survey.totals_table(
            self.margins,
            tables,
            deviation=self.plan.deviation,
            fitted={**fitted, survey.place: self.final.margins[survey.place]},
        )

    def facts(self, charged: Price) -> dict[str, Any]:
        """Return what the certificate says of margins and pairs."""
        names = self.plan.counted.names
        pairs = [
            {
                "columns": [names[one.first], names[one.second]],
                "levels": list(self.plan.levels_of(one)),
                "cells": int(pair.cells.size),
                "standard_error": self.plan.deviation,
            }
            for pair in self.pairs
            for one in (self.plan.candidates[pair.number],)
        ]
        return {
            "margins": planned_facts(self.plan, charged)["margins"]
            | {
                "records": max(one.total for one in self.raked),
                "largest_difference": max(one.largest_difference for one in self.raked),
            },
            "pairs": pairs,
            **_chosen(self.plan),
        }

    @property
    def _singles(self) -> list[Margin]:
        return [(place,) for place in range(len(self.margins))]


def _margins_of(columns: Sequence[int]) -> list[Margin]:
    """Return each of some columns, and each pair of them."""
    return [*((column,) for column in columns), *combinations(columns, 2)]


def _chosen(plan: PairedPlan) -> dict[str, Any]:
    """Return all that the choices of levels and blocks go by, besides what is published; nothing where all is fixed."""
    choice, said = plan.stages, dict[str, Any]()
    if isinstance(choice, LevelChoice):
        columns = {
            one.name: {"min_level": one.min_level, "max_level": one.max_level, "weight": str(one.weight)}
            for one in choice.columns
        }
        said["chosen_levels"] = {"rule": RULE, "columns": columns}
    if isinstance(plan.blocks, BlockChoice):
        pinned = [plan.counted.names[place] for place in plan.blocks.pinned]
        said["chosen_blocks"] = {"rule": BLOCKS_RULE, "number": plan.blocks.number, "pinned": pinned}
    return said


def chosen_again(
    certificate: Mapping[str, Any], hierarchies: Mapping[str, Hierarchy], counts: Sequence[int]
) -> list[tuple[str, list[dict[str, int]]]]:
    """Return the name of each table of rows and the levels of its stages, as they follow from published noisy counts.

    Args:
        certificate: its fields.
        hierarchies: of its columns.
        counts: the noisy counts in the order of their file.

    Raises:
        TypeError: its mechanism counts no pairs.
        ValueError: the counts are not those of its margins and pairs, or what it chose follows by another rule.
        LookupError: a field is missing.
    """
    stated, published = certificate["map"]["columns"], certificate["published"]
    mechanism = mechanism_of_record(certificate["mechanism"])
    if not isinstance(mechanism, PairedDeletion):
        raise TypeError("its mechanism counts no pairs")
    names = [column["column"] for column in stated]
    counted = GeneralizationMap(
        columns=tuple(
            MappedColumn(name=one["column"], hierarchy=hierarchies[one["column"]], level=one["level"]) for one in stated
        )
    )
    blocks = _blocks_of(published, names)
    stages = _free_columns(published["chosen_levels"], hierarchies, names) if "chosen_levels" in published else ()
    plan = paired_plan(mechanism, counted, stages or _maps_of(published, counted), blocks)
    sizes = [*counted.sizes, *(pair["cells"] for pair in certificate["published"]["pairs"])]
    if sum(sizes) != len(counts):
        raise ValueError("there are other counts than the certificate names")
    parts = np.split(np.array(counts, dtype=np.int64), np.cumsum(sizes)[:-1])
    numbers = []
    for pair in certificate["published"]["pairs"]:
        first, second = (names.index(name) for name in pair["columns"])
        places = [(one.first, one.second, plan.levels_of(one)) for one in plan.candidates]
        numbers.append(places.index((first, second, tuple(pair["levels"]))))
    drawn = [CountedPair(number, cells) for number, cells in zip(numbers, parts[len(names) :], strict=True)]
    return [
        (block.name, [{column.name: column.level for column in one.columns} for one in maps])
        for block, maps in plan.rows(parts[: len(names)], drawn)
    ]


def _free_columns(
    chosen: Mapping[str, Any], hierarchies: Mapping[str, Hierarchy], names: Sequence[str]
) -> tuple[LatticeColumn, ...]:
    if chosen["rule"] != RULE:
        raise ValueError("its levels follow by another rule")
    return tuple(
        LatticeColumn(
            name=name,
            hierarchy=hierarchies[name],
            min_level=chosen["columns"][name]["min_level"],
            max_level=chosen["columns"][name]["max_level"],
            weight=Decimal(chosen["columns"][name]["weight"]),
        )
        for name in names
    )


def _blocks_of(published: Mapping[str, Any], names: Sequence[str]) -> Blocks | None:
    """Return the blocks that a certificate names, or how it says that they were chosen."""
    if "blocks" not in published:
        return None
    chosen = published.get("chosen_blocks")
    if chosen is None:
        return tuple(
            Block(one["name"], tuple(names.index(name) for name in one["columns"])) for one in published["blocks"]
        )
    if chosen["rule"] != BLOCKS_RULE:
        raise ValueError("its blocks follow by another rule")
    return BlockChoice(number=chosen["number"], pinned=tuple(names.index(name) for name in chosen["pinned"]))


def _maps_of(published: Mapping[str, Any], counted: GeneralizationMap) -> tuple[GeneralizationMap, ...]:
    """Return the maps of stages whose levels were fixed beforehand, of which each block has its own columns."""
    tables = [one["stages"] for one in published["blocks"]] if "blocks" in published else [published["stages"]]
    levels = [
        dict(pair for stage in stages for pair in stage["levels"].items()) for stages in zip(*tables, strict=True)
    ]
    return tuple(
        GeneralizationMap(columns=tuple(replace(one, level=own[one.name]) for one in counted.columns)) for own in levels
    )


def planned_facts(plan: PairedPlan, charged: Price) -> dict[str, Any]:
    """Return which margins there are, how exact they are, and what margins and rows would cost alone."""
    singles = [(place,) for place in range(plan.mechanism.margins)]
    return {"margins": deletion_margin_facts(plan.counted, singles, plan.mechanism, charged)}


def explained_parts(plan: PairedPlan, charged: Price) -> dict[str, Any]:
    """Return the margins, what is decided of pairs and levels while the release runs, and what each part costs alone.

    The prices alone are at the δ of the whole; composed, the parts cost less than their sum.
    """
    counts, draws = price_pairs(
        plan.mechanism, delta=charged.delta, releases=charged.releases, records=charged.rows_per_person
    )
    pairs = {
        "number": plan.mechanism.pairs,
        "candidates": len(plan.candidates),
        "standard_error": plan.deviation,
        "epsilon_of_draw": float(plan.mechanism.pair_epsilon),
        "epsilon_alone": epsilon_alone(counts),
        "draws_epsilon_alone": epsilon_alone(draws),
    }
    written = plan.blocks if isinstance(plan.blocks, tuple) else ()
    blocks = [{"name": block.name, "columns": list(part_of(plan.counted, block.columns).names)} for block in written]
    return planned_facts(plan, charged) | {"pairs": pairs} | ({"blocks": blocks} if blocks else {}) | _chosen(plan)
