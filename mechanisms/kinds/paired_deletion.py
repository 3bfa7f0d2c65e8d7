"""Deletion releases that count pairs of columns, each pair drawn privately by what was published before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..kernel.group_counts import GroupCounts, merge_counts, sum_counts
from ..kernel.mechanism import Randomness
from ..kernel.protection import Numbers
from ..kernel.recoding import CodeTable, KeyLayout
from .deletion import CalibratedDeletion, DeletionRelease
from .deletion_noise import GaussianDeletion, draw_deletions
from .deletion_protection import DeletionProtection, read_stages
from .margins import exact_margins, noisy_margins, split_margins

Cells = NDArray[np.int64]

_ROWS_AT_ONCE = 1 << 18
ESTIMATE_UNIT = 1 << 12
"""Estimates of counts are whole numbers of 1/ESTIMATE_UNIT records, so that qualities are exact."""
LARGEST_ESTIMATE = 1 << 56
"""Of all cells of a pair together, in units."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedDeletion(CalibratedDeletion):
    """A calibrated deletion release that also counts pairs of columns, one after the other, each drawn privately.

    First the margins are published. Then each pair is drawn by an exponential mechanism whose quality compares the
    exact counts of a pair with an estimate that follows from what is out, and all its cells are published with noise.
    The maps of the rows may follow from all that, since the noise is fixed beforehand (docs/proofs/pairs.md).

    Args:
        pairs: how many are drawn and counted, at least 1.
        pair_scale: σ of the noise of their cells.
        pair_width: m of that noise.
        pair_epsilon: ε of each draw, above 0.

    Raises:
        ValueError: a field outside its range.
    """

    kind = "paired_deletion"

    pairs: int
    pair_scale: Decimal
    pair_width: int
    pair_epsilon: Decimal

    def __post_init__(self) -> None:
        CalibratedDeletion.__post_init__(self)  # super() knows no dataclass with slots
        if self.pairs < 1:
            raise ValueError(f"there must be at least one pair, not {self.pairs}")
        if not (self.pair_epsilon.is_finite() and -30 < self.pair_epsilon.adjusted() < 3 and self.pair_epsilon > 0):
            raise ValueError(f"the epsilon of a pair's draw must be above 0 and below 1000, not {self.pair_epsilon}")
        GaussianDeletion(scale=self.pair_scale, width=self.pair_width)

    @property
    def tables(self) -> int:
        """How many tables of rows are published, each with a chain of stages of its own."""
        return 1

    @property
    def pair_noise(self) -> GaussianDeletion:
        """The law of Z for each cell of a pair."""
        return GaussianDeletion(scale=self.pair_scale, width=self.pair_width)

    @property
    def rows(self) -> DeletionRelease:
        """The release of one table of rows by itself."""
        return DeletionRelease(stages=self.stages, k=self.k, noise=self.noise)


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockedDeletion(PairedDeletion):
    """A paired release whose rows are published in blocks: several tables of some columns each, all of all records.

    Each block has a chain of stages of its own, which may follow from what was published before the rows, and so may
    the columns of each block. A record meets the noise of every stage of every block (docs/proofs/pairs.md).

    Args:
        blocks: how many tables of rows there are, at least 1.

    Raises:
        ValueError: a field outside its range.
    """

    blocks: int

    def __post_init__(self) -> None:
        PairedDeletion.__post_init__(self)
        if self.blocks < 1:
            raise ValueError(f"there must be at least one block, not {self.blocks}")

    @property
    def tables(self) -> int:
        """How many tables of rows are published."""
        return self.blocks


class PairCandidate(NamedTuple):
    """Two columns that may be counted together, by the labels of one of the details.

    Args:
        first: number of a column, from 0.
        second: number of a later column.
        detail: number of the labels' detail; 0 are the labels that are counted.
    """

    first: int
    second: int
    detail: int


class CountedPair(NamedTuple):
    """A pair as it is published.

    Args:
        number: of its candidate.
        cells: noisy counts, the first column's label the more significant; shape (labels of both, multiplied,).
    """

    number: int
    cells: Cells


class Chain(NamedTuple):
    """The columns of a table of rows and its maps, the finest first.

    Args:
        columns: by their numbers from 0, ascending; those that are counted and not among them aren't told.
        levels: what is stored of the maps, one a column and stage; empty where they are fixed.
        layouts: of each stage's groups.
        tables: for each stage, the first included, per column the code there of each code before; None where they stay.
    """

    columns: tuple[int, ...]
    levels: tuple[int, ...]
    layouts: tuple[KeyLayout, ...]
    tables: tuple[tuple[CodeTable | None, ...], ...]


class PublishedModel(Protocol):
    """What is made of published figures alone. PRIVACY: it is given nothing else, so that whatever it does is free."""

    def estimates(self, margins: Sequence[Cells], pairs: Sequence[CountedPair]) -> list[Cells]:
        """Return for each candidate its cells' estimated counts in units, at least 0.

        An array that was given before and is given again still has the same counts.
        """
        ...

    def penalties(self) -> list[int]:
        """Return for each candidate what its quality is lowered by, in units, for the noise of its cells."""
        ...

    def chains(self, margins: Sequence[Cells], pairs: Sequence[CountedPair]) -> tuple[Chain, ...]:
        """Return the columns and maps of each table of rows."""
        ...


class PublishedFigures(NamedTuple):
    """What a release has published.

    Args:
        margins: each column's noisy cells.
        pairs: in the order of their draws.
        chains: of each table of rows.
        stages: of each table, the groups of each stage.
    """

    margins: list[Cells]
    pairs: tuple[CountedPair, ...]
    chains: tuple[Chain, ...]
    stages: list[list[GroupCounts]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PairedProtection:
    """What a release publishes of exact counts: margins, pairs, and what each stage of its rows leaves of its groups.

    Args:
        mechanism: the release.
        layout: of the groups that are counted.
        details: for each detail, per column the label's code of each code that is counted; None where they are the
            same.
        sizes: for each detail, how many labels each column has.
        candidates: which pairs may be drawn; public.
        model: of what is published.

    Raises:
        ValueError: they don't go together.
    """

    mechanism: PairedDeletion
    layout: KeyLayout
    details: tuple[tuple[CodeTable | None, ...], ...]
    sizes: tuple[tuple[int, ...], ...]
    candidates: tuple[PairCandidate, ...]
    model: PublishedModel
    drawn: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.layout.sizes) != self.mechanism.margins:
            raise ValueError(f"{self.mechanism.margins} margins are paid for, not {len(self.layout.sizes)}")
        if len(self.candidates) < self.mechanism.pairs or len(set(self.candidates)) < len(self.candidates):
            raise ValueError(f"{self.mechanism.pairs} pairs can't be drawn from {len(self.candidates)} candidates")
        for tables, sizes in zip(self.details, self.sizes, strict=True):
            _require_codes(tables, finer=self.layout.sizes, coarser=sizes)
        for first, second, detail in self.candidates:
            if not (0 <= first < second < len(self.layout.sizes) and 0 <= detail < len(self.details)):
                raise ValueError("a candidate is no pair of columns")

    def cells_of(self, number: int) -> int:
        """Return how many cells a candidate has."""
        first, second, detail = self.candidates[number]
        return self.sizes[detail][first] * self.sizes[detail][second]

    def protect(self, exact: GroupCounts, *, randomness: Randomness) -> NDArray[np.int64]:
        """Return the numbers of `published_pairs`.

        PRIVACY: each step depends on exact counts only through its own draw, and on the others by what they published.
        All is drawn in one go and stored before anything of it is shown: a run that ends before has shown nothing.
        """
        mechanism = self.mechanism
        singles = [(place,) for place in range(mechanism.margins)]
        noisy = noisy_margins(exact, layout=self.layout, margins=singles, release=mechanism, randomness=randomness)
        margins = split_margins(noisy, layout=self.layout, margins=singles)
        counts = self.exact_cells(exact)
        penalties = [int(one) for one in self.model.penalties()]
        pairs: list[CountedPair] = []
        before: list[Cells] = []
        qualities: dict[int, int] = {}
        for _ in range(mechanism.pairs):
            left = sorted(set(range(len(self.candidates))) - {pair.number for pair in pairs})
            estimates = self.model.estimates(margins, tuple(pairs))
            for one in left:
                if not before or estimates[one] is not before[one]:
                    qualities[one] = pair_quality(counts[one], estimates[one], penalties[one])
            number = left[draw_pair([qualities[one] for one in left], epsilon=mechanism.pair_epsilon)]
            before = estimates
            noise = draw_deletions(mechanism.pair_noise, counts[number].size, randomness=randomness)
            pairs.append(CountedPair(number, counts[number] + noise - mechanism.pair_width))
        published = [
            self._rows(chain).protect(self._grouped(exact, chain), randomness=randomness)
            for chain in self._chains(margins, tuple(pairs))
        ]
        drawn = [np.concatenate(([pair.number], pair.cells)) for pair in pairs]
        return np.concatenate((*margins, *drawn, *published)).astype(np.int64)

    def fits(self, numbers: Numbers) -> bool:
        """Return whether the numbers can be what this release publishes."""
        try:
            self.published(numbers)
        except (ValueError, OverflowError):
            return False
        return True

    def published(self, numbers: Numbers) -> PublishedFigures:
        """Return what the numbers say.

        They are each margin's cells; for each pair the number of its candidate and its cells; and for each table of
        rows those of `published_stages`.

        Raises:
            ValueError: the numbers are nothing that this release can publish.
            OverflowError: one has more than 64 bits.
        """
        every = np.asarray(numbers, dtype=np.int64)
        end = sum(self.layout.sizes)
        if every.size < end:
            raise ValueError("margins are missing")
        singles = [(place,) for place in range(self.mechanism.margins)]
        margins = split_margins(every[:end], layout=self.layout, margins=singles)
        pairs: list[CountedPair] = []
        for _ in range(self.mechanism.pairs):
            number = int(every[end]) if end < every.size else -1
            if not 0 <= number < len(self.candidates) or any(pair.number == number for pair in pairs):
                raise ValueError("a pair is of no candidate")
            cells = every[end + 1 : end + 1 + self.cells_of(number)]
            if cells.size != self.cells_of(number):
                raise ValueError("cells of a pair are missing")
            pairs.append(CountedPair(number, cells))
            end += 1 + cells.size
        chains, left, stages = self._chains(margins, tuple(pairs)), every[end:], list[list[GroupCounts]]()
        for chain in chains:
            own, left = read_stages(left, k=self.mechanism.k, layouts=chain.layouts, levels=chain.levels)
            stages.append(own)
        if left.size:
            raise ValueError("there are more numbers than groups")
        return PublishedFigures(margins, tuple(pairs), chains, stages)

    def exact_cells(self, exact: GroupCounts) -> list[Cells]:
        """Return each candidate's exact cells."""
        found: dict[int, Cells] = {}
        for detail, (tables, sizes) in enumerate(zip(self.details, self.sizes, strict=True)):
            own = {
                number: (one.first, one.second) for number, one in enumerate(self.candidates) if one.detail == detail
            }
            cells = exact_margins(exact, layout=self.layout, margins=[*own.values()], tables=tables, sizes=sizes)
            found |= zip(own, cells, strict=True)
        return [found[number] for number in range(len(self.candidates))]

    def _chains(self, margins: Sequence[Cells], pairs: tuple[CountedPair, ...]) -> tuple[Chain, ...]:
        """Return the model's columns and maps of each table of rows, checked."""
        chains = tuple(map(_plain, self.model.chains(margins, pairs)))
        if len(chains) != self.mechanism.tables:
            raise ValueError(f"{self.mechanism.tables} tables of rows are paid for, not {len(chains)}")
        for chain in chains:
            if not chain.columns or list(chain.columns) != sorted(set(chain.columns)) or chain.columns[0] < 0:
                raise ValueError("a table of rows has no columns, or names them twice")
            sizes = [self.layout.sizes[place] for place in chain.columns]
            _require_codes(chain.tables[0], finer=sizes, coarser=chain.layouts[0].sizes)
        return chains

    def _grouped(self, exact: GroupCounts, chain: Chain) -> GroupCounts:
        """Return the groups of all records by the columns and labels of a chain's first stage."""
        layout, parts = chain.layouts[0], list[GroupCounts]()
        for begin in range(0, exact.counts.size, _ROWS_AT_ONCE):
            block = slice(begin, begin + _ROWS_AT_ONCE)
            codes = []
            for place, table in zip(chain.columns, chain.tables[0], strict=True):
                own = self.layout.codes_of(exact.keys[:, block], place)
                codes.append(own if table is None else table[own].astype(np.int64, copy=False))
            parts.append(sum_counts(layout.keys(codes), exact.counts[block]))
        return merge_counts(parts or [GroupCounts(np.empty((layout.key_words, 0), np.int64), np.empty(0, np.int64))])

    def _rows(self, chain: Chain) -> DeletionProtection:
        return DeletionProtection(
            mechanism=self.mechanism.rows,
            layouts=chain.layouts,
            tables=chain.tables[1:],
            levels=chain.levels,
            margins=(),
        )


def _plain(chain: Chain) -> Chain:
    """Return a chain of whole numbers alone: what the model answers holds no code that would be handed exact counts."""
    layouts = tuple(KeyLayout(sizes=tuple(map(int, one.sizes))) for one in chain.layouts)
    tables = tuple(tuple(None if one is None else np.asarray(one, np.int64) for one in stage) for stage in chain.tables)
    return Chain(tuple(map(int, chain.columns)), tuple(map(int, chain.levels)), layouts, tables)


def _require_codes(tables: Sequence[CodeTable | None], *, finer: Sequence[int], coarser: Sequence[int]) -> None:
    """Check that tables give each code of some columns one of the coarser codes."""
    for table, size, finest in zip(tables, coarser, finer, strict=True):
        codes = np.arange(finest) if table is None else table
        if codes.shape != (finest,) or codes.min() < 0 or codes.max() >= size:
            raise ValueError("a table lacks a code, or gives one that there isn't")


def pair_quality(counts: Cells, estimate: Cells, penalty: int) -> int:
    """Return Σ|count − estimate| − penalty, in units of 1/ESTIMATE_UNIT.

    INVARIANT: one record more changes one count by 1 and the estimate by nothing, hence the quality by at most
    ESTIMATE_UNIT up or down. The estimate must never be scaled by an exact number of records.

    Args:
        counts: exact, shape (cells,).
        estimate: in units, shape (cells,).
        penalty: in units.

    Raises:
        ValueError: an estimate of another shape, or out of range.
    """
    estimate = np.asarray(estimate, dtype=np.int64)  # a class below it would be handed the counts
    # Summed in doubles, which can't overflow: all estimates together must leave room for the sum of differences.
    whole = float(estimate.sum(dtype=np.float64))
    if estimate.shape != counts.shape or estimate.min() < 0 or whole > LARGEST_ESTIMATE:
        raise ValueError("an estimate has no cell for each count, or one out of range")
    return int(np.abs(counts * ESTIMATE_UNIT - estimate).sum()) - penalty


def draw_pair(qualities: Sequence[int], *, epsilon: Decimal) -> int:
    """Draw a place with probability ∝ e^{ε·q/2}, q in units of 1/ESTIMATE_UNIT; randomness is opendp's own.

    PRIVACY: a record may raise some qualities and lower others, so that the exponent is half of what it is where no
    record lowers any; the logarithms of the ratios then lie within an interval of length ε (docs/proofs/pairs.md).
    """
    import opendp.prelude as dp  # it takes its time to load

    dp.enable_features("contrib")
    exact = 2 * ESTIMATE_UNIT / Fraction(epsilon)
    scale = float(exact)
    scale = scale if Fraction(scale) >= exact else math.nextafter(scale, math.inf)
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    noisy_max: Callable[[list[int]], int] = dp.m.make_noisy_max(
        domain, dp.linf_distance(T="i64"), dp.zero_concentrated_divergence(), scale=scale
    )
    return int(noisy_max(list(qualities)))
