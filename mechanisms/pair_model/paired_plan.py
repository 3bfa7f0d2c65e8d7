"""What follows from a paired release's published figures: the estimates its draws are made by, and the rows' maps."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..generalization_map import GeneralizationMap
from ..kernel.group_counts import GroupCounts
from ..kinds.margins import exact_margins
from ..kinds.paired_deletion import (
    ESTIMATE_UNIT,
    Chain,
    CountedPair,
    PairCandidate,
    PairedDeletion,
    PairedProtection,
    pair_quality,
)
from ..record_weights import deletion_variance, weight_place
from .blocks import Block, BlockChoice, restricted
from .chosen_levels import LevelChoice
from .model import Codes, PairModel, merged_table
from .row_estimates import RowStage, pair_by_rows
from .shrinkage import Amounts

Cells = NDArray[np.int64]

PENALTY = 0.5
"""Of the noise's standard deviation, for each cell of a pair: about what its noise adds to its distance."""
PRECEDENCE = 1 << 40
"""Records by which the quality of a pair that is always wanted is raised: more than any file has."""


def code_tables(finer: GeneralizationMap, coarser: GeneralizationMap) -> tuple[Codes, ...]:
    """Return per column the code at its level in a coarser map of each code in a finer one."""
    tables = zip(finer.columns, finer.tables_to(coarser), strict=True)
    return tuple(np.arange(column.size) if table is None else table for column, table in tables)


def pair_candidates(details: Sequence[GeneralizationMap], *, most_cells: int) -> tuple[PairCandidate, ...]:
    """Return every pair of columns at every detail that tells something new of it, in a fixed order.

    Args:
        details: maps, the finest first; each a coarsening of the first.
        most_cells: of a pair.
    """
    found = []
    for number, one in enumerate(details):
        finer = details[:number]
        for first, second in combinations(range(len(one.columns)), 2):
            own = one.columns[first], one.columns[second]
            countable = min(column.size for column in own) > 1 and own[0].size * own[1].size <= most_cells
            levels = [column.level for column in own]
            if countable and all(
                [other.columns[first].level, other.columns[second].level] != levels for other in finer
            ):
                found.append(PairCandidate(first, second, number))
    return tuple(found)


class RowMaps(NamedTuple):
    """A table of rows as it is published.

    Args:
        block: its columns.
        stages: maps of these columns, the finest first.
    """

    block: Block
    stages: tuple[GeneralizationMap, ...]


def part_of(whole: GeneralizationMap, columns: Sequence[int]) -> GeneralizationMap:
    """Return a map of some of a map's columns."""
    return GeneralizationMap(columns=tuple(whole.columns[place] for place in columns))


def weight_candidates(counted: GeneralizationMap, candidates: Sequence[PairCandidate]) -> tuple[int, ...]:
    """Return the numbers of the candidates that count a column with the classes of survey weights, by finest labels."""
    place = weight_place(counted)
    return tuple(
        number
        for number, one in enumerate(candidates)
        if place is not None and one.detail == 0 and place in (one.first, one.second)
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PairedPlan:
    """A paired release's public side: a `PublishedModel`.

    Args:
        mechanism: the release.
        details: maps by whose labels pairs may be counted; the first is that of the margins.
        candidates: pairs at a detail.
        stages: maps of the rows, the finest first; or how their levels follow from what is published before.
        blocks: tables of rows; or how they follow from what is published before. None for one of all columns.
    """

    mechanism: PairedDeletion
    details: tuple[GeneralizationMap, ...]
    candidates: tuple[PairCandidate, ...]
    stages: tuple[GeneralizationMap, ...] | LevelChoice
    blocks: tuple[Block, ...] | BlockChoice | None = None
    _models: dict[bytes, PairModel] = field(default_factory=dict, init=False, repr=False)
    _rows: dict[bytes, tuple[RowMaps, ...]] = field(default_factory=dict, init=False, repr=False)
    _estimated: list[tuple[PairModel, list[Cells]]] = field(default_factory=list, init=False, repr=False)
    _label_tables: dict[int, tuple[Codes, ...]] = field(default_factory=dict, init=False, repr=False)

    @property
    def counted(self) -> GeneralizationMap:
        """Return the map of the margins, whose groups are counted."""
        return self.details[0]

    @property
    def deviation(self) -> float:
        """Return σ of a pair's cells."""
        return math.sqrt(deletion_variance(self.mechanism.pair_noise))

    def protection(self) -> PairedProtection:
        """Return the protection of this release."""
        return PairedProtection(
            mechanism=self.mechanism,
            layout=self.counted.layout,
            details=tuple(self.counted.tables_to(one) for one in self.details),
            sizes=tuple(one.sizes for one in self.details),
            candidates=self.candidates,
            model=self,
        )

    def penalties(self) -> list[int]:
        """Return each candidate's penalty, in units; those that count survey weights have one far below 0."""
        unit = PENALTY * self.deviation * ESTIMATE_UNIT
        penalties = [round(unit * math.prod(self._shape(one))) for one in self.candidates]
        # A penalty is public, so that precedence needs nothing of the mechanism and its price: whatever the records
        # are, these pairs are drawn first, but for a probability far below every δ.
        for number in weight_candidates(self.counted, self.candidates):
            penalties[number] -= PRECEDENCE * ESTIMATE_UNIT
        return penalties

    def estimates(self, margins: Sequence[Cells], pairs: Sequence[CountedPair]) -> list[Cells]:
        """Return each candidate's estimated cells, in units; the same arrays as of the draw before where they stay."""
        model = self.model(margins, pairs)
        changed = {(one.first, one.second) for one in self.candidates}
        before: list[Cells] = []
        if self._estimated and self._estimated[0][0].margins is model.margins:
            former, before = self._estimated[0]
            changed &= model.moved(former)
        tables = model.estimates(changed)
        found = [
            self._in_units(tables[pair], one) if (pair := (one.first, one.second)) in tables else before[number]
            for number, one in enumerate(self.candidates)
        ]
        self._estimated[:] = [(model, found)]
        return found

    def chains(self, margins: Sequence[Cells], pairs: Sequence[CountedPair]) -> tuple[Chain, ...]:
        """Return the columns and maps of each table of rows, and the levels where they were not fixed beforehand."""
        self._estimated.clear()  # the draws are over
        chains = []
        for block, stages in self.rows(margins, pairs):
            counted = part_of(self.counted, block.columns)
            tables = tuple(finer.tables_to(coarser) for finer, coarser in pairwise((counted, *stages)))
            levels = tuple(column.level for one in stages for column in one.columns)
            drawn = levels if isinstance(self.stages, LevelChoice) else ()
            chains.append(Chain(block.columns, drawn, tuple(one.layout for one in stages), tables))
        return tuple(chains)

    def rows(self, margins: Sequence[Cells], pairs: Sequence[CountedPair]) -> tuple[RowMaps, ...]:
        """Return the columns and the map of each stage of each table of rows."""
        key = _digest(margins, pairs)
        if key not in self._rows:
            self._rows.clear()
            self._rows[key] = tuple(RowMaps(*one) for one in self._found_rows(margins, pairs))
        return self._rows[key]

    def _found_rows(
        self, margins: Sequence[Cells], pairs: Sequence[CountedPair]
    ) -> Iterator[tuple[Block, tuple[GeneralizationMap, ...]]]:
        whole = Block("", tuple(range(len(self.counted.columns))))
        blocks = self.blocks or (whole,)
        if isinstance(blocks, BlockChoice):
            blocks = blocks.blocks(self.model(margins, pairs))
        for block in blocks:
            if not isinstance(self.stages, LevelChoice):
                yield block, tuple(part_of(one, block.columns) for one in self.stages)
                continue
            choice = replace(self.stages, columns=tuple(self.stages.columns[place] for place in block.columns))
            model = self.model(margins, pairs)
            found = choice.chain(model if block == whole else restricted(model, block.columns))
            yield block, tuple(choice.lattice.map_of(levels) for levels in found)

    def rows_of_public_records(self, exact: GroupCounts) -> tuple[RowMaps, ...]:
        """Return the tables of rows that public records would give if nothing had noise.

        The pair of the highest quality is taken each time, and counted exactly.

        Args:
            exact: the groups of the public records by the labels of the margins.
        """
        singles = [(place,) for place in range(len(self.counted.columns))]
        margins = exact_margins(exact, layout=self.counted.layout, margins=singles)
        cells, penalties = self.protection().exact_cells(exact), self.penalties()
        pairs: list[CountedPair] = []
        before: list[Cells] = []
        qualities: dict[int, int] = {}
        for _ in range(self.mechanism.pairs):
            estimates = self.estimates(margins, tuple(pairs))
            for one, estimate in enumerate(estimates):
                if not before or estimate is not before[one]:
                    qualities[one] = pair_quality(cells[one], estimate, penalties[one])
            number = max(set(qualities) - {pair.number for pair in pairs}, key=lambda one: (qualities[one], -one))
            pairs.append(CountedPair(number, cells[number]))
            before = estimates
        return self.rows(margins, tuple(pairs))

    def model(self, margins: Sequence[Cells], pairs: Sequence[CountedPair]) -> PairModel:
        """Return the model of margins, and of pairs in the order of their draws."""
        key = _digest(margins, pairs)
        if key not in self._models:
            # Each draw asks for one pair more than the draw before, so that one model is added to. Whoever reads a
            # release has none yet; there may be more pairs than calls within calls.
            made, left = self._models.get(_digest(margins, pairs[:-1])) if pairs else None, pairs[-1:]
            if made is None:
                made, left = PairModel.of_margins(margins), pairs
            for pair in left:
                made = self._with_pair(made, pair, prior=None)
            # One model is remembered, the last: tables of many pairs take much memory, and only the next draw needs it.
            self._models.clear()
            self._models[key] = made
        return self._models[key]

    def final_model(
        self, margins: Sequence[Cells], pairs: Sequence[CountedPair], rows: Sequence[tuple[Block, Sequence[RowStage]]]
    ) -> PairModel:
        """Return the model of all that is published: every pair of columns, by margins, rows and counted pairs.

        Args:
            margins: noisy cells.
            pairs: in the order of their draws.
            rows: the stages of each table of rows. A pair that several tables tell is the mean of what they tell.
        """
        first = self.model(margins, pairs)
        every = combinations(range(len(self.counted.columns)), 2)
        tables = {}
        for pair, estimate in first.estimates(every).items():
            told = [
                pair_by_rows(
                    (block.columns.index(pair[0]), block.columns.index(pair[1])),
                    estimate,
                    stages=stages,
                    margins=[first.margins[place] for place in block.columns],
                )
                for block, stages in rows
                if set(pair) <= set(block.columns)
            ]
            tables[pair] = told[0] if len(told) == 1 else sum(told[1:], told[0]) / len(told) if told else estimate
        final = PairModel(records=first.records, margins=first.margins, tables=tables)
        # Tables with fewer, larger cells come first; the finer ones, which know more of the details, have the last
        # word. The number makes the order the same everywhere.
        for counted in sorted(pairs, key=lambda one: (one.cells.size, one.number)):
            place = self.candidates[counted.number]
            final = self._with_pair(final, counted, prior=final.tables[place.first, place.second])
        return final

    def levels_of(self, candidate: PairCandidate) -> tuple[int, int]:
        """Return by which level of each of its columns a candidate is counted."""
        columns = self.details[candidate.detail].columns
        return columns[candidate.first].level, columns[candidate.second].level

    def cells_by_labels(self, table: Amounts, candidate: PairCandidate) -> Amounts:
        """Return a table of the finest labels by those of a candidate; shape (cells,)."""
        return merged_table(table, self._labels(candidate), shape=self._shape(candidate)).reshape(-1)

    def _with_pair(self, model: PairModel, pair: CountedPair, *, prior: Amounts | None) -> PairModel:
        place = self.candidates[pair.number]
        noisy = pair.cells.astype(np.float64).reshape(self._shape(place))
        labels = self._labels(place)
        return model.with_counts(
            (place.first, place.second), noisy, labels=labels, deviation=self.deviation, prior=prior
        )

    def _in_units(self, table: Amounts, candidate: PairCandidate) -> Cells:
        return np.rint(self.cells_by_labels(table, candidate) * ESTIMATE_UNIT).astype(np.int64)

    def _labels(self, candidate: PairCandidate) -> tuple[Codes, Codes]:
        if candidate.detail not in self._label_tables:
            self._label_tables[candidate.detail] = code_tables(self.counted, self.details[candidate.detail])
        tables = self._label_tables[candidate.detail]
        return tables[candidate.first], tables[candidate.second]

    def _shape(self, candidate: PairCandidate) -> tuple[int, int]:
        sizes = self.details[candidate.detail].sizes
        return sizes[candidate.first], sizes[candidate.second]


def _digest(margins: Sequence[Cells], pairs: Sequence[CountedPair]) -> bytes:
    """Return what names some published figures, by which what follows from them is remembered."""
    figures = [*margins, *(np.append(pair.cells, pair.number) for pair in pairs)]
    return hashlib.sha256(np.concatenate(figures).astype("<i8").tobytes()).digest()
