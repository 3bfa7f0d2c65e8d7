"""[margins] beside a sampled release: what is refused, the plan of its noise, and its publication."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...accounting.kernel.prices.mechanism_kind import Price
from ...accounting.theory.planning.calibrated_sample_planning import plan_calibrated_sample, price_sample_parts
from ...accounting.theory.planning.deletion_planning import MARGIN_SHARE
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.kernel.errors import InputRefused
from ...mechanisms.kernel.group_counts import GroupCounts
from ...mechanisms.kinds.calibrated_sample import CalibratedSample
from ...mechanisms.kinds.margins import Margin
from ..columns import declared_map
from ..margin_specs import (
    MARGINS,
    declared_margins,
    fitted_cells,
    margin_error,
    margin_facts,
    margin_table,
    raked_weights,
    row_stages,
)
from ..spec_tables import MarginsTable
from .release_kind import GivenSpec

if TYPE_CHECKING:
    from ...tasks.request import FileFormat
    from ...tasks.stages.table import Publication

FIGURES = ("weight", "count")


def planned_sample(
    given: GivenSpec, table: MarginsTable
) -> tuple[CalibratedSample, Price, GeneralizationMap, tuple[Margin, ...]]:
    """Return the mechanism of a sampled release with [margins], its price, its map and the columns of its margins.

    Raises:
        InputRefused: what does not go with margins beside a sample; or the release costs more than is asked for.
    """
    _check_tables(given, table)
    path, spec, rate = given.path, given.tables, given.sampling_rate
    recoding = declared_map(path, given.columns, base=given.base, refused=FIGURES)
    margins = declared_margins(path, table, recoding)
    if rate is None:
        raise InputRefused("this is required and missing.", where=f"{path}: [sampling].rate")
    try:
        mechanism, charged = plan_calibrated_sample(
            epsilon=given.epsilon,
            delta=given.privacy.delta,
            sampling_rate=rate,
            k=None if spec.suppression is None else spec.suppression.k,
            margins=len(margins),
            share=MARGIN_SHARE if table.share is None else table.share,
            releases=given.releases,
        )
    except InputRefused as refusal:
        where = refusal.where or f"{path}: [privacy].epsilon"
        raise InputRefused(refusal.what, where=where, remedy=refusal.remedy) from None
    given.require_affordable(
        charged,
        costs=f"k = {mechanism.k} and rate = {mechanism.sampling_rate} with these margins cost",
        remedy="Raise k, lower the rate or the margins' share, or leave k out: it follows from ε and δ.",
    )
    return mechanism, charged, recoding, margins


def _check_tables(given: GivenSpec, table: MarginsTable) -> None:
    """Check that the map, the rate and the margins are such that margins beside a sample have a price."""
    path, sampling = given.path, given.tables.sampling
    if given.tables.selection is not None:
        raise InputRefused(
            "margins are counted by levels that are known beforehand, and [selection] draws them.",
            where=f"{path}: [margins]",
            remedy="Remove one of them.",
        )
    if table.pairs == "auto":
        raise InputRefused(
            "pairs are chosen beside a deletion release alone.",
            where=f"{path}: [margins].pairs",
            remedy="Name the pairs, or replace [sampling] by [deletion].",
        )
    if sampling is not None and sampling.rate is None:
        raise InputRefused(
            "margins have a price beside a sample with one rate for all records.",
            where=f"{path}: [sampling].column",
            remedy="Write rate = …, or remove [margins].",
        )
    if given.tables.data.rows_per_person > 1:
        raise InputRefused(
            "margins beside a sample have a price where a person has one record.",
            where=f"{path}: [data].rows_per_person",
            remedy="Name the column of the person, so that one record of each counts, or replace [sampling] by "
            "[deletion].",
        )


def sample_publication(
    mechanism: CalibratedSample,
    charged: Price,
    *,
    recoding: GeneralizationMap,
    margins: tuple[Margin, ...],
    rows: GroupCounts,
    noisy: list[np.ndarray[Any, np.dtype[np.int64]]],
    form: Literal["microdata", "counts"],
    file_format: FileFormat,
) -> Publication:
    """Return the rows with their weights, 1/β raked to the margins, and the margins in a table of their own.

    Args:
        mechanism: the release.
        charged: its price.
        recoding: the map of rows and margins.
        margins: their columns.
        rows: the published groups with their sampled records.
        noisy: the cells of each margin.
        form: of the table.
        file_format: of both tables.
    """
    from ...tasks.stages.table import Publication, count_table, figure_column

    first = np.full(rows.counts.shape, 1.0 / float(mechanism.sampling_rate))
    raked = raked_weights(first, [rows], maps=(recoding,), margins=margins, noisy=noisy)
    table = count_table(rows.keys, rows.counts, generalization=recoding, form=form)
    labels, counts = table.columns[: len(recoding.columns)], table.columns[len(recoding.columns) :]
    facts = planned_margins(mechanism, charged, recoding=recoding, margins=margins)
    error = margin_error(mechanism)
    fitted = fitted_cells(
        recoding,
        margins,
        noisy,
        error=error,
        rows=partial(row_stages, raked.weights, [rows], maps=(recoding,), counted=recoding),
    )
    return Publication(
        table=replace(table, columns=(*labels, figure_column("weight", raked.weights), *counts)),
        beside={MARGINS: margin_table(recoding, margins, noisy, error=error, fitted=fitted)},
        file_format=file_format,
        groups=rows.counts.size,
        records=int(rows.counts.sum()),
        form=form,
        details={MARGINS: facts | {"records": raked.total, "largest_difference": raked.largest_difference}},
    )


def planned_margins(
    mechanism: CalibratedSample, charged: Price, *, recoding: GeneralizationMap, margins: tuple[Margin, ...]
) -> dict[str, Any]:
    """Return which margins there are, how exact they are, and what rows and margins would cost alone."""
    alone = price_sample_parts(mechanism, delta=charged.delta, releases=charged.releases)
    return margin_facts(recoding, margins, mechanism, alone=alone)
