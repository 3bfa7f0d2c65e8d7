"""[margins]: noisy counts of the released columns, or of all records, that are published beside a release's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..accounting.kernel.prices.arithmetic import divide_down
from ..accounting.kernel.prices.mechanism_kind import Price
from ..accounting.theory.planning.parts_beside import price_parts
from ..mechanisms.generalization_map import GeneralizationMap
from ..mechanisms.kernel.amounts import amount_exact
from ..mechanisms.kernel.errors import InputRefused
from ..mechanisms.kernel.group_counts import GroupCounts
from ..mechanisms.kinds.deletion import CalibratedDeletion
from ..mechanisms.kinds.margins import TOTAL, Margin, WithMargins, margin_sizes
from ..mechanisms.pair_model.model import PairModel, records_in
from ..mechanisms.pair_model.paired_plan import code_tables
from ..mechanisms.pair_model.row_estimates import RowStage, pair_by_rows
from ..mechanisms.pair_model.shrinkage import Amounts
from ..mechanisms.record_weights import Number, Raked, coarser_margins, deletion_variance, rake_weights, weight_place
from .columns import MOST_CELLS
from .spec_tables import MarginsTable, SpecTables

if TYPE_CHECKING:
    from ..tasks.stages.table import PublishedTable, TableColumn

MARGINS = "margins"
"""The name of the margins' table, and of the certificate's part about them."""

Cells = NDArray[np.int64]


def declared_margins(path: Path, table: MarginsTable | None, finest: GeneralizationMap) -> tuple[Margin, ...]:
    """Return each column's margin, in their order, and those of the pairs; or the total; none without [margins].

    Where there are survey weights, each column is also counted together with their classes.

    INVARIANT: which margins there are, and which cells, is public before the records are read.

    Raises:
        InputRefused: a pair is none or stands beside the total, or there are too many cells.
    """
    if table is None:
        return ()
    names, where = finest.names, f"{path}: [margins]"
    for key in ("number", "pair_share", "draw_share"):
        if getattr(table, key) is not None:
            raise InputRefused(
                "this goes with pairs that are chosen.",
                where=f"{where}.{key}",
                remedy='Remove it, or write pairs = "auto".',
            )
    if not table.columns:
        if table.pairs:
            raise InputRefused(
                "without columns the number of all records is counted, and nothing else.",
                where=f"{where}.pairs",
                remedy="Remove it, or columns = false.",
            )
        return (TOTAL,)
    margins: list[Margin] = [(place,) for place in range(len(names))]
    for number, pair in enumerate(() if table.pairs == "auto" else table.pairs, start=1):
        place = f"{where}.pairs, number {number}"
        if len(pair) != 2 or len(set(pair)) != 2:
            raise InputRefused("a pair names two columns.", where=place)
        if unknown := [name for name in pair if name not in names]:
            raise InputRefused(
                f"{unknown[0]!r} is not a released column.", where=place, remedy="Name columns of [columns]."
            )
        first, second = sorted(names.index(name) for name in pair)
        if (first, second) in margins:
            raise InputRefused("this pair is there already.", where=place, remedy="Remove it.")
        margins.append((first, second))
    if (weights := weight_place(finest)) is not None:
        if finest.columns[weights].size == 1:
            raise InputRefused(
                "totals follow from counts by the classes of weights, and the first stage merges them all.",
                where=f"{path}: [data.weight_classes].levels",
                remedy="Give the first stage a finer level.",
            )
        together = [(min(place, weights), max(place, weights)) for place in range(len(names)) if place != weights]
        margins += [pair for pair in together if pair not in margins]
    cells = sum(margin_sizes(finest, margins))
    if cells > MOST_CELLS:
        raise InputRefused(
            f"these margins have {cells} cells, more than the {MOST_CELLS} that one release publishes.",
            where=f"{where}.pairs" if table.pairs else where,
            remedy="Name fewer pairs, or give the first stage coarser levels.",
        )
    return tuple(margins)


def with_share(path: Path, tables: SpecTables) -> SpecTables:
    """Return a specification whose margins' part of ε is written as their share of it; any other as it is.

    Raises:
        InputRefused: the share is written too, or ε isn't, or the part isn't below it.
    """
    margins = tables.margins
    if margins is None or margins.epsilon is None:
        return tables
    where, whole = f"{path}: [{MARGINS}].epsilon", None if tables.privacy is None else tables.privacy.epsilon
    if margins.share is not None:
        raise InputRefused(
            "epsilon and share both say what the margins take.", where=where, remedy="Remove one of them."
        )
    if whole is None:
        raise InputRefused(
            "this is a part of [privacy].epsilon, which is missing.", where=where, remedy="Write [privacy].epsilon too."
        )
    if margins.epsilon >= whole:
        raise InputRefused(
            f"the margins' part of ε must be below the ε = {amount_exact(whole)} of the whole release.",
            where=where,
            remedy="Lower it, or raise [privacy].epsilon.",
        )
    share = divide_down(margins.epsilon, whole)
    return tables.model_copy(update={MARGINS: margins.model_copy(update={"share": share, "epsilon": None})})


def margin_names(finest: GeneralizationMap, margins: Sequence[Margin]) -> list[list[str]]:
    """Return the columns of each margin."""
    return [[finest.columns[place].name for place in margin] for margin in margins]


def raked_weights(
    weights: NDArray[np.float64],
    stages: Sequence[GroupCounts],
    *,
    maps: Sequence[GeneralizationMap],
    margins: Sequence[Margin],
    noisy: Sequence[Number],
    counted: GeneralizationMap | None = None,
) -> Raked:
    """Return the weights that fit the margins by the labels of the last stage, the finest that all rows have.

    Args:
        weights: of each group's records, before; shape (groups of all stages,).
        noisy: each margin's cells, by the labels of `counted`.
        counted: the map of the margins; None where it is that of the first stage.
    """
    last = maps[-1]
    coarse: list[list[NDArray[np.int32]]] = [[] for _ in last.columns]
    for stage, one in zip(stages, maps, strict=True):
        every = zip(one.columns, last.columns, one.decode(stage.keys), strict=True)
        for place, (before, after, codes) in enumerate(every):
            above = before.hierarchy.coarser(codes, level=before.level, to=after.level)
            coarse[place].append(above.astype(np.int32))  # at most a million labels, since each has a cell
    return rake_weights(
        weights,
        np.concatenate([stage.counts for stage in stages]),
        [np.concatenate(codes) for codes in coarse],
        layout=last,
        margins=margins,
        noisy=coarser_margins(noisy, finer=counted or maps[0], coarser=last, margins=margins),
    )


def row_stages(
    weights: NDArray[np.float64],
    stages: Sequence[GroupCounts],
    *,
    maps: Sequence[GeneralizationMap],
    counted: GeneralizationMap,
) -> list[RowStage]:
    """Return of how many records each group of each stage tells.

    Args:
        weights: of each group's records; shape (groups of all stages,).
        stages: the finest first.
        maps: of the stages.
        counted: the map of the margins.
    """
    found, end = [], 0
    for stage, coarser in zip(stages, maps, strict=True):
        begin, end = end, end + stage.counts.size
        found.append(
            RowStage(
                codes=coarser.decode(stage.keys),
                mass=stage.counts * weights[begin:end],
                labels=code_tables(counted, coarser),
                sizes=coarser.sizes,
            )
        )
    return found


def fitted_cells(
    counted: GeneralizationMap,
    margins: Sequence[Margin],
    noisy: Sequence[Cells],
    *,
    error: float,
    rows: Callable[[], Sequence[RowStage]],
) -> list[Amounts]:
    """Return each margin's cells by the model of margins, pairs and rows that releases which choose pairs have too.

    It is a function of what is published: of noisy counts, rows and weights.

    Args:
        counted: the map of the margins.
        margins: their columns: each column by itself and then pairs, or the total.
        noisy: each margin's cells.
        error: the standard error of each cell.
        rows: returns the stages of the rows; asked for where there are pairs, since there may be millions of groups.
    """
    if tuple(margins) == (TOTAL,):
        return [np.array([records_in(noisy)])]
    columns = len(counted.columns)
    model = PairModel.of_margins(noisy[:columns])
    fitted = list(model.margins)
    if len(margins) == columns:
        return fitted
    labels, stages = code_tables(counted, counted), rows()
    pairs = [
        ((first, second), cells.astype(np.float64).reshape(counted.sizes[first], counted.sizes[second]))
        for (first, second), cells in zip(margins[columns:], noisy[columns:], strict=True)
    ]
    own = [(labels[first], labels[second]) for (first, second), _ in pairs]
    for (pair, cells), places in zip(pairs, own, strict=True):
        model = model.with_counts(pair, cells, labels=places, deviation=error)
    for (pair, cells), places in zip(pairs, own, strict=True):
        prior = pair_by_rows(pair, model.tables[pair], stages=stages, margins=model.margins)
        last = model.with_counts(pair, cells, labels=places, deviation=error, prior=prior)
        fitted.append(last.tables[pair].reshape(-1))
    return fitted


def margin_table(
    finest: GeneralizationMap,
    margins: Sequence[Margin],
    noisy: Sequence[Cells],
    *,
    error: float,
    fitted: Sequence[Amounts],
) -> PublishedTable:
    """Return a row for each cell: its column and label, those of a pair's second column, and the figures of the cell.

    These are the noisy count, its standard error, and the count that the model gives. The total has no column.
    """
    from ..tasks.stages.table import PublishedTable, figure_column

    columns = cell_columns([(finest, margin) for margin in margins], missing=None)
    counts = np.concatenate(noisy)
    figures = (
        figure_column("count", counts),
        figure_column("standard_error", np.full(counts.size, error)),
        figure_column("fitted", np.concatenate(fitted).round(3)),
    )
    return PublishedTable(columns=(*columns, *figures), times=None)


def cell_columns(
    counted: Iterable[tuple[GeneralizationMap, Margin]], *, missing: str | None
) -> tuple[TableColumn, ...]:
    """Return four columns of texts, a row for each cell: the first column and its label, the second and its label.

    Args:
        counted: what is counted, one after the other: by the labels of a map, one or two of its columns or none.
        missing: what stands where there is no such column.
    """
    from ..tasks.stages.table import text_column

    names = ("column", "label", "second_column", "second_label")
    texts: tuple[list[str | None], ...] = ([], [], [], [])
    for one, margin in counted:
        own = [one.columns[place] for place in margin]
        labels = [column.hierarchy.labels(np.arange(column.size, dtype=np.int64), column.level) for column in own]
        for cell in product(*labels):
            named = [text for pair in zip((column.name for column in own), cell, strict=True) for text in pair]
            for column_texts, text in zip(texts, (*named, *[missing] * (4 - len(named))), strict=True):
                column_texts.append(text)
    return tuple(text_column(name, values) for name, values in zip(names, texts, strict=True))


def margin_error(mechanism: WithMargins) -> float:
    """Return the standard error of each cell of a margin, in records."""
    error: float = float(deletion_variance(mechanism.margin_noise)) ** 0.5
    return error


def margin_facts(
    finest: GeneralizationMap,
    margins: Sequence[Margin],
    mechanism: WithMargins,
    *,
    alone: tuple[Price | None, Price | None],
) -> dict[str, Any]:
    """Return which margins there are, how exact they are, and what each part of the release would cost alone.

    Args:
        finest: the map by whose labels is counted.
        margins: their columns.
        mechanism: the release.
        alone: the prices of the rows and of the margins, each at the δ of the whole; together they cost less.
    """
    rows, beside = alone
    return {
        "columns": margin_names(finest, margins),
        "cells": sum(margin_sizes(finest, margins)),
        "standard_error": margin_error(mechanism),
        "epsilon_alone": epsilon_alone(beside),
        "rows_epsilon_alone": epsilon_alone(rows),
    }


def deletion_margin_facts(
    finest: GeneralizationMap, margins: Sequence[Margin], mechanism: CalibratedDeletion, charged: Price
) -> dict[str, Any]:
    """Return `margin_facts` of a deletion release, at the δ, the releases and the records of its price."""
    alone = price_parts(mechanism, delta=charged.delta, releases=charged.releases, records=charged.rows_per_person)
    return margin_facts(finest, margins, mechanism, alone=alone)


def epsilon_alone(price: Price | None) -> float | None:
    """Return the ε that a part of a release would cost alone; None where it has no price."""
    return None if price is None else float(price.epsilon)
