"""Releases of histograms: the count of every cell of a declared partition, suppressed or with noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, assert_never

import numpy as np
from pydantic import Field

from ...accounting.kernel.prices.mechanism_kind import no_price_for_surveyed_group
from ...mechanisms.generalization_map import GeneralizationMap
from ...mechanisms.inclusion import InclusionColumn, stated_rates
from ...mechanisms.kernel.errors import InputRefused, ReleaseFailed
from ...mechanisms.kinds.biased_sampling import (
    BiasedSampleCounts,
    SurveyProtection,
    UnequalRatesHistogram,
    UnequalRatesProtection,
)
from ...mechanisms.kinds.histogram import (
    HistogramProtection,
    NoisyHistogram,
    OutlierPrivateHistogram,
    SuppressedHistogram,
)
from ...mechanisms.map_selection.choice import Levels
from ...tasks.request import Request
from ..columns import declared_map, require_cells
from ..spec_tables import Exact, SpecTable
from .release_kind import (
    K_MEANS,
    NOISE_MEANS,
    RATE_MEANS,
    WITHOUT_DOCUMENTS,
    GivenSpec,
    NoDocument,
    ReleaseKind,
    Suppressing,
    TableReading,
    count_records,
    record_layout,
)

if TYPE_CHECKING:
    from ...tasks.stages.table import Publication

Histogram = SuppressedHistogram | NoisyHistogram | OutlierPrivateHistogram | BiasedSampleCounts | UnequalRatesHistogram
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "suppressed": ("k",),
    "noisy": ("k", "epsilon"),
    "outlier-private": ("epsilon", "horizon", "margin"),
}


class HistogramTable(SpecTable):
    """[histogram]: the counts of every declared cell, instead of the records."""

    kind: str
    noise: str = "two-sided-geometric"
    k: int | None = Field(default=None, ge=1, le=10**9)
    epsilon: Exact | None = Field(default=None, gt=0, le=100)
    horizon: int | None = Field(default=None, ge=2, le=10**6)
    margin: int | None = Field(default=None, ge=1, le=10**6)


@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramRequest(Request):
    """One histogram over all cells of a declared partition, from the specification alone.

    Args:
        partition: every combination of its columns' labels is a cell, the bucket among them.
        inclusion: the column that says with what rate each record is included, which is read after those of the
            partition; None where there is none.
    """

    kind: ClassVar[str] = "histogram"
    domain: ClassVar[bytes] = b"crowdblend histogram 1\n"

    mechanism: Histogram
    recoding: GeneralizationMap
    partition: GeneralizationMap
    inclusion: InclusionColumn | None

    @property
    def own_terms(self) -> Mapping[str, object]:
        """Nothing beside mechanism and map."""
        return {}


def _request(given: GivenSpec) -> HistogramRequest:
    _check_unequal_rates(given)
    shared, columns = given.shared, given.columns
    mechanism = _mechanism(given)
    partition = declared_map(given.path, columns, base=given.base)
    require_cells(given.path, partition)
    inclusion = _inclusion_column(given)
    charged = given.priced(mechanism)
    read = partition.columns if inclusion is None else (*partition.columns, inclusion.column)
    return HistogramRequest(
        **shared,
        price=charged,
        mechanism=mechanism,
        recoding=GeneralizationMap(columns=read),
        partition=partition,
        inclusion=inclusion,
    )


def _mechanism(given: GivenSpec) -> Histogram:
    table: HistogramTable = given.own
    where = f"{given.path}: [histogram]"
    given.require_kind(PARAMETERS)
    given.require_parameters(PARAMETERS[table.kind], of=("k", "epsilon", "horizon", "margin"))
    rate, k, epsilon = given.sampling_rate, table.k or 0, table.epsilon or Decimal(0)
    try:
        if (biased := _biased_counts(given, k=k)) is not None:
            return biased
        if table.kind == "outlier-private":
            if rate is not None:
                raise InputRefused(
                    "an outlier-private histogram counts every record, and no price on a sample is proved for it here.",
                    where=f"{given.path}: [sampling]",
                    remedy="Remove the table.",
                )
            return OutlierPrivateHistogram(epsilon=epsilon, horizon=table.horizon or 0, margin=table.margin or 0)
        if rate is None:
            raise InputRefused(
                f"a {table.kind} histogram of all records is crowd-blending, but not differentially private: the count "
                "of a group of k and more is published exactly, so that whoever knows all its members but one learns "
                "whether that one is there. It has no price that a budget could take "
                "(docs/mechanisms/histograms.md).",
                where=f"{given.path}: [sampling].rate",
                remedy='Give a sampling rate, or write kind = "outlier-private".',
            )
        if table.kind == "suppressed":
            return SuppressedHistogram(k=k, sampling_rate=rate)
        return NoisyHistogram(k=k, epsilon=epsilon, sampling_rate=rate)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=where) from None


def _check_unequal_rates(given: GivenSpec) -> None:
    """Check that rates or a design have a price for these records, and rates can be drawn with."""
    table, rows = given.tables.sampling, given.tables.data.rows_per_person
    if table is None:
        return
    if table.design is not None and rows > 1:
        raise no_price_for_surveyed_group(rows, where=f"{given.path}: [data].rows_per_person")
    given.drawn_rates()


def _biased_counts(given: GivenSpec, *, k: int) -> BiasedSampleCounts | UnequalRatesHistogram | None:
    """Return the mechanism of a suppressed histogram with unequal rates; None where all have one rate, or none.

    Raises:
        ValueError: rates that don't go together.
    """
    table = given.tables.sampling
    if table is None or table.rate is not None:
        return None
    if table.rates is not None:
        return UnequalRatesHistogram(k=k, sampling_rate=table.rates[-1], lowest_rate=table.rates[0])
    if table.design is None:
        return None
    design = table.design
    return BiasedSampleCounts(
        k=k,
        lowest_rate=design.lowest,
        highest_rate=design.highest,
        largest_rate=design.highest if design.largest is None else design.largest,
        exceptions=design.exceptions,
    )


def _inclusion_column(given: GivenSpec) -> InclusionColumn | None:
    """Return the column of inclusion rates, None where there is none; it isn't a column of the cells too."""
    table = given.tables.sampling
    if table is None or table.design is None or table.design.column is None:
        return given.drawn_rates()
    try:
        found = stated_rates(table.design.column, lowest=table.design.lowest, highest=table.design.highest)
    except ValueError as error:
        raise InputRefused(f"{error}.", where=f"{given.path}: [sampling].design.column") from None
    given.require_apart(found, key="design.column")
    return found


def _protection(
    request: HistogramRequest, levels: Levels | None
) -> HistogramProtection | SurveyProtection | UnequalRatesProtection:
    """Return the protection, which reads the column of rates after those of the partition.

    Raises:
        ReleaseFailed: rates that the mechanism has no use for.
    """
    del levels
    mechanism, inclusion, layout = request.mechanism, request.inclusion, request.recoding.layout
    match mechanism:
        case BiasedSampleCounts():
            counted = None if inclusion is None else inclusion.counted_codes
            return SurveyProtection(mechanism=mechanism, layout=layout, counted=counted)
        case UnequalRatesHistogram():
            rates = () if inclusion is None else inclusion.rates_of_codes
            return UnequalRatesProtection(mechanism=mechanism, layout=layout, rates=rates)
        case SuppressedHistogram() | NoisyHistogram() | OutlierPrivateHistogram():
            if inclusion is not None:
                raise ReleaseFailed("inclusion rates were named for a mechanism that has none.")
            return HistogramProtection(mechanism=mechanism, layout=layout)
        case _:
            assert_never(mechanism)


def _publication(request: HistogramRequest, _: GeneralizationMap, counts: tuple[int, ...]) -> Publication:
    from ...tasks.stages.table import Publication, count_table

    published, cells = np.array(counts, dtype=np.int64), np.arange(len(counts)).reshape(1, -1)
    return Publication(
        table=count_table(cells, published, generalization=request.partition, form="counts"),
        file_format=request.file_format,
        groups=len(counts),
        records=int(published.sum()),
        form="histogram",
        details={},
    )


def _explained(request: HistogramRequest) -> dict[str, Any]:
    return {"maps": 1, "selection": None, "cells": request.partition.cells}


def _table_reading(mechanism: Histogram, form: str) -> TableReading | NoDocument:
    del form
    match mechanism:
        case SuppressedHistogram(k=k, sampling_rate=rate):
            return TableReading(shape="histogram", rate=rate, k=k, suppresses=True, noise=None)
        case NoisyHistogram(k=k, sampling_rate=rate, epsilon=epsilon):
            return TableReading(shape="histogram", rate=rate, k=k, suppresses=False, noise=epsilon)
        case OutlierPrivateHistogram(epsilon=epsilon):
            return TableReading(shape="histogram", rate=None, k=None, suppresses=False, noise=epsilon)
        case BiasedSampleCounts() | UnequalRatesHistogram():
            return WITHOUT_DOCUMENTS
        case _:
            assert_never(mechanism)


def _predicted(mechanism: Histogram) -> Suppressing | NoDocument | None:
    match mechanism:
        case SuppressedHistogram():
            return mechanism
        case NoisyHistogram() | OutlierPrivateHistogram():
            return None
        case BiasedSampleCounts() | UnequalRatesHistogram():
            return WITHOUT_DOCUMENTS
        case _:
            assert_never(mechanism)


KIND = ReleaseKind(
    name=HistogramRequest.kind,
    model=HistogramTable,
    allows=frozenset({"sampling", "privacy", "unit", "columns"}),
    mechanisms=(
        SuppressedHistogram,
        NoisyHistogram,
        OutlierPrivateHistogram,
        BiasedSampleCounts,
        UnequalRatesHistogram,
    ),
    series=False,
    forms=False,
    limits=True,
    unequal_rates=lambda table: frozenset({"column", "design"}) if table.kind == "suppressed" else frozenset(),
    request=_request,
    layout=record_layout,
    count=count_records,
    protection=_protection,
    finish=_publication,
    explain=_explained,
    meanings={
        "k": K_MEANS,
        "epsilon": NOISE_MEANS,
        "horizon": "K: below K − t the noise grows as a count falls",
        "margin": "t: counts of at least K − t have the least noise",
        "sampling_rate": RATE_MEANS,
        "lowest_rate": "p: the least probability with which a record is included",
        "highest_rate": "p′: the greatest, but for the exceptions",
        "largest_rate": "p_max: the greatest of all",
        "exceptions": "ℓ: how many records of a group may have been included with other probabilities",
    },
    sheet=_table_reading,
    preview=_predicted,
    figures=frozenset({"count"}),
)
