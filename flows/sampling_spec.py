"""The [sampling] table of a specification: one rate, a column of rates, or the design of a sample that was drawn."""

from __future__ import annotations

from pathlib import Path

from ..accounting.theory.group_privacy import no_price_for_surveyed_group
from ..mechanisms.biased_sampling import BiasedSampleCounts, UnequalRatesHistogram, require_rates
from ..mechanisms.event import BiasedCounts
from ..mechanisms.inclusion import InclusionColumn, drawn_rates, stated_rates
from ..mechanisms.refusal import InputRefused
from .spec_tables import SpecTables

__all__ = ["biased_counts", "check_sampling", "inclusion_column"]


def check_sampling(path: Path, spec: SpecTables, *, unequal_rates: bool) -> None:
    """Whether [sampling] says one thing, and a thing that this kind of release has a price for.

    Args:
        path: the specification's file, for messages.
        spec: its tables.
        unequal_rates: whether the release has a price where records are included at unequal rates.

    Raises:
        InputRefused: it doesn't, with file and key.
    """
    table = spec.sampling
    if table is None:
        return
    where = f"{path}: [sampling]"
    if (table.column is None) is not (table.rates is None):
        missing = "rates" if table.rates is None else "column"
        raise InputRefused(
            "a column of rates goes with the rates that are drawn with, and these with it.",
            where=f"{where}.{missing}",
            remedy='Write column = "NAME" and rates = [LOWEST, …, HIGHEST].',
        )
    ways = [name for name in ("rate", "column", "design") if getattr(table, name) is not None]
    if not ways:
        raise InputRefused("this is required and missing.", where=f"{where}.rate")
    if len(ways) > 1:
        raise InputRefused(f"{' and '.join(ways)} exclude each other.", where=f"{where}.{ways[1]}")
    if table.rate is None and not unequal_rates:
        raise InputRefused(
            'unequal rates have a price for a histogram of kind = "suppressed" only.',
            where=f"{where}.{ways[0]}",
            remedy="Write rate = …: a fresh sample with one rate for all, which a sample that was drawn by others can "
            "have too.",
        )
    if table.design is not None and spec.data.rows_per_person > 1:
        raise no_price_for_surveyed_group(spec.data.rows_per_person, where=f"{path}: [data].rows_per_person")
    if table.rates is not None:
        try:
            require_rates(table.rates)
            drawn_rates("", table.rates)
        except ValueError as error:
            raise InputRefused(f"{error}.", where=f"{where}.rates") from None


def biased_counts(spec: SpecTables, *, k: int) -> BiasedCounts | None:
    """The mechanism of a suppressed histogram with unequal rates; None where all have one rate, or none.

    Args:
        spec: a specification's tables, checked.
        k: threshold.

    Raises:
        ValueError: rates that don't go together.
    """
    table = spec.sampling
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


def inclusion_column(path: Path, spec: SpecTables) -> InclusionColumn | None:
    """The column of inclusion rates, None where there is none.

    Args:
        path: the specification's file, for messages.
        spec: its tables, checked.

    Raises:
        InputRefused: it is a column of the cells too, or its bounds are none.
    """
    table = spec.sampling
    if table is None:
        return None
    where = f"{path}: [sampling].column"
    found = None
    if table.column is not None and table.rates is not None:
        found = drawn_rates(table.column, table.rates)
    elif table.design is not None and table.design.column is not None:
        where = f"{path}: [sampling].design.column"
        try:
            found = stated_rates(table.design.column, lowest=table.design.lowest, highest=table.design.highest)
        except ValueError as error:
            raise InputRefused(f"{error}.", where=where) from None
    if found is not None and found.column.name in spec.columns:
        raise InputRefused(
            "a column is of the cells or says the rate, not both.",
            where=where,
            remedy="Copy the column under another name.",
        )
    return found
